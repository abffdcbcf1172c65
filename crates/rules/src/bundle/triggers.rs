//! The `triggers` block: what starts an agent by itself (S8.5).

use serde::Serialize;

use super::error::Report;
use super::fields::At;
use super::text;
use crate::schedule::{BadSchedule, DEFAULT_ZONE, Schedule, zone_of};

/// The most triggers of one bundle.
pub const MAX_TRIGGERS: usize = 64;

const WEBHOOK_NAME: &str = "a name of 1 to 63 characters of a-z, 0-9 and `-`";
const SECRET_NAME: &str = "the name of a secret: 1 to 64 letters, digits and `_`";

/// One thing that starts the agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Trigger {
    /// A schedule: each tick starts one run.
    Cron(CronTrigger),
    /// A webhook: each call of `/hooks/<namespace>/<webhook>` starts one run.
    Webhook(WebhookTrigger),
}

/// A schedule of a bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CronTrigger {
    /// Five cron fields.
    pub cron: String,
    /// The IANA zone in which they are meant.
    pub timezone: String,
    /// What each run is asked.
    pub input: String,
}

impl CronTrigger {
    /// The schedule, which the parser has checked.
    #[must_use]
    pub fn schedule(&self) -> Schedule {
        Schedule::new(&self.cron, &self.timezone).expect("the parser has made a schedule of it")
    }
}

/// A webhook of a bundle; the body of a call is what its run is asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WebhookTrigger {
    /// Its name, unique in the namespace: `[a-z0-9-]{1,63}`.
    pub webhook: String,
    /// The name of the secret that signs its calls.
    pub secret: String,
    /// The trust of its runs (S5.7).
    pub trust: HookTrust,
}

/// How far what a webhook brings is trusted. `operator` is not among them: only an admin gives that
/// trust, and to tokens alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HookTrust {
    /// It comes from outside; the default.
    Untrusted,
    /// Whoever holds the secret is trusted like a principal of the namespace.
    Trusted,
}

impl HookTrust {
    /// The word that every surface uses.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Untrusted => "untrusted",
            Self::Trusted => "trusted",
        }
    }
}

pub(super) fn triggers(report: &mut Report, at: &At<'_>) -> Option<Vec<Trigger>> {
    let mut triggers: Vec<Trigger> = Vec::new();
    let items = at.list(report)?;
    if items.len() > MAX_TRIGGERS {
        let message = format!("a bundle has at most {MAX_TRIGGERS} triggers");
        report.add("bundle.too_large", &at.path, message);
        return None;
    }
    for item in items {
        let Some(trigger) = trigger(report, &item) else {
            continue;
        };
        let same = |other: &Trigger| match (other, &trigger) {
            (Trigger::Webhook(one), Trigger::Webhook(other)) => one.webhook == other.webhook,
            (one, other) => one == other,
        };
        if triggers.iter().any(same) {
            let message = "the trigger stands here twice";
            report.add("bundle.duplicate_key", &item.path, message);
        }
        triggers.push(trigger);
    }
    Some(triggers)
}

fn trigger(report: &mut Report, at: &At<'_>) -> Option<Trigger> {
    let mut fields = at.fields(report)?;
    let cron = fields.take("cron");
    let webhook = fields.take("webhook");
    let read = match (cron, webhook) {
        (Some(cron), None) => {
            let zone = fields.take("timezone");
            let input = fields.require(report, "input");
            let input = input.and_then(|at| at.text(report).map(str::to_owned));
            let timed = timed(report, &cron, zone.as_ref());
            let trigger = timed
                .zip(input)
                .map(|((cron, timezone), input)| CronTrigger {
                    cron,
                    timezone,
                    input,
                });
            trigger.map(Trigger::Cron)
        }
        (None, Some(webhook)) => {
            let name =
                webhook.text_like(report, "bundle.bad_name", text::is_agent_name, WEBHOOK_NAME);
            let secret = fields.require(report, "secret");
            let secret = secret.and_then(|at| {
                at.text_like(report, "bundle.bad_name", text::is_secret_name, SECRET_NAME)
            });
            let words =
                [HookTrust::Untrusted, HookTrust::Trusted].map(|trust| (trust.as_str(), trust));
            let trust = match fields.take("trust") {
                Some(at) => at.word(report, &words),
                None => Some(HookTrust::Untrusted),
            };
            let parts = name.zip(secret).zip(trust);
            let trigger = parts.map(|((webhook, secret), trust)| WebhookTrigger {
                webhook,
                secret,
                trust,
            });
            trigger.map(Trigger::Webhook)
        }
        (Some(_), Some(webhook)) => {
            let message = "a trigger has a `cron` or a `webhook`, not both";
            report.add("bundle.unknown_field", &webhook.path, message);
            return None;
        }
        (None, None) => {
            let message = "a trigger has a `cron` (a schedule) or a `webhook`";
            report.add("bundle.missing_field", &at.path, message);
            return None;
        }
    };
    fields.finish(report);
    read
}

/// The expression and the zone, each with its own mistake.
fn timed(report: &mut Report, cron: &At<'_>, zone: Option<&At<'_>>) -> Option<(String, String)> {
    let timezone = match zone {
        Some(at) => at.parsed(report, "bundle.bad_timezone", |text| {
            zone_of(text).map(|_| text.to_owned())
        }),
        None => Some(DEFAULT_ZONE.to_owned()),
    };
    // The expression is checked even where the zone is wrong.
    let within = timezone.as_deref().unwrap_or(DEFAULT_ZONE);
    let cron = cron.parsed(report, "bundle.bad_cron", |text| {
        Schedule::new(text, within)
            .map(|_| text.split_whitespace().collect::<Vec<_>>().join(" "))
            .map_err(|bad: BadSchedule| bad)
    });
    cron.zip(timezone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Bundle;

    fn parse(triggers: &str) -> Result<Vec<Trigger>, Vec<(&'static str, String)>> {
        let text = format!("name: desk\ntriggers:\n{triggers}");
        match Bundle::parse(&text) {
            Ok(bundle) => Ok(bundle.triggers),
            Err(errors) => Err(errors
                .errors()
                .iter()
                .map(|error| (error.code, error.path.clone()))
                .collect()),
        }
    }

    /// S8.5, S5.7: schedules and webhooks, with their defaults.
    #[test]
    fn s8_5_triggers_are_read_with_their_defaults() {
        let read = parse(
            "  - { cron: \"30  2 * * *\", timezone: Europe/Berlin, input: Nightly check }\n  \
             - { cron: \"0 * * * *\", input: Hourly }\n  \
             - { webhook: orders, secret: ORDERS_HOOK_KEY }\n  \
             - { webhook: till, secret: TILL, trust: trusted }",
        )
        .unwrap();
        let cron = |cron: &str, timezone: &str, input: &str| {
            Trigger::Cron(CronTrigger {
                cron: cron.into(),
                timezone: timezone.into(),
                input: input.into(),
            })
        };
        let hook = |webhook: &str, secret: &str, trust| {
            Trigger::Webhook(WebhookTrigger {
                webhook: webhook.into(),
                secret: secret.into(),
                trust,
            })
        };
        let expected = [
            cron("30 2 * * *", "Europe/Berlin", "Nightly check"),
            cron("0 * * * *", "UTC", "Hourly"),
            hook("orders", "ORDERS_HOOK_KEY", HookTrust::Untrusted),
            hook("till", "TILL", HookTrust::Trusted),
        ];
        assert_eq!(read, expected);
    }

    /// S1.3: what is stored is a bundle again, and one without triggers has the name it had.
    #[test]
    fn triggers_survive_the_canonical_form() {
        let text =
            "name: desk\ntriggers: [{cron: \"0 1 * * *\", input: x}, {webhook: a, secret: B}]";
        let bundle = Bundle::parse(text).unwrap();
        let again = Bundle::parse(&bundle.to_canonical_json()).unwrap();
        assert_eq!(again, bundle);
        let plain = Bundle::parse("name: desk").unwrap();
        assert!(!plain.to_canonical_json().contains("triggers"));
    }

    /// S5.11: every mistake, by key.
    #[test]
    fn s5_11_mistakes_in_triggers_are_named() {
        let errors = parse(
            "  - { cron: \"61 * * * *\", timezone: Nowhere, input: x }\n  \
             - { cron: \"0 1 * * *\" }\n  \
             - { webhook: Orders, secret: \"a b\", trust: operator }\n  \
             - { webhook: a, cron: \"0 1 * * *\", input: x }\n  \
             - { input: x }\n  \
             - { webhook: b, secret: S, input: x }\n  \
             - { webhook: b, secret: T }\n  \
             - { cron: \"0 0 31 2 *\", input: x }",
        )
        .unwrap_err();
        let expected = [
            ("bundle.bad_timezone", "triggers[0].timezone"),
            ("bundle.bad_cron", "triggers[0].cron"),
            ("bundle.missing_field", "triggers[1]"),
            ("bundle.bad_name", "triggers[2].webhook"),
            ("bundle.bad_name", "triggers[2].secret"),
            ("bundle.unknown_value", "triggers[2].trust"),
            ("bundle.unknown_field", "triggers[3].webhook"),
            ("bundle.missing_field", "triggers[4]"),
            ("bundle.unknown_field", "triggers[5].input"),
            ("bundle.duplicate_key", "triggers[6]"),
            ("bundle.bad_cron", "triggers[7].cron"),
        ];
        let expected = expected.map(|(code, path)| (code, path.to_owned()));
        assert_eq!(errors, expected);
    }
}
