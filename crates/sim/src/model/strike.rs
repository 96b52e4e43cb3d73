//! What goes wrong, and how it mends.

use evenkeel_core::input::{Input, LeaseEvent, OfferAnswer};
use evenkeel_core::registry::Outcome;

use super::Scope;
use super::flaw::Flaw;
use super::ledger::Broken;
use super::outlook::Mishap;
use super::state::{Late, Request, Side, State, Trouble};

impl State {
    pub(super) fn strike(
        &mut self,
        scope: &Scope,
        n: u8,
        mishap: Mishap,
        log: &mut Option<String>,
    ) -> Result<(), Broken> {
        self.faults -= 1;
        let now = self.now;
        match mishap {
            Mishap::RequestLost(i) => {
                let request = self.side(n).requests.remove(i as usize);
                self.side(n).inbox.extend(failure(&request));
            }
            Mishap::RequestLate(i) => {
                let request = self.side(n).requests.remove(i as usize);
                self.side(n).inbox.extend(failure(&request));
                self.late.extend(late(n, request));
            }
            Mishap::ReplyLost(i) => {
                let request = self.side(n).requests.remove(i as usize);
                self.serve(scope, n, &request, log)?;
                self.side(n).inbox.extend(failure(&request));
            }
            Mishap::ReplySlow(i) => {
                let request = self.side(n).requests.remove(i as usize);
                self.side(n).slow = self.serve(scope, n, &request, log)?;
            }
            Mishap::NewsLost => {
                self.side(n).heard = Some(self.store.get().revision());
                self.forget_heard();
            }
            Mishap::Freeze => self.side(n).trouble = Some(Trouble::Frozen(now)),
            Mishap::Cut => self.side(n).trouble = Some(Trouble::Cut(now)),
            Mishap::Crash => {
                self.end_process(scope, n);
                self.side(n).trouble = Some(Trouble::Down);
            }
        }
        Ok(())
    }

    /// The process ends. Its commits may still arrive; its guard ends its children.
    pub(super) fn end_process(&mut self, scope: &Scope, n: u8) {
        let old = self.side(n);
        let requests = std::mem::take(&mut old.requests);
        let mut running = std::mem::take(&mut old.running);
        if scope.flaw != Some(Flaw::NoGuardProcess) {
            for child in running.drain(..) {
                self.ledger(&child.run).end(child.run.due.0, child.run.attempt, false);
            }
        }
        let side = self.side(n);
        *side = Side { life: side.life, lease: side.lease, running, ..Side::down() };
        self.late.extend(requests.into_iter().filter_map(|request| late(n, request)));
        self.forget_heard();
    }

    /// A trouble ends: a process that is down starts again.
    pub(super) fn mend(&mut self, scope: &Scope, n: u8) {
        let now = self.now;
        let side = self.side(n);
        if side.trouble == Some(Trouble::Down) {
            let running = std::mem::take(&mut side.running);
            *side = Side { running, ..Side::new(scope, n as usize, side.life, now) };
        }
        side.trouble = None;
    }

    pub(super) fn mend_with_loss(&mut self, scope: &Scope, n: u8) {
        let lost = std::mem::take(&mut self.side(n).requests);
        self.side(n).inbox.extend(lost.iter().filter_map(failure));
        self.mend(scope, n);
    }
}

/// What a sender learns when no answer comes.
fn failure(request: &Request) -> Option<Input> {
    Some(match request {
        Request::Open(_) | Request::Renew(..) => Input::Lease(LeaseEvent::Failed),
        Request::Close(_) => return None,
        Request::List => Input::Listed(None),
        Request::Read(_) => Input::Read(None),
        Request::Offer { to, runs } => {
            let runs = runs.iter().map(|offer| offer.run.clone()).collect();
            Input::Offered { to: to.clone(), runs, answer: OfferAnswer::Unreachable }
        }
        Request::Commit { ticket, .. } => Input::Committed { ticket: *ticket, outcome: Outcome::Unknown },
    })
}

/// A commit may arrive when nobody waits for it any more; everything else would change nothing then.
fn late(side: u8, request: Request) -> Option<Late> {
    let Request::Commit { txn, kind, trust, .. } = request else { return None };
    Some(Late { side, txn, kind, trust })
}
