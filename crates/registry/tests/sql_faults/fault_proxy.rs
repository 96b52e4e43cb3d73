//! A small TCP proxy that goes wrong right behind a request that says a certain thing.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerFault {
    /// The connection is cut when it comes.
    Cut,
    /// Nothing passes any more, either way, and nobody is told.
    Hold,
}

/// The proxy. It ends with the test's runtime.
pub(crate) struct FaultProxy {
    pub(crate) port: u16,
    trigger: FaultTrigger,
    sprung: Arc<watch::Sender<u32>>,
}

type FaultTrigger = Arc<Mutex<Option<(&'static str, AnswerFault)>>>;

impl FaultProxy {
    pub(crate) async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (trap, sprung) = (FaultTrigger::default(), Arc::new(watch::Sender::new(0)));
        let (set, count) = (trap.clone(), sprung.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(pass(client, ([127, 0, 0, 1], to).into(), set.clone(), count.clone()));
            }
        });
        Self { port, trigger: trap, sprung }
    }

    /// The next request that says `word` reaches the server, and its answer meets this.
    pub(crate) fn set(&self, word: &'static str, fault: AnswerFault) {
        *self.trigger.lock().unwrap() = Some((word, fault));
    }

    /// Waits until that has happened so often.
    pub(crate) async fn sprung(&self, times: u32) {
        let mut sprung = self.sprung.subscribe();
        tokio::time::timeout(std::time::Duration::from_secs(120), sprung.wait_for(|count| *count >= times))
            .await
            .expect("the request came")
            .unwrap();
    }
}

/// Springs the trap where a request says its word.
fn spring(trap: &FaultTrigger, request: &[u8]) -> Option<AnswerFault> {
    let mut set = trap.lock().unwrap();
    let says = |word: &str| request.windows(word.len()).any(|window| window == word.as_bytes());
    set.take_if(|(word, _)| says(word)).map(|(_, fault)| fault)
}

async fn pass(mut client: TcpStream, to: SocketAddr, trap: FaultTrigger, sprung: Arc<watch::Sender<u32>>) {
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    let (mut asked, mut told) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    let mut fault = None;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let Ok(read @ 1..) = read else { return };
                fault = fault.or(spring(&trap, &asked[..read]));
                if server.write_all(&asked[..read]).await.is_err() {
                    return;
                }
            }
            read = server.read(&mut told) => {
                let Ok(read @ 1..) = read else { return };
                if let Some(fault) = fault {
                    sprung.send_modify(|count| *count += 1);
                    if fault == AnswerFault::Hold {
                        std::future::pending::<()>().await;
                    }
                    return;
                }
                if client.write_all(&told[..read]).await.is_err() {
                    return;
                }
            }
        }
    }
}
