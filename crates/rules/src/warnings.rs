//! What a bundle may say but probably does not mean (S5.11).
//!
//! Warnings never refuse. Each is shown by `deploy` and by `deploy --validate`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::bundle::{Builtin, Bundle, EscalationTo, Review, Rule, When, secrets};
use crate::glob::Glob;
use crate::judge::{CONTROL_TOOLS, Method, Rules, START_AGENT};
use crate::names::plain_form;
use crate::trust::Trust;

/// Something in a bundle that is worth a second look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleWarning {
    /// A stable word for the kind of warning:
    ///
    /// - `bundle.no_role`: runs fail until a role is attached (S3.9)
    /// - `bundle.unknown_server`: a rule speaks of a server that the bundle
    ///   lacks
    /// - `bundle.rule_cannot_match`: a rule that no call ever reaches
    /// - `bundle.unknown_slug`: a grant of an operation that its catalogue lacks
    /// - `bundle.grants_all`: a grant of a whole catalogue (S3.3)
    /// - `bundle.escalation_too_late`: an escalation at the very time at which the approval expires
    /// - `bundle.unknown_target`: a rule has a target reminded that the namespace lacks (S6.12)
    /// - `bundle.empty_group`: a rule leaves calls to a group that nobody is in
    /// - `bundle.secret_not_set`: a secret that nobody has stored yet
    /// - `bundle.change_unreviewed`: a grant of an operation that changes data, without a review
    ///   (S5.5)
    pub code: &'static str,
    /// The key, such as `permissions.rules[2]`.
    pub path: String,
    /// What is odd about it, in one sentence.
    pub message: String,
}

impl fmt::Display for BundleWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.path, self.message, self.code)
    }
}

/// Everything in a bundle that is worth a second look, in file order.
#[must_use]
pub fn warnings(bundle: &Bundle) -> Vec<BundleWarning> {
    let mut found = Vec::new();
    if bundle.role.is_none() {
        found.push(BundleWarning {
            code: "bundle.no_role",
            path: "role".to_owned(),
            message: "the bundle names no role: unless the agent has one already, its runs fail; \
                      `role: unrestricted` permits everything"
                .to_owned(),
        });
    }
    let permissions = bundle.permissions.as_ref();
    let rules = permissions.map_or(&[][..], |permissions| &permissions.rules);
    for (index, rule) in rules.iter().enumerate() {
        let odd = nothing_to_match(bundle, &rule.tool)
            .or_else(|| impossible(&rule.when))
            .or_else(|| shadowed(rules, index).map(|by| shadow_message(rule, &rules[by], by)));
        found.extend(odd.map(|(code, message)| BundleWarning {
            code,
            path: format!("permissions.rules[{index}]"),
            message,
        }));
        found.extend(too_late(bundle, index, rule));
    }
    found
}

/// Escalations that come when it is over: whatever is pending then has expired.
fn too_late<'a>(
    bundle: &Bundle,
    index: usize,
    rule: &'a Rule,
) -> impl Iterator<Item = BundleWarning> + use<'a> {
    let expires = bundle.approval_timeout();
    let steps = rule.escalate.iter().enumerate();
    let late = steps.filter(move |(_, step)| step.after == expires);
    late.map(move |(at, _)| BundleWarning {
        code: "bundle.escalation_too_late",
        path: format!("permissions.rules[{index}].escalate[{at}].after"),
        message: "the approval expires at that time, so it is never escalated: name a shorter one"
            .to_owned(),
    })
}

/// What is odd about a bundle's secrets, given the names of those that are set (S3.10, S5.11).
#[must_use]
pub fn secret_warnings(bundle: &Bundle, set: &BTreeSet<String>) -> Vec<BundleWarning> {
    let references = secrets::references(bundle).into_iter();
    let missing = references.filter(|reference| !set.contains(&reference.name));
    let warning = |reference: secrets::SecretReference| BundleWarning {
        code: "bundle.secret_not_set",
        message: secrets::NoSuchSecret(reference.name).to_string(),
        path: reference.path,
    };
    missing.map(warning).collect()
}

/// What is odd about the groups that a bundle's rules name, given those that somebody is in (S6.12).
#[must_use]
pub fn group_warnings(bundle: &Bundle, groups: &BTreeSet<String>) -> Vec<BundleWarning> {
    let permissions = bundle.permissions.as_ref();
    let rules = permissions.map_or(&[][..], |permissions| &permissions.rules);
    let mut found = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let path = format!("permissions.rules[{index}]");
        let deciding = rule.approvers.as_ref().and_then(|who| who.group.as_ref());
        let deciding = deciding.map(|group| (format!("{path}.approvers.group"), group));
        let steps = rule.escalate.iter().enumerate();
        let widening = steps.filter_map(|(at, step)| match &step.to {
            EscalationTo::Group(group) => Some((format!("{path}.escalate[{at}].to.group"), group)),
            EscalationTo::Target(_) => None,
        });
        for (path, group) in deciding.into_iter().chain(widening) {
            if !groups.contains(group) {
                found.push(BundleWarning {
                    code: "bundle.empty_group",
                    path,
                    message: format!(
                        "nobody is in the group `{group}`: `sayso group add {group} NAME` adds one"
                    ),
                });
            }
        }
    }
    found
}

/// What is odd about the targets that a bundle's rules escalate to, given those that its namespace
/// has (S6.12, S8.2).
#[must_use]
pub fn target_warnings(bundle: &Bundle, targets: &BTreeSet<String>) -> Vec<BundleWarning> {
    let permissions = bundle.permissions.as_ref();
    let rules = permissions.map_or(&[][..], |permissions| &permissions.rules);
    let steps = rules.iter().enumerate().flat_map(|(index, rule)| {
        let steps = rule.escalate.iter().enumerate();
        steps.map(move |(at, step)| (index, at, &step.to))
    });
    let unknown = steps.filter_map(|(index, at, to)| match to {
        EscalationTo::Target(target) if !targets.contains(target) => Some(BundleWarning {
            code: "bundle.unknown_target",
            path: format!("permissions.rules[{index}].escalate[{at}].to.target"),
            message: format!(
                "there is no target `{target}`: nobody is reminded until `sayso target add {target}` \
                 makes it"
            ),
        }),
        EscalationTo::Target(_) | EscalationTo::Group(_) => None,
    });
    unknown.collect()
}

/// What is odd about the grant of an imported catalogue's operations, given those that it has
/// (S3.3, S5.11). `path` is the key of the grant's list; `operations` are slugs and methods.
#[must_use]
pub fn grant_warnings(
    bundle: &Bundle,
    path: &str,
    catalogue: &str,
    grant: &[String],
    operations: &BTreeMap<String, Method>,
) -> Vec<BundleWarning> {
    let rules = Rules::compile(bundle);
    let mut found = Vec::new();
    for (index, slug) in grant.iter().enumerate() {
        let warning = |code, message| BundleWarning {
            code,
            path: format!("{path}[{index}]"),
            message,
        };
        if slug == "*" {
            let message = format!(
                "the role is then all that stands between the agent and every operation of \
                 `{catalogue}`"
            );
            found.push(warning("bundle.grants_all", message));
            continue;
        }
        let Some(method) = operations.get(slug) else {
            let message = format!("the catalogue `{catalogue}` has no operation `{slug}`");
            found.push(warning("bundle.unknown_slug", message));
            continue;
        };
        let registered = format!("{catalogue}.{slug}");
        let review = rules.tool(&registered, &plain_form(&registered)).review;
        if *method != Method::Read && review != Some(Review::Required) {
            let message = format!("`{registered}` changes data, and nobody reviews its calls");
            found.push(warning("bundle.change_unreviewed", message));
        }
    }
    found
}

/// Why the conditions of a rule never hold.
fn impossible(when: &When) -> Option<(&'static str, String)> {
    let why = if when.trust_below == Some(Trust::Untrusted) {
        "no run is below untrusted".to_owned()
    } else if let (Some(trust), Some(below)) = (when.trust, when.trust_below)
        && trust >= below
    {
        format!("no run is {trust} and below {below}")
    } else if when.effect.as_ref().is_some_and(BTreeSet::is_empty) {
        "no tool's effect is one of none".to_owned()
    } else {
        let (place, _) = when.args.iter().find(|(_, condition)| {
            matches!((condition.min, condition.max), (Some(min), Some(max)) if min > max)
                || condition.one_of.as_ref().is_some_and(Vec::is_empty)
        })?;
        format!("no value of `{place}` meets its condition")
    };
    Some(("bundle.rule_cannot_match", why))
}

/// Why no tool that this bundle can have is meant by a pattern.
///
/// A pattern that begins with a star names no server and is not looked at.
fn nothing_to_match(bundle: &Bundle, tool: &Glob) -> Option<(&'static str, String)> {
    let matches = |name: &&str| tool.matches(name, name);
    if tool.is_exact() && CONTROL_TOOLS.iter().any(matches) {
        let message = format!("`{tool}` acts on nothing: no rule is ever asked about it");
        return Some(("bundle.rule_cannot_match", message));
    }
    let prefix = tool.literal_prefix();
    let own = Builtin::ALL.map(Builtin::name);
    if prefix.is_empty()
        || own
            .iter()
            .chain(&CONTROL_TOOLS)
            .chain([&START_AGENT])
            .any(matches)
        || bundle.servers.keys().any(|server| speaks_of(tool, server))
    {
        return None;
    }
    if let Some((server, _)) = prefix.split_once('.') {
        let message = format!("the bundle has no server `{server}`, so `{tool}` matches nothing");
        return Some(("bundle.unknown_server", message));
    }
    if prefix.contains('_') || !tool.is_exact() {
        let message = format!("`{tool}` is no tool of any server that the bundle has");
        return Some(("bundle.unknown_server", message));
    }
    let message = format!("no tool can be called `{tool}`: those of servers are `server.tool`");
    Some(("bundle.rule_cannot_match", message))
}

/// Whether a pattern can match some tool of a server, in either form (B37).
fn speaks_of(tool: &Glob, server: &str) -> bool {
    let registered = format!("{server}.");
    tool.may_match_under(&registered) || tool.may_match_under(&plain_form(&registered))
}

/// The rule that always decides before this one: a stricter one whose pattern covers this one's and
/// that has no conditions, or an earlier one that is the same.
fn shadowed(rules: &[Rule], index: usize) -> Option<usize> {
    let rule = &rules[index];
    rules.iter().enumerate().position(|(other, by)| {
        (by.action > rule.action && always_before(by, rule)) || (other < index && by == rule)
    })
}

fn always_before(by: &Rule, rule: &Rule) -> bool {
    by.tool.covers(&rule.tool) && by.when == When::default() && by.unless.is_empty()
}

fn shadow_message(rule: &Rule, by: &Rule, index: usize) -> (&'static str, String) {
    let message = if by == rule {
        format!("rule {index} says the same already")
    } else {
        format!(
            "rule {index} ({} `{}`) always decides first: {} comes before {}, however they are \
             written",
            by.action, by.tool, by.action, rule.action
        )
    };
    ("bundle.rule_cannot_match", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The warnings of a bundle, as `code path`.
    fn warned(yaml: &str) -> Vec<String> {
        let bundle = Bundle::parse(&format!("name: a\n{yaml}")).unwrap();
        warnings(&bundle)
            .iter()
            .map(|w| format!("{} {}", w.code, w.path))
            .collect()
    }

    fn warned_of_rules(servers: &str, rules: &[(&str, &str)]) -> Vec<String> {
        let rules: Vec<String> = rules
            .iter()
            .map(|(tool, action)| format!("{{tool: '{tool}', action: {action}}}"))
            .collect();
        warned(&format!(
            "role: unrestricted\nservers: {servers}\npermissions: {{rules: [{}]}}",
            rules.join(", ")
        ))
    }

    const GITHUB: &str = "{github-read: {command: [x]}}";

    #[test]
    fn s5_11_no_role() {
        assert_eq!(warned(""), ["bundle.no_role role"]);
        assert!(warned("role: unrestricted").is_empty());
    }

    #[test]
    fn s5_11_b37_only_the_rule_for_the_missing_server_is_warned_of() {
        let rules = [
            ("github-read.list__issues", "deny"),
            ("github-read_list__issues", "deny"),
            ("github-read.*", "deny"),
            ("github-read_*", "deny"),
            ("gitlab.*", "deny"),
        ];
        assert_eq!(
            warned_of_rules(GITHUB, &rules),
            ["bundle.unknown_server permissions.rules[4]"]
        );
        for missing in [
            "ghost.list",
            "ghost.*",
            "ghost_list_all",
            "ghost_*",
            "ghost*",
            "github-read",
        ] {
            let found = warned_of_rules(GITHUB, &[(missing, "ask")]);
            assert_eq!(found.len(), 1, "{missing}: {found:?}");
        }
    }

    #[test]
    fn s5_11_patterns_that_name_no_server_are_not_warned_of() {
        for fine in [
            "*",
            "*.delete_*",
            "*_delete",
            "create_artifact",
            "send_email",
            "start_agent",
            "git*.x",
        ] {
            assert!(
                warned_of_rules(GITHUB, &[(fine, "ask")]).is_empty(),
                "{fine}"
            );
        }
    }

    #[test]
    fn s5_11_a_rule_that_cannot_match() {
        let cannot = |rules: &[(&str, &str)]| warned_of_rules(GITHUB, rules);
        let second = ["bundle.rule_cannot_match permissions.rules[1]"];
        let first = ["bundle.rule_cannot_match permissions.rules[0]"];
        assert_eq!(cannot(&[("*", "ask"), ("github-read.x", "allow")]), second);
        assert_eq!(cannot(&[("*.x", "ask"), ("*.x", "ask")]), second);
        assert_eq!(cannot(&[("*.x", "allow"), ("*.x", "deny")]), first);
        assert_eq!(cannot(&[("ask_person", "deny")]), first);
        // Order within a file does not shadow across classes, nor a wide rule a
        // narrow one of its own class.
        assert!(cannot(&[("*", "allow"), ("github-read.*", "ask"), ("*.x", "deny")]).is_empty());
        assert!(cannot(&[("*", "deny"), ("github-read.x", "deny")]).is_empty());
    }

    #[test]
    fn messages_read_well() {
        let bundle = Bundle::parse(
            "name: a\nrole: r\npermissions: {rules: [{tool: '*', action: ask}, {tool: x.y, action: allow}]}",
        )
        .unwrap();
        let shown: Vec<String> = warnings(&bundle).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            [
                "permissions.rules[1]: the bundle has no server `x`, so `x.y` matches nothing \
              (bundle.unknown_server)"
            ]
        );
    }

    #[test]
    fn s5_11_a_rule_whose_conditions_never_hold() {
        for (when, warned_of) in [
            ("{trustBelow: untrusted}", true),
            ("{trust: trusted, trustBelow: trusted}", true),
            ("{trust: untrusted, trustBelow: trusted}", false),
            ("{effect: []}", true),
            ("{args: {a: {min: 2, max: 1}}}", true),
            ("{args: {a: {min: 1, max: 1}}}", false),
            ("{args: {a: {oneOf: []}}}", true),
        ] {
            let found = warned(&format!(
                "role: r\npermissions: {{rules: [{{tool: '*', action: ask, when: {when}}}]}}"
            ));
            assert_eq!(found.len(), usize::from(warned_of), "{when}: {found:?}");
        }
    }

    #[test]
    fn s6_12_groups_that_nobody_is_in_are_told() {
        let bundle = Bundle::parse(
            "name: a\npermissions: {rules: [{tool: x, action: ask, approvers: {group: finance}, \
             escalate: [{after: 1m, to: {group: leads}}]}]}",
        );
        let bundle = bundle.unwrap();
        let told = |groups: &[&str]| {
            let groups = groups.iter().map(|&group| group.to_owned()).collect();
            let told = group_warnings(&bundle, &groups).into_iter();
            told.map(|warning| warning.path).collect::<Vec<_>>()
        };
        assert_eq!(told(&["finance", "leads"]), [""; 0]);
        assert_eq!(
            told(&["finance"]),
            ["permissions.rules[0].escalate[0].to.group"]
        );
        assert_eq!(told(&["leads"]), ["permissions.rules[0].approvers.group"]);
    }

    #[test]
    fn s6_12_an_escalation_that_comes_when_it_is_over_is_told() {
        let rules = |after: &str| {
            format!(
                "role: r\npermissions: {{rules: [{{tool: '*', action: ask, \
                 escalate: [{{after: {after}, to: {{group: leads}}}}]}}], approvalTimeout: 30m}}"
            )
        };
        assert_eq!(warned(&rules("29m")), [""; 0]);
        assert_eq!(
            warned(&rules("30m")),
            ["bundle.escalation_too_late permissions.rules[0].escalate[0].after"]
        );
    }

    #[test]
    fn s6_12_targets_that_do_not_exist_are_told() {
        let bundle = Bundle::parse(
            "name: a\npermissions: {rules: [{tool: x, action: ask, \
             escalate: [{after: 1m, to: {group: leads}}, {after: 2m, to: {target: oncall}}]}]}",
        );
        let bundle = bundle.unwrap();
        let told = target_warnings(&bundle, &BTreeSet::new());
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].code, "bundle.unknown_target");
        assert_eq!(told[0].path, "permissions.rules[0].escalate[1].to.target");
        let known = BTreeSet::from(["oncall".to_owned()]);
        assert_eq!(target_warnings(&bundle, &known), []);
        let groups = BTreeSet::from(["leads".to_owned()]);
        assert_eq!(group_warnings(&bundle, &groups), []);
    }

    #[test]
    fn s5_11_a_rule_with_conditions_hides_no_other() {
        let rules = |deny: &str| {
            warned(&format!(
                "role: r\npermissions: {{rules: [{{tool: '*', action: ask}}, {{tool: '*', action: deny{deny}}}]}}"
            ))
        };
        assert_eq!(rules(""), ["bundle.rule_cannot_match permissions.rules[0]"]);
        assert!(rules(", when: {trustBelow: trusted}").is_empty());
        assert!(rules(", unless: {args: {a: {from: [task]}}}").is_empty());
    }

    #[test]
    fn s3_10_secrets_that_are_not_set_are_told() {
        let bundle =
            Bundle::parse("name: a\npermissions: {notify: {url: 'http://h', secret: HOOK_KEY}}")
                .unwrap();
        let told = secret_warnings(&bundle, &BTreeSet::new());
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].code, "bundle.secret_not_set");
        assert_eq!(told[0].path, "permissions.notify.secret");
        assert!(told[0].message.contains("sayso secret set HOOK_KEY"));
        let set = BTreeSet::from(["HOOK_KEY".to_owned()]);
        assert_eq!(secret_warnings(&bundle, &set), []);
    }

    #[test]
    fn s3_3_s5_11_odd_grants_of_a_catalogue() {
        let bundle = Bundle::parse("name: a\ntools: {shop.refund: {review: required}}").unwrap();
        let operations = BTreeMap::from([
            ("get_order".to_owned(), Method::Read),
            ("refund".to_owned(), Method::Write),
            ("drop".to_owned(), Method::Delete),
        ]);
        let grant = ["get_order", "refund", "drop", "refnd", "*"].map(str::to_owned);
        let found: Vec<String> =
            grant_warnings(&bundle, "endpoints[0].grant", "shop", &grant, &operations)
                .iter()
                .map(|warning| format!("{} {}", warning.code, warning.path))
                .collect();
        assert_eq!(
            found,
            [
                "bundle.change_unreviewed endpoints[0].grant[2]",
                "bundle.unknown_slug endpoints[0].grant[3]",
                "bundle.grants_all endpoints[0].grant[4]",
            ]
        );
    }
}
