//! Mail: addresses, and the server that e-mail goes out through.

use lettre::message::Mailbox;

use super::secret::{Secret, SecretSource};
use super::section::{Given, Section, Setting};
use super::shape::{Smtp, SmtpSecurity};

/// The mailbox of one person or program: `ops@example.org`, or with a name before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailAddress(Mailbox);

impl MailAddress {
    /// An address, of characters that can stand in a header.
    ///
    /// # Errors
    ///
    /// A sentence that says what an address looks like.
    pub fn parse(text: &str) -> Result<MailAddress, String> {
        const WANTED: &str = "must be a mail address such as ops@example.org";
        let mailbox: Option<Mailbox> = text.trim().parse().ok();
        let plain = !text.trim().contains(char::is_control);
        mailbox
            .filter(|_| plain)
            .map(MailAddress)
            .ok_or_else(|| WANTED.to_owned())
    }

    /// The address with its name.
    pub fn mailbox(&self) -> &Mailbox {
        &self.0
    }
}

impl Setting for MailAddress {
    fn parse(given: &Given<'_>) -> Result<MailAddress, String> {
        MailAddress::parse(given.text("a mail address")?)
    }

    fn placeholder() -> MailAddress {
        MailAddress::parse("nobody@localhost").expect("it is an address")
    }
}

impl Setting for SmtpSecurity {
    fn parse(given: &Given<'_>) -> Result<SmtpSecurity, String> {
        const WANTED: &str = "tls, starttls or none";
        match given.text(WANTED)? {
            "tls" => Ok(SmtpSecurity::Tls),
            "starttls" => Ok(SmtpSecurity::StartTls),
            "none" => Ok(SmtpSecurity::None),
            other => Err(format!("must be {WANTED}, found {other:?}")),
        }
    }

    fn placeholder() -> SmtpSecurity {
        SmtpSecurity::StartTls
    }
}

fn port(section: &mut Section<'_>) -> Option<u16> {
    let given: u32 = section.optional("port")?;
    let port = u16::try_from(given).ok();
    if port.is_none() {
        section.note("port", format!("must be at most 65535, found {given}"));
    }
    port
}

/// The mail server; none if no host is named.
pub(super) fn smtp(section: &mut Section<'_>) -> Option<Smtp> {
    let host: Option<String> = section.optional("host");
    let port = port(section);
    let security: SmtpSecurity = section.required("security");
    let user: Option<String> = section.optional("user");
    let password: Option<Secret> = section.optional("password");
    let variable: Option<String> = section.optional("password_env");
    let from: Option<MailAddress> = section.optional("from");
    if password.is_some() && variable.is_some() {
        section.note(
            "password_env",
            "is set beside password: keep one of the two",
        );
    }
    let password = match (password, variable) {
        (Some(password), _) => Some(SecretSource::Value(password)),
        (None, variable) => variable.map(SecretSource::Variable),
    };
    if user.is_some() != password.is_some() {
        let (missing, given) = match user {
            Some(_) => ("password", "user"),
            None => ("user", "password"),
        };
        section.note(missing, format!("must be set beside {given}"));
    }
    let Some(host) = host else {
        let unused = [("from", from.is_some()), ("user", user.is_some())];
        for (key, _) in unused.iter().filter(|(_, given)| *given) {
            section.note(key, "has no meaning without host");
        }
        return None;
    };
    let Some(from) = from else {
        section.note("from", "must be set beside host: the sender of e-mail");
        return None;
    };
    Some(Smtp {
        host,
        port: port.unwrap_or(security.port()),
        security,
        login: user.zip(password),
        from,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S8.2: an address is one address, and cannot bring headers along.
    #[test]
    fn s8_2_addresses_are_checked() {
        for good in [
            "ops@example.org",
            " a.b+c@x.example ",
            "Ops <ops@example.org>",
        ] {
            assert!(MailAddress::parse(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "ops",
            "a@b, c@d",
            "a@b\r\nBcc: c@d",
            "Ops\r\nBcc: x <a@b.example>",
            "<a@b",
            "a b@c",
        ] {
            assert!(MailAddress::parse(bad).is_err(), "{bad}");
        }
    }
}
