//! `sayso policy test`: the cases that stand beside a bundle.

use std::path::{Path, PathBuf};

use sayso_policy::cases::{BadCases, Cases};
use sayso_sdk::{Coded, Kind, v1};
use sayso_wire::code;

use super::{bundle, tone};
use crate::args::TestArgs;
use crate::commands::{Context, input};
use crate::outcome::{Exit, Failure};
use crate::output::style::Tone;
use crate::output::visible;

pub(super) fn run(context: &Context, args: &TestArgs) -> Result<Exit, Failure> {
    let path = args.cases.clone().unwrap_or_else(|| beside(&args.bundle));
    let bundle = bundle(&args.bundle)?;
    let cases = Cases::parse(&input::file(&path)?).map_err(bad_cases)?;
    let tested = cases.run(&bundle);
    if context.output.json {
        context.output.message(&tested)?;
    } else {
        print(context, &tested)?;
    }
    Ok(match tested.failed {
        0 => Exit::Done,
        _ => Exit::Refused,
    })
}

/// `agent.cases.yaml` for `agent.yaml`.
fn beside(bundle: &Path) -> PathBuf {
    bundle.with_extension("cases.yaml")
}

fn bad_cases(bad: BadCases) -> Failure {
    let message = "the cases have a mistake; nothing was judged";
    let coded = Coded::new(Kind::Invalid, code::POLICY_BAD_CASES, message);
    let place = match bad.path.as_str() {
        "" => "cases",
        path => path,
    };
    Failure::Given(coded.field(place, bad.message))
}

fn print(context: &Context, tested: &v1::TestPolicyResponse) -> Result<(), Failure> {
    let output = &context.output;
    for case in &tested.cases {
        let (word, colour) = match case.passed {
            true => ("passed", Tone::Good),
            false => ("failed", Tone::Bad),
        };
        let word = output.style.paint(colour, word);
        output.line(format!("{word} {}", visible::line(&case.name)))?;
        let failed = case
            .calls
            .iter()
            .enumerate()
            .filter(|(_, call)| !call.passed);
        for (at, call) in failed {
            let is = call.action();
            output.line(format!(
                "  call {} {}: expected {}, but it is {} by {} at {}: {}",
                at + 1,
                visible::line(&call.tool),
                visible::line(&call.expected),
                output.style.paint(tone(is), is.word()),
                visible::line(&call.rule),
                call.trust().word(),
                visible::line(&call.reason)
            ))?;
        }
    }
    let all = tested.cases.len();
    output.line(match tested.failed {
        0 => format!("all {all} cases passed"),
        failed => format!("{failed} of {all} cases failed"),
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_stand_beside_their_bundle() {
        assert_eq!(
            beside(Path::new("x/agent.yaml")),
            Path::new("x/agent.cases.yaml")
        );
        assert_eq!(
            beside(Path::new("agent.v2.json")),
            Path::new("agent.v2.cases.yaml")
        );
    }
}
