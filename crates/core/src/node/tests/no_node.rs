//! Why no node can run a job, and why a node that looks for free jobs leaves some: the first reason that is true.

use super::*;
use crate::input::{NodeSwitch, UnclaimedJobs};
use crate::job::Placement;

fn world() -> TestCluster {
    let mut world = TestCluster::default();
    for (name, labels) in [("a", ""), ("b", "gpu")] {
        world.add(Settings { labels: labels.parse().unwrap(), ..settings(name) });
    }
    world.run(200);
    world
}

fn bound(name: &str, nodes: &str, placement: Placement) -> JobFile {
    JobFile { node_selector: nodes.parse().unwrap(), placement, ..job(name, "") }
}

fn why(world: &TestCluster, job: &str) -> Option<String> {
    let node = &world.actors.values().next().unwrap().node;
    node.view().find(&job.parse().unwrap()).unwrap().obstacle()
}

#[test]
fn what_keeps_a_job_from_every_node_is_told_of_the_nodes_that_fit_it() {
    let mut world = world();
    let sharded = JobFile { shards: 2, ..bound("split", "gpu", Placement::Sharded) };
    let jobs = [
        bound("held", "gpu", Placement::Claimed),
        bound("sent", "gpu", Placement::Dispatched),
        sharded,
        bound("all", "", Placement::Claimed),
        bound("none", "tpu", Placement::Claimed),
    ];
    world.send_command("a", Command::Apply(jobs.into()));
    world.run(2_000);
    for job in ["held", "sent", "split", "all"] {
        assert_eq!(why(&world, job), None, "{job}");
    }
    let nobody = "no living node fits tpu: start one with these labels, or change the job";
    assert_eq!(why(&world, "none").as_deref(), Some(nobody));

    world.send_command("a", Command::Drain("b".parse().unwrap()));
    world.run(2_000);
    for job in ["held", "sent", "split"] {
        let only = "every node that fits gpu drains: start one or undrain one";
        assert_eq!(why(&world, job).as_deref(), Some(only), "{job}");
    }
    assert_eq!(why(&world, "all"), None, "a does not drain");
    world.send_command("a", Command::Drain("a".parse().unwrap()));
    world.run(2_000);
    let every = "every node drains: start a node or undrain one";
    assert_eq!(why(&world, "all").as_deref(), Some(every));
    world.send_command("a", Command::Disable("all".parse().unwrap()));
    world.run(2_000);
    let off = "job all is disabled: enable it with `evenkeel job enable all`";
    assert_eq!(why(&world, "all").as_deref(), Some(off));
}

#[test]
fn nodes_that_are_switched_off_for_a_job_are_told_of_by_name() {
    let mut world = world();
    let jobs = [
        JobFile { shards: 2, ..bound("split", "", Placement::Sharded) },
        JobFile { shards: 2, ..bound("bound", "gpu", Placement::Sharded) },
    ];
    world.send_command("a", Command::Apply(jobs.into()));
    world.run(2_000);
    for job in ["split", "bound"] {
        let switch = Command::Switch(job.parse().unwrap(), "b".parse().unwrap(), NodeSwitch::Shutdown);
        assert_eq!(world.send_command("a", switch), Answer::Done);
    }
    world.run(2_000);
    assert_eq!(why(&world, "split"), None, "a takes part");
    let text = "no node takes part in job bound: b was shut down for it and takes part again when it is started again";
    assert_eq!(why(&world, "bound").as_deref(), Some(text), "a does not fit");
    let switch = Command::Switch("split".parse().unwrap(), "a".parse().unwrap(), NodeSwitch::Disabled(true));
    assert_eq!(world.send_command("a", switch), Answer::Done);
    world.run(2_000);
    let both = "no node takes part in job split: a is disabled for it, which `evenkeel job enable split --node a` ends; b \
                was shut down for it and takes part again when it is started again";
    assert_eq!(why(&world, "split").as_deref(), Some(both));
}

#[test]
fn a_node_that_looks_for_free_jobs_says_of_each_why_it_leaves_it() {
    let mut world = world();
    let gpu = |n: i32| bound(&alloc::format!("g{n}"), "tpu", Placement::Claimed);
    world.send_command("a", Command::Apply((0..3).map(gpu).collect()));
    world.run(2_000);
    let left = |why: &str, jobs| UnclaimedJobs { jobs, why: why.into() };
    let unfit = left("they are for nodes with tpu, and node a does not meet tpu", 3);
    let told = Answer::Claiming { claims: 0, left: Vec::from([unfit.clone()]) };
    assert_eq!(world.send_command("a", Command::Claim), told);
    for node in ["a", "b"] {
        world.send_command("a", Command::Drain(node.parse().unwrap()));
    }
    world.run(2_000);
    world.send_command("a", Command::Apply([job("all", "")].into()));
    world.run(2_000);
    let drains = left("node a drains, which `evenkeel node undrain a` ends", 1);
    let told = Answer::Claiming { claims: 0, left: Vec::from([drains, unfit]) };
    assert_eq!(world.send_command("a", Command::Claim), told);
}
