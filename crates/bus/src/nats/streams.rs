//! The streams and the consumer: made at start, compared at every connection, made again when lost.
//!
//! What is there and differs is changed where the broker can; properties that it cannot change, and
//! changes that it refuses, are reported with the stream and the field, since a person has to
//! decide what becomes of the messages. What an operator set beyond our needs stays as it is.

use std::time::Duration;

use async_nats::jetstream::{
    Context, Error as Answer, ErrorCode,
    consumer::{AckPolicy, pull},
    context::{CreateStreamError, CreateStreamErrorKind, GetStreamErrorKind},
    stream::{Config, ConsumerErrorKind, DiscardPolicy, RetentionPolicy, StorageType},
};
use tokio::{sync::Mutex, time::Instant};

use super::NatsConfig;
use crate::{BusError, subject};

/// The stream of wake-ups.
pub const WORK_STREAM: &str = "SAYSO_WORK";
/// The stream of events.
pub const EVENTS_STREAM: &str = "SAYSO_EVENTS";
/// The durable consumer that all pullers share.
pub const CONSUMER: &str = "executors";

const WEEK: Duration = Duration::from_secs(7 * 24 * 60 * 60);
const DUPLICATE_WINDOW: Duration = Duration::from_secs(10);

/// Keeps streams and consumer as they have to be.
pub(super) struct Streams {
    context: Context,
    ack_wait: Duration,
    replicas: Option<usize>,
    /// The last look that is over; held while one is under way.
    last: Mutex<Option<Look>>,
}

struct Look {
    started: Instant,
    failure: Option<String>,
}

impl Streams {
    pub(super) fn new(context: Context, config: &NatsConfig) -> Self {
        Self {
            context,
            ack_wait: config.ack_wait,
            replicas: config.replicas,
            last: Mutex::new(None),
        }
    }

    /// Looks, and mends what is missing. Many callers at once share a look: one that began after
    /// the caller asked is as good as its own.
    pub(super) async fn heal(&self) -> Result<(), BusError> {
        let asked = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(look) = last.as_ref().filter(|look| look.started >= asked) {
            return match &look.failure {
                None => Ok(()),
                Some(failure) => Err(BusError::Prepare {
                    what: "the streams",
                    source: failure.clone().into(),
                }),
            };
        }
        let started = Instant::now();
        let outcome = self.ensure().await;
        *last = Some(Look {
            started,
            failure: outcome.as_ref().err().map(BusError::in_full),
        });
        outcome
    }

    async fn ensure(&self) -> Result<(), BusError> {
        self.check_version()?;
        self.ensure_stream(WORK_STREAM, &self.work()).await?;
        self.ensure_stream(EVENTS_STREAM, &self.events()).await?;
        self.ensure_consumer().await
    }

    fn check_version(&self) -> Result<(), BusError> {
        let client = self.context.client();
        let Some(info) = client.try_server_info() else {
            return Err(BusError::Disconnected);
        };
        if client.is_server_compatible(2, 10, 0) {
            return Ok(());
        }
        Err(BusError::Setting {
            setting: "the broker",
            reason: format!(
                "it is nats-server {}, needed is 2.10 or newer",
                info.version
            ),
        })
    }

    fn work(&self) -> Config {
        Config {
            name: WORK_STREAM.to_owned(),
            subjects: vec![format!("{}.>", subject::WORK)],
            retention: RetentionPolicy::WorkQueue,
            storage: StorageType::File,
            max_messages_per_subject: 1,
            discard: DiscardPolicy::Old,
            num_replicas: self.replicas.unwrap_or(1),
            ..Config::default()
        }
    }

    fn events(&self) -> Config {
        Config {
            name: EVENTS_STREAM.to_owned(),
            subjects: vec![format!("{}.>", subject::EVENTS)],
            retention: RetentionPolicy::Limits,
            storage: StorageType::File,
            discard: DiscardPolicy::Old,
            max_age: WEEK,
            duplicate_window: DUPLICATE_WINDOW,
            num_replicas: self.replicas.unwrap_or(1),
            ..Config::default()
        }
    }

    async fn ensure_stream(&self, name: &'static str, wanted: &Config) -> Result<(), BusError> {
        let found = match self.context.get_stream(name).await {
            Ok(stream) => stream.cached_info().config.clone(),
            Err(error) => match error.kind() {
                GetStreamErrorKind::JetStream(answer)
                    if answer.error_code() == ErrorCode::STREAM_NOT_FOUND =>
                {
                    return self.create_stream(name, wanted).await;
                }
                GetStreamErrorKind::JetStream(answer) => return Err(judge(name, &answer)),
                _ => return Err(unprepared(name, error)),
            },
        };
        self.adjust_stream(name, found, wanted).await
    }

    async fn create_stream(&self, name: &'static str, wanted: &Config) -> Result<(), BusError> {
        match self.context.create_stream(wanted).await {
            Ok(_) => {
                tracing::info!(stream = name, "created");
                Ok(())
            }
            // Another process was faster with other settings: the next look compares.
            Err(error) => Err(stream_error(name, error)),
        }
    }

    async fn adjust_stream(
        &self,
        name: &'static str,
        found: Config,
        wanted: &Config,
    ) -> Result<(), BusError> {
        refuse_fixed(name, &found, wanted)?;
        let (adjusted, changes) = merge(found, wanted, self.replicas);
        if changes.is_empty() {
            return Ok(());
        }
        match self.context.update_stream(&adjusted).await {
            Ok(_) => {
                tracing::info!(stream = name, ?changes, "updated");
                Ok(())
            }
            Err(error) => match error.kind() {
                CreateStreamErrorKind::JetStream(answer) if is_final(&answer) => {
                    let part = |pick: fn(&Change) -> &str| {
                        changes.iter().map(pick).collect::<Vec<_>>().join(", ")
                    };
                    Err(BusError::StreamMismatch {
                        stream: name,
                        field: part(|change| change.field),
                        found: part(|change| &change.found),
                        wanted: part(|change| &change.wanted),
                    })
                }
                _ => Err(stream_error(name, error)),
            },
        }
    }

    async fn ensure_consumer(&self) -> Result<(), BusError> {
        let wanted = pull::Config {
            durable_name: Some(CONSUMER.to_owned()),
            ack_policy: AckPolicy::Explicit,
            ack_wait: self.ack_wait,
            max_deliver: -1,
            // Each puller limits itself; one limit for all of them would let one starve the rest.
            max_ack_pending: -1,
            filter_subject: format!("{}.>", subject::WORK),
            ..pull::Config::default()
        };
        let created = self
            .context
            .create_consumer_on_stream(wanted, WORK_STREAM)
            .await;
        created.map(drop).map_err(|error| match error.kind() {
            ConsumerErrorKind::JetStream(answer) => judge("consumer executors", &answer),
            _ => unprepared("consumer executors", error),
        })
    }
}

#[derive(Debug)]
struct Change {
    field: &'static str,
    found: String,
    wanted: String,
}

/// Retention and storage are settled when a stream is made.
fn refuse_fixed(stream: &'static str, found: &Config, wanted: &Config) -> Result<(), BusError> {
    let mismatch = |field: &str, found: String, wanted: String| {
        Err(BusError::StreamMismatch {
            stream,
            field: field.to_owned(),
            found,
            wanted,
        })
    };
    if found.retention != wanted.retention {
        let (found, wanted) = (found.retention, wanted.retention);
        return mismatch("retention", format!("{found:?}"), format!("{wanted:?}"));
    }
    if found.storage != wanted.storage {
        let (found, wanted) = (found.storage, wanted.storage);
        return mismatch("storage", format!("{found:?}"), format!("{wanted:?}"));
    }
    Ok(())
}

/// What is there with our needs put in, and which fields that changes.
fn merge(mut found: Config, wanted: &Config, replicas: Option<usize>) -> (Config, Vec<Change>) {
    fn set<T: PartialEq + Clone + std::fmt::Debug>(
        changes: &mut Vec<Change>,
        field: &'static str,
        found: &mut T,
        wanted: &T,
    ) {
        if found != wanted {
            changes.push(Change {
                field,
                found: format!("{found:?}"),
                wanted: format!("{wanted:?}"),
            });
            found.clone_from(wanted);
        }
    }
    // The broker says -1 where we leave a limit out.
    let mut wanted = wanted.clone();
    if wanted.max_messages_per_subject == 0 {
        wanted.max_messages_per_subject = found.max_messages_per_subject;
    }
    if wanted.duplicate_window.is_zero() {
        wanted.duplicate_window = found.duplicate_window;
    }
    if replicas.is_none() {
        wanted.num_replicas = found.num_replicas;
    }
    let mut changes = Vec::new();
    let list = &mut changes;
    set(list, "subjects", &mut found.subjects, &wanted.subjects);
    set(
        list,
        "max_msgs_per_subject",
        &mut found.max_messages_per_subject,
        &wanted.max_messages_per_subject,
    );
    set(list, "discard", &mut found.discard, &wanted.discard);
    set(list, "max_age", &mut found.max_age, &wanted.max_age);
    set(
        list,
        "duplicate_window",
        &mut found.duplicate_window,
        &wanted.duplicate_window,
    );
    set(
        list,
        "replicas",
        &mut found.num_replicas,
        &wanted.num_replicas,
    );
    (found, changes)
}

/// Whether asking again cannot help.
fn is_final(answer: &Answer) -> bool {
    let code = answer.error_code();
    answer.code() == 400
        || code == ErrorCode::JETSTREAM_NOT_ENABLED
        || code == ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT
        // Answered as the server's fault, but it is a setting.
        || code == ErrorCode::STREAM_REPLICAS_NOT_SUPPORTED
}

fn judge(what: &'static str, answer: &Answer) -> BusError {
    if is_final(answer) {
        BusError::Setting {
            setting: what,
            reason: answer.to_string(),
        }
    } else {
        unprepared(what, answer.clone())
    }
}

fn stream_error(name: &'static str, error: CreateStreamError) -> BusError {
    match error.kind() {
        CreateStreamErrorKind::JetStream(answer)
            if answer.error_code() != ErrorCode::STREAM_NAME_EXIST =>
        {
            judge(name, &answer)
        }
        _ => unprepared(name, error),
    }
}

fn unprepared(
    what: &'static str,
    source: impl std::error::Error + Send + Sync + 'static,
) -> BusError {
    BusError::Prepare {
        what,
        source: source.into(),
    }
}
