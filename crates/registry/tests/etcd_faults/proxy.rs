//! A wire that can be frozen, cut, and made to lose answers.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What becomes of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// They pass.
    Open,
    /// They wait, in both directions.
    Frozen,
    /// Questions pass, answers are lost.
    Deaf,
    /// Connections are closed.
    Cut,
}

/// A listener that passes everything on to a server.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    mode: Arc<watch::Sender<Mode>>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn to(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let mode = Arc::new(watch::Sender::new(Mode::Open));
        let modes = mode.clone();
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if *modes.borrow() == Mode::Cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) =
                    (client.into_split(), server.into_split());
                tokio::spawn(pass(from_client, to_server, modes.subscribe(), false));
                tokio::spawn(pass(from_server, to_client, modes.subscribe(), true));
            }
        });
        Self { port, mode, task }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.mode.send_replace(Mode::Cut);
    }
}

async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    answers: bool,
) {
    let mut bytes = vec![0; 1 << 16];
    // Where bytes were lost the connection cannot go on.
    let mut lost = false;
    loop {
        let now = *mode.borrow_and_update();
        if now == Mode::Cut || (lost && now != Mode::Deaf) {
            return;
        }
        tokio::select! {
            read = from.read(&mut bytes), if now != Mode::Frozen => match read {
                Ok(0) | Err(_) => return,
                Ok(_) if answers && *mode.borrow() == Mode::Deaf => lost = true,
                Ok(count) => {
                    // What was read before it froze waits too.
                    if mode.wait_for(|mode| *mode != Mode::Frozen).await.is_err() {
                        return;
                    }
                    if to.write_all(&bytes[..count]).await.is_err() {
                        return;
                    }
                }
            },
            changed = mode.changed() => if changed.is_err() { return },
        }
    }
}
