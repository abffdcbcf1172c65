//! The tables beside the timelines.

use std::time::Duration;

use sayso_driver::{
    ApprovalStatus, DeliveryRow, Journal, Notice, Recipient, ToolDefinition, ToolHints, ToolKind,
    ToolSet,
};
use sayso_run::{AgentName, Digest, Namespace, RevisionId, Trust};
use sayso_store::testing::TestDatabase;
use sayso_store::{
    ArtifactError, Attached, Attempt, Deploy, LogLevel, NewArtifact, NewLogEntry, NewToken,
    OpenError, PageRequest, Removed, Store, StoreConfig, UNRESTRICTED,
};

use crate::on_both_databases;
use crate::raw::Raw;
use crate::timeline::{Timeline, alice, bob, namespace};

on_both_databases!(
    a_namespace_has_its_role_from_the_start,
    a_revision_is_stored_once_and_the_agent_points_to_it,
    a_change_of_a_role_raises_the_version,
    a_role_that_an_agent_has_is_not_removed,
    tokens_are_found_by_their_hash_until_revoked,
    tool_sets_are_stored_once_and_checked,
    artifacts_are_kept_and_limited,
    deliveries_are_shared_and_retried,
    a_decided_approval_cancels_its_deliveries,
    agents_have_logs,
    two_opens_at_once_bring_the_schema_up_once,
    a_newer_schema_is_left_alone,
);

async fn a_namespace_has_its_role_from_the_start(db: &TestDatabase) {
    let store = db.store().await;
    assert!(!store.namespaces().exists(&namespace()).await.unwrap());
    assert!(store.namespaces().ensure(&namespace()).await.unwrap());
    assert!(!store.namespaces().ensure(&namespace()).await.unwrap());
    assert!(store.namespaces().exists(&namespace()).await.unwrap());
    assert_eq!(store.namespaces().list().await.unwrap(), [namespace()]);
    let role = store
        .roles()
        .get(&namespace(), UNRESTRICTED)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(role.permits, ["*"]);
}

fn deploy(bundle: &str, role: Option<&str>) -> Deploy {
    Deploy {
        namespace: namespace(),
        agent: AgentName::new("support-desk").unwrap(),
        revision: RevisionId::new(Digest::of(bundle.as_bytes()).to_hex()).unwrap(),
        bundle: bundle.into(),
        role: role.map(str::to_owned),
        triggers: Vec::new(),
        by: alice(),
    }
}

/// S1.3: a revision never changes; a deploy moves the agent to it.
async fn a_revision_is_stored_once_and_the_agent_points_to_it(db: &TestDatabase) {
    let store = db.store().await;
    let (one, two) = (deploy("one", Some(UNRESTRICTED)), deploy("two", None));
    assert!(store.agents().deploy(&one).await.unwrap().new_revision);
    assert!(store.agents().deploy(&two).await.unwrap().new_revision);
    let agent = store
        .agents()
        .get(&namespace(), &one.agent)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(agent.revision, two.revision);
    assert_eq!(
        agent.role.as_deref(),
        Some(UNRESTRICTED),
        "a deploy without a role keeps it"
    );

    let again = Deploy {
        by: bob(),
        ..one.clone()
    };
    assert!(!store.agents().deploy(&again).await.unwrap().new_revision);
    let stored = store
        .agents()
        .revision(&namespace(), &one.agent, &one.revision)
        .await
        .unwrap();
    assert_eq!(stored.unwrap().deployed_by, alice());
    assert_eq!(
        store
            .agents()
            .revisions(&namespace(), &one.agent)
            .await
            .unwrap()
            .len(),
        2
    );
    assert!(
        store
            .agents()
            .set_revision(&namespace(), &one.agent, &two.revision)
            .await
            .unwrap()
    );
    let unknown = RevisionId::new("0".repeat(64)).unwrap();
    assert!(
        !store
            .agents()
            .set_revision(&namespace(), &one.agent, &unknown)
            .await
            .unwrap()
    );
    let agents = store.agents().list(&namespace()).await.unwrap();
    assert_eq!((agents.len(), &agents[0].revision), (1, &two.revision));
    let other = Namespace::new("other").unwrap();
    assert!(store.agents().list(&other).await.unwrap().is_empty());
    assert_eq!(store.agents().get(&other, &one.agent).await.unwrap(), None);
}

/// S3.9: a role is attached only if it is there, and removed only if no agent of its namespace has it.
async fn a_role_that_an_agent_has_is_not_removed(db: &TestDatabase) {
    let store = db.store().await;
    let one = deploy("one", None);
    store.agents().deploy(&one).await.unwrap();
    let roles = store.roles();
    let permits = |patterns: &[&str]| patterns.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
    let put = async |patterns: &[&str]| {
        roles
            .put(&namespace(), "support", &permits(patterns))
            .await
            .unwrap()
    };
    assert_eq!(put(&["a.*"]).await, None);
    assert_eq!(put(&["b.*"]).await, Some(permits(&["a.*"])));

    let attach = async |agent: &AgentName, role: Option<&str>| {
        roles.attach(&namespace(), agent, role).await.unwrap()
    };
    let nobody = AgentName::new("nobody").unwrap();
    assert_eq!(attach(&nobody, Some("support")).await, Attached::NoAgent);
    assert_eq!(
        attach(&one.agent, Some("none-such")).await,
        Attached::NoRole
    );
    assert_eq!(
        attach(&one.agent, Some("support")).await,
        Attached::Done(None)
    );
    let having = roles.agents(&namespace(), "support").await.unwrap();
    assert_eq!(having, std::slice::from_ref(&one.agent));

    let delete = async |role: &str| roles.delete(&namespace(), role).await.unwrap();
    assert_eq!(delete("support").await, Removed::InUse(having));
    let other = Namespace::new("other").unwrap();
    assert_eq!(
        roles.delete(&other, "support").await.unwrap(),
        Removed::NoRole
    );
    let before = Attached::Done(Some("support".to_owned()));
    assert_eq!(attach(&one.agent, None).await, before);
    assert_eq!(delete("support").await, Removed::Done);
    assert_eq!(delete("support").await, Removed::NoRole);
    assert_eq!(roles.get(&namespace(), "support").await.unwrap(), None);
}

/// S3.9: who keeps roles sees a change by one number.
async fn a_change_of_a_role_raises_the_version(db: &TestDatabase) {
    let (store, other) = (db.store().await, db.store().await);
    let one = deploy("one", None);
    store.agents().deploy(&one).await.unwrap();
    let mut before = other.agents().version().await.unwrap();
    let mut rose = async || {
        let now = other.agents().version().await.unwrap();
        let rose = now > before;
        before = now;
        rose
    };
    let permits = ["shop.*".to_owned(), "git.git_status".to_owned()];
    store
        .roles()
        .put(&namespace(), "support", &permits)
        .await
        .unwrap();
    assert!(rose().await);
    assert!(
        store
            .agents()
            .set_role(&namespace(), &one.agent, Some("support"))
            .await
            .unwrap()
    );
    assert!(rose().await);
    assert!(
        store
            .agents()
            .set_role(&namespace(), &one.agent, None)
            .await
            .unwrap()
    );
    assert!(rose().await);
    assert!(!rose().await);
    let nobody = AgentName::new("nobody").unwrap();
    assert!(
        !store
            .agents()
            .set_role(&namespace(), &nobody, None)
            .await
            .unwrap()
    );
    let roles = store.roles().list(&namespace()).await.unwrap();
    assert_eq!(roles[0].permits, permits);
    let error = store
        .roles()
        .put(&namespace(), "a\0", &permits)
        .await
        .unwrap_err();
    assert_eq!(error.code(), "request.invalid_text");
}

/// S6.11: stored hashed, expiring, revocable, one namespace's only.
async fn tokens_are_found_by_their_hash_until_revoked(db: &TestDatabase) {
    let store = db.store().await;
    let secret = Digest::of(b"a secret text");
    let now = store.now();
    let new = NewToken {
        namespace: namespace(),
        name: "bob-approver".into(),
        principal: bob(),
        hash: secret,
        scopes: vec!["approver".into(), "read".into()],
        trust: Trust::Trusted,
        created_by: alice(),
        expires_at: Some(now.plus(Duration::from_secs(60))),
    };
    let version = store.tokens().version().await.unwrap();
    let made = store.tokens().create(&new).await.unwrap();
    assert!(store.tokens().version().await.unwrap() > version);
    assert_eq!(
        store.tokens().find(&secret).await.unwrap(),
        Some(made.clone())
    );
    assert_eq!(
        store.tokens().find(&Digest::of(b"another")).await.unwrap(),
        None
    );
    assert!(made.is_valid(now) && !made.is_valid(now.plus(Duration::from_secs(61))));
    assert_eq!(
        store.namespaces().principals(&namespace()).await.unwrap(),
        [bob()]
    );
    let listed = store.tokens().list(&namespace()).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&made));

    let other = Namespace::new("other").unwrap();
    assert_eq!(store.tokens().revoke(&other, &made.id).await.unwrap(), None);
    let version = store.tokens().version().await.unwrap();
    let revoked = store
        .tokens()
        .revoke(&namespace(), &made.id)
        .await
        .unwrap()
        .unwrap();
    assert!(!revoked.is_valid(now));
    assert!(store.tokens().version().await.unwrap() > version);
    // Revoking twice keeps the first time.
    let again = store
        .tokens()
        .revoke(&namespace(), &made.id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(again.revoked_at, revoked.revoked_at);
    assert!(
        !store
            .tokens()
            .find(&secret)
            .await
            .unwrap()
            .unwrap()
            .is_valid(now)
    );
    // The same secret cannot be two tokens.
    let error = store.tokens().create(&new).await.unwrap_err();
    assert_eq!(error.code(), "database.refused");
}

async fn tool_sets_are_stored_once_and_checked(db: &TestDatabase) {
    let store = db.store().await;
    let set = ToolSet::new(vec![ToolDefinition {
        registered: "shop.refund".into(),
        model_name: "shop_refund".into(),
        kind: ToolKind::Mcp,
        description: "Refunds an order.".into(),
        input_schema: "{\"type\":\"object\"}".into(),
        hints: ToolHints::default(),
        origin: "shop-server".into(),
    }]);
    store.tool_sets().put(&set).await.unwrap();
    store.tool_sets().put(&set).await.unwrap();
    assert_eq!(
        store.tool_sets().get(&set.id).await.unwrap(),
        Some(set.clone())
    );
    assert_eq!(
        store
            .tool_sets()
            .get(&ToolSet::new(Vec::new()).id)
            .await
            .unwrap(),
        None
    );
    Raw::open(db)
        .await
        .execute("UPDATE tool_sets SET tools = '[]'")
        .await;
    let error = store.tool_sets().get(&set.id).await.unwrap_err();
    assert_eq!(error.code(), "database.bad_row", "{error}");
}

/// S9.4: listed, downloaded, limited, kept with the run.
async fn artifacts_are_kept_and_limited(db: &TestDatabase) {
    let config = StoreConfig {
        max_artifact_bytes: 1000,
        ..StoreConfig::default()
    };
    let store = db.store_with(config).await;
    let run = Timeline::new("one").row.run;
    let mut new = NewArtifact {
        id: "art_1".into(),
        namespace: namespace(),
        run: run.clone(),
        name: "report.txt".into(),
        mime: "text/plain".into(),
        content: vec![0, 1, 2, 255],
    };
    store.artifacts().put(&new).await.unwrap();
    store.artifacts().put(&new).await.unwrap();
    let listed = store.artifacts().list(&namespace(), &run).await.unwrap();
    assert_eq!((listed.len(), listed[0].size), (1, 4));
    let (row, content) = store
        .artifacts()
        .get(&namespace(), "art_1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((&row, content), (&listed[0], new.content.clone()));
    let other = Namespace::new("other").unwrap();
    assert_eq!(store.artifacts().get(&other, "art_1").await.unwrap(), None);
    assert!(
        store
            .artifacts()
            .list(&other, &run)
            .await
            .unwrap()
            .is_empty()
    );

    new.content = vec![9];
    let error = store.artifacts().put(&new).await.unwrap_err();
    assert_eq!(error.code(), "artifact.exists");
    new.content = vec![0; 1001];
    let error = store.artifacts().put(&new).await.unwrap_err();
    assert!(
        matches!(
            error,
            ArtifactError::TooLarge {
                bytes: 1001,
                limit: 1000
            }
        ),
        "{error}"
    );
    new.id = "art_2".into();
    new.content = vec![0; 1000];
    store.artifacts().put(&new).await.unwrap();
}

async fn with_deliveries(store: &Store, name: &str, ids: &[&str]) -> Timeline {
    let mut run = Timeline::started(name, store).await;
    let now = store.now();
    let mut append = run.say(now, "ask");
    let approval = run.approval(now, now.plus(Duration::from_secs(3600)));
    append.deliveries = ids
        .iter()
        .map(|id| DeliveryRow {
            id: (*id).into(),
            namespace: namespace(),
            agent: run.row.agent.clone(),
            run: run.run().clone(),
            notice: Notice::Pending(approval.approval.clone()),
            to: Recipient::Bundle {
                url: "https://hooks.example/approvals".into(),
                secret: None,
            },
            due_at: now.plus_micros(-1_000_000),
        })
        .collect();
    append.approvals = vec![approval];
    run.write(store, append).await.unwrap();
    run
}

/// S8.1: several notifiers share the work; a retry sends the same bytes.
async fn deliveries_are_shared_and_retried(db: &TestDatabase) {
    let (store, other) = (db.store().await, db.store().await);
    let ids: Vec<String> = (0..10).map(|n| format!("dlv_{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    with_deliveries(&store, "one", &ids).await;
    let lease = Duration::from_secs(30);
    let (a, b) = tokio::join!(
        async { store.deliveries().claim("a", lease, 7).await.unwrap() },
        async { other.deliveries().claim("b", lease, 7).await.unwrap() },
    );
    let mut taken: Vec<&str> = a
        .iter()
        .chain(&b)
        .map(|delivery| delivery.id.as_str())
        .collect();
    let mut rest = store.deliveries().claim("a", lease, 100).await.unwrap();
    taken.extend(rest.iter().map(|delivery| delivery.id.as_str()));
    taken.sort_unstable();
    assert_eq!(taken, ids, "each is taken once");
    rest.clear();

    let first = &a[0];
    let deliveries = store.deliveries();
    assert!(deliveries.keep_body(&first.id, "a", b"body").await.unwrap());
    assert!(
        deliveries
            .keep_body(&first.id, "a", b"another body")
            .await
            .unwrap()
    );
    assert!(!deliveries.keep_body(&first.id, "b", b"body").await.unwrap());
    let again = Attempt::Again {
        due_at: store.now().plus(Duration::from_secs(5)),
        error: "503".into(),
    };
    assert!(
        !deliveries
            .record(&first.id, "b", &Attempt::Sent)
            .await
            .unwrap()
    );
    assert!(deliveries.record(&first.id, "a", &again).await.unwrap());
    assert!(
        !deliveries
            .record(&first.id, "a", &Attempt::Sent)
            .await
            .unwrap()
    );
    assert!(deliveries.claim("b", lease, 100).await.unwrap().is_empty());
    assert!(deliveries.next_due().await.unwrap().unwrap() > store.now());
    store.set_clock_offset(6_000_000).await.unwrap();
    let second = deliveries.claim("b", lease, 100).await.unwrap();
    assert_eq!(second.len(), 1);
    assert_eq!(
        (second[0].attempts, second[0].body.as_deref()),
        (1, Some(b"body".as_slice()))
    );
    assert!(
        deliveries
            .record(&first.id, "b", &Attempt::Sent)
            .await
            .unwrap()
    );
    // A notifier that died loses what it held after its lease.
    store.set_clock_offset(40_000_000).await.unwrap();
    let inherited = deliveries.claim("c", lease, 100).await.unwrap();
    assert_eq!(inherited.len(), 9);
    let failed = Attempt::Failed {
        error: "410".into(),
    };
    for delivery in &inherited {
        assert!(deliveries.record(&delivery.id, "c", &failed).await.unwrap());
    }
    assert_eq!(deliveries.next_due().await.unwrap(), None);
}

/// S8.1: nothing is sent for what was decided meanwhile.
async fn a_decided_approval_cancels_its_deliveries(db: &TestDatabase) {
    let store = db.store().await;
    let mut run = with_deliveries(&store, "one", &["dlv_1"]).await;
    with_deliveries(&store, "two", &["dlv_2"]).await;
    let mut decided = run.approval(store.now(), store.now());
    decided.status = ApprovalStatus::Denied;
    let mut append = run.say(store.now(), "deny");
    append.approvals = vec![decided];
    run.write(&store, append).await.unwrap();
    let due = store
        .deliveries()
        .claim("a", Duration::from_secs(30), 10)
        .await
        .unwrap();
    assert_eq!(
        due.iter()
            .map(|delivery| delivery.id.as_str())
            .collect::<Vec<_>>(),
        ["dlv_2"]
    );
    assert_eq!(store.deliveries().cancel_decided().await.unwrap(), 1);
    assert_eq!(store.deliveries().cancel_decided().await.unwrap(), 0);
}

async fn agents_have_logs(db: &TestDatabase) {
    let store = db.store().await;
    let agent = AgentName::new("support-desk").unwrap();
    for n in 0..3 {
        let entry = NewLogEntry {
            namespace: namespace(),
            agent: agent.clone(),
            run: None,
            level: LogLevel::Warning,
            code: "delivery.failed".into(),
            message: format!("attempt {n} failed"),
        };
        store.agent_logs().append(&entry).await.unwrap();
    }
    let request = PageRequest {
        size: 2,
        token: None,
    };
    let page = store
        .agent_logs()
        .list(&namespace(), &agent, &request)
        .await
        .unwrap();
    assert_eq!(page.items[0].message, "attempt 2 failed");
    assert_eq!(page.items[0].level, LogLevel::Warning);
    let request = PageRequest {
        size: 2,
        token: page.next,
    };
    let page = store
        .agent_logs()
        .list(&namespace(), &agent, &request)
        .await
        .unwrap();
    assert_eq!(page.items.len(), 1);
}

async fn two_opens_at_once_bring_the_schema_up_once(db: &TestDatabase) {
    let open = || Store::open(db.url(), StoreConfig::default());
    let (one, other) = match db.kind() {
        sayso_store::Kind::Postgres => {
            let (one, other) = tokio::join!(open(), open());
            (one.unwrap(), other.unwrap())
        }
        // A SQLite file belongs to one process, which opens it once at a time.
        sayso_store::Kind::Sqlite => (open().await.unwrap(), open().await.unwrap()),
    };
    one.ping().await.unwrap();
    other.ping().await.unwrap();
}

/// During a rolling upgrade the older version goes on over a schema that was extended.
async fn a_newer_schema_is_left_alone(db: &TestDatabase) {
    drop(db.store().await);
    let mut raw = Raw::open(db).await;
    raw.execute(
        "INSERT INTO _sqlx_migrations \
         SELECT 9999, 'later', installed_on, success, checksum, execution_time \
         FROM _sqlx_migrations WHERE version = 1",
    )
    .await;
    db.store().await.ping().await.unwrap();
}

#[tokio::test]
async fn a_url_that_names_no_database_is_refused() {
    for url in ["mysql://u:p@host/db", "nonsense", "postgres://[", ""] {
        let error = Store::open(url, StoreConfig::default()).await.unwrap_err();
        assert_eq!(error.code(), "database.bad_url", "{url}");
        assert!(!error.is_retryable());
    }
    // A file in no folder, and one that holds something else.
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.db");
    std::fs::write(
        &other,
        "This is no database, although it is as long as a page. ".repeat(100),
    )
    .unwrap();
    for path in [folder.path().join("missing/sayso.db"), other] {
        let url = format!("sqlite://{}", path.display());
        let error = Store::open(&url, StoreConfig::default()).await.unwrap_err();
        assert_eq!(error.code(), "database.refused", "{error:?}");
    }
    // Nobody listens there: that may change.
    let error = Store::open("postgres://u@127.0.0.1:1/db", StoreConfig::default())
        .await
        .unwrap_err();
    assert!(
        matches!(error, OpenError::Unavailable(_)) && error.is_retryable(),
        "{error:?}"
    );
}
