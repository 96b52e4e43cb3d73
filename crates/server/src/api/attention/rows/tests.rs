//! Rows are made of the facts of several nodes.

use evenkeel::AttemptState;

use super::*;
use crate::peer::SuccessFact;

fn node(name: &str) -> NodeName {
    name.parse().expect("a name")
}

fn job(name: &str) -> JobName {
    name.parse().expect("a name")
}

fn fact(name: &str, shard: u32, (since, last): (i64, i64), count: u64) -> FailingFact {
    FailingFact {
        job: job(name),
        shard: Shard(shard),
        since: Wall(since),
        last: Wall(last),
        count,
        run: format!("{name}:{last}:{shard}").parse().ok(),
        reason: "exit code 1".to_owned(),
        shards: 1,
    }
}

fn failing_on(all: &[(&str, Vec<FailingFact>)]) -> BTreeMap<NodeName, AttentionFacts> {
    let facts =
        |failing: &Vec<FailingFact>| AttentionFacts { failing: failing.clone(), ..AttentionFacts::default() };
    all.iter().map(|(name, failing)| (node(name), facts(failing))).collect()
}

fn succeeded_on(all: &[(&str, &str, u32, i64)]) -> BTreeMap<NodeName, SuccessFacts> {
    let mut found: BTreeMap<NodeName, SuccessFacts> = BTreeMap::new();
    for (name, of, shard, at) in all {
        let row = SuccessFact { job: job(of), shard: Shard(*shard), at: Wall(*at) };
        found.entry(node(name)).or_default().rows.push(row);
    }
    found
}

fn shown(found: &FoundRows) -> Vec<(&str, u64, &str, Option<&str>)> {
    found
        .rows
        .iter()
        .map(|row| {
            let name = row.job.as_deref().or(row.node.as_deref()).unwrap_or_default();
            (name, row.count, row.since.as_deref().unwrap_or_default(), row.run.as_deref())
        })
        .collect()
}

const AT_1: &str = "1970-01-01T00:00:00.001Z";
const AT_3: &str = "1970-01-01T00:00:00.003Z";

#[test]
fn a_job_fails_as_long_as_no_later_success_is_in_another_history() {
    let facts = failing_on(&[
        ("a", vec![fact("j", 0, (1, 5), 3), fact("k", 0, (3, 3), 1)]),
        ("b", vec![fact("j", 0, (2, 9), 2)]),
    ]);
    let none = BTreeMap::new();
    let found = failing(&facts, &none);
    assert_eq!(shown(&found), [("j", 5, AT_1, Some("j:9:0")), ("k", 1, AT_3, Some("k:3:0"))]);
    assert!(found.rows[0].text.contains("failed 5 times in a row; the last time: exit code 1"));
    assert!(found.rows[1].text.starts_with("job k failed; the last time"), "{}", found.rows[1].text);
    // A success of another shard, in the same history or before the last failure says nothing.
    let others = succeeded_on(&[("b", "k", 1, 8), ("a", "k", 0, 8), ("b", "k", 0, 2), ("c", "other", 0, 8)]);
    assert_eq!(shown(&failing(&facts, &others)).len(), 2);
    let healed = succeeded_on(&[("b", "k", 0, 4), ("c", "j", 0, 7)]);
    let found = failing(&facts, &healed);
    assert_eq!(
        shown(&found),
        [("j", 2, "1970-01-01T00:00:00.007Z", Some("j:9:0"))],
        "k is healed, and what a has of j"
    );
}

#[test]
fn a_job_of_shards_is_one_row() {
    let facts = failing_on(&[("a", vec![fact("j", 3, (3, 5), 2), fact("j", 7, (1, 4), 1)])]);
    let found = failing(&facts, &BTreeMap::new());
    assert_eq!(shown(&found), [("j", 2, AT_1, Some("j:5:3"))]);
    assert!(
        found.rows[0].text.starts_with("2 shards of job j failed, one 2 times in a row"),
        "{}",
        found.rows[0].text
    );
}

#[test]
fn missed_fires_of_all_histories_are_added_up() {
    let missed_fact = |fires, first, last, reason: &str| MissedFact {
        job: job("j"),
        fires,
        first: Wall(first),
        last: Wall(last),
        run: format!("j:{last}:0").parse().ok(),
        reason: reason.to_owned(),
    };
    let on = |name: &str, fact| {
        (node(name), AttentionFacts { missed: vec![fact], missed_more: 2, ..AttentionFacts::default() })
    };
    let facts = [on("a", missed_fact(2, 1, 9, "too old")), on("b", missed_fact(1, 3, 5, "other"))].into();
    let found = missed(&facts);
    assert_eq!(shown(&found), [("j", 3, AT_1, Some("j:9:0"))]);
    assert_eq!(found.more, 4);
    let text = &found.rows[0].text;
    assert_eq!(text, "job j missed 3 fires, the last one of 1970-01-01T00:00:00.009Z: too old");
}

fn running(run: &str, attempt: u32, started: i64) -> RunRecord {
    let run: RunId = run.parse().expect("a run");
    RunRecord {
        seq: 1,
        attempt,
        job: run.job.clone(),
        shard: run.shard,
        due: Wall(started),
        node: "a@1".into(),
        state: AttemptState::Running,
        reason: String::new(),
        sent: String::new(),
        code: None,
        token: None,
        started: Some(Wall(started)),
        ended: None,
        from: Wall(started),
        output: 0,
        parameters: Default::default(),
        run,
    }
}

fn stuck_runs(record: RunRecord, bounds: RunBounds, usual: Option<Millis>, now: i64) -> Option<String> {
    let bounds = [(record.job.clone(), bounds)].into();
    let usual = usual.map(|usual| ((record.run.clone(), record.attempt), usual)).into_iter().collect();
    stuck(&[record], &bounds, &usual, Wall(now)).rows.pop().map(|row| row.text)
}

#[test]
fn a_run_is_stuck_beyond_its_bounds_and_the_time_that_ending_takes() {
    let none = RunBounds::default();
    let of = |bounds: RunBounds, attempt, now| stuck_runs(running("j:1:0", attempt, 1), bounds, None, now);
    assert_eq!(of(none, 1, 1_000_000_000), None, "a job without bounds may run for ever");
    let timeout = RunBounds { timeout: Some(Millis::secs(10)), ..none };
    assert_eq!(of(timeout, 1, 10_001), None, "its processes may be ending");
    let text = of(timeout, 1, 70_002).expect("it is stuck");
    assert!(
        text.contains("its timeout of 10s is over") && text.contains("`evenkeel run kill j:1:0`"),
        "{text}"
    );
    let whole = RunBounds { run_timeout: Some(Millis::secs(10)), ..none };
    assert!(of(whole, 1, 70_002).is_some_and(|text| text.contains("run_timeout of 10s")));
    assert_eq!(of(whole, 2, 70_002), None, "it is not known when its first attempt began");
    let absent = RunBounds { absent_after: Some(Millis::secs(10)), ..none };
    assert_eq!(of(absent, 1, 10_001), None);
    assert!(of(absent, 1, 10_002).is_some_and(|text| text.contains("should have an outcome 10s later")));
    assert_eq!(stuck_runs(running("j:ask-r:0", 1, 1), absent, None, 99_999), None, "it is no fire");
    let usual = stuck_runs(running("j:1:0", 1, 1), none, Some(Millis::secs(3)), 99_999).expect("it is stuck");
    assert!(usual.contains("the longest of its latest successful runs took 3s"), "{usual}");
}

#[test]
fn the_oldest_stuck_run_stands_for_all_of_its_job() {
    let timeout = RunBounds { timeout: Some(Millis(1)), ..RunBounds::default() };
    let attempts = [running("j:3:0", 1, 3), running("j:1:0", 1, 1), running("other:1:0", 1, 1)];
    let found = stuck(&attempts, &[(job("j"), timeout)].into(), &BTreeMap::new(), Wall(99_999));
    assert_eq!(
        shown(&found),
        [("j", 2, AT_1, Some("j:1:0"))],
        "a job that is not searched for has no bounds"
    );
}

#[test]
fn a_fire_that_has_not_begun_is_late_after_a_minute_or_after_what_its_job_says() {
    let row = |of: &str, due: i64| RunRow {
        run: format!("{of}:{due}"),
        job: of.to_owned(),
        shard: 0,
        due: moment(Wall(due)),
        node: String::new(),
        attempt: 1,
        state: "waiting".to_owned(),
        reason: Some("no node holds it".to_owned()),
        started: None,
        ended: None,
        killable: Some(false),
    };
    let rows = [row("j", 3), row("j", 1), row("slow", 1), row("quick", 1)];
    let limits = [(job("slow"), Millis::secs(120)), (job("quick"), Millis::secs(5))].into();
    let of = |now| late(&LateRuns { rows: &rows, limits: &limits, now: Wall(now), more: 0 });
    assert_eq!(shown(&of(5_001)), []);
    assert_eq!(shown(&of(5_002)), [("quick", 1, AT_1, Some("quick:1"))]);
    assert_eq!(shown(&of(60_002)), [("j", 1, AT_1, Some("j:1")), ("quick", 1, AT_1, Some("quick:1"))]);
    let found = of(60_010);
    assert_eq!(shown(&found)[0], ("j", 2, AT_1, Some("j:1")));
    assert_eq!(found.rows[0].text, "run j:1 of job j has not begun: no node holds it");
}

#[test]
fn nodes_have_rows_of_their_own() {
    let health = |offset, trouble: Option<&str>| NodeHealth {
        clock_offset_ms: offset,
        clock_offset_max_ms: 1_000,
        history_trouble: trouble.map(str::to_owned),
        ..NodeHealth::default()
    };
    let healths = [
        (node("a"), health(Some(1_001), None)),
        (node("b"), health(Some(1_000), Some("the disk is full"))),
        (node("c"), health(None, None)),
    ]
    .into();
    let (clocks, histories) = (clocks(&healths), histories(&healths));
    assert_eq!(shown(&clocks), [("a", 1, "", None)]);
    assert_eq!(shown(&histories), [("b", 1, "", None)]);
    assert!(histories.rows[0].text.contains("the disk is full"));
    let offline = offline(vec![(node("d"), Some(Wall(1)))]);
    assert_eq!(shown(&offline), [("d", 1, AT_1, None)]);
}

#[test]
fn unschedulable_jobs_come_by_the_time_that_they_wait() {
    let of = |name: &str, since: Option<i64>| UnschedulableJob {
        job: job(name),
        since: since.map(Wall),
        why: "no living node fits disk=ssd".to_owned(),
    };
    let found = unschedulable(vec![of("b", None), of("c", Some(3)), of("a", None), of("d", Some(1))], 7);
    assert_eq!(
        shown(&found),
        [("d", 1, AT_1, None), ("c", 1, AT_3, None), ("a", 1, "", None), ("b", 1, "", None)]
    );
    assert_eq!(found.more, 7);
}
