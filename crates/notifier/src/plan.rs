//! When a delivery is tried again (S8.1, B50).
//!
//! Five retries, spaced out, each a little later than planned so that receivers that failed together
//! are not hit together. The lateness is derived from the delivery's id and the try, not drawn: the
//! plan is the same whoever makes it. A receiver that asks for more time gets it, within a bound.

use std::time::Duration;

use reqwest::StatusCode;
use sha2::{Digest, Sha256};

/// How long after each failed try the next one follows, at the least.
pub(crate) const RETRIES: [Duration; 5] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
    Duration::from_secs(2 * 60),
    Duration::from_secs(10 * 60),
];

/// The longest wait that a receiver's `Retry-After` is kept for.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);

/// A retry comes at most this part of its delay later: one tenth.
const LATENESS: u32 = 10;

/// How long to wait after the failed try number `failed` (from 1), or `None` if it was the last.
/// `asked` is what the receiver asked for.
pub(crate) fn next_try(id: &str, failed: u32, asked: Option<Duration>) -> Option<Duration> {
    let index = usize::try_from(failed).ok()?.checked_sub(1)?;
    let planned = *RETRIES.get(index)?;
    let least = planned.max(asked.unwrap_or_default().min(LONGEST_WAIT));
    Some(least + (planned / LATENESS).mul_f64(share(id, failed)))
}

/// Between 0 and 1, always the same for the same delivery and try.
fn share(id: &str, failed: u32) -> f64 {
    let digest = Sha256::new()
        .chain_update(id)
        .chain_update(failed.to_be_bytes())
        .finalize();
    f64::from(u16::from_be_bytes([digest[0], digest[1]])) / f64::from(u16::MAX)
}

/// Whether an answer that is not a success may be one after another try.
pub(crate) fn may_help(status: StatusCode) -> bool {
    !status.is_client_error()
        || matches!(
            status,
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_EARLY | StatusCode::TOO_MANY_REQUESTS
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// S8.1, B50: five retries, spaced out, each at most a tenth later than planned.
    #[test]
    fn s8_1_five_retries_are_spaced_out() {
        for (failed, planned) in (1..).zip(RETRIES) {
            let delay = next_try("apr_1:notify", failed, None).unwrap();
            assert!(
                delay >= planned && delay <= planned + planned / 10,
                "{failed}: {delay:?}"
            );
            assert_eq!(Some(delay), next_try("apr_1:notify", failed, None));
        }
        assert_eq!(next_try("apr_1:notify", 6, None), None);
        assert_ne!(
            next_try("apr_1:notify", 5, None),
            next_try("apr_2:notify", 5, None)
        );
    }

    /// B50: what a receiver asks for is kept, within a bound, and never shortens the plan.
    #[test]
    fn b50_a_wait_that_was_asked_for_is_kept() {
        let wait = |failed, asked| next_try("a", failed, Some(Duration::from_secs(asked))).unwrap();
        assert!(wait(1, 30) >= Duration::from_secs(30) && wait(1, 30) < Duration::from_secs(31));
        assert!(wait(5, 30) >= RETRIES[4]);
        assert!(wait(1, u64::MAX) <= LONGEST_WAIT + Duration::from_secs(1));
        assert_eq!(next_try("a", 6, Some(Duration::from_secs(1))), None);
    }

    /// S8.1: 4xx other than 408, 425 and 429 are not retried.
    #[test]
    fn s8_1_refusals_are_final() {
        let helps = |code| may_help(StatusCode::from_u16(code).unwrap());
        for again in [302, 408, 425, 429, 500, 502, 503, 504] {
            assert!(helps(again), "{again}");
        }
        for last in [400, 401, 403, 404, 409, 410, 413, 422] {
            assert!(!helps(last), "{last}");
        }
    }
}
