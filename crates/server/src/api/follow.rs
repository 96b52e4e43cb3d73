//! Streams the output of a run as it comes, attempt after attempt, until the run has ended.

use std::time::Duration;

use axum::body::{Body, Bytes};
use evenkeel::RunRecord;
use evenkeel_core::ids::RunId;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::attempts::{is_over, output_of};
use super::{App, fanout};
use crate::peer::LogPieceQuery;

/// How often to check whether the next attempt has started.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

type LogStream = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// Streams the output of the attempts from `first` on; `begun` is the stream of the first, if known.
pub(super) fn from(app: App, run: RunId, first: LogPieceQuery, begun: Option<Body>) -> Body {
    let (send, receive) = mpsc::channel(4);
    tokio::spawn(async move { follow(&app, &run, first, begun, &send).await });
    Body::from_stream(ReceiverStream::new(receive))
}

async fn follow(
    app: &App,
    run: &RunId,
    mut wanted: LogPieceQuery,
    mut begun: Option<Body>,
    send: &LogStream,
) {
    // Why output is incomplete; the rest of the run is followed all the same.
    let mut broken = None;
    loop {
        let body = match begun.take() {
            Some(body) => Ok(body),
            None => match next(app, run, &mut wanted, send).await {
                Some(record) => output_of(app, &record.node, run, wanted).await,
                None => break,
            },
        };
        let copied = match body {
            Ok(body) => copy(body, send).await,
            Err(error) => Err(error.message()),
        };
        if let Err(why) = copied {
            let line = format!("[the output of attempt {} did not come whole: {why}]\n", wanted.attempt);
            if send.send(Ok(line.into())).await.is_err() {
                return;
            }
            broken = Some(why);
        }
        wanted = LogPieceQuery { attempt: wanted.attempt + 1, offset: 0, ..wanted };
    }
    if let Some(why) = broken {
        let _ = send.send(Err(std::io::Error::other(why))).await;
    }
}

/// Waits for the next attempt to start; `None` if none will, or the caller has disconnected.
async fn next(app: &App, run: &RunId, wanted: &mut LogPieceQuery, send: &LogStream) -> Option<RunRecord> {
    let mut ending = app.ending.clone();
    loop {
        if send.is_closed() || *ending.borrow_and_update() {
            return None;
        }
        // Do not answer before the registry tells whether more is to come.
        let over = match attempts(app, run).await.last() {
            Some(last) => last.state.is_end() && is_over(app, last).await,
            None => false,
        };
        let attempts = attempts(app, run).await;
        let started = |record: &&RunRecord| record.attempt >= wanted.attempt && record.started.is_some();
        if let Some(record) = attempts.iter().find(started) {
            if record.attempt > wanted.attempt {
                *wanted = LogPieceQuery { attempt: record.attempt, offset: 0, ..*wanted };
            }
            return Some(record.clone());
        }
        if over {
            return None;
        }
        let _ = tokio::time::timeout(POLL_INTERVAL, ending.changed()).await;
    }
}

/// The attempts of a run; a history that cannot be read just now is read again.
async fn attempts(app: &App, run: &RunId) -> Vec<RunRecord> {
    fanout::attempts(app, run).await.unwrap_or_default()
}

/// # Errors
/// It broke off; the text says why.
async fn copy(body: Body, send: &LogStream) -> Result<(), String> {
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|e| e.to_string())?;
        if send.send(Ok(piece)).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
