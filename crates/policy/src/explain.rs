//! Why a call is judged as it is (S5.12): one that somebody thinks of, or one that was made.

use std::sync::Arc;

use sayso_driver::{Journal, Revision, explain};
use sayso_rules::judge::{
    CallView, Explanation, Hints, RunView, Standing, Tool, ToolView, Verdict, kind_by_name,
};
use sayso_rules::names::plain_form;
use sayso_rules::{Bundle, Index, Role, Rules, Trust};
use sayso_run::{AgentName, CallId, Namespace, RevisionId, RunId};
use sayso_service::error::{Coded, Kind};
use sayso_store::Store;
use sayso_wire::{code, v1};
use serde_json::value::RawValue;

use crate::granted::{grants, registered};
use crate::read::{revision, role};
use crate::refuse::{self, invalid, name, no_run};
use crate::{answers, stored};

/// A call that somebody thinks of, the first of a run.
#[derive(Debug, Clone)]
pub struct Imagined<'a> {
    /// The tool, as registered or as a model sees it.
    pub tool: &'a str,
    /// The arguments, JSON.
    pub args: &'a str,
    /// The principal's own words.
    pub prompt: &'a str,
    /// The principal's own addresses.
    pub own_addresses: &'a [String],
    /// The run's trust.
    pub trust: Trust,
    /// Whether the run has read a secret.
    pub secret_read: bool,
    /// What the tool's server says of it.
    pub hints: Hints,
}

/// Explains a call that somebody thinks of, under a bundle.
#[must_use]
pub fn imagined(bundle: &Bundle, call: &Imagined<'_>) -> v1::ExplainCallResponse {
    let rules = Rules::compile(bundle);
    let registered = registered(bundle, call.tool);
    let tool = rules.resolve(&ToolView {
        registered: &registered,
        model_name: &plain_form(&registered),
        kind: kind_by_name(&registered),
        granted: grants(bundle, &registered),
        hints: call.hints,
    });
    let mut standing = Standing::new(call.trust);
    if call.secret_read {
        standing.read_secret();
    }
    let mut index = Index::new(call.own_addresses);
    index.words(call.prompt);
    let view = CallView {
        id: "imagined",
        tool: &tool,
        args: call.args,
    };
    let run = RunView {
        standing: &standing,
        index: &index,
    };
    let explanation = rules.explain(&view, &run);
    shown(&tool, !rules.hidden(&tool), call.trust, explanation)
}

/// Answers `ExplainCall`.
pub(crate) async fn answer(
    store: &Store,
    namespace: &Namespace,
    request: v1::ExplainCallRequest,
) -> Result<v1::ExplainCallResponse, Coded> {
    use v1::explain_call_request::Call;
    match request.call {
        Some(Call::Imagined(call)) => answer_imagined(store, namespace, &call).await,
        Some(Call::Recorded(call)) => answer_recorded(store, namespace, &call).await,
        None => Err(invalid(
            "call",
            "is required: an imagined or a recorded one",
        )),
    }
}

async fn answer_imagined(
    store: &Store,
    namespace: &Namespace,
    call: &v1::ImaginedCall,
) -> Result<v1::ExplainCallResponse, Coded> {
    use v1::imagined_call::Bundle as From;
    if call.tool.is_empty() {
        return Err(invalid("imagined.tool", "is required"));
    }
    let args = match call.args_json.as_str() {
        "" => "{}",
        args => args,
    };
    if let Err(error) = serde_json::from_str::<&RawValue>(args) {
        let sentence = format!("The arguments are not JSON: {error}.");
        let refused = Coded::new(Kind::Invalid, code::POLICY_BAD_ARGUMENTS, sentence);
        return Err(refused.field("imagined.args_json", "is not JSON"));
    }
    let (bundle, agent) = match &call.bundle {
        Some(From::Text(text)) => (parsed(text)?, None),
        Some(From::Agent(agent)) => {
            let agent = name("imagined.agent", AgentName::new(agent))?;
            let wanted = match call.revision_id.as_str() {
                "" => None,
                id => Some(name("imagined.revision_id", RevisionId::new(id))?),
            };
            let row = revision(store, namespace, &agent, wanted.as_ref()).await?;
            (stored::bundle(&row)?, Some(agent))
        }
        None => {
            return Err(invalid(
                "imagined.bundle",
                "is required: a text or an agent",
            ));
        }
    };
    let annotations = call.annotations.unwrap_or_default();
    let mut answer = imagined(
        &bundle,
        &Imagined {
            tool: &call.tool,
            args,
            prompt: &call.prompt,
            own_addresses: &call.own_addresses,
            trust: match call.trust() {
                v1::Trust::Untrusted => Trust::Untrusted,
                v1::Trust::Unspecified | v1::Trust::Trusted => Trust::Trusted,
                v1::Trust::Operator => Trust::Operator,
            },
            secret_read: call.secret_read,
            hints: Hints {
                read_only: annotations.read_only_hint,
                destructive: annotations.destructive_hint,
                open_world: annotations.open_world_hint,
            },
        },
    );
    if let Some(agent) = agent {
        hear_role(store, namespace, &agent, &mut answer).await?;
    }
    Ok(answer)
}

async fn answer_recorded(
    store: &Store,
    namespace: &Namespace,
    asked: &v1::RecordedCall,
) -> Result<v1::ExplainCallResponse, Coded> {
    let run = name("recorded.run_id", RunId::new(&asked.run_id))?;
    let call = name("recorded.call_id", CallId::new(&asked.call_id))?;
    let loaded = store
        .load(&run)
        .await
        .map_err(|error| refuse::unreadable(&error))?;
    let state = loaded.ok_or_else(no_run)?.state;
    let trigger = state.trigger();
    if trigger.namespace != *namespace {
        return Err(no_run());
    }
    let row = revision(store, namespace, &trigger.agent, Some(&trigger.revision)).await?;
    let judges = Revision::new(row.id.clone(), stored::bundle(&row)?);
    let Some(set) = stored::tools(store, &state).await? else {
        return Err(no_call());
    };
    let tools = judges.resolve(&Arc::new(set));
    let resolved = state.call(&call).and_then(|call| tools.tool(&call.tool));
    let resolved = resolved.ok_or_else(no_call)?;
    let (explanation, trust) = explain(&state, &judges, &tools, &call).ok_or_else(no_call)?;
    let offered = !judges.rules.hidden(resolved);
    let mut answer = shown(resolved, offered, trust, explanation);
    hear_role(store, namespace, &trigger.agent, &mut answer).await?;
    Ok(answer)
}

/// The role speaks last: it rejects what the others let through or would ask for (S3.9).
async fn hear_role(
    store: &Store,
    namespace: &Namespace,
    agent: &AgentName,
    answer: &mut v1::ExplainCallResponse,
) -> Result<(), Coded> {
    let doing = "reading the role";
    let role: Option<Role> = role(store, namespace, agent)
        .await?
        .json
        .map(|json| serde_json::from_str(&json))
        .transpose()
        .map_err(|error| Coded::internal(doing, &error))?;
    let control = sayso_rules::judge::CONTROL_TOOLS.contains(&answer.tool.as_str());
    answer.role_permits = control
        || role
            .as_ref()
            .is_some_and(|role| role.permits(&answer.tool, &plain_form(&answer.tool)));
    if !answer.role_permits && answer.action() != v1::PolicyAction::Deny {
        answer.action = v1::PolicyAction::Deny.into();
        answer.rule = "role".to_owned();
        answer.reason = match &role {
            Some(role) => format!(
                "The role `{}` does not permit `{}`.",
                role.name, answer.tool
            ),
            None => "The agent has no role; its runs fail.".to_owned(),
        };
    }
    answer.role = role.map(|role| role.name);
    Ok(())
}

fn shown(
    tool: &Tool,
    offered: bool,
    trust: Trust,
    explanation: Explanation<'_>,
) -> v1::ExplainCallResponse {
    let counts = heard(&explanation.voices);
    let alternative =
        |alternative: sayso_rules::judge::AlternativeExplained| v1::AlternativeExplanation {
            lifts: alternative.lifts,
            why: alternative.why,
        };
    let rules = explanation
        .rules
        .into_iter()
        .map(|rule| v1::RuleExplanation {
            rule: rule.rule.to_string(),
            action: answers::action(rule.action).into(),
            holds: rule.holds,
            why: rule.why,
            alternatives: rule.alternatives.into_iter().map(alternative).collect(),
        });
    v1::ExplainCallResponse {
        tool: tool.registered().to_owned(),
        action: counts.action,
        rule: counts.rule,
        reason: counts.reason,
        trust: answers::trust(trust).into(),
        effect: tool.effect().to_string(),
        untrusted_output: tool.untrusted_output(),
        offered,
        voices: explanation.voices.iter().map(voice).collect(),
        rules: rules.collect(),
        role: None,
        role_permits: true,
    }
}

/// The voice that counts: the first of the strictest.
fn heard(voices: &[Verdict<'_>]) -> v1::Voice {
    let strictest = voices.iter().map(|voice| voice.action).max();
    let mut voices = voices.iter();
    let counts = voices.find(|voice| Some(voice.action) == strictest);
    voice(counts.expect("the review or the floor speaks on every call"))
}

fn voice(verdict: &Verdict<'_>) -> v1::Voice {
    v1::Voice {
        action: answers::action(verdict.action).into(),
        rule: verdict.rule.to_string(),
        reason: verdict.reason.clone().into_owned(),
    }
}

fn parsed(text: &str) -> Result<Bundle, Coded> {
    Bundle::parse(text).map_err(|errors| refuse::bundle(&errors))
}

fn no_call() -> Coded {
    Coded::new(
        Kind::NotFound,
        code::POLICY_NO_CALL,
        "The run has no such call of a tool that it was offered; `sayso runs show` lists its calls.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUNDLE: &str = "
name: clerk
servers: {git-hub: {command: [x]}, shop: {command: [x]}}
builtins: [create_artifact]
permissions: {preset: balanced, rules: [{tool: shop.wipe, action: deny}]}
";

    fn explained(call: Imagined<'_>) -> v1::ExplainCallResponse {
        imagined(&Bundle::parse(BUNDLE).unwrap(), &call)
    }

    fn call(tool: &str, trust: Trust) -> Imagined<'_> {
        Imagined {
            tool,
            args: r#"{"to":"x"}"#,
            prompt: "",
            own_addresses: &[],
            trust,
            secret_read: false,
            hints: Hints::default(),
        }
    }

    /// S5.12: every voice, which rule decided, and why each alternative lifted it or not.
    #[test]
    fn s5_12_every_voice_is_told() {
        let answer = explained(call("shop_refund", Trust::Untrusted));
        assert_eq!(answer.tool, "shop.refund");
        assert_eq!(
            (answer.action(), answer.rule.as_str()),
            (v1::PolicyAction::Ask, "preset:balanced#0")
        );
        let voices: Vec<&str> = answer
            .voices
            .iter()
            .map(|voice| voice.rule.as_str())
            .collect();
        assert_eq!(voices, ["preset:balanced#0", "review"]);
        assert!(answer.rules[0].holds);
        assert!(!answer.rules[0].alternatives[0].lifts);
        assert!(!answer.rules[0].alternatives[0].why.is_empty());
        assert!(answer.offered && answer.untrusted_output);

        let answer = explained(call("shop.refund", Trust::Trusted));
        assert_eq!(
            (answer.action(), answer.rule.as_str()),
            (v1::PolicyAction::Allow, "default")
        );
        let answer = explained(call("shop.wipe", Trust::Trusted));
        assert_eq!(answer.rule, "rules#0");
        assert!(!answer.offered);
        let answer = explained(call("nobody.x", Trust::Trusted));
        assert_eq!(
            (answer.action(), answer.rule.as_str()),
            (v1::PolicyAction::Deny, "grant")
        );
    }
}
