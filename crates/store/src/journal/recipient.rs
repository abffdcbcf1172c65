use sayso_driver::Recipient;

/// Whom a delivery goes to, as columns.
pub(super) struct Columns<'a> {
    pub(super) url: Option<&'a str>,
    pub(super) secret: Option<&'a str>,
    pub(super) target: Option<&'a str>,
}

pub(super) fn recipient(to: &Recipient) -> Columns<'_> {
    match to {
        Recipient::Bundle { url, secret } => Columns {
            url: Some(url),
            secret: secret.as_deref(),
            target: None,
        },
        Recipient::Target(target) => Columns {
            url: None,
            secret: None,
            target: Some(target),
        },
    }
}
