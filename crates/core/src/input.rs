//! Everything that can happen to a node.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::calendar::Calendar;
use crate::effect::{StopReason, Ticket};
use crate::ids::{CalendarName, JobName, LockName, Member, NodeName, Operation, RequestId, RunId, Token};
use crate::job::{Job, Occasion};
use crate::load::HostLoad;
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
    /// News of the lease.
    Lease(LeaseEvent),
    /// All cold entries, as asked for by `Effect::List`; `None` when they could not be read.
    Listed(Option<ChangeBatch>),
    /// News from the feed. A feed that ended or had a gap shows as `Gap`.
    Changed(ChangeBatch),
    /// The feed ended: news may be missing.
    Gap,
    /// The entries asked for by `Effect::Read`; `None` when they could not be read.
    Read(Option<Vec<Change>>),
    /// What became of a commit.
    Committed {
        /// Which.
        ticket: Ticket,
        /// How.
        outcome: TxnOutcome,
    },
    /// News of a run.
    Run {
        /// Which.
        id: RunId,
        /// Which attempt of it.
        attempt: u32,
        /// What.
        event: RunEvent,
    },
    /// History has the verdict on this attempt.
    Recorded {
        /// Which run.
        run: RunId,
        /// Which attempt.
        attempt: u32,
    },
    /// Whether another node answered a probe, asked at this moment (S0-46).
    Probed {
        /// Which life of it was asked.
        member: Member,
        /// When.
        asked: RequestedAt,
        /// What it said; `None` when it could not be reached.
        answer: Option<ProbeReply>,
    },
    /// What became of an offer.
    Offered {
        /// To whom it was made.
        to: Member,
        /// Which runs.
        runs: Vec<RunId>,
        /// How it was answered.
        answer: OfferAnswer,
    },
    /// What was measured of this host.
    Sampled(HostLoad),
    /// Whether this node can do its work: its disks take writes and its executor lives (law 7).
    Able(bool),
    /// Whether the node is to begin nothing new, because it is about to be passed on to another program.
    Rest(bool),
    /// Somebody wants something.
    Asked(CommandId, Command),
    /// The same; the text is the name that the request gave of the one who asks.
    AskedBy(CommandId, String, Command),
}

/// News of the lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseEvent {
    /// `open` was answered.
    Opened {
        /// When it was asked.
        asked: RequestedAt,
        /// The answer.
        granted: LeaseGrant,
    },
    /// `renew` was answered.
    Renewed {
        /// When it was asked.
        asked: RequestedAt,
        /// The answer.
        granted: LeaseGrant,
    },
    /// The engine says that this lease has ended.
    Gone(LeaseId),
    /// `open` or `renew` had no answer.
    Failed,
}

/// News of a run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunEvent {
    /// It did not start and will not: it was too late, or there was no means. The attempt may be given again.
    NotStarted,
    /// It ended.
    Ended(RunOutcome),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// As it should.
    Succeeded,
    /// With an error of its own; a command with this exit code, unless a signal ended it or it could not be started.
    Failed(Option<u8>),
    /// From outside.
    Stopped(StopReason),
}

/// What somebody may want of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Create or replace jobs; each apart, and the same declaration twice is one (S1-86 … S1-88).
    Apply(Vec<Job>),
    /// Create or replace a calendar; the same declaration twice is one.
    Calendar(Box<Calendar>),
    /// Delete a calendar that no job names.
    DeleteCalendar(CalendarName),
    /// Keep the job's holder and fire only by hand.
    Pause(JobName),
    /// Fire again, from now on.
    Resume(JobName),
    /// Let the job be held and fire, from now on.
    Enable(JobName),
    /// Let nobody hold the job.
    Disable(JobName),
    /// Delete the job.
    Delete(JobName),
    /// Run the job once, now; the same id asks once.
    RunNow(JobName, RequestId),
    /// Run this node's shards of a sharded job once, now.
    RunOn(JobName, RequestId, NodeName),
    /// Switch something of a sharded job on one node.
    Switch(JobName, NodeName, NodeSwitch),
    /// Let every node of this moment take no part in a sharded job, each until it is started again.
    Shutdown(JobName),
    /// Switch these shards of a sharded job on or off.
    Shards(JobName, ShardSet, bool),
    /// Look at all jobs again and claim what nobody holds, without waiting for others (S1-85).
    Claim,
    /// Let this node give up its jobs, each after its run (S1-60).
    Drain(NodeName),
    /// Let it claim again (S1-65).
    Undrain(NodeName),
    /// End a run that this node executes, or is to start or to attempt again.
    Kill(RunId),
    /// Take a lock, or take it once more (S1-09).
    Lock(LockName),
    /// Give a lock back, once for each time it was taken.
    Unlock(LockName),
    /// Another node has planned runs for this one: look at the plans of their jobs.
    Offer(Vec<Offer>),
    /// Take an operation for this beat, for an embedder (S0-24).
    Beat(Operation),
    /// Tell people that a fire of a job is late, or absent: who is answered `Done` is the one who tells.
    Notify(JobName, Occasion, Wall),
    /// Set something for the whole cluster.
    Configure(ClusterSetting),
    /// Write the tree in the newest layout that a member knows, if all members know it.
    FinalizeUpgrade,
    /// Take a node for online again, whatever strikes it has (S0-52).
    Activate(NodeName),
    /// Write down what this node processed of a job's data in the interval that is over, for embedders (S2-21).
    Count(JobName, ProcessedItems),
    /// Hand everything over, so that the process may end: finish what runs, claim nothing, then close the lease.
    Leave,
}

/// One run that another node offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// Which.
    pub run: RunId,
    /// Whether it must be taken, since everybody else is busy too.
    pub must: bool,
}

/// How an offer was answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum OfferAnswer {
    /// All were taken but these, for which there is no slot.
    Taken {
        /// Those that were not.
        busy: Vec<RunId>,
    },
    /// The node could not be reached; whether it heard the offer nobody knows.
    Unreachable,
}

/// What a node says of itself when it is probed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProbeReply {
    /// The epoch under which it serves as the leader; `None` when it does not.
    pub serves: Option<u64>,
}

/// One thing to be set for the whole cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClusterSetting {
    /// Who plans dispatched jobs.
    Planner(PlannerKind),
    /// The length of a beat in seconds, 1 to 3,600.
    Beat(u32),
    /// How many strikes make a node offline, 1 to 100.
    Strikes(u32),
    /// What a new serving leader waits for.
    Handover(Handover),
    /// How free jobs are spread over nodes.
    Spread(Spread),
}

/// What of a job can be switched for one node, each with its own way back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeSwitch {
    /// Whether it fires its shards only by hand; holds through restarts (S2-38).
    Paused(bool),
    /// Whether it takes no part; holds through restarts (S2-34).
    Disabled(bool),
    /// It takes no part until it is started again (S2-39).
    Shutdown,
}

/// Free jobs that a node does not claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UnclaimedJobs {
    /// How many they are.
    pub jobs: usize,
    /// Why it does not, in words.
    pub why: String,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Done.
    Done,
    /// Done, job by job: what each became.
    Applied(Vec<(JobName, ApplyResult)>),
    /// The layout in which the tree is written now; whether it was raised.
    Layout(u32, ApplyResult),
    /// What an applied calendar became.
    Calendar(CalendarName, ApplyResult),
    /// The request stands under this run.
    Accepted(RunId, Wall),
    /// How many jobs this node claims now, and how many it leaves without a holder.
    Claiming {
        /// Claims sent.
        claims: usize,
        /// The jobs that it leaves, by the first reason for it.
        left: Vec<UnclaimedJobs>,
    },
    /// The lock is held, under this token, so many times over.
    Locked(Token, u32),
    /// The runs of an offer for which this node has no slot; the others it takes.
    Busy(Vec<RunId>),
    /// The operation is this node's for this beat, under this token.
    Beat {
        /// The beat's number.
        beat: u64,
        /// For whoever is written to by the operation.
        token: Token,
    },
    /// It cannot be done; the text says why and the fix.
    Refused(Refusal, String),
}

/// What an applied declaration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApplyResult {
    /// It is new.
    Created,
    /// It replaces another.
    Updated,
    /// It was there already.
    Unchanged,
}

/// Kinds of refusal, as programs tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is no such thing.
    NotFound,
    /// It makes no sense.
    Invalid,
    /// It does not go with what is: somebody else holds it, or it is disabled.
    Conflict,
    /// The node has no trusted lease just now.
    Unavailable,
    /// Nobody knows whether it was done: it was sent to the registry, which has not answered.
    Unknown,
    /// This node is on standby: the serving leader takes orders.
    Standby,
}
