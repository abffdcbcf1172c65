//! Where the values of a run come from (S5.9).
//!
//! An agent that reads what outsiders wrote can be talked into anything, so a rule does not ask
//! what the agent wants but where the values of a call come from. The index of a run holds what
//! can vouch for a value and answers, for one value and one source, yes or no. Everything here is
//! exact where the specification is, and takes the safer reading where it is silent:
//!
//! **Texts** (`text`). A value comes from a text if it stands there *by whole tokens*: case and
//! blanks aside, character for character, and nothing that could belong to it stands beside it.
//! `sarah` does not stand in `sarah.connor@example.org`, nor `example.org` in `a@example.org` or
//! in `example.org/x`, nor `brien` in `O'Brien`; `Bob` stands in `Bob's`. A character that is not
//! known to separate words belongs to one: so a word with an invisible character in it, or a letter
//! of another alphabet that looks the same, is another word. A value without a letter and with fewer
//! than five digits never counts, nor does a single character. Two values that each stand somewhere
//! do not vouch for one that is made of both.
//!
//! **Links** (`links`, `accounts`) are also looked for as a page would show the text: with
//! `%2E`, `&#46;` and `\.` resolved, `https:x` taken for an address, and a URL going on behind a
//! comma. An account number is the same whatever stands between its groups.
//!
//! **Task.** The principal's own words, given by [`Index::words`]. Whoever builds an index gives
//! it the root principal's words and never a webhook's body, inbound mail or a parent agent's
//! text: what such a text and the principal's words share is then vouched for by the words.
//!
//! **Ids** (`kinds`). A field of a result is an id if the tool says so (`returns`) or if its
//! name does (`id`, `order_id`). It vouches only for an argument of the same kind, by equality,
//! case included, at any length. The kind of `order_id` is `order`; that of a bare `id` is what
//! its tool is about (`get_order`, `search_calendar_events`: an event). What `returns` and `kind`
//! say comes first. Where no kind can be told, an id vouches for nothing.
//!
//! An argument of a known kind that has no letters is an id, whatever else in a result reads the
//! same: a size of 54321 does not vouch for file 54321. One of an unknown kind may be an id of any
//! kind if it is long enough; but not what is acted on (`object`), which matches by kind alone.
//! Bundles name kinds with `kind` and `returns` where names do not tell. The fields of an envelope
//! (`{"data": {…}}`) are those of the result.
//!
//! **Own.** The id of the one record that a writing call made, where it is new: no call was given it
//! before, alone or within a text, and no earlier result held it. Otherwise a change that somebody
//! approved once would vouch for a later delete of the same thing. A record's bare `id` is its own,
//! and other ids beside it are those of what it refers to, unless they are of the kind that the tool
//! is about or `returns` names them. Of a tool that nobody said writes, and whose output is an
//! outsider's, `returns` alone counts: it may as well have read a page.
//!
//! **Trusted.** Every text of a result counts by whole tokens, and its ids as ids, if the tool is
//! not marked untrusted and the run was still trusted: a run that begins untrusted has no such
//! results, since its task may have steered them.
//!
//! **Lookup** (`records`). A read (not an outward one: who answers it is a choice of the caller)
//! all of whose arguments come from the task, and that has at least one. Its one record's ids, by
//! kind, and its addresses: values that are a URL, a mail address or an account number and nothing
//! else. Records that are listed within it, such as comments, were written by others and are no part
//! of it. Free text is passed over, and so are fields that hold what people write (`body`,
//! `description`, …) even where it is nothing but an address. For a destructive tool it never
//! counts, for links in its texts neither.
//!
//! **Amounts** (`numbers`) match numbers in the task by their value, and numbers that are a whole
//! field of a trusted result, and nothing else: no word, and no id. Only arguments with the role
//! `amount` are read so. One that names its currency matches a number with that currency alone: a
//! hundred euros are no hundred bitcoin. `1,000`, `1'000` and `1 000` are a thousand, `1.000` is one:
//! a point alone is always decimal. Words for numbers, percents and `50k` are none.
//!
//! **max** counts every call of the run that was started, however it was let through: the numbers
//! of all arguments with the role `amount`, or those at the same place of the same tool where the
//! argument has no role. Less would have to guess which of them a person had meant. After an amount
//! that is no number, or too large to add up, the total is not known and `max` lifts nothing. A sum
//! with its currency written beside it is not lifted either: `max` says nothing of currencies.
//!
//! **Nothing.** `null` and empty lists count as absent. An empty text does not: it is a choice
//! like any other, and nothing vouches for it. Keys within an argument are values too, unless they
//! are among the usual names of fields or the bundle names a place through them: `{"mallory": "read"}`
//! names somebody.

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
