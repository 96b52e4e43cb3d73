//! Everything that can happen to a node.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::effect::{Reason, Ticket};
use crate::job::Job;
use crate::registry::{AskedAt, Batch, Change, Granted, LeaseId, Outcome};
use crate::shards::ShardSet;
use crate::time::Wall;
use crate::words::{JobName, LockName, NodeName, RequestId, RunId, Token};

/// The number of a command, chosen by the driver; its answer comes back under it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// Time passed.
    Tick,
    /// News of the lease.
    Lease(LeaseEvent),
    /// All cold entries, as asked for by `Effect::List`; `None` when they could not be read.
    Listed(Option<Batch>),
    /// News from the feed. A feed that ended or had a gap shows as `Gap`.
    Changed(Batch),
    /// The feed ended: news may be missing.
    Gap,
    /// The entries asked for by `Effect::Read`; `None` when they could not be read.
    Read(Option<Vec<Change>>),
    /// What became of a commit.
    Committed {
        /// Which.
        ticket: Ticket,
        /// How.
        outcome: Outcome,
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
    /// Whether this node can do its work: its disks take writes and its executor lives (law 7).
    Able(bool),
    /// Somebody wants something.
    Asked(AskId, Command),
}

/// News of the lease.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LeaseEvent {
    /// `open` was answered.
    Opened {
        /// When it was asked.
        asked: AskedAt,
        /// The answer.
        granted: Granted,
    },
    /// `renew` was answered.
    Renewed {
        /// When it was asked.
        asked: AskedAt,
        /// The answer.
        granted: Granted,
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
    Ended(Ended),
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// As it should.
    Succeeded,
    /// With an error of its own.
    Failed,
    /// From outside.
    Stopped(Reason),
}

/// What somebody may want of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Command {
    /// Create or replace jobs; each apart, and the same declaration twice is one (S1-86 … S1-88).
    Apply(Vec<Job>),
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
    Acquire,
    /// Let this node give up its jobs, each after its run (S1-60).
    Drain(NodeName),
    /// Let it claim again (S1-65).
    Undrain(NodeName),
    /// End a run that this node executes.
    Kill(RunId),
    /// Take a lock, or take it once more (S1-09).
    Lock(LockName),
    /// Give a lock back, once for each time it was taken.
    Unlock(LockName),
    /// Hand everything over, so that the process may end: finish what runs, claim nothing, then close the lease.
    Leave,
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

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Done.
    Done,
    /// Done, job by job: what each became.
    Applied(Vec<(JobName, Applied)>),
    /// The request stands under this run.
    Accepted(RunId, Wall),
    /// How many jobs this node claims now, and how many nobody holds.
    Claiming {
        /// Claims sent.
        claims: usize,
        /// Jobs left without a holder because of the quota.
        left: usize,
    },
    /// The lock is held, under this token, so many times over.
    Locked(Token, u32),
    /// It cannot be done; the text says why and the fix.
    Refused(Refusal, String),
}

/// What an applied declaration did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Applied {
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
}
