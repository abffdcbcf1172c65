//! Read-only copies of exported runs: taken whole, or refused whole.

use sayso_driver::{Written, project};
use sayso_run::{
    Digest, Recorded, RunId, RunState, Step, StoredLink, TaskId, verify, verify_links,
};
use sayso_service::error::{Coded, Kind};
use sayso_store::Import;
use sayso_wire::{code, export, v1};
use serde_json::json;
use uuid::Uuid;

use crate::auth::Session;
use crate::{Shared, audit, refuse, show};

/// The largest export.
pub(super) const MAX_BYTES: usize = 64 * 1024 * 1024;

/// Stores a copy of an exported run.
pub(super) async fn import(
    shared: &Shared,
    session: &Session,
    text: Vec<u8>,
) -> Result<v1::ImportRunResponse, Coded> {
    let text = String::from_utf8(text).map_err(|_| invalid("it is not UTF-8 text"))?;
    let (original, steps) = read(&text)?;
    let copy = copy(session, &original, &steps)?;
    let stored = shared.store.runs().import(&copy).await;
    stored.map_err(|error| refuse::database("importing a run", error))?;
    let seals_hold = verify(&original, &copy.steps, &shared.keys).is_ok();
    let caller = session.caller();
    let details = json!({ "original": original.as_str(), "seals_hold": seals_hold });
    let (store, key, actor) = (&shared.store, &shared.key, audit::actor(caller));
    let (namespace, subject) = (&caller.namespace, copy.row.run.as_str());
    let done = audit::done(
        store,
        key,
        namespace,
        &actor,
        "run.import",
        subject,
        details,
    );
    done.await.map_err(audit::failed)?;
    Ok(v1::ImportRunResponse {
        run: Some(show::run(copy.row)),
        seals_hold,
    })
}

/// The steps of one run, in a chain that holds.
fn read(text: &str) -> Result<(RunId, Vec<StoredLink>), Coded> {
    let mut original: Option<RunId> = None;
    let mut steps = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let (run, step) = export::read(line).map_err(|bad| at(number, bad))?;
        if original.get_or_insert_with(|| run.clone()) != &run {
            return Err(at(number, "it is of another run than the first"));
        }
        if step.content.is_none() {
            return Err(at(
                number,
                "its content was left out, so nothing can be made of it",
            ));
        }
        steps.push(step);
    }
    let original = original.ok_or_else(|| invalid("it has no steps"))?;
    verify_links(&steps).map_err(invalid)?;
    Ok((original, steps))
}

/// The copy, projected from the steps as the original was.
fn copy(session: &Session, original: &RunId, steps: &[StoredLink]) -> Result<Import, Coded> {
    let written: Result<Vec<Written>, Coded> = (1..)
        .zip(steps)
        .map(|(number, step)| written(number, step))
        .collect();
    let written = written?;
    let recorded = written.iter().map(|written| &written.recorded);
    let state = RunState::fold(original, recorded).map_err(invalid)?;
    let state = state.ok_or_else(|| invalid("it has no steps"))?;
    let projected = project(&state, &written);
    let id = Uuid::now_v7().simple();
    let mut row = projected.row;
    row.run = RunId::new(format!("run_{id}")).expect("a UUID makes a valid id");
    row.task = TaskId::new(format!("task_{id}")).expect("a UUID makes a valid id");
    row.namespace = session.caller().namespace.clone();
    row.imported_from = Some(original.clone());
    // Nobody decides anything in a copy.
    row.expires_at = None;
    let mut actions = projected.actions;
    for action in &mut actions {
        action.run = row.run.clone();
    }
    Ok(Import {
        row,
        original: original.clone(),
        steps: steps.to_vec(),
        actions,
    })
}

fn written(number: usize, step: &StoredLink) -> Result<Written, Coded> {
    let content = step.content.clone().unwrap_or_default();
    let decoded = Step::decode(&step.kind, step.version, &content);
    Ok(Written {
        recorded: Recorded {
            seq: step.seq,
            at: step.at,
            actor: step.actor.clone(),
            step: decoded.map_err(|error| at(number, error))?,
            content_sha256: Digest::of(content.as_bytes()),
            hash: step.hash,
            seal: step.seal.clone(),
        },
        content,
        view: None,
    })
}

/// The export is over the limit.
pub(super) fn too_large() -> Coded {
    Coded::new(
        Kind::TooLarge,
        code::REQUEST_TOO_LARGE,
        format!("The export is larger than {MAX_BYTES} bytes."),
    )
}

fn at(line: usize, why: impl std::fmt::Display) -> Coded {
    invalid(format!("line {line}: {why}"))
}

fn invalid(why: impl std::fmt::Display) -> Coded {
    Coded::new(
        Kind::Invalid,
        code::IMPORT_INVALID,
        format!("This is not a whole export of a run; nothing was imported. {why}"),
    )
}
