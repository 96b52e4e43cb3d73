//! The peers of a node as it observed them: who they are, and which of them it could reach.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::ids::Member;
use crate::input::ProbeReply;
use crate::time::Mono;

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

/// A node's own experience with its peers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PeerContacts {
    /// How each living member was last reached.
    contacts: BTreeMap<Member, Contact>,
    /// The beat of the last step.
    beat: u64,
    /// Whether the registry answered when it was last asked; `None` before the first answer.
    connected: Option<bool>,
    /// The number of nodes that was last reported.
    reported_nodes: usize,
    /// The lives of nodes at that report.
    members: BTreeSet<Member>,
}

impl PeerContacts {
    /// Notes that a member is probed in this beat.
    pub(crate) fn probe(&mut self, member: &Member, beat: u64) {
        let contact = self.contacts.entry(member.clone()).or_default();
        *contact = Contact { beat, asking: true, reachable: None, ..*contact };
    }

    /// Takes the result of a probe. `asked` is when it was sent.
    pub(crate) fn probed(&mut self, member: &Member, asked: Mono, now: Mono, answer: Option<ProbeReply>) {
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
    pub(crate) fn unreachable(&mut self, member: &Member, beat: u64) {
        let contact = self.contacts.entry(member.clone()).or_default();
        *contact = Contact { beat, reachable: Some(false), ..*contact };
    }

    /// Takes the other members of this beat: some are new, and some are gone.
    pub(crate) fn meet<'a>(&mut self, others: impl Iterator<Item = &'a Member>, beat: u64) {
        let mut known = core::mem::take(&mut self.contacts);
        let mut contact = |member: &Member| {
            known.remove(member).unwrap_or_else(|| Contact { since: beat, ..Contact::default() })
        };
        self.contacts = others.map(|member| (member.clone(), contact(member))).collect();
    }

    /// The last contact with a member.
    pub(crate) fn get(&self, member: &Member) -> Option<&Contact> {
        self.contacts.get(member)
    }

    /// Whether a member could not be reached when it was last tried in this beat. A clock that is put back a little is
    /// in an earlier beat.
    #[must_use]
    pub fn is_unreachable(&self, member: &Member, beat: u64) -> bool {
        self.contacts.get(member).is_some_and(|c| c.beat >= beat && c.reachable == Some(false))
    }

    /// Whether a member could not be reached when it was last tried.
    pub(crate) fn misses(&self, member: &Member) -> bool {
        self.contacts.get(member).is_some_and(|contact| contact.reachable == Some(false))
    }

    /// Notes the beat of this step. Returns whether another one began since some member could not be reached.
    pub(crate) fn note_beat(&mut self, beat: u64) -> bool {
        core::mem::replace(&mut self.beat, beat) != beat
            && self.contacts.values().any(|contact| contact.reachable == Some(false))
    }

    /// Forgets the contacts: the clock was corrected, so their beats mean nothing any more, and all are tried anew.
    pub(crate) fn forget_beats(&mut self) {
        self.contacts.values_mut().for_each(|contact| (contact.since, contact.beat) = (0, 0));
    }

    /// Notes whether the registry answers. Returns whether that is new.
    pub(crate) fn note_connected(&mut self, answers: bool) -> bool {
        self.connected.replace(answers) != Some(answers)
    }

    /// Notes the lives of nodes. Returns those that were known before.
    pub(crate) fn note_members(&mut self, members: BTreeSet<Member>) -> BTreeSet<Member> {
        core::mem::replace(&mut self.members, members)
    }

    /// Notes the number of nodes. Returns whether it is another one.
    pub(crate) fn note_nodes(&mut self, nodes: usize) -> bool {
        core::mem::replace(&mut self.reported_nodes, nodes) != nodes
    }

    /// Forgets the contacts of a life that is over.
    pub(crate) fn end_life(&mut self) {
        self.contacts.clear();
    }
}
