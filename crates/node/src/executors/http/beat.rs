//! Heartbeats of jobs: after each success a monitor outside of the cluster gets a request, so it notices when none comes.
//!
//! A heartbeat is not durable: one that is lost makes the monitor raise an alarm, which is the safe side.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_core::ids::JobName;
use evenkeel_core::job::Http;
use http_body_util::Empty;
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::header::{self, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio::runtime::Handle;
use url::{Position, Url};

use super::connect::{HttpContext, connect, shown};

/// How long one request may take.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The pauses before a request is repeated.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// The jobs whose heartbeats are under way, each with the address of a further one. A monitor that does not answer is
/// asked once at a time for each job.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingBeats(Arc<Mutex<BTreeMap<JobName, Option<String>>>>);

impl PendingBeats {
    /// Sends a heartbeat of this job, or one more when the present one is done.
    pub(super) fn send(self, runtime: &Handle, context: Arc<HttpContext>, job: &JobName, url: &str) {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(further) = pending.get_mut(job) {
            *further = Some(url.to_owned());
            return;
        }
        pending.insert(job.clone(), None);
        drop(pending);
        let (job, mut url) = (job.clone(), url.to_owned());
        runtime.spawn(async move {
            loop {
                if let Err(why) = send(&url, &context).await {
                    tracing::warn!("no heartbeat of {job} arrived at its monitor: {why}");
                }
                match self.further(&job) {
                    Some(further) => url = further,
                    None => return,
                }
            }
        });
    }

    /// The address of the heartbeat that follows; otherwise none is under way any more.
    fn further(&self, job: &JobName) -> Option<String> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let further = pending.get_mut(job).and_then(Option::take);
        if further.is_none() {
            pending.remove(job);
        }
        further
    }
}

/// Sends one heartbeat, with a few repetitions.
async fn send(url: &str, context: &HttpContext) -> Result<(), String> {
    let mut pauses = PAUSES.into_iter();
    loop {
        let sent = tokio::time::timeout(TIMEOUT, send_once(url, context)).await;
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")));
        match (sent, pauses.next()) {
            (Err(_), Some(pause)) => tokio::time::sleep(pause).await,
            (sent, _) => return sent,
        }
    }
}

async fn send_once(url: &str, context: &HttpContext) -> Result<(), String> {
    let http = Http::new(url);
    let url = Url::parse(url).map_err(|e| format!("notify.heartbeat cannot be read: {e}"))?;
    let wire = connect(&url, &http, &context.egress, &context.tls).await?;
    let broke = |e: hyper::Error| format!("{}: no whole answer: {e}", shown(&url));
    let (mut sender, connection) = http1::handshake(TokioIo::new(wire)).await.map_err(broke)?;
    // A connection error is reported to the task that waits for the answer.
    let driven = async {
        let _ = connection.await;
        pending::<Infallible>().await
    };
    let host = &url[Position::BeforeHost..Position::AfterPort];
    let request = Request::get(&url[Position::BeforePath..Position::AfterQuery])
        .header(header::HOST, host)
        .header(header::USER_AGENT, HeaderValue::from_static(concat!("evenkeel/", env!("CARGO_PKG_VERSION"))))
        .header(header::CONNECTION, HeaderValue::from_static("close"))
        .body(Empty::<Bytes>::new())
        .map_err(|e| format!("notify.heartbeat cannot be asked for: {e}"))?;
    let answer = async { sender.send_request(request).await.map_err(broke) };
    let answer = tokio::select! {
        biased;
        answer = answer => answer?,
        never = driven => match never {},
    };
    match answer.status().is_success() {
        true => Ok(()),
        false => Err(format!("{}: HTTP {}", shown(&url), answer.status().as_u16())),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};

    use super::super::egress::EgressPolicy;
    use super::*;

    fn context(allowed: &[&str]) -> Arc<HttpContext> {
        HttpContext::new(EgressPolicy::new(allowed.iter().map(|text| text.parse().unwrap()).collect()))
    }

    fn listen() -> (TcpListener, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/ping/j?a=b", listener.local_addr().unwrap());
        (listener, url)
    }

    /// Accepts a request, and returns its connection with its first line.
    fn accept(listener: &TcpListener) -> (TcpStream, String) {
        let (wire, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(wire.try_clone().unwrap()).lines().map(Result::unwrap);
        let first = lines.next().unwrap();
        assert!(lines.any(|line| line.is_empty()), "the head ends");
        (wire, first)
    }

    fn answer(mut wire: TcpStream, status: u16) {
        write!(wire, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n").unwrap();
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
    }

    #[test]
    fn a_monitor_that_answers_badly_is_asked_again() {
        let (listener, url) = listen();
        let runtime = runtime();
        let sent = runtime.spawn(async move { send(&url, &context(&["127.0.0.1"])).await });
        for status in [503, 204] {
            let (wire, first) = accept(&listener);
            assert_eq!(first, "GET /ping/j?a=b HTTP/1.1");
            answer(wire, status);
        }
        assert_eq!(runtime.block_on(sent).unwrap(), Ok(()));
    }

    #[test]
    fn an_address_that_the_node_does_not_allow_gets_nothing() {
        let (listener, url) = listen();
        listener.set_nonblocking(true).unwrap();
        let refused = runtime().block_on(send_once(&url, &context(&[]))).unwrap_err();
        assert!(refused.contains("127.0.0.1") && !refused.contains("/ping"), "{refused}");
        assert!(listener.accept().is_err(), "no connection");
    }

    #[test]
    fn successes_while_a_heartbeat_is_under_way_make_one_more_together() {
        let (listener, url) = listen();
        let (runtime, beats, job) = (runtime(), PendingBeats::default(), "j".parse().unwrap());
        let beat = || beats.clone().send(runtime.handle(), context(&["127.0.0.1"]), &job, &url);
        beat();
        let (first, _) = accept(&listener);
        (0..3).for_each(|_| beat());
        answer(first, 200);
        answer(accept(&listener).0, 200);
        while !beats.0.lock().unwrap().is_empty() {
            std::thread::yield_now();
        }
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "a third request");
    }
}
