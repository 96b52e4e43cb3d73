//! How long before its due moment a fire is claimed.

use super::*;

/// When each fire of a job that fires at each full second was claimed, in milliseconds before it was due.
fn claimed_ahead(world: &mut TestCluster, seconds: i64) -> Vec<i64> {
    let (key, mut ahead, mut seen) = (crate::keys::run_state(&"j".parse().unwrap()), Vec::new(), 0);
    for _ in 0..seconds * 1_000 {
        world.run(0);
        let Some(state) = world.store.entry(&key) else { continue };
        let state: crate::record::RunState = crate::record::decode(&state.value).unwrap();
        let claimed = state.watermark.0;
        if claimed > seen && claimed >= world.now {
            ahead.push(claimed - (world.now - 1) + world.delay);
        }
        seen = claimed;
    }
    ahead
}

/// A node with a job each second, as they are in production: the lead follows the commits.
fn world() -> TestCluster {
    let mut world = TestCluster::default();
    world.add(Settings { lead_min: Millis(50), ..settings("a") });
    world.send_command("a", Command::Apply([job("j", "@every 1s")].into()));
    world
}

#[test]
fn on_a_quick_registry_a_crash_puts_a_twentieth_of_a_second_in_doubt() {
    let mut world = world();
    assert_eq!(claimed_ahead(&mut world, 10), [50; 10]);
    assert_eq!(world.started.iter().map(|at| at % 1_000).max(), Some(0), "{:?}", world.started);
}

#[test]
fn on_a_slow_registry_fires_are_claimed_earlier_and_start_in_time() {
    let mut world = world();
    claimed_ahead(&mut world, 2);
    world.delay = 100;
    let ahead = claimed_ahead(&mut world, 20);
    assert!(ahead.len() >= 18 && ahead.iter().all(|ahead| *ahead == 440), "{ahead:?}");
    let late: Vec<i64> = world.started.iter().map(|at| at % 1_000).filter(|late| *late > 0).collect();
    assert!(late.len() <= 2, "only before it was known that commits take longer: {late:?}");
    world.delay = 1;
    // Those of the slow minute count no more.
    claimed_ahead(&mut world, 300);
    assert_eq!(claimed_ahead(&mut world, 3), [50; 3]);
}

#[test]
fn a_fire_that_waits_is_claimed_by_the_lead_of_its_moment() {
    let mut world = world();
    world.send_command("a", Command::Apply([job("j", "@every 30s"), job("other", "@every 1s")].into()));
    claimed_ahead(&mut world, 5);
    // The fire was to be claimed 50 ms ahead when its moment was computed; meanwhile commits take longer.
    world.delay = 100;
    assert_eq!(claimed_ahead(&mut world, 30), [440]);
}
