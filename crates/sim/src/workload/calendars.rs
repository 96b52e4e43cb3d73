//! Calendars and the jobs that use them. They have a random stream of their own, so that worlds without
//! any do not change.

use evenkeel_core::calendar::Calendar;
use evenkeel_core::ids::{CalendarName, DEFAULT_NAMESPACE, WrittenName};
use evenkeel_core::time::Millis;

use super::{Workload, name};
use crate::random::SimRandom;
use crate::world::clock::START;

/// How many worlds in a thousand have calendars.
const SHARE: u32 = 300;
/// The end of the times that are closed and opened, in seconds of the world.
const SPAN: i64 = 150;
/// The maximum length of such a time.
const CLOSED: i64 = 15;

impl Workload {
    /// Adds calendars, and lets jobs use them, in some seeds.
    pub(super) fn add_calendars(&mut self, seed: u64) {
        let random = &mut SimRandom::new(seed, "calendars of a swarm");
        if !random.chance(SHARE) {
            return;
        }
        for n in 0..=usize::from(random.chance(500)) {
            let name = name("c", n).parse().expect("a letter and a digit are a name");
            self.calendars.push(calendar(&name, random));
        }
        let names: Vec<CalendarName> = self.calendars.iter().map(|calendar| calendar.name.clone()).collect();
        for job in self.jobs.iter_mut().filter(|job| !job.schedule.is_empty()) {
            let except = random.chance(800);
            let list = if except { &mut job.exclude_calendars } else { &mut job.require_calendars };
            let named = random.pick(&names).filter(|_| random.chance(500)).cloned();
            list.extend(named.map(|name| WrittenName::read_in(DEFAULT_NAMESPACE, name)));
        }
    }
}

/// A calendar as operators declare it: some times of the world, or none.
pub(crate) fn calendar(name: &CalendarName, random: &mut SimRandom) -> Calendar {
    let moment = |second: i64| {
        let text = (START + Millis::secs(second)).to_string();
        // Without its fraction and its offset it is a local time of a job in UTC.
        text.get(..19).unwrap_or_default().to_owned()
    };
    let windows = (0..random.below(6)).map(|_| {
        let from = random.between(0, SPAN);
        format!("{}..{}", moment(from), moment(from + random.between(1, CLOSED)))
    });
    Calendar { windows: windows.collect(), ..Calendar::new(name.clone()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_operators_declare_makes_sense() {
        for seed in 0..200 {
            let calendar = calendar(&"c".parse().expect("a name"), &mut SimRandom::new(seed, "test"));
            assert_eq!(calendar.read().map(|_| ()), Ok(()));
        }
    }
}
