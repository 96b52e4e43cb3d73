//! The metrics that are read from the node's state at each scrape: one table.

use evenkeel_core::ids::Member;
use evenkeel_core::load::{Score, Utilization};
use evenkeel_core::node::Node;
use evenkeel_core::placement::claims::quota_of;
use evenkeel_core::time::{Millis, Now};
use evenkeel_core::view::{GroupId, View};
use procfs::process::{LimitValue, Process};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::{Registry, Unit};

use super::labels::BuildLabels;

/// The state that is read.
pub(crate) struct NodeState<'a> {
    pub(crate) node: &'a Node,
    pub(crate) now: Now,
    /// The engine of the registry.
    pub(crate) engine: &'static str,
    /// The entries that history has not written yet.
    pub(crate) history_waiting: u64,
    /// Whether history accepts entries.
    pub(crate) history_writable: bool,
}

/// A gauge: its name and unit, what it means, and its value where it has one now.
struct GaugeRow {
    name: &'static str,
    unit: Option<&'static str>,
    help: &'static str,
    value: fn(&NodeState<'_>) -> Option<f64>,
}

const fn number(
    name: &'static str,
    help: &'static str,
    value: fn(&NodeState<'_>) -> Option<f64>,
) -> GaugeRow {
    GaugeRow { name, unit: None, help, value }
}

const fn span(name: &'static str, help: &'static str, value: fn(&NodeState<'_>) -> Option<f64>) -> GaugeRow {
    GaugeRow { name, unit: Some("seconds"), help, value }
}

const fn part(name: &'static str, help: &'static str, value: fn(&NodeState<'_>) -> Option<f64>) -> GaugeRow {
    GaugeRow { name, unit: Some("ratio"), help, value }
}

const GAUGES: &[GaugeRow] = &[
    number(
        "member",
        "1 while this node is a member of the cluster and its lease is trusted, so that it may act",
        |state| flag(state.node.member().is_some() && state.node.trusted_until(state.now.mono).is_some()),
    ),
    number("nodes", "Members of the cluster that this node sees, by name", |state| {
        count(state.view().nodes())
    }),
    number("leader", "1 on the node that leads the cluster, as this node sees it", |state| {
        flag(state.member().is_some_and(|me| state.view().leader() == Some(&me)))
    }),
    span("lease_age", "Time since the registry last confirmed this node's lease", |state| {
        Some(seconds(state.now.mono - state.node.local().lease().confirmed()?))
    }),
    span("lease_term", "The term of the lease that the registry granted", |state| {
        Some(seconds(state.node.local().lease().ttl()))
    }),
    span(
        "lease_trusted",
        "How long this node may still act if the registry does not answer any more",
        |state| {
            let until = state.node.trusted_until(state.now.mono)?;
            Some(seconds(until - state.now.mono))
        },
    ),
    span("clock_offset", "How much this node's clock differs from the registry's at least", |state| {
        state.node.local().lease().difference(state.now).map(seconds)
    }),
    number("jobs", "Enabled jobs of the cluster", |state| state.groups(View::enabled_of)),
    number("jobs_claimable", "Enabled jobs that each have one owner (K of the quota formula)", |state| {
        state.groups(View::jobs_of)
    }),
    number("jobs_free", "Jobs that wait for an owner", |state| state.groups(View::free_count_of)),
    number("jobs_unschedulable", "Enabled jobs whose node selector fits no living node", |state| {
        state.groups(|view, group| if view.is_unschedulable(group) { view.enabled_of(group) } else { 0 })
    }),
    number("jobs_owned", "Jobs that this node owns (X)", |state| {
        count(state.member().map_or(0, |me| state.view().count(&me)))
    }),
    number("jobs_quota", "Jobs that this node may own (N)", |state| {
        let me = state.member()?;
        let tolerance = state.view().member(&me)?.info.tolerance;
        count(quota_of(state.view(), &me, tolerance))
    }),
    number("slots", "Runs that may go on at once on this node", |state| Some(f64::from(state.load().2))),
    number("slots_busy", "Slots of this node that are taken", |state| Some(f64::from(state.load().1))),
    number("slots_waiting", "Jobs with a due fire that waits for a slot of this node", |state| {
        count(state.node.local().waiting_for_slot())
    }),
    number(
        "permits_waiting",
        "Jobs with a run that waits on this node for a pool's or a namespace's permit",
        |state| count(state.node.local().waiting_for_permit()),
    ),
    number(
        "commits_waiting",
        "Transactions that this node has sent or is about to send, without an answer yet",
        |state| count(state.node.local().commits().iter().count()),
    ),
    part("load_score", "The load score by which nodes are compared: 0 is idle, 1 is full", |state| {
        Some(f64::from(state.load().3.0) / f64::from(Score::FULL.0))
    }),
    part("host_processors_used", "The used part of the host's processors", |state| {
        state.load().0.cpu.map(used)
    }),
    part("host_memory_used", "The used part of the host's memory", |state| state.load().0.memory.map(used)),
    number("history_waiting", "Entries that the history has not written yet", |state| {
        Some(state.history_waiting as f64)
    }),
    number(
        "history_writable",
        "1 while the history accepts entries; else this node claims nothing",
        |state| flag(state.history_writable),
    ),
];

fn flag(is: bool) -> Option<f64> {
    Some(if is { 1.0 } else { 0.0 })
}

fn count(number: usize) -> Option<f64> {
    Some(number as f64)
}

fn seconds(span: Millis) -> f64 {
    span.0 as f64 / 1_000.0
}

fn used(part: Utilization) -> f64 {
    f64::from(part.hundredths()) / 10_000.0
}

impl NodeState<'_> {
    fn view(&self) -> &View {
        self.node.view()
    }

    fn member(&self) -> Option<Member> {
        self.node.member()
    }

    fn load(&self) -> (evenkeel_core::load::HostLoad, u32, u32, Score) {
        self.node.load()
    }

    /// A number summed over the groups of jobs.
    fn groups(&self, number: impl Fn(&View, GroupId) -> usize) -> Option<f64> {
        let view = self.view();
        count(view.groups().map(|group| number(view, group)).sum())
    }

    /// The gauges as they stand.
    pub(crate) fn gauges(&self) -> Registry {
        let mut registry = Registry::with_prefix("evenkeel");
        let build = Family::<BuildLabels, Gauge>::default();
        build.get_or_create(&BuildLabels { version: env!("CARGO_PKG_VERSION"), engine: self.engine }).set(1);
        registry.register(
            "build_info",
            "1, with the version of the program and the engine of the registry",
            build,
        );
        for row in GAUGES {
            let Some(value) = (row.value)(self) else { continue };
            match row.unit {
                Some(unit) => registry.register_with_unit(
                    row.name,
                    row.help,
                    Unit::Other(unit.to_owned()),
                    ConstGauge::new(value),
                ),
                None => registry.register(row.name, row.help, ConstGauge::new(value)),
            }
        }
        registry
    }
}

/// What the process uses, under the names that all clients of Prometheus give it; empty where the host says nothing.
pub(super) fn process() -> Registry {
    let mut registry = Registry::with_prefix("process");
    let Ok(process) = Process::myself() else { return registry };
    if let Ok(stat) = process.stat() {
        let ticks = procfs::ticks_per_second() as f64;
        let cpu = ConstCounter::new((stat.utime + stat.stime) as f64 / ticks);
        registry.register_with_unit(
            "cpu",
            "Processor time of this process, without that of runs",
            Unit::Seconds,
            cpu,
        );
        let resident = ConstGauge::new((stat.rss * procfs::page_size()) as f64);
        registry.register_with_unit("resident_memory", "Memory of this process", Unit::Bytes, resident);
        let threads = ConstGauge::new(stat.num_threads as f64);
        registry.register("threads", "Threads of this process", threads);
        if let Ok(boot) = procfs::boot_time_secs() {
            let start = ConstGauge::new(boot as f64 + stat.starttime as f64 / ticks);
            registry.register_with_unit(
                "start_time",
                "When this process started, since 1970",
                Unit::Seconds,
                start,
            );
        }
    }
    if let Ok(open) = process.fd_count() {
        registry.register("open_fds", "Open file descriptors", ConstGauge::new(open as f64));
    }
    if let Ok(LimitValue::Value(most)) = process.limits().map(|limits| limits.max_open_files.soft_limit) {
        registry.register(
            "max_fds",
            "The most file descriptors that may be open",
            ConstGauge::new(most as f64),
        );
    }
    registry
}
