//! What a forecast of 24 hours by minute costs with 100,000 jobs: to read their schedules in a view and to
//! sort them, to sort them again, and to count.
//!
//! `cargo bench -p evenkeel-core --bench forecast`

use evenkeel_core::forecast::{ForecastGroups, ForecastJobs, ForecastScope};
use evenkeel_core::job::{Job, JobFile, Spec, Work};
use evenkeel_core::keys;
use evenkeel_core::record::{SpecRecord, encode};
use evenkeel_core::registry::{Change, ChangeBatch, Entry, Revision};
use evenkeel_core::schedule::ForecastWindow;
use evenkeel_core::time::{Mono, Wall};
use evenkeel_core::view::View;
use mimalloc::MiMalloc;

/// The one that the binary has.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

const JOBS: usize = 100_000;
/// 2026-11-22T00:00:00Z.
const BEGIN: Wall = Wall(1_795_305_600_000);

/// How the n-th job is declared.
type ForecastCase = (&'static str, fn(usize, &mut JobFile));

const CASES: &[ForecastCase] = &[
    ("300 schedules", |n, job| {
        let (minute, hour) = (n % 60, n / 60 % 5 * 4);
        job.schedule = format!("{minute} {hour} * * *");
    }),
    ("mixed, 1 in 5 with H", |n, job| {
        (job.schedule, job.timezone) = match n % 5 {
            0 => ("H H * * *".into(), "Europe/Berlin".into()),
            1 => (format!("{} {} * * *", n / 5 % 60, n / 300 % 24), "America/New_York".into()),
            2 => (format!("*/{} * * * *", 5 + n / 5 % 20), "Europe/Berlin".into()),
            3 => (format!("@every {}s", 30 + n / 5 % 300), String::new()),
            _ => ("0 9-17 * * 1-5".into(), "Asia/Tokyo".into()),
        };
    }),
    ("H H * * *", |_, job| job.schedule = "H H * * *".into()),
    ("H H H * * ?", |_, job| job.schedule = "H H H * * ?".into()),
    ("H/5 * * * *", |_, job| job.schedule = "H/5 * * * *".into()),
    ("every second", |_, job| job.schedule = "* * * * * *".into()),
    ("@hourly, jitter 10m", |_, job| (job.schedule, job.jitter) = ("@hourly".into(), "10m".into())),
    ("*/5, jitter 5m", |_, job| (job.schedule, job.jitter) = ("*/5 * * * *".into(), "5m".into())),
];

/// How long this thread has run, in milliseconds: on a busy machine it says more than the time that has passed.
fn ran() -> f64 {
    let stat =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux that accounts for threads");
    let nanoseconds: f64 = stat.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number");
    nanoseconds / 1e6
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = ran();
    let done = work();
    (done, ran() - start)
}

fn view(declare: fn(usize, &mut JobFile)) -> View {
    let change = |n: usize| {
        let name: evenkeel_core::ids::JobName = format!("job-{n:06}").parse().expect("a name");
        let argv = ["/usr/bin/report", "--daily", "--to", "ops@example.org"].map(str::to_owned);
        let mut file = JobFile::new(name.clone(), "@daily", Work::Command(argv.into()));
        declare(n, &mut file);
        let job = Job::parse(file).expect("a job");
        let value = encode(&SpecRecord::Live(Box::new(Spec::new(job, 1, Wall(0)))));
        let entry = Entry { value, revision: Revision(1), born: Revision(1), owner: None };
        Change { key: keys::spec(&name), entry: Some(entry), revision: Revision(1) }
    };
    let mut view = View::new("a".parse().expect("a name"));
    // A job that no node may run has no fires.
    let info = br#"{"address":"","home":"","slots":1,"tolerance":1,"alarm":1,"version":""}"#;
    let info = Entry { value: info[..].into(), revision: Revision(1), born: Revision(1), owner: None };
    let key = keys::node(&"a@1".parse().expect("a member"));
    let member = Change { key, entry: Some(info), revision: Revision(1) };
    let changes = (0..JOBS).map(change).chain([member]).collect();
    let batch = ChangeBatch { changes, revision: Revision(1) };
    view.list(Mono(0), &batch);
    view
}

/// Sorts all jobs as a node does, part by part.
fn read(groups: &mut ForecastGroups, view: &View) -> ForecastJobs {
    let scope = ForecastScope::default();
    let mut reading = groups.reading(&scope);
    while reading.look(view) {}
    reading.jobs()
}

fn main() {
    println!(
        "{:>22} {:>10} {:>9} {:>9} {:>9} {:>12}",
        "jobs", "version ms", "first ms", "again ms", "count ms", "fires"
    );
    for (name, declare) in CASES {
        let view = view(*declare);
        let (_, version) = timed(|| view.timing_version());
        let mut groups = ForecastGroups::default();
        let (_, first) = timed(|| read(&mut groups, &view));
        let (jobs, again) = timed(|| read(&mut groups, &view));
        let (forecast, counts) = timed(|| jobs.forecast(&ForecastWindow::new(BEGIN, 1, 1_440)));
        let fires: u64 = forecast.fires.iter().sum();
        let uncounted = forecast.uncounted;
        println!(
            "{name:>22} {version:>10.2} {first:>9.1} {again:>9.1} {counts:>9.1} {fires:>12}  {uncounted} jobs not counted"
        );
    }
}
