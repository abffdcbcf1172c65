//! The forms that short texts in a bundle have: names, durations, sizes, URLs.

use std::time::Duration;

/// The longest duration; anything above is a slip of the pen.
const MAX_DURATION: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

/// The largest size, in bytes: results stand whole in memory and in one row.
const MAX_SIZE: u64 = 64 << 20;

/// Whether a text can name an agent, a namespace or a role:
/// `[a-z0-9-]{1,63}`.
#[must_use]
pub fn is_agent_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// Whether a text can name a secret: `[A-Za-z0-9_]{1,64}`.
#[must_use]
pub fn is_secret_name(text: &str) -> bool {
    (1..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Whether a text can name a server or a tier: `[A-Za-z0-9_-]{1,63}`. A server
/// has no dot, so that `server.tool` can be read in one way only.
pub(super) fn is_part_name(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// Whether a text can name a kind of thing: `[A-Za-z0-9_.-]{1,64}`.
pub(super) fn is_kind(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// A duration such as `500ms`, `30s`, `10m`, `1h` or `7d`, above zero.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = number_and_unit(text)
        .ok_or("a duration is a whole number with a unit: 500ms, 30s, 10m, 1h or 7d")?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("the units of a duration are ms, s, m, h and d".to_owned()),
    };
    let value = number
        .checked_mul(milliseconds)
        .map(Duration::from_millis)
        .filter(|value| *value <= MAX_DURATION)
        .ok_or("a duration is at most 3650d")?;
    if value.is_zero() {
        return Err("a duration is longer than zero".to_owned());
    }
    Ok(value)
}

/// A size such as `256KiB`, in bytes, above zero.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = number_and_unit(text)
        .ok_or("a size is a whole number with a unit: 512B, 256KiB or 1MiB")?;
    let bytes = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        _ => return Err("the units of a size are B, KiB and MiB".to_owned()),
    };
    let value = number
        .checked_mul(bytes)
        .filter(|value| *value <= MAX_SIZE)
        .ok_or("a size is at most 64MiB")?;
    if value == 0 {
        return Err("a size is above zero".to_owned());
    }
    Ok(value)
}

/// Splits `30s` into 30 and `s`. A number too long for 64 bits is the largest
/// one: the limits refuse it in words that fit.
fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    (digits > 0 && !unit.is_empty()).then(|| (number.parse().unwrap_or(u64::MAX), unit))
}

/// Checks an `http` or `https` URL as far as a bundle can: whoever connects
/// parses it in full.
pub(super) fn url(text: &str) -> Result<(), &'static str> {
    let rest = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"))
        .ok_or("a URL here begins with https:// or http://")?;
    if text.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err("a URL has no blanks or control characters");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("a URL here holds no user name or password: it is shown to people");
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err("the URL has no host");
    }
    Ok(())
}

/// Whether a text can be the name of an HTTP header.
pub(super) fn is_header_name(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// Whether a text can be the value of an HTTP header.
pub(super) fn is_header_value(text: &str) -> bool {
    text.trim() == text && text.bytes().all(|b| matches!(b, b'\t' | b' '..=b'~'))
}

/// Whether a text can name an environment variable.
pub(super) fn is_env_name(text: &str) -> bool {
    !text.is_empty() && !text.contains(['=', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit_and_bounds() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("10m", 600_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for bad in [
            "", "30", "s", "-1s", "1.5h", "1 h", "1H", "1w", "0s", "3651d", "1h30m", " 1s",
        ] {
            assert!(duration(bad).is_err(), "{bad:?}");
        }
        assert!(duration("99999999999999999999999s").is_err());
        assert!(duration("18446744073709551615d").is_err());
    }

    #[test]
    fn sizes_have_a_unit_and_bounds() {
        assert_eq!(size("512B"), Ok(512));
        assert_eq!(size("256KiB"), Ok(262_144));
        assert_eq!(size("64MiB"), Ok(67_108_864));
        for bad in [
            "", "256", "KiB", "256KB", "256kib", "0KiB", "65MiB", "1GiB", "1.5KiB",
        ] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn urls_have_a_scheme_and_a_host_and_no_password() {
        for good in [
            "https://mcp.example/mcp",
            "http://127.0.0.1:9",
            "https://[::1]/x?y#z",
        ] {
            assert_eq!(url(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "mcp.example",
            "ftp://x",
            "https://",
            "https:///x",
            "https://:80/",
            "https://a b/",
            "https://me:pw@host/",
        ] {
            assert!(url(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn names_have_a_charset_and_a_length() {
        assert!(is_agent_name("support-desk-2") && is_agent_name(&"a".repeat(63)));
        for bad in ["", "Support", "a_b", "a.b", "a b", "é", &"a".repeat(64)] {
            assert!(!is_agent_name(bad), "{bad:?}");
        }
        assert!(is_secret_name("APPROVAL_HOOK_KEY") && !is_secret_name("a-b"));
        assert!(is_part_name("github-read") && !is_part_name("a.b"));
    }
}
