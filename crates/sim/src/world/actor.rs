//! One node with everything around it that is its own: its host's clocks, its guard process, its data folder, its runs.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use evenkeel_core::effect::Ticket;
use evenkeel_core::ids::{Member, RunId};
use evenkeel_core::input::{CommandId, Input};
use evenkeel_core::keys::Key;
use evenkeel_core::node::{Node, Settings};
use evenkeel_core::record::{RegistryBookmark, RegistryPosition};
use evenkeel_core::registry::{Revision, Txn, TxnOutcome};
use evenkeel_core::time::Mono;

use super::clock::SimClock;
use super::peers::SimCall;

/// What of a node's talk with the registry gets through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegistryLink {
    /// Everything.
    #[default]
    Up,
    /// Requests do, answers and news do not.
    Half,
    /// Nothing.
    Down,
}

/// A run that a host executes.
#[derive(Clone, Debug)]
pub(crate) struct HostedRun {
    /// In which life of the node it was started.
    pub life: u64,
    /// For which member.
    pub member: Option<Member>,
    /// Counts the ends that were planned for it; only the last one comes.
    pub end: u64,
    /// Whether somebody asked for its end.
    pub stopping: bool,
}

/// How far a process knows to have brought the registry.
#[derive(Clone, Debug, Default)]
pub(crate) struct RegistryProgress {
    revision: Revision,
    /// The newest that it wrote of those entries that stay for ever, and when.
    entry: Option<(String, Revision)>,
    /// Which of these each transaction writes that is under way.
    writing: BTreeMap<Ticket, Key>,
}

impl RegistryProgress {
    /// It asks for a transaction.
    pub(crate) fn ask(&mut self, ticket: Ticket, txn: &Txn) {
        self.writing.extend(txn.keeps().map(|key| (ticket, key.clone())));
    }

    /// It is answered what became of one.
    pub(crate) fn record_outcome(&mut self, ticket: Ticket, outcome: &TxnOutcome) {
        let key = self.writing.remove(&ticket);
        let TxnOutcome::Applied(at) = *outcome else { return };
        self.revision = self.revision.max(at);
        if let Some(key) = key.filter(|_| self.entry.as_ref().is_none_or(|(_, known)| *known < at)) {
            self.entry = Some((key.as_str().to_owned(), at));
        }
    }
}

/// A process that has found a registry which went back in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RewindWait {
    /// How often it has gone back.
    pub rewinds: u32,
    /// How it was found.
    pub stands: RegistryPosition,
    pub until: i64,
}

/// A node and its host.
#[derive(Clone, Debug)]
pub(crate) struct SimNode {
    pub settings: Settings,
    /// How often the registry had gone back when its process began.
    pub rewinds: u32,
    /// It found that the registry has gone back and nobody has joined since, and waits before it takes part.
    pub waits: Option<RewindWait>,
    /// It is to be started once somebody has joined who remembers more than the registry does.
    pub wanted: bool,
    /// How its data folder says that it saw the registry last.
    pub seen: Option<RegistryBookmark>,
    /// What its process knows to have made there.
    pub made: RegistryProgress,
    /// Counts processes. What was meant for an earlier one is dropped.
    pub life: u64,
    /// The first of them that was this process: an upgrade puts another program into the same one.
    pub process: u64,
    /// The process; `None` while it is down.
    pub node: Option<Node>,
    pub clock: SimClock,
    pub paused: bool,
    /// When its process was stopped last.
    pub stopped: i64,
    /// By how much its process's own clock is behind, having stood still while it was stopped; only where that is planted.
    pub slept: i64,
    /// What came while the process was stopped.
    pub inbox: VecDeque<Input>,
    /// What came together, each with the life that it was meant for, and is taken in one step.
    pub together: Vec<(u64, Input)>,
    /// Other nodes' calls that came while it was stopped.
    pub callers: VecDeque<(u64, SimCall)>,
    /// Which wake counts: each step asks for another one.
    pub wake: u64,
    pub link: RegistryLink,
    /// Up to where the feed was handed to the network; `None` while there is no feed.
    pub heard: Option<Revision>,
    /// When the last news in order arrives.
    pub last_news: i64,
    /// News waits until this is lifted; for scenarios.
    pub deaf: bool,
    /// How much longer everything takes from and to this node, in milliseconds; for scenarios.
    pub far: i64,
    /// Until when the guard lets runs go on; `None`: not at all.
    pub deadline: Option<Mono>,
    /// Whether an event of the guard is under way.
    pub guarding: bool,
    pub runs: BTreeMap<(RunId, u32), HostedRun>,
    /// Given to the executor and not started yet, by which member.
    pub starting: BTreeMap<(RunId, u32), Option<Member>>,
    /// The last life that the data folder tells of.
    pub folder: Option<u64>,
    /// Commands that were put to this process.
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
            runs: BTreeMap::new(),
            starting: BTreeMap::new(),
            folder: None,
            asked: BTreeSet::new(),
        }
    }

    /// Its data folder remembers what its process made.
    pub(crate) fn remember(&mut self) {
        let Some(seen) = &mut self.seen else { return };
        seen.revision = seen.revision.max(self.made.revision);
        seen.entry = self.made.entry.clone().or(seen.entry.take());
    }

    /// The process is gone; its host and its guard are not.
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
    }

    /// Whether this reaches the process's program. What the guard has to say waits in a pipe, also while programs change.
    pub(crate) fn accepts(&self, life: u64, input: &Input) -> bool {
        self.life == life || (life >= self.process && matches!(input, Input::Run { .. }))
    }

    /// Another program is in the place of the last one: what was on its way to that one is lost. The guard goes on.
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
