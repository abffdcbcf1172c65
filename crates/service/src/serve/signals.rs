//! What ends a process from outside (`S10.2`).

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The exit code of a process that was told twice.
const ABORTED: i32 = 130;

/// From now on the first SIGTERM or SIGINT cancels `shutdown`, and a second one
/// ends the process at once with exit code 130. Must be called within a tokio
/// runtime.
///
/// # Errors
///
/// When the handlers cannot be installed.
pub fn signals(shutdown: CancellationToken) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::info!("{name}: finishing what is in hand; once more ends it at once");
        shutdown.cancel();
        let name = next(&mut terminate, &mut interrupt).await;
        tracing::warn!("{name} again: ending now");
        std::process::exit(ABORTED);
    });
    Ok(())
}

async fn next(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    tokio::select! {
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}
