use super::*;

fn by_name() -> Redaction {
    Redaction::by_name(["Kundennummer"])
}

#[track_caller]
fn view(text: &str) -> String {
    by_name().view(text).into_owned()
}

/// S3.10, B44: names are found at any depth, in whatever case; all else stays byte for byte.
#[test]
fn b44_names_are_redacted_in_depth_and_all_else_is_kept() {
    let text = r#"{ "config":{"password":"hunter2"},"items":[{"api_key":"zz-nobody-knows-1"}],"n":1.10,"note":"Bearer abc.def" }"#;
    assert_eq!(
        view(text),
        r#"{ "config":{"password":"[redacted]"},"items":[{"api_key":"[redacted]"}],"n":1.10,"note":"Bearer [redacted]" }"#
    );
    for (text, redacted) in [
        (r#"{"X-API-Key":"k"}"#, r#"{"X-API-Key":"[redacted]"}"#),
        (
            r#"{"pin":1,"otp":123456}"#,
            r#"{"pin":1,"otp":"[redacted]"}"#,
        ),
        (
            r#"{"secrets":["a",{"b":"c"}]}"#,
            r#"{"secrets":["[redacted]",{"b":"[redacted]"}]}"#,
        ),
        (
            r#"{"kunden-nummer":"7"}"#,
            r#"{"kunden-nummer":"[redacted]"}"#,
        ),
        (
            r#"{"pass\u0077ord":"x"}"#,
            r#"{"pass\u0077ord":"[redacted]"}"#,
        ),
        (
            r#"{"args":"{\"password\":\"a\\\"b\"}"}"#,
            r#"{"args":"{\"password\":\"[redacted]\"}"}"#,
        ),
    ] {
        assert_eq!(view(text), redacted);
    }
}

/// S3.10: what only looks alike is left to the reader.
#[test]
fn what_is_no_secret_stays() {
    for text in [
        r#"{"page_token":"abc","next-token":"x","maxTokens":5,"secretary":"Ann","has":true}"#,
        r#"{"password":null,"reset_password":true,"password_hint":""}"#,
        r#"{"a":[1e400,-0.0,"\ud800"],"b":{}}"#,
        "The bearer of bad news asked for the password.",
        "see https://shop.example/a?b=c and mail ann@shop.example",
        "",
    ] {
        assert_eq!(view(text), text);
    }
}

/// S3.10: plain text assigns to names as well, and some credentials are known by their form.
#[test]
fn plain_text_is_redacted() {
    for (text, redacted) in [
        ("password=hunter2&x=1", "password=[redacted]&x=1"),
        (
            "Password: hunter2, then go",
            "Password: [redacted], then go",
        ),
        ("Authorization: Bearer abc", "Authorization: [redacted]"),
        (
            r#"half {"api_key": "a b c"#,
            r#"half {"api_key": "[redacted]"#,
        ),
        ("bearer abc.def1", "bearer [redacted]"),
        (
            "postgres://app:s3cr3t@db/x",
            "postgres://app:[redacted]@db/x",
        ),
        ("key ghp_abcdefghijklmnopqrstuvwxyz.", "key [redacted]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nok",
            "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----\nok",
        ),
        ("password: [redacted]", "password: [redacted]"),
    ] {
        assert_eq!(view(text), redacted, "{text}");
    }
}

/// S3.10, B44: a stored value is found wherever it stands, also as it is quoted in JSON.
#[test]
fn values_are_redacted_wherever_they_stand() {
    let redaction = by_name().with_values(["s3cr3t\"value", "s3cr3t\"value-longer", "short"]);
    assert_eq!(
        redaction.view("a s3cr3t\"value-longer and s3cr3t\"value in short"),
        "a [redacted] and [redacted] in short"
    );
    assert_eq!(
        redaction.view(r#"{"text":"long long s3cr3t\"value text"}"#),
        r#"{"text":"long long [redacted] text"}"#
    );
    assert_eq!(
        redaction.without_values(r#"half {"text":"s3cr3t\"value"#),
        r#"half {"text":"[redacted]"#
    );
    assert!(!format!("{redaction:?}").contains("s3cr3t"));
}

/// What nests too deep for any parser is masked and does not bring the reader down.
#[test]
fn hostile_nesting_is_masked_as_a_whole() {
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    assert!(view(&deep).contains(MASK));
    assert_eq!(view(&deep).len(), 128 * 2 + MASK.len() + 2);
}

proptest::proptest! {
    /// Whatever the text is, its view is made without a panic, stays JSON if it was, and is its own
    /// view.
    #[test]
    fn a_view_is_its_own_view(text in r#"[\[\]{}",:a-z=\\ 0-9]{0,40}|(password|token|Bearer|=|:|"| |\{|\}|é){0,12}"#) {
        let redaction = by_name().with_values(["abcdef"]);
        let once = redaction.view(&text).into_owned();
        proptest::prop_assert_eq!(redaction.view(&once).into_owned(), once);
    }
}
