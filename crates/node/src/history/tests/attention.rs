//! What may need a person is found: failing shards and missed fires.

use evenkeel_core::ids::Namespace;

use super::*;

fn end(run: &str, state: AttemptState) -> HistoryWrite {
    let mut record = attempt(run, 1, state);
    record.shard = record.run.shard;
    HistoryWrite::Outcome(Box::new(record), None)
}

fn skipped(run: &str, attempt: u32, span: (i64, i64)) -> HistoryWrite {
    let (from, due) = (Wall(span.0), Wall(span.1));
    let verdict = Verdict { attempt, from, due, ..verdict(run, VerdictState::Skipped) };
    HistoryWrite::Verdict(Box::new(verdict), None, VerdictFires::default())
}

#[tokio::test]
async fn a_shard_fails_from_its_first_failure_to_its_next_success() {
    for mut books in all().await {
        let failing = async |books: &HistoryFixture| {
            let found = books.reader.failing().await.unwrap();
            found.into_iter().map(|it| format!("{} {} {}", it.job, it.shard, it.since.0)).collect::<Vec<_>>()
        };
        assert_eq!(failing(&books).await, [] as [&str; 0]);
        books.write(vec![end("k:1000:3", AttemptState::Failed), end("j:1000:0", AttemptState::Failed)]).await;
        books
            .write(vec![end("k:1000:4", AttemptState::TimedOut), end("j:2000:0", AttemptState::Killed)])
            .await;
        assert_eq!(failing(&books).await, ["j 0 5000", "k 3 5000", "k 4 5000"]);
        books.write(vec![end("j:3000:0", AttemptState::Succeeded)]).await;
        assert_eq!(failing(&books).await, ["k 3 5000", "k 4 5000"]);
    }
}

#[tokio::test]
async fn missed_fires_are_counted_for_each_job_since_a_moment() {
    for mut books in all().await {
        books
            .write(vec![
                skipped("j:1000:0", 0, (500, 1000)),
                skipped("j:2000:0", 1, (2000, 2000)),
                skipped("team/k:3000:0", 0, (3000, 3000)),
                skipped("old:900:0", 0, (900, 900)),
                skipped("retried:2000:0", 2, (2000, 2000)),
                skipped("asked:ask-r:0", 1, (2000, 2000)),
                end("fine:2000:0", AttemptState::Succeeded),
            ])
            .await;
        let missed = async |namespace: Option<Namespace>| {
            let found = books.reader.missed(Wall(1000), namespace).await.unwrap();
            let row = |it: MissedFires| format!("{} {} {}-{}", it.job, it.records, it.first.0, it.last.0);
            found.into_iter().map(row).collect::<Vec<_>>()
        };
        assert_eq!(missed(None).await, ["team/k 1 3000-3000", "j 2 500-2000"]);
        assert_eq!(missed(Some("team".parse().unwrap())).await, ["team/k 1 3000-3000"]);
        assert_eq!(missed(Some("default".parse().unwrap())).await, ["j 2 500-2000"]);
    }
}
