//! The inputs of a node: everything that can happen to it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::calendar::Calendar;
use crate::effect::Ticket;
use crate::ids::{CalendarName, JobName, LockName, Member, NodeName, Operation, RequestId, RunId, Token};
use crate::job::{Job, Occasion};
use crate::load::HostLoad;
pub use crate::outcome::RunOutcome;
use crate::record::{Handover, PlannerKind, ProcessedItems};
use crate::registry::{Change, ChangeBatch, LeaseGrant, LeaseId, RequestedAt, TxnOutcome};
use crate::settings::Spread;
use crate::shards::ShardSet;
use crate::time::Wall;

/// The number of a command, chosen by the driver; its answer comes back under it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Time passed.
    Tick,
    /// A change of the lease.
    Lease(LeaseEvent),
    /// All cold entries, as requested by `Effect::List`; `None` when they could not be read.
    Listed(Option<ChangeBatch>),
    /// Changes from the feed. A feed that ended or had a gap shows as `Gap`.
    Changed(ChangeBatch),
    /// The feed ended: changes may be missing.
    Gap,
    /// The entries requested by `Effect::Read`; `None` when they could not be read.
    Read(Option<Vec<Change>>),
    /// The outcome of a commit.
    Committed {
        /// The commit.
        ticket: Ticket,
        /// The outcome.
        outcome: TxnOutcome,
    },
    /// A report on a run.
    Run {
        /// The run.
        id: RunId,
        /// The attempt of the run.
        attempt: u32,
        /// The report.
        event: RunEvent,
    },
    /// The history has the verdict on this attempt.
    Recorded {
        /// The run.
        run: RunId,
        /// The attempt.
        attempt: u32,
    },
    /// The result of a probe of another node, sent at this moment (S0-46).
    Probed {
        /// The life that was probed.
        member: Member,
        /// The moment of the probe.
        asked: RequestedAt,
        /// The reply; `None` when the node could not be reached.
        answer: Option<ProbeReply>,
    },
    /// The result of an offer.
    Offered {
        /// The node that got the offer.
        to: Member,
        /// The runs offered.
        runs: Vec<RunId>,
        /// The reply.
        answer: OfferAnswer,
    },
    /// The measured load of this host.
    Sampled(HostLoad),
    /// Whether this node can do its work: its disks take writes and its executor lives (law 7).
    Able(bool),
    /// Whether the node must begin nothing new, because it is about to be handed off to another program.
    Rest(bool),
    /// A command.
    Asked(CommandId, Command),
    /// A command with the caller's name as the request gave it.
    AskedBy(CommandId, String, Command),
}

/// A change of the lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseEvent {
    /// `open` was answered.
    Opened {
        /// The moment of the request.
        asked: RequestedAt,
        /// The answer.
        granted: LeaseGrant,
    },
    /// `renew` was answered.
    Renewed {
        /// The moment of the request.
        asked: RequestedAt,
        /// The answer.
        granted: LeaseGrant,
    },
    /// The engine reports that this lease has ended.
    Gone(LeaseId),
    /// `open` or `renew` had no answer.
    Failed,
}

/// A report on a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunEvent {
    /// The run did not start and will not: it was too late, or could not be executed. The attempt may be started again.
    NotStarted,
    /// The run ended.
    Ended(RunOutcome),
}

/// The commands that a node accepts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Create or replace jobs, each on its own; the same declaration twice has one effect (S1-86 … S1-88).
    Apply(Vec<Job>),
    /// Create or replace a calendar; the same declaration twice has one effect.
    Calendar(Box<Calendar>),
    /// Delete a calendar that no job names.
    DeleteCalendar(CalendarName),
    /// Pause the job: it keeps its owner and runs only when triggered manually.
    Pause(JobName),
    /// Resume the job's schedule from now on.
    Resume(JobName),
    /// Enable the job: it may be owned and fires from now on.
    Enable(JobName),
    /// Disable the job: no node may own it.
    Disable(JobName),
    /// Delete the job.
    Delete(JobName),
    /// Run the job once, now; the same id triggers one run.
    RunNow(JobName, RequestId),
    /// Run this node's shards of a sharded job once, now.
    RunOn(JobName, RequestId, NodeName),
    /// Change one switch of a sharded job on one node.
    Switch(JobName, NodeName, NodeSwitch),
    /// Exclude all present nodes from a sharded job, each until it is restarted.
    Shutdown(JobName),
    /// Enable or disable these shards of a sharded job.
    Shards(JobName, ShardSet, bool),
    /// Look at all jobs again and claim the free ones without waiting for other nodes (S1-85).
    Claim,
    /// Drain this node: it releases each job after its run (S1-60).
    Drain(NodeName),
    /// End the drain: the node claims jobs again (S1-65).
    Undrain(NodeName),
    /// Cancel a run that this node executes, or is to start or to attempt again.
    Kill(RunId),
    /// Take a lock, or take it once more (S1-09).
    Lock(LockName),
    /// Release a lock, once for each time it was taken.
    Unlock(LockName),
    /// Accept an offer: another node has planned runs for this one; look at the plans of their jobs.
    Offer(Vec<Offer>),
    /// Claim an operation for this beat, for an embedder (S0-24).
    Beat(Operation),
    /// Claim the notification that a fire of a job is late or absent: the node that is answered `Done` sends it.
    Notify(JobName, Occasion, Wall),
    /// Change a setting of the whole cluster.
    Configure(ClusterSetting),
    /// Write the tree in the newest layout that a member knows, if all members know it.
    FinalizeUpgrade,
    /// Mark a node as online again, whatever strikes it has (S0-52).
    Activate(NodeName),
    /// Record what this node processed of a job's data in the interval that is over, for embedders (S2-21).
    Count(JobName, ProcessedItems),
    /// Hand everything over before the process ends: finish what runs, claim nothing, then close the lease.
    Leave,
}

/// One run that another node offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// The run.
    pub run: RunId,
    /// Whether it must be taken, since all other nodes are busy too.
    pub must: bool,
}

/// The reply to an offer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OfferAnswer {
    /// All runs were taken but these, for which there is no slot.
    Taken {
        /// The runs not taken.
        busy: Vec<RunId>,
    },
    /// The node could not be reached; it may or may not have received the offer.
    Unreachable,
}

/// The reply of a node to a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProbeReply {
    /// The epoch under which the node serves as the leader; `None` when it does not serve.
    pub serves: Option<u64>,
}

/// A setting of the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterSetting {
    /// The planner of dispatched jobs: a new node each beat, or the leader.
    Planner(PlannerKind),
    /// The length of a beat in seconds, 1 to 3,600.
    Beat(u32),
    /// How many strikes make a node offline, 1 to 100.
    Strikes(u32),
    /// The wait of a new serving leader.
    Handover(Handover),
    /// How free jobs are spread over nodes.
    Spread(Spread),
}

/// A switch of a sharded job on one node. Each has its own way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeSwitch {
    /// Whether the node fires its shards only when triggered manually; kept through restarts (S2-38).
    Paused(bool),
    /// Whether the node is excluded from the job; kept through restarts (S2-34).
    Disabled(bool),
    /// The node is excluded until it is restarted (S2-39).
    Shutdown,
}

/// Free jobs that a node does not claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnclaimedJobs {
    /// Their number.
    pub jobs: usize,
    /// The reason in words.
    pub why: String,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Done.
    Done,
    /// Done; the result of each job.
    Applied(Vec<(JobName, ApplyResult)>),
    /// The layout in which the tree is written now, and whether it was raised.
    Layout(u32, ApplyResult),
    /// The result for an applied calendar.
    Calendar(CalendarName, ApplyResult),
    /// The trigger is stored under this run.
    Accepted(RunId, Wall),
    /// How many jobs this node claims now, and how many it leaves without an owner.
    Claiming {
        /// Claims sent.
        claims: usize,
        /// The jobs that it leaves, by the first reason.
        left: Vec<UnclaimedJobs>,
    },
    /// The lock is held, under this token, so many times over.
    Locked(Token, u32),
    /// The runs of an offer for which this node has no slot; it takes the others.
    Busy(Vec<RunId>),
    /// The operation belongs to this node for this beat, under this token.
    Beat {
        /// The beat's number.
        beat: u64,
        /// The fencing token for the systems that the operation writes to.
        token: Token,
    },
    /// The command failed; the text states the reason and the fix.
    Refused(Refusal, String),
}

/// The effect of an applied declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyResult {
    /// It created an entry.
    Created,
    /// It replaced an entry.
    Updated,
    /// The same declaration was there already.
    Unchanged,
}

/// Kinds of refusal that programs can tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is no such thing.
    NotFound,
    /// The command is invalid.
    Invalid,
    /// The command conflicts with the present state: another node owns the thing, or it is disabled.
    Conflict,
    /// The node has no trusted lease just now.
    Unavailable,
    /// The outcome is unknown: the command was sent to the registry, which has not answered.
    Unknown,
    /// This node is on standby: the serving leader takes commands.
    Standby,
}
