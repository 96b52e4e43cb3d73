//! The effects of a node: everything it asks its driver to do, and why.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use crate::commit_kind::CommitKind;
use crate::ids::{JobName, Member, NodeName, RequestId, RunId, Token, counted};
use crate::input::{Answer, CommandId, Offer};
use crate::job::{Backoff, LaunchSettings, Priority, Work};
use crate::keys::Key;
use crate::labels::NodeSelector;
pub use crate::outcome::{StopReason, Verdict, VerdictState};
use crate::record::{JoinRefusal, UnknownLayout};
use crate::registry::{LeaseId, Txn};
use crate::shards::ShardSet;
use crate::time::{Millis, Mono, Wall};

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
    /// The number of the attempt, counted from 1.
    pub attempt: u32,
    /// The fencing token.
    pub token: Token,
    /// Which node sent the run here and why, in words; empty when it runs where its job or shard is owned.
    pub sent: String,
    /// The program, request or handler to execute.
    pub work: Work,
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

/// The events that a node reports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The node claimed a job and owns more than its alarm threshold (S1-26).
    Alarm {
        /// Number of owned jobs (X).
        held: usize,
        /// Threshold (M).
        alarm: usize,
    },
    /// The node became a member.
    Joined,
    /// A file or folder in use was deleted, replaced or damaged; the text says which one, and what to do.
    StorageFailed(String),
    /// The node was handed off to a new program, with this number of runs.
    Upgraded(usize),
    /// The handoff to a new program failed, and the node stays in this one.
    NotUpgraded(String),
    /// The node's lease is gone; it starts nothing until it has joined again.
    LeaseLost,
    /// Another living node has the same name.
    NameTaken(NodeName),
    /// The node's clock and the registry's differ by more than allowed: it claims no fire (law 6).
    ClockDiffers(Millis),
    /// An entry could not be read; it is left alone.
    Unreadable(Key),
    /// There are jobs whose node selector fits no node there is: they do not run until one fits.
    Unschedulable(NodeSelector),
    /// This node is drained, or ends, and owns nothing any more: it may be stopped (S1-39, S1-61).
    Drained,
    /// This node is a candidate for the leadership of a job (S3-05).
    Electing(JobName),
    /// This node leads a job (S3-05).
    Elected(JobName),
    /// A reshard left these running shards where they are until they have ended (I2-13).
    ShardsDraining(JobName, ShardSet),
    /// A manual run skips these shards: they still ran, or their next run was claimed already (I2-08).
    Rejected(JobName, RequestId, ShardSet),
    /// The registry answers again, or for the first time (S4-13: connected).
    Connected,
    /// The registry does not answer: the lease is trusted for its term only (S4-13: connection exception).
    Disconnected,
    /// Nodes joined or left: there are so many now (S4-13: children changed).
    NodesChanged(usize),
    /// No life of this node is a member any more; it owned so many jobs, which other nodes may take over now.
    NodeLeft(Member, usize),
    /// Its peers mark a node as offline: it is offered nothing and takes no beat (S0-51).
    Offline(NodeName),
    /// An offline node is online again: its peers reach it, or it was restarted or activated (S0-52).
    Online(NodeName),
    /// The serving leader changed, or there is none now (S4-13: node data changed).
    LeaderChanged(Option<NodeName>, u64),
    /// The serving leader is gone (S4-13: node lost).
    LeaderLost(NodeName),
    /// This node has won the lead; it serves once it has loaded the metadata and has waited (S4-34).
    Resuming(u64),
    /// This node serves as the leader (S4-34).
    Serving(u64),
    /// This node stops serving: it refuses commands and plans nothing (S4-33).
    Suspended,
    /// Two nodes claim to serve, which must never happen (S4-39).
    MultiLeader(NodeName, NodeName),
    /// The registry accepts no members: its cluster was moved, or is not complete yet.
    Shut(JoinRefusal),
    /// The tree is written in a layout that this program does not know: the node stops deciding.
    UnknownLayout(UnknownLayout),
    /// A newer generation than this node's has begun: the node stops deciding (`I1`).
    Outdated(u16),
    /// An operator deleted this node's entry while its lease lived: it takes nothing until it is restarted (S3-30).
    Closed,
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

/// What to do about a name that another member has.
const TAKEN: &str = "stop it or choose another --name; if it is an earlier life of this node, whose data folder is gone, its name \
                     is free when its lease has ended, which is waited for";

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alarm { held, alarm } => {
                write!(f, "alarm: holds {}, threshold is {alarm}", counted(*held, "job"))
            }
            Self::Joined => f.write_str("joined"),
            Self::NotUpgraded(why) => write!(f, "not upgraded: {why}"),
            Self::Upgraded(n) => write!(f, "went on in a new program, and {} with it", counted(*n, "run")),
            Self::StorageFailed(why) => f.write_str(why),
            Self::LeaseLost => f.write_str("lease lost"),
            Self::NameTaken(node) => write!(f, "a living node is already named {node}: {TAKEN}"),
            Self::ClockDiffers(by) => {
                write!(f, "clock differs from the registry's by {by}: no fire is claimed")
            }
            Self::Unreadable(key) => write!(f, "entry {key} cannot be read and is left alone"),
            Self::Unschedulable(nodes) => {
                write!(
                    f,
                    "no living node fits jobs for {nodes}: start one with these labels, or change the jobs"
                )
            }
            Self::Connected => f.write_str("connected with the registry"),
            Self::Disconnected => f.write_str("the registry does not answer: the lease may be lost"),
            Self::NodeLeft(node, held) => write!(f, "{node} left; it held {}", counted(*held, "job")),
            Self::NodesChanged(1) => f.write_str("there is 1 node now"),
            Self::NodesChanged(nodes) => write!(f, "there are {nodes} nodes now"),
            Self::Offline(node) => {
                write!(
                    f,
                    "node {node} is offline: its peers cannot reach it; see to its network, and it is online again once they can"
                )
            }
            Self::Online(node) => write!(f, "node {node} is online again"),
            Self::LeaderChanged(Some(node), epoch) => write!(f, "node {node} leads now, epoch {epoch}"),
            Self::LeaderChanged(None, epoch) => write!(f, "nobody leads after epoch {epoch}"),
            Self::LeaderLost(node) => write!(f, "the serving leader {node} is gone"),
            Self::Resuming(epoch) => {
                write!(f, "won the lead, epoch {epoch}: serves once everything is loaded and waited for")
            }
            Self::Serving(epoch) => write!(f, "serves now, epoch {epoch}"),
            Self::Suspended => f.write_str("serves no more: it is on standby"),
            Self::MultiLeader(a, b) => {
                write!(f, "nodes {a} and {b} both say that they serve: stop one of them")
            }
            Self::Electing(job) => write!(f, "elect a new leader of job {job} now"),
            Self::Elected(job) => write!(f, "leader election of job {job} completed: this node leads"),
            Self::ShardsDraining(job, shards) => {
                write!(f, "job {job}: shards {shards} still run, the others were resharded without them")
            }
            Self::Rejected(job, request, shards) => {
                write!(
                    f,
                    "job {job}: request {request} came while shards {shards} ran or were about to: they do not run for it"
                )
            }
            Self::Shut(shut) => write!(f, "cannot join: {shut}"),
            Self::UnknownLayout(unknown) => write!(f, "cannot read the tree of this cluster: {unknown}"),
            Self::Outdated(begun) => write!(
                f,
                "generation {begun} has begun at the registry, as after a restore: start this node again"
            ),
            Self::Closed => f.write_str(
                "closed: this node's entry was deleted from outside; start it again to join again",
            ),
            Self::Drained => f.write_str("drained: owns nothing more and may be stopped"),
        }
    }
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
