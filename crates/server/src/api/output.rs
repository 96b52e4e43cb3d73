//! Output of runs: what is stored, and what comes while it is followed.

use std::time::Duration;

use axum::body::{Body, Bytes};
use evenkeel::RunRecord;
use evenkeel_core::ids::RunId;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{ApiError, App};
use crate::peer::LogPieceQuery;
use crate::queries;

/// The number of bytes read at once.
const PIECE: usize = 64 * 1024;
/// The interval between reads of output that is followed.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// The next piece; empty if none came within `patience`, `None` if there will be no more.
///
/// # Errors
/// It cannot be read.
pub(crate) async fn piece(
    app: &App,
    run: &RunId,
    piece: LogPieceQuery,
    patience: Duration,
) -> std::io::Result<Option<Bytes>> {
    let looked = tokio::time::timeout(patience, next(app, run, piece)).await;
    looked.unwrap_or_else(|_| Ok(Some(Bytes::new())))
}

async fn next(app: &App, run: &RunId, piece: LogPieceQuery) -> std::io::Result<Option<Bytes>> {
    let LogPieceQuery { attempt, offset, follow } = piece;
    let mut ending = app.ending.clone();
    let mut ended = !follow;
    loop {
        let chunk = app.handle.log(run, attempt, offset, PIECE).await?;
        if !chunk.data.is_empty() {
            return Ok(Some(chunk.data.into()));
        }
        if ended || *ending.borrow_and_update() {
            return Ok(None);
        }
        // The end is read before the last piece, so that nothing written before it is missed.
        let records = app.handle.run(run).await.unwrap_or_default();
        // An attempt of an earlier incarnation of this node has ended, whichever history has its outcome.
        let over = |r: &RunRecord| r.state.is_end() || !queries::still_runs(&app.handle, r);
        ended = records.iter().any(|r| r.attempt == attempt && over(r));
        if !ended {
            let _ = tokio::time::timeout(POLL_INTERVAL, ending.changed()).await;
        }
    }
}

/// Deletes this node's output of a run; returns the number of attempts that had any.
///
/// # Errors
/// The run is running here, or a file cannot be deleted.
pub(crate) async fn forget(app: &App, run: &RunId) -> Result<usize, ApiError> {
    if app.handle.run(run).await?.iter().any(|attempt| !attempt.state.is_end()) {
        let fix = format!("wait for its end, or end it with `evenkeel run kill {run}`");
        return Err(ApiError::conflict(format!("run {run} is under way: {fix}")));
    }
    let removed = app.handle.remove_log_unaudited(run).await;
    removed.map_err(|e| ApiError::internal(format!("its output cannot be removed: {e}")))
}

/// Streams the rest of this node's own output, piece by piece.
pub(super) fn own(app: App, run: RunId, mut wanted: LogPieceQuery) -> Body {
    let (send, receive) = mpsc::channel::<Result<Bytes, std::io::Error>>(4);
    tokio::spawn(async move {
        while !send.is_closed() {
            match piece(&app, &run, wanted, POLL_INTERVAL * 5).await {
                Ok(None) => return,
                Ok(Some(data)) if data.is_empty() => {}
                Ok(Some(data)) => {
                    wanted.offset += data.len() as u64;
                    if send.send(Ok(data)).await.is_err() {
                        return;
                    }
                }
                Err(e) => return drop(send.send(Err(e)).await),
            }
        }
    });
    Body::from_stream(ReceiverStream::new(receive))
}
