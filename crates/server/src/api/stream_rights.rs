//! Answers that go on for long end when the caller would be let in no more, or with other roles.

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::response::Response;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::known_caller::KnownCaller;
use super::{App, principals};

/// How often it is looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// The same answer; if it is a stream, one that breaks off when its caller's rights change.
pub(super) fn limited(app: &App, caller: KnownCaller, response: Response) -> Response {
    // An answer that is there as a whole is sent at once.
    if response.body().size_hint().exact().is_some() {
        return response;
    }
    let app = app.clone();
    let lost = async move {
        while principals::is_unchanged(&app, &caller, evenkeel::clock::now().wall) {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    response.map(|body| broken_off(body, lost))
}

/// The same body, which breaks off with an error when `lost` ends: a body that just ends would look whole.
fn broken_off(body: Body, lost: impl Future<Output = ()> + Send + 'static) -> Body {
    let (send, receive) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut pieces = body.into_data_stream();
        let copied = async {
            while let Some(piece) = pieces.next().await {
                if send.send(piece).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = copied => {}
            () = lost => {
                let why = axum::Error::new("the caller is let in no more, or with other roles");
                let _ = send.send(Err(why)).await;
            }
            () = send.closed() => {}
        }
    });
    Body::from_stream(ReceiverStream::new(receive))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endless() -> (mpsc::Sender<Result<&'static str, std::io::Error>>, Body) {
        let (send, receive) = mpsc::channel(4);
        (send, Body::from_stream(ReceiverStream::new(receive)))
    }

    #[tokio::test]
    async fn a_stream_breaks_off_when_the_rights_are_lost_and_not_before() {
        let (send, body) = endless();
        let (lose, lost) = tokio::sync::oneshot::channel::<()>();
        let mut shown = broken_off(body, async move { drop(lost.await) }).into_data_stream();
        send.send(Ok("one")).await.expect("it is read");
        assert_eq!(shown.next().await.expect("a piece").expect("no error"), "one");
        drop(lose);
        let end = shown.next().await.expect("an error");
        assert!(end.is_err_and(|why| why.to_string().contains("let in no more")));
        send.closed().await;
    }

    #[tokio::test]
    async fn a_whole_stream_ends_as_it_did() {
        let (send, body) = endless();
        let mut shown = broken_off(body, std::future::pending()).into_data_stream();
        send.send(Ok("all")).await.expect("it is read");
        drop(send);
        assert_eq!(shown.next().await.expect("a piece").expect("no error"), "all");
        assert!(shown.next().await.is_none());
    }
}
