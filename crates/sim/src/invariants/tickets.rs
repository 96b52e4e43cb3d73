//! Commits, from their sending to their outcome: made at most once, and believed as they were made.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Ticket;
use evenkeel_core::ids::{JobName, Member, NodeName};
use evenkeel_core::keys::{Key, ParsedKey, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{Assignment, Layouts, decode};
use evenkeel_core::registry::{Guard, Txn, Write};

use super::belief_checks::{CommitReply, wanted};
use super::{CommittedTxn, Invariant, InvariantChecker};

/// What the watch knows of a commit.
#[derive(Clone, Debug, Default)]
pub(super) struct TicketTrack {
    /// As whom it was decided on.
    member: Option<Member>,
    /// The layouts that the program knows which decided on it.
    knows: Option<Layouts>,
    /// How often the registry made it.
    applied: u32,
    /// Whether its sender takes it for refused.
    refused: bool,
    /// Whether it is guarded by somebody's absence, which may come true at any time.
    awaits_absence: bool,
    /// The places it writes, with their epochs.
    assignments: Vec<(JobName, u64)>,
    /// The lanes it writes.
    run_states: Vec<JobName>,
    /// The wishes to drain nodes that it makes or takes back.
    intents: Vec<(Key, bool)>,
}

impl InvariantChecker {
    /// A commit left its node. Returns whether it is a new one.
    pub(super) fn ticket_sent(
        &mut self,
        name: &NodeName,
        life: u64,
        ticket: Ticket,
        txn: &Txn,
        (member, knows): (Option<&Member>, Layouts),
    ) -> bool {
        let mut new = false;
        self.tickets.entry((name.clone(), life, ticket)).or_insert_with(|| {
            new = true;
            TicketTrack { member: member.cloned(), knows: Some(knows), ..TicketTrack::of(txn) }
        });
        if let Some(member) = member.filter(|_| new) {
            self.knows.insert(member.clone(), knows);
        }
        new
    }

    /// As whom a commit was decided on; it may be sent again in another life.
    pub(super) fn ticket_member(&self, act: &CommittedTxn<'_>) -> Option<Member> {
        self.tickets.get(&(act.node.clone(), act.life, act.ticket)).and_then(|book| book.member.clone())
    }

    /// The layouts that the program knows which decided on a commit.
    pub(super) fn ticket_knows(&self, act: &CommittedTxn<'_>) -> Option<Layouts> {
        self.tickets.get(&(act.node.clone(), act.life, act.ticket)).and_then(|book| book.knows)
    }

    /// The registry answered a commit.
    ///
    /// `succeeded` says that a later life of the node was a member when it was made.
    pub(super) fn ticket_served(&mut self, act: &CommittedTxn<'_>, succeeded: bool) {
        let Some(book) = self.tickets.get_mut(&(act.node.clone(), act.life, act.ticket)) else { return };
        if !act.applied {
            return;
        }
        book.applied += 1;
        // A first try to join that lands after its life was evicted by the next makes that member once more: it can write
        // nothing, but counts as living until its lease ends. Nothing else may be made twice, nor a join for another reason.
        let evicted = act.kind == CommitKind::Join && book.applied == 2 && succeeded;
        self.findings.test(act.at, Invariant::I46, book.applied == 1 || evicted, || {
            format!("#{} of {} ({}) was made twice", act.ticket.0, act.node, act.kind)
        });
        // A first try that comes late may find a holder gone that still lived when a later try was refused; that is then
        // news like any other.
        self.findings.test(act.at, Invariant::I46, !book.refused || book.awaits_absence, || {
            format!(
                "#{} of {} ({}) was made after it was taken for refused",
                act.ticket.0, act.node, act.kind
            )
        });
    }

    /// A node took the answer to a commit.
    pub(super) fn ticket_answered(
        &mut self,
        at: i64,
        name: &NodeName,
        life: u64,
        node: &Node,
        ticket: Ticket,
        told: CommitReply,
    ) {
        let Some(book) = self.tickets.get_mut(&(name.clone(), life, ticket)) else { return };
        let open = node.local().pending.contains_key(&ticket);
        match told {
            CommitReply::Unknown => self.findings.test(at, Invariant::I46, open, || {
                format!("{name} takes #{} for settled, and nobody knows", ticket.0)
            }),
            CommitReply::Refused => {
                book.refused = book.applied == 0;
                self.findings
                    .test(at, Invariant::I46, !open, || format!("{name} does not take #{}", ticket.0));
            }
            CommitReply::Applied(revision) => {
                let view = node.view();
                let shown = |job: &JobName, epoch: u64| {
                    view.id(job).is_some_and(|id| view.job(id).assignment().epoch >= epoch)
                };
                let places = book.assignments.iter().all(|(job, epoch)| shown(job, *epoch));
                let lane =
                    |job: &JobName| view.id(job).and_then(|id| view.job(id).held()?.run_state.as_ref());
                let lanes =
                    book.run_states.iter().all(|job| lane(job).is_none_or(|l| l.revision >= revision));
                self.findings.test(at, Invariant::I46, !open && places && lanes, || {
                    format!("#{} of {name} was made, and {name} does not know", ticket.0)
                });
            }
        }
    }
}

impl TicketTrack {
    /// Whether it makes this wish to drain a node, or takes it back; `None` when it is about something else.
    pub(super) fn intent(&self, key: &Key) -> Option<bool> {
        self.intents.iter().find(|(k, _)| k == key).map(|(_, wanted)| *wanted)
    }

    fn of(txn: &Txn) -> Self {
        let mut book = Self::default();
        let absence =
            |g: &Guard| matches!(g, Guard::Absent(key) if matches!(parse(key), Some(ParsedKey::Node(_))));
        book.awaits_absence = txn.guards.iter().any(absence);
        for write in &txn.writes {
            let Write::Put { key, value, .. } = write else { continue };
            match parse(key) {
                Some(ParsedKey::Assignment(job)) => {
                    book.assignments.extend(decode::<Assignment>(value).map(|place| (job, place.epoch)));
                }
                Some(ParsedKey::RunState(job)) => book.run_states.push(job),
                Some(ParsedKey::Intent(_)) => book.intents.push((key.clone(), wanted(value))),
                _ => {}
            }
        }
        book
    }
}
