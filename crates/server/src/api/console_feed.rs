//! `/api/v1/live`: the console's data, sent again whenever it changes.

mod sender;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::sse::{Event, KeepAlive, Sse};
use evenkeel::audit::{AuditFilter, AuditRecord};
use evenkeel::{EventFilter, EventRecord, RunFilter, clock};
use evenkeel_core::ids::Namespace;
use evenkeel_core::time::Millis;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};

use super::fanout::latest::{self, LatestAttempts};
use super::known_caller::KnownCaller;
use super::running::{self, RunningAttempts};
use super::{ApiError, App, calendars, fanout, namespaces};
use crate::api_types::{AuditRow, CalendarRow, EventRow, JobRow, NodeRow, RunRow};
use crate::queries::{self, JobSearch};
pub(crate) use sender::ConsoleFeed;

/// The maximum number of jobs, calendars, runs and events that the console shows.
pub(crate) const JOBS_SHOWN: usize = 200;
pub(crate) const CALENDARS_SHOWN: usize = 100;
pub(crate) const RUNS_SHOWN: u32 = 50;
/// The maximum number of running attempts shown besides the latest ones.
const RUNNING_SHOWN: usize = 200;
pub(crate) const EVENTS_SHOWN: u32 = 20;
pub(crate) const AUDIT_SHOWN: u32 = 20;
/// Changes within this time are sent as one.
const PACE: Duration = Duration::from_millis(400);
/// The interval of a new snapshot without any change, since next fires change with time.
const PATIENCE: Duration = Duration::from_secs(2);
/// The minimum interval between calls for the other nodes' histories, in milliseconds.
const OTHERS_PACE: Millis = Millis::secs(2);
/// The maximum time that a snapshot waits for them.
const OTHERS_PATIENCE: Duration = Duration::from_millis(500);

/// The data that the console shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
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
    /// Takes a snapshot, with the latest records of the other histories.
    pub(crate) async fn take(app: &App, others: &RemoteHistories) -> Self {
        Self::find(app, others, JobSearch::default()).await
    }

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
            events: events.rows.iter().map(EventRow::of).collect(),
            audit: audit.rows.iter().map(AuditRow::of).collect(),
            missing: missing.into_iter().map(ToString::to_string).collect(),
        }
    }

    fn text(&self) -> Arc<str> {
        serde_json::to_string(self).expect("rows are plain data").into()
    }
}

impl ConsoleFeed {
    /// Starts to watch the node; stops with it.
    pub(crate) fn follow(app: App) {
        tokio::spawn(async move {
            let (mut changes, mut ending) = (app.handle.changes(), app.ending.clone());
            let (mut others, mut heard) = (RemoteHistories::default(), None);
            while !*ending.borrow() {
                if app.live.snapshot.receiver_count() > 0 {
                    let now = clock::now().mono;
                    if heard.is_none_or(|at| now - at >= OTHERS_PACE) {
                        (others, heard) = (RemoteHistories::collect(&app, None).await, Some(now));
                    }
                    app.live.publish(&ConsoleSnapshot::take(&app, &others).await);
                }
                tokio::select! {
                    () = tokio::time::sleep(PACE) => {}
                    _ = ending.changed() => return,
                }
                tokio::select! {
                    _ = tokio::time::timeout(PATIENCE, changes.changed()) => {}
                    _ = ending.changed() => return,
                }
            }
        });
    }

    fn publish(&self, picture: &ConsoleSnapshot) {
        let text = picture.text();
        self.snapshot.send_if_modified(|old| {
            let new = *old != text;
            *old = text;
            new
        });
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LiveQuery {
    /// Only what is in this namespace.
    #[schemars(with = "Option<String>")]
    namespace: Option<Namespace>,
}

/// The present snapshot; of one namespace, if one is named.
async fn present(app: &App, namespace: Option<&Namespace>) -> Arc<str> {
    let others = RemoteHistories::collect(app, namespace).await;
    ConsoleSnapshot::find(app, &others, JobSearch { namespace, ..JobSearch::default() }).await.text()
}

pub(super) async fn stream(
    State(app): State<App>,
    caller: KnownCaller,
    page: Result<Query<LiveQuery>, QueryRejection>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let Query(LiveQuery { namespace }) = page?;
    namespaces::known(&app, namespace.as_ref())?;
    let changes = WatchStream::from_changes(app.live.snapshot.subscribe());
    // The first snapshot is taken at once; later ones wait for a change.
    let first = tokio_stream::once(present(&app, namespace.as_ref()).await);
    let of_all = app.clone();
    let changed = changes.then(move |shared| {
        let (app, namespace) = (of_all.clone(), namespace.clone());
        async move {
            match namespace {
                Some(namespace) => present(&app, Some(&namespace)).await,
                None => shared,
            }
        }
    });
    let pictures = first.chain(changed).map(|text| Some(Event::default().event("picture").data(&*text)));
    let end = WatchStream::new(app.ending.clone()).filter(|ending| *ending).map(|_| None);
    // A stream is one use of a session: it may last as long as one may be idle.
    let over = caller.session.map(|session| session.longest_use(clock::now().wall));
    let over = async move {
        match over {
            Some(left) => tokio::time::sleep(left).await,
            None => std::future::pending().await,
        }
    };
    let end = end.merge(once_after(over));
    let both = pictures.merge(end).take_while(Option::is_some).filter_map(|event| event.map(Ok));
    Ok(Sse::new(both).keep_alive(KeepAlive::new().interval(Duration::from_secs(15))))
}

/// A stream that ends another one after this.
fn once_after<T>(over: impl Future<Output = ()> + Send + 'static) -> impl Stream<Item = Option<T>> {
    let (send, receive) = tokio::sync::watch::channel(false);
    tokio::spawn(async move {
        tokio::select! {
            () = over => { let _ = send.send(true); }
            () = send.closed() => {}
        }
    });
    WatchStream::new(receive).filter(|over| *over).map(|_| None)
}
