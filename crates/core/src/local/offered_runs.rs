//! The offers of planned runs: those that this node made, and those that other nodes made to it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::ids::{Fire, Member, RunId};
use crate::input::OfferAnswer;
use crate::time::Wall;
use crate::view::JobId;

/// The most runs of other nodes that a node remembers because there was no slot for them. Forgotten ones wait where
/// they are.
const OVERDUE_MAX: usize = 256;

/// An offer that this node made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SentOffer {
    /// The member that got it last.
    pub to: Member,
    /// Its state.
    pub state: OfferState,
    /// The members that had no slot for it.
    pub busy: Vec<Member>,
}

impl SentOffer {
    /// Whether it came back to a node that had been busy, and is to be offered to it as one that must be taken.
    #[must_use]
    pub fn is_offered_again(&self) -> bool {
        self.state == OfferState::Busy && !self.is_settled()
    }

    /// Whether the offer is to be made again: it did not get through, or came round to a node that had been busy.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.state == OfferState::Unreachable || self.is_offered_again()
    }

    /// Whether all nodes were asked: the run queues where it is, even if that node reports to be busy.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.busy.iter().filter(|member| **member == self.to).count() > 1
    }
}

/// The state of an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OfferState {
    /// Not answered yet.
    Asked,
    /// Taken.
    Taken,
    /// Refused for want of a slot.
    Busy,
    /// Not delivered, or perhaps delivered without an answer.
    Unreachable,
}

/// The offers that this node made and got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OfferedRuns {
    /// Runs that this node planned for other members, until they are accepted or gone.
    sent: BTreeMap<(JobId, Fire), SentOffer>,
    /// Jobs whose plans have to be read because another node offered runs of them.
    received: BTreeSet<JobId>,
    /// Runs of other nodes that had no slot for them when they were due: this node takes one that it has a slot for.
    /// The flag says whether the plan was read since the offer, or since there was no slot here either.
    overdue: BTreeMap<(JobId, Fire), bool>,
    /// Jobs whose plans have to be read again, and from when on: another member's run held one up.
    reread: BTreeMap<JobId, Wall>,
}

impl OfferedRuns {
    /// Notes that a run is offered to a member, and keeps which members were busy before.
    pub(crate) fn send(&mut self, job: JobId, fire: &Fire, to: &Member) {
        let sent = self.sent.entry((job, fire.clone()));
        let sent =
            sent.or_insert_with(|| SentOffer { to: to.clone(), state: OfferState::Asked, busy: Vec::new() });
        (sent.to, sent.state) = (to.clone(), OfferState::Asked);
    }

    /// Takes the answer of a member to the offer of a run. Returns whether it is the answer that is awaited.
    pub(crate) fn answered(&mut self, job: JobId, run: &RunId, to: &Member, answer: &OfferAnswer) -> bool {
        let sent = self.sent.get_mut(&(job, run.fire.clone()));
        let Some(sent) = sent.filter(|sent| sent.to == *to && sent.state == OfferState::Asked) else {
            return false;
        };
        sent.state = match answer {
            OfferAnswer::Unreachable => OfferState::Unreachable,
            OfferAnswer::Taken { busy } if busy.contains(run) => {
                sent.busy.push(to.clone());
                OfferState::Busy
            }
            OfferAnswer::Taken { .. } => OfferState::Taken,
        };
        true
    }

    /// The offer of a run, if this node made one.
    pub(crate) fn sent(&self, job: JobId, fire: &Fire) -> Option<&SentOffer> {
        self.sent.get(&(job, fire.clone()))
    }

    /// Forgets the offers of a job's runs except those of its open fires, which are asked for only if there are offers.
    pub(crate) fn keep_sent<'f>(&mut self, job: JobId, open: impl FnOnce() -> BTreeSet<&'f Fire>) {
        let of_job = |(id, _): &&(JobId, Fire)| *id == job;
        let first = (job, Fire::Due(Wall::MIN));
        let mut offers = self.sent.range(first..).map(|(key, _)| key).take_while(of_job).peekable();
        if offers.peek().is_none() {
            return;
        }
        let open = open();
        let gone: Vec<_> = offers.filter(|(_, fire)| !open.contains(fire)).cloned().collect();
        for key in gone {
            self.sent.remove(&key);
        }
    }

    /// Notes that another node offered a run of a job: its plan has to be read.
    pub(crate) fn receive(&mut self, job: JobId) {
        self.received.insert(job);
    }

    /// Whether the plan of a job has to be read because another node offered a run of it.
    pub(crate) fn was_offered(&self, job: JobId) -> bool {
        self.received.contains(&job)
    }

    /// Whether no more runs of other nodes are remembered.
    pub(crate) fn is_full(&self) -> bool {
        self.overdue.len() >= OVERDUE_MAX
    }

    /// Notes a run of another node that had no slot for it when it was due.
    pub(crate) fn add_overdue(&mut self, job: JobId, fire: Fire) {
        self.overdue.insert((job, fire), false);
    }

    /// The overdue runs of a job whose plan was not read since they were offered.
    pub(crate) fn unread_overdue(&self, job: JobId) -> impl Iterator<Item = &Fire> {
        let of_job =
            self.overdue.range((job, Fire::Due(Wall::MIN))..).take_while(move |((id, _), _)| *id == job);
        of_job.filter(|(_, read)| !**read).map(|((_, fire), _)| fire)
    }

    /// Whether other nodes had no slot for a run, and its plan was read since.
    pub(crate) fn is_overdue(&self, job: JobId, fire: &Fire) -> bool {
        self.overdue.get(&(job, fire.clone())) == Some(&true)
    }

    /// Notes that the plan of a job has to be read again before its overdue runs are settled.
    pub(crate) fn read_overdue_again(&mut self, job: JobId) {
        self.set_overdue_read(job, false);
    }

    fn set_overdue_read(&mut self, job: JobId, read: bool) {
        let of_job =
            self.overdue.range_mut((job, Fire::Due(Wall::MIN))..).take_while(|((id, _), _)| *id == job);
        of_job.for_each(|(_, known)| *known = read);
    }

    /// Forgets the overdue runs of a job whose plan was read since, except those of open fires.
    pub(crate) fn keep_overdue(&mut self, job: JobId, is_open: impl Fn(&Fire) -> bool) {
        self.overdue.retain(|(id, fire), read| *id != job || !*read || is_open(fire));
    }

    /// Reads the plan of a job again at this moment. Returns the earliest moment that was named, which stands.
    pub(crate) fn reread(&mut self, job: JobId, at: Wall) -> Wall {
        // Looking in the meantime defers nothing.
        let named = self.reread.entry(job).or_insert(at);
        *named = at.min(*named);
        *named
    }

    /// When the plan of a job is to be read again.
    pub(crate) fn reread_at(&self, job: JobId) -> Option<Wall> {
        self.reread.get(&job).copied()
    }

    /// Notes that the plan of a job was read since its runs were offered.
    pub(crate) fn was_read(&mut self, job: JobId) {
        self.received.remove(&job);
        self.set_overdue_read(job, true);
        self.reread.remove(&job);
    }

    /// Clears the state of a life that is over.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Shard;

    fn member(node: &str) -> Member {
        Member { node: node.parse().unwrap(), incarnation: 1 }
    }

    fn run(due: i64) -> RunId {
        RunId { job: "j".parse().unwrap(), fire: Fire::Due(Wall(due)), shard: Shard(0) }
    }

    #[test]
    fn an_offer_takes_only_the_answer_of_the_member_that_got_it_last() {
        let (mut offers, job, a, b) = (OfferedRuns::default(), JobId(1), member("a"), member("b"));
        let busy = OfferAnswer::Taken { busy: [run(1)].into() };
        offers.send(job, &run(1).fire, &a);
        assert!(!offers.answered(job, &run(1), &b, &busy) && !offers.answered(job, &run(2), &a, &busy));
        assert!(offers.answered(job, &run(1), &a, &busy) && !offers.answered(job, &run(1), &a, &busy));
        offers.send(job, &run(1).fire, &b);
        assert!(offers.answered(job, &run(1), &b, &OfferAnswer::Taken { busy: Vec::new() }));
        let sent = offers.sent(job, &run(1).fire).unwrap();
        assert_eq!((&sent.to, sent.state, sent.busy.as_slice()), (&b, OfferState::Taken, &[a][..]));
        offers.send(job, &run(2).fire, &b);
        let open = run(2).fire;
        offers.keep_sent(job, || [&open].into());
        assert!(offers.sent(job, &run(1).fire).is_none() && offers.sent(job, &open).is_some());
        offers.keep_sent(JobId(2), || panic!("that job has no offer"));
    }

    #[test]
    fn an_overdue_run_is_settled_only_after_its_plan_was_read() {
        let (mut offers, job) = (OfferedRuns::default(), JobId(1));
        offers.receive(job);
        offers.add_overdue(job, run(1).fire);
        assert_eq!((offers.reread(job, Wall(9)), offers.reread(job, Wall(5))), (Wall(9), Wall(5)));
        assert_eq!((offers.reread(job, Wall(7)), offers.reread_at(job)), (Wall(5), Some(Wall(5))));
        offers.keep_overdue(job, |_| false);
        assert_eq!(offers.unread_overdue(job).count(), 1);
        assert!(!offers.is_overdue(job, &run(1).fire));
        offers.was_read(job);
        assert!(offers.is_overdue(job, &run(1).fire) && !offers.was_offered(job));
        assert_eq!((offers.unread_overdue(job).count(), offers.reread_at(job)), (0, None));
        offers.read_overdue_again(job);
        assert_eq!(offers.unread_overdue(job).count(), 1);
        offers.was_read(job);
        offers.keep_overdue(job, |_| false);
        assert!(!offers.is_overdue(job, &run(1).fire));
        (0..OVERDUE_MAX as i64).for_each(|due| offers.add_overdue(job, run(due).fire));
        assert!(offers.is_full());
    }
}
