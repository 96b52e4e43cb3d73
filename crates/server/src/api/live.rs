//! `/api/v1/live`: the console's document, and then what changes in it, as server-sent events.

use evenkeel_client::requests::LiveQuery;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, HeaderName};
use axum::response::sse::{Event, KeepAlive, Sse};
use evenkeel::clock;
use evenkeel_core::ids::Namespace;
use evenkeel_core::time::{Millis, Mono};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};

use super::console_feed::{ConsoleSnapshot, FeedEvent, LiveFeed, LiveViewer, RemoteHistories};
use super::headers::text;
use super::known_caller::KnownCaller;
use super::{ApiError, App, namespaces};
use crate::queries::JobSearch;
use crate::request;

/// Changes within this time are sent as one.
const PACE: Duration = Duration::from_millis(400);
/// A viewer that comes is content with a document of this age, in milliseconds.
const FRESH: Millis = Millis(400);
/// How often to look without any change, since next fires change with time.
const PATIENCE: Duration = Duration::from_secs(2);
/// The minimum interval between calls for the other nodes' histories, in milliseconds.
const OTHERS_PACE: Millis = Millis::secs(2);
/// How long a feed without viewers is kept, for those that come back.
const LINGER: Duration = Duration::from_secs(60);
/// The interval of comments that show that the stream is alive.
const ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// What a client sends that comes back, by the standard of server-sent events.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Begins with the whole document, or with what came after the event that the caller has.
pub(super) async fn stream(
    State(app): State<App>,
    caller: KnownCaller,
    headers: HeaderMap,
    page: Result<Query<LiveQuery>, QueryRejection>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let Query(LiveQuery { namespace, last_event_id }) = page?;
    namespaces::known(&app, namespace.as_ref())?;
    let viewer = view(&app, namespace)?;
    let feed = viewer.feed.clone();
    let last = text(&headers, &LAST_EVENT_ID).or(last_event_id.as_deref());
    let seen = last.and_then(|id| feed.position(id));
    // A stream is one use of a session: it may last as long as one may be idle.
    let left = caller.session.map(|session| session.longest_use(clock::now().wall));
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(async move {
        let over = async {
            match left {
                Some(left) => tokio::time::sleep(left).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = send_all(viewer, seen, &send) => {}
            () = over => {}
            () = send.closed() => {}
        }
    });
    let events = ReceiverStream::new(receive).map(move |event| Ok(written(&feed, event)));
    // So a caller that has everything gets an answer, too.
    let begun = tokio_stream::once(Ok(Event::default().comment("live")));
    Ok(Sse::new(begun.chain(events)).keep_alive(KeepAlive::new().interval(ALIVE_INTERVAL)))
}

/// # Errors
/// There are too many feeds, or the host has no source of randomness.
fn view(app: &App, namespace: Option<Namespace>) -> Result<LiveViewer, ApiError> {
    let id = request::fresh().map_err(|e| ApiError::internal(e.message))?;
    let Some((viewer, is_new)) = app.live.view(namespace.as_ref(), id) else {
        return Err(ApiError::unavailable(
            "streams of too many different namespaces are open: close some, or ask another node",
        ));
    };
    if is_new {
        let begun = ProducedFeed { app: app.clone(), feed: viewer.feed.clone() };
        tokio::spawn(async move { begun.produce(namespace.as_ref()).await });
    }
    Ok(viewer)
}

async fn send_all(mut viewer: LiveViewer, seen: Option<u64>, to: &mpsc::Sender<FeedEvent>) {
    if viewer.looked_since(clock::now().mono - FRESH).await {
        viewer.send_after(seen, to).await;
    }
}

fn written(feed: &LiveFeed, event: FeedEvent) -> Event {
    let (kind, seq, text) = match event {
        FeedEvent::Snapshot(seq, text) => ("snapshot", seq, text),
        FeedEvent::Patch(seq, text) => ("patch", seq, text),
    };
    Event::default().event(kind).id(feed.event_id(seq)).data(&*text)
}

/// A feed for which documents are made. It is over when this is dropped, so that no viewer waits in vain.
struct ProducedFeed {
    app: App,
    feed: Arc<LiveFeed>,
}

impl ProducedFeed {
    /// Makes documents while there are viewers; until the process ends, or no viewer has come for a while.
    async fn produce(self, namespace: Option<&Namespace>) {
        let Self { app, feed } = &self;
        let (mut changes, mut ending) = (app.handle.changes(), app.ending.clone());
        let (mut others, mut collected) = (RemoteHistories::default(), None);
        while !*ending.borrow_and_update() {
            if !feed.has_viewers() {
                tokio::select! {
                    () = feed.came.notified() => {}
                    () = tokio::time::sleep(LINGER) => if app.live.retire(feed) { return },
                    _ = ending.changed() => {}
                }
                continue;
            }
            let now = clock::now().mono;
            if collected.is_none_or(|at: Mono| now - at >= OTHERS_PACE) {
                (others, collected) = (RemoteHistories::collect(app, namespace).await, Some(now));
            }
            let search = JobSearch { namespace, ..JobSearch::default() };
            feed.publish(ConsoleSnapshot::find(app, &others, search).await.document(), now);
            tokio::select! {
                () = tokio::time::sleep(PACE) => {}
                _ = ending.changed() => {}
            }
            tokio::select! {
                _ = tokio::time::timeout(PATIENCE, changes.changed()) => {}
                () = feed.came.notified() => {}
                _ = ending.changed() => {}
            }
        }
    }
}

impl Drop for ProducedFeed {
    fn drop(&mut self) {
        self.app.live.end(&self.feed);
    }
}
