//! Roll-ups are kept for their time, made of rows of an earlier version, and merged.

use super::*;

/// proves: I48
#[tokio::test]
async fn roll_ups_outlive_the_rows_and_go_at_their_own_age() {
    for mut books in all().await {
        let runs: Vec<_> =
            (0..6_000).map(|n| end(&format!("j{n}:1000:0"), 1, AttemptState::Succeeded)).collect();
        books.write(runs).await;
        books.write(vec![end(&format!("j:{}:0", 24 * HOUR), 1, AttemptState::Succeeded)]).await;
        assert_eq!(books.summary(all_hours()).await.totals.ran, 6_001);
        let day = Duration::from_hours(24);
        let keep = Retention { age: day, summary: 3 * day, ..Retention::default() };
        let mut sweeper = retention::RetentionSweeper::new(keep);
        let mut sweep = async |books: &mut HistoryFixture, mono, days: i64| {
            let now = Now { mono: Mono(mono), wall: Wall(days * 24 * HOUR) };
            sweeper.sweep(&mut books.link, BTreeMap::new(), now).await.unwrap();
            [books.count("attempt").await, books.count("rollup_job").await, books.count("rollup_hour").await]
        };
        assert_eq!(sweep(&mut books, 0, 3).await, [1_001, 6_001, 4]);
        assert_eq!(sweep(&mut books, 10_000, 3).await, [0, 6_001, 4], "the rows are gone");
        assert_eq!(books.summary(all_hours()).await.totals.ran, 6_001);
        assert_eq!(sweep(&mut books, 20_000, 4).await, [0, 1_001, 2], "a little at a time");
        assert_eq!(sweep(&mut books, 20_200, 4).await, [0, 1, 2]);
        assert_eq!(books.summary(all_hours()).await.totals.ran, 1);
        // A late entry of a run without a row.
        books.write(vec![judged("j:1000:0", 1, VerdictState::Lost, AGAIN)]).await;
        assert_eq!(books.totals().await, ran(1));
    }
}

#[tokio::test]
async fn rows_of_an_earlier_version_are_counted_once() {
    for mut books in all().await {
        let old: Vec<_> =
            (0..5_500).map(|n| end(&format!("j{n}:1000:0"), 1, AttemptState::Succeeded)).collect();
        books.write(old).await;
        let mut late = attempt("late:1000:0", 1, AttemptState::Failed);
        late.started = Some(late.due + Millis::secs(61));
        books
            .write(vec![
                HistoryWrite::Outcome(Box::new(late), None),
                entry("k:1000:0", 1, AttemptState::Failed),
                end("k:1000:0", 2, AttemptState::Succeeded),
                end("m:1000:0", 1, AttemptState::Fenced),
                judged("n:1000:0", 1, VerdictState::Lost, AGAIN),
                judged("o:1000:0", 1, VerdictState::Lost, OVER),
                entry("p:1000:0", 1, AttemptState::Running),
                end("q:ask-1:0", 1, AttemptState::Succeeded),
            ])
            .await;
        // As the migration leaves it.
        for text in [
            "DELETE FROM {rollup_job}",
            "DELETE FROM {rollup_pending}",
            "DELETE FROM {rollup_hour}",
            "UPDATE {attempt} SET counted = 0",
        ] {
            let table = text.split(['{', '}']).nth(1).unwrap();
            let text = text.replace(&format!("{{{table}}}"), &books.link.table(table));
            let statement = books.link.statement(text);
            books.link.run(statement).await.unwrap();
        }
        let last = books.count("attempt").await;
        let text = format!("UPDATE {} SET next = 0, last = {last}", books.link.table("rollup_state"));
        let statement = books.link.statement(text);
        books.link.run(statement).await.unwrap();
        // Meanwhile a run of before goes on.
        books.write(vec![end("p:1000:0", 1, AttemptState::Succeeded)]).await;
        let mut sweeper = retention::RetentionSweeper::new(Retention::default());
        for mono in [0, 200, 10_000] {
            let now = Now { mono: Mono(mono), wall: Wall(HOUR) };
            sweeper.sweep(&mut books.link, BTreeMap::new(), now).await.unwrap();
        }
        let wanted = FireCounts { ran: 5_502, failed: 3, late: 1, manual: 1, ..FireCounts::default() };
        assert_eq!(FireCounts { run_millis: 0, ..books.summary(all_hours()).await.totals }, wanted);
        books.write(vec![end("j7:1000:0", 2, AttemptState::Failed)]).await;
        let moved = FireCounts { ran: 5_501, failed: 4, ..wanted };
        assert_eq!(FireCounts { run_millis: 0, ..books.summary(all_hours()).await.totals }, moved);
    }
}

/// What roll-ups cost the writer: a final attempt that is not the last of its run is written in the same way, and counts
/// nothing.
#[tokio::test]
#[ignore = "soak: prints how long batches take"]
#[expect(clippy::disallowed_methods, reason = "a batch takes less than the milliseconds that nodes know")]
async fn what_roll_ups_cost_a_batch() {
    for mut books in all().await {
        let mut batch_of = async |round: i64, counted: bool| {
            let write = |n: i64| {
                let run = format!("job-{n}:{}:0", round * 1_000 + n);
                let mut record = attempt(&run, 1, AttemptState::Succeeded);
                record.due = Wall(round * 1_000 + n);
                match counted {
                    true => HistoryWrite::Outcome(Box::new(record), None),
                    false => HistoryWrite::Attempt(Box::new(record)),
                }
            };
            let batch = (0..1_000).map(write).collect();
            let begun = std::time::Instant::now();
            books.write(batch).await;
            begun.elapsed()
        };
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for round in 0..60 {
            with.push(batch_of(2 * round, true).await);
            without.push(batch_of(2 * round + 1, false).await);
        }
        with.sort_unstable();
        without.sort_unstable();
        println!(
            "a batch of 1,000 attempts of 1,000 jobs: {:?}, without roll-ups {:?}",
            with[30], without[30]
        );
    }
}

#[tokio::test]
async fn an_idle_node_merges_the_counts_of_its_jobs() {
    for (_folder, place) in locations() {
        let (events, _news) = mpsc::unbounded_channel();
        let (history, reader) =
            History::open(place, "a", Retention::default(), events, Arc::default()).await.unwrap();
        // What is older than roll-ups are kept would be deleted at once.
        let now = crate::clock::now().wall.0;
        history.put(end(&format!("j:{now}:0"), 1, AttemptState::Succeeded));
        assert!(history.settle(Duration::from_secs(120)).await);
        let (since, jobs) = (now / HOUR, Some(vec!["j".parse().unwrap()]));
        let of_job = || SummaryFilter { since, until: since + 1, jobs: jobs.clone(), ..all_hours() };
        let merged = async {
            while reader.summary(of_job()).await.unwrap().totals.ran == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(120), merged).await.expect("the counts are merged");
        history.close(Duration::from_secs(120)).await;
    }
}
