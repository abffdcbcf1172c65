//! E-mail: the letter, and the server that takes it (S8.2).
//!
//! The letter is built once and stored like every body: each try sends the same bytes with the same
//! `Message-ID`, so a mailbox that got it twice can tell. What models wrote stands in the text alone,
//! in the subject only as one line without controls.

use std::error::Error;
use std::time::{Duration, UNIX_EPOCH};

use lettre::address::Envelope;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Message as Letter};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Tokio1Executor};
use sayso_run::Timestamp;
use sayso_service::config::{SecretError, SecretSource, Smtp, SmtpSecurity};
use thiserror::Error;

use crate::message::{Message, cut};
use crate::post::Answer;

/// The longest subject, in bytes.
const SUBJECT_BYTES: usize = 150;

/// The way to the mail server.
#[derive(Clone)]
pub(crate) struct Mailer {
    host: String,
    port: u16,
    tls: Tls,
    login: Option<(String, SecretSource)>,
    from: Mailbox,
    timeout: Duration,
}

/// Why a letter cannot be made or sent at all.
#[derive(Debug, Error)]
pub(crate) enum MailError {
    #[error("the letter cannot be written: {0}")]
    Letter(#[from] lettre::error::Error),
    #[error("the password of the mail server cannot be had: {0}")]
    Password(#[from] SecretError),
}

impl Mailer {
    /// By the configuration.
    pub(crate) fn new(
        smtp: &Smtp,
        timeout: Duration,
    ) -> Result<Self, lettre::transport::smtp::Error> {
        let tls = || TlsParameters::new_rustls(smtp.host.clone());
        Ok(Self {
            host: smtp.host.clone(),
            port: smtp.port,
            tls: match smtp.security {
                SmtpSecurity::Tls => Tls::Wrapper(tls()?),
                SmtpSecurity::StartTls => Tls::Required(tls()?),
                SmtpSecurity::None => Tls::None,
            },
            login: smtp.login.clone(),
            from: smtp.from.mailbox().clone(),
            timeout,
        })
    }

    /// The bytes of a letter. `id` is the delivery's, `at` when it was written.
    pub(crate) fn letter(
        &self,
        message: &Message,
        id: &str,
        to: &Mailbox,
        at: Timestamp,
    ) -> Result<Vec<u8>, MailError> {
        let id = id.replace(':', ".");
        let since = u64::try_from(at.micros()).unwrap_or_default();
        let letter = Letter::builder()
            .from(self.from.clone())
            .to(to.clone())
            .subject(subject(&message.headline))
            .message_id(Some(format!("<{id}@{}>", self.from.email.domain())))
            .date(UNIX_EPOCH + Duration::from_micros(since))
            .raw_header(header("Auto-Submitted", "auto-generated"))
            .raw_header(header("X-Sayso-Event", message.event))
            .header(ContentType::TEXT_PLAIN)
            .body(text(message))?;
        Ok(letter.formatted())
    }

    /// Sends a letter once.
    pub(crate) async fn send(&self, to: &Mailbox, letter: &[u8]) -> Result<Answer, MailError> {
        let envelope = Envelope::new(Some(self.from.email.clone()), vec![to.email.clone()])?;
        let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&self.host)
            .port(self.port)
            .tls(self.tls.clone())
            .timeout(Some(self.timeout));
        let builder = match &self.login {
            Some((user, password)) => {
                let password = password.resolve()?.expose().to_owned();
                builder.credentials(Credentials::new(user.clone(), password))
            }
            None => builder,
        };
        let transport: AsyncSmtpTransport<Tokio1Executor> = builder.build();
        let sending = transport.send_raw(&envelope, letter);
        Ok(match tokio::time::timeout(self.timeout, sending).await {
            Ok(Ok(_)) => Answer::Taken,
            Ok(Err(error)) if error.is_permanent() => Answer::Refused {
                why: reason(&error),
            },
            Ok(Err(error)) => Answer::Failed {
                why: reason(&error),
                wait: None,
            },
            Err(_) => Answer::Failed {
                why: "it did not answer in time".to_owned(),
                wait: None,
            },
        })
    }
}

fn header(name: &'static str, value: &str) -> HeaderValue {
    HeaderValue::new(HeaderName::new_from_ascii_str(name), value.to_owned())
}

/// One line: what would end it, or be seen as something else, is a blank.
fn subject(headline: &str) -> String {
    let line: String = headline
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    format!("[sayso] {}", cut(&line, SUBJECT_BYTES))
}

fn text(message: &Message) -> String {
    let mut text = format!("{}\n\n", message.headline);
    for (what, line) in message.short_lines() {
        text.push_str(&format!("{what}: {line}\n"));
    }
    if let Some(arguments) = &message.arguments {
        text.push_str(&format!("\nArguments:\n\n{arguments}\n"));
    }
    if let Some((what, link)) = &message.action {
        text.push_str(&format!("\n{what}: {link}\n"));
    }
    text
}

/// What the server said, or why it could not be asked.
fn reason(error: &lettre::transport::smtp::Error) -> String {
    let mut why = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        why = error.to_string();
        cause = error.source();
    }
    match error.status() {
        Some(code) => format!("it answered {code}: {}", cut(&why, 300)),
        None => why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sayso_service::config::MailAddress;

    fn mailer() -> Mailer {
        let smtp = Smtp {
            host: "mail.example".into(),
            port: 25,
            security: SmtpSecurity::None,
            login: None,
            from: MailAddress::parse("sayso <sayso@example.org>").unwrap(),
        };
        Mailer::new(&smtp, Duration::from_secs(1)).unwrap()
    }

    fn letter(headline: &str) -> String {
        let message = Message {
            event: "approval.pending",
            json: Vec::new(),
            headline: headline.into(),
            lines: vec![("Summary", "Refund A-17.".into())],
            arguments: Some("{\"to\":\"\u{1f600}\"}".into()),
            action: Some((
                "Look and decide",
                "https://sayso.example/approvals/apr_1".into(),
            )),
        };
        let to = "ops@example.org".parse().unwrap();
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let letter = mailer()
            .letter(&message, "apr_1:target:ops", &to, at)
            .unwrap();
        String::from_utf8(letter).unwrap()
    }

    /// S8.2: the same letter each time, with an id that says which delivery it is.
    #[test]
    fn s8_2_a_letter_has_an_id_and_says_what_it_is() {
        let written = letter("desk waits for a decision: shop.refund");
        for line in [
            "Message-ID: <apr_1.target.ops@example.org>\r\n",
            "Subject: [sayso] desk waits for a decision: shop.refund\r\n",
            "To: ops@example.org\r\n",
            "Auto-Submitted: auto-generated\r\n",
            "X-Sayso-Event: approval.pending\r\n",
            "Date: Tue, 14 Nov 2023 22:13:20 +0000\r\n",
        ] {
            assert!(written.contains(line), "{line}: {written}");
        }
        assert_eq!(written, letter("desk waits for a decision: shop.refund"));
    }

    /// S8.2, B46: a name cannot bring a header along.
    #[test]
    fn s8_2_a_subject_is_one_line() {
        let written = letter("x\r\nBcc: eve@example.org\r\n\r\nhello");
        let (headers, _) = written.split_once("\r\n\r\n").unwrap();
        assert!(!headers.contains("\r\nBcc"), "{headers}");
        assert!(headers.contains("Subject: [sayso] x  Bcc: eve@example.org"));
    }
}
