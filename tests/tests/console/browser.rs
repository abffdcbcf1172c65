//! A real browser, driven over WebDriver: small JSON messages over HTTP to `chromedriver`, which is
//! blocking and needs no library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sayso_tests::{free_port, program, until};
use serde_json::{Value, json};

/// How WebDriver names the id of an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// No answer takes this long.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// A headless Chromium of its own, gone with its driver when this is dropped.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    pictures: PathBuf,
}

impl Browser {
    /// Starts one. What it leaves behind goes with the folder of the test.
    pub(crate) async fn start(folder: &Path) -> Browser {
        let port = free_port();
        let driver = Command::new(program("SAYSO_TEST_CHROMEDRIVER"))
            .arg(format!("--port={port}"))
            // By this mark the watchdog finds what a killed test leaves running.
            .env(
                "SAYSO_TEST_FOLDER",
                folder.parent().expect("the watchdog's folder"),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver can be started");
        let pictures = std::env::var_os("SAYSO_TEST_PICTURES");
        let mut browser = Browser {
            driver,
            port,
            session: String::new(),
            pictures: pictures.map_or_else(|| folder.to_owned(), PathBuf::from),
        };
        until("chromedriver to listen", async || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()
        })
        .await;
        let profile = folder.join("browser");
        let options = json!({
            "binary": program("SAYSO_TEST_CHROMIUM"),
            "args": [
                "--headless=new",
                "--no-sandbox",
                "--disable-dev-shm-usage",
                "--disable-gpu",
                "--window-size=1000,900",
                format!("--user-data-dir={}", profile.display()),
            ],
        });
        let wanted = json!({
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
        });
        let opened = browser.send(
            "POST",
            "/session",
            &json!({"capabilities": {"alwaysMatch": wanted}}),
        );
        browser.session = opened["sessionId"].as_str().expect("a session").to_owned();
        browser
    }

    /// Loads a page.
    pub(crate) fn open(&self, url: &str) {
        self.ask("POST", "/url", &json!({"url": url}));
    }

    /// Opens another tab and turns to it; the one that was in front.
    pub(crate) fn open_tab(&self) -> String {
        let before = self.ask("GET", "/window", &Value::Null);
        let tab = self.ask("POST", "/window/new", &json!({"type": "tab"}));
        self.turn_to(tab["handle"].as_str().expect("a tab"));
        before.as_str().expect("a tab").to_owned()
    }

    /// Turns to a tab; the one that was in front.
    pub(crate) fn turn_to(&self, tab: &str) -> String {
        let before = self.ask("GET", "/window", &Value::Null);
        self.ask("POST", "/window", &json!({"handle": tab}));
        before.as_str().unwrap_or_default().to_owned()
    }

    /// What an expression of JavaScript is worth.
    pub(crate) fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression});");
        self.ask(
            "POST",
            "/execute/sync",
            &json!({"script": script, "args": []}),
        )
    }

    /// Waits until an expression is true.
    pub(crate) async fn until(&self, expression: &str) {
        let what = format!("{expression} in the browser");
        until(&what, async || {
            (self.value(expression) == true).then_some(())
        })
        .await;
    }

    /// Clicks what a CSS selector finds.
    pub(crate) fn click(&self, css: &str) {
        let element = self.find(css);
        self.ask("POST", &format!("/element/{element}/click"), &json!({}));
    }

    /// Types into what a CSS selector finds.
    pub(crate) fn write(&self, css: &str, text: &str) {
        let element = self.find(css);
        self.ask(
            "POST",
            &format!("/element/{element}/value"),
            &json!({"text": text}),
        );
    }

    fn find(&self, css: &str) -> String {
        let wanted = json!({"using": "css selector", "value": css});
        let found = self.ask("POST", "/element", &wanted);
        found[ELEMENT].as_str().expect("an element").to_owned()
    }

    /// A window as small as a phone, at night.
    pub(crate) fn become_a_phone_at_night(&self) {
        let screen = json!({"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": true});
        self.devtools("Emulation.setDeviceMetricsOverride", &screen);
        let night = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
        self.devtools("Emulation.setEmulatedMedia", &night);
    }

    /// Keeps a picture of the whole page, for people; in the folder that `SAYSO_TEST_PICTURES` names.
    pub(crate) fn keep_picture(&self, name: &str) {
        let whole = json!({"captureBeyondViewport": true});
        let taken = self.devtools("Page.captureScreenshot", &whole);
        let picture = decoded(taken["data"].as_str().expect("a picture"));
        std::fs::write(self.pictures.join(name), picture).expect("the folder can be written to");
    }

    /// What the browser complained of: errors of scripts, and what the policy forbids.
    pub(crate) fn complaints(&self) -> Vec<Value> {
        let log = self.ask("POST", "/se/log", &json!({"type": "browser"}));
        let entries = log.as_array().cloned().unwrap_or_default();
        let severe = entries
            .into_iter()
            .filter(|entry| entry["level"] == "SEVERE");
        severe.collect()
    }

    fn devtools(&self, command: &str, parameters: &Value) -> Value {
        self.ask(
            "POST",
            "/goog/cdp/execute",
            &json!({"cmd": command, "params": parameters}),
        )
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> Value {
        self.send(method, &format!("/session/{}{path}", self.session), body)
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let answer = exchange(self.port, method, path, body);
        let answer = answer.unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        let answer: Value = serde_json::from_str(&answer).expect("WebDriver answers in JSON");
        let value = answer["value"].clone();
        assert!(
            value.get("error").is_none(),
            "{method} {path} {body}: {value:#}"
        );
        value
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if !self.session.is_empty() {
            let path = format!("/session/{}", self.session);
            if let Err(error) = exchange(self.port, "DELETE", &path, &Value::Null) {
                println!("the browser did not end by itself: {error}");
            }
        }
        if let Err(error) = self.driver.kill().and_then(|()| self.driver.wait()) {
            println!("chromedriver did not end: {error}");
        }
    }
}

fn exchange(port: u16, method: &str, path: &str, body: &Value) -> std::io::Result<String> {
    let body = if body.is_null() {
        String::new()
    } else {
        body.to_string()
    };
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )?;
    // The driver leaves the connection open, so the answer ends where its length says.
    let mut answer = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        answer.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else {
            if line.trim_end().is_empty() {
                break;
            }
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    answer.read_exact(&mut body)?;
    String::from_utf8(body).map_err(std::io::Error::other)
}

/// Bytes written in base64.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte| DIGITS.iter().position(|digit| *digit == byte);
    let digits: Vec<usize> = text.bytes().filter_map(digit).collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let bits = four.iter().fold(0, |bits, digit| bits << 6 | digit) << (6 * (4 - four.len()));
        let three = [bits >> 16, bits >> 8, bits].map(|bits| u8::try_from(bits & 255).unwrap());
        bytes.extend_from_slice(&three[..four.len() - 1]);
    }
    bytes
}
