//! Checks decisions of nodes about their peers, by their own knowledge: planned nodes, beats and strikes.

use std::collections::BTreeMap;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, Event};
use evenkeel_core::ids::{Fire, Member, NodeName};
use evenkeel_core::keys::{ParsedKey, parse};
use evenkeel_core::node::Node;
use evenkeel_core::record::{BeatRecord, Plan, PlannerKind, decode};
use evenkeel_core::registry::{Guard, Txn, Write};
use evenkeel_core::time::{Now, Wall};
use evenkeel_core::view::{GroupId, JobView};

use super::peers::{is_led, is_order};
use super::runs::UNNOTICED;
use super::{Invariant, InvariantChecker};
use crate::world::clock::START;

impl InvariantChecker {
    /// Checks the decisions of a node's last step that concern its peers.
    pub(super) fn check_peers(
        &mut self,
        at: i64,
        name: &NodeName,
        life: u64,
        node: &Node,
        now: Now,
        effects: &[Effect],
    ) {
        if effects.is_empty() {
            return;
        }
        let mut picks: Vec<NodeChoice> = Vec::new();
        let (mut pure, mut first) = (true, None);
        for effect in effects {
            match effect {
                // The decision about a repeated commit was checked earlier.
                Effect::Commit { ticket, .. }
                    if self.tickets.contains_key(&(name.clone(), life, *ticket)) => {}
                Effect::Commit { kind, txn, .. } => {
                    self.check_order(at, name, node, *kind, txn);
                    match *kind {
                        CommitKind::TakeBeat | CommitKind::TakeBeatOver | CommitKind::TakeLead => {
                            self.check_turn(at, name, node, now, *kind, txn);
                        }
                        // A manual run goes to the least loaded node, and takes a slot there before others do.
                        CommitKind::Plan => match self.picked(at, name, node, now, txn) {
                            Some(new) => {
                                first = first.or_else(|| Some(planned(node, txn)?.group()));
                                picks.extend(new);
                            }
                            None => pure = false,
                        },
                        CommitKind::PlanAgain
                        | CommitKind::FollowSchedule
                        | CommitKind::Settle
                        | CommitKind::ClearVerdicts
                        | CommitKind::Skip => pure = false,
                        CommitKind::Strike => self.check_strike(at, name, txn),
                        _ => {}
                    }
                }
                Effect::Announce(Event::Offline(other)) => self.offline_reported(at, other),
                _ => {}
            }
        }
        if pure && !picks.is_empty() {
            picks.sort_by_key(|pick| pick.due);
            self.check_balance(at, name, &picks);
            self.check_argmax(at, name, node, now, (first.unwrap_or_default(), &picks));
        }
    }

    /// If the planner is a leader, orders and plans are guarded by its leadership.
    fn check_order(&mut self, at: i64, name: &NodeName, node: &Node, kind: CommitKind, txn: &Txn) {
        if node.view().settings().planner != PlannerKind::Leader {
            return;
        }
        let led = is_led(txn);
        let beat = txn
            .guards
            .iter()
            .any(|g| matches!(g, Guard::At(key, _) if matches!(parse(key), Some(ParsedKey::Beat(_)))));
        let plans = beat && txn.writes.iter().any(|w| matches!(parse(w.key()), Some(ParsedKey::Plan(_))));
        let written: Vec<ParsedKey> = txn.writes.iter().filter_map(|write| parse(write.key())).collect();
        if is_order(|wanted| written.iter().any(wanted)) || plans {
            self.findings.test(at, Invariant::I6, led, || {
                format!("{name} orders or plans ({kind}) without the lead, and knows that a leader plans")
            });
        }
    }

    /// A beat is taken after the wait that the load demands, and never by a node with a wrong clock.
    fn check_turn(&mut self, at: i64, name: &NodeName, node: &Node, now: Now, kind: CommitKind, txn: &Txn) {
        let ahead = now.wall.0 - START.0 - at;
        self.findings.test(at, Invariant::I11, ahead.abs() <= UNNOTICED, || {
            format!("{name} would {kind}, and its clock is off by {ahead} ms")
        });
        let Some(Write::Put { value, .. }) = txn.writes.first() else { return };
        let Some(record) = decode::<BeatRecord>(value).filter(|_| kind == CommitKind::TakeBeat) else {
            return;
        };
        let sample = node.local().host_load();
        let percent = |part: Option<evenkeel_core::load::Utilization>| {
            part.map_or(100.0, |p| f64::from(p.hundredths()) / 100.0)
        };
        // The part of the slots is left out: it may have changed within the step.
        let idle = 0.64 * percent(sample.cpu) + 0.04 * percent(sample.memory);
        let begun = node.view().settings().start_of(record.beat);
        #[expect(clippy::cast_precision_loss, reason = "a few seconds")]
        let waited = (now.wall - begun).0 as f64;
        let enough = waited + 1.0 >= (idle * 10.0).min(1000.0);
        self.findings.test(at, Invariant::I43, enough, || {
            format!("{name} takes a beat {waited} ms after its begin with a load of {idle}")
        });
    }

    /// The runs that a plan adds, and the number of free slots of each run's node. `None` if a manual run is among
    /// them, even one that was planned already and that this node does not know yet.
    fn picked(
        &mut self,
        at: i64,
        name: &NodeName,
        node: &Node,
        now: Now,
        txn: &Txn,
    ) -> Option<Vec<NodeChoice>> {
        let mut picks: Vec<NodeChoice> = Vec::new();
        if txn.writes.iter().any(|write| matches!(parse(write.key()), Some(ParsedKey::Triggers(_)))) {
            return None;
        }
        for write in &txn.writes {
            let Write::Put { key, value, .. } = write else { continue };
            let (Some(ParsedKey::Plan(job)), Some(plan)) = (parse(key), decode::<Plan>(value)) else {
                continue;
            };
            let id = node.view().id(&job);
            let known =
                id.and_then(|id| node.view().job(id).plan()).and_then(|plan| plan.known.value.as_ref());
            let old = |fire: &Fire| known.is_some_and(|plan| plan.runs.iter().any(|run| run.fire == *fire));
            let group = id.map(|id| node.view().job(id).group()).unwrap_or_default();
            let new = plan.runs.iter().filter(|run| matches!(run.fire, Fire::Due(_)) && !old(&run.fire));
            picks.extend(new.map(|run| NodeChoice {
                due: run.due.max(now.wall),
                by: run.by.clone(),
                free: run.free(),
                group,
            }));
        }
        // `S` counts no drained node (S1-21), and no planner assigns one anything.
        let drained = picks.iter().find(|pick| node.view().intent(&pick.by.node).is_some());
        self.findings.test(at, Invariant::I38, drained.is_none(), || {
            format!("{name} planned for {drained:?}, which it knows to be drained")
        });
        Some(picks)
    }

    /// Checks that each run of one moment and one step goes to a node with the most free slots: no node is left with
    /// more than another one had for its last run. Runs of jobs with other node selectors are not compared.
    fn check_balance(&mut self, at: i64, name: &NodeName, picks: &[NodeChoice]) {
        for together in picks.chunk_by(|a, b| a.due == b.due) {
            let mut left: BTreeMap<(GroupId, &Member), i64> = BTreeMap::new();
            for pick in together {
                let least = left.entry((pick.group, &pick.by)).or_insert(pick.free);
                *least = pick.free.min(*least);
            }
            let alone = left.keys().all(|(group, _)| *group == together[0].group);
            let had: Vec<i64> = left.values().copied().collect();
            let even = had.iter().max().zip(had.iter().min()).is_none_or(|(most, least)| most - 1 <= *least);
            self.findings.test(at, Invariant::I42, !alone || even, || {
                format!("{name} planned for others than those with most free slots: {together:?}")
            });
        }
    }

    /// Each chosen node had as many free slots as any node without a run, by the planner's knowledge.
    fn check_argmax(
        &mut self,
        at: i64,
        name: &NodeName,
        node: &Node,
        now: Now,
        (group, picks): (GroupId, &[NodeChoice]),
    ) {
        let (view, local) = (node.view(), node.local());
        let of_group = picks.iter().filter(|pick| pick.group == group);
        let Some(free) = of_group.map(|pick| pick.free).min() else { return };
        let mut lives: BTreeMap<&NodeName, &Member> = BTreeMap::new();
        view.members().for_each(|(member, _)| {
            lives.insert(&member.node, member);
        });
        let beat = view.settings().beat_of(now.wall);
        let more = lives.values().filter(|m| m.node != *name).find_map(|member| {
            let state = view.member(member)?;
            let open = view.nodes_named(group).fits(&member.node, &state.info.labels)
                && view.intent(&member.node).is_none()
                && !view.is_offline(member)
                && !local.peers().is_unreachable(member, beat)
                && !state.info.address.is_empty();
            let given = view.planned_by_member().any(|(by, _)| by == *member)
                || local.planning().placed_runs().any(|run| run.node == **member);
            let busy =
                view.load(member).map_or(0, |load| i64::from(load.busy.saturating_sub(load.dispatched)));
            let has = i64::from(state.info.slots) - busy;
            (open && !given && has > free).then(|| (member.to_string(), has))
        });
        self.findings.test(at, Invariant::I42, more.is_none(), || {
            format!("{name} planned for one with {free} free slots, and {more:?} has more")
        });
    }

    /// Checks that a struck node was unreachable; a node without a slot is no reason.
    fn check_strike(&mut self, at: i64, name: &NodeName, txn: &Txn) {
        for write in &txn.writes {
            let Write::Put { key, value, .. } = write else { continue };
            let Some(ParsedKey::Strike(node, _)) = parse(key) else { continue };
            let Some(strike) = decode::<evenkeel_core::record::StrikeRecord>(value) else { continue };
            let member = Member { node, incarnation: strike.incarnation };
            let reached = self.peers.reached.get(&(name.clone(), member.clone())).copied();
            self.findings.test(at, Invariant::I42, reached == Some(false), || {
                format!("{name} strikes {member}, which it reached when it last tried: {reached:?}")
            });
        }
    }
}

/// A run that a plan assigns to a node.
#[derive(Debug)]
struct NodeChoice {
    /// When it is due; now if that is past.
    due: Wall,
    by: Member,
    /// The number of free slots of that node.
    free: i64,
    /// The group of its job's node selector.
    group: GroupId,
}

/// The job that a transaction plans.
fn planned<'a>(node: &'a Node, txn: &Txn) -> Option<JobView<'a>> {
    txn.writes.iter().find_map(|write| match parse(write.key())? {
        ParsedKey::Plan(job) => Some(node.view().job(node.view().id(&job)?)),
        _ => None,
    })
}
