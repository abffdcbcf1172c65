//! `sayso budget`: what models may cost in a month, and what they cost (S4.6).

use sayso_sdk::v1;

use super::Context;
use crate::args::BudgetCommand;
use crate::outcome::{Exit, Failure};
use crate::output::table::{Entry, Table};
use crate::output::{time, visible};

pub(crate) async fn run(context: &Context, command: BudgetCommand) -> Result<Exit, Failure> {
    let client = context.connect().await?;
    let output = &context.output;
    match command {
        BudgetCommand::Set { cap } => {
            let budget = client.set_budget(&cap.join(" ")).await?;
            if output.json {
                output.message(&budget)?;
            } else {
                output.line(standing(&budget))?;
            }
        }
        BudgetCommand::Ls => list(context, &client.get_budget().await?)?,
        BudgetCommand::Rm => {
            let removed = client.remove_budget().await?;
            if output.json {
                output.message(&removed)?;
            } else {
                let cap = visible::line(&removed.cap);
                output.line(format!("the cap of {cap} is gone; spending is not limited"))?;
            }
        }
    }
    Ok(Exit::Done)
}

fn list(context: &Context, answer: &v1::GetBudgetResponse) -> Result<(), Failure> {
    let output = &context.output;
    if output.json {
        output.message(answer)?;
        return Ok(());
    }
    output.line(match &answer.budget {
        Some(budget) => standing(budget),
        None => "no cap: spending is not limited".to_owned(),
    })?;
    let mut table = Table::new(["MONTH", "SPENT", "ANSWERS", "TOKENS IN", "TOKENS OUT"]);
    for month in &answer.months {
        table.row([
            Entry::new(&month.month),
            Entry::new(if month.spent.is_empty() {
                "without a price"
            } else {
                &month.spent
            }),
            Entry::new(month.answers.to_string()),
            Entry::new(month.input_tokens.to_string()),
            Entry::new(month.output_tokens.to_string()),
        ]);
    }
    table.print(output, "nothing was spent")?;
    Ok(())
}

fn standing(budget: &v1::Budget) -> String {
    format!(
        "{} of {} spent this month; resets {}",
        visible::line(&budget.spent),
        visible::line(&budget.cap),
        time::second(budget.resets_at.as_ref())
    )
}
