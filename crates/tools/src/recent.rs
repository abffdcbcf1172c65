use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// A map that forgets its oldest entries when it is full. For what can be made again.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries: HashMap<K, V>,
    order: VecDeque<K>,
    capacity: usize,
}

impl<K: Hash + Eq + Clone, V> Recent<K, V> {
    /// An empty map for at most `capacity` entries.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            entries: HashMap::new(),
            order: VecDeque::new(),
            capacity,
        }
    }

    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.entries.get(key)
    }

    /// Puts an entry in; one of the same key is replaced and keeps its age.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_some() {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.capacity
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_makes_room() {
        let mut recent = Recent::new(2);
        for n in [1, 2, 1, 3] {
            recent.insert(n, n * 10);
        }
        assert_eq!(recent.get(&1), None);
        assert_eq!(recent.get(&2), Some(&20));
        assert_eq!(recent.get(&3), Some(&30));
    }
}
