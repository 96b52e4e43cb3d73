//! Health: in each beat a node asks every other one whether it can be reached, and counts in the registry who cannot.
//!
//! Whoever cannot be reached, by a probe or for an offer, gets a strike, at most one by each observer in a beat. Whoever is
//! reached again loses that observer's strikes. Three strikes together, by whomever, make a node offline: it takes no beat
//! and is offered nothing, until it is started again or somebody activates it (S0-45 … S0-52, I0-05, I44). That is a word
//! of its peers and no proof: what it runs is not taken from it, as long as its lease lives (I0-11).

use alloc::vec::Vec;

use crate::commit_kind::CommitKind;
use crate::effect::Event;
use crate::keys;
use crate::local::{Contact, Subject};
use crate::record::{OfflineRecord, StrikeRecord, encode};
use crate::registry::{Guard, Txn, Write};
use crate::scene::{Decision, Decisions, News, Scene};
use crate::standing;
use crate::time::Mono;
use crate::view::MemberState;
use crate::words::{Member, NodeName};

/// Probes, strikes, and takes nodes for offline or online.
pub fn decide(scene: &Scene<'_>, out: &mut Decisions) {
    if scene.me.is_none() {
        return;
    }
    let settings = scene.view.settings();
    let beat = settings.beat_of(scene.now.wall);
    come_online(scene, beat, out);
    if !standing::speaks(scene) {
        return;
    }
    let others: Vec<(&Member, &MemberState)> = scene
        .view
        .members()
        .filter(|(member, state)| member.node != scene.member.node && !state.info.address.is_empty())
        .filter(|(member, _)| !scene.view.is_offline(member))
        .collect();
    let contact = |member: &Member| scene.local.peers.contacts.get(member).copied().unwrap_or_default();
    let due =
        |member: &Member| scene.local.peers.contacts.get(member).is_none_or(|contact| contact.beat < beat);
    // One after another (S0-46): a node that is slow to answer costs time and not connections.
    if others.iter().all(|(member, _)| !contact(member).asking)
        && let Some((member, state)) =
            others.iter().find(|(member, _)| due(member)).or_else(|| doubtful(scene, &others))
    {
        out.add(Decision::Probe((*member).clone(), state.info.address.clone(), beat));
    }
    for (member, _) in &others {
        count(scene, member, contact(member), out);
        judge(scene, member, beat, out);
    }
    watch_leaders(scene, &others, out);
}

/// A strike for whom this node could not reach in the beat of the last try; none any more for whom it reached.
fn count(scene: &Scene<'_>, member: &Member, contact: Contact, out: &mut Decisions) {
    // Beats are counted by the clock.
    let Some(reachable) = contact.reachable.filter(|_| scene.clock_agrees()) else { return };
    let (node, me) = (&member.node, &scene.member.node);
    let known = scene.view.strike(node, me);
    let last = known.and_then(|known| known.value.as_ref());
    let old = last.filter(|strike| strike.incarnation == member.incarnation);
    let forgiven = scene.view.offline_entry(node).and_then(|known| known.value.as_ref());
    let forgiven = forgiven.is_some_and(|r| {
        r.incarnation == member.incarnation && !r.offline && old.is_some_and(|s| s.beat <= r.beat)
    });
    let count = old.filter(|_| !forgiven).map_or(0, |strike| strike.count);
    let count = match reachable {
        true if old.is_none_or(|strike| strike.count == 0) => return,
        true => 0,
        // Two clocks may number beats differently for a moment: only a later beat counts.
        false if last.is_some_and(|strike| strike.beat >= contact.beat) => return,
        false => count + 1,
    };
    let subject = Subject::Strike(node.clone());
    if !scene.is_idle(&subject) {
        return;
    }
    let record = StrikeRecord {
        incarnation: member.incarnation,
        count,
        beat: last.map_or(0, |strike| strike.beat).max(contact.beat),
        seq: last.map_or(0, |strike| strike.seq) + 1,
    };
    let key = keys::strike(node, me);
    let known = known.cloned().unwrap_or_default();
    let guards = scene.born().into_iter().chain([known.guard(key.clone())]).collect();
    let writes = [Write::Put { key, value: encode(&record), owner: None }].into();
    out.commit(
        subject,
        if reachable { CommitKind::Forgive } else { CommitKind::Strike },
        Txn { guards, writes },
    );
}

/// Enough strikes: whoever commits it first takes the node for offline, and tells (S0-51).
fn judge(scene: &Scene<'_>, member: &Member, beat: u64, out: &mut Decisions) {
    let node = &member.node;
    let limit = scene.view.settings().strikes.max(1);
    let sum = scene.view.strikes(member).fold(0_u32, |sum, (.., strike)| sum.saturating_add(strike.count));
    // Both lives of a node have one entry; it is about the later one.
    if sum < limit || scene.view.is_replaced(member) {
        return;
    }
    let (mut sum, mut guards) = (0_u32, Vec::from_iter(scene.born()));
    for (observer, known, strike) in scene.view.strikes(member) {
        sum = sum.saturating_add(strike.count);
        guards.push(known.guard(keys::strike(node, observer)));
        if sum >= limit {
            break;
        }
    }
    let subject = Subject::Offline(node.clone());
    if !scene.is_idle(&subject) {
        return;
    }
    set_offline(scene, member, true, beat, (subject, guards), out);
}

/// A node that starts again is online again (S0-52).
fn come_online(scene: &Scene<'_>, beat: u64, out: &mut Decisions) {
    let node = &scene.member.node;
    let record = scene.view.offline_entry(node).and_then(|known| known.value.as_ref());
    let earlier = record.is_some_and(|r| r.offline && r.incarnation < scene.member.incarnation);
    let subject = Subject::Offline(node.clone());
    if earlier && scene.is_idle(&subject) {
        set_offline(scene, scene.member, false, beat, (subject, Vec::from_iter(scene.born())), out);
    }
}

fn set_offline(
    scene: &Scene<'_>,
    member: &Member,
    offline: bool,
    beat: u64,
    (subject, mut guards): (Subject, Vec<Guard>),
    out: &mut Decisions,
) {
    let (kind, event) = match offline {
        true => (CommitKind::MarkOffline, Event::Offline(member.node.clone())),
        false => (CommitKind::MarkOnline, Event::Online(member.node.clone())),
    };
    let (guard, write) = offline_write(scene, member, offline, beat);
    guards.push(guard);
    out.news.push(News { subject: subject.clone(), sent: false, event });
    out.commit(subject, kind, Txn { guards, writes: [write].into() });
}

/// The guard and the write that make a node offline or online.
pub(super) fn offline_write(scene: &Scene<'_>, member: &Member, offline: bool, beat: u64) -> (Guard, Write) {
    let known = scene.view.offline_entry(&member.node).cloned().unwrap_or_default();
    let key = keys::offline(&member.node);
    let record = OfflineRecord {
        incarnation: member.incarnation,
        offline,
        beat,
        since: scene.now.wall,
        by: scene.member.clone(),
        seq: known.value.as_ref().map_or(0, |record| record.seq) + 1,
    };
    (known.guard(key.clone()), Write::Put { key, value: encode(&record), owner: None })
}

/// The spans in which nodes were heard to say that they serve.
fn claims<'a>(
    scene: &Scene<'a>,
    others: &[(&'a Member, &'a MemberState)],
) -> impl Iterator<Item = (&'a NodeName, Mono, Mono)> {
    let me = standing::serves(scene).and(scene.local.peers.reign);
    let me = me.and_then(|reign| Some((&scene.member.node, reign.serves?, scene.now.mono)));
    let heard = others.iter().filter_map(|(member, _)| {
        let (_, first, last) = scene.local.peers.contacts.get(*member)?.serves?;
        Some((&member.node, first, last))
    });
    me.into_iter().chain(heard.collect::<Vec<_>>())
}

/// Of two that say they serve, the one asked first is asked once more: it may have handed over since.
fn doubtful<'b, 'a>(
    scene: &Scene<'a>,
    others: &'b [(&'a Member, &'a MemberState)],
) -> Option<&'b (&'a Member, &'a MemberState)> {
    let mut said: Vec<_> = claims(scene, others).collect();
    if said.len() < 2 || conflict(&said).is_some() {
        return None;
    }
    said.sort_by_key(|(_, _, last)| *last);
    let first = said.first()?.0;
    others.iter().find(|(member, _)| member.node == *first)
}

/// Two that said so in spans that overlap.
fn conflict<'a>(said: &[(&'a NodeName, Mono, Mono)]) -> Option<(&'a NodeName, &'a NodeName)> {
    said.iter().enumerate().find_map(|(at, (a, first, last))| {
        let other = said
            .iter()
            .skip(at + 1)
            .find(|(_, other_first, other_last)| first.max(other_first) <= last.min(other_last));
        other.map(|(b, ..)| (*a, *b))
    })
}

/// Two leaders at once must never be, and everybody watches for it (S4-39).
fn watch_leaders(scene: &Scene<'_>, others: &[(&Member, &MemberState)], out: &mut Decisions) {
    let said: Vec<_> = claims(scene, others).collect();
    if let Some((a, b)) = conflict(&said) {
        out.add(Decision::Announce(Event::MultiLeader(a.clone(), b.clone())));
    }
}
