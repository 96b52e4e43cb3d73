//! What becomes of rows of XXL-JOB in a sample.

use super::super::report::ImportFate::{Changed, Lost, Refused, Taken};
use super::super::tests::{fires, job, rows as report_rows, says, source};
use super::*;

const SAMPLE: &str = include_str!("../samples/xxl_job.sql");

fn with_command() -> ImportSource {
    let command = vec!["call".to_owned(), "{class}".to_owned(), "{parameter}".to_owned()];
    ImportSource { timezone: "Asia/Shanghai".to_owned(), command: Some(command), ..source() }
}

#[test]
fn the_rows_of_a_dump_become_jobs() {
    let imported = read(SAMPLE, &with_command()).expect("a dump");
    let clean = job(&imported, "cleanJob-1");
    assert_eq!((clean.schedule.as_str(), clean.timezone.as_str()), ("0 0 3 ? * MON-FRI", "Asia/Shanghai"));
    assert_eq!(
        (clean.placement, clean.overlap, clean.catch_up),
        (Placement::Dispatched, Overlap::Forbid, CatchUp::Latest)
    );
    assert_eq!((clean.timeout, clean.retry.as_ref().map(|retry| retry.max_retries)), (Some(90), Some(3)));
    assert_eq!(clean.command.argv(), ["call", "cleanJob", ""]);
    assert!(clean.description.starts_with("清理, imported from"), "{}", clean.description);
    says(&imported, "child_jobid", Lost, "not started after it");
    says(&imported, "misfire_strategy", Changed, "not after 5 seconds");
    let report = job(&imported, "xxl-job-2");
    assert_eq!(
        (report.schedule.as_str(), report.enabled, report.overlap),
        ("@every 45s", false, Overlap::Skip)
    );
    assert_eq!(report.parameter, "all of it");
    assert!(
        report.command.argv()[2].ends_with("#!/bin/bash\necho \"it's $1\"; exit 0\n"),
        "{:?}",
        report.command
    );
    let everywhere = job(&imported, "xxl-job-3");
    assert_eq!((everywhere.placement, everywhere.schedule.as_str()), (Placement::Broadcast, ""));
    assert_eq!(everywhere.command.argv()[3], "print(1)");
    says(&imported, "executor_route_strategy", Taken, "broadcast");
    // Working days at 3 in Shanghai.
    let days = ["01", "02", "03", "04", "05", "08"].map(|day| format!("2026-11-{day}T19:00:00Z"));
    assert_eq!(fires(&clean, "2026-11-01T00:00:00Z", 5), days[..5]);
}

#[test]
fn what_an_executor_calls_in_its_own_process_is_refused_without_a_command() {
    let imported = read(SAMPLE, &source()).expect("a dump");
    says(&imported, "executor_handler", Refused, "--command");
    assert_eq!(imported.jobs.len(), 2, "{:#?}", report_rows(&imported));
}

#[test]
fn csv_and_json_are_read_as_the_dump_is() {
    let csv = "id,job_desc,job_cron,executor_handler,glue_type,executor_param\n7,\"a, b\",0 0 1 * * ?,,GLUE_NODEJS,NULL\n";
    let imported = read(csv, &source()).expect("a table");
    let seven = job(&imported, "xxl-job-7");
    assert_eq!((seven.schedule.as_str(), seven.parameter.as_str()), ("0 0 1 * * ?", ""));
    assert!(seven.description.starts_with("a, b,"), "{}", seven.description);
    let json = r#"{"RECORDS": [{"id": 8, "jobDesc": "x", "scheduleType": "FIX_RATE", "scheduleConf": "60", "glueType": "GLUE_SHELL", "glueSource": "date", "triggerStatus": 1}]}"#;
    assert_eq!(job(&read(json, &source()).expect("rows"), "xxl-job-8").schedule, "@every 1m");
    for (wrong, said) in [
        ("id,name\n1,2\n", "neither a dump"),
        ("[]", "holds no row"),
        ("INSERT INTO xxl_job_info (id, glue_type) VALUES (1);", "1 values, and the table has 2 columns"),
        ("INSERT INTO xxl_job_info (id) VALUES ('1);", "not closed"),
        ("{", "EOF"),
    ] {
        let refused = read(wrong, &source()).expect_err(wrong);
        assert!(refused.message.contains(said), "{refused}");
    }
}

#[test]
fn the_executor_of_a_job_is_its_label_if_its_table_was_read() {
    let imported = read(SAMPLE, &with_command()).expect("a dump");
    assert_eq!(job(&imported, "cleanJob-1").labels.get("executor"), Some("app"));
    says(&imported, "job_group", Changed, "labels = { executor = \"app\" } for \"App\"");
    let strange = SAMPLE.replace("(1,'app'", "(1,'a b'");
    let imported = read(&strange, &with_command()).expect("a dump");
    assert!(job(&imported, "cleanJob-1").labels.is_empty());
    says(&imported, "job_group", Lost, "\"a b\"");
    let alone = SAMPLE.replace("INSERT INTO `xxl_job_group`", "INSERT INTO `other`");
    let imported = read(&alone, &with_command()).expect("a dump");
    assert!(job(&imported, "cleanJob-1").labels.is_empty());
    assert!(imported.findings.iter().all(|row| row.field != "job_group"), "{:#?}", report_rows(&imported));
}

#[test]
fn the_columns_say_which_version_it_is() {
    let row = |columns: &str| {
        let text = format!(r#"[{{"id": 1, "glue_type": "GLUE_SHELL", "glue_source": "date", {columns}}}]"#);
        read(&text, &source()).expect("rows")
    };
    says(&row(r#""job_cron": "0 0 1 * * ?", "job_desc": "a""#), "version", Taken, "XXL-JOB 2.1 or 2.2");
    says(&row(r#""schedule_type": "NONE", "job_desc": "a""#), "version", Taken, "XXL-JOB 2.3 to 3.4");
    let newest = row(r#""schedule_type": "NONE", "name": "cleans""#);
    says(&newest, "version", Taken, "XXL-JOB 3.5 or later");
    assert!(job(&newest, "xxl-job-1").description.starts_with("cleans, imported from"));
    assert!(row(r#""author": "ann""#).findings.iter().all(|row| row.field != "version"));
}
