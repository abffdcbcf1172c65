use sayso_wire::v1;

use crate::{Client, Error};

/// Conversations. Scopes and codes of refusals are those of `ConversationService`.
impl Client {
    /// Begins a conversation with an agent.
    ///
    /// # Errors
    ///
    /// `agent.not_found`, `request.invalid`, `request.key_reused`.
    pub async fn create_conversation(
        &self,
        request: v1::CreateConversationRequest,
    ) -> Result<v1::Conversation, Error> {
        let answer = self.talks().create_conversation(request).await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        let made = answer.into_inner().conversation;
        made.ok_or(Error::Incomplete("conversation"))
    }

    /// One conversation.
    ///
    /// # Errors
    ///
    /// `conversation.not_found`.
    pub async fn get_conversation(&self, conversation: &str) -> Result<v1::Conversation, Error> {
        let request = v1::GetConversationRequest {
            conversation_id: conversation.to_owned(),
        };
        let answer = self.talks().get_conversation(request).await;
        let answer = answer.map_err(|status| self.failed(&status))?;
        let found = answer.into_inner().conversation;
        found.ok_or(Error::Incomplete("conversation"))
    }

    /// Lists conversations, newest first.
    ///
    /// # Errors
    ///
    /// `page.malformed`, `request.invalid`.
    pub async fn list_conversations(
        &self,
        request: v1::ListConversationsRequest,
    ) -> Result<v1::ListConversationsResponse, Error> {
        let answer = self.talks().list_conversations(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Says something in a conversation. The answer names the run that has the message.
    ///
    /// # Errors
    ///
    /// `conversation.not_found`, `request.invalid`, `request.key_reused`.
    pub async fn send_message(
        &self,
        request: v1::SendMessageRequest,
    ) -> Result<v1::SendMessageResponse, Error> {
        let answer = self.talks().send_message(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }

    /// Lists the messages of a conversation, oldest first.
    ///
    /// # Errors
    ///
    /// `conversation.not_found`, `page.malformed`.
    pub async fn list_messages(
        &self,
        request: v1::ListMessagesRequest,
    ) -> Result<v1::ListMessagesResponse, Error> {
        let answer = self.talks().list_messages(request).await;
        Ok(answer.map_err(|status| self.failed(&status))?.into_inner())
    }
}
