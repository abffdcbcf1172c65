//! The stylesheet, the script and the icon, built in. The name of each holds a hash of its content,
//! so browsers keep them for good and a new version is fetched at once.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use sayso_run::Digest;

/// One file.
pub(super) struct Asset {
    /// Where it is served.
    pub(super) path: String,
    kind: &'static str,
    content: &'static str,
}

pub(super) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../../assets/console.css");
    asset("console", "css", "text/css; charset=utf-8", content)
});

pub(super) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../../assets/console.js");
    asset("console", "js", "text/javascript; charset=utf-8", content)
});

pub(super) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("../../assets/icon.svg");
    asset("icon", "svg", "image/svg+xml", content)
});

fn asset(name: &str, ending: &str, kind: &'static str, content: &'static str) -> Asset {
    let hash = Digest::of(content.as_bytes()).to_hex();
    Asset {
        path: format!("/assets/{name}-{}.{ending}", &hash[..12]),
        kind,
        content,
    }
}

/// Answers with a file by its exact name.
pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let assets: [&Asset; 3] = [&STYLE, &SCRIPT, &ICON];
    let wanted = |asset: &&&Asset| asset.path.strip_prefix("/assets/") == Some(name.as_str());
    match assets.iter().find(wanted) {
        Some(asset) => {
            let headers = [
                (CONTENT_TYPE, asset.kind),
                (CACHE_CONTROL, "public, max-age=31536000, immutable"),
            ];
            (headers, asset.content).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
