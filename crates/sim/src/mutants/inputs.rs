//! Faults in the handling of inputs.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::input::{Input, LeaseEvent};
use evenkeel_core::keys;
use evenkeel_core::node::{Node, Settings};
use evenkeel_core::registry::{Change, TxnOutcome};
use evenkeel_core::time::{Millis, Now};

use crate::mutation::Mutation;

/// Never receives the intent to drain it.
pub(super) struct IgnoresDrain;

impl Mutation for IgnoresDrain {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        let intent = keys::intent(&node.local().settings().name);
        let hide = |changes: &mut Vec<Change>| changes.retain(|change| change.key != intent);
        match input {
            Input::Listed(Some(batch)) | Input::Changed(batch) => hide(&mut batch.changes),
            Input::Committed { outcome: TxnOutcome::Refused(found), .. } => hide(found),
            _ => {}
        }
    }
}

/// Takes an applied claim for a refused one, and does not know what it wrote.
pub(super) struct InvertsClaimOutcome;

impl Mutation for InvertsClaimOutcome {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        if let Input::Committed { ticket, outcome: outcome @ TxnOutcome::Applied(_) } = input
            && node.local().commits().get(*ticket).is_some_and(|pending| is_claim(pending.kind))
        {
            *outcome = TxnOutcome::Refused(Vec::new());
        }
    }
}

fn is_claim(kind: CommitKind) -> bool {
    kind.claims_fire() || matches!(kind, CommitKind::ClaimJob | CommitKind::ClaimShards)
}

/// Takes an unknown outcome for a refusal.
pub(super) struct TreatsUnknownAsRefused;

impl Mutation for TreatsUnknownAsRefused {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        if let Input::Committed { outcome: outcome @ TxnOutcome::Unknown, .. } = input {
            *outcome = TxnOutcome::Refused(Vec::new());
        }
    }
}

/// Counts its lease from the grant, as far as it knows that, and not from the request.
pub(super) struct CountsLeaseFromGrant;

impl Mutation for CountsLeaseFromGrant {
    fn input(&self, _node: &Node, now: Now, input: &mut Input) {
        if let Input::Lease(LeaseEvent::Opened { asked, .. } | LeaseEvent::Renewed { asked, .. }) = input {
            *asked = now.mono;
        }
    }
}

/// Trusts its own wall clock.
pub(super) struct IgnoresClockSkew;

impl Mutation for IgnoresClockSkew {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        if let Input::Lease(LeaseEvent::Opened { granted, .. } | LeaseEvent::Renewed { granted, .. }) = input
        {
            granted.clock = None;
        }
    }
}

/// Lists the registry once, and then relies on news alone.
pub(super) struct NeverRescans;

impl Mutation for NeverRescans {
    fn settings(&self, settings: &mut Settings) {
        settings.rescan = Millis::secs(1_000_000);
    }
}
