//! Promotion: where the planner is a leader, one node serves and the others stand by (seed 004).
//!
//! The lead is an entry that names its holder; it is free when it names none or a node that is no member any more, so
//! the lease is its time-out and every node watches it by the feed. The node that wins it loads what there is, waits
//! until no predecessor can still act, and only then declares that it serves (S4-34, S4-37). A leader that stops by
//! itself records that, and its successor need not wait (I4-01).

use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::eligibility;
use crate::keys;
use crate::local::CommitScope;
use crate::record::{PlannerKind, ServingRecord, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::time::Millis;

/// Claims the lead, starts to serve, or releases it.
pub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    let settings = ctx.view.settings();
    let wanted = settings.planner == PlannerKind::Leader;
    let known = ctx.view.serving().value.as_ref();
    let leader = known.and_then(|record| record.leader.as_ref());
    // In most steps there is a leader, or there should be none.
    let settled = match leader {
        Some(leader) => leader != ctx.member && ctx.view.member(leader).is_some(),
        None => !wanted,
    };
    if settled || !ctx.is_idle(&CommitScope::Serving) {
        return;
    }
    let Some(born) = ctx.born() else { return };
    let record = known.cloned().unwrap_or_default();
    if record.leader.as_ref() == Some(ctx.member) {
        let leads = wanted && eligibility::may_be_leaders(ctx).contains(&ctx.member);
        match (leads, record.serves) {
            (false, _) => release_lead(ctx, &record, born, out),
            (true, false) => begin(ctx, &record, eligibility::handover_wait(ctx, &settings), born, out),
            (true, true) => {}
        }
        return;
    }
    if !wanted || !eligibility::may_lead(ctx) {
        return;
    }
    // The former leader is gone.
    let guards = record.leader.as_ref().map(|dead| Guard::Absent(keys::node(dead)));
    let next = ServingRecord {
        leader: Some(ctx.member.clone()),
        epoch: record.epoch + 1,
        serves: false,
        released: record.released && record.leader.is_none(),
        seq: record.seq,
    };
    commit(ctx, CommitKind::TakeLead, &next, guards.into_iter().chain([born]).collect(), out);
}

/// Serves once everything that there was when the lead was won is loaded, and the wait is over.
fn begin(ctx: &RuleContext<'_>, record: &ServingRecord, wait: Millis, born: Guard, out: &mut RuleOutput) {
    let Some(term) = ctx.local.leadership.term().filter(|term| term.epoch == record.epoch) else {
        return;
    };
    let from = if record.released { term.since } else { term.since + wait };
    if !term.loaded {
        return;
    }
    if ctx.now.mono < from {
        return out.add(RuleAction::Wake(from, "until no earlier leader can act"));
    }
    let next = ServingRecord { serves: true, released: false, ..record.clone() };
    commit(ctx, CommitKind::Serve, &next, Vec::from([born]), out);
}

/// Releases the lead once nothing that was planned under it is in flight.
fn release_lead(ctx: &RuleContext<'_>, record: &ServingRecord, born: Guard, out: &mut RuleOutput) {
    let local = ctx.local;
    if local.planning.is_planning() || local.commits.iter().any(|p| matches!(p.scope, CommitScope::Item(..)))
    {
        return;
    }
    let next = ServingRecord { leader: None, serves: false, released: true, ..record.clone() };
    commit(ctx, CommitKind::GiveLeadBack, &next, Vec::from([born]), out);
}

fn commit(
    ctx: &RuleContext<'_>,
    kind: CommitKind,
    record: &ServingRecord,
    mut guards: Vec<Guard>,
    out: &mut RuleOutput,
) {
    let key = keys::serving();
    guards.push(ctx.view.serving().guard(key.clone()));
    let record = ServingRecord { seq: record.seq + 1, ..record.clone() };
    let writes = [Write::Put { key, value: encode(&record), owner: None }].into();
    out.commit(CommitScope::Serving, kind, Txn { guards, writes });
}
