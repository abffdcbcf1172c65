//! How far a run is trusted, and what lowers that (S5.7, S5.8).
//!
//! Trust is set once, by what started the run, and from then on only ever lowered. A run that has
//! read what outsiders wrote may be acting on their words and not on its principal's: from that
//! call on it is untrusted, and so is everything that it starts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How far a run is trusted (S5.7), from the lowest.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Default,
)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Outsiders may have had a say.
    Untrusted,
    /// A principal's own task.
    #[default]
    Trusted,
    /// The task of somebody who runs the installation.
    Operator,
}

impl Trust {
    /// All levels, from the lowest.
    pub const ALL: [Self; 3] = [Self::Untrusted, Self::Trusted, Self::Operator];

    /// The word that bundles and interfaces use.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::Trusted => "trusted",
            Self::Operator => "operator",
        }
    }

    /// The trust after something of that trust was taken in: never higher than before.
    #[must_use]
    pub fn lowered_to(self, other: Self) -> Self {
        self.min(other)
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What started a run, as far as its trust goes (S5.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A principal with a token that carries this trust.
    Token(Trust),
    /// A webhook trigger, with the trust that its bundle gives it.
    Webhook(Option<Trust>),
    /// A cron schedule.
    Cron,
    /// Mail from outside.
    InboundMail,
    /// Another run that had this trust at that moment.
    Parent(Trust),
}

impl Source {
    /// The trust that a run begins with.
    #[must_use]
    pub fn trust(self) -> Trust {
        match self {
            Self::Token(trust) | Self::Parent(trust) => trust,
            Self::Webhook(given) => given.unwrap_or(Trust::Untrusted),
            Self::Cron => Trust::Trusted,
            Self::InboundMail => Trust::Untrusted,
        }
    }

    /// Whether the task's text is a principal's own words, which vouch for values (S5.9). A
    /// schedule's input was written by whoever set it up; a webhook's body, mail from outside and
    /// what a parent agent wrote were not written by a principal.
    #[must_use]
    pub fn speaks_for_a_principal(self) -> bool {
        match self {
            Self::Token(_) | Self::Cron => true,
            Self::Webhook(_) | Self::InboundMail | Self::Parent(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_7_each_source_sets_its_trust() {
        for (source, trust) in [
            (Source::Token(Trust::Operator), Trust::Operator),
            (Source::Token(Trust::default()), Trust::Trusted),
            (Source::Webhook(None), Trust::Untrusted),
            (Source::Webhook(Some(Trust::Trusted)), Trust::Trusted),
            (Source::Cron, Trust::Trusted),
            (Source::InboundMail, Trust::Untrusted),
            (Source::Parent(Trust::Untrusted), Trust::Untrusted),
        ] {
            assert_eq!(source.trust(), trust, "{source:?}");
        }
    }

    #[test]
    fn s5_7_b39_trust_is_only_ever_lowered() {
        for from in Trust::ALL {
            for to in Trust::ALL {
                assert!(from.lowered_to(to) <= from);
                assert!(from.lowered_to(to) <= to);
            }
        }
    }
}
