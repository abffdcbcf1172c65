//! Pages of lists. A page token says where the next page begins and for which request it was given
//! out: with other filters, or on another method, it is refused (`page.malformed`).
//!
//! Pages are kept to what one message can carry: rows hold people's texts, and fifty of them may be
//! more than a client takes in one message. And where the store cannot apply a filter, rows are
//! left out here; reading goes on until there is something to show or nothing left, so there is
//! never an empty page with another one behind it (B53).

use std::future::Future;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use prost::{Message, Name};
use sayso_run::Digest;
use sayso_service::error::{Coded, Kind};
use sayso_store::{ListError, Page, PageRequest};
use sayso_wire::code;

use crate::refuse;

/// The size of a page of most lists, and the largest.
pub(crate) const ENTRIES: Sizes = Sizes {
    default: 50,
    max: 500,
};

/// The size of a page of steps or actions, and the largest.
pub(crate) const STEPS: Sizes = Sizes {
    default: 100,
    max: 1000,
};

/// How many bytes of text the rows of one page may hold, unless a single row holds more: clients
/// take 4 MiB in one message unless they are told otherwise.
const PAGE_BYTES: usize = 2 * 1024 * 1024;

/// How many bytes of a page token are looked at.
const LONGEST: usize = 2048;

/// How large pages are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    default: u32,
    max: u32,
}

impl Sizes {
    /// The size that is used where this one is asked for; 0 asks for the default.
    pub(crate) const fn of(self, asked: u32) -> u32 {
        match asked {
            0 => self.default,
            asked if asked > self.max => self.max,
            asked => asked,
        }
    }
}

/// Reads and writes the page tokens of one list with its filters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pages {
    filters: [u8; 8],
}

impl Pages {
    /// The pages of the list that this request asks for, its page size and token left empty.
    pub(crate) fn of<M: Message + Name>(request: &M) -> Pages {
        let digest = Digest::of_parts(&[M::full_name().as_bytes(), &request.encode_to_vec()]);
        let mut filters = [0; 8];
        filters.copy_from_slice(&digest.as_bytes()[..8]);
        Pages { filters }
    }

    /// Where the page begins; `None` from the start.
    ///
    /// # Errors
    ///
    /// `page.malformed` if the token was not given out for this list and these filters.
    pub(crate) fn read(&self, token: &str) -> Result<Option<String>, Coded> {
        if token.is_empty() {
            return Ok(None);
        }
        self.parse(token).map(Some).ok_or_else(malformed)
    }

    /// The number after which the page begins, in lists of numbered things; 0 from the start.
    ///
    /// # Errors
    ///
    /// As of [`Pages::read`].
    pub(crate) fn read_number(&self, token: &str) -> Result<Option<u64>, Coded> {
        let number = |edge: String| edge.parse().map_err(|_| malformed());
        self.read(token)?.map(number).transpose()
    }

    /// The token of a page that begins here.
    pub(crate) fn write(&self, edge: &str) -> String {
        let mut bytes = self.filters.to_vec();
        bytes.extend_from_slice(edge.as_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The token of the next page, if there is one; empty on the last.
    pub(crate) fn next(&self, edge: Option<impl ToString>) -> String {
        edge.map(|edge| self.write(&edge.to_string()))
            .unwrap_or_default()
    }

    fn parse(&self, token: &str) -> Option<String> {
        if token.len() > LONGEST {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let edge = bytes.strip_prefix(&self.filters)?;
        let edge = String::from_utf8(edge.to_vec()).ok()?;
        (!edge.is_empty() && !edge.contains('\0')).then_some(edge)
    }
}

/// The token is not one of ours for this list.
pub(crate) fn malformed() -> Coded {
    Coded::new(
        Kind::Invalid,
        code::PAGE_MALFORMED,
        "The page token was not given out for this list with these filters; begin without one.",
    )
    .field(
        "page_token",
        "must be the next_page_token of the page before, with the same filters",
    )
}

/// A list of the store could not be read.
pub(crate) fn failed(doing: &str, error: ListError) -> Coded {
    match error {
        ListError::MalformedPage => malformed(),
        ListError::Database(error) => refuse::database(doing, error),
    }
}

/// Reads a page of a store's list that is light enough to be sent: the rows that `keeps` lets
/// through, and the store's token of the next page. `weighs` tells the bytes of a row's texts.
pub(crate) async fn read<T, F>(
    size: u32,
    mut token: Option<String>,
    fetch: impl Fn(PageRequest) -> F,
    keeps: impl Fn(&T) -> bool,
    weighs: impl Fn(&T) -> usize,
) -> Result<(Vec<T>, Option<String>), ListError>
where
    F: Future<Output = Result<Page<T>, ListError>>,
{
    loop {
        let mut request = PageRequest { size, token };
        let mut page = fetch(request.clone()).await?;
        let light = fitting(&page.items, &weighs);
        if light < page.items.len() {
            request.size = u32::try_from(light).unwrap_or(size);
            page = fetch(request).await?;
        }
        page.items.retain(&keeps);
        if !page.items.is_empty() || page.next.is_none() {
            return Ok((page.items, page.next));
        }
        token = page.next;
    }
}

/// How many of these rows one message can carry: at least one.
pub(crate) fn fitting<T>(rows: &[T], weighs: impl Fn(&T) -> usize) -> usize {
    let mut bytes = 0;
    let fits = |row: &&T| {
        bytes += weighs(row);
        bytes <= PAGE_BYTES
    };
    rows.iter().take_while(fits).count().max(1)
}

#[cfg(test)]
mod tests {
    use sayso_wire::v1::{ListAgentsRequest, ListRunsRequest};

    use super::*;

    fn runs_of(agent: &str) -> Pages {
        Pages::of(&ListRunsRequest {
            agent: agent.to_owned(),
            ..ListRunsRequest::default()
        })
    }

    #[test]
    fn a_page_token_is_good_for_its_list_and_filters_alone() {
        let token = runs_of("a").write("72756e");
        assert_eq!(runs_of("a").read(&token), Ok(Some("72756e".into())));
        assert_eq!(runs_of("a").read(""), Ok(None));
        let agents = Pages::of(&ListAgentsRequest::default());
        for (pages, token) in [
            (runs_of("b"), token.as_str()),
            (agents, &token),
            (runs_of(""), &token),
            (runs_of("a"), "%%%"),
            (runs_of("a"), &token[..9]),
            (runs_of("a"), &"A".repeat(4096)),
        ] {
            let refused = pages.read(token).unwrap_err();
            assert_eq!(refused.code, "page.malformed", "{token}");
            assert_eq!(refused.fields[0].0, "page_token");
        }
        assert_eq!(
            runs_of("a").read_number(&runs_of("a").write("17")),
            Ok(Some(17))
        );
        assert!(runs_of("a").read_number(&runs_of("a").write("x")).is_err());
    }

    #[test]
    fn sizes_have_a_default_and_a_limit() {
        assert_eq!(ENTRIES.of(0), 50);
        assert_eq!(ENTRIES.of(7), 7);
        assert_eq!(ENTRIES.of(501), 500);
        assert_eq!(STEPS.of(u32::MAX), 1000);
    }

    /// A store's list of the numbers from `from` down to 1.
    fn numbers(from: u32, request: &PageRequest) -> Page<u32> {
        let start = request
            .token
            .as_ref()
            .map_or(from, |token| token.parse().unwrap());
        let items: Vec<u32> = (1..=start).rev().take(request.size as usize).collect();
        let rest = items.last().map_or(0, |last| last - 1);
        Page {
            next: (rest > 0).then(|| rest.to_string()),
            previous: None,
            items,
        }
    }

    /// B53: each row once, no empty page in the middle, and no page heavier than a message.
    #[tokio::test]
    async fn b53_pages_are_never_empty_in_the_middle_nor_too_heavy() {
        let keeps = |number: &u32| number.is_multiple_of(97);
        let weighs = |number: &u32| {
            if number.is_multiple_of(2) {
                PAGE_BYTES
            } else {
                1
            }
        };
        let (mut seen, mut token) = (Vec::new(), None);
        loop {
            let fetch = |request| async move { Ok(numbers(1000, &request)) };
            let (items, next) = read(50, token, fetch, keeps, weighs).await.unwrap();
            assert!(
                items
                    .iter()
                    .filter(|number| number.is_multiple_of(2))
                    .count()
                    <= 1
            );
            assert!(!items.is_empty() || next.is_none());
            seen.extend(items);
            token = next;
            if token.is_none() {
                break;
            }
        }
        let expected: Vec<u32> = (1..=1000).rev().filter(keeps).collect();
        assert_eq!(seen, expected);
    }
}
