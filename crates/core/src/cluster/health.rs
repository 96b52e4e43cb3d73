//! Health: in each beat a node probes every other one, and records in the registry which ones it cannot reach.
//!
//! A node that cannot be reached, by a probe or for an offer, gets a strike, at most one by each observer in a beat. An
//! observer that reaches it again takes its own strikes back. Strikes in three beats, by whichever observers, make a
//! node offline: it takes no beat and is offered nothing (S0-45 … S0-50, I0-05, I44). Strikes of several observers in
//! one beat are one beat without contact, so a short stall makes no node offline. An offline node is only probed, once
//! a beat. It is online again when no living observer has strikes against it any more, when it is restarted, or when an
//! operator activates it (S0-52). The mark is its peers' judgement and no proof: its runs are not taken from it, as
//! long as its lease lives (I0-11).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::effect::Event;
use crate::eligibility;
use crate::ids::{Member, NodeName};
use crate::keys;
use crate::local::{CommitScope, Contact};
use crate::record::{OfflineRecord, StrikeRecord, encode};
use crate::registry::{Guard, Txn, Write};
use crate::rule_context::{CommitNotice, RuleAction, RuleContext, RuleOutput};
use crate::time::Mono;
use crate::view::MemberState;

/// Sends probes, writes strikes, and marks nodes as offline or online.
pub fn decide(ctx: &RuleContext<'_>, out: &mut RuleOutput) {
    if ctx.me.is_none() {
        return;
    }
    let settings = ctx.view.settings();
    let beat = settings.beat_of(ctx.now.wall);
    come_online(ctx, beat, out);
    if !eligibility::has_address(ctx) {
        return;
    }
    let others: Vec<(&Member, &MemberState)> = ctx
        .view
        .members()
        .filter(|(member, state)| member.node != ctx.member.node && !state.info.address.is_empty())
        .collect();
    let contact = |member: &Member| ctx.local.peers.get(member).copied().unwrap_or_default();
    if others.iter().all(|(member, _)| !contact(member).asking)
        && let Some((member, state)) = next_to_probe(ctx, beat, &others)
    {
        out.add(RuleAction::Probe((*member).clone(), state.info.address.clone(), beat));
    }
    for (member, _) in &others {
        count(ctx, member, contact(member), out);
        match ctx.view.is_offline(member) {
            true => come_back(ctx, member, contact(member), beat, out),
            false => judge(ctx, member, beat, out),
        }
    }
    watch_leaders(ctx, &others, out);
}

/// The node that is probed next, each once in a beat.
///
/// Probes go out one after another (S0-46): a node that is slow to answer costs time and not connections. So offline
/// nodes are probed last.
fn next_to_probe<'b, 'a>(
    ctx: &RuleContext<'a>,
    beat: u64,
    others: &'b [(&'a Member, &'a MemberState)],
) -> Option<&'b (&'a Member, &'a MemberState)> {
    let contact = |member: &Member| ctx.local.peers.get(member);
    let is_due =
        |member: &Member| contact(member).is_none_or(|contact| contact.is_new() || contact.beat < beat);
    let due = || others.iter().filter(|(member, _)| is_due(member));
    let online = due().find(|(member, _)| !ctx.view.is_offline(member));
    online.or_else(|| due().next()).or_else(|| doubtful(ctx, others))
}

/// Writes a strike against a node that this one failed to reach at its last try, or clears it for one that it reached.
fn count(ctx: &RuleContext<'_>, member: &Member, contact: Contact, out: &mut RuleOutput) {
    // Beats are counted by the clock.
    let Some(reachable) = contact.reachable.filter(|_| ctx.clock_agrees()) else { return };
    let (node, me) = (&member.node, &ctx.member.node);
    let known = ctx.view.strike(node, me);
    let last = known.and_then(|known| known.value.as_ref());
    let old = last.filter(|strike| strike.incarnation == member.incarnation);
    let forgiven = ctx.view.forgiven(member);
    let counts = old.filter(|strike| strike.count > 0 && forgiven.is_none_or(|beat| strike.beat > beat));
    let (count, beats) = match reachable {
        true if old.is_none_or(|strike| strike.count == 0) => return,
        true => (0, Vec::new()),
        // It may have joined before its server answers, and this node before it probes.
        false if contact.beat <= contact.since => return,
        // Two clocks may number beats differently for a moment: only a later beat counts.
        false if last.is_some_and(|strike| strike.beat >= contact.beat) => return,
        // That this observer cannot reach it is known, and an offline node gets no more strikes (S0-50).
        false if counts.is_some() && ctx.view.is_offline(member) => return,
        false => {
            let mut beats: Vec<u64> = counts.iter().flat_map(|strike| strike.missed()).collect();
            beats.push(contact.beat);
            let limit = usize::try_from(ctx.view.settings().strikes.max(1)).unwrap_or(usize::MAX);
            (counts.map_or(0, |strike| strike.count) + 1, beats.split_off(beats.len().saturating_sub(limit)))
        }
    };
    let scope = CommitScope::Strike(node.clone());
    if !ctx.is_idle(&scope) {
        return;
    }
    let record = StrikeRecord {
        incarnation: member.incarnation,
        count,
        beat: last.map_or(0, |strike| strike.beat).max(contact.beat),
        beats,
        seq: last.map_or(0, |strike| strike.seq) + 1,
    };
    let key = keys::strike(node, me);
    let known = known.cloned().unwrap_or_default();
    let guards = ctx.born().into_iter().chain([known.guard(key.clone())]).collect();
    let writes = [Write::Put { key, value: encode(&record), owner: None }].into();
    out.commit(
        scope,
        if reachable { CommitKind::Forgive } else { CommitKind::Strike },
        Txn { guards, writes },
    );
}

/// Marks nodes with strikes in enough beats as offline: the node whose commit is first reports it (S0-51).
fn judge(ctx: &RuleContext<'_>, member: &Member, beat: u64, out: &mut RuleOutput) {
    let node = &member.node;
    let limit = ctx.view.settings().strikes.max(1);
    // Both lives of a node have one entry; it is about the later one.
    if ctx.view.beats_missed(member) < limit || ctx.view.is_replaced(member) {
        return;
    }
    let (mut missed, mut guards) = (BTreeSet::new(), Vec::from_iter(ctx.born()));
    let forgiven = ctx.view.forgiven(member);
    for (observer, known, strike) in ctx.view.strikes(member) {
        missed.extend(strike.missed().filter(|beat| forgiven.is_none_or(|until| *beat > until)));
        guards.push(known.guard(keys::strike(node, observer)));
        if u32::try_from(missed.len()).is_ok_and(|beats| beats >= limit) {
            break;
        }
    }
    let scope = CommitScope::Offline(node.clone());
    if !ctx.is_idle(&scope) {
        return;
    }
    set_offline(ctx, member, true, beat, (scope, guards), out);
}

/// Marks an offline node that this one reaches as online, unless another living node has strikes against it (S0-52).
fn come_back(ctx: &RuleContext<'_>, member: &Member, contact: Contact, beat: u64, out: &mut RuleOutput) {
    let is_reached = contact.reachable == Some(true) && contact.beat >= beat && ctx.clock_agrees();
    if !is_reached || ctx.view.is_replaced(member) {
        return;
    }
    let lives = |observer: &NodeName| ctx.view.members().any(|(other, _)| other.node == *observer);
    let scope = CommitScope::Offline(member.node.clone());
    if ctx.view.strikes(member).any(|(observer, ..)| lives(observer)) || !ctx.is_idle(&scope) {
        return;
    }
    set_offline(ctx, member, false, beat, (scope, Vec::from_iter(ctx.born())), out);
}

/// Marks a restarted node as online (S0-52).
fn come_online(ctx: &RuleContext<'_>, beat: u64, out: &mut RuleOutput) {
    let node = &ctx.member.node;
    let record = ctx.view.offline_entry(node).and_then(|known| known.value.as_ref());
    let earlier = record.is_some_and(|r| r.offline && r.incarnation < ctx.member.incarnation);
    let scope = CommitScope::Offline(node.clone());
    if earlier && ctx.is_idle(&scope) {
        set_offline(ctx, ctx.member, false, beat, (scope, Vec::from_iter(ctx.born())), out);
    }
}

fn set_offline(
    ctx: &RuleContext<'_>,
    member: &Member,
    offline: bool,
    beat: u64,
    (scope, mut guards): (CommitScope, Vec<Guard>),
    out: &mut RuleOutput,
) {
    let (kind, event) = match offline {
        true => (CommitKind::MarkOffline, Event::Offline(member.node.clone())),
        false if member == ctx.member => (CommitKind::ComeOnline, Event::Online(member.node.clone())),
        false => (CommitKind::MarkOnline, Event::Online(member.node.clone())),
    };
    let (guard, write) = offline_write(ctx, member, offline, beat);
    guards.push(guard);
    out.notices.push(CommitNotice { scope: scope.clone(), sent: false, event });
    out.commit(scope, kind, Txn { guards, writes: [write].into() });
}

/// The guard and the write that make a node offline or online.
pub(super) fn offline_write(
    ctx: &RuleContext<'_>,
    member: &Member,
    offline: bool,
    beat: u64,
) -> (Guard, Write) {
    let known = ctx.view.offline_entry(&member.node).cloned().unwrap_or_default();
    let key = keys::offline(&member.node);
    let record = OfflineRecord {
        incarnation: member.incarnation,
        offline,
        beat,
        since: ctx.now.wall,
        by: ctx.member.clone(),
        seq: known.value.as_ref().map_or(0, |record| record.seq) + 1,
    };
    (known.guard(key.clone()), Write::Put { key, value: encode(&record), owner: None })
}

/// The span in which a node replied that it serves, by our clock.
struct ServingSpan<'a> {
    node: &'a NodeName,
    first: Mono,
    last: Mono,
}

impl ServingSpan<'_> {
    fn overlaps(&self, other: &ServingSpan<'_>) -> bool {
        self.first.max(other.first) <= self.last.min(other.last)
    }
}

/// The spans in which nodes replied that they serve.
fn claims<'a>(
    ctx: &RuleContext<'a>,
    others: &[(&'a Member, &'a MemberState)],
) -> impl Iterator<Item = ServingSpan<'a>> {
    let me = eligibility::serves(ctx).and(ctx.local.leadership.term());
    let me = me.and_then(|term| {
        Some(ServingSpan { node: &ctx.member.node, first: term.serves?, last: ctx.now.mono })
    });
    let heard = others.iter().filter_map(|(member, _)| {
        let (_, first, last) = ctx.local.peers.get(member)?.serves?;
        Some(ServingSpan { node: &member.node, first, last })
    });
    me.into_iter().chain(heard.collect::<Vec<_>>())
}

/// Probes, of two nodes that claim to serve, the one probed first again: it may have handed over since.
fn doubtful<'b, 'a>(
    ctx: &RuleContext<'a>,
    others: &'b [(&'a Member, &'a MemberState)],
) -> Option<&'b (&'a Member, &'a MemberState)> {
    let mut said: Vec<_> = claims(ctx, others).collect();
    if said.len() < 2 || conflict(&said).is_some() {
        return None;
    }
    said.sort_by_key(|span| span.last);
    let first = said.first()?.node;
    others.iter().find(|(member, _)| member.node == *first)
}

/// Two nodes that claimed to serve in spans that overlap.
fn conflict<'a>(said: &[ServingSpan<'a>]) -> Option<(&'a NodeName, &'a NodeName)> {
    said.iter().enumerate().find_map(|(at, span)| {
        let other = said.iter().skip(at + 1).find(|other| span.overlaps(other));
        other.map(|other| (span.node, other.node))
    })
}

/// Reports two leaders at once, which must never be; every node watches for it (S4-39).
fn watch_leaders(ctx: &RuleContext<'_>, others: &[(&Member, &MemberState)], out: &mut RuleOutput) {
    let said: Vec<_> = claims(ctx, others).collect();
    if let Some((a, b)) = conflict(&said) {
        out.add(RuleAction::Announce(Event::MultiLeader(a.clone(), b.clone())));
    }
}
