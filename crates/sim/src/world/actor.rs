//! One node with its environment: its host's clocks, its guard process, its data folder, its runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use evenkeel_core::effect::Ticket;
use evenkeel_core::ids::{Member, RunId};
use evenkeel_core::input::{CommandId, Input};
use evenkeel_core::keys::Key;
use evenkeel_core::member_entry::MemberEntry;
use evenkeel_core::node::{Node, Settings};
use evenkeel_core::record::{RegistryBookmark, RegistryPosition};
use evenkeel_core::registry::{Revision, Txn, TxnOutcome};
use evenkeel_core::time::Mono;

use super::clock::SimClock;
use super::guard_task::GuardTask;
use super::peer_network::SimCall;

/// The state of the link between a node and the registry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistryLink {
    /// Both directions work.
    #[default]
    Up,
    /// Requests arrive, answers and news do not.
    Half,
    /// Neither direction works.
    Down,
}

/// A run that a host executes.
#[derive(Clone, Debug)]
pub(crate) struct HostedRun {
    /// The life of the node in which it was started.
    pub life: u64,
    /// The member that started it.
    pub member: Option<Member>,
    /// Counts its planned ends; only the last one comes.
    pub end: u64,
    /// Whether its end was requested.
    pub stopping: bool,
}

/// The progress of the registry that a process knows of, by its own writes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegistryProgress {
    revision: Revision,
    /// The newest of its writes of permanent entries, and when.
    entry: Option<(String, Revision)>,
    /// The permanent entry that each pending transaction writes.
    writing: BTreeMap<Ticket, Key>,
}

impl RegistryProgress {
    /// Records a transaction that it sends.
    pub(crate) fn ask(&mut self, ticket: Ticket, txn: &Txn) {
        self.writing.extend(txn.keeps().map(|key| (ticket, key.clone())));
    }

    /// Records the outcome of a transaction.
    pub(crate) fn record_outcome(&mut self, ticket: Ticket, outcome: &TxnOutcome) {
        let key = self.writing.remove(&ticket);
        let TxnOutcome::Applied(at) = *outcome else { return };
        self.revision = self.revision.max(at);
        if let Some(key) = key.filter(|_| self.entry.as_ref().is_none_or(|(_, known)| *known < at)) {
            self.entry = Some((key.as_str().to_owned(), at));
        }
    }
}

/// The wait of a process that has found a rewound registry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RewindWait {
    /// The number of rewinds at that time.
    pub rewinds: u32,
    /// The position of the registry at that time.
    pub stands: RegistryPosition,
    pub until: i64,
}

/// A node and its host.
#[derive(Clone, Debug)]
pub(crate) struct SimNode {
    pub settings: Settings,
    /// The number of rewinds when its process began.
    pub rewinds: u32,
    /// The wait before it takes part, if the registry was rewound and no member has joined since.
    pub waits: Option<RewindWait>,
    /// Whether it is to start once a node has joined that remembers more than the registry.
    pub wanted: bool,
    /// The bookmark of the registry in its data folder.
    pub seen: Option<RegistryBookmark>,
    /// The progress of the registry by its process's writes.
    pub made: RegistryProgress,
    /// The number of its program starts. Inputs for an earlier one are dropped.
    pub life: u64,
    /// The first of them in this process: an upgrade puts another program into the same process.
    pub process: u64,
    /// The process; `None` while it is down.
    pub node: Option<Node>,
    pub clock: SimClock,
    pub paused: bool,
    /// When its process was last stopped.
    pub stopped: i64,
    /// The lag of its process's own clock, which stood still while it was stopped; only with a planted fault.
    pub slept: i64,
    /// Inputs that came while the process was stopped.
    pub inbox: VecDeque<Input>,
    /// Inputs that came together, each with the life that it is for, to be handled in one step.
    pub together: Vec<(u64, Input)>,
    /// Other nodes' calls that came while it was stopped.
    pub callers: VecDeque<(u64, SimCall)>,
    /// The valid wake-up: each step requests another one.
    pub wake: u64,
    pub link: RegistryLink,
    /// The position up to which the feed was sent; `None` without a feed.
    pub heard: Option<Revision>,
    /// The arrival time of the last news in order.
    pub last_news: i64,
    /// Whether news is withheld; for scenarios.
    pub deaf: bool,
    /// The additional transit time from and to this node, in milliseconds; for scenarios.
    pub far: i64,
    /// The deadline up to which the guard lets runs go on; `None`: not at all.
    pub deadline: Option<Mono>,
    /// Whether an event of the guard is pending.
    pub guarding: bool,
    /// The node's member, as the guard knows it.
    pub member: Option<MemberEntry>,
    /// What the guard does since the process has died.
    pub guard: GuardTask,
    pub runs: BTreeMap<(RunId, u32), HostedRun>,
    /// Runs given to the executor and not started yet, with their members.
    pub starting: BTreeMap<(RunId, u32), Option<Member>>,
    /// The last incarnation in the data folder.
    pub folder: Option<u64>,
    /// The commands that this process has received.
    pub asked: BTreeSet<CommandId>,
}

impl SimNode {
    pub(crate) fn new(settings: Settings, clock: SimClock) -> Self {
        Self {
            settings,
            rewinds: 0,
            waits: None,
            wanted: false,
            seen: None,
            made: RegistryProgress::default(),
            life: 0,
            process: 0,
            node: None,
            clock,
            paused: false,
            stopped: 0,
            slept: 0,
            inbox: VecDeque::new(),
            together: Vec::new(),
            callers: VecDeque::new(),
            wake: 0,
            link: RegistryLink::Up,
            heard: None,
            last_news: 0,
            deaf: false,
            far: 0,
            deadline: None,
            guarding: false,
            member: None,
            guard: GuardTask::None,
            runs: BTreeMap::new(),
            starting: BTreeMap::new(),
            folder: None,
            asked: BTreeSet::new(),
        }
    }

    /// Stores the progress of its process in its data folder.
    pub(crate) fn remember(&mut self) {
        let Some(seen) = &mut self.seen else { return };
        seen.revision = seen.revision.max(self.made.revision);
        seen.entry = self.made.entry.clone().or(seen.entry.take());
    }

    /// Ends the process; its host and its guard go on.
    pub(crate) fn end_process(&mut self) {
        self.node = None;
        self.waits = None;
        self.wanted = false;
        self.made = RegistryProgress::default();
        self.life += 1;
        self.process = self.life;
        self.paused = false;
        self.inbox.clear();
        self.callers.clear();
        self.starting.clear();
        self.asked.clear();
        self.heard = None;
        self.deadline = None;
        self.guard = GuardTask::None;
    }

    /// Whether an input reaches the process's program. Inputs from the guard wait in a pipe, even during an upgrade.
    pub(crate) fn accepts(&self, life: u64, input: &Input) -> bool {
        self.life == life || (life >= self.process && matches!(input, Input::Run { .. }))
    }

    /// Replaces the program: inputs on the way to the previous one are lost. The guard goes on.
    pub(crate) fn upgrade(&mut self, node: Node) {
        self.node = Some(node);
        self.life += 1;
        self.runs.values_mut().for_each(|run| run.life = self.life);
        self.inbox.clear();
        self.callers.clear();
        self.asked.clear();
        self.heard = None;
        self.made = RegistryProgress::default();
    }
}
