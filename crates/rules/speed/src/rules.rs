//! The rules that are compared: 100 of them, in each engine's own language.

/// One rule.
pub struct Rule {
    /// The tools that it speaks of; `*` crosses dots.
    pub tool: String,
    /// What it says.
    pub says: Says,
}

/// What a rule says, and when.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// Never.
    Deny,
    /// A person decides, once the run is below trusted.
    AskBelowTrusted,
    /// A person decides.
    Ask,
    /// It runs, if it only reads.
    AllowReads,
}

/// A hundred rules over twenty servers, a quarter of each kind.
pub fn hundred() -> Vec<Rule> {
    (0..100)
        .map(|n| match n % 4 {
            0 => (format!("*.delete_{n}_*"), Says::Deny),
            1 => (format!("srv{n}.*"), Says::AskBelowTrusted),
            2 => (format!("srv3.tool_{n}"), Says::Ask),
            _ => (format!("srv*.tool_{n}*"), Says::AllowReads),
        })
        .map(|(tool, says)| Rule { tool, says })
        .collect()
}

/// The median time of one call, in nanoseconds.
pub fn median(rounds: usize, mut work: impl FnMut()) -> u128 {
    let mut times: Vec<u128> = (0..rounds)
        .map(|_| {
            let start = std::time::Instant::now();
            for _ in 0..16 {
                work();
            }
            start.elapsed().as_nanos() / 16
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
