//! Handoff: a node rests, exports the state that only it has, and continues in another program.
//!
//! A run that was handed off is neither started again nor ended before its entry in the registry was read: until then
//! nothing is decided about its job.

use alloc::vec::Vec;

use super::Node;
use crate::effect::{Effect, Event, StopReason};
use crate::handoff::{HandoffRun, NodeHandoff};
use crate::ids::{JobName, Member};
use crate::keys::{self, Key};
use crate::local::InheritedRuns;
use crate::node::Settings;
use crate::record::{Layouts, UnknownLayout};
use crate::registry::LeaseId;
use crate::rule_context::Rule;
use crate::rules;
use crate::time::Mono;
use crate::view::{JobId, View};

impl Node {
    /// Creates a node that continues for another program: the same member under the same lease, with the runs that were
    /// given.
    #[must_use]
    pub fn resume(settings: Settings, baton: NodeHandoff) -> Self {
        Self::resume_with_rules(settings, baton, rules::ALL)
    }

    /// The same with other rules, as in [`with_rules`](Self::with_rules).
    #[must_use]
    pub fn resume_with_rules(settings: Settings, baton: NodeHandoff, rules: &'static [Rule]) -> Self {
        let NodeHandoff { member, lease, given, written } = baton;
        // The life named in the data folder is this one, and not over.
        let mut node = Self::with_rules(Settings { predecessor: None, ..settings }, rules);
        node.local.lease.resume(LeaseId(member.incarnation), &lease);
        let runs = given.into_iter().map(HandoffRun::into_given).collect();
        node.local.inherited = InheritedRuns::new(runs, written);
        node.local.membership.join(member.clone());
        node.view.begin_life(Some(member));
        node
    }

    /// The state for the next program; `None` while a commit is in flight, or anything keeps the node from being handed
    /// off.
    #[must_use]
    pub fn handoff(&self, now: Mono) -> Option<NodeHandoff> {
        let local = &self.local;
        let quiet = local.availability.is_resting()
            && local.commits.is_empty()
            && self.handoff_obstacle(now).is_none();
        let member = local.membership.joined().cloned().filter(|_| quiet)?;
        let given = local.runs.iter().map(|(_, given)| HandoffRun::of(given)).collect();
        let written = self.written_by(&member);
        Some(NodeHandoff { member, lease: self.local.lease.handoff()?, given, written })
    }

    /// The jobs of which a life knows something because it wrote it: its own run states, and its own runs in plans.
    fn written_by(&self, me: &Member) -> Vec<JobName> {
        let run_states = self.view.sharded().filter(|id| self.view.job(*id).run_state_of(me).is_some());
        let plans = self.view.dispatched().filter(|id| {
            let job = self.view.job(*id);
            let plan = job.plan().and_then(|plan| plan.known.value.as_ref());
            plan.is_some_and(|plan| {
                plan.runs.iter().any(|run| run.by == *me)
                    || plan.verdicts.iter().any(|verdict| verdict.node == me.node.as_str())
            })
        });
        run_states.chain(plans).map(|id| self.view.job(id).name().clone()).collect()
    }

    /// Why a program that knows these layouts cannot continue as this member; `None` if it can. All others rely on the
    /// layouts that the member once published.
    #[must_use]
    pub fn is_lost_on(&self, knows: Layouts) -> Option<UnknownLayout> {
        let written = self.view.cluster().value.as_ref().map(|cluster| cluster.layout);
        let said = self.local.membership.joined().and_then(|me| Some(self.view.member(me)?.info.knows));
        let lacks = said.filter(|said| *said > knows.newest).map(|layout| UnknownLayout { layout, knows });
        written.and_then(|layout| knows.lacks(layout)).or(lacks)
    }

    /// The obstacle to a handoff that no waiting removes; `None` if there is none.
    #[must_use]
    pub fn handoff_obstacle(&self, now: Mono) -> Option<&'static str> {
        let local = &self.local;
        match () {
            () if local.membership.is_closed() => Some("it was closed from outside: start it again"),
            () if local.availability.is_leaving() || local.availability.has_departed() => {
                Some("it is leaving")
            }
            () if !local.is_trusted_member(now) => {
                Some("it is no member at this moment, or cannot reach the registry")
            }
            () if local.commands.holds_locks() => Some("it holds locks"),
            () if !local.inherited.is_settled() => {
                Some("it was only just upgraded and still reads the registry")
            }
            () => None,
        }
    }

    /// Settles the handoff after a listing: the jobs of the runs handed off have their numbers.
    pub(super) fn settle_handoff(&mut self, effects: &mut Vec<Effect>) {
        let me = self.member().filter(|me| self.view.member(me).is_some());
        let inherited = &mut self.local.inherited;
        if let Some(runs) = inherited.report_upgrade().filter(|_| me.is_some()) {
            effects.push(Effect::Announce(Event::Upgraded(runs)));
        }
        let entries = inherited.take_entries().into_iter().filter(|_| me.is_some());
        inherited.must_read(entries.filter_map(|job| self.view.id(&job)));
        let runs = inherited.take_runs().into_iter();
        // In another life a run that has ended has no registry entry for this one to close.
        for given in runs.filter(|given| me.is_some() || given.is_executing()) {
            let Some(id) = self.view.id(&given.run.job) else {
                // The registry has no such job, so its runs have no owner.
                effects.push(Effect::Stop(given.run, StopReason::Fenced));
                continue;
            };
            self.local.runs.give(id, given);
            if me.is_some() {
                self.local.inherited.must_read([id]);
            }
        }
    }

    /// Reads the entries of the runs handed off until all are known.
    pub(super) fn read_handoff(&mut self, effects: &mut Vec<Effect>) {
        let Some(me) = self.member().filter(|_| self.local.inherited.has_unread()) else { return };
        let wanted = self.local.inherited.unread().filter(|id| self.local.may_read(*id));
        let wanted: Vec<JobId> = wanted.collect();
        if wanted.is_empty() {
            return;
        }
        wanted.iter().for_each(|id| self.local.reads.begin_reading(*id));
        effects.push(Effect::Read(wanted.into_iter().map(|id| run_state_key(&self.view, id, &me)).collect()));
    }
}

/// The key under which the registry keeps this member's runs of a job.
fn run_state_key(view: &View, id: JobId, me: &Member) -> Key {
    let job = view.job(id);
    match () {
        () if job.is_sharded() => keys::shard_run_state(job.name(), me),
        () if job.is_dispatched() => keys::plan(job.name()),
        () => keys::run_state(job.name()),
    }
}
