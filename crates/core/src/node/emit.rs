//! Emit: decisions become effects. What is under way or was just refused is dropped, the rest is numbered.

use alloc::vec::Vec;

use super::{Earliest, Node};
use crate::effect::{Effect, Event, Ticket};
use crate::input::Applied;
use crate::local::{Given, Pending, Subject, Wish};
use crate::scene::{Decision, Decisions, News, Settled};
use crate::time::Now;

impl Node {
    pub(super) fn emit(
        &mut self,
        now: Now,
        mut out: Decisions,
        effects: &mut Vec<Effect>,
        wake: &mut Earliest,
    ) {
        (self.local.eager, self.local.again) = (false, false);
        let mut reads = Vec::new();
        let mut departs = false;
        for decision in core::mem::take(&mut out.list) {
            if !self.would_act(&decision) {
                if let Decision::Wake(at, why) = decision {
                    wake.at(at, why);
                }
                self.note(decision);
                continue;
            }
            match decision {
                Decision::Commit(subject, why, txn) => self.send(subject, why, txn, &mut out.news, effects),
                Decision::Start(id, run) => {
                    let job = self.view.job(id);
                    let sharded = job.is_sharded();
                    // A run that nobody monitors is closed as soon as it was given.
                    if job.terms().is_some_and(|(_, shards)| !shards.monitor) {
                        self.local.agenda.insert(id);
                    }
                    let (attempt, ended) = (run.attempt, None);
                    self.local
                        .give(id, Given { run: run.id.clone(), attempt, ended, stopping: false, sharded });
                    effects.push(Effect::Start(run));
                }
                Decision::Stop(id, run, reason) => {
                    if let Some(given) = self.local.given.get_mut(&(id, run.shard)) {
                        given.stopping = true;
                    }
                    effects.push(Effect::Stop(run, reason));
                }
                Decision::Read(id, lanes) => {
                    self.local.reading.insert(id);
                    reads.extend(lanes);
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
                Decision::Departed => departs = true,
                Decision::Hold(..)
                | Decision::JobAt(..)
                | Decision::JobUncertain(_)
                | Decision::JobWaits(..)
                | Decision::Wake(..) => {}
            }
        }
        if !reads.is_empty() {
            effects.push(Effect::Read(reads));
        }
        // Nothing follows the hand-over, so it waits for what this very step has begun.
        if departs && self.local.pending.is_empty() {
            self.depart(now, effects);
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
                !local.busy.contains(&Subject::Job(*id)) && !local.given.contains_key(&(*id, run.id.shard))
            }
            Decision::Stop(id, run, _) => local.given.get(&(*id, run.shard)).is_some_and(|g| !g.stopping),
            Decision::Read(id, _) => !local.reading.contains(id) && !local.put_off.contains_key(id),
            Decision::Record(verdict) => {
                !local.recording.contains_key(&(verdict.run.clone(), verdict.attempt))
            }
            Decision::Announce(event) => !local.announced.iter().any(|said| same_news(said, event)),
            Decision::Settled(ask, n, _) => local.wishes.contains_key(&(*ask, *n)),
            Decision::Departed => !local.departed,
            Decision::Hold(..)
            | Decision::JobAt(..)
            | Decision::JobUncertain(_)
            | Decision::JobWaits(..)
            | Decision::Wake(..) => false,
        }
    }

    /// What a decision leaves in the node's own affairs without an effect.
    fn note(&mut self, decision: Decision) {
        match decision {
            Decision::JobAt(id, at) => {
                self.local.wheel.insert((at, id));
            }
            Decision::JobUncertain(id) => {
                self.local.uncertain.insert(id);
            }
            Decision::JobWaits(id, due) => {
                self.local.waiting.insert((due, id));
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
        subject: Subject,
        why: &'static str,
        txn: crate::registry::Txn,
        news: &mut Vec<News>,
        effects: &mut Vec<Effect>,
    ) {
        let ticket = Ticket(self.local.next_ticket);
        self.local.next_ticket += 1;
        self.local.busy.insert(subject.clone());
        if let Subject::Wish(ask, n) = subject {
            self.local.todo.remove(&(ask, n));
            self.local.again = !self.local.todo.is_empty();
        }
        *self.local.acts.entry(why).or_default() += 1;
        let (sent, applied): (Vec<News>, Vec<News>) =
            news.extract_if(.., |news| news.subject == subject).partition(|news| news.sent);
        effects.extend(sent.into_iter().map(|news| Effect::Announce(news.event)));
        let news = applied.into_iter().map(|news| news.event).collect();
        self.local.pending.insert(ticket, Pending { subject, why, txn: txn.clone(), tries: 1, news });
        effects.push(Effect::Commit { ticket, why, txn });
    }

    /// A wish's transaction was applied, so the wish is settled.
    pub(super) fn settle_applied(&mut self, pending: &Pending, effects: &mut Vec<Effect>) {
        let Subject::Wish(ask, n) = pending.subject else { return };
        let applied = match (pending.why, self.local.wishes.get(&(ask, n))) {
            ("create", Some(Wish::Job(job))) => Settled::Applied(job.name.clone(), Applied::Created),
            (_, Some(Wish::Job(job))) => Settled::Applied(job.name.clone(), Applied::Updated),
            (_, Some(Wish::Switch(..) | Wish::OnNode(..) | Wish::Drain(..))) => {
                Settled::Answer(crate::input::Answer::Done)
            }
            // Runs by hand and locks are answered from the view, where their record now stands.
            (_, Some(Wish::RunNow(..) | Wish::Lock(_) | Wish::Unlock(_)) | None) => return,
        };
        self.settle_wish(ask, n, applied, effects);
    }
}

/// Alarms are said each time, everything else once while it holds.
fn same_news(said: &Event, event: &Event) -> bool {
    match (said, event) {
        (Event::ClockDiffers(_), Event::ClockDiffers(_)) => true,
        _ => said == event,
    }
}
