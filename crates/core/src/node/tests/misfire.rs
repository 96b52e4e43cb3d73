//! Fires that are caught up after an outage.

use super::*;
use crate::job::Placement;

/// Six jobs of every placement, each due every minute and caught up in one of twenty seconds.
fn jobs() -> Vec<JobFile> {
    let placements = [Placement::Claimed, Placement::Sharded, Placement::Dispatched];
    let job = |(n, placement): (usize, Placement)| {
        let mut job = job(&alloc::format!("j{n}"), "@every 60s");
        (job.placement, job.misfire_grace) = (placement, Some(2));
        (job.catch_up_window, job.catch_up_spread) = ("5m".to_string(), "20s".to_string());
        job
    };
    placements.into_iter().cycle().take(6).enumerate().map(job).collect()
}

/// proves: I16, I23
#[test]
fn after_an_outage_each_job_is_made_up_in_its_own_turn() {
    let mut world = TestCluster::with(&["a"]);
    world.send_command("a", Command::Apply(jobs()));
    world.run(3_000);
    world.actors.clear();
    world.now = 130_000;
    world.add(settings("b"));
    let mut began: BTreeMap<String, i64> = BTreeMap::new();
    while world.now < 178_000 {
        world.run(100);
        for (_, run) in world.starts.drain(..) {
            assert_eq!(run.due, Wall(120_000), "only the latest is made up");
            assert_eq!(began.insert(run.id.job.to_string(), world.now), None, "{} ran twice", run.id);
        }
    }
    for job in jobs() {
        let parsed = Job::parse(job.clone()).unwrap();
        let policy = parsed.misfire_settings().policy(Millis(4_000));
        let schedule = parsed.schedule().unwrap().unwrap();
        let at = began[&job.name.to_string()];
        let turn = policy.spread_start(&schedule, Wall(120_000), Wall(130_000)).0;
        assert!((at - turn).rem_euclid(20_000) <= 200, "{} began at {at}, its turn is {turn}", job.name);
    }
    assert!(began.values().collect::<BTreeSet<_>>().len() >= 4, "they are spread: {began:?}");
    world.run(5_000);
    let dues: BTreeSet<i64> = world.starts.iter().map(|(_, run)| run.due.0).collect();
    assert_eq!((world.starts.len(), dues), (6, [180_000].into()), "what is due goes on in time");
}

/// proves: I23
#[test]
fn what_is_older_than_its_age_is_not_made_up() {
    let mut world = TestCluster::with(&["a"]);
    let aged = |mut job: JobFile| {
        job.catch_up_window = "5s".to_string();
        job
    };
    world.send_command("a", Command::Apply(jobs().into_iter().map(aged).collect()));
    world.run(3_000);
    world.actors.clear();
    world.now = 130_000;
    world.add(settings("b"));
    world.run(45_000);
    assert_eq!(world.starts, [], "120 s is more than five seconds ago");
    world.run(10_000);
    assert_eq!(world.starts.len(), 6);
}
