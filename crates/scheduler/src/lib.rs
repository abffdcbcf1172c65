//! Admits runs; watches over workers, stalled runs, wake-ups and unpublished events.
