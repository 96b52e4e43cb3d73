//! Emit: decisions become effects. What is under way or was just refused is dropped, the rest is numbered.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

use super::{Earliest, Node};
use crate::commit_kind::CommitKind;
use crate::effect::{Effect, Event, Run, Ticket};
use crate::input::{Answer, Applied, Offer};
use crate::job::Work;
use crate::keys::Key;
use crate::local::{Contact, Given, OfferState, Pending, Sent, Subject, Waiter, Wish};
use crate::record::{BeatRecord, Lane, decode};
use crate::registry::{Txn, Write};
use crate::scene::{Decision, Decisions, News, Settled};
use crate::time::{Now, Wall};
use crate::view::JobId;
use crate::words::{Member, RunId, Token};

/// What of one step goes out together.
#[derive(Default)]
struct Bundle {
    reads: Vec<Key>,
    offers: BTreeMap<Member, Vec<Offer>>,
    /// Whether the node has handed everything over.
    departs: bool,
}

impl Node {
    pub(super) fn emit(
        &mut self,
        now: Now,
        mut out: Decisions,
        effects: &mut Vec<Effect>,
        wake: &mut Earliest,
    ) {
        (self.local.eager, self.local.again) = (false, false);
        let mut bundle = Bundle::default();
        for decision in core::mem::take(&mut out.list) {
            if !self.would_act(&decision) {
                if let Decision::Wake(at, why) = decision {
                    wake.at(at, why);
                }
                self.note(now, decision);
            } else if let Decision::Commit(subject, kind, txn) = decision {
                if let Subject::Job(id) = subject
                    && let Some(to) = out.placing.remove(&id)
                {
                    // Where a job's runs go counts from now on.
                    self.local.peers.placing.begin(id, to);
                }
                self.send(now, subject, kind, txn, &mut out, effects);
            } else {
                self.act(now, decision, &mut bundle, effects);
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
        if bundle.departs && self.local.pending.is_empty() {
            self.depart(now, effects);
        }
    }

    /// Carries out what is no transaction.
    fn act(&mut self, now: Now, decision: Decision, bundle: &mut Bundle, effects: &mut Vec<Effect>) {
        match decision {
            Decision::Start(id, run) => self.start(now, id, run, effects),
            Decision::Probe(to, address, beat) => {
                let contact = self.local.peers.contacts.entry(to.clone()).or_default();
                *contact = Contact { beat, asking: true, reachable: None, ..*contact };
                effects.push(Effect::Probe { to, address });
            }
            Decision::Offer(id, run, to, must) => {
                self.note_offer(id, &run, &to);
                bundle.offers.entry(to).or_default().push(Offer { run, must });
            }
            Decision::Stop(id, run, reason) => {
                self.local.stop_given(id, &run);
                effects.push(Effect::Stop(run, reason));
            }
            Decision::Read(id, keys) => {
                self.local.reading.insert(id);
                bundle.reads.extend(keys);
            }
            Decision::Record(verdict) => {
                self.local.recording.insert((verdict.run.clone(), verdict.attempt), false);
                effects.push(Effect::Record(verdict));
            }
            Decision::Announce(event) => {
                self.local.announced.push(event.clone());
                effects.push(Effect::Announce(event));
            }
            Decision::Settled(ask, n, settled) => {
                self.settle_wish(ask, n, settled, effects);
                self.local.again = !self.local.wishes.is_empty();
            }
            Decision::Departed => bundle.departs = true,
            Decision::Commit(..)
            | Decision::Hold(..)
            | Decision::JobAt(..)
            | Decision::JobAfter(..)
            | Decision::JobUncertain(_)
            | Decision::JobUnplaced(_)
            | Decision::JobSpread(_)
            | Decision::JobWaits(..)
            | Decision::JobSeeks(..)
            | Decision::Reread(..)
            | Decision::Wake(..) => {}
        }
    }

    /// Whether a decision leads to an effect now.
    pub(super) fn would_act(&self, decision: &Decision) -> bool {
        let local = &self.local;
        match decision {
            Decision::Commit(subject, _, txn) => {
                !local.busy.contains(subject) && local.spent.get(subject) != Some(txn)
            }
            // A commit about the job may be taking the fire back at this very moment.
            Decision::Start(id, run) => {
                let is_given = match self.view.job(*id).is_sharded() {
                    true => local.is_given(*id, run.id.shard),
                    false => local.given_to(*id, &run.id).is_some(),
                };
                !local.busy.contains(&Subject::Job(*id)) && !is_given
            }
            Decision::Stop(id, run, _) => local.given_to(*id, run).is_some_and(|g| !g.stopping),
            Decision::Read(id, _) => !local.reading.contains(id) && !local.put_off.contains_key(id),
            Decision::Record(verdict) => {
                !local.recording.contains_key(&(verdict.run.clone(), verdict.attempt))
            }
            Decision::Announce(event) => !local.announced.iter().any(|said| same_news(said, event)),
            Decision::Settled(ask, n, _) => local.wishes.contains_key(&(*ask, *n)),
            Decision::Departed => !local.departed,
            Decision::Probe(member, ..) => {
                !local.peers.contacts.get(member).is_some_and(|contact| contact.asking)
            }
            Decision::Offer(id, run, to, _) => {
                let sent = local.peers.offers.get(&(*id, run.fire.clone()));
                sent.is_none_or(|sent| sent.to != *to || sent.is_open())
            }
            Decision::Hold(..)
            | Decision::JobAt(..)
            | Decision::JobAfter(..)
            | Decision::JobUncertain(_)
            | Decision::JobUnplaced(_)
            | Decision::JobSpread(_)
            | Decision::JobWaits(..)
            | Decision::JobSeeks(..)
            | Decision::Reread(..)
            | Decision::Wake(..) => false,
        }
    }

    /// What a decision leaves in the node's own affairs without an effect.
    fn note(&mut self, now: Now, decision: Decision) {
        match decision {
            Decision::JobAt(id, at) => {
                self.local.wheel.insert((at, id));
            }
            Decision::JobAfter(id, at) => {
                self.local.timers.insert((at, id));
            }
            Decision::JobUncertain(id) => {
                self.local.uncertain.insert(id);
            }
            Decision::JobUnplaced(id) => {
                self.local.peers.unplaced.insert(id);
            }
            Decision::JobSpread(id) => {
                self.local.peers.spread.remove(&id);
            }
            Decision::JobWaits(id, due) => {
                let job = self.view.job(id);
                let (priority, again) = (Reverse(job.priority()), job.fires_after(now.wall.max(due)));
                // Then its place is another one.
                self.local.wheel.extend(again.map(|at| (at, id)));
                let again = again.unwrap_or(Wall::MAX);
                self.local.waiting.insert_at(Waiter { priority, due, again, id }, now.wall);
                // Until there is a slot another node may have taken it.
                self.local.peers.set_overdue_read(id, false);
            }
            Decision::JobSeeks(pool, id, due, was_first) => {
                let priority = Reverse(self.view.job(id).priority());
                self.local.seekers.wait(pool, Waiter { priority, due, again: Wall::MAX, id }, was_first);
            }
            Decision::Reread(id, at) => {
                // The earliest moment that was named stands: looking in the meantime puts nothing off.
                let named = self.local.peers.reread.entry(id).or_insert(at);
                *named = at.min(*named);
                self.local.wheel.insert((*named, id));
            }
            Decision::Hold(lock, 0) => {
                self.local.locks.remove(&lock);
            }
            Decision::Hold(lock, times) => {
                self.local.locks.insert(lock, times);
            }
            _ => {}
        }
    }

    fn send(
        &mut self,
        now: Now,
        subject: Subject,
        kind: CommitKind,
        txn: Txn,
        out: &mut Decisions,
        effects: &mut Vec<Effect>,
    ) {
        let ticket = Ticket(self.local.next_ticket);
        self.local.next_ticket += 1;
        self.local.busy.insert(subject.clone());
        if let Subject::Wish(ask, n) = subject {
            self.local.todo.remove(&(ask, n));
            self.local.again = !self.local.todo.is_empty();
        }
        self.local.acts.begin(kind);
        let (sent, applied): (Vec<News>, Vec<News>) =
            out.news.extract_if(.., |news| news.subject == subject).partition(|news| news.sent);
        let next = out.nudges.extract_if(.., |(job, ..)| subject == Subject::Job(*job)).next();
        effects.extend(sent.into_iter().map(|news| Effect::Announce(news.event)));
        let among = self.local.paced();
        let news = applied.into_iter().map(|news| news.event).collect();
        let next = next.map(|(_, run, to)| (run, to));
        let since = now.mono;
        let lane = written_lane(&subject, &txn, out);
        let pending = Pending { subject, kind, txn: txn.clone(), lane, since, among, tries: 1, news, next };
        self.local.pending.insert(ticket, Box::new(pending));
        effects.push(Effect::Commit { ticket, kind, txn });
    }

    fn start(&mut self, now: Now, id: JobId, mut run: Run, effects: &mut Vec<Effect>) {
        let job = self.view.job(id);
        if matches!(run.work, Work::Command(_)) {
            run.again = job.fires_after(now.wall.max(run.due));
        }
        let sharded = job.is_sharded();
        // A run that nobody monitors is closed as soon as it was given, and one beside which others may go on is followed.
        if job.terms().is_some_and(|(_, shards)| !shards.monitor) || job.beside() > 1 {
            self.local.agenda.insert(id);
        }
        let (attempt, ended, retry) = (run.attempt, None, run.retry.clone());
        self.local.give(id, Given { run: run.id.clone(), attempt, ended, stopping: false, sharded, retry });
        effects.push(Effect::Start(run));
    }

    /// An offer is on its way; who was busy before is remembered.
    fn note_offer(&mut self, id: JobId, run: &RunId, to: &Member) {
        let sent = self.local.peers.offers.entry((id, run.fire.clone()));
        let sent =
            sent.or_insert_with(|| Sent { to: to.clone(), state: OfferState::Asked, busy: Vec::new() });
        (sent.to, sent.state) = (to.clone(), OfferState::Asked);
    }

    /// What the beat that a transaction took is worth.
    fn granted(&self, pending: &Pending) -> Option<Answer> {
        let Write::Put { value, .. } = pending.txn.writes.first()? else { return None };
        let record: BeatRecord = decode(value)?;
        let token = Token::new(self.local.settings.generation, record.seq);
        Some(Answer::Beat { beat: record.beat, token })
    }

    /// A transaction was applied: whoever waits for that is told.
    pub(super) fn tell_applied(&self, pending: Pending, effects: &mut Vec<Effect>) {
        effects.extend(pending.news.into_iter().map(Effect::Announce));
        if let Some((run, to)) = pending.next
            && let Some(state) = self.view.member(&to)
        {
            let runs = [Offer { run, must: true }].into();
            effects.push(Effect::Offer { address: state.info.address.clone(), to, runs });
        }
    }

    /// A wish's transaction was applied, so the wish is settled.
    pub(super) fn settle_applied(&mut self, pending: &Pending, effects: &mut Vec<Effect>) {
        let Subject::Wish(ask, n) = pending.subject else { return };
        let applied = match (pending.kind, self.local.wishes.get(&(ask, n))) {
            (CommitKind::CreateJob, Some(Wish::Job(job))) => {
                Settled::Applied(job.name.clone(), Applied::Created)
            }
            (_, Some(Wish::Job(job))) => Settled::Applied(job.name.clone(), Applied::Updated),
            (kind, Some(Wish::Calendar(calendar))) => {
                let applied =
                    if kind == CommitKind::CreateCalendar { Applied::Created } else { Applied::Updated };
                Settled::Answer(Answer::Calendar(calendar.name.clone(), applied))
            }
            (_, Some(Wish::Beat(_))) => {
                let Some(answer) = self.granted(pending) else { return };
                Settled::Answer(answer)
            }
            (CommitKind::RaiseLayout, Some(Wish::FinalizeUpgrade)) => {
                let layout = self.view.cluster().value.as_ref().map_or(0, |cluster| cluster.layout);
                Settled::Answer(Answer::Layout(layout, Applied::Updated))
            }
            (
                _,
                Some(
                    Wish::DeleteCalendar(_)
                    | Wish::Switch(..)
                    | Wish::OnNode(..)
                    | Wish::Drain(..)
                    | Wish::Configure(_)
                    | Wish::Count(..)
                    | Wish::Tell(..)
                    | Wish::Activate(_),
                ),
            ) => Settled::Answer(crate::input::Answer::Done),
            // Runs by hand, asked for or ended, and locks are answered from the view, where their record now stands, and a wanted
            // layout is not raised.
            (
                _,
                Some(
                    Wish::RunNow(..)
                    | Wish::CallOff(_)
                    | Wish::Lock(_)
                    | Wish::Unlock(_)
                    | Wish::FinalizeUpgrade,
                )
                | None,
            ) => return,
        };
        self.settle_wish(ask, n, applied, effects);
    }
}

/// The lane that a transaction's first write writes, if firing has left it. Several rules may have had something to write
/// about a job, so what is written tells.
fn written_lane(subject: &Subject, txn: &Txn, out: &mut Decisions) -> Option<Lane> {
    let (Subject::Job(id), Some(Write::Put { value, .. })) = (subject, txn.writes.first()) else {
        return None;
    };
    let (written, lane) = out.lanes.remove(id)?;
    (written == *value).then_some(lane)
}

/// Alarms are said each time, everything else once while it holds.
fn same_news(said: &Event, event: &Event) -> bool {
    match (said, event) {
        (Event::ClockDiffers(_), Event::ClockDiffers(_)) => true,
        _ => said == event,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::encode;

    #[test]
    fn a_lane_that_is_not_what_a_transaction_writes_is_not_taken_for_it() {
        let (id, lane) = (JobId(0), Lane { seq: 7, ..Lane::default() });
        let txn = |value| Txn {
            guards: Vec::new(),
            writes: [Write::Put { key: Key::from_stored("lane/j"), value, owner: None }].into(),
        };
        let taken = |subject: Subject, value| {
            let mut out = Decisions::default();
            out.lanes.insert(id, (encode(&lane), lane.clone()));
            written_lane(&subject, &txn(value), &mut out)
        };
        assert_eq!(taken(Subject::Job(id), encode(&lane)), Some(lane.clone()));
        assert_eq!(taken(Subject::Job(id), encode(&Lane::default())), None, "another rule wrote first");
        assert_eq!(taken(Subject::Me, encode(&lane)), None);
    }
}
