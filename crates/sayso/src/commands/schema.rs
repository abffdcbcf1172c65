//! `sayso schema`: what editors check files by.

use super::Context;
use crate::args::SchemaCommand;
use crate::outcome::{Exit, Failure};

pub(crate) fn run(context: &Context, command: &SchemaCommand) -> Result<Exit, Failure> {
    match command {
        SchemaCommand::Bundle => context
            .output
            .line(sayso_rules::schema::bundle().trim_end())?,
    }
    Ok(Exit::Done)
}
