//! Messages of conversations (S1.9, S9.1): each is taken by the live run of its conversation, or begins
//! the next one; and a conversation has one live run at most.
//!
//! What may happen between a look and the append, and why it does no harm:
//!
//! | meanwhile | then |
//! |---|---|
//! | the live run ends | it refuses the message, which begins the next run |
//! | another message begins a run | the conversation does not stand as it did: look again, and the message goes to that run |
//! | the last run is retried | the same |
//! | the same message is taken under its key | the key is looked for after the run was seen to have ended, so it is found |
//!
//! The key of a message is looked for *after* the last run was loaded. A run that was seen to have ended
//! takes no more messages, so what is not there then never comes to be there except by a start, which
//! moves the conversation.

use sayso_run::{
    ChainKey, Conversation, ConversationId, Digest, IdempotencyKey, Input, Namespace, PrincipalId,
    Refusal, RevisionId, RunId, RunState, Said, Saying, Source, Speaker, Start, Step, TaskId,
    Timestamp, TriggerReceived, Trust, limits, remembered,
};

use crate::journal::{AppendError, ConversationNow, Conversations, LoadError, Talk};
use crate::world::Herald;
use crate::write::{Decided, WriteError, Wrote, begin, write, write_in_talk};

/// How often a conversation is looked at again: each time somebody else has moved it.
const MAX_LOOKS: u32 = 64;

/// A message as it was sent.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// The conversation.
    pub conversation: ConversationId,
    /// The sender's namespace.
    pub namespace: Namespace,
    /// Who sends it.
    pub sender: PrincipalId,
    /// Whether they may write into conversations that others began.
    pub reaches_all: bool,
    /// How far they are trusted.
    pub trust: Trust,
    /// Who wrote it, if somebody outside did: then it is untrusted.
    pub outside: Option<String>,
    /// The text.
    pub text: String,
    /// The key of the request.
    pub key: Option<String>,
    /// The ids of the run that it begins, if it begins one.
    pub ids: (RunId, TaskId),
    /// That run's revision: the agent's own now.
    pub revision: RevisionId,
    /// W3C trace context.
    pub traceparent: Option<String>,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The run that has it.
    pub run: RunId,
    /// Sequence number of its step.
    pub seq: u64,
    /// Whether the message began that run.
    pub began: bool,
    /// Whether an earlier request with the same key had sent it.
    pub repeated: bool,
}

/// Takes a message into its conversation. A conversation that is not there, of another namespace or out
/// of reach, is [`Refusal::UnknownTarget`] of its id.
///
/// # Errors
///
/// As [`write()`].
pub async fn converse<J: Conversations, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    new: NewMessage,
) -> Result<Heard, WriteError> {
    let mut last_run = new.ids.0.clone();
    for _ in 0..MAX_LOOKS {
        let now = look(journal, &new).await?;
        let last = match &now.last {
            Some(run) => Some(journal.load(run).await?.ok_or_else(|| gone(run))?.state),
            None => None,
        };
        if let Some(heard) = taken_before(journal, &new).await? {
            return Ok(heard);
        }
        #[cfg(feature = "hooks")]
        crate::hooks::window("converse.looked").await;
        let taken = match &last {
            Some(live) if !live.status().is_terminal() => {
                last_run = live.run().clone();
                queue(journal, herald, key, &new, live.run()).await
            }
            _ => open(journal, herald, key, &new, (&now, last.as_ref())).await,
        };
        match taken {
            Ok(Some(heard)) => return Ok(heard),
            Ok(None)
            | Err(
                WriteError::Refused(Refusal::Terminal(_))
                | WriteError::Append(AppendError::Conflict(_)),
            ) => {}
            Err(error) => return Err(error),
        }
    }
    Err(WriteError::Append(AppendError::Conflict(last_run)))
}

/// Retries a failed run by hand (S1.5). One of a conversation is retried as long as the conversation has
/// not gone on without it.
///
/// # Errors
///
/// As [`write()`]; [`Refusal::MovedOn`] if the conversation has gone on.
pub async fn retry<J: Conversations, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    run: &RunId,
    decide: impl Fn(&RunState, Timestamp) -> Result<Decided, Refusal> + Send + Sync,
) -> Result<Wrote, WriteError> {
    let loaded = journal
        .load(run)
        .await?
        .ok_or_else(|| WriteError::NotFound(run.clone()))?;
    let Some(conversation) = &loaded.state.trigger().conversation else {
        return write(journal, herald, key, run, decide).await;
    };
    for _ in 0..MAX_LOOKS {
        let now = journal.conversation(&conversation.id).await?;
        let now = now.ok_or_else(|| unknown(&conversation.id))?;
        if now.last.as_ref() != Some(run) {
            // Who may not know of the run is not told of its conversation.
            decide(&loaded.state, journal.now())?;
            return Err(Refusal::MovedOn(conversation.id.clone()).into());
        }
        #[cfg(feature = "hooks")]
        crate::hooks::window("converse.before_retry").await;
        let talk = talk(conversation.id.clone(), &now);
        match write_in_talk(journal, herald, key, run, &talk, &decide).await {
            Err(WriteError::Append(AppendError::Conflict(_))) => {}
            done => return done,
        }
    }
    Err(WriteError::Append(AppendError::Conflict(run.clone())))
}

async fn look<J: Conversations>(
    journal: &J,
    new: &NewMessage,
) -> Result<ConversationNow, WriteError> {
    let now = journal.conversation(&new.conversation).await?;
    let reached = |now: &ConversationNow| {
        now.namespace == new.namespace && (new.reaches_all || now.created_by == new.sender)
    };
    now.filter(reached)
        .ok_or_else(|| unknown(&new.conversation))
}

/// What became of the message when it was sent before.
async fn taken_before<J: Conversations>(
    journal: &J,
    new: &NewMessage,
) -> Result<Option<Heard>, WriteError> {
    let Some(key) = new.idempotency() else {
        return Ok(None);
    };
    let looking = journal.keyed_message(&new.conversation, &new.sender, &key.key);
    match looking.await? {
        None => Ok(None),
        Some(found) if found.request == key.request.to_hex() => Ok(Some(Heard {
            began: found.seq == 1,
            run: found.run,
            seq: found.seq,
            repeated: true,
        })),
        Some(_) => Err(Refusal::KeyReused(key.key).into()),
    }
}

/// Gives the message to the live run; `None` if that has it already.
async fn queue<J: Conversations, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    new: &NewMessage,
    run: &RunId,
) -> Result<Option<Heard>, WriteError> {
    let decide = |state: &RunState, now: Timestamp| {
        let saying = Saying {
            by: new.sender.clone(),
            text: new.text.clone(),
            trust: new.trust(),
            outside: new.outside.clone(),
            idempotency: new.idempotency(),
        };
        Ok(Decided {
            steps: state.decide(Input::Say(saying), now)?,
            not_after: None,
        })
    };
    let wrote = write(journal, herald, key, run, decide).await?;
    let mut steps = wrote.steps.iter().map(|written| &written.recorded);
    let message = steps.find(|recorded| matches!(recorded.step, Step::UserMessage(_)));
    Ok(message.map(|recorded| Heard {
        run: run.clone(),
        seq: recorded.seq,
        began: false,
        repeated: false,
    }))
}

/// Begins the conversation's next run with the message, after the last one, which has ended.
async fn open<J: Conversations, H: Herald>(
    journal: &J,
    herald: &H,
    key: &ChainKey,
    new: &NewMessage,
    (now, last): (&ConversationNow, Option<&RunState>),
) -> Result<Option<Heard>, WriteError> {
    let (said, in_all) = journal
        .said(&new.conversation, limits::CONTEXT_MESSAGES)
        .await?;
    let start = Start {
        run: new.ids.0.clone(),
        trigger: new.trigger(now, turn_after(last), said, in_all),
    };
    #[cfg(feature = "hooks")]
    crate::hooks::window("converse.before_start").await;
    let talk = talk(new.conversation.clone(), now);
    let begun = begin(journal, herald, key, start, (None, Some(talk))).await?;
    Ok(Some(Heard {
        run: begun.run,
        seq: 1,
        began: true,
        repeated: false,
    }))
}

fn turn_after(last: Option<&RunState>) -> u64 {
    let last = last.and_then(|state| state.trigger().conversation.as_ref());
    last.map_or(1, |conversation| conversation.turn + 1)
}

fn talk(conversation: ConversationId, now: &ConversationNow) -> Talk {
    Talk {
        conversation,
        last: now.last.clone(),
        moves: now.moves,
    }
}

fn unknown(conversation: &ConversationId) -> WriteError {
    Refusal::UnknownTarget(conversation.to_string()).into()
}

fn gone(run: &RunId) -> WriteError {
    LoadError::BadRow {
        run: run.clone(),
        why: "its conversation names it, and it is not there".to_owned(),
    }
    .into()
}

impl NewMessage {
    fn trust(&self) -> Trust {
        match self.outside {
            Some(_) => Trust::Untrusted,
            None => self.trust,
        }
    }

    fn idempotency(&self) -> Option<IdempotencyKey> {
        let key = self.key.clone()?;
        let request = Digest::of_parts(&[
            b"converse",
            self.conversation.as_str().as_bytes(),
            self.outside.as_deref().unwrap_or_default().as_bytes(),
            self.text.as_bytes(),
        ]);
        Some(IdempotencyKey { key, request })
    }

    fn trigger(
        &self,
        now: &ConversationNow,
        turn: u64,
        said: Vec<Said>,
        in_all: u64,
    ) -> TriggerReceived {
        let secret_read = said.iter().any(|said| said.secret_read);
        let older = in_all.saturating_sub(said.len() as u64);
        let said = said
            .into_iter()
            .map(|said| (said.by, said.text, said.trust));
        let (earlier, left_out) = remembered(said, older);
        let conversation = Conversation {
            id: self.conversation.clone(),
            turn,
            by: match &self.outside {
                Some(name) => Speaker::Outside(name.clone()),
                None => Speaker::Person(self.sender.clone()),
            },
            trust: self.trust(),
            earlier,
            left_out,
            secret_read,
            carried: false,
        };
        TriggerReceived {
            task: self.ids.1.clone(),
            namespace: self.namespace.clone(),
            agent: now.agent.clone(),
            revision: self.revision.clone(),
            source: Source::Chat,
            input: self.text.clone(),
            principal: self.sender.clone(),
            trust: conversation.trust(),
            trigger: None,
            tick: None,
            idempotency: self.idempotency(),
            traceparent: self.traceparent.clone(),
            parent: None,
            conversation: Some(Box::new(conversation)),
        }
    }
}
