//! A distributed job scheduler to embed: every due fire starts once, on a healthy node.
//!
//! ```no_run
//! use evenkeel::{Config, Functions, JobFile, Work};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let functions = Functions::new().add("greet", |run: evenkeel::RunContext| async move {
//!     println!("hello, it is {}", run.run().due);
//! });
//! let config = Config::new("a".parse()?, "sqlite:books", "data").with(functions);
//! let node = evenkeel::open(config).await?;
//! node.apply(vec![JobFile::new("greeting".parse()?, "*/5 * * * * *", Work::Function("greet".into()))]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Start the same program on other hosts, with the same registry, and they share the work; stop any of them and the
//! others take over. See `docs/concepts/embedding.md`.
//!
//! The parts, from the public interface inwards:
//! - [`open`] and [`Handle`]: a running node. [`Config`]: its settings.
//! - `driver`: passes inputs to [`core::node::Node`] and carries out its effects. It decides nothing.
//! - `executor`, `executors`: the kinds of run. [`guard`]: the process that ends runs, even when the node dies.
//! - `history`: the outcome of every attempt. `logs`: the output of commands and the answers of servers.
//! - [`audit`]: who requested which change.
//! - `metrics`: what a node measures for monitoring systems.
//! - `trace`: a trace of each fire, by OpenTelemetry's terms.
//! - `notify`: sends notifications about the node and its jobs.
//! - [`diagnose`]: checks a registry. [`backup`]: backs up, restores and migrates registry data.
//! - [`mod@bench`]: the parts of benchmarks.
//! - [`clock`]: the one file that reads time.

pub mod audit;
pub mod backup;
pub mod bench;
pub mod clock;
pub mod diagnose;
pub mod guard;
pub mod reseal;
pub mod upgrade;

mod attention;
mod command_policy;
mod config;
mod driver;
mod error;
mod executor;
mod executors;
mod handle;
mod health;
mod history;
mod host;
mod job_version;
mod lock;
mod logs;
mod metrics;
mod notify;
mod peers;
mod published_loads;
mod request;
mod retention;
mod seal_key;
mod secrets;
mod trace;

pub use evenkeel_core as core;

pub use command_policy::{CommandPolicy, CommandUsers};
pub use config::Config;
pub use error::OpenError;
pub use evenkeel_core::input::{Answer, Command};
pub use evenkeel_core::job::{Dataflow, Http, Job, JobFile, Program, Work};
pub use evenkeel_core::labels::{Labels, NodeSelector};
pub use executors::{FetchOutput, FunctionOutput, Functions, Network, RunContext};
pub use handle::{ApplyError, Beat, Handle, LeaveOutcome, RunStateError};
pub use health::NodeHealth;
pub use history::{
    AttemptState, EventFilter, EventRecord, FailingShard, FireClass, FireCounts, HistoryError, JobRecords,
    LoadPoint, MissedFires, RunFilter, RunRecord, SummaryBy, SummaryFilter, SummaryOrder, SummaryPart,
    SummaryRow,
};
pub use job_version::{JobChange, JobVersion, JobVersionFilter};
pub use lock::LockGuard;
pub use logs::LogChunk;
pub use metrics::{MetricsFormat, TimePercentiles};
pub use notify::{Email, Notifier, NotifyChannel, OutgoingHeartbeat, SecretSource, Webhook, WebhookShape};
pub use peers::{PeerCall, PeerReply, PeerRpc};
pub use published_loads::NodeLoads;
pub use retention::Retention;
pub use seal_key::{NodeIdentity, SealKey, SealKeys};
pub use secrets::SecretOpener;
pub use trace::{FinishedSpan, SpanId, SpanValue, TraceContext, TraceId, TraceSink};

/// Opens a node: joins the cluster whose data the registry holds, and starts to work.
///
/// Must be called within a tokio runtime with its time driver; functions run there. Everything else has a thread of its
/// own. The node lives as long as a [`Handle`] to it. [`Handle::leave`] ends it gracefully.
///
/// # Errors
/// See [`OpenError`]; each says the fix.
pub async fn open(config: Config) -> Result<Handle, OpenError> {
    driver::begin(config, None).await
}

/// Opens a node after an upgrade of an earlier program of this process, and continues what that program handed over.
/// If the handoff belongs to another node, its runs are ended as after a crash, and the node starts anew.
///
/// # Errors
/// Same as [`open`].
pub async fn resume(config: Config, passed: upgrade::ReceivedHandoff) -> Result<Handle, OpenError> {
    driver::begin(config, Some(passed)).await
}
