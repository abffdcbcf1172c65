//! Conversations (S1.9, S9.1), as the real statements treat them.

use sayso_driver::{Append, ConversationNow, KeyedMessage};
use sayso_run::{ConversationId, PrincipalId, Said};

use super::tables::{Disk, Tables};

impl Disk {
    /// Makes a conversation.
    pub fn converse(&self, id: ConversationId, conversation: ConversationNow) {
        self.with(|tables, _| tables.conversations.insert(id, conversation));
    }
}

impl Tables {
    /// Whether the conversation that an append moves stands as its writer saw it.
    pub(super) fn talk_fits(&self, append: &Append) -> bool {
        append.talk.as_ref().is_none_or(|talk| {
            let now = self.conversations.get(&talk.conversation);
            now.is_some_and(|now| now.moves == talk.moves && now.last == talk.last)
        })
    }

    pub(super) fn change_conversations(&mut self, append: &Append) {
        let talk = append.talk.as_ref();
        let moved = talk.map(|talk| (&talk.conversation, &append.run));
        let begun = append.tree.children.iter();
        let begun = begun.filter_map(|run| Some((run.row.conversation.as_ref()?, &run.row.run)));
        for (conversation, run) in moved.into_iter().chain(begun) {
            if let Some(now) = self.conversations.get_mut(conversation) {
                now.last = Some(run.clone());
                now.moves += 1;
            }
        }
        self.messages.extend_from_slice(&append.messages);
    }

    pub(super) fn keyed(
        &self,
        conversation: &ConversationId,
        sender: &PrincipalId,
        key: &str,
    ) -> Option<KeyedMessage> {
        self.messages.iter().find_map(|row| {
            let of = row.said.idempotency.as_ref().filter(|of| of.key == key)?;
            let own = row.said.sender.as_ref() == Some(sender);
            (own && row.conversation == *conversation).then(|| KeyedMessage {
                run: row.run.clone(),
                seq: row.said.seq,
                request: of.request.to_hex(),
            })
        })
    }

    pub(super) fn newest(&self, conversation: &ConversationId, limit: usize) -> (Vec<Said>, u64) {
        let of = self
            .messages
            .iter()
            .filter(|row| row.conversation == *conversation);
        let all: Vec<Said> = of.map(|row| row.said.clone()).collect();
        let older = all.len().saturating_sub(limit);
        (all[older..].to_vec(), all.len() as u64)
    }
}
