use sayso_driver::{ActionRow, Lineage, RunRow};
use sayso_run::{EndedBy, Step, advice, limits};
use sayso_store::StoredStep;
use sayso_wire::step::StepView;
use sayso_wire::time::{duration_micros, timestamp};
use sayso_wire::v1;

/// A run with all that it records (S1.7) and, if it failed, what to do about it (S2.6).
pub fn run(row: RunRow) -> v1::Run {
    let until = row.ended_at.unwrap_or(row.updated_at);
    let of = row.lineage;
    let lineage = |id: fn(&Lineage) -> String| of.as_ref().map(id).unwrap_or_default();
    v1::Run {
        id: row.run.into(),
        task_id: row.task.into(),
        namespace: row.namespace.into(),
        agent: row.agent.into(),
        revision_id: row.revision.into(),
        source: v1::StartSource::from(row.source).into(),
        requester: row.principal.into(),
        trust: v1::Trust::from(row.trust).into(),
        input: row.input,
        status: v1::RunStatus::from(row.status).into(),
        last_sequence: row.seq,
        ended_by: ended_by(row.ended_by).into(),
        output: row.output,
        failure: failure(row.error_code, row.error_message),
        hint: hint(row.ended_by).to_owned(),
        cycles: row.cycles,
        retries: row.retries,
        usage: Some(row.usage.into()),
        created_at: Some(timestamp(row.created_at)),
        updated_at: Some(timestamp(row.updated_at)),
        ended_at: row.ended_at.map(timestamp),
        approval_expires_at: row.expires_at.map(timestamp),
        duration: Some(duration_micros(until.micros_since(row.created_at))),
        has_open_calls: row.open_calls,
        trigger: row.trigger.unwrap_or_default(),
        pause: None,
        parent_run_id: lineage(|of| of.parent_run.to_string()),
        parent_task_id: lineage(|of| of.parent_task.to_string()),
        root_run_id: lineage(|of| of.root_run.to_string()),
        root_task_id: lineage(|of| of.root_task.to_string()),
        imported_from: row.imported_from.map(String::from).unwrap_or_default(),
        conversation_id: row.conversation.map(String::from).unwrap_or_default(),
        cost: row.cost.map(|cost| cost.to_string()).unwrap_or_default(),
        trust_lowered: None,
    }
}

/// What lowered a run's trust, from the step that says so; none if this version does not understand
/// it.
pub fn trust_lowered(step: &StoredStep) -> Option<v1::TrustLowered> {
    let decoded = Step::decode(&step.kind, step.version, &step.content);
    match decoded {
        Ok(Step::TrustLowered(lowered)) => Some(v1::TrustLowered {
            sequence: step.seq,
            call_id: lowered.call.map(String::from).unwrap_or_default(),
            tool: lowered.tool,
            before: v1::Trust::from(lowered.from).into(),
            after: v1::Trust::from(lowered.to).into(),
        }),
        _ => None,
    }
}

fn ended_by(ended_by: Option<EndedBy>) -> v1::EndedBy {
    ended_by.map_or(v1::EndedBy::Unspecified, v1::EndedBy::from)
}

fn failure(code: Option<String>, message: Option<String>) -> Option<v1::RunFailure> {
    let code = code?;
    Some(v1::RunFailure {
        advice: advice(&code).to_owned(),
        code,
        message: message.unwrap_or_default(),
    })
}

/// What the way it ended says about the task (S2.6).
fn hint(ended_by: Option<EndedBy>) -> &'static str {
    const _: () = assert!(limits::MAX_CYCLES == 20, "the sentence names the cap");
    match ended_by {
        Some(EndedBy::MaxCycles) => {
            "It reached the cap of 20 think-and-call cycles: the task is too big for one run, or the instructions are too vague."
        }
        Some(
            EndedBy::Answer
            | EndedBy::SpendingCap
            | EndedBy::ProviderBilling
            | EndedBy::Error
            | EndedBy::Cancelled,
        )
        | None => "",
    }
}

/// A step of a timeline, its content with secrets masked (S2.3, S3.10).
pub fn step(row: &StoredStep) -> v1::RunStep {
    let view = StepView {
        seq: row.seq,
        at: row.at,
        actor: &row.actor,
        kind: &row.kind,
        version: row.version,
        content: row.shown(),
        content_sha256: &row.content_sha256,
        hash: &row.hash,
        seal: row.seal.as_ref(),
    };
    view.into()
}

/// An attempted call, whatever came of it (S2.5).
pub fn action(row: ActionRow) -> v1::Action {
    let denied = row
        .denied
        .map_or(v1::DenyCause::Unspecified, v1::DenyCause::from);
    v1::Action {
        run_id: row.run.into(),
        call_id: row.call.into(),
        tool: row.tool,
        status: v1::ActionStatus::from(row.status).into(),
        args_json: row.args,
        digest: row.digest.to_string(),
        cleared_by: row.cleared_by,
        result: row.result,
        denied: denied.into(),
        created_at: Some(timestamp(row.created_at)),
        updated_at: Some(timestamp(row.updated_at)),
    }
}
