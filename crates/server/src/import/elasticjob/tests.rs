//! What becomes of ElasticJob in a sample.

use super::super::report::ImportFate::{Changed, Lost, Refused, Taken};
use super::super::tests::{fires, job, rows, says, source};
use super::*;

const XML: &str = include_str!("../samples/elasticjob.xml");
const YAML: &str = include_str!("../samples/elasticjob.yaml");

#[test]
fn the_jobs_of_spring_become_sharded_jobs() {
    let imported = read(XML, &source()).expect("XML");
    let meters = job(&imported, "meters");
    assert_eq!((meters.schedule.as_str(), meters.timezone.as_str()), ("0/10 * * * * ?", "Etc/GMT-8"));
    assert_eq!((meters.placement, meters.shards), (Placement::Sharded, 3));
    assert_eq!(meters.shard_parameters, ["north", "east", "south"]);
    assert_eq!((meters.parameter.as_str(), meters.strategy), ("fast", ShardingStrategy::OddEven));
    assert_eq!((meters.delivery, meters.catch_up), (Delivery::AtLeastOnce, CatchUp::Skip));
    assert_eq!(meters.max_clock_skew, Some(5));
    assert_eq!(meters.command.argv(), ["/bin/read-meters", "--site", "a b"]);
    assert!(meters.description.starts_with("reads meters, imported from"));
    says(&imported, "jobErrorHandlerType", Lost, "EMAIL");
    says(&imported, "overwrite", Lost, "always replaces");
    let ping = job(&imported, "ping");
    let http = ping.http.as_ref().expect("a request");
    assert_eq!(
        (http.url.as_str(), http.method(), http.body.as_str()),
        ("https://shop.example/ping", "POST", "{{{{x}}")
    );
    assert_eq!((ping.timeout, ping.enabled, ping.monitor_execution), (Some(5), false, false));
    says(&imported, "elasticJobClass", Refused, "com.example.SimpleJob");
    assert_eq!(imported.jobs.len(), 2, "{:#?}", rows(&imported));
    // Every ten seconds of a minute that begins at noon.
    let seconds = (1..=50).map(|n| format!("2026-11-02T{:02}:{:02}:{:02}Z", 12, n * 10 / 60, n * 10 % 60));
    assert_eq!(fires(&meters, "2026-11-02T12:00:00Z", 50), seconds.collect::<Vec<_>>());
}

#[test]
fn yaml_of_spring_boot_and_the_texts_of_nodes_are_read() {
    let words = ["java", "-cp", "app.jar", "{class}"].map(ToOwned::to_owned).to_vec();
    let imported = read(YAML, &ImportSource { command: Some(words), ..source() }).expect("YAML");
    let simple = job(&imported, "simpleJob");
    assert_eq!(simple.command.argv(), ["java", "-cp", "app.jar", "com.example.SimpleJob"]);
    assert_eq!((simple.shards, simple.shard_parameters.len()), (2, 2));
    assert_eq!(job(&imported, "scriptJob").schedule, "");
    let kept = job(&imported, "kept");
    assert_eq!((kept.sticky_shards, kept.max_clock_skew, kept.catch_up), (true, None, CatchUp::Latest));
    assert_eq!(job(&imported, "old").command.argv(), ["/bin/old"]);
    says(&imported, "jobProperties", Lost, "no equivalent");
    says(&imported, "cron", Taken, "only manual runs");
    says(&imported, "time zone", Changed, "each instance's process");
    assert_eq!(imported.jobs.len(), 4, "{:#?}", rows(&imported));
}

#[test]
fn what_holds_no_job_or_says_too_little_is_refused() {
    for (text, said) in [("<beans/>", "holds no job"), ("a: 1\n", "holds no job"), ("<beans>", "sample: ")] {
        let refused = read(text, &source()).expect_err(text);
        assert!(refused.message.contains(said), "{refused}");
    }
    for (config, field) in [
        ("{jobName: a, cron: 0 0 1 * * ?}", "elasticJobClass"),
        ("{jobName: a, jobType: SCRIPT}", "props.script.command.line"),
        (
            "{jobName: a, props: {script.command.line: x}, shardingItemParameters: north}",
            "shardingItemParameters",
        ),
        ("{jobName: a, props: {script.command.line: x}, cron: 0 0 1 1 * 2}", ""),
        ("{jobName: a, props: {script.command.line: x}, cron: 0 0 1 * * ?, timeZone: GMT+5:30}", "timeZone"),
    ] {
        let imported = read(config, &source()).expect(config);
        assert_eq!(imported.findings.last().map(|row| row.field.as_str()), Some(field), "{config}");
        assert!(imported.jobs.is_empty(), "{config}");
    }
}
