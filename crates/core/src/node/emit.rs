//! Emit turns rule actions into effects. It drops what is in flight or was just refused, and numbers the rest.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{EarliestWake, Node};
use crate::commit_kind::CommitKind;
use crate::effect::{Effect, Run};
use crate::ids::{Member, Token};
use crate::input::{Answer, ApplyResult, Command, Offer};
use crate::job::Work;
use crate::keys::{self, Key};
use crate::local::{CommandItem, CommitScope, Given, ItemOutcome, PendingCommit, Waiter};
use crate::record::{BeatRecord, RunState, decode};
use crate::registry::{Txn, Write};
use crate::rule_context::{CommitNotice, RuleAction, RuleOutput};
use crate::time::{Now, Wall};
use crate::view::JobId;

/// The commits, reads and offers of one step, which go out together.
#[derive(Default)]
struct OutgoingBatch {
    reads: Vec<Key>,
    offers: BTreeMap<Member, Vec<Offer>>,
    /// Whether the node has handed everything over.
    departs: bool,
}

impl Node {
    pub(super) fn emit(
        &mut self,
        now: Now,
        mut out: RuleOutput,
        effects: &mut Vec<Effect>,
        wake: &mut EarliestWake,
    ) {
        self.local.commands.were_checked();
        let mut bundle = OutgoingBatch::default();
        for decision in core::mem::take(&mut out.actions) {
            if !self.has_effect(&decision) {
                if let RuleAction::Wake(at, why) = decision {
                    wake.at(at, why);
                }
                self.note(now, decision);
            } else if let RuleAction::Commit(scope, kind, txn) = decision {
                if let CommitScope::Job(id) = scope
                    && let Some(to) = out.placing.remove(&id)
                {
                    // From now on the nodes of a job's runs count.
                    self.local.planning.begin(id, to);
                }
                self.send(now, scope, kind, txn, &mut out, effects);
            } else {
                self.perform(now, decision, &mut bundle, effects);
            }
        }
        if !bundle.reads.is_empty() {
            effects.push(Effect::Read(bundle.reads));
        }
        for (to, runs) in bundle.offers {
            if let Some(state) = self.view.member(&to) {
                effects.push(Effect::Offer { address: state.info.address.clone(), to, runs });
            }
        }
        // Nothing follows the hand-over, so it waits for what this very step has begun.
        if bundle.departs && self.local.commits.is_empty() {
            self.depart(now, effects);
        }
    }

    /// Performs an action that is no transaction.
    fn perform(
        &mut self,
        now: Now,
        decision: RuleAction,
        bundle: &mut OutgoingBatch,
        effects: &mut Vec<Effect>,
    ) {
        match decision {
            RuleAction::Start(id, run) => self.start(now, id, run, effects),
            RuleAction::Probe(to, address, beat) => {
                self.local.peers.probe(&to, beat);
                effects.push(Effect::Probe { to, address });
            }
            RuleAction::Offer(id, run, to, must) => {
                self.local.offers.send(id, &run.fire, &to);
                bundle.offers.entry(to).or_default().push(Offer { run, must });
            }
            RuleAction::Stop(id, run, reason) => {
                self.local.runs.stop(id, &run);
                effects.push(Effect::Stop(run, reason));
            }
            RuleAction::Read(id, keys) => {
                self.local.reads.begin_reading(id);
                bundle.reads.extend(keys);
            }
            RuleAction::ReadLoads(id) => {
                if let Some(id) = id {
                    self.local.reads.await_loads(id);
                }
                if self.local.reads.begin_reading_loads(self.view.settings().beat_of(now.wall)) {
                    // Its own is among them, so the answer is never empty.
                    let nodes: BTreeSet<_> = self.view.members().map(|(member, _)| &member.node).collect();
                    bundle.reads.extend(nodes.into_iter().map(keys::load));
                }
            }
            RuleAction::Record(verdict) => {
                self.local.verdicts.send(&verdict);
                effects.push(Effect::Record(verdict));
            }
            RuleAction::Announce(event) => {
                self.local.announced.add(event.clone());
                effects.push(Effect::Announce(event));
            }
            RuleAction::CompleteItem(ask, n, settled) => {
                self.complete_item(ask, n, settled, effects);
                self.local.commands.recheck_items();
            }
            RuleAction::Departed => bundle.departs = true,
            RuleAction::Commit(..)
            | RuleAction::SetLockCount(..)
            | RuleAction::JobAt(..)
            | RuleAction::JobBeforeFire(..)
            | RuleAction::JobAfter(..)
            | RuleAction::JobAwaitsTrust(_)
            | RuleAction::JobUnplaced(_)
            | RuleAction::JobSpread(_)
            | RuleAction::JobAwaitsSlot(..)
            | RuleAction::JobAwaitsPermit(..)
            | RuleAction::Reread(..)
            | RuleAction::Wake(..) => {}
        }
    }

    /// Whether an action leads to an effect now.
    pub(super) fn has_effect(&self, decision: &RuleAction) -> bool {
        let local = &self.local;
        match decision {
            RuleAction::Commit(scope, _, txn) => local.commits.accepts(scope, txn),
            // A commit of the job may be withdrawing the fire at this very moment.
            RuleAction::Start(id, run) => {
                let is_given = match self.view.job(*id).is_sharded() {
                    true => local.runs.has_shard(*id, run.id.shard),
                    false => local.runs.get(*id, &run.id).is_some(),
                };
                !local.commits.is_busy(&CommitScope::Job(*id)) && !is_given
            }
            RuleAction::Stop(id, run, _) => local.runs.get(*id, run).is_some_and(|g| !g.stopping),
            RuleAction::Read(id, _) | RuleAction::ReadLoads(Some(id)) => local.may_read(*id),
            RuleAction::ReadLoads(None) => true,
            RuleAction::Record(verdict) => !local.verdicts.is_sent(verdict),
            RuleAction::Announce(event) => !local.announced.contains(event),
            RuleAction::CompleteItem(ask, n, _) => local.commands.item(*ask, *n).is_some(),
            RuleAction::Departed => !local.availability.has_departed(),
            RuleAction::Probe(member, ..) => !local.peers.get(member).is_some_and(|contact| contact.asking),
            RuleAction::Offer(id, run, to, _) => {
                let sent = local.offers.sent(*id, &run.fire);
                sent.is_none_or(|sent| sent.to != *to || sent.is_open())
            }
            RuleAction::SetLockCount(..)
            | RuleAction::JobAt(..)
            | RuleAction::JobBeforeFire(..)
            | RuleAction::JobAfter(..)
            | RuleAction::JobAwaitsTrust(_)
            | RuleAction::JobUnplaced(_)
            | RuleAction::JobSpread(_)
            | RuleAction::JobAwaitsSlot(..)
            | RuleAction::JobAwaitsPermit(..)
            | RuleAction::Reread(..)
            | RuleAction::Wake(..) => false,
        }
    }

    /// Applies an action that changes only the node's own state.
    fn note(&mut self, now: Now, decision: RuleAction) {
        match decision {
            RuleAction::JobAt(id, at) => self.local.checks.check_at(id, at),
            RuleAction::JobBeforeFire(id, from) => self.local.checks.check_before_fire(id, from),
            RuleAction::JobAfter(id, at) => self.local.checks.check_after(id, at),
            RuleAction::JobAwaitsTrust(id) => self.local.checks.await_trust(id),
            RuleAction::JobUnplaced(id) => self.local.planning.add_unplaced(id),
            RuleAction::JobSpread(id) => self.local.planning.was_spread(id),
            RuleAction::JobAwaitsSlot(waiter) => {
                self.local.slot_waiters.insert_at(waiter, now.wall);
                // Until there is a slot another node may have taken it.
                self.local.offers.read_overdue_again(waiter.id);
            }
            RuleAction::JobAwaitsPermit(limit, id, due, was_first) => {
                let priority = Reverse(self.view.job(id).priority());
                let waiter = Waiter { priority, due, again: Wall::MAX, id };
                match was_first {
                    true => self.local.permit_waiters.wait_as_first(limit, waiter),
                    false => self.local.permit_waiters.wait(limit, waiter),
                }
            }
            RuleAction::Reread(id, at) => {
                let named = self.local.offers.reread(id, at);
                self.local.checks.check_at(id, named);
            }
            RuleAction::SetLockCount(lock, times) => self.local.commands.set_lock_count(lock, times),
            _ => {}
        }
    }

    fn send(
        &mut self,
        now: Now,
        scope: CommitScope,
        kind: CommitKind,
        txn: Txn,
        out: &mut RuleOutput,
        effects: &mut Vec<Effect>,
    ) {
        if let CommitScope::Item(ask, n) = scope {
            self.local.commands.begin_item(ask, n);
        }
        let (sent, applied): (Vec<CommitNotice>, Vec<CommitNotice>) =
            out.notices.extract_if(.., |news| news.scope == scope).partition(|news| news.sent);
        let next = out.acceptable_runs.extract_if(.., |(job, ..)| scope == CommitScope::Job(*job)).next();
        effects.extend(sent.into_iter().map(|news| Effect::Announce(news.event)));
        let news = applied.into_iter().map(|news| news.event).collect();
        let next = next.map(|(_, run, to)| (run, to));
        let since = now.mono;
        let run_state = written_run_state(&scope, &txn, out);
        let commit = PendingCommit {
            scope,
            kind,
            txn: txn.clone(),
            run_state,
            since,
            among: 0,
            tries: 1,
            events: news,
            next,
        };
        let ticket = self.local.commits.begin(commit);
        effects.push(Effect::Commit { ticket, kind, txn });
    }

    fn start(&mut self, now: Now, id: JobId, mut run: Run, effects: &mut Vec<Effect>) {
        let job = self.view.job(id);
        if matches!(run.work, Work::Command(_)) {
            run.again = job.fires_after(now.wall.max(run.due));
        }
        let sharded = job.is_sharded();
        // An unmonitored run is closed as soon as it was given, and one that may overlap with others is followed.
        if job.terms().is_some_and(|(_, shards)| !shards.monitor) || job.max_concurrent_runs() > 1 {
            self.local.checks.check(id);
        }
        let (attempt, ended, retry) = (run.attempt, None, run.retry.clone());
        // From now on the other jobs do not wait for the end of its membership.
        if self.local.availability.is_leaving() && self.local.runs.is_empty() {
            self.revisit_held();
        }
        self.local
            .runs
            .give(id, Given { run: run.id.clone(), attempt, ended, stopping: false, sharded, retry });
        effects.push(Effect::Start(run));
    }

    /// Answers with the token of the beat operation that a transaction claimed.
    fn granted(&self, pending: &PendingCommit) -> Option<Answer> {
        let Write::Put { value, .. } = pending.txn.writes.first()? else { return None };
        let record: BeatRecord = decode(value)?;
        let token = Token::new(self.local.settings.generation, record.seq);
        Some(Answer::Beat { beat: record.beat, token })
    }

    /// Notifies those that wait for an applied transaction.
    pub(super) fn notify_applied(&self, pending: PendingCommit, effects: &mut Vec<Effect>) {
        effects.extend(pending.events.into_iter().map(Effect::Announce));
        if let Some((run, to)) = pending.next
            && let Some(state) = self.view.member(&to)
        {
            let runs = [Offer { run, must: true }].into();
            effects.push(Effect::Offer { address: state.info.address.clone(), to, runs });
        }
    }

    /// Completes the item of an applied transaction.
    pub(super) fn settle_applied(&mut self, pending: &PendingCommit, effects: &mut Vec<Effect>) {
        let CommitScope::Item(ask, n) = pending.scope else { return };
        let Some(item) = self.local.commands.item(ask, n) else { return };
        let kind = pending.kind;
        let applied = match item {
            CommandItem::Job(_) | CommandItem::Same(_) => {
                let created = kind == CommitKind::CreateJob;
                let applied = if created { ApplyResult::Created } else { ApplyResult::Updated };
                let Some(name) = item.declares() else { return };
                ItemOutcome::Applied(name.clone(), applied)
            }
            CommandItem::Command(command) => match command {
                Command::Calendar(calendar) => {
                    let applied = if kind == CommitKind::CreateCalendar {
                        ApplyResult::Created
                    } else {
                        ApplyResult::Updated
                    };
                    ItemOutcome::Answer(Answer::Calendar(calendar.name.clone(), applied))
                }
                Command::Namespace(namespace) => {
                    let created = kind == CommitKind::CreateNamespace;
                    let applied = if created { ApplyResult::Created } else { ApplyResult::Updated };
                    ItemOutcome::Answer(Answer::Namespace(namespace.name.clone(), applied))
                }
                Command::Beat(_) => {
                    let Some(answer) = self.granted(pending) else { return };
                    ItemOutcome::Answer(answer)
                }
                Command::FinalizeUpgrade if kind == CommitKind::RaiseLayout => {
                    let layout = self.view.cluster().value.as_ref().map_or(0, |cluster| cluster.layout);
                    ItemOutcome::Answer(Answer::Layout(layout, ApplyResult::Updated))
                }
                // Manual runs, cancellations and locks are answered from the view, where their record now stands, and
                // a requested layout is not raised.
                Command::RunNow(..)
                | Command::RunWith(..)
                | Command::Backfill(..)
                | Command::CancelBackfill(..)
                | Command::Kill(_)
                | Command::Lock(_)
                | Command::Unlock(_)
                | Command::FinalizeUpgrade => return,
                _ => ItemOutcome::Answer(Answer::Done),
            },
        };
        self.complete_item(ask, n, applied, effects);
    }
}

/// The run state that a transaction's first write writes, if firing has left it. Several rules may have had something
/// to write for a job, so the written value decides.
fn written_run_state(scope: &CommitScope, txn: &Txn, out: &mut RuleOutput) -> Option<RunState> {
    let (CommitScope::Job(id), Some(Write::Put { value, .. })) = (scope, txn.writes.first()) else {
        return None;
    };
    let (written, run_state) = out.run_states.remove(id)?;
    (written == *value).then_some(run_state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::encode;

    #[test]
    fn a_lane_that_is_not_what_a_transaction_writes_is_not_taken_for_it() {
        let (id, run_state) = (JobId(0), RunState { seq: 7, ..RunState::default() });
        let txn = |value| Txn {
            guards: Vec::new(),
            writes: [Write::Put { key: Key::from_stored("run/j"), value, owner: None }].into(),
        };
        let taken = |scope: CommitScope, value| {
            let mut out = RuleOutput::default();
            out.run_states.insert(id, (encode(&run_state), run_state.clone()));
            written_run_state(&scope, &txn(value), &mut out)
        };
        assert_eq!(taken(CommitScope::Job(id), encode(&run_state)), Some(run_state.clone()));
        assert_eq!(
            taken(CommitScope::Job(id), encode(&RunState::default())),
            None,
            "another rule wrote first"
        );
        assert_eq!(taken(CommitScope::Membership, encode(&run_state)), None);
    }
}
