//! Windows in which a crash or a race must do no harm, named where they are, so that tests can force
//! what would otherwise take luck. Compiled in with the cargo feature `hooks` only, which is never
//! part of a release build.
//!
//! `SAYSO_HOOKS` holds `window=action@count` pairs, separated by `;`: at the `count`-th passage (1
//! when left out) the process does `kill` (SIGKILL to itself), `stop` (SIGSTOP to itself) or
//! `delay:MILLISECONDS`. Tests in the same process use [`on`].

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;

type Hook = Arc<dyn Fn(u64) -> BoxFuture<'static, ()> + Send + Sync>;

#[derive(Default)]
struct Windows {
    passages: BTreeMap<String, u64>,
    hooks: BTreeMap<String, Hook>,
}

static WINDOWS: LazyLock<Mutex<Windows>> = LazyLock::new(|| {
    let mut windows = Windows::default();
    for pair in std::env::var("SAYSO_HOOKS")
        .unwrap_or_default()
        .split(';')
        .filter(|pair| !pair.is_empty())
    {
        let (name, action) = pair
            .split_once('=')
            .expect("SAYSO_HOOKS is window=action@count");
        let (action, count) = action.split_once('@').unwrap_or((action, "1"));
        let count: u64 = count.parse().expect("the count of a hook is a number");
        windows
            .hooks
            .insert(name.to_owned(), signal_hook(action.to_owned(), count));
    }
    Mutex::new(windows)
});

fn signal_hook(action: String, count: u64) -> Hook {
    Arc::new(move |passage| {
        let action = action.clone();
        Box::pin(async move {
            if passage != count {
                return;
            }
            match action.split_once(':') {
                Some(("delay", millis)) => {
                    let millis = millis
                        .parse()
                        .expect("the delay of a hook is in milliseconds");
                    tokio::time::sleep(Duration::from_millis(millis)).await;
                }
                _ => signal_self(&action),
            }
        })
    })
}

fn signal_self(action: &str) {
    let signal = match action {
        "kill" => "-KILL",
        "stop" => "-STOP",
        other => panic!("a hook does kill, stop or delay:MILLISECONDS, not `{other}`"),
    };
    let pid = std::process::id().to_string();
    std::process::Command::new("kill")
        .args([signal, &pid])
        .status()
        .expect("the command `kill` exists");
}

/// Runs `hook` at each passage of a window, with the number of the passage from 1.
pub fn on(window: &str, hook: impl Fn(u64) -> BoxFuture<'static, ()> + Send + Sync + 'static) {
    let mut windows = WINDOWS
        .lock()
        .expect("no hook panics while it is looked up");
    windows.passages.remove(window);
    windows.hooks.insert(window.to_owned(), Arc::new(hook));
}

/// Forgets the hook of a window.
pub fn off(window: &str) {
    let mut windows = WINDOWS
        .lock()
        .expect("no hook panics while it is looked up");
    windows.hooks.remove(window);
}

/// Passes a window.
pub async fn window(name: &str) {
    let hook = {
        let mut windows = WINDOWS
            .lock()
            .expect("no hook panics while it is looked up");
        let Some(hook) = windows.hooks.get(name).cloned() else {
            return;
        };
        let passage = windows.passages.entry(name.to_owned()).or_default();
        *passage += 1;
        hook(*passage)
    };
    hook.await;
}
