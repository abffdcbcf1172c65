//! Watching a run over broken connections (S2.4, B52), against a server that breaks them on purpose.

#![expect(
    clippy::unwrap_used,
    reason = "a panic with the place is what a failing test should print"
)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::Stream;
use sayso_sdk::v1::run_service_server::{RunService, RunServiceServer};
use sayso_sdk::v1::watch_run_response::Event;
use sayso_sdk::{Client, Coded, Kind, RunEvent, WatchOptions, v1};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

type Messages = Vec<Result<v1::WatchRunResponse, Status>>;

/// What one call of WatchRun is answered with, and what the next GetRun says.
struct Script {
    streams: VecDeque<Messages>,
    run: v1::Run,
    asked: Vec<u64>,
}

#[derive(Clone)]
struct Breaking(Arc<Mutex<Script>>);

/// Methods that the watch does not ask, as `async_trait` writes them out: it does not see into a
/// macro.
macro_rules! not_asked {
    ($($name:ident $request:ident $response:ident),* $(,)?) => {$(
        fn $name<'a, 'f>(
            &'a self,
            _request: Request<v1::$request>,
        ) -> Pin<Box<dyn Future<Output = Result<Response<v1::$response>, Status>> + Send + 'f>>
        where
            'a: 'f,
            Self: 'f,
        {
            Box::pin(async { Err(Status::unimplemented("not asked here")) })
        }
    )*};
}

#[tonic::async_trait]
impl RunService for Breaking {
    type WatchRunStream = Pin<Box<dyn Stream<Item = Result<v1::WatchRunResponse, Status>> + Send>>;

    async fn watch_run(
        &self,
        request: Request<v1::WatchRunRequest>,
    ) -> Result<Response<Self::WatchRunStream>, Status> {
        let mut script = self.0.lock().unwrap();
        script.asked.push(request.get_ref().from_sequence);
        match script.streams.pop_front() {
            Some(messages) => Ok(Response::new(Box::pin(futures::stream::iter(messages)))),
            None => Err(stopping()),
        }
    }

    async fn get_run(
        &self,
        _request: Request<v1::GetRunRequest>,
    ) -> Result<Response<v1::GetRunResponse>, Status> {
        let run = Some(self.0.lock().unwrap().run.clone());
        Ok(Response::new(v1::GetRunResponse { run }))
    }

    async fn import_run(
        &self,
        _request: Request<tonic::Streaming<v1::ImportRunRequest>>,
    ) -> Result<Response<v1::ImportRunResponse>, Status> {
        Err(Status::unimplemented("not asked here"))
    }

    not_asked! {
        start_run StartRunRequest StartRunResponse,
        list_runs ListRunsRequest ListRunsResponse,
        list_run_steps ListRunStepsRequest ListRunStepsResponse,
        list_run_actions ListRunActionsRequest ListRunActionsResponse,
        cancel_run CancelRunRequest CancelRunResponse,
        reply_to_run ReplyToRunRequest ReplyToRunResponse,
        retry_run RetryRunRequest RetryRunResponse,
        verify_run VerifyRunRequest VerifyRunResponse,
    }
}

fn stopping() -> Status {
    Coded::new(
        Kind::Unavailable,
        "service.unavailable",
        "This server is stopping.",
    )
    .into()
}

fn message(event: Event, status: v1::RunStatus) -> Result<v1::WatchRunResponse, Status> {
    Ok(v1::WatchRunResponse {
        event: Some(event),
        run_status: status.into(),
    })
}

fn step(sequence: u64, status: v1::RunStatus) -> Result<v1::WatchRunResponse, Status> {
    let step = v1::RunStep {
        sequence,
        ..v1::RunStep::default()
    };
    message(Event::Step(step), status)
}

fn delta(text: &str) -> Result<v1::WatchRunResponse, Status> {
    let delta = v1::TextDelta {
        cycle: 1,
        text: text.to_owned(),
    };
    message(Event::Delta(delta), v1::RunStatus::Unspecified)
}

async fn serve(streams: Vec<Messages>, run: v1::Run) -> (SocketAddr, Breaking) {
    let breaking = Breaking(Arc::new(Mutex::new(Script {
        streams: streams.into(),
        run,
        asked: Vec::new(),
    })));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder()
        .add_service(RunServiceServer::new(breaking.clone()))
        .serve_with_incoming(TcpListenerStream::new(listener));
    tokio::spawn(server);
    (address, breaking)
}

/// What a watch hands on, in words.
async fn watched(address: SocketAddr, options: WatchOptions) -> (Vec<String>, v1::RunStatus) {
    let client = Client::connect(&format!("http://{address}"), "sayso_x")
        .await
        .unwrap();
    let mut watch = client.watch_run("run_1", options);
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await {
        seen.push(match event {
            Ok(RunEvent::Message(message)) => match message.event.unwrap() {
                Event::Step(step) => format!("step {}", step.sequence),
                Event::Delta(delta) => format!("text {}", delta.text),
                Event::Withdrawn(_) => "withdrawn".to_owned(),
                Event::FreshStart(_) => "fresh start".to_owned(),
            },
            Ok(RunEvent::Interrupted(_)) => "interrupted".to_owned(),
            Err(error) => format!("error {}", error.code()),
        });
    }
    (seen, watch.status())
}

/// B52: over a server that stops and a proxy that cuts, each step comes once and none is missed.
#[tokio::test]
async fn b52_a_watch_goes_on_from_the_last_step_seen() {
    use v1::RunStatus::{Completed, Running, Unspecified};
    let run = v1::Run {
        status: Running.into(),
        last_sequence: 4,
        ..v1::Run::default()
    };
    let (address, breaking) = serve(
        vec![
            vec![
                step(1, Running),
                step(2, Running),
                delta("Look"),
                Err(stopping()),
            ],
            vec![step(2, Running), step(3, Running)],
            vec![step(4, Unspecified), step(5, Completed)],
        ],
        run,
    )
    .await;
    let (seen, status) = watched(address, WatchOptions::default()).await;
    assert_eq!(
        seen,
        [
            "step 1",
            "step 2",
            "text Look",
            "interrupted",
            "step 3",
            "interrupted",
            "step 4",
            "step 5"
        ]
    );
    assert_eq!(status, Completed);
    assert_eq!(breaking.0.lock().unwrap().asked, [1, 3, 4]);
}

/// B52: a position that the run does not have is a marked fresh start, and the numbers begin again.
#[tokio::test]
async fn b52_a_fresh_start_is_handed_on() {
    let fresh = v1::FreshStart {
        asked_sequence: 9,
        last_sequence: 1,
    };
    let fresh = message(Event::FreshStart(fresh), v1::RunStatus::Unspecified);
    let failed = step(1, v1::RunStatus::Failed);
    let (address, _) = serve(vec![vec![fresh, failed]], v1::Run::default()).await;
    let options = WatchOptions {
        from: 9,
        ..WatchOptions::default()
    };
    let (seen, status) = watched(address, options).await;
    assert_eq!(seen, ["fresh start", "step 1"]);
    assert_eq!(status, v1::RunStatus::Failed);
}

/// An ended run whose last step was seen before has nothing to tell.
#[tokio::test]
async fn a_watch_from_beyond_the_end_ends_at_once() {
    let run = v1::Run {
        status: v1::RunStatus::Cancelled.into(),
        last_sequence: 7,
        ..v1::Run::default()
    };
    let (address, _) = serve(vec![Vec::new()], run).await;
    let options = WatchOptions {
        from: 8,
        ..WatchOptions::default()
    };
    let (seen, status) = watched(address, options).await;
    assert_eq!(seen, Vec::<String>::new());
    assert_eq!(status, v1::RunStatus::Cancelled);
}

/// Patience ends: the last reason is the error.
#[tokio::test]
async fn a_server_that_stays_away_is_given_up() {
    let (address, breaking) = serve(Vec::new(), v1::Run::default()).await;
    let options = WatchOptions {
        patience: Duration::from_millis(250),
        ..WatchOptions::default()
    };
    let (seen, _) = watched(address, options).await;
    assert_eq!(seen.last().unwrap(), "error service.unavailable");
    assert!(seen.len() > 1, "it was tried again: {seen:?}");
    assert_eq!(breaking.0.lock().unwrap().asked.len(), seen.len());
}
