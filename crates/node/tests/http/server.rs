//! A real server on loopback that answers as its paths say, and remembers what it was asked.

use std::io::Write;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let first = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} came twice: {self:?}");
        first
    }
}

/// What happens to a server, as it happens.
#[derive(Debug)]
pub(crate) enum ServerEvent {
    /// It was asked for something.
    Request(RecordedRequest),
    /// Whoever was kept waiting has hung up.
    HungUp,
}

/// Who vouches for a server, made anew for each test.
pub(crate) struct TestAuthority(TempDir);

impl TestAuthority {
    /// `None`, said aloud, without `openssl`.
    pub(crate) fn new() -> Option<Self> {
        Self::made_by(
            "
            openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem &&
            openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr &&
            printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > names &&
            openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names \
                -out server.pem",
        )
    }

    /// One that vouches for itself alone, as people make it by one line, under this name.
    pub(crate) fn of_itself(name: &str) -> Option<Self> {
        Self::made_by(&format!(
            "openssl req -x509 -newkey rsa:2048 -nodes -keyout server.key -out server.pem -days 2 -subj /CN=localhost \
             -addext 'subjectAltName=DNS:{name}' && cp server.pem ca.pem"
        ))
    }

    /// The same for localhost, out of date.
    pub(crate) fn out_of_date() -> Option<Self> {
        Self::made_by(
            "openssl req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout server.key -out server.csr &&
             printf 'basicConstraints=CA:TRUE\nsubjectAltName=DNS:localhost' > names &&
             openssl x509 -req -in server.csr -signkey server.key -days -1 -extfile names -out server.pem &&
             cp server.pem ca.pem",
        )
    }

    fn made_by(script: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("sh").args(["-ec", script]).current_dir(folder.path()).output();
        if made.as_ref().is_ok_and(|made| made.status.success()) {
            return Some(Self(folder));
        }
        let mut terminal = std::io::stderr();
        let _ = writeln!(terminal, "SKIPPED: openssl makes no certificates: {made:?}");
        None
    }

    /// The file of its own certificate.
    pub(crate) fn file(&self) -> String {
        self.0.path().join("ca.pem").display().to_string()
    }
}

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    connections: Arc<Mutex<u32>>,
    events: mpsc::UnboundedReceiver<ServerEvent>,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::of(None).await
    }

    /// One that this authority vouches for, as localhost and 127.0.0.1.
    pub(crate) async fn secure(by: &TestAuthority) -> Self {
        let certificate = CertificateDer::from_pem_file(by.0.path().join("server.pem")).unwrap();
        let key = PrivateKeyDer::from_pem_file(by.0.path().join("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
        Self::of(Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    async fn of(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tell, events) = mpsc::unbounded_channel();
        let connections = Arc::new(Mutex::new(0));
        let counted = connections.clone();
        tokio::spawn(async move {
            loop {
                let (tcp, _) = listener.accept().await.unwrap();
                *counted.lock().unwrap() += 1;
                let (tell, tls) = (tell.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(tcp, tell).await,
                        Some(tls) => match tls.accept(tcp).await {
                            Ok(stream) => serve(stream, tell).await,
                            Err(_) => None,
                        },
                    }
                });
            }
        });
        Self { address, connections, events }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// How many have connected so far.
    pub(crate) fn connections(&self) -> u32 {
        *self.connections.lock().unwrap()
    }

    pub(crate) async fn next_request(&mut self) -> RecordedRequest {
        match super::within(self.events.recv()).await.unwrap() {
            ServerEvent::Request(seen) => seen,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn hung_up(&mut self) {
        match super::within(self.events.recv()).await.unwrap() {
            ServerEvent::HungUp => {}
            other => panic!("{other:?}"),
        }
    }

    /// Nothing more was asked of it.
    pub(crate) fn is_quiet(&mut self) -> bool {
        self.events.try_recv().is_err()
    }
}

async fn serve(
    mut wire: impl AsyncRead + AsyncWrite + Unpin,
    tell: mpsc::UnboundedSender<ServerEvent>,
) -> Option<()> {
    let seen = read(&mut wire).await?;
    let path = seen.line.split(' ').nth(1)?.to_owned();
    let _ = tell.send(ServerEvent::Request(seen));
    let (path, rest) = path.split_once('?').unwrap_or((&path, ""));
    let whole = |status: &str, more: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    let answer = match path {
        "/ok" => whole("200 OK", "", "fine\n"),
        "/busy" => whole("503 Service Unavailable", "", "later\n"),
        "/gone" => whole("404 Not Found", "", ""),
        "/moved" => whole("302 Found", &format!("Location: {rest}\r\n"), "elsewhere\n"),
        "/kept" => whole("307 Temporary Redirect", &format!("Location: {rest}\r\n"), ""),
        "/broken" => "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nonly".to_owned(),
        "/long" => whole("200 OK", "", &"x".repeat(5000)),
        "/nonsense" => "what?\r\n\r\n".to_owned(),
        "/silent" => return Some(()),
        // Keeps whoever asks waiting, and looks whether he still waits.
        _ => {
            let mut byte = [0];
            let gone = matches!(wire.read(&mut byte).await, Ok(0) | Err(_));
            assert!(gone, "nothing more is sent");
            return tell.send(ServerEvent::HungUp).ok();
        }
    };
    wire.write_all(answer.as_bytes()).await.ok()?;
    wire.shutdown().await.ok()
}

async fn read(wire: &mut (impl AsyncRead + Unpin)) -> Option<RecordedRequest> {
    let mut got = Vec::new();
    let head = loop {
        if let Some(at) = got.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        if wire.read_buf(&mut got).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(got[..head].to_vec()).unwrap();
    let mut lines = text.split("\r\n").map(str::to_owned);
    let line = lines.next()?;
    let headers = lines.map(|line| line.split_once(": ").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap());
    let mut seen = RecordedRequest { line, headers: headers.collect(), body: String::new() };
    let length: usize = seen.header("content-length").map_or(0, |length| length.parse().unwrap());
    while got.len() < head + 4 + length {
        wire.read_buf(&mut got).await.ok()?;
    }
    seen.body = String::from_utf8(got[head + 4..].to_vec()).unwrap();
    Some(seen)
}
