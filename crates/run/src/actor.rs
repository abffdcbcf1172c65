use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::id::{AgentName, PrincipalId};

/// Who made a step happen (S2.3). Written `principal:alice`, `agent:support-desk`, `system`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Actor {
    /// A person or another system, by its principal.
    Principal(PrincipalId),
    /// The agent itself: what its model said and asked for.
    Agent(AgentName),
    /// sayso.
    System,
}

/// Text that names no actor.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is not an actor: expected principal:NAME, agent:NAME or system")]
pub struct UnknownActor(String);

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::Principal(id) => write!(f, "principal:{id}"),
            Actor::Agent(name) => write!(f, "agent:{name}"),
            Actor::System => f.write_str("system"),
        }
    }
}

impl FromStr for Actor {
    type Err = UnknownActor;
    fn from_str(text: &str) -> Result<Self, UnknownActor> {
        let unknown = || UnknownActor(text.to_owned());
        match text.split_once(':') {
            Some(("principal", id)) => PrincipalId::new(id)
                .map(Actor::Principal)
                .map_err(|_| unknown()),
            Some(("agent", name)) => AgentName::new(name)
                .map(Actor::Agent)
                .map_err(|_| unknown()),
            None if text == "system" => Ok(Actor::System),
            _ => Err(unknown()),
        }
    }
}

impl TryFrom<String> for Actor {
    type Error = UnknownActor;
    fn try_from(text: String) -> Result<Self, UnknownActor> {
        text.parse()
    }
}

impl From<Actor> for String {
    fn from(actor: Actor) -> String {
        actor.to_string()
    }
}
