//! The events to come in a world, by time and, at one time, in the order in which they were added.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::event::WorldEvent;

/// Events to come. They are large, so they stay in place, and only their times are sorted.
#[derive(Default)]
pub(super) struct EventQueue {
    order: BinaryHeap<Reverse<(i64, u64, usize)>>,
    events: Vec<Option<WorldEvent>>,
    free: Vec<usize>,
}

impl EventQueue {
    /// Adds an event at this time, under this number.
    pub(super) fn add(&mut self, at: i64, number: u64, event: WorldEvent) {
        let place = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[place] = Some(event);
        self.order.push(Reverse((at, number, place)));
    }

    /// Takes the first event, if its time is at most this.
    pub(super) fn take(&mut self, until: i64) -> Option<(i64, WorldEvent)> {
        let Reverse((at, _, place)) = *self.order.peek().filter(|first| first.0.0 <= until)?;
        self.order.pop();
        self.free.push(place);
        Some((at, self.events[place].take()?))
    }
}
