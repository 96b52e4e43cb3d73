//! What a rule sees, and what it may decide.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::due::{FORGOTTEN, MisfirePolicy};
use crate::effect::{Event, Run, StopReason, Verdict};
use crate::ids::{JobName, LockName, Member, PoolName, RunId};
use crate::input::{Answer, ApplyResult, CommandId};
use crate::job::Delivery;
use crate::keys::Key;
use crate::lease::LeaseProof;
use crate::local::{CommitScope, Local};
use crate::record::RunState;
use crate::registry::{Guard, Txn, Value};
use crate::time::{Millis, Mono, Now, Wall};
use crate::view::{JobId, JobTerms, JobView, MemberState, View};

/// Everything a rule may look at. A scene exists only while the lease is trusted.
#[derive(Clone, Copy, Debug)]
pub struct RuleContext<'a> {
    /// Both clocks.
    pub now: Now,
    /// Proof that the node may act.
    pub lease: LeaseProof,
    /// Who the node is, in this life.
    pub member: &'a Member,
    /// Its membership; `None` while it is no member.
    pub me: Option<&'a MemberState>,
    /// What it believes.
    pub view: &'a View,
    /// Its own affairs.
    pub local: &'a Local,
}

/// One thing a rule would have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RuleAction {
    /// Make this transaction.
    Commit(CommitScope, CommitKind, Txn),
    /// Ask this member, at this address, in this beat, whether it can be reached.
    Probe(Member, String, u64),
    /// Offer this run to this member; whether it must take it.
    Offer(JobId, RunId, Member, bool),
    /// Start this attempt.
    Start(JobId, Run),
    /// End the run of this job.
    Stop(JobId, RunId, StopReason),
    /// Read these lanes of this job.
    Read(JobId, Vec<Key>),
    /// Hand this verdict to history.
    Record(Verdict),
    /// Say this once while it holds.
    Announce(Event),
    /// A wish is settled.
    CompleteItem(CommandId, u32, ItemOutcome),
    /// This lock is held so many times over from now on.
    SetLockCount(LockName, u32),
    /// Look at this job again at this moment.
    JobAt(JobId, Wall),
    /// Look at this job again at this moment of our own clock.
    JobAfter(JobId, Mono),
    /// Read the plan of this job again at this moment.
    Reread(JobId, Wall),
    /// Look at this job when trust or the clocks have moved.
    JobAwaitsTrust(JobId),
    /// Plan this job when there is somebody whom runs can be given to.
    JobUnplaced(JobId),
    /// The runs of this job were spread anew over the nodes.
    JobSpread(JobId),
    /// Look at this job when a slot is free; it is due then.
    JobAwaitsSlot(JobId, Wall),
    /// Look at this job when there may be a seat in this pool; its run is due then. Whether nobody went before it now.
    JobAwaitsPermit(PoolName, JobId, Wall, bool),
    /// Step again no later than this.
    Wake(Mono, &'static str),
    /// Everything is handed over.
    Departed,
}

/// How a wish was settled.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ItemOutcome {
    /// A declaration became this.
    Applied(JobName, ApplyResult),
    /// With this answer.
    Answer(Answer),
}

/// What the rules of one step would have, in order.
#[derive(Clone, Debug, Default)]
pub struct RuleOutput {
    /// The list.
    pub actions: Vec<RuleAction>,
    /// How many fires were claimed, and shards started, in this step: each takes a slot.
    pub claimed: usize,
    /// The jobs that take those slots, each once, also where it takes several.
    pub served: Vec<JobId>,
    /// The jobs that take seats in pools.
    pub permits: Vec<(PoolName, JobId)>,
    /// How many transactions of this step a fire's start waits for.
    pub paced: usize,
    /// The lanes that firing writes in the first place, and how they are written: they need not be decoded again.
    pub run_states: BTreeMap<JobId, (Value, RunState)>,
    /// What to tell about the transactions.
    pub notices: Vec<CommitNotice>,
    /// To whom the runs go that are planned in this step, when each begins and how long it is expected to take.
    pub placing: BTreeMap<JobId, Vec<(Member, Wall, Millis)>>,
    /// Whom to tell that a run of theirs may be accepted now.
    pub acceptable_runs: Vec<(JobId, RunId, Member)>,
}

/// Something to tell about a transaction.
#[derive(Clone, Debug)]
pub struct CommitNotice {
    /// The transaction's subject.
    pub scope: CommitScope,
    /// Whether it is told when the transaction is sent; otherwise once it is applied.
    pub sent: bool,
    /// What.
    pub event: Event,
}

/// A rule: a pure function of the scene. It has no memory and no clock of its own.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, as in the documentation.
    pub name: &'static str,
    /// What it decides about.
    pub decide: RuleFn,
}

/// What a rule decides about.
#[derive(Clone, Copy, Debug)]
pub enum RuleFn {
    /// The node as a whole; asked in every step.
    Node(fn(&RuleContext<'_>, &mut RuleOutput)),
    /// One job; asked only about jobs that were touched or are due.
    Job(fn(&RuleContext<'_>, JobId, &mut RuleOutput)),
    /// All jobs of a step together; asked only about jobs that were touched or are due.
    Jobs(fn(&RuleContext<'_>, &[JobId], &mut RuleOutput)),
}

impl<'a> RuleContext<'a> {
    /// The guard on the node's own membership, which every transaction carries (law 5); `None` while it is no member.
    #[must_use]
    pub fn born(&self) -> Option<Guard> {
        self.me.map(|me| Guard::Born(me.key.clone(), me.born))
    }

    /// Whether nobody has a commit under way about this.
    #[must_use]
    pub fn is_idle(&self, subject: &CommitScope) -> bool {
        !self.local.busy.contains(subject)
    }

    /// Whether this node holds the job.
    #[must_use]
    pub fn holds(&self, job: &JobView<'_>) -> bool {
        job.owner() == Some(self.member)
    }

    /// Whether somebody wants this node drained (S1-38).
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.view.intent(&self.member.node).is_some()
    }

    /// Whether the node gives up its jobs: drained by wish, leaving, or unable to work.
    #[must_use]
    pub fn gives_up(&self) -> bool {
        self.is_drained() || self.local.yields(self.now.mono)
    }

    /// Whether the node takes on runs of the job: it is able and wanted, and fits.
    #[must_use]
    pub fn takes(&self, job: &JobView<'_>) -> bool {
        !self.gives_up() && self.local.unable.is_none() && job.fits(self.member)
    }

    /// What becomes of fires of a job that are late. Of one that is to run at most once no fire runs that may have run before
    /// the registry forgot it.
    #[must_use]
    pub fn policy(&self, terms: &JobTerms) -> MisfirePolicy {
        let lost = self.lost().filter(|_| terms.delivery == Delivery::AtMostOnce);
        MisfirePolicy { lost, ..terms.misfire.policy(self.local.settings.ttl) }
    }

    /// Why what waits since this moment is not to begin: it may have begun before, and the registry forgot it.
    #[must_use]
    pub fn forgot(&self, delivery: Delivery, since: Wall) -> Option<&'static str> {
        (delivery == Delivery::AtMostOnce && self.lost() >= Some(since)).then_some(FORGOTTEN)
    }

    /// Since when waits what begins to wait now: by the registry's clock where the own one is off, and after all that the
    /// registry may have forgotten.
    #[must_use]
    pub fn moment(&self) -> Wall {
        let other = self.local.lease.registry_time(self.now).filter(|_| !self.clock_agrees());
        let now = other.unwrap_or(self.now.wall);
        self.lost().map_or(now, |lost| now.max(lost + Millis(1)))
    }

    /// The moment by which the registry may have forgotten what was done.
    fn lost(&self) -> Option<Wall> {
        self.view.cluster().value.as_ref()?.lost
    }

    /// Whether the clocks agree well enough to claim fires (law 6).
    #[must_use]
    pub fn clock_agrees(&self) -> bool {
        let off = self.local.lease.difference(self.now);
        off.is_none_or(|by| by <= self.local.settings.max_clock_skew)
    }

    /// A job by its number.
    #[must_use]
    pub fn job(&self, id: JobId) -> JobView<'a> {
        self.view.job(id)
    }
}

impl RuleOutput {
    /// Adds a decision.
    pub fn add(&mut self, decision: RuleAction) {
        self.actions.push(decision);
    }

    /// Whether a transaction about this is among the decisions from this one on. Others keep nothing of it waiting.
    #[must_use]
    pub fn commits_since(&self, first: usize, about: &CommitScope) -> bool {
        self.actions
            .iter()
            .skip(first)
            .any(|decision| matches!(decision, RuleAction::Commit(of, ..) if of == about))
    }

    /// A job takes a slot with what was just decided.
    pub fn take_slot(&mut self, id: JobId) {
        self.claimed += 1;
        if self.served.last() != Some(&id) {
            self.served.push(id);
        }
    }

    /// A fire or an attempt is claimed. One of a job that is in a pool takes its slot, and has its turn, only with its seat.
    pub fn claim(&mut self, view: &View, id: JobId) {
        match view.is_pooled(id) {
            true => self.claimed += 1,
            false => self.take_slot(id),
        }
    }

    /// How many runs are started by the decisions from this one on.
    #[must_use]
    pub fn starts_since(&self, first: usize) -> usize {
        self.actions.iter().skip(first).filter(|decision| matches!(decision, RuleAction::Start(..))).count()
    }

    /// Adds a transaction.
    pub fn commit(&mut self, subject: CommitScope, kind: CommitKind, txn: Txn) {
        self.paced += usize::from(kind.is_paced());
        self.add(RuleAction::Commit(subject, kind, txn));
    }
}
