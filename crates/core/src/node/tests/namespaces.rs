//! Namespaces: what may be in them, how many jobs they hold, and that their jobs are apart from each other.

use alloc::boxed::Box;
use alloc::string::ToString;

use super::*;
use crate::calendar::Calendar;
use crate::ids::Namespace;
use crate::job::Placement;
use crate::namespace::NamespaceSettings;
use crate::record::{SpecRecord, decode};
use crate::registry::Change;

fn namespace(jobs_max: Option<u32>) -> Command {
    let name = "team".parse().unwrap();
    Command::Namespace(Box::new(NamespaceSettings { jobs_max, ..NamespaceSettings::new(name) }))
}

fn apply(names: &[&str]) -> Command {
    Command::Apply(names.iter().map(|name| job(name, "@every 1s")).collect())
}

fn why(answer: Answer) -> (Refusal, String) {
    match answer {
        Answer::Refused(kind, why) => (kind, why),
        other => panic!("{other:?}"),
    }
}

impl TestCluster {
    /// The living jobs of the namespace, as a node has them.
    fn jobs_in(&self, node: &str) -> usize {
        self.actors[&node.parse::<NodeName>().unwrap()].node.view().jobs_in(&"team".parse().unwrap())
    }

    /// The same, counted in the registry.
    fn jobs_stored(&self) -> usize {
        let live = |entry: &Change| {
            let ParsedKey::Spec(name) = keys::parse(&entry.key)? else { return None };
            let record: SpecRecord = decode(&entry.entry.as_ref()?.value)?;
            (name.namespace() == "team" && matches!(record, SpecRecord::Live(_))).then_some(())
        };
        self.store.list().changes.iter().filter_map(live).count()
    }
}

#[test]
fn jobs_of_one_name_in_two_namespaces_fire_apart() {
    for placement in [Placement::Claimed, Placement::Sharded, Placement::Dispatched, Placement::Broadcast] {
        let mut world = TestCluster::with(&["a", "b"]);
        world.run(2_000);
        assert_eq!(
            world.send_command("a", namespace(None)),
            Answer::Namespace("team".parse().unwrap(), ApplyResult::Created)
        );
        let placed = |name: &str| JobFile { placement, ..job(name, "@every 1s") };
        world.send_command("a", Command::Apply(["j", "team/j", "team"].map(placed).into()));
        world.run(6_000);
        assert_eq!(world.send_command("b", Command::Pause("team/j".parse().unwrap())), Answer::Done);
        world.run(4_000);
        let [plain, namespaced, team] = ["j", "team/j", "team"].map(|name| world.dues(name).len());
        assert!(namespaced > 2, "{placement:?}: {namespaced}");
        assert!(
            plain > namespaced + 2 && team > namespaced + 2,
            "{placement:?}: {plain}, {namespaced}, {team}"
        );
        assert_eq!(world.send_command("b", Command::Delete("team/j".parse().unwrap())), Answer::Done);
        world.run(3_000);
        assert_eq!(world.dues("team/j").len(), namespaced, "{placement:?}");
        assert!(world.dues("j").len() > plain, "{placement:?}");
    }
}

#[test]
fn nothing_is_declared_in_a_namespace_that_does_not_exist() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(2_000);
    let calendar = || Command::Calendar(Box::new(Calendar::new("team/c".parse().unwrap())));
    for command in [apply(&["team/j"]), calendar()] {
        let (kind, text) = why(world.send_command("a", command));
        assert_eq!(
            (kind, text.as_str()),
            (
                Refusal::NotFound,
                "there is no namespace team: create it with `evenkeel namespace create team`"
            )
        );
    }
    world.send_command("a", namespace(None));
    assert_eq!(
        world.send_command("b", namespace(None)),
        Answer::Namespace("team".parse().unwrap(), ApplyResult::Unchanged)
    );
    let created = |name: &str| Answer::Applied([(name.parse().unwrap(), ApplyResult::Created)].into());
    assert_eq!(world.send_command("b", apply(&["team/j"])), created("team/j"));
    assert!(matches!(world.send_command("a", calendar()), Answer::Calendar(..)));

    let delete = || Command::DeleteNamespace("team".parse().unwrap());
    let (kind, text) = why(world.send_command("a", delete()));
    assert_eq!(
        (kind, text.as_str()),
        (Refusal::Conflict, "namespace team holds 1 job and 1 calendar: delete them first")
    );
    world.send_command("a", Command::Delete("team/j".parse().unwrap()));
    let (_, text) = why(world.send_command("b", delete()));
    assert_eq!(text, "namespace team holds 1 calendar: delete them first");
    world.send_command("a", Command::DeleteCalendar("team/c".parse().unwrap()));
    assert_eq!(world.send_command("a", delete()), Answer::Done);
    assert_eq!(why(world.send_command("b", delete())).0, Refusal::NotFound);
    assert_eq!(
        why(world.send_command("b", apply(&["team/j"]))).0,
        Refusal::NotFound,
        "a deleted job is created anew"
    );
    let default: Namespace = "default".parse().unwrap();
    let (kind, text) = why(world.send_command("a", Command::DeleteNamespace(default)));
    assert_eq!(kind, Refusal::Conflict);
    assert!(text.starts_with("the namespace default always exists"), "{text}");
}

#[test]
fn a_namespace_holds_no_more_jobs_than_it_may() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(2_000);
    world.send_command("a", namespace(Some(3)));
    // In one command too.
    let (kind, text) =
        why(world.send_command("a", apply(&["team/1", "team/2", "team/3", "team/4", "other"])));
    assert_eq!(kind, Refusal::Conflict);
    assert!(text.contains("job team/4: namespace team holds 3 jobs, allowed are 3"), "{text}");
    assert_eq!((world.jobs_in("a"), world.jobs_stored()), (3, 3));
    assert!(
        !world.dues("other").is_empty() || {
            world.run(3_000);
            !world.dues("other").is_empty()
        },
        "others pass"
    );

    let changed = JobFile { description: "new".to_string(), ..job("team/1", "@every 1s") };
    let updated = Answer::Applied([("team/1".parse().unwrap(), ApplyResult::Updated)].into());
    assert_eq!(
        world.send_command("b", Command::Apply([changed].into())),
        updated,
        "what is there may change"
    );
    world.send_command("b", Command::Delete("team/2".parse().unwrap()));
    let created = Answer::Applied([("team/4".parse().unwrap(), ApplyResult::Created)].into());
    assert_eq!(world.send_command("b", apply(&["team/4"])), created, "there is room again");

    world.send_command("a", Command::Disable("team/1".parse().unwrap()));
    world.send_command("a", namespace(Some(2)));
    let (kind, text) = why(world.send_command("a", Command::Enable("team/1".parse().unwrap())));
    assert_eq!(kind, Refusal::Conflict);
    assert!(text.contains("holds 3 jobs, allowed are 2"), "{text}");
    let (_, text) = why(world.send_command("b", apply(&["team/5"])));
    assert!(text.contains("allowed are 2"), "{text}");
    world.send_command("a", namespace(None));
    assert_eq!(world.send_command("a", Command::Enable("team/1".parse().unwrap())), Answer::Done);
    world.send_command("b", apply(&["team/5", "team/6"]));
    assert_eq!((world.jobs_in("a"), world.jobs_in("b"), world.jobs_stored()), (5, 5, 5));
}

#[test]
fn two_nodes_that_create_jobs_at_once_stay_within_the_limit() {
    for delay in [0, 3, 20] {
        let mut world = TestCluster::with(&["a", "b", "c"]);
        world.run(2_000);
        world.send_command("a", namespace(Some(4)));
        world.run(100);
        world.delay = delay;
        // None of them receives the news of the others, only answers.
        world.actors.values_mut().for_each(|actor| actor.watching = delay == 3);
        for (n, node) in ["a", "b", "c"].into_iter().enumerate() {
            let names: Vec<String> = (0..4).map(|i| alloc::format!("team/{node}{i}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            world.give(&node.parse().unwrap(), Input::Asked(CommandId(10 + n as u64), apply(&names)));
        }
        world.run(3_000);
        assert!(world.jobs_stored() <= 4, "{delay}: {}", world.jobs_stored());
        world.actors.values_mut().for_each(|actor| actor.watching = true);
        world.run(8_000);
        assert_eq!(world.jobs_stored(), 4, "{delay}: neither more nor fewer");
    }
}
