//! Where the gateway stands for strangers, and which agent stands for it.

use sayso_run::{AgentName, Namespace};

use super::section::{Given, Setting};
use super::values::Origin;

/// A public URL without a path: `https://agents.example.org`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicUrl(String);

impl PublicUrl {
    /// The URL, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for PublicUrl {
    fn parse(given: &Given<'_>) -> Result<PublicUrl, String> {
        const WANTED: &str = "a URL without a path such as https://agents.example.org";
        let text = given.text(WANTED)?.trim().trim_end_matches('/');
        match Origin::parse(text) {
            Ok(url) if url.as_str() != "*" => Ok(PublicUrl(text.to_owned())),
            Ok(_) | Err(_) => Err(format!("must be {WANTED}, found {text:?}")),
        }
    }

    fn placeholder() -> PublicUrl {
        PublicUrl(String::new())
    }
}

/// An agent by its namespace and name: `default/desk`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPlace {
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
}

impl Setting for AgentPlace {
    fn parse(given: &Given<'_>) -> Result<AgentPlace, String> {
        const WANTED: &str = "namespace/agent such as default/desk";
        let text = given.text(WANTED)?.trim();
        let wrong = || format!("must be {WANTED}, found {text:?}");
        let (namespace, agent) = text.split_once('/').ok_or_else(wrong)?;
        Ok(AgentPlace {
            namespace: Namespace::new(namespace).map_err(|_| wrong())?,
            agent: AgentName::new(agent).map_err(|_| wrong())?,
        })
    }

    fn placeholder() -> AgentPlace {
        AgentPlace {
            namespace: Namespace::new("x").expect("a letter is a name"),
            agent: AgentName::new("x").expect("a letter is a name"),
        }
    }
}
