//! Applies faults and their recovery.

use evenkeel_core::input::{Input, LeaseEvent, OfferAnswer};
use evenkeel_core::node::Node;
use evenkeel_core::registry::TxnOutcome;

use super::choices::ModelFault;
use super::flaw::ProtocolFlaw;
use super::ledger::LedgerViolation;
use super::scope::ModelScope;
use super::state::{LateCommit, ModelNode, ModelRequest, ModelState, NodeTrouble};

impl ModelState {
    pub(super) fn strike(
        &mut self,
        scope: &ModelScope,
        n: u8,
        mishap: ModelFault,
        log: &mut Option<String>,
    ) -> Result<(), LedgerViolation> {
        self.faults -= 1;
        let now = self.now;
        match mishap {
            ModelFault::RequestLost(i) => {
                let request = self.side(n).requests.remove(i as usize);
                self.side(n).inbox.extend(failure(&request));
            }
            ModelFault::RequestLate(i) => {
                let request = self.side(n).requests.remove(i as usize);
                self.side(n).inbox.extend(failure(&request));
                self.late.extend(late(n, request));
            }
            ModelFault::ReplyLost(i) => {
                let request = self.side(n).requests.remove(i as usize);
                self.serve(scope, n, &request, log)?;
                self.side(n).inbox.extend(failure(&request));
            }
            ModelFault::ReplySlow(i) => {
                let request = self.side(n).requests.remove(i as usize);
                self.side(n).slow = self.serve(scope, n, &request, log)?;
            }
            ModelFault::NewsLost => {
                self.side(n).heard = Some(self.store.get().revision());
                self.prune_feed();
            }
            ModelFault::Freeze => {
                if scope.flaw == Some(ProtocolFlaw::StoppedTakenForDead) {
                    let side = self.side(n);
                    side.removes = side.node.as_ref().and_then(Node::member_entry);
                }
                self.side(n).trouble = Some(NodeTrouble::Frozen(now));
            }
            ModelFault::Cut => self.side(n).trouble = Some(NodeTrouble::Cut(now)),
            ModelFault::Crash => {
                let entry = self.side(n).node.as_ref().and_then(Node::member_entry);
                self.end_process(scope, n);
                // Its guard has ended the children, so that it may remove the member.
                self.side(n).removes = entry;
                self.side(n).trouble = Some(NodeTrouble::Down);
            }
        }
        Ok(())
    }

    /// Ends the process. Its commits may still arrive; its guard ends its children.
    pub(super) fn end_process(&mut self, scope: &ModelScope, n: u8) {
        let old = self.side(n);
        let requests = std::mem::take(&mut old.requests);
        let mut running = std::mem::take(&mut old.running);
        if scope.flaw != Some(ProtocolFlaw::NoGuardProcess) {
            for child in running.drain(..) {
                self.ledger(&child.run).end(child.run.due.0, child.run.attempt, false);
            }
        }
        let side = self.side(n);
        *side = ModelNode { life: side.life, lease: side.lease, running, ..ModelNode::down() };
        self.late.extend(requests.into_iter().filter_map(|request| late(n, request)));
        self.prune_feed();
    }

    /// Ends a fault: a process that is down starts again.
    pub(super) fn mend(&mut self, scope: &ModelScope, n: u8) {
        let now = self.now;
        let side = self.side(n);
        if side.trouble == Some(NodeTrouble::Down) {
            let (running, removes) = (std::mem::take(&mut side.running), side.removes.take());
            *side = ModelNode { running, removes, ..ModelNode::new(scope, n as usize, side.life, now) };
        }
        side.trouble = None;
    }

    pub(super) fn mend_with_loss(&mut self, scope: &ModelScope, n: u8) {
        let lost = std::mem::take(&mut self.side(n).requests);
        self.side(n).inbox.extend(lost.iter().filter_map(failure));
        self.mend(scope, n);
    }
}

/// The input of a sender when no answer comes.
fn failure(request: &ModelRequest) -> Option<Input> {
    Some(match request {
        ModelRequest::Open(_) | ModelRequest::Renew(..) => Input::Lease(LeaseEvent::Failed),
        ModelRequest::Close(_) => return None,
        ModelRequest::List => Input::Listed(None),
        ModelRequest::Read(_) => Input::Read(None),
        ModelRequest::Offer { to, runs } => {
            let runs = runs.iter().map(|offer| offer.run.clone()).collect();
            Input::Offered { to: to.clone(), runs, answer: OfferAnswer::Unreachable }
        }
        ModelRequest::Commit { ticket, .. } => {
            Input::Committed { ticket: *ticket, outcome: TxnOutcome::Unknown }
        }
    })
}

/// A late commit of a request: it may arrive after its sender gave up; any other request would change nothing then.
fn late(side: u8, request: ModelRequest) -> Option<LateCommit> {
    let ModelRequest::Commit { txn, kind, trust, .. } = request else { return None };
    Some(LateCommit { side, txn, kind, trust })
}
