//! What is wrong with a bundle, said so that it can be mended in one go.

use std::fmt;

/// The most mistakes that one answer lists; the rest are counted.
pub const MAX_REPORTED: usize = 100;

/// One mistake in a bundle.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message} ({code})", Place(path))]
pub struct BundleError {
    /// A stable word for the kind of mistake:
    ///
    /// - `bundle.syntax`: not YAML or JSON
    /// - `bundle.too_large`: over 1 MiB, or far larger once aliases are expanded
    /// - `bundle.missing_field`, `bundle.unknown_field`, `bundle.duplicate_key`
    /// - `bundle.wrong_type`: a number where a text belongs, and the like
    /// - `bundle.unknown_value`: a word that the field does not know
    /// - `bundle.bad_name`, `bundle.bad_glob`, `bundle.bad_duration`,
    ///   `bundle.bad_size`, `bundle.bad_url`, `bundle.bad_header`,
    ///   `bundle.bad_text`, `bundle.bad_pointer`, `bundle.bad_number`,
    ///   `bundle.bad_cron`, `bundle.bad_timezone`, `bundle.bad_secret`: a text or a number that does not
    ///   have the form it needs
    /// - `bundle.unsupported`: decided, but not done by this version
    /// - `bundle.floor_cleared`: a review that nothing may clear
    pub code: &'static str,
    /// The key, such as `permissions.rules[2].tool` or
    /// `tools["shop.refund_order"].timeout`; empty for the bundle as a whole.
    pub path: String,
    /// What is wrong and what would be right, in one sentence.
    pub message: String,
}

/// Every mistake found in a bundle; never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BundleErrors {
    errors: Vec<BundleError>,
    omitted: usize,
}

impl BundleErrors {
    /// The mistakes in the order of the fields, at most [`MAX_REPORTED`].
    #[must_use]
    pub fn errors(&self) -> &[BundleError] {
        &self.errors
    }

    /// How many more there are than are listed.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.omitted
    }
}

impl fmt::Display for BundleErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errors.len() + self.omitted {
            1 => f.write_str("the bundle has a mistake:")?,
            count => write!(f, "the bundle has {count} mistakes:")?,
        }
        for error in &self.errors {
            write!(f, "\n  {error}")?;
        }
        if self.omitted > 0 {
            write!(f, "\n  … and {} more", self.omitted)?;
        }
        Ok(())
    }
}

impl std::error::Error for BundleErrors {}

struct Place<'a>(&'a str);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, "{}: ", self.0)
        }
    }
}

/// Collects mistakes while a bundle is read.
#[derive(Debug, Default)]
pub(super) struct Report {
    errors: Vec<BundleError>,
    omitted: usize,
}

impl Report {
    pub(super) fn add(&mut self, code: &'static str, path: &str, message: impl Into<String>) {
        if self.errors.len() < MAX_REPORTED {
            self.errors.push(BundleError {
                code,
                path: path.to_owned(),
                message: message.into(),
            });
        } else {
            self.omitted += 1;
        }
    }

    /// `value` if nothing was reported; everything that was otherwise.
    pub(super) fn settle<T>(self, value: T) -> Result<T, BundleErrors> {
        if self.errors.is_empty() {
            return Ok(value);
        }
        Err(BundleErrors {
            errors: self.errors,
            omitted: self.omitted,
        })
    }
}

impl From<BundleError> for BundleErrors {
    fn from(error: BundleError) -> Self {
        Self {
            errors: vec![error],
            omitted: 0,
        }
    }
}
