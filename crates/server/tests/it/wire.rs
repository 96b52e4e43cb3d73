//! A wire that remembers what went over it, and requests as nodes sign them, made by somebody else.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

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

    /// The latest request to a path that begins so: its head and its body.
    pub(crate) fn captured(&self, begins: &str) -> Option<(String, String)> {
        let asked = self.asked();
        let at = asked.rfind(begins)?;
        let (head, rest) = asked.get(at..)?.split_once("\r\n\r\n")?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        Some((head.to_owned(), rest.get(..length.unwrap_or(0))?.to_owned()))
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

/// A request as a node would write it.
#[derive(Clone)]
pub(crate) struct CapturedRequest {
    /// Who asks.
    pub(crate) from: String,
    /// Who is asked.
    pub(crate) to: String,
    /// When.
    pub(crate) at: i64,
    /// Never the same twice.
    pub(crate) nonce: u128,
    /// Asked for.
    pub(crate) line: String,
    /// With this.
    pub(crate) body: String,
}

impl CapturedRequest {
    /// Its head, signed with this key; `Content-Length` and what else a connection needs is added by who sends it.
    pub(crate) fn head(&self, key: &str, host: SocketAddr) -> String {
        let Self { from, to, at, nonce, line, body } = self;
        let (method, path) = line.split_once(' ').expect("METHOD PATH");
        let digest = hex(&Sha256::digest(body));
        let signed =
            format!("evenkeel request 1\n{method}\n{path}\n{from}\n{to}\n{at}\n{nonce:032x}\n{digest}");
        let mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("any length").chain_update(signed);
        let signature = hex(&mac.finalize().into_bytes());
        format!(
            "{line} HTTP/1.1\nHost: {host}\nContent-Type: application/json\nEvenkeel-From: {from}\nEvenkeel-To: {to}\n\
             Evenkeel-Time: {at}\nEvenkeel-Nonce: {nonce:032x}\nEvenkeel-Digest: {digest}\n\
             Evenkeel-Signature: {signature}"
        )
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a text takes it");
        hex
    })
}
