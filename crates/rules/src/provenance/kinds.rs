//! What kind of thing an id names (S5.9).

use std::collections::BTreeMap;

use crate::bundle::{Pointer, Step};

/// Words after which a tool's name no longer says what it is about.
const PREPOSITIONS: [&str; 14] = [
    "by", "for", "from", "in", "into", "of", "on", "to", "with", "at", "as", "and", "or", "via",
];

/// Words that say what a tool does; where one stands last, the word before it is what it is about.
const VERBS: [&str; 32] = [
    "add", "append", "archive", "assign", "cancel", "close", "create", "delete", "edit", "fetch",
    "find", "get", "insert", "list", "make", "merge", "modify", "new", "open", "post", "put",
    "read", "remove", "rename", "reserve", "search", "send", "set", "show", "update", "view",
    "write",
];

/// What everybody calls fields. A key of another name, within an argument, could be a value.
const COMMON: [&str; 116] = [
    "account",
    "action",
    "address",
    "amount",
    "attachment",
    "bcc",
    "body",
    "category",
    "cc",
    "city",
    "code",
    "color",
    "colour",
    "comment",
    "content",
    "count",
    "country",
    "currency",
    "data",
    "date",
    "day",
    "default",
    "description",
    "display",
    "domain",
    "duration",
    "email",
    "enabled",
    "end",
    "event",
    "field",
    "file",
    "filename",
    "filter",
    "first",
    "format",
    "from",
    "full",
    "group",
    "height",
    "host",
    "house",
    "iban",
    "id",
    "index",
    "item",
    "key",
    "kind",
    "label",
    "language",
    "last",
    "lat",
    "limit",
    "line",
    "link",
    "list",
    "lng",
    "location",
    "mail",
    "max",
    "message",
    "method",
    "mime",
    "min",
    "mode",
    "month",
    "name",
    "note",
    "number",
    "object",
    "of",
    "on",
    "option",
    "order",
    "owner",
    "page",
    "path",
    "phone",
    "post",
    "postal",
    "price",
    "priority",
    "product",
    "quantity",
    "query",
    "recipient",
    "ref",
    "reference",
    "role",
    "sender",
    "size",
    "sku",
    "sort",
    "start",
    "state",
    "status",
    "street",
    "subject",
    "sum",
    "tag",
    "target",
    "text",
    "time",
    "timezone",
    "title",
    "to",
    "total",
    "type",
    "unit",
    "url",
    "user",
    "value",
    "width",
    "year",
    "zip",
    "zone",
];

/// Whether a key is one of the usual names of fields: `email`, `first_name`, `orderIds`.
pub(crate) fn is_common_field(key: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '$');
    let words = words(key);
    key.chars().all(plain)
        && !words.is_empty()
        && words.iter().all(|word| {
            COMMON.binary_search(&word.as_str()).is_ok()
                || COMMON.binary_search(&singular(word).as_str()).is_ok()
        })
}

/// The words of a name, in small letters: `getOrderItems`, `order-items`, `ORDER_ID`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut previous = None;
    for c in name.chars() {
        if !c.is_alphanumeric() {
            previous = None;
            continue;
        }
        let begins = match previous {
            None => true,
            Some(before) => char::is_lowercase(before) && c.is_uppercase(),
        };
        if begins {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.extend(c.to_lowercase());
        }
        previous = Some(c);
    }
    words
}

fn singular(word: &str) -> String {
    let cut = |end: &str, put: &str| word.strip_suffix(end).map(|stem| format!("{stem}{put}"));
    if word.len() < 4 || word.ends_with("ss") || word.ends_with("us") || word.ends_with("is") {
        return word.to_owned();
    }
    cut("ies", "y")
        .or_else(|| cut("sses", "ss"))
        .or_else(|| cut("ches", "ch"))
        .or_else(|| cut("shes", "sh"))
        .or_else(|| cut("xes", "x"))
        .or_else(|| cut("s", ""))
        .unwrap_or_else(|| word.to_owned())
}

fn is_id_word(word: &str) -> bool {
    matches!(word, "id" | "ids" | "uuid" | "guid")
}

/// What a tool is about: `file` for `drive.get_file_by_id`, `event` for `search_calendar_events`.
/// Empty if its name does not tell: `drive.list`.
pub(crate) fn subject(tool: &str) -> String {
    // Of `crm.contacts.list` what stands before the verb; the first part is the server.
    tool.split('.')
        .skip(usize::from(tool.contains('.')))
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .map(subject_of)
        .find(|subject| !subject.is_empty())
        .unwrap_or_default()
}

fn subject_of(local: &str) -> String {
    let all = words(local);
    let end = all
        .iter()
        .position(|word| PREPOSITIONS.contains(&word.as_str()))
        .unwrap_or(all.len());
    // `append_to_file` has nothing before its preposition but what it does.
    let about = if end < 2 { &all[..] } else { &all[..end] };
    let about: Vec<&String> = about.iter().filter(|word| !is_id_word(word)).collect();
    about
        .iter()
        .rfind(|word| !VERBS.contains(&word.as_str()))
        .map(|word| singular(word))
        .unwrap_or_default()
}

/// The kind that the name of a field or an argument tells: `order` for `order_id`, `orderIds`;
/// that of a bare `id` is not in its name.
pub(crate) fn named(name: &str) -> Named {
    let words = words(name);
    match &*words {
        [.., noun, id] if is_id_word(id) => Named::Id(singular(noun)),
        [id] if is_id_word(id) => Named::BareId,
        [.., noun] => Named::Other(singular(noun)),
        [] => Named::Other(String::new()),
    }
}

/// What a name tells of the value under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// An id of this kind.
    Id(String),
    /// An id of what it stands in.
    BareId,
    /// Not an id by its name; if it is one all the same, of this kind.
    Other(String),
}

/// The kind of id that a field of a result holds, empty if it cannot be told; `None` if it is no id.
///
/// A field stands in a record of the result if nothing but lists stand around it, or if it stands
/// in a list that the result wraps (`wrapped`: the result's own record has no such field).
pub(crate) fn of_field(
    returns: &BTreeMap<Pointer, String>,
    subject: &str,
    path: &[Step<'_>],
    wrapped: bool,
) -> Option<String> {
    let keys: Vec<&str> = path.iter().filter_map(key).collect();
    let field = keys.last()?;
    let of_record = of_record(path, wrapped);
    if let Some(kind) = said(returns, path, of_record) {
        return Some(kind.to_owned());
    }
    match named(field) {
        Named::Id(kind) => Some(kind),
        Named::BareId if of_record => Some(subject.to_owned()),
        Named::BareId => {
            let around = keys.len().checked_sub(2).map(|around| named(keys[around]));
            Some(match around {
                Some(Named::Id(kind) | Named::Other(kind)) => kind,
                Some(Named::BareId) | None => String::new(),
            })
        }
        Named::Other(_) => None,
    }
}

fn of_record(path: &[Step<'_>], wrapped: bool) -> bool {
    let keys = path.iter().filter_map(key).count();
    let listed = matches!(path, [.., Step::Index(_), Step::Key(_)]);
    keys == 1 || (wrapped && keys == 2 && listed)
}

/// What the bundle says of a field.
fn said<'r>(
    returns: &'r BTreeMap<Pointer, String>,
    path: &[Step<'_>],
    of_record: bool,
) -> Option<&'r str> {
    let field = path.iter().rev().find_map(key)?;
    returns
        .iter()
        .find(|(place, _)| match place.name() {
            Some(name) => of_record && name == field,
            None => place.covers(path) && place.last() == field,
        })
        .map(|(_, kind)| kind.as_str())
}

/// Whether the bundle says what a field of the result's own record holds.
pub(crate) fn is_said(returns: &BTreeMap<Pointer, String>, path: &[Step<'_>]) -> bool {
    said(returns, path, of_record(path, false)).is_some()
}

fn key<'p>(step: &Step<'p>) -> Option<&'p str> {
    match step {
        Step::Key(key) => Some(key),
        Step::Index(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s5_9_a_tool_is_about_something() {
        for (tool, about) in [
            ("workspace.search_files_by_filename", "file"),
            ("workspace.search_calendar_events", "event"),
            ("workspace.get_day_calendar_events", "event"),
            ("workspace.append_to_file", "file"),
            ("shop.get_order", "order"),
            ("shop.getOrderById", "order"),
            ("list_companies", "company"),
            ("crm.contacts.list", "contact"),
            ("drive.list", ""),
            ("crm.contacts_update", "contact"),
            ("issues_create", "issue"),
            ("get_address", "address"),
            ("x", "x"),
            ("", ""),
        ] {
            assert_eq!(subject(tool), about, "{tool}");
        }
    }

    #[test]
    fn s5_9_a_name_tells_a_kind() {
        assert_eq!(named("file_id"), Named::Id("file".into()));
        assert_eq!(named("orderIds"), Named::Id("order".into()));
        assert_eq!(named("parent_folder_id"), Named::Id("folder".into()));
        for bare in ["id", "id_", "_id", "ID", "ids"] {
            assert_eq!(named(bare), Named::BareId, "{bare}");
        }
        assert_eq!(named("channel"), Named::Other("channel".into()));
        assert_eq!(named("paid"), Named::Other("paid".into()));
    }

    #[test]
    fn s5_9_a_field_holds_an_id_of_a_kind() {
        let returns = BTreeMap::from([
            (Pointer::new("number").unwrap(), "invoice".to_owned()),
            (Pointer::new("/owner/ref").unwrap(), "person".to_owned()),
        ]);
        let kind = |path: &[Step<'_>], wrapped| of_field(&returns, "order", path, wrapped);
        use Step::{Index, Key};
        let some = |kind: &str| Some(kind.to_owned());
        assert_eq!(kind(&[Key("id")], false), some("order"));
        assert_eq!(kind(&[Index(3), Key("id")], true), some("order"));
        assert_eq!(
            kind(&[Key("results"), Index(0), Key("id")], true),
            some("order")
        );
        assert_eq!(
            kind(&[Key("items"), Index(0), Key("id")], false),
            some("item")
        );
        assert_eq!(kind(&[Key("owner"), Key("id")], true), some("owner"));
        assert_eq!(kind(&[Key("customer_id")], false), some("customer"));
        assert_eq!(kind(&[Key("number")], false), some("invoice"));
        assert_eq!(kind(&[Key("a"), Key("number")], false), None);
        assert_eq!(kind(&[Key("owner"), Key("ref")], false), some("person"));
        assert_eq!(kind(&[Key("title")], false), None);
        assert_eq!(kind(&[Index(0)], false), None);
    }
}
