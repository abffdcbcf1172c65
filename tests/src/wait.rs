use std::time::Duration;

use tokio::time::{Instant, sleep};

/// No healthy system takes this long for anything that a test waits for.
pub const LIMIT: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_millis(10);

/// Asks until there is an answer.
///
/// # Panics
///
/// After [`LIMIT`], naming what was waited for.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(
            Instant::now() < deadline,
            "waited {LIMIT:?} in vain for {what}"
        );
        sleep(PAUSE).await;
    }
}

/// How often a race is run: 200 times, or as often as `SAYSO_TEST_ROUNDS` says.
///
/// # Panics
///
/// If the variable holds no number.
pub fn rounds() -> usize {
    std::env::var("SAYSO_TEST_ROUNDS").map_or(200, |rounds| {
        rounds.parse().expect("SAYSO_TEST_ROUNDS is a number")
    })
}
