//! The unprivileged account that servers run under when this program runs as root.

use std::fs;

use anyhow::{Context, Result};

/// A user and the user's group, by number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Account {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Account {
    /// Who a server that refuses to run as root shall be: nobody else if we are not root, else
    /// the first of `postgres` and `nobody` that this machine knows.
    pub(crate) fn unprivileged() -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let users = fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
        ["postgres", "nobody"]
            .into_iter()
            .find_map(|name| Self::named(&users, name))
            .map(Some)
            .context("no user `postgres` or `nobody` to run PostgreSQL as, and it refuses root")
    }

    fn named(users: &str, name: &str) -> Option<Self> {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            if fields.next() != Some(name) {
                return None;
            }
            let user = fields.nth(1)?.parse().ok()?;
            let group = fields.next()?.parse().ok()?;
            Some(Self { user, group })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Account;

    #[test]
    fn an_account_is_found_by_its_whole_name() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody2:x:7:8::/:/bin/sh\n\
                     nobody:x:65534:65533:nobody:/:/bin/false\n";
        assert_eq!(
            Account::named(users, "nobody"),
            Some(Account {
                user: 65534,
                group: 65533
            })
        );
        assert_eq!(Account::named(users, "postgres"), None);
    }
}
