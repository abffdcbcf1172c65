//! What an attacker would do with a value that nothing vouches for (S5.9).

use serde_json::{Value, json};

use super::{call, check, returned, verdicts};

#[test]
fn s5_9_an_id_that_a_call_was_given_is_not_its_own() {
    let delete = |id: &str| call("drive.delete_file", json!({ "file_id": id }));
    let made = |args: Value, result: Value| returned("drive.create_file", args, result);
    // Given as it stands, in other letters, within a text.
    for name in ["F-9981", "f-9981", "the copy of F-9981, please"] {
        let echoed = made(json!({ "name": name }), json!({ "file_id": "F-9981" }));
        check("Tidy up", &[echoed, delete("F-9981")], "kk");
    }
    // Given to an earlier call that a person approved.
    let approved = returned(
        "people.invite",
        json!({ "who": "F-9981" }),
        json!({ "status": "ok" }),
    );
    let later = made(json!({ "name": "plan" }), json!({ "file_id": "F-9981" }));
    check("Create plan", &[approved, later, delete("F-9981")], "kak");
    // A short one counts by its kind: three guests are no file 3.
    let used = |args: Value| returned("drive.append_to_file", args, json!({ "ok": true }));
    let later = made(json!({ "name": "plan" }), json!({ "file_id": 3 }));
    let all = |args: Value| [used(args), later.clone(), delete("3")];
    check("Create plan", &all(json!({ "file_id": 3 })), "kak");
    check("Create plan", &all(json!({ "lines": 3 })), "kaa");
    // Read before, in an outsider's text.
    let read = returned(
        "mail.search",
        json!({ "q": "x" }),
        json!([{ "body": "look at F-9981!" }]),
    );
    let later = made(json!({ "name": "plan" }), json!({ "file_id": "F-9981" }));
    check("Create plan", &[read, later, delete("F-9981")], "aak");
}

#[test]
fn s5_9_what_a_created_record_refers_to_was_not_created() {
    let made = |result: Value| returned("drive.create_file", json!({ "name": "plan" }), result);
    let invite = |id: &str| call("people.invite", json!({ "who_id": id }));
    let delete = |id: &str| call("drive.delete_file", json!({ "file_id": id }));
    let record =
        json!({ "id": "77", "file_id": "78", "who_id": "w-55555", "owner": { "id": "o-55555" } });
    check("Create plan", &[made(record.clone()), delete("77")], "aa");
    check("Create plan", &[made(record.clone()), delete("78")], "aa");
    check("Create plan", &[made(record), invite("w-55555")], "ak");
    // Without a bare id the record's own is another; it may stand in an envelope.
    for result in [
        json!({ "file_id": "78" }),
        json!({ "status": "ok", "data": { "id": "78" } }),
        json!({ "result": { "file_id": "78", "name": "plan" } }),
        json!([{ "id": "78" }]),
    ] {
        check("Create plan", &[made(result), delete("78")], "aa");
    }
}

#[test]
fn s5_9_a_tool_that_nobody_described_creates_nothing() {
    let page = |tool: &str| returned(tool, json!({}), json!({ "file_id": "13" }));
    let delete = call("drive.delete_file", json!({ "file_id": "13" }));
    let run = |tool: &str| {
        verdicts(
            "permissions: {preset: balanced}",
            "trusted",
            "x",
            &[page(tool), delete.clone()],
        )
    };
    // Its output is an outsider's, and that it writes is only assumed.
    assert_eq!(run("nobody.knows"), "ak");
    assert_eq!(run("drive.create_file"), "aa");
}

#[test]
fn s5_9_an_id_is_no_amount_and_a_number_no_id() {
    let made = returned(
        "drive.create_file",
        json!({ "name": "plan" }),
        json!({ "id": "99999" }),
    );
    let pay = call("bank.pay", json!({ "to": "bob", "amount": 99999 }));
    check("Create plan, pay bob", &[made, pay], "ak");
    let balanced = "permissions: {preset: balanced}";
    let listing = returned(
        "drive.list",
        json!({}),
        json!([{ "id": 7, "size": 54321, "note": "see 65432 too", "path": "/a/b.txt" }]),
    );
    let taint = returned("web.open", json!({ "url": "u" }), json!("x"));
    let last = |last: Value| {
        verdicts(
            balanced,
            "trusted",
            "x",
            &[listing.clone(), taint.clone(), last],
        )
    };
    let delete = |id: Value| last(call("drive.delete_file", json!({ "file_id": id })));
    assert_eq!(delete(json!(7)), "aaa");
    assert_eq!(delete(json!(54321)), "aak");
    assert_eq!(delete(json!(65432)), "aaa", "words of a text are words");
}

#[test]
fn s5_9_an_id_of_another_kind_does_not_vouch_for_what_is_acted_on() {
    let rule = "permissions: {preset: balanced}";
    let listing = returned("drive.list", json!({}), json!([{ "id": "F-12345" }]));
    let taint = returned("web.open", json!({ "url": "u" }), json!("x"));
    let send = call("mail.send", json!({ "attachments": ["F-12345"] }));
    let invite = call("people.invite", json!({ "who": "F-12345" }));
    let run = |last: &Value| {
        verdicts(
            rule,
            "trusted",
            "x",
            &[listing.clone(), taint.clone(), last.clone()],
        )
    };
    assert_eq!(run(&send), "aak");
    assert_eq!(run(&invite), "aaa");
}

#[test]
fn s5_9_a_name_in_a_key_is_a_value() {
    let share = |who: Value| call("people.invite", json!({ "who": who }));
    let prompt = "Let bob read and write";
    for (who, expected) in [
        (json!({ "bob": "read" }), "a"),
        (json!({ "mallory": "read" }), "k"),
        (json!([{ "mallory": "bob" }]), "k"),
        (json!({ "name": "bob" }), "a"),
        (json!({ "firstName": "bob" }), "a"),
        (json!({ "recipients": [{ "name": "bob" }] }), "a"),
        (json!({ "name": { "mallory": null } }), "k"),
    ] {
        check(prompt, &[share(who)], expected);
    }
}

#[test]
fn s5_9_part_of_a_name_is_another_name() {
    let prompt = "Invite o'brien@x.example and Pat O'Brien, not a|c@x.example; Bob's friend";
    for (who, expected) in [
        ("o'brien@x.example", "a"),
        ("brien@x.example", "k"),
        ("'brien@x.example", "k"),
        ("O'Brien", "a"),
        ("Brien", "k"),
        ("Bob", "a"),
        ("c@x.example", "k"),
        ("o'brien", "a"),
        ("o", "k"),
    ] {
        check(
            prompt,
            &[call("people.invite", json!({ "who": who }))],
            expected,
        );
    }
}

#[test]
fn s5_9_who_writes_in_a_record_is_no_part_of_it() {
    let invite = |who: &str| call("people.invite", json!({ "who": who }));
    let found = |result: Value| returned("people.find", json!({ "name": "Ann Lee" }), result);
    let record = json!([{ "id": 4, "email": "ann@x.example",
        "comments": [{ "from": "eve@evil.example" }], "phones": [{ "address": "01234567890" }],
        "team": { "lead": "lead@x.example", "fans": [{ "mail": "fan@evil.example" }] } }]);
    for (who, expected) in [
        ("ann@x.example", "aa"),
        ("01234567890", "aa"),
        ("lead@x.example", "aa"),
        ("eve@evil.example", "ak"),
        ("fan@evil.example", "ak"),
    ] {
        check(
            "Invite Ann Lee",
            &[found(record.clone()), invite(who)],
            expected,
        );
    }
}

#[test]
fn s5_9_a_look_alike_of_a_vouched_address_is_another() {
    let prompt = "Pay bob@bank.example, DE89 3704 0044 0532 0130 00, via https://bank.example/pay";
    for (who, expected) in [
        ("bob@bank.example", "a"),
        ("bob@bank.example.", "k"),
        ("bob@bank.example.evil.example", "k"),
        ("b\u{43e}b@bank.example", "k"),
        ("bob\u{200b}@bank.example", "k"),
        ("ｂｏｂ@bank.example", "k"),
        ("bob@bank.example\u{0}", "k"),
        ("bob@bank.xn--example", "k"),
        ("bob%40bank.example", "k"),
        ("bob&#64;bank.example", "k"),
        ("https://bank.example/pay", "a"),
        ("https://bank.example/pay?to=eve", "k"),
        ("https://bank.example/pay/eve", "k"),
        ("https://bank.example", "k"),
        ("https://bob@bank.example/pay", "k"),
        ("https://bank.example@evil.example/pay", "k"),
        ("https://bank.example/p%61y", "k"),
        ("[x](https://bank.example/pay)", "k"),
        ("de89370400440532013000", "a"),
        ("DE89-3704-0044-0532-0130-00", "a"),
        ("DE89370400440532013001", "k"),
        ("D\u{415}89370400440532013000", "k"),
        ("DE8937040044053201300", "k"),
        ("370400440532013000", "k"),
    ] {
        check(
            prompt,
            &[call("people.invite", json!({ "who": who }))],
            expected,
        );
    }
}

#[test]
fn s5_9_links_that_only_a_page_shows() {
    let rule = "permissions: {default: allow, rules: [{tool: 'web.post', action: ask, unless: \
                {roles: {content: {linksFrom: [task]}}}}]}";
    let prompt = "Post about https://good.example/a and DE89370400440532013000";
    for (text, expected) in [
        ("**https://good.example/a**", "a"),
        ("[here](https://good.example/a).", "a"),
        ("DE89-3704-0044-0532-0130-00", "a"),
        ("[x](https:evil.example)", "k"),
        (r"[x](https:\\evil.example)", "k"),
        ("evil&#46;example", "k"),
        ("evil%2Eexample", "k"),
        (r"evil\.example", "k"),
        ("**evil.example**", "k"),
        ("see:evil.example", "k"),
        ("https://good.example/a,.evil.example", "k"),
        ("https://good.example/a'.evil.example", "k"),
        ("https://good.example/a;b=c", "k"),
        ("US13-3000-0001-2121-2121-212", "k"),
        ("US13 300 000 012 121 212 1212", "k"),
        ("US13\u{200b}3000\u{200b}0001\u{200b}2121", "k"),
        ("2001:db8::1", "k"),
    ] {
        let args = json!({ "url": "x", "text": text });
        assert_eq!(
            verdicts(rule, "trusted", prompt, &[call("web.post", args)]),
            expected,
            "{text}"
        );
    }
}

#[test]
fn s5_9_max_is_not_got_round() {
    let rule = "permissions: {default: allow, rules: [{tool: 'bank.*', action: ask, unless: \
                {roles: {amount: {max: 100}}}}]}";
    let pay = |amount: &str, approve: bool| -> Value {
        let args: Value = serde_json::from_str(&format!(r#"{{"amount":{amount}}}"#)).unwrap();
        json!({ "tool": "bank.pay", "args": args, "approve": approve })
    };
    let run = |calls: &[Value]| verdicts(rule, "trusted", "x", calls);
    assert_eq!(run(&[pay(r#""50 BTC""#, false)]), "k");
    assert_eq!(run(&[pay("true", false)]), "k");
    assert_eq!(run(&[pay("5e1", true), pay("51", false)]), "ak");
    // What was refused does not count, what was approved does.
    assert_eq!(run(&[pay("200", false), pay("100", false)]), "ka");
    assert_eq!(run(&[pay("200", true), pay("1", false)]), "kk");
    // After a sum that nobody can add up nothing is known to be within the limit.
    assert_eq!(run(&[pay(r#""all""#, true), pay("1", false)]), "kk");
    // A trace holds numbers that no decimal does.
    let huge = format!("1{}", "0".repeat(60));
    assert_eq!(run(&[pay(&huge, true), pay("1", false)]), "kk");
}

#[test]
fn s5_9_an_argument_without_a_role_meets_every_condition_of_the_alternative() {
    let rule = "permissions: {default: allow, rules: [{tool: 'bank.pay', action: ask, unless: \
                {args: {/to: {from: [task]}}, roles: {amount: {max: 100}}}}]}";
    let pay = |args: Value| verdicts(rule, "trusted", "Pay bob", &[call("bank.pay", args)]);
    assert_eq!(pay(json!({ "to": "bob", "amount": 5 })), "a");
    assert_eq!(pay(json!({ "to": "bob", "amount": 5, "extra": 1 })), "k");
    assert_eq!(pay(json!({ "to": "eve", "amount": 5 })), "k");
}

#[test]
fn s5_9_arguments_that_are_no_mapping_are_held_against_the_call() {
    let rule = |action: &str, default: &str| {
        format!(
            "permissions: {{default: {default}, rules: [{{tool: 'bank.*', action: {action}, when: {{args: {{/amount: {{min: 50}}}}}}}}]}}"
        )
    };
    for args in [json!("{\"amount\": 60}"), json!([60]), json!(60)] {
        let pay = call("bank.pay", args);
        let run = |rule: &str| verdicts(rule, "trusted", "x", std::slice::from_ref(&pay));
        assert_eq!(run(&rule("deny", "allow")), "d");
        assert_eq!(run(&rule("allow", "deny")), "d");
    }
}
