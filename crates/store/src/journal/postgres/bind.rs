//! The arrays of the one statement, in the order of its columns.

use sayso_driver::{
    ActionRow, Append, ApprovalRow, DeliveryRow, FeedbackRow, MessageRow, NewRun, RunRow,
    TakenTick, Talk, UsageRow, Written,
};
use sayso_run::{ApprovalId, ConversationId, Money, RunId, TriggerReceived};
use sqlx::Arguments;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgBindIterExt};

use super::statement::Shape;
use crate::journal::check::{trigger, trigger_of};
use crate::journal::deciders::{deciders, groups, origins, written};
use crate::journal::int;
use crate::journal::lease::{claimer, holder, keeps_ready, lease_code, lease_epoch, published};
use crate::journal::recipient::recipient;
use crate::record::time;

/// An append and its number in the group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) member: i64,
    pub(super) append: &'a Append,
}

/// A row of one table, the append that it belongs to, and that one's number in the group.
struct Of<'a, R> {
    member: i64,
    append: &'a Append,
    row: R,
}

/// Adds one array: an expression over each row.
macro_rules! columns {
    ($arguments:ident, $rows:expr, |$of:ident| [$($value:expr),* $(,)?]) => {
        $($arguments.add($rows.iter().map(|$of| $value).bind_iter())?;)*
    };
}

pub(super) fn bind(shape: Shape, places: &[Place<'_>]) -> Result<PgArguments, BoxDynError> {
    let mut arguments = PgArguments::default();
    arguments.reserve(96, 2048 * places.len());
    if shape.ticks {
        ticks(&mut arguments, places)?;
    }
    if shape.talks {
        talks(&mut arguments, places)?;
    }
    if shape.starts {
        starts(&mut arguments, places)?;
    }
    if shape.moves {
        moves(&mut arguments, places)?;
    }
    if shape.steps {
        steps(&mut arguments, places)?;
    }
    if shape.actions {
        actions(&mut arguments, places)?;
    }
    if shape.approvals {
        approvals(&mut arguments, places)?;
    }
    if shape.feedback {
        feedback(&mut arguments, places)?;
    }
    if shape.deliveries {
        deliveries(&mut arguments, places)?;
    }
    if shape.usage {
        usage(&mut arguments, places)?;
    }
    if shape.messages {
        messages(&mut arguments, places)?;
    }
    if shape.children {
        children(&mut arguments, places)?;
    }
    if shape.nexts {
        nexts(&mut arguments, places)?;
    }
    if shape.ends {
        ends(&mut arguments, places)?;
    }
    if shape.taken {
        taken(&mut arguments, places)?;
    }
    Ok(arguments)
}

/// Sorted by schedule, so that two groups never wait for each other in a circle.
fn ticks(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let mut rows: Vec<Of<'_, &TakenTick>> = places
        .iter()
        .filter_map(|&Place { member, append }| {
            let row = append.tick.as_ref()?;
            Some(Of {
                member,
                append,
                row,
            })
        })
        .collect();
    rows.sort_by(|a, b| a.row.schedule.cmp(&b.row.schedule));
    columns!(arguments, rows, |of| [
        of.member,
        of.row.schedule.as_str(),
        of.row.due_at.micros(),
        of.row.next_at.micros(),
        i64::from(of.row.skipped),
    ]);
    Ok(())
}

/// Sorted by conversation, for the same reason.
fn talks(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let mut rows: Vec<Of<'_, &Talk>> = rows_of(places, |append| append.talk.as_slice());
    rows.sort_by(|a, b| a.row.conversation.cmp(&b.row.conversation));
    columns!(arguments, rows, |of| [
        of.member,
        of.row.conversation.as_str(),
        of.append.run.as_str(),
        of.row.last.as_ref().map(RunId::as_str),
        int(of.row.moves),
    ]);
    Ok(())
}

fn starts(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, (&RunRow, &TriggerReceived)>> = places
        .iter()
        .filter(|place| place.append.expected == 0)
        .filter_map(|&Place { member, append }| {
            let row = (&append.row, trigger(append)?);
            Some(Of {
                member,
                append,
                row,
            })
        })
        .collect();
    columns!(arguments, rows, |of| [
        of.member,
        of.row.0.run.as_str(),
        of.row.0.task.as_str(),
        of.row.0.namespace.as_str(),
        of.row.0.agent.as_str(),
        of.row.0.revision.as_str(),
        of.row.0.principal.as_str(),
        of.row.0.trust.as_str(),
        of.row.0.status.as_str(),
        int(of.row.0.seq),
        of.row.0.ended_by.map(|by| by.as_str()),
        of.row.0.output.as_deref(),
        of.row.0.error_code.as_deref(),
        of.row.0.error_message.as_deref(),
        i64::from(of.row.0.cycles),
        i64::from(of.row.0.retries),
        int(of.row.0.usage.input),
        int(of.row.0.usage.cached),
        int(of.row.0.usage.output),
        of.row.0.created_at.micros(),
        of.row.0.updated_at.micros(),
        time(of.row.0.ended_at),
        time(of.row.0.expires_at),
        i64::from(of.row.0.open_calls),
        i64::from(claimer(of.append).is_some()),
        holder(of.append),
        claimer(of.append).map(|_| of.append.id.as_bytes().as_slice()),
        time(of.append.ready_at),
        published(of.append),
        of.row.0.conversation.as_ref().map(ConversationId::as_str),
        of.row.1.source.as_str(),
        of.row.0.input.as_str(),
        of.row.1.trust.as_str(),
        of.append.start_key.as_ref().map(|key| key.key.as_str()),
        of.append.start_key.as_ref().map(|key| key.request.as_str()),
        of.row.1.traceparent.as_deref(),
        of.row.1.trigger.as_deref(),
        time(of.append.not_after),
    ]);
    Ok(())
}

fn moves(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, &RunRow>> = places
        .iter()
        .filter(|place| place.append.expected > 0)
        .map(|&Place { member, append }| Of {
            member,
            append,
            row: &append.row,
        })
        .collect();
    columns!(arguments, rows, |of| [
        of.member,
        of.row.run.as_str(),
        int(of.append.expected),
        of.row.trust.as_str(),
        of.row.status.as_str(),
        int(of.row.seq),
        of.row.ended_by.map(|by| by.as_str()),
        of.row.output.as_deref(),
        of.row.error_code.as_deref(),
        of.row.error_message.as_deref(),
        i64::from(of.row.cycles),
        i64::from(of.row.retries),
        int(of.row.usage.input),
        int(of.row.usage.cached),
        int(of.row.usage.output),
        of.row.updated_at.micros(),
        time(of.row.ended_at),
        time(of.row.expires_at),
        i64::from(of.row.open_calls),
        lease_code(of.append),
        int(lease_epoch(of.append)),
        claimer(of.append),
        of.append.id.as_bytes().as_slice(),
        time(of.append.ready_at),
        i64::from(keeps_ready(of.append)),
        published(of.append),
        time(of.append.not_after),
        int(of.row.cost.map_or(0, Money::millionths)),
        of.row.cost.map(|cost| cost.currency().to_string()),
    ]);
    Ok(())
}

fn usage(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, &UsageRow>> = rows_of(places, |append| &append.usage);
    columns!(arguments, rows, |of| [
        of.member,
        of.row.namespace.as_str(),
        of.row.month.to_string(),
        of.row.worker.as_str(),
        of.row
            .spent
            .map_or(String::new(), |spent| spent.currency().to_string()),
        int(of.row.spent.map_or(0, Money::millionths)),
        int(of.row.tokens.input),
        int(of.row.tokens.cached),
        int(of.row.tokens.output),
    ]);
    Ok(())
}

fn children(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, (&RunRow, &TriggerReceived)>> = places
        .iter()
        .flat_map(|&Place { member, append }| {
            let children = append.tree.children.iter();
            children.filter_map(move |child| {
                let trigger = trigger_of(&child.first)?;
                let row = (&child.row, trigger);
                Some(Of {
                    member,
                    append,
                    row,
                })
            })
        })
        .collect();
    columns!(arguments, rows, |of| [
        of.member,
        of.row.0.task.as_str(),
        of.row.0.run.as_str(),
        of.row.0.namespace.as_str(),
        of.row.0.agent.as_str(),
        of.row.1.source.as_str(),
        of.row.0.input.as_str(),
        of.row.0.principal.as_str(),
        of.row.1.trust.as_str(),
        of.row.1.traceparent.as_deref(),
        of.row.0.created_at.micros(),
        of.row.1.parent.as_ref().map(|parent| parent.task.as_str()),
        of.row
            .1
            .parent
            .as_ref()
            .map(|parent| parent.root_task.as_str()),
    ]);
    columns!(arguments, rows, |of| [
        of.member,
        of.row.0.run.as_str(),
        of.row.0.task.as_str(),
        of.row.0.namespace.as_str(),
        of.row.0.agent.as_str(),
        of.row.0.revision.as_str(),
        of.row.0.principal.as_str(),
        of.row.0.trust.as_str(),
        of.row.0.status.as_str(),
        of.row.0.created_at.micros(),
        of.row.0.updated_at.micros(),
        of.row.0.created_at.micros(),
        of.row.1.parent.as_ref().map(|parent| parent.run.as_str()),
        of.row
            .1
            .parent
            .as_ref()
            .map(|parent| parent.root_run.as_str()),
        of.row.0.conversation.as_ref().map(ConversationId::as_str),
    ]);
    Ok(())
}

fn nexts(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let begun: Vec<Of<'_, &NewRun>> = rows_of(places, |append| &append.tree.children);
    let rows: Vec<(i64, &str, &str)> = begun
        .iter()
        .filter_map(|of| {
            let conversation = of.row.row.conversation.as_ref()?;
            Some((of.member, conversation.as_str(), of.row.row.run.as_str()))
        })
        .collect();
    columns!(arguments, rows, |row| [row.0, row.1, row.2]);
    Ok(())
}

fn messages(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, &MessageRow>> = rows_of(places, |append| &append.messages);
    columns!(arguments, rows, |of| [
        of.member,
        of.row.conversation.as_str(),
        of.row.run.as_str(),
        int(of.row.said.seq),
        of.row.said.at.micros(),
        of.row.said.by.kind(),
        of.row.said.by.name(),
        of.row.said.sender.as_ref().map(|sender| sender.as_str()),
        of.row.said.kind.as_str(),
        of.row.said.text.as_str(),
        of.row.said.trust.as_str(),
        i64::from(of.row.said.secret_read),
        of.row.said.idempotency.as_ref().map(|it| it.key.as_str()),
        of.row
            .said
            .idempotency
            .as_ref()
            .map(|it| it.request.to_hex()),
    ]);
    Ok(())
}

fn ends(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, &RunId>> = rows_of(places, |append| append.tree.ends_child_of.as_slice());
    columns!(arguments, rows, |of| [
        of.member,
        of.append.run.as_str(),
        of.row.as_str(),
    ]);
    Ok(())
}

fn taken(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, &RunId>> = rows_of(places, |append| &append.tree.taken);
    columns!(arguments, rows, |of| [of.member, of.row.as_str()]);
    Ok(())
}

fn steps(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, (&Written, String, &RunId)>> = places
        .iter()
        .flat_map(|&Place { member, append }| {
            let own = append.steps.iter().map(|step| (step, &append.run));
            let children = append.tree.children.iter();
            let firsts = children.map(|child| (&child.first, &child.row.run));
            own.chain(firsts).map(move |(step, run)| Of {
                member,
                append,
                row: (step, step.recorded.actor.to_string(), run),
            })
        })
        .collect();
    columns!(arguments, rows, |of| [
        of.member,
        of.row.2.as_str(),
        int(of.row.0.recorded.seq),
        of.row.0.recorded.at.micros(),
        of.row.1.as_str(),
        of.row.0.recorded.step.kind().as_str(),
        i64::from(of.row.0.recorded.step.kind().version()),
        of.row.0.content.as_str(),
        of.row.0.view.as_deref(),
        of.row.0.recorded.content_sha256.as_bytes().as_slice(),
        of.row.0.recorded.hash.as_bytes().as_slice(),
        of.row
            .0
            .recorded
            .seal
            .as_ref()
            .map(|seal| seal.key.as_str()),
        of.row
            .0
            .recorded
            .seal
            .as_ref()
            .map(|seal| seal.mac.as_bytes().as_slice()),
        of.append.id.as_bytes().as_slice(),
    ]);
    Ok(())
}

/// The rows of one table with the number of the member that they belong to.
fn rows_of<'a, R>(
    places: &[Place<'a>],
    rows: impl Fn(&'a Append) -> &'a [R],
) -> Vec<Of<'a, &'a R>> {
    places
        .iter()
        .flat_map(|&Place { member, append }| {
            let rows = rows(append).iter();
            rows.map(move |row| Of {
                member,
                append,
                row,
            })
        })
        .collect()
}

fn actions(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, &ActionRow>> = rows_of(places, |append| &append.actions);
    columns!(arguments, rows, |of| [
        of.member,
        of.row.run.as_str(),
        of.row.call.as_str(),
        of.row.tool.as_str(),
        of.row.status.as_str(),
        of.row.args.as_str(),
        of.row.digest.digest().as_bytes().as_slice(),
        of.row.cleared_by.as_deref(),
        of.row.result.as_deref(),
        of.row.denied.map(|cause| cause.as_str()),
        of.row.created_at.micros(),
        of.row.updated_at.micros(),
    ]);
    Ok(())
}

fn approvals(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, &ApprovalRow>> = rows_of(places, |append| &append.approvals);
    columns!(arguments, rows, |of| [
        of.member,
        of.row.approval.as_str(),
        of.row.namespace.as_str(),
        of.row.run.as_str(),
        of.row.call.as_str(),
        of.row.agent.as_str(),
        of.row.requester.as_str(),
        of.row.tool.as_str(),
        of.row.args.as_str(),
        of.row.digest.digest().as_bytes().as_slice(),
        of.row.definition.as_bytes().as_slice(),
        of.row.task_input.as_str(),
        of.row.trust.as_str(),
        of.row.rule.as_str(),
        of.row.reason.as_str(),
        of.row.summary.as_str(),
        int(of.row.seq),
        of.row.status.as_str(),
        of.row.requested_at.micros(),
        of.row.expires_at.micros(),
        of.row.decided_by.as_ref().map(|by| by.as_str()),
        time(of.row.decided_at),
        of.row.decision_reason.as_deref(),
        of.row.closed_cause.map(|cause| cause.as_str()),
        of.row.action_status.as_str(),
        deciders(of.row),
        groups(of.row),
        time(of.row.escalates_at),
        origins(of.row),
        of.row.edited_by.as_ref().map(|by| by.as_str()),
        written(of.row),
    ]);
    Ok(())
}

fn feedback(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, &FeedbackRow>> = rows_of(places, |append| &append.feedback);
    columns!(arguments, rows, |of| [
        of.member,
        of.row.approval.as_str(),
        of.row.task.as_str(),
        of.row.namespace.as_str(),
        of.row.agent.as_str(),
        of.row.run.as_str(),
        of.row.approval.as_str(),
        of.row.by.as_str(),
        of.row.score_millionths,
        of.row.note.as_deref(),
        of.row.at.micros(),
    ]);
    Ok(())
}

fn deliveries(arguments: &mut PgArguments, places: &[Place<'_>]) -> Result<(), BoxDynError> {
    let rows: Vec<Of<'_, &DeliveryRow>> = rows_of(places, |append| &append.deliveries);
    columns!(arguments, rows, |of| [
        of.member,
        of.row.id.as_str(),
        of.row.namespace.as_str(),
        of.row.agent.as_str(),
        of.row.run.as_str(),
        of.row.notice.approval().map(ApprovalId::as_str),
        of.row.notice.as_str(),
        recipient(&of.row.to).url,
        recipient(&of.row.to).secret,
        recipient(&of.row.to).target,
        of.row.due_at.micros(),
        of.row.due_at.micros(),
    ]);
    Ok(())
}
