//! CPU time and memory of processes, from `/proc`.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};

/// Ticks a second in `/proc/<pid>/stat`: a constant of Linux's interface, whatever the kernel's own
/// clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of every process, at one moment.
#[derive(Clone, Debug)]
pub(super) struct CpuTimes(BTreeMap<u32, Times>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    parent: u32,
    /// Its own, in ticks.
    own: u64,
    /// That of its children which have ended and were waited for, in ticks.
    ended: u64,
}

impl CpuTimes {
    pub(super) fn now() -> Result<Self> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir("/proc").context("there is no /proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // It may have ended meanwhile.
            let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
                continue;
            };
            all.insert(pid, times(&stat).context("/proc has changed its shape")?);
        }
        Ok(Self(all))
    }

    /// Seconds of a process and of all that came from it, those that have ended included.
    pub(super) fn tree(&self, root: u32) -> f64 {
        let ticks: u64 = self
            .0
            .iter()
            .filter(|&(&pid, _)| self.descends(pid, root))
            .map(|(_, times)| times.own + times.ended)
            .sum();
        ticks as f64 / TICKS_PER_SECOND
    }

    /// Seconds of this program alone.
    pub(super) fn own(&self) -> f64 {
        let own = self.0.get(&std::process::id());
        own.map_or(0.0, |times| times.own as f64 / TICKS_PER_SECOND)
    }

    fn descends(&self, mut pid: u32, root: u32) -> bool {
        while pid != root {
            match self.0.get(&pid) {
                Some(times) if times.parent != pid => pid = times.parent,
                Some(_) | None => return false,
            }
        }
        true
    }
}

/// The fields after the name, which may hold anything: state, parent, …
fn times(stat: &str) -> Option<Times> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Times {
        parent: u32::try_from(number(1)?).ok()?,
        own: number(11)? + number(12)?,
        ended: number(13)? + number(14)?,
    })
}

/// Resident memory of a process in MiB; pages that several share count once for each.
pub(super) fn resident_mib(pid: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))
        .with_context(|| format!("process {pid} is gone"))?;
    let resident = status.lines().find_map(|line| {
        let value = line.strip_prefix("VmRSS:")?;
        value.split_whitespace().next()?.parse::<u64>().ok()
    });
    let kib = resident.with_context(|| format!("process {pid} has ended"))?;
    Ok(kib as f64 / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_brackets_does_not_shift_the_fields() {
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194304 1 2 3 4 11 12 13 14 20 0 1 0 99";
        let expected = Times {
            parent: 7,
            own: 23,
            ended: 27,
        };
        assert_eq!(times(stat), Some(expected));
    }

    #[test]
    fn a_tree_is_what_descends_from_its_root() {
        let of = |parent, own| Times {
            parent,
            own,
            ended: 1,
        };
        let all = CpuTimes(BTreeMap::from([
            (1, of(0, 1000)),
            (5, of(1, 199)),
            (6, of(5, 99)),
            (7, of(1, 5000)),
        ]));
        assert_eq!(all.tree(5), 3.0);
    }

    #[test]
    fn this_program_is_in_memory() {
        assert!(resident_mib(std::process::id()).expect("it runs") > 0.1);
    }
}
