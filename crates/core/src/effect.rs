//! The effects of a node: everything it asks its driver to do, and why.

mod event;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::commit_kind::CommitKind;
use crate::ids::{JobName, Member, NodeName, RunId, Token};
use crate::input::{Answer, CommandId, Offer};
use crate::job::{Backoff, LaunchSettings, Priority, RunParameters, Work};
use crate::keys::Key;
pub use crate::outcome::{StopReason, Verdict, VerdictState};
use crate::registry::{LeaseId, Txn};
use crate::time::{Millis, Mono, Wall};
pub use event::{Event, EventKind, EventLevel, EventReport, event_kinds, find_event_kind};

/// The number of a commit in flight; its outcome comes back under it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// One attempt to execute a run, complete enough for an executor.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// The run.
    pub id: RunId,
    /// The moment it stands for: the due time of the fire, or the time of the trigger.
    pub due: Wall,
    /// Decides which of the attempts that wait for the same executor starts first.
    pub priority: Priority,
    /// When the job fires again, of a command: programs start one after the other, and those of jobs that fire again
    /// soon do not wait for all others.
    pub again: Option<Wall>,
    /// The number of shards.
    pub shards: u32,
    /// This shard's parameter.
    pub parameter: String,
    /// The job's own parameter, the same for every shard.
    pub job_parameter: String,
    /// The parameters of the run: those that a manual run was given, and the defaults of the job. A command has each as a
    /// variable of its name.
    pub parameters: RunParameters,
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The fencing token.
    pub token: Token,
    /// Which node sent the run here and why, in words; empty when it runs where its job or shard is owned.
    pub sent: String,
    /// The program, request or handler to execute.
    pub work: Work,
    /// Whether nothing is executed: the attempt succeeds at once.
    pub shadow: bool,
    /// How to start a command.
    pub setting: Box<LaunchSettings>,
    /// How long it may take.
    pub timeout: Option<Millis>,
    /// Whether and when another attempt follows one that failed.
    pub retry: Option<Box<Backoff>>,
    /// Checked last, in the child before exec: from this moment on it must not start (law 2).
    pub not_after: Mono,
}

impl Run {
    /// The environment that every run gets in every executor.
    #[must_use]
    pub fn environment(&self, node: &NodeName) -> BTreeMap<&'static str, String> {
        BTreeMap::from([
            ("EVENKEEL_JOB", self.id.job.to_string()),
            ("EVENKEEL_NAMESPACE", self.id.job.namespace().to_string()),
            ("EVENKEEL_RUN", self.id.to_string()),
            ("EVENKEEL_DUE", self.due.to_string()),
            ("EVENKEEL_SHARD", self.id.shard.to_string()),
            ("EVENKEEL_SHARDS", self.shards.to_string()),
            ("EVENKEEL_PARAMETER", self.parameter.clone()),
            ("EVENKEEL_JOB_PARAMETER", self.job_parameter.clone()),
            ("EVENKEEL_ATTEMPT", self.attempt.to_string()),
            ("EVENKEEL_FENCE", self.token.to_string()),
            ("EVENKEEL_IDEMPOTENCY_KEY", self.id.to_string()),
            ("EVENKEEL_NODE", node.to_string()),
        ])
    }
}

/// The effects that a node asks of its driver. Each is answered by at most one input, failure included.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Open a lease of this term.
    Open {
        /// The requested term.
        ttl: Millis,
    },
    /// Renew the lease.
    Renew(LeaseId),
    /// Close the lease, whether or not the answer comes.
    Close(LeaseId),
    /// Read all cold entries again.
    List,
    /// Read these entries, which are not in the feed.
    Read(Vec<Key>),
    /// Commit this transaction. Those of one step go out together and are answered separately.
    Commit {
        /// The number of the commit.
        ticket: Ticket,
        /// The kind of the commit.
        kind: CommitKind,
        /// The transaction.
        txn: Txn,
    },
    /// Probe a node: ask whether it is there, and which life it is.
    Probe {
        /// The life to probe.
        to: Member,
        /// The address it published.
        address: String,
    },
    /// Offer a node the runs that are planned for it; it reads them in the plans.
    Offer {
        /// The life to offer to.
        to: Member,
        /// The address it published.
        address: String,
        /// The runs.
        runs: Vec<Offer>,
    },
    /// Start this attempt.
    Start(Run),
    /// End this run's process group.
    Stop(RunId, StopReason),
    /// Write this verdict to the history, under (run, attempt) as its key; answered by `Recorded`.
    Record(Verdict),
    /// Report an event.
    Announce(Event),
    /// Answer a command.
    Answer(CommandId, Answer),
}

/// The name of a job in an effect's trace.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { ttl } => write!(f, "open lease of {ttl}"),
            Self::Renew(lease) => write!(f, "renew lease {lease}"),
            Self::Close(lease) => write!(f, "close lease {lease}"),
            Self::List => f.write_str("list"),
            Self::Read(keys) => {
                f.write_str("read")?;
                keys.iter().try_for_each(|key| write!(f, " {key}"))
            }
            Self::Commit { ticket, kind, txn } => {
                write!(f, "commit #{} {kind}:", ticket.0)?;
                txn.writes.iter().try_for_each(|w| write!(f, " {}", w.key()))
            }
            Self::Probe { to, .. } => write!(f, "probe {to}"),
            Self::Offer { to, runs, .. } => {
                write!(f, "offer {to}:")?;
                runs.iter().try_for_each(|offer| write!(f, " {}", offer.run))
            }
            Self::Start(run) => write!(f, "start {} attempt {} token {}", run.id, run.attempt, run.token),
            Self::Stop(run, reason) => write!(f, "stop {run}: {reason:?}"),
            Self::Record(v) => write!(f, "record {} {:?}: {}", v.run, v.state, v.reason),
            Self::Announce(event) => write!(f, "announce {event}"),
            Self::Answer(ask, answer) => write!(f, "answer {}: {answer:?}", ask.0),
        }
    }
}

/// The job that an effect is about, for per-job traces.
impl Effect {
    /// The job, where the effect is about one.
    #[must_use]
    pub fn job(&self) -> Option<&JobName> {
        match self {
            Self::Start(run) => Some(&run.id.job),
            Self::Stop(run, _) => Some(&run.job),
            Self::Record(v) => Some(&v.run.job),
            Self::Open { .. }
            | Self::Renew(_)
            | Self::Close(_)
            | Self::List
            | Self::Read(_)
            | Self::Probe { .. }
            | Self::Offer { .. }
            | Self::Commit { .. }
            | Self::Announce(_)
            | Self::Answer(..) => None,
        }
    }
}
