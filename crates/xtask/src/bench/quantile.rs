//! Quantiles of latencies.

use std::time::Duration;

/// Latencies of one phase, sorted.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(super) fn of(mut all: Vec<Duration>) -> Self {
        all.sort_unstable();
        Self(all)
    }

    /// The smallest latency that a share `q` of them does not exceed, in milliseconds; zero if
    /// there are none.
    pub(super) fn quantile(&self, q: f64) -> f64 {
        let count = self.0.len();
        let rank = (q * count as f64).ceil() as usize;
        let at = rank.clamp(1, count.max(1)) - 1;
        self.0
            .get(at)
            .map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_one_of_the_latencies() {
        let all = (1..=100).rev().map(Duration::from_millis).collect();
        let latencies = Latencies::of(all);
        assert_eq!(latencies.quantile(0.5), 50.0);
        assert_eq!(latencies.quantile(0.99), 99.0);
        assert_eq!(latencies.quantile(1.0), 100.0);
        assert_eq!(Latencies::default().quantile(0.5), 0.0);
    }
}
