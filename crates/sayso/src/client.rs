//! Whom a command talks to, and as whom.

use std::env;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use sayso_sdk::Client;

use crate::args::Global;
use crate::outcome::Failure;

/// The file of the local admin token in the folder of `sayso up` (S10.1).
pub(crate) const TOKEN_FILE: &str = "admin.token";

/// Connects as the command line says.
pub(crate) async fn connect(global: &Global) -> Result<Client, Failure> {
    let token = token(global)?;
    let client = Client::connect(&global.server, &token).await?;
    match &global.namespace {
        Some(namespace) => Ok(client.in_namespace(namespace)?),
        None => Ok(client),
    }
}

/// The token that was given, else that of `sayso up` if the server is on this machine.
pub(crate) fn token(global: &Global) -> Result<String, Failure> {
    if let Some(token) = &global.token {
        let token = token.trim();
        return if token.is_empty() {
            Err(Failure::usage(
                "the token is empty",
                "set SAYSO_TOKEN or --token to a token's secret, or leave both out",
            ))
        } else {
            Ok(token.to_owned())
        };
    }
    if !is_local(&global.server) {
        return Err(Failure::usage(
            format!("no token for {}", global.server),
            "give one with --token or SAYSO_TOKEN; the local admin token is only used on this machine",
        ));
    }
    let path = data_dir(global)?.join(TOKEN_FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(text.trim().to_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Failure::usage(
            format!("no token: there is none in {}", path.display()),
            "`sayso up` makes one there; else give one with --token or SAYSO_TOKEN, or name the folder of `sayso up` with --data",
        )),
        Err(error) => Err(Failure::usage(
            format!("the token in {} cannot be read: {error}", path.display()),
            "it is readable by whoever runs `sayso up` alone; give another with --token or SAYSO_TOKEN",
        )),
    }
}

/// The folder of `sayso up`: the one that was named, else the platform's place for it.
pub(crate) fn data_dir(global: &Global) -> Result<PathBuf, Failure> {
    if let Some(named) = &global.data {
        return Ok(named.clone());
    }
    let home = env::home_dir().filter(|home| home.is_absolute());
    let xdg = env::var_os("XDG_DATA_HOME").map(PathBuf::from);
    default_data_dir(home.as_deref(), xdg.as_deref()).ok_or_else(|| {
        Failure::usage(
            "there is no home folder to keep data in",
            "name a folder with --data or SAYSO_DATA",
        )
    })
}

fn default_data_dir(home: Option<&Path>, xdg: Option<&Path>) -> Option<PathBuf> {
    if cfg!(target_os = "macos") {
        return home.map(|home| home.join("Library/Application Support/sayso"));
    }
    match xdg.filter(|xdg| xdg.is_absolute()) {
        Some(xdg) => Some(xdg.join("sayso")),
        None => home.map(|home| home.join(".local/share/sayso")),
    }
}

/// Whether an address is this machine's own.
fn is_local(server: &str) -> bool {
    let uri: Option<tonic::codegen::http::Uri> = server.parse().ok();
    let Some(host) = uri.as_ref().and_then(|uri| uri.host()) else {
        return false;
    };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || bare
            .parse()
            .is_ok_and(|address: IpAddr| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(server: &str, data: &Path) -> Global {
        Global {
            server: server.to_owned(),
            token: None,
            namespace: None,
            data: Some(data.to_owned()),
            json: false,
        }
    }

    /// S10.1: the local admin token is used on this machine alone.
    #[test]
    fn s10_1_the_local_token_never_leaves_this_machine() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(TOKEN_FILE), "sayso_local\n").unwrap();
        for local in [
            "http://127.0.0.1:7400",
            "http://localhost:1",
            "http://[::1]:7400",
        ] {
            assert_eq!(
                token(&global(local, folder.path())).unwrap(),
                "sayso_local",
                "{local}"
            );
        }
        for elsewhere in [
            "http://10.0.0.1:7400",
            "https://localhost.example",
            "http://sayso",
        ] {
            let failure = token(&global(elsewhere, folder.path())).unwrap_err();
            assert_eq!(failure.code(), 2, "{elsewhere}: {failure}");
        }
    }

    #[test]
    fn a_given_token_comes_first_and_a_missing_one_says_where_it_would_be() {
        let folder = tempfile::tempdir().unwrap();
        let mut given = global("http://127.0.0.1:7400", folder.path());
        let failure = token(&given).unwrap_err();
        assert!(failure.to_string().contains(TOKEN_FILE), "{failure}");
        given.token = Some(" sayso_mine ".into());
        assert_eq!(token(&given).unwrap(), "sayso_mine");
    }

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn data_is_kept_where_the_platform_keeps_it() {
        let home = Path::new("/home/ann");
        let default = |xdg: Option<&str>| default_data_dir(Some(home), xdg.map(Path::new)).unwrap();
        assert_eq!(default(None), Path::new("/home/ann/.local/share/sayso"));
        assert_eq!(default(Some("/data")), Path::new("/data/sayso"));
        assert_eq!(
            default(Some("relative")),
            Path::new("/home/ann/.local/share/sayso")
        );
        assert_eq!(default_data_dir(None, None), None);
    }
}
