//! Agent cards: how an agent is found. A card is public; calling takes a token.

use std::collections::HashMap;

use sayso_rules::bundle::Skill;
use sayso_wire::a2a::{VERSION, v1};

use super::offered::Offered;

/// The name of the one security scheme.
const SCHEME: &str = "bearer";

/// What is read and written.
const MODES: [&str; 2] = ["text/plain", "application/json"];

/// What an agent may make beside.
const FILES: &str = "application/octet-stream";

/// The path of an agent's door.
fn path(offered: &Offered) -> String {
    format!("/a2a/{}/{}", offered.namespace, offered.agent)
}

/// The card of an agent that is reached under this URL, which has no path. `pushes` says whether
/// clients can have themselves told.
pub(super) fn card(offered: &Offered, url: &str, pushes: bool) -> v1::AgentCard {
    let agent = offered.agent.as_str();
    let description = match &offered.description {
        Some(description) if !description.is_empty() => description.clone(),
        _ => format!("The agent {agent}."),
    };
    let door = format!("{url}{}", path(offered));
    let skills = offered.block.skills.iter().map(skill);
    let mut skills: Vec<v1::AgentSkill> = skills.collect();
    if skills.is_empty() {
        skills.push(v1::AgentSkill {
            id: agent.to_owned(),
            name: agent.to_owned(),
            description: description.clone(),
            tags: vec![agent.to_owned()],
            ..v1::AgentSkill::default()
        });
    }
    v1::AgentCard {
        name: agent.to_owned(),
        description,
        supported_interfaces: vec![
            interface(door.clone(), "JSONRPC", ""),
            interface(door, "HTTP+JSON", ""),
            interface(authority(url), "GRPC", agent),
        ],
        version: offered.revision.as_str().chars().take(12).collect(),
        capabilities: Some(v1::AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(pushes),
            extensions: Vec::new(),
            extended_agent_card: Some(false),
        }),
        security_schemes: HashMap::from([(SCHEME.to_owned(), scheme())])
            .into_iter()
            .collect(),
        security_requirements: vec![v1::SecurityRequirement {
            schemes: HashMap::from([(SCHEME.to_owned(), v1::StringList::default())])
                .into_iter()
                .collect(),
        }],
        default_input_modes: MODES.map(str::to_owned).into(),
        default_output_modes: MODES
            .into_iter()
            .chain([FILES])
            .map(str::to_owned)
            .collect(),
        skills,
        ..v1::AgentCard::default()
    }
}

fn skill(skill: &Skill) -> v1::AgentSkill {
    let tags = if skill.tags.is_empty() {
        vec![skill.id.clone()]
    } else {
        skill.tags.clone()
    };
    v1::AgentSkill {
        id: skill.id.clone(),
        name: skill.name.clone(),
        description: skill.description.clone(),
        tags,
        examples: skill.examples.clone(),
        ..v1::AgentSkill::default()
    }
}

fn interface(url: String, binding: &str, tenant: &str) -> v1::AgentInterface {
    v1::AgentInterface {
        url,
        protocol_binding: binding.to_owned(),
        tenant: tenant.to_owned(),
        protocol_version: VERSION.to_owned(),
    }
}

fn scheme() -> v1::SecurityScheme {
    let http = v1::HttpAuthSecurityScheme {
        description: "A token of sayso with the scope `submit`.".to_owned(),
        scheme: "Bearer".to_owned(),
        bearer_format: String::new(),
    };
    v1::SecurityScheme {
        scheme: Some(v1::security_scheme::Scheme::HttpAuthSecurityScheme(http)),
    }
}

/// Host and port of a URL, as gRPC has addresses.
fn authority(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let host = rest.split('/').next().unwrap_or_default();
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    match (has_port, scheme) {
        (true, _) => host.to_owned(),
        (false, "https") => format!("{host}:443"),
        (false, _) => format!("{host}:80"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port() {
        for (url, address) in [
            ("http://127.0.0.1:7400", "127.0.0.1:7400"),
            ("https://agents.example.org", "agents.example.org:443"),
            ("http://desk", "desk:80"),
            ("http://[::1]:7400", "[::1]:7400"),
            ("https://[::1]", "[::1]:443"),
        ] {
            assert_eq!(authority(url), address);
        }
    }
}
