//! What people declare, as it is kept.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::calendar::Calendar;
use evenkeel_core::job::http::StatusCodes;
use evenkeel_core::job::*;
use evenkeel_core::record::{CalendarRecord, CalendarSpec, SpecRecord};
use evenkeel_core::registry::DurabilityClass;
use evenkeel_core::schedule::Dst;
use evenkeel_core::sharding_strategy::{NodeOrder, ShardingStrategy};
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;
use serde::{Deserialize, Serialize};

use super::tree::AT;
use super::{LayoutLine, every, line};

/// Whether a field that is not known makes all of it unreadable.
pub(crate) fn is_strict(name: &str) -> bool {
    !parts(name).is_empty()
}

/// Where such a field is not allowed.
pub(crate) fn parts(name: &str) -> &'static [&'static str] {
    match name {
        "job/spec" => &[
            "/live/job",
            "/live/job/pool",
            "/live/job/limits",
            "/live/job/limits/together",
            "/live/job/dataflow",
            "/live/job/http",
            "/live/job/retry",
            "/live/job/notify",
            "/live/job/parameters/DAY",
        ],
        "job/spec-switched" | "job/spec-broadcast" => &["/live/job"],
        "job/spec-sharded" => &[
            "/live/job",
            "/live/job/pool",
            "/live/job/limits",
            "/live/job/limits/together",
            "/live/job/retry",
            "/live/job/notify",
            "/live/job/parameters/DAY",
        ],
        "job/spec-dispatched" => &["/live/job", "/live/job/http", "/live/job/notify"],
        "job/spec-claimed" | "job/spec-shadow" => &["/live/job", "/live/job/dataflow"],
        "calendar" | "calendar/empty" => &["/live/calendar"],
        "namespace" | "namespace/empty" => &["/live/namespace"],
        _ => &[],
    }
}

pub(crate) fn lines() -> Vec<LayoutLine> {
    let unparsed =
        UnparsedSpec { job: job(), version: 5, since: AT, paused: true, off: ShardSet::range(0, 2) };
    let mut simple = JobFile::new("j".parse().expect("a name"), "@daily", Work::Function("f".into()));
    simple.enabled = false;
    let simple = Job::parse(simple).expect("a valid job");
    let origin = || SwitchOrigin { at: AT, by: "root@host".into() };
    let operator = OperatorSwitches {
        enabled: Some(EnabledSwitch { declared: true, origin: origin() }),
        paused: Some(origin()),
        off: Some(origin()),
    };
    let switched = Spec { paused: true, off: ShardSet::range(0, 2), operator, ..Spec::new(simple, 5, AT) };
    let calendar = Calendar {
        name: "holidays".parse().expect("a name"),
        days: vec!["12-25".into()],
        weekdays: vec!["sat".into()],
        windows: vec!["mon-fri 09:00..17:00".into()],
        description: "closed".into(),
    };
    let calendar = CalendarSpec { calendar, version: 2, since: AT };
    vec![
        line("job/spec", UnparsedSpecRecord::Live(Box::new(unparsed))),
        line("job/spec-switched", SpecRecord::Live(Box::new(switched))),
        line("job/spec-sharded", spec(sharded())),
        line("job/spec-broadcast", spec(broadcast())),
        line("job/spec-dispatched", spec(dispatched())),
        line("job/spec-claimed", spec(claimed())),
        line("job/spec-shadow", spec(JobFile { shadow: true, ..claimed() })),
        line("calendar", CalendarRecord::Live(Box::new(calendar))),
        line("placements", every!(Placement: Claimed, Sharded, Broadcast, Dispatched)),
        line("deliveries", every!(Delivery: AtMostOnce, AtLeastOnce)),
        line("occasions", every!(Occasion: Failure, Recovery, Miss, Late, Absent, Lost)),
        line("clock changes", every!(Dst: Skip, Shift, Once, Twice)),
        line("classes", every!(DurabilityClass: C, B, A)),
        line("catch-ups", catch_ups()),
        line("overlaps", overlaps()),
        line("parameter types", every!(ParameterType: String, Integer, Boolean, Date)),
    ]
}

/// A spec with a job that is not parsed: no job has every key.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum UnparsedSpecRecord {
    Live(Box<UnparsedSpec>),
}

/// The fields of a `Spec` up to the operators' switches.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct UnparsedSpec {
    job: JobFile,
    version: u64,
    since: Wall,
    paused: bool,
    off: ShardSet,
}

fn spec(file: JobFile) -> SpecRecord {
    SpecRecord::Live(Box::new(Spec::new(Job::parse(file).expect("a valid job"), 5, AT)))
}

/// A sharded job that runs a command, with every key that goes with it.
fn sharded() -> JobFile {
    let (limits, http) = (Limits { memory: "1M".into(), ..job().limits }, None);
    let (catch_up, overlap, function) = (CatchUp::All(3), Overlap::Forbid, String::new());
    let (shell, monitor_execution, dataflow) = (false, true, None);
    let notify = job().notify.map(|notify| {
        Box::new(Notify {
            on: Some(vec![Occasion::Late, Occasion::Absent]),
            heartbeat: String::new(),
            ..*notify
        })
    });
    JobFile { shell, limits, function, dataflow, http, monitor_execution, catch_up, overlap, notify, ..job() }
}

/// A broadcast job that is not monitored.
fn broadcast() -> JobFile {
    let file = JobFile::new(job().name.into_name(), "@daily", Work::Command(vec!["/bin/true".into()]));
    let (one_per_host, monitor_execution, max_clock_skew) = (true, false, Some(2));
    JobFile { placement: Placement::Broadcast, one_per_host, monitor_execution, max_clock_skew, ..file }
}

/// A dispatched job that makes a request.
fn dispatched() -> JobFile {
    let http = job().http.map(|http| Box::new(Http { ca: String::new(), verify: false, ..*http }));
    let file = JobFile::new(job().name.into_name(), "@hourly", Work::Http(http.expect("a request")));
    let notify =
        job().notify.map(|notify| Box::new(Notify { heartbeat: notify.heartbeat, ..Notify::default() }));
    JobFile { placement: Placement::Dispatched, overlap: Overlap::Limit(3), notify, ..file }
}

/// A claimed job that calls a function, with parameters.
fn claimed() -> JobFile {
    let file = JobFile::new(job().name.into_name(), "", Work::Function("f".into()));
    let (shard_parameters, dataflow) = (vec!["a".into()], job().dataflow);
    JobFile { shard_parameters, parameter: "p".into(), dataflow, ..file }
}

#[test]
fn a_parsed_job_writes_the_file_that_it_was_parsed_of() {
    let mut keys = BTreeSet::new();
    let shell = JobFile { command: Program::Line("a | b".into()), shell: true, ..sharded() };
    for file in [sharded(), broadcast(), dispatched(), claimed(), shell] {
        let job = Job::parse(file.clone()).expect("a valid job");
        assert_eq!(job.to_file(), file);
        let text = serde_json::to_string(&file).expect("plain data");
        assert_eq!(serde_json::to_string(&job).expect("plain data"), text);
        assert_eq!(serde_json::from_str::<Job>(&text).expect("it is read back"), job);
        let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(&text) else { panic!("{text}") };
        keys.extend(fields.into_iter().map(|(key, _)| key));
    }
    let Ok(serde_json::Value::Object(every)) = serde_json::to_value(job()) else { panic!("no object") };
    let missing: Vec<_> = every.keys().filter(|key| !keys.contains(*key)).collect();
    assert_eq!(missing, [""; 0], "a new key belongs to one of these jobs");
}

#[test]
fn a_kept_job_with_a_schedule_of_a_later_version_is_known_and_never_due() {
    let text = r#"{"name":"j","schedule":"@later 5s","function":"f"}"#;
    let job: Job = serde_json::from_str(text).expect("it is known");
    assert!(job.schedule().is_err());
    assert_eq!(serde_json::to_string(&job).expect("plain data"), text);
    assert!(Job::parse(job.to_file()).is_err());
    let refused = serde_json::from_str::<Job>(r#"{"name":"j","function":"f","shards":2}"#).unwrap_err();
    assert!(refused.to_string().starts_with("job j: shards is for sharded jobs"), "{refused}");
}

fn catch_ups() -> Vec<CatchUp> {
    let all = vec![CatchUp::Skip, CatchUp::Latest, CatchUp::All(3)];
    let _complete = |it: &CatchUp| match it {
        CatchUp::Skip | CatchUp::Latest | CatchUp::All(_) => (),
    };
    all
}

fn overlaps() -> Vec<Overlap> {
    let _complete = |it: &Overlap| match it {
        Overlap::Forbid | Overlap::Skip | Overlap::Queue(_) => (),
        Overlap::Replace | Overlap::Allow | Overlap::Limit(_) => (),
    };
    let (queue, most) = (Overlap::Queue(2), Overlap::Limit(3));
    vec![Overlap::Forbid, Overlap::Skip, queue, Overlap::Replace, Overlap::Allow, most]
}

/// A parameter with every key.
fn parameter() -> JobParameter {
    JobParameter {
        kind: ParameterType::Date,
        default: Some("2026-01-31".into()),
        allowed: vec!["2026-01-30".into(), "2026-01-31".into()],
        description: "d".into(),
    }
}

/// A job file with every key. It is not valid: here it is only written and read.
fn job() -> JobFile {
    JobFile {
        name: "j".parse().expect("a name"),
        namespace: None,
        schedule: "0 3 * * *".into(),
        timezone: "Europe/Berlin".into(),
        dst: Some(Dst::Once),
        start_at: "2026-01-01".into(),
        end_at: "2027-01-01".into(),
        jitter: "30s".into(),
        exclude_calendars: vec!["holidays".parse().expect("a name")],
        require_calendars: vec!["office".parse().expect("a name")],
        placement: Placement::Sharded,
        node_selector: "gpu,zone=eu|us".parse().expect("conditions"),
        priority: Priority::try_from(3).expect("a priority"),
        pool: Some(Pool { name: "p".parse().expect("a name"), limit: 3 }),
        shards: 4,
        shard_parameters: vec!["a".into(), "b".into()],
        parameter: "p".into(),
        parameters: BTreeMap::from([("DAY".into(), parameter())]),
        strategy: ShardingStrategy::OddEven,
        order: NodeOrder::Descending,
        sticky_shards: true,
        one_per_host: true,
        monitor_execution: false,
        max_clock_skew: Some(2),
        reshard_timeout: 7,
        delivery: Delivery::AtLeastOnce,
        min_durability: Some(DurabilityClass::B),
        command: Program::Argv(vec!["/bin/true".into()]),
        shell: true,
        directory: "/tmp".into(),
        environment: BTreeMap::from([("A".into(), "1".into())]),
        inherit: vec!["PATH".into()],
        secrets: BTreeMap::from([("B".into(), "s".into())]),
        secret_files: BTreeMap::from([("C".into(), "s".into())]),
        stdin: "in".into(),
        user: "nobody".into(),
        limits: Limits {
            cpu: "1s".into(),
            memory: "1MiB".into(),
            files: Some(9),
            processes: Some(5),
            together: Some(RunLimits {
                memory: "512M".into(),
                cores: Some(serde_json::from_str("1.5").expect("cores")),
                processes: Some(50),
            }),
        },
        function: "f".into(),
        dataflow: Some(Dataflow { interval: 60, threads: Some(2), fetch: 10, streaming: true }),
        http: Some(Box::new(Http {
            url: "https://x/".into(),
            method: "PUT".into(),
            headers: BTreeMap::from([("h".into(), "v".into())]),
            body: "b".into(),
            success: StatusCodes::new(vec![(200, 299), (404, 404)]),
            redirects: 2,
            ca: "ca.pem".into(),
            verify: false,
        })),
        timeout: Some(30),
        run_timeout: Some(300),
        pause_after_failures: Some(3),
        retry: Some(Retry {
            max_retries: 3,
            delay: "5s".into(),
            max_delay: "1m".into(),
            exit_codes: vec![7],
        }),
        misfire_grace: Some(60),
        catch_up: CatchUp::All(3),
        catch_up_window: "1h".into(),
        catch_up_spread: "10m".into(),
        overlap: Overlap::Queue(2),
        notify: Some(Box::new(Notify {
            on: Some(vec![Occasion::Late]),
            to: vec!["ops".parse().expect("a name")],
            late_after: "5m".into(),
            absent_after: "1h".into(),
            heartbeat: "https://h/beat".into(),
        })),
        shadow: false,
        enabled: false,
        labels: BTreeMap::from([("team".into(), "billing".into())]).try_into().expect("labels"),
        description: "d".into(),
    }
}
