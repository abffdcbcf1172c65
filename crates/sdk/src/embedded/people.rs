//! What people do with runs, beside starting them and deciding what they hold.

use sayso_engine::{Asked, Asker, cancel, respond, retry};
use sayso_run::{Ballot, Response, RunId, Trust};

use super::Agent;
use super::agent::{Inner, principal, unwritten};
use crate::Error;

impl Agent {
    /// Answers a run that waits for a person, or sends a message into one that runs.
    ///
    /// # Errors
    ///
    /// `run.not_found`, `run.ended`, `request.empty`, `request.invalid`.
    pub async fn reply(
        &self,
        run: &RunId,
        by: &str,
        message: impl Into<String>,
    ) -> Result<(), Error> {
        let inner = &*self.0;
        inner.open()?;
        let asked = Asked {
            namespace: inner.namespace.clone(),
            reaches_all: true,
            run: run.clone(),
            response: Response {
                by: principal(by)?,
                decisions: Vec::new(),
                message: Some(message.into()),
                goes_on: true,
                seen: None,
                idempotency: None,
                ballot: Ballot::default(),
            },
            // The program vouches for whoever speaks through it: nothing is lowered.
            trust: Trust::Operator,
            redaction: None,
        };
        let answering = respond(
            &inner.store,
            &*inner.town,
            &*inner.desk,
            &inner.key,
            asked,
            "",
        );
        answering.await.map_err(unwritten)?;
        Ok(())
    }

    /// Ends a run, and every run that it has started (S1.4). What runs already is told so, and what it
    /// still answers is recorded.
    ///
    /// # Errors
    ///
    /// `run.not_found`, `run.ended`.
    pub async fn cancel(&self, run: &RunId, by: &str, reason: &str) -> Result<(), Error> {
        let inner = &*self.0;
        inner.open()?;
        let reason = (!reason.is_empty()).then(|| reason.to_owned());
        let asker = inner.asker(by)?;
        let cancelling = cancel(
            &inner.store,
            &*inner.town,
            &inner.key,
            asker,
            run,
            reason,
            None,
        );
        cancelling.await.map_err(unwritten)?;
        Ok(())
    }

    /// Lets a failed run go on from where it stopped (S1.5).
    ///
    /// # Errors
    ///
    /// `run.not_found`, `run.not_failed`, `run.retries_used_up`.
    pub async fn retry(&self, run: &RunId, by: &str) -> Result<(), Error> {
        let inner = &*self.0;
        inner.open()?;
        let asker = inner.asker(by)?;
        let retrying = retry(&inner.store, &*inner.town, &inner.key, asker, run);
        retrying.await.map_err(unwritten)?;
        Ok(())
    }
}

impl Inner {
    fn asker(&self, by: &str) -> Result<Asker, Error> {
        Ok(Asker {
            namespace: self.namespace.clone(),
            principal: principal(by)?,
            reaches_all: true,
        })
    }
}
