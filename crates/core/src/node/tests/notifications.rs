//! Notifications that a fire is late or absent: one node sends each, once.

use super::*;
use crate::ids::JobName;
use crate::job::Occasion;

#[test]
fn only_the_first_node_that_asks_notifies_people_of_a_fire() {
    let mut world = TestCluster::with(&["a", "b"]);
    world.run(1_500);
    world.send_command("a", Command::Apply([job("j", "@every 30s")].into()));
    let name: JobName = "j".parse().unwrap();
    let tell = |world: &mut TestCluster, node: &str, occasion, due| {
        let answer = world.send_command(node, Command::Notify(name.clone(), occasion, Wall(due)));
        world.run(1_000);
        answer
    };
    let refused = |answer: &Answer| matches!(answer, Answer::Refused(Refusal::Conflict, text) if text.starts_with("node a has already notified people"));
    assert_eq!(tell(&mut world, "a", Occasion::Late, 30_000), Answer::Done);
    assert!(refused(&tell(&mut world, "b", Occasion::Late, 30_000)), "a tells it");
    assert!(refused(&tell(&mut world, "b", Occasion::Late, 1_000)), "a later one was told");
    assert_eq!(
        tell(&mut world, "a", Occasion::Late, 30_000),
        Answer::Done,
        "it may have died before it told"
    );
    assert_eq!(tell(&mut world, "b", Occasion::Absent, 30_000), Answer::Done, "that is another matter");
    assert_eq!(tell(&mut world, "b", Occasion::Late, 60_000), Answer::Done);
    let told = world
        .actors
        .values()
        .next()
        .unwrap()
        .node
        .view()
        .notifications(&name)
        .unwrap()
        .value
        .clone()
        .unwrap();
    assert_eq!((told.late, told.absent, told.seq), (Some(Wall(60_000)), Some(Wall(30_000)), 3));
    assert!(matches!(tell(&mut world, "a", Occasion::Failure, 90_000), Answer::Refused(Refusal::Invalid, _)));
    let nobody = world.send_command("a", Command::Notify("k".parse().unwrap(), Occasion::Late, Wall(1)));
    assert!(matches!(nobody, Answer::Refused(Refusal::NotFound, _)));
}
