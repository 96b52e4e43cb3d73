//! The local state of a node: its lease, its commits in flight, and the runs it gave to executors.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::effect::{Event, Ticket};
use crate::handoff::HandoffRun;
use crate::ids::{Fire, JobName, LockName, Member, NodeName, Operation, PoolName, RunId, Shard};
use crate::input::{Answer, ApplyResult, Command, CommandId, RunOutcome};
use crate::job::{Backoff, Job};
use crate::lease::Lease;
use crate::record::RunState;
use crate::registry::{LeaseId, Revision, Txn};
use crate::settings::Settings;
use crate::time::{Millis, Mono, Wall};
use crate::view::JobId;

mod commit_counts;
mod commit_pacer;
mod fair_queue;
mod peer_state;
mod pool_waiters;

pub use commit_counts::CommitCounts;
pub use commit_pacer::CommitPacer;
pub use fair_queue::{FairQueue, Waiter};
pub use peer_state::{Contact, LeaderTerm, OfferState, PeerState, PlansInFlight, SentOffer};
pub use pool_waiters::PoolWaiters;

/// The scope of a commit. At most one commit of each scope is in flight.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitScope {
    /// The node's own membership.
    Membership,
    /// A job that this node owns or wants to own.
    Job(JobId),
    /// A command item, by its command and its index in it.
    Item(CommandId, u32),
    /// A lock that this node holds and no command here asks for any more.
    Lock(LockName),
    /// The load of this node.
    Load,
    /// An operation of a beat.
    Beat(Operation),
    /// This node's strikes against another.
    Strike(NodeName),
    /// Whether a node is offline.
    Offline(NodeName),
    /// Whether this node is drained and owns nothing any more.
    Drained,
    /// The lead of the cluster.
    Serving,
    /// The permits of a pool.
    Pool(PoolName),
}

/// A commit in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingCommit {
    /// Its scope.
    pub scope: CommitScope,
    /// Its kind.
    pub kind: CommitKind,
    /// The transaction, to be sent again while its outcome is unknown (law 5).
    pub txn: Txn,
    /// The run state that its first write writes, if firing had it at hand: then it need not be decoded.
    pub run_state: Option<RunState>,
    /// When it was sent first.
    pub since: Mono,
    /// How many paced commits were in flight then, with this one.
    pub among: usize,
    /// How often it was sent.
    pub tries: u32,
    /// Events to report once it is applied.
    pub events: Vec<Event>,
    /// Members that may accept a run once it is applied. One that is notified earlier reads the entry as it was.
    pub next: Option<(RunId, Member)>,
}

/// A run that was given to an executor, kept until the view shows it closed (law 3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Given {
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: u32,
    /// Its outcome, once it has ended, and when.
    pub ended: Option<(RunOutcome, Mono)>,
    /// Whether its end was asked for.
    pub stopping: bool,
    /// Whether it belongs to a sharded job: those runs take their slots only when they start.
    pub sharded: bool,
    /// Whether and when another attempt follows it, as declared when it was given.
    pub retry: Option<Box<Backoff>>,
}

impl Given {
    /// How it is counted, if it belongs to a sharded job: whether it executes. Then it takes a slot that no claim has
    /// taken for it.
    fn counts(&self) -> Option<bool> {
        self.sharded.then_some(self.ended.is_none())
    }
}

impl HandoffRun {
    pub(crate) fn of(given: &Given) -> Self {
        let Given { run, attempt, ended, stopping, sharded, retry } = given.clone();
        Self { run, attempt, ended: ended.map(|(ended, at)| (ended, at.0)), stopping, sharded, retry }
    }

    pub(crate) fn into_given(self) -> Given {
        let Self { run, attempt, ended, stopping, sharded, retry } = self;
        Given { run, attempt, ended: ended.map(|(ended, at)| (ended, Mono(at))), stopping, sharded, retry }
    }
}

/// The number of runs of a sharded job that were given to executors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ShardRunCounts {
    /// The executing ones.
    pub running: usize,
    /// The ended ones, which wait to be closed.
    pub ended: usize,
}

/// One item of a command: most commands are one item themselves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CommandItem {
    /// One of the job declarations of an `Apply`.
    Job(Box<Job>),
    /// A command as a whole. A `Kill` is one for a run that does not execute here: it is to be neither started nor
    /// attempted again.
    Command(Command),
}

impl CommandItem {
    /// The answer when the time is over for an item that waits for another node or for the registry; `None` where it
    /// never has to wait.
    #[must_use]
    pub fn waits_for(&self) -> Option<&'static str> {
        match self {
            Self::Command(Command::Lock(_)) => Some("another node holds the lock: try again later"),
            Self::Command(Command::FinalizeUpgrade) => Some("the registry was not listed in time: try again"),
            Self::Command(Command::Kill(_)) => Some("the run was not ended in time: try again"),
            _ => None,
        }
    }

    /// Whether only the leader may do it, where one leads the cluster (S4-33).
    #[must_use]
    pub fn needs_leader(&self) -> bool {
        match self {
            Self::Job(_) => true,
            Self::Command(command) => command.describe().is_some_and(|described| described.needs_leader()),
        }
    }

    /// The lock of the item, if it has one.
    #[must_use]
    pub fn lock(&self) -> Option<&LockName> {
        match self {
            Self::Command(Command::Lock(name) | Command::Unlock(name)) => Some(name),
            _ => None,
        }
    }
}

/// A command whose items are not all complete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingCommand {
    /// The command is given up at this moment if an item is still open.
    pub until: Mono,
    /// How many items are open.
    pub open: usize,
    /// Whether it may have to wait for another node, and so must not wait for ever.
    pub may_wait: bool,
    /// The caller's name as the request gave it, to be kept with the switches it sets; empty where it gave none.
    pub by: String,
    /// The result of each applied item.
    pub applied: Vec<(JobName, ApplyResult)>,
    /// The last answer to an item.
    pub answer: Option<Answer>,
}

/// The state that a node keeps for itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Local {
    /// As given at the start.
    pub settings: Settings,
    /// The lease.
    pub lease: Lease,
    /// The state of its peers, as it observed them.
    pub peers: PeerState,
    /// An earlier life of this node that is certainly over; its membership may be deleted.
    pub predecessor: Option<u64>,
    /// Since when the node cannot do its work; `None` while it can (law 7).
    pub unable: Option<Mono>,
    /// Whether it hands over in order to end.
    pub leaving: bool,
    /// Claims do not wait for other nodes until the next listing (S1-85).
    pub eager: bool,
    /// Whether an item was completed for which another one may have waited.
    pub again: bool,
    /// Commits in flight, by ticket.
    pub pending: BTreeMap<Ticket, Box<PendingCommit>>,
    /// The scopes of the commits in flight.
    pub busy: BTreeSet<CommitScope>,
    /// How many commits of each kind are in flight.
    pub acts: CommitCounts,
    /// Limits the claims and confirmations of fires to what the registry has shown that it answers in time.
    pub pace: CommitPacer,
    /// Transactions refused since the view last changed in their scope; not sent again.
    pub spent: BTreeMap<CommitScope, Txn>,
    /// Runs given to executors, in the order of their jobs, shards and fires.
    pub given: BTreeMap<(JobId, Shard, Fire), Given>,
    /// Runs that an earlier program of this process gave to executors, until the jobs have their numbers.
    pub passed: Vec<Given>,
    /// Jobs for which the earlier program had written something that no listing shows, until they have their numbers.
    pub written: Vec<JobName>,
    /// Jobs with such runs or entries, about which nothing is decided until their entries have been read.
    pub unread: BTreeSet<JobId>,
    /// Whether the node continues for an earlier program and has not reported it.
    pub upgraded: bool,
    /// Whether it begins nothing new, because it is about to be handed off.
    pub resting: bool,
    /// How many of these runs each sharded job has; no entry where it has none.
    pub tallies: BTreeMap<JobId, ShardRunCounts>,
    /// How many of these runs are of sharded jobs and still execute.
    pub shards_running: usize,
    /// Run states being read.
    pub reading: BTreeSet<JobId>,
    /// Verdicts handed to the history, and whether it has them.
    pub recording: BTreeMap<(RunId, u32), bool>,
    /// Locks held, and how many times each was taken.
    pub locks: BTreeMap<LockName, u32>,
    /// Open command items.
    pub items: BTreeMap<(CommandId, u32), CommandItem>,
    /// Runs that a command item wants neither started nor attempted again.
    pub called_off: BTreeSet<(RunId, CommandId)>,
    /// Open items that have no commit in flight.
    pub todo: BTreeSet<(CommandId, u32)>,
    /// Open commands.
    pub asking: BTreeMap<CommandId, PendingCommand>,
    /// Commands that wait for the listing that a claim command set off.
    pub claiming: BTreeSet<CommandId>,
    /// Commands that wait for the hand-over.
    pub departing: BTreeSet<CommandId>,
    /// Events that were announced and still hold, so that each is announced once.
    pub announced: Vec<Event>,
    /// Jobs to look at.
    pub agenda: BTreeSet<JobId>,
    /// Jobs to look at when the wall clock gets there.
    pub wheel: BTreeSet<(Wall, JobId)>,
    /// Jobs to look at when our own clock gets there.
    pub timers: BTreeSet<(Mono, JobId)>,
    /// Jobs whose fire the remaining trust does not cover, or that wait for the clocks to agree.
    pub uncertain: BTreeSet<JobId>,
    /// The trust, and whether the clocks agreed, when those jobs were last looked at.
    pub certainty: Option<(Mono, bool)>,
    /// The wall clock at the start of our own, when the waits for it were made.
    pub epoch: Option<Wall>,
    /// Jobs for which an executor or the registry failed: not to be read or started before then.
    pub put_off: BTreeMap<JobId, Mono>,
    /// Whether the node gave up its jobs when its owned jobs were last looked at.
    pub yielding: bool,
    /// Jobs due but without a slot, in a fair order: the first one gets the next slot.
    pub waiting: FairQueue,
    /// Jobs that wait for a permit of a pool.
    pub pool_waiters: PoolWaiters,
    /// When the registry was last listed.
    pub listed: Option<Mono>,
    /// When a listing was requested that was not answered yet.
    pub listing: Option<Mono>,
    /// When to list again, if earlier than the next rescan.
    pub list_at: Mono,
    /// Commits whose outcome is unknown, by when to send them again.
    pub unknown: BTreeSet<(Mono, Ticket)>,
    /// The number of the next commit.
    pub next_ticket: u64,
    /// The intent to drain this node, as it stood when its owned jobs were last looked at.
    pub intent: Option<Revision>,
    /// The life in which this node is a member.
    pub joined: Option<Member>,
    /// The lease whose member entry went, and when that was noticed: whether the lease lives is being checked.
    pub evicted: Option<(LeaseId, Mono)>,
    /// Whether an operator closed the node from outside (S3-30): it asks for nothing more.
    pub closed: bool,
    /// Whether everything was handed over: the node asks for nothing more.
    pub departed: bool,
}

impl Local {
    /// The state of a node that just started.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            lease: Lease::new(settings.ttl, settings.early),
            peers: PeerState::default(),
            predecessor: settings.predecessor,
            settings,
            unable: None,
            leaving: false,
            eager: false,
            again: false,
            pending: BTreeMap::new(),
            busy: BTreeSet::new(),
            acts: CommitCounts::default(),
            pace: CommitPacer::default(),
            spent: BTreeMap::new(),
            given: BTreeMap::new(),
            passed: Vec::new(),
            written: Vec::new(),
            unread: BTreeSet::new(),
            upgraded: false,
            resting: false,
            tallies: BTreeMap::new(),
            shards_running: 0,
            evicted: None,
            closed: false,
            reading: BTreeSet::new(),
            recording: BTreeMap::new(),
            locks: BTreeMap::new(),
            items: BTreeMap::new(),
            called_off: BTreeSet::new(),
            todo: BTreeSet::new(),
            asking: BTreeMap::new(),
            claiming: BTreeSet::new(),
            departing: BTreeSet::new(),
            announced: Vec::new(),
            agenda: BTreeSet::new(),
            wheel: BTreeSet::new(),
            timers: BTreeSet::new(),
            uncertain: BTreeSet::new(),
            certainty: None,
            epoch: None,
            put_off: BTreeMap::new(),
            yielding: false,
            waiting: FairQueue::default(),
            pool_waiters: PoolWaiters::default(),
            listed: None,
            listing: None,
            list_at: Mono(i64::MAX),
            unknown: BTreeSet::new(),
            next_ticket: 1,
            intent: None,
            joined: None,
            departed: false,
        }
    }

    /// The runs of a job that were given to an executor.
    pub fn given_of(&self, job: JobId) -> impl Iterator<Item = (Shard, &Given)> {
        let jobs = self.given.range((job, Shard(0), Fire::FIRST)..);
        jobs.take_while(move |((id, ..), _)| *id == job).map(|((_, shard, _), given)| (*shard, given))
    }

    /// The run of a fire that was given to an executor.
    #[must_use]
    pub fn given_to(&self, job: JobId, run: &RunId) -> Option<&Given> {
        self.given.get(&key(job, run))
    }

    /// Whether a shard's run, of whichever fire, was given to an executor.
    #[must_use]
    pub fn is_given(&self, job: JobId, shard: Shard) -> bool {
        let mut from = self.given.range((job, shard, Fire::FIRST)..);
        from.next().is_some_and(|((id, of, _), _)| (*id, *of) == (job, shard))
    }

    /// Whether a command item wants a run neither started nor attempted again.
    #[must_use]
    pub fn is_cancelled(&self, run: &RunId) -> bool {
        // Nearly always there is none.
        !self.called_off.is_empty()
            && self.called_off.range((run.clone(), CommandId(0))..).next().is_some_and(|(of, _)| of == run)
    }

    /// Adds a run that was given to an executor.
    pub fn give(&mut self, job: JobId, given: Given) {
        self.forget_given(job, &given.run);
        self.count(job, given.counts(), true);
        self.given.insert(key(job, &given.run), given);
    }

    /// Notes that the end of a run was asked for.
    pub fn stop_given(&mut self, job: JobId, run: &RunId) {
        if let Some(given) = self.given.get_mut(&key(job, run)) {
            given.stopping = true;
        }
    }

    /// Removes a run.
    pub fn forget_given(&mut self, job: JobId, run: &RunId) {
        if let Some(old) = self.given.remove(&key(job, run)) {
            self.count(job, old.counts(), false);
        }
    }

    /// Removes the runs that have ended.
    pub fn forget_ended(&mut self) {
        let ended = self.given.iter().filter(|(_, given)| given.ended.is_some());
        for (job, run) in ended.map(|((job, ..), given)| (*job, given.run.clone())).collect::<Vec<_>>() {
            self.forget_given(job, &run);
        }
    }

    /// Notes that a run has ended.
    pub fn end_given(&mut self, job: JobId, run: &RunId, ended: (RunOutcome, Mono)) {
        let Some(given) = self.given.get_mut(&key(job, run)).filter(|given| given.ended.is_none()) else {
            return;
        };
        let before = given.counts();
        given.ended = Some(ended);
        let after = given.counts();
        self.count(job, before, false);
        self.count(job, after, true);
    }

    /// The counts of a sharded job's runs that were given to executors.
    #[must_use]
    pub fn shard_runs(&self, job: JobId) -> ShardRunCounts {
        self.tallies.get(&job).copied().unwrap_or_default()
    }

    /// Updates the counts of sharded jobs.
    fn count(&mut self, job: JobId, goes_on: Option<bool>, more: bool) {
        let Some(goes_on) = goes_on else { return };
        let by = |n: &mut usize| *n = if more { *n + 1 } else { *n - 1 };
        let tally = self.tallies.entry(job).or_default();
        by(if goes_on { &mut tally.running } else { &mut tally.ended });
        if goes_on {
            by(&mut self.shards_running);
        }
        if *tally == ShardRunCounts::default() {
            self.tallies.remove(&job);
        }
    }

    /// How many commits of this kind are in flight.
    #[must_use]
    pub fn under_way(&self, kind: CommitKind) -> usize {
        self.acts.of(kind)
    }

    /// How many claims and confirmations of fires are in flight.
    #[must_use]
    pub fn paced(&self) -> usize {
        self.acts.paced()
    }

    /// How many more of them may go out now.
    #[must_use]
    pub fn pace_left(&self) -> usize {
        self.pace.most().saturating_sub(self.paced())
    }

    /// Whether the node should give up what it can: it leaves, or has been unable to work for two terms of its lease.
    #[must_use]
    pub fn yields(&self, now: Mono) -> bool {
        self.leaving || self.unable.is_some_and(|since| now - since > Millis(self.lease.ttl().0 * 2))
    }
}

/// The key under which a run is kept.
fn key(job: JobId, run: &RunId) -> (JobId, Shard, Fire) {
    (job, run.shard, run.fire.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::RunOutcome;
    use crate::settings::{Quota, Spread};

    fn settings() -> Settings {
        Settings {
            name: "n".parse().unwrap(),
            predecessor: None,
            address: String::new(),
            home: String::new(),
            version: String::new(),
            knows: crate::record::Layouts::OWN,
            ttl: Millis(4_000),
            tolerance: 1,
            alarm: 100,
            slots: 100,
            labels: crate::labels::Labels::default(),
            lacking: alloc::string::String::new(),
            spread: Spread::Even,
            quota: Quota::Now,
            lead: Millis(1_000),
            max_clock_skew: Millis(500),
            rescan: Millis(60_000),
            early: Millis(0),
            notice: Millis(0),
            operations_max: 128,
            class: crate::registry::DurabilityClass::A,
            generation: 1,
        }
    }

    #[test]
    fn runs_of_sharded_jobs_are_counted_by_what_they_do() {
        let mut local = Local::new(settings());
        let (job, other) = (JobId(1), JobId(2));
        let given = |shard: u32, sharded| Given {
            run: RunId { job: "j".parse().unwrap(), fire: Fire::Due(Wall(1)), shard: Shard(shard) },
            attempt: 1,
            ended: None,
            stopping: false,
            retry: None,
            sharded,
        };
        (0..3).for_each(|shard| local.give(job, given(shard, true)));
        local.give(other, given(0, false));
        assert_eq!(
            (local.shard_runs(job), local.shards_running),
            (ShardRunCounts { running: 3, ended: 0 }, 3)
        );
        assert_eq!(
            local.shard_runs(other),
            ShardRunCounts::default(),
            "a claimed job's run takes no slot of its own"
        );
        // The same end reported twice counts once, and an attempt given anew replaces the one before.
        let run = |shard| given(shard, true).run;
        (0..2).for_each(|_| local.end_given(job, &run(1), (RunOutcome::Succeeded, Mono(5))));
        local.give(job, given(2, true));
        assert_eq!(
            (local.shard_runs(job), local.shards_running),
            (ShardRunCounts { running: 2, ended: 1 }, 2)
        );
        local.forget_ended();
        local.forget_given(job, &run(0));
        assert_eq!(
            (local.shard_runs(job), local.shards_running),
            (ShardRunCounts { running: 1, ended: 0 }, 1)
        );
        local.forget_given(job, &run(2));
        assert!(local.tallies.is_empty() && local.shards_running == 0);
    }
}
