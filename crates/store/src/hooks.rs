//! Hooks at the journal's crash windows, for tests that force what a comment names.

use std::sync::{Arc, Mutex};

/// Where a hook is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// Right before a group of appends is sent.
    BeforeCommit,
    /// After it was committed, before anybody was answered.
    AfterCommit,
}

/// What the writer does after a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Goes on.
    Proceed,
    /// Behaves as if the connection had been lost here.
    LoseConnection,
}

/// A hook: the window, and on Postgres the process id of the backend that serves the journal.
pub type Hook = Box<dyn FnMut(Window, Option<i32>) -> Then + Send>;

/// The hook of one store.
#[derive(Clone, Default)]
pub struct Hooks(Arc<Mutex<Option<Hook>>>);

impl Hooks {
    /// Calls the hook, if there is one.
    pub(crate) fn call(&self, window: Window, backend: Option<i32>) -> Then {
        let mut hook = self.0.lock().expect("no hook panics");
        hook.as_mut()
            .map_or(Then::Proceed, |hook| hook(window, backend))
    }
}

impl std::fmt::Debug for Hooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooks")
    }
}

impl crate::Store {
    /// Sets the hook that is called at every window from now on.
    pub fn hook(&self, hook: impl FnMut(Window, Option<i32>) -> Then + Send + 'static) {
        *self.0.hooks.0.lock().expect("no hook panics") = Some(Box::new(hook));
    }

    /// Takes the hook away.
    pub fn unhook(&self) {
        *self.0.hooks.0.lock().expect("no hook panics") = None;
    }
}
