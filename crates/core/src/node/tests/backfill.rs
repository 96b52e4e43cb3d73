//! Backfills: each moment of the past has one run, in order, whatever happens to nodes, answers and the declaration.

use super::*;
use crate::ids::Fire;
use crate::input::BackfillOptions;
use crate::job::{Delivery, Overlap, Placement, RunParameters};
use crate::record::{Backfill, TriggerRecord};

const PLACEMENTS: [Placement; 2] = [Placement::Claimed, Placement::Dispatched];
/// When the tests begin: the past has a minute of fires.
const BEGIN: i64 = 100_000;
/// The moments of the fires that [`minute`] runs.
const MOMENTS: [i64; 6] = [40_000, 50_000, 60_000, 70_000, 80_000, 90_000];

fn backfilled(placement: Placement) -> JobFile {
    JobFile { placement, delivery: Delivery::AtLeastOnce, ..job("j", "@every 10s") }
}

fn of_span(id: &str, (from, to): (i64, i64), max_parallel: u32) -> Command {
    let parameters = RunParameters::default();
    let options = BackfillOptions { from: Wall(from), to: Wall(to), max_parallel, parameters };
    Command::Backfill("j".parse().unwrap(), id.parse().unwrap(), options.into())
}

fn minute(max_parallel: u32) -> Command {
    of_span("b", (35_001, BEGIN), max_parallel)
}

fn accepted(answer: Answer) -> Backfill {
    match answer {
        Answer::Backfill(backfill) => *backfill,
        other => panic!("{other:?}"),
    }
}

impl TestCluster {
    /// Nodes that have the job, late enough for it to have a past.
    fn with_a_past(names: &[&str], file: JobFile) -> Self {
        let mut world = Self { now: BEGIN, takes: 300, ..Self::default() };
        names.iter().for_each(|name| world.add(settings(name)));
        world.run(2_000);
        let answer = world.send_command(names[0], Command::Apply([file].into()));
        assert!(matches!(answer, Answer::Applied(_)), "{answer:?}");
        world.run(1_000);
        world
    }

    /// The starts of runs of backfills: moment, attempt and time.
    fn made_up(&self) -> Vec<(i64, u32, i64)> {
        let each = self.starts.iter().zip(&self.started);
        let asked = each.filter(|((_, run), _)| matches!(run.id.fire, Fire::Asked(_)));
        asked.map(|((_, run), at)| (run.due.0, run.attempt, *at)).collect()
    }

    fn made_up_moments(&self) -> Vec<i64> {
        self.made_up().into_iter().map(|(due, ..)| due).collect()
    }

    /// The most runs of backfills that executed at once.
    fn most_beside(&self) -> usize {
        let all = self.made_up();
        let at =
            |moment: i64| all.iter().filter(|(.., at)| (*at..*at + self.takes).contains(&moment)).count();
        all.iter().map(|(.., moment)| at(*moment)).max().unwrap_or_default()
    }

    fn backfills(&self) -> Vec<Backfill> {
        let key = keys::triggers(&"j".parse().unwrap());
        let entry = self.store.read(&[key]).pop().unwrap().entry.unwrap();
        crate::record::decode::<TriggerRecord>(&entry.value).unwrap().backfills
    }
}

#[test]
fn each_moment_of_the_span_has_one_run_in_order_and_the_schedule_goes_on() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with_a_past(&["a", "b"], backfilled(placement));
        let backfill = accepted(world.send_command("b", minute(1)));
        assert_eq!(backfill.dues, MOMENTS.map(Wall), "{placement:?}");
        world.run(30_000);
        assert_eq!(world.made_up_moments(), MOMENTS, "{placement:?}");
        let texts: Vec<String> = world.starts.iter().map(|(_, run)| run.sent.clone()).collect();
        assert!(texts.iter().any(|text| text.ends_with("backfill b, 2 of 6")), "{texts:?}");
        let own: Vec<i64> = world.dues("j").into_iter().filter(|due| *due > BEGIN).collect();
        assert_eq!(own, [110_000, 120_000, 130_000], "{placement:?}");
        assert_eq!(world.most_beside(), 1);
        // The same request is the same backfill, whatever it says by now.
        let again = accepted(world.send_command("a", of_span("b", (0, 50_000), 9)));
        assert_eq!((again.dues, again.next), (backfill.dues, 6), "{placement:?}");
        world.run(5_000);
        assert_eq!(world.made_up_moments(), MOMENTS, "{placement:?}");
    }
}

#[test]
fn a_node_that_dies_at_any_moment_leaves_no_moment_out_and_repeats_none() {
    for (placement, delivery) in PLACEMENTS.into_iter().flat_map(|placement| {
        [Delivery::AtLeastOnce, Delivery::AtMostOnce].map(|delivery| (placement, delivery))
    }) {
        for after in (0..=3_000).step_by(170) {
            let file = JobFile { delivery, ..backfilled(placement) };
            let mut world = TestCluster::with_a_past(&["a", "b", "c"], file);
            accepted(world.send_command("c", minute(1)));
            world.run(after);
            let node: NodeName = world.starts.last().map_or("a", |(node, _)| node).parse().unwrap();
            world.actors.remove(&node);
            world.ends.retain(|(_, on, _)| *on != node);
            world.run(40_000);
            let said = alloc::format!("{placement:?} {delivery:?} after {after}: {:?}", world.made_up());
            let firsts = world.made_up().into_iter().filter(|(_, attempt, _)| *attempt == 1);
            let firsts: Vec<i64> = firsts.map(|(due, ..)| due).collect();
            let unique: BTreeSet<i64> = firsts.iter().copied().collect();
            assert_eq!(firsts.len(), unique.len(), "one first attempt for each: {said}");
            let lost = world.recorded.iter().filter(|verdict| matches!(verdict.run.fire, Fire::Asked(_)));
            let known: BTreeSet<i64> = unique.into_iter().chain(lost.map(|verdict| verdict.due.0)).collect();
            assert_eq!(known, MOMENTS.into(), "{said}");
            if delivery == Delivery::AtMostOnce {
                assert_eq!(world.made_up().len(), firsts.len(), "{said}");
            }
        }
    }
}

#[test]
fn an_answer_of_the_registry_that_is_lost_or_late_costs_no_moment_and_doubles_none() {
    for placement in PLACEMENTS {
        for after in (0..=1_500).step_by(100) {
            let mut world = TestCluster::with_a_past(&["a", "b"], backfilled(placement));
            accepted(world.send_command("b", minute(1)));
            world.run(after);
            world.silent = true;
            world.run(700);
            world.silent = false;
            let now = world.now;
            world.commits.iter_mut().for_each(|(at, ..)| *at = now);
            world.run(30_000);
            assert_eq!(world.made_up_moments(), MOMENTS, "{placement:?} after {after}");
        }
    }
}

#[test]
fn no_more_runs_are_open_at_once_than_wanted_and_than_overlap_allows() {
    for placement in PLACEMENTS {
        for (overlap, wanted, most) in
            [(Overlap::Allow, 2, 2), (Overlap::Forbid, 3, 1), (Overlap::Limit(3), 9, 3)]
        {
            let file = JobFile { overlap, ..backfilled(placement) };
            let mut world = TestCluster::with_a_past(&["a", "b"], file);
            world.takes = 3_000;
            let backfill = accepted(world.send_command("a", minute(wanted)));
            assert_eq!(backfill.max_parallel as usize, most);
            world.run(60_000);
            let mut moments = world.made_up_moments();
            moments.sort_unstable();
            assert_eq!(moments, MOMENTS, "{placement:?} {overlap:?}");
            assert_eq!(world.most_beside(), most, "{placement:?} {overlap:?}: {:?}", world.made_up());
        }
    }
}

#[test]
fn an_edit_of_the_schedule_and_a_pause_change_no_moment_of_a_backfill() {
    for placement in PLACEMENTS {
        let mut world = TestCluster::with_a_past(&["a"], backfilled(placement));
        world.takes = 1_000;
        accepted(world.send_command("a", minute(1)));
        world.run(1_500);
        world.send_command(
            "a",
            Command::Apply([JobFile { schedule: "@every 7s".into(), ..backfilled(placement) }].into()),
        );
        world.send_command("a", Command::Pause("j".parse().unwrap()));
        world.run(30_000);
        assert_eq!(world.made_up_moments(), MOMENTS, "{placement:?}");
    }
}

#[test]
fn a_cancelled_backfill_begins_no_run_any_more_nor_does_one_of_a_job_that_was_disabled_or_deleted() {
    let name = || "j".parse().unwrap();
    for placement in PLACEMENTS {
        for act in [
            Command::CancelBackfill(name(), "b".parse().unwrap()),
            Command::Disable(name()),
            Command::Delete(name()),
        ] {
            let mut world = TestCluster::with_a_past(&["a", "b"], backfilled(placement));
            world.takes = 2_000;
            accepted(world.send_command("a", minute(1)));
            world.run(1_500);
            world.send_command("b", act.clone());
            world.run(1_000);
            world.send_command("b", Command::Apply([backfilled(placement)].into()));
            world.send_command("b", Command::Enable(name()));
            world.run(20_000);
            let made_up = world.made_up_moments();
            assert_eq!(made_up, &MOMENTS[..1], "{placement:?} {act:?}");
            let known = &world.backfills()[0];
            assert_eq!((known.claimed(), known.left()), (1, 0), "{placement:?} {act:?}");
        }
        let mut world = TestCluster::with_a_past(&["a"], backfilled(placement));
        let answer = world.send_command("a", Command::CancelBackfill(name(), "x".parse().unwrap()));
        assert!(matches!(answer, Answer::Refused(Refusal::NotFound, _)), "{answer:?}");
    }
}

#[test]
fn what_is_no_backfill_is_refused_and_says_why() {
    let plain = || backfilled(Placement::Claimed);
    let long = "x".repeat(128);
    for (file, command, why) in [
        (plain(), of_span("b", (0, 200_000), 1), "in the future"),
        (plain(), of_span("b", (50_000, 50_000), 1), "not before to"),
        (plain(), of_span("b", (50_001, 50_002), 1), "no fire"),
        (plain(), of_span("b", (0, 50_000), 0), "at least 1"),
        (plain(), of_span(&long, (0, 50_000), 1), "too long"),
        (JobFile { schedule: String::new(), ..plain() }, minute(1), "no schedule"),
        (JobFile { schedule: "@after 10s".into(), ..plain() }, minute(1), "@after"),
        (
            JobFile { schedule: "@every 1s".into(), ..plain() },
            of_span("b", (-901_000, BEGIN), 1),
            "more than 1000",
        ),
        (JobFile { placement: Placement::Sharded, shards: 2, ..plain() }, minute(1), "is sharded"),
        (JobFile { enabled: false, ..plain() }, minute(1), "disabled"),
    ] {
        let mut world = TestCluster::with_a_past(&["a"], file);
        match world.send_command("a", command) {
            Answer::Refused(_, text) => assert!(text.contains(why), "{text}"),
            other => panic!("{why}: {other:?}"),
        }
    }
    // No manual run gets the name of one of its runs, whichever comes first.
    let mut world = TestCluster::with_a_past(&["a"], plain());
    let run = |id: &str| Command::RunNow("j".parse().unwrap(), id.parse().unwrap());
    assert!(matches!(world.send_command("a", run("b.50000")), Answer::Accepted(..)));
    assert!(matches!(world.send_command("a", minute(1)), Answer::Refused(Refusal::Conflict, _)));
    accepted(world.send_command("a", of_span("c", (35_001, BEGIN), 1)));
    assert!(matches!(world.send_command("a", run("c.50000")), Answer::Refused(Refusal::Conflict, _)));
    assert!(matches!(world.send_command("a", run("c.50001")), Answer::Accepted(..)));
}

#[test]
fn four_backfills_are_remembered_and_one_that_goes_on_is_never_forgotten() {
    let mut world = TestCluster::with_a_past(&["a"], backfilled(Placement::Claimed));
    world.takes = 60_000;
    for n in 0..4 {
        accepted(world.send_command("a", of_span(&alloc::format!("b{n}"), (35_001, BEGIN), 1)));
    }
    let fifth = of_span("b4", (35_001, BEGIN), 1);
    assert!(matches!(world.send_command("a", fifth.clone()), Answer::Refused(Refusal::Conflict, _)));
    world.send_command("a", Command::CancelBackfill("j".parse().unwrap(), "b1".parse().unwrap()));
    accepted(world.send_command("a", fifth));
    let ids: Vec<String> = world.backfills().iter().map(|one| one.id.to_string()).collect();
    assert_eq!(ids, ["b0", "b2", "b3", "b4"]);
}

#[test]
fn who_may_not_run_a_job_by_its_labels_may_not_backfill_it() {
    use crate::principal::{Grants, JobRights, Role};
    let mut world = TestCluster::with_a_past(&["a"], backfilled(Placement::Claimed));
    for command in [minute(1), Command::CancelBackfill("j".parse().unwrap(), "b".parse().unwrap())] {
        let grants = Grants(["operator:default:team=billing".parse().unwrap()].into());
        let rights = JobRights { grants, role: Role::Operator };
        let answer = world.send_command("a", Command::Within(rights.into(), command.into()));
        assert!(matches!(answer, Answer::Refused(Refusal::Forbidden, _)), "{answer:?}");
    }
}

#[test]
fn only_a_fire_that_is_named_after_its_moment_makes_up_for_it() {
    let id = "b.1".parse().unwrap();
    let fire = Backfill::fire(&id, Wall(-7)).unwrap();
    assert!(fire.makes_up_for(Wall(-7)) && !fire.makes_up_for(Wall(7)));
    assert!(!Fire::Due(Wall(7)).makes_up_for(Wall(7)));
    assert!(!Fire::Asked("r7".parse().unwrap()).makes_up_for(Wall(7)));
    let backfill = Backfill {
        id,
        at: Wall(9),
        dues: [-7, 0, 7].map(Wall).into(),
        next: 1,
        max_parallel: 1,
        parameters: RunParameters::default(),
        cancelled: None,
    };
    let named = |text: &str| backfill.position(&Fire::Asked(text.parse().unwrap()));
    let names = ["b.1.-7", "b.1.0", "b.1.7", "b.1.8", "b.1.07", "b.1.-0", "b.17", "b.7"];
    assert_eq!(names.map(named), [Some(0), Some(1), Some(2), None, None, None, None, None]);
    assert!(!backfill.awaits(&fire) && backfill.expects(&fire));
    let cancelled = Backfill { next: 3, cancelled: Some((Wall(10), 1)), ..backfill };
    let last = Backfill::fire(&cancelled.id, Wall(7)).unwrap();
    assert!(cancelled.expects(&fire) && !cancelled.expects(&last) && !cancelled.awaits(&last));
}
