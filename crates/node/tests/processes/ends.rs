//! How runs end and what they leave: what the history says of it, what is dead, and what it costs the node.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use evenkeel::core::job::Delivery;
use evenkeel::{AttemptState, Handle, JobFile, Program, RunFilter, RunRecord, Work};
use serde_json::json;

use crate::guard::{TestGuard, folder};
use crate::node::{LEASE, NodeProcess, apply, cluster, config, parent, runtime, sleeper};
use crate::process::{lives, pids, until};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("ends::what_the_history_says_of_each_end", what_the_history_says_of_each_end),
    ("ends::every_variable_of_a_run_is_documented", every_variable_of_a_run_is_documented),
    ("ends::whoever_forked_twice_is_dead_after_a_kill", whoever_forked_twice_is_dead_after_a_kill),
    ("ends::the_memory_of_a_node_stays_flat_under_floods", the_memory_of_a_node_stays_flat_under_floods),
];

/// The first run of a job, when it is over.
async fn over(node: &Handle, job: &JobFile) -> RunRecord {
    let mut changes = node.changes();
    loop {
        let filter = RunFilter { job: Some(job.name.name().clone()), ..RunFilter::default() };
        let records = node.runs(filter).await.unwrap();
        if let Some(record) = records.into_iter().rfind(|record| record.state != AttemptState::Running) {
            return record;
        }
        tokio::time::timeout(crate::process::PATIENCE, changes.changed()).await.unwrap().unwrap();
    }
}

fn job(name: &str, command: Program) -> JobFile {
    let mut job = JobFile::new(name.parse().unwrap(), "* * * * * *", Work::Command(Vec::new()));
    job.shell = matches!(command, Program::Line(_));
    job.command = command;
    job
}

fn what_the_history_says_of_each_end() {
    let (folder, _) = cluster();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "no program").unwrap();
    std::fs::set_permissions(&plain, PermissionsExt::from_mode(0o644)).unwrap();
    let plain = plain.to_str().unwrap().to_owned();
    let line = |script: &str| Program::Line(script.to_owned());
    let argv = |program: &str| Program::Argv(vec![program.to_owned()]);
    let table = [
        ("zero", line("exit 0"), AttemptState::Succeeded, Some(0), String::new()),
        ("one", line("exit 1"), AttemptState::Failed, Some(1), "exit code 1".into()),
        ("two", line("exit 2"), AttemptState::Failed, Some(2), "exit code 2".into()),
        ("not-executable", line(&plain), AttemptState::Failed, Some(126), "exit code 126".into()),
        ("not-found", line("/nowhere/program"), AttemptState::Failed, Some(127), "exit code 127".into()),
        ("most", line("exit 255"), AttemptState::Failed, Some(255), "exit code 255".into()),
        ("term", line("kill -TERM $$"), AttemptState::Failed, None, "ended by signal 15 (TERM)".into()),
        ("kill", line("kill -KILL $$"), AttemptState::Failed, None, "ended by signal 9 (KILL)".into()),
        ("segv", line("kill -SEGV $$"), AttemptState::Failed, None, "ended by signal 11 (SEGV)".into()),
        (
            "argv-not-executable",
            argv(&plain),
            AttemptState::Failed,
            None,
            format!("not allowed to run {plain}"),
        ),
        (
            "argv-not-found",
            argv("/nowhere/p"),
            AttemptState::Failed,
            None,
            "no such program: /nowhere/p".into(),
        ),
        ("bytes", line(r"printf '\377\376\200'"), AttemptState::Succeeded, Some(0), String::new()),
    ];
    runtime().block_on(async {
        let node = evenkeel::open(config(folder.path(), "a", LEASE)).await.unwrap();
        let jobs: Vec<JobFile> = table.iter().map(|(name, command, ..)| job(name, command.clone())).collect();
        node.apply(jobs.clone()).await.unwrap();
        for (job, (name, _, state, code, reason)) in jobs.iter().zip(&table) {
            let record = over(&node, job).await;
            assert_eq!((record.state, record.code, &record.reason), (*state, *code, reason), "{name}");
            if *name == "bytes" {
                let said = node.log(&record.run, 1, 0, 1000).await.unwrap();
                assert_eq!(said.data, b"\xff\xfe\x80", "what is no text is kept as it is");
            }
        }
        node.stop_now().await;
    });
}

fn every_variable_of_a_run_is_documented() {
    let page = include_str!("../../../../docs/jobs.md");
    let table = page.split_once("## What a run is told").unwrap().1.split("\n## ").next().unwrap();
    let names = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_');
        words.filter(|word| word.starts_with("EVENKEEL_")).map(str::to_owned).collect()
    };
    let (folder, _) = cluster();
    runtime().block_on(async {
        let node = evenkeel::open(config(folder.path(), "a", LEASE)).await.unwrap();
        let job = job("env", Program::Argv(vec!["env".into()]));
        node.apply(vec![job.clone()]).await.unwrap();
        let record = over(&node, &job).await;
        let said = node.log(&record.run, 1, 0, 100_000).await.unwrap();
        let said = String::from_utf8(said.data).unwrap();
        assert_eq!(names(&said), names(table), "{said}");
        node.stop_now().await;
    });
}

/// proves: I25
fn whoever_forked_twice_is_dead_after_a_kill() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    let run = guard.sh("(sh -c 'trap \"\" TERM; echo $$ >> $DATA/pids; sleep 600; sleep 600' &); \
                        while ! test -s $DATA/pids; do sleep 0.01; done; echo $$ >> $DATA/pids; sleep 600");
    let all = guard.pids(2);
    until("its parent is gone, so the guard is", || {
        (parent(all[0]) == guard.process.id() as i32).then_some(())
    });
    guard.send(&json!({"stop": {"run": run, "reason": "killed"}}));
    assert_eq!(guard.ended()["stopped"], "killed");
    assert!(all.iter().all(|pid| !lives(*pid)));
}

/// The most memory that a process has had, in KiB.
fn peak(pid: i32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn touch(path: &Path) {
    std::fs::write(path, "").unwrap();
}

/// proves: I48
fn the_memory_of_a_node_stays_flat_under_floods() {
    let (folder, file) = cluster();
    let node = NodeProcess::start(folder.path(), "a", LEASE);
    let at = |name: &str| folder.path().join(name);
    let mut flood = sleeper(&file, Delivery::AtMostOnce);
    flood.shell = true;
    flood.command = Program::Line(format!(
        "echo $$ >> {}; while ! test -e {}; do sleep 0.01; done; timeout 2 yes; \
         head -c 100000000 /dev/zero | tr '\\0' x; head -c 20000000 /dev/urandom; \
         while ! test -e {}; do head -c 1000000 /dev/zero; done; echo over > {}; sleep 600",
        file.display(),
        at("go").display(),
        at("enough").display(),
        at("over").display(),
    ));
    apply(folder.path(), flood);
    let run = pids(&file, 1)[0];
    let guard = parent(run);
    assert_eq!(parent(guard), node.pid());
    let before = peak(guard) + peak(node.pid());
    touch(&at("go"));
    // The guard starts and ends other runs meanwhile.
    let other = format!("echo >> {}", at("others").display());
    apply(folder.path(), job("other", Program::Line(other)));
    until("three other runs were started, one after the other", || {
        let others = std::fs::read_to_string(at("others")).ok()?;
        (others.len() >= 3).then_some(())
    });
    assert!(!at("over").exists(), "the flood goes on");
    touch(&at("enough"));
    until("all of it is written", || at("over").exists().then_some(()));
    let after = peak(guard) + peak(node.pid());
    assert!(after - before < 32 * 1024, "from {before} to {after} KiB");
    assert_eq!(parent(run), guard, "the guard has answered its node all the while");
}
