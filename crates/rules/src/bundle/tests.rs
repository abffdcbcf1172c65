use proptest::prelude::*;

use super::*;

/// A bundle with every field that this version knows.
const FULL: &str = r#"
name: support-desk
description: Answers order questions and drafts replies.
role: support
tier: fast
instructions: |
  You help customers of the shop.
interaction: true
builtins: [create_artifact]
servers:
  git: { command: [mcp-server-git, --repository, /srv/repo], env: { LANG: C.UTF-8 } }
  search: { url: "https://mcp.example/mcp", headers: { authorization: "Bearer x" }, trustAnnotations: true, perRun: true }
tools:
  "search.*": { timeout: 20s, maxResult: 1MiB }
  "git.git_commit": { review: required, effect: write, idempotent: false, timeout: 500ms }
permissions:
  default: deny
  rules:
    - { tool: "git.git_status", action: allow }
    - { tool: "*.delete_*", action: deny }
  approvalTimeout: 30m
  notify: { url: "http://hooks.internal/approvals", secret: APPROVAL_HOOK_KEY }
"#;

/// The mistakes of a bundle, as `code path`.
pub(super) fn mistakes(text: &str) -> Vec<String> {
    let errors = Bundle::parse(text).expect_err(text);
    errors
        .errors()
        .iter()
        .map(|error| format!("{} {}", error.code, error.path))
        .collect()
}

/// The one mistake in a bundle that is fine but for the lines given.
pub(super) fn mistake(lines: &str) -> String {
    let found = mistakes(&format!("name: a\n{lines}"));
    assert_eq!(found.len(), 1, "{lines}: {found:?}");
    found.into_iter().next().unwrap()
}

#[test]
fn every_field_is_read() {
    let bundle = Bundle::parse(FULL).unwrap();
    assert_eq!(bundle.name, "support-desk");
    assert_eq!(
        bundle.description.as_deref(),
        Some("Answers order questions and drafts replies.")
    );
    assert_eq!(bundle.role.as_deref(), Some("support"));
    assert_eq!(bundle.tier, "fast");
    assert_eq!(bundle.instructions, "You help customers of the shop.\n");
    assert!(bundle.interaction);
    assert_eq!(bundle.builtins, BTreeSet::from([Builtin::CreateArtifact]));
    let Transport::Stdio { command, env } = &bundle.servers["git"].transport else {
        panic!("git is a process")
    };
    assert_eq!(command.len(), 3);
    assert_eq!(env["LANG"], "C.UTF-8");
    let search = &bundle.servers["search"];
    assert!(search.trust_annotations && search.per_run);
    assert!(
        matches!(&search.transport, Transport::Http { url, .. } if url == "https://mcp.example/mcp")
    );
    let (first, marks) = &bundle.tools[0];
    assert_eq!(first.as_str(), "search.*");
    assert_eq!(marks.max_result_bytes, Some(1 << 20));
    let (_, marks) = &bundle.tools[1];
    assert_eq!(marks.review, Some(Review::Required));
    assert_eq!(marks.effect, Some(Effect::Write));
    assert_eq!(marks.idempotent, Some(false));
    assert_eq!(marks.timeout, Some(Duration::from_millis(500)));
    let permissions = bundle.permissions.as_ref().unwrap();
    assert_eq!(permissions.default, Action::Deny);
    assert_eq!(permissions.rules[1].tool.as_str(), "*.delete_*");
    assert_eq!(permissions.rules[1].action, Action::Deny);
    let notify = permissions.notify.as_ref().unwrap();
    assert_eq!(notify.secret.as_deref(), Some("APPROVAL_HOOK_KEY"));
    assert_eq!(bundle.approval_timeout(), Duration::from_secs(1800));
}

#[test]
fn s3_1_a_bundle_with_a_name_alone_is_valid() {
    let bundle = Bundle::parse("name: a").unwrap();
    assert_eq!(bundle.tier, "balanced");
    assert_eq!(bundle.permissions, None);
    // S6.8
    assert_eq!(bundle.approval_timeout(), Duration::from_secs(3600));
    // S5.3
    let bundle = Bundle::parse("name: a\npermissions: {}").unwrap();
    assert_eq!(bundle.permissions.unwrap().default, Action::Ask);
}

#[test]
fn s5_11_all_mistakes_are_reported_together() {
    let text = r#"
name: Support Desk
tier: 7
colour: blue
docs: [{ site: "https://docs.example" }]
builtins: [create_artifact, hammer]
servers:
  git: { command: git, env: { LANG: 1 } }
  "a.b": { url: "ftp://x" }
tools:
  "shop.[ab]": { timeout: 20 }
  "shop.x": { timeout: soon, maxResult: 1KB, review: maybe }
permissions:
  preset: stern
  default: perhaps
  rules:
    - { tool: "git.*" }
    - { tool: "a?", action: ask, when: { trust: high } }
    - allow everything
  approvalTimeout: 0s
name: again
"#;
    assert_eq!(
        mistakes(text),
        [
            "bundle.duplicate_key name",
            "bundle.bad_name name",
            "bundle.wrong_type tier",
            "bundle.unknown_value builtins[1]",
            "bundle.wrong_type servers.git.command",
            "bundle.wrong_type servers.git.env.LANG",
            "bundle.bad_name servers[\"a.b\"]",
            "bundle.bad_url servers[\"a.b\"].url",
            "bundle.bad_glob tools[\"shop.[ab]\"]",
            "bundle.wrong_type tools[\"shop.[ab]\"].timeout",
            "bundle.unknown_value tools[\"shop.x\"].review",
            "bundle.bad_duration tools[\"shop.x\"].timeout",
            "bundle.bad_size tools[\"shop.x\"].maxResult",
            "bundle.unknown_value permissions.preset",
            "bundle.unknown_value permissions.default",
            "bundle.missing_field permissions.rules[0]",
            "bundle.bad_glob permissions.rules[1].tool",
            "bundle.unknown_value permissions.rules[1].when.trust",
            "bundle.wrong_type permissions.rules[2]",
            "bundle.bad_duration permissions.approvalTimeout",
            "bundle.unsupported docs",
            "bundle.unknown_field colour",
        ]
    );
}

/// S3.10: references to secrets stand where nobody sees the value; elsewhere they are refused.
#[test]
fn s3_10_secrets_stand_in_env_and_headers_alone() {
    for (lines, path) in [
        (
            "servers: {s: {command: [x, '${secret:K}']}}",
            "servers.s.command[1]",
        ),
        (
            "servers: {s: {url: 'https://h/${secret:K}'}}",
            "servers.s.url",
        ),
        (
            "permissions: {notify: {url: 'https://h/${secret:K}'}}",
            "permissions.notify.url",
        ),
        (
            "servers: {s: {command: [x], env: {K: '${secret:a-b}'}}}",
            "servers.s.env.K",
        ),
    ] {
        assert_eq!(
            mistake(lines),
            format!("bundle.bad_secret {path}"),
            "{lines}"
        );
    }
    let bundle = Bundle::parse(
        "name: a\nservers:\n  p: {command: [x], env: {K: '${secret:K}'}}\n  \
         h: {url: 'https://h', headers: {a: 'B ${secret:H}'}}",
    );
    let found = secrets::references(&bundle.unwrap());
    let found: Vec<_> = found
        .iter()
        .map(|at| (at.path.as_str(), at.name.as_str()))
        .collect();
    assert_eq!(
        found,
        [("servers.h.headers.a", "H"), ("servers.p.env.K", "K")]
    );
}

#[test]
fn what_is_not_done_is_refused_by_its_key_never_ignored() {
    for (lines, path) in [
        ("docs: []", "docs"),
        ("endpoints: []", "endpoints"),
        ("builtins: [send_email]", "builtins[0]"),
    ] {
        assert_eq!(
            mistake(lines),
            format!("bundle.unsupported {path}"),
            "{lines}"
        );
    }
}

/// S6.12: who decides is checked like all else, and stands in the canonical form only where it is said.
#[test]
fn s6_12_who_decides_is_read_and_checked() {
    let rule = |more: &str| format!("permissions: {{rules: [{{tool: x, action: ask, {more}}}]}}");
    for (more, mistaken) in [
        (
            "approvers: {}",
            "bundle.missing_field permissions.rules[0].approvers",
        ),
        (
            "approvers: {count: 0}",
            "bundle.bad_number permissions.rules[0].approvers.count",
        ),
        (
            "approvers: {group: A}",
            "bundle.bad_name permissions.rules[0].approvers.group",
        ),
        (
            "approvers: {exclude: [boss]}",
            "bundle.unknown_value permissions.rules[0].approvers.exclude[0]",
        ),
        (
            "escalate: [{after: 61m, to: {group: leads}}]",
            "bundle.bad_duration permissions.rules[0].escalate",
        ),
        (
            "escalate: [{after: 1m, to: {}}]",
            "bundle.missing_field permissions.rules[0].escalate[0].to",
        ),
        (
            "escalate: [{after: 1m, to: {target: A}}]",
            "bundle.bad_name permissions.rules[0].escalate[0].to.target",
        ),
        (
            "escalate: [{after: 1m, to: {target: a, group: b}}]",
            "bundle.unknown_field permissions.rules[0].escalate[0].to.group",
        ),
    ] {
        assert_eq!(mistake(&rule(more)), mistaken, "{more}");
    }
    let allows = "permissions: {rules: [{tool: x, action: allow, approvers: {count: 2}}]}";
    assert_eq!(
        mistake(allows),
        "bundle.unknown_field permissions.rules[0].approvers"
    );
    let parsed = Bundle::parse(&format!(
        "name: a\n{}",
        rule(
            "approvers: {group: finance, count: 2, exclude: [writers, author]}, escalate: [{after: 20m, to: {target: b}}, {after: 10m, to: {group: a}}]"
        )
    ));
    let text = parsed.unwrap().to_canonical_json();
    assert!(
        text.contains(r#""approvers":{"group":"finance","count":2,"exclude":["author","writers"]},"escalate":[{"after":"10m","to":{"group":"a"}},{"after":"20m","to":{"target":"b"}}]"#),
        "{text}"
    );
}

#[test]
fn s5_11_unknown_fields_are_refused_at_every_level() {
    for (lines, path) in [
        ("x: 1", "x"),
        ("servers: {s: {command: [x], x: 1}}", "servers.s.x"),
        (
            "servers: {s: {command: [x], headers: {}}}",
            "servers.s.headers",
        ),
        ("servers: {s: {url: 'http://h', env: {}}}", "servers.s.env"),
        (
            "servers: {s: {url: 'http://h', command: [x]}}",
            "servers.s.url",
        ),
        ("tools: {t: {Review: required}}", "tools.t.Review"),
        ("permissions: {allow: []}", "permissions.allow"),
        (
            "permissions: {rules: [{tool: x, action: ask, why: y}]}",
            "permissions.rules[0].why",
        ),
        (
            "permissions: {notify: {url: 'http://h', x: 1}}",
            "permissions.notify.x",
        ),
    ] {
        assert_eq!(
            mistake(lines),
            format!("bundle.unknown_field {path}"),
            "{lines}"
        );
    }
}

#[test]
fn s5_11_duplicate_keys_are_refused_in_yaml_and_json() {
    assert_eq!(
        mistake("tools: {t: {}, t: {}}"),
        "bundle.duplicate_key tools.t"
    );
    assert_eq!(
        mistake("builtins: [create_artifact, create_artifact]"),
        "bundle.duplicate_key builtins[1]"
    );
    assert_eq!(mistake("agents: [b, b]"), "bundle.duplicate_key agents[1]");
    assert_eq!(mistake("agents: [b, No One]"), "bundle.bad_name agents[1]");
    assert_eq!(
        mistakes(r#"{"name":"a","name":"a"}"#),
        ["bundle.duplicate_key name"]
    );
    assert_eq!(
        mistakes(r#"{"name":"a","servers":{"s":{"command":["x"],"perRun":true,"perRun":false}}}"#),
        ["bundle.duplicate_key servers.s.perRun"]
    );
}

#[test]
fn s5_5_a_bundle_that_clears_a_floor_is_refused() {
    for key in ["send_email", "send_*", "*"] {
        let lines = format!("tools: {{'{key}': {{review: not_required}}}}");
        assert!(
            mistake(&lines).starts_with("bundle.floor_cleared tools"),
            "{key}"
        );
    }
    Bundle::parse("name: a\ntools: {'git.*': {review: not_required}, '*': {review: required}}")
        .unwrap();
}

#[test]
fn wrong_types_and_forms_are_refused() {
    for (lines, expected) in [
        ("description: 12", "bundle.wrong_type description"),
        ("description:", "bundle.wrong_type description"),
        ("description: \"a\\0b\"", "bundle.bad_text description"),
        ("interaction: 'true'", "bundle.wrong_type interaction"),
        ("interaction: yes", "bundle.wrong_type interaction"),
        ("builtins: create_artifact", "bundle.wrong_type builtins"),
        ("role: No Role", "bundle.bad_name role"),
        ("servers: []", "bundle.wrong_type servers"),
        ("servers: {s: {}}", "bundle.missing_field servers.s"),
        (
            "servers: {s: {command: []}}",
            "bundle.bad_text servers.s.command",
        ),
        (
            "servers: {s: {command: ['']}}",
            "bundle.bad_text servers.s.command",
        ),
        (
            "servers: {s: {command: [x], env: {'a=b': c}}}",
            "bundle.bad_name servers.s.env[\"a=b\"]",
        ),
        (
            "servers: {s: {url: 'http://h', headers: {'a b': c}}}",
            "bundle.bad_header servers.s.headers[\"a b\"]",
        ),
        (
            "servers: {s: {url: 'http://h', headers: {a: \"c\\r\\nd: e\"}}}",
            "bundle.bad_header servers.s.headers.a",
        ),
        ("tools: {1: {}}", "bundle.wrong_type tools"),
        ("tools: {t: }", "bundle.wrong_type tools.t"),
        (
            "tools: {t: {effect: delete}}",
            "bundle.unknown_value tools.t.effect",
        ),
        ("permissions: []", "bundle.wrong_type permissions"),
        (
            "permissions: {notify: {secret: K}}",
            "bundle.missing_field permissions.notify",
        ),
        (
            "permissions: {notify: {url: 'http://h', secret: 'a-b'}}",
            "bundle.bad_name permissions.notify.secret",
        ),
        (
            "permissions: {rules: [{tool: '', action: ask}]}",
            "bundle.bad_glob permissions.rules[0].tool",
        ),
        ("<<: {tier: fast}", "bundle.unknown_field [\"<<\"]"),
    ] {
        assert_eq!(mistake(lines), expected, "{lines}");
    }
    assert_eq!(mistakes("- name: a"), ["bundle.wrong_type "]);
    assert_eq!(mistakes("{}"), ["bundle.missing_field "]);
}

#[test]
fn s10_5_bad_syntax_names_its_line() {
    for (text, hint) in [
        ("name: [a", "line"),
        ("name: a\n\tx: 1", "line"),
        (r#"{"name":"a",}x"#, "JSON"),
        ("name: a\n---\nname: b", "document"),
        ("name: !tag a", "tag"),
        ("", "empty"),
        ("name: *x", "anchor"),
    ] {
        let errors = Bundle::parse(text).expect_err(text);
        assert_eq!(errors.errors().len(), 1, "{text:?}");
        let shown = errors.to_string();
        assert!(shown.contains(hint), "{text:?}: {shown}");
    }
}

#[test]
fn s10_5_too_large_is_refused_before_it_is_read() {
    let text = format!("name: a\ninstructions: {}", "x".repeat(MAX_BUNDLE));
    assert_eq!(mistakes(&text), ["bundle.too_large "]);
    let whole = format!("name: a\ninstructions: {}", "x".repeat(MAX_BUNDLE - 24));
    assert!(Bundle::parse(&whole).is_ok());
}

#[test]
fn s10_5_aliases_that_expand_without_end_are_refused() {
    let mut text = "name: a\nx0: &x0 [aaaaaaaaaa,aaaaaaaaaa,aaaaaaaaaa]\n".to_owned();
    for level in 1..30 {
        let below = level - 1;
        text += &format!("x{level}: &x{level} [*x{below},*x{below},*x{below},*x{below}]\n");
    }
    let found = mistakes(&text);
    assert_eq!(found.len(), 1);
    assert!(
        found[0] == "bundle.too_large " || found[0] == "bundle.syntax ",
        "{found:?}"
    );
    let long = format!(
        "name: a\nx: &x {}\ny: [{}]",
        "x".repeat(500_000),
        "*x,".repeat(100)
    );
    assert_eq!(mistakes(&long), ["bundle.too_large "]);
}

#[test]
fn s10_5_deep_nesting_is_refused() {
    let deep = "[".repeat(100_000);
    let keys = "[a: ".repeat(100_000);
    let dashes = "- ".repeat(100_000);
    for text in [
        format!("x: {deep}"),
        format!("{{\"x\": {deep}"),
        keys,
        dashes,
    ] {
        assert_eq!(mistakes(&text), ["bundle.syntax "]);
    }
}

#[test]
fn s10_5_a_flood_of_mistakes_is_counted_not_listed() {
    let text: String = (0..5000).map(|n| format!("k{n}: 1\n")).collect();
    let errors = Bundle::parse(&text).unwrap_err();
    assert_eq!(errors.errors().len(), MAX_REPORTED);
    assert_eq!(errors.omitted(), 5001 - MAX_REPORTED);
    assert!(errors.to_string().ends_with("… and 4901 more"));
}

#[test]
fn errors_read_well_on_a_terminal() {
    let text =
        "name: a\ntools: {t: {timeout: soon}}\npermissions: {rules: [{tool: x, action: maybe}]}";
    assert_eq!(
        Bundle::parse(text).unwrap_err().to_string(),
        "the bundle has 2 mistakes:\n  \
         tools.t.timeout: \"soon\": a duration is a whole number with a unit: 500ms, 30s, 10m, 1h or 7d \
         (bundle.bad_duration)\n  \
         permissions.rules[0].action: \"maybe\" is not one of allow, ask, deny (bundle.unknown_value)"
    );
}

#[test]
fn json_and_yaml_are_the_same_bundle() {
    let json = r#"{"name":"a","instructions":"\ud83d\ude00 \/","permissions":{"rules":[{"tool":"*","action":"ask"}]}}"#;
    let yaml =
        "name: a\ninstructions: \"😀 /\"\npermissions:\n  rules:\n    - {tool: '*', action: ask}\n";
    assert_eq!(Bundle::parse(json).unwrap(), Bundle::parse(yaml).unwrap());
    let marked = format!("\u{feff}{json}");
    assert_eq!(
        Bundle::parse(&marked).unwrap(),
        Bundle::parse(json).unwrap()
    );
}

#[test]
fn s1_3_the_canonical_form_is_stable() {
    let bundle = Bundle::parse(FULL).unwrap();
    assert_eq!(
        bundle.to_canonical_json(),
        concat!(
            r#"{"name":"support-desk","description":"Answers order questions and drafts replies.","#,
            r#""role":"support","tier":"fast","instructions":"You help customers of the shop.\n","#,
            r#""interaction":true,"builtins":["create_artifact"],"servers":{"git":{"command":"#,
            r#"["mcp-server-git","--repository","/srv/repo"],"env":{"LANG":"C.UTF-8"},"#,
            r#""trustAnnotations":false,"perRun":false},"search":{"url":"https://mcp.example/mcp","#,
            r#""headers":{"authorization":"Bearer x"},"trustAnnotations":true,"perRun":true}},"#,
            r#""tools":{"search.*":{"timeout":"20s","maxResult":"1MiB"},"git.git_commit":"#,
            r#"{"review":"required","effect":"write","idempotent":false,"timeout":"500ms"}},"#,
            r#""permissions":{"default":"deny","rules":[{"tool":"git.git_status","action":"allow"},"#,
            r#"{"tool":"*.delete_*","action":"deny"}],"approvalTimeout":"30m","notify":"#,
            r#"{"url":"http://hooks.internal/approvals","secret":"APPROVAL_HOOK_KEY"}}}"#,
        )
    );
    assert_eq!(bundle.revision_hash().len(), 64);
    let reordered = "tier: fast\nname: a\nservers: {z: {command: [z]}, b: {command: [b]}}";
    let ordered = "name: a\nservers: {b: {command: [b]}, z: {command: [z]}}\ntier: fast";
    let hash = |text| Bundle::parse(text).unwrap().revision_hash();
    assert_eq!(hash(reordered), hash(ordered));
    assert_ne!(hash(ordered), hash("name: a"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    /// Whatever the text, parsing ends with a bundle or with mistakes, and a
    /// bundle survives its canonical form.
    #[test]
    fn s10_5_any_text_is_taken_or_refused(text in r##"(name: |tools|permissions|rules|[{}:,&!'"#?%|>@`*~\-\[\]\\ \n\t]|---|\.\.\.|a|é|\n  ){0,60}"##) {
        if let Ok(bundle) = Bundle::parse(&text) {
            prop_assert_eq!(Bundle::parse(&bundle.to_canonical_json()).unwrap(), bundle);
        }
    }

    /// A bundle with slips in it never panics, and what is taken is whole.
    #[test]
    fn s10_5_a_bundle_with_slips_is_taken_or_refused(
        slips in prop::collection::vec(
            (any::<prop::sample::Index>(), 0..8_usize, "[ -~\n\té]{0,3}|\n  ?-? ?|[\\[\\]{}&*!|>'\"%#:?,-]"),
            1..6,
        ),
    ) {
        let mut text: Vec<char> = FULL.chars().collect();
        for (at, cut, put) in slips {
            let start = at.index(text.len());
            let end = (start + cut).min(text.len());
            text.splice(start..end, put.chars());
        }
        let text: String = text.into_iter().collect();
        if let Ok(bundle) = Bundle::parse(&text) {
            prop_assert_eq!(Bundle::parse(&bundle.to_canonical_json()).unwrap(), bundle);
        }
    }

    #[test]
    fn s1_3_a_bundle_is_its_own_canonical_form(
        instructions in any::<String>().prop_filter("no NUL", |text| !text.contains('\0')),
        tools in prop::collection::btree_map("[a-z.*]{1,8}", (1u64..1_000_000_000, 1u64..1_000_000), 0..6),
        rules in prop::collection::vec(("[a-z.*]{1,8}", prop::sample::select(vec!["allow", "ask", "deny"])), 0..6),
        reverse in any::<bool>(),
    ) {
        let mut marks: Vec<String> = tools.iter().map(|(glob, (timeout, size))| {
            format!(r#""{glob}":{{"timeout":"{timeout}ms","maxResult":"{size}B"}}"#)
        }).collect();
        if reverse { marks.reverse(); }
        let rules: Vec<String> = rules.iter().map(|(tool, action)| {
            format!(r#"{{"tool":"{tool}","action":"{action}"}}"#)
        }).collect();
        let text = format!(
            r#"{{"name":"a","instructions":{},"tools":{{{}}},"permissions":{{"rules":[{}]}}}}"#,
            serde_json::to_string(&instructions).unwrap(), marks.join(","), rules.join(","),
        );
        let bundle = Bundle::parse(&text).unwrap();
        prop_assert_eq!(&bundle.instructions, &instructions);
        let canonical = bundle.to_canonical_json();
        let again = Bundle::parse(&canonical).unwrap();
        prop_assert_eq!(&again.to_canonical_json(), &canonical);
        prop_assert_eq!(again, bundle);
    }
}
