//! An approval as whoever decides needs it (S6.3): the sentence, and beside it always the true tool
//! and the exact arguments (B47).

use std::fmt::Write as _;

use sayso_sdk::v1::{self, ApprovalStatus};

use super::run::{self, indented};
use super::style::Tone;
use super::table::{Entry, Table};
use super::{Output, time, visible};

/// How much of the arguments is shown; the rest is counted, and `--json` has all of it.
const ARGUMENT_BYTES: usize = 16 * 1024;

/// How many values have their origin told.
const ORIGINS: usize = 24;

/// Where a value came from, in a phrase (S6.3).
fn origin_of(origin: &v1::ArgumentOrigin) -> String {
    let at = || {
        format!(
            "{} ({})",
            visible::line(&origin.tool),
            visible::line(&origin.call_id)
        )
    };
    let from = match origin.from() {
        v1::OriginKind::Person => "from a person".to_owned(),
        v1::OriginKind::Task => "from the task".to_owned(),
        v1::OriginKind::OwnAddress => "the requester's own address".to_owned(),
        v1::OriginKind::Own => format!("made by {}", at()),
        v1::OriginKind::Trusted => format!("from {}", at()),
        v1::OriginKind::Untrusted => format!("from {}, which outsiders may write", at()),
        v1::OriginKind::Model => "written by the model".to_owned(),
        v1::OriginKind::Unspecified => "unknown".to_owned(),
    };
    format!("{}  {from}", visible::line(&origin.pointer))
}

/// How the call differs from the one that was approved before it.
fn differences(before: &v1::ApprovedBefore) -> Vec<String> {
    let id = visible::line(&before.approval_id);
    if before.changes.is_empty() {
        return vec![format!("the same arguments as {id}, which was approved")];
    }
    let mut lines = vec![format!("unlike {id}, which was approved:")];
    lines.extend(before.changes.iter().take(ORIGINS).map(|change| {
        let value =
            |value: &Option<String>| value.as_deref().map_or("nothing".into(), visible::line);
        format!(
            "  {} {} -> {}",
            visible::line(&change.pointer),
            value(&change.before),
            value(&change.after)
        )
    }));
    lines
}

fn tone(status: ApprovalStatus) -> Tone {
    match status {
        ApprovalStatus::Pending => Tone::Waits,
        ApprovalStatus::Approved => Tone::Good,
        ApprovalStatus::Denied | ApprovalStatus::Expired => Tone::Bad,
        ApprovalStatus::Closed | ApprovalStatus::Unspecified => Tone::Faint,
    }
}

/// Several approvals.
pub(crate) fn table(approvals: &[v1::Approval]) -> Table<7> {
    let mut table = Table::new([
        "APPROVAL", "STATUS", "TOOL", "SUMMARY", "ASKED BY", "RUN", "EXPIRES",
    ])
    .whole(5);
    for approval in approvals {
        let status = approval.status();
        table.row([
            Entry::new(&approval.id),
            Entry::toned(status.word(), tone(status)),
            Entry::new(&approval.tool),
            Entry::new(&approval.summary),
            Entry::new(&approval.requester),
            Entry::new(&approval.run_id),
            Entry::new(match status {
                ApprovalStatus::Pending => time::second(approval.expires_at.as_ref()),
                ApprovalStatus::Unspecified
                | ApprovalStatus::Approved
                | ApprovalStatus::Denied
                | ApprovalStatus::Expired
                | ApprovalStatus::Closed => "-".to_owned(),
            }),
        ]);
    }
    table
}

/// One approval, with all that is needed to decide it.
pub(crate) fn card(approval: &v1::Approval, output: &Output) -> String {
    let status = approval.status();
    let mut text = format!(
        "{}  {}\n  {}",
        visible::line(&approval.id),
        output.style.paint(tone(status), status.word()),
        output
            .style
            .paint(Tone::Strong, &visible::line(&approval.summary)),
    );
    let mut add = |name: &str, value: String| {
        write!(text, "\n  {name:<10} {}", indented(&value))
            .expect("writing to memory does not fail");
    };
    if let Some(written) = &approval.written_summary {
        let by = visible::line(&written.model);
        add(
            "in words",
            format!("{} ({by})", visible::line(&written.text)),
        );
        if !written.unsupported.is_empty() {
            let flags: Vec<String> = written
                .unsupported
                .iter()
                .map(|it| visible::line(it))
                .collect();
            add(
                "beware",
                format!("neither arguments nor run have: {}", flags.join(", ")),
            );
        }
    }
    add("tool", visible::line(&approval.tool));
    add(
        "arguments",
        visible::cut_block(&approval.args_json, ARGUMENT_BYTES),
    );
    if let (Some(original), Some(by)) = (&approval.original_args_json, &approval.edited_by) {
        add("edited by", visible::line(by));
        add("original", visible::cut_block(original, ARGUMENT_BYTES));
    }
    for origin in approval.origins.iter().take(ORIGINS) {
        add("value", origin_of(origin));
    }
    if approval.origins.len() > ORIGINS {
        let more = approval.origins.len() - ORIGINS;
        add("value", format!("{more} more: --json has all of them"));
    }
    if let Some(before) = &approval.approved_before {
        for line in differences(before) {
            add("before", line);
        }
    }
    add("task", visible::cut_block(&approval.task_input, 1000));
    add(
        "asked by",
        format!(
            "{} ({})",
            visible::line(&approval.requester),
            approval.trust().word()
        ),
    );
    if let Some(lowered) = &approval.trust_lowered {
        add("trust", run::trust_lowered(lowered));
    }
    add(
        "run",
        format!(
            "{} of {}, {}",
            visible::line(&approval.run_id),
            visible::line(&approval.agent),
            visible::line(&approval.call_id)
        ),
    );
    add(
        "why",
        format!(
            "{} ({})",
            visible::line(&approval.reason),
            visible::line(&approval.rule)
        ),
    );
    if let Some(deciders) = &approval.deciders {
        add("decide", who_decides(deciders));
    }
    add("bound to", visible::line(&approval.digest));
    if status == ApprovalStatus::Pending {
        let expires = time::second(approval.expires_at.as_ref());
        add("expires", format!("{expires}; then it counts as denied"));
    } else {
        add("decided", decided(approval));
        if let Some(reason) = &approval.decision_reason {
            add("reason", visible::block(reason));
        }
        add("call", approval.action_status().word().replace('_', " "));
    }
    text
}

/// Who may decide, how many it takes, and how far it is.
fn who_decides(deciders: &v1::Deciders) -> String {
    let mut groups: Vec<&str> = Vec::new();
    groups.extend(Some(deciders.group.as_str()).filter(|group| !group.is_empty()));
    groups.extend(deciders.escalated_to.iter().map(String::as_str));
    let who = match groups[..] {
        [] => "whoever may approve".to_owned(),
        _ => visible::line(&groups.join(", ")),
    };
    let mut text = format!("{} of {who}", deciders.needed);
    let barred = [
        (deciders.author_excluded, "whoever deployed the agent"),
        (deciders.writers_excluded, "whoever wrote into the run"),
    ];
    for (_, barred) in barred.iter().filter(|(is, _)| *is) {
        text.push_str(&format!(", not {barred}"));
    }
    if !deciders.voters.is_empty() {
        let voters = visible::line(&deciders.voters.join(", "));
        text.push_str(&format!("; approved by {voters} so far"));
    }
    text
}

fn decided(approval: &v1::Approval) -> String {
    let at = time::second(approval.decided_at.as_ref());
    let cause = match approval.closed_cause() {
        v1::DenyCause::Unspecified => String::new(),
        cause => format!(" ({})", cause.word()),
    };
    match &approval.decided_by {
        Some(by) => format!("by {} at {at}{cause}", visible::line(by)),
        None => format!("at {at}{cause}"),
    }
}

/// What is on record for a decided call, on one line.
pub(crate) fn outcome(outcome: &v1::DecisionOutcome, output: &Output) -> String {
    let (word, tone) = match outcome.verdict() {
        v1::Verdict::Approve => ("approved", Tone::Good),
        v1::Verdict::Deny => ("denied", Tone::Bad),
        v1::Verdict::Unspecified => ("decided", Tone::Faint),
    };
    if outcome.votes < outcome.votes_needed && outcome.decided_by.is_empty() {
        return format!(
            "{} {}  {} ({}), {} of {} have approved it",
            output.style.paint(Tone::Waits, "voted"),
            visible::line(&outcome.approval_id),
            visible::line(&outcome.tool),
            visible::line(&outcome.call_id),
            outcome.votes,
            outcome.votes_needed,
        );
    }
    let mut text = format!(
        "{} {}  {} ({}), by {}",
        output.style.paint(tone, word),
        visible::line(&outcome.approval_id),
        visible::line(&outcome.tool),
        visible::line(&outcome.call_id),
        visible::line(&outcome.decided_by),
    );
    if !outcome.reason.is_empty() {
        write!(text, ": {}", visible::line(&outcome.reason))
            .expect("writing to memory does not fail");
    }
    if outcome.already_recorded {
        write!(
            text,
            "; that was on record since {}",
            time::second(outcome.decided_at.as_ref())
        )
        .expect("writing to memory does not fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::style::Style;
    use super::*;

    fn plain() -> Output {
        Output {
            json: false,
            terminal: false,
            style: Style::PLAIN,
        }
    }

    /// B46, B47: the true tool and the exact arguments stand beside the summary, with nothing hidden
    /// in them, and nothing in them can pretend to be a line of the card.
    #[test]
    fn b46_b47_a_card_shows_the_true_call() {
        let approval = v1::Approval {
            id: "apr_1".into(),
            run_id: "run_1".into(),
            call_id: "call_1_1".into(),
            agent: "mailer".into(),
            requester: "ann".into(),
            task_input: "Send it\u{202e}".into(),
            tool: "mail.send".into(),
            args_json: format!(
                "{{\"to\":\"x\u{200b}@evil\",\"body\":\"a{}b\"}}",
                " ".repeat(400)
            ),
            summary: "harmless test\n  tool       mail.read".into(),
            rule: "rules#1".into(),
            reason: "Sending mail is asked for.".into(),
            trust: v1::Trust::Trusted.into(),
            status: ApprovalStatus::Pending.into(),
            digest: "0a1b".into(),
            origins: vec![v1::ArgumentOrigin {
                pointer: "/to".into(),
                from: v1::OriginKind::Model.into(),
                ..v1::ArgumentOrigin::default()
            }],
            ..v1::Approval::default()
        };
        assert_eq!(
            card(&approval, &plain()),
            "\
apr_1  pending
  harmless test⟨line⟩  tool       mail.read
  tool       mail.send
  arguments  {\"to\":\"x⟨U+200B⟩@evil\",\"body\":\"a⟨400 blanks⟩b\"}
  value      /to  written by the model
  task       Send it⟨U+202E⟩
  asked by   ann (trusted)
  run        run_1 of mailer, call_1_1
  why        Sending mail is asked for. (rules#1)
  bound to   0a1b
  expires    -; then it counts as denied"
        );
    }

    /// S5.8: a run whose trust was lowered says so, and by which call.
    #[test]
    fn s5_8_a_card_says_what_lowered_the_trust() {
        let approval = v1::Approval {
            trust: v1::Trust::Untrusted.into(),
            trust_lowered: Some(v1::TrustLowered {
                sequence: 7,
                call_id: "call_1_1".into(),
                tool: "web.read".into(),
                before: v1::Trust::Trusted.into(),
                after: v1::Trust::Untrusted.into(),
            }),
            ..v1::Approval::default()
        };
        let card = card(&approval, &plain());
        assert!(
            card.contains(
                "trust      trusted until web.read (call_1_1, step 7), whose result may be an \
                 outsider's words; untrusted since"
            ),
            "{card}"
        );
    }

    /// S6.3: once decided, who, why, and what came of it.
    #[test]
    fn s6_3_a_decided_card_shows_the_record() {
        let approval = v1::Approval {
            id: "apr_1".into(),
            status: ApprovalStatus::Denied.into(),
            decided_by: Some("bob".into()),
            decision_reason: Some("not today".into()),
            closed_cause: v1::DenyCause::Person.into(),
            action_status: v1::ActionStatus::Rejected.into(),
            ..v1::Approval::default()
        };
        let card = card(&approval, &plain());
        assert!(card.contains("decided    by bob at - (person)"), "{card}");
        assert!(
            card.contains("reason     not today\n  call       rejected"),
            "{card}"
        );
    }

    #[test]
    fn an_outcome_is_one_line() {
        let recorded = v1::DecisionOutcome {
            approval_id: "apr_1".into(),
            call_id: "call_1_1".into(),
            tool: "shop.refund_order".into(),
            verdict: v1::Verdict::Deny.into(),
            decided_by: "bob".into(),
            reason: "too\nmuch".into(),
            ..v1::DecisionOutcome::default()
        };
        assert_eq!(
            outcome(&recorded, &plain()),
            "denied apr_1  shop.refund_order (call_1_1), by bob: too⟨line⟩much"
        );
    }
}
