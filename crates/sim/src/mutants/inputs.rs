//! Faults in what nodes make of what they hear.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::input::{Input, LeaseEvent};
use evenkeel_core::keys;
use evenkeel_core::node::{Node, Settings};
use evenkeel_core::registry::{Change, TxnOutcome};
use evenkeel_core::time::{Millis, Now};

use crate::mutation::Mutation;

/// Never learns that it should drain.
pub(super) struct IgnoresDrain;

impl Mutation for IgnoresDrain {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        let intent = keys::intent(&node.local().settings.name);
        let hide = |changes: &mut Vec<Change>| changes.retain(|change| change.key != intent);
        match input {
            Input::Listed(Some(batch)) | Input::Changed(batch) => hide(&mut batch.changes),
            Input::Committed { outcome: TxnOutcome::Refused(found), .. } => hide(found),
            _ => {}
        }
    }
}

/// Takes a claim that was made for one that was refused, and knows nothing of what it wrote.
pub(super) struct InvertsClaimOutcome;

impl Mutation for InvertsClaimOutcome {
    fn input(&self, node: &Node, _now: Now, input: &mut Input) {
        if let Input::Committed { ticket, outcome: outcome @ TxnOutcome::Applied(_) } = input
            && node.local().pending.get(ticket).is_some_and(|pending| is_claim(pending.kind))
        {
            *outcome = TxnOutcome::Refused(Vec::new());
        }
    }
}

fn is_claim(kind: CommitKind) -> bool {
    matches!(kind, CommitKind::ClaimJob | CommitKind::ClaimFire | CommitKind::ClaimShards)
}

/// Takes silence for a refusal.
pub(super) struct TreatsUnknownAsRefused;

impl Mutation for TreatsUnknownAsRefused {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        if let Input::Committed { outcome: outcome @ TxnOutcome::Unknown, .. } = input {
            *outcome = TxnOutcome::Refused(Vec::new());
        }
    }
}

/// Counts its lease from when it was granted, as far as it knows, and not from when it was asked for.
pub(super) struct CountsLeaseFromGrant;

impl Mutation for CountsLeaseFromGrant {
    fn input(&self, _node: &Node, now: Now, input: &mut Input) {
        if let Input::Lease(LeaseEvent::Opened { asked, .. } | LeaseEvent::Renewed { asked, .. }) = input {
            *asked = now.mono;
        }
    }
}

/// Believes its own time of day.
pub(super) struct IgnoresClockSkew;

impl Mutation for IgnoresClockSkew {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        if let Input::Lease(LeaseEvent::Opened { granted, .. } | LeaseEvent::Renewed { granted, .. }) = input
        {
            granted.clock = None;
        }
    }
}

/// Reads everything once, and then lives by news alone.
pub(super) struct NeverRescans;

impl Mutation for NeverRescans {
    fn settings(&self, settings: &mut Settings) {
        settings.rescan = Millis::secs(1_000_000);
    }
}
