//! Takes wake-ups, claims runs and drives them.
