//! What becomes of anacrontabs in a sample.

use super::super::report::ImportFate::{Changed, Lost, Refused};
use super::super::tests::{fires, job, rows, says, source};
use super::*;

const SAMPLE: &str = include_str!("../samples/anacrontab");

#[test]
fn the_lines_of_an_anacrontab_become_jobs() {
    let imported = read(SAMPLE, &source()).expect("an anacrontab");
    let daily = job(&imported, "cron.daily");
    assert_eq!((daily.schedule.as_str(), daily.jitter.as_str()), ("5 3 * * *", "45m"));
    assert_eq!(daily.command.argv(), ["/bin/sh", "-c", "nice run-parts /etc/cron.daily"]);
    assert_eq!((daily.catch_up, daily.directory.as_str()), (CatchUp::Latest, "/"));
    assert_eq!(daily.environment["PATH"], "/sbin:/bin:/usr/sbin:/usr/bin");
    assert!(!daily.environment.contains_key("LOGNAME"));
    assert_eq!(job(&imported, "cron.weekly").schedule, "25 3 * * 0");
    assert_eq!(job(&imported, "cron.monthly").schedule, "45 3 1 * *");
    assert_eq!(job(&imported, "ten-days").schedule, "@every 10d offset 3h");
    // A name with a blank in it is cut by anacron as well: the rest is the command.
    assert_eq!(job(&imported, "ten").command.argv()[2], "days\ttrue");
    says(&imported, "period", Changed, "counts the days from the run before");
    says(&imported, "MAILTO", Lost, "nothing is mailed");
    says(&imported, "period", Refused, "soon");
    assert!(
        rows(&imported).last().is_some_and(|row| row.contains("it takes hours")),
        "{:#?}",
        rows(&imported)
    );
    let mornings = (1..=50).map(|n| {
        let day = jiff::civil::date(2026, 11, 1).checked_add(jiff::Span::new().days(n - 1)).expect("a day");
        format!("{day}T03:05:00Z")
    });
    assert_eq!(fires(&daily, "2026-10-31T12:00:00Z", 50), mornings.collect::<Vec<_>>());
    assert!(read("# nothing\n", &source()).is_err());
}
