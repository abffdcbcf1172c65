//! `sayso chat`: talks with an agent, one message or line by line (S9.1).
//!
//! After a message the run that has it is watched until it waits for a person or ends. Answers are read
//! from the conversation, from the last place that was shown on, so that what came meanwhile is shown,
//! too, and nothing twice.

use std::io;

use anyhow::Context as _;
use sayso_run::Step;
use sayso_sdk::v1::watch_run_response::Event;
use sayso_sdk::{Client, RunEvent, WatchOptions, v1};

use super::{Context, conversations, input};
use crate::args::ChatArgs;
use crate::outcome::{Exit, Failure};
use crate::output::{step, visible};

pub(crate) async fn run(context: &Context, args: ChatArgs) -> Result<Exit, Failure> {
    let message = args.message.as_deref().map(input::text).transpose()?;
    let client = context.connect().await?;
    let mut chat = Chat::open(context, &client, &args).await?;
    if let Some(text) = message {
        return chat.say(text, args.key.unwrap_or_default()).await;
    }
    let mut exit = Exit::Done;
    while let Some(line) = next_line().await? {
        if !line.trim().is_empty() {
            exit = chat.say(line, String::new()).await?;
        }
    }
    Ok(exit)
}

/// A line of standard input without its end; none at the end of input.
async fn next_line() -> Result<Option<String>, Failure> {
    let read = tokio::task::spawn_blocking(|| {
        let mut line = String::new();
        let bytes = io::stdin().read_line(&mut line)?;
        Ok::<_, io::Error>((bytes > 0).then_some(line))
    });
    let line = read.await.context("reading a line")?;
    let line = line.context("standard input cannot be read")?;
    Ok(line.map(|line| line.trim_end_matches(['\r', '\n']).to_owned()))
}

struct Chat<'a> {
    context: &'a Context,
    client: &'a Client,
    conversation: String,
    outside: String,
    /// The place of the last message that was shown.
    shown: u64,
}

/// Why a run is not followed any further.
enum Rest {
    /// It waits for a person, or has ended.
    Waits,
    /// The conversation's next run has what it could not take in.
    GoesOnIn(String),
}

impl<'a> Chat<'a> {
    async fn open(
        context: &'a Context,
        client: &'a Client,
        args: &ChatArgs,
    ) -> Result<Self, Failure> {
        let (conversation, shown) = match &args.conversation {
            Some(id) => {
                let known = client.get_conversation(id).await?;
                if known.agent != args.agent {
                    return Err(Failure::usage(
                        format!("the conversation {id} is one with {}", known.agent),
                        format!("sayso chat {} --conversation {id}", known.agent),
                    ));
                }
                let said = conversations::after(client, id, 0).await?;
                (known, said.last().map_or(0, |message| message.position))
            }
            None => {
                let request = v1::CreateConversationRequest {
                    agent: args.agent.clone(),
                    title: String::new(),
                    idempotency_key: args.key.clone().unwrap_or_default(),
                };
                (client.create_conversation(request).await?, 0)
            }
        };
        if !context.output.json {
            let id = visible::line(&conversation.id);
            context.output.aside(format!("conversation {id}"))?;
        }
        Ok(Self {
            context,
            client,
            conversation: conversation.id,
            outside: args.outside.clone().unwrap_or_default(),
            shown,
        })
    }

    /// Says something, and shows what comes of it until the run waits or ends.
    async fn say(&mut self, text: String, idempotency_key: String) -> Result<Exit, Failure> {
        let request = v1::SendMessageRequest {
            conversation_id: self.conversation.clone(),
            text,
            outside_name: self.outside.clone(),
            idempotency_key,
        };
        let sent = self.client.send_message(request).await?;
        let message = sent
            .message
            .ok_or(sayso_sdk::Error::Incomplete("message"))?;
        let (mut run, mut from) = (message.run_id, message.sequence);
        while let Rest::GoesOnIn(next) = self.follow(&run, from).await? {
            (run, from) = (next, 1);
        }
        let ended = self.client.get_run(&run).await?;
        self.tell(&ended)
    }

    async fn follow(&mut self, run: &str, from: u64) -> Result<Rest, Failure> {
        let options = WatchOptions {
            from: from + 1,
            steps_only: true,
            ..WatchOptions::default()
        };
        let mut watch = self.client.watch_run(run, options);
        while let Some(event) = watch.next().await {
            let RunEvent::Message(message) = event? else {
                continue;
            };
            let Some(Event::Step(last)) = &message.event else {
                continue;
            };
            match step::decode(last) {
                Some(Step::AssistantMessage(_) | Step::UserMessage(_)) => self.catch_up().await?,
                Some(Step::Continued(next)) => {
                    self.catch_up().await?;
                    return Ok(Rest::GoesOnIn(next.run.to_string()));
                }
                Some(
                    Step::AwaitingInput(_)
                    | Step::AwaitingApproval(_)
                    | Step::Completion(_)
                    | Step::Failed(_)
                    | Step::Cancelled(_),
                ) => break,
                _ => {}
            }
        }
        self.catch_up().await?;
        Ok(Rest::Waits)
    }

    /// Shows what was said since, but not one's own words again.
    async fn catch_up(&mut self) -> Result<(), Failure> {
        let new = conversations::after(self.client, &self.conversation, self.shown).await?;
        for message in &new {
            self.shown = message.position;
            if message.speaker() == v1::Speaker::Agent || self.context.output.json {
                conversations::say(&self.context.output, message)?;
            }
        }
        Ok(())
    }

    /// Says how the run stands, where that is not plain from what was said.
    fn tell(&self, run: &v1::Run) -> Result<Exit, Failure> {
        let output = &self.context.output;
        if output.json {
            output.message_line(run)?;
        }
        let id = visible::line(&run.id);
        let told = match run.status() {
            v1::RunStatus::AwaitingApproval => Some(format!(
                "a call waits for a person: sayso approvals --run {id}; you can go on talking meanwhile"
            )),
            v1::RunStatus::Failed => {
                let why = run.failure.as_ref().map(|failure| failure.message.clone());
                let why = why.unwrap_or_default();
                Some(format!("the run {id} has failed: {}", visible::line(&why)))
            }
            v1::RunStatus::Cancelled => Some(format!("the run {id} was cancelled")),
            v1::RunStatus::Unspecified
            | v1::RunStatus::Pending
            | v1::RunStatus::Running
            | v1::RunStatus::AwaitingInput
            | v1::RunStatus::Completed => None,
        };
        if let Some(told) = told.filter(|_| !output.json) {
            output.aside(told)?;
        }
        Ok(match run.status() {
            v1::RunStatus::Failed | v1::RunStatus::Cancelled => Exit::RunLost,
            _ => Exit::Done,
        })
    }
}
