//! The subjects of the bus, in one place.
//!
//! | subject | what |
//! |---|---|
//! | `sayso.work.<namespace>.<run>` | a run has work owed |
//! | `sayso.events.v1.<namespace>.<agent>.<step type>` | a step was recorded |
//! | `sayso.events.v1.<namespace>.<agent>.approval_requested` and so on | an approval changed |
//! | `sayso.live.<run>` | provisional text of an answer |
//! | `sayso.control.<run>` | a hint to look at the run now |
//!
//! Every part is a typed id whose characters cannot be a dot, a blank or a wildcard, so no name can
//! reach a subject that is not its own (S6.11). Run ids are not part of event subjects: a stream
//! keeps an index over its subjects in memory.

use sayso_run::{AgentName, Namespace, RunId, StepKind};

use crate::events::ApprovalChange;

const WORK: &str = "sayso.work";
const EVENTS: &str = "sayso.events.v1";
const LIVE: &str = "sayso.live";
const CONTROL: &str = "sayso.control";

/// Every event of the installation: a filter.
pub const ALL_EVENTS: &str = "sayso.events.v1.>";
/// All provisional text: a filter.
pub const ALL_LIVE: &str = "sayso.live.*";
/// All hints: a filter.
pub const ALL_CONTROL: &str = "sayso.control.*";

/// Where a run's wake-up waits.
pub fn work(namespace: &Namespace, run: &RunId) -> String {
    join(&[WORK, namespace.as_str(), run.as_str()])
}

/// Where a step's event goes.
pub fn step(namespace: &Namespace, agent: &AgentName, kind: StepKind) -> String {
    join(&[EVENTS, namespace.as_str(), agent.as_str(), kind.as_str()])
}

/// Where the event of an approval's change goes.
pub fn approval(namespace: &Namespace, agent: &AgentName, change: ApprovalChange) -> String {
    let token = match change {
        ApprovalChange::Requested => "approval_requested",
        ApprovalChange::Decided => "approval_decided",
        ApprovalChange::Closed => "approval_closed",
        ApprovalChange::Escalated => "approval_escalated",
        ApprovalChange::Updated => "approval_updated",
    };
    join(&[EVENTS, namespace.as_str(), agent.as_str(), token])
}

/// Where the provisional text of a run goes.
pub fn live(run: &RunId) -> String {
    join(&[LIVE, run.as_str()])
}

/// Where hints to whoever drives a run go.
pub fn control(run: &RunId) -> String {
    join(&[CONTROL, run.as_str()])
}

/// All events of a namespace: a filter.
pub fn events_of_namespace(namespace: &Namespace) -> String {
    join(&[EVENTS, namespace.as_str(), ">"])
}

/// All events of an agent: a filter.
pub fn events_of_agent(namespace: &Namespace, agent: &AgentName) -> String {
    join(&[EVENTS, namespace.as_str(), agent.as_str(), "*"])
}

/// The run that a live or control subject is about.
pub fn run_of(subject: &str) -> Option<RunId> {
    let (root, run) = subject.rsplit_once('.')?;
    (root == LIVE || root == CONTROL).then(|| RunId::new(run).ok())?
}

/// An event's subject taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSubject<'a> {
    /// The tenant.
    pub namespace: Namespace,
    /// The agent.
    pub agent: AgentName,
    /// The type of the step, or `approval_requested` and so on. The set is open.
    pub kind: &'a str,
}

/// Takes an event's subject apart.
pub fn event(subject: &str) -> Option<EventSubject<'_>> {
    let mut tokens = subject.strip_prefix(EVENTS)?.strip_prefix('.')?.split('.');
    let namespace = Namespace::new(tokens.next()?).ok()?;
    let agent = AgentName::new(tokens.next()?).ok()?;
    let kind = tokens.next()?;
    (tokens.next().is_none() && !kind.is_empty()).then_some(EventSubject {
        namespace,
        agent,
        kind,
    })
}

fn join(parts: &[&str]) -> String {
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace() -> Namespace {
        Namespace::new("shop").unwrap()
    }

    fn agent() -> AgentName {
        AgentName::new("support-desk").unwrap()
    }

    #[test]
    fn subjects_are_as_documented_and_read_back() {
        let run = RunId::new("run_0190-a").unwrap();
        assert_eq!(work(&namespace(), &run), "sayso.work.shop.run_0190-a");
        assert_eq!(live(&run), "sayso.live.run_0190-a");
        assert_eq!(run_of(&live(&run)), Some(run.clone()));
        assert_eq!(run_of(&control(&run)), Some(run.clone()));
        assert_eq!(run_of("sayso.work.run_1"), None);
        for kind in StepKind::ALL {
            let subject = step(&namespace(), &agent(), *kind);
            let read = event(&subject).unwrap();
            assert_eq!((read.namespace, read.agent), (namespace(), agent()));
            assert_eq!(read.kind, kind.as_str());
        }
        assert_eq!(
            approval(&namespace(), &agent(), ApprovalChange::Requested),
            "sayso.events.v1.shop.support-desk.approval_requested"
        );
        for bad in [
            "sayso.events.v1.shop",
            "sayso.events.v1.shop.a.b.c",
            "sayso.events.v1.a.b.",
        ] {
            assert_eq!(event(bad), None, "{bad}");
        }
    }

    /// S6.11: whatever text a name is made of, it is refused, or it stays one token of its own.
    #[test]
    fn no_name_can_leave_its_place_in_a_subject() {
        let run = RunId::new("run_1").unwrap();
        for unit in (0..=0x2ff_u32).chain([0x2024, 0xff0e, 0x202e, 0x1f600]) {
            let Some(odd) = char::from_u32(unit) else {
                continue;
            };
            for text in [
                format!("{odd}"),
                format!("a{odd}b"),
                format!("run_{odd}"),
                format!("a{odd}"),
            ] {
                let mut made = Vec::new();
                if let Ok(namespace) = Namespace::new(&text) {
                    made.push((work(&namespace, &run), 4));
                    made.push((step(&namespace, &agent(), StepKind::ToolCall), 6));
                }
                if let Ok(agent) = AgentName::new(&text) {
                    made.push((step(&namespace(), &agent, StepKind::ToolCall), 6));
                    made.push((approval(&namespace(), &agent, ApprovalChange::Closed), 6));
                }
                if let Ok(run) = RunId::new(&text) {
                    made.push((work(&namespace(), &run), 4));
                    made.push((live(&run), 3));
                    made.push((control(&run), 3));
                }
                for (subject, tokens) in made {
                    assert_eq!(subject.split('.').count(), tokens, "{subject}");
                    assert!(!subject.contains(['*', '>', ' ']), "{subject}");
                    assert!(
                        subject.bytes().all(|byte| byte.is_ascii_graphic()),
                        "{subject}"
                    );
                }
            }
        }
        for kind in StepKind::ALL {
            assert!(
                kind.as_str()
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b == b'_')
            );
        }
    }
}
