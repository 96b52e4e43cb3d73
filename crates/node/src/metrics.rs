//! What a node measures for monitoring systems, by the client library of Prometheus; `docs/metrics.md` has the table.
//!
//! Whatever happens to runs and to the node passes through history, and is counted where it is put there. [`gauges`] are
//! read from the node's state at each scrape. No label has a value for each job or run, so the number of series stays small.

mod gauges;
mod labels;
mod recent;

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::VerdictState;
use evenkeel_core::ids::{DEFAULT_NAMESPACE, Fire, JobName};
use evenkeel_core::input::LeaseEvent;
use evenkeel_core::registry::TxnOutcome;
use evenkeel_core::time::{Millis, Mono};
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use crate::clock;
use crate::history::{AttemptState, HistoryWrite, RunRecord};
pub(crate) use gauges::NodeState;
use labels::{
    CommitLabels, EventLabels, FireLabels, LeaseLabels, NamespaceLimit, NotificationLabels, OutcomeLabels,
};
use recent::RecentTimes;
pub use recent::TimePercentiles;

/// The upper bounds of the buckets for lateness and for commits, in seconds.
const SHORT: [f64; 14] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// The same for the duration of attempts: from a quick function to a night's work.
const LONG: [f64; 13] =
    [0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0];

/// A text format for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricsFormat {
    /// Prometheus' own format, version 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl MetricsFormat {
    /// Its value of `Content-Type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Appends the metrics of a registry in this format, without the line that ends OpenMetrics.
    pub fn write(self, registry: &Registry, out: &mut String) {
        let written = match self {
            Self::Prometheus => prometheus_text::encode(out, registry),
            Self::OpenMetrics => text::encode_registry(out, registry),
        };
        // A String takes whatever is written to it.
        debug_assert!(written.is_ok());
    }
}

/// For a history that is opened without a node.
impl Default for NodeMetrics {
    fn default() -> Self {
        Self::new("")
    }
}

/// What one node measures.
#[derive(Debug)]
pub(crate) struct NodeMetrics {
    registry: Registry,
    /// When the node began to work.
    began: Mono,
    fires: Family<FireLabels, Counter>,
    namespaces: NamespaceLimit,
    attempts: Family<OutcomeLabels, Counter>,
    lateness: Histogram,
    recent_lateness: RecentTimes,
    duration: Family<OutcomeLabels, Histogram, fn() -> Histogram>,
    events: Family<EventLabels, Counter>,
    commits: Family<CommitLabels, Counter>,
    commit_duration: Histogram,
    recent_commits: RecentTimes,
    lease_replies: Family<LeaseLabels, Counter>,
    notifications: Family<NotificationLabels, Counter>,
}

/// The states in which attempts end, and so do fires.
fn outcomes() -> impl Iterator<Item = AttemptState> {
    AttemptState::ALL.into_iter().filter(|state| state.is_end())
}

fn seconds(span: Millis) -> f64 {
    span.0.max(0) as f64 / 1_000.0
}

impl NodeMetrics {
    /// The metrics of a node that begins to work on this engine.
    pub(crate) fn new(engine: &'static str) -> Self {
        let long: fn() -> Histogram = || Histogram::new(LONG);
        let mut metrics = Self {
            registry: Registry::with_prefix("evenkeel"),
            began: clock::now().mono,
            fires: Family::default(),
            namespaces: NamespaceLimit::default(),
            attempts: Family::default(),
            lateness: Histogram::new(SHORT),
            recent_lateness: RecentTimes::default(),
            duration: Family::new_with_constructor(long),
            events: Family::default(),
            commits: Family::default(),
            commit_duration: Histogram::new(SHORT),
            recent_commits: RecentTimes::default(),
            lease_replies: Family::default(),
            notifications: Family::default(),
        };
        metrics.register(engine);
        metrics.begin_series();
        metrics
    }

    fn register(&mut self, engine: &'static str) {
        let registry = &mut self.registry;
        registry.register(
            "fires",
            "Fires and manual runs whose last attempt ended on this node, or that it decided not to start, by outcome; \
             a fire of a sharded job counts once for each shard",
            self.fires.clone(),
        );
        registry.register("attempts", "Attempts that ended on this node, by outcome", self.attempts.clone());
        registry.register_with_unit(
            "fire_lateness",
            "How long after its due moment the first attempt of a fire started",
            Unit::Seconds,
            self.lateness.clone(),
        );
        registry.register_with_unit(
            "attempt_duration",
            "How long attempts took from their start to their end, by outcome",
            Unit::Seconds,
            self.duration.clone(),
        );
        registry.register(
            "events",
            "Events that this node reported, by kind; docs/concepts/events.md has the kinds",
            self.events.clone(),
        );
        registry.register(
            "commits",
            "Transactions with the registry, by kind and outcome; a claim is refused where another node was first",
            self.commits.clone(),
        );
        registry.sub_registry_with_label(("engine".into(), engine.into())).register_with_unit(
            "commit_duration",
            "How long the registry took to answer a batch of transactions",
            Unit::Seconds,
            self.commit_duration.clone(),
        );
        registry.register(
            "lease_replies",
            "Answers of the registry about this node's lease, by outcome",
            self.lease_replies.clone(),
        );
        registry.register(
            "notifications",
            "Notifications, by what became of them",
            self.notifications.clone(),
        );
    }

    /// Begins the series whose labels are known, so that a rate over them sees the first increase.
    fn begin_series(&self) {
        for state in outcomes() {
            drop(self.attempts.get_or_create(&OutcomeLabels { outcome: state.as_str() }));
        }
        self.begin_namespaces([DEFAULT_NAMESPACE]);
        for outcome in LeaseLabels::OUTCOMES {
            drop(self.lease_replies.get_or_create(&LeaseLabels { outcome }));
        }
        for outcome in NotificationLabels::OUTCOMES {
            drop(self.notifications.get_or_create(&NotificationLabels { outcome }));
        }
    }

    /// Begins the series of these namespaces, whose first failure would be no increase otherwise.
    pub(crate) fn begin_namespaces<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        for name in names {
            let namespace = self.namespaces.label_of(name);
            for state in outcomes() {
                let labels = FireLabels { namespace: namespace.clone(), outcome: state.as_str() };
                drop(self.fires.get_or_create(&labels));
            }
        }
    }

    /// Counts what is put into history.
    pub(crate) fn recorded(&self, entry: &HistoryWrite) {
        match entry {
            HistoryWrite::Attempt(record) if record.state == AttemptState::Running => self.started(record),
            HistoryWrite::Attempt(record) if record.state.is_end() => self.attempt_ended(record),
            HistoryWrite::Outcome(record, _) => {
                self.attempt_ended(record);
                self.fire_ended(&record.job, record.state, 1);
            }
            HistoryWrite::Verdict(verdict, ..) => {
                let state = match verdict.state {
                    VerdictState::Lost => AttemptState::Lost,
                    VerdictState::Skipped => AttemptState::Skipped,
                };
                let shards = u64::try_from(verdict.shards.len()).unwrap_or(1).max(1);
                self.fire_ended(&verdict.run.job, state, shards);
            }
            HistoryWrite::Event { kind, .. } => {
                self.events.get_or_create(&EventLabels { kind }).inc();
            }
            HistoryWrite::Attempt(_)
            | HistoryWrite::NotStarted { .. }
            | HistoryWrite::StartedLate(_)
            | HistoryWrite::Notice(..)
            | HistoryWrite::NoticeSent(_)
            | HistoryWrite::ResendNotices(_)
            | HistoryWrite::Load(_)
            | HistoryWrite::JobVersion(_)
            | HistoryWrite::Audit(_) => {}
        }
    }

    fn started(&self, record: &RunRecord) {
        if let (1, Fire::Due(_), Some(started)) = (record.attempt, &record.run.fire, record.started) {
            self.lateness.observe(seconds(started - record.due));
            self.recent_lateness.observe((started - record.due).0.saturating_mul(1_000));
        }
    }

    fn attempt_ended(&self, record: &RunRecord) {
        let labels = OutcomeLabels { outcome: record.state.as_str() };
        self.attempts.get_or_create(&labels).inc();
        if let (Some(started), Some(ended)) = (record.started, record.ended) {
            self.duration.get_or_create(&labels).observe(seconds(ended - started));
        }
    }

    fn fire_ended(&self, job: &JobName, state: AttemptState, fires: u64) {
        let namespace = self.namespaces.label_of(job.namespace());
        self.fires.get_or_create(&FireLabels { namespace, outcome: state.as_str() }).inc_by(fires);
    }

    /// Counts the outcome of a transaction.
    pub(crate) fn committed(&self, kind: CommitKind, outcome: &TxnOutcome) {
        let outcome = match outcome {
            TxnOutcome::Applied(_) => "applied",
            TxnOutcome::Refused(_) => "refused",
            TxnOutcome::Unknown => "unknown",
        };
        let kind = kind.to_string().replace(' ', "_");
        self.commits.get_or_create(&CommitLabels { kind, outcome }).inc();
    }

    /// Notes how long the registry took to answer a batch, in microseconds.
    pub(crate) fn answered(&self, micros: i64) {
        self.commit_duration.observe(micros.max(0) as f64 / 1e6);
        self.recent_commits.observe(micros);
    }

    /// Counts an answer about the lease.
    pub(crate) fn lease_replied(&self, event: &LeaseEvent) {
        let outcome = match event {
            LeaseEvent::Opened { .. } => "opened",
            LeaseEvent::Renewed { .. } => "renewed",
            LeaseEvent::Gone(_) => "gone",
            LeaseEvent::Failed => "failed",
        };
        self.lease_replies.get_or_create(&LeaseLabels { outcome }).inc();
    }

    /// How long the node has worked.
    pub(crate) fn uptime(&self, now: Mono) -> Millis {
        now - self.began
    }

    /// How often a request about the lease had no answer, or the lease was gone.
    pub(crate) fn lease_failures(&self) -> u64 {
        let count = |outcome| self.lease_replies.get_or_create(&LeaseLabels { outcome }).get();
        count("failed") + count("gone")
    }

    /// How long the registry took to answer the latest batches; `None` before the first.
    pub(crate) fn commit_times(&self) -> Option<TimePercentiles> {
        self.recent_commits.percentiles()
    }

    /// How late the latest fires started; `None` before the first.
    pub(crate) fn lateness_times(&self) -> Option<TimePercentiles> {
        self.recent_lateness.percentiles()
    }

    /// Counts notifications by what became of them: `sent`, `failed`, or `dropped` where too many waited.
    pub(crate) fn notified(&self, outcome: &'static str, number: u64) {
        self.notifications.get_or_create(&NotificationLabels { outcome }).inc_by(number);
    }

    /// Appends all metrics as text, with those that are read from the node's state.
    pub(crate) fn write(&self, state: Registry, format: MetricsFormat, out: &mut String) {
        [&self.registry, &state, &gauges::process()]
            .into_iter()
            .for_each(|metrics| format.write(metrics, out));
    }
}

#[cfg(test)]
mod tests;
