use sayso_service::config::{Config, Need};

use super::{Finding, Report};
use crate::outcome::Failure;

/// The keys that every service needs, and the secrets of notifications and of the mail server.
pub(super) fn check(config: &Config, apart: bool, report: &mut Report<'_>) -> Result<(), Failure> {
    let mut needs = vec![Need::Database, Need::ChainKey];
    if apart {
        needs.extend([Need::ClusterKey, Need::Bus]);
    }
    match config.require(&needs) {
        Ok(()) => report.note(
            "keys",
            &Finding::Well("all that services need is set".to_owned()),
        )?,
        Err(missing) => {
            for problem in missing.problems() {
                let what = format!("{}: {}", problem.key, problem.problem);
                report.note(
                    "keys",
                    &Finding::wrong(what, "set it in the file or as a variable"),
                )?;
            }
        }
    }
    for (name, source) in &config.notify.secrets {
        if let Err(error) = source.resolve() {
            let what = format!("notify.secrets.{name}: {error}");
            let advice = "set the variable for the notifier; until then nothing is sent that this secret signs";
            report.note("secrets", &Finding::wrong(what, advice))?;
        }
    }
    let login = config.smtp.as_ref().and_then(|smtp| smtp.login.as_ref());
    if let Some((_, password)) = login
        && let Err(error) = password.resolve()
    {
        let what = format!("smtp.password_env: {error}");
        let advice = "set the variable for the notifier; until then no e-mail is sent";
        report.note("secrets", &Finding::wrong(what, advice))?;
    }
    Ok(())
}
