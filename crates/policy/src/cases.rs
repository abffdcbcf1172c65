//! The cases that stand beside a bundle (S5.12): `agent.cases.yaml` beside `agent.yaml`.
//!
//! ```yaml
//! tools:                              # optional: what servers say of tools; without it, nothing
//!   - { name: shop.get_order, annotations: { readOnlyHint: true } }
//! cases:
//!   - name: a refund waits for a person
//!     prompt: Refund order A-17       # the principal's own words
//!     trust: trusted                  # optional: untrusted, trusted (the default) or operator
//!     self: [me@shop.example]         # optional: the principal's own addresses
//!     calls:
//!       - tool: shop.get_order
//!         args: { order_id: A-17 }
//!         result: { id: A-17 }        # what it returned; optional
//!         expect: allow
//!       - tool: shop.refund_order
//!         args: { order_id: A-17, amount: 16.63 }
//!         approve: false              # what a person says if asked; true unless said otherwise
//!         expect: { action: ask, rule: "rules#0", trust: untrusted }
//! ```
//!
//! A case is a run: its calls are judged in order, and what is denied, or asked for and not approved,
//! does not happen. A call without `expect` only sets the stage. What the bundle grants is granted,
//! and the role is `unrestricted`: a case is about the bundle.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sayso_rules::bundle::{Action, to_json};
use sayso_rules::trace::{Trace, TracedCall, TracedTool, TracedVerdict, judge};
use sayso_rules::{Bundle, Trust};
use sayso_wire::v1;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::answers;
use crate::granted::{grants, registered};

/// Why cases cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the cases have a mistake at {}: {message}", if path.is_empty() { "their beginning" } else { path })]
pub struct BadCases {
    /// The key, such as `cases[2].calls[0].expect`; empty for the file as a whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
}

/// The cases of one bundle.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cases {
    #[serde(default)]
    tools: Option<Vec<TracedTool>>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    #[serde(default)]
    prompt: String,
    #[serde(default)]
    trust: Trust,
    #[serde(default, rename = "self")]
    own_addresses: Vec<String>,
    calls: Vec<CaseCall>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseCall {
    tool: String,
    #[serde(default)]
    args: Option<Box<RawValue>>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default = "yes")]
    approve: bool,
    #[serde(default)]
    expect: Option<Expected>,
}

fn yes() -> bool {
    true
}

/// What a case expects of a call: all that it says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Expected {
    action: Option<Action>,
    rule: Option<String>,
    trust: Option<Trust>,
}

impl Cases {
    /// Reads cases, YAML or JSON.
    ///
    /// # Errors
    ///
    /// [`BadCases`] names the first mistake.
    pub fn parse(text: &str) -> Result<Self, BadCases> {
        let json = to_json(text).map_err(|error| BadCases {
            path: error.path,
            message: error.message,
        })?;
        let mut reader = serde_json::Deserializer::from_str(&json);
        let cases: Self =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| BadCases {
                path: error.path().to_string().trim_matches('.').to_owned(),
                message: without_place(&error.inner().to_string()),
            })?;
        let empty = cases.cases.iter().position(|case| case.calls.is_empty());
        match empty {
            Some(at) => Err(BadCases {
                path: format!("cases[{at}].calls"),
                message: "a case has at least one call".to_owned(),
            }),
            None => Ok(cases),
        }
    }

    /// Runs them under a bundle.
    #[must_use]
    pub fn run(&self, bundle: &Bundle) -> v1::TestPolicyResponse {
        let tools = self.granted(bundle);
        let trace = |case| trace(case, &tools);
        let traces: Vec<Trace> = self.cases.iter().map(trace).collect();
        let answers = judge(bundle, &traces);
        let results: Vec<v1::CaseResult> = self
            .cases
            .iter()
            .zip(answers)
            .map(|(case, answer)| {
                let calls = case.calls.iter().zip(answer.verdicts);
                let calls: Vec<v1::CaseCall> = calls.map(|(call, is)| result(call, is)).collect();
                v1::CaseResult {
                    name: case.name.clone(),
                    passed: calls.iter().all(|call| call.passed),
                    calls,
                }
            })
            .collect();
        let failed = results.iter().filter(|result| !result.passed).count();
        v1::TestPolicyResponse {
            failed: u32::try_from(failed).unwrap_or(u32::MAX),
            cases: results,
        }
    }

    /// The tools that are called and that the bundle grants, with what their servers say of them.
    fn granted(&self, bundle: &Bundle) -> Arc<[TracedTool]> {
        let calls = self.cases.iter().flat_map(|case| &case.calls);
        let called = calls.map(|call| TracedTool {
            name: registered(bundle, &call.tool),
            annotations: None,
            method: None,
        });
        let listed = self.tools.iter().flatten().cloned();
        let known: BTreeMap<String, TracedTool> = called
            .chain(listed)
            .filter(|tool| grants(bundle, &tool.name))
            .map(|tool| (tool.name.clone(), tool))
            .collect();
        known.into_values().collect()
    }
}

fn trace(case: &Case, tools: &Arc<[TracedTool]>) -> Trace {
    let calls = case.calls.iter().map(|call| TracedCall {
        tool: call.tool.clone(),
        args: call.args.clone(),
        result: call.result.clone(),
        approve: call.approve,
    });
    Trace {
        id: case.name.clone(),
        prompt: case.prompt.clone(),
        trust: case.trust,
        own_addresses: case.own_addresses.clone(),
        calls: calls.collect(),
        tools: Some(Arc::clone(tools)),
    }
}

/// The JSON that the mistake was found in is not what was written: its lines mean nothing.
fn without_place(message: &str) -> String {
    let cut = message.rfind(" at line ").unwrap_or(message.len());
    message[..cut].to_owned()
}

fn result(call: &CaseCall, is: TracedVerdict) -> v1::CaseCall {
    let rule = is.rule.to_string();
    let expected = call.expect.clone().unwrap_or_default();
    let passed = expected.action.is_none_or(|action| action == is.action)
        && expected
            .rule
            .as_ref()
            .is_none_or(|expected| *expected == rule)
        && expected.trust.is_none_or(|trust| trust == is.trust);
    v1::CaseCall {
        tool: call.tool.clone(),
        expected: expected.to_string(),
        passed,
        action: answers::action(is.action).into(),
        rule,
        reason: is.reason,
        trust: answers::trust(is.trust).into(),
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        if let Some(action) = self.action {
            write!(f, "{action}")?;
            gap = " ";
        }
        if let Some(rule) = &self.rule {
            write!(f, "{gap}by {rule}")?;
            gap = " ";
        }
        if let Some(trust) = self.trust {
            write!(f, "{gap}at {trust}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Expected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ExpectedVisitor)
    }
}

struct ExpectedVisitor;

impl<'de> Visitor<'de> for ExpectedVisitor {
    type Value = Expected;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`allow`, `ask`, `deny`, or a mapping of `action`, `rule` and `trust`")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Expected, E> {
        Ok(Expected {
            action: Some(action(word)?),
            ..Expected::default()
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Expected, A::Error> {
        let mut expected = Expected::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "action" => expected.action = Some(action(&map.next_value::<String>()?)?),
                "rule" => expected.rule = Some(map.next_value()?),
                "trust" => expected.trust = Some(map.next_value()?),
                _ => return Err(A::Error::unknown_field(&key, &["action", "rule", "trust"])),
            }
        }
        if expected == Expected::default() {
            return Err(A::Error::custom("nothing is expected"));
        }
        Ok(expected)
    }
}

fn action<E: serde::de::Error>(word: &str) -> Result<Action, E> {
    let known = [Action::Allow, Action::Ask, Action::Deny];
    let found = known.into_iter().find(|action| action.as_str() == word);
    found.ok_or_else(|| E::unknown_variant(word, &["allow", "ask", "deny"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: &str = "
name: clerk
servers: {shop: {command: [x]}}
tools:
  shop.get_order: {effect: read, untrustedOutput: true}
  shop.refund: {effect: write, untrustedOutput: false}
permissions:
  default: allow
  rules: [{tool: '*', action: ask, when: {trustBelow: trusted, effect: [write]}}]
";

    fn run(cases: &str) -> v1::TestPolicyResponse {
        Cases::parse(cases)
            .unwrap()
            .run(&Bundle::parse(BUNDLE).unwrap())
    }

    /// S5.12: a case is a run, judged call by call, and each expectation is told beside what is.
    #[test]
    fn s5_12_cases_are_judged_in_order() {
        let answer = run("
cases:
  - name: reads lower the trust
    calls:
      - {tool: shop.refund, expect: allow}
      - {tool: shop.get_order, expect: {action: allow, trust: trusted}}
      - {tool: shop_refund, expect: {action: ask, rule: 'rules#0', trust: untrusted}}
  - name: wrong on purpose
    trust: untrusted
    calls: [{tool: shop.refund, expect: {rule: default}}]
");
        assert_eq!(answer.failed, 1);
        assert!(answer.cases[0].passed, "{answer:#?}");
        let call = &answer.cases[1].calls[0];
        assert_eq!(call.expected, "by default");
        assert_eq!(
            (call.rule.as_str(), call.action()),
            ("rules#0", v1::PolicyAction::Ask)
        );
    }

    /// S5.12: what a person does not approve does not happen.
    #[test]
    fn s5_12_what_is_not_approved_does_not_happen() {
        let case = |approve: bool| {
            format!(
                "{{cases: [{{name: a, trust: untrusted, calls: [{{tool: shop.x, approve: {approve}}}, {{tool: shop.get_order}}]}}]}}"
            )
        };
        for approve in [true, false] {
            assert_eq!(run(&case(approve)).failed, 0);
        }
    }

    #[test]
    fn mistakes_are_named_by_their_place() {
        for (cases, place) in [
            (
                "cases: [{name: a, calls: [{tool: x, expect: perhaps}]}]",
                "cases[0].calls[0].expect",
            ),
            (
                "cases: [{name: a, calls: [{tool: x, expects: ask}]}]",
                "cases[0].calls[0].expects",
            ),
            ("cases: [{name: a, calls: []}]", "cases[0].calls"),
            (
                "cases: [{name: a, trust: high, calls: []}]",
                "cases[0].trust",
            ),
            (
                "cases: [{name: a, calls: [{tool: x, expect: {}}]}]",
                "cases[0].calls[0].expect",
            ),
            ("cases: [", ""),
        ] {
            let bad = Cases::parse(cases).unwrap_err();
            assert_eq!(bad.path, place, "{bad}");
        }
    }
}
