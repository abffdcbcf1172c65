//! `sayso.v1.ConversationService` (S9.1).

use std::mem::take;

use sayso_run::{AgentName, ConversationId, PrincipalId, RunId};
use sayso_service::error::{Coded, Kind};
use sayso_store::{
    ConversationFilter, ConversationRow, CreateError, NewConversation, PageRequest, PlacedMessage,
};
use sayso_wire::v1::conversation_service_server::ConversationService;
use sayso_wire::{code, internal, v1};
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::runs::{traceparent, within_reach};
use super::{Api, on_behalf};
use crate::auth::Session;
use crate::page::{ENTRIES, Pages, STEPS};
use crate::request::{CHECKED, Check};
use crate::{Shared, page, refuse, show};

/// The channel of conversations that begin over the API.
const PORTAL: &str = "portal";
/// The longest title, and the longest name of somebody outside, in bytes.
const NAME_BYTES: usize = 255;

#[tonic::async_trait]
impl ConversationService for Api {
    async fn create_conversation(
        &self,
        request: Request<v1::CreateConversationRequest>,
    ) -> Result<Response<v1::CreateConversationResponse>, Status> {
        let session = Session::of(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let agent = check.id::<AgentName>("agent", &asked.agent);
        line(&mut check, "title", &asked.title);
        check.key(&asked.idempotency_key);
        check.done()?;
        let agent = agent.expect(CHECKED);
        let caller = session.caller();
        let current = &self.0.current;
        let revision = current
            .get(&self.0.store, &caller.namespace, &agent)
            .await?;
        revision.ok_or_else(refuse::no_agent)?;
        let id = ConversationId::new(format!("cnv_{}", Uuid::now_v7().simple()));
        let new = NewConversation {
            id: id.expect("a UUID makes a valid id"),
            namespace: caller.namespace.clone(),
            agent,
            channel: PORTAL,
            title: asked.title,
            created_by: caller.principal.clone(),
            key: Some(asked.idempotency_key).filter(|key| !key.is_empty()),
        };
        let made = self.0.store.conversations().create(&new).await;
        let (row, _) = made.map_err(|error| match error {
            CreateError::KeyReused(_) => Coded::new(
                Kind::Precondition,
                code::REQUEST_KEY_REUSED,
                error.to_string(),
            ),
            CreateError::Database(error) => refuse::database("beginning a conversation", error),
        })?;
        Ok(Response::new(v1::CreateConversationResponse {
            conversation: Some(show::conversation(row)),
        }))
    }

    async fn get_conversation(
        &self,
        request: Request<v1::GetConversationRequest>,
    ) -> Result<Response<v1::GetConversationResponse>, Status> {
        let session = Session::of(&request);
        let id = conversation_id(&request.get_ref().conversation_id)?;
        let row = visible(&self.0, &session, &id).await?;
        Ok(Response::new(v1::GetConversationResponse {
            conversation: Some(show::conversation(row)),
        }))
    }

    async fn list_conversations(
        &self,
        request: Request<v1::ListConversationsRequest>,
    ) -> Result<Response<v1::ListConversationsResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = ENTRIES.of(take(&mut asked.page_size));
        let token = take(&mut asked.page_token);
        let pages = Pages::of(&asked);
        let after = pages.read(&token)?;
        let mut check = Check::new();
        let mut filter = ConversationFilter {
            agent: check.filter::<AgentName>("agent", &asked.agent),
            created_by: check.filter::<PrincipalId>("created_by", &asked.created_by),
        };
        check.done()?;
        if !within_reach(&session, &mut filter.created_by)? {
            return Ok(Response::new(v1::ListConversationsResponse::default()));
        }
        let namespace = &session.caller().namespace;
        let table = self.0.store.conversations();
        let filter = &filter;
        let fetch = |page: PageRequest| async move { table.list(namespace, filter, &page).await };
        let weighs = |row: &ConversationRow| row.title.len();
        let rows = page::read(size, after, fetch, |_| true, weighs).await;
        let (rows, next) = rows.map_err(|error| page::failed("listing conversations", error))?;
        Ok(Response::new(v1::ListConversationsResponse {
            conversations: rows.into_iter().map(show::conversation).collect(),
            next_page_token: pages.next(next),
        }))
    }

    async fn send_message(
        &self,
        request: Request<v1::SendMessageRequest>,
    ) -> Result<Response<v1::SendMessageResponse>, Status> {
        let session = Session::of(&request);
        let traceparent = traceparent(&request);
        let asked = request.into_inner();
        let mut check = Check::new();
        let id = check.id::<ConversationId>("conversation_id", &asked.conversation_id);
        check.text("text", &asked.text);
        line(&mut check, "outside_name", &asked.outside_name);
        check.key(&asked.idempotency_key);
        check.done()?;
        if asked.text.is_empty() {
            return Err(refuse::empty("text").into());
        }
        let row = visible(&self.0, &session, &id.expect(CHECKED)).await?;
        let current = &self.0.current;
        let revision = current
            .get(&self.0.store, &row.namespace, &row.agent)
            .await?;
        let send = internal::SendMessageRequest {
            caller: Some(on_behalf(&session)?),
            conversation_id: asked.conversation_id,
            text: asked.text,
            outside_name: asked.outside_name,
            idempotency_key: asked.idempotency_key,
            revision_id: revision.ok_or_else(refuse::no_agent)?.to_string(),
            traceparent,
        };
        let sent = self.0.scheduler().send_message(send).await;
        let sent = sent.map_err(|status| refuse::sibling("scheduler", &status))?;
        let sent = sent.into_inner();
        let message = stored(&self.0, &sent).await?;
        Ok(Response::new(v1::SendMessageResponse {
            message: Some(show::message(message)),
            started_run: sent.started_run,
            already_sent: sent.already_sent,
        }))
    }

    async fn list_messages(
        &self,
        request: Request<v1::ListMessagesRequest>,
    ) -> Result<Response<v1::ListMessagesResponse>, Status> {
        let session = Session::of(&request);
        let mut asked = request.into_inner();
        let size = STEPS.of(take(&mut asked.page_size));
        let token = take(&mut asked.page_token);
        let id = conversation_id(&asked.conversation_id)?;
        let pages = Pages::of(&asked);
        let after = pages.read_number(&token)?.unwrap_or(asked.after_position);
        visible(&self.0, &session, &id).await?;
        let table = self.0.store.conversations();
        let rows = table.messages(&id, after, size.saturating_add(1)).await;
        let mut rows = rows.map_err(|error| refuse::database("listing messages", error))?;
        let found = rows.len();
        rows.truncate(size as usize);
        let weighs = |placed: &PlacedMessage| placed.message.said.text.len();
        rows.truncate(page::fitting(&rows, weighs));
        let last = rows.last().map(|placed| placed.position);
        Ok(Response::new(v1::ListMessagesResponse {
            next_page_token: pages.next(last.filter(|_| rows.len() < found)),
            messages: rows.into_iter().map(show::message).collect(),
        }))
    }
}

/// The message as it was just written.
async fn stored(
    shared: &Shared,
    sent: &internal::SendMessageResponse,
) -> Result<PlacedMessage, Coded> {
    let run = RunId::new(&sent.run_id);
    let run = run.map_err(|bad| Coded::internal("reading the scheduler's answer", &bad))?;
    let table = shared.store.conversations();
    let found = table.message_of(&run, sent.sequence).await;
    let found = found.map_err(|error| refuse::database("reading a message", error))?;
    found.ok_or_else(refuse::no_conversation)
}

fn conversation_id(given: &str) -> Result<ConversationId, Coded> {
    let mut check = Check::new();
    let id = check.id("conversation_id", given);
    check.done()?;
    Ok(id.expect(CHECKED))
}

/// A text of one line.
fn line(check: &mut Check, field: &str, given: &str) {
    if given.len() > NAME_BYTES || given.chars().any(char::is_control) {
        check.wrong(
            field,
            format!("is at most {NAME_BYTES} bytes without control characters"),
        );
    }
}

/// A conversation that the caller may see (B43).
async fn visible(
    shared: &Shared,
    session: &Session,
    id: &ConversationId,
) -> Result<ConversationRow, Coded> {
    let found = shared
        .store
        .conversations()
        .get(&session.caller().namespace, id)
        .await;
    let found = found.map_err(|error| refuse::database("reading a conversation", error))?;
    let visible = |row: &ConversationRow| session.sees(&row.created_by);
    found.filter(visible).ok_or_else(refuse::no_conversation)
}
