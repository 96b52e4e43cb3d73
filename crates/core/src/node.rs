//! `Node::step` absorbs inputs, decides, and emits effects. It is the only way in and the only way out.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::effect::{Effect, Event};
use crate::ids::Member;
use crate::input::Input;
use crate::lease::LeaseProof;
use crate::lifecycle;
use crate::local::{LISTING_PATIENCE, Local};
use crate::member_entry::MemberEntry;
use crate::placement::dispatch::CandidateNodes;
use crate::placement::firing;
use crate::registry::LeaseId;
use crate::rule_context::{Rule, RuleAction, RuleContext, RuleFn, RuleOutput};
use crate::rules;
pub use crate::settings::{Quota, Settings, Spread};
use crate::time::{Millis, Mono, Now, Wall};
use crate::view::{GroupId, JobId, View};

mod absorb;
mod commands;
mod emit;
mod handoff;
mod layouts;
mod lease;
mod peers;
mod streams;

/// How many jobs one step decides about; the rest is decided in the next, which is asked for at once (law 10).
const FOCUS_MAX: usize = 1_000;

/// When a node wants to be stepped next, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Wake {
    /// The latest moment.
    pub at: Mono,
    /// The reason, for the log.
    pub why: &'static str,
}

/// The whole state of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    view: View,
    local: Local,
    rules: RuleSet,
}

/// The rules of a node; two sets are equal when their rules have the same names.
#[derive(Clone, Copy, Debug)]
struct RuleSet(&'static [Rule]);

impl Node {
    /// A node that has received no input yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self::with_rules(settings, rules::ALL)
    }

    /// A node with other rules: the simulator plants faults in them and expects to catch each.
    #[must_use]
    pub fn with_rules(settings: Settings, rules: &'static [Rule]) -> Self {
        Self { view: View::new(settings.name.clone()), local: Local::new(settings), rules: RuleSet(rules) }
    }

    /// The node's view of the registry.
    #[must_use]
    pub fn view(&self) -> &View {
        &self.view
    }

    /// The node's own state.
    #[must_use]
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// The identity of the node in this life; `None` while it has no lease.
    #[must_use]
    pub fn member(&self) -> Option<Member> {
        let node = self.local.settings.name.clone();
        self.local.lease.id().map(|LeaseId(incarnation)| Member { node, incarnation })
    }

    /// The entry of the node in this life; `None` while the node is no member or has not seen the entry yet.
    #[must_use]
    pub fn member_entry(&self) -> Option<MemberEntry> {
        let member = self.member()?;
        let born = self.view.member(&member)?.born;
        Some(MemberEntry { member, born })
    }

    /// Until when the node may act; `None` while it may not. Executors end runs at this moment (law 4).
    #[must_use]
    pub fn trusted_until(&self, now: Mono) -> Option<Mono> {
        self.local.lease.trusted(now).map(LeaseProof::until)
    }

    /// Takes one input, appends what to do, returns when and why to be woken next.
    pub fn step(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) -> Option<Wake> {
        self.step_all(now, [input], effects)
    }

    /// Takes inputs that came together, each after the one before, and decides once: about the state after all of them,
    /// since rules know of nothing in between. Callers keep them few, for a step is to be short (law 10).
    pub fn step_all(
        &mut self,
        now: Now,
        inputs: impl IntoIterator<Item = Input>,
        effects: &mut Vec<Effect>,
    ) -> Option<Wake> {
        inputs.into_iter().for_each(|input| self.absorb(now, input, effects));
        self.go_on(now, effects)
    }

    /// Decides about the changed view and the node's own state.
    fn go_on(&mut self, now: Now, effects: &mut Vec<Effect>) -> Option<Wake> {
        let mut wake = EarliestWake::default();
        self.notice_eviction(now, effects);
        self.tend_lease(now, effects, &mut wake);
        self.resend(now, effects, &mut wake);
        self.list_for_layout(now);
        self.tend_listing(now, effects, &mut wake);
        self.expire_items(now, effects, &mut wake);
        self.resume_put_off(now, &mut wake);
        self.read_handoff(effects);
        self.forget_news();
        if !self.local.availability.is_resting()
            && let Some(lease) = self.local.lease.trusted(now.mono)
            && self.view.is_listed()
            && let Some(member) = self.member()
        {
            self.revisit_waits(now, lease);
            self.revisit_unplaced(now, lease, &member);
            self.spread_runs(now, &mut wake);
            self.revisit_overtaken(now, lease, &member);
            let focus = self.take_focus(now);
            let out = self.decide(now, lease, &member, focus.iter().copied());
            for id in focus {
                self.local.leave_queues(id);
            }
            self.note_served(&out);
            self.emit(now, out, effects, &mut wake);
            self.local.settle_queues();
            if !self.local.availability.has_departed() {
                self.settle_joined(&member, effects);
            }
            self.wake_for_jobs(now, &mut wake);
        }
        wake.0
    }

    /// The effects that deciding about every job would add right after a step: none, if the view touched all jobs that
    /// mattered. Jobs that wait for a slot or for trust are looked at when there is one. The simulator checks that
    /// after each step.
    #[must_use]
    pub fn overlooked(&self, now: Now) -> Vec<RuleAction> {
        let (Some(lease), Some(member)) = (self.local.lease.trusted(now.mono), self.member()) else {
            return Vec::new();
        };
        if !self.view.is_listed() || self.has_more() || self.local.availability.is_resting() {
            return Vec::new();
        }
        let put_off =
            |id: &JobId| self.local.checks.awaits_trust(*id) || self.local.slot_waiters.contains(*id);
        let out = self.decide(now, lease, &member, self.view.ids().filter(|id| !put_off(id)));
        out.actions.into_iter().filter(|decision| self.has_effect(decision)).collect()
    }

    fn decide(
        &self,
        now: Now,
        lease: LeaseProof,
        member: &Member,
        focus: impl Iterator<Item = JobId>,
    ) -> RuleOutput {
        let ctx = self.context(now, lease, member);
        if let Some(unknown) = self.unknown_layout() {
            let mut out = RuleOutput::default();
            out.add(RuleAction::Announce(Event::UnknownLayout(unknown)));
            return out;
        }
        let cluster = self.view.cluster().value.as_ref();
        if let Some(begun) = cluster.and_then(|cluster| cluster.outdates(self.local.settings.generation)) {
            let mut out = RuleOutput::default();
            out.add(RuleAction::Announce(Event::Outdated(begun)));
            return out;
        }
        let focus: Vec<JobId> = focus.filter(|id| !self.local.inherited.is_unread(*id)).collect();
        let mut out = RuleOutput::default();
        for rule in self.rules.0 {
            match rule.decide {
                RuleFn::Node(decide) => decide(&ctx, &mut out),
                RuleFn::Job(decide) => focus.iter().for_each(|id| decide(&ctx, *id, &mut out)),
                RuleFn::Jobs(decide) => decide(&ctx, &focus, &mut out),
            }
        }
        out
    }

    fn context<'a>(&'a self, now: Now, lease: LeaseProof, member: &'a Member) -> RuleContext<'a> {
        RuleContext { now, lease, member, me: self.view.member(member), view: &self.view, local: &self.local }
    }

    /// An unschedulable job that was reported is reported again when it becomes unschedulable again.
    fn forget_news(&mut self) {
        let view = &self.view;
        self.local.announced.keep_unschedulable(|nodes| view.is_selector_unschedulable(nodes));
    }

    /// Runs that had no eligible node are planned once there is one.
    fn revisit_unplaced(&mut self, now: Now, lease: LeaseProof, member: &Member) {
        if !self.local.planning.has_unplaced() {
            return;
        }
        let (mut batch, view) = (CandidateNodes::new(&self.context(now, lease, member)), &self.view);
        // Many jobs are of few groups.
        let mut groups: BTreeMap<GroupId, bool> = BTreeMap::new();
        let has_anybody = |id: &JobId| {
            let group = view.job(*id).group();
            *groups.entry(group).or_insert_with(|| batch.has_candidate(view, group))
        };
        let (placed, unplaced): (BTreeSet<JobId>, BTreeSet<JobId>) =
            self.local.planning.take_unplaced().into_iter().partition(has_anybody);
        self.local.checks.check_all(placed);
        self.local.planning.set_unplaced(unplaced);
    }

    /// Waits that were made under other clocks or another trust are not worth keeping.
    fn revisit_waits(&mut self, now: Now, lease: LeaseProof) {
        let local = &mut self.local;
        let off = local.lease.difference(now);
        let clocks_agree = off.is_none_or(|by| by <= local.settings.max_clock_skew);
        // Jobs that wait for something else were last looked at while the clocks agreed or did not.
        if local.checks.note_trust(lease.until(), clocks_agree) {
            local.permit_waiters.open_all();
            local.checks.check_all(self.view.dispatched());
        }
        let beat = self.view.settings().beat_of(now.wall);
        if local.peers.note_beat(beat) {
            // In each beat every member is tried anew (S0-43): one that was left out may get runs again.
            local.checks.check_all(self.view.dispatched());
        }
        if local.checks.note_clocks(now) {
            self.local.peers.forget_beats();
            self.revisit_held();
        }
    }

    /// Jobs that fire again while they wait for a slot have another place by that. Most have nothing else to decide.
    fn revisit_overtaken(&mut self, now: Now, lease: LeaseProof, member: &Member) {
        self.local.slot_waiters.come(now.wall);
        let overtaken = self.local.slot_waiters.take_overtaken(now.wall, FOCUS_MAX);
        if overtaken.is_empty() {
            return;
        }
        let ctx = self.context(now, lease, member);
        let (waiting, others): (Vec<_>, Vec<_>) =
            overtaken.into_iter().partition(|(id, due)| firing::only_waits(&ctx, *id, *due));
        let again = |(id, _)| (id, self.view.job(id).fires_after(now.wall).unwrap_or(Wall::MAX));
        let waiting: Vec<(JobId, Wall)> = waiting.into_iter().map(again).collect();
        waiting.into_iter().for_each(|(id, again)| self.local.slot_waiters.fires_again(id, again));
        self.local.checks.check_all(others.into_iter().map(|(id, _)| id));
    }

    /// The jobs to decide about: touched ones, those whose moment has come, and those that waited for a slot.
    fn take_focus(&mut self, now: Now) -> Vec<JobId> {
        self.local.checks.take_due(now, self.local.claim_lead.lead(), FOCUS_MAX);
        // Jobs that waited go first, by priority and then in turn: no job gets a slot by its place in the view.
        let room = if self.local.slot_waiters.is_empty() { 0 } else { self.free_slots().min(FOCUS_MAX) };
        let mut focus = self.local.slot_waiters.next_ranked(now.wall, room);
        for id in &focus {
            self.local.slot_waiters.remove(*id);
            self.local.checks.remove(*id);
        }
        for id in self.local.permit_waiters.take() {
            focus.push(id);
            self.local.checks.remove(id);
        }
        while focus.len() < FOCUS_MAX
            && let Some(id) = self.local.checks.pop_first()
        {
            focus.push(id);
        }
        // Jobs that came up in this step are no nearer to a slot than those that waited, nor farther from it.
        focus.sort_by_key(|id| Reverse(self.view.job(*id).priority()));
        focus
    }

    /// Jobs that take a slot, or a permit of a pool, in this step have had their turns.
    fn note_served(&mut self, out: &RuleOutput) {
        for id in &out.served {
            self.local.slot_waiters.served(self.view.job(*id).priority(), *id);
        }
        for (limit, id) in &out.permits {
            self.local.permit_waiters.served(limit, self.view.job(*id).priority(), *id);
        }
    }

    fn free_slots(&self) -> usize {
        lifecycle::free_slots(&self.view, &self.local).min(self.local.commits.pace_left())
    }

    /// Whether something that was deferred in this step can be done in the next, which is asked for at once (law 10).
    fn has_more(&self) -> bool {
        let local = &self.local;
        let slots = !local.slot_waiters.is_empty() && self.free_slots() > 0;
        !local.checks.is_empty() || slots || local.permit_waiters.has_more() || local.commands.must_recheck()
    }

    fn wake_for_jobs(&self, now: Now, wake: &mut EarliestWake) {
        if self.has_more() {
            wake.at(now.mono, "more to look at");
        }
        if let Some(at) = self.local.checks.next_wall_timer(self.local.claim_lead.lead()) {
            wake.at(now.mono + (at - now.wall), "a fire is near");
        }
        if let Some(at) = self.local.slot_waiters.next_change() {
            wake.at(now.mono + (at - now.wall), "a waiting job fires again");
        }
        if let Some(at) = self.local.checks.next_timer() {
            wake.at(at, "a wait is over");
        }
    }

    fn settle_joined(&mut self, member: &Member, effects: &mut Vec<Effect>) {
        let local = &mut self.local;
        if !local.membership.is_joined()
            && !local.availability.has_departed()
            && self.view.member(member).is_some()
        {
            local.join(member.clone());
            // The planned runs of an earlier life are this one's to report.
            self.local.checks.check_all(self.view.dispatched());
            effects.push(Effect::Announce(Event::Joined));
        }
    }

    fn resend(&mut self, now: Now, effects: &mut Vec<Effect>, wake: &mut EarliestWake) {
        if self.unknown_layout().is_some() {
            return;
        }
        while let Some((ticket, commit)) = self.local.commits.next_to_resend(now.mono) {
            effects.push(Effect::Commit { ticket, kind: commit.kind, txn: commit.txn.clone() });
        }
        if let Some(at) = self.local.commits.resend_at() {
            wake.at(at, "an outcome is unknown");
        }
    }

    fn tend_listing(&mut self, now: Now, effects: &mut Vec<Effect>, wake: &mut EarliestWake) {
        let local = &mut self.local;
        // A listing costs as much as there are entries, so a node with very many jobs lists less often.
        let rescan =
            local.settings.rescan.max(Millis(i64::try_from(self.view.enabled()).unwrap_or(i64::MAX)));
        let due = local.reads.next_listing(rescan, now.mono);
        if due > now.mono {
            return wake.at(due, "list again");
        }
        local.reads.begin_listing(now.mono);
        effects.push(Effect::List);
        wake.at(now.mono + LISTING_PATIENCE, "list again");
    }

    fn resume_put_off(&mut self, now: Now, wake: &mut EarliestWake) {
        if let Some(at) = self.local.checks.resume_put_off(now.mono) {
            wake.at(at, "try again");
        }
    }
}

/// Sets the earliest wake-up.
#[derive(Default)]
struct EarliestWake(Option<Wake>);

impl EarliestWake {
    fn at(&mut self, at: Mono, why: &'static str) {
        if self.0.is_none_or(|wake| at < wake.at) {
            self.0 = Some(Wake { at, why });
        }
    }
}

impl PartialEq for RuleSet {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().map(|r| r.name).eq(other.0.iter().map(|r| r.name))
    }
}

impl Eq for RuleSet {}

impl core::hash::Hash for RuleSet {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|rule| rule.name.hash(state));
    }
}

#[cfg(test)]
mod tests;
