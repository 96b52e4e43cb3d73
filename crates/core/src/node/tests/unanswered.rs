//! What a command is answered while the registry is silent: whether it was sent there decides.

use super::*;
use crate::job::Placement;

impl TestCluster {
    /// A node whose registry falls silent right after it has joined.
    fn falls_silent(delay: i64) -> Self {
        let mut world = Self::with(&["a"]);
        world.run(1_500);
        world.send_command("a", Command::Apply([job("old", "@every 60s")].into()));
        world.run(delay);
        world.silent = true;
        world.answers.clear();
        world
    }

    fn command(&mut self, command: Command) {
        self.give(&"a".parse().unwrap(), Input::Asked(CommandId(7), command));
    }

    /// The registry gets what it was sent, and answers again.
    fn answers_again(&mut self) {
        self.silent = false;
        let now = self.now;
        self.commits.iter_mut().for_each(|(at, ..)| *at = now);
    }

    fn has(&self, job: &str) -> bool {
        let node = &self.actors.values().next().unwrap().node;
        node.view().find(&job.parse().unwrap()).is_some()
    }
}

#[test]
fn a_change_that_was_sent_and_not_answered_may_have_been_done_and_the_answer_says_so() {
    let changes = [
        Command::Apply([job("new", "@every 60s")].into()),
        Command::Disable("old".parse().unwrap()),
        Command::RunNow("old".parse().unwrap(), "r".parse().unwrap()),
        Command::Drain("a".parse().unwrap()),
    ];
    for change in changes {
        let mut world = TestCluster::falls_silent(500);
        world.command(change.clone());
        world.run(12_000);
        let [Answer::Refused(kind, text)] = world.answers.as_slice() else { panic!("{:?}", world.answers) };
        assert_eq!(*kind, Refusal::Unknown, "{change:?}: {text}");
        assert!(text.contains("not known") && text.contains("evenkeel audit"), "{text}");
    }
}

#[test]
fn a_change_that_was_answered_as_unknown_is_done_where_the_registry_had_got_it() {
    let mut world = TestCluster::falls_silent(500);
    world.command(Command::Apply([job("new", "@every 60s")].into()));
    // The lease is not trusted any more, and has not ended in the registry's time.
    world.run(5_200);
    assert!(
        matches!(world.answers.as_slice(), [Answer::Refused(Refusal::Unknown, _)]),
        "{:?}",
        world.answers
    );
    let (_, _, _, txn) = world.commits[0].clone();
    let made = world.store.commit(Mono(world.now - 4_000), &txn);
    assert!(matches!(made, TxnOutcome::Applied(_)), "{made:?}");
    world.answers_again();
    world.run(8_000);
    assert!(world.has("new"));
}

#[test]
fn a_change_that_was_never_sent_is_refused() {
    let mut world = TestCluster::falls_silent(500);
    // By then the lease is not trusted any more.
    world.run(4_500);
    world.command(Command::Apply([job("new", "@every 60s")].into()));
    world.run(8_000);
    let [Answer::Refused(kind, text)] = world.answers.as_slice() else { panic!("{:?}", world.answers) };
    assert_eq!(*kind, Refusal::Unavailable, "{text}");
    world.answers_again();
    world.run(10_000);
    assert!(!world.has("new"));
}

#[test]
fn a_run_that_waits_may_have_been_ended_where_the_commit_about_its_job_is_not_answered() {
    for placement in [Placement::Claimed, Placement::Sharded, Placement::Dispatched] {
        let mut world = TestCluster { fails: 1, ..TestCluster::with(&["a"]) };
        world.run(1_500);
        let retry =
            Retry { max_retries: 3, delay: "60s".into(), max_delay: "60s".into(), exit_codes: [].into() };
        let job = JobFile { placement, retry: Some(retry), ..job("j", "at 1970-01-01T00:00:05") };
        world.send_command("a", Command::Apply([job].into()));
        world.run(7_000 - world.now);
        (world.silent, world.answers) = (true, Vec::new());
        world.command(Command::Kill("j:5000:0".parse().unwrap()));
        world.run(12_000);
        let [Answer::Refused(kind, text)] = world.answers.as_slice() else { panic!("{:?}", world.answers) };
        assert_eq!(*kind, Refusal::Unknown, "{placement:?}: {text}");
    }
}
