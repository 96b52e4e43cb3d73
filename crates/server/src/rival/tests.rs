//! Each format, recognized by its content, and records that cannot be read.

use evenkeel_core::time::{Millis, Wall};
use jiff::tz::TimeZone;

use super::*;

fn source() -> RivalSource {
    RivalSource {
        shown: "f".to_owned(),
        format: None,
        zone: TimeZone::get("Europe/Berlin").expect("a zone"),
        now: Wall(1_764_500_000_000), // 2025-11-30T10:53:20Z
    }
}

fn log(text: &str) -> RivalLog {
    let mut log = read(text, &source()).unwrap_or_else(|e| panic!("{e}: {text}"));
    log.settle(Millis::secs(60));
    log
}

/// The runs as `subject moment outcome`.
fn fires(log: &RivalLog) -> Vec<String> {
    let all = log.fires.iter().flat_map(|(subject, fires)| fires.iter().map(move |fire| (subject, fire)));
    let text = |(subject, fire): (&RivalSubject, &RivalFire)| {
        let at = fire.at.to_string().replace(".000Z", "Z");
        format!("{subject} {at} {}", fire.outcome).trim_end().to_owned()
    };
    all.map(text).collect()
}

fn places(log: &RivalLog) -> Vec<&str> {
    log.bad.iter().map(|bad| bad.place.as_str()).collect()
}

#[test]
fn plain_rows_are_read_as_csv_and_as_json() {
    let expected = ["a 2025-11-29T01:00:00Z succeeded", "a 2025-11-29T01:05:00Z", "b 2025-11-29T02:00:00Z"];
    let csv = "job,time,outcome\na,2025-11-29T01:05:00Z,\na,2025-11-29 02:00:00,succeeded\nb,1764381600,\n";
    assert_eq!(fires(&log(csv)), expected);
    assert_eq!(fires(&log(&format!("\u{feff}{}", csv.replace('\n', "\r\n")))), expected);
    let lines = "{\"job\": \"a\", \"time\": \"2025-11-29T02:00:00+01:00\", \"state\": \"succeeded\"}\n\
                 {\"job\": \"b\", \"time\": 1764381600000}\n\n{\"name\": \"a\", \"startTime\": \"2025-11-29T01:05:00Z\"}\n";
    assert_eq!(fires(&log(lines)), expected);
    let list = format!("[{}]", lines.trim().replace("}\n\n", "},").replace("}\n", "},"));
    assert_eq!(fires(&log(&list)), expected);
    assert_eq!(fires(&log(&format!("{{\"rows\": {list}}}"))), expected);
    assert!(fires(&log("job,time\n")).is_empty(), "nothing ran");
}

#[test]
fn a_record_that_cannot_be_read_is_named_with_its_line_and_leaves_the_others() {
    let csv = "job,time\na,2025-11-29T01:00:00Z\na,yesterday\n,2025-11-29T01:00:00Z\na,b,c\na,2025-11-29T03:00:00Z\n";
    let read = log(csv);
    assert_eq!(fires(&read).len(), 2);
    assert_eq!(places(&read), ["f: line 3", "f: line 4", "f: line 5"]);
    assert!(read.bad[0].why.contains("\"yesterday\" is no time"), "{:?}", read.bad);
    assert!(read.bad[1].why.contains("it has no job"), "{:?}", read.bad);
    assert!(read.bad[2].why.contains("3 values, and the header 2"), "{:?}", read.bad);
    let read = log("{\"job\": \"a\", \"time\": 5}\n{\"job\":\n[1]\n");
    assert_eq!((fires(&read).len(), places(&read)), (1, vec!["f: line 2", "f: line 3"]));
    for wrong in ["", "nonsense", "a,b\n1,2\n", "<xml/>"] {
        let failure = super::read(wrong, &source()).expect_err(wrong);
        assert!(failure.message.contains("its format is not known"), "{failure}");
    }
    let forced = RivalSource { format: Some(RivalFormat::Rows), ..source() };
    let failure = super::read("a,b\n1,2\n", &forced).expect_err("no columns");
    assert!(failure.message.contains("does not name the columns"), "{failure}");
}

#[test]
fn the_log_of_xxl_job_is_read_in_each_form_and_a_broadcast_run_counts_once() {
    let expected = [
        "job 1 cleanJob 2025-11-29T01:00:00Z succeeded",
        "job 1 cleanJob 2025-11-29T01:01:00Z failed",
        "job 1 cleanJob 2025-11-29T01:02:00Z not triggered",
        "job 2 2025-11-29T01:00:00Z",
        "job 2 2025-11-29T01:01:00Z",
    ];
    let dump = "-- a dump\nINSERT INTO `xxl_job_log` VALUES (7,1,1,'http://x','cleanJob','it''s, (a)',NULL,0,'2025-11-29 02:00:00',200,\
        'ok',NULL,200,NULL,0),(8,1,1,NULL,'cleanJob',NULL,NULL,0,'2025-11-29 02:01:00',200,'ok',NULL,500,'no',0),\
        (9,1,1,NULL,'cleanJob',NULL,NULL,0,'2025-11-29 02:02:00',500,'no',NULL,0,NULL,0);\n\
        INSERT INTO `xxl_job_log` VALUES (10,1,2,NULL,NULL,NULL,'0/2',0,'2025-11-29 02:00:00',200,'',NULL,0,NULL,0),\
        (11,1,2,NULL,NULL,NULL,'1/2',0,'2025-11-29 02:00:01',200,'',NULL,0,NULL,0),\
        (12,1,2,NULL,NULL,NULL,'0/2',0,'2025-11-29 02:01:00',200,'',NULL,0,NULL,0);\n\
        INSERT INTO `other` VALUES (1);\n";
    assert_eq!(fires(&log(dump)), expected);
    let mut twice = read(dump, &source()).expect("a dump");
    twice.extend(read(dump, &source()).expect("a dump"));
    twice.settle(Millis::secs(60));
    assert_eq!(fires(&twice), expected, "files may overlap");
    let csv = "id,job_id,executor_handler,trigger_time,trigger_code,handle_code,executor_sharding_param\n\
        7,1,cleanJob,2025-11-29 02:00:00,200,200,NULL\n8,1,cleanJob,2025-11-29 02:01:00,200,500,NULL\n\
        9,1,cleanJob,2025-11-29 02:02:00,500,0,NULL\n10,2,NULL,2025-11-29 02:00:00,200,0,0/2\n\
        11,2,NULL,2025-11-29 02:00:01,200,0,1/2\n12,2,NULL,2025-11-29 02:01:00,200,0,0/2\n";
    assert_eq!(fires(&log(csv)), expected);
    let json = "{\"data\": [{\"id\": 7, \"jobId\": 1, \"executorHandler\": \"cleanJob\", \"triggerTime\": \
        \"2025-11-29T01:00:00.000+00:00\", \"triggerCode\": 200, \"handleCode\": 200}]}";
    assert_eq!(fires(&log(json)), expected[..1]);
}

#[test]
fn the_log_of_elasticjob_has_a_row_for_each_shard() {
    let csv = "id,job_name,sharding_item,is_success,start_time,complete_time\n\
        u1,demo,0,1,2025-11-29 02:00:00.1,2025-11-29 02:00:01\nu2,demo,1,0,2025-11-29 02:00:00.2,2025-11-29 02:00:01\n\
        u3,demo,1,1,2025-11-29 02:00:30,2025-11-29 02:00:31\nu4,demo,0,0,2025-11-29 02:00:31,NULL\n";
    assert_eq!(
        fires(&log(csv)),
        ["demo 2025-11-29T01:00:00.100Z succeeded", "demo 2025-11-29T01:00:30Z succeeded"]
    );
    let dump = "INSERT INTO JOB_EXECUTION_LOG (ID, JOB_NAME, SHARDING_ITEM, IS_SUCCESS, START_TIME) VALUES ('u','demo',0,1,'2025-11-29 02:00:00');";
    assert_eq!(fires(&log(dump)), ["demo 2025-11-29T01:00:00Z succeeded"]);
}

#[test]
fn jobs_of_a_cron_job_count_and_other_jobs_of_kubernetes_do_not() {
    let job = |name: &str, more: &str, status: &str| {
        format!(
            "{{\"kind\": \"Job\", \"metadata\": {{\"name\": \"{name}\", \"namespace\": \"shop\", \"uid\": \"{name}\"{more}}}, \"status\": {status}}}"
        )
    };
    let owner = ", \"ownerReferences\": [{\"kind\": \"CronJob\", \"name\": \"nightly\"}]";
    let manual = format!("{owner}, \"annotations\": {{\"cronjob.kubernetes.io/instantiate\": \"manual\"}}");
    let done = "{\"startTime\": \"2025-11-29T01:00:00Z\", \"conditions\": [{\"type\": \"Complete\", \"status\": \"True\"}]}";
    let jobs = [
        job("a", owner, done),
        job("a", owner, done),
        job("b", &manual, done),
        job("c", "", done),
        job("d", owner, "{}"),
    ];
    let list = format!("{{\"apiVersion\": \"v1\", \"items\": [{}], \"kind\": \"List\"}}", jobs.join(", "));
    let read = log(&list);
    assert_eq!(fires(&read), ["shop/nightly 2025-11-29T01:00:00Z succeeded"], "the same uid is the same Job");
    assert_eq!(places(&read), ["f: Job d"]);
    assert_eq!(read.left_out.values().sum::<u64>(), 2);
    let yaml = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: a\n  creationTimestamp: \"2025-11-29T01:00:00Z\"\n  \
                ownerReferences:\n  - kind: CronJob\n    name: nightly\n";
    assert_eq!(fires(&log(yaml)), ["nightly 2025-11-29T01:00:00Z"]);
    assert!(super::read("{\"apiVersion\": \"v1\", \"items\": []}", &source()).is_err());
}

#[test]
fn lines_of_cron_and_systemd_are_read_in_a_log_and_in_the_journal() {
    let text = "Nov 29 02:00:01 host CRON[123]: (root) CMD (   cd / && run-parts (x))\n\
        Nov 29 02:00:01 host CRON[122]: pam_unix(cron:session): session opened for user root\n\
        2025-11-29T02:05:01.25+01:00 host CROND[125]: (ann) CMD (play)\n\
        Foo 29 02:00:01 host CRON[123]: (root) CMD (play)\n";
    let read = log(text);
    assert_eq!(
        fires(&read),
        ["(ann) play 2025-11-29T01:05:01.250Z", "(root) cd / && run-parts (x) 2025-11-29T01:00:01Z",]
    );
    assert_eq!((places(&read), read.left_out.values().sum::<u64>()), (vec!["f: line 4"], 1));
    let entry = |fields: &str| format!("{{\"__REALTIME_TIMESTAMP\": \"1764378001000000\", {fields}}}\n");
    let journal = [
        entry("\"SYSLOG_IDENTIFIER\": \"CRON\", \"MESSAGE\": \"(root) CMD (play)\""),
        entry(
            "\"MESSAGE_ID\": \"7d4958e842da4a758f6c1cdc7b36dcc5\", \"UNIT\": \"backup.service\", \"MESSAGE\": \"Starting\"",
        ),
        entry(
            "\"MESSAGE_ID\": \"39f53479d3a045ac8e11786248231fbf\", \"UNIT\": \"backup.service\", \"MESSAGE\": \"Finished\"",
        ),
        "{\"__REALTIME_TIMESTAMP\"\n".to_owned(),
    ];
    let read = log(&journal.concat());
    assert_eq!(fires(&read), ["backup 2025-11-29T01:00:01Z", "(root) play 2025-11-29T01:00:01Z"]);
    assert_eq!(places(&read), ["f: line 4"]);
}

#[test]
fn a_hundred_thousand_rows_are_read_at_once() {
    let row = |n: u32| format!("j{},{}\n", n % 100, 1_764_000_000 + n);
    let text: String = std::iter::once("job,time\n".to_owned()).chain((0..100_000).map(row)).collect();
    let read = log(&text);
    assert_eq!((read.fires.len(), read.fires.values().flatten().count()), (100, 100_000));
    assert_eq!(read.last(), Some(Wall(1_764_099_999_000)));
}
