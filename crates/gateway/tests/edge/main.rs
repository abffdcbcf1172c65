//! The public edge as clients meet it, over a real SQLite store and the bus within one process. The
//! siblings are small, and write real timelines.

mod approvals;
mod auth;
mod console;
mod errors;
mod house;
mod http;
mod lists;
mod siblings;
mod watching;
