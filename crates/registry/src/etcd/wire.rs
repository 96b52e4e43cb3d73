//! The way to etcd: one member at a time and the next one when it fails, a token, a deadline on every call, and the
//! check that answers never go back in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt};
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::fault::{self, Fault};
use super::leader::Leader;
use super::login::Login;
use super::message::{Answer, PutRequest, PutResponse, StatusRequest, StatusResponse};
use super::tree::Tree;
use crate::encryption::{Pems, pems};
use crate::{EngineUrl, RegistryError};

/// How long an answer is waited for. etcd itself gives up after seven seconds, and works in milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);

/// How often a silent connection is tested while something is awaited, and how long the test may take. etcd closes
/// connections that are tested more often than every five seconds.
const PING: Duration = Duration::from_secs(6);
const PONG: Duration = Duration::from_secs(3);

/// How long a cut may go unnoticed by a listener that asks nothing.
pub(super) const UNNOTICED: Duration = PING.saturating_add(PONG);

/// How much may be on its way to us unread. From half of this the HTTP/2 library pays 256 bytes for each small answer that
/// waits, and closes the connection when it is spent: its default allows some 128 answers at once.
const WINDOW: u32 = 64 << 20;

const PORT: u16 = 2379;
const PUT: &str = "/etcdserverpb.KV/Put";

const BEGINS: &str = "as after a restore: start this node again, it then begins a new generation";
pub(super) const REPLACED: &str = "was given a new generation, as after a restore: start this node again";

/// Connections to all members, of which one is in use.
pub(super) struct Wire {
    members: Vec<Member>,
    /// Which is in use. Listeners hear of a change.
    used: watch::Sender<usize>,
    login: Option<Login>,
    /// A key of which nobody reads the value, written to see how far etcd is.
    proof: Vec<u8>,
    /// etcd's name of itself; 0 until it was heard.
    cluster: AtomicU64,
    /// As far as the order is known to have gone.
    floor: AtomicU64,
    pub(super) leader: Leader,
    /// Why nothing may go on. Rings; whoever listens does what must be done before it is told, then lets it break.
    lost: watch::Sender<Option<RegistryError>>,
    /// Why nothing goes on any more. Rings.
    broken: watch::Sender<Option<RegistryError>>,
}

struct Member {
    host: String,
    channel: Channel,
}

impl Wire {
    /// Prepares connections; they are made when they are needed.
    pub(super) fn new(url: &EngineUrl, tree: &Tree) -> Result<Arc<Self>, RegistryError> {
        let tls = tls(url)?;
        let member = |host: String| {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let endpoint = Endpoint::from_shared(format!("{scheme}://{host}"))
                .map_err(|error| url.refused(&format!("has a host that is none: {error}")))?
                .connect_timeout(CONNECT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(PING)
                .keep_alive_timeout(PONG)
                .initial_stream_window_size(WINDOW)
                .initial_connection_window_size(WINDOW);
            let endpoint = match tls.clone() {
                None => endpoint,
                Some(tls) => endpoint.tls_config(tls).map_err(|error| {
                    url.refused(&format!("has certificates or a key that cannot be used: {error}"))
                })?,
            };
            Ok(Member { host, channel: endpoint.connect_lazy() })
        };
        let members = url.hosts().iter().map(|host| member(host.with_port(PORT)));
        let members = members.collect::<Result<Vec<_>, RegistryError>>()?;
        // Not everybody begins at the first.
        let first = usize::try_from(std::process::id()).unwrap_or(0) % members.len();
        Ok(Arc::new(Self {
            members,
            used: watch::Sender::new(first),
            login: Login::new(url)?,
            proof: tree.last_lease(),
            cluster: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            leader: Leader::default(),
            lost: watch::Sender::new(None),
            broken: watch::Sender::new(None),
        }))
    }

    fn now_used(&self) -> usize {
        *self.used.borrow()
    }

    /// Rings when another member is used from now on.
    pub(super) fn used(&self) -> watch::Receiver<usize> {
        self.used.subscribe()
    }

    /// etcd's name of itself, as far as heard.
    pub(super) fn cluster(&self) -> u64 {
        self.cluster.load(Ordering::Relaxed)
    }

    /// Why nothing goes on, for now or any more.
    fn broken(&self) -> Option<RegistryError> {
        let broken = self.broken.borrow().clone();
        broken.or_else(|| self.lost.borrow().as_ref().map(being_noted))
    }

    /// Rings when nothing may go on.
    pub(super) fn losses(&self) -> watch::Receiver<Option<RegistryError>> {
        self.lost.subscribe()
    }

    /// Nothing goes on any more.
    pub(super) fn give_up(&self, why: RegistryError) {
        self.broken.send_replace(Some(why));
    }

    /// Rings when nothing goes on any more.
    pub(super) fn breaks(&self) -> watch::Receiver<Option<RegistryError>> {
        self.broken.subscribe()
    }

    /// Asks once. Where the answer is lost, nobody knows whether it was done.
    pub(super) async fn tell<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Fault>
    where
        Q: prost::Message + Clone + 'static,
        A: Answer,
    {
        let used = self.now_used();
        tokio::select! {
            answer = self.call(path, question, PATIENCE) => answer,
            fault = self.lose_hope(used) => Err(fault),
        }
    }

    /// Asks for what may be done twice: of every member until one answers, with a share of the time for each.
    pub(super) async fn ask<Q, A>(&self, path: &'static str, question: Q) -> Result<A, Fault>
    where
        Q: prost::Message + Clone + 'static,
        A: Answer,
    {
        let tries = self.members.len().clamp(1, 5);
        let share = PATIENCE / u32::try_from(tries).unwrap_or(1);
        let mut answer = self.call(path, question.clone(), share).await;
        for _ in 1..tries {
            match answer {
                Err(Fault::Other(RegistryError::Unavailable(_))) => {}
                settled => return settled,
            }
            answer = self.call(path, question.clone(), share).await;
        }
        answer
    }

    async fn call<Q, A>(&self, path: &'static str, question: Q, patience: Duration) -> Result<A, Fault>
    where
        Q: prost::Message + Clone + 'static,
        A: Answer,
    {
        let (used, floor) = (self.now_used(), self.floor.load(Ordering::Relaxed));
        let checked = self.check(self.ask_at(used, path, question, patience).await?, floor);
        if !matches!(checked, Err(Fault::Older)) {
            return checked;
        }
        if self.has_gone_back(used, patience, floor).await? {
            return Err(self.stop(&format!("has gone back in time, {BEGINS}")));
        }
        Err(self.pass_over(used, "answers with what was a while ago: use a release in which it does not"))
    }

    /// Asks a member, and takes what it answers as it is.
    async fn ask_at<Q, A>(
        &self,
        used: usize,
        path: &'static str,
        question: Q,
        patience: Duration,
    ) -> Result<A, Fault>
    where
        Q: prost::Message + Clone + 'static,
        A: Answer,
    {
        let answer = async {
            let questions = || tokio_stream::once(question.clone());
            let mut answers = self.with_token(used, || self.stream(used, path, questions())).await?;
            let answer: Option<A> = answers.message().await.map_err(|status| self.fail(used, &status))?;
            answer.ok_or_else(|| self.fail(used, &Status::unavailable("the answer is missing")))
        };
        self.in_time(used, patience, answer).await
    }

    /// Opens a call that goes on, and tells at which member.
    pub(super) async fn converse<Q, A>(
        &self,
        path: &'static str,
        question: Q,
    ) -> Result<(usize, Streaming<A>), Fault>
    where
        Q: prost::Message + Clone + 'static,
        A: Answer,
    {
        let used = self.now_used();
        // Whoever says no more ends the call at some members.
        let questions = || tokio_stream::once(question.clone()).chain(tokio_stream::pending());
        let answers = self.with_token(used, || self.stream(used, path, questions()));
        Ok((used, self.in_time(used, PATIENCE, answers).await?))
    }

    /// Calls, and once more with a new token when that was the trouble: then nothing had been done.
    async fn with_token<A, F>(&self, used: usize, call: impl Fn() -> F) -> Result<Streaming<A>, Fault>
    where
        F: Future<Output = Result<Streaming<A>, Status>>,
    {
        if let Some(error) = self.broken() {
            return Err(Fault::Other(error));
        }
        let Some(login) = &self.login else { return call().await.map_err(|status| self.fail(used, &status)) };
        let channel = &self.members[used].channel;
        login.ensure(channel).await.map_err(|status| self.fail(used, &status))?;
        let fault = match call().await {
            Ok(answers) => return Ok(answers),
            Err(status) => self.fail(used, &status),
        };
        if !matches!(fault, Fault::Token) {
            return Err(fault);
        }
        login.forget();
        login.ensure(channel).await.map_err(|status| self.fail(used, &status))?;
        call().await.map_err(|status| match self.fail(used, &status) {
            Fault::Token => self
                .pass_over(used, "does not take the token that it just gave: check that its members agree"),
            fault => fault,
        })
    }

    fn stream<S, A>(
        &self,
        used: usize,
        path: &'static str,
        questions: S,
    ) -> impl Future<Output = Result<Streaming<A>, Status>> + use<S, A>
    where
        S: Stream<Item: prost::Message + 'static> + Send + 'static,
        A: Answer,
    {
        let mut grpc = Grpc::new(self.members[used].channel.clone()).max_decoding_message_size(usize::MAX);
        let mut request = Request::new(questions);
        // A member without a leader says so at once instead of letting us wait.
        request.metadata_mut().insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
        if let Some(token) = self.login.as_ref().and_then(Login::token) {
            request.metadata_mut().insert("token", token);
        }
        async move {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            let path = path.parse().map_err(|_| Status::internal("a path that is none"))?;
            Ok(grpc.streaming(request, path, ProstCodec::<S::Item, A>::default()).await?.into_inner())
        }
    }

    /// Whether a user's token says who asks.
    pub(super) fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// The next call asks for a new token.
    pub(super) fn forget_token(&self) {
        self.login.iter().for_each(Login::forget);
    }

    /// What a member says of itself, which takes no leader. Nothing follows from a refusal: it is alive.
    pub(super) async fn status_of(&self, member: usize) -> Option<StatusResponse> {
        let mut grpc = Grpc::new(self.members[member].channel.clone());
        let mut request = Request::new(StatusRequest {});
        if let Some(token) = self.login.as_ref().and_then(Login::token) {
            request.metadata_mut().insert("token", token);
        }
        grpc.ready().await.ok()?;
        let path = "/etcdserverpb.Maintenance/Status".parse().ok()?;
        let codec = ProstCodec::<StatusRequest, StatusResponse>::default();
        Some(grpc.unary(request, path, codec).await.ok()?.into_inner())
    }

    async fn in_time<T>(
        &self,
        used: usize,
        patience: Duration,
        what: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        match tokio::time::timeout(patience, what).await {
            Ok(answer) => answer,
            Err(_) => {
                let late = format!("no answer within {} ms", patience.as_millis());
                Err(self.fail(used, &Status::deadline_exceeded(late)))
            }
        }
    }

    /// Reads a failure, and goes on to the next member where that may help.
    pub(super) fn fail(&self, used: usize, status: &Status) -> Fault {
        if fault::is_of_the_member(status) {
            self.leave(used);
        }
        self.explain(used, status)
    }

    /// The next member may do better than this one.
    fn pass_over(&self, used: usize, why: &str) -> Fault {
        self.leave(used);
        Fault::Other(RegistryError::Unavailable(format!("etcd at {} {why}", self.members[used].host)))
    }

    fn leave(&self, used: usize) {
        let next = (used + 1) % self.members.len();
        self.used.send_if_modified(|now| *now == used && std::mem::replace(now, next) != next);
    }

    /// Reads a failure that another member would answer with as well.
    pub(super) fn explain(&self, used: usize, status: &Status) -> Fault {
        fault::read(&self.members[used].host, status)
    }

    /// Whether an answer is of the etcd that we know and not older than what we knew when we asked.
    fn check<A: Answer>(&self, answer: A, floor: u64) -> Result<A, Fault> {
        let Some(header) = answer.header() else { return Ok(answer) };
        let (cluster, revision) = (header.cluster_id, u64::try_from(header.revision).unwrap_or(0));
        let known = self.cluster.compare_exchange(0, cluster, Ordering::Relaxed, Ordering::Relaxed);
        if known.is_err_and(|known| known != cluster) {
            return Err(self.stop(&format!("is another etcd than before, {BEGINS}")));
        }
        if A::AGREED && revision < floor {
            return Err(Fault::Older);
        }
        if A::AGREED {
            self.floor.fetch_max(revision, Ordering::Relaxed);
            self.leader.heard(header.raft_term);
        }
        Ok(answer)
    }

    /// Whether etcd itself, and not one member, is before what we knew: a member that was paused may answer with what it knew
    /// then (in releases before 3.4.42, 3.5.28 and 3.6.9). What is written now comes after all that was told.
    async fn has_gone_back(&self, used: usize, patience: Duration, floor: u64) -> Result<bool, Fault> {
        let question = PutRequest { key: self.proof.clone(), ..PutRequest::default() };
        let PutResponse { header } = self.ask_at(used, PUT, question, patience).await?;
        let revision = header.and_then(|header| u64::try_from(header.revision).ok());
        // Who does not say how far it is has not said that it went back.
        let revision = revision.ok_or_else(|| self.pass_over(used, "does not say how far it is"))?;
        Ok(revision <= floor)
    }

    /// Nothing goes on any more, once it is noted for whoever comes next.
    pub(super) fn stop(&self, what: &str) -> Fault {
        let error = RegistryError::Fatal(format!("what answers as etcd {what}"));
        if self.lost.receiver_count() == 0 {
            self.give_up(error.clone());
            return Fault::Other(error);
        }
        let told = being_noted(&error);
        self.lost.send_replace(Some(error));
        Fault::Other(told)
    }
}

/// What is told of an end that is not yet noted where whoever comes next finds it.
fn being_noted(why: &RegistryError) -> RegistryError {
    RegistryError::Unavailable(format!("the generation is being raised, for {why}"))
}

fn tls(url: &EngineUrl) -> Result<Option<ClientTlsConfig>, RegistryError> {
    let Some(Pems { ca, identity }) = pems(url)? else { return Ok(None) };
    let mut tls = ClientTlsConfig::new();
    tls = match ca {
        Some(ca) => tls.ca_certificate(Certificate::from_pem(ca)),
        None => tls.with_native_roots(),
    };
    if let Some((cert, key)) = identity {
        tls = tls.identity(Identity::from_pem(cert, key));
    }
    Ok(Some(tls))
}
