//! Absorb: how each input changes the view, the lease and the node's own state.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use super::Node;
use crate::commit_kind::CommitKind;
use crate::effect::{Effect, Event, Ticket};
use crate::ids::{Member, RunId};
use crate::input::{Input, LeaseEvent, RunEvent};
use crate::keys::{Key, ParsedKey, parse};
use crate::lifecycle;
use crate::local::{CommitScope, PendingCommit};
use crate::placement::firing;
use crate::registry::{Change, Entry, Guard, Revision, Txn, TxnOutcome, Write};
use crate::time::{Millis, Now};
use crate::view::{JobId, OwnedJob, ViewChanges};

/// When to retry a failure of the registry or of an executor.
const RETRY: Millis = Millis(200);

impl Node {
    pub(super) fn absorb(&mut self, now: Now, input: Input, effects: &mut Vec<Effect>) {
        match input {
            Input::Tick => {}
            Input::Lease(event) => self.absorb_lease(now, &event, effects),
            Input::Listed(batch) => self.absorb_listing(now, batch.as_ref(), effects),
            Input::Changed(batch) => {
                let touched = self.view.absorb_change(now.mono, &batch.changes);
                self.sound_late_alarms(&touched, effects);
                self.touch(now, touched, effects);
            }
            // A feed that ends whenever it was opened must not make the node list the registry all the time.
            Input::Gap => self.local.reads.list_after(RETRY, now.mono),
            Input::Read(changes) => self.absorb_read(now, changes, effects),
            Input::Committed { ticket, outcome } => self.absorb_outcome(now, ticket, outcome, effects),
            Input::Run { id, attempt, event } => self.absorb_run(now, &id, attempt, &event),
            Input::Recorded { run, attempt } => self.absorb_recorded(run, attempt),
            Input::Sampled(sample) => self.local.host_load = sample,
            Input::Probed { member, asked, answer } => {
                self.local.peers.probed(&member, asked, now.mono, answer);
                if answer.is_none() {
                    self.revisit_planned_for(&member);
                }
            }
            Input::Offered { to, runs, answer } => self.absorb_offered(now, &to, &runs, &answer),
            Input::Able(able) => {
                match able {
                    true => self.local.availability.become_able(),
                    false => self.local.availability.become_unable(now.mono),
                }
                self.revisit_held();
            }
            Input::Rest(rest) => self.local.availability.set_resting(rest),
            Input::Asked(ask, command) => self.accept_command(now, (ask, String::new()), command, effects),
            Input::AskedBy(ask, by, command) => self.accept_command(now, (ask, by), command, effects),
        }
    }

    fn absorb_lease(&mut self, now: Now, event: &LeaseEvent, effects: &mut Vec<Effect>) {
        self.note_connection(event, effects);
        if self.absorb_eviction(now, event, effects) {
            return;
        }
        let before = self.local.lease.id();
        let surplus = self.local.lease.absorb(now.mono, event);
        effects.extend(surplus.map(Effect::Close));
        if self.local.lease.id() != before {
            if before.is_some() {
                self.forget_life(effects);
            }
            self.view.begin_life(self.member());
        }
    }

    /// Whether the answer shows why this node's entry went.
    fn absorb_eviction(&mut self, now: Now, event: &LeaseEvent, effects: &mut Vec<Effect>) -> bool {
        let Some((lease, since)) = self.local.membership.eviction() else { return false };
        match event {
            LeaseEvent::Renewed { asked, granted } if granted.lease == lease && *asked >= since => {
                self.local.membership.close();
                effects.push(Effect::Announce(Event::Closed));
            }
            LeaseEvent::Gone(id) if *id == lease => {}
            LeaseEvent::Failed => {}
            _ => return false,
        }
        self.local.membership.explain_eviction();
        effects.push(Effect::Close(lease));
        if self.local.membership.is_closed() && self.local.availability.is_leaving() {
            self.depart(now, effects);
        }
        true
    }

    fn absorb_listing(
        &mut self,
        now: Now,
        batch: Option<&crate::registry::ChangeBatch>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(batch) = batch else { return self.local.reads.listing_failed(now.mono + RETRY) };
        self.local.reads.was_listed(now.mono);
        self.local.commits.forget_all_refused();
        let touched = self.view.list(now.mono, batch);
        self.settle_handoff(effects);
        self.sound_late_alarms(&touched, effects);
        self.note_loaded(now, batch.revision);
        self.touch(now, touched, effects);
        self.answer_claims(effects);
    }

    fn absorb_read(&mut self, now: Now, changes: Option<Vec<Change>>, effects: &mut Vec<Effect>) {
        match changes {
            Some(changes) => {
                for change in &changes {
                    match parse(&change.key) {
                        Some(
                            ParsedKey::RunState(job)
                            | ParsedKey::ShardRunState(job, _)
                            | ParsedKey::Plan(job),
                        ) => {
                            if let Some(id) = self.view.id(&job) {
                                self.local.was_read(id);
                            }
                        }
                        Some(ParsedKey::Load(_)) => {
                            self.view.note_loads_read(change.revision);
                            self.local.checks.check_all(self.local.reads.loads_were_read());
                        }
                        _ => {}
                    }
                }
                let touched = self.view.absorb_change(now.mono, &changes);
                self.touch(now, touched, effects);
            }
            None => self.local.reads_failed(now.mono + RETRY),
        }
    }

    /// Looks again at jobs that changes touched; what was refused for them may be tried again.
    fn touch(&mut self, now: Now, touched: ViewChanges, effects: &mut Vec<Effect>) {
        effects.extend(touched.unreadable.into_iter().map(|key| Effect::Announce(Event::Unreadable(key))));
        effects.extend(touched.unsealed.iter().filter_map(Event::unsealed).map(Effect::Announce));
        for id in touched.jobs {
            self.touch_job(id);
            if !self.view.job(id).is_consistent() {
                // Half of a change: the other half is in flight, or was lost.
                self.local.reads.list_by(now.mono + RETRY);
            }
        }
        touched.limits.iter().for_each(|limit| self.local.permit_waiters.open(limit));
        if touched.dispatched {
            self.local.planning.spread_soon(now.mono);
        }
        if touched.planner {
            self.note_planner(now, effects);
        }
        if touched.peers {
            self.local
                .commits
                .keep_refused(|scope| matches!(scope, CommitScope::Job(_) | CommitScope::Membership));
        }
        if touched.nodes {
            self.note_nodes(now, effects);
            self.local.commits.forget_all_refused();
            self.local.permit_waiters.open_all();
            self.local.checks.check_all(self.view.sharded());
            let drained = self.view.intent(&self.local.settings.name);
            if self.local.availability.note_drain(drained) || self.holds_misfits() {
                self.revisit_held();
            }
        }
    }

    /// Looks again at a job that the view shows otherwise, or whose run has ended.
    fn touch_job(&mut self, id: JobId) {
        self.local.recheck(id);
        self.tidy_given(id);
        self.tidy_recording(id);
        self.tidy_offers(id);
    }

    /// Whether this node owns jobs that it may not run: it can release them once another node may run them.
    fn holds_misfits(&self) -> bool {
        let misfit = |me: &Member, group| !self.view.fits(group, me) && self.view.held_of(group, me) > 0;
        self.member().is_some_and(|me| self.view.groups().any(|group| misfit(&me, group)))
    }

    /// Notes that this node's ability or right to work changed, which concerns every job it owns.
    pub(super) fn revisit_held(&mut self) {
        if let Some(member) = self.member() {
            self.local.checks.check_all(self.view.owned(&member));
            self.local.checks.check_all(self.view.sharded());
            self.local.checks.check_all(self.view.dispatched());
        }
    }

    /// Forgets a run that has ended once the view shows it closed (law 3).
    fn tidy_given(&mut self, id: JobId) {
        // The view shows nothing yet of a run that was handed off.
        if self.local.inherited.is_unread(id) {
            return;
        }
        let gone = lifecycle::closed(&self.local, &self.view.job(id), self.member().as_ref());
        for run in &gone {
            self.local.runs.forget(id, run);
        }
    }

    /// Forgets verdicts handed to the history once the run state no longer carries them.
    fn tidy_recording(&mut self, id: JobId) {
        if self.local.verdicts.is_empty() {
            return;
        }
        let job = self.view.job(id);
        let claimed = job.held().and_then(OwnedJob::record).map(|run_state| run_state.verdicts.as_slice());
        let own = self
            .member()
            .and_then(|me| job.run_state_of(&me))
            .and_then(|known| known.run_state.value.as_ref());
        let planned =
            job.plan().and_then(|plan| plan.known.value.as_ref()).map(|plan| plan.verdicts.as_slice());
        let verdicts =
            own.map(|run_state| run_state.verdicts.as_slice()).or(claimed).or(planned).unwrap_or_default();
        let kept = |run: &RunId, attempt: u32| verdicts.iter().any(|v| v.run == *run && v.attempt == attempt);
        self.local.verdicts.keep_of_job(job.name(), kept);
    }

    fn absorb_outcome(&mut self, now: Now, ticket: Ticket, outcome: TxnOutcome, effects: &mut Vec<Effect>) {
        // An answer that comes twice finds no commit in flight.
        match outcome {
            TxnOutcome::Unknown => self.local.commits.outcome_unknown(ticket, now.mono),
            TxnOutcome::Applied(revision) => {
                let Some(mut pending) = self.conclude(now, ticket) else { return };
                let mut rest = pending.txn.writes.as_slice();
                if let (CommitScope::Job(id), Some(run_state)) = (&pending.scope, pending.run_state.take()) {
                    rest = &rest[1..];
                    if self.view.note_run_state(*id, run_state, revision) {
                        self.touch_job(*id);
                    }
                }
                // Nearly all writes are run states.
                if !rest.is_empty() {
                    let touched =
                        self.view.absorb_change(now.mono, &written(&pending.txn.guards, rest, revision));
                    self.touch(now, touched, effects);
                }
                self.settle_applied(&pending, effects);
                self.sound_alarm(&pending, effects);
                self.notify_applied(*pending, effects);
            }
            TxnOutcome::Refused(found) => {
                let Some(pending) = self.conclude(now, ticket) else { return };
                let landed = landed(&pending.txn, &found);
                let touched = self.view.absorb_change(now.mono, &found);
                let explained = landed || !touched.jobs.is_empty() || touched.nodes;
                self.touch(now, touched, effects);
                self.sound_alarm(&pending, effects);
                if landed {
                    self.settle_applied(&pending, effects);
                    self.notify_applied(*pending, effects);
                } else if !explained {
                    // No known entry explains the refusal; listing may, and until then the same would be refused again.
                    self.local.commits.refuse(*pending);
                    self.local.reads.list_by(now.mono + RETRY);
                }
            }
        }
    }

    /// Ends a commit that was applied or refused, and looks at what waited for its end.
    fn conclude(&mut self, now: Now, ticket: Ticket) -> Option<Box<PendingCommit>> {
        let pending = self.local.commits.end(ticket, now.mono)?;
        self.local.claim_lead.answered(now.mono, now.mono - pending.since);
        match pending.scope {
            CommitScope::Job(id) => {
                self.local.planning.end(id);
                self.local.recheck(id);
            }
            CommitScope::Item(ask, n) => self.local.commands.end_commit(ask, n),
            // A node that was releasing the lead, or taking it, may plan from here on or not any more.
            CommitScope::Serving => self.local.checks.check_all(self.view.dispatched()),
            CommitScope::Permits(ref limits) => {
                for limit in limits {
                    self.local.permit_waiters.open(limit);
                    self.local.checks.check_all(self.view.permit_holders(limit));
                }
            }
            _ => {}
        }
        Some(pending)
    }

    /// Raises the alarm for each claim above the threshold, on the node that claimed (S1-25, S1-48); also for one whose
    /// answer was lost and whose entry another node has written since.
    fn sound_alarm(&self, pending: &PendingCommit, effects: &mut Vec<Effect>) {
        let (CommitScope::Job(id), CommitKind::ClaimJob | CommitKind::TakeOver) =
            (&pending.scope, pending.kind)
        else {
            return;
        };
        let Some(member) = self.member() else { return };
        if self.view.job(*id).owner() != Some(&member) {
            return;
        }
        let (held, alarm) = (self.view.count(&member), self.local.settings.alarm as usize);
        if held > alarm {
            effects.push(Effect::Announce(Event::Alarm { held, alarm }));
        }
    }

    /// A first try that was long in flight may be applied after a later one was refused. Then the claim has no answer,
    /// and only the feed reports it.
    fn sound_late_alarms(&self, touched: &ViewChanges, effects: &mut Vec<Effect>) {
        let Some(member) = self.member().filter(|_| !touched.won.is_empty()) else { return };
        let (held, alarm) = (self.view.count(&member), self.local.settings.alarm as usize);
        let late = touched.won.iter().filter(|id| !self.local.commits.is_busy(&CommitScope::Job(**id)));
        effects.extend(late.filter(|_| held > alarm).map(|_| Effect::Announce(Event::Alarm { held, alarm })));
    }

    fn absorb_run(&mut self, now: Now, run: &RunId, attempt: u32, event: &RunEvent) {
        if self.local.inherited.report_run(now.mono, run, attempt, event) {
            return;
        }
        let Some(id) = self.view.id(&run.job) else { return };
        if self.local.runs.get(id, run).is_none_or(|given| given.attempt != attempt) {
            return;
        }
        match event {
            RunEvent::NotStarted => {
                self.local.runs.forget(id, run);
                self.local.checks.put_off(id, now.mono + RETRY);
                // It may have become stale in the meantime, and can be withdrawn now.
                self.local.checks.check(id);
            }
            RunEvent::Ended(ended) => {
                self.local.runs.end(id, run, (*ended, now.mono));
                match self.gather_delay(id, run) {
                    // Looking at the job with each end would cost the square of its shards.
                    Some(wait) if self.local.runs.shard_counts(id).ended == 1 => {
                        self.local.checks.check_after(id, now.mono + wait);
                    }
                    Some(_) => {}
                    None => self.touch_job(id),
                }
            }
        }
    }

    /// How long the end of a shard's run may wait for others of its job, whose ends are then reported with it.
    fn gather_delay(&self, id: JobId, run: &RunId) -> Option<Millis> {
        let given = self.local.runs.get(id, run).filter(|given| given.sharded)?;
        firing::gather_delay(&self.local, &self.view.job(id), self.member().as_ref(), given)
    }

    fn absorb_recorded(&mut self, run: RunId, attempt: u32) {
        if let Some(id) = self.view.id(&run.job)
            && self.local.verdicts.record(run, attempt)
        {
            self.local.checks.check(id);
        }
    }
}

/// The changes that the view would see of writes that were applied under these guards.
fn written(guards: &[Guard], writes: &[Write], revision: Revision) -> Vec<Change> {
    let born = |key: &Key| {
        let guard = |guard: &Guard| match guard {
            Guard::Born(of, born) if of == key => Some(*born),
            _ => None,
        };
        guards.iter().find_map(guard).unwrap_or(revision)
    };
    let entry = |write: &Write| match write {
        Write::Put { key, value, owner } => {
            Some(Entry { value: value.clone(), revision, born: born(key), owner: *owner })
        }
        Write::Delete { .. } => None,
    };
    writes.iter().map(|w| Change { key: w.key().clone(), entry: entry(w), revision }).collect()
}

/// Whether a refused transaction had been applied by an earlier try: values never repeat, so ours prove it (law 5).
///
/// Of several entries some may repeat: two changes of one job write the same assignment, but not the same spec. So one
/// of ours proves it only if whatever else is ours was written with it, or has been written again since.
pub(super) fn landed(txn: &Txn, found: &[Change]) -> bool {
    let entry =
        |key: &Key| found.iter().find(|change| change.key == *key).and_then(|change| change.entry.as_ref());
    let stands = |write: &Write| match write {
        Write::Put { key, value, .. } => entry(key).filter(|e| e.value == *value).map(|e| e.revision),
        Write::Delete { .. } => None,
    };
    let written_since = |write: &Write, at: Revision| entry(write.key()).is_none_or(|e| e.revision > at);
    let all = |at| txn.writes.iter().all(|write| stands(write).is_some() || written_since(write, at));
    txn.writes.iter().filter_map(stands).any(all)
}
