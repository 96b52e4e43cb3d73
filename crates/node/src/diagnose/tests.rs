//! What the checks of `cluster doctor` find.

use super::*;
use evenkeel_core::job::{Job, JobFile, Spec, Work};
use evenkeel_core::record::{SpecRecord, encode};
use evenkeel_core::registry::{Entry, LeaseId, Revision};
use evenkeel_core::time::{Mono, Wall};

fn facts() -> EngineFacts {
    EngineFacts {
        engine: "sqlite",
        class: DurabilityClass::A,
        feed: FeedKind::Pushed,
        notice: Millis::ZERO,
        early: Millis::ZERO,
        ttl_min: Millis::secs(1),
        value_max: 1 << 20,
        operations_max: 128,
        bytes_max: 16 << 20,
        generation: 0,
    }
}

#[test]
fn a_weak_promise_is_wrong_unless_it_is_the_most_an_engine_gives() {
    for (engine, class, ok) in [
        ("sqlite", DurabilityClass::A, true),
        ("redis", DurabilityClass::B, true),
        ("redis", DurabilityClass::C, false),
        ("postgres", DurabilityClass::B, false),
        ("postgres", DurabilityClass::C, false),
        ("mysql", DurabilityClass::B, false),
        ("memory", DurabilityClass::C, false),
    ] {
        let finding = guarantee(&EngineFacts { engine, class, ..facts() });
        assert_eq!(finding.fix.is_none(), ok, "{engine} {class:?}");
    }
}

#[test]
fn an_engine_that_anybody_can_change_is_not_well() {
    let graded = |loopback, login, tls| {
        let found = access(Exposure { loopback, login, tls });
        (found.fix.is_some(), found.mild)
    };
    for tls in [false, true] {
        assert_eq!(graded(true, false, tls), (true, true), "it works, and is told of");
        assert_eq!(graded(false, false, tls), (true, false));
    }
    assert_eq!(graded(false, true, false), (true, false));
    assert_eq!(graded(false, true, true), (false, false));
    assert_eq!(graded(true, true, false), (false, false), "nobody is on the way");
}

#[test]
fn jobs_that_ask_for_more_than_there_is_are_told() {
    let spec = |name: &str, guarantee| {
        let job = JobFile::new(name.parse().unwrap(), "", Work::Command(vec!["true".into()]));
        let job = Job::parse(JobFile { min_durability: guarantee, ..job }).unwrap();
        let spec = Spec::new(job, 1, Wall(0));
        let record = SpecRecord::Live(Box::new(spec));
        let entry = Entry { value: encode(&record), revision: Revision(1), born: Revision(1), owner: None };
        Change { key: keys::spec(&name.parse().unwrap()), entry: Some(entry), revision: Revision(1) }
    };
    let entries =
        [spec("any", None), spec("b", Some(DurabilityClass::B)), spec("pay", Some(DurabilityClass::A))];
    assert_eq!(asks_for_more(&entries, DurabilityClass::A), None);
    let found = asks_for_more(&entries, DurabilityClass::B).unwrap();
    assert_eq!(found.found, "1 ask for a better guarantee than class B, pay for one");
    assert!(asks_for_more(&entries, DurabilityClass::C).unwrap().found.starts_with("2 ask"));
}

#[test]
fn limits_that_are_too_narrow_are_wrong() {
    assert!(limits(&facts()).iter().all(|it| it.fix.is_none()));
    for narrow in [
        EngineFacts { value_max: 1 << 10, ..facts() },
        EngineFacts { operations_max: 8, ..facts() },
        EngineFacts { ttl_min: Millis::secs(60), ..facts() },
    ] {
        assert_eq!(limits(&narrow).iter().filter(|it| it.fix.is_some()).count(), 1, "{narrow:?}");
    }
}

#[test]
fn the_time_under_way_is_not_held_against_a_clock() {
    let now = |wall| Now { mono: Mono(wall), wall: Wall(wall) };
    let granted = |clock: Option<i64>| LeaseGrant {
        lease: LeaseId(1),
        ttl: TTL,
        clock: clock.map(Wall),
        next_end: None,
    };
    for (theirs, ok) in [
        (Some(10_000), true),
        (Some(13_000), true),
        (Some(8_900), false),
        (Some(14_100), false),
        (None, true),
    ] {
        assert_eq!(difference(now(10_000), &granted(theirs), now(13_000)).fix.is_none(), ok, "{theirs:?}");
    }
}

#[test]
fn a_slow_round_trip_is_wrong() {
    let times =
        |worst| vec![Duration::from_millis(1), Duration::from_millis(worst), Duration::from_millis(2)];
    assert!(trip("reading", times(900), "").fix.is_none());
    assert!(trip("reading", times(1_100), "").fix.is_some());
}
