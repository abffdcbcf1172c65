//! Wake-ups and events: one trait, JetStream and in-process.
