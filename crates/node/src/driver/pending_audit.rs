//! Trails: what is under way of the changes that somebody asked for, until the audit log has what came of each.
//!
//! An entry goes to history first, and what it tells of is tried only when it is there for good. What each transaction would
//! change is noted when it goes out: it is guarded by what was read, so if it is made, that is what it changed.

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

/// So long a change waits for its entry to be there for good.
const PATIENCE: Millis = Millis::secs(5);

/// What is written down of what the registry refused after nobody waited for its answer any more.
const NOT_MADE: &str = "not made, or not all of it: the registry answered after whoever asked had been told that the outcome \
                        was not known";

/// The longest reason that is written down.
const WHY_MAX: usize = 400;

/// All of them.
pub(super) struct PendingAudit {
    node: NodeName,
    /// What tells this life's entries from all others.
    life: String,
    /// How many commands there were.
    commands: u64,
    open: BTreeMap<CommandId, PendingAction>,
    /// Those that wait for their entries, and until when: each waits as long, so they are in order.
    waiting: VecDeque<(Mono, CommandId)>,
    /// Those that were turned away while nothing could be written.
    refusals: Option<RefusalSummary>,
}

/// Changes that were refused, and of which no entry could be written.
struct RefusalSummary {
    /// The first of them: who asked, when, for what.
    asker: Requester,
    at: Now,
    action: AuditAction,
    n: u64,
}

/// Whether a change waits until its entry is there for good. To end something never does.
pub(super) fn is_held(command: &Command) -> bool {
    !matches!(command, Command::Kill(_) | Command::Leave)
}

struct PendingAction {
    record: AuditRecord,
    request: String,
    /// What is tried once the entry is there.
    held: Option<Command>,
    /// Whether it is done without a transaction.
    plain: bool,
    /// Of how many things it consists.
    wanted: usize,
    parts: BTreeMap<u32, ActionPart>,
    answered: Option<Answer>,
}

/// What one transaction would change.
struct ActionPart {
    ticket: Ticket,
    made: bool,
    change: ChangeSummary,
}

/// What is to be done with a command.
pub(super) enum AuditGate {
    /// Step it now.
    Now(Command),
    /// Wait until its entry is there for good.
    Held,
}

impl PendingAudit {
    /// None yet, of this life of a node.
    pub(super) fn new(node: NodeName, life: String) -> Self {
        Self { node, life, commands: 0, open: BTreeMap::new(), waiting: VecDeque::new(), refusals: None }
    }

    /// The number of the next command.
    pub(super) fn number(&mut self) -> CommandId {
        self.commands += 1;
        CommandId(self.commands)
    }

    /// Begins one, and says what is to be written at once. To end something is never held back.
    pub(super) fn begin(
        &mut self,
        (ask, asker, command): (CommandId, Requester, Command),
        now: Now,
    ) -> (AuditGate, Option<HistoryWrite>) {
        let Some(deed) = AuditAction::of(&command, &self.node) else {
            return (AuditGate::Now(command), None);
        };
        let record = self.record(&format!("{}", ask.0), asker, deed, now);
        let held = is_held(&command);
        let plain = matches!(command, Command::Kill(_) | Command::Leave | Command::Claim);
        let wanted = match &command {
            Command::Apply(jobs) => jobs.len(),
            _ => 1,
        };
        let request = match &command {
            Command::RunNow(job, id) | Command::RunOn(job, id, _) => format!("{job} {id}"),
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
        self.open.insert(ask, PendingAction { record, request, held, plain, wanted, parts, answered });
        (begun, Some(HistoryWrite::Audit(Box::new(noted))))
    }

    /// An entry of something that was decided elsewhere in this process.
    pub(super) fn decision_entry(
        &self,
        n: u64,
        (asker, deed): (Requester, AuditAction),
        (outcome, why): (AuditOutcome, String),
        now: Now,
    ) -> HistoryWrite {
        let mut record = self.record(&format!("{n}"), asker, deed, now);
        record.outcome = outcome;
        add(&mut record.what, &why);
        keep(record, AuditDisposition::Keep)
    }

    /// Counts one that is refused, and of which nothing can be written for now.
    pub(super) fn count_refusal(&mut self, asker: Requester, deed: AuditAction, at: Now) {
        self.refusals.get_or_insert(RefusalSummary { asker, at, action: deed, n: 0 }).n += 1;
    }

    /// What is to be written of those that were turned away, once: who asked first, for what, and why nothing came of it.
    pub(super) fn take_refusals(&mut self) -> Option<(Requester, AuditAction, String)> {
        let RefusalSummary { asker, at, action: deed, n } = self.refusals.take()?;
        if n == 1 {
            return Some((asker, deed, format!("refused at {}, when the history took no entries", at.wall)));
        }
        let why = format!(
            "{n} changes were refused while the history took no entries; the first, at {}, was {} {}, asked for from here",
            at.wall, deed.verb, deed.object
        );
        Some((asker, AuditAction::new("ask", "several"), why))
    }

    fn record(&self, n: &str, asker: Requester, deed: AuditAction, now: Now) -> AuditRecord {
        let AuditAction { verb, object, job, about, what } = deed;
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

    /// Its entry is there for good: it is to be tried now, unless nobody waits for it any more. Beside it stands the name of the
    /// one who asks.
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

    /// When the next one has waited long enough.
    pub(super) fn patience(&self) -> Option<Mono> {
        self.waiting.front().map(|(until, _)| *until)
    }

    /// The next one that has waited long enough by now, or waits in vain since nothing can be written.
    pub(super) fn unwritten(&mut self, now: Mono, able: bool) -> Option<CommandId> {
        self.forget_released();
        let (until, ask) = *self.waiting.front()?;
        (until <= now || !able).then_some(ask)
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// A transaction goes out.
    pub(super) fn sent(&mut self, node: &Node, ticket: Ticket, txn: &Txn) {
        let Some((ask, n)) = node.item_of(ticket) else { return };
        let Some(trail) = self.open.get_mut(&ask) else { return };
        // The same one, sent again: by now the view may know that it was made.
        if trail.parts.get(&n).is_none_or(|part| part.ticket != ticket) {
            let change = changes::of(node.view(), txn);
            trail.parts.insert(n, ActionPart { ticket, made: false, change });
        }
    }

    /// What became of a transaction. Returns what is to be written where the answer was given before.
    pub(super) fn concluded(&mut self, part: (CommandId, u32), made: bool) -> Vec<HistoryWrite> {
        let (ask, n) = part;
        let Some(trail) = self.open.get_mut(&ask) else { return Vec::new() };
        match trail.parts.get_mut(&n) {
            Some(part) if made => part.made = true,
            _ => drop(trail.parts.remove(&n)),
        }
        let Some(answer) = trail.answered.clone() else { return Vec::new() };
        if trail.is_pending() {
            return Vec::new();
        }
        // Now it is known.
        let answer = match answer {
            Answer::Refused(Refusal::Unknown, _) if trail.all_made() => Answer::Done,
            Answer::Refused(Refusal::Unknown, _) => Answer::Refused(Refusal::Unavailable, NOT_MADE.into()),
            answer => answer,
        };
        self.answered(ask, &answer)
    }

    /// Whoever asked is answered. Returns what is to be written.
    pub(super) fn answered(&mut self, ask: CommandId, answer: &Answer) -> Vec<HistoryWrite> {
        let Some(mut trail) = self.open.remove(&ask) else { return Vec::new() };
        // What is still under way may yet be made, and then that is written.
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

    /// The node ends: what nobody knows by now stays unknown.
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

    /// Whether each thing that was asked for was made.
    fn all_made(&self) -> bool {
        self.parts.len() >= self.wanted && self.parts.values().all(|part| part.made)
    }

    /// Whether anything was sent to the registry, or to an executor.
    fn may_be_done(&self) -> bool {
        self.held.is_none() && (self.plain || !self.parts.is_empty())
    }

    /// What its answer and its transactions come to.
    fn entries(mut self, answer: &Answer) -> Vec<HistoryWrite> {
        let refused = match answer {
            Answer::Refused(kind, why) => Some((*kind, why.as_str())),
            _ => None,
        };
        let made: Vec<(u32, ChangeSummary)> =
            std::mem::take(&mut self.parts).into_iter().map(|(n, part)| (n, part.change)).collect();
        match (made.len(), refused) {
            // Another node decides, and tells.
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

    /// Several things were declared together: each that was changed has an entry of its own, and they take the place of the one
    /// that told of all.
    fn entry_per_change(self, made: Vec<(u32, ChangeSummary)>, refused: Option<&str>) -> Vec<HistoryWrite> {
        let of = |(n, change): (u32, ChangeSummary)| {
            let ChangeSummary { job, object, before, after, what } = change;
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
