//! Whole clusters, entry by entry as the source writes them.

use evenkeel_core::record::Open;

use super::super::{JobSeen, NodeSeen, Whole, render_whole};
use super::*;

fn seen(name: &str, address: &str, held: usize, quota: usize) -> NodeSeen {
    NodeSeen { member: member(name), info: info(address), held, quota }
}

fn job(name: &str, holder: Option<&str>) -> JobSeen {
    let job = Job::new(name.parse().unwrap(), "0/10 * * * * ?", Work::Command(vec!["/bin/true".into()]));
    JobSeen {
        spec: Spec { job, version: 3, since: Wall(T - 60_000), paused: false, off: ShardSet::empty() },
        holders: holder.map(member).into_iter().collect(),
        open: None,
        waiting: Vec::new(),
    }
}

fn open(by: &str, from: i64) -> Option<Open> {
    let (by, due) = (member(by), Wall(T));
    Some(Open { fire: Fire::Due(due), due, from: Wall(from), by, attempt: 1, seq: 7, back: Wall(T - 10_000) })
}

/// Three nodes, of which one is wanted drained; another drained one is away.
fn cluster() -> Whole {
    let mut running = job("archive", Some("a@1"));
    running.open = open("a@1", T - 200);
    let mut ahead = job("backup", Some("b@2"));
    ahead.open = open("b@2", T + 800);
    let mut paused = job("clean", Some("c@3"));
    paused.spec.paused = true;
    let mut disabled = job("delete", None);
    disabled.spec.job.enabled = false;
    let mut orphan = job("export", Some("d@4"));
    orphan.waiting = vec!["by-hand".parse().unwrap()];
    Whole {
        nodes: vec![
            seen("a@1", "10.9.0.1:7700", 1, 3),
            seen("b@2", "10.9.0.2:7700", 1, 3),
            seen("c@3", "10.9.0.3:7700", 1, 3),
        ],
        drained: [node("c"), node("z")].into(),
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
    assert_eq!(text(&render_whole(Form::SiaTask, &cluster())), wanted.trim());
}
