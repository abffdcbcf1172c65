use std::sync::{Arc, OnceLock};

use crate::case::Case;
use crate::deployment::Deployment;
use crate::options::{Options, Shape};

/// The deployments that the tests of one file share: one of each shape, started when first needed.
#[derive(Debug)]
pub struct World {
    scripts: &'static [(&'static str, &'static str)],
    apart: Shape,
    embedded_one: OnceLock<Arc<Deployment>>,
    apart_one: OnceLock<Arc<Deployment>>,
}

impl World {
    /// Tiers by name, each played by a script.
    pub const fn new(scripts: &'static [(&'static str, &'static str)], apart: Shape) -> Self {
        Self {
            scripts,
            apart,
            embedded_one: OnceLock::new(),
            apart_one: OnceLock::new(),
        }
    }

    /// The options of a deployment like the shared ones.
    pub fn options(&self) -> Options {
        let scripts = self.scripts.iter();
        scripts.fold(Options::new(), |options, (name, script)| {
            options.script(name, script)
        })
    }

    fn shared(&self, shape: Shape) -> Arc<Deployment> {
        let place = match shape {
            Shape::Embedded => &self.embedded_one,
            Shape::Apart { .. } => &self.apart_one,
        };
        let start = || Arc::new(on_runtime(Deployment::start(shape, self.options())));
        Arc::clone(place.get_or_init(start))
    }

    /// Runs a scenario in the process that holds everything.
    pub fn embedded(&self, scenario: impl AsyncFnOnce(Case)) {
        let deployment = self.shared(Shape::Embedded);
        on_runtime(async { scenario(Case::within(deployment)).await });
    }

    /// Runs a scenario in the services that run apart.
    pub fn apart(&self, scenario: impl AsyncFnOnce(Case)) {
        let deployment = self.shared(self.apart);
        on_runtime(async { scenario(Case::within(deployment)).await });
    }

    /// Runs a scenario in a deployment of its own.
    pub fn alone(&self, shape: Shape, scenario: impl AsyncFnOnce(Case)) {
        let options = self.options();
        on_runtime(async { scenario(Case::alone(shape, options).await).await });
    }
}

/// Runs to the end on a runtime of its own.
pub fn on_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(work)
}

/// Makes tests of scenarios: each runs in the file's shared deployments, in one process and in
/// services apart. The file has a `static WORLD: World`.
#[macro_export]
macro_rules! both {
    ($($(#[$meta:meta])* async fn $name:ident($case:ident: Case) $body:block)*) => {
        $(
            $(#[$meta])*
            mod $name {
                use super::*;

                async fn scenario($case: Case) $body

                #[test]
                fn embedded() {
                    WORLD.embedded(scenario);
                }

                #[test]
                fn apart() {
                    WORLD.apart(scenario);
                }
            }
        )*
    };
}

/// Like [`both!`], in deployments of their own.
#[macro_export]
macro_rules! alone {
    ($($(#[$meta:meta])* async fn $name:ident($case:ident: Case) $body:block)*) => {
        $(
            $(#[$meta])*
            mod $name {
                use super::*;

                async fn scenario($case: Case) $body

                #[test]
                fn embedded() {
                    WORLD.alone(Shape::Embedded, scenario);
                }

                #[test]
                fn apart() {
                    WORLD.alone(Shape::APART, scenario);
                }
            }
        )*
    };
}
