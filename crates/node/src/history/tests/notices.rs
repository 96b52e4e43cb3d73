//! Notices are created once.

use std::collections::BTreeSet;

use evenkeel_core::ids::Shard;
use evenkeel_core::job::{Notify, Occasion};

use super::*;
use crate::history::store::FEW;
use crate::history::{Notice, NoticePolicy};

fn policy() -> Option<Box<NoticePolicy>> {
    NoticePolicy::of(None, &Occasion::ALL, "a")
}

fn end(run: &str, n: u32, state: AttemptState) -> HistoryWrite {
    let mut record = attempt(run, n, state);
    record.shard = record.run.shard;
    HistoryWrite::Outcome(Box::new(record), policy())
}

fn judged(run: &str, attempt: u32, state: VerdictState) -> HistoryWrite {
    HistoryWrite::Verdict(
        Box::new(Verdict { attempt, ..verdict(run, state) }),
        policy(),
        VerdictFires::default(),
    )
}

impl HistoryFixture {
    async fn notices(&mut self, entry: HistoryWrite) -> Vec<Notice> {
        self.write(vec![entry]).await.notices
    }

    async fn kinds(&mut self, entry: HistoryWrite) -> Vec<&'static str> {
        self.notices(entry).await.into_iter().map(|notice| notice.occasion.kind()).collect()
    }
}

#[tokio::test]
async fn a_failure_is_told_once_and_the_first_success_after_it_as_well() {
    for mut books in all().await {
        assert_eq!(
            books.kinds(end("j:1000:0", 1, AttemptState::Succeeded)).await,
            [] as [&str; 0],
            "it did not fail before"
        );
        assert_eq!(books.kinds(end("j:2000:0", 2, AttemptState::Failed)).await, ["job.failure"]);
        assert_eq!(
            books.kinds(end("j:2000:0", 2, AttemptState::Failed)).await,
            [] as [&str; 0],
            "it is the same end"
        );
        assert_eq!(books.kinds(end("j:3000:0", 1, AttemptState::TimedOut)).await, ["job.failure"]);
        assert_eq!(
            books.kinds(end("k:4000:0", 1, AttemptState::Succeeded)).await,
            [] as [&str; 0],
            "another job"
        );
        assert_eq!(
            books.kinds(end("j:4000:1", 1, AttemptState::Succeeded)).await,
            [] as [&str; 0],
            "another shard"
        );
        assert_eq!(
            books.kinds(end("j:4000:0", 1, AttemptState::Killed)).await,
            [] as [&str; 0],
            "somebody knows"
        );
        assert_eq!(books.kinds(end("j:5000:0", 1, AttemptState::Succeeded)).await, ["job.recovery"]);
        assert_eq!(
            books.kinds(end("j:6000:0", 1, AttemptState::Succeeded)).await,
            [] as [&str; 0],
            "that was told"
        );
    }
}

/// If few jobs fail, all are read at once; if many fail, each is looked up.
#[tokio::test]
async fn of_many_jobs_that_end_together_those_recover_that_failed() {
    for mut books in all().await {
        let all = |due: i64, state| (0..3 * FEW).map(move |n| end(&format!("j{n}:{due}:0"), 1, state));
        for (round, failing) in [(1_i64, FEW - 1), (2, FEW), (3, FEW + 1), (4, 2 * FEW)] {
            let failed = all(round * 10, AttemptState::Failed).take(failing).collect();
            assert_eq!(books.write(failed).await.notices.len(), failing);
            let healed = books.write(all(round * 10 + 1, AttemptState::Succeeded).collect()).await.notices;
            let jobs: BTreeSet<String> = healed.iter().map(|notice| notice.job.to_string()).collect();
            assert_eq!(jobs, (0..failing).map(|n| format!("j{n}")).collect::<BTreeSet<_>>());
            assert!(healed.iter().all(|notice| notice.occasion == Occasion::Recovery), "{healed:?}");
        }
    }
}

#[tokio::test]
async fn what_nobody_wants_to_know_is_not_told_but_remembered_for_the_recovery() {
    for mut books in all().await {
        let of = |notify: &Notify, asked: &[Occasion]| NoticePolicy::of(Some(notify), asked, "a");
        let quiet = HistoryWrite::Outcome(Box::new(attempt("j:1000:0", 1, AttemptState::Failed)), None);
        assert_eq!(books.notices(quiet).await, []);
        let only = Notify { on: Some(vec![Occasion::Recovery]), ..Notify::default() };
        let again = Box::new(attempt("j:2000:0", 1, AttemptState::Failed));
        assert_eq!(
            books.notices(HistoryWrite::Outcome(again, of(&only, &Occasion::ALL))).await,
            [],
            "the job says what"
        );
        let healed = Box::new(attempt("j:3000:0", 1, AttemptState::Succeeded));
        let told = books.notices(HistoryWrite::Outcome(healed, of(&only, &[]))).await;
        assert_eq!(told.len(), 1);
        assert!(
            told[0].text.contains("succeeds again on a after failing since 1970-01-01T00:00:05.000Z"),
            "{told:?}"
        );
        assert_eq!(of(&Notify { on: Some(Vec::new()), ..Notify::default() }, &Occasion::ALL), None, "mute");
        assert_eq!(of(&Notify::default(), &[]), None, "nobody asks");
    }
}

#[tokio::test]
async fn verdicts_are_told_once_unless_a_result_says_otherwise() {
    for mut books in all().await {
        assert_eq!(books.kinds(judged("j:1000:0", 1, VerdictState::Lost)).await, ["job.lost"]);
        assert_eq!(
            books.kinds(judged("j:1000:0", 1, VerdictState::Lost)).await,
            [] as [&str; 0],
            "told again by who took over"
        );
        books.write(vec![entry("j:2000:0", 1, AttemptState::Succeeded)]).await;
        assert_eq!(
            books.kinds(judged("j:2000:0", 1, VerdictState::Lost)).await,
            [] as [&str; 0],
            "its end is known"
        );
        assert_eq!(
            books.kinds(end("j:3000:0", 1, AttemptState::Fenced)).await,
            [] as [&str; 0],
            "the verdict follows"
        );
        assert_eq!(books.kinds(judged("j:3000:0", 1, VerdictState::Lost)).await, ["job.lost"]);
        assert_eq!(books.kinds(judged("j:4000:0", 0, VerdictState::Skipped)).await, ["job.miss"]);
        assert_eq!(books.kinds(judged("j:4000:0", 0, VerdictState::Skipped)).await, [] as [&str; 0]);
        assert_eq!(
            books.kinds(end("j:5000:0", 1, AttemptState::Succeeded)).await,
            ["job.recovery"],
            "it was lost before"
        );
    }
}

#[tokio::test]
async fn an_attempt_that_will_not_be_made_is_the_failure_of_the_one_before() {
    for mut books in all().await {
        books
            .write(vec![
                entry("j:1000:0", 1, AttemptState::Failed),
                entry("j:1000:0", 2, AttemptState::Waiting),
            ])
            .await;
        assert_eq!(books.kinds(judged("j:1000:0", 2, VerdictState::Skipped)).await, ["job.failure"]);
        books.write(vec![entry("j:2000:0", 1, AttemptState::Running)]).await;
        assert_eq!(books.kinds(judged("j:2000:0", 1, VerdictState::Lost)).await, ["job.lost"]);
        assert_eq!(
            books.kinds(judged("j:2000:0", 2, VerdictState::Skipped)).await,
            [] as [&str; 0],
            "told as lost"
        );
    }
}

#[tokio::test]
async fn a_verdict_on_many_shards_is_told_as_one() {
    for mut books in all().await {
        let all = evenkeel_core::shards::ShardSet::range(0, 100);
        let verdict = Verdict { shards: all, ..verdict("j:1000:7", VerdictState::Lost) };
        assert_eq!(
            books.kinds(HistoryWrite::Verdict(Box::new(verdict), policy(), VerdictFires::default())).await,
            ["job.lost"]
        );
        let mut one = attempt("j:2000:7", 1, AttemptState::Succeeded);
        one.shard = Shard(7);
        assert_eq!(books.kinds(HistoryWrite::Outcome(Box::new(one), policy())).await, ["job.recovery"]);
    }
}

#[tokio::test]
async fn what_was_not_told_is_told_by_the_next_life_of_the_same_node() {
    for mut books in all().await {
        let told = books.notices(end("j:1000:0", 1, AttemptState::Failed)).await;
        assert_eq!(
            books.notices(HistoryWrite::ResendNotices("b".into())).await,
            [],
            "another node tells its own"
        );
        assert_eq!(books.notices(HistoryWrite::ResendNotices("a".into())).await, told);
        books.write(vec![HistoryWrite::NoticeSent(told[0].seq)]).await;
        assert_eq!(books.notices(HistoryWrite::ResendNotices("a".into())).await, []);
        let events = books.reader.events(EventFilter::default()).await.unwrap();
        let kinds: Vec<_> = events.iter().map(|event| (event.kind.as_str(), event.text.as_str())).collect();
        assert_eq!(kinds, [("job.failure", told[0].text.as_str())], "one event, however often it is told");
    }
}
