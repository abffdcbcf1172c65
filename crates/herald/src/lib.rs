//! Tells the world of steps that were appended: events, wake-ups, live text.
