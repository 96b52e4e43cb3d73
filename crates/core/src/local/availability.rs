//! The availability of this node: whether it can do its work, wants to end, or is about to be handed off.

use crate::registry::Revision;
use crate::time::{Millis, Mono};

/// Whether this node does its work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Availability {
    /// Since when the node cannot do its work; `None` while it can (law 7).
    unable: Option<Mono>,
    /// Whether it hands over in order to end.
    leaving: bool,
    /// Whether everything was handed over: the node asks for nothing more.
    departed: bool,
    /// Whether it begins nothing new, because it is about to be handed off.
    resting: bool,
    /// Whether the node gave up its jobs when its owned jobs were last looked at.
    gave_up: bool,
    /// The intent to drain this node, as it stood when its owned jobs were last looked at.
    drain: Option<Revision>,
}

impl Availability {
    /// Notes that the node can do its work.
    pub(crate) fn become_able(&mut self) {
        self.unable = None;
    }

    /// Notes that the node cannot do its work, from now on or from when that was first noted.
    pub(crate) fn become_unable(&mut self, now: Mono) {
        self.unable.get_or_insert(now);
    }

    /// Begins to hand over in order to end.
    pub(crate) fn leave(&mut self) {
        self.leaving = true;
    }

    /// Notes that everything was handed over.
    pub(crate) fn depart(&mut self) {
        self.departed = true;
    }

    /// Notes whether the node begins nothing new.
    pub(crate) fn set_resting(&mut self, resting: bool) {
        self.resting = resting;
    }

    /// Notes whether the node gives up its jobs. Returns whether that is new.
    pub(crate) fn note_gives_up(&mut self, gives_up: bool) -> bool {
        core::mem::replace(&mut self.gave_up, gives_up) != gives_up
    }

    /// Notes the intent to drain this node. Returns whether it is another one.
    pub(crate) fn note_drain(&mut self, drain: Option<Revision>) -> bool {
        core::mem::replace(&mut self.drain, drain) != drain
    }

    /// Whether the node can do its work.
    pub(crate) fn is_able(&self) -> bool {
        self.unable.is_none()
    }

    /// When a node that cannot do its work gives up what it has: after two terms of its lease.
    pub(crate) fn gives_up_at(&self, ttl: Millis) -> Option<Mono> {
        self.unable.map(|since| since + Millis(ttl.0 * 2 + 1))
    }

    /// Whether the node should give up what it can: it leaves, or has been unable to work for two terms of its lease.
    pub(crate) fn gives_up(&self, ttl: Millis, now: Mono) -> bool {
        self.leaving || self.gives_up_at(ttl).is_some_and(|at| at <= now)
    }

    /// Whether the node hands over in order to end.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Whether everything was handed over.
    #[must_use]
    pub fn has_departed(&self) -> bool {
        self.departed
    }

    /// Whether the node begins nothing new.
    pub(crate) fn is_resting(&self) -> bool {
        self.resting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_cannot_work_gives_up_after_two_terms_of_its_lease() {
        let (ttl, mut node) = (Millis(100), Availability::default());
        node.become_unable(Mono(10));
        node.become_unable(Mono(50));
        assert_eq!(node.gives_up_at(ttl), Some(Mono(211)), "counted from when it was first noted");
        assert!(!node.gives_up(ttl, Mono(210)) && node.gives_up(ttl, Mono(211)));
        node.become_able();
        assert!(!node.gives_up(ttl, Mono(211)) && node.is_able());
        node.leave();
        assert!(node.gives_up(ttl, Mono(0)) && node.note_gives_up(true) && !node.note_gives_up(true));
    }
}
