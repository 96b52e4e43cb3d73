//! A node's part among its peers: what it reports when nodes, leaders and the registry come and go.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{EarliestWake, Node};
use crate::effect::{Effect, Event};
use crate::eligibility::Leadership;
use crate::ids::{Fire, Member, NodeName, RunId};
use crate::input::{LeaseEvent, OfferAnswer, ProbeReply};
use crate::lifecycle;
use crate::load::{HostLoad, Score};
use crate::local::CommitScope;
use crate::registry::{LeaseId, Revision};
use crate::time::{Mono, Now};
use crate::view::JobId;

impl Node {
    /// The leader of the cluster, as far as this node can know at this moment (S4-13, I4).
    #[must_use]
    pub fn leadership(&self, now: Mono) -> Leadership {
        let last = self.view.leader().cloned();
        match self.local.lease.trusted(now) {
            Some(_) => Leadership::Known(last),
            None => Leadership::Unknown { last, since: self.local.lease.distrusted_since(now) },
        }
    }

    /// The reply of the node to a probe.
    #[must_use]
    pub fn role(&self, now: Mono) -> ProbeReply {
        // While the lead is being released another node may have it already.
        let acts =
            self.local.lease.trusted(now).is_some() && !self.local.commits.is_busy(&CommitScope::Serving);
        ProbeReply {
            serves: self
                .local
                .leadership
                .term()
                .filter(|term| acts && term.serves.is_some())
                .map(|term| term.epoch),
        }
    }

    /// The load of the node: what was measured of its host, how many slots are busy and how many it has, and its score.
    #[must_use]
    pub fn load(&self) -> (HostLoad, u32, u32, Score) {
        let (sample, slots) = (self.local.host_load, self.local.settings.slots);
        let free = lifecycle::free_slots(&self.view, &self.local);
        let busy = slots.saturating_sub(u32::try_from(free).unwrap_or(slots));
        (sample, busy, slots, Score::of(sample, busy, slots))
    }

    /// Notes whether the registry answers, and reports a change.
    pub(super) fn note_connection(&mut self, event: &LeaseEvent, effects: &mut Vec<Effect>) {
        let answers = match event {
            LeaseEvent::Opened { .. } | LeaseEvent::Renewed { .. } => true,
            LeaseEvent::Failed => false,
            LeaseEvent::Gone(_) => return,
        };
        if self.local.peers.note_connected(answers) {
            effects.push(Effect::Announce(if answers { Event::Connected } else { Event::Disconnected }));
        }
    }

    /// Notes that the planner may have changed: looks at all dispatched jobs, and reports a change of the lead.
    pub(super) fn note_planner(&mut self, now: Now, effects: &mut Vec<Effect>) {
        self.local.checks.check_all(self.view.dispatched());
        self.local.planning.spread(self.view.dispatched());
        // Where an operator deleted the entry, there is no leader until a node takes the lead again.
        let Some(record) = self.view.serving().value.clone() else { return self.suspend(effects) };
        if self.local.leadership.note_leader(record.leader.as_ref(), record.epoch) {
            let leader = record.leader.as_ref().map(|leader| leader.node.clone());
            effects.push(Effect::Announce(Event::LeaderChanged(leader, record.epoch)));
        }
        if record.leader.is_none() || record.leader != self.member() {
            return self.suspend(effects);
        }
        if self.local.leadership.begin_term(record.epoch, now.mono) {
            effects.push(Effect::Announce(Event::Resuming(record.epoch)));
            // All entries are read again before it serves (S4-34).
            self.local.reads.list_at(now.mono);
        }
        if record.serves && self.local.leadership.serve(now.mono) {
            effects.push(Effect::Announce(Event::Serving(record.epoch)));
        }
    }

    /// Notes a listing: for a new leader it counts if it was taken after the lead was won.
    pub(super) fn note_loaded(&mut self, now: Now, revision: Revision) {
        if self.local.leadership.load(revision, self.view.serving().revision) {
            self.local.reads.list_at(now.mono);
        }
    }

    pub(super) fn suspend(&mut self, effects: &mut Vec<Effect>) {
        if self.local.leadership.end_term() {
            effects.push(Effect::Announce(Event::Suspended));
        }
    }

    /// Nodes came, went, or are offline or online: runs planned for nodes that should have none are looked at.
    pub(super) fn note_nodes(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let view = &self.view;
        let nodes = view.nodes();
        let peers = &mut self.local.peers;
        let members: BTreeSet<Member> = view.members().map(|(member, _)| member.clone()).collect();
        let known = peers.note_members(members);
        for left in known.iter().filter(|member| view.member(member).is_none()) {
            let lives = view.members().any(|(member, _)| member.node == left.node);
            if !lives && left.node != self.local.settings.name {
                effects.push(Effect::Announce(Event::NodeLeft(left.clone(), view.left_behind(&left.node))));
            }
        }
        if peers.note_nodes(nodes) {
            effects.push(Effect::Announce(Event::NodesChanged(nodes)));
        }
        self.local.planning.spread_soon(now.mono);
        let leader = view.serving().value.as_ref().and_then(|record| record.leader.as_ref());
        if let Some(leader) = leader.filter(|leader| view.member(leader).is_none())
            && self.local.leadership.lose(leader)
        {
            effects.push(Effect::Announce(Event::LeaderLost(leader.node.clone())));
        }
        let others = view.members().map(|(member, _)| member);
        let others = others.filter(|member| member.node != self.local.settings.name);
        peers.meet(others, view.settings().beat_of(now.wall));
        let me = self.local.lease.id();
        let unwanted = |member: &Member| {
            // Runs that this node kept for want of others may go to new nodes.
            me == Some(LeaseId(member.incarnation))
                || self.local.peers.misses(member)
                || view.member(member).is_none()
                || view.is_replaced(member)
                || view.intent(&member.node).is_some()
                || view.is_offline(member)
        };
        for (member, jobs) in view.planned_by_member() {
            if unwanted(member) {
                self.local.checks.check_all(jobs);
            }
        }
    }

    /// Has the planner look at the runs of all jobs together when nodes or jobs came or went.
    pub(super) fn spread_runs(&mut self, now: Now, wake: &mut EarliestWake) {
        match self.local.planning.spread_at() {
            Some(at) if at <= now.mono => {
                self.local.planning.spread_as_scheduled(self.view.dispatched());
                self.local.checks.check_all(self.view.dispatched());
            }
            Some(at) => wake.at(at, "runs are to be spread anew"),
            None => {}
        }
    }

    /// Notes that a member cannot be reached: the runs planned for it are looked at, also those not offered yet.
    pub(super) fn revisit_planned_for(&mut self, member: &Member) {
        let jobs = self.view.planned_by_member().filter(|(by, _)| *by == member).flat_map(|(_, jobs)| jobs);
        self.local.checks.check_all(jobs);
    }

    /// Takes the reply to an offer.
    pub(super) fn absorb_offered(&mut self, now: Now, to: &Member, runs: &[RunId], answer: &OfferAnswer) {
        let beat = self.view.settings().beat_of(now.wall);
        if *answer == OfferAnswer::Unreachable {
            self.local.peers.unreachable(to, beat);
            self.revisit_planned_for(to);
        }
        for run in runs {
            let Some(id) = self.view.id(&run.job) else { continue };
            if self.local.offers.answered(id, run, to, answer) {
                self.local.checks.check(id);
            }
        }
    }

    /// Forgets offers of runs that are accepted, or gone.
    pub(super) fn tidy_offers(&mut self, id: JobId) {
        self.tidy_overdue(id);
        let view = &self.view;
        self.local.offers.keep_sent(id, || {
            let plan = view.job(id).plan().and_then(|plan| plan.known.value.as_ref());
            let runs = plan.into_iter().flat_map(|plan| &plan.runs);
            runs.filter(|run| !run.is_claimed()).map(|run| &run.fire).collect()
        });
    }

    /// Forgets runs that other nodes had no slot for once they are accepted, or gone.
    fn tidy_overdue(&mut self, id: JobId) {
        let plan = self.view.job(id).plan().and_then(|plan| plan.known.value.as_ref());
        let runs = plan.map(|plan| plan.runs.as_slice()).unwrap_or_default();
        let is_open = |fire: &Fire| runs.iter().any(|run| run.fire == *fire && !run.is_claimed());
        self.local.offers.keep_overdue(id, is_open);
    }

    /// The address of the serving leader, if another node is it.
    #[must_use]
    pub fn leader_elsewhere(&self) -> Option<(&NodeName, &str)> {
        let leader = self.view.leader().filter(|leader| Some(*leader) != self.member().as_ref())?;
        Some((&leader.node, self.view.member(leader)?.info.address.as_str()))
    }
}
