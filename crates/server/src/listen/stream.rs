//! The byte stream of a connection: checks incoming heads, closes on stalled output, and replaces refusals of the HTTP
//! library by the API's own.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::transport::CallerStream;
use super::{HEADER_BYTES_MAX, HEADERS_MAX, OpenConnection};
use crate::api::{ApiError, PROBLEM};

/// The time limit for a caller that reads nothing of a response.
const READS_NOTHING: Duration = Duration::from_secs(30);
/// The time for a caller to send the rest of a request that was answered early; the rest is dropped.
const REST_PATIENCE: Duration = Duration::from_secs(5);
/// The number of bytes read at once of that rest.
const REST_PIECE: usize = 16 * 1024;

/// The byte stream of one connection.
pub(super) struct ConnectionStream {
    inner: CallerStream,
    open: Arc<OpenConnection>,
    /// The timer while nothing of a response can be written.
    stalled: Option<Pin<Box<Sleep>>>,
    /// The timer while the rest of a request is dropped.
    rest: Option<Pin<Box<Sleep>>>,
    /// The response that replaces a refusal of the HTTP library.
    refusal: Vec<u8>,
}

impl ConnectionStream {
    pub(super) fn new(inner: CallerStream, open: Arc<OpenConnection>) -> Self {
        Self { inner, open, stalled: None, rest: None, refusal: Vec::new() }
    }

    fn poll_send(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if sent.is_ready() {
            self.stalled = None;
            return sent;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(READS_NOTHING)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the caller reads nothing of its answer")))
    }
}

impl AsyncRead for ConnectionStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        self.open.see(buf.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ConnectionStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.refusal.is_empty() {
            let Some(status) = bare_refusal(buf).filter(|_| !self.open.is_busy()) else {
                return self.poll_send(cx, buf);
            };
            self.refusal = refusal(status);
        }
        while !self.refusal.is_empty() {
            let refusal = std::mem::take(&mut self.refusal);
            let sent = self.poll_send(cx, &refusal);
            let n = if let Poll::Ready(Ok(n)) = sent { n } else { 0 };
            self.refusal = refusal.get(n..).unwrap_or_default().to_vec();
            ready!(sent)?;
        }
        Poll::Ready(Ok(buf.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    /// If the rest of a request is still coming, closing the connection at once would lose the response.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.inner).poll_shutdown(cx))?;
        if self.open.is_between() {
            return Poll::Ready(Ok(()));
        }
        let mut piece = [0; REST_PIECE];
        loop {
            let rest = self.rest.get_or_insert_with(|| Box::pin(tokio::time::sleep(REST_PATIENCE)));
            if rest.as_mut().poll(cx).is_ready() {
                return Poll::Ready(Ok(()));
            }
            let mut buf = ReadBuf::new(&mut piece);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut buf))?;
            if buf.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// The status of a response that the HTTP library made itself, to a request that it could not parse.
fn bare_refusal(head: &[u8]) -> Option<StatusCode> {
    let text = std::str::from_utf8(head).ok().filter(|text| text.ends_with("\r\n\r\n"))?;
    let status = text.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let bare = text.contains("\r\ncontent-length: 0\r\n") && !text.contains("\r\nx-content-type-options: ");
    Some(status).filter(|status: &StatusCode| bare && status.is_client_error())
}

fn refusal(status: StatusCode) -> Vec<u8> {
    let error = match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ApiError::new(
            status,
            "too_large",
            format!("the head has more than {HEADER_BYTES_MAX} bytes or {HEADERS_MAX} headers: send fewer"),
        ),
        StatusCode::URI_TOO_LONG => {
            ApiError::new(status, "too_large", "the address is too long: ask for less at once")
        }
        _ => ApiError::invalid("this is no request of HTTP/1.1: see docs/api.md"),
    };
    let body = error.body();
    let reason = status.canonical_reason().unwrap_or_default();
    format!(
        "HTTP/1.1 {} {reason}\r\ncontent-type: {PROBLEM}\r\nx-content-type-options: nosniff\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        status.as_u16(),
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_of_the_library_are_said_anew() {
        let bare =
            "HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(bare_refusal(bare.as_bytes()), Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        for other in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nx-content-type-options: nosniff\r\n\r\n",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n",
            "",
        ] {
            assert_eq!(bare_refusal(other.as_bytes()), None, "{other}");
        }
        let said = String::from_utf8(refusal(StatusCode::BAD_REQUEST)).expect("text");
        assert!(said.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{said}");
        assert!(
            said.ends_with(
                r#""detail":"this is no request of HTTP/1.1: see docs/api.md","status":400,"title":"Bad Request"}"#
            ),
            "{said}"
        );
    }
}
