//! What an append does to the conversation of its run (S1.9, S9.1).

use rusqlite::{Connection, Result, params};
use sayso_driver::{Append, Talk};
use sayso_run::{ConversationId, RunId};

use crate::journal::int;

const TALK: &str = "UPDATE conversations SET last_run = ?2, moves = moves + 1 \
    WHERE id = ?1 AND moves = ?3 AND last_run IS ?4";

const NEXT: &str = "UPDATE conversations SET last_run = ?2, moves = moves + 1 WHERE id = ?1";

const MESSAGE: &str = "INSERT INTO messages (conversation, run, seq, at, speaker, name, sender, kind, \
    text, trust, secret_read, message_key, request) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

/// Moves a conversation on to a run: whether it stood as the writer saw it. Nothing else of a start can
/// conflict. A retry may: its conversation has then been moved for nothing, and whoever else moves it
/// looks once more.
pub(super) fn take(connection: &Connection, talk: &Talk, run: &RunId) -> Result<bool> {
    let moved = connection.prepare_cached(TALK)?.execute(params![
        talk.conversation.as_str(),
        run.as_str(),
        int(talk.moves),
        talk.last.as_ref().map(RunId::as_str),
    ])?;
    Ok(moved == 1)
}

/// The conversation goes on with the run that its live one begins as it ends.
pub(super) fn go_on(
    connection: &Connection,
    conversation: &ConversationId,
    next: &RunId,
) -> Result<()> {
    let next = params![conversation.as_str(), next.as_str()];
    connection.prepare_cached(NEXT)?.execute(next).map(|_| ())
}

pub(super) fn insert_messages(connection: &Connection, append: &Append) -> Result<()> {
    for row in &append.messages {
        let said = &row.said;
        connection.prepare_cached(MESSAGE)?.execute(params![
            row.conversation.as_str(),
            row.run.as_str(),
            int(said.seq),
            said.at.micros(),
            said.by.kind(),
            said.by.name(),
            said.sender.as_ref().map(|sender| sender.as_str()),
            said.kind.as_str(),
            said.text.as_str(),
            said.trust.as_str(),
            i64::from(said.secret_read),
            said.idempotency.as_ref().map(|it| it.key.as_str()),
            said.idempotency.as_ref().map(|it| it.request.to_hex()),
        ])?;
    }
    Ok(())
}
