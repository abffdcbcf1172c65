//! Timelines and tables on Postgres and SQLite.
//!
//! [`Store`] is a handle that is cheap to clone. It is the [`sayso_driver::Journal`], the only way
//! to write to a timeline and to what is projected from it, and it hands out the repositories of
//! everything else, one a table, each beside its SQL.
//!
//! * The journal is the hot path and is written for each database by hand: one statement a group of
//!   appends on Postgres, prepared one-row statements on a thread of its own on SQLite.
//! * Repositories share one SQL text between both databases, run by the native drivers.
//! * Times are the database's clock ([`Store::sync_clock`]); tests put an offset on it
//!   ([`Store::set_clock_offset`]) which every process that shares the database sees.
//! * Text with a NUL is refused (`request.invalid_text`): Postgres cannot store it, and SQLite must
//!   not differ.

mod agent_logs;
mod agents;
mod approvals;
mod artifacts;
mod audit;
mod budgets;
mod clock;
mod conversations;
mod database;
mod deliveries;
mod error;
mod feedback;
mod groups;
mod heartbeat;
#[cfg(feature = "hooks")]
pub mod hooks;
mod journal;
mod load;
mod namespaces;
mod open;
mod page;
mod pauses;
mod record;
mod roles;
mod runs;
mod schedules;
mod secrets;
#[cfg(feature = "simulated")]
pub mod simulated;
mod sweep;
mod targets;
#[cfg(feature = "testing")]
pub mod testing;
mod tokens;
mod tool_sets;
mod triggers;
mod votes;
mod workers;

pub use agent_logs::{AgentLogs, LogEntry, LogLevel, NewLogEntry};
pub use agents::{AgentRow, Agents, Deploy, DeployError, Deployed, RevisionRow};
pub use approvals::{ApprovalFilter, Approvals};
pub use artifacts::{ArtifactError, ArtifactRow, Artifacts, NewArtifact};
pub use audit::{Audit, AuditEntry, AuditError, NewAuditEntry};
pub use budgets::{BudgetRow, Budgets, MonthlySpend, NearCap};
pub use conversations::{
    ConversationFilter, ConversationRow, ConversationTable, CreateError, NewConversation,
    PlacedMessage,
};
pub use database::Kind;
pub use deliveries::{Attempt, Deliveries, Delivery};
pub use error::DatabaseError;
pub use feedback::{Feedback, FeedbackFilter, FeedbackSum, RatedTask, StoredFeedback, TaskOf};
pub use groups::{Groups, MemberRow};
pub use heartbeat::{Heartbeat, HeartbeatError};
pub use namespaces::Namespaces;
pub use open::{OpenError, Store, StoreConfig};
pub use page::{ListError, Page, PageRequest};
pub use pauses::{PauseRow, Pauses};
pub use roles::{Attached, Removed, RoleRow, Roles, UNRESTRICTED};
pub use runs::{Import, RunFilter, Runs, StoredStep, VerifyError};
pub use schedules::{DueSchedule, ScheduleRow, Schedules};
pub use secrets::{OpenSecret, SealError, SecretKeys, SecretRow, Secrets, SecretsError};
pub use sweep::{RunRef, Sweep};
pub use targets::{Added, MAX_TARGETS, NewTarget, TargetKind, TargetRow, Targets};
pub use tokens::{NewToken, TokenRow, Tokens};
pub use tool_sets::ToolSets;
pub use triggers::{TriggerRow, Triggers};
pub use votes::Votes;
pub use workers::{RegisterError, Worker, Workers};
