//! `/api/v1/live`: what the console shows, sent again whenever it has changed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use evenkeel::Handle;
use serde::Serialize;
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tokio_stream::{Stream, StreamExt};

use super::App;
use crate::board;
use crate::rows::{EventRow, JobRow, NodeRow, RunRow};

/// How many jobs, runs and events the console shows at once.
pub(crate) const JOBS_SHOWN: usize = 200;
pub(crate) const RUNS_SHOWN: u32 = 50;
pub(crate) const EVENTS_SHOWN: u32 = 20;
/// Changes that come closer together than this are sent as one.
const PACE: Duration = Duration::from_millis(400);
/// Without any change the picture is taken again after this, for next fires move by themselves.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the console shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Picture {
    /// The node that shows it.
    pub(crate) node: String,
    /// Whether that node was closed from outside.
    pub(crate) closed: bool,
    /// The first jobs by name.
    pub(crate) jobs: Vec<JobRow>,
    /// How many jobs there are that may be held.
    pub(crate) enabled: usize,
    /// Whether there are more jobs than those.
    pub(crate) more: bool,
    /// The living nodes.
    pub(crate) nodes: Vec<NodeRow>,
    /// The latest attempts.
    pub(crate) runs: Vec<RunRow>,
    /// The latest events.
    pub(crate) events: Vec<EventRow>,
}

/// The picture, taken once for all who look, and only while somebody looks.
pub(crate) struct Live {
    picture: watch::Sender<Arc<str>>,
}

impl Picture {
    /// Takes it.
    pub(crate) async fn take(handle: &Handle) -> Self {
        let page = board::jobs(handle, None, JOBS_SHOWN);
        let filter = evenkeel::RunFilter { limit: RUNS_SHOWN, ..evenkeel::RunFilter::default() };
        let runs = handle.runs(filter).await.unwrap_or_default();
        let filter = evenkeel::EventFilter { limit: EVENTS_SHOWN, ..evenkeel::EventFilter::default() };
        let events = handle.events(filter).await.unwrap_or_default();
        Self {
            node: handle.name().to_string(),
            closed: board::is_closed(handle),
            jobs: page.jobs,
            enabled: board::enabled(handle),
            more: page.after.is_some(),
            nodes: board::nodes(handle),
            runs: runs.iter().map(board::run_row).collect(),
            events: events.iter().map(EventRow::of).collect(),
        }
    }

    fn text(&self) -> Arc<str> {
        serde_json::to_string(self).expect("rows are plain data").into()
    }
}

impl Live {
    /// Starts to watch the node; ends with it.
    pub(crate) fn start(handle: Handle, mut ending: watch::Receiver<bool>) -> Arc<Self> {
        let live = Arc::new(Self { picture: watch::Sender::new(Arc::from("")) });
        let own = live.clone();
        tokio::spawn(async move {
            let mut changes = handle.changes();
            while !*ending.borrow() {
                if own.picture.receiver_count() > 0 {
                    own.publish(&Picture::take(&handle).await);
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
        live
    }

    fn publish(&self, picture: &Picture) {
        let text = picture.text();
        self.picture.send_if_modified(|old| {
            let new = *old != text;
            *old = text;
            new
        });
    }
}

pub(super) async fn stream(State(app): State<App>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let changes = WatchStream::from_changes(app.live.picture.subscribe());
    // The first one is taken at once: the others wait for a change.
    let first = tokio_stream::once(Picture::take(&app.handle).await.text());
    let pictures = first.chain(changes).map(|text| Some(Event::default().event("picture").data(&*text)));
    let end = WatchStream::new(app.ending.clone()).filter(|ending| *ending).map(|_| None);
    let both = pictures.merge(end).take_while(Option::is_some).filter_map(|event| event.map(Ok));
    Sse::new(both).keep_alive(KeepAlive::new().interval(Duration::from_secs(15)))
}
