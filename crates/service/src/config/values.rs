//! Values with a meaning: durations, sizes, counts, addresses, lists.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use figment::value::{Num, Value};

use super::section::{Given, Setting, describe};

/// A number of bytes, written `512B`, `64KiB`, `1MiB`, `2GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    /// A size in bytes.
    pub const fn new(bytes: u64) -> ByteSize {
        ByteSize(bytes)
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The size for what is held in memory; more than memory can hold is as
    /// much as it can.
    pub fn in_memory(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Where a service is reached: `http://host:port`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(http::Uri);

impl Address {
    /// The address as a URI: scheme, host and port, no path.
    pub fn uri(&self) -> &http::Uri {
        &self.0
    }

    /// An address from `http://host:port` or `host:port`.
    ///
    /// # Errors
    ///
    /// A sentence that says what an address looks like.
    pub fn parse(text: &str) -> Result<Address, String> {
        const WANTED: &str = "must be an address such as http://scheduler:7401";
        if text.starts_with("https://") {
            return Err(format!(
                "{WANTED}; calls between services are signed, and TLS is for a proxy to add"
            ));
        }
        let full = if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let uri: http::Uri = full
            .parse()
            .map_err(|_| format!("{WANTED}, found {text:?}"))?;
        let plain = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/");
        if !plain || uri.query().is_some() || uri.port_u16().is_none() {
            return Err(format!("{WANTED}, found {text:?}"));
        }
        Ok(Address(uri))
    }
}

/// An origin of pages: `https://host`, `http://host:port`, or `*` for any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

impl Origin {
    /// The origin as browsers send it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An origin.
    ///
    /// # Errors
    ///
    /// A sentence that says what an origin looks like.
    pub fn parse(text: &str) -> Result<Origin, String> {
        const WANTED: &str = "must be an origin such as https://ops.example.org, or *";
        let uri: Option<http::Uri> = text.parse().ok();
        let is_origin = uri.is_some_and(|uri| {
            let authority = uri.authority().map(|a| a.as_str().to_owned());
            let sent = uri.scheme_str().zip(authority);
            matches!(uri.scheme_str(), Some("http" | "https"))
                && sent.is_some_and(|(scheme, host)| text == format!("{scheme}://{host}"))
        });
        if text == "*" || is_origin {
            Ok(Origin(text.to_owned()))
        } else {
            Err(format!("{WANTED}, found {text:?}"))
        }
    }
}

impl Setting for Origin {
    fn parse(given: &Given<'_>) -> Result<Origin, String> {
        Origin::parse(given.text("an origin")?.trim())
    }

    fn placeholder() -> Origin {
        Origin(String::new())
    }
}

/// The name of a host, without scheme and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostName(String);

impl HostName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Setting for HostName {
    fn parse(given: &Given<'_>) -> Result<HostName, String> {
        const WANTED: &str = "the name of a host such as sayso.example.org";
        let text = given.text(WANTED)?.trim();
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if text.is_empty() || !text.chars().all(allowed) {
            return Err(format!("must be {WANTED}, found {text:?}"));
        }
        Ok(HostName(text.to_owned()))
    }

    fn placeholder() -> HostName {
        HostName(String::new())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = self.0.authority().map_or("", |a| a.as_str());
        write!(f, "http://{authority}")
    }
}

impl Setting for String {
    fn parse(given: &Given<'_>) -> Result<String, String> {
        let text = given.text("text")?;
        if text.trim().is_empty() {
            return Err("must not be blank".to_owned());
        }
        Ok(text.to_owned())
    }

    fn placeholder() -> String {
        String::new()
    }
}

impl Setting for PathBuf {
    fn parse(given: &Given<'_>) -> Result<PathBuf, String> {
        let text = given.text("a path")?;
        if text.is_empty() {
            return Err("must be a path".to_owned());
        }
        Ok(given.folder.join(text))
    }

    fn placeholder() -> PathBuf {
        PathBuf::new()
    }
}

impl Setting for bool {
    fn parse(given: &Given<'_>) -> Result<bool, String> {
        match given.value {
            Value::Bool(_, bool) => Ok(*bool),
            Value::String(_, text) if given.from_variable => match text.trim() {
                "true" => Ok(true),
                "false" => Ok(false),
                other => Err(format!("must be true or false, found {other:?}")),
            },
            other => Err(format!("must be true or false, found {}", describe(other))),
        }
    }

    fn placeholder() -> bool {
        false
    }
}

/// Counts: whole numbers from 1.
impl Setting for u32 {
    fn parse(given: &Given<'_>) -> Result<u32, String> {
        const WANTED: &str = "a whole number from 1";
        let whole = given.whole(WANTED)?;
        match u32::try_from(whole) {
            Ok(count) if count > 0 => Ok(count),
            Ok(_) | Err(_) => Err(format!("must be {WANTED}, found {whole}")),
        }
    }

    fn placeholder() -> u32 {
        1
    }
}

/// Shares: numbers from 0 to 1.
impl Setting for f64 {
    fn parse(given: &Given<'_>) -> Result<f64, String> {
        const WANTED: &str = "must be a number from 0 to 1";
        let number = match given.value {
            Value::Num(_, Num::F64(float)) => Some(*float),
            Value::Num(_, num) => num.to_i128().map(|whole| whole as f64),
            Value::String(_, text) if given.from_variable => text.trim().parse().ok(),
            _ => None,
        };
        number
            .filter(|share| (0.0..=1.0).contains(share))
            .ok_or_else(|| format!("{WANTED}, found {}", describe(given.value)))
    }

    fn placeholder() -> f64 {
        0.0
    }
}

impl Setting for Duration {
    fn parse(given: &Given<'_>) -> Result<Duration, String> {
        const WANTED: &str = "a duration such as 30s, 500ms or 1m30s";
        let text = given.text(WANTED)?;
        let bad = || format!("must be {WANTED}, found {text:?}");
        let mut total = Duration::ZERO;
        for (number, unit) in measures(text).ok_or_else(bad)? {
            let millis = match unit {
                "ms" => 1,
                "s" => 1000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return Err(bad()),
            };
            let millis = number.checked_mul(millis).ok_or_else(bad)?;
            let more = Duration::from_millis(millis);
            total = total.checked_add(more).ok_or_else(bad)?;
        }
        Ok(total)
    }

    fn placeholder() -> Duration {
        Duration::ZERO
    }
}

impl Setting for ByteSize {
    fn parse(given: &Given<'_>) -> Result<ByteSize, String> {
        const WANTED: &str = "a size such as 512B, 64KiB, 1MiB or 2GiB";
        let text = given.text(WANTED)?;
        let bad = || format!("must be {WANTED}, found {text:?}");
        let measures = measures(text).ok_or_else(bad)?;
        let &[(number, unit)] = measures.as_slice() else {
            return Err(bad());
        };
        let shift = match unit {
            "B" => 0,
            "KiB" => 10,
            "MiB" => 20,
            "GiB" => 30,
            _ => return Err(bad()),
        };
        number
            .checked_mul(1 << shift)
            .filter(|bytes| *bytes > 0)
            .map(ByteSize)
            .ok_or_else(bad)
    }

    fn placeholder() -> ByteSize {
        ByteSize(1)
    }
}

/// `1m30s` as `[(1, "m"), (30, "s")]`.
fn measures(text: &str) -> Option<Vec<(u64, &str)>> {
    let mut rest = text.trim();
    let mut found = Vec::new();
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(digits);
        let letters = after
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        found.push((number.parse().ok()?, unit));
        rest = after;
    }
    (!found.is_empty()).then_some(found)
}

impl Setting for SocketAddr {
    fn parse(given: &Given<'_>) -> Result<SocketAddr, String> {
        const WANTED: &str = "an address and port such as 0.0.0.0:7400";
        let text = given.text(WANTED)?;
        text.trim()
            .parse()
            .map_err(|_| format!("must be {WANTED}, found {text:?}"))
    }

    fn placeholder() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }
}

impl Setting for Address {
    fn parse(given: &Given<'_>) -> Result<Address, String> {
        Address::parse(
            given
                .text("an address such as http://scheduler:7401")?
                .trim(),
        )
    }

    fn placeholder() -> Address {
        Address(http::Uri::from_static("http://127.0.0.1:0"))
    }
}

/// A list; one value alone, or several separated by commas, is a list too.
impl<T: Setting> Setting for Vec<T> {
    fn parse(given: &Given<'_>) -> Result<Vec<T>, String> {
        let texts;
        let items = match given.value {
            Value::Array(_, items) => items,
            Value::String(tag, text) => {
                let parts = text
                    .split(',')
                    .map(str::trim)
                    .filter(|part| !part.is_empty());
                texts = parts
                    .map(|part| Value::String(*tag, part.to_owned()))
                    .collect::<Vec<_>>();
                &texts
            }
            other => return Err(format!("must be a list, found {}", describe(other))),
        };
        if items.is_empty() {
            return Err("must name at least one".to_owned());
        }
        let mut parsed = Vec::new();
        let mut problems = Vec::new();
        for (index, value) in items.iter().enumerate() {
            let item = Given {
                value,
                from_variable: given.from_variable,
                folder: given.folder.clone(),
            };
            match T::parse(&item) {
                Ok(item) => parsed.push(item),
                Err(problem) if items.len() == 1 => problems.push(problem),
                Err(problem) => problems.push(format!("item {}: {problem}", index + 1)),
            }
        }
        if problems.is_empty() {
            Ok(parsed)
        } else {
            Err(problems.join("; "))
        }
    }

    fn placeholder() -> Vec<T> {
        Vec::new()
    }
}
