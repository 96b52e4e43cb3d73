//! The events that this node announced and that still hold.

use alloc::vec::Vec;

use crate::effect::Event;
use crate::labels::NodeSelector;

/// The events that were announced and still hold, so that each is announced once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AnnouncedEvents(Vec<Event>);

impl AnnouncedEvents {
    /// Notes that an event is announced.
    pub(crate) fn add(&mut self, event: Event) {
        self.0.push(event);
    }

    /// Whether an event was announced and still holds. A clock that differs is announced once, by however much.
    pub(crate) fn contains(&self, event: &Event) -> bool {
        let same = |announced: &Event| match (announced, event) {
            (Event::ClockDiffers(_), Event::ClockDiffers(_)) => true,
            _ => announced == event,
        };
        self.0.iter().any(same)
    }

    /// Forgets the selectors of unschedulable jobs for which this does not hold any more.
    pub(crate) fn keep_unschedulable(&mut self, holds: impl Fn(&NodeSelector) -> bool) {
        self.0.retain(|event| match event {
            Event::Unschedulable(selector) => holds(selector),
            _ => true,
        });
    }

    /// Forgets that the clock differs.
    pub(crate) fn clock_agrees(&mut self) {
        self.0.retain(|event| !matches!(event, Event::ClockDiffers(_)));
    }

    /// Forgets the events about the cluster that an earlier life announced.
    pub(crate) fn forget_life(&mut self) {
        self.0.retain(|event| matches!(event, Event::Unschedulable(_)));
    }
}
