//! What people declare, as it is kept.

use std::collections::BTreeMap;

use evenkeel_core::calendar::Calendar;
use evenkeel_core::job::http::StatusCodes;
use evenkeel_core::job::*;
use evenkeel_core::record::{CalendarRecord, CalendarSpec, SpecRecord};
use evenkeel_core::registry::DurabilityClass;
use evenkeel_core::schedule::Dst;
use evenkeel_core::sharding_strategy::{NodeOrder, ShardingStrategy};
use evenkeel_core::shards::ShardSet;

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
        ],
        "job/spec-switched" => &["/live/job"],
        "calendar" | "calendar/empty" => &["/live/calendar"],
        _ => &[],
    }
}

pub(crate) fn lines() -> Vec<LayoutLine> {
    let operator = OperatorSwitches::default();
    let spec = Spec { job: job(), version: 5, since: AT, paused: true, off: ShardSet::range(0, 2), operator };
    let mut simple = Job::new("j".parse().expect("a name"), "@daily", Work::Function("f".into()));
    simple.enabled = false;
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
        line("job/spec", SpecRecord::Live(Box::new(spec))),
        line("job/spec-switched", SpecRecord::Live(Box::new(switched))),
        line("calendar", CalendarRecord::Live(Box::new(calendar))),
        line("placements", every!(Placement: Claimed, Sharded, Broadcast, Dispatched)),
        line("deliveries", every!(Delivery: AtMostOnce, AtLeastOnce)),
        line("occasions", every!(Occasion: Failure, Recovery, Miss, Late, Absent, Lost)),
        line("clock changes", every!(Dst: Skip, Shift, Once, Twice)),
        line("classes", every!(DurabilityClass: C, B, A)),
        line("catch-ups", catch_ups()),
        line("overlaps", overlaps()),
    ]
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

/// A job that says everything. No job can be all of this at once: here it is only to be written and read.
fn job() -> Job {
    Job {
        name: "j".parse().expect("a name"),
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
        })),
        enabled: false,
        description: "d".into(),
    }
}
