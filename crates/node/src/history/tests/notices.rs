//! What history finds worth telling of a job, once.

use evenkeel_core::job::{Notify, Occasion};
use evenkeel_core::words::Shard;

use super::*;
use crate::history::{Notice, Wish};

fn wish() -> Option<Box<Wish>> {
    Wish::of(None, &Occasion::ALL, "a")
}

fn end(run: &str, n: u32, state: State) -> Entry {
    let mut record = attempt(run, n, state);
    record.shard = record.run.shard;
    Entry::Outcome(Box::new(record), wish())
}

fn judged(run: &str, attempt: u32, state: VerdictState) -> Entry {
    Entry::Verdict(Box::new(Verdict { attempt, ..verdict(run, state) }), wish())
}

impl File {
    fn told(&mut self, entry: Entry) -> Vec<Notice> {
        write::write(&mut self.db, &write::coalesce(vec![entry]), Wall(5000)).unwrap().notices
    }

    fn kinds(&mut self, entry: Entry) -> Vec<&'static str> {
        self.told(entry).into_iter().map(|notice| notice.occasion.kind()).collect()
    }
}

#[test]
fn a_failure_is_told_once_and_the_first_success_after_it_as_well() {
    let mut file = File::new();
    assert_eq!(file.kinds(end("j:1000:0", 1, State::Succeeded)), [] as [&str; 0], "it did not fail before");
    assert_eq!(file.kinds(end("j:2000:0", 2, State::Failed)), ["job.failure"]);
    assert_eq!(file.kinds(end("j:2000:0", 2, State::Failed)), [] as [&str; 0], "it is the same end");
    assert_eq!(file.kinds(end("j:3000:0", 1, State::TimedOut)), ["job.failure"]);
    assert_eq!(file.kinds(end("k:4000:0", 1, State::Succeeded)), [] as [&str; 0], "another job");
    assert_eq!(file.kinds(end("j:4000:1", 1, State::Succeeded)), [] as [&str; 0], "another shard");
    assert_eq!(file.kinds(end("j:4000:0", 1, State::Killed)), [] as [&str; 0], "somebody knows");
    assert_eq!(file.kinds(end("j:5000:0", 1, State::Succeeded)), ["job.recovery"]);
    assert_eq!(file.kinds(end("j:6000:0", 1, State::Succeeded)), [] as [&str; 0], "that was told");
}

#[test]
fn what_nobody_wants_to_know_is_not_told_but_remembered_for_the_recovery() {
    let mut file = File::new();
    let of = |notify: &Notify, asked: &[Occasion]| Wish::of(Some(notify), asked, "a");
    let quiet = Entry::Outcome(Box::new(attempt("j:1000:0", 1, State::Failed)), None);
    assert_eq!(file.told(quiet), []);
    let only = Notify { on: Some(vec![Occasion::Recovery]), ..Notify::default() };
    let again = Box::new(attempt("j:2000:0", 1, State::Failed));
    assert_eq!(file.told(Entry::Outcome(again, of(&only, &Occasion::ALL))), [], "the job says what");
    let healed = Box::new(attempt("j:3000:0", 1, State::Succeeded));
    let told = file.told(Entry::Outcome(healed, of(&only, &[])));
    assert_eq!(told.len(), 1);
    assert!(
        told[0].text.contains("succeeds again on a after failing since 1970-01-01T00:00:05.000Z"),
        "{told:?}"
    );
    assert_eq!(of(&Notify { on: Some(Vec::new()), ..Notify::default() }, &Occasion::ALL), None, "mute");
    assert_eq!(of(&Notify::default(), &[]), None, "nobody asks");
}

#[test]
fn verdicts_are_told_once_unless_a_result_says_otherwise() {
    let mut file = File::new();
    assert_eq!(file.kinds(judged("j:1000:0", 1, VerdictState::Lost)), ["job.lost"]);
    assert_eq!(
        file.kinds(judged("j:1000:0", 1, VerdictState::Lost)),
        [] as [&str; 0],
        "told again by who took over"
    );
    file.write(vec![entry("j:2000:0", 1, State::Succeeded)]);
    assert_eq!(file.kinds(judged("j:2000:0", 1, VerdictState::Lost)), [] as [&str; 0], "its end is known");
    assert_eq!(file.kinds(end("j:3000:0", 1, State::Fenced)), [] as [&str; 0], "the verdict follows");
    assert_eq!(file.kinds(judged("j:3000:0", 1, VerdictState::Lost)), ["job.lost"]);
    assert_eq!(file.kinds(judged("j:4000:0", 0, VerdictState::Skipped)), ["job.miss"]);
    assert_eq!(file.kinds(judged("j:4000:0", 0, VerdictState::Skipped)), [] as [&str; 0]);
    assert_eq!(file.kinds(end("j:5000:0", 1, State::Succeeded)), ["job.recovery"], "it was lost before");
}

#[test]
fn an_attempt_that_will_not_be_made_is_the_failure_of_the_one_before() {
    let mut file = File::new();
    file.write(vec![entry("j:1000:0", 1, State::Failed), entry("j:1000:0", 2, State::Waiting)]);
    assert_eq!(file.kinds(judged("j:1000:0", 2, VerdictState::Skipped)), ["job.failure"]);
    file.write(vec![entry("j:2000:0", 1, State::Running)]);
    assert_eq!(file.kinds(judged("j:2000:0", 1, VerdictState::Lost)), ["job.lost"]);
    assert_eq!(file.kinds(judged("j:2000:0", 2, VerdictState::Skipped)), [] as [&str; 0], "told as lost");
}

#[test]
fn a_verdict_on_many_shards_is_told_as_one() {
    let mut file = File::new();
    let all = evenkeel_core::shards::ShardSet::range(0, 100);
    let verdict = Verdict { shards: all, ..verdict("j:1000:7", VerdictState::Lost) };
    assert_eq!(file.kinds(Entry::Verdict(Box::new(verdict), wish())), ["job.lost"]);
    let mut one = attempt("j:2000:7", 1, State::Succeeded);
    one.shard = Shard(7);
    assert_eq!(file.kinds(Entry::Outcome(Box::new(one), wish())), ["job.recovery"]);
}

#[tokio::test]
async fn what_was_not_told_is_told_by_the_next_life_of_the_same_node() {
    let mut file = File::new();
    let told = file.told(end("j:1000:0", 1, State::Failed));
    assert_eq!(file.told(Entry::Untold("b".into())), [], "another node tells its own");
    assert_eq!(file.told(Entry::Untold("a".into())), told);
    file.write(vec![Entry::Noticed(told[0].seq)]);
    assert_eq!(file.told(Entry::Untold("a".into())), []);
    let events = file.reader.events(EventFilter::default()).await.unwrap();
    let kinds: Vec<_> = events.iter().map(|event| (event.kind.as_str(), event.text.as_str())).collect();
    assert_eq!(kinds, [("job.failure", told[0].text.as_str())], "one event, however often it is told");
}
