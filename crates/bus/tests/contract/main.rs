//! The contract of the bus: one suite over both implementations, and what only a broker can do.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod events;
mod jetstream;
mod order;
mod settings;
mod work;
mod world;

/// Runs each check once over the in-process bus and once over a real nats-server.
macro_rules! over_both {
    ($($(#[$doc:meta])* $name:ident)*) => {
        mod local {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::world::Kind::Local).await;
            })*
        }
        mod nats {
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name($crate::world::Kind::Nats).await;
            })*
        }
    };
}
pub(crate) use over_both;
