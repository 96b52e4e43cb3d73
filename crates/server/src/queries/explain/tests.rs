//! Tests explanations of jobs in states that a live cluster seldom stays in.

use std::collections::BTreeMap;

use evenkeel_core::capacity::CapacityNode;
use evenkeel_core::ids::Fire;
use evenkeel_core::job::{JobFile, Spec, Work};
use evenkeel_core::load::{HostLoad, Score};
use evenkeel_core::record::{
    Attempt, BeatRecord, ClusterSettings, LoadRecord, Plan, PlannedNode, PlannerKind, RunPermit, RunState,
    ServingRecord, TriggerRequest,
};

use super::*;

/// A moment at which the schedule is due.
const T: i64 = 1_795_259_680_000;

fn capacity_node(name: &str, held: usize) -> CapacityNode {
    CapacityNode { name: name.parse().expect("a name"), held, tolerance: 1, drained: false, cordoned: false }
}

/// A job on the first of two nodes, due every ten seconds.
fn held() -> ExplainContext {
    let job = JobFile::new("j".parse().expect("a name"), "*/10 * * * * *", Work::Function("f".to_owned()));
    let members: Vec<Member> = ["a@1", "b@2"].map(|text| text.parse().expect("a member")).into();
    ExplainContext {
        spec: Spec::new(Job::parse(job).expect("a valid job"), 1, Wall(T - 60_000)),
        calendars: Some(evenkeel_core::schedule::CalendarFilter::default()),
        missing: None,
        epoch: 9,
        owner: members.first().cloned(),
        sharding: None,
        limits: Vec::new(),
        waiting: Vec::new(),
        in_the_way: None,
        troubles: HistoryFaults::default(),
        standings: vec![capacity_node("a", 3), capacity_node("b", 2)],
        jobs: 5,
        slots: [("a".to_owned(), 4), ("b".to_owned(), 4)].into(),
        loads: BTreeMap::new(),
        me: ("b".parse().expect("a name"), 4),
        settings: ClusterSettings::default(),
        beat: None,
        serving: None,
        now: Wall(T + 500),
        members,
    }
}

fn run_state(watermark: i64) -> RunState {
    RunState { watermark: Wall(watermark), seq: 3, ..RunState::default() }
}

fn claimed(known: &ExplainContext, run_state: &RunState) -> String {
    let mut told = ExplanationRow::of("job j".to_owned());
    claimed::explain(known, Some(run_state), &mut told);
    let now = told.points.last().expect("a point");
    assert_eq!(now.about, "now");
    assert!(told.says.ends_with(&now.says), "{}", told.says);
    format!("{}: {}", now.rule.as_deref().unwrap_or("-"), now.says)
}

fn busy(known: &mut ExplainContext, node: &str, busy: u32) {
    let load = LoadRecord {
        incarnation: 1,
        at: Wall(T),
        sample: HostLoad::default(),
        busy,
        dispatched: 0,
        slots: 4,
        score: Score(6_850),
        seq: 1,
    };
    known.loads.insert(node.parse().expect("a name"), load);
}

#[test]
fn a_claimed_job_says_why_it_does_not_run() {
    let mut known = held();
    let (settled, behind) = (run_state(T), run_state(T - 10_000));
    assert_eq!(claimed(&known, &settled), "firing: it is not due before 2026-11-21T11:14:50.000Z");
    assert_eq!(claimed(&known, &behind), "firing: it is due and about to be claimed");
    busy(&mut known, "a", 4);
    let full = "firing: it is due, but a has no free slot: 4 of 4 are busy";
    assert_eq!(claimed(&known, &behind), full);
    known.standings[0].drained = true;
    assert_eq!(claimed(&known, &behind), "drain: a drains and gives it up");
    known.spec.paused = true;
    known.standings[0].drained = false;
    assert!(claimed(&known, &behind).starts_with("control: it is paused"));
    known.spec.job = known.spec.job.changed(|job| job.enabled = false).expect("a valid job");
    known.in_the_way = Some("job j is disabled".to_owned());
    assert_eq!(claimed(&known, &behind), "control: job j is disabled");

    let mut known = held();
    known.members.remove(0);
    assert!(claimed(&known, &behind).starts_with("claims: a@1 is gone"));
    known.owner = None;
    assert_eq!(claimed(&known, &behind), "claims: it is free, and nodes with room claim it");
    known.standings.iter_mut().for_each(|standing| standing.held = 99);
    assert!(
        claimed(&known, &behind).starts_with("claims: the 2 nodes that work hold as many jobs as they may")
    );
    for node in ["a", "b"] {
        known.troubles.insert(node.parse().expect("a name"), "the history x takes no entries".to_owned());
    }
    let stuck = "claims: node a starts nothing: the history x takes no entries";
    assert_eq!(claimed(&known, &behind), stuck);
    known.in_the_way = Some("every node that fits gpu drains".to_owned());
    assert_eq!(claimed(&known, &behind), "claims: every node that fits gpu drains");
}

fn requested(known: &mut ExplainContext) {
    let (id, former) = ("r".parse().expect("an id"), std::collections::BTreeSet::new());
    let shards = evenkeel_core::shards::ShardSet::empty();
    let request = TriggerRequest {
        id,
        at: Wall(T),
        taken: false,
        node: None,
        shards,
        former,
        parameters: evenkeel_core::job::RunParameters::default(),
        taken_back: None,
    };
    known.waiting.push(request);
}

fn pool(most: usize) -> KnownLimit {
    KnownLimit { limit: RunLimit::Pool("db".parse().expect("a name")), most, permits: Vec::new() }
}

fn reasons(waits: Vec<context::WaitingRun>) -> Vec<(String, bool)> {
    waits.into_iter().map(|waits| (waits.why, waits.killable)).collect()
}

#[test]
fn a_request_waits_for_the_same_reason_whoever_asks() {
    let mut known = held();
    requested(&mut known);
    known.spec.job = known.spec.job.changed(|job| job.schedule = String::new()).expect("a valid job");
    busy(&mut known, "a", 4);
    let run_state = run_state(T);
    let full = "a has no free slot: 4 of 4 are busy";
    assert_eq!(reasons(claimed::waiting(&known, Some(&run_state))), [(full.to_owned(), true)]);
    let told = format!("firing: request r of {} waits: {full}", moment(Wall(T)));
    assert_eq!(claimed(&known, &run_state), told);
    known.loads.clear();
    known.troubles.insert("a".parse().expect("a name"), "no entries".to_owned());
    let stuck = "node a starts nothing: no entries";
    assert_eq!(reasons(claimed::waiting(&known, Some(&run_state))), [(stuck.to_owned(), true)]);
    known.in_the_way = Some("no node takes part in job j".to_owned());
    let all = [("no node takes part in job j".to_owned(), true)];
    assert_eq!(reasons(claimed::waiting(&known, Some(&run_state))), all);
    assert_eq!(reasons(sharded::waiting(&known, &BTreeMap::new())), all);
    assert_eq!(reasons(dispatched::waiting(&known, None)), all);
    let mut told = ExplanationRow::of("job j".to_owned());
    sharded::explain(&known, &BTreeMap::new(), &mut told);
    assert!(told.says.ends_with("; no node takes part in job j"), "{}", told.says);
}

#[test]
fn a_planned_run_behind_one_that_goes_on_waits_for_it() {
    let mut known = held();
    let run = |due: i64, from| Attempt {
        from,
        choice: Some(PlannedNode { free: 1, planned_for: None }.into()),
        ..Attempt::first(Fire::Due(Wall(due)), Wall(due), "b@2".parse().expect("a member"))
    };
    let going = Some(Wall(T - 10_000));
    let plan =
        Plan { watermark: Wall(T), runs: vec![run(T - 10_000, going), run(T, None)], ..Plan::default() };
    let before = "it waits for the end of run j:1795259670000:0";
    assert_eq!(reasons(dispatched::waiting(&known, Some(&plan))), [(before.to_owned(), true)]);
    let told = dispatched(&known, &plan);
    assert!(
        told.iter().any(|line| line.starts_with("run j:1795259680000:0 is due; it waits for")),
        "{told:?}"
    );
    known.spec.job = known
        .spec
        .job
        .changed(|job| job.overlap = evenkeel_core::job::Overlap::Limit(2))
        .expect("a valid job");
    let soon = [("b is about to take it".to_owned(), true)];
    assert_eq!(reasons(dispatched::waiting(&known, Some(&plan))), soon);
}

#[test]
fn an_open_fire_is_under_way_or_ahead_or_orphaned() {
    let mut known = held();
    let open = |from| {
        let (by, due) = ("a@1".parse().expect("a member"), Wall(T));
        let first = Attempt::first(Fire::Due(due), due, by);
        let open = Attempt { from: Some(Wall(from)), attempt: 2, seq: 3, back: Wall(0), ..first };
        RunState { open: vec![open], ..run_state(T) }
    };
    let run = "run j:1795259680000:0";
    assert_eq!(claimed(&known, &open(T)), format!("firing: {run} is under way on a, attempt 2"));
    let ahead = format!("firing: {run} is claimed ahead by a and starts at 2026-11-21T11:14:41.000Z");
    assert_eq!(claimed(&known, &open(T + 1_000)), ahead);
    known.limits.push(pool(1));
    let waits = format!("pools: {run} is claimed by a and waits for a permit of pool db");
    assert_eq!(claimed(&known, &open(T)), waits);
    assert_eq!(claimed(&known, &open(T + 1_000)), ahead);
    let permit = RunPermit {
        run: "j:1795259680000:0".parse().expect("a run"),
        by: known.members[0].clone(),
        limit: 1,
    };
    known.limits[0].permits.push(permit);
    assert_eq!(claimed(&known, &open(T)), format!("firing: {run} is under way on a, attempt 2"));
    known.members.remove(0);
    assert!(claimed(&known, &open(T)).starts_with("claims: a@1 is gone: another node takes it over"));
}

#[test]
fn of_several_open_fires_each_is_told_by_its_own_rule() {
    let known = held();
    let open = |from: i64, by: &str| Attempt {
        from: Some(Wall(from)),
        seq: 3,
        back: Wall(0),
        ..Attempt::first(Fire::Due(Wall(from)), Wall(from), by.parse().expect("a member"))
    };
    let run_state = RunState { open: vec![open(T - 10_000, "gone@1"), open(T, "a@1")], ..run_state(T) };
    let mut told = ExplanationRow::of("job j".to_owned());
    claimed::explain(&known, Some(&run_state), &mut told);
    let now: Vec<_> = told.points.iter().filter(|point| point.about == "now").collect();
    let rules: Vec<_> = now.iter().map(|point| point.rule.as_deref().unwrap_or("-")).collect();
    assert_eq!(rules, ["claims", "firing"]);
    assert!(now[0].says.starts_with("gone@1 is gone"), "{}", now[0].says);
    assert_eq!(now[1].says, "run j:1795259680000:0 is under way on a, attempt 1");
    assert!(told.says.ends_with(&format!("{}; {}", now[0].says, now[1].says)), "{}", told.says);
}

fn dispatched(known: &ExplainContext, plan: &Plan) -> Vec<String> {
    let mut told = ExplanationRow::of("job j".to_owned());
    dispatched::explain(known, Some(plan), &mut told);
    told.points.iter().map(|point| format!("{} {}", point.about, point.says)).collect()
}

#[test]
fn a_dispatched_job_says_who_planned_it_and_why_there() {
    let mut known = held();
    busy(&mut known, "a", 1);
    let beat = known.settings.beat_of(Wall(T));
    let holder: Member = "b@2".parse().expect("a member");
    known.beat = Some(BeatRecord { beat, holder: holder.clone(), seq: 4 });
    let run = |due: i64, by: &str, free: i64| Attempt {
        choice: Some(PlannedNode { free, planned_for: None }.into()),
        ..Attempt::first(Fire::Due(Wall(due)), Wall(due), by.parse().expect("a member"))
    };
    let planner = Some(evenkeel_core::record::Planner { member: holder, number: beat });
    let mut plan = Plan {
        planner,
        watermark: Wall(T + 20_000),
        runs: vec![run(T + 10_000, "a@1", 3), run(T + 20_000, "b@2", -1)],
        ..Plan::default()
    };
    let told = dispatched(&known, &plan);
    let wanted = [
        "planner b@2 took beat 29920994, which began at 2026-11-21T11:14:00.000Z",
        "planned last by b@2 in beat 29920994",
        "run j:1795259690000:0 is planned: a was to have the most free slots when it is due, 3",
        "run j:1795259700000:0 is planned: no node was to have a free slot when it is due, and b the fewest runs waiting, 1",
        "settled no fire due up to 2026-11-21T11:15:00.000Z is ever claimed again",
        "next 2026-11-21T11:15:10.000Z, by */10 * * * * * in UTC",
        "now 2 runs are planned, none has begun",
    ];
    assert_eq!(told, wanted);
    plan.runs[0].from = Some(Wall(T));
    assert!(dispatched(&known, &plan).contains(&"now 1 run is under way".to_owned()));
    known.limits.push(pool(1));
    let told = dispatched(&known, &plan);
    assert!(told[2].contains("is accepted, and waits for a permit"), "{told:?}");
    let now = "now none has begun: a node that has accepted one waits for a permit of pool db";
    assert_eq!(told.last().map(String::as_str), Some(now));
    known.limits.clear();

    known.settings.planner = PlannerKind::Leader;
    plan.runs.clear();
    plan.watermark = Wall(T - 20_000);
    let told = dispatched(&known, &plan);
    assert_eq!(told[0], "planner no node leads: the first node that notices takes the lead");
    assert_eq!(told.last().map(String::as_str), Some("now it is due, and no node plans: see `planner`"));
    let leader = Some("a@1".parse().expect("a member"));
    known.serving = Some(ServingRecord { leader, epoch: 7, serves: true, ..ServingRecord::default() });
    let told = dispatched(&known, &plan);
    assert_eq!(told[0], "planner a@1 serves by epoch 7");
    assert_eq!(told.last().map(String::as_str), Some("now it is due and about to be planned"));
}

#[test]
fn a_fire_that_is_not_there_is_told_with_its_reason() {
    let run: evenkeel_core::ids::RunId = format!("j:{T}:0").parse().expect("a run");
    let mut last = evenkeel::RunRecord {
        seq: 1,
        job: run.job.clone(),
        shard: run.shard,
        run,
        attempt: 0,
        due: Wall(T),
        node: "a".into(),
        state: evenkeel::AttemptState::Skipped,
        reason: "older than the grace of 60s".into(),
        code: None,
        sent: String::new(),
        token: None,
        started: None,
        ended: None,
        from: Wall(T),
        output: 0,
        parameters: evenkeel_core::job::RunParameters::default(),
    };
    let one = "the fire of 2026-11-21T11:14:40.000Z did not run: older than the grace of 60s (said by a)";
    assert_eq!(absent::missed(&last), one);
    last.from = Wall(T - 20_000);
    assert!(
        absent::missed(&last).starts_with("the fires of 2026-11-21T11:14:20.000Z to 2026-11-21T11:14:40")
    );
    let by = "b@2".parse().expect("a member");
    let mut told = evenkeel_core::record::NotificationRecord { late: None, absent: None, by, seq: 1 };
    assert_eq!(absent::overdue(&told), None);
    told.absent = Some(Wall(T));
    let absent = "the fire of 2026-11-21T11:14:40.000Z had no outcome in time; last reported by b";
    assert_eq!(absent::overdue(&told).as_deref(), Some(absent));
}

#[test]
fn a_job_says_who_goes_on_in_its_pool_and_its_namespace() {
    let mut known = held();
    known.limits.push(pool(3));
    let said = |known: &ExplainContext| {
        let mut explanation = ExplanationRow::of("job j".to_owned());
        known.explain_limits(&mut explanation);
        explanation.points.pop().expect("a point").says
    };
    assert_eq!(said(&known), "none of the 3 runs that may go on at once in pool db does");
    let permit = |job: &str, limit| {
        let (run, by) = (format!("{job}:1763749200000:0"), "a@1".parse().expect("a member"));
        RunPermit { run: run.parse().expect("a run"), by, limit }
    };
    known.limits[0].permits.push(permit("x", 3));
    let one = "1 of the 3 runs that may go on at once in pool db do: x:1763749200000:0 on a";
    assert_eq!(said(&known), one);
    known.limits[0].permits.push(permit("y", 3));
    known.limits[0].most = 2;
    let full = "pool db is full, so a run waits until one of these 2 ends: x:1763749200000:0 on a, y:1763749200000:0 on a";
    assert_eq!(said(&known), full, "y allows no third one beside it");
    let limit = RunLimit::Namespace("team".parse().expect("a name"));
    known.limits.push(KnownLimit { limit, most: 1, permits: [permit("team/x", 1)].into() });
    let full =
        "namespace team is full, so a run waits until one of these 1 ends: team/x:1763749200000:0 on a";
    assert_eq!(said(&known), full);
}
