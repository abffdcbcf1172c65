//! What an append does to the tree of delegation (S3.6): runs that it begins (a
//! conversation's next run among them), the end that a child leaves for its parent, and ends that a parent takes.

use sayso_run::{ChainKey, Head, Recorded, RunState, Start, Step, StepKind};

use crate::journal::{NewRun, Tree, Written};
use crate::project::run_row;
use crate::rows::RunRow;
use crate::world::Herald;

/// What these steps, the last of a run, do to the tree.
pub(crate) fn tree(after: &RunState, steps: &[Written], key: &ChainKey) -> Tree {
    let mut tree = Tree::default();
    for step in steps {
        match &step.recorded.step {
            Step::ChildStarted(started) => {
                let start = Start {
                    run: started.child.clone(),
                    trigger: after.child_trigger(started),
                };
                tree.children.push(begin(start, step, key));
            }
            Step::ChildFinished(finished) => tree.taken.push(finished.child.clone()),
            Step::Continued(continued) => {
                let next = after.next_trigger(continued).map(|trigger| Start {
                    run: continued.run.clone(),
                    trigger,
                });
                tree.children
                    .extend(next.map(|start| begin(start, step, key)));
            }
            _ => {}
        }
    }
    if ends(steps) {
        let parent = after.trigger().parent.as_ref();
        tree.ends_child_of = parent.map(|parent| parent.run.clone());
    }
    tree
}

fn begin(start: Start, cause: &Written, key: &ChainKey) -> NewRun {
    let (actor, step) = start
        .decide()
        .expect("an input that was an argument of a call, or a message, is a text");
    let at = cause.recorded.at;
    let (recorded, content) = Recorded::chain(&Head::START, &start.run, at, actor, step, key);
    let state = RunState::begin(start.run, &recorded).expect("a trigger is a first step");
    NewRun {
        row: run_row(&state),
        first: Written {
            recorded,
            content,
            view: None,
        },
    }
}

/// Whether a run ends with these steps.
fn ends(steps: &[Written]) -> bool {
    steps.iter().any(|step| {
        matches!(
            step.recorded.step.kind(),
            StepKind::Completion | StepKind::Failed | StepKind::Cancelled
        )
    })
}

/// Tells the world what an append did to the tree: new runs are announced and woken, and so is the
/// parent of a run that has ended.
pub(crate) fn tell_tree<H: Herald>(herald: &H, row: &RunRow, tree: Tree) {
    for child in tree.children {
        herald.announce(&child.row, vec![child.first]);
        herald.wake(&child.row.namespace, &child.row.run, "started");
    }
    if let Some(parent) = &tree.ends_child_of {
        herald.wake(&row.namespace, parent, "child ended");
    }
}
