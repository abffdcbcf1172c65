//! An MCP server for tests, and its evil twins: `sayso-test-mcp [MODE]`.
//!
//! | mode | |
//! |---|---|
//! | (none) | serves [`handler::TestServer`] |
//! | `noisy` | the same, after a line that is no message |
//! | `noise` | prints something that is no message, and ends |
//! | `hang` | reads and never answers |
//! | `flood` | one endless message |
//! | `leak` | tells its environment on standard error, and ends |
//! | `shop` | the shop of `sayso demo` |
//! | `parent` | serves, with a child of its own that ends by itself only after a long time |

mod handler;

use std::io::{Read, Write};

use rmcp::serve_server;
use rmcp::transport::stdio;

#[tokio::main(flavor = "current_thread")]
#[expect(
    clippy::zombie_processes,
    reason = "a child that is left behind is what one mode is for"
)]
async fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    match mode.as_str() {
        "noise" => {
            println!("Welcome to the test server!");
            eprintln!("cannot find my configuration");
            std::process::exit(3);
        }
        "hang" => {
            let mut input = Vec::new();
            std::io::stdin()
                .read_to_end(&mut input)
                .expect("standard input can be read");
            return;
        }
        "flood" => {
            let chunk = [b'x'; 65536];
            while std::io::stdout().write_all(&chunk).is_ok() {}
            return;
        }
        "leak" => {
            for (name, value) in std::env::vars() {
                eprintln!("{name}={value}");
            }
            std::process::exit(4);
        }
        "shop" => {
            sayso_tools::demo_shop::serve_stdio()
                .await
                .expect("the shop is served");
            return;
        }
        "noisy" => println!("Welcome to the test server!"),
        "parent" => {
            let child = std::process::Command::new("sleep")
                .arg("600")
                .spawn()
                .expect("sleep can be started");
            handler::note(&format!("child {}", child.id()));
        }
        _ => {}
    }
    let server = handler::TestServer::default();
    let running = serve_server(server, stdio())
        .await
        .expect("a client shakes hands");
    running.waiting().await.expect("the server's task ends");
}
