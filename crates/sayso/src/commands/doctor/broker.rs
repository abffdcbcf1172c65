use sayso_bus::Bus;
use sayso_bus::nats::NatsBus;
use sayso_service::config::Config;

use super::{Finding, Report};
use crate::outcome::Failure;
use crate::wiring;

/// The broker: reached, logged in, streams as they must be.
pub(super) async fn check(
    config: &Config,
    apart: bool,
    report: &mut Report<'_>,
) -> Result<(), Failure> {
    if config.nats.is_none() {
        let why = if apart {
            "no broker is configured"
        } else {
            "everything in one process needs none"
        };
        return report.note("broker", &Finding::Skipped(why.to_owned()));
    }
    let finding = match NatsBus::connect(wiring::nats(config, "doctor")?).await {
        Ok(bus) => match bus.health().await.problem() {
            None => Finding::Well("NATS answers and its streams are ready".to_owned()),
            Some(problem) => Finding::wrong(
                problem,
                "start nats-server with JetStream (`nats-server -js`), or correct nats.url",
            ),
        },
        Err(error) => {
            let cause = std::error::Error::source(&error);
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            Finding::wrong(
                format!("{error}{cause}"),
                "correct nats.url and its login; nats-server must be 2.10 or newer, with JetStream",
            )
        }
    };
    report.note("broker", &finding)
}
