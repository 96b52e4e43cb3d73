//! The context that a rule reads, and the output it produces.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::commit_kind::CommitKind;
use crate::due::{FORGOTTEN, MisfirePolicy};
use crate::effect::{Event, Run, StopReason, Verdict};
use crate::ids::{LockName, Member, RunId};
use crate::input::CommandId;
use crate::job::Delivery;
use crate::keys::Key;
use crate::lease::LeaseProof;
use crate::local::{CommitScope, ItemOutcome, Local, PlacedRun, Waiter};
use crate::record::RunState;
use crate::registry::{Guard, Revision, Txn, Value};
use crate::run_limit::RunLimit;
use crate::time::{Millis, Mono, Now, Wall};
use crate::view::{JobId, JobTerms, JobView, MemberState, View};

/// Everything a rule may look at. A context exists only while the lease is trusted.
#[derive(Clone, Copy, Debug)]
pub struct RuleContext<'a> {
    /// Both clocks.
    pub now: Now,
    /// Proof that the node may act.
    pub lease: LeaseProof,
    /// The identity of the node in this life.
    pub member: &'a Member,
    /// Its membership; `None` while it is no member.
    pub me: Option<&'a MemberState>,
    /// The node's view of the registry.
    pub view: &'a View,
    /// The node's own state.
    pub local: &'a Local,
}

/// One action that a rule asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RuleAction {
    /// Commit this transaction.
    Commit(CommitScope, CommitKind, Txn),
    /// Probe this member, at this address, in this beat.
    Probe(Member, String, u64),
    /// Offer this run to this member; whether the member must take it.
    Offer(JobId, RunId, Member, bool),
    /// Start this attempt.
    Start(JobId, Run),
    /// End the run of this job.
    Stop(JobId, RunId, StopReason),
    /// Read these run states of this job.
    Read(JobId, Vec<Key>),
    /// Read the loads of the nodes, for which this job waits.
    ReadLoads(Option<JobId>),
    /// Hand this verdict to the history.
    Record(Verdict),
    /// Report this event once while it holds.
    Announce(Event),
    /// A command item is complete.
    CompleteItem(CommandId, u32, ItemOutcome),
    /// This lock is taken this many times from now on.
    SetLockCount(LockName, u32),
    /// Look at this job again at this moment.
    JobAt(JobId, Wall),
    /// Look at this job again when a fire that begins at this moment may be claimed.
    JobBeforeFire(JobId, Wall),
    /// Look at this job again at this moment of our own clock.
    JobAfter(JobId, Mono),
    /// Read the plan of this job again at this moment.
    Reread(JobId, Wall),
    /// Look at this job when the lease's trust or the clocks have changed.
    JobAwaitsTrust(JobId),
    /// Plan this job when there is a node that can take its runs.
    JobUnplaced(JobId),
    /// The runs of this job were spread anew over the nodes.
    JobSpread(JobId),
    /// Look at this job when a slot is free, in its turn.
    JobAwaitsSlot(Waiter),
    /// Look at this job when this limit may have a free permit; its run is due then. Whether the job was first in line.
    JobAwaitsPermit(RunLimit, JobId, Wall, bool),
    /// Step again no later than this.
    Wake(Mono, &'static str),
    /// Everything is handed over.
    Departed,
}

/// The output of the rules in one step, in order.
#[derive(Clone, Debug, Default)]
pub struct RuleOutput {
    /// The actions.
    pub actions: Vec<RuleAction>,
    /// How many fires were claimed, and shards started, in this step: each takes a slot.
    pub claimed: usize,
    /// The jobs that take those slots, each once, also where it takes several.
    pub served: Vec<JobId>,
    /// The jobs that take permits, with the limits.
    pub permits: Vec<(RunLimit, JobId)>,
    /// How many transactions of this step a fire's start waits for.
    pub paced: usize,
    /// The run states that the first writes of firing's transactions write: they need not be decoded again.
    pub run_states: BTreeMap<JobId, (Value, RunState)>,
    /// The notices about the transactions.
    pub notices: Vec<CommitNotice>,
    /// The runs planned in this step.
    pub placing: BTreeMap<JobId, Vec<PlacedRun>>,
    /// The members that may accept a run after this step's transactions, with the run's job.
    pub acceptable_runs: Vec<(JobId, RunId, Member)>,
}

/// An event to report about a transaction.
#[derive(Clone, Debug)]
pub struct CommitNotice {
    /// The scope of the transaction.
    pub scope: CommitScope,
    /// Whether it is reported when the transaction is sent; otherwise once it is applied.
    pub sent: bool,
    /// The event.
    pub event: Event,
}

/// A rule: a pure function of the context. It has no memory and no clock of its own.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, as in the documentation.
    pub name: &'static str,
    /// Its function.
    pub decide: RuleFn,
}

/// The function of a rule, by what it decides about.
#[derive(Clone, Copy, Debug)]
pub enum RuleFn {
    /// The node as a whole; called in every step.
    Node(fn(&RuleContext<'_>, &mut RuleOutput)),
    /// One job; called only for jobs that were touched or are due.
    Job(fn(&RuleContext<'_>, JobId, &mut RuleOutput)),
    /// All jobs of a step together; called only for jobs that were touched or are due.
    Jobs(fn(&RuleContext<'_>, &[JobId], &mut RuleOutput)),
}

impl<'a> RuleContext<'a> {
    /// The guard on the node's own membership, which every transaction carries (law 5); `None` while it is no member.
    #[must_use]
    pub fn born(&self) -> Option<Guard> {
        self.me.map(|me| Guard::Born(me.key.clone(), me.born))
    }

    /// Whether no commit of this scope is in flight.
    #[must_use]
    pub fn is_idle(&self, scope: &CommitScope) -> bool {
        !self.local.commits.is_busy(scope)
    }

    /// Whether this node owns the job.
    #[must_use]
    pub fn holds(&self, job: &JobView<'_>) -> bool {
        job.owner() == Some(self.member)
    }

    /// Whether a drain of this node is requested (S1-38).
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.view.intent(&self.member.node).is_some()
    }

    /// Whether this node is cordoned: it keeps what it has and gets nothing new.
    #[must_use]
    pub fn is_cordoned(&self) -> bool {
        self.view.is_cordoned(&self.member.node)
    }

    /// Whether the node gives up its jobs: draining, leaving, or unable to work.
    #[must_use]
    pub fn gives_up(&self) -> bool {
        self.is_drained() || self.local.gives_up(self.now.mono)
    }

    /// Whether the node runs the job's runs that are its own: it is able, not draining, and eligible. A cordoned node
    /// does, though it gets no more of them.
    #[must_use]
    pub fn takes(&self, job: &JobView<'_>) -> bool {
        !self.gives_up() && self.local.availability.is_able() && job.fits(self.member)
    }

    /// The misfire policy of a job. Of an at-most-once job no fire runs that may have run before
    /// the registry lost it.
    #[must_use]
    pub fn policy(&self, terms: &JobTerms) -> MisfirePolicy {
        let lost = self.lost().filter(|_| terms.delivery == Delivery::AtMostOnce);
        MisfirePolicy { lost, ..terms.misfire().policy(self.local.settings.ttl) }
    }

    /// Why work that waits since this moment must not begin: it may have begun before, and the registry lost that.
    #[must_use]
    pub fn forgot(&self, delivery: Delivery, since: Wall) -> Option<&'static str> {
        (delivery == Delivery::AtMostOnce && self.lost() >= Some(since)).then_some(FORGOTTEN)
    }

    /// The start of a wait that begins now: by the registry's clock where the own one is off, and after everything that
    /// the registry may have lost.
    #[must_use]
    pub fn moment(&self) -> Wall {
        let other = self.local.lease.registry_time(self.now).filter(|_| !self.clock_agrees());
        let now = other.unwrap_or(self.now.wall);
        self.lost().map_or(now, |lost| now.max(lost + Millis(1)))
    }

    /// The moment up to which the registry may have lost writes.
    fn lost(&self) -> Option<Wall> {
        self.view.cluster().value.as_ref()?.lost
    }

    /// Whether the loads of the nodes were read at this revision or later. They are in no feed, and a decision that needs
    /// them reads them first.
    #[must_use]
    pub fn knows_loads(&self, since: Revision) -> bool {
        self.view.loads_as_of() >= since
    }

    /// Whether the clocks agree well enough to claim fires (law 6).
    #[must_use]
    pub fn clock_agrees(&self) -> bool {
        let off = self.local.lease.difference(self.now);
        off.is_none_or(|by| by <= self.local.settings.max_clock_skew)
    }

    /// Whether a fire that begins at this moment may be claimed.
    #[must_use]
    pub fn may_claim_before(&self, from: Wall) -> bool {
        from <= self.now.wall + self.local.claim_lead()
    }

    /// Looks at a job again when a fire that begins at this moment may be claimed, or before that at a moment at which it
    /// may turn out to begin earlier.
    pub fn looks_before_fire(&self, id: JobId, from: Wall, changes: Option<Wall>, out: &mut RuleOutput) {
        out.add(RuleAction::JobBeforeFire(id, from));
        out.actions.extend(changes.filter(|at| *at < from).map(|at| RuleAction::JobAt(id, at)));
    }

    /// The action that looks at a job again, whose run is due then, when it is its turn and a slot is free.
    #[must_use]
    pub fn awaits_slot(&self, job: &JobView<'_>, due: Wall) -> RuleAction {
        let again = job.fires_after(self.now.wall.max(due)).unwrap_or(Wall::MAX);
        RuleAction::JobAwaitsSlot(Waiter { priority: Reverse(job.priority()), due, again, id: job.id })
    }

    /// A job by its number.
    #[must_use]
    pub fn job(&self, id: JobId) -> JobView<'a> {
        self.view.job(id)
    }
}

impl RuleOutput {
    /// Adds an action.
    pub fn add(&mut self, decision: RuleAction) {
        self.actions.push(decision);
    }

    /// Whether one of the actions from this one on is a transaction of this scope. Other actions do not delay it.
    #[must_use]
    pub fn commits_since(&self, first: usize, about: &CommitScope) -> bool {
        self.actions
            .iter()
            .skip(first)
            .any(|decision| matches!(decision, RuleAction::Commit(of, ..) if of == about))
    }

    /// A job takes a slot with the last action.
    pub fn take_slot(&mut self, id: JobId) {
        self.claimed += 1;
        self.note_turn(id);
    }

    /// A fire or an attempt is claimed with a commit of this kind. A job that needs
    /// permits takes its slot, and its turn, only with them.
    pub fn claim(&mut self, view: &View, id: JobId, kind: CommitKind) {
        self.claimed += usize::from(kind.takes_slot());
        if view.run_limits(id).is_empty() {
            self.note_turn(id);
        }
    }

    fn note_turn(&mut self, id: JobId) {
        if self.served.last() != Some(&id) {
            self.served.push(id);
        }
    }

    /// How many runs are started by the actions from this one on.
    #[must_use]
    pub fn starts_since(&self, first: usize) -> usize {
        self.actions.iter().skip(first).filter(|decision| matches!(decision, RuleAction::Start(..))).count()
    }

    /// Adds a transaction.
    pub fn commit(&mut self, scope: CommitScope, kind: CommitKind, txn: Txn) {
        self.paced += usize::from(kind.is_paced());
        self.add(RuleAction::Commit(scope, kind, txn));
    }
}
