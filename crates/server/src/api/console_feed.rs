//! The data that the console shows, as rows for its page and as one document for its stream.

mod merge_patch;
mod patch_ring;
mod sender;

use std::collections::BTreeSet;
use std::time::Duration;

use evenkeel::audit::{AuditFilter, AuditRecord};
use evenkeel::{EventFilter, EventRecord, RunFilter};
use evenkeel_core::ids::Namespace;
use serde::Serialize;
use serde_json::{Value, json};

use super::fanout::latest::{self, LatestAttempts};
use super::running::{self, RunningAttempts};
use super::{App, calendars, fanout};
use crate::queries::{self, JobSearch};
use crate::record_rows;
use evenkeel_client::types::{AuditRow, CalendarRow, EventRow, JobRow, NodeRow, RunRow};
pub(crate) use patch_ring::FeedEvent;
pub(crate) use sender::{LiveFeed, LiveFeeds, LiveViewer};

/// The maximum number of jobs, calendars, runs and events that the console shows.
pub(crate) const JOBS_SHOWN: usize = 200;
pub(crate) const CALENDARS_SHOWN: usize = 100;
pub(crate) const RUNS_SHOWN: u32 = 50;
/// The maximum number of running attempts shown besides the latest ones.
const RUNNING_SHOWN: usize = 200;
pub(crate) const EVENTS_SHOWN: u32 = 20;
pub(crate) const AUDIT_SHOWN: u32 = 20;
/// The maximum time that a snapshot waits for them.
const OTHERS_PATIENCE: Duration = Duration::from_millis(500);

/// The data that the console shows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ConsoleSnapshot {
    /// The node that serves the snapshot.
    pub(crate) node: String,
    /// Whether that node's registry entry was deleted by an operator.
    pub(crate) closed: bool,
    /// The first jobs by name, among those that match the search.
    pub(crate) jobs: Vec<JobRow>,
    /// The number of jobs that may be owned.
    pub(crate) enabled: usize,
    /// Whether there are more jobs than these.
    pub(crate) more: bool,
    /// The first calendars by name.
    pub(crate) calendars: Vec<CalendarRow>,
    /// The online nodes.
    pub(crate) nodes: Vec<NodeRow>,
    /// The number of attempts that run now.
    pub(crate) running: usize,
    /// The latest attempts, and running attempts that began before them.
    pub(crate) runs: Vec<RunRow>,
    /// The sharded jobs among the jobs of these attempts.
    pub(crate) sharded: BTreeSet<String>,
    /// The latest events.
    pub(crate) events: Vec<EventRow>,
    /// The latest entries of the audit log.
    pub(crate) audit: Vec<AuditRow>,
    /// Online nodes whose histories could not be read.
    pub(crate) missing: Vec<String>,
}

/// The records of the other nodes' histories.
#[derive(Default)]
pub(crate) struct RemoteHistories {
    running: RunningAttempts,
    runs: LatestAttempts,
    events: fanout::HistorySources<EventRecord>,
    audit: fanout::HistorySources<AuditRecord>,
}

fn run_filter(namespace: Option<&Namespace>) -> RunFilter {
    RunFilter { limit: RUNS_SHOWN, namespace: namespace.cloned(), ..RunFilter::default() }
}

fn event_filter(namespace: Option<&Namespace>) -> EventFilter {
    EventFilter { limit: EVENTS_SHOWN, namespace: namespace.cloned(), ..EventFilter::default() }
}

fn audit_filter(namespace: Option<&Namespace>) -> AuditFilter {
    AuditFilter { limit: AUDIT_SHOWN, namespace: namespace.cloned(), ..AuditFilter::default() }
}

impl RemoteHistories {
    /// Reads the histories of all other nodes; of one namespace, if one is named.
    pub(crate) async fn collect(app: &App, namespace: Option<&Namespace>) -> Self {
        let (runs, events, audit) = (run_filter(namespace), event_filter(namespace), audit_filter(namespace));
        let (running, runs, events, audit) = tokio::join!(
            running::all(app, OTHERS_PATIENCE),
            latest::runs(app, runs, None, OTHERS_PATIENCE),
            fanout::other_events(app, &events, None, OTHERS_PATIENCE),
            fanout::other_audit(app, &audit, None, OTHERS_PATIENCE),
        );
        // If this node's own history cannot be read, its part stays empty.
        Self { running: running.unwrap_or_default(), runs: runs.unwrap_or_default(), events, audit }
    }
}

impl ConsoleSnapshot {
    /// Takes a snapshot with only these jobs, and of one namespace, if the search names one.
    pub(crate) async fn find(app: &App, others: &RemoteHistories, search: JobSearch<'_>) -> Self {
        let (handle, own, namespace) = (&app.handle, app.handle.name(), search.namespace);
        let is_of = |name: &str| namespace.is_none_or(|of| name == of.as_str());
        let page = queries::jobs(handle, None, JOBS_SHOWN, search);
        let runs = handle.runs(run_filter(namespace)).await.unwrap_or_default();
        let mut runs = others.runs.with(own, runs, RUNS_SHOWN);
        let mut running = others.running.and(running::here(handle).await, handle);
        running.attempts.retain(|run| is_of(run.job.namespace()));
        let known: BTreeSet<_> = runs.rows.iter().map(|run| (run.run.clone(), run.attempt)).collect();
        let older = running.attempts.iter().filter(|run| !known.contains(&(run.run.clone(), run.attempt)));
        runs.rows.extend(older.take(RUNNING_SHOWN).cloned());
        let events = handle.events(event_filter(namespace)).await.unwrap_or_default();
        let events = others.events.page((own.clone(), events), EVENTS_SHOWN);
        let audit = handle.audit(audit_filter(namespace)).await.unwrap_or_default();
        let audit = others.audit.page((own.clone(), audit), AUDIT_SHOWN);
        let missing: BTreeSet<_> = runs.missing.iter().chain(&events.missing).chain(&audit.missing).collect();
        Self {
            node: own.to_string(),
            closed: queries::is_closed(handle),
            jobs: page.jobs,
            enabled: namespace.map_or_else(
                || queries::enabled(handle),
                |namespace| handle.with_node(|node| node.view().jobs_in(namespace)),
            ),
            more: page.after.is_some(),
            calendars: calendars::rows(app, namespace, CALENDARS_SHOWN),
            nodes: queries::nodes(handle).await,
            running: running.attempts.len(),
            sharded: queries::sharded(handle, &runs.rows),
            runs: runs.rows.iter().map(queries::run_row).collect(),
            events: events.rows.iter().map(record_rows::event_row).collect(),
            audit: audit.rows.iter().map(record_rows::audit_row).collect(),
            missing: missing.into_iter().map(ToString::to_string).collect(),
        }
    }

    /// The same as one document, in which every row has a key of its own that never changes, so that a change of a row is a
    /// small change of the document. No object in it has a null.
    pub(super) fn document(&self) -> Value {
        let Self { node, closed, enabled, more, running, .. } = self;
        let document = json!({
            "node": node,
            "closed": closed,
            "enabled": enabled,
            "more": more,
            "running": running,
            "jobs": keyed(&self.jobs, |job| job.name.clone()),
            "calendars": keyed(&self.calendars, |calendar| calendar.name.clone()),
            "nodes": keyed(&self.nodes, |node| node.name.clone()),
            "runs": keyed(&self.runs, |run| format!("{}#{}", run.run, run.attempt)),
            "sharded": name_set(&self.sharded),
            "events": keyed(&self.events, |event| format!("{}#{}", event.node, event.seq)),
            "audit": keyed(&self.audit, |entry| entry.id.clone()),
            "missing": name_set(&self.missing),
        });
        merge_patch::without_nulls(document)
    }
}

/// Rows as an object with these keys.
fn keyed<T: Serialize>(rows: &[T], key: impl Fn(&T) -> String) -> Value {
    rows.iter().map(|row| (key(row), json!(row))).collect()
}

/// Names as an object in which each has the value `true`.
fn name_set<'a>(names: impl IntoIterator<Item = &'a String>) -> Value {
    names.into_iter().map(|name| (name.clone(), Value::Bool(true))).collect()
}
