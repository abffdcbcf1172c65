//! Scopes: what a token may do (S6.11).

use std::fmt;

/// One scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Start runs; cancel, retry and reply to one's own, and read them.
    Submit,
    /// Read everything of the namespace but tokens and the audit log.
    Read,
    /// Decide approvals that one did not ask for; includes reading.
    Approver,
    /// Deploy agents, cancel and retry anyone's runs; includes reading.
    Operator,
    /// Everything, tokens included.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Scope; 5] = [
        Scope::Submit,
        Scope::Read,
        Scope::Approver,
        Scope::Operator,
        Scope::Admin,
    ];

    /// The word that every surface uses.
    pub const fn as_str(self) -> &'static str {
        match self {
            Scope::Submit => "submit",
            Scope::Read => "read",
            Scope::Approver => "approver",
            Scope::Operator => "operator",
            Scope::Admin => "admin",
        }
    }

    /// Reads the word.
    pub fn parse(word: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == word)
    }

    const fn bit(self) -> u8 {
        match self {
            Scope::Submit => 1,
            Scope::Read => 2,
            Scope::Approver => 4,
            Scope::Operator => 8,
            Scope::Admin => 16,
        }
    }
}

/// A set of scopes. Shown as words with a comma between.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Scopes(u8);

impl Scopes {
    /// None.
    pub const NONE: Scopes = Scopes(0);

    /// These.
    pub const fn of(scopes: &[Scope]) -> Scopes {
        let mut bits = 0;
        let mut at = 0;
        while at < scopes.len() {
            bits |= scopes[at].bit();
            at += 1;
        }
        Scopes(bits)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether this one is among them, as such: `admin` does not stand for others here.
    pub const fn contains(self, scope: Scope) -> bool {
        self.0 & scope.bit() != 0
    }

    /// Whether it holds one of the others, or `admin`, which includes all.
    pub const fn permit(self, any_of: Scopes) -> bool {
        self.0 & (any_of.0 | Scope::Admin.bit()) != 0
    }

    /// The scopes in their order.
    pub fn iter(self) -> impl Iterator<Item = Scope> {
        Scope::ALL
            .into_iter()
            .filter(move |scope| self.contains(*scope))
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<T: IntoIterator<Item = Scope>>(scopes: T) -> Self {
        Scopes(scopes.into_iter().fold(0, |bits, scope| bits | scope.bit()))
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, scope) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{}", scope.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S6.11: scopes combine, and `admin` includes all.
    #[test]
    fn s6_11_scopes_combine_and_admin_includes_all() {
        let both = Scopes::of(&[Scope::Submit, Scope::Approver]);
        assert!(both.permit(Scopes::of(&[Scope::Approver])));
        assert!(!both.permit(Scopes::of(&[Scope::Read, Scope::Operator])));
        for scope in Scope::ALL {
            assert!(Scopes::of(&[Scope::Admin]).permit(Scopes::of(&[scope])));
            assert!(!Scopes::NONE.permit(Scopes::of(&[scope])));
        }
        assert!(Scopes::of(&[Scope::Admin]).permit(Scopes::NONE));
    }

    #[test]
    fn scopes_have_words() {
        let scopes = Scopes::of(&[Scope::Operator, Scope::Submit]);
        assert_eq!(scopes.to_string(), "submit,operator");
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.as_str()), Some(scope));
        }
        assert_eq!(Scope::parse("later"), None);
    }
}
