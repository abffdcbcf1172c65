use sayso_run::{SaidKind, Speaker};
use sayso_store::{ConversationRow, PlacedMessage};
use sayso_wire::{timestamp, v1};

/// A conversation as the API shows it.
pub(crate) fn conversation(row: ConversationRow) -> v1::Conversation {
    let (run, status) = match row.last_run {
        Some((run, status)) => (run.to_string(), v1::RunStatus::from(status)),
        None => (String::new(), v1::RunStatus::Unspecified),
    };
    v1::Conversation {
        id: row.id.into(),
        namespace: row.namespace.into(),
        agent: row.agent.into(),
        channel: row.channel,
        title: row.title,
        created_by: row.created_by.into(),
        created_at: Some(timestamp(row.created_at)),
        last_run_id: run,
        last_run_status: status.into(),
    }
}

/// A message as the API shows it.
pub(crate) fn message(placed: PlacedMessage) -> v1::Message {
    let (row, said) = (placed.message.clone(), placed.message.said);
    let speaker = match &said.by {
        Speaker::Person(_) => v1::Speaker::Person,
        Speaker::Agent(_) => v1::Speaker::Agent,
        Speaker::Outside(_) => v1::Speaker::Outside,
    };
    v1::Message {
        conversation_id: row.conversation.into(),
        position: placed.position,
        run_id: row.run.into(),
        sequence: said.seq,
        at: Some(timestamp(said.at)),
        speaker: speaker.into(),
        name: said.by.name().to_owned(),
        sender: said.sender.map(String::from).unwrap_or_default(),
        question: said.kind == SaidKind::Question,
        text: said.text,
        trust: v1::Trust::from(said.trust).into(),
    }
}
