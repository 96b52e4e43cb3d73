//! Trees of whole clusters, entry by entry in the source's format.

use evenkeel_core::load::{HostLoad, Score};
use evenkeel_core::record::{Attempt, BeatRecord, LoadRecord, Plan, PlannedNode, Planner, ServingRecord};

use super::super::{CompatCluster, CompatJobSummary, CompatNode, render_whole};
use super::*;

fn seen(name: &str, address: &str, held: usize, quota: usize) -> CompatNode {
    let (load, strikes, offline, joined) = (None, 0, None, None);
    CompatNode { member: member(name), info: info(address), held, quota, load, strikes, offline, joined }
}

fn job(name: &str, holder: Option<&str>) -> CompatJobSummary {
    let job = JobFile::new(name.parse().unwrap(), "0/10 * * * * ?", Work::Command(vec!["/bin/true".into()]));
    CompatJobSummary {
        spec: Spec::new(Job::parse(job).expect("a valid job"), 3, Wall(T - 60_000)),
        calendars: Some(evenkeel_core::schedule::CalendarFilter::default()),
        holders: holder.map(member).into_iter().collect(),
        open: Vec::new(),
        plan: None,
        waiting: Vec::new(),
    }
}

fn open(by: &str, from: i64) -> Vec<Attempt> {
    let first = Attempt::first(Fire::Due(Wall(T)), Wall(T), member(by));
    vec![Attempt { from: Some(Wall(from)), seq: 7, back: Wall(T - 10_000), ..first }]
}

/// Three nodes, one of them draining; a further drained one is offline.
fn cluster() -> CompatCluster {
    let mut running = job("archive", Some("a@1"));
    running.open = open("a@1", T - 200);
    let mut ahead = job("backup", Some("b@2"));
    ahead.open = open("b@2", T + 800);
    let mut paused = job("clean", Some("c@3"));
    paused.spec.paused = true;
    let mut disabled = job("delete", None);
    disabled.spec.job = disabled.spec.job.changed(|job| job.enabled = false).expect("a valid job");
    let mut orphan = job("export", Some("d@4"));
    orphan.waiting = vec![("by-hand".parse().unwrap(), Wall(T - 1_000))];
    CompatCluster {
        nodes: vec![
            seen("a@1", "10.9.0.1:7700", 1, 3),
            seen("b@2", "10.9.0.2:7700", 1, 3),
            seen("c@3", "10.9.0.3:7700", 1, 3),
        ],
        drained: [node("c"), node("z")].into(),
        away: BTreeMap::new(),
        beats: Vec::new(),
        serving: None,
        jobs: vec![running, ahead, paused, disabled, orphan],
        now: Wall(T),
    }
}

/// proves: S1-34, S1-37
#[test]
fn a_cluster_in_the_shape_of_siatask() {
    let wanted = r#"
/evenkeel  [P] = ''
/evenkeel/Job  [P] = ''
/evenkeel/Job/default  [P] = ''
/evenkeel/Job/default/archive  [P] = 'running'
/evenkeel/Job/default/archive/10.9.0.1:7700  [E] = ''
/evenkeel/Job/default/backup  [P] = 'ready'
/evenkeel/Job/default/backup/10.9.0.2:7700  [E] = ''
/evenkeel/Job/default/clean  [P] = 'stop'
/evenkeel/Job/default/clean/10.9.0.3:7700  [E] = ''
/evenkeel/Job/default/delete  [P] = 'stop'
/evenkeel/Job/default/export  [P] = 'ready'
/evenkeel/JobRunOnce  [P] = ''
/evenkeel/JobRunOnce/export  [P] = ''
/evenkeel/JobTransfer  [P] = ''
/evenkeel/JobTransfer/clean  [P] = '10.9.0.3:7700'
/evenkeel/Offline  [P] = ''
/evenkeel/Offline/10.9.0.3:7700  [P] = ''
/evenkeel/Offline/z  [P] = ''
/evenkeel/Scheduler  [P] = ''
/evenkeel/Scheduler/10.9.0.1:7700  [E] = '{"ALARM_JOB_NUM":100,"MAX_JOB_NUM":3,"MY_JOB_NUM":1}'
/evenkeel/Scheduler/10.9.0.2:7700  [E] = '{"ALARM_JOB_NUM":100,"MAX_JOB_NUM":3,"MY_JOB_NUM":1}'
/evenkeel/Scheduler/10.9.0.3:7700  [E] = '{"ALARM_JOB_NUM":100,"MAX_JOB_NUM":3,"MY_JOB_NUM":1}'
"#;
    assert_eq!(text(&render_whole(CompatFormat::SiaTask, &cluster())), wanted.trim());
}

/// The same cluster with loads, a beat, an unreachable node, an offline one, and a dispatched job.
fn beating() -> CompatCluster {
    let mut whole = cluster();
    let sample = HostLoad { cpu: Some(4_350.into()), memory: None };
    let load = LoadRecord {
        incarnation: 1,
        at: Wall(T),
        sample,
        busy: 2,
        dispatched: 1,
        slots: 64,
        score: Score(2_985),
        seq: 4,
    };
    whole.nodes[0].load = Some(load);
    whole.nodes[0].joined = Some(Wall(T - 100_000));
    whole.nodes[1].strikes = 2;
    whole.nodes[2].offline = Some(Wall(T - 5_000));
    whole.nodes[2].strikes = 3;
    whole.away = [(node("z"), Wall(T - 500_000))].into();
    whole.drained.clear();
    let beat = BeatRecord { beat: 29_920_994, holder: member("a@1"), seq: 9 };
    whole.beats = vec![("dispatch".to_owned(), beat, Wall(T - 40_000))];
    let mut dispatched = job("report", None);
    dispatched.spec.job =
        dispatched.spec.job.changed(|job| job.placement = Placement::Dispatched).expect("a valid job");
    let planned = |due: i64, by: &str, from: Option<i64>| Attempt {
        seq: 5,
        from: from.map(Wall),
        choice: Some(PlannedNode { free: 3, planned_for: None }.into()),
        ..Attempt::first(Fire::Due(Wall(due)), Wall(due), member(by))
    };
    let mut asked = planned(T - 1_000, "b@2", None);
    asked.fire = Fire::Asked("by-hand".parse().unwrap());
    let planner = Some(Planner { member: member("a@1"), number: 29_920_994 });
    let runs = vec![planned(T - 10_000, "a@1", Some(T - 9_900)), planned(T, "b@2", None), asked];
    dispatched.plan = Some(Plan { planner, runs, ..Plan::default() });
    dispatched.waiting =
        vec![("by-hand".parse().unwrap(), Wall(T - 1_000)), ("later".parse().unwrap(), Wall(T))];
    whole.jobs.truncate(1);
    whole.jobs.push(dispatched);
    whole
}

/// proves: S0-47
#[test]
fn a_cluster_in_the_tables_of_keeper() {
    let wanted = r#"
/evenkeel  [P] = ''
/evenkeel/locks  [P] = ''
/evenkeel/locks/dispatch  [P] = '{"beat":29920994,"name":"dispatch","node":"10.9.0.1:7700","tick":"2026-11-21T11:14:00.000Z"}'
/evenkeel/nodes  [P] = ''
/evenkeel/nodes/10.9.0.1:7700  [P] = '{"busy_executors":2,"cpu_usage":43.5,"disconnect_time":null,"disconnection":0,"executors":64,"ip":"10.9.0.1","load_score":29.85,"memory_usage":null,"name":"a","online_time":"2026-11-21T11:13:00.000Z","port":7700,"status":"online"}'
/evenkeel/nodes/10.9.0.2:7700  [P] = '{"busy_executors":null,"cpu_usage":null,"disconnect_time":null,"disconnection":2,"executors":64,"ip":"10.9.0.2","load_score":null,"memory_usage":null,"name":"b","online_time":null,"port":7700,"status":"online"}'
/evenkeel/nodes/10.9.0.3:7700  [P] = '{"busy_executors":null,"cpu_usage":null,"disconnect_time":"2026-11-21T11:14:35.000Z","disconnection":3,"executors":64,"ip":"10.9.0.3","load_score":null,"memory_usage":null,"name":"c","online_time":null,"port":7700,"status":"disconnected"}'
/evenkeel/nodes/z  [P] = '{"name":"z","offline_time":"2026-11-21T11:06:20.000Z","status":"offline"}'
/evenkeel/tasks  [P] = ''
/evenkeel/tasks/archive:1795259680000:0  [P] = '{"created_by":"a","job":"archive","node":"10.9.0.1:7700","status":"executing","task_time":"2026-11-21T11:14:40.000Z"}'
/evenkeel/tasks/report:ask-later:0  [P] = '{"created_by":null,"job":"report","node":null,"status":"new","task_time":"2026-11-21T11:14:40.000Z"}'
/evenkeel/tasks/report:1795259670000:0  [P] = '{"created_by":"a","job":"report","node":"10.9.0.1:7700","status":"executing","task_time":"2026-11-21T11:14:30.000Z"}'
/evenkeel/tasks/report:1795259680000:0  [P] = '{"created_by":"a","job":"report","node":"10.9.0.2:7700","status":"ready","task_time":"2026-11-21T11:14:40.000Z"}'
/evenkeel/tasks/report:ask-by-hand:0  [P] = '{"created_by":"a","job":"report","node":"10.9.0.2:7700","status":"ready","task_time":"2026-11-21T11:14:39.000Z"}'
"#;
    assert_eq!(text(&render_whole(CompatFormat::Keeper, &beating())), wanted.trim());
}

/// proves: S4-15
#[test]
fn a_cluster_in_the_shape_of_azkaban() {
    let mut whole = beating();
    whole.jobs[1].spec.paused = true;
    let leader = Some(member("b@2"));
    whole.serving = Some(ServingRecord { leader, epoch: 7, serves: true, released: false, seq: 21 });
    let wanted = r#"
/evenkeel  [P] = ''
/evenkeel/executors  [P] = ''
/evenkeel/executors/10.9.0.1:7700  [E] = '{"active":true}'
/evenkeel/executors/10.9.0.2:7700  [E] = '{"active":true}'
/evenkeel/executors/10.9.0.3:7700  [E] = '{"active":false}'
/evenkeel/leader  [E] = '10.9.0.2:7700'
/evenkeel/leader/epoch  [P] = '7'
/evenkeel/leader/state  [E] = 'serving'
/evenkeel/projects  [P] = ''
/evenkeel/projects/archive  [P] = '{"active":true,"name":"archive","version":3}'
/evenkeel/projects/report  [P] = '{"active":true,"name":"report","version":3}'
/evenkeel/triggers  [P] = ''
/evenkeel/triggers/archive  [P] = '{"cron":"0/10 * * * * ?","next_check_time":"2026-11-21T11:14:50.000Z","project":"archive","status":"READY","timezone":"UTC","version":3}'
/evenkeel/triggers/report  [P] = '{"cron":"0/10 * * * * ?","next_check_time":null,"project":"report","status":"PAUSED","timezone":"UTC","version":3}'
"#;
    let shown = |whole: &CompatCluster| text(&render_whole(CompatFormat::Azkaban, whole));
    assert_eq!(shown(&whole), wanted.trim());
    if let Some(serving) = &mut whole.serving {
        serving.leader = Some(member("gone@9"));
    }
    assert!(!shown(&whole).contains("/leader  [E]"), "the lock goes with its holder");
    whole.serving = None;
    assert!(!shown(&whole).contains("/leader"), "where each beat has a planner nobody leads");
}
