//! The lead of the cluster as this node last saw and reported it, and its own term as the leader.

use crate::ids::Member;
use crate::registry::Revision;
use crate::time::Mono;

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

/// The lead as far as this node has reported it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LeadershipState {
    /// The lead of this node, from when it was first seen.
    term: Option<LeaderTerm>,
    /// The leader that was last reported.
    reported: Option<(Option<Member>, u64)>,
    /// The leader whose end was last reported.
    lost: Option<Member>,
}

impl LeadershipState {
    /// Notes the leader, and the epoch of its lead. Returns whether it is another one than was last reported.
    pub(crate) fn note_leader(&mut self, leader: Option<&Member>, epoch: u64) -> bool {
        let led = (leader.cloned(), epoch);
        if self.reported.as_ref() == Some(&led) {
            return false;
        }
        self.reported = Some(led);
        true
    }

    /// Notes that the leader is no member any more. Returns whether that was not reported before.
    pub(crate) fn lose(&mut self, leader: &Member) -> bool {
        self.lost.replace(leader.clone()).as_ref() != Some(leader)
    }

    /// Begins the term of this node in this epoch. Returns whether it is a new one.
    pub(crate) fn begin_term(&mut self, epoch: u64, now: Mono) -> bool {
        if self.term.is_some_and(|term| term.epoch == epoch) {
            return false;
        }
        self.term = Some(LeaderTerm { epoch, since: now, loaded: false, serves: None });
        true
    }

    /// Notes that this node serves. Returns whether that is new.
    pub(crate) fn serve(&mut self, now: Mono) -> bool {
        let term = self.term.as_mut().filter(|term| term.serves.is_none());
        term.is_some_and(|term| {
            term.serves = Some(now);
            true
        })
    }

    /// Takes a listing of this revision: it counts if it was taken after the lead was won. Returns whether another one
    /// is needed.
    pub(crate) fn load(&mut self, revision: Revision, won: Revision) -> bool {
        let term = self.term.as_mut().filter(|term| !term.loaded);
        term.is_some_and(|term| {
            term.loaded = revision >= won;
            !term.loaded
        })
    }

    /// Ends the term of this node. Returns whether there was one.
    pub(crate) fn end_term(&mut self) -> bool {
        self.term.take().is_some()
    }

    /// The term of this node as the leader, if it leads.
    pub(crate) fn term(&self) -> Option<LeaderTerm> {
        self.term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_begins_and_serves_once_and_loads_what_was_there_when_it_was_won() {
        let mut lead = LeadershipState::default();
        assert!(!lead.serve(Mono(1)) && !lead.load(Revision(1), Revision(9)), "it does not lead");
        assert!(lead.begin_term(3, Mono(1)) && !lead.begin_term(3, Mono(2)));
        assert!(lead.load(Revision(8), Revision(9)), "that listing is too old");
        assert!(!lead.load(Revision(9), Revision(9)) && !lead.load(Revision(1), Revision(9)));
        assert!(lead.serve(Mono(4)) && !lead.serve(Mono(5)));
        let term = LeaderTerm { epoch: 3, since: Mono(1), loaded: true, serves: Some(Mono(4)) };
        assert_eq!(lead.term(), Some(term));
        assert!(lead.begin_term(4, Mono(6)) && lead.end_term() && !lead.end_term());
    }
}
