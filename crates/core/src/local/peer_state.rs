//! The peers of a node as it observed them: which it could reach, which took its offers; and its own lead.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::ids::{Fire, Member};
use crate::input::ProbeReply;
use crate::load::HostLoad;
use crate::time::{Millis, Mono, Wall};
use crate::view::JobId;

/// How long after nodes or jobs came or went the runs of all jobs are spread anew.
const SPREAD_AFTER: Millis = Millis(500);

/// A node's own experience with its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PeerState {
    /// The last measured load of this host.
    pub sample: HostLoad,
    /// The beat of the last step.
    pub beat: u64,
    /// How each living member was last reached.
    pub contacts: BTreeMap<Member, Contact>,
    /// Runs that this node planned for other members, until they are accepted or gone.
    pub offers: BTreeMap<(JobId, Fire), SentOffer>,
    /// Jobs whose plans have to be read because another node offered runs of them.
    pub offered: BTreeSet<JobId>,
    /// Runs of other nodes that had no slot for them when they were due: this node takes one that it has a slot for.
    /// The flag says whether the plan was read since the offer, or since there was no slot here either.
    pub overdue: BTreeMap<(JobId, Fire), bool>,
    /// Jobs whose plans have to be read again, and from when on: another member's run held one up.
    pub reread: BTreeMap<JobId, Wall>,
    /// Jobs with runs to be planned that no node can take.
    pub unplaced: BTreeSet<JobId>,
    /// Jobs whose runs the planner spreads anew over the nodes, when it looks at their plans next.
    pub spread: BTreeSet<JobId>,
    /// When that is done for all jobs, because nodes or jobs came or went.
    pub spread_at: Option<Mono>,
    /// The runs being planned, by node, so that they count before the view shows them.
    pub placing: PlansInFlight,
    /// Whether the registry answered when it was last asked; `None` before the first answer.
    pub connected: Option<bool>,
    /// The lead of this node, from when it was first seen.
    pub leader_term: Option<LeaderTerm>,
    /// The leader that was last reported.
    pub led: Option<(Option<Member>, u64)>,
    /// The number of nodes that was last reported.
    pub nodes: usize,
    /// The lives of nodes at that report.
    pub members: BTreeSet<Member>,
    /// The leader whose end was last reported.
    pub lost: Option<Member>,
}

/// The runs of plans in flight: the node of each, when it begins and how long it is expected to take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlansInFlight(BTreeMap<JobId, Vec<(Member, Wall, Millis)>>);

impl PlansInFlight {
    /// Adds a plan in flight that gives a job's runs to these nodes.
    pub fn begin(&mut self, job: JobId, runs: Vec<(Member, Wall, Millis)>) {
        self.0.insert(job, runs);
    }

    /// Removes a plan that is not in flight any more.
    pub fn end(&mut self, job: JobId) {
        self.0.remove(&job);
    }

    /// The runs of all these plans.
    pub fn spans(&self) -> impl Iterator<Item = (&Member, Wall, Millis)> {
        self.0.values().flatten().map(|(member, begin, length)| (member, *begin, *length))
    }

    /// Whether no plan is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The last contact with a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Contact {
    /// The beat in which this node first saw it. Its server may start only then, so no failure in it is a strike.
    pub since: u64,
    /// The beat in which it was probed last.
    pub beat: u64,
    /// Whether a probe is in flight.
    pub asking: bool,
    /// Whether it could be reached then; `None` while that is not known.
    pub reachable: Option<bool>,
    /// The span in which it replied that it serves, as far as it was probed: the epoch, first and last moment.
    pub serves: Option<(u64, Mono, Mono)>,
}

impl Contact {
    /// Whether it was never probed nor offered anything.
    #[must_use]
    pub fn is_new(&self) -> bool {
        !self.asking && self.reachable.is_none()
    }
}

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

/// The term of this node as the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaderTerm {
    /// Its epoch.
    pub epoch: u64,
    /// Since when, by our clock: the wait before serving counts from here.
    pub since: Mono,
    /// Whether all entries that existed when the lead was won have been read since (S4-34).
    pub loaded: bool,
    /// Since when it serves.
    pub serves: Option<Mono>,
}

impl PeerState {
    /// Notes that the plan of a job was read.
    pub(crate) fn was_read(&mut self, job: JobId) {
        self.offered.remove(&job);
        self.overdue_was_read(job);
        self.reread.remove(&job);
    }

    /// Takes the result of a probe. `asked` is when it was sent.
    pub fn probed(&mut self, member: &Member, asked: Mono, now: Mono, answer: Option<ProbeReply>) {
        let Some(contact) = self.contacts.get_mut(member) else { return };
        contact.asking = false;
        contact.reachable = Some(answer.is_some());
        let serves = answer.and_then(|role| role.serves);
        contact.serves = serves.map(|epoch| match contact.serves {
            Some((known, since, _)) if known == epoch => (epoch, since, now),
            _ => (epoch, asked, now),
        });
    }

    /// Notes that a member could not be given an offer in this beat.
    pub fn unreachable(&mut self, member: &Member, beat: u64) {
        let contact = self.contacts.entry(member.clone()).or_default();
        *contact = Contact { beat, reachable: Some(false), ..*contact };
    }

    /// Whether a member could not be reached when it was last tried in this beat. A clock that is put back a little is
    /// in an earlier beat.
    #[must_use]
    pub fn is_unreachable(&self, member: &Member, beat: u64) -> bool {
        self.contacts.get(member).is_some_and(|c| c.beat >= beat && c.reachable == Some(false))
    }

    /// The runs of a job that other nodes had no slot for, and whether its plan was read since.
    pub fn overdue_of(&self, job: JobId) -> impl Iterator<Item = (&Fire, bool)> {
        let of_job =
            self.overdue.range((job, Fire::Due(Wall::MIN))..).take_while(move |((id, _), _)| *id == job);
        of_job.map(|((_, fire), read)| (fire, *read))
    }

    /// Notes that the plan of a job was read since its overdue runs were offered.
    pub fn overdue_was_read(&mut self, job: JobId) {
        self.set_overdue_read(job, true);
    }

    /// Notes that the plan of a job has to be read again before its overdue runs are settled.
    pub fn read_overdue_again(&mut self, job: JobId) {
        self.set_overdue_read(job, false);
    }

    fn set_overdue_read(&mut self, job: JobId, read: bool) {
        let of_job =
            self.overdue.range_mut((job, Fire::Due(Wall::MIN))..).take_while(|((id, _), _)| *id == job);
        of_job.for_each(|(_, known)| *known = read);
    }

    /// Schedules a new spread of all runs: nodes or jobs came or went, and more may follow at once.
    pub fn spread_soon(&mut self, now: Mono) {
        self.spread_at.get_or_insert(now + SPREAD_AFTER);
    }

    /// Whether some member could not be reached when last tried.
    #[must_use]
    pub fn misses_any(&self) -> bool {
        self.contacts.values().any(|contact| contact.reachable == Some(false))
    }

    /// Forgets the contacts: the clock was corrected, so their beats mean nothing any more, and all are tried anew.
    pub fn forget_beats(&mut self) {
        self.contacts.values_mut().for_each(|contact| (contact.since, contact.beat) = (0, 0));
    }

    /// Takes the other members of this beat: some are new, and some are gone.
    pub fn meet<'a>(&mut self, others: impl Iterator<Item = &'a Member>, beat: u64) {
        let mut known = core::mem::take(&mut self.contacts);
        let mut contact = |member: &Member| {
            known.remove(member).unwrap_or_else(|| Contact { since: beat, ..Contact::default() })
        };
        self.contacts = others.map(|member| (member.clone(), contact(member))).collect();
    }

    /// Clears the state of a life that is over.
    pub fn end_life(&mut self) {
        self.contacts.clear();
        self.offers.clear();
        self.offered.clear();
        self.overdue.clear();
        self.spread.clear();
        self.spread_at = None;
        self.reread.clear();
        self.unplaced.clear();
        self.placing = PlansInFlight::default();
        self.leader_term = None;
    }
}
