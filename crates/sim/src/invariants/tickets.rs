//! Tracks commits, from their sending to their outcome: each is applied at most once, and its sender learns the truth.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::Ticket;
use evenkeel_core::ids::{JobName, Member, NodeName};
use evenkeel_core::node::Node;
use evenkeel_core::record::Layouts;
use evenkeel_core::registry::Txn;

use super::belief_checks::CommitReply;
use super::ticket_track::TicketTrack;
use super::{CommittedTxn, Invariant, InvariantChecker};

impl InvariantChecker {
    /// Records that a commit left its node. Returns whether it is a new one.
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

    /// The member that decided on a commit; another incarnation may send it again.
    pub(super) fn ticket_member(&self, act: &CommittedTxn<'_>) -> Option<Member> {
        self.tickets.get(&(act.node.clone(), act.life, act.ticket)).and_then(|book| book.member.clone())
    }

    /// The layouts of the program that decided on a commit.
    pub(super) fn ticket_knows(&self, act: &CommittedTxn<'_>) -> Option<Layouts> {
        self.tickets.get(&(act.node.clone(), act.life, act.ticket)).and_then(|book| book.knows)
    }

    /// Records the registry's answer to a commit.
    ///
    /// `succeeded` says that a later incarnation of the node was a member when it was applied, or that the node's guard
    /// had removed the member.
    pub(super) fn ticket_served(&mut self, act: &CommittedTxn<'_>, succeeded: bool) {
        let Some(book) = self.tickets.get_mut(&(act.node.clone(), act.life, act.ticket)) else { return };
        if !act.applied {
            return;
        }
        book.applied += 1;
        // A first try to join that lands after the next incarnation, or the guard, evicted its own makes that member
        // again: it can write nothing, but counts as online until its lease ends. Nothing else may be applied twice, nor other joins.
        let evicted = act.kind == CommitKind::Join && book.applied == 2 && succeeded;
        self.findings.test(act.at, Invariant::I46, book.applied == 1 || evicted, || {
            format!("#{} of {} ({}) was made twice", act.ticket.0, act.node, act.kind)
        });
        // A first try that comes late may find an owner gone that was still online when a later try was refused; that
        // is then news like any other.
        self.findings.test(act.at, Invariant::I46, !book.refused || book.awaits_absence, || {
            format!(
                "#{} of {} ({}) was made after it was taken for refused",
                act.ticket.0, act.node, act.kind
            )
        });
    }

    /// Records that a node received the answer to a commit.
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
        let open = node.local().commits().get(ticket).is_some();
        match told {
            CommitReply::Unknown => self.findings.test(at, Invariant::I46, open, || {
                format!("{name} takes #{} for settled, and its outcome is unknown", ticket.0)
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
                let run_state =
                    |job: &JobName| view.id(job).and_then(|id| view.job(id).held()?.run_state.as_ref());
                let run_states =
                    book.run_states.iter().all(|job| run_state(job).is_none_or(|l| l.revision >= revision));
                self.findings.test(at, Invariant::I46, !open && places && run_states, || {
                    format!("#{} of {name} was made, and {name} does not know", ticket.0)
                });
            }
        }
    }
}
