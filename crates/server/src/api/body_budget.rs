//! Reads request bodies, after the sender is let in: each body is bounded in size and time, and all of them in memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::http::StatusCode;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::StreamExt;

use super::ApiError;

/// The size up to which a body is read whatever the load.
const FREE: usize = 64 * 1024;
/// The memory for everything beyond that, of all bodies together.
const ALL_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The unit in which that memory is counted.
const STEP: usize = 64 * 1024;

/// The memory budget of all bodies.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget {
    steps: Arc<Semaphore>,
}

/// A body, which holds its part of the budget until it is dropped.
struct BudgetedBody {
    bytes: Vec<u8>,
    _steps: Option<OwnedSemaphorePermit>,
}

impl AsRef<[u8]> for BudgetedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl BodyBudget {
    pub(crate) fn new() -> Self {
        Self { steps: Arc::new(Semaphore::new(ALL_BYTES_MAX / STEP)) }
    }

    /// Reads a body of at most `max` bytes.
    ///
    /// # Errors
    /// It is larger, does not arrive in time or whole, or the budget is used up.
    pub(crate) async fn take(&self, body: Body, max: usize, patience: Duration) -> Result<Bytes, ApiError> {
        if body.size_hint().lower() > max as u64 {
            return Err(large(max));
        }
        let late = |_| {
            ApiError::new(
                StatusCode::REQUEST_TIMEOUT,
                "too_slow",
                "the body did not arrive in time: send it again",
            )
        };
        tokio::time::timeout(patience, self.read(body, max)).await.map_err(late)?
    }

    async fn read(&self, body: Body, max: usize) -> Result<Bytes, ApiError> {
        let (mut bytes, mut steps) = (Vec::new(), None::<OwnedSemaphorePermit>);
        let mut pieces = body.into_data_stream();
        while let Some(piece) = pieces.next().await {
            let broken = |_| ApiError::invalid("the body broke off: send it again");
            let piece = piece.map_err(broken)?;
            if bytes.len() + piece.len() > max {
                return Err(large(max));
            }
            let held = steps.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = (bytes.len() + piece.len()).saturating_sub(FREE).div_ceil(STEP).saturating_sub(held);
            if more > 0 {
                let taken = u32::try_from(more)
                    .ok()
                    .and_then(|more| self.steps.clone().try_acquire_many_owned(more).ok());
                let full = || ApiError::unavailable("too much is being sent to this node at once: try again");
                let taken = taken.ok_or_else(full)?;
                match &mut steps {
                    Some(steps) => steps.merge(taken),
                    None => steps = Some(taken),
                }
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Bytes::from_owner(BudgetedBody { bytes, _steps: steps }))
    }
}

fn large(max: usize) -> ApiError {
    let text = format!("the body is larger than {max} bytes: send less at once");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text)
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);

    async fn take(bodies: &BodyBudget, size: usize, max: usize) -> Result<Bytes, StatusCode> {
        // In pieces and without a length, so that the size is not known beforehand.
        let pieces = vec![b'x'; size]
            .chunks(10_000)
            .map(|piece| Ok::<_, ApiError>(piece.to_vec()))
            .collect::<Vec<_>>();
        let pieces = pieces.into_iter().map(|piece| piece.map_err(|e| std::io::Error::other(e.message())));
        let body = Body::from_stream(tokio_stream::iter(pieces));
        bodies.take(body, max, PATIENCE).await.map_err(|e| e.into_response().status())
    }

    #[tokio::test]
    async fn a_body_is_bounded_and_all_are_together() {
        let bodies = BodyBudget::new();
        let all = bodies.steps.available_permits();
        assert_eq!(take(&bodies, 1_000_000, 999_999).await, Err(StatusCode::PAYLOAD_TOO_LARGE));
        let known = bodies.take(Body::from(vec![b'x'; 11]), 10, PATIENCE).await;
        assert!(known.is_err_and(|e| e.message().contains("larger than 10 bytes")));
        assert_eq!(bodies.steps.available_permits(), all, "what was refused does not count");
        let whole = take(&bodies, 1_000_000, 1_000_000).await.expect("it fits");
        assert_eq!((whole.len(), bodies.steps.available_permits()), (1_000_000, all - 15));
        let part = whole.slice(..10);
        drop(whole);
        assert!(bodies.steps.available_permits() < all, "it is still in memory");
        drop(part);
        assert_eq!(bodies.steps.available_permits(), all);
        let mut held = Vec::new();
        while let Ok(body) = take(&bodies, 16 << 20, 16 << 20).await {
            held.push(body);
        }
        assert_eq!(held.len(), 4);
        assert_eq!(take(&bodies, 1 << 20, 1 << 20).await, Err(StatusCode::SERVICE_UNAVAILABLE));
        assert!(take(&bodies, FREE, FREE).await.is_ok(), "what is small is taken all the same");
        held.clear();
        assert!(take(&bodies, 1 << 20, 1 << 20).await.is_ok());
    }
}
