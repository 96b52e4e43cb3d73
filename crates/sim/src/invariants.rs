//! The invariant checker: observes every physical event of a world, and reports the first violated invariant.
//!
//! It tracks everything itself. It reads a node's state only if an invariant is about what the node believes. Each file
//! checks one kind of thing; `docs/invariants.md` defines the numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Ticket, Verdict};
use evenkeel_core::ids::{JobName, LockName, Member, Namespace, NodeName, RunId, Token};
use evenkeel_core::record::Layouts;
use evenkeel_core::registry::{Change, Txn};
use evenkeel_core::time::Mono;

use crate::faults::kinds;

mod after_completion;
mod assignments;
mod belief_checks;
mod belief_track;
mod calendars;
mod cancels;
mod dispatched;
mod generation_track;
mod generations;
mod labels;
mod node_choices;
mod overlap;
mod peer_track;
mod peers;
mod plans;
mod pools;
pub(crate) mod quiet_cluster;
mod quiet_facts;
mod retries;
mod run_states;
mod runs;
mod sharding;
mod stored_calendars;
mod ticket_track;
mod tickets;
mod tracks;
mod versions;

pub(crate) use cancels::is_manual;
pub(crate) use tracks::JobTrack;

use belief_track::BeliefTrack;
use ticket_track::TicketTrack;

kinds! {
    /// The invariants. The numbers are those of `docs/invariants.md`.
    Invariant:
    /// A token has one owner, and tokens only grow.
    I1 = "I1",
    /// A write of an older owner is not accepted after one of a newer owner.
    I2 = "I2",
    /// A node has no effect at or after the end of its trust.
    I3 = "I3",
    /// A node whose lease ended does not trust it any more, and runs nothing.
    I4 = "I4",
    /// A new leader does nothing before it has waited.
    I5 = "I5",
    /// A node that does not serve neither orders nor plans.
    I6 = "I6",
    /// A leader loads, waits, and serves, in this order.
    I7 = "I7",
    /// Versions of a declaration only rise.
    I8 = "I8",
    /// Of two edits of one version one is applied.
    I9 = "I9",
    /// A node that is not the owner can neither renew nor release.
    I10 = "I10",
    /// In each beat one node does an operation.
    I11 = "I11",
    /// A job has a leader once there is a candidate, and the leader changes only when the one before is gone.
    I12 = "I12",
    /// No wait is for ever.
    I13 = "I13",
    /// Each fire is claimed at most once.
    I14 = "I14",
    /// Two runs of a job never overlap.
    I15 = "I15",
    /// Every due fire is claimed, or skipped with a reason.
    I16 = "I16",
    /// Nothing starts before it is due.
    I17 = "I17",
    /// Everything that starts was claimed before, for a fire or a request.
    I18 = "I18",
    /// The delivery guarantees hold: at most once, and at least once.
    I19 = "I19",
    /// Attempts are numbered 1, 2, 3, and each follows the end of the one before.
    I20 = "I20",
    /// The claims of a lost node are taken over once.
    I21 = "I21",
    /// A run has one final state.
    I22 = "I22",
    /// Only fires beyond the misfire grace are skipped.
    I23 = "I23",
    /// A manual run runs once.
    I24 = "I24",
    /// At rest every shard has one eligible node.
    I27 = "I27",
    /// Shard assignments never change under a run.
    I28 = "I28",
    /// Only the leader reshards, and a reshard covers all shards.
    I29 = "I29",
    /// While a reshard is pending nothing is claimed.
    I30 = "I30",
    /// A change makes a reshard pending, or a later reshard included it.
    I31 = "I31",
    /// The same nodes get the same shard assignments.
    I32 = "I32",
    /// A new number of shards applies to the next run.
    I33 = "I33",
    /// Assignments differ by one shard at most.
    I34 = "I34",
    /// The quotas of the working nodes suffice while no more than n nodes are missing.
    I35 = "I35",
    /// A claim never goes beyond the quota.
    I36 = "I36",
    /// At rest every enabled job has one owner.
    I37 = "I37",
    /// A drained node claims nothing new and ends up empty.
    I38 = "I38",
    /// An undrained node claims at once up to its quota.
    I39 = "I39",
    /// The alarm sounds when a claim goes above the threshold, and only then.
    I40 = "I40",
    /// A deleted job starts nothing.
    I41 = "I41",
    /// Each run is planned for the node with the most free slots.
    I42 = "I42",
    /// The wait before a beat is the one that the load demands.
    I43 = "I43",
    /// A node is offline after strikes in enough beats, and online again only when reached, activated or restarted.
    I44 = "I44",
    /// A node without a connection to the registry accepts no work.
    I45 = "I45",
    /// Every outcome that a node takes for final is the registry's.
    I46 = "I46",
    /// Only nodes that know the layout are members or write.
    I49 = "I49",
    /// Once faults end, everything comes to rest.
    I53 = "I53",
    /// No run starts on a node that is not eligible for its job.
    I54 = "I54",
    /// No more runs of a pool run at once than its limit allows.
    I55 = "I55",
    /// A decision about everything equals the decision about what was touched.
    Touched = "touched",
    /// Violated on purpose, to test that violations are reported.
    Sentinel = "canary",
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvariantViolation {
    /// The invariant.
    pub invariant: Invariant,
    /// The time, in milliseconds since the world began.
    pub at: i64,
    /// The facts.
    pub text: String,
}

impl fmt::Display for InvariantViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}: {}", self.invariant, crate::trace::seconds(self.at), self.text)
    }
}

/// A transaction that the registry answered.
pub(crate) struct CommittedTxn<'a> {
    pub at: i64,
    /// The node, and its process.
    pub node: &'a NodeName,
    pub life: u64,
    /// The member that decided on it; looked up by the checker.
    pub member: Option<&'a Member>,
    pub ticket: Ticket,
    pub kind: CommitKind,
    pub txn: &'a Txn,
    /// The written keys, with their values before.
    pub before: &'a [Change],
    pub applied: bool,
}

/// What the host of a member knows of it when its lease ends.
pub(crate) struct MemberOnHost {
    /// Whether its process still takes the lease for valid.
    pub trusts_lease: bool,
    /// A run of it that goes on, with its attempt.
    pub run: Option<(RunId, u32)>,
}

/// The results: how often each invariant was tested, and the first violation.
#[derive(Clone, Debug)]
pub(crate) struct InvariantResults {
    /// In the order of [`Invariant::ALL`].
    tested: [u64; Invariant::ALL.len()],
    broken: Option<InvariantViolation>,
}

impl Default for InvariantResults {
    fn default() -> Self {
        Self { tested: [0; Invariant::ALL.len()], broken: None }
    }
}

impl InvariantResults {
    /// Tests the invariant, which holds if `holds`.
    pub(crate) fn test(&mut self, at: i64, invariant: Invariant, holds: bool, text: impl FnOnce() -> String) {
        self.tested[invariant as usize] += 1;
        if !holds && self.broken.is_none() {
            self.broken = Some(InvariantViolation { invariant, at, text: text() });
        }
    }
}

/// The verdicts in the history.
pub(crate) type RecordedVerdicts = BTreeMap<(RunId, u32), Verdict>;

/// The invariant checker.
#[derive(Clone)]
pub struct InvariantChecker {
    findings: InvariantResults,
    jobs: BTreeMap<JobName, JobTrack>,
    beliefs: BTreeMap<NodeName, BeliefTrack>,
    tickets: BTreeMap<(NodeName, u64, Ticket), TicketTrack>,
    lock_tokens: BTreeMap<(LockName, Token), Member>,
    peers: peer_track::PeerTrack,
    calendars: stored_calendars::StoredCalendars,
    /// How many runs of each namespace may go on at once, where that is limited.
    runs_max: BTreeMap<Namespace, u32>,
    /// The layouts that each member's program knows.
    knows: BTreeMap<Member, Layouts>,
    /// Members that joined and whose entry is gone.
    gone: BTreeSet<Member>,
    /// The members that a guard removed, or tried to.
    removed: BTreeSet<Member>,
    past: generation_track::GenerationTrack,
    starts: u64,
    sentinel: bool,
}

impl InvariantChecker {
    /// A checker without observations. With `canary` it reports the first start as a violation.
    #[must_use]
    pub fn new(canary: bool) -> Self {
        Self {
            findings: InvariantResults::default(),
            jobs: BTreeMap::new(),
            beliefs: BTreeMap::new(),
            tickets: BTreeMap::new(),
            lock_tokens: BTreeMap::new(),
            peers: peer_track::PeerTrack::default(),
            calendars: stored_calendars::StoredCalendars::new(),
            runs_max: BTreeMap::new(),
            knows: BTreeMap::new(),
            gone: BTreeSet::new(),
            removed: BTreeSet::new(),
            past: generation_track::GenerationTrack::default(),
            starts: 0,
            sentinel: canary,
        }
    }

    /// The first violation, if there is one.
    #[must_use]
    pub fn broken(&self) -> Option<&InvariantViolation> {
        self.findings.broken.as_ref()
    }

    /// How often each tested invariant was tested.
    #[must_use]
    pub fn tested(&self) -> BTreeMap<Invariant, u64> {
        let counts = Invariant::ALL.iter().copied().zip(self.findings.tested);
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// The number of runs that physically started.
    #[must_use]
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// The tracks of all jobs.
    pub(crate) fn jobs(&self) -> &BTreeMap<JobName, JobTrack> {
        &self.jobs
    }

    pub(crate) fn findings(&mut self) -> &mut InvariantResults {
        &mut self.findings
    }
}

/// The time until which a node may trust a lease of this term requested then: at most two thirds of the term.
fn trust_ends(asked: Mono, ttl: evenkeel_core::time::Millis) -> Mono {
    asked + evenkeel_core::time::Millis(ttl.0 * 2 / 3)
}
