//! A whole answer, and the ear of those who watch it come.

use std::sync::atomic::{AtomicBool, Ordering};

use sayso_driver::{Deltas, ModelCall};
use sayso_run::{Thinking, Usage};

/// What a provider answered, complete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Answer {
    pub(crate) text: String,
    pub(crate) thinking: Vec<Thinking>,
    pub(crate) calls: Vec<ModelCall>,
    pub(crate) usage: Usage,
}

/// A call whose arguments arrive in pieces.
#[derive(Debug, Default)]
pub(crate) struct CallInProgress {
    pub(crate) name: String,
    pub(crate) args: String,
}

impl CallInProgress {
    /// The call, its argument bytes as they came. No argument text at all means `{}`, unless the
    /// answer was cut at its token limit: then nobody knows what would have followed, and the empty
    /// text is left for the judge to refuse.
    pub(crate) fn finish(self, cut: bool) -> ModelCall {
        let args = if self.args.trim().is_empty() && !cut {
            "{}".to_owned()
        } else {
            self.args
        };
        ModelCall {
            name: self.name,
            args,
        }
    }
}

/// Passes an answer's text on while it comes, and takes it back if the answer breaks (S2.4, B30).
pub(crate) struct Ear<'a> {
    deltas: &'a dyn Deltas,
    heard: AtomicBool,
}

impl<'a> Ear<'a> {
    pub(crate) fn new(deltas: &'a dyn Deltas) -> Self {
        Self {
            deltas,
            heard: AtomicBool::new(false),
        }
    }

    /// More text.
    pub(crate) fn text(&self, text: &str) {
        if !text.is_empty() {
            self.heard.store(true, Ordering::Relaxed);
            self.deltas.text(text);
        }
    }

    /// The answer broke: what was heard of it is void.
    pub(crate) fn withdraw(self) {
        if self.heard.into_inner() {
            self.deltas.withdrawn();
        }
    }
}
