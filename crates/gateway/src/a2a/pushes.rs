//! Where clients want to be told of their tasks. The notifier tells them; here it is only written down.
//!
//! What is shown of a receiver is its URL. Its token and credentials are secrets: sealed where they
//! are stored, sent along, and never shown again.

use std::net::IpAddr;

use http::Uri;
use sayso_driver::RunRow;
use sayso_run::Status as RunStatus;
use sayso_service::address::is_public;
use sayso_service::error::Coded;
use sayso_store::{NewPush, Push, PushTarget, SecretKeys, SecretsError};
use sayso_wire::a2a::v1;
use tonic::Status;
use uuid::Uuid;

use super::fault::Fault;
use super::service::Call;
use super::tasks::{required, visible};
use crate::refuse;
use crate::request::Check;

/// The longest URL, token, scheme or credential, in bytes.
const LONGEST: usize = 4096;

/// The longest id, in bytes.
const MAX_ID: usize = 128;

/// The most receivers of one task.
const MOST: usize = 16;

/// A receiver that a client asked for, checked.
#[derive(Debug)]
pub(super) struct Wanted {
    id: String,
    target: PushTarget,
}

/// What a client knows of its task when it asks to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Known {
    /// Nothing: the task has just begun.
    Nothing,
    /// How it stands.
    Everything,
}

fn keys(call: &Call) -> Result<&SecretKeys, Status> {
    call.shared.secret_keys.as_ref().ok_or_else(|| {
        let message = "This server has no key for secrets, so it keeps no receivers.";
        Fault::PushNotificationNotSupported.status(message, &[])
    })
}

impl Wanted {
    /// Checks a receiver. Its task is not looked at.
    pub(super) fn of(
        call: &Call,
        config: &v1::TaskPushNotificationConfig,
    ) -> Result<Wanted, Status> {
        keys(call)?;
        let mut check = Check::new();
        let authentication = config.authentication.clone().unwrap_or_default();
        let texts = [
            ("id", &config.id, MAX_ID),
            ("url", &config.url, LONGEST),
            ("token", &config.token, LONGEST),
            ("authentication.scheme", &authentication.scheme, LONGEST),
            (
                "authentication.credentials",
                &authentication.credentials,
                LONGEST,
            ),
        ];
        for (field, text, most) in texts {
            // They become headers, or parts of a URL.
            if text.len() > most || !text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
                let problem = format!("must be at most {most} characters of ASCII");
                check.wrong(field, problem);
            }
        }
        if config.authentication.is_some() {
            required(&mut check, "authentication.scheme", &authentication.scheme);
        }
        check_url(&mut check, &config.url, call.shared.a2a.private_receivers);
        check.done()?;
        let id = match config.id.as_str() {
            "" => format!("psh_{}", Uuid::now_v7().simple()),
            given => given.to_owned(),
        };
        Ok(Wanted {
            id,
            target: PushTarget {
                url: config.url.clone(),
                token: config.token.clone(),
                scheme: authentication.scheme,
                credentials: authentication.credentials,
            },
        })
    }
}

/// An address that is not public is refused here where the URL says it; where a name leads is looked
/// at when something is sent.
fn check_url(check: &mut Check, url: &str, private: bool) {
    let parsed = url.parse::<Uri>().ok();
    let fits = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.authority().is_some_and(|a| !a.as_str().contains('@'))
    };
    let Some(uri) = parsed.filter(fits) else {
        check.wrong("url", "must be an http or https URL without a password");
        return;
    };
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address = host.parse::<IpAddr>().ok();
    let hidden = address.is_some_and(|address| !is_public(address)) || host == "localhost";
    if hidden && !private {
        check.wrong("url", "must be at a public address");
    }
}

fn failed(error: SecretsError) -> Coded {
    match error {
        SecretsError::Database(error) => refuse::database("keeping a receiver", error),
        error => Coded::internal("keeping a receiver", &error),
    }
}

/// Keeps a receiver of a task.
pub(super) async fn store(
    call: &Call,
    row: &RunRow,
    wanted: Wanted,
    known: Known,
) -> Result<(), Status> {
    let (told_seq, told_status) = match known {
        Known::Nothing => (0, RunStatus::Pending),
        Known::Everything => (row.seq, row.status),
    };
    let new = NewPush {
        run: row.run.clone(),
        id: wanted.id,
        namespace: row.namespace.clone(),
        agent: row.agent.clone(),
        principal: call.session.caller().principal.clone(),
        target: wanted.target,
        told_seq,
        told_status,
    };
    let stored = call.shared.store.a2a_pushes().put(keys(call)?, &new).await;
    Ok(stored.map_err(failed)?)
}

pub(super) async fn create(
    call: &Call,
    config: v1::TaskPushNotificationConfig,
) -> Result<v1::TaskPushNotificationConfig, Status> {
    let row = task(call, &config.task_id).await?;
    let wanted = Wanted::of(call, &config)?;
    let others = of_task(call, &row).await?;
    let is_other = |push: &Push| push.id != wanted.id;
    if others.into_iter().filter(is_other).count() >= MOST {
        let mut check = Check::new();
        check.wrong(
            "taskId",
            format!("has {MOST} receivers already; delete one first"),
        );
        check.done()?;
    }
    let made = shown(&config.task_id, &wanted.id, &wanted.target);
    store(call, &row, wanted, Known::Everything).await?;
    Ok(made)
}

pub(super) async fn get(
    call: &Call,
    asked: &v1::GetTaskPushNotificationConfigRequest,
) -> Result<v1::TaskPushNotificationConfig, Status> {
    let row = task(call, &asked.task_id).await?;
    let pushes = of_task(call, &row).await?;
    let found = pushes.into_iter().find(|push| push.id == asked.id);
    let push = found.ok_or_else(|| {
        let message = "The task has no receiver of this id.";
        Fault::TaskNotFound.status(message, &[("taskId", &asked.task_id)])
    })?;
    Ok(shown(&asked.task_id, &push.id, &push.target))
}

pub(super) async fn list(
    call: &Call,
    task_id: &str,
) -> Result<Vec<v1::TaskPushNotificationConfig>, Status> {
    let row = task(call, task_id).await?;
    let pushes = of_task(call, &row).await?;
    let shown = |push: &Push| shown(task_id, &push.id, &push.target);
    Ok(pushes.iter().map(shown).collect())
}

pub(super) async fn delete(
    call: &Call,
    asked: &v1::DeleteTaskPushNotificationConfigRequest,
) -> Result<(), Status> {
    let row = task(call, &asked.task_id).await?;
    let store = &call.shared.store;
    let gone = store
        .a2a_pushes()
        .delete(&row.namespace, &row.run, &asked.id)
        .await;
    // One that is gone already is as good as deleted.
    gone.map_err(|error| refuse::database("removing a receiver", error))?;
    Ok(())
}

async fn task(call: &Call, id: &str) -> Result<RunRow, Status> {
    keys(call)?;
    let mut check = Check::new();
    required(&mut check, "taskId", id);
    check.done()?;
    visible(call, id).await
}

async fn of_task(call: &Call, row: &RunRow) -> Result<Vec<Push>, Status> {
    let pushes = call.shared.store.a2a_pushes();
    let listed = pushes.list(keys(call)?, &row.namespace, &row.run).await;
    Ok(listed.map_err(failed)?)
}

fn shown(task: &str, id: &str, target: &PushTarget) -> v1::TaskPushNotificationConfig {
    let scheme = Some(target.scheme.clone()).filter(|scheme| !scheme.is_empty());
    v1::TaskPushNotificationConfig {
        tenant: String::new(),
        id: id.to_owned(),
        task_id: task.to_owned(),
        url: target.url.clone(),
        token: String::new(),
        authentication: scheme.map(|scheme| v1::AuthenticationInfo {
            scheme,
            credentials: String::new(),
        }),
    }
}
