//! Jobs that may run on some nodes only.

use super::*;
use crate::ids::JobName;
use crate::job::{Delivery, Placement, Retry};

/// Nodes with these labels.
fn world(nodes: &[(&str, &str)]) -> TestCluster {
    let mut world = TestCluster::default();
    for (name, labels) in nodes {
        world.add(Settings { labels: labels.parse().unwrap(), ..settings(name) });
    }
    world.run(200);
    world
}

fn bound(name: &str, schedule: &str, nodes: &str) -> JobFile {
    JobFile { node_selector: nodes.parse().unwrap(), ..job(name, schedule) }
}

fn apply(world: &mut TestCluster, jobs: impl Into<Vec<JobFile>>) {
    let applied = world.send_command("a", Command::Apply(jobs.into()));
    assert!(matches!(applied, Answer::Applied(_)), "{applied:?}");
}

/// The nodes that started runs of a job since then.
fn ran(world: &TestCluster, job: &str, since: usize) -> BTreeSet<String> {
    let starts = world.starts.iter().skip(since).filter(|(_, run)| run.id.job.as_str() == job);
    starts.map(|(node, _)| node.clone()).collect()
}

fn owner(world: &TestCluster, job: &str) -> Option<String> {
    let node = &world.actors.values().next().unwrap().node;
    let job: JobName = job.parse().unwrap();
    node.view().find(&job).and_then(|job| job.owner().map(|member| member.node.to_string()))
}

fn only(node: &str) -> BTreeSet<String> {
    BTreeSet::from([node.to_string()])
}

/// proves: I54
#[test]
fn jobs_of_each_placement_run_where_they_fit_alone() {
    let mut world = world(&[("a", ""), ("b", "gpu,zone=eu"), ("c", "zone=us")]);
    let sharded = JobFile { placement: Placement::Sharded, shards: 5, ..bound("s", "@every 2s", "!gpu") };
    let dispatched = JobFile { placement: Placement::Dispatched, ..bound("d", "@every 2s", "zone=us|de") };
    apply(&mut world, [bound("j", "@every 2s", "gpu"), sharded, dispatched]);
    world.run(60_000);
    assert_eq!(ran(&world, "j", 0), only("b"));
    assert_eq!(ran(&world, "d", 0), only("c"));
    assert_eq!(ran(&world, "s", 0), BTreeSet::from(["a".to_string(), "c".to_string()]));
}

/// proves: I36
#[test]
fn what_only_one_node_may_run_waits_behind_nothing_and_takes_no_room() {
    let mut world = world(&[("a", "gpu"), ("b", ""), ("c", "")]);
    let everywhere = (0..9).map(|n| job(&alloc::format!("e{n}"), ""));
    let gpu = (0..20).map(|n| bound(&alloc::format!("g{n}"), "", "gpu"));
    apply(&mut world, gpu.chain(everywhere).collect::<Vec<_>>());
    world.run(5_000);
    // All twenty, though a third of all jobs is fewer; and its third of the others.
    assert_eq!(["a", "b", "c"].map(|name| world.held(name)), [23, 3, 3]);
}

/// proves: I35, I36
#[test]
fn the_nodes_that_fit_make_up_for_one_of_them() {
    let mut world = world(&[("a", ""), ("b", "gpu"), ("c", "gpu"), ("d", "gpu")]);
    apply(&mut world, (0..6).map(|n| bound(&alloc::format!("g{n}"), "", "gpu")).collect::<Vec<_>>());
    world.run(5_000);
    assert_eq!(["a", "b", "c", "d"].map(|name| world.held(name)), [0, 2, 2, 2]);
    world.actors.remove(&"d".parse().unwrap());
    world.run(10_000);
    assert_eq!(["a", "b", "c"].map(|name| world.held(name)), [0, 3, 3]);
}

/// proves: I54
#[test]
fn a_job_moves_after_its_run_when_its_declaration_names_another_node() {
    let mut world = world(&[("a", ""), ("b", "")]);
    world.takes = 5_000;
    apply(&mut world, [bound("j", "@every 2s", "name=a")]);
    world.run(3_000);
    assert_eq!(ran(&world, "j", 0), only("a"));
    let before = world.starts.len();
    apply(&mut world, [bound("j", "@every 2s", "name=b")]);
    world.run(1_000);
    assert_eq!(owner(&world, "j").as_deref(), Some("a"), "its run goes on");
    world.run(20_000);
    assert_eq!((ran(&world, "j", before), owner(&world, "j").as_deref()), (only("b"), Some("b")));
    assert!(world.recorded.is_empty(), "nothing was cut short: {:?}", world.recorded);
}

/// proves: I54
#[test]
fn a_run_between_two_attempts_goes_on_where_it_fits() {
    let mut world = world(&[("a", ""), ("b", "")]);
    world.fails = 1;
    let retry =
        Retry { max_retries: 1, delay: "4s".into(), max_delay: String::new(), exit_codes: Vec::new() };
    let job = |nodes| JobFile { retry: Some(retry.clone()), ..bound("j", "at 1970-01-01T00:00:03", nodes) };
    apply(&mut world, [job("name=a")]);
    world.run(3_200);
    apply(&mut world, [job("name=b")]);
    world.run(10_000);
    let starts: Vec<_> = world.starts.iter().map(|(node, run)| (node.as_str(), run.attempt)).collect();
    assert_eq!(starts, [("a", 1), ("b", 2)]);
}

/// proves: I54, I19, I21
#[test]
fn what_a_lost_node_ran_is_told_by_one_that_does_not_fit_and_repeated_by_one_that_does() {
    for (delivery, attempts) in [(Delivery::AtMostOnce, 0), (Delivery::AtLeastOnce, 1)] {
        let mut world = world(&[("a", ""), ("b", "gpu")]);
        world.takes = 60_000;
        apply(&mut world, [JobFile { delivery, ..bound("j", "at 1970-01-01T00:00:03", "gpu") }]);
        world.run(4_000);
        assert_eq!(ran(&world, "j", 0), only("b"));
        world.actors.remove(&"b".parse().unwrap());
        world.ends.clear();
        world.run(10_000);
        assert_eq!((world.starts.len(), world.recorded.len()), (1, 1), "{:?}", world.recorded);
        assert_eq!(owner(&world, "j"), None, "nobody holds what nobody may run");
        world.add(Settings { labels: "gpu".parse().unwrap(), ..settings("c") });
        world.run(10_000);
        assert_eq!(owner(&world, "j").as_deref(), Some("c"));
        let again: Vec<_> =
            world.starts[1..].iter().map(|(node, run)| (node.as_str(), run.attempt)).collect();
        assert_eq!(again, [("c", 2)][..attempts]);
    }
}

/// A fire that was claimed ahead of time is taken over before it is due, by a node that may not run it.
///
/// proves: I54, I17
#[test]
fn a_fire_that_is_taken_over_before_it_is_due_waits_for_that_on_every_node() {
    let mut world = world(&[("a", ""), ("b", "gpu")]);
    let job = bound("j", "at 1970-01-01T00:00:03", "gpu");
    apply(&mut world, [JobFile { delivery: Delivery::AtLeastOnce, ..job }]);
    world.run(2_050 - world.now);
    let dead = world.actors.remove(&"b".parse().unwrap()).unwrap();
    let removal = dead.node.member_entry().unwrap().removal();
    assert!(matches!(world.commit(&removal), TxnOutcome::Applied(_)));
    assert!(matches!(world.commit(&removal), TxnOutcome::Refused(_)), "the member is gone");
    world.run(100);
    assert_eq!((world.recorded.len(), owner(&world, "j")), (1, None), "a settled what b had claimed");
    world.add(Settings { labels: "gpu".parse().unwrap(), ..settings("c") });
    world.run(2_950 - world.now);
    assert_eq!((owner(&world, "j").as_deref(), world.starts.len()), (Some("c"), 0), "it is not due");
    world.run(1_000);
    let starts: Vec<_> = world.starts.iter().map(|(node, run)| (node.as_str(), run.attempt)).collect();
    assert_eq!(starts, [("c", 2)]);
}

/// proves: I54, I16
#[test]
fn where_no_node_fits_it_is_said_once_and_fires_are_made_up_by_the_one_that_comes() {
    let mut world = world(&[("a", ""), ("b", "")]);
    let dispatched = JobFile { placement: Placement::Dispatched, ..bound("d", "@every 2s", "gpu") };
    let sharded = JobFile { placement: Placement::Sharded, shards: 2, ..bound("s", "@every 2s", "gpu") };
    apply(&mut world, [bound("j", "@every 2s", "gpu"), dispatched, sharded]);
    world.run(30_000);
    assert!(world.starts.is_empty());
    let said =
        |world: &TestCluster| world.events.iter().filter(|text| text.contains("no living node fits")).count();
    assert_eq!(said(&world), 1);
    let labelled = || Settings { labels: "gpu".parse().unwrap(), ..settings("c") };
    world.add(labelled());
    world.run(70_000);
    for job in ["j", "d", "s"] {
        assert_eq!(ran(&world, job, 0), only("c"), "{job}");
        let first = world.dues(job)[0];
        assert!(first <= 32_000, "{job} made up the latest fire, and not only those to come: {first}");
    }
    world.actors.remove(&"c".parse().unwrap());
    world.run(20_000);
    assert_eq!(said(&world), 2, "it came about again");
}

#[test]
fn a_run_on_a_node_that_does_not_fit_is_refused_with_the_reason() {
    let mut world = world(&[("a", "spot"), ("b", "")]);
    let sharded = JobFile { placement: Placement::Sharded, shards: 2, ..bound("s", "", "!spot") };
    apply(&mut world, [sharded]);
    world.run(1_000);
    let run = |node: &str| {
        let options = RunOptions { node: Some(node.parse().unwrap()), ..RunOptions::default() };
        Command::RunWith("s".parse().unwrap(), "r".parse().unwrap(), options.into())
    };
    let Answer::Refused(Refusal::Conflict, why) = world.send_command("a", run("a")) else {
        panic!("it is refused")
    };
    assert_eq!(why, "node a does not fit job s: that is for nodes with !spot, and it has the labels spot");
    assert!(matches!(world.send_command("a", run("b")), Answer::Accepted(..)));
}

/// proves: I54, I16
#[test]
fn a_dispatched_fire_that_no_node_fits_is_given_up_at_its_age() {
    let mut world = world(&[("a", ""), ("b", "")]);
    let job = JobFile {
        placement: Placement::Dispatched,
        misfire_grace: Some(11),
        ..bound("d", "7/30 * * * * ?", "gpu")
    };
    apply(&mut world, [JobFile { catch_up_window: "17s".into(), ..job }]);
    // While time passes the nodes are looked at for what they overlooked.
    world.run(60_000);
    let given_up: Vec<_> = world.recorded.iter().map(|verdict| verdict.due.0 / 1000).collect();
    assert_eq!(given_up, [7, 37], "{:?}", world.recorded);
}
