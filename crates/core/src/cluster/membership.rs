//! Membership: a node joins under its lease, once the runs of its earlier life have ended, and publishes its layouts.

use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::effect::{Event, StopReason};
use crate::ids::Member;
use crate::keys;
use crate::local::CommitScope;
use crate::record::{MemberInfo, encode};
use crate::registry::{Guard, LeaseId, Txn, Write};
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};

/// Joins, or reports why not.
pub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    if ctx.local.availability.is_leaving() {
        return depart(ctx, out);
    }
    if !ctx.is_idle(&CommitScope::Membership) {
        return;
    }
    if let Some(born) = ctx.born() {
        return update_member(ctx, born, out);
    }
    // What an earlier life still runs would run beside its successor's (law 8).
    if !ctx.local.runs.is_empty() {
        for (id, given) in ctx.local.runs.iter().filter(|(_, g)| g.is_executing() && !g.stopping) {
            out.add(RuleAction::Stop(id, given.run.clone(), StopReason::Fenced));
        }
        return;
    }
    // A registry that went back in time may give the number of an earlier life once more.
    let predecessor = ctx.local.membership.predecessor().filter(|number| *number != ctx.member.incarnation);
    let predecessor = predecessor.map(|incarnation| Member { incarnation, ..ctx.member.clone() });
    let taken =
        |m: &&Member| m.node == ctx.member.node && *m != ctx.member && Some(*m) != predecessor.as_ref();
    if ctx.view.members().any(|(m, _)| taken(&m)) {
        out.add(RuleAction::Announce(Event::NameTaken(ctx.member.node.clone())));
        return;
    }
    if let Some(shut) = ctx.view.cluster().value.as_ref().and_then(|cluster| cluster.shut.as_ref()) {
        out.add(RuleAction::Announce(Event::Shut(shut.clone())));
        return;
    }
    // It is unknown whose registry this is. That was announced when it was read.
    if ctx.view.cluster().is_unreadable() {
        return;
    }
    out.commit(CommitScope::Membership, CommitKind::Join, join(ctx, predecessor));
}

/// Publishes the layouts that it knows now: a node handed off to a newer program would otherwise keep the old layout.
fn update_member(ctx: &RuleContext<'_>, born: Guard, out: &mut RuleOutput) {
    let settings = &ctx.local.settings;
    let Some(state) = ctx.view.member(ctx.member).filter(|state| state.info.knows < settings.knows.newest)
    else {
        return;
    };
    let (key, owner) = (keys::node(ctx.member), Some(LeaseId(ctx.member.incarnation)));
    let (version, knows) = (settings.version.clone(), settings.knows.newest);
    let value = encode(&MemberInfo { version, knows, ..state.info.clone() });
    let guards = Vec::from([Guard::At(key.clone(), state.revision), born]);
    out.commit(
        CommitScope::Membership,
        CommitKind::UpdateMember,
        Txn { guards, writes: Vec::from([Write::Put { key, value, owner }]) },
    );
}

/// Leaves once nothing of this life is open: the others take everything over as soon as the member entry is gone.
fn depart(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    let local = ctx.local;
    let quiet = local.runs.is_empty() && local.commits.is_empty() && local.checks.is_empty();
    if quiet && !ctx.view.opened_by(ctx.member) && !ctx.view.leads(ctx.member) {
        out.add(RuleAction::Departed);
    }
}

fn join(ctx: &RuleContext<'_>, predecessor: Option<Member>) -> Txn {
    let settings = &ctx.local.settings;
    let lease = LeaseId(ctx.member.incarnation);
    let key = keys::node(ctx.member);
    let info = MemberInfo {
        address: settings.address.clone(),
        home: settings.home.clone(),
        slots: settings.slots,
        tolerance: settings.tolerance,
        alarm: settings.alarm,
        version: settings.version.clone(),
        labels: settings.labels.clone(),
        lacking: settings.lacking.clone(),
        knows: settings.knows.newest,
    };
    let mut writes = Vec::from([Write::Put { key: key.clone(), value: encode(&info), owner: Some(lease) }]);
    writes.extend(predecessor.map(|p| Write::Delete { key: keys::node(&p) }));
    // A commit that closes the registry, or requests another layout, makes every join fail that has not read it.
    let open = ctx.view.cluster().guard(keys::cluster());
    // Where a layout is requested that this program does not know, no node can count on it any more.
    let cluster = ctx.view.cluster().value.as_ref();
    let too_new =
        cluster.filter(|cluster| cluster.wanted.is_some_and(|wanted| wanted > settings.knows.newest));
    writes.extend(too_new.map(|cluster| Write::Put {
        key: keys::cluster(),
        value: encode(&cluster.wanting(None)),
        owner: None,
    }));
    Txn { guards: Vec::from([Guard::Absent(key), Guard::Open(lease), open]), writes }
}
