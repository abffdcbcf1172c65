//! `sayso events`: what happens (S8.4).

use std::time::Duration;

use sayso_sdk::{Error, v1};
use serde_json::{Map, Value, json};

use super::Context;
use crate::args::EventsCommand;
use crate::outcome::{Exit, Failure};
use crate::output::{time, visible};

/// How long a broken connection is left alone.
const AGAIN_AFTER: Duration = Duration::from_millis(500);

pub(crate) async fn run(context: &Context, command: EventsCommand) -> Result<Exit, Failure> {
    let EventsCommand::Tail {
        agent,
        types,
        count,
    } = command;
    let client = context.connect().await?;
    let request = v1::WatchEventsRequest {
        agent: agent.unwrap_or_default(),
        types,
    };
    let mut left = count.unwrap_or(u64::MAX);
    let mut watch = client.watch_events(request.clone()).await?;
    context.output.aside("listening")?;
    while left > 0 {
        let why = match watch.next().await {
            Ok(Some(sent)) => {
                if sent.gap {
                    context.output.aside("events may be missing here")?;
                }
                for event in sent.events {
                    if left > 0 {
                        left -= 1;
                        print(context, &event)?;
                    }
                }
                continue;
            }
            Ok(None) => None,
            Err(why) if passes(&why) => Some(why),
            Err(why) => return Err(why.into()),
        };
        let why = why.map_or_else(String::new, |why| format!(" ({why})"));
        let why = visible::line(&why);
        context.output.aside(format!(
            "the connection is lost; events may be missing here{why}"
        ))?;
        watch = loop {
            tokio::time::sleep(AGAIN_AFTER).await;
            match client.watch_events(request.clone()).await {
                Ok(watch) => break watch,
                Err(why) if passes(&why) => {}
                Err(why) => return Err(why.into()),
            }
        };
    }
    Ok(Exit::Done)
}

/// Whether trying again may help.
fn passes(why: &Error) -> bool {
    why.is_unreachable() || why.code() == "service.unavailable"
}

fn print(context: &Context, event: &v1::Event) -> Result<(), Failure> {
    let output = &context.output;
    if output.json {
        output.line(cloud_event(event).to_string())?;
        return Ok(());
    }
    output.line(format!(
        "{}  {:<40}  {}  {}",
        time::second(event.time.as_ref()),
        visible::line(&event.r#type),
        visible::line(&event.id),
        visible::line(event.source.rsplit('/').next().unwrap_or_default())
    ))?;
    Ok(())
}

/// The event in the JSON format of CloudEvents.
fn cloud_event(event: &v1::Event) -> Value {
    let mut all = Map::new();
    let mut set = |name: &str, value: Value| {
        all.insert(name.to_owned(), value);
    };
    set("specversion", "1.0".into());
    set("id", event.id.as_str().into());
    set("type", event.r#type.as_str().into());
    set("source", event.source.as_str().into());
    set("subject", event.subject.as_str().into());
    if let Some(time) = &event.time {
        set("time", time.to_string().into());
    }
    set("sequence", format!("{:020}", event.sequence).into());
    if !event.approval_id.is_empty() {
        set("approval", event.approval_id.as_str().into());
    }
    if event.data_ref.is_empty() {
        set("datacontenttype", "application/json".into());
        let data = serde_json::from_str(&event.data_json);
        set("data", data.unwrap_or_else(|_| json!(event.data_json)));
    } else {
        set("dataref", event.data_ref.as_str().into());
    }
    Value::Object(all)
}
