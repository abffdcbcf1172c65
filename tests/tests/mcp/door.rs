//! Who is let in over HTTP, before a message is read.

use sayso_tests::{Case, both};
use serde_json::{Value, json};

use crate::WORLD;

struct Answer {
    status: u16,
    challenge: Option<String>,
    code: Value,
}

async fn ask(case: &Case, headers: &[(&str, &str)]) -> Answer {
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let mut request = reqwest::Client::new()
        .post(format!("{}/mcp", case.address(0)))
        .header("accept", "application/json, text/event-stream")
        .json(&list);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = request.send().await.unwrap();
    let header = |name: &str| {
        let value = answer.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    };
    let (status, challenge) = (answer.status().as_u16(), header("www-authenticate"));
    let body: Value = answer.json().await.unwrap();
    assert_eq!(body["jsonrpc"], "2.0");
    Answer {
        status,
        challenge,
        code: body["error"]["data"]["code"].clone(),
    }
}

both! {
    /// S6.11, S6.13: nothing is told to whoever has no token, not even the tools.
    async fn s6_11_every_request_needs_a_token(case: Case) {
        let good = format!("Bearer {}", case.token("sub"));
        let let_in = ask(&case, &[("authorization", &good)]).await;
        assert_eq!((let_in.status, let_in.code), (200, Value::Null));
        let unknown = format!("Bearer sayso_{}", "x".repeat(43));
        for (headers, code) in [
            (vec![], "token.missing"),
            (vec![("authorization", unknown.as_str())], "token.invalid"),
            (vec![("authorization", "Basic eDp5")], "token.invalid"),
            (vec![("authorization", good.as_str()), ("authorization", good.as_str())], "token.invalid"),
        ] {
            let refused = ask(&case, &headers).await;
            assert_eq!(refused.status, 401, "{headers:?}");
            assert_eq!(refused.challenge.as_deref(), Some("Bearer"));
            assert_eq!(refused.code, code, "{headers:?}");
        }
    }

    /// S6.13: a name that somebody else made lead here, and another site's page, are refused whatever
    /// token they bring.
    async fn s6_13_rebound_names_and_strangers_pages_are_refused(case: Case) {
        let token = format!("Bearer {}", case.token("app"));
        let token = ("authorization", token.as_str());
        for (header, code) in [
            (("host", "evil.example.com"), "mcp.host_refused"),
            (("origin", "http://evil.example.com"), "mcp.origin_refused"),
            (("origin", "null"), "mcp.origin_refused"),
        ] {
            let refused = ask(&case, &[token, header]).await;
            assert_eq!((refused.status, refused.code), (403, code.into()), "{header:?}");
        }
        for header in [("host", "localhost:7400"), ("origin", "http://localhost:6274")] {
            assert_eq!(ask(&case, &[token, header]).await.status, 200, "{header:?}");
        }
    }
}
