//! The inbox: decisions, expiry and feedback.
