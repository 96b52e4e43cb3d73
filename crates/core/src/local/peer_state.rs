//! What a node knows of its peers at first hand: whom it could reach, who took what it offered, and its own part.

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
    /// What was measured of this host last.
    pub sample: HostLoad,
    /// The beat of the last step.
    pub beat: u64,
    /// How each living member was last reached.
    pub contacts: BTreeMap<Member, Contact>,
    /// Runs that this node planned for others, until they are accepted or gone.
    pub offers: BTreeMap<(JobId, Fire), SentOffer>,
    /// Jobs whose plans have to be read because somebody offered runs of them.
    pub offered: BTreeSet<JobId>,
    /// Runs of other nodes that had no slot for them when they were due: this node takes one that it has a slot for. Whether the
    /// plan was read since it was offered, or since there was no slot for it here either.
    pub overdue: BTreeMap<(JobId, Fire), bool>,
    /// Jobs whose plans have to be read again, and from when on: a run of somebody else's held one up.
    pub reread: BTreeMap<JobId, Wall>,
    /// Jobs that have runs to be planned, while there is nobody to give them to.
    pub unplaced: BTreeSet<JobId>,
    /// Jobs whose runs the planner spreads anew over the nodes, when it looks at their plans next.
    pub spread: BTreeSet<JobId>,
    /// When that is done for all jobs, because nodes or jobs came or went.
    pub spread_at: Option<Mono>,
    /// Where the runs go that are being planned, so that they count before the view shows them.
    pub placing: PlansInFlight,
    /// Whether the registry answered when it was last asked; `None` before the first answer.
    pub connected: Option<bool>,
    /// The lead of this node, from when it was first seen.
    pub leader_term: Option<LeaderTerm>,
    /// Who led, when that was last told.
    pub led: Option<(Option<Member>, u64)>,
    /// How many nodes there were, when that was last told.
    pub nodes: usize,
    /// Which lives of nodes there were then.
    pub members: BTreeSet<Member>,
    /// The leader whose end was told last.
    pub lost: Option<Member>,
}

/// The runs of plans that are under way: to whom each goes, when it begins and how long it is expected to take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PlansInFlight(BTreeMap<JobId, Vec<(Member, Wall, Millis)>>);

impl PlansInFlight {
    /// A plan is under way that gives a job's runs to these.
    pub fn begin(&mut self, job: JobId, runs: Vec<(Member, Wall, Millis)>) {
        self.0.insert(job, runs);
    }

    /// It is not under way any more.
    pub fn end(&mut self, job: JobId) {
        self.0.remove(&job);
    }

    /// The runs of all these plans.
    pub fn spans(&self) -> impl Iterator<Item = (&Member, Wall, Millis)> {
        self.0.values().flatten().map(|(member, begin, length)| (member, *begin, *length))
    }

    /// Whether no plan is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// How a member was last reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Contact {
    /// The beat in which this node first saw it. It may be about to answer only then, so a failure in it is no strike.
    pub since: u64,
    /// The beat in which it was asked last.
    pub beat: u64,
    /// Whether a probe is under way.
    pub asking: bool,
    /// Whether it could be reached then; `None` while that is not known.
    pub reachable: Option<bool>,
    /// The span in which it said that it serves, as far as it was asked: the epoch, first and last moment.
    pub serves: Option<(u64, Mono, Mono)>,
}

impl Contact {
    /// Whether it was never tried to be reached.
    #[must_use]
    pub fn is_new(&self) -> bool {
        !self.asking && self.reachable.is_none()
    }
}

/// An offer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SentOffer {
    /// To whom it was made last.
    pub to: Member,
    /// Whether it was answered, and how.
    pub state: OfferState,
    /// Those that had no slot for it.
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

    /// Whether everybody was asked: it queues where it is, however busy that node says it is.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.busy.iter().filter(|member| **member == self.to).count() > 1
    }
}

/// Where an offer stands.
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

/// The time of this node as the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaderTerm {
    /// Its epoch.
    pub epoch: u64,
    /// Since when, by our clock: what is waited for counts from here.
    pub since: Mono,
    /// Whether everything that there was when it was won has been read since (S4-34).
    pub loaded: bool,
    /// Since when it serves.
    pub serves: Option<Mono>,
}

impl PeerState {
    /// A probe was answered, or not. `asked` is when it was sent.
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

    /// A member could not be given an offer in this beat.
    pub fn unreachable(&mut self, member: &Member, beat: u64) {
        let contact = self.contacts.entry(member.clone()).or_default();
        *contact = Contact { beat, reachable: Some(false), ..*contact };
    }

    /// Whether a member could not be reached when it was last tried in this beat. A clock that is put back a little finds
    /// itself in an earlier one.
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

    /// Notes whether the plan of a job was read since its overdue runs were offered.
    pub fn set_overdue_read(&mut self, job: JobId, read: bool) {
        let of_job =
            self.overdue.range_mut((job, Fire::Due(Wall::MIN))..).take_while(|((id, _), _)| *id == job);
        of_job.for_each(|(_, known)| *known = read);
    }

    /// Nodes or jobs came or went, and more may follow at once.
    pub fn spread_soon(&mut self, now: Mono) {
        self.spread_at.get_or_insert(now + SPREAD_AFTER);
    }

    /// Whether anybody could not be reached when last tried.
    #[must_use]
    pub fn misses_any(&self) -> bool {
        self.contacts.values().any(|contact| contact.reachable == Some(false))
    }

    /// The clock was put right: the beats of the contacts say nothing any more, and all are tried anew.
    pub fn forget_beats(&mut self) {
        self.contacts.values_mut().for_each(|contact| (contact.since, contact.beat) = (0, 0));
    }

    /// The other members that there are in this beat: some are new, and some are gone.
    pub fn meet<'a>(&mut self, others: impl Iterator<Item = &'a Member>, beat: u64) {
        let mut known = core::mem::take(&mut self.contacts);
        let mut contact = |member: &Member| {
            known.remove(member).unwrap_or_else(|| Contact { since: beat, ..Contact::default() })
        };
        self.contacts = others.map(|member| (member.clone(), contact(member))).collect();
    }

    /// What belonged to a life that is over.
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
