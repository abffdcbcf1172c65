use sayso_run::{
    Actor, CallDigest, CallId, ChainKey, Digest, Head, Timestamp, ToolCall, UserMessage,
};

use super::*;
use crate::v1;

struct Fixture {
    namespace: Namespace,
    agent: AgentName,
    run: RunId,
    key: ChainKey,
}

impl Fixture {
    fn new() -> Self {
        Self {
            namespace: Namespace::new("shop").unwrap(),
            agent: AgentName::new("support").unwrap(),
            run: RunId::new("run_1").unwrap(),
            key: ChainKey::new("key \"1\"", [1; 32]),
        }
    }

    fn origin(&self) -> Origin<'_> {
        Origin {
            namespace: &self.namespace,
            agent: &self.agent,
            run: &self.run,
        }
    }

    fn record(&self, step: Step) -> (Recorded<Step>, String) {
        let head = Head {
            seq: 6,
            ..Head::START
        };
        let at = Timestamp::from_micros(1_709_210_096_000_007);
        Recorded::chain(
            &head,
            &self.run,
            at,
            Actor::Agent(self.agent.clone()),
            step,
            &self.key,
        )
    }

    fn call(&self) -> (CallId, ApprovalId, CallDigest) {
        let call = CallId::of(2, 1);
        let digest = CallDigest::of(&self.run, &call, "shop.refund", &Digest::of(b"d"), "{}");
        (call.clone(), ApprovalId::of(&self.run, &call), digest)
    }

    fn denied(&self, cause: DenyCause, held: bool) -> Step {
        let (call, approval, _) = self.call();
        Step::ToolDenied(ToolDenied {
            call,
            approval: held.then_some(approval),
            cause,
            reason: Some("no".into()),
            rule: None,
            goes_on: false,
            votes: Vec::new(),
        })
    }
}

fn call() -> Step {
    Step::ToolCall(ToolCall {
        call: CallId::of(2, 1),
        tool: "shop.refund".into(),
        model_name: "shop_refund".into(),
        args: "{\"amount\": 1.10,\n \"s\":\"\\u00e9é\u{202e}\"}".into(),
        definition: None,
    })
}

fn header<'a>(event: &'a Event, name: &str) -> &'a str {
    let mut found = event.headers.iter().filter(|(given, _)| given == name);
    let value = &found.next().unwrap_or_else(|| panic!("no {name}")).1;
    assert!(found.next().is_none(), "{name} is there twice");
    value
}

/// S8.4: the attributes that CloudEvents 1.0 requires, an id to deduplicate by, and a sequence.
#[test]
fn a_step_event_is_a_cloud_event() {
    let fixture = Fixture::new();
    let (recorded, content) = fixture.record(call());
    let event = step_event(&fixture.origin(), &recorded, &content, Status::Running);
    assert_eq!(event.subject, "sayso.events.v1.shop.support.tool_call");
    assert_eq!(event.id, "run_1:7");
    let expected = [
        ("ce-specversion", "1.0"),
        ("ce-id", "run_1:7"),
        ("ce-source", "/namespaces/shop/agents/support"),
        ("ce-type", "sayso.step.tool_call.v1"),
        ("ce-subject", "run_1"),
        ("ce-time", "2024-02-29T12:34:56.000007Z"),
        ("ce-sequence", "00000000000000000007"),
        ("content-type", "application/json"),
    ];
    assert_eq!(event.headers.len(), expected.len());
    for (name, value) in expected {
        assert_eq!(header(&event, name), value);
    }
    for (name, value) in &event.headers {
        let attribute = name.strip_prefix("ce-").unwrap_or("contenttype");
        assert!(
            attribute
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()),
            "{name}"
        );
        assert!(value.bytes().all(|b| b.is_ascii_graphic()), "{value}");
    }
    let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap();
    assert_eq!(body["run"], "run_1");
    assert_eq!(body["seq"], 7);
    assert_eq!(body["actor"], "agent:support");
    assert_eq!(body["content"]["tool"], "shop.refund");
    assert!(body.get("seal").is_none());
}

/// A watcher served from an event gets what one served from the database gets, every byte of it.
#[test]
fn a_step_comes_back_as_it_went() {
    let fixture = Fixture::new();
    let sealed = Step::Cancelled(sayso_run::Cancelled {
        reason: Some("enough".into()),
        idempotency: None,
    });
    for (step, status) in [
        (call(), Status::AwaitingApproval),
        (sealed, Status::Cancelled),
    ] {
        let (recorded, content) = fixture.record(step);
        let event = step_event(&fixture.origin(), &recorded, &content, status);
        let news = read_step(&event.headers, &event.body).unwrap();
        assert_eq!((&news.run, news.seq), (&fixture.run, 7));
        let told = news.told.unwrap();
        assert_eq!(told.status, status);
        assert_eq!(
            told.step,
            v1::RunStep::from(StepView::recorded(&recorded, &content))
        );
    }
}

/// S3.10: what is sent is the view, not what was recorded.
#[test]
fn an_event_holds_the_masked_content() {
    let fixture = Fixture::new();
    let (recorded, content) = fixture.record(Step::UserMessage(UserMessage {
        text: "the key is hunter2".into(),
        answers: Vec::new(),
        idempotency: None,
        trust: None,
        outside: None,
    }));
    let view = content.replace("hunter2", "***");
    let event = step_event(&fixture.origin(), &recorded, &view, Status::Running);
    assert!(
        !String::from_utf8(event.body.clone())
            .unwrap()
            .contains("hunter2")
    );
    let told = read_step(&event.headers, &event.body)
        .unwrap()
        .told
        .unwrap();
    assert_eq!(told.step.content_json, view);
    assert_eq!(
        told.step.content_sha256,
        Digest::of(content.as_bytes()).to_hex()
    );
}

#[test]
fn a_body_over_the_limit_becomes_a_reference() {
    let fixture = Fixture::new();
    let message = |bytes: usize| {
        fixture.record(Step::UserMessage(UserMessage {
            text: "x".repeat(bytes),
            answers: Vec::new(),
            idempotency: None,
            trust: None,
            outside: None,
        }))
    };
    let sent = |bytes| {
        let (recorded, content) = message(bytes);
        step_event(&fixture.origin(), &recorded, &content, Status::Running)
    };
    for large in [MAX_BODY - 1, MAX_BODY + 1, 3 * MAX_BODY] {
        let event = sent(large);
        assert!(event.body.is_empty());
        let reference = "/v1/runs/run_1/steps?from_sequence=7&page_size=1";
        assert_eq!(header(&event, "ce-dataref"), reference);
        let news = read_step(&event.headers, &event.body).unwrap();
        assert_eq!(
            (news.run, news.seq, news.told),
            (fixture.run.clone(), 7, None)
        );
    }
    let event = sent(MAX_BODY - 1024);
    assert!(event.body.len() <= MAX_BODY);
    assert!(
        read_step(&event.headers, &event.body)
            .unwrap()
            .told
            .is_some()
    );
}

/// S8.4: every change of an approval is an event of its own.
#[test]
fn approvals_are_told_of_when_they_change() {
    let fixture = Fixture::new();
    let (call_id, approval, digest) = fixture.call();
    let blocked = Step::ToolBlocked(ToolBlocked {
        call: call_id.clone(),
        approval: approval.clone(),
        digest,
        rule: "rules#0".into(),
        reason: "it pays out".into(),
        summary: "Refund 5".into(),
        expires_at: Timestamp::from_micros(9),
        quorum: sayso_run::Quorum::default(),
        origins: Vec::new(),
    });
    let approved = Step::ToolApproved(ToolApproved {
        call: call_id,
        approval: approval.clone(),
        digest,
        reason: None,
        goes_on: false,
        votes: Vec::new(),
    });
    let cases = [
        (blocked, ApprovalChange::Requested),
        (approved, ApprovalChange::Decided),
        (
            fixture.denied(DenyCause::Person, true),
            ApprovalChange::Decided,
        ),
        (
            fixture.denied(DenyCause::Timeout, true),
            ApprovalChange::Closed,
        ),
        (
            fixture.denied(DenyCause::Cancelled, true),
            ApprovalChange::Closed,
        ),
        (
            fixture.denied(DenyCause::RunEnded, true),
            ApprovalChange::Closed,
        ),
        (
            fixture.denied(DenyCause::Superseded, true),
            ApprovalChange::Closed,
        ),
    ];
    for (step, change) in cases {
        let (recorded, content) = fixture.record(step);
        let event = approval_event(&fixture.origin(), &recorded, &content, Status::Running);
        let event = event.unwrap();
        let word = change.as_str();
        assert_eq!(
            event.subject,
            format!("sayso.events.v1.shop.support.approval_{word}")
        );
        assert_eq!(
            header(&event, "ce-type"),
            format!("sayso.approval.{word}.v1")
        );
        assert_eq!(event.id, "run_1:7:approval");
        let news = read_approval(&event.headers).unwrap();
        assert_eq!((news.approval, news.change), (approval.clone(), change));
        assert!(read_step(&event.headers, &event.body).is_err());
        let step = step_event(&fixture.origin(), &recorded, &content, Status::Running);
        assert!(read_approval(&step.headers).is_err());
        assert_ne!(step.id, event.id);
    }
    for step in [fixture.denied(DenyCause::Rule, false), call()] {
        let (recorded, content) = fixture.record(step);
        let event = approval_event(&fixture.origin(), &recorded, &content, Status::Running);
        assert_eq!(event, None);
    }
}

/// A stranger's message is an error, never a panic and never half a step.
#[test]
fn what_is_not_ours_is_refused() {
    let fixture = Fixture::new();
    let (recorded, content) = fixture.record(call());
    let event = step_event(&fixture.origin(), &recorded, &content, Status::Running);
    for at in 0..event.body.len() {
        if at > 0 {
            assert!(
                read_step(&event.headers, &event.body[..at]).is_err(),
                "cut at {at}"
            );
        }
    }
    for needed in ["ce-type", "ce-subject", "ce-sequence"] {
        let mut headers = event.headers.clone();
        headers.retain(|(name, _)| name != needed);
        assert!(
            read_step(&headers, &event.body).is_err(),
            "without {needed}"
        );
    }
    assert!(
        read_step(&event.headers, b"").is_err(),
        "no body and no reference"
    );
    let text = String::from_utf8(event.body).unwrap();
    for (from, to) in [("running", "dreaming"), ("2024-02", "2024-99")] {
        let changed = text.replace(from, to);
        assert!(
            read_step(&event.headers, changed.as_bytes()).is_err(),
            "{to}"
        );
    }
    let newer = text.replace("{\"run\"", "{\"later\":[1],\"run\"");
    assert!(read_step(&event.headers, newer.as_bytes()).is_ok());
}
