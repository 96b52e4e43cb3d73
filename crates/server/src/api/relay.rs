//! What only the node that executes a run can do is done there, asked in the caller's name.

use axum::body::{Body, Bytes};
use axum::http::HeaderMap;
use evenkeel_core::words::{NodeName, RunId};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{ApiError, App, Key};
use crate::board;
use crate::client::{Client, FORWARDED, escape};
use crate::exit::{Exit, Failure};

/// Another node.
pub(super) struct Other(Client);

/// The living node of this name (`name` or `name@incarnation`), unless it is this one or the request was already
/// handed on once.
pub(super) fn other(app: &App, node: &str, headers: &HeaderMap) -> Option<Other> {
    let name: NodeName = node.split('@').next()?.parse().ok()?;
    if name == *app.handle.name() || headers.contains_key(FORWARDED) {
        return None;
    }
    let address = board::address(&app.handle, &name)?;
    let key = app.door.key().map(Key::reveal).map(ToOwned::to_owned);
    Some(Other(Client::new(&format!("http://{address}"), key).forwarding()))
}

impl Other {
    pub(super) async fn kill(self, run: &RunId) -> Result<Value, ApiError> {
        let path = format!("/runs/{}/kill", escape(&run.to_string()));
        let asked = tokio::task::spawn_blocking(move || self.0.post(&path, &json!({}))).await;
        Ok(asked.map_err(|panic| ApiError::internal(panic.to_string()))??)
    }

    pub(super) async fn logs(
        self,
        run: &RunId,
        attempt: u32,
        offset: u64,
        follow: bool,
    ) -> Result<Body, ApiError> {
        let run = escape(&run.to_string());
        let path = format!("/runs/{run}/logs?attempt={attempt}&offset={offset}&follow={follow}");
        let (send, mut receive) = mpsc::channel::<Result<Bytes, std::io::Error>>(4);
        tokio::task::spawn_blocking(move || {
            let gone = || Failure::new(Exit::Failed, "the reader is gone");
            let done = self.0.stream(&path, |piece| {
                send.blocking_send(Ok(Bytes::copy_from_slice(piece))).map_err(|_| gone())
            });
            if let Err(failure) = done {
                let _ = send.blocking_send(Err(std::io::Error::other(failure)));
            }
        });
        // A refusal comes before the first piece; it is said as a refusal and not as a broken body.
        let first = receive.recv().await;
        if let Some(Err(error)) = first {
            return Err(ApiError::unavailable(error.to_string()));
        }
        let (again, pieces) = mpsc::channel(4);
        tokio::spawn(async move {
            let mut next = first;
            while let Some(piece) = next {
                if again.send(piece).await.is_err() {
                    return;
                }
                next = receive.recv().await;
            }
        });
        Ok(Body::from_stream(ReceiverStream::new(pieces)))
    }
}
