//! Laws that hold whatever the rules, the run and the call (S5.1, S5.3, S5.7, S5.9).

use proptest::prelude::*;
use sayso_rules::bundle::Action;
use sayso_rules::{
    Bundle, CallView, Hints, Index, Rules, RunView, Standing, Tool, ToolKind, ToolView, Trust,
};

const TOOLS: &str = r#"
tools:
  a.read: { effect: read, untrustedOutput: false, returns: { id: thing } }
  a.peek: { effect: read, untrustedOutput: true, sensitiveOutput: true }
  a.make: { effect: write, untrustedOutput: false, roles: { to: destination, x: content } }
  a.drop: { effect: destructive, untrustedOutput: false, roles: { id: { role: object, kind: thing }, n: amount } }
"#;

const NAMES: [&str; 5] = ["a.read", "a.peek", "a.make", "a.drop", "a.odd"];

fn rules(list: &[String], default: &str) -> Rules {
    let text = format!(
        "name: a\n{TOOLS}permissions: {{default: {default}, rules: [{}]}}",
        list.join(", ")
    );
    Rules::compile(&Bundle::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}")))
}

fn resolve(rules: &Rules, name: &str) -> Tool {
    let model_name = name.replace('.', "_");
    rules.resolve(&ToolView {
        registered: name,
        model_name: &model_name,
        kind: ToolKind::Mcp,
        granted: true,
        hints: Hints::default(),
    })
}

/// One step of a run's history.
#[derive(Debug, Clone)]
enum Happened {
    Said(String),
    Called {
        tool: &'static str,
        args: String,
        result: String,
    },
}

fn words() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "bob",
        "ann@x.example",
        "12345",
        "13",
        "hello there",
        "id-777",
        "50",
    ])
    .prop_map(str::to_owned)
}

fn args() -> impl Strategy<Value = String> {
    let one = (
        prop::sample::select(vec!["to", "x", "id", "n", "odd"]),
        words(),
    );
    prop::collection::vec(one, 0..3).prop_map(|pairs| {
        let pairs: Vec<String> = pairs
            .iter()
            .map(|(key, value)| match value.parse::<u32>() {
                Ok(number) => format!("{key:?}:{number}"),
                Err(_) => format!("{key:?}:{value:?}"),
            })
            .collect();
        format!("{{{}}}", pairs.join(","))
    })
}

fn result() -> impl Strategy<Value = String> {
    prop_oneof![
        words(),
        words().prop_map(|word| format!("{{\"id\":{word:?},\"mail\":\"ann@x.example\"}}")),
        (words(), words())
            .prop_map(|(one, other)| format!("[{{\"id\":{one:?}}},{{\"id\":{other:?}}}]")),
    ]
}

fn happened() -> impl Strategy<Value = Happened> {
    prop_oneof![
        1 => prop::collection::vec(words(), 1..4).prop_map(|said| Happened::Said(said.join(" and "))),
        3 => (prop::sample::select(NAMES.to_vec()), args(), result())
            .prop_map(|(tool, args, result)| Happened::Called { tool, args, result }),
    ]
}

/// A run: its standing and index after a history, and the standing after each step.
struct Run {
    standing: Standing,
    index: Index,
    trusts: Vec<Trust>,
}

fn run(rules: &Rules, trust: Trust, history: &[Happened]) -> Run {
    let mut run = Run {
        standing: Standing::new(trust),
        index: Index::new(["me@home.example"]),
        trusts: vec![trust],
    };
    for step in history {
        match step {
            Happened::Said(text) => run.index.words(text),
            Happened::Called { tool, args, result } => {
                let tool = resolve(rules, tool);
                let call = CallView {
                    id: "c",
                    tool: &tool,
                    args,
                };
                let before = run.standing.trust();
                run.standing.starts(&call);
                run.index.result(&call, before, result);
            }
        }
        run.trusts.push(run.standing.trust());
    }
    run
}

fn judge(rules: &Rules, run: &Run, tool: &str, args: &str) -> Action {
    let tool = resolve(rules, tool);
    let call = CallView {
        id: "c",
        tool: &tool,
        args,
    };
    let view = RunView {
        standing: &run.standing,
        index: &run.index,
    };
    let verdict = rules.judge(&call, &view);
    let explained = rules.explain(&call, &view);
    let strictest = explained.voices.iter().map(|voice| voice.action).max();
    assert_eq!(strictest, Some(verdict.action));
    let first = explained.rules.iter().find(|rule| rule.holds);
    assert!(first.is_none_or(|rule| rule.action <= verdict.action));
    verdict.action
}

fn rule_of(action: &'static [&'static str]) -> impl Strategy<Value = String> {
    let when = prop::sample::select(vec![
        "",
        "",
        ", when: {trustBelow: trusted}",
        ", when: {trust: trusted}",
        ", when: {effect: [write, destructive]}",
        ", when: {secretRead: true}",
        ", when: {args: {to: {glob: 'b*'}}}",
        ", when: {args: {n: {min: 20}}}",
    ]);
    let unless = prop::sample::select(vec![
        "",
        "",
        ", unless: {roles: {destination: {from: [task, own, trusted, lookup]}, object: {from: [task, own]}}}",
        ", unless: {roles: {object: {from: [own, trusted]}, amount: {from: [task], max: 40}}}",
        ", unless: [{args: {to: {from: [task]}}}, {args: {x: {linksFrom: [trusted]}}}]",
    ]);
    let tool = prop::sample::select(vec!["*", "a.*", "a.make", "a_drop", "*.read"]);
    (tool, prop::sample::select(action), when, unless).prop_map(|(tool, action, when, unless)| {
        format!("{{tool: '{tool}', action: {action}{when}{unless}}}")
    })
}

fn any_rules() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(rule_of(&["allow", "ask", "deny"]), 0..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(768))]

    #[test]
    fn s5_1_a_rule_that_asks_or_denies_never_loosens_and_one_that_allows_never_tightens(
        list in any_rules(),
        strict in rule_of(&["ask", "deny"]),
        loose in rule_of(&["allow"]),
        default in prop::sample::select(vec!["allow", "ask"]),
        at in any::<prop::sample::Index>(),
        trust in prop::sample::select(Trust::ALL.to_vec()),
        history in prop::collection::vec(happened(), 0..5),
        tool in prop::sample::select(NAMES.to_vec()),
        args in args(),
    ) {
        let with = |extra: &[&String]| {
            let mut all = list.clone();
            for rule in extra {
                all.insert(at.index(all.len() + 1), (*rule).clone());
            }
            let rules = rules(&all, default);
            let run = run(&rules, trust, &history);
            judge(&rules, &run, tool, &args)
        };
        let before = with(&[]);
        prop_assert!(with(&[&strict]) >= before);
        // An allow rule stands for what the default would say; below a default of `allow` it can
        // say no more, below one of `ask` it only loosens.
        prop_assert!(with(&[&loose]) <= before);
    }

    #[test]
    fn s5_3_the_order_of_rules_never_matters(
        list in any_rules(),
        seed in any::<prop::sample::Index>(),
        trust in prop::sample::select(Trust::ALL.to_vec()),
        history in prop::collection::vec(happened(), 0..5),
        tool in prop::sample::select(NAMES.to_vec()),
        args in args(),
    ) {
        let mut turned = list.clone();
        if !turned.is_empty() {
            let by = seed.index(turned.len());
            turned.rotate_left(by);
        }
        turned.reverse();
        let one = rules(&list, "ask");
        let other = rules(&turned, "ask");
        prop_assert_eq!(
            judge(&one, &run(&one, trust, &history), tool, &args),
            judge(&other, &run(&other, trust, &history), tool, &args)
        );
    }

    #[test]
    fn s5_7_taint_only_lowers(
        trust in prop::sample::select(Trust::ALL.to_vec()),
        history in prop::collection::vec(happened(), 0..8),
    ) {
        let rules = rules(&[], "ask");
        let trusts = run(&rules, trust, &history).trusts;
        prop_assert!(trusts.windows(2).all(|pair| pair[1] <= pair[0]));
    }

    /// The index of a run that goes on is that of a run taken up again from its history, at
    /// whatever step that happens.
    #[test]
    fn s5_9_an_index_grown_step_by_step_is_one_that_is_built_again(
        history in prop::collection::vec(happened(), 0..8),
        at in any::<prop::sample::Index>(),
    ) {
        let rules = rules(&[], "ask");
        let grown = run(&rules, Trust::Trusted, &history);
        let (early, late) = history.split_at(at.index(history.len() + 1));
        let again = run(&rules, Trust::Trusted, early);
        let mut copy = Run { standing: again.standing.clone(), index: again.index.clone(), trusts: vec![] };
        for step in late {
            match step {
                Happened::Said(text) => copy.index.words(text),
                Happened::Called { tool, args, result } => {
                    let tool = resolve(&rules, tool);
                    let call = CallView { id: "c", tool: &tool, args };
                    let before = copy.standing.trust();
                    copy.standing.starts(&call);
                    copy.index.result(&call, before, result);
                }
            }
        }
        prop_assert_eq!(&copy.index, &grown.index);
        prop_assert_eq!(copy.standing, grown.standing);
    }

    /// Whatever stands in arguments and results, judging ends with a verdict; and arguments that
    /// cannot be read never run below a rule that asks where they come from.
    #[test]
    fn s5_9_what_cannot_be_read_is_asked_for(args in r#"[\[\]{}:,"a1\\u ]{0,12}"#, result in any::<String>()) {
        let rules = rules(&["{tool: '*', action: ask, unless: {roles: {destination: {from: [task]}}}}".into()], "allow");
        let history = [
            Happened::Said("a".into()),
            Happened::Called { tool: "a.read", args: args.clone(), result },
        ];
        let run = run(&rules, Trust::Trusted, &history);
        let action = judge(&rules, &run, "a.make", &args);
        if serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&args).is_err() {
            prop_assert_eq!(action, Action::Ask);
        }
    }
}
