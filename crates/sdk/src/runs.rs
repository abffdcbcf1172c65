use sayso_wire::v1;

use crate::{Client, Error, RunWatch, WatchOptions};

/// A run that was started.
#[derive(Debug, Clone, PartialEq)]
pub struct Started {
    /// The run.
    pub run: v1::Run,
    /// Whether an earlier request with the same key started it.
    pub already_started: bool,
}

fn run(run: Option<v1::Run>) -> Result<v1::Run, Error> {
    run.ok_or(Error::Incomplete("run"))
}

/// Runs. Scopes and codes of refusals are those of `RunService`.
impl Client {
    /// Starts a run of an agent. With a key it is safe to send again: the same key and principal
    /// get the same run.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `request.key_reused`, `request.too_large`, `request.invalid_text`.
    pub async fn start_run(
        &self,
        agent: &str,
        input: &str,
        key: Option<&str>,
    ) -> Result<Started, Error> {
        let request = v1::StartRunRequest {
            agent: agent.to_owned(),
            input: input.to_owned(),
            idempotency_key: key.unwrap_or_default().to_owned(),
        };
        let answer = self.runs().start_run(request).await;
        let answer = answer.map_err(|status| self.failed(&status))?.into_inner();
        Ok(Started {
            run: run(answer.run)?,
            already_started: answer.already_started,
        })
    }

    /// Reads a run.
    ///
    /// # Errors
    ///
    /// `run.not_found`.
    pub async fn get_run(&self, run_id: &str) -> Result<v1::Run, Error> {
        let request = v1::GetRunRequest {
            run_id: run_id.to_owned(),
        };
        let answer = self.runs().get_run(request).await;
        run(answer
            .map_err(|status| self.failed(&status))?
            .into_inner()
            .run)
    }

    /// Lists runs, newest first.
    ///
    /// # Errors
    ///
    /// `page.malformed`, `request.invalid`.
    pub async fn list_runs(
        &self,
        request: v1::ListRunsRequest,
    ) -> Result<v1::ListRunsResponse, Error> {
        let answer = self.runs().list_runs(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Streams a run until it ends, over broken connections.
    pub fn watch_run(&self, run_id: &str, options: WatchOptions) -> RunWatch {
        RunWatch::new(self.clone(), run_id.to_owned(), options)
    }

    /// Lists the steps of a run, in order.
    ///
    /// # Errors
    ///
    /// `run.not_found`, `page.malformed`.
    pub async fn list_run_steps(
        &self,
        request: v1::ListRunStepsRequest,
    ) -> Result<v1::ListRunStepsResponse, Error> {
        let answer = self.runs().list_run_steps(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// All steps of a run from a sequence number on, over as many pages as there are.
    ///
    /// # Errors
    ///
    /// `run.not_found`.
    pub async fn run_steps(&self, run_id: &str, from: u64) -> Result<Vec<v1::RunStep>, Error> {
        let mut steps = Vec::new();
        let mut request = v1::ListRunStepsRequest {
            run_id: run_id.to_owned(),
            from_sequence: from,
            page_size: 1000,
            page_token: String::new(),
        };
        loop {
            let page = self.list_run_steps(request.clone()).await?;
            steps.extend(page.steps);
            if page.next_page_token.is_empty() {
                return Ok(steps);
            }
            request.page_token = page.next_page_token;
        }
    }

    /// Lists the calls that a run attempted, in the order in which they were proposed.
    ///
    /// # Errors
    ///
    /// `run.not_found`, `page.malformed`.
    pub async fn list_run_actions(
        &self,
        request: v1::ListRunActionsRequest,
    ) -> Result<v1::ListRunActionsResponse, Error> {
        let answer = self.runs().list_run_actions(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Ends a run.
    ///
    /// # Errors
    ///
    /// `run.not_found`, `run.ended`, `request.key_reused`.
    pub async fn cancel_run(&self, request: v1::CancelRunRequest) -> Result<v1::Run, Error> {
        let answer = self.runs().cancel_run(request).await;
        run(answer
            .map_err(|status| self.failed(&status))?
            .into_inner()
            .run)
    }

    /// Sends a message into a run.
    ///
    /// # Errors
    ///
    /// `run.not_found`, `run.ended`, `request.empty`, `request.key_reused`.
    pub async fn reply_to_run(&self, request: v1::ReplyToRunRequest) -> Result<v1::Run, Error> {
        let answer = self.runs().reply_to_run(request).await;
        run(answer
            .map_err(|status| self.failed(&status))?
            .into_inner()
            .run)
    }

    /// Lets a failed run go on.
    ///
    /// # Errors
    ///
    /// `run.not_found`, `run.not_failed`, `run.retries_used_up`.
    pub async fn retry_run(&self, run_id: &str) -> Result<v1::Run, Error> {
        let request = v1::RetryRunRequest {
            run_id: run_id.to_owned(),
        };
        let answer = self.runs().retry_run(request).await;
        run(answer
            .map_err(|status| self.failed(&status))?
            .into_inner()
            .run)
    }

    /// Checks the hash chain and the seals of a run's timeline. A broken one is an answer.
    ///
    /// # Errors
    ///
    /// `run.not_found`.
    pub async fn verify_run(&self, run_id: &str) -> Result<v1::VerifyRunResponse, Error> {
        let request = v1::VerifyRunRequest {
            run_id: run_id.to_owned(),
        };
        let answer = self.runs().verify_run(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Makes a read-only copy of an exported run: JSON lines, one a step.
    ///
    /// # Errors
    ///
    /// `import.invalid`, `request.too_large`.
    pub async fn import_run(&self, export: Vec<u8>) -> Result<v1::ImportRunResponse, Error> {
        const PART: usize = 1024 * 1024;
        let parts: Vec<v1::ImportRunRequest> = export
            .chunks(PART)
            .map(|part| v1::ImportRunRequest {
                part: part.to_vec(),
            })
            .collect();
        let answer = self.runs().import_run(futures::stream::iter(parts)).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}
