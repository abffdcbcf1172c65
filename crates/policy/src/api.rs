//! The internal gRPC API.

mod judgements;
mod roles;

use sayso_run::{AgentName, Namespace, PrincipalId, RevisionId};
use sayso_service::error::Coded;
use sayso_store::RevisionRow;
use sayso_wire::internal::policy_service_server::PolicyService;
use sayso_wire::internal::{
    DeployRequest, DeployResponse, GetRevisionRequest, GetRevisionResponse, GetRoleRequest,
    GetRoleResponse, ReviewSwitch, RevisionChanges, ValidateRequest, ValidateResponse,
};
use sayso_wire::time::timestamp;
use sayso_wire::v1;
use tonic::{Request, Response, Status};

use crate::Policy;
use crate::check::{Checked, Finding, check};
use crate::deploy::{Difference, deploy, difference};
use crate::read::{revision, role};
use crate::refuse::{invalid, name};

#[derive(Clone)]
pub(crate) struct Api(pub(crate) Policy);

#[tonic::async_trait]
impl PolicyService for Api {
    async fn validate(
        &self,
        request: Request<ValidateRequest>,
    ) -> Result<Response<ValidateResponse>, Status> {
        let request = request.into_inner();
        let namespace = namespace("namespace", &request.namespace)?;
        let checked = check(&self.0.store, &namespace, &request.bundle).await?;
        let (errors, omitted) = checked.mistakes();
        let warnings = findings(checked.warnings());
        let revision_id = match &checked {
            Checked::Sound { bundle, .. } => bundle.revision_hash(),
            Checked::Mistaken(_) | Checked::NoSuchRole { .. } | Checked::WebhookTaken { .. } => {
                String::new()
            }
        };
        let changes = match &checked {
            Checked::Sound { bundle, .. } => {
                Some(difference(&self.0.store, &namespace, bundle).await?)
            }
            Checked::Mistaken(_) | Checked::NoSuchRole { .. } | Checked::WebhookTaken { .. } => {
                None
            }
        };
        let answer = ValidateResponse {
            errors: findings(&errors),
            omitted_errors: u32::try_from(omitted).unwrap_or(u32::MAX),
            warnings,
            revision_id,
            changes: changes.map(changed),
        };
        Ok(Response::new(answer))
    }

    async fn deploy(
        &self,
        request: Request<DeployRequest>,
    ) -> Result<Response<DeployResponse>, Status> {
        let request = request.into_inner();
        let caller = request
            .caller
            .ok_or_else(|| invalid("caller", "is required"))?;
        let namespace = namespace("caller.namespace", &caller.namespace)?;
        let by = name("caller.principal", PrincipalId::new(&caller.principal))?;
        let deployed = deploy(&self.0.store, &namespace, &by, &request.bundle).await?;
        Ok(Response::new(DeployResponse {
            revision: Some(shown(&deployed.agent, &deployed.revision)),
            warnings: findings(&deployed.warnings),
            created: deployed.created,
            changes: Some(changed(deployed.difference)),
        }))
    }

    async fn get_revision(
        &self,
        request: Request<GetRevisionRequest>,
    ) -> Result<Response<GetRevisionResponse>, Status> {
        let request = request.into_inner();
        let namespace = namespace("namespace", &request.namespace)?;
        let agent = name("agent", AgentName::new(&request.agent))?;
        let wanted = match request.revision_id.as_str() {
            "" => None,
            id => Some(name("revision_id", RevisionId::new(id))?),
        };
        let row = revision(&self.0.store, &namespace, &agent, wanted.as_ref()).await?;
        Ok(Response::new(GetRevisionResponse {
            revision: Some(shown(&agent, &row)),
            bundle_json: row.bundle,
        }))
    }

    async fn get_role(
        &self,
        request: Request<GetRoleRequest>,
    ) -> Result<Response<GetRoleResponse>, Status> {
        let request = request.into_inner();
        let namespace = namespace("namespace", &request.namespace)?;
        let agent = name("agent", AgentName::new(&request.agent))?;
        let now = role(&self.0.store, &namespace, &agent).await?;
        let unchanged = now.version == request.known_version;
        Ok(Response::new(GetRoleResponse {
            role_json: now.json.filter(|_| !unchanged),
            version: now.version,
            unchanged,
            read_at: Some(timestamp(now.read_at)),
            paused: now.paused,
        }))
    }
}

fn namespace(field: &'static str, text: &str) -> Result<Namespace, Coded> {
    name(field, Namespace::new(text))
}

fn findings(findings: &[Finding]) -> Vec<v1::BundleFinding> {
    let shown = |finding: &Finding| v1::BundleFinding {
        code: finding.code.to_owned(),
        path: finding.path.clone(),
        message: finding.message.clone(),
    };
    findings.iter().map(shown).collect()
}

fn changed(difference: Difference) -> RevisionChanges {
    let changes = difference.changes;
    let switch = |switch: crate::changes::ReviewSwitch| ReviewSwitch {
        tool: switch.tool,
        before: switch.before,
        after: switch.after,
    };
    RevisionChanges {
        before_revision_id: difference.before.map(String::from).unwrap_or_default(),
        changes: changes.told,
        omitted: u32::try_from(changes.omitted).unwrap_or(u32::MAX),
        reviews: changes.reviews.into_iter().map(switch).collect(),
        before_role: difference.role_before.unwrap_or_default(),
        role: difference.role.unwrap_or_default(),
    }
}

fn shown(agent: &AgentName, row: &RevisionRow) -> v1::Revision {
    v1::Revision {
        id: row.id.to_string(),
        agent: agent.to_string(),
        author: row.deployed_by.to_string(),
        created_at: Some(timestamp(row.created_at)),
    }
}
