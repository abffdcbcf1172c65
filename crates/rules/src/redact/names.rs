//! Names that say that their value is secret.

/// Names as words. One of these ends the name, or, for those of one word that are in
/// [`ANYWHERE`], stands anywhere in it.
pub(super) const NAMES: &[&str] = &[
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "authorization",
    "cookie",
    "set cookie",
    "token",
    "jwt",
    "otp",
    "cvv",
    "cvc",
    "api key",
    "apikey",
    "access key",
    "accesskey",
    "secret key",
    "private key",
    "privatekey",
    "signing key",
    "encryption key",
    "session id",
    "sessionid",
    "connection string",
];

/// Words after which it does not matter what the name goes on with: `password_confirmation`.
const ANYWHERE: [&str; 7] = [
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "secret",
    "secrets",
    "credentials",
];

/// Tokens that open nothing: where to go on in a list.
const CURSORS: [&str; 8] = [
    "page",
    "next",
    "prev",
    "previous",
    "continuation",
    "sync",
    "cursor",
    "change",
];

/// Whether a name is one of [`NAMES`].
pub(super) fn is_secret(name: &str) -> bool {
    let words = words(name);
    let Some(last) = words.last() else {
        return false;
    };
    let before = words.len().checked_sub(2).map(|at| words[at].as_str());
    if last == "token" && before.is_some_and(|word| CURSORS.contains(&word)) {
        return false;
    }
    words.iter().any(|word| ANYWHERE.contains(&word.as_str()))
        || NAMES.iter().any(|name| {
            let name: Vec<&str> = name.split(' ').collect();
            words.len() >= name.len()
                && words[words.len() - name.len()..]
                    .iter()
                    .map(String::as_str)
                    .eq(name)
        })
}

/// A name's letters and digits in lower case.
pub(super) fn plain(name: &str) -> String {
    let kept = name.chars().filter(|c| c.is_alphanumeric());
    kept.flat_map(char::to_lowercase).collect()
}

/// The words of a name in lower case: parted by anything but letters and digits, and where a small
/// letter is followed by a capital one or a run of capitals ends.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let chars: Vec<char> = name.chars().collect();
    for (at, &char) in chars.iter().enumerate() {
        if !char.is_alphanumeric() {
            words.push(String::new());
            continue;
        }
        let before = at.checked_sub(1).map(|at| chars[at]);
        let after = chars.get(at + 1);
        let begins = char.is_uppercase()
            && (before.is_some_and(|c| c.is_lowercase() || c.is_numeric())
                || before.is_some_and(char::is_uppercase)
                    && after.is_some_and(|c| c.is_lowercase()));
        if begins {
            words.push(String::new());
        }
        let word = words.last_mut().expect("there is a word from the start");
        word.extend(char.to_lowercase());
    }
    words.retain(|word| !word.is_empty());
    words
}
