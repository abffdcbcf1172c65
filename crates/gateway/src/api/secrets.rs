//! `sayso.v1.SecretService`. Every change is written down, never a value (S3.10, S10.8).

use sayso_rules::bundle::is_secret_name;
use sayso_rules::redact::SHORTEST_SECRET;
use sayso_run::AgentName;
use sayso_service::error::{Coded, Kind};
use sayso_store::{SecretKeys, SecretRow, SecretsError};
use sayso_wire::time::timestamp;
use sayso_wire::v1::secret_service_server::SecretService;
use sayso_wire::{code, v1};
use serde_json::json;
use tonic::{Request, Response, Status};

use super::{Api, record};
use crate::auth::Session;
use crate::request::Check;
use crate::{Shared, refuse};

/// The longest value, in bytes.
const MAX_VALUE: usize = 64 * 1024;

#[tonic::async_trait]
impl SecretService for Api {
    async fn set_secret(
        &self,
        request: Request<v1::SetSecretRequest>,
    ) -> Result<Response<v1::SetSecretResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let agent = place(&asked.name, &asked.agent)?;
        let (value, trimmed) = value(&asked.value)?;
        let (keys, caller) = (keys(&self.0)?, session.caller());
        let secrets = self.0.store.secrets();
        let (namespace, by) = (&caller.namespace, &caller.principal);
        let stored = secrets.put(keys, namespace, agent.as_ref(), &asked.name, value, by);
        let created = stored
            .await
            .map_err(|error| failed("storing a secret", error))?;
        let details = json!({ "agent": asked.agent, "created": created });
        record(&self.0, &session, "secret.set", &asked.name, details).await?;
        Ok(Response::new(v1::SetSecretResponse { created, trimmed }))
    }

    async fn list_secrets(
        &self,
        request: Request<v1::ListSecretsRequest>,
    ) -> Result<Response<v1::ListSecretsResponse>, Status> {
        let session = Session::of(&request);
        let rows = self
            .0
            .store
            .secrets()
            .list(&session.caller().namespace)
            .await;
        let rows = rows.map_err(|error| refuse::database("listing secrets", error))?;
        Ok(Response::new(v1::ListSecretsResponse {
            secrets: rows.into_iter().map(shown).collect(),
        }))
    }

    async fn delete_secret(
        &self,
        request: Request<v1::DeleteSecretRequest>,
    ) -> Result<Response<v1::DeleteSecretResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let agent = place(&asked.name, &asked.agent)?;
        let namespace = &session.caller().namespace;
        let secrets = self.0.store.secrets();
        let deleted = secrets.delete(namespace, agent.as_ref(), &asked.name).await;
        if !deleted.map_err(|error| refuse::database("removing a secret", error))? {
            return Err(no_secret().into());
        }
        let details = json!({ "agent": asked.agent });
        record(&self.0, &session, "secret.delete", &asked.name, details).await?;
        Ok(Response::new(v1::DeleteSecretResponse {}))
    }

    async fn rotate_secret_key(
        &self,
        request: Request<v1::RotateSecretKeyRequest>,
    ) -> Result<Response<v1::RotateSecretKeyResponse>, Status> {
        let session = Session::of(&request);
        let keys = keys(&self.0)?;
        let sealed = self.0.store.secrets().seal_anew(keys).await;
        let (rotated, total) = sealed.map_err(|error| failed("encrypting secrets anew", error))?;
        let key_id = keys.current().to_owned();
        let details = json!({ "rotated": rotated, "total": total });
        record(&self.0, &session, "secret.rotate_key", &key_id, details).await?;
        Ok(Response::new(v1::RotateSecretKeyResponse {
            rotated,
            total,
            key_id,
        }))
    }
}

/// The agent of a secret, if it is an agent's own.
fn place(name: &str, agent: &str) -> Result<Option<AgentName>, Coded> {
    let mut check = Check::new();
    if !is_secret_name(name) {
        check.wrong("name", "must be 1 to 64 letters, digits and underscores");
    }
    let agent = check.filter("agent", agent);
    check.done()?;
    Ok(agent)
}

/// A value as it is stored, and whether line ends were taken off (B49).
fn value(given: &str) -> Result<(&str, bool), Coded> {
    let value = given.trim_end_matches(['\r', '\n']);
    let problem = if value.len() < SHORTEST_SECRET {
        Some(format!(
            "must have at least {SHORTEST_SECRET} bytes: a shorter one is a common word and cannot \
             be kept out of texts"
        ))
    } else if value.len() > MAX_VALUE {
        Some(format!("must have at most {MAX_VALUE} bytes"))
    } else if value.trim() != value {
        Some("must not begin or end with white space".to_owned())
    } else if value.contains('\r') {
        Some("must not hold carriage returns: save it with line feeds alone".to_owned())
    } else if value
        .chars()
        .any(|c| c.is_control() && !matches!(c, '\n' | '\t'))
    {
        Some("must not hold control characters".to_owned())
    } else {
        None
    };
    match problem {
        None => Ok((value, value.len() < given.len())),
        Some(problem) => Err(Coded::new(
            Kind::Invalid,
            code::SECRET_MALFORMED,
            "The value cannot be a secret; nothing was stored.",
        )
        .field("value", problem)),
    }
}

fn keys(shared: &Shared) -> Result<&SecretKeys, Coded> {
    shared.secret_keys.as_ref().ok_or_else(no_key)
}

fn shown(row: SecretRow) -> v1::Secret {
    v1::Secret {
        name: row.name,
        agent: row.agent.map(String::from).unwrap_or_default(),
        set_by: row.set_by.to_string(),
        created_at: Some(timestamp(row.created_at)),
        updated_at: Some(timestamp(row.updated_at)),
        key_id: row.key_id,
    }
}

fn failed(doing: &str, error: SecretsError) -> Coded {
    match error {
        SecretsError::Database(error) => refuse::database(doing, error),
        SecretsError::NoKey => no_key(),
        SecretsError::Seal { name, why } => Coded::new(
            Kind::Precondition,
            code::SECRET_UNREADABLE,
            format!("The secret `{name}` cannot be used: {why}. Nothing was done."),
        ),
    }
}

fn no_key() -> Coded {
    Coded::new(
        Kind::Precondition,
        code::SECRET_NO_KEY,
        "This installation has no key to encrypt secrets with; set `secrets.key_file` for the \
         gateway, the executor and the notifier.",
    )
}

fn no_secret() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::SECRET_NOT_FOUND,
        "There is no such secret here; `sayso secret ls` lists those that there are.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B49: line ends at the end are taken off, and what else would differ unseen is refused.
    #[test]
    fn b49_line_ends_make_no_other_secret() {
        for given in ["hunter2", "hunter2\n", "hunter2\r\n", "hunter2\n\n"] {
            assert_eq!(
                value(given).unwrap(),
                ("hunter2", given.len() > 7),
                "{given:?}"
            );
        }
        let pem = "-----BEGIN X-----\nabc\n-----END X-----";
        assert_eq!(value(&format!("{pem}\n")).unwrap(), (pem, true));
        for bad in [
            "",
            "\n",
            "short",
            " hunter2",
            "hunter2 ",
            "hunter2\t\n",
            "hun\r\nter2",
            "hun\0ter2",
        ] {
            let refused = value(bad).unwrap_err();
            assert_eq!(refused.code, code::SECRET_MALFORMED, "{bad:?}");
            assert!(!refused.to_string().contains("hun"), "{refused}");
        }
    }
}
