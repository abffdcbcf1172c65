//! Settings that the configuration does not know.

use yaml_serde::Value;

use super::SETTINGS;

/// Keys of the deployment's configuration that are not among the defaults. A default that is an
/// empty map takes any names (`models`, `tiers`).
pub(super) fn unknown_keys(settings: &Value, defaults: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    compare(settings, defaults, &mut Vec::new(), &mut faults);
    faults
}

fn compare(settings: &Value, defaults: &Value, path: &mut Vec<String>, faults: &mut Vec<String>) {
    let (Value::Mapping(settings), Value::Mapping(defaults)) = (settings, defaults) else {
        return;
    };
    if defaults.is_empty() {
        return;
    }
    for (key, value) in settings {
        path.push(key.as_str().unwrap_or("?").to_owned());
        match defaults.get(key) {
            Some(default) => compare(value, default, path, faults),
            None => faults.push(format!("{SETTINGS}: unknown key {}", path.join("."))),
        }
        path.pop();
    }
}

/// Whether a variable such as `SAYSO_DATABASE__URL` names a key of the defaults.
pub(super) fn is_known_variable(variable: &str, defaults: &Value) -> bool {
    let Some(path) = variable.strip_prefix("SAYSO_") else {
        return false;
    };
    let mut below = defaults;
    for level in path.to_lowercase().split("__") {
        match below {
            Value::Mapping(map) if map.is_empty() => return true,
            Value::Mapping(map) => match map.get(level) {
                Some(found) => below = found,
                None => return false,
            },
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Sequence(_)
            | Value::Tagged(_) => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yaml(text: &str) -> Value {
        yaml_serde::from_str(text).expect("the test's YAML is valid")
    }

    #[test]
    fn a_key_that_the_defaults_lack_is_named_with_its_path() {
        let defaults = yaml("{nats: {url: null}, models: {}, grace: 1s}");
        let settings = yaml("{nats: {urls: x}, models: {any: {thing: 1}}, grase: 2s}");
        assert_eq!(
            unknown_keys(&settings, &defaults),
            [
                "deploy/sayso.yaml: unknown key nats.urls",
                "deploy/sayso.yaml: unknown key grase"
            ]
        );
    }

    #[test]
    fn a_variable_names_a_key() {
        let defaults = yaml("{database: {url: null}, models: {}}");
        assert!(is_known_variable("SAYSO_DATABASE__URL", &defaults));
        assert!(is_known_variable("SAYSO_MODELS__SONNET__MODEL", &defaults));
        assert!(!is_known_variable("SAYSO_DATABASE_URL", &defaults));
        assert!(!is_known_variable("SAYSO_DATABASE__URL__X", &defaults));
    }
}
