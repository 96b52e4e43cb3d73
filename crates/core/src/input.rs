//! The inputs of a node: everything that can happen to it.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use crate::effect::Ticket;
use crate::ids::{CalendarName, JobName, Member, Namespace, RunId, Token};
use crate::load::HostLoad;
pub use crate::outcome::RunOutcome;
use crate::record::Backfill;
use crate::registry::{Change, ChangeBatch, LeaseGrant, LeaseId, RequestedAt, TxnOutcome};
use crate::time::Wall;

mod command;
mod declaration;
mod offer;
mod precondition;

pub use command::{
    BackfillOptions, ClusterSetting, Command, CommandDescription, CommandKind, CommandObject, NodeSwitch,
    ObjectKind, RunOptions,
};
pub use declaration::{Declaration, SameDeclaration};
pub use offer::{Offer, OfferAnswer, ProbeReply};
pub use precondition::Precondition;

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
    /// It was so already: nothing was changed.
    Unchanged,
    /// Done; the result of each job.
    Applied(Vec<(JobName, ApplyResult)>),
    /// The layout in which the tree is written now, and whether it was raised.
    Layout(u32, ApplyResult),
    /// The result for an applied calendar.
    Calendar(CalendarName, ApplyResult),
    /// The result for an applied namespace.
    Namespace(Namespace, ApplyResult),
    /// The trigger is stored under this run.
    Accepted(RunId, Wall),
    /// The backfill is stored, as it stands.
    Backfill(Box<Backfill>),
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
    /// The object has this version, 0 where there is none, and the caller wants another one.
    Stale(u64),
    /// The caller lacks the role on the job, by the labels that the job has.
    Forbidden,
}
