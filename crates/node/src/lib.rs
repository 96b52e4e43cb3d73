//! A distributed job scheduler to embed: every due fire starts once, on a healthy node.
//!
//! ```no_run
//! use evenkeel::{Config, Functions, Job, Work};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let functions = Functions::new().add("greet", |run: evenkeel::RunContext| async move {
//!     println!("hello, it is {}", run.run().due);
//! });
//! let config = Config::new("a".parse()?, "sqlite:books", "data").with(functions);
//! let node = evenkeel::open(config).await?;
//! node.apply(vec![Job::new("greeting".parse()?, "*/5 * * * * *", Work::Function("greet".into()))]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! Start the same program on other hosts, with the same registry, and they share the work; stop any of them and the
//! others take over. `docs/concepts/embedding.md` tells more.
//!
//! The parts, from the door inwards:
//! - [`open`] and [`Handle`]: a living node. [`Config`] is how it is to live.
//! - `driver`: hands inputs to [`core::node::Node`] and carries out its effects; decides nothing.
//! - `executor`, `executors`: what a run can be. [`guard`]: the process that ends runs whatever becomes of the node.
//! - `history`: what became of every attempt. `logs`: what commands wrote, and servers answered.
//! - [`audit`]: who asked for which change.
//! - `notify`: whom to tell what happens to the node.
//! - [`doctor`]: whether a registry is fit. [`carry`]: its books as a file, or in another registry.
//! - [`clock`]: the one file that reads time.

pub mod audit;
pub mod backup;
pub mod clock;
pub mod diagnose;
pub mod guard;
pub mod upgrade;

mod config;
mod driver;
mod error;
mod executor;
mod executors;
mod handle;
mod history;
mod host;
mod lock;
mod logs;
mod notify;
mod peers;

pub use evenkeel_core as core;

pub use config::{Config, Retention};
pub use error::OpenError;
pub use evenkeel_core::input::{Answer, Command};
pub use evenkeel_core::job::{Dataflow, Http, Job, Program, Work};
pub use evenkeel_core::labels::{Labels, NodeSelector};
pub use executors::{FetchOutput, FunctionOutput, Functions, Network, RunContext};
pub use handle::{ApplyError, Beat, Handle, LeaveOutcome, RunStateError};
pub use history::{AttemptState, EventFilter, EventRecord, HistoryError, LoadPoint, RunFilter, RunRecord};
pub use lock::LockGuard;
pub use logs::LogChunk;
pub use notify::{Email, Notifier, NotifyChannel, Password, event_kind, event_kinds};
pub use peers::{PeerCall, PeerReply, PeerRpc};

/// Opens a node: joins the cluster whose books the registry keeps, and starts to work.
///
/// Must be called within a tokio runtime with its time driver; functions run there. Everything else has a thread of its
/// own. The node lives as long as a [`Handle`] to it; [`Handle::leave`] is the polite way to end it.
///
/// # Errors
/// See [`OpenError`]; each says the fix.
pub async fn open(config: Config) -> Result<Handle, OpenError> {
    driver::begin(config, None).await
}

/// The same where an earlier program of this process was upgraded: goes on with what that one passed on, if that was this
/// node's; otherwise its runs are ended as after a crash, and the node begins anew.
///
/// # Errors
/// As [`open`].
pub async fn resume(config: Config, passed: upgrade::ReceivedHandoff) -> Result<Handle, OpenError> {
    driver::begin(config, Some(passed)).await
}
