//! What becomes of CronJobs in a sample.

use super::super::report::ImportFate::{Changed, Lost, Refused, Taken};
use super::super::tests::{fires, job, rows, says, source};
use super::*;

const SAMPLE: &str = include_str!("../samples/kubernetes.yaml");

#[test]
fn a_cron_job_becomes_a_job_and_what_is_lost_is_said() {
    let imported = read(SAMPLE, &source()).expect("manifests");
    let nightly = job(&imported, "nightly");
    assert_eq!((nightly.schedule.as_str(), nightly.timezone.as_str()), ("0 3 1-31/2 * 1", "Europe/Berlin"));
    assert_eq!(nightly.command.argv(), ["/bin/report", "--day", "mon", "$(DAY)", "$(NONE)"]);
    assert_eq!(nightly.environment["PLACE"], "mon-x");
    assert_eq!(nightly.secrets["PGPASSWORD"], "db.password");
    assert_eq!(
        (nightly.overlap, nightly.misfire_grace, nightly.catch_up),
        (Overlap::Forbid, Some(200), CatchUp::Skip)
    );
    assert_eq!((nightly.run_timeout, nightly.delivery), (Some(900), Delivery::AtLeastOnce));
    assert_eq!(nightly.retry.as_ref().map(|retry| retry.max_retries), Some(2));
    assert_eq!((nightly.directory.as_str(), nightly.labels.get("team")), ("/srv", Some("billing")));
    let container = "spec.jobTemplate.spec.template.spec.containers";
    says(&imported, &format!("{container}.image"), Lost, "registry.example/report:7");
    says(&imported, &format!("{container}.env.MODE"), Lost, "configMapKeyRef");
    says(&imported, &format!("{container}.env.PGPASSWORD"), Changed, "evenkeel secret set db.password");
    says(&imported, &format!("{container}.resources"), Lost, "limits");
    says(&imported, &format!("{container}.command"), Changed, "$(NAME)");
    says(&imported, "metadata.labels.note", Lost, "label");
    says(&imported, "spec.failedJobsHistoryLimit", Lost, "how long records are kept");
    says(&imported, "clock changes", Changed, "dst = \"twice\"");
    // Odd days and Mondays, at 3 in Berlin.
    let days = ["01", "02", "03", "05", "07", "09", "11"].map(|day| format!("2026-11-{day}T02:00:00Z"));
    assert_eq!(fires(&nightly, "2026-10-31T12:00:00Z", 7), days);
    assert!(
        !rows(&imported).iter().any(|row| row.contains("last-applied") || row.contains("creationTimestamp"))
    );
}

#[test]
fn an_indexed_job_is_sharded_and_a_namespace_is_kept() {
    let imported = read(SAMPLE, &source()).expect("manifests");
    let cut = job(&imported, "data/cut");
    assert_eq!((cut.placement, cut.shards, cut.enabled), (Placement::Sharded, 8, false));
    assert_eq!(cut.pool.as_ref().map(|pool| pool.limit), Some(3));
    assert_eq!((cut.schedule.as_str(), cut.retry), ("5-59/20 * * * *", None));
    says(&imported, "time zone", Changed, "read in UTC");
    says(&imported, "spec.jobTemplate.spec.completions", Changed, "EVENKEEL_SHARD, not JOB_COMPLETION_INDEX");
    says(&imported, "metadata.namespace", Taken, "evenkeel namespace create data");
    says(&imported, "spec.jobTemplate.spec.template.spec.containers", Refused, "a job has one command");
    assert_eq!(imported.jobs.len(), 2, "the others are taken");
    assert!(rows(&imported).iter().any(|row| row.starts_with("Service web |")), "{:?}", rows(&imported));
}

#[test]
fn what_makes_no_sense_is_refused_by_its_object() {
    let one = |spec: &str, container: &str| {
        format!(
            "kind: CronJob\nmetadata: {{name: a}}\nspec:\n  {spec}\n  jobTemplate: {{spec: {{template: {{spec: {{containers: [{container}]}}}}}}}}\n"
        )
    };
    for (spec, container, field) in [
        ("schedule: 61 3 * * *", "{command: [a]}", ""),
        ("schedule: TZ=UTC 0 3 * * *", "{command: [a]}", "spec.schedule"),
        ("suspend: false", "{command: [a]}", "spec.schedule"),
        ("{schedule: '@daily', timeZone: Mars}", "{command: [a]}", ""),
        ("schedule: '@daily'", "{args: [a]}", "spec.jobTemplate.spec.template.spec.containers.command"),
        (
            "schedule: '@daily'",
            "{command: [a, $(P)], env: [{name: P, valueFrom: {secretKeyRef: {name: a, key: b}}}]}",
            "spec.jobTemplate.spec.template.spec.containers.command",
        ),
    ] {
        let text = if spec.starts_with('{') {
            one("schedule: '@daily'\n  timeZone: Mars", container)
        } else {
            one(spec, container)
        };
        let imported = read(&text, &source()).expect("a manifest");
        assert!(imported.jobs.is_empty(), "{text}");
        let field = if spec.starts_with('{') { "spec.timeZone" } else { field };
        assert_eq!(imported.findings.last().map(|row| row.field.as_str()), Some(field), "{text}");
    }
    for text in ["kind: Service\n", ""] {
        let refused = read(text, &source()).expect_err("none");
        assert!(refused.message.contains("holds no CronJob"), "{refused}");
    }
}
