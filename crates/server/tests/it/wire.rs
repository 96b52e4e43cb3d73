//! A wire that remembers what went over it.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use crate::process::text;

/// Where a wire leads.
#[derive(Clone, Copy)]
enum WireTarget {
    /// Nobody knows yet: whoever asks waits.
    Open,
    /// To this node.
    Node(SocketAddr),
    /// Nowhere.
    Cut,
    /// To the node again at some time; until then nothing passes and nobody is told.
    Silent,
}

/// Where it leads, and whoever waits for it to lead somewhere else.
type WireRoute = Arc<(Mutex<WireTarget>, Condvar)>;

/// Stands before a node; whoever asks it asks the node.
pub(crate) struct NodeWire {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    end: WireRoute,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    asked: Arc<Mutex<Vec<u8>>>,
    answered: Arc<Mutex<Vec<u8>>>,
}

impl NodeWire {
    /// One that leads nowhere yet.
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let wire = Self {
            address: listener.local_addr().expect("an address"),
            end: Arc::new((Mutex::new(WireTarget::Open), Condvar::new())),
            streams: Arc::default(),
            asked: Arc::default(),
            answered: Arc::default(),
        };
        let (end, streams) = (wire.end.clone(), wire.streams.clone());
        let (asked, answered) = (wire.asked.clone(), wire.answered.clone());
        std::thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let WireTarget::Node(node) =
                    known(&end, |end| matches!(end, WireTarget::Open | WireTarget::Silent))
                else {
                    continue;
                };
                let Ok(node) = TcpStream::connect(node) else { continue };
                let again = |stream: &TcpStream| stream.try_clone().expect("a stream");
                streams.lock().expect("nobody panics").push(again(&caller));
                copy(again(&node), again(&caller), answered.clone(), end.clone());
                copy(caller, node, asked.clone(), end.clone());
            }
        });
        wire
    }

    /// Leads to this node from now on.
    pub(crate) fn lead_to(&self, node: SocketAddr) {
        self.end(WireTarget::Node(node));
    }

    /// Leads nowhere any more.
    pub(crate) fn cut(&self) {
        self.end(WireTarget::Cut);
        for stream in self.streams.lock().expect("nobody panics").drain(..) {
            // It may have ended before.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Lets nothing pass any more, either way, though connections stay open and new ones are made. What was sent arrives when it
    /// leads to the node again, as after a network that lost every packet for a while.
    pub(crate) fn silence(&self) {
        self.end(WireTarget::Silent);
    }

    fn end(&self, end: WireTarget) {
        *self.end.0.lock().expect("nobody panics") = end;
        self.end.1.notify_all();
    }

    /// Everything that was asked.
    pub(crate) fn asked(&self) -> String {
        text(&self.asked.lock().expect("nobody panics"))
    }

    /// Everything that was answered.
    pub(crate) fn answered(&self) -> String {
        text(&self.answered.lock().expect("nobody panics"))
    }
}

/// Where it leads, as soon as that is not so any more.
fn known(led: &WireRoute, unless: impl Fn(WireTarget) -> bool) -> WireTarget {
    let end = led.1.wait_while(led.0.lock().expect("nobody panics"), |end| unless(*end));
    *end.expect("nobody panics")
}

fn copy(mut from: TcpStream, mut to: TcpStream, seen: Arc<Mutex<Vec<u8>>>, led: WireRoute) {
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        while let Ok(n) = from.read(&mut buffer)
            && n > 0
        {
            let bytes = buffer.get(..n).expect("it was read");
            seen.lock().expect("nobody panics").extend_from_slice(bytes);
            known(&led, |end| matches!(end, WireTarget::Silent));
            if to.write_all(bytes).is_err() {
                break;
            }
        }
        // Nor does the end of a connection pass.
        known(&led, |end| matches!(end, WireTarget::Silent));
        let _ = to.shutdown(Shutdown::Write);
    });
}
