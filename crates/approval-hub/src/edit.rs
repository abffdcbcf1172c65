//! Edits of held calls (S6.7): the new bytes are made from the exact ones, judged by policy, and
//! written together with the approval, or nothing is.
//!
//! What policy says holds for the run as it stood then: the edit is appended at exactly that sequence
//! number, or judged again. So no rule is answered with what was true before.

use std::fmt;
use std::time::Duration;

use sayso_driver::{Journal, JudgedEdit, WriteError};
use sayso_engine::{Answered, Asked, check_reach};
use sayso_herald::coded;
use sayso_rules::Redaction;
use sayso_rules::edit::{Change, EditError, edit};
use sayso_run::{Call, Edit, Input, Refusal, RunState};
use sayso_service::error::{Coded, Kind};
use sayso_wire::internal::JudgeEditRequest;
use sayso_wire::internal::judgement_service_client::JudgementServiceClient;
use sayso_wire::{code, v1};

use crate::ApprovalHub;
use crate::api::answered;

/// How often an edit is judged again because the run moved on meanwhile.
const MAX_JUDGEMENTS: u32 = 16;

/// How long policy may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The one edit of a response.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Which of the decisions it goes with.
    at: usize,
    changes: Vec<Change>,
}

impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " edit {} {:?}", self.at, self.changes)
    }
}

impl Wanted {
    /// What a response edits, if it does.
    pub(crate) fn of(decisions: &[v1::Decision]) -> Result<Option<Wanted>, Coded> {
        let all = decisions.iter().enumerate();
        let mut edited = all.filter(|(_, decision)| !decision.edits.is_empty());
        let Some((at, decision)) = edited.next() else {
            return Ok(None);
        };
        if edited.next().is_some() {
            let one = "one call at a time is edited: a response with an edit edits no other call";
            let refused = Coded::new(Kind::Invalid, code::REQUEST_INVALID, one);
            return Err(refused.field("decisions", one));
        }
        let change = |edit: &v1::ArgumentEdit| Change {
            pointer: edit.pointer.clone(),
            value: edit.value_json.clone(),
        };
        let changes = decision.edits.iter().map(change).collect();
        Ok(Some(Wanted { at, changes }))
    }
}

/// Carries a response that edits a call to its run.
///
/// # Errors
///
/// The run's refusal, the edit's, or that something is away; nothing is half done.
pub(crate) async fn respond_edited(
    hub: &ApprovalHub,
    mut asked: Asked,
    wanted: &Wanted,
    salt: &str,
) -> Result<Answered, Coded> {
    for _ in 0..MAX_JUDGEMENTS {
        let secrets = hub.secrets.of(&asked.namespace).await;
        let secrets = secrets.map_err(|error| {
            let doing = "reading what is not to be shown";
            Coded::unavailable(code::SERVICE_UNAVAILABLE, doing, &error)
        })?;
        let redaction = secrets.redaction();
        let made = make(hub, &asked, wanted, redaction).await?;
        asked.response.decisions[wanted.at].decision.edit = made;
        asked.redaction = Some(redaction.clone());
        match answered(hub, asked.clone(), salt).await {
            // It moved on after the edit was judged.
            Err(WriteError::Refused(Refusal::Stale(_))) => {}
            other => return other.map_err(coded),
        }
    }
    Err(Coded::new(
        Kind::Conflict,
        code::RUN_BUSY,
        "The run moves on faster than the edit is judged; try again in a moment.",
    ))
}

/// The edit as it may be taken; none if it changes nothing, and the response is a plain approval.
async fn make(
    hub: &ApprovalHub,
    asked: &Asked,
    wanted: &Wanted,
    redaction: &Redaction,
) -> Result<Option<Edit>, Coded> {
    let loaded = hub.store.load(&asked.run).await;
    let loaded = loaded.map_err(|error| coded(error.into()))?;
    let not_found = || coded(WriteError::NotFound(asked.run.clone()));
    let state = loaded.ok_or_else(not_found)?.state;
    let call = edited_call(hub, &state, asked, wanted)?;
    let args = edit(&call.args, &wanted.changes, redaction).map_err(|error| refused(&error))?;
    if args == call.args {
        return Ok(None);
    }
    let mut made = Edit {
        shown: redaction.differing(&args),
        args,
        origins: Vec::new(),
        quorum: None,
        judged_at: state.seq(),
    };
    let decided = call
        .approval
        .as_ref()
        .is_none_or(|held| held.outcome.is_some());
    if !decided {
        let judged = judge(hub, asked, call, &made.args, wanted).await?;
        made.origins = judged.origins;
        made.quorum = judged.quorum;
        made.judged_at = judged.seq;
    }
    Ok(Some(made))
}

/// The call that is edited, if the response could be taken as a plain approval: who may not decide, or
/// comes too late, is told that and nothing of the call. What votes need is not known yet, so whether
/// the person is in a group is not asked here.
fn edited_call<'s>(
    hub: &ApprovalHub,
    state: &'s RunState,
    asked: &Asked,
    wanted: &Wanted,
) -> Result<&'s Call, Coded> {
    let refuse = |refusal: Refusal| match refusal {
        Refusal::UnknownTarget(target) if target == asked.run.as_str() => {
            coded(WriteError::NotFound(asked.run.clone()))
        }
        refusal => coded(refusal.into()),
    };
    let mut plain = asked.response.clone();
    plain.decisions[wanted.at].decision.edit = None;
    check_reach(state, &asked.namespace, asked.reaches_all, &plain).map_err(refuse)?;
    match state.decide(Input::Respond(plain.clone()), hub.store.now()) {
        Ok(_) | Err(Refusal::NotInGroup(_) | Refusal::BrokenVote(_)) => {}
        Err(refusal) => return Err(refuse(refusal)),
    }
    plain.decisions = vec![plain.decisions.swap_remove(wanted.at)];
    let calls = state.decided_calls(&plain);
    let call = calls.first().and_then(|id| state.call(id));
    call.ok_or_else(|| refuse(Refusal::UnknownTarget("the edited call".to_owned())))
}

async fn judge(
    hub: &ApprovalHub,
    asked: &Asked,
    call: &Call,
    args: &str,
    wanted: &Wanted,
) -> Result<JudgedEdit, Coded> {
    let request = JudgeEditRequest {
        namespace: asked.namespace.to_string(),
        run_id: asked.run.to_string(),
        call_id: call.id.to_string(),
        args_json: args.to_owned(),
        pointers: wanted
            .changes
            .iter()
            .map(|change| change.pointer.clone())
            .collect(),
    };
    let client = JudgementServiceClient::new(hub.policy.clone());
    let mut client = client.max_encoding_message_size(usize::MAX);
    let judging = tokio::time::timeout(PATIENCE, client.judge_edit(request)).await;
    let answer = match judging {
        Ok(Ok(answer)) => answer.into_inner(),
        Ok(Err(status)) => return Err(away_or(Coded::from_status(&status))),
        Err(_) => return Err(away("it did not answer in time")),
    };
    serde_json::from_str(&answer.judged_json)
        .map_err(|error| Coded::internal("reading how an edit was judged", &error))
}

/// What policy refuses is told as it is; that it cannot be asked is not the caller's doing.
fn away_or(told: Coded) -> Coded {
    match told.code.as_ref() {
        "peer.unreachable" | "peer.lost" | "rpc.unavailable" => away(&told.message),
        "internal.unauthenticated" => Coded::internal("asking policy", &told),
        _ => told,
    }
}

fn away(why: &str) -> Coded {
    tracing::warn!(why, "policy cannot be asked of an edit");
    Coded::new(
        Kind::Unavailable,
        code::SERVICE_UNAVAILABLE,
        "Policy is away, so the edit cannot be judged: nothing was done; try again in a moment.",
    )
    .with("service", "policy")
    .with("done", "no")
}

fn refused(error: &EditError) -> Coded {
    let code = match error {
        EditError::PointerUnknown(_) => code::EDIT_POINTER_UNKNOWN,
        EditError::NotJson(_) => code::EDIT_INVALID,
        EditError::Redacted(_) | EditError::HoldsMask(_) => code::EDIT_MASKED,
    };
    let sentence = format!("The call cannot be edited so, and nothing has changed: {error}");
    Coded::new(Kind::Invalid, code, sentence).field("edits", error.to_string())
}
