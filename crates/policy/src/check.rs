//! Whether a bundle would be deployed (S5.11): what `sayso_rules` says of its text, and what only
//! the namespace can tell: whether the role that it names exists, and whether the names of its
//! webhooks are free.

use std::collections::BTreeSet;

use sayso_rules::bundle::Trigger;
use sayso_rules::warnings::{group_warnings, secret_warnings, target_warnings, warnings};
use sayso_rules::{Bundle, BundleErrors};
use sayso_run::Namespace;
use sayso_service::error::Coded;
use sayso_store::Store;

use crate::refuse::{self, ROLE_NOT_FOUND, WEBHOOK_TAKEN, database, no_role_sentence};

/// One thing to know about a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    /// A stable word.
    pub(crate) code: &'static str,
    /// The key; empty for the bundle as a whole.
    pub(crate) path: String,
    /// One sentence.
    pub(crate) message: String,
}

/// What came of a check.
#[derive(Debug)]
pub(crate) enum Checked {
    /// It would be deployed.
    Sound {
        /// The bundle.
        bundle: Box<Bundle>,
        /// What is probably not meant.
        warnings: Vec<Finding>,
    },
    /// Its text has mistakes.
    Mistaken(BundleErrors),
    /// It names a role that the namespace does not have.
    NoSuchRole {
        /// The role.
        role: String,
        /// What is probably not meant.
        warnings: Vec<Finding>,
    },
    /// A webhook of it has a name that another agent has.
    WebhookTaken {
        /// The bundle.
        bundle: Box<Bundle>,
        /// The name.
        webhook: String,
        /// Whose it is.
        agent: String,
        /// What is probably not meant.
        warnings: Vec<Finding>,
    },
}

/// Checks a bundle's text for a namespace.
///
/// # Errors
///
/// When the database cannot be asked for the role.
pub(crate) async fn check(
    store: &Store,
    namespace: &Namespace,
    text: &str,
) -> Result<Checked, Coded> {
    let bundle = match Bundle::parse(text) {
        Ok(bundle) => Box::new(bundle),
        Err(errors) => return Ok(Checked::Mistaken(errors)),
    };
    let set = store.secrets().names(namespace, &bundle.name).await;
    let set = set.map_err(|error| database("looking for the secrets", &error))?;
    let members = store.groups().list(namespace).await;
    let members = members.map_err(|error| database("looking for the groups", &error))?;
    let groups = members.into_iter().map(|member| member.group).collect();
    let targets = store.targets().list(namespace).await;
    let targets = targets.map_err(|error| database("looking for the targets", &error))?;
    let known = Known {
        secrets: set,
        groups,
        targets: targets.into_iter().map(|target| target.name).collect(),
    };
    let warnings = found(&bundle, &known);
    if let Some(role) = &bundle.role {
        let stored = store.roles().get(namespace, role).await;
        if stored
            .map_err(|error| database("looking for the role", &error))?
            .is_none()
        {
            return Ok(Checked::NoSuchRole {
                role: role.clone(),
                warnings,
            });
        }
    }
    for trigger in &bundle.triggers {
        let Trigger::Webhook(trigger) = trigger else {
            continue;
        };
        let taken = store.triggers().get(namespace, &trigger.webhook).await;
        let taken = taken.map_err(|error| database("looking for the webhook", &error))?;
        if let Some(taken) = taken.filter(|taken| taken.agent.as_str() != bundle.name) {
            return Ok(Checked::WebhookTaken {
                webhook: taken.name,
                agent: taken.agent.to_string(),
                bundle,
                warnings,
            });
        }
    }
    Ok(Checked::Sound { bundle, warnings })
}

impl Checked {
    /// What a deploy would refuse, and how much more of it there is than is listed.
    pub(crate) fn mistakes(&self) -> (Vec<Finding>, usize) {
        match self {
            Checked::Sound { .. } => (Vec::new(), 0),
            Checked::Mistaken(errors) => {
                let listed = errors.errors().iter().map(|error| Finding {
                    code: error.code,
                    path: error.path.clone(),
                    message: error.message.clone(),
                });
                (listed.collect(), errors.omitted())
            }
            Checked::NoSuchRole { role, .. } => {
                let finding = Finding {
                    code: ROLE_NOT_FOUND,
                    path: "role".to_owned(),
                    message: no_role_sentence(role),
                };
                (vec![finding], 0)
            }
            Checked::WebhookTaken {
                bundle,
                webhook,
                agent,
                ..
            } => {
                let finding = Finding {
                    code: WEBHOOK_TAKEN,
                    path: refuse::webhook_path(bundle, webhook),
                    message: refuse::webhook_taken_sentence(webhook, agent),
                };
                (vec![finding], 0)
            }
        }
    }

    /// What is allowed but probably not meant.
    pub(crate) fn warnings(&self) -> &[Finding] {
        match self {
            Checked::Sound { warnings, .. }
            | Checked::NoSuchRole { warnings, .. }
            | Checked::WebhookTaken { warnings, .. } => warnings,
            Checked::Mistaken(_) => &[],
        }
    }

    /// The bundle to deploy, or the refusal.
    pub(crate) fn sound(self) -> Result<(Box<Bundle>, Vec<Finding>), Coded> {
        match self {
            Checked::Sound { bundle, warnings } => Ok((bundle, warnings)),
            Checked::Mistaken(errors) => Err(refuse::bundle(&errors)),
            Checked::NoSuchRole { role, .. } => Err(refuse::no_role(&role)),
            Checked::WebhookTaken {
                bundle,
                webhook,
                agent,
                ..
            } => Err(refuse::webhook_taken(&bundle, &webhook, &agent)),
        }
    }
}

/// What a namespace has of what bundles name.
struct Known {
    secrets: BTreeSet<String>,
    groups: BTreeSet<String>,
    targets: BTreeSet<String>,
}

fn found(bundle: &Bundle, known: &Known) -> Vec<Finding> {
    let finding = |warning: sayso_rules::BundleWarning| Finding {
        code: warning.code,
        path: warning.path,
        message: warning.message,
    };
    let found = warnings(bundle).into_iter();
    let secrets = secret_warnings(bundle, &known.secrets);
    let groups = group_warnings(bundle, &known.groups);
    let targets = target_warnings(bundle, &known.targets);
    let found = found.chain(secrets).chain(groups).chain(targets);
    found.map(finding).collect()
}
