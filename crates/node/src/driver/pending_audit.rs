//! Tracks requested changes until the audit log has the outcome of each.
//!
//! An entry goes to history first, and its change is tried only once the entry is durable. The changes of each
//! transaction are recorded when it goes out: it is guarded by what was read, so if it is made, those are its changes.

use std::collections::{BTreeMap, VecDeque};

use evenkeel_core::effect::Ticket;
use evenkeel_core::ids::NodeName;
use evenkeel_core::input::{Answer, Command, CommandId, Refusal};
use evenkeel_core::node::Node;
use evenkeel_core::registry::Txn;
use evenkeel_core::time::{Millis, Mono, Now};

use super::changes::{self, ChangeSummary};
use crate::audit::{AuditAction, AuditOutcome, AuditRecord, Requester};
use crate::history::{AuditDisposition, AuditEntry, HistoryWrite};

/// How long a change waits for its entry to be durable.
const PATIENCE: Millis = Millis::secs(5);

/// The detail of a change that the registry refused after its caller stopped waiting.
const NOT_MADE: &str = "not made, or not all of it: the registry answered after whoever asked had been told that the outcome \
                        was not known";

/// The longest reason that is written.
const WHY_MAX: usize = 400;

/// All pending changes of a node.
pub(super) struct PendingAudit {
    node: NodeName,
    /// The id that distinguishes this life's entries from all others.
    life: String,
    /// How many commands there were.
    commands: u64,
    open: BTreeMap<CommandId, PendingAction>,
    /// Changes that wait for their entries, and until when. All wait equally long, so they are in order.
    waiting: VecDeque<(Mono, CommandId)>,
    /// Requests that were refused while no entry could be written.
    refusals: Option<RefusalSummary>,
}

/// A summary of refused changes for which no entry could be written.
struct RefusalSummary {
    /// The first of them: its requester, time and action.
    asker: Requester,
    at: Now,
    action: AuditAction,
    n: u64,
}

/// Whether a change waits until its entry is durable. A command that ends something never waits.
pub(super) fn is_held(command: &Command) -> bool {
    !matches!(command, Command::Kill(_) | Command::Leave)
}

struct PendingAction {
    record: AuditRecord,
    request: String,
    /// The version that a rollback declares again.
    restored: Option<u64>,
    /// The command to try once the entry is durable.
    held: Option<Command>,
    /// Whether it is done without a transaction.
    plain: bool,
    /// How many transactions it consists of.
    wanted: usize,
    parts: BTreeMap<u32, ActionPart>,
    answered: Option<Answer>,
}

/// The changes of one transaction.
struct ActionPart {
    ticket: Ticket,
    made: bool,
    change: ChangeSummary,
}

/// What to do with a command.
pub(super) enum AuditGate {
    /// Step it now.
    Now(Command),
    /// Wait until its entry is durable.
    Held,
}

impl PendingAudit {
    /// No pending changes yet, for this life of a node.
    pub(super) fn new(node: NodeName, life: String) -> Self {
        Self { node, life, commands: 0, open: BTreeMap::new(), waiting: VecDeque::new(), refusals: None }
    }

    /// The number of the next command.
    pub(super) fn number(&mut self) -> CommandId {
        self.commands += 1;
        CommandId(self.commands)
    }

    /// Begins a change, and returns the entry to write at once. A command that ends something is never held back.
    pub(super) fn begin(
        &mut self,
        ask: CommandId,
        asker: Requester,
        command: Command,
        now: Now,
    ) -> (AuditGate, Option<HistoryWrite>) {
        let Some(audit_action) = AuditAction::of(&command, &self.node) else {
            return (AuditGate::Now(command), None);
        };
        let record = self.record(&format!("{}", ask.0), asker, audit_action, now);
        let restored = command.restored();
        let held = is_held(&command);
        let plain = matches!(command, Command::Kill(_) | Command::Leave | Command::Claim);
        let wanted = match &command {
            Command::Apply(_) | Command::Declare(_) => command.declared().count(),
            _ => 1,
        };
        let request = match &command {
            Command::RunNow(job, id) | Command::RunWith(job, id, _) | Command::Backfill(job, id, _) => {
                format!("{job} {id}")
            }
            _ => String::new(),
        };
        let noted = AuditEntry {
            record: record.clone(),
            request: request.clone(),
            fate: AuditDisposition::Keep,
            ask: held.then_some(ask),
        };
        let (begun, held) = match held {
            true => {
                self.waiting.push_back((now.mono + PATIENCE, ask));
                (AuditGate::Held, Some(command))
            }
            false => (AuditGate::Now(command), None),
        };
        let (parts, answered) = (BTreeMap::new(), None);
        self.open
            .insert(ask, PendingAction { record, request, restored, held, plain, wanted, parts, answered });
        (begun, Some(HistoryWrite::Audit(Box::new(noted))))
    }

    /// The entry of a decision made elsewhere in this process.
    pub(super) fn decision_entry(
        &self,
        n: u64,
        (asker, audit_action): (Requester, AuditAction),
        (outcome, why): (AuditOutcome, String),
        now: Now,
    ) -> HistoryWrite {
        let mut record = self.record(&format!("{n}"), asker, audit_action, now);
        record.outcome = outcome;
        add(&mut record.what, &why);
        keep(record, AuditDisposition::Keep)
    }

    /// Counts a refused change for which no entry can be written now.
    pub(super) fn count_refusal(&mut self, asker: Requester, audit_action: AuditAction, at: Now) {
        self.refusals.get_or_insert(RefusalSummary { asker, at, action: audit_action, n: 0 }).n += 1;
    }

    /// The entry that sums up the refused changes, once: the first requester, its action, and why it was refused.
    pub(super) fn take_refusals(&mut self) -> Option<(Requester, AuditAction, String)> {
        let RefusalSummary { asker, at, action: audit_action, n } = self.refusals.take()?;
        if n == 1 {
            return Some((
                asker,
                audit_action,
                format!("refused at {}, when the history took no entries", at.wall),
            ));
        }
        let why = format!(
            "{n} changes were refused while the history took no entries; the first, at {}, was {} {}, asked for from here",
            at.wall, audit_action.verb, audit_action.object
        );
        Some((asker, AuditAction::new("ask", "several"), why))
    }

    fn record(&self, n: &str, asker: Requester, audit_action: AuditAction, now: Now) -> AuditRecord {
        let AuditAction { verb, object, job, about, what } = audit_action;
        AuditRecord {
            seq: 0,
            id: format!("{}.{n}", self.life),
            at: now.wall,
            node: self.node.to_string(),
            asker,
            verb,
            object,
            job,
            about,
            outcome: AuditOutcome::Asked,
            before: None,
            after: None,
            what,
        }
    }

    /// Takes a command whose entry is durable, to be tried now, unless its caller stopped waiting. Returns the
    /// requester's name with it.
    pub(super) fn take_command(&mut self, ask: CommandId) -> Option<(String, Command)> {
        let trail = self.open.get_mut(&ask)?;
        let command = trail.held.take();
        let by = trail.record.asker.name().to_owned();
        self.forget_released();
        command.map(|command| (by, command))
    }

    fn forget_released(&mut self) {
        let is_held = |ask: &CommandId| self.open.get(ask).is_some_and(|trail| trail.held.is_some());
        while self.waiting.front().is_some_and(|(_, ask)| !is_held(ask)) {
            self.waiting.pop_front();
        }
    }

    /// When the next change has waited long enough.
    pub(super) fn patience(&self) -> Option<Mono> {
        self.waiting.front().map(|(until, _)| *until)
    }

    /// The next change that has waited long enough, or waits in vain since nothing can be written.
    pub(super) fn unwritten(&mut self, now: Mono, able: bool) -> Option<CommandId> {
        self.forget_released();
        let (until, ask) = *self.waiting.front()?;
        (until <= now || !able).then_some(ask)
    }

    /// Whether nothing is pending.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Records a transaction that goes out.
    pub(super) fn sent(&mut self, node: &Node, ticket: Ticket, txn: &Txn) {
        let Some((ask, n)) = node.item_of(ticket) else { return };
        let Some(trail) = self.open.get_mut(&ask) else { return };
        // The same one, sent again: by now the view may show that it was made.
        if trail.parts.get(&n).is_none_or(|part| part.ticket != ticket) {
            let change = changes::of(node.view(), txn);
            trail.parts.insert(n, ActionPart { ticket, made: false, change });
        }
    }

    /// Records the outcome of a transaction. Returns the entries to write: what it declared of a job, at once, and the outcome
    /// of the request if the answer was given before.
    pub(super) fn concluded(&mut self, part: (CommandId, u32), made: bool) -> Vec<HistoryWrite> {
        let (ask, n) = part;
        let Some(trail) = self.open.get_mut(&ask) else { return Vec::new() };
        let mut entries = Vec::new();
        match trail.parts.get_mut(&n) {
            Some(part) if made => {
                part.made = true;
                let declared = part.change.declared.take();
                entries.extend(declared.map(|change| change.entry(&trail.record, trail.restored)));
            }
            _ => drop(trail.parts.remove(&n)),
        }
        let Some(answer) = trail.answered.clone().filter(|_| !trail.is_pending()) else { return entries };
        // The outcome is known now.
        let answer = match answer {
            Answer::Refused(Refusal::Unknown, _) if trail.all_made() => Answer::Done,
            Answer::Refused(Refusal::Unknown, _) => Answer::Refused(Refusal::Unavailable, NOT_MADE.into()),
            answer => answer,
        };
        entries.extend(self.answered(ask, &answer));
        entries
    }

    /// Records the answer. Returns the entries to write.
    pub(super) fn answered(&mut self, ask: CommandId, answer: &Answer) -> Vec<HistoryWrite> {
        let Some(mut trail) = self.open.remove(&ask) else { return Vec::new() };
        // A transaction in flight may still be made, and then that is written.
        if trail.is_pending() {
            trail.answered = Some(answer.clone());
            let entry = trail.ended(AuditOutcome::Unknown, "its outcome was not known when it was answered");
            self.open.insert(ask, trail);
            return vec![entry];
        }
        trail.entries(answer)
    }

    /// Whether a change may have been made by now.
    pub(super) fn may_be_done(&self, ask: CommandId) -> bool {
        self.open.get(&ask).is_some_and(PendingAction::may_be_done)
    }

    /// Closes all at the node's end: outcomes unknown by now stay unknown.
    pub(super) fn close(&mut self) -> Vec<HistoryWrite> {
        let open = std::mem::take(&mut self.open);
        let ended = |trail: PendingAction| match trail.may_be_done() {
            false => trail.ended(AuditOutcome::Refused, "the node ended before it was tried"),
            true => trail.ended(AuditOutcome::Unknown, "the node ended before its outcome was known"),
        };
        open.into_values().map(ended).collect()
    }
}

impl PendingAction {
    fn is_pending(&self) -> bool {
        self.parts.values().any(|part| !part.made)
    }

    /// Whether every transaction was made.
    fn all_made(&self) -> bool {
        self.parts.len() >= self.wanted && self.parts.values().all(|part| part.made)
    }

    /// Whether anything was sent to the registry, or to an executor.
    fn may_be_done(&self) -> bool {
        self.held.is_none() && (self.plain || !self.parts.is_empty())
    }

    /// The final entries by the answer and the transactions.
    fn entries(mut self, answer: &Answer) -> Vec<HistoryWrite> {
        let refused = match answer {
            Answer::Refused(kind, why) => Some((*kind, why.as_str())),
            _ => None,
        };
        let made: Vec<(u32, ChangeSummary)> =
            std::mem::take(&mut self.parts).into_iter().map(|(n, part)| (n, part.change)).collect();
        match (made.len(), refused) {
            // Another node decides, and writes the entry.
            (0, Some((Refusal::Standby, _))) => vec![keep(self.record, AuditDisposition::Drop)],
            (0, Some((Refusal::Unknown, why))) => vec![self.ended(AuditOutcome::Unknown, why)],
            (0, Some((_, why))) => vec![self.ended(AuditOutcome::Refused, why)],
            (0, None) if self.plain => vec![self.ended(AuditOutcome::Applied, "")],
            (0, None) => {
                let fate =
                    if self.request.is_empty() { AuditDisposition::Keep } else { AuditDisposition::Repeat };
                self.record.outcome = AuditOutcome::Unchanged;
                let noted = AuditEntry { record: self.record, request: self.request, fate, ask: None };
                vec![HistoryWrite::Audit(Box::new(noted))]
            }
            (_, refused) if self.record.verb == "apply" && self.record.job.is_none() => {
                self.entry_per_change(made, refused.map(|(_, why)| why))
            }
            (_, refused) => {
                for (_, change) in made {
                    (self.record.before, self.record.after) = (change.before, change.after);
                    add(&mut self.record.what, &change.what);
                }
                vec![self.ended(AuditOutcome::Applied, refused.map_or("", |(_, why)| why))]
            }
        }
    }

    /// When several things were declared together, each changed one gets an entry of its own; these replace the entry
    /// of the whole request.
    fn entry_per_change(self, made: Vec<(u32, ChangeSummary)>, refused: Option<&str>) -> Vec<HistoryWrite> {
        let of = |(n, change): (u32, ChangeSummary)| {
            let ChangeSummary { job, object, before, after, what, .. } = change;
            let id = format!("{}/{n}", self.record.id);
            let outcome = AuditOutcome::Applied;
            keep(
                AuditRecord { id, object, job, before, after, what, outcome, ..self.record.clone() },
                AuditDisposition::Keep,
            )
        };
        let mut entries: Vec<HistoryWrite> = made.into_iter().map(of).collect();
        entries.push(match refused {
            Some(why) => self.ended(AuditOutcome::Refused, why),
            None => keep(self.record, AuditDisposition::Drop),
        });
        entries
    }

    fn ended(&self, outcome: AuditOutcome, why: &str) -> HistoryWrite {
        let mut record = AuditRecord { outcome, ..self.record.clone() };
        add(&mut record.what, &why.chars().take(WHY_MAX).collect::<String>());
        let (request, fate) = (self.request.clone(), AuditDisposition::Keep);
        HistoryWrite::Audit(Box::new(AuditEntry { record, request, fate, ask: None }))
    }
}

fn keep(record: AuditRecord, fate: AuditDisposition) -> HistoryWrite {
    HistoryWrite::Audit(Box::new(AuditEntry { record, request: String::new(), fate, ask: None }))
}

fn add(what: &mut String, more: &str) {
    if !what.is_empty() && !more.is_empty() {
        what.push_str("; ");
    }
    what.push_str(more);
}

#[cfg(test)]
mod tests;
