//! A small TCP proxy between an engine and its server, that holds or cuts what passes when it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of what passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyMode {
    /// It passes.
    Open,
    /// Nothing passes, and nobody is told.
    Held,
    /// Everything passes until a request has these four bytes eight bytes from its start; from then on as `Held`.
    HeldFrom([u8; 4]),
    /// Requests pass, and go on to; answers are lost, until the connection is cut when the way is another.
    Deaf,
    /// Requests pass; the first answer cuts the connection instead.
    NoAnswers,
    /// Everything passes until a request has these four bytes eight bytes from its start; from then on as `NoAnswers`.
    NoAnswersFrom([u8; 4]),
    /// Connections are cut, and new ones at once.
    Closed,
}

/// The proxy. It ends with the test's runtime.
pub(crate) struct Proxy {
    at: SocketAddr,
    way: Arc<watch::Sender<ProxyMode>>,
    held: Arc<HeldRequests>,
}

/// The requests that are held.
type HeldRequests = watch::Sender<Vec<Vec<u8>>>;

impl Proxy {
    /// Listens on a port of its own in front of `to`.
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let (way, held) = (Arc::new(watch::Sender::new(ProxyMode::Open)), Arc::<HeldRequests>::default());
        let told = (way.clone(), held.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, to, told.clone()));
            }
        });
        Self { at, way, held }
    }

    /// Where it listens.
    pub(crate) fn at(&self) -> SocketAddr {
        self.at
    }

    /// From now on.
    pub(crate) fn set(&self, way: ProxyMode) {
        self.held.send_replace(Vec::new());
        self.way.send_replace(way);
    }

    /// Waits until a request of this kind is held.
    ///
    /// # Panics
    /// When there is none.
    pub(crate) async fn holds(&self, kind: [u8; 4]) {
        let mut held = self.held.subscribe();
        let found = held.wait_for(|held| held.iter().any(|bytes| has_request(bytes, kind)));
        tokio::time::timeout(Duration::from_secs(120), found)
            .await
            .expect("in time")
            .expect("the proxy lives");
    }
}

async fn pass(client: TcpStream, to: SocketAddr, told: (Arc<watch::Sender<ProxyMode>>, Arc<HeldRequests>)) {
    let mut way = told.0.subscribe();
    if *way.borrow() == ProxyMode::Closed {
        return;
    }
    let Ok(server) = TcpStream::connect(to).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        () = copy(from_client, to_server, &told, false) => {}
        () = copy(from_server, to_client, &told, true) => {}
        _ = way.wait_for(|way| *way == ProxyMode::Closed) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (told, held): &(Arc<watch::Sender<ProxyMode>>, Arc<HeldRequests>),
    answers: bool,
) {
    let (mut buffer, mut way, mut lost) = (vec![0; 64 << 10], told.subscribe(), false);
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            // What was lost cannot be made good.
            _ = way.wait_for(|way| *way != ProxyMode::Deaf), if lost => return,
        };
        let Ok(read @ 1..) = read else { return };
        if !answers {
            let stops = |way: &ProxyMode| matches!(way, ProxyMode::HeldFrom(kind) if has_request(&buffer[..read], *kind));
            told.send_if_modified(|way| stops(way).then(|| *way = ProxyMode::Held).is_some());
            if *way.borrow() == ProxyMode::Held {
                held.send_modify(|held| held.push(buffer[..read].to_vec()));
            }
        }
        let Ok(way) = way.wait_for(|way| *way != ProxyMode::Held).await.map(|way| *way) else { return };
        match way {
            ProxyMode::NoAnswers if answers => return,
            ProxyMode::Deaf if answers => {
                lost = true;
                continue;
            }
            ProxyMode::NoAnswersFrom(kind) if !answers && has_request(&buffer[..read], kind) => {
                told.send_replace(ProxyMode::NoAnswers);
            }
            _ => {}
        }
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Whether a request of this kind is the first, or, of ZooKeeper's, among those that came together: each of these is its
/// length, its number, its kind, and the rest.
fn has_request(mut bytes: &[u8], kind: [u8; 4]) -> bool {
    while let Some((head, rest)) = bytes.split_first_chunk::<12>() {
        let [l0, l1, l2, l3, ..] = *head;
        if head.ends_with(&kind) {
            return true;
        }
        let body = (u32::from_be_bytes([l0, l1, l2, l3]) as usize).saturating_sub(8);
        bytes = rest.get(body..).unwrap_or_default();
    }
    false
}
