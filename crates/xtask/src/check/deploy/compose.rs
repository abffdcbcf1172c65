//! What the compose file must say: the six services, each alive only when it says so, each
//! secret asked for by name.

use std::path::Path;

use yaml_serde::Value;

use super::{COMPOSE, SERVICES, names, settings, texts};

/// Where the services' configuration is inside a container.
const CONFIG: &str = "/etc/sayso/sayso.yaml";

/// What is wrong with the compose file of the checkout at `root`.
pub(super) fn faults(
    root: &Path,
    text: &str,
    compose: &Value,
    settings: &Value,
    defaults: &Value,
) -> Vec<String> {
    let mut faults: Vec<String> = variables(text)
        .filter(|variable| !variable.guarded)
        .map(|variable| format!("${{{}}} has neither default nor message", variable.name))
        .collect();
    let services = &compose["services"];
    let declared = names(services);
    for (name, service) in services.as_mapping().into_iter().flatten() {
        let name = name.as_str().unwrap_or("?");
        let mut fault = |words: String| faults.push(format!("{name}: {words}"));
        for key in ["healthcheck", "restart"] {
            if service[key].is_null() {
                fault(format!("no {key}"));
            }
        }
        for other in names(&service["depends_on"]) {
            if !declared.contains(&other) {
                fault(format!("depends on {other}, which is not there"));
            }
        }
        for wrong in mounts(root, service, &names(&compose["volumes"])) {
            fault(wrong);
        }
        if let Some(context) = service["build"]["context"].as_str() {
            let dockerfile = service["build"]["dockerfile"]
                .as_str()
                .unwrap_or("Dockerfile");
            if !root.join(context).join(dockerfile).is_file() {
                fault(format!("there is no {dockerfile}"));
            }
        }
        for variable in names(&service["environment"]) {
            if variable.starts_with("SAYSO_") && !settings::is_known_variable(variable, defaults) {
                fault(format!("{variable} names no key of the configuration"));
            }
        }
    }
    for name in SERVICES {
        for wrong in sayso(name, &services[name], settings) {
            faults.push(format!("{name}: {wrong}"));
        }
    }
    faults
        .into_iter()
        .map(|fault| format!("{COMPOSE}: {fault}"))
        .collect()
}

/// What is wrong with a service that our image runs.
fn sayso(name: &str, service: &Value, settings: &Value) -> Vec<String> {
    if service.is_null() {
        return vec!["is not there".to_owned()];
    }
    let mut faults = Vec::new();
    if texts(&service["command"]) != ["serve", name, "--config", CONFIG] {
        faults.push(format!("its command is not serve {name} --config {CONFIG}"));
    }
    if service["image"].as_str() != Some("sayso:local") {
        faults.push("does not run the one image".to_owned());
    }
    if service["build"].is_null() {
        // Compose would look for the image elsewhere before anything has built it.
        faults.push("does not say how the image is built".to_owned());
    }
    if !texts(&service["volumes"])
        .iter()
        .any(|mount| mount.contains(&format!(":{CONFIG}")))
    {
        faults.push(format!("nothing is mounted at {CONFIG}"));
    }
    let endpoints = &settings["services"][name.replace('-', "_").as_str()];
    let port = endpoints["listen"]
        .as_str()
        .and_then(|listen| listen.rsplit_once(':'))
        .map(|(_, port)| port);
    match port {
        None => faults.push("the configuration says nowhere that it listens".to_owned()),
        Some(port) => {
            let health = format!("http://127.0.0.1:{port}/readyz");
            if !texts(&service["healthcheck"]["test"]).contains(&health.as_str()) {
                faults.push(format!("its health check does not ask {health}"));
            }
            let reached = format!("http://{name}:{port}");
            if endpoints["connect"].as_str() != Some(reached.as_str()) {
                faults.push(format!("the configuration does not reach it at {reached}"));
            }
        }
    }
    faults
}

/// What is wrong with the mounts of a service: files that are not there, volumes not declared.
fn mounts(root: &Path, service: &Value, volumes: &[&str]) -> Vec<String> {
    texts(&service["volumes"])
        .into_iter()
        .filter_map(|mount| mount.split(':').next())
        .filter_map(|source| {
            if source.starts_with('.') {
                (!root.join(source).exists()).then(|| format!("mounts {source}: no such file"))
            } else {
                (!volumes.contains(&source)).then(|| format!("volume {source} is not declared"))
            }
        })
        .collect()
}

/// A variable that the file takes from its surroundings.
pub(super) struct Variable<'t> {
    pub(super) name: &'t str,
    /// Whether it has a default, or a message for when it is unset.
    guarded: bool,
}

/// Every `${VARIABLE…}` of the file.
pub(super) fn variables(text: &str) -> impl Iterator<Item = Variable<'_>> {
    text.match_indices("${").map(|(at, opening)| {
        let rest = &text[at + opening.len()..];
        let end = rest
            .find(|part: char| !part.is_ascii_alphanumeric() && part != '_')
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        Variable {
            name,
            guarded: after.starts_with(":?") || after.starts_with(":-"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::variables;

    #[test]
    fn a_variable_without_a_message_is_seen() {
        let found: Vec<(&str, bool)> = variables("a: ${ONE:?why}\nb: ${TWO}\nc: ${THREE:-3}\n")
            .map(|variable| (variable.name, variable.guarded))
            .collect();
        assert_eq!(found, [("ONE", true), ("TWO", false), ("THREE", true)]);
    }
}
