//! Where services meet adapters: the only place that builds them.

mod adapters;
mod models;
mod secrets;
mod services;
pub(crate) mod tokens;

pub(crate) use adapters::{Adapters, chain_key, chain_keys, database_url, nats};
pub(crate) use models::registry;
pub(crate) use services::{Peers, Services};
