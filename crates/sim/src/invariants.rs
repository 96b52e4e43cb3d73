//! The watch: sees everything that truly happens in a world, and says which invariant broke first.
//!
//! It keeps books of its own. What nodes believe is looked at only where an invariant is about belief. Each file watches
//! over one kind of thing; `docs/invariants.md` says what each number means.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Ticket, Verdict};
use evenkeel_core::ids::{JobName, LockName, Member, NodeName, RunId, Token};
use evenkeel_core::record::Layouts;
use evenkeel_core::registry::{Change, Txn};
use evenkeel_core::time::Mono;

use crate::faults::kinds;

mod after_completion;
mod assignments;
mod belief_checks;
mod calendars;
mod cancels;
mod dispatched;
mod generations;
mod labels;
mod node_choices;
mod overlap;
mod peers;
mod plans;
mod pools;
pub(crate) mod quiet_cluster;
mod retries;
mod run_states;
mod runs;
mod sharding;
mod tickets;
mod tracks;
mod versions;

pub(crate) use cancels::is_manual;
pub(crate) use tracks::JobTrack;

use belief_checks::BeliefTrack;
use tickets::TicketTrack;

kinds! {
    /// What the watch looks after. The numbers are those of `docs/invariants.md`.
    Invariant:
    /// One holder a token, and tokens only grow.
    I1 = "I1",
    /// Nothing of an older holder is accepted after something of a newer one.
    I2 = "I2",
    /// No effect at or after the end of trust.
    I3 = "I3",
    /// Whoever's lease ends believes in it no more, and runs nothing.
    I4 = "I4",
    /// A new leader does nothing before it has waited.
    I5 = "I5",
    /// Who does not serve neither orders nor plans.
    I6 = "I6",
    /// A leader loads, waits, and serves, in this order.
    I7 = "I7",
    /// Versions of a declaration only rise.
    I8 = "I8",
    /// Of two edits of one version one is made.
    I9 = "I9",
    /// Who does not hold can neither renew nor release.
    I10 = "I10",
    /// In each beat an operation is one node's.
    I11 = "I11",
    /// A job has a leader once somebody can stand, and it changes only when the one before is gone.
    I12 = "I12",
    /// No wait is for ever.
    I13 = "I13",
    /// Each fire is claimed at most once.
    I14 = "I14",
    /// A job never runs beside itself.
    I15 = "I15",
    /// Every due fire is claimed, or skipped with a reason.
    I16 = "I16",
    /// Nothing starts before it is due.
    I17 = "I17",
    /// Everything that starts was claimed before, for a fire or a request.
    I18 = "I18",
    /// At most once is at most once, at least once at least once.
    I19 = "I19",
    /// Attempts count 1, 2, 3, each after the one before has ended.
    I20 = "I20",
    /// What a lost node left is taken over once.
    I21 = "I21",
    /// One final state.
    I22 = "I22",
    /// Only fires beyond the grace are skipped.
    I23 = "I23",
    /// A request by hand runs once.
    I24 = "I24",
    /// At rest every shard is one node's that takes part.
    I27 = "I27",
    /// Shares never change under a run.
    I28 = "I28",
    /// Only the leader cuts, and a cut is whole.
    I29 = "I29",
    /// While the shares are marked nothing is claimed.
    I30 = "I30",
    /// A change leaves its mark, or a later cut saw it.
    I31 = "I31",
    /// The same nodes get the same shares.
    I32 = "I32",
    /// A new number of shards concerns the next run.
    I33 = "I33",
    /// Shares differ by one shard at most.
    I34 = "I34",
    /// Quotas of the nodes at work suffice while no more than n are missing.
    I35 = "I35",
    /// A claim never goes beyond the quota.
    I36 = "I36",
    /// At rest every enabled job has one holder.
    I37 = "I37",
    /// A drained node claims nothing new and ends up empty.
    I38 = "I38",
    /// A node that is undrained claims at once what it may.
    I39 = "I39",
    /// The alarm sounds when a claim goes above the threshold, and only then.
    I40 = "I40",
    /// A deleted job starts nothing.
    I41 = "I41",
    /// Each run is planned for the node with most free slots.
    I42 = "I42",
    /// The wait before a beat is what the load demands.
    I43 = "I43",
    /// A node is offline after strikes in enough beats, and online again only when it was reached, activated or restarted.
    I44 = "I44",
    /// Who is cut off from the registry takes no work.
    I45 = "I45",
    /// Every outcome that a node takes for final is what the registry did.
    I46 = "I46",
    /// Only who knows the layout is a member or writes.
    I49 = "I49",
    /// Once faults end, everything comes to rest.
    I53 = "I53",
    /// No run starts on a node that its job may not run on.
    I54 = "I54",
    /// No more runs of a pool go on at once than its jobs allow.
    I55 = "I55",
    /// Deciding about everything is deciding about what was touched.
    Touched = "touched",
    /// Broken on purpose, to see that it is told.
    Sentinel = "canary",
}

/// An invariant that broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvariantViolation {
    /// Which.
    pub invariant: Invariant,
    /// When, in milliseconds since the world began.
    pub at: i64,
    /// How.
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
    /// Whose, and which process.
    pub node: &'a NodeName,
    pub life: u64,
    /// As whom it was decided on; looked up by the watch.
    pub member: Option<&'a Member>,
    pub ticket: Ticket,
    pub kind: CommitKind,
    pub txn: &'a Txn,
    /// The keys written, as they stood before.
    pub before: &'a [Change],
    pub applied: bool,
}

/// What the watch found: how often each invariant was put to the test, and the first that broke.
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
    /// The invariant was put to the test, and holds if `holds`.
    pub(crate) fn test(&mut self, at: i64, invariant: Invariant, holds: bool, text: impl FnOnce() -> String) {
        self.tested[invariant as usize] += 1;
        if !holds && self.broken.is_none() {
            self.broken = Some(InvariantViolation { invariant, at, text: text() });
        }
    }
}

/// The verdicts that history holds.
pub(crate) type RecordedVerdicts = BTreeMap<(RunId, u32), Verdict>;

/// The watch.
#[derive(Clone)]
pub struct InvariantChecker {
    findings: InvariantResults,
    jobs: BTreeMap<JobName, JobTrack>,
    beliefs: BTreeMap<NodeName, BeliefTrack>,
    tickets: BTreeMap<(NodeName, u64, Ticket), TicketTrack>,
    lock_tokens: BTreeMap<(LockName, Token), Member>,
    peers: peers::PeerTrack,
    calendars: calendars::StoredCalendars,
    /// The layouts that the program of each member knows.
    knows: BTreeMap<Member, Layouts>,
    /// Members that joined and whose entry is gone.
    gone: BTreeSet<Member>,
    past: generations::GenerationTrack,
    starts: u64,
    sentinel: bool,
}

impl InvariantChecker {
    /// A watch that has seen nothing. With `canary` it finds the first start wrong.
    #[must_use]
    pub fn new(canary: bool) -> Self {
        Self {
            findings: InvariantResults::default(),
            jobs: BTreeMap::new(),
            beliefs: BTreeMap::new(),
            tickets: BTreeMap::new(),
            lock_tokens: BTreeMap::new(),
            peers: peers::PeerTrack::default(),
            calendars: calendars::StoredCalendars::new(),
            knows: BTreeMap::new(),
            gone: BTreeSet::new(),
            past: generations::GenerationTrack::default(),
            starts: 0,
            sentinel: canary,
        }
    }

    /// The first invariant that broke, if one did.
    #[must_use]
    pub fn broken(&self) -> Option<&InvariantViolation> {
        self.findings.broken.as_ref()
    }

    /// How often each invariant was put to the test, if it was.
    #[must_use]
    pub fn tested(&self) -> BTreeMap<Invariant, u64> {
        let counts = Invariant::ALL.iter().copied().zip(self.findings.tested);
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// How many runs physically started.
    #[must_use]
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// The books of all jobs.
    pub(crate) fn jobs(&self) -> &BTreeMap<JobName, JobTrack> {
        &self.jobs
    }

    pub(crate) fn findings(&mut self) -> &mut InvariantResults {
        &mut self.findings
    }
}

/// Until when a node may trust a lease of this term asked for then: at most two thirds of it.
fn trust_ends(asked: Mono, ttl: evenkeel_core::time::Millis) -> Mono {
    asked + evenkeel_core::time::Millis(ttl.0 * 2 / 3)
}
