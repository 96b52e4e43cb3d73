//! What comes together is one step, and where nothing is scarce it comes to what it would have come to one by one.

use super::*;
use crate::job::Placement;

/// What a node becomes and does, taking these one by one and taking them together.
fn both_ways(node: &Node, now: Now, inputs: &[Input]) -> [(Node, Vec<Effect>); 2] {
    let [mut one, mut all] = [(node.clone(), Vec::new()), (node.clone(), Vec::new())];
    for input in inputs {
        one.0.step(now, input.clone(), &mut one.1);
    }
    all.0.step_all(now, inputs.iter().cloned(), &mut all.1);
    // How many were under way with each: one by one the later ones of these were still.
    for (node, _) in [&mut one, &mut all] {
        node.local.commits.forget_paces();
    }
    [one, all]
}

#[test]
fn answers_and_ends_that_come_together_come_to_the_same_as_one_by_one() {
    let mut world = TestCluster { takes: 300, fails: 1, ..TestCluster::with(&["a"]) };
    let retry =
        Some(Retry { max_retries: 3, delay: "1s".into(), max_delay: String::new(), exit_codes: Vec::new() });
    let mut jobs: Vec<JobFile> = (0..20).map(|i| job(&alloc::format!("j{i}"), "@every 5s")).collect();
    jobs.iter_mut().step_by(3).for_each(|job| job.retry = retry.clone());
    jobs.push(JobFile { placement: Placement::Sharded, shards: 4, ..job("sharded", "@every 7s") });
    world.send_command("a", Command::Apply(jobs));
    // Longer than fires are claimed ahead, so answers start them.
    world.delay = 1_200;
    let mut seen = BTreeMap::<String, usize>::new();
    for _ in 0..60_000 {
        let (now, mut store) = (world.clock(), world.store.clone());
        let answers = world.commits.iter().filter(|(at, ..)| *at == world.now).map(|(_, _, ticket, txn)| {
            Input::Committed { ticket: *ticket, outcome: store.commit(Mono(world.now), txn) }
        });
        let answers: Vec<Input> = answers.collect();
        let ends = world.ends.iter().filter(|(at, ..)| *at == world.now).map(|(_, _, run)| {
            let ended =
                if run.attempt > world.fails { RunOutcome::Succeeded } else { RunOutcome::Failed(Some(1)) };
            Input::Run { id: run.id.clone(), attempt: run.attempt, event: RunEvent::Ended(ended) }
        });
        let ends: Vec<Input> = ends.collect();
        let node = &world.actors.values().next().unwrap().node;
        for inputs in [answers, ends].into_iter().filter(|inputs| inputs.len() > 1) {
            let [one, all] = both_ways(node, now, &inputs);
            assert_eq!(one.1, all.1);
            assert!(one == all, "{inputs:?}");
            for effect in &all.1 {
                let kind = match effect {
                    Effect::Commit { kind, .. } => kind.to_string(),
                    Effect::Start(_) => "start".to_string(),
                    _ => "other".to_string(),
                };
                *seen.entry(kind).or_insert(0) += 1;
            }
        }
        world.run(0);
    }
    let often = |kind| seen.get(kind).copied().unwrap_or(0) > 5;
    assert!(["start", "finish", "confirm", "wait for retry"].into_iter().all(often), "{seen:?}");
}
