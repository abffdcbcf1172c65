//! Builders for the tests of the whole.
