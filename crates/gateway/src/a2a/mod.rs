//! sayso as an A2A server, protocol version 1.0 (S6.13): agents whose bundle says `a2a` can be called
//! by other agents, over JSON-RPC, HTTP with JSON, and gRPC.
//!
//! | where | what |
//! |---|---|
//! | `/.well-known/agent-card.json` | the card of the agent that `a2a.agent` names |
//! | `/a2a/{namespace}/{agent}/.well-known/agent-card.json` | the card of each agent that is offered |
//! | `POST /a2a/{namespace}/{agent}` | JSON-RPC |
//! | `/a2a/{namespace}/{agent}/message:send`, `/tasks`, … | HTTP with JSON, as the protocol's file says |
//! | `/a2a/{namespace}/{agent}/tasks/{id}/artifacts/{id}` | a file that is too large to be sent along |
//! | `lf.a2a.v1.A2AService` | gRPC; `tenant` names the agent |
//!
//! **One implementation, three encodings.** [`service`] answers gRPC. The two doors for JSON hand on
//! what they read to that service in this process, with the token that came along, as the door of the
//! API does: scopes, namespaces and reach are those of every route.
//!
//! **A task is a run**, and its id is the run's. Only runs that came in here are tasks, only those of
//! agents that are offered are seen, and only by those who would see the run. The context is the
//! run's trigger.
//!
//! **Nothing is decided here.** A held call makes its task `INPUT_REQUIRED`, and a message to it goes
//! to the agent. No method approves or denies, so whatever token a client holds, it decides nothing
//! on this route; nobody decides their own request on any other (S6.10).
//!
//! # Modules
//!
//! | module | holds |
//! |---|---|
//! | [`offered`] | which agents are offered |
//! | [`card`] | their cards |
//! | [`service`] | the methods; [`send`], [`tasks`], [`stream`], [`pushes`] what they do |
//! | [`door`] | JSON over HTTP; [`rpc`] JSON-RPC; [`written`] answers as JSON |
//! | [`file`] | files of tasks, fetched |
//! | [`fault`] | the protocol's errors |

mod card;
mod door;
mod fault;
mod file;
mod offered;
mod pushes;
mod rpc;
mod send;
mod service;
mod stream;
mod tasks;
mod written;

pub(crate) use door::Door;
pub(crate) use offered::OfferedAgents;
use sayso_run::{AgentName, Namespace};

/// The package of the protocol's methods.
pub(crate) const PACKAGE: &str = "lf.a2a.v1";

/// The protocol's service, as gRPC knows it.
pub(crate) const SERVICE: &str = "lf.a2a.v1.A2AService";

/// How this server is one of A2A.
#[derive(Debug, Clone, Default)]
pub struct A2aConfig {
    /// Where clients reach this server, such as `https://agents.example.org`; without it, cards name
    /// the host that they were asked under.
    pub public_url: Option<String>,
    /// The agent whose card stands at the root, and which is called over gRPC where no tenant is named.
    pub root: Option<(Namespace, AgentName)>,
    /// Whether clients may have themselves told at addresses that are not public.
    pub private_receivers: bool,
}
