//! Checks beats, leadership and strikes: which node may act for all, and which may be marked offline.

use std::collections::BTreeSet;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::ids::{Member, NodeName, Operation};
use evenkeel_core::input::Input;
use evenkeel_core::keys::{self, ParsedKey, parse};
use evenkeel_core::record::{
    BeatRecord, Handover, NodeIntent, OfflineRecord, Plan, ServingRecord, StrikeRecord, decode,
};
use evenkeel_core::registry::{Guard, Revision, Txn, Write};
use evenkeel_core::store::Store;
use evenkeel_core::time::Wall;

use super::runs::UNNOTICED;
use super::{CommittedTxn, Invariant, InvariantChecker};
use crate::world::clock::START;

/// How long a leader that lost its leadership may still act, with the transit time of its messages, in milliseconds.
const STOP_AND_NET: i64 = 1_000;

impl InvariantChecker {
    /// Whether the writer of a plan may plan, by its beat or as the serving leader, and its commit is guarded by that.
    pub(super) fn may_plan(&mut self, act: &CommittedTxn<'_>, after: &Plan, store: &Store) -> bool {
        let named = |number: u64| {
            after.planner.as_ref().is_some_and(|p| Some(&p.member) == act.member && p.number == number)
        };
        act.txn.guards.iter().any(|guard| {
            let Guard::At(key, _) = guard else { return false };
            let value = || store.entry(key).map(|entry| entry.value.clone());
            match parse(key) {
                Some(ParsedKey::Beat(operation)) if operation.as_str() == evenkeel_core::view::DISPATCH => {
                    let record: Option<BeatRecord> = value().and_then(|value| decode(&value));
                    record.is_some_and(|r| Some(&r.holder) == act.member && named(r.beat))
                }
                Some(ParsedKey::Serving) => {
                    let record: Option<ServingRecord> = value().and_then(|value| decode(&value));
                    record.is_some_and(|r| r.serves && r.leader.as_ref() == act.member && named(r.epoch))
                }
                _ => false,
            }
        })
    }

    /// Records an accepted write of one of these entries.
    pub(super) fn peers_written(
        &mut self,
        act: &CommittedTxn<'_>,
        written: &[(ParsedKey, &Write)],
        store: &Store,
        lives: impl Fn(&Member) -> bool,
    ) {
        if is_order(|wanted| written.iter().any(|(what, _)| wanted(what))) && is_led(act.txn) {
            let serving = &self.peers.serving;
            let serves = serving.serves && serving.leader.as_ref() == act.member;
            self.findings.test(act.at, Invariant::I6, serves, || {
                format!("{:?} ordered ({}) and does not serve: {serving:?}", act.member, act.kind)
            });
        }
        for (what, write) in written {
            let Write::Put { value, .. } = write else { continue };
            match what.clone() {
                ParsedKey::Beat(operation) => self.beat_written(act, operation, decode(value), &lives),
                ParsedKey::Serving => self.serving_written(act, decode(value), store.revision(), &lives),
                ParsedKey::Settings => self.peers.settings = decode(value).unwrap_or_default(),
                ParsedKey::Strike(node, observer) => self.struck(act, node, observer, decode(value)),
                ParsedKey::Offline(node) => self.offline_written(act, node, decode(value)),
                ParsedKey::Intent(node) => self.drained_written(act, node, decode(value)),
                _ => {}
            }
        }
    }

    /// In each beat one node does an operation, unless that node is gone; and beats neither go back nor run ahead.
    fn beat_written(
        &mut self,
        act: &CommittedTxn<'_>,
        operation: Operation,
        record: Option<BeatRecord>,
        lives: impl Fn(&Member) -> bool,
    ) {
        let Some(record) = record else { return };
        let at = act.at;
        let old = self.peers.beats.get(&operation);
        let next =
            old.is_none_or(|old| record.beat > old.beat || record.beat == old.beat && !lives(&old.holder));
        self.findings.test(at, Invariant::I11, next, || {
            format!("{} took {operation} for beat {} after {old:?}", record.holder, record.beat)
        });
        let rises = old.is_none_or(|old| record.seq > old.seq);
        self.findings.test(at, Invariant::I1, rises, || {
            format!("{operation} went to {} under the token of {old:?}", record.holder)
        });
        let mine = Some(&record.holder) == act.member;
        self.findings.test(at, Invariant::I10, mine, || {
            format!("{:?} took {operation} for {}", act.member, record.holder)
        });
        let now = self.peers.settings.beat_of(Wall(START.0 + at + UNNOTICED));
        self.findings.test(at, Invariant::I11, record.beat <= now, || {
            format!("{} took {operation} for beat {}, and this is {now}", record.holder, record.beat)
        });
        self.peers.beats.insert(operation, record);
    }

    /// A leader loads the data, waits, and only then serves; and no node takes the leadership from an online one.
    fn serving_written(
        &mut self,
        act: &CommittedTxn<'_>,
        record: Option<ServingRecord>,
        revision: Revision,
        lives: impl Fn(&Member) -> bool,
    ) {
        let Some(record) = record else { return };
        let at = act.at;
        let wait = self.takeover_wait(act.node);
        let Self { findings, peers, .. } = self;
        let old = std::mem::replace(&mut peers.serving, record.clone());
        findings.test(at, Invariant::I1, record.seq > old.seq && record.epoch >= old.epoch, || {
            format!("{record:?} was written over {old:?}")
        });
        if record.leader != old.leader {
            let mine = old.leader.as_ref() == act.member;
            let gone = old.leader.as_ref().is_none_or(|leader| !lives(leader));
            findings.test(at, Invariant::I10, mine || gone, || {
                format!("{:?} took the lead from {:?}, which lives", act.member, old.leader)
            });
            let right = record.leader.is_none() || !record.serves && record.epoch == old.epoch + 1;
            findings.test(at, Invariant::I7, right, || format!("{record:?} followed {old:?}"));
            (peers.won, peers.loaded) = ((at, revision), false);
            return;
        }
        let itself = record.leader.as_ref() == act.member;
        findings.test(at, Invariant::I10, itself, || format!("{:?} wrote {record:?}", act.member));
        if record.serves && !old.serves {
            findings.test(at, Invariant::I7, peers.loaded, || {
                format!("{:?} serves before it has read what there is", act.member)
            });
            let waited = old.released || at - peers.won.0 >= wait;
            findings.test(at, Invariant::I5, waited, || {
                format!("{:?} serves {} ms after it won, not {wait}", act.member, at - peers.won.0)
            });
        }
    }

    /// W, by the checker's arithmetic, less the allowed rate difference of clocks.
    fn takeover_wait(&self, node: &NodeName) -> i64 {
        let Some(mind) = self.beliefs.get(node) else { return 0 };
        let ttl = mind.ttl.0;
        let exact = match self.peers.settings.handover {
            Handover::Waited => mind.notice.0 + STOP_AND_NET + ttl / 100,
            Handover::Fenced => {
                STOP_AND_NET + ttl / 100 - (ttl / 3).max(ttl / 6 + mind.early.0 + ttl / 100) - 10
            }
        };
        (exact - exact / 200 - 2).max(0)
    }

    /// Records an input that concerns a node's peers.
    pub(super) fn observe_peers(&mut self, name: &NodeName, input: &Input) {
        let peers = &mut self.peers;
        match input {
            Input::Listed(Some(batch)) => {
                let leads = peers.serving.leader.as_ref().is_some_and(|leader| leader.node == *name);
                peers.loaded |= leads && batch.revision >= peers.won.1;
            }
            Input::Probed { member, answer, .. } => {
                let contact = (name.clone(), member.clone());
                if answer.is_some() {
                    peers.answered.insert(contact.clone());
                }
                peers.reached.insert(contact, answer.is_some());
            }
            Input::Offered { to, answer, .. } => {
                let reached = *answer != evenkeel_core::input::OfferAnswer::Unreachable;
                if !reached {
                    peers.reached.insert((name.clone(), to.clone()), false);
                }
            }
            _ => {}
        }
    }

    /// A node strikes another once in a beat, and only if it could not reach it.
    fn struck(
        &mut self,
        act: &CommittedTxn<'_>,
        node: NodeName,
        observer: NodeName,
        record: Option<StrikeRecord>,
    ) {
        let Some(record) = record else { return };
        let at = act.at;
        let Self { findings, peers, .. } = self;
        let mine = act.member.is_some_and(|me| me.node == observer) && node != observer;
        findings.test(at, Invariant::I44, mine, || {
            format!("{:?} struck {node} in the name of {observer}", act.member)
        });
        let key = (node.clone(), observer.clone());
        let old = peers.strikes.get(&key);
        let rose = old.filter(|old| old.incarnation == record.incarnation && record.count > old.count);
        let once = rose.is_none_or(|old| record.count == old.count + 1 && record.beat > old.beat)
            && (rose.is_some() || record.count <= 1 || old.is_some_and(|old| old.count >= record.count));
        findings.test(at, Invariant::I44, once, || {
            format!("{observer} struck {node} twice in a beat: {old:?}, {record:?}")
        });
        let member = Member { node, incarnation: record.incarnation };
        if rose.is_some() || old.is_none_or(|old| old.incarnation != record.incarnation) && record.count > 0 {
            let reached = peers.reached.get(&(observer.clone(), member.clone()));
            findings.test(at, Invariant::I42, reached.is_some(), || {
                format!("{observer} struck {member} and never tried to reach it")
            });
        }
        peers.strikes.insert(key, record);
    }

    /// A node is marked offline after enough strikes since it was last marked online, and once.
    fn offline_written(&mut self, act: &CommittedTxn<'_>, node: NodeName, record: Option<OfflineRecord>) {
        let Some(record) = record else { return };
        let at = act.at;
        let Self { findings, peers, .. } = self;
        let old = peers.offline.get(&node).filter(|old| old.incarnation == record.incarnation);
        if record.offline {
            let again = old.is_some_and(|old| old.offline);
            findings.test(at, Invariant::I44, !again, || format!("{node} was taken for offline twice"));
            let since = old.map(|old| old.beat);
            let strikes = peers.strikes.iter().filter(|((target, _), strike)| {
                *target == node && strike.incarnation == record.incarnation && strike.count > 0
            });
            // Strikes of one beat count as one beat without contact, whichever nodes made them.
            let beats: BTreeSet<u64> = strikes
                .flat_map(|(_, strike)| strike.missed())
                .filter(|beat| since.is_none_or(|since| *beat > since))
                .collect();
            let (missed, limit) = (beats.len(), peers.settings.strikes);
            findings.test(at, Invariant::I44, missed >= limit as usize, || {
                format!("{node} was taken for offline after strikes in {missed} beats of {limit}")
            });
            peers.turned.entry(node.clone()).or_default().0 += 1;
            peers.answered.retain(|(_, member)| member.node != node);
        } else {
            let later = peers.offline.get(&node).is_some_and(|old| old.incarnation < record.incarnation);
            let itself = act.member.is_some_and(|me| me.node == node);
            let member = Member { node: node.clone(), incarnation: record.incarnation };
            // An offer may have failed after the node was marked online, and before the registry had that.
            let contact = (act.node.clone(), member);
            let reached = peers.answered.contains(&contact) || peers.reached.get(&contact) == Some(&true);
            let may = act.kind == CommitKind::Activate || later && itself || !itself && reached;
            findings.test(at, Invariant::I44, may, || {
                format!("{:?} took {node} for online ({})", act.member, act.kind)
            });
        }
        peers.offline.insert(node, record);
    }

    /// A node reports only itself as drained, and then neither owns nor runs anything.
    fn drained_written(&mut self, act: &CommittedTxn<'_>, node: NodeName, record: Option<NodeIntent>) {
        let Some(incarnation) = record.and_then(|record| record.drained) else { return };
        let member = Member { node, incarnation };
        let Self { findings, jobs, .. } = self;
        findings.test(act.at, Invariant::I38, act.member == Some(&member), || {
            format!("{:?} said that {member} is drained", act.member)
        });
        let owned = jobs.iter().find(|(_, job)| {
            let run_state = job.run_state.iter().flat_map(|run_state| &run_state.open);
            let plan = job.plan.iter().flat_map(|plan| &plan.runs).filter(|run| run.is_claimed());
            let mut runs = job.running.values().filter(|(_, on)| *on == member.node);
            job.assignment.owner.as_ref() == Some(&member)
                || run_state.filter(|open| open.wait.is_none()).any(|open| open.by == member)
                || plan.clone().any(|run| run.by == member)
                || runs.next().is_some()
        });
        findings.test(act.at, Invariant::I38, owned.is_none(), || {
            format!("{member} said that it is drained, and owns {:?}", owned.map(|(name, _)| name))
        });
    }

    /// Records that a node reported another one as offline.
    pub(super) fn offline_reported(&mut self, at: i64, node: &NodeName) {
        let (turned, told) = self.peers.turned.entry(node.clone()).or_default();
        *told += 1;
        let right = told <= turned;
        self.findings
            .test(at, Invariant::I44, right, || format!("{node} was told to be offline once too often"));
    }

    /// Checks at a leader's start of serving that no other node believes to serve: `others` are those that do.
    pub(crate) fn serving_begins(&mut self, at: i64, name: &NodeName, others: &[NodeName]) {
        self.findings.test(at, Invariant::I4, others.is_empty(), || {
            format!("{name} serves while {others:?} believes that it does")
        });
    }

    /// Checks a node's answer to an offer. A node without trust accepts nothing, however well its peers reach it.
    pub(crate) fn offered(&mut self, at: i64, name: &NodeName, trusted: bool, taken: usize) {
        if !trusted {
            self.findings.test(at, Invariant::I45, taken == 0, || {
                format!("{name} took {taken} runs without trust in its lease")
            });
        }
    }
}

/// Whether a transaction is guarded by its sender's leadership.
pub(super) fn is_led(txn: &Txn) -> bool {
    let serving = keys::serving();
    txn.guards.iter().any(|guard| matches!(guard, Guard::At(key, _) if *key == serving))
}

/// Whether a transaction carries out an operator's command about a job, by its `writes`.
pub(super) fn is_order(writes: impl Fn(fn(&ParsedKey) -> bool) -> bool) -> bool {
    // Writes of nodes for themselves may include the outcome of a request.
    let own = |p: &ParsedKey| {
        matches!(
            p,
            ParsedKey::RunState(_)
                | ParsedKey::ShardRunState(..)
                | ParsedKey::Plan(_)
                | ParsedKey::Assignment(_)
        )
    };
    writes(|p| matches!(p, ParsedKey::Spec(_) | ParsedKey::Calendar(_) | ParsedKey::Switches(..)))
        || writes(|p| matches!(p, ParsedKey::Triggers(_))) && !writes(own)
}
