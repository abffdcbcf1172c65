//! What a bundle grants, as far as its text alone tells: which tools its servers offer it does not.

use sayso_rules::Bundle;
use sayso_rules::judge::{CONTROL_TOOLS, START_AGENT};
use sayso_rules::names::plain_form;

/// The registered name of a tool that may have been given in its model form: the name of one of the
/// bundle's servers tells.
pub(crate) fn registered(bundle: &Bundle, given: &str) -> String {
    if given.contains('.') {
        return given.to_owned();
    }
    let tool = |server: &String| {
        let tool = given.strip_prefix(&plain_form(&format!("{server}.")))?;
        (!tool.is_empty()).then(|| format!("{server}.{tool}"))
    };
    let found = bundle.servers.keys().find_map(tool);
    found.unwrap_or_else(|| given.to_owned())
}

/// Whether a bundle grants a tool.
pub(crate) fn grants(bundle: &Bundle, registered: &str) -> bool {
    let mut builtins = bundle.builtins.iter().map(|builtin| builtin.name());
    builtins.any(|builtin| builtin == registered)
        || bundle.interaction && registered == CONTROL_TOOLS[0]
        || !bundle.agents.is_empty() && registered == START_AGENT
        || registered
            .split_once('.')
            .is_some_and(|(server, _)| bundle.servers.contains_key(server))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_form_of_a_name_is_understood() {
        let bundle = "
name: a
servers: {git-hub: {command: [x]}, shop: {command: [x]}}
builtins: [create_artifact]
";
        let bundle = Bundle::parse(bundle).unwrap();
        for (given, name, granted) in [
            ("git-hub_list_issues", "git-hub.list_issues", true),
            ("create_artifact", "create_artifact", true),
            ("shop.a", "shop.a", true),
            ("send_email", "send_email", false),
            ("ask_person", "ask_person", false),
            ("nobody.x", "nobody.x", false),
        ] {
            assert_eq!(registered(&bundle, given), name);
            assert_eq!(grants(&bundle, name), granted, "{name}");
        }
    }
}
