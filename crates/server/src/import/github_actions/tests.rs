//! What becomes of workflows of GitHub Actions in a sample.

use super::super::report::ImportFate::{Changed, Lost, Refused};
use super::super::tests::{fires, job, rows, says, source};
use super::*;

const SAMPLE: &str = include_str!("../samples/github_actions.yml");

fn with_directory() -> ImportSource {
    ImportSource {
        shown: ".github/workflows/nightly.yml".to_owned(),
        directory: "/srv/app".to_owned(),
        ..source()
    }
}

#[test]
fn a_job_with_steps_becomes_one_command() {
    let imported = read(SAMPLE, &with_directory()).expect("a workflow");
    let build = job(&imported, "nightly-build");
    assert_eq!(build.schedule, "30 5 * * 1-5\n0-59/20 12 * * *");
    assert_eq!(
        (build.overlap, build.catch_up, build.timeout),
        (Overlap::Replace, CatchUp::Skip, Some(1_800))
    );
    assert_eq!((build.environment["LANG"].as_str(), build.secrets["TOKEN"].as_str()), ("C", "DEPLOY_TOKEN"));
    let bash = "bash --noprofile --norc -eo pipefail -c";
    let script = format!(
        "{bash} 'make all' &&\n{{ ( cd /srv/app/out && env LEVEL=9 {bash} 'tar c . > '\\''a b.tar'\\''\necho \"$GITHUB_SHA\"\n' ) || true; }}"
    );
    assert_eq!(build.command.argv(), ["/bin/sh", "-c", &script]);
    assert_eq!(build.directory, "/srv/app");
    let one = job(&imported, "nightly-one");
    assert_eq!(one.command.argv(), ["sh", "-e", "-c", "date"]);
    assert_eq!(one.timeout, Some(6 * 3_600));
    says(&imported, "steps[0].uses", Lost, "actions/checkout@v4");
    says(&imported, "steps[2].run", Changed, "not set");
    says(&imported, "on", Lost, "push");
    says(&imported, "runs-on", Lost, "node_selector");
    says(&imported, "permissions", Lost, "token");
    // 2026-11-02 is a Monday.
    let times = ["05:30", "12:00", "12:20", "12:40"].map(|time| format!("2026-11-02T{time}:00Z"));
    assert_eq!(fires(&build, "2026-11-02T00:00:00Z", 4), times);
}

#[test]
fn what_only_github_can_run_is_refused_by_its_job() {
    let imported = read(SAMPLE, &with_directory()).expect("a workflow");
    for (field, said) in [
        ("needs", "no job waits"),
        ("strategy.matrix", "shard_parameters"),
        ("steps[0].run", "an expression"),
        ("steps[0].uses", "upload-artifact"),
        ("steps[0].run", "GITHUB_OUTPUT"),
    ] {
        says(&imported, field, Refused, said);
    }
    assert_eq!(imported.jobs.len(), 2, "{:#?}", rows(&imported));
    let imported = read(SAMPLE, &source()).expect("a workflow");
    says(&imported, "steps[2].working-directory", Refused, "--directory");
    for text in
        ["on: push\njobs: {a: {steps: []}}\n", "jobs: {}\n", "on: {schedule: [{cron: '0 5 * * *'}]}\n", "["]
    {
        read(text, &source()).expect_err(text);
    }
}
