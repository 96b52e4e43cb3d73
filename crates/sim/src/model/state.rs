//! One state of the model: two nodes, their executors, the registry, the messages between them, and the clock.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Run, StopReason, Ticket};
use evenkeel_core::ids::Member;
use evenkeel_core::input::{Input, Offer};
use evenkeel_core::job::{CatchUp, Job, JobFile, Placement, Spec, Work};
use evenkeel_core::keys::{self, Key};
use evenkeel_core::member_entry::MemberEntry;
use evenkeel_core::node::{Node, Quota, Settings, Spread};
use evenkeel_core::record::{Assignment, Layouts, RunState, SpecRecord, decode, encode};
use evenkeel_core::registry::{DurabilityClass, LeaseId, Revision, Txn, Write};
use evenkeel_core::store::Store;
use evenkeel_core::time::{Millis, Mono, Now, Wall};

use super::fingerprint::{FingerprintHasher, FingerprintedPart};
use super::flaw::{self, ProtocolFlaw};
use super::ledger::plans::plan;
use super::ledger::{FireLedger, LedgerViolation, SwitchOff};
use super::names::{EPOCH, job, name};
use super::scope::ModelScope;
use super::sharding::ShardedEntries;

/// The term of a lease (L).
pub(super) const TTL: i64 = 3_000;
/// How long after its request a lease may be trusted.
pub(super) const USABLE: i64 = 2_000;

/// How long after the first node the second one starts, unless they race; so their timers ring at different times.
const STAGGER: i64 = 300;

/// A node's side of the world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelNode {
    /// The process; `None` while it is down.
    pub(super) node: Option<Node>,
    /// The registry's number of its lease.
    pub(super) lease: Option<LeaseId>,
    /// Its last incarnation, which its data folder stores for the time after a crash.
    pub(super) life: Option<u64>,
    pub(super) wake: Option<i64>,
    /// Requests on the way to the registry.
    pub(super) requests: Vec<ModelRequest>,
    /// Inputs on the way to the node.
    pub(super) inbox: Vec<Input>,
    /// An answer on its way to the node that anything may overtake.
    pub(super) slow: Option<Input>,
    /// The position of the feed; `None` while the node does not listen.
    pub(super) heard: Option<Revision>,
    pub(super) trouble: Option<NodeTrouble>,
    /// Runs given to the executor, not yet started.
    pub(super) launching: Vec<PendingLaunch>,
    /// Child processes.
    pub(super) running: Vec<ModelChild>,
    /// When the guard process ends all children.
    pub(super) guard: i64,
    /// The member that the guard of a dead process has to remove: at any moment, or never.
    pub(super) removes: Option<MemberEntry>,
}

/// The fault of a node, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum NodeTrouble {
    /// SIGSTOP: the process does nothing, while its guard and the world go on.
    Frozen(i64),
    /// Nothing passes between it and the registry.
    Cut(i64),
    /// It crashed.
    Down,
    /// It left, and will not come back.
    Gone,
}

/// A request on its way to the registry.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ModelRequest {
    Open(Mono),
    Renew(Mono, LeaseId),
    Close(LeaseId),
    List,
    Read(Vec<Key>),
    Commit {
        ticket: Ticket,
        txn: Txn,
        kind: CommitKind,
        trust: i64,
    },
    /// A request to the other node, not to the registry.
    Offer {
        to: Member,
        runs: Vec<Offer>,
    },
}

/// A run whose child process is about to start.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PendingLaunch {
    pub(super) run: Run,
    pub(super) by: Member,
}

/// A child process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ModelChild {
    pub(super) run: Run,
    /// Why it was stopped, and when it is killed at the latest.
    pub(super) ending: Option<(StopReason, i64)>,
}

/// A commit whose sender has given up waiting; it may still arrive, at any moment or never.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LateCommit {
    pub(super) side: u8,
    pub(super) txn: Txn,
    pub(super) kind: CommitKind,
    pub(super) trust: i64,
}

/// The whole state.
#[derive(Clone)]
pub(super) struct ModelState {
    pub(super) now: i64,
    pub(super) faults: u8,
    pub(super) commands: u8,
    pub(super) store: FingerprintedPart<Store>,
    pub(super) sides: [FingerprintedPart<ModelNode>; 2],
    pub(super) late: Vec<LateCommit>,
    /// One for each shard; a claimed job has one.
    pub(super) ledgers: FingerprintedPart<Vec<FireLedger>>,
}

fn settings(scope: &ModelScope, index: usize, predecessor: Option<u64>) -> Settings {
    Settings {
        name: name(index),
        predecessor,
        address: if scope.dispatched { name(index).to_string() } else { String::new() },
        home: String::new(),
        version: String::new(),
        ttl: Millis(TTL),
        tolerance: 1,
        alarm: 100,
        slots: 10,
        labels: evenkeel_core::labels::Labels::default(),
        lacking: String::new(),
        spread: Spread::FirstCome,
        quota: Quota::Now,
        lead_max: Millis(1_000),
        lead_min: Millis(1_000),
        max_clock_skew: Millis(500),
        rescan: Millis(4_500),
        early: Millis(0),
        notice: Millis::ZERO,
        operations_max: 4_096,
        class: DurabilityClass::A,
        generation: 1,
        knows: Layouts::OWN,
    }
}

impl ModelState {
    /// The first state: the job is declared; both nodes are about to start, or have joined without disturbance.
    pub(super) fn first(scope: &ModelScope) -> Self {
        let seconds: Vec<String> = scope.due.iter().map(|due| (due / 1000).to_string()).collect();
        let mut declared =
            JobFile::new(job(), &format!("{} 0 0 1 1 ? 2026", seconds.join(",")), Work::Function("f".into()));
        declared.delivery = scope.delivery;
        if let Some(shards) = scope.shards {
            declared.placement = Placement::Sharded;
            declared.shards = shards;
            // Fires missed during a run are given up, so that the end of a run writes more to the run state.
            declared.catch_up = CatchUp::Skip;
            declared.reshard_timeout = 1;
        }
        let mut place = Assignment { epoch: 1, version: 1, ..Assignment::default() };
        if scope.dispatched {
            declared.placement = Placement::Dispatched;
            place.planned = true;
        }
        let spec = Spec::new(Job::parse(declared).expect("a valid job"), 1, Wall(EPOCH));
        let put = |key, value| Write::Put { key, value, owner: None };
        let writes = [
            put(keys::spec(&job()), encode(&SpecRecord::Live(Box::new(spec)))),
            put(keys::assignment(&job()), encode(&place)),
        ];
        let mut store = Store::default();
        store.commit(Mono(0), &Txn { guards: [].into(), writes: writes.into() });
        store.compact();
        let due: Vec<i64> = scope.due.iter().map(|due| EPOCH + due).collect();
        let ledger = FireLedger::new(due, scope.delivery);
        let mut state = Self {
            now: 0,
            faults: scope.faults,
            commands: scope.commands,
            store: FingerprintedPart::new(store),
            sides: [0, 1].map(|index| {
                FingerprintedPart::new(ModelNode::new(
                    scope,
                    index,
                    None,
                    if scope.joined { STAGGER * index as i64 } else { 0 },
                ))
            }),
            late: Vec::new(),
            ledgers: FingerprintedPart::new(vec![ledger; scope.shards.unwrap_or(1) as usize]),
        };
        while scope.joined
            && let Some(act) = state.calm(scope)
        {
            state.apply(scope, act, &mut None).expect("a calm start breaks nothing");
        }
        state
    }

    pub(super) fn print(&mut self) -> u128 {
        let [a, b] = &mut self.sides;
        let parts = [self.store.print(), a.print(), b.print(), self.ledgers.print()];
        FingerprintHasher::of(&(self.now, self.faults, self.commands, parts, &self.late))
    }

    pub(super) fn clock(&self) -> Now {
        clock(self.now)
    }

    /// The job's run state as the registry has it.
    pub(super) fn run_state(&self) -> Option<RunState> {
        run_state_of(self.store.get())
    }

    /// Whether the job was paused, disabled or deleted.
    pub(super) fn switched(&self) -> SwitchOff {
        let found = self.store.get().read(&[keys::spec(&job())]);
        match found.first().and_then(|change| decode(&change.entry.as_ref()?.value)) {
            Some(SpecRecord::Live(spec)) if spec.job.enabled && !spec.paused => SwitchOff::On,
            Some(SpecRecord::Live(spec)) if spec.job.enabled => SwitchOff::ForAWhile,
            _ => SwitchOff::ForGood,
        }
    }

    /// The final check, if no action is left.
    pub(super) fn judge(&self, scope: &ModelScope) -> Result<(), LedgerViolation> {
        let (faults, off) = (self.faults < scope.faults, self.switched());
        self.ledgers.get().iter().try_for_each(|ledger| ledger.judge(faults, off))
    }

    /// Whether nothing runs and no verdict is left to record, as far as the registry knows.
    pub(super) fn rests(&self, scope: &ModelScope) -> bool {
        if scope.shards.is_some() {
            return ShardedEntries::of(self.store.get()).rest();
        }
        if scope.dispatched {
            return plan(self.store.get())
                .is_none_or(|plan| plan.runs.is_empty() && plan.verdicts.is_empty());
        }
        self.run_state().is_none_or(|run_state| run_state.open.is_empty() && run_state.verdicts.is_empty())
    }

    /// The children that are alive anywhere.
    pub(super) fn children(&self) -> impl Iterator<Item = &ModelChild> {
        self.sides.iter().flat_map(|side| &side.get().running)
    }
}

pub(super) fn clock(now: i64) -> Now {
    Now { mono: Mono(now), wall: Wall(EPOCH + now) }
}

pub(super) fn run_state_of(store: &Store) -> Option<RunState> {
    let found = store.read(&[keys::run_state(&job())]);
    found.first().and_then(|change| decode(&change.entry.as_ref()?.value))
}

impl ModelNode {
    /// A node without a process, and without messages.
    pub(super) fn down() -> Self {
        Self {
            node: None,
            lease: None,
            life: None,
            wake: None,
            requests: Vec::new(),
            inbox: Vec::new(),
            slow: None,
            heard: None,
            trouble: None,
            launching: Vec::new(),
            running: Vec::new(),
            guard: 0,
            removes: None,
        }
    }

    /// A process that starts now.
    pub(super) fn new(scope: &ModelScope, index: usize, life: Option<u64>, now: i64) -> Self {
        // With reused incarnations an earlier one cannot be told from this one, so none can be evicted.
        let predecessor = life.filter(|_| scope.flaw != Some(ProtocolFlaw::IncarnationReused));
        let node = Node::with_rules(settings(scope, index, predecessor), flaw::rules(scope));
        Self { node: Some(node), life, wake: Some(now), guard: now, ..Self::down() }
    }

    /// Whether it has a fault that will end, or an answer is still to come.
    pub(super) fn is_troubled(&self) -> bool {
        self.slow.is_some() || self.trouble.is_some_and(|trouble| trouble != NodeTrouble::Gone)
    }

    pub(super) fn is_frozen(&self) -> bool {
        matches!(self.trouble, Some(NodeTrouble::Frozen(_)))
    }

    pub(super) fn is_cut(&self) -> bool {
        matches!(self.trouble, Some(NodeTrouble::Cut(_)))
    }

    /// Whether there is news that the node may receive.
    pub(super) fn is_behind(&self, store: &Store) -> bool {
        self.heard.is_some_and(|heard| heard < store.revision())
    }

    /// Whether this input comes over the network, and so is held up by a cut.
    pub(super) fn is_remote(input: &Input) -> bool {
        matches!(
            input,
            Input::Lease(_)
                | Input::Listed(_)
                | Input::Read(_)
                | Input::Committed { .. }
                | Input::Offered { .. }
        )
    }
}
