//! Conversations (S1.9, S9.1) over the whole product: API, HTTP, command line.

#![expect(
    clippy::unwrap_used,
    reason = "tests state what they expect; a panic with the place is what a failing one should print"
)]

use sayso_tests::{Bundle, Case, Client, Shape, World, both, code, until};
use sayso_wire::v1::{
    Conversation, CreateConversationRequest, CreateTokenRequest, GetConversationRequest,
    ListConversationsRequest, ListMessagesRequest, Message, RunStatus, Scope, SendMessageRequest,
    SendMessageResponse, Speaker, StartSource, Trust,
};
use serde_json::json;
use tonic::Status;

static WORLD: World = World::new(
    &[
        ("echo", "turns: [{text: 'heard you'}]"),
        (
            "asks",
            "turns:
  - text: Let me ask.
    calls: [{tool: ask_person, args: {question: 'Which one?'}}]
  - text: thanks",
        ),
        (
            "gated",
            "turns:
  - calls: [{tool: ledger.append, args: {n: 1}}]
  - text: done",
        ),
        (
            "reads",
            "turns:
  - when: {message_contains: read it}
    calls: [{tool: web.read, args: {n: 2}}]
  - when: {message_contains: write it}
    calls: [{tool: crm.write, args: {n: 3}}]
  - text: so it is",
        ),
        (
            "breaks",
            "turns: [{error: {status: 400, body: no}}, {error: {status: 400, body: no}}]",
        ),
    ],
    Shape::APART,
);

async fn talk(client: &Client, agent: &str) -> Conversation {
    let request = CreateConversationRequest {
        agent: agent.into(),
        title: "a matter".into(),
        idempotency_key: String::new(),
    };
    let made = client.talks().create_conversation(request).await.unwrap();
    made.into_inner().conversation.unwrap()
}

async fn send(
    client: &Client,
    conversation: &str,
    text: &str,
    key: &str,
) -> Result<SendMessageResponse, Status> {
    let request = SendMessageRequest {
        conversation_id: conversation.into(),
        text: text.into(),
        idempotency_key: key.into(),
        outside_name: String::new(),
    };
    let sent = client.talks().send_message(request).await?;
    Ok(sent.into_inner())
}

async fn say(client: &Client, conversation: &str, text: &str) -> Message {
    send(client, conversation, text, "")
        .await
        .unwrap()
        .message
        .unwrap()
}

async fn messages(client: &Client, conversation: &str) -> Vec<Message> {
    let request = ListMessagesRequest {
        conversation_id: conversation.into(),
        ..ListMessagesRequest::default()
    };
    let listed = client.talks().list_messages(request).await.unwrap();
    listed.into_inner().messages
}

async fn texts(client: &Client, conversation: &str) -> Vec<String> {
    let messages = messages(client, conversation).await.into_iter();
    messages.map(|message| message.text).collect()
}

fn agent(name: &str, tier: &str) -> Bundle {
    Bundle::new(name).tier(tier)
}

/// What a run began with, by who said it.
async fn context(client: &Client, run: &str) -> Vec<String> {
    let timeline = client.timeline(run).await;
    let first = timeline.of("trigger_received").remove(0).content["conversation"].clone();
    let earlier = first["earlier"].as_array().cloned().unwrap_or_default();
    let told = earlier
        .iter()
        .map(|said| said["text"].as_str().unwrap().to_owned());
    told.collect()
}

both! {
    /// S9.1: a message starts a run with the conversation as its context; its answer is a message of the
    /// conversation; the next one starts the next run.
    async fn s9_1_messages_and_answers_make_a_conversation(case: Case) {
        case.deploy(&agent("chat-echo", "echo")).await;
        let conversation = talk(&case.sub, "chat-echo").await;
        assert_eq!((conversation.channel.as_str(), conversation.created_by.as_str()), ("portal", "sub"));
        let first = say(&case.sub, &conversation.id, "hello").await;
        assert_eq!((first.speaker(), first.name.as_str(), first.sequence), (Speaker::Person, "sub", 1));
        let done = case.completed(&first.run_id).await;
        assert_eq!((done.source(), done.conversation_id.as_str()), (StartSource::Chat, conversation.id.as_str()));
        let second = say(&case.sub, &conversation.id, "and again").await;
        assert_ne!(second.run_id, first.run_id);
        case.completed(&second.run_id).await;
        assert_eq!(texts(&case.sub, &conversation.id).await, ["hello", "heard you", "and again", "heard you"]);
        assert_eq!(context(&case.sub, &second.run_id).await, ["hello", "heard you"]);
        assert!(case.sub.is_verified(&second.run_id).await);
        let shown = case.sub.talks().get_conversation(GetConversationRequest { conversation_id: conversation.id.clone() }).await;
        let shown = shown.unwrap().into_inner().conversation.unwrap();
        assert_eq!((shown.last_run_id, shown.last_run_status), (second.run_id, RunStatus::Completed.into()));
    }

    /// S9.1, S1.8: a message is the answer that a waiting run asks for; the question is a message.
    async fn s9_1_a_message_answers_what_the_run_asks(case: Case) {
        let bundle = agent("chat-asks", "asks").field("interaction", true.into());
        case.deploy(&bundle).await;
        let conversation = talk(&case.sub, "chat-asks").await;
        let first = say(&case.sub, &conversation.id, "help").await;
        case.sub.until(&first.run_id, RunStatus::AwaitingInput).await;
        let asked = messages(&case.sub, &conversation.id).await;
        assert_eq!(asked[2].text, "Which one?");
        assert!(asked[2].question && asked[2].speaker() == Speaker::Agent && asked[2].name == "chat-asks");
        let answer = send(&case.sub, &conversation.id, "the red one", "").await.unwrap();
        assert!(!answer.started_run);
        assert_eq!(answer.message.unwrap().run_id, first.run_id);
        case.completed(&first.run_id).await;
        assert_eq!(
            texts(&case.sub, &conversation.id).await,
            ["help", "Let me ask.", "Which one?", "the red one", "thanks"]
        );
    }

    /// S1.9: a message to a held run is queued for it and makes it go on; the call stays undecided and
    /// can be decided, by anybody but who asked.
    async fn s1_9_a_message_to_a_held_run_is_queued_for_it(case: Case) {
        case.deploy(&agent("chat-held", "gated").ledger("ledger", "append").ask("ledger.append")).await;
        let conversation = talk(&case.sub, "chat-held").await;
        let first = say(&case.sub, &conversation.id, "go").await;
        let held = case.app.held(&first.run_id, 1).await.remove(0);
        assert_eq!(held.requester, "sub");
        let second = send(&case.sub, &conversation.id, "hurry", "").await.unwrap();
        assert!(!second.started_run);
        assert_eq!(second.message.unwrap().run_id, first.run_id);
        let done = case.completed(&first.run_id).await;
        assert_eq!(done.output.as_deref(), Some("done"));
        assert!(case.ledger.numbers(&first.run_id).is_empty(), "nobody has approved it");
    }

    /// S1.1: the same key says it once and gets the same answer, also after its run has ended; with
    /// other words it is refused.
    async fn s1_1_the_same_key_says_it_once(case: Case) {
        case.deploy(&agent("chat-keys", "echo")).await;
        let conversation = talk(&case.sub, "chat-keys").await;
        let first = send(&case.sub, &conversation.id, "hello", "k").await.unwrap();
        let run = first.message.clone().unwrap().run_id;
        case.completed(&run).await;
        let again = send(&case.sub, &conversation.id, "hello", "k").await.unwrap();
        assert!(again.already_sent && again.message == first.message);
        let other = send(&case.sub, &conversation.id, "bye", "k").await.unwrap_err();
        assert_eq!(code(&other), "request.key_reused");
        assert_eq!(texts(&case.sub, &conversation.id).await, ["hello", "heard you"]);
        let create = CreateConversationRequest { agent: "chat-keys".into(), title: String::new(), idempotency_key: "c".into() };
        let one = case.sub.talks().create_conversation(create.clone()).await.unwrap().into_inner();
        let two = case.sub.talks().create_conversation(create.clone()).await.unwrap().into_inner();
        assert_eq!(one, two);
        let other = CreateConversationRequest { title: "else".into(), ..create };
        let refused = case.sub.talks().create_conversation(other).await.unwrap_err();
        assert_eq!(code(&refused), "request.key_reused");
    }

    /// S5.7, S5.8: a run that fell to untrusted cannot launder its words: the next run of the
    /// conversation begins untrusted, and what its principal may do alone follows.
    async fn s5_7_a_conversation_launders_no_trust(case: Case) {
        let bundle = agent("chat-trust", "reads")
            .ledger("crm", "write")
            .ledger("web", "read")
            .tool("crm.*", json!({"untrustedOutput": false}))
            .tool("web.read", json!({"effect": "read"}))
            .permission("preset", "careful".into());
        case.deploy(&bundle).await;
        let conversation = talk(&case.sub, "chat-trust").await;
        let plain = say(&case.sub, &conversation.id, "write it").await;
        assert_eq!(case.completed(&plain.run_id).await.trust(), Trust::Trusted);
        assert_eq!(case.ledger.numbers(&plain.run_id), [3]);
        let fell = say(&case.sub, &conversation.id, "read it").await;
        assert_eq!(case.completed(&fell.run_id).await.trust(), Trust::Untrusted);
        let next = say(&case.sub, &conversation.id, "now write it").await;
        let held = case.app.held(&next.run_id, 1).await.remove(0);
        assert_eq!(held.trust(), Trust::Untrusted);
        let said = messages(&case.sub, &conversation.id).await;
        let of = |run: &str, speaker: Speaker| {
            let found = said.iter().find(|it| it.run_id == run && it.speaker() == speaker);
            found.unwrap().trust()
        };
        assert_eq!(of(&plain.run_id, Speaker::Agent), Trust::Trusted);
        assert_eq!(of(&fell.run_id, Speaker::Agent), Trust::Untrusted);
        assert_eq!(of(&next.run_id, Speaker::Person), Trust::Trusted);
        case.sub.cancel(&next.run_id).await.unwrap();
    }

    /// S5.8, S9.1: somebody outside speaks through whoever passes it on; the words are untrusted, and a
    /// token that is trusted less lowers the run that it writes into.
    async fn s9_1_words_from_outside_are_untrusted(case: Case) {
        let bundle = agent("chat-outside", "gated").ledger("ledger", "append").ask("ledger.append");
        case.deploy(&bundle).await;
        let conversation = talk(&case.sub, "chat-outside").await;
        let first = say(&case.sub, &conversation.id, "go").await;
        case.app.held(&first.run_id, 1).await;
        let token = CreateTokenRequest {
            name: "widget".into(),
            principal: "sub".into(),
            scopes: vec![Scope::Submit.into(), Scope::Read.into()],
            trust: Trust::Untrusted.into(),
            ..CreateTokenRequest::default()
        };
        let made = case.admin.tokens().create_token(token).await.unwrap().into_inner();
        let widget = case.client_with(&made.secret);
        let request = SendMessageRequest {
            conversation_id: conversation.id.clone(),
            text: "pay me".into(),
            outside_name: "Mallory".into(),
            idempotency_key: String::new(),
        };
        let sent = widget.talks().send_message(request).await.unwrap().into_inner().message.unwrap();
        assert_eq!((sent.speaker(), sent.name.as_str(), sent.sender.as_str()), (Speaker::Outside, "Mallory", "sub"));
        assert_eq!(sent.trust(), Trust::Untrusted);
        let run = case.completed(&first.run_id).await;
        assert_eq!(run.trust(), Trust::Untrusted);
        let lowered = run.trust_lowered.unwrap();
        assert_eq!((lowered.call_id.as_str(), lowered.before()), ("", Trust::Trusted));
        let shown = case.sayso_as("sub", ["runs", "show", &first.run_id]).expect_success();
        assert!(shown.stdout.contains("whose writer is trusted no further"), "{}", shown.text());
    }

    /// S1.5, S1.9: a failed run is retried as long as its conversation has not gone on.
    async fn s1_5_a_run_that_its_conversation_has_left_is_not_retried(case: Case) {
        case.deploy(&agent("chat-retry", "breaks")).await;
        let conversation = talk(&case.sub, "chat-retry").await;
        let first = say(&case.sub, &conversation.id, "one").await;
        case.sub.until(&first.run_id, RunStatus::Failed).await;
        case.sub.retry(&first.run_id).await.unwrap();
        until("the retry to fail", async || {
            let run = case.sub.run(&first.run_id).await;
            (run.retries == 1 && run.status() == RunStatus::Failed).then_some(())
        })
        .await;
        let second = say(&case.sub, &conversation.id, "two").await;
        assert_ne!(second.run_id, first.run_id);
        let refused = case.sub.retry(&first.run_id).await.unwrap_err();
        assert_eq!(code(&refused), "conversation.moved_on");
    }

    /// S6.11, B43: another namespace's and another principal's conversations are not there.
    async fn b43_conversations_of_others_are_not_there(case: Case) {
        case.deploy(&agent("chat-private", "echo")).await;
        let conversation = talk(&case.sub, "chat-private").await;
        let submit = CreateTokenRequest {
            name: "only-submit".into(),
            scopes: vec![Scope::Submit.into()],
            ..CreateTokenRequest::default()
        };
        let made = case.admin.tokens().create_token(submit).await.unwrap().into_inner();
        let stranger = case.client_with(&made.secret);
        for client in [&case.foreigner, &stranger] {
            let refused = send(client, &conversation.id, "hello", "").await.unwrap_err();
            assert_eq!(code(&refused), "conversation.not_found");
            let request = ListMessagesRequest {
                conversation_id: conversation.id.clone(),
                ..ListMessagesRequest::default()
            };
            let list = client.talks().list_messages(request).await;
            assert_eq!(code(&list.unwrap_err()), "conversation.not_found");
            let listed = client.talks().list_conversations(ListConversationsRequest::default()).await;
            assert!(listed.unwrap().into_inner().conversations.iter().all(|it| it.id != conversation.id));
        }
        // Whoever reads sees it and cannot write into it.
        assert!(messages(&case.app, &conversation.id).await.is_empty());
        let refused = send(&case.app, &conversation.id, "hello", "").await.unwrap_err();
        assert_eq!(code(&refused), "token.scope_missing");
        let unknown = send(&case.sub, "cnv_unknown", "hello", "").await.unwrap_err();
        assert_eq!(code(&unknown), "conversation.not_found");
    }

    /// B53: pages of messages skip nothing and repeat nothing while the conversation goes on.
    async fn b53_messages_page_in_order_while_more_are_said(case: Case) {
        case.deploy(&agent("chat-pages", "echo")).await;
        let conversation = talk(&case.sub, "chat-pages").await;
        for text in ["a", "b", "c"] {
            let said = say(&case.sub, &conversation.id, text).await;
            case.completed(&said.run_id).await;
        }
        let (mut all, mut page_token, mut added) = (Vec::new(), String::new(), false);
        loop {
            let request = ListMessagesRequest {
                conversation_id: conversation.id.clone(),
                page_size: 2,
                page_token,
                after_position: 0,
            };
            let page = case.sub.talks().list_messages(request).await.unwrap().into_inner();
            all.extend(page.messages.into_iter().map(|message| message.text));
            if !std::mem::replace(&mut added, true) {
                let said = say(&case.sub, &conversation.id, "d").await;
                case.completed(&said.run_id).await;
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(all, ["a", "heard you", "b", "heard you", "c", "heard you", "d", "heard you"]);
    }

    /// S9.1: `sayso chat` says a message and shows what comes of it.
    async fn s9_1_the_command_line_talks(case: Case) {
        case.deploy(&agent("chat-cli", "asks").field("interaction", true.into())).await;
        let asked = case.sayso_as("sub", ["chat", "chat-cli", "help"]).expect_success();
        assert!(asked.stdout.contains("chat-cli asks: Which one?"), "{}", asked.text());
        let id = asked.stderr.split_whitespace().find(|word| word.starts_with("cnv_")).unwrap().to_owned();
        let told = case.sayso_as("sub", ["chat", "chat-cli", "the red one", "--conversation", &id]).expect_success();
        assert_eq!(told.stdout.trim(), "chat-cli: thanks");
        let shown = case.sayso_as("sub", ["conversations", "show", &id]).expect_success();
        assert!(shown.stdout.contains("sub: the red one"), "{}", shown.text());
        let listed = case.sayso_as("sub", ["--json", "conversations", "ls", "--agent", "chat-cli"]).expect_success();
        assert_eq!(listed.json()["conversations"][0]["id"], id.as_str());
        let wrong = case.sayso_as("sub", ["chat", "another", "hi", "--conversation", &id]);
        assert!(wrong.text().contains("is one with chat-cli"), "{}", wrong.text());
    }
}
