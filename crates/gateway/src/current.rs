//! The current revision of an agent, read once for all who ask at the same time.
//!
//! A redeploy takes effect with the next run (S1.3), on every instance at once, so nothing may be
//! kept from one start to the next. But starts that wait for the same answer can share it, as long
//! as the read began after each of them came in: what was true then is as new as any of them can
//! ask for. Under load a few reads serve many starts.

use std::collections::HashMap;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use sayso_run::{AgentName, Namespace, RevisionId};
use sayso_service::error::Coded;

use sayso_store::Store;

use crate::refuse;

/// Reads current revisions.
#[derive(Debug, Default)]
pub(crate) struct CurrentRevisions {
    reads: SharedReads<(Namespace, AgentName), Option<RevisionId>>,
}

impl CurrentRevisions {
    /// The current revision; `None` if there is no such agent.
    ///
    /// # Errors
    ///
    /// When the database does not answer.
    pub(crate) async fn get(
        &self,
        store: &Store,
        namespace: &Namespace,
        agent: &AgentName,
    ) -> Result<Option<RevisionId>, Coded> {
        let read = async {
            let row = store.agents().get(namespace, agent).await;
            let row = row.map_err(|error| refuse::database("reading an agent", error))?;
            Ok(row.map(|row| row.revision))
        };
        self.reads
            .get((namespace.clone(), agent.clone()), read)
            .await
    }
}

/// Reads that are shared by those who asked before they began.
#[derive(Debug)]
struct SharedReads<K, V> {
    /// Numbers arrivals and beginnings in one order.
    clock: AtomicU64,
    slots: Mutex<HashMap<K, Arc<Slot<V>>>>,
}

/// The last answer, with the number at which its read began. Whoever holds the lock reads.
type Slot<V> = tokio::sync::Mutex<Option<(u64, V)>>;

impl<K, V> Default for SharedReads<K, V> {
    fn default() -> Self {
        SharedReads {
            clock: AtomicU64::new(0),
            slots: Mutex::default(),
        }
    }
}

impl<K: Eq + std::hash::Hash + Clone, V: Clone> SharedReads<K, V> {
    async fn get<E>(&self, key: K, read: impl Future<Output = Result<V, E>>) -> Result<V, E> {
        let came = self.tick();
        let slot = Arc::clone(self.slots().entry(key.clone()).or_default());
        let answer = {
            let mut last = slot.lock().await;
            match &*last {
                Some((began, answer)) if *began > came => Ok(answer.clone()),
                Some(_) | None => {
                    let began = self.tick();
                    let answer = read.await;
                    if let Ok(answer) = &answer {
                        *last = Some((began, answer.clone()));
                    }
                    answer
                }
            }
        };
        let mut slots = self.slots();
        // The table's handle and ours: nobody else waits for this key.
        if Arc::strong_count(&slot) == 2 {
            slots.remove(&key);
        }
        answer
    }

    fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    fn slots(&self) -> std::sync::MutexGuard<'_, HashMap<K, Arc<Slot<V>>>> {
        // Insertions and removals leave the table whole.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::sleep;

    use super::*;

    const READ: Duration = Duration::from_millis(10);

    struct Table {
        reads: SharedReads<&'static str, u64>,
        value: AtomicU64,
        count: AtomicU64,
    }

    impl Table {
        async fn get(&self) -> u64 {
            let read = async {
                self.count.fetch_add(1, Ordering::SeqCst);
                let value = self.value.load(Ordering::SeqCst);
                sleep(READ).await;
                Ok::<_, ()>(value)
            };
            self.reads.get("desk", read).await.unwrap()
        }
    }

    /// S1.3: nobody gets what was true only before they asked, and many share one read.
    #[tokio::test(start_paused = true)]
    async fn s1_3_a_shared_read_is_never_older_than_the_question() {
        let table = Arc::new(Table {
            reads: SharedReads::default(),
            value: AtomicU64::new(1),
            count: AtomicU64::new(0),
        });
        let ask = || {
            let table = Arc::clone(&table);
            tokio::spawn(async move { table.get().await })
        };
        let first = ask();
        sleep(READ / 2).await;
        table.value.store(2, Ordering::SeqCst);
        let later: Vec<_> = (0..50).map(|_| ask()).collect();
        assert_eq!(first.await.unwrap(), 1);
        for answer in later {
            assert_eq!(answer.await.unwrap(), 2, "it began after they asked");
        }
        assert_eq!(table.count.load(Ordering::SeqCst), 2);
        assert!(table.reads.slots().is_empty(), "nothing is kept");
    }
}
