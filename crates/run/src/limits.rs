//! The rails of S4 and the sizes of S3.8: none of them is configurable, except where said.

use std::time::Duration;

/// Think-and-call cycles of a run, over all resumes and retries (S4.1).
pub const MAX_CYCLES: u32 = 20;

/// From the request to the last byte of one model answer (S4.2).
pub const MODEL_ANSWER: Duration = Duration::from_secs(5 * 60);

/// How many of the last calls the repeat-loop breaker looks at (S4.3).
pub const LOOP_WINDOW: usize = 20;

/// The identical call in a row that is stopped, and each one after it (S4.3).
pub const LOOP_THRESHOLD: usize = 3;

/// Retries of one run, by hand and automatic together (S1.5).
pub const MAX_RETRIES: u32 = 5;

/// Automatic retries over a run's life, which count among [`MAX_RETRIES`] (S1.6).
pub const MAX_AUTOMATIC_RETRIES: u32 = 3;

/// How long a run waits for its first automatic retry; doubled for each further one, and moved by up
/// to a quarter either way, so that runs that failed together do not come back together (S1.6).
pub const FIRST_RETRY_DELAY: Duration = Duration::from_secs(15);

/// How many runs deep agents may start agents, when the configuration does not say (S3.6).
pub const DELEGATION_DEPTH: u32 = 5;

/// How many children of one run may be live at once, when the configuration does not say (S3.6).
pub const LIVE_CHILDREN: u32 = 8;

/// The latest turns that compaction leaves whole, while that is enough (S4.4).
pub const WHOLE_TURNS: u32 = 2;

/// Takeovers without progress between them, after which a run is failed.
pub const MAX_TAKEOVERS: u32 = 5;

/// Takeovers without progress after which a run may be what kills its workers, and is driven alone
/// among such runs.
pub const SUSPECTED_TAKEOVERS: u32 = 2;

/// Calls in one answer; those beyond it are answered with an error.
pub const MAX_CALLS_PER_ANSWER: usize = 64;

/// How long an approval waits when the bundle does not say (S6.8).
pub const APPROVAL_TIMEOUT: Duration = Duration::from_secs(60 * 60);

/// How long a tool may take when the bundle does not say (S3.8).
pub const TOOL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a model's sentence on a held call may be, in characters; the rest is cut (S6.2).
pub const MAX_SUMMARY_CHARS: usize = 300;

/// How large a tool's result may be before it is cut, when the bundle does not say (S3.8), in bytes.
pub const MAX_RESULT_BYTES: usize = 256 * 1024;

/// The largest task input, message or reason that is taken from outside, in bytes.
pub const MAX_TEXT_BYTES: usize = 1024 * 1024;
