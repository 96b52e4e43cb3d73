//! Jobs under calendars, placed in every way, in a world without faults but those a test names.

use alloc::boxed::Box;

use super::*;
use crate::calendar::Calendar;
use crate::ids::{CalendarName, WrittenName};
use crate::job::Placement;
use crate::keys;
use crate::record::{CalendarRecord, CalendarSpec, encode};
use crate::registry::{Txn, Write};

const PLACEMENTS: [Placement; 3] = [Placement::Claimed, Placement::Sharded, Placement::Dispatched];

/// Closed between these seconds.
fn freeze(spans: &[(u8, u8)]) -> Calendar {
    let window =
        |(from, until): &(u8, u8)| alloc::format!("1970-01-01T00:00:{from:02}..1970-01-01T00:00:{until:02}");
    Calendar { windows: spans.iter().map(window).collect(), ..Calendar::new(name()) }
}

fn name() -> CalendarName {
    "freeze".parse().unwrap()
}

fn each_second(placement: Placement) -> JobFile {
    let mut job = job("j", "@every 1s");
    (job.placement, job.exclude_calendars) = (placement, [WrittenName::read_in("default", name())].into());
    job
}

impl TestCluster {
    fn close(&mut self, on: &str, spans: &[(u8, u8)]) -> ApplyResult {
        match self.send_command(on, Command::Calendar(Box::new(freeze(spans)))) {
            Answer::Calendar(_, applied) => applied,
            other => panic!("{other:?}"),
        }
    }

    fn run_until(&mut self, second: i64) {
        self.run(second * 1000 - self.now);
    }

    /// The seconds of all fires, each of which must have come once.
    fn seconds(&self) -> Vec<i64> {
        let mut dues: Vec<i64> = self.dues("j").into_iter().map(|due| due / 1000).collect();
        dues.sort_unstable();
        let all = dues.len();
        dues.dedup();
        assert_eq!(dues.len(), all, "each once");
        dues
    }

    fn write_calendar(&mut self, record: &CalendarRecord) {
        let write = Write::Put { key: keys::calendar(&name()), value: encode(record), owner: None };
        self.store.commit(Mono(self.now), &Txn { guards: Vec::new(), writes: [write].into() });
    }
}

#[test]
fn a_calendar_closes_jobs_and_no_change_of_it_fires_a_past_time() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run_until(2);
        let refused = world.send_command("a", Command::Apply([each_second(placement)].into()));
        let Answer::Refused(Refusal::Conflict, why) = refused else { panic!("{refused:?}") };
        assert!(why.contains("there is no calendar freeze: declare it first"), "{why}");
        assert_eq!(world.close("a", &[(10, 20)]), ApplyResult::Created);
        assert_eq!(world.close("b", &[(10, 20)]), ApplyResult::Unchanged);
        world.send_command("b", Command::Apply([each_second(placement)].into()));
        world.run_until(25);
        let found = world.seconds();
        let expected: Vec<i64> = (3..10).chain(20..=25).collect();
        assert!(found.iter().all(|s| expected.contains(s)), "{placement:?}: {found:?}");
        assert!((5..10).chain(20..25).all(|s| found.contains(&s)), "{placement:?}: {found:?}");

        assert_eq!(world.close("b", &[(27, 40)]), ApplyResult::Updated);
        world.run_until(33);
        assert_eq!(world.close("a", &[(35, 37)]), ApplyResult::Updated);
        world.run_until(42);
        let found: Vec<i64> = world.seconds().into_iter().filter(|s| *s >= 26).collect();
        assert!(
            found.iter().all(|s| [26, 34, 37, 38, 39, 40, 41, 42].contains(s)),
            "{placement:?}: {found:?}"
        );
        assert!([34, 37, 38, 39, 40].iter().all(|s| found.contains(s)), "{placement:?}: {found:?}");

        let refused = world.send_command("a", Command::DeleteCalendar(name()));
        let Answer::Refused(Refusal::Conflict, why) = refused else { panic!("{refused:?}") };
        assert!(why.contains("calendar freeze is named by j:"), "{why}");
        assert_eq!(world.send_command("a", Command::Delete("j".parse().unwrap())), Answer::Done);
        assert_eq!(world.send_command("b", Command::DeleteCalendar(name())), Answer::Done);
        let gone = world.send_command("b", Command::DeleteCalendar(name()));
        assert!(matches!(gone, Answer::Refused(Refusal::NotFound, _)), "{gone:?}");
        assert_eq!(world.close("a", &[]), ApplyResult::Created, "its version goes on");
    }
}

#[test]
fn whoever_has_not_heard_of_a_change_fires_nothing_by_the_old_calendar() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run_until(2);
        world.close("a", &[]);
        world.send_command("a", Command::Apply([each_second(placement)].into()));
        world.run_until(8);
        assert!(world.seconds().contains(&7), "{placement:?}: {:?}", world.seconds());
        // From here on the nodes receive nothing but answers.
        world.actors.values_mut().for_each(|actor| actor.watching = false);
        let changed = |version, spans: &[(u8, u8)], since| {
            let calendar = freeze(spans);
            CalendarRecord::Live(Box::new(CalendarSpec { calendar, version, since: Wall(since) }))
        };
        world.write_calendar(&changed(2, &[(12, 40)], 8_000));
        world.run_until(20);
        let found = world.seconds();
        assert!(found.contains(&11) && found.iter().all(|s| *s < 12), "{placement:?}: {found:?}");
    }
}

#[test]
fn without_its_calendar_a_job_has_no_schedule_until_it_is_there_again() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with(&["a"]);
        world.run_until(2);
        world.close("a", &[]);
        world.send_command("a", Command::Apply([each_second(placement)].into()));
        world.run_until(8);
        world.write_calendar(&CalendarRecord::Deleted { version: 2 });
        world.run_until(15);
        let node = &world.actors.values().next().unwrap().node;
        let declared = node.view().find(&"j".parse().unwrap()).and_then(|job| job.spec()).unwrap().job;
        assert_eq!(node.view().missing(&declared), [name()]);
        assert_eq!(node.view().schedule_of(&declared), None);
        assert_eq!(world.close("a", &[]), ApplyResult::Created);
        world.run_until(20);
        let found = world.seconds();
        assert!(!found.iter().any(|s| (10..16).contains(s)), "{placement:?}: {found:?}");
        assert!(found.contains(&7) && found.contains(&18), "{placement:?}: {found:?}");
    }
}
