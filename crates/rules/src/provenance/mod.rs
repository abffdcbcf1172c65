//! Where the values of a run come from (S5.9).
//!
//! An agent that reads what outsiders wrote can be talked into anything, so a rule does not ask
//! what the agent wants but where the values of a call come from. The index of a run holds what
//! can vouch for a value and answers, for one value and one source, yes or no. Everything here is
//! exact where the specification is, and takes the safer reading where it is silent:
//!
//! **Texts** ([`text`]). A value comes from a text if it stands there *by whole tokens*: case and
//! blanks aside, character for character, and nothing that could belong to it stands beside it.
//! `sarah` does not stand in `sarah.connor@example.org`, nor `example.org` in `a@example.org` or
//! in `example.org/x`. A character that is not known to separate words belongs to one: so a word
//! with an invisible character in it, or a letter of another alphabet that looks the same, is
//! another word. A value without a letter and with fewer than five digits never counts, nor does a
//! single character.
//!
//! **Task.** The principal's own words, given by [`Index::words`]. Whoever builds an index gives
//! it the root principal's words and never a webhook's body, inbound mail or a parent agent's
//! text: what such a text and the principal's words share is then vouched for by the words.
//!
//! **Ids** ([`kinds`]). A field of a result is an id if the tool says so (`returns`) or if its
//! name does (`id`, `order_id`). It vouches only for an argument of the same kind, by equality,
//! case included, at any length. The kind of `order_id` is `order`; that of a bare `id` is what
//! its tool is about (`get_order`, `search_calendar_events`: an event). What `returns` and `kind`
//! say comes first. Where no kind can be told, an id vouches for nothing.
//!
//! **Own.** The ids in the result of a call that writes, if they are new: an id that stood in the
//! call's arguments, or that an earlier result held, was not created by this call. Otherwise a
//! change that somebody approved once would vouch for a later delete of the same thing.
//!
//! **Trusted.** Every text of a result counts by whole tokens, and its ids as ids, if the tool is
//! not marked untrusted and the run was still trusted: a run that begins untrusted has no such
//! results, since its task may have steered them.
//!
//! **Lookup** ([`records`]). A read (not an outward one: who answers it is a choice of the caller)
//! all of whose arguments come from the task, and that has at least one. Its one record's ids, by
//! kind, and its addresses: values that are a URL, a mail address or an account number and nothing
//! else. Free text is passed over, and so are fields that hold what people write (`body`,
//! `description`, …) even where it is nothing but an address. For a destructive tool it never
//! counts, for links in its texts neither.
//!
//! **Amounts** match numbers in the task by their value, and numbers that are a whole field of a
//! trusted result; only arguments with the role `amount` are read so. `1,000` is a thousand,
//! `1.000` is one: a point is always decimal.
//!
//! **max** counts every call of the run that was started, however it was let through: the numbers
//! of all arguments with the role `amount`, or those at the same place of the same tool where the
//! argument has no role. Less would have to guess which of them a person had meant.
//!
//! **Nothing.** `null` and empty lists count as absent. An empty text does not: it is a choice
//! like any other, and nothing vouches for it. Keys within an argument that do not look like names
//! of fields are values too.

mod accounts;
pub(crate) mod asked;
pub(crate) mod index;
pub(crate) mod kinds;
pub(crate) mod links;
pub(crate) mod numbers;
mod origin;
pub(crate) mod records;
mod results;
pub(crate) mod text;

pub use index::Index;
pub use origin::Origin;
