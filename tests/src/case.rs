use std::ops::Deref;
use std::sync::Arc;

use sayso_wire::v1::{Run, RunStatus};

use crate::bundle::Bundle;
use crate::client::Client;
use crate::deployment::Deployment;
use crate::options::{Options, Shape};

/// A test at work in a deployment, with the people in it. If it panics, it prints what the
/// deployment's processes logged meanwhile.
#[derive(Debug)]
pub struct Case {
    deployment: Arc<Deployment>,
    marks: Vec<usize>,
    /// Deploys, makes tokens, reads the audit log.
    pub admin: Client,
    /// Submits tasks.
    pub sub: Client,
    /// Approves.
    pub app: Client,
    /// Another approver.
    pub app2: Client,
    /// Submits and approves.
    pub both: Client,
    /// Everything but tokens, in another namespace.
    pub foreigner: Client,
}

impl Case {
    /// A test in a deployment that others use too.
    pub fn within(deployment: Arc<Deployment>) -> Self {
        Self {
            marks: deployment.log_marks(),
            admin: deployment.client("admin"),
            sub: deployment.client("sub"),
            app: deployment.client("app"),
            app2: deployment.client("app2"),
            both: deployment.client("both"),
            foreigner: deployment.client("foreigner"),
            deployment,
        }
    }

    /// A test with a deployment of its own.
    ///
    /// # Panics
    ///
    /// If it does not get ready.
    pub async fn alone(shape: Shape, options: Options) -> Self {
        let deployment = Arc::new(Deployment::start(shape, options).await);
        let mut case = Self::within(deployment);
        case.marks.fill(0);
        case
    }

    /// Deploys a bundle.
    ///
    /// # Panics
    ///
    /// If it is refused.
    pub async fn deploy(&self, bundle: &Bundle) {
        let text = self.deployment.bundle(bundle);
        let deployed = self.admin.try_deploy(&text).await;
        deployed.unwrap_or_else(|status| panic!("{text} is refused: {status:?}"));
    }

    /// Deploys a bundle and has `sub` start it.
    ///
    /// # Panics
    ///
    /// If either is refused.
    pub async fn begin(&self, bundle: &Bundle) -> String {
        self.deploy(bundle).await;
        self.sub.start(bundle.name(), "go").await
    }

    /// Waits until a run is completed.
    ///
    /// # Panics
    ///
    /// If it ends otherwise, or not at all.
    pub async fn completed(&self, run: &str) -> Run {
        self.sub.until(run, RunStatus::Completed).await
    }
}

impl Deref for Case {
    type Target = Deployment;

    fn deref(&self) -> &Deployment {
        &self.deployment
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("{}", self.deployment.logs_since(&self.marks));
        }
    }
}
