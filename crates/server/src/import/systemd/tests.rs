//! What becomes of timers in a sample.

use super::super::report::ImportFate::{Changed, Lost, Refused, Taken};
use super::super::tests::{fires, job, rows, says, source};
use super::*;

const SAMPLE: &str = include_str!("../samples/systemd.txt");

fn sample() -> Imported {
    let units = units_of_cat(SAMPLE);
    let timers = ["backup", "report", "sweep", "boot", "again"].map(|name| format!("{name}.timer"));
    read(&units, &timers, &source())
}

#[test]
fn a_timer_and_its_service_become_a_job() {
    let imported = sample();
    let backup = job(&imported, "backup");
    assert_eq!(backup.schedule, "0 30 2 * * ?\n0 0 12 ? * SAT,SUN");
    assert_eq!((backup.timezone.as_str(), backup.jitter.as_str()), ("Europe/Berlin", "5m"));
    assert_eq!((backup.catch_up, backup.overlap), (CatchUp::Latest, Overlap::Skip));
    assert_eq!((backup.user.as_str(), backup.directory.as_str()), ("backup", "/srv/backup"));
    assert_eq!(backup.environment["NOTE"], "two words");
    assert_eq!((backup.timeout, backup.limits.files), (Some(5_400), Some(1_024)));
    assert_eq!(backup.retry.map(|retry| (retry.max_retries, retry.delay)), Some((4, "30s".to_owned())));
    let command = backup.command.argv();
    let script = "set -f\nset -a; [ ! -r /etc/default/backup ] || . /etc/default/backup; set +a\n\
                  { /usr/bin/mkdir /srv/out || true; } &&\n\
                  /usr/local/bin/backup --unit backup.service --to \"${TARGET}\" $OPTIONS 'a \"b\"' 100%";
    assert_eq!(command, ["/bin/sh", "-c", script]);
    says(&imported, "AccuracySec", Lost, "starts at its due time");
    says(&imported, "[Service]", Lost, "PrivateTmp, ProtectSystem");
    says(&imported, "[Unit] conditions", Lost, "ConditionACPower");
    says(&imported, "MemoryMax", Lost, "together");
    says(&imported, "RandomizedDelaySec", Changed, "jitter = \"5m\"");
    assert_eq!(imported.jobs[0].description, "Nightly backup (imported from sample)");
}

#[test]
fn weekdays_beside_a_date_are_a_calendar() {
    let imported = sample();
    let report = job(&imported, "report");
    assert_eq!(report.schedule, "0 0 9 1-7 * ?");
    assert_eq!(report.require_calendars[0].name().as_str(), "systemd-mon");
    assert_eq!(imported.calendars[0].weekdays, ["mon"]);
    assert_eq!(report.command.argv(), ["/usr/bin/report", "--to", "all of us"]);
    says(&imported, "ExecStart", Taken, "command");
}

#[test]
fn spans_are_intervals_and_what_belongs_to_one_host_is_refused() {
    let imported = sample();
    assert_eq!(job(&imported, "sweep").schedule, "@every 1d");
    says(&imported, "OnBootSec", Lost, "not to a moment of one host");
    says(&imported, "OnBootSec", Refused, "leave it to systemd");
    says(&imported, "Type", Refused, "forking");
    assert_eq!(imported.jobs.len(), 3, "{:#?}", rows(&imported));
    let after = "[Timer]\nOnUnitInactiveSec=90\n";
    let units = UnitTexts::from([
        ("a@b.timer".to_owned(), after.to_owned()),
        ("a@.service".to_owned(), "[Service]\nExecStart=\nExecStart=/bin/run %i\n".to_owned()),
    ]);
    let imported = read(&units, &["a@b.timer".to_owned(), "none.timer".to_owned()], &source());
    let job = job(&imported, "a-b");
    assert_eq!(
        (job.schedule.as_str(), job.command.argv()),
        ("@after 1m30s", vec!["/bin/run".to_owned(), "b".to_owned()])
    );
    says(&imported, "Unit", Refused, "none.service is missing");
}

#[test]
fn calendar_events_are_read_as_systemd_reads_them() {
    for (event, rule) in [
        ("daily", "0 0 0 * * ?"),
        ("weekly UTC", "0 0 0 ? * MON"),
        ("quarterly", "0 0 0 1 1,4,7,10 ?"),
        ("*:0/15", "0 0/15 * * * ?"),
        ("*-*-* *:*:00", "0 * * * * ?"),
        ("Mon..Fri 09:30", "0 30 9 ? * MON-FRI"),
        ("Sat..Mon", "0 0 0 ? * SAT-MON"),
        ("*-*-1,15 4:5:6", "6 5 4 1,15 * ?"),
        ("12-24 18:00", "0 0 18 24 12 ?"),
        ("2027..2029-01/3-01", "0 0 0 1 1/3 ? 2027-2029"),
        ("*-02~03", "0 0 0 L-2 2 ?"),
        ("*-*~07/2 03:00", "0 0 3 L-6,L-4,L-2,L * ?"),
        ("*-*-* 8..20/4:10", "0 10 8-20/4 * * ?"),
    ] {
        let read = OnCalendarRule::parse(event).expect(event);
        assert_eq!((read.rule.as_str(), read.weekdays.is_empty()), (rule, true), "{event}");
        evenkeel_core::schedule::Schedule::parse(rule, "").expect(rule);
    }
    let last_monday = OnCalendarRule::parse("Mon *-05~07/1").expect("an event");
    assert_eq!(last_monday.rule, "0 0 0 L-6,L-5,L-4,L-3,L-2,L-1,L 5 ?");
    assert_eq!(last_monday.weekdays, ["mon"]);
    let zone = OnCalendarRule::parse("*-*-* 02:30 America/New_York").expect("an event").zone;
    assert_eq!(zone.as_deref(), Some("America/New_York"));
    for wrong in ["@1395716396", "25:00", "*-13-01", "Someday", "10:00:00.5", "1:2:3:4"] {
        OnCalendarRule::parse(wrong).expect_err(wrong);
    }
}

#[test]
fn the_next_fifty_fires_are_those_of_the_event() {
    let event = OnCalendarRule::parse("Mon..Fri 8..16/4:00").expect("an event");
    let rule = JobFile { schedule: event.rule, ..job(&sample(), "sweep") };
    // 2026-11-02 is a Monday: three fires on each working day.
    let mut expected = Vec::new();
    for day in (2..=30).filter(|day| !matches!(day % 7, 0 | 1)) {
        expected.extend([8, 12, 16].map(|hour| format!("2026-11-{day:02}T{hour:02}:00:00Z")));
    }
    assert_eq!(fires(&rule, "2026-11-01T00:00:00Z", 50), expected[..50]);
}
