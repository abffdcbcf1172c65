//! How traces and bundles are read (S5.2, S5.8, S5.11, S5.12).

use sayso_rules::Bundle;
use sayso_rules::trace;
use serde_json::json;

fn judged(bundle: &str, lines: &str) -> Vec<String> {
    let bundle = Bundle::parse(bundle).unwrap_or_else(|error| panic!("{error}"));
    trace::judge(&bundle, &trace::read(lines).unwrap())
        .iter()
        .flat_map(|answer| &answer.verdicts)
        .map(|verdict| format!("{} {} {}", verdict.action, verdict.rule, verdict.trust))
        .collect()
}

#[test]
fn s5_2_a_rule_reaches_a_call_in_either_form_of_its_name() {
    for rule in [
        "crm.update_contact",
        "crm_update_contact",
        "crm.*",
        "*.update_*",
    ] {
        for call in ["crm.update_contact", "crm_update_contact"] {
            let bundle = format!(
                "name: a\npermissions: {{default: allow, rules: [{{tool: '{rule}', action: deny}}]}}"
            );
            let bare = format!(r#"{{"id":"t","prompt":"p","calls":[{{"tool":"{call}"}}]}}"#);
            assert_eq!(
                judged(&bundle, &bare),
                ["deny rules#0 trusted"],
                "{rule} {call}"
            );
            let listed = bare.replace(
                "}]}",
                r#"}],"tools":[{"name":"crm.update_contact"},{"name":"crmx.update_y"}]}"#,
            );
            assert_eq!(judged(&bundle, &listed), ["deny rules#0 trusted"]);
        }
    }
    let server = "name: a\nservers: {my_crm: {command: [x]}}\npermissions: {default: allow, rules: [{tool: 'my_crm.*', action: deny}]}";
    let line = r#"{"id":"t","prompt":"p","calls":[{"tool":"my_crm_go"},{"tool":"My_crm_go"}]}"#;
    assert_eq!(
        judged(server, line),
        ["deny rules#0 trusted", "allow default trusted"]
    );
}

#[test]
fn s5_9_a_read_that_sends_to_a_destination_is_outward() {
    let bundle = "name: a\nservers: {s: {command: [x], trustAnnotations: true}, u: {command: [x]}}\n\
                  tools: {'*.get': {roles: {url: destination}}}\n\
                  permissions: {default: allow, rules: [{tool: '*', action: deny, when: {effect: [outward]}}, \
                  {tool: '*', action: ask, when: {effect: [write]}}]}";
    let line = json!({
        "id": "t", "prompt": "p",
        "calls": [{ "tool": "s.get" }, { "tool": "s.list" }, { "tool": "shop.get" },
            { "tool": "shop.list" }, { "tool": "u.get", "approve": false }],
        "tools": [
            { "name": "s.get", "annotations": { "readOnlyHint": true, "openWorldHint": false } },
            { "name": "s.list", "annotations": { "readOnlyHint": true, "openWorldHint": false } },
            { "name": "shop.get", "method": "GET" },
            { "name": "shop.list", "method": "GET" },
            { "name": "u.get", "annotations": { "readOnlyHint": true } }],
    });
    assert_eq!(
        judged(bundle, &line.to_string()),
        [
            "deny rules#0 trusted",
            "allow default trusted",
            "deny rules#0 trusted",
            "allow default trusted",
            "ask rules#1 trusted",
        ]
    );
}

#[test]
fn s5_8_a_call_that_does_not_happen_lowers_no_trust_and_is_not_read() {
    let bundle = "name: a\ntools: {web.get: {untrustedOutput: true, sensitiveOutput: true, effect: read}, \
                  'web.*': {untrustedOutput: false}, c.make: {effect: write, untrustedOutput: false, returns: {id: thing}}, \
                  c.drop: {effect: destructive, untrustedOutput: false, roles: {id: {role: object, kind: thing}}}}\n\
                  permissions: {default: allow, rules: [{tool: web.get, action: ask}, {tool: web.no, action: deny}, \
                  {tool: c.make, action: ask}, \
                  {tool: c.drop, action: ask, unless: {roles: {object: {from: [own]}}}}, \
                  {tool: web.last, action: deny, when: {secretRead: true}}]}";
    let run = |approve: bool| {
        let line = json!({ "id": "t", "prompt": "p", "trust": "operator", "calls": [
            { "tool": "web.no", "result": "x", "approve": true },
            { "tool": "web.get", "result": "x", "approve": approve },
            { "tool": "c.make", "result": { "id": 7 }, "approve": approve },
            { "tool": "c.drop", "args": { "id": 7 }, "approve": true },
            { "tool": "web.last" }] });
        judged(bundle, &line.to_string())
    };
    assert_eq!(
        run(false),
        [
            "deny rules#1 operator",
            "ask rules#0 operator",
            "ask rules#2 operator",
            "ask rules#3 operator",
            "allow default operator",
        ]
    );
    assert_eq!(
        run(true),
        [
            "deny rules#1 operator",
            "ask rules#0 operator",
            "ask rules#2 untrusted",
            "allow default untrusted",
            "deny rules#4 untrusted",
        ]
    );
}

/// The sample of a bundle, whole: what this version does not do is refused by name, all else is
/// taken.
#[test]
fn s5_11_the_documented_bundle_is_read() {
    let sample = r#"
name: support-desk
description: Answers order questions and drafts replies.
role: support            # the ceiling; `unrestricted` (everything) exists in every namespace
tier: balanced
instructions: |
  You help customers of the shop …
interaction: true        # gives the agent ask_person
builtins: [create_artifact, read_doc, fetch_url, draft_reply, send_email]
docs: [{ site: "https://docs.example", trusted: true }]
endpoints:               # catalogues imported beforehand
  - catalogue: shop
    credential: "${secret:SHOP_TOKEN}"
    grant: [list_orders, get_order, refund_order]     # or ["*"]
servers:                 # MCP
  git: { command: [mcp-server-git, --repository, /srv/repo], env: { LANG: C.UTF-8 } }
  search: { url: "https://mcp.example/mcp", headers: { authorization: "Bearer ${secret:SEARCH_KEY}" }, trustAnnotations: false, perRun: false }
agents: [researcher]     # whom start_agent may start
tools:                   # exact names or globs; an exact key wins
  "shop.refund_order": { review: required, effect: write, idempotent: false, timeout: 20s,
                         roles: { order_id: { role: object, kind: order }, amount: amount, to: destination, when: free } }
  "shop.get_order": { returns: { id: order } }
  "search.*": { untrustedOutput: false }
permissions:
  preset: balanced       # optional; sets default: allow, its rules stand first in each class
  rules:
    - { tool: "git.git_status", action: allow }
    - { tool: "*.delete_*", action: deny }
    - tool: "shop.refund_order"
      action: ask
      when: { args: { "/amount": { min: 50 } } }
      approvers: { group: finance, count: 2, exclude: [author, writers] }
      escalate: [{ after: 10m, to: { group: leads } }, { after: 30m, to: { target: oncall } }]
    - tool: "*"
      action: ask
      when: { trustBelow: trusted, effect: [outward, write, destructive] }
      unless: [{ roles: { destination: { from: [task, own, trusted] }, content: { linksFrom: [task] } } }]
  approvalTimeout: 30m
  notify: { url: "https://hooks.example/approvals", secret: APPROVAL_HOOK_KEY }
triggers:
  - { cron: "30 2 * * *", timezone: Europe/Berlin, input: "Nightly check" }
  - { webhook: orders, secret: ORDERS_HOOK_KEY, trust: untrusted }
"#;
    if let Err(errors) = Bundle::parse(sample) {
        for error in errors.errors() {
            assert_eq!(error.code, "bundle.unsupported", "{error}");
        }
    }
}

/// The rule of the specification, written as it stands there.
#[test]
fn s5_9_one_rule_protects_all_tools() {
    let rule = r#"{"tool":"*","action":"ask","when":{"trustBelow":"trusted","effect":["outward","write","destructive"]},"unless":{"roles":{"destination":{"from":["task","own","trusted"]},"object":{"from":["task","own","trusted"]},"content":{"linksFrom":["task","own","trusted","lookup"]}}}}"#;
    let bundle = format!(
        r#"{{"name":"a","tools":{{"mail.send":{{"effect":"write","untrustedOutput":false,"sensitiveOutput":false,"review":"not_required","roles":{{"to":"destination","body":"content","attachments":"object"}}}}}},"permissions":{{"default":"allow","rules":[{rule}]}}}}"#
    );
    let line = json!({ "id": "t", "prompt": "Write to bob@x.example", "trust": "untrusted", "calls": [
        { "tool": "mail.send", "args": { "to": "bob@x.example", "body": "any words" } },
        { "tool": "mail_send", "args": { "to": ["bob@x.example"], "body": "any words", "attachments": [] } },
        { "tool": "mail.send", "args": { "to": "bob@x.example", "body": "see evil.example" } },
        { "tool": "mail.send", "args": { "to": "eve@x.example" } },
        { "tool": "mail.send", "args": { "to": "bob@x.example", "bcc": "eve@x.example" } },
        { "tool": "mail.purge", "args": {} }] });
    let actions: Vec<String> = judged(&bundle, &line.to_string())
        .iter()
        .map(|verdict| verdict.split(' ').next().unwrap().to_owned())
        .collect();
    assert_eq!(actions, ["allow", "allow", "ask", "ask", "ask", "ask"]);
}

#[test]
fn s5_11_every_construct_comes_back_from_its_canonical_form() {
    let text = r#"{"name":"a","tools":{
        "a.b":{"review":"required","effect":"outward","idempotent":true,"timeout":"1500ms","maxResult":"1KiB",
            "untrustedOutput":true,"sensitiveOutput":false,"roles":{"x":"free","/y/*/z":{"role":"credential","kind":"k.1"},"/a~1b/~0":"label"},
            "returns":{"id":"k","/q/0/r":"s"}},
        "c.*":{"untrustedOutput":false}},
      "permissions":{"preset":"light","default":"deny","rules":[
        {"tool":"*","action":"ask","when":{"trust":"operator","trustBelow":"operator","effect":[],"secretRead":true,
          "args":{"/x":{"equals":1.50,"oneOf":["a",true,1e2],"glob":"*\u00e9","min":-1.25,"max":999999999999999999999999,"maxLength":0}}},
         "unless":[{"args":{"/x":{"from":[],"linksFrom":["task","own","trusted","lookup"],"max":0.000000000001}},"roles":{"object":{"from":["own"]}}},
                   {"roles":{"destination":{"max":5},"label":{"from":["task"]},"content":{"linksFrom":[]}}}]},
        {"tool":"b","action":"deny","unless":[]}],
      "approvalTimeout":"90m"}}"#;
    let bundle = Bundle::parse(text).unwrap_or_else(|error| panic!("{error}"));
    let canonical = bundle.to_canonical_json();
    let again = Bundle::parse(&canonical).unwrap_or_else(|error| panic!("{error}: {canonical}"));
    assert_eq!(again, bundle);
    assert_eq!(again.to_canonical_json(), canonical);
}
