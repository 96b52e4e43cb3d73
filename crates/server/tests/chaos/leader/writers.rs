//! Those who give orders to every node without a pause, and what they were told.

use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::NAMES;
use crate::process::{millis, own_key_line, text};

/// How many jobs are declared again and again.
pub(crate) const KEPT: usize = 6;
/// How many writers each node has.
const EACH: usize = 2;
/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two orders to a node.
const BREATH: Duration = Duration::from_millis(20);

/// What became of an order, as far as who gave it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderOutcome {
    /// It is done.
    Done,
    /// It is not done, and never will be: the node is on standby.
    Standby,
    /// Nobody took it.
    Unheard,
    /// Something else, or nothing: it may be done.
    Unknown,
}

/// One order: that a job have this value, which no other order has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteOrder {
    pub(crate) job: String,
    pub(crate) value: u64,
    /// To which node.
    pub(crate) node: usize,
    pub(crate) sent: i64,
    pub(crate) answered: i64,
    pub(crate) told: OrderOutcome,
}

/// A job's name.
pub(crate) fn name(job: usize) -> String {
    format!("kept-{job}")
}

/// Where the nodes answer; one that starts again answers elsewhere.
pub(crate) type NodeAddresses = Arc<Mutex<Vec<SocketAddr>>>;

/// All writers.
pub(crate) struct OrderWriters {
    over: Arc<AtomicBool>,
    orders: Arc<Mutex<Vec<WriteOrder>>>,
    threads: Vec<JoinHandle<()>>,
}

impl OrderWriters {
    /// They begin.
    pub(crate) fn begin(addresses: &NodeAddresses) -> Self {
        let (over, orders) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let values = Arc::new(AtomicU64::new(1));
        let writer = |node: usize| {
            let (over, orders, values) = (over.clone(), orders.clone(), values.clone());
            let addresses = addresses.clone();
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let address = addresses.lock().expect("nobody panics")[node];
                    let value = values.fetch_add(1, Ordering::Relaxed);
                    let job = name(usize::try_from(value).expect("small") % KEPT);
                    let sent = millis();
                    let told = order(address, &job, value);
                    let order = WriteOrder { job, value, node, sent, answered: millis(), told };
                    orders.lock().expect("nobody panics").push(order);
                    std::thread::sleep(BREATH);
                }
            })
        };
        let threads = (0..NAMES.len() * EACH).map(|n| writer(n % NAMES.len())).collect();
        Self { over, orders, threads }
    }

    /// When an order to this node was first done after that moment.
    pub(crate) fn first_done(&self, after: i64, node: usize) -> Option<i64> {
        let orders = self.orders.lock().expect("nobody panics");
        let done = orders.iter().filter(|o| o.told == OrderOutcome::Done && o.node == node && o.sent > after);
        done.map(|order| order.answered).min()
    }

    /// They stop; what they did.
    pub(crate) fn end(self) -> Vec<WriteOrder> {
        self.over.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().expect("a writer ends"));
        std::mem::take(&mut *self.orders.lock().expect("nobody panics"))
    }
}

fn order(address: SocketAddr, job: &str, value: u64) -> OrderOutcome {
    let body = format!(r#"{{"jobs":[{{"name":"{job}","command":["/bin/true","{value}"]}}]}}"#);
    let head = format!(
        "POST /api/v1/jobs/apply HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        own_key_line(),
        body.len()
    );
    let Ok(mut stream) = TcpStream::connect_timeout(&address, PATIENCE) else { return OrderOutcome::Unheard };
    let mut answer = Vec::new();
    let heard = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.write_all((head + &body).as_bytes()))
        .and_then(|()| stream.read_to_end(&mut answer));
    if heard.is_err() { OrderOutcome::Unknown } else { order_outcome(&text(&answer)) }
}

fn order_outcome(answer: &str) -> OrderOutcome {
    let status = answer.split(' ').nth(1).unwrap_or_default();
    match status {
        "200" => OrderOutcome::Done,
        "503" if answer.contains("\"standby\"") => OrderOutcome::Standby,
        _ => OrderOutcome::Unknown,
    }
}

#[test]
fn only_a_whole_answer_says_that_it_is_done() {
    assert_eq!(order_outcome("HTTP/1.1 200 OK\r\n\r\n{}"), OrderOutcome::Done);
    let standby = "HTTP/1.1 503 Service Unavailable\r\n\r\n{\"error\":{\"code\":\"standby\"}}";
    assert_eq!(order_outcome(standby), OrderOutcome::Standby);
    for other in ["", "HTTP/1.1 503 Service Unavailable\r\n\r\n{}", "HTTP/1.1 408 Late\r\n\r\n\"standby\""] {
        assert_eq!(order_outcome(other), OrderOutcome::Unknown, "{other}");
    }
}
