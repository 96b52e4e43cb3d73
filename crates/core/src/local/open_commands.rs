//! The commands that this node was given and has not answered, with their items, and the locks taken by them.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use crate::ids::{JobName, LockName, RunId};
use crate::input::{Answer, ApplyResult, Command, CommandId, CommandObject, Precondition, SameDeclaration};
use crate::job::Job;
use crate::principal::JobRights;
use crate::time::Mono;

/// The command id of the node's own items, which need no answer. They sort last.
const OWN_ITEMS: CommandId = CommandId(u64::MAX);

/// One item of a command: most commands are one item themselves.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CommandItem {
    /// One of the job declarations of an `Apply`.
    Job(Box<Job>),
    /// One of the job declarations of a `Declare` that says nothing new.
    Same(Box<SameDeclaration>),
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
            Self::Job(_) | Self::Same(_) => true,
            Self::Command(command) => command.describe().is_some_and(|described| described.needs_leader()),
        }
    }

    /// The object that it changes, if a person would ask about it.
    pub(crate) fn object(&self) -> Option<CommandObject<'_>> {
        match self {
            Self::Job(job) => Some(CommandObject::Job(&job.name)),
            Self::Same(same) => Some(CommandObject::Job(&same.name)),
            Self::Command(command) => command.describe().map(|described| described.object),
        }
    }

    /// The name of the job that it declares, if it declares one.
    pub(crate) fn declares(&self) -> Option<&JobName> {
        match self {
            Self::Job(job) => Some(&job.name),
            Self::Same(same) => Some(&same.name),
            Self::Command(_) => None,
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

    /// Whether it is the request to raise the layout of the tree.
    pub(crate) fn is_finalize_upgrade(&self) -> bool {
        *self == Self::Command(Command::FinalizeUpgrade)
    }

    /// The run that it wants neither started nor attempted again.
    fn cancelled(&self) -> Option<&RunId> {
        match self {
            Self::Command(Command::Kill(run)) => Some(run),
            _ => None,
        }
    }
}

/// The outcome of a command item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ItemOutcome {
    /// A declaration had this effect.
    Applied(JobName, ApplyResult),
    /// The item has this answer.
    Answer(Answer),
}

/// Who asks for a command, and on which conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CommandTerms {
    /// The caller's name as the request gave it, to be kept with the switches it sets; empty where it gave none.
    pub(crate) by: String,
    /// What the caller wants of the object that it changes.
    pub(crate) wanted: Option<Precondition>,
    /// The role that the caller must have on each job, where labels decide.
    pub(crate) rights: Option<Box<JobRights>>,
}

/// A command whose items are not all complete.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PendingCommand {
    /// The command is given up at this moment if an item is still open.
    until: Mono,
    /// How many items are open.
    open: usize,
    /// Who asks for it, and on which conditions.
    terms: CommandTerms,
    /// The result of each applied item.
    applied: Vec<(JobName, ApplyResult)>,
    /// The last answer to an item.
    answer: Option<Answer>,
}

impl PendingCommand {
    /// When the command is given up.
    #[must_use]
    pub fn until(&self) -> Mono {
        self.until
    }

    /// The caller's name; empty where the request gave none.
    #[must_use]
    pub fn by(&self) -> &str {
        &self.terms.by
    }

    /// What the caller wants of the object that it changes.
    pub(crate) fn wanted(&self) -> Option<&Precondition> {
        self.terms.wanted.as_ref()
    }

    /// The role that the caller must have on each job, where labels decide.
    pub(crate) fn rights(&self) -> Option<&JobRights> {
        self.terms.rights.as_deref()
    }
}

/// The commands without an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpenCommands {
    commands: BTreeMap<CommandId, PendingCommand>,
    /// Their open items, and the node's own ones.
    items: BTreeMap<(CommandId, u32), CommandItem>,
    /// Those items that have no commit in flight.
    idle: BTreeSet<(CommandId, u32)>,
    /// The runs that those items want neither started nor attempted again.
    cancelled: BTreeSet<(RunId, CommandId)>,
    /// Commands that wait for the listing that a claim command set off.
    awaiting_listing: BTreeSet<CommandId>,
    /// Commands that wait for the hand-over.
    awaiting_departure: BTreeSet<CommandId>,
    /// Locks held, and how many times each was taken.
    locks: BTreeMap<LockName, u32>,
    /// Whether an item was completed for which another one may have waited.
    recheck: bool,
    /// Whether claims do not wait for other nodes until the next step (S1-85).
    claims_at_once: bool,
}

impl OpenCommands {
    /// Adds a command with these items, by this caller, to be given up at this moment.
    pub(crate) fn accept(
        &mut self,
        ask: CommandId,
        terms: CommandTerms,
        items: Vec<CommandItem>,
        until: Mono,
    ) {
        let (open, applied, answer) = (items.len(), Vec::new(), None);
        self.commands.insert(ask, PendingCommand { until, open, terms, applied, answer });
        for (n, item) in (0..).zip(items) {
            self.add_item((ask, n), item);
        }
    }

    /// Has a run neither started nor attempted again, with an item that needs no answer. Returns whether no item wanted
    /// that before.
    pub(crate) fn cancel_quietly(&mut self, run: &RunId) -> bool {
        if self.is_cancelled(run) {
            return false;
        }
        let last = self.items.range((OWN_ITEMS, 0)..).last();
        let n = last.map_or(0, |((_, n), _)| n + 1);
        self.add_item((OWN_ITEMS, n), CommandItem::Command(Command::Kill(run.clone())));
        true
    }

    fn add_item(&mut self, key: (CommandId, u32), item: CommandItem) {
        self.cancelled.extend(item.cancelled().map(|run| (run.clone(), key.0)));
        self.items.insert(key, item);
        self.idle.insert(key);
    }

    /// Notes that a commit of an item is in flight. The other items are looked at again at once.
    pub(crate) fn begin_item(&mut self, ask: CommandId, n: u32) {
        self.idle.remove(&(ask, n));
        self.recheck = !self.idle.is_empty();
    }

    /// Notes that the commit of an item was answered.
    pub(crate) fn end_commit(&mut self, ask: CommandId, n: u32) {
        if self.items.contains_key(&(ask, n)) {
            self.idle.insert((ask, n));
        }
    }

    /// Completes an item. Returns the answer to the command if it was the last one.
    pub(crate) fn complete(&mut self, ask: CommandId, n: u32, outcome: ItemOutcome) -> Option<Answer> {
        self.idle.remove(&(ask, n));
        let item = self.items.remove(&(ask, n))?;
        if let CommandItem::Command(Command::Kill(run)) = item {
            self.cancelled.remove(&(run, ask));
        }
        let command = self.commands.get_mut(&ask)?;
        command.open -= 1;
        match outcome {
            ItemOutcome::Applied(job, applied) => command.applied.push((job, applied)),
            ItemOutcome::Answer(answer) => command.answer = Some(answer),
        }
        if command.open > 0 {
            return None;
        }
        let command = self.commands.remove(&ask)?;
        Some(command.answer.unwrap_or(Answer::Applied(command.applied)))
    }

    /// Gives a command up, with all its items.
    pub(crate) fn give_up(&mut self, ask: CommandId) {
        self.commands.remove(&ask);
        self.items.retain(|(owner, _), _| *owner != ask);
        self.idle.retain(|(owner, _)| *owner != ask);
        self.cancelled.retain(|(_, owner)| *owner != ask);
    }

    /// Has the items looked at again at once, if there are any: one was completed for which they may have waited.
    pub(crate) fn recheck_items(&mut self) {
        self.recheck = !self.items.is_empty();
    }

    /// Whether items are to be looked at again at once.
    pub(crate) fn must_recheck(&self) -> bool {
        self.recheck
    }

    /// Notes that the rules have looked at the items, and claimed without waiting where they were to.
    pub(crate) fn were_checked(&mut self) {
        (self.claims_at_once, self.recheck) = (false, false);
    }

    /// The commands in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (CommandId, &PendingCommand)> {
        self.commands.iter().map(|(ask, command)| (*ask, command))
    }

    /// A command that is not complete.
    pub(crate) fn get(&self, ask: CommandId) -> Option<&PendingCommand> {
        self.commands.get(&ask)
    }

    /// The open items of a command, with their indices.
    pub(crate) fn items_of(&self, ask: CommandId) -> impl Iterator<Item = (u32, &CommandItem)> {
        self.items.range((ask, 0)..=(ask, u32::MAX)).map(|((_, n), item)| (*n, item))
    }

    /// The answer to a command that waits for another node or for the registry when its time is over.
    ///
    /// The outcome of a layout's commit in flight will be reported.
    pub(crate) fn waits_for(&self, ask: CommandId) -> Option<&'static str> {
        let reported = |n, item: &CommandItem| item.is_finalize_upgrade() && !self.idle.contains(&(ask, n));
        self.items_of(ask).find_map(|(n, item)| item.waits_for().filter(|_| !reported(n, item)))
    }

    /// An open item.
    pub(crate) fn item(&self, ask: CommandId, n: u32) -> Option<&CommandItem> {
        self.items.get(&(ask, n))
    }

    /// Whether an item is open.
    #[must_use]
    pub fn has_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Whether an item has no commit in flight.
    pub(crate) fn has_idle_items(&self) -> bool {
        !self.idle.is_empty()
    }

    /// The open items that have no commit in flight.
    pub(crate) fn idle_items(&self) -> impl Iterator<Item = (CommandId, u32, &CommandItem)> {
        self.idle.iter().filter_map(|key| Some((key.0, key.1, self.items.get(key)?)))
    }

    /// Whether an item wants a run neither started nor attempted again.
    #[must_use]
    pub fn is_cancelled(&self, run: &RunId) -> bool {
        // Nearly always there is none.
        self.has_cancelled()
            && self.cancelled.range((run.clone(), CommandId(0))..).next().is_some_and(|(of, _)| of == run)
    }

    /// Whether an item wants any run neither started nor attempted again.
    #[must_use]
    pub fn has_cancelled(&self) -> bool {
        !self.cancelled.is_empty()
    }

    /// Adds a command that is answered when the registry was listed.
    pub(crate) fn await_listing(&mut self, ask: CommandId) {
        self.awaiting_listing.insert(ask);
    }

    /// Takes the commands that waited for a listing. Where there are any, this step claims without waiting.
    pub(crate) fn take_awaiting_listing(&mut self) -> BTreeSet<CommandId> {
        let asked = core::mem::take(&mut self.awaiting_listing);
        self.claims_at_once |= !asked.is_empty();
        asked
    }

    /// Whether claims do not wait for other nodes in this step.
    pub(crate) fn claims_at_once(&self) -> bool {
        self.claims_at_once
    }

    /// Adds a command that is answered when everything was handed over.
    pub(crate) fn await_departure(&mut self, ask: CommandId) {
        self.awaiting_departure.insert(ask);
    }

    /// Takes the commands that waited for the hand-over.
    pub(crate) fn take_awaiting_departure(&mut self) -> BTreeSet<CommandId> {
        core::mem::take(&mut self.awaiting_departure)
    }

    /// Notes how many times a lock is taken.
    pub(crate) fn set_lock_count(&mut self, lock: LockName, times: u32) {
        match times {
            0 => self.locks.remove(&lock),
            _ => self.locks.insert(lock, times),
        };
    }

    /// How many times a lock is taken.
    pub(crate) fn lock_count(&self, lock: &LockName) -> u32 {
        self.locks.get(lock).copied().unwrap_or(0)
    }

    /// Whether a lock is held.
    #[must_use]
    pub fn holds_lock(&self, lock: &LockName) -> bool {
        self.locks.contains_key(lock)
    }

    /// Whether any lock is held.
    pub(crate) fn holds_locks(&self) -> bool {
        !self.locks.is_empty()
    }

    /// Whether an open item is about a lock.
    pub(crate) fn wants_lock(&self, lock: &LockName) -> bool {
        self.items.values().any(|item| item.lock() == Some(lock))
    }

    /// Forgets the locks: the life that took them is over.
    pub(crate) fn forget_locks(&mut self) {
        self.locks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Fire, Shard};
    use crate::time::Wall;

    fn run(job: &str) -> RunId {
        RunId { job: job.parse().unwrap(), fire: Fire::Due(Wall(1)), shard: Shard(0) }
    }

    fn kill(job: &str) -> CommandItem {
        CommandItem::Command(Command::Kill(run(job)))
    }

    #[test]
    fn a_run_is_cancelled_for_as_long_as_an_item_wants_it() {
        let (mut open, ask) = (OpenCommands::default(), CommandId(1));
        open.accept(ask, Default::default(), [kill("a"), kill("b")].into(), Mono(5));
        assert!(!open.cancel_quietly(&run("a")) && open.cancel_quietly(&run("c")));
        assert_eq!(open.idle_items().count(), 3, "that of `a` is there already");
        assert!(["a", "b", "c"].iter().all(|job| open.is_cancelled(&run(job))));
        let done = || ItemOutcome::Answer(Answer::Done);
        assert_eq!(open.complete(ask, 0, done()), None, "another item is open");
        assert!(!open.is_cancelled(&run("a")) && open.is_cancelled(&run("b")));
        assert_eq!(open.complete(ask, 1, done()), Some(Answer::Done));
        assert_eq!(open.complete(ask, 1, done()), None, "it is answered once");
        assert!(open.get(ask).is_none() && open.has_items() && !open.is_cancelled(&run("b")));
        assert_eq!(open.complete(OWN_ITEMS, 0, done()), None, "no caller waits for an answer");
        assert!(!open.has_items() && !open.has_idle_items() && !open.has_cancelled());
    }

    #[test]
    fn a_command_that_is_given_up_leaves_nothing_behind() {
        let (mut open, ask, other) = (OpenCommands::default(), CommandId(1), CommandId(2));
        open.accept(ask, Default::default(), [kill("a")].into(), Mono(5));
        open.accept(other, Default::default(), [kill("a")].into(), Mono(5));
        open.begin_item(ask, 0);
        assert!(open.must_recheck(), "the item of the other command may be done now");
        open.give_up(ask);
        open.end_commit(ask, 0);
        assert_eq!((open.items_of(ask).count(), open.idle_items().count()), (0, 1));
        assert!(open.get(ask).is_none() && open.is_cancelled(&run("a")));
        open.give_up(other);
        assert!(!open.has_items() && !open.has_idle_items() && !open.has_cancelled());
    }
}
