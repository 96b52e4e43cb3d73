//! Requests to the node: logged in the audit log, stepped, answered.

use evenkeel_core::effect::Ticket;
use evenkeel_core::input::{Answer, Command, CommandId, Input, Refusal};
use evenkeel_core::registry::TxnOutcome;
use std::sync::PoisonError;
use tokio::sync::oneshot;

use super::answers::PendingAnswer;
use super::pending_audit::{AuditGate, is_held};
use super::{Driver, DriverEvent};
use crate::audit::{self, AuditAction, Proof, Requester};
use crate::clock;
use crate::history::HistoryWrite;
use crate::request::{ENDED, HandleRequest};

/// Why a change is refused while its entry cannot be written.
const UNWRITTEN: &str = "the history takes no entries, and nothing is changed that it could not tell of: do what the health of \
                         this node says (GET /api/v1/ready), and ask again";

/// The answer for a change that the node had sent to the registry before it stopped.
const ENDED_MEANWHILE: &str = "this node has stopped before the registry answered, so it is not known whether this was done: \
                               before you ask another one, look at what it is about";

/// Whether something was done, or may have been: such an outcome is always written.
fn changes_something(outcome: audit::AuditOutcome) -> bool {
    matches!(
        outcome,
        audit::AuditOutcome::Asked | audit::AuditOutcome::Applied | audit::AuditOutcome::Unknown
    )
}

impl Driver {
    /// Steps a command that needs no audit entry.
    pub(super) fn ask(&mut self, command: Command, answer: oneshot::Sender<Answer>) {
        let id = self.pending_audit.number();
        let lock = match &command {
            Command::Lock(name) => Some(name.clone()),
            _ => None,
        };
        self.pending_answers.insert(id, PendingAnswer { answer, lock });
        self.step(Input::Asked(id, command));
    }

    /// Steps a command that changes something: it is tried once the audit log has it.
    pub(super) fn change(&mut self, asker: Requester, command: Command, answer: oneshot::Sender<Answer>) {
        let Some(action) = AuditAction::of(&command, self.runs.node()) else {
            return self.ask(command, answer);
        };
        // It and its entry would wait in vain, in a queue that only grows: it is counted instead.
        if !self.readiness.history && is_held(&command) {
            self.pending_audit.count_refusal(asker, action, clock::now());
            // The caller may have given up waiting.
            let _ = answer.send(Answer::Refused(Refusal::Unavailable, UNWRITTEN.into()));
            return;
        }
        let id = self.pending_audit.number();
        self.pending_answers.insert(id, PendingAnswer { answer, lock: None });
        let (begun, entry) = self.pending_audit.begin(id, asker, command, clock::now());
        entry.into_iter().for_each(|entry| self.history.put(entry));
        match begun {
            AuditGate::Now(command) => self.step(Input::Asked(id, command)),
            AuditGate::Held if self.readiness.history => {}
            AuditGate::Held => self.refuse_unwritten(),
        }
    }

    /// Writes an entry for a decision made in this process, beside the node.
    pub(super) fn log_decision(
        &mut self,
        asker: Requester,
        action: AuditAction,
        outcome: (audit::AuditOutcome, String),
    ) {
        if !self.readiness.history && !changes_something(outcome.0) {
            return self.pending_audit.count_refusal(asker, action, clock::now());
        }
        let id = self.pending_audit.number();
        let entry = self.pending_audit.decision_entry(id.0, (asker, action), outcome, clock::now());
        self.history.put(entry);
    }

    /// Writes that an entry of the registry is refused, which no node of this cluster has written.
    pub(super) fn log_foreign_entry(&mut self, change: AuditAction) {
        let why = "it has no valid seal: it was written to the registry around the nodes".to_owned();
        let stranger = Requester::new(Proof::Nobody, "", "");
        self.log_decision(stranger, change, (audit::AuditOutcome::Refused, why));
    }

    /// Steps the command whose audit entry is durable now.
    pub(super) fn on_audit_written(&mut self, ask: CommandId) {
        if let Some((by, command)) = self.pending_audit.take_command(ask) {
            self.step(Input::AskedBy(ask, by, command));
        }
    }

    /// Refuses commands that have waited too long for their entries, or wait in vain.
    pub(super) fn refuse_unwritten(&mut self) {
        while let Some(ask) = self.pending_audit.unwritten(clock::now().mono, self.readiness.history) {
            self.answer(ask, Answer::Refused(Refusal::Unavailable, UNWRITTEN.into()));
        }
    }

    /// Writes how many commands were refused, once history accepts entries again or the node ends.
    pub(super) fn sum_up(&mut self) {
        if let Some((asker, action, why)) = self.pending_audit.take_refusals() {
            let id = self.pending_audit.number();
            let entry = self.pending_audit.decision_entry(
                id.0,
                (asker, action),
                (audit::AuditOutcome::Refused, why),
                clock::now(),
            );
            self.history.put(entry);
        }
    }

    /// Records a transaction's outcome before the node processes it and answers. Returns the node's input.
    pub(super) fn committed(&mut self, ticket: Ticket, outcome: TxnOutcome) -> Input {
        if self.pending_audit.is_idle() {
            return Input::Committed { ticket, outcome };
        }
        let node = self.node.read().unwrap_or_else(PoisonError::into_inner);
        let part = node.item_of(ticket).zip(node.was_made(ticket, &outcome));
        drop(node);
        if let Some((part, made)) = part {
            let entries = self.pending_audit.concluded(part, made);
            self.put_all(entries);
        }
        Input::Committed { ticket, outcome }
    }

    pub(super) fn put_all(&self, entries: Vec<HistoryWrite>) {
        entries.into_iter().for_each(|entry| self.history.put(entry));
    }

    /// Answers all waiting callers at the node's end, and says whether their change may have been done.
    pub(super) fn answer_all(&mut self) {
        for (ask, waiting) in std::mem::take(&mut self.pending_answers) {
            let (kind, text) = match self.pending_audit.may_be_done(ask) {
                true => (Refusal::Unknown, ENDED_MEANWHILE),
                false => (Refusal::Unavailable, ENDED),
            };
            // The caller may have given up waiting.
            let _ = waiting.answer.send(Answer::Refused(kind, text.into()));
        }
        let entries = self.pending_audit.close();
        self.put_all(entries);
    }

    pub(super) fn answer(&mut self, ask: CommandId, answer: Answer) {
        let entries = self.pending_audit.answered(ask, &answer);
        self.put_all(entries);
        let Some(PendingAnswer { answer: waiting, lock }) = self.pending_answers.remove(&ask) else { return };
        if let (Err(Answer::Locked(..)), Some(name)) = (waiting.send(answer), lock) {
            // The caller has given up waiting, so nothing else would ever release the lock.
            let (nobody, _) = oneshot::channel();
            self.inbox.put_back(DriverEvent::Request(HandleRequest::Ask(Command::Unlock(name), nobody)));
        }
    }
}
