//! `cedar-policy` on the same rules. It knows allow and deny; that a person has to be asked is said
//! by a second action, so that one verdict is two questions. It has no provenance.

use std::fmt::Write;
use std::hint::black_box;
use std::str::FromStr;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityUid, PolicySet, Request, RestrictedExpression,
};

use crate::rules::{Says, hundred, median};

fn policies() -> PolicySet {
    let mut text = String::from("permit(principal, action, resource);\n");
    for rule in hundred() {
        let on = format!("context.tool like \"{}\"", rule.tool);
        let policy = match rule.says {
            Says::Deny => format!("forbid(principal, action, resource) when {{ {on} }};\n"),
            Says::AskBelowTrusted => format!(
                "forbid(principal, action == Action::\"run_unasked\", resource) when {{ {on} && context.trust == \"untrusted\" }};\n"
            ),
            Says::Ask => format!(
                "forbid(principal, action == Action::\"run_unasked\", resource) when {{ {on} }};\n"
            ),
            Says::AllowReads => format!(
                "permit(principal, action, resource) when {{ {on} && context.effect == \"read\" }};\n"
            ),
        };
        write!(text, "{policy}").expect("strings grow");
    }
    PolicySet::from_str(&text).expect("the policies are Cedar")
}

fn uid(text: &str) -> EntityUid {
    text.parse().expect("an entity's id")
}

fn request(action: &str) -> Request {
    let text = |text: &str| RestrictedExpression::new_string(text.to_owned());
    let pairs = [
        ("tool".to_owned(), text("srv7.tool_507")),
        ("trust".to_owned(), text("trusted")),
        ("effect".to_owned(), text("write")),
    ];
    let context = Context::from_pairs(pairs).expect("three texts");
    let action = uid(&format!("Action::\"{action}\""));
    Request::new(
        uid("Agent::\"a\""),
        action,
        uid("Tool::\"t\""),
        context,
        None,
    )
    .expect("no schema refuses it")
}

/// Nanoseconds a verdict.
pub fn measure() -> u128 {
    let (authorizer, policies, entities) = (Authorizer::new(), policies(), Entities::empty());
    let both = [request("run"), request("run_unasked")];
    let ask = |request| {
        authorizer
            .is_authorized(request, &policies, &entities)
            .decision()
    };
    assert!(both.iter().all(|request| ask(request) == Decision::Allow));
    median(999, || {
        for request in &both {
            black_box(ask(black_box(request)));
        }
    })
}
