//! What becomes of Quartz in a sample.

use evenkeel_core::job::CatchUp;

use super::super::report::ImportFate::{Changed, Refused, Taken};
use super::super::tests::{fires, job, rows, says, source};
use super::*;

const SAMPLE: &str = include_str!("../samples/quartz.xml");

fn with_command() -> ImportSource {
    let words = ["call", "{class}", "{group}", "{region}"].map(ToOwned::to_owned).to_vec();
    ImportSource { command: Some(words), ..source() }
}

#[test]
fn each_trigger_of_a_job_becomes_a_job() {
    let imported = read(SAMPLE, &with_command()).expect("XML");
    let days = job(&imported, "sales.report-working-days");
    assert_eq!(days.command.argv(), ["call", "com.example.Report", "sales", "eu"]);
    assert_eq!((days.schedule.as_str(), days.timezone.as_str()), ("0 0 9 ? * MON-FRI", "America/New_York"));
    assert_eq!(
        (days.catch_up, days.delivery, days.overlap),
        (CatchUp::Skip, Delivery::AtLeastOnce, Overlap::Allow)
    );
    assert_eq!(days.environment["region"], "eu");
    says(&imported, "priority", Changed, "priority = 9");
    says(&imported, "overlap", Changed, "@DisallowConcurrentExecution");
    // 9 in New York is 14 UTC after the clocks went back on the first of November.
    let expected = ["02", "03", "04", "05", "06", "09"].map(|day| format!("2026-11-{day}T14:00:00Z"));
    assert_eq!(fires(&days, "2026-11-01T12:00:00Z", 6), expected);
    let often = job(&imported, "sales.report-often");
    assert_eq!(often.schedule, "@every 1m offset 30s");
    assert_eq!(
        (often.start_at.as_str(), often.end_at.as_str()),
        ("2026-11-01T00:00:30Z", "2026-11-01T00:09:30.001Z")
    );
    let native = job(&imported, "native");
    assert_eq!(native.command.argv(), ["/bin/sh", "-c", "/bin/sweep -a | sort"]);
    // The start is a Wednesday.
    assert_eq!((native.schedule.as_str(), native.start_at.as_str()), ("0 30 6 ? * 4", "2026-11-04T06:30:00"));
    says(&imported, "repeat-interval", Taken, "0 30 6 ? * 4");
    says(&imported, "calendar-name", Refused, "holidays");
    assert_eq!(imported.jobs.len(), 3, "{:#?}", rows(&imported));
    assert!(rows(&imported)[0].starts_with("processing-directives"), "{:#?}", rows(&imported));
}

#[test]
fn what_says_too_little_is_refused() {
    let refused = read(SAMPLE, &source()).expect("XML");
    says(&refused, "job-class", Refused, "--command");
    let trigger = |inner: &str| {
        let text = format!(
            "<job-scheduling-data><schedule><job><name>j</name><job-class>{NATIVE}</job-class><job-data-map><entry><key>command</key>\
             <value>x</value></entry></job-data-map></job><trigger>{inner}</trigger></schedule></job-scheduling-data>"
        );
        read(&text, &source()).expect("XML")
    };
    for (inner, field) in [
        ("<simple><name>t</name><job-name>j</job-name></simple>", "repeat-count"),
        (
            "<simple><name>t</name><job-name>j</job-name><repeat-count>-1</repeat-count><repeat-interval>5</repeat-interval></simple>",
            "repeat-interval",
        ),
        (
            "<simple><name>t</name><job-name>j</job-name><repeat-count>3</repeat-count><repeat-interval>5000</repeat-interval></simple>",
            "repeat-count",
        ),
        ("<cron><name>t</name><job-name>j</job-name></cron>", "cron-expression"),
        (
            "<cron><name>t</name><job-name>j</job-name><cron-expression>0 0 1 1 * 2</cron-expression></cron>",
            "",
        ),
        ("<daily-time><name>t</name><job-name>j</job-name></daily-time>", "trigger"),
        ("<cron><name>t</name><job-name>other</job-name></cron>", ""),
    ] {
        let imported = trigger(inner);
        assert_eq!(
            imported.findings.last().map(|row| (row.field.as_str(), row.fate)),
            Some((field, Refused)),
            "{inner}"
        );
        assert!(imported.jobs.is_empty(), "{inner}");
    }
    for text in ["<beans/>", "<a", "<job-scheduling-data/>"] {
        read(text, &source()).expect_err(text);
    }
}
