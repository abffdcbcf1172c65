//! What the judge knows of a run beside the call: how the run stands, and where its values come from
//! (S5.7–S5.9).
//!
//! Both follow from the timeline alone. They are kept beside the folded state while a worker holds
//! the run, take in what came since they were asked last, and are built again from the start by the
//! worker that goes on with it.

use std::collections::BTreeMap;

use sayso_rules::judge::{CallView, RunView, Standing};
use sayso_rules::provenance::Index;
use sayso_run::{Call, CallId, Outcome, Phase, RunState, ToolOutcome, Trust};

use crate::resolved::ResolvedTools;

/// How a run stands and where its values come from, up to one of its steps.
#[derive(Debug)]
pub(crate) struct Evidence {
    standing: Standing,
    index: Index,
    /// How far the run was trusted when a call was sent, before that call itself counts.
    trust_at_start: BTreeMap<CallId, sayso_rules::Trust>,
    /// Sequence number of the last step that was taken in.
    upto: u64,
}

/// What a timeline adds to it, by sequence number.
enum Addition<'s> {
    Words(&'s str),
    /// Words of somebody who is trusted so far.
    Heard(Trust),
    Start(&'s Call),
    Result(&'s Call, &'s str),
}

impl Evidence {
    /// What the first step says.
    pub(crate) fn begin(state: &RunState) -> Self {
        let trigger = state.trigger();
        let principal = trigger.principal.as_str();
        let own_address = principal.contains('@').then_some(principal);
        let mut index = Index::new(own_address);
        for words in state.task_words() {
            index.words(&words);
        }
        let mut standing = Standing::new(rules_trust(trigger.trust));
        if trigger
            .conversation
            .as_ref()
            .is_some_and(|it| it.secret_read)
        {
            standing.read_secret();
        }
        Self {
            standing,
            index,
            trust_at_start: BTreeMap::new(),
            upto: 1,
        }
    }

    /// Takes in what came since.
    pub(crate) fn catch_up(&mut self, state: &RunState, tools: &ResolvedTools) {
        self.take_in(state, tools, state.seq(), |_| true);
    }

    /// Takes in what came since, up to a step. What a call did, and what it returned, counts only
    /// if it `happens`.
    pub(crate) fn take_in(
        &mut self,
        state: &RunState,
        tools: &ResolvedTools,
        upto: u64,
        happens: impl Fn(&Call) -> bool,
    ) {
        for (seq, addition) in additions(state, self.upto) {
            if seq > upto {
                break;
            }
            match addition {
                Addition::Words(text) => self.index.words(text),
                Addition::Heard(trust) => self.standing.heard(rules_trust(trust)),
                Addition::Start(call) if happens(call) => {
                    if let Some(view) = tools.view(call) {
                        let trust = self.standing.trust();
                        self.trust_at_start.insert(call.id.clone(), trust);
                        self.standing.starts(&view);
                    }
                }
                Addition::Result(call, content) if happens(call) => {
                    if let Some(view) = tools.view(call)
                        && let Some(trust) = self.trust_at_start.get(&call.id)
                    {
                        self.index.result(&view, told_by(call, *trust), content);
                    }
                }
                Addition::Start(_) | Addition::Result(..) => {}
            }
        }
        self.upto = self.upto.max(upto);
    }

    /// How the run stands now: to be copied for the calls of one turn, which are judged one after the
    /// other before any of them has run (S5.10).
    pub(crate) fn standing(&self) -> Standing {
        self.standing.clone()
    }

    /// Where values come from.
    pub(crate) fn index(&self) -> &Index {
        &self.index
    }

    /// What a call is judged by, as the run stands after the calls before it.
    pub(crate) fn view<'e>(&'e self, standing: &'e Standing) -> RunView<'e> {
        RunView {
            standing,
            index: &self.index,
        }
    }
}

fn additions(state: &RunState, after: u64) -> Vec<(u64, Addition<'_>)> {
    let principal = &state.trigger().principal;
    let heard = state.words().iter();
    let heard = heard.filter_map(|words| Some((words.seq, Addition::Heard(words.trust?))));
    let words = state.words().iter();
    let words = words.filter(|words| words.by == *principal && !words.outside);
    let words = words.map(|words| (words.seq, Addition::Words(&words.text)));
    let starts = state
        .calls()
        .iter()
        .filter_map(|call| Some((call.started_seq?, Addition::Start(call))));
    let results = state.calls().iter().filter_map(result);
    let all = heard.chain(words).chain(starts).chain(results);
    let mut new: Vec<_> = all.filter(|(seq, _)| *seq > after).collect();
    new.sort_by_key(|(seq, _)| *seq);
    new
}

/// How far what a call returned is trusted: a child's words no further than the child in the end.
fn told_by(call: &Call, at_start: sayso_rules::Trust) -> sayso_rules::Trust {
    let child = call.child.as_ref().and_then(|child| child.trust);
    child.map_or(at_start, |child| at_start.min(rules_trust(child)))
}

/// What a call returned. What went wrong vouches for nothing.
fn result(call: &Call) -> Option<(u64, Addition<'_>)> {
    call.started_seq?;
    let Phase::Finished(finished) = &call.phase else {
        return None;
    };
    match &finished.outcome {
        Outcome::Result {
            outcome: ToolOutcome::Ok,
            content,
        } => Some((finished.seq, Addition::Result(call, content))),
        Outcome::Result { .. } | Outcome::Denied { .. } | Outcome::RepeatLoop { .. } => None,
    }
}

fn rules_trust(trust: Trust) -> sayso_rules::Trust {
    match trust {
        Trust::Untrusted => sayso_rules::Trust::Untrusted,
        Trust::Trusted => sayso_rules::Trust::Trusted,
        Trust::Operator => sayso_rules::Trust::Operator,
    }
}

/// A call as the judge sees it.
pub(crate) fn call_view<'c>(call: &'c Call, tool: &'c sayso_rules::judge::Tool) -> CallView<'c> {
    CallView {
        id: call.id.as_str(),
        tool,
        args: &call.args,
    }
}
