//! Forecasts compared with each fire by itself.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::ToString;

use super::groups::KnownFires;
use super::*;
use crate::calendar::Calendar;
use crate::job::JobSchedule;
use crate::schedule::CalendarFilter;
use crate::steps::tests::counted;
use crate::time::{Millis, Wall};
use alloc::sync::Arc;

/// 2026-11-22T00:00:00Z, a Sunday.
const BEGIN: Wall = Wall(1_795_305_600_000);

/// A job whose fires are counted.
#[derive(Clone)]
struct ForecastJob {
    name: JobName,
    schedule: JobSchedule,
    /// `None` while one of them is missing.
    calendars: Option<CalendarFilter>,
    runs: u64,
}

/// Jobs that come without a view.
#[derive(Default)]
struct LoneJobs {
    groups: ForecastGroups,
    places: BTreeMap<(u32, Option<CalendarFilter>), usize>,
    jobs: ForecastJobs,
}

impl LoneJobs {
    fn add(&mut self, ForecastJob { name, schedule, calendars, runs }: ForecastJob) {
        match (self.groups.fires_of(&name, schedule), &calendars) {
            (KnownFires::Scheduled(number), Some(under)) => {
                let schedule = || self.groups.schedule(number).unwrap().schedule.clone().under(under.clone());
                let place = self.places.entry((number, calendars.clone()));
                let place = *place.or_insert_with(|| self.jobs.place(schedule()));
                self.jobs.add(place, &name, runs);
            }
            _ => self.jobs.unpredictable += 1,
        }
    }

    fn forecast(self, window: &ForecastWindow) -> FireForecast {
        self.jobs.forecast(window)
    }
}

pub(super) fn text(rules: &str) -> JobSchedule {
    JobSchedule {
        rules: rules.into(),
        timezone: "".into(),
        dst: None,
        start_at: "".into(),
        end_at: "".into(),
        jitter: "".into(),
        exclude_calendars: Vec::new(),
        require_calendars: Vec::new(),
    }
}

fn job(name: &str, schedule: &JobSchedule) -> ForecastJob {
    let calendars = Some(CalendarFilter::default());
    ForecastJob { name: name.parse().unwrap(), schedule: schedule.clone(), calendars, runs: 1 }
}

/// The sum of what each job's schedule gives fire by fire.
fn one_by_one(jobs: &[ForecastJob], window: &ForecastWindow) -> (Vec<u64>, Vec<u64>) {
    let (mut fires, mut runs) = (vec![0; window.steps()], vec![0; window.steps()]);
    for job in jobs {
        let schedule = job.schedule.parse(&job.name).unwrap().under(job.calendars.clone().unwrap());
        let mut after = window.begin() - Millis(1);
        while let Some(due) = schedule.next(after)
            && let Some(step) = window.step_of(due)
        {
            fires[step] += 1;
            runs[step] += job.runs;
            after = due;
        }
    }
    (fires, runs)
}

#[track_caller]
fn check(jobs: &[ForecastJob], window: &ForecastWindow) -> FireForecast {
    let mut all = LoneJobs::default();
    jobs.iter().cloned().for_each(|job| all.add(job));
    let forecast = all.forecast(window);
    let (fires, runs) = one_by_one(jobs, window);
    assert_eq!(forecast.fires, fires);
    assert_eq!(forecast.runs, runs);
    assert_eq!((forecast.jobs, forecast.uncounted), (jobs.len(), 0));
    forecast
}

#[test]
fn every_kind_of_schedule_is_counted_as_it_fires() {
    let mut closed = Calendar::new("closed".parse().unwrap());
    closed.windows = ["sun 10:00..10:30".into(), "02:15..02:45".into()].into();
    let closed = (closed.name.clone(), Arc::new(closed.read().unwrap()));
    let calendars = CalendarFilter::new([closed].into(), Vec::new());
    let mut jobs = Vec::new();
    let rules = [
        "* * * * *",
        "* * * * * *",
        "*/7 */3 9-17 * * *",
        "30 30 2 * * *",
        "*/10 30 2 * * *",
        "5,35 0 * * * ?",
        "@every 1s",
        "@every 7s offset 3s",
        "@every 1h30m",
        "@daily\n0 12 * * *\n@every 25m",
        "at 2026-11-22T04:05:06Z",
        "H H * * *",
        "H/20 H/5 * * * *",
        "H * * * *\n30 H * * *",
    ];
    for (n, rules) in rules.into_iter().enumerate() {
        for (zone, jitter, under) in [
            ("", "", false),
            ("America/New_York", "", false),
            ("Europe/Berlin", "90s", false),
            ("Asia/Kathmandu", "", true),
            ("", "20m", true),
        ] {
            let schedule = JobSchedule { timezone: zone.into(), jitter: jitter.into(), ..text(rules) };
            for twin in ["a", "b"] {
                let mut job = job(&format!("j{n}{twin}"), &schedule);
                job.runs = 3;
                if under {
                    job.schedule.exclude_calendars = ["closed".parse().unwrap()].into();
                    job.calendars = Some(calendars.clone());
                }
                jobs.push(job);
            }
        }
    }
    let bounded = JobSchedule {
        start_at: "2026-11-22T03:00:30".into(),
        end_at: "2026-11-22T05:00:10".into(),
        ..text("@every 10s")
    };
    jobs.push(job("bounded", &bounded));
    // An ordinary day; the days of clock changes in Berlin and New York.
    for begin in [BEGIN, Wall(1_774_742_400_000), Wall(1_793_491_200_000)] {
        check(&jobs, &ForecastWindow::new(begin, 1, 600));
    }
    check(&jobs, &ForecastWindow::new(BEGIN + Millis(1_234_567), 60, 5));
}

#[test]
fn a_window_begins_with_a_whole_step() {
    let window = ForecastWindow::new(BEGIN + Millis::secs(3_725), 1, 3);
    assert_eq!((window.begin(), window.at(2)), (BEGIN + Millis::secs(3_720), BEGIN + Millis::secs(3_840)));
    assert_eq!(ForecastWindow::new(BEGIN + Millis::secs(3_725), 60, 3).begin(), BEGIN + Millis::secs(3_600));
    assert_eq!(window.step_of(window.begin() - Millis(1)), None);
    assert_eq!((window.step_of(window.at(3) - Millis(1)), window.step_of(window.at(3))), (Some(2), None));
}

#[test]
fn the_highest_steps_name_the_jobs_that_fire_most_in_them() {
    let mut jobs: Vec<_> = (0..20).map(|n| job(&format!("five-{n:02}"), &text("5 * * * *"))).collect();
    jobs.push(job("often", &text("*/20 4-5 * * * *")));
    jobs.push(job("lone", &text("7 1 * * *")));
    let forecast = check(&jobs, &ForecastWindow::new(BEGIN, 1, 120));
    let [first, second, third] = &forecast.peaks[..] else { panic!("three peaks") };
    assert_eq!((first.step, second.step, third.step), (5, 65, 4), "the highest first, then the earliest");
    assert_eq!((first.jobs, forecast.fires[5]), (21, 23));
    assert_eq!(first.named.len(), NAMED);
    assert_eq!(first.named[..2], ["often".parse().unwrap(), "five-00".parse().unwrap()]);
    assert_eq!(third.named, ["often".parse().unwrap()]);
}

#[test]
fn what_follows_runs_or_lacks_a_calendar_is_not_predicted() {
    let mut all = LoneJobs::default();
    for name in ["a", "b"] {
        all.add(job(name, &text("@after 5m")));
        all.add(ForecastJob { calendars: None, ..job(name, &text("@daily")) });
        all.add(job(name, &text("what a newer version wrote")));
    }
    all.add(job("c", &text("@hourly")));
    let forecast = all.forecast(&ForecastWindow::new(BEGIN, 60, 2));
    assert_eq!((forecast.unpredictable, forecast.jobs), (6, 1));
    assert_eq!(forecast.fires, [1, 1]);
}

#[test]
fn where_counting_takes_too_long_most_jobs_are_counted_and_the_others_numbered() {
    let mut all = LoneJobs::default();
    for n in 0..50 {
        // Two rules, so that each fire is looked for.
        all.add(job(&format!("odd{n:02}"), &text(&format!("* * * * * *\n@every 7s offset {}s", n % 7))));
        all.add(job(&format!("even{n:02}"), &text("*/5 * * * *")));
    }
    let window = ForecastWindow::new(BEGIN, 1, 1_440);
    let forecast = all.jobs.forecast_within(&window, 1_000);
    assert_eq!((forecast.jobs, forecast.uncounted), (50, 50));
    assert_eq!(
        forecast.fires.iter().sum::<u64>(),
        50 * 288,
        "nothing of a group that was given up is counted"
    );
}

#[test]
fn equal_schedules_cost_one_count() {
    let window = ForecastWindow::new(BEGIN, 1, 1_440);
    let work = |jobs: usize, rules: &str| {
        let mut all = LoneJobs::default();
        (0..jobs).for_each(|n| all.add(job(&n.to_string(), &text(rules))));
        counted(|| all.forecast(&window)).1
    };
    assert_eq!(work(1_000, "*/5 * * * *"), work(10, "*/5 * * * *"));
    // A name decides the minute and the second: there are 60 of each.
    assert!(work(20_000, "H * * * *") <= work(60, "H * * * *") * 3);
    // A second of each minute is looked for, not each second.
    assert!(work(1, "* * * * * *") <= 3 * work(1, "* * * * *"));
}

#[test]
fn many_jobs_with_a_jitter_are_counted_as_they_fire() {
    let schedule = JobSchedule { jitter: "90s".into(), ..text("*/5 * * * *") };
    let many = |n: u64| ForecastJob { runs: 1 + n % 3 * (n % 7), ..job(&format!("team/job-{n}"), &schedule) };
    let jobs: Vec<_> = (0..700).map(many).collect();
    check(&jobs, &ForecastWindow::new(BEGIN + Millis::secs(3_725), 1, 30));
}
