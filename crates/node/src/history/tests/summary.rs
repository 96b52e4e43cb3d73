//! Roll-ups count each fire once, and outlive the rows of its attempts.

use evenkeel_core::ids::{JobName, Namespace};
use evenkeel_core::schedule::Schedule;

use super::*;
use crate::history::summary::{FireCounts, SummaryBy, SummaryFilter, SummaryOrder, SummaryPart};

const HOUR: i64 = 3_600_000;

fn all_hours() -> SummaryFilter {
    SummaryFilter {
        by: SummaryBy::Hour,
        since: 0,
        until: 240,
        namespace: None,
        jobs: None,
        order: SummaryOrder::Name,
        after: None,
        limit: 100,
    }
}

/// The last attempt of a run; it was due at the moment in the run's name, and took a millisecond.
fn end(run: &str, n: u32, state: AttemptState) -> HistoryWrite {
    let mut record = attempt(run, n, state);
    record.due = due(run);
    HistoryWrite::Outcome(Box::new(record), None)
}

fn due(run: &str) -> Wall {
    Wall(run.split(':').nth(1).and_then(|due| due.parse().ok()).unwrap_or(1000))
}

fn judged(run: &str, attempt: u32, state: VerdictState, reason: &str) -> HistoryWrite {
    let verdict =
        Verdict { attempt, due: due(run), from: due(run), reason: reason.into(), ..verdict(run, state) };
    HistoryWrite::Verdict(Box::new(verdict), None, VerdictFires::default())
}

const AGAIN: &str = "its node is gone; another attempt follows";
const OVER: &str = "its node is gone; it is not repeated: delivery is at_most_once";

impl HistoryFixture {
    async fn summary(&mut self, filter: SummaryFilter) -> SummaryPart {
        let mut more = true;
        while more {
            self.link.lock().await.unwrap();
            more = crate::history::summary::store::merge(&mut self.link).await.unwrap();
            self.link.commit().await.unwrap();
        }
        self.reader.summary(filter).await.unwrap()
    }

    /// The counts without the run time, and that each kind of question gives the same.
    async fn totals(&mut self) -> FireCounts {
        let by = |by| SummaryFilter { by, ..all_hours() };
        let hours = self.summary(by(SummaryBy::Hour)).await;
        let (mut sum, mut of_jobs) = (FireCounts::default(), FireCounts::default());
        hours.rows.iter().for_each(|row| sum.add(&row.counts));
        self.summary(by(SummaryBy::Job)).await.rows.iter().for_each(|row| of_jobs.add(&row.counts));
        let days = self.summary(by(SummaryBy::Day)).await;
        assert_eq!([sum, of_jobs, days.totals], [hours.totals; 3]);
        FireCounts { run_millis: 0, ..sum }
    }
}

fn ran(ran: u64) -> FireCounts {
    FireCounts { ran, ..FireCounts::default() }
}

fn failed(failed: u64) -> FireCounts {
    FireCounts { failed, ..FireCounts::default() }
}

#[tokio::test]
async fn each_fire_counts_once_by_its_outcome() {
    for mut books in all().await {
        let ends = [
            ("a", AttemptState::Succeeded),
            ("b", AttemptState::Failed),
            ("c", AttemptState::TimedOut),
            ("d", AttemptState::Killed),
        ];
        let batch: Vec<_> =
            ends.iter().map(|(job, state)| end(&format!("{job}:1000:0"), 1, *state)).collect();
        books.write(batch.clone()).await;
        let wanted = FireCounts { ran: 1, failed: 2, killed: 1, ..FireCounts::default() };
        assert_eq!(books.totals().await, wanted);
        assert_eq!(wanted.expected(), 4);
        // The same entries, in another batch, and in one whose commit was not answered.
        books.write(batch.clone()).await;
        books.write(vec![end("b:1000:0", 1, AttemptState::Succeeded)]).await;
        let done = books.write(batch.clone()).await;
        books.rewrite(batch, Some(done)).await;
        assert_eq!(books.totals().await, wanted, "a final state is never overwritten");
        books
            .write(vec![
                end("a:1000:1", 1, AttemptState::Succeeded),
                entry("e:1000:0", 1, AttemptState::Running),
            ])
            .await;
        assert_eq!(books.totals().await, FireCounts { ran: 2, ..wanted }, "shards count, what runs does not");
        let sum = books.summary(all_hours()).await.totals;
        assert_eq!(sum.run_millis, 5);
    }
}

#[tokio::test]
async fn retries_are_one_fire() {
    for mut books in all().await {
        for (n, state) in [(1, AttemptState::Failed), (2, AttemptState::Waiting), (2, AttemptState::Running)]
        {
            books.write(vec![entry("j:1000:0", n, state)]).await;
            assert_eq!(books.totals().await, FireCounts::default(), "attempt {n} {state:?}");
        }
        books.write(vec![end("j:1000:0", 2, AttemptState::Succeeded)]).await;
        assert_eq!(books.totals().await, ran(1));
        let waits = [entry("k:1000:0", 1, AttemptState::Failed), entry("k:1000:0", 2, AttemptState::Waiting)];
        books.write(waits.to_vec()).await;
        books.write(vec![end("k:1000:0", 2, AttemptState::Failed)]).await;
        assert_eq!(books.totals().await, FireCounts { ran: 1, ..failed(1) });
        // The node of a failed run was gone before the registry knew its end, so it was attempted again.
        books.write(vec![judged("k:1000:0", 2, VerdictState::Lost, AGAIN)]).await;
        books.write(vec![entry("k:1000:0", 3, AttemptState::Running)]).await;
        books.write(vec![end("k:1000:0", 3, AttemptState::Succeeded)]).await;
        assert_eq!(books.totals().await, ran(2), "the count has moved");
        assert_eq!(books.summary(all_hours()).await.totals.run_millis, 2);
        books.write(vec![judged("k:1000:0", 2, VerdictState::Lost, OVER)]).await;
        assert_eq!(books.totals().await, ran(2), "an earlier attempt decides nothing");
    }
}

#[tokio::test]
async fn what_is_cut_off_counts_by_the_verdict_that_follows() {
    for mut books in all().await {
        books.write(vec![end("j:1000:0", 1, AttemptState::Fenced)]).await;
        assert_eq!(books.totals().await, FireCounts::default(), "another attempt may follow");
        books.write(vec![judged("j:1000:0", 1, VerdictState::Lost, OVER)]).await;
        books.write(vec![judged("j:1000:0", 1, VerdictState::Lost, OVER)]).await;
        assert_eq!(books.totals().await, failed(1));
        books.write(vec![end("k:1000:0", 1, AttemptState::Fenced)]).await;
        books.write(vec![judged("k:1000:0", 1, VerdictState::Lost, AGAIN)]).await;
        assert_eq!(books.totals().await, failed(1));
        books.write(vec![end("k:1000:0", 2, AttemptState::Succeeded)]).await;
        assert_eq!(books.totals().await, FireCounts { ran: 1, ..failed(1) });
        let gone = |n| judged("l:1000:0", n, VerdictState::Lost, OVER);
        let no_more =
            judged("l:1000:0", 2, VerdictState::Skipped, "not attempted again: the attempt before is lost");
        books.write(vec![entry("l:1000:0", 1, AttemptState::Running)]).await;
        books.write(vec![gone(1), no_more.clone()]).await;
        books.write(vec![gone(1), no_more]).await;
        assert_eq!(books.totals().await, FireCounts { ran: 1, ..failed(2) }, "two verdicts on one fire");
        books.write(vec![end("m:1000:0", 1, AttemptState::Succeeded)]).await;
        books.write(vec![judged("m:1000:0", 1, VerdictState::Lost, OVER)]).await;
        assert_eq!(
            books.totals().await,
            FireCounts { ran: 2, ..failed(2) },
            "a result says more than a verdict"
        );
    }
}

#[tokio::test]
async fn fires_that_did_not_run_are_missed_or_skipped_and_manual_runs_are_apart() {
    for mut books in all().await {
        let late = judged("a:1000:0", 0, VerdictState::Skipped, "older than the grace of 60 s");
        let overlaps =
            judged("b:1000:0", 0, VerdictState::Skipped, "came due while the run before was going on");
        let cancelled = judged("c:1000:0", 1, VerdictState::Skipped, "ended by an operator");
        books.write(vec![late.clone(), overlaps, cancelled]).await;
        books.write(vec![late]).await;
        let wanted = FireCounts { missed: 1, skipped: 2, ..FireCounts::default() };
        assert_eq!(books.totals().await, wanted);
        let manual = [AttemptState::Succeeded, AttemptState::Failed];
        for (n, state) in manual.into_iter().enumerate() {
            books.write(vec![end(&format!("a:ask-{n}:0"), 1, state)]).await;
        }
        assert_eq!(books.totals().await, FireCounts { manual: 2, ..wanted });
    }
}

#[tokio::test]
async fn a_skipped_span_counts_all_its_fires_in_their_hours() {
    for mut books in all().await {
        let schedule = Some(Box::new(Schedule::parse("@every 15m", "UTC").unwrap()));
        let last = format!("j:{}:3", 30 * HOUR);
        let span = Verdict {
            attempt: 0,
            from: Wall(22 * HOUR),
            due: Wall(30 * HOUR),
            reason: "all fires from x on are older than the grace of 60 s".into(),
            shards: evenkeel_core::shards::ShardSet::range(3, 5),
            ..verdict(&last, VerdictState::Skipped)
        };
        let fires = VerdictFires { schedule, elsewhere: false };
        let span = HistoryWrite::Verdict(Box::new(span), None, fires);
        books.write(vec![span.clone()]).await;
        books.write(vec![span]).await;
        let shards = 2;
        assert_eq!(books.totals().await, FireCounts { missed: 33 * shards, ..FireCounts::default() });
        let rows = books.summary(all_hours()).await.rows;
        let hours: Vec<_> = rows.iter().map(|row| (row.hour.unwrap(), row.counts.missed)).collect();
        let wanted: Vec<_> = (22..30).map(|hour| (hour, 4 * shards)).chain([(30, shards)]).collect();
        assert_eq!(hours, wanted);
        let days = books.summary(SummaryFilter { by: SummaryBy::Day, since: 23, ..all_hours() }).await.rows;
        let days: Vec<_> = days.iter().map(|row| (row.hour.unwrap(), row.counts.missed)).collect();
        assert_eq!(days, [(0, 4 * shards), (24, 25 * shards)], "only the hours that are asked for");
    }
}

#[tokio::test]
async fn a_late_start_counts_once_and_only_if_it_was_made() {
    for mut books in all().await {
        let late = || HistoryWrite::StartedLate("j:1000:0".parse().unwrap());
        let running = entry("j:1000:0", 1, AttemptState::Running);
        books.write(vec![running.clone(), late()]).await;
        books.write(vec![running.clone(), late()]).await;
        assert_eq!(books.totals().await, FireCounts { late: 1, ..FireCounts::default() });
        books.write(vec![HistoryWrite::NotStarted { run: "j:1000:0".parse().unwrap(), attempt: 1 }]).await;
        assert_eq!(books.totals().await, FireCounts::default());
        books.write(vec![running, late(), end("j:1000:0", 1, AttemptState::Succeeded)]).await;
        assert_eq!(books.totals().await, FireCounts { late: 1, ..ran(1) });
    }
}

/// A verdict and the attempt that follows it may be in the histories of two nodes.
#[tokio::test]
async fn the_histories_of_two_nodes_add_up_to_one_fire_each() {
    let (mut left, mut right) = (all().await, all().await);
    let (mut a, mut b) = (left.remove(0), right.remove(0));
    // A node dies, and another one repeats its run; a third job's run is lost.
    for run in ["j:1000:0", "k:1000:0", "m:1000:0"] {
        a.write(vec![entry(run, 1, AttemptState::Running)]).await;
    }
    b.write(vec![judged("j:1000:0", 1, VerdictState::Lost, AGAIN)]).await;
    b.write(vec![entry("j:1000:0", 2, AttemptState::Running), end("j:1000:0", 2, AttemptState::Succeeded)])
        .await;
    b.write(vec![judged("m:1000:0", 1, VerdictState::Lost, OVER)]).await;
    // The planner's history has the verdict, and that of another node the attempt.
    b.write(vec![judged("k:1000:0", 1, VerdictState::Lost, AGAIN)]).await;
    a.write(vec![end("k:1000:0", 2, AttemptState::Failed)]).await;
    // It fails on one node, and its retry succeeds on another.
    a.write(vec![entry("l:1000:0", 1, AttemptState::Failed), entry("l:1000:0", 2, AttemptState::Waiting)])
        .await;
    b.write(vec![end("l:1000:0", 2, AttemptState::Succeeded)]).await;
    // It is cut off on one node, and attempted again on another.
    a.write(vec![end("n:1000:0", 1, AttemptState::Fenced)]).await;
    b.write(vec![judged("n:1000:0", 1, VerdictState::Lost, AGAIN)]).await;
    b.write(vec![end("n:1000:0", 2, AttemptState::Succeeded)]).await;
    // The node of a dispatched run and its planner write one verdict.
    let skip = Verdict {
        attempt: 0,
        reason: "came due while the run before was going on".into(),
        ..verdict("o:1000:0", VerdictState::Skipped)
    };
    let of_planner = VerdictFires { schedule: None, elsewhere: true };
    a.write(vec![HistoryWrite::Verdict(Box::new(skip.clone()), None, of_planner.clone())]).await;
    b.write(vec![HistoryWrite::Verdict(Box::new(skip.clone()), None, VerdictFires::default())]).await;
    let mut sum = a.totals().await;
    sum.add(&b.totals().await);
    assert_eq!(sum, FireCounts { ran: 3, failed: 2, skipped: 1, ..FireCounts::default() });
    // In one history the node's entry counts, whichever came first.
    b.write(vec![HistoryWrite::Verdict(Box::new(skip), None, of_planner)]).await;
    assert_eq!(b.totals().await.skipped, 1);
}

#[tokio::test]
async fn jobs_are_listed_page_by_page_by_namespace_and_by_trouble() {
    for mut books in all().await {
        let jobs = ["a", "b", "c", "team/a", "team/b"];
        for (n, job) in jobs.iter().enumerate() {
            let at = |fire: usize| format!("{job}:{}:0", (fire as i64 % 3) * 24 * HOUR);
            let ends = (0..3).map(|fire| {
                let state = if fire < n { AttemptState::Failed } else { AttemptState::Succeeded };
                end(&at(fire), 1, state)
            });
            books.write(ends.collect()).await;
        }
        let by_job = SummaryFilter { by: SummaryBy::Job, limit: 2, ..all_hours() };
        let names = |part: &SummaryPart| -> Vec<String> {
            part.rows.iter().map(|row| row.job.as_ref().unwrap().to_string()).collect()
        };
        let (mut pages, mut after): (Vec<Vec<String>>, Option<JobName>) = (Vec::new(), None);
        loop {
            let part = books.summary(SummaryFilter { after: after.take(), ..by_job.clone() }).await;
            assert_eq!((part.totals.ran, part.totals.failed), (6, 9), "of all pages");
            pages.push(names(&part));
            after = part.after;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(pages, [vec!["a", "b"], vec!["c", "team/a"], vec!["team/b"]]);
        let team: Namespace = "team".parse().unwrap();
        let of_team = books.summary(SummaryFilter { namespace: Some(team), ..by_job.clone() }).await;
        assert_eq!((names(&of_team), of_team.totals.failed), (vec!["team/a".into(), "team/b".into()], 6));
        let default = SummaryFilter { namespace: Some(Namespace::default()), limit: 9, ..by_job.clone() };
        assert_eq!(names(&books.summary(default).await), ["a", "b", "c"]);
        let troubled = SummaryFilter { order: SummaryOrder::Trouble, ..by_job.clone() };
        let part = books.summary(troubled.clone()).await;
        assert_eq!(names(&part), ["team/a", "team/b", "c", "b"]);
        assert_eq!(
            (part.rows[3].counts.ran, part.rows[3].counts.failed),
            (2, 1),
            "days without trouble count"
        );
        let second = SummaryFilter { since: 24, until: 48, ..troubled };
        assert_eq!(names(&books.summary(second).await), ["c", "team/a", "team/b"]);
        for days in [1, 10] {
            let jobs = ["c", "team/b", "z"].map(|job| job.parse().unwrap()).to_vec();
            let these = SummaryFilter { jobs: Some(jobs), until: days * 24, limit: 9, ..by_job.clone() };
            let part = books.summary(these.clone()).await;
            assert_eq!(names(&part), ["c", "team/b"], "in {days} days");
            let by_day = books.summary(SummaryFilter { by: SummaryBy::Day, ..these }).await;
            assert_eq!(by_day.totals, part.totals);
            assert_eq!(by_day.rows.len(), if days == 1 { 1 } else { 3 });
        }
    }
}

mod upkeep;
