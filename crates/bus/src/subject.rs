//! Subjects: dot-separated tokens, and filters over them.

use crate::{BusError, WorkKey};

/// Root of wake-ups: `sayso.work.<namespace>.<run>`.
pub const WORK: &str = "sayso.work";
/// Root of events: `sayso.events.v1.<namespace>.<agent>.<type>`.
pub const EVENTS: &str = "sayso.events.v1";
/// Root of text deltas: `sayso.live.<run>`.
pub const LIVE: &str = "sayso.live";
/// Root of cancel hints: `sayso.control.<run>`.
pub const CONTROL: &str = "sayso.control";

const OF_LIVE: &[&str] = &[LIVE, CONTROL];

fn is_token(token: &str) -> bool {
    !token.is_empty()
        && token
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'.' | b'*' | b'>'))
}

fn below<'a>(subject: &'a str, roots: &[&str]) -> Option<&'a str> {
    roots
        .iter()
        .find_map(|root| subject.strip_prefix(root)?.strip_prefix('.'))
}

fn refuse<T>(subject: &str, reason: &'static str) -> Result<T, BusError> {
    Err(BusError::Subject {
        subject: subject.to_owned(),
        reason,
    })
}

fn check(subject: &str, roots: &[&str], reason: &'static str) -> Result<(), BusError> {
    match below(subject, roots) {
        Some(rest) if rest.split('.').all(is_token) => Ok(()),
        Some(_) => refuse(subject, "it has an empty token, a blank or a wildcard"),
        None => refuse(subject, reason),
    }
}

pub(crate) fn check_event(subject: &str) -> Result<(), BusError> {
    check(subject, &[EVENTS], "events live under sayso.events.v1")
}

pub(crate) fn check_live(subject: &str) -> Result<(), BusError> {
    let reason = "live messages live under sayso.live and sayso.control";
    check(subject, OF_LIVE, reason)
}

/// The subject of a wake-up.
pub(crate) fn of_work(key: &WorkKey) -> Result<String, BusError> {
    let subject = format!("{WORK}.{}.{}", key.namespace, key.run);
    if is_token(&key.namespace) && is_token(&key.run) {
        Ok(subject)
    } else {
        refuse(&subject, "namespace and run are one token each")
    }
}

/// The key of a wake-up's subject, if it is one.
pub(crate) fn work_key(subject: &str) -> Option<WorkKey> {
    let (namespace, run) = below(subject, &[WORK])?.split_once('.')?;
    (is_token(namespace) && is_token(run)).then(|| WorkKey::new(namespace, run))
}

/// A pattern over subjects: `*` stands for one token, `>` at the end for one or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Filter(String);

impl Filter {
    pub(crate) fn of_events(filter: &str) -> Result<Self, BusError> {
        Self::parse(filter, &[EVENTS], "events live under sayso.events.v1")
    }

    pub(crate) fn of_live(filter: &str) -> Result<Self, BusError> {
        let reason = "live messages live under sayso.live and sayso.control";
        Self::parse(filter, OF_LIVE, reason)
    }

    fn parse(filter: &str, roots: &[&str], reason: &'static str) -> Result<Self, BusError> {
        let Some(rest) = below(filter, roots) else {
            return refuse(filter, reason);
        };
        let (head, last) = rest.rsplit_once('.').unwrap_or(("*", rest));
        let well_formed = head.split('.').all(|token| token == "*" || is_token(token))
            && (last == "*" || last == ">" || is_token(last));
        if well_formed {
            Ok(Self(filter.to_owned()))
        } else {
            refuse(
                filter,
                "it has an empty token, a blank or a misplaced wildcard",
            )
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The one subject that matches, if there are no wildcards.
    pub(crate) fn exact(&self) -> Option<&str> {
        (!self.0.contains(['*', '>'])).then_some(self.0.as_str())
    }

    pub(crate) fn matches(&self, subject: &str) -> bool {
        let mut tokens = subject.split('.');
        for wanted in self.0.split('.') {
            match (wanted, tokens.next()) {
                (_, None) => return false,
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(token)) if wanted == token => {}
                (_, Some(_)) => return false,
            }
        }
        tokens.next().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(filter: &str, subject: &str, matches: bool) {
        let filter = Filter::of_events(filter).unwrap();
        assert_eq!(filter.matches(subject), matches, "{filter:?} {subject}");
    }

    #[test]
    fn filters_match_by_token() {
        check("sayso.events.v1.>", "sayso.events.v1.a.b.c", true);
        check("sayso.events.v1.>", "sayso.events.v1", false);
        check("sayso.events.v1.*.b.*", "sayso.events.v1.a.b.c", true);
        check("sayso.events.v1.*.b.*", "sayso.events.v1.a.b", false);
        check("sayso.events.v1.*.b", "sayso.events.v1.a.b.c", false);
        check("sayso.events.v1.a.b.c", "sayso.events.v1.a.b.c", true);
        check("sayso.events.v1.a.b.c", "sayso.events.v1.a.b.d", false);
        check("sayso.events.v1.a.>", "sayso.events.v1.ab.c", false);
    }

    #[test]
    fn malformed_filters_and_subjects_are_refused() {
        for filter in [
            "sayso.events.v1",
            "sayso.events.v1.",
            "sayso.events.v1.>.a",
            "sayso.events.v1.a*",
            "sayso.events.v1.a..b",
            "sayso.events.v1.a b",
            "sayso.work.>",
            ">",
        ] {
            let error = Filter::of_events(filter).unwrap_err();
            assert_eq!(error.code(), "bus.invalid_message", "{filter}");
        }
        for subject in ["sayso.events.v1.a.*", "sayso.events.v1.a.", "sayso.live.r"] {
            assert!(check_event(subject).is_err(), "{subject}");
        }
        assert!(check_live("sayso.control.run_1").is_ok());
        assert!(Filter::of_live("sayso.control.*").is_ok());
    }

    #[test]
    fn work_keys_round_trip() {
        let key = WorkKey::new("shop", "run_0190");
        let subject = of_work(&key).unwrap();
        assert_eq!(subject, "sayso.work.shop.run_0190");
        assert_eq!(work_key(&subject), Some(key));
        assert!(of_work(&WorkKey::new("a.b", "r")).is_err());
        assert!(of_work(&WorkKey::new("", "r")).is_err());
        assert_eq!(work_key("sayso.work.a.b.c"), None);
        assert_eq!(work_key("sayso.work.a"), None);
    }
}
