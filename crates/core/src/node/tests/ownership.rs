//! Which node owns a job: spread, takeover from a dead node, drain, leave and restart.

use super::*;

/// proves: S1-02, S1-04, S1-31, I34
#[test]
fn jobs_are_spread_evenly_and_eased_over_to_a_newcomer() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.send_command(
        "a",
        Command::Apply((0..12).map(|i| job(&alloc::format!("j{i}"), "@every 60s")).collect()),
    );
    world.run(2_000);
    assert_eq!((world.held("a"), world.held("b")), (6, 6));
    assert_eq!((world.quota("a"), world.quota("b")), (13, 13));
    world.add(settings("c"));
    world.run(20_000);
    assert_eq!((world.held("a"), world.held("b"), world.held("c")), (4, 4, 4));
    assert_eq!((world.quota("a"), world.quota("b"), world.quota("c")), (7, 7, 7));
}

/// proves: S1-70
#[test]
fn first_come_leaves_jobs_where_they_are_until_the_cluster_is_set_back_to_even() {
    let mut world = TestCluster::with(&["a"]);
    world.run(1_500);
    world.send_command("a", Command::Configure(ClusterSetting::Spread(Spread::FirstCome)));
    world.send_command(
        "a",
        Command::Apply((0..6).map(|n| job(&alloc::format!("j{n}"), "@every 60s")).collect()),
    );
    world.run(5_000);
    world.add(settings("b"));
    world.run(30_000);
    assert_eq!((world.held("a"), world.held("b")), (6, 0));
    world.send_command("b", Command::Configure(ClusterSetting::Spread(Spread::Even)));
    world.run(30_000);
    assert_eq!((world.held("a"), world.held("b")), (3, 3));
}

/// proves: S1-01, S1-03, S1-32, S1-75, I37
#[test]
fn the_jobs_of_a_dead_node_are_taken_over_within_its_lease_and_a_second() {
    let names = ["a", "b", "c"];
    for dead in names {
        let mut world = TestCluster::with(&names);
        world.send_command(
            "a",
            Command::Apply((0..30).map(|i| job(&alloc::format!("j{i}"), "@every 1s")).collect()),
        );
        world.run(3_000);
        let runs_on = |node| world.starts.iter().any(|(on, _)| on == node);
        assert!(names.into_iter().all(runs_on), "all three run some of them");
        world.actors.remove(&dead.parse().unwrap());
        world.run(5_100);
        let rest = names.into_iter().filter(|name| *name != dead);
        assert_eq!(rest.map(|name| world.held(name)).sum::<usize>(), 30, "without {dead}");
        world.run(5_000);
        for i in 0..30 {
            let name = alloc::format!("j{i}");
            let dues = world.dues(&name);
            let all: Vec<i64> = (1..=13).map(|s| s * 1000).collect();
            let lost = all.iter().filter(|d| !dues.contains(d)).count();
            assert!(lost <= 1 && dues.len() == 13 - lost, "without {dead}: {name}: {dues:?}");
        }
    }
}

/// proves: S1-33, S1-39, S1-60, S1-61, I38, I39
#[test]
fn a_drained_node_ends_its_runs_and_gives_everything_back() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.takes = 300;
    world.send_command(
        "a",
        Command::Apply((0..10).map(|i| job(&alloc::format!("j{i}"), "@every 1s")).collect()),
    );
    world.run(3_000);
    assert_eq!(world.send_command("a", Command::Drain("b".parse().unwrap())), Answer::Done);
    assert_eq!((world.held("b"), world.stops.len()), (5, 0), "its runs go on");
    world.run(1_000);
    assert_eq!((world.held("a"), world.held("b")), (10, 0));
    world.starts.clear();
    world.run(3_000);
    assert!(world.starts.iter().all(|(node, _)| node == "a") && world.starts.len() == 30);
    assert_eq!(world.send_command("a", Command::Undrain("b".parse().unwrap())), Answer::Done);
    world.run(20_000);
    assert_eq!((world.held("a"), world.held("b")), (5, 5));
}

/// proves: S1-11, S1-16, S1-33
#[test]
fn leaving_hands_everything_over_at_once() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.takes = 400;
    world.send_command(
        "a",
        Command::Apply((0..10).map(|i| job(&alloc::format!("j{i}"), "@every 1s")).collect()),
    );
    world.run(3_200);
    world.answers.clear();
    world.give(&"b".parse().unwrap(), Input::Asked(CommandId(9), Command::Leave));
    assert_eq!(world.counts("a"), (10, 2));
    world.run(1_500);
    assert_eq!(world.answers, [Answer::Done]);
    assert_eq!((world.held("a"), world.held("b")), (10, 0));
    assert_eq!(world.counts("a"), (10, 1));
    world.run(5_000);
    for i in 0..10 {
        let dues = world.dues(&alloc::format!("j{i}"));
        assert_eq!(dues, (1..=9).map(|s| s * 1000).collect::<Vec<_>>());
    }
}

/// proves: S1-33, I38
#[test]
fn a_long_run_of_a_node_that_leaves_keeps_no_other_job_waiting() {
    let mut world = TestCluster::with(&["a"]);
    world.takes = 60_000;
    world.send_command("a", Command::Apply([job("long", "@every 600s")].into()));
    world.send_command("a", Command::RunNow("long".parse().unwrap(), "once".parse().unwrap()));
    assert_eq!(world.starts.len(), 1);
    world.takes = 100;
    let others = (0..5).map(|i| job(&alloc::format!("j{i}"), "@every 1s"));
    world.send_command("a", Command::Apply(others.collect()));
    world.run(2_000);
    world.add(settings("b"));
    world.run(100);
    world.starts.clear();
    world.answers.clear();
    let left = world.now;
    world.give(&"a".parse().unwrap(), Input::Asked(CommandId(9), Command::Leave));
    world.run(5_000);
    assert!(world.answers.is_empty() && world.held("a") == 1, "its run goes on");
    assert!(world.starts.iter().all(|(node, _)| node == "b"), "{:?}", world.starts);
    for i in 0..5 {
        let dues = world.dues(&alloc::format!("j{i}"));
        assert_eq!(dues, (1..=5).map(|s| (left / 1_000 + s) * 1_000).collect::<Vec<_>>(), "j{i}");
    }
    world.run(60_000);
    assert_eq!((world.answers.clone(), world.held("a")), ([Answer::Done].into(), 0));
}

/// proves: S1-41, S1-75, I37
#[test]
fn a_node_that_starts_again_takes_thousands_of_jobs_back() {
    let mut world = TestCluster::with(&["a"]);
    world.send_command(
        "a",
        Command::Apply((0..2_500).map(|i| job(&alloc::format!("j{i}"), "@every 3600s")).collect()),
    );
    world.run(2_000);
    assert_eq!(world.held("a"), 2_500);
    let name: NodeName = "a".parse().unwrap();
    let predecessor = world.actors.remove(&name).and_then(|a| a.node.member()).map(|m| m.incarnation);
    world.add(Settings { predecessor, ..settings("a") });
    world.run(1_000);
    assert_eq!(world.held("a"), 2_500);
}

/// proves: S1-34
#[test]
fn a_member_is_an_entry_with_an_address_that_lives_by_the_lease() {
    let mut world = TestCluster::default();
    world.add(Settings { address: "10.0.0.7:7700".to_string(), ..settings("a") });
    world.run(100);
    let member = world.actors[&"a".parse::<NodeName>().unwrap()].node.member().unwrap();
    let change = world.store.read(&[crate::keys::node(&member)]).pop().unwrap();
    let entry = change.entry.unwrap();
    assert_eq!(entry.owner.map(|lease| lease.0), Some(member.incarnation));
    assert!(core::str::from_utf8(&entry.value).unwrap().contains("10.0.0.7:7700"));
}
