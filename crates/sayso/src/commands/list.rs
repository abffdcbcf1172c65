//! Lists over as many pages as the limit needs.

use sayso_sdk::Error;

/// The most that a server puts on one page.
const PAGE: u32 = 500;

/// One page: its entries and the token of the next, empty if there is none.
pub(crate) type Page<T> = (Vec<T>, String);

/// Up to `limit` entries. `fetch` gets the size and the token of a page.
pub(crate) async fn up_to<T>(
    limit: u32,
    mut fetch: impl AsyncFnMut(u32, String) -> Result<Page<T>, Error>,
) -> Result<Page<T>, Error> {
    let mut all = Vec::new();
    let mut left = limit;
    let mut token = String::new();
    loop {
        let (entries, next) = fetch(left.min(PAGE), token).await?;
        left = left.saturating_sub(u32::try_from(entries.len()).unwrap_or(u32::MAX));
        all.extend(entries);
        if left == 0 || next.is_empty() {
            return Ok((all, next));
        }
        token = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pages_are_read_until_the_limit_or_the_end() {
        let asked = std::cell::RefCell::new(Vec::new());
        let fetch = async |size: u32, token: String| {
            asked.borrow_mut().push((size, token.clone()));
            let from: u32 = token.parse().unwrap_or(0);
            let until = (from + size.min(3)).min(8);
            let next = if until < 8 {
                until.to_string()
            } else {
                String::new()
            };
            Ok::<Page<u32>, Error>(((from..until).collect(), next))
        };
        assert_eq!(
            up_to(5, &fetch).await.unwrap(),
            ((0..5).collect(), "5".to_owned())
        );
        assert_eq!(
            up_to(900, &fetch).await.unwrap(),
            ((0..8).collect(), String::new())
        );
        let asked = asked.take();
        assert_eq!(asked[..2], [(5, String::new()), (2, "3".to_owned())]);
        assert_eq!(asked[2], (500, String::new()));
    }
}
