//! Provisional text on its way to those who watch (S2.4). What fails is lost: the step that settles
//! the answer has the whole text.

use std::sync::Arc;

use sayso_bus::Bus;
use sayso_run::RunId;
use sayso_wire::events::Live;
use sayso_wire::subjects;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How much is taken in at once; pieces of one answer among it go out as one message.
const BATCH: usize = 256;

/// A piece of an answer, or its withdrawal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) run: RunId,
    pub(crate) cycle: u32,
    pub(crate) text: Option<String>,
}

/// Sends what is said until `closing`.
pub(crate) async fn speak(
    bus: Arc<dyn Bus>,
    mut heard: mpsc::Receiver<Said>,
    closing: CancellationToken,
) {
    let mut taken = Vec::with_capacity(BATCH);
    loop {
        let count = tokio::select! {
            count = heard.recv_many(&mut taken, BATCH) => count,
            () = closing.cancelled() => 0,
        };
        if count == 0 {
            return;
        }
        for Said { run, cycle, text } in joined(taken.drain(..)) {
            let body = match text {
                Some(text) => Live::write_text(cycle, &text),
                None => Live::write_withdrawn(cycle),
            };
            let subject = subjects::live(&run);
            if let Err(error) = bus.publish_live(&subject, body.into()).await {
                tracing::debug!(subject, %error, "live text is lost");
            }
        }
    }
}

/// The same with fewer messages: text is added to what its run said last, if that was text of the
/// same cycle. Each run's own order stays.
fn joined(said: impl Iterator<Item = Said>) -> Vec<Said> {
    let mut all: Vec<Said> = Vec::new();
    for next in said {
        let last = all.iter_mut().rev().find(|last| last.run == next.run);
        match (last, &next.text) {
            (Some(last), Some(more)) if last.cycle == next.cycle && last.text.is_some() => {
                last.text.get_or_insert_default().push_str(more);
            }
            _ => all.push(next),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(run: &str, cycle: u32, text: Option<&str>) -> Said {
        Said {
            run: RunId::new(format!("run_{run}")).expect("an id"),
            cycle,
            text: text.map(str::to_owned),
        }
    }

    #[test]
    fn s2_4_text_is_joined_and_never_across_a_withdrawal_or_a_cycle() {
        let pieces = [
            said("a", 1, Some("one ")),
            said("b", 1, Some("other")),
            said("a", 1, Some("two")),
            said("a", 1, None),
            said("a", 1, Some("again")),
            said("a", 2, Some("next")),
        ];
        let expected = [
            said("a", 1, Some("one two")),
            said("b", 1, Some("other")),
            said("a", 1, None),
            said("a", 1, Some("again")),
            said("a", 2, Some("next")),
        ];
        assert_eq!(joined(pieces.into_iter()), expected);
    }
}
