//! Where a notification goes: a URL with or without a signature, an incoming webhook as Slack has it, or
//! a mailbox (S8.1, S8.2).

use lettre::message::Mailbox;
use reqwest::Url;
use sayso_driver::{Journal, Recipient};
use sayso_run::{AgentName, Namespace};
use sayso_service::config::{MailAddress, Secret, SecretError};
use sayso_store::{DatabaseError, SealError, SecretsError, TargetKind, TargetRow};
use thiserror::Error;

use crate::Notifier;
use crate::announcement::UnreadableView;
use crate::mail::{MailError, Mailer};
use crate::message::Message;
use crate::post::{Answer, Post, send};
use crate::slack;

/// Why something cannot be sent at all. Another try would not help.
#[derive(Debug, Error)]
pub(crate) enum Unsendable {
    #[error("the secret `{0}` that signs it is not set: `sayso secret set {0}`")]
    NoSecret(String),
    #[error("the secret `{0}` that signs it cannot be opened: {1}")]
    Unreadable(String, SealError),
    #[error("the secret `{0}` that signs it is stored, and no key of secrets is configured here")]
    NoKey(String),
    #[error("the secret `{0}` that signs it cannot be had: {1}")]
    SecretAway(String, SecretError),
    #[error("its URL is not an http or https URL")]
    BadUrl,
    #[error("its address is no mail address")]
    BadAddress,
    #[error("no mail server is configured: `smtp.host` and `smtp.from`")]
    NoMailServer,
    #[error("there is no target `{0}`: `sayso target add {0}` makes one")]
    NoTarget(String),
    #[error(transparent)]
    BadView(#[from] UnreadableView),
    #[error("the redacted view of the run's first step cannot be read: {0}")]
    BadFirst(serde_json::Error),
    #[error(transparent)]
    Mail(#[from] MailError),
}

impl Unsendable {
    /// The code under which the agent's log has it.
    pub(crate) const fn code(&self) -> &'static str {
        match self {
            Unsendable::NoSecret(_)
            | Unsendable::SecretAway(..)
            | Unsendable::Unreadable(..)
            | Unsendable::NoKey(_) => "notify.secret_missing",
            Unsendable::NoTarget(_) => "notify.target_missing",
            Unsendable::NoMailServer => "notify.no_mail_server",
            Unsendable::BadUrl
            | Unsendable::BadAddress
            | Unsendable::BadView(_)
            | Unsendable::BadFirst(_)
            | Unsendable::Mail(_) => "notify.failed",
        }
    }
}

/// Where to, with what that takes.
pub(crate) enum Channel {
    Webhook { url: Url, secret: Option<Secret> },
    Slack { url: Url },
    Email { to: Box<Mailbox>, mailer: Mailer },
}

impl Channel {
    /// To a recipient of an agent's notification, as it is now.
    pub(crate) async fn of(
        notifier: &Notifier,
        namespace: &Namespace,
        agent: &AgentName,
        to: &Recipient,
    ) -> Result<Result<Self, Unsendable>, DatabaseError> {
        match to {
            Recipient::Bundle { url, secret } => {
                webhook(notifier, namespace, Some(agent), url, secret.as_deref()).await
            }
            Recipient::Target(name) => {
                let found = notifier.store.targets().get(namespace, name).await?;
                match found {
                    Some(row) => Self::to_target(notifier, namespace, &row).await,
                    None => Ok(Err(Unsendable::NoTarget(name.clone()))),
                }
            }
        }
    }

    /// To a target of a namespace.
    pub(crate) async fn to_target(
        notifier: &Notifier,
        namespace: &Namespace,
        row: &TargetRow,
    ) -> Result<Result<Self, Unsendable>, DatabaseError> {
        match row.kind {
            TargetKind::Webhook => {
                let secret = row.secret.as_deref();
                webhook(notifier, namespace, None, &row.address, secret).await
            }
            TargetKind::Slack => Ok(url(&row.address).map(|url| Channel::Slack { url })),
            TargetKind::Email => Ok(email(notifier, &row.address)),
        }
    }

    /// The bytes of a message, the same for every try.
    pub(crate) fn written(
        &self,
        notifier: &Notifier,
        id: &str,
        message: &Message,
    ) -> Result<Vec<u8>, Unsendable> {
        Ok(match self {
            Channel::Webhook { .. } => message.json.clone(),
            Channel::Slack { .. } => slack::posted(message),
            Channel::Email { to, mailer } => {
                mailer.letter(message, id, to, notifier.store.now())?
            }
        })
    }

    /// Sends once.
    pub(crate) async fn send(
        &self,
        notifier: &Notifier,
        id: &str,
        event: &str,
        body: Vec<u8>,
    ) -> Result<Answer, Unsendable> {
        let (url, secret) = match self {
            Channel::Webhook { url, secret } => (url, secret.as_ref()),
            Channel::Slack { url } => (url, None),
            Channel::Email { to, mailer } => return Ok(mailer.send(to, &body).await?),
        };
        let post = Post {
            url,
            event,
            id,
            timestamp: notifier.store.now().micros().div_euclid(1_000_000),
            secret,
            body,
        };
        Ok(send(&notifier.client, post).await)
    }

    /// The place for people's eyes: of a URL its origin alone, since the rest may be a secret.
    pub(crate) fn place(&self) -> String {
        match self {
            Channel::Webhook { url, .. } | Channel::Slack { url } => {
                url.origin().ascii_serialization()
            }
            Channel::Email { to, .. } => to.email.to_string(),
        }
    }
}

async fn webhook(
    notifier: &Notifier,
    namespace: &Namespace,
    agent: Option<&AgentName>,
    address: &str,
    secret: Option<&str>,
) -> Result<Result<Channel, Unsendable>, DatabaseError> {
    let url = match url(address) {
        Ok(url) => url,
        Err(bad) => return Ok(Err(bad)),
    };
    let Some(name) = secret else {
        return Ok(Ok(Channel::Webhook { url, secret: None }));
    };
    let secret = key(notifier, namespace, agent, name).await?;
    Ok(secret.map(|secret| Channel::Webhook {
        url,
        secret: Some(secret),
    }))
}

fn url(address: &str) -> Result<Url, Unsendable> {
    let url = Url::parse(address).ok();
    url.filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or(Unsendable::BadUrl)
}

fn email(notifier: &Notifier, address: &str) -> Result<Channel, Unsendable> {
    let to = MailAddress::parse(address).map_err(|_| Unsendable::BadAddress)?;
    let mailer = notifier.mailer.clone().ok_or(Unsendable::NoMailServer)?;
    Ok(Channel::Email {
        to: Box::new(to.mailbox().clone()),
        mailer,
    })
}

/// A secret by name: the agent's own, its namespace's, or one that this installation has for
/// everybody (S8.1).
async fn key(
    notifier: &Notifier,
    namespace: &Namespace,
    agent: Option<&AgentName>,
    name: &str,
) -> Result<Result<Secret, Unsendable>, DatabaseError> {
    let (keys, secrets) = (
        notifier.config.secret_keys.as_ref(),
        notifier.store.secrets(),
    );
    Ok(match secrets.find(keys, namespace, agent, name).await {
        Ok(Some(value)) => Ok(Secret::new(value)),
        Ok(None) => match notifier.config.secrets.get(name) {
            None => Err(Unsendable::NoSecret(name.to_owned())),
            Some(source) => source
                .resolve()
                .map_err(|error| Unsendable::SecretAway(name.to_owned(), error)),
        },
        Err(SecretsError::Database(error)) => return Err(error),
        Err(SecretsError::NoKey) => Err(Unsendable::NoKey(name.to_owned())),
        Err(SecretsError::Seal { name, why }) => Err(Unsendable::Unreadable(name, why)),
    })
}
