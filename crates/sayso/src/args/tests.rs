use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

fn parse(line: &str) -> Result<Command, ErrorKind> {
    let words = std::iter::once("sayso").chain(line.split_whitespace());
    let parsed = Cli::try_parse_from(words);
    parsed.map(|cli| cli.command).map_err(|error| error.kind())
}

fn decide(line: &str) -> Result<DecideArgs, ErrorKind> {
    parse(line).map(|command| match command {
        Command::Approve(args) | Command::Deny(args) => args,
        other => panic!("{other:?}"),
    })
}

#[test]
fn the_arguments_are_sound() {
    Cli::command().debug_assert();
}

/// S10.6: by ids, by call, by tool, and never without saying which.
#[test]
fn s10_6_decisions_name_what_they_are_about() {
    assert_eq!(
        decide("approve apr_1 apr_2").unwrap().ids,
        ["apr_1", "apr_2"]
    );
    let by_call = decide("deny --run run_1 --call call_1_1 --call call_1_2 --reason no").unwrap();
    assert_eq!(by_call.call, ["call_1_1", "call_1_2"]);
    let mixed =
        decide("approve --run run_1 --tool shop.refund --call call_1_1 --message hi").unwrap();
    assert_eq!((mixed.tool.len(), mixed.call.len()), (1, 1));
    for (line, wrong) in [
        ("approve", ErrorKind::MissingRequiredArgument),
        ("approve --run run_1", ErrorKind::MissingRequiredArgument),
        (
            "approve --tool shop.refund",
            ErrorKind::MissingRequiredArgument,
        ),
        (
            "approve apr_1 --run run_1 --tool t",
            ErrorKind::ArgumentConflict,
        ),
    ] {
        assert_eq!(decide(line).map(|args| args.ids), Err(wrong), "{line}");
    }
}

/// S1.2: the other word for awaiting_approval is taken.
#[test]
fn s1_2_statuses_are_words_and_lists() {
    let Command::Runs(RunsCommand::Ls(args)) = parse(
        "runs ls --status waiting_approval,failed --status running --ended-by max_cycles -n 5",
    )
    .unwrap() else {
        panic!("runs ls")
    };
    use v1::RunStatus::{AwaitingApproval, Failed, Running};
    assert_eq!(args.status, [AwaitingApproval, Failed, Running]);
    assert_eq!(args.ended_by, [v1::EndedBy::MaxCycles]);
    assert_eq!(args.limit.limit, 5);
    assert_eq!(
        parse("runs ls --status done").err(),
        Some(ErrorKind::InvalidValue)
    );
    assert_eq!(
        parse("runs ls -n 0").err(),
        Some(ErrorKind::ValueValidation)
    );
}

#[test]
fn everywhere_is_before_and_after() {
    for line in [
        "--json --namespace shop runs ls",
        "runs ls --json --namespace shop",
    ] {
        let cli = Cli::try_parse_from(std::iter::once("sayso").chain(line.split_whitespace()));
        let cli = cli.unwrap();
        assert!(cli.global.json);
        assert_eq!(cli.global.namespace.as_deref(), Some("shop"));
    }
}

#[test]
fn approvals_are_listed_or_one_is_shown() {
    let Command::Approvals(args) = parse("approvals --run run_1").unwrap() else {
        panic!("approvals")
    };
    assert!(args.command.is_none());
    assert_eq!(args.list.run.as_deref(), Some("run_1"));
    let Command::Approvals(args) = parse("approvals show apr_1").unwrap() else {
        panic!("approvals show")
    };
    assert!(matches!(args.command, Some(ApprovalsCommand::Show { id }) if id == "apr_1"));
}

/// S6.11
#[test]
fn s6_11_a_token_needs_a_name_and_a_scope() {
    let Command::Token(TokenCommand::Create(args)) =
        parse("token create --name alice --scope approver,read --trust untrusted --expires 30d")
            .unwrap()
    else {
        panic!("token create")
    };
    assert_eq!(args.scope, [v1::Scope::Approver, v1::Scope::Read]);
    assert_eq!(args.trust, Some(v1::Trust::Untrusted));
    assert_eq!(args.expires, Some(Duration::from_secs(30 * 86_400)));
    assert!(parse("token create --name alice").is_err());
    assert!(parse("token create --name alice --scope root").is_err());
    assert!(parse("token create --name alice --scope admin --config sayso.yaml").is_err());
    assert!(
        parse("token create --name alice --scope admin --config sayso.yaml --namespace shop")
            .is_ok()
    );
}

#[test]
fn times_are_dates_or_ages() {
    let at = time("2026-03-01T09:30:00Z").unwrap();
    let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(since.as_secs(), 1_772_357_400);
    let age = SystemTime::now()
        .duration_since(time("1h30m").unwrap())
        .unwrap();
    assert!((5399..5460).contains(&age.as_secs()), "{age:?}");
    for bad in [
        "",
        "yesterday",
        "1w",
        "1",
        "h",
        "-1h",
        "99999999999999999999d",
    ] {
        assert!(time(bad).is_err(), "{bad}");
    }
    assert_eq!(duration("1d2h3m4s"), Ok(Duration::from_secs(93_784)));
}

#[test]
fn services_are_named_as_in_the_documents() {
    for service in [
        "gateway",
        "scheduler",
        "executor",
        "policy",
        "approval-hub",
        "notifier",
    ] {
        assert!(
            parse(&format!("serve {service} --config sayso.yaml")).is_ok(),
            "{service}"
        );
    }
    assert_eq!(
        parse("serve everything").err(),
        Some(ErrorKind::InvalidValue)
    );
}
