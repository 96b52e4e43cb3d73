//! The etcd client: uses one member at a time and the next one when it fails, with a token, a deadline on every call,
//! and the check that answers never go back in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt};
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use super::errors::{self, EtcdError};
use super::keyspace::EtcdKeyspace;
use super::leader::LeaderMonitor;
use super::login::EtcdLogin;
use super::message::{EtcdResponse, PutRequest, PutResponse, StatusRequest, StatusResponse};
use crate::encryption::{PemBundle, read_pems};
use crate::{EngineUrl, RegistryError};

/// How long to wait for an answer. etcd itself gives up after seven seconds, and works in milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(2);

/// How often a silent connection is tested while an answer is awaited, and how long the test may take. etcd closes
/// connections that are tested more often than every five seconds.
const PING: Duration = Duration::from_secs(6);
const PONG: Duration = Duration::from_secs(3);

/// How long a cut may go unnoticed by a listener that sends nothing.
pub(super) const UNNOTICED: Duration = PING.saturating_add(PONG);

/// How much unread data may be in flight. From half of this the HTTP/2 library spends 256 bytes for each small answer
/// that waits, and closes the connection when it is spent: its default allows some 128 answers at once.
const WINDOW: u32 = 64 << 20;

const PORT: u16 = 2379;
const PUT: &str = "/etcdserverpb.KV/Put";

const BEGINS: &str = "as after a restore: start this node again, it then begins a new generation";
pub(super) const REPLACED: &str = "was given a new generation, as after a restore: start this node again";

/// Connections to all members, of which one is in use.
pub(super) struct EtcdClient {
    members: Vec<EtcdEndpoint>,
    /// The member in use. Listeners are notified of a change.
    current: watch::Sender<usize>,
    login: Option<EtcdLogin>,
    /// A key whose value is never read, written to learn etcd's revision.
    probe_key: Vec<u8>,
    /// etcd's cluster id; 0 until it is known.
    cluster: AtomicU64,
    /// The highest known revision of the order.
    floor: AtomicU64,
    pub(super) leader: LeaderMonitor,
    /// Why the session must end. A task sees it, does what must be done before it is reported, then sets `failure`.
    lost: watch::Sender<Option<RegistryError>>,
    /// Why the session has ended.
    failure: watch::Sender<Option<RegistryError>>,
}

struct EtcdEndpoint {
    host: String,
    channel: Channel,
}

impl EtcdClient {
    /// Prepares connections, which are opened when needed.
    pub(super) fn new(url: &EngineUrl, tree: &EtcdKeyspace) -> Result<Arc<Self>, RegistryError> {
        let tls = tls(url)?;
        let member = |host: String| {
            let scheme = if tls.is_some() { "https" } else { "http" };
            let endpoint = Endpoint::from_shared(format!("{scheme}://{host}"))
                .map_err(|error| url.refusal(&format!("has a host that is none: {error}")))?
                .connect_timeout(CONNECT)
                .tcp_nodelay(true)
                .http2_keep_alive_interval(PING)
                .keep_alive_timeout(PONG)
                .initial_stream_window_size(WINDOW)
                .initial_connection_window_size(WINDOW);
            let endpoint = match tls.clone() {
                None => endpoint,
                Some(tls) => endpoint.tls_config(tls).map_err(|error| {
                    url.refusal(&format!("has certificates or a key that cannot be used: {error}"))
                })?,
            };
            Ok(EtcdEndpoint { host, channel: endpoint.connect_lazy() })
        };
        let members = url.addresses().iter().map(|host| member(host.with_port(PORT)));
        let members = members.collect::<Result<Vec<_>, RegistryError>>()?;
        // Not every process starts with the first member.
        let first = usize::try_from(std::process::id()).unwrap_or(0) % members.len();
        Ok(Arc::new(Self {
            members,
            current: watch::Sender::new(first),
            login: EtcdLogin::new(url)?,
            probe_key: tree.last_lease(),
            cluster: AtomicU64::new(0),
            floor: AtomicU64::new(0),
            leader: LeaderMonitor::default(),
            lost: watch::Sender::new(None),
            failure: watch::Sender::new(None),
        }))
    }

    fn current_member(&self) -> usize {
        *self.current.borrow()
    }

    /// Notifies when another member is used from now on.
    pub(super) fn subscribe_member(&self) -> watch::Receiver<usize> {
        self.current.subscribe()
    }

    /// etcd's cluster id, as far as known.
    pub(super) fn cluster(&self) -> u64 {
        self.cluster.load(Ordering::Relaxed)
    }

    /// Why requests fail, for now or for good.
    fn failure(&self) -> Option<RegistryError> {
        let broken = self.failure.borrow().clone();
        broken.or_else(|| self.lost.borrow().as_ref().map(generation_pending))
    }

    /// Notifies when the session must end.
    pub(super) fn subscribe_lost(&self) -> watch::Receiver<Option<RegistryError>> {
        self.lost.subscribe()
    }

    /// Ends the session for good.
    pub(super) fn fail_permanently(&self, why: RegistryError) {
        self.failure.send_replace(Some(why));
    }

    /// Notifies when the session has ended.
    pub(super) fn subscribe_failure(&self) -> watch::Receiver<Option<RegistryError>> {
        self.failure.subscribe()
    }

    /// Sends a request once. If the answer is lost, the outcome is unknown.
    pub(super) async fn call_once<Q, A>(&self, path: &'static str, question: Q) -> Result<A, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        A: EtcdResponse,
    {
        let used = self.current_member();
        tokio::select! {
            answer = self.call_checked(path, question, PATIENCE) => answer,
            fault = self.until_leader_lost(used) => Err(fault),
        }
    }

    /// Sends a request that may be repeated: to each member until one answers, with a part of the time for each.
    pub(super) async fn call_any<Q, A>(&self, path: &'static str, question: Q) -> Result<A, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        A: EtcdResponse,
    {
        let tries = self.members.len().clamp(1, 5);
        let share = PATIENCE / u32::try_from(tries).unwrap_or(1);
        let mut answer = self.call_checked(path, question.clone(), share).await;
        for _ in 1..tries {
            match answer {
                Err(EtcdError::Other(RegistryError::Unavailable(_))) => {}
                settled => return settled,
            }
            answer = self.call_checked(path, question.clone(), share).await;
        }
        answer
    }

    async fn call_checked<Q, A>(
        &self,
        path: &'static str,
        question: Q,
        patience: Duration,
    ) -> Result<A, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        A: EtcdResponse,
    {
        let (used, floor) = (self.current_member(), self.floor.load(Ordering::Relaxed));
        let checked = self.check(self.call_member(used, path, question, patience).await?, floor);
        if !matches!(checked, Err(EtcdError::Older)) {
            return checked;
        }
        if self.went_back(used, patience, floor).await? {
            return Err(self.stop(&format!("has gone back in time, {BEGINS}")));
        }
        Err(self.skip_member(used, "answers with what was a while ago: use a release in which it does not"))
    }

    /// Sends a request to a member, and returns the answer unchecked.
    async fn call_member<Q, A>(
        &self,
        used: usize,
        path: &'static str,
        question: Q,
        patience: Duration,
    ) -> Result<A, EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        A: EtcdResponse,
    {
        let answer = async {
            let questions = || tokio_stream::once(question.clone());
            let mut answers = self.with_token(used, || self.stream(used, path, questions())).await?;
            let answer: Option<A> = answers.message().await.map_err(|status| self.fail(used, &status))?;
            answer.ok_or_else(|| self.fail(used, &Status::unavailable("the answer is missing")))
        };
        self.with_timeout(used, patience, answer).await
    }

    /// Opens a streaming call, and returns its member.
    pub(super) async fn open_stream<Q, A>(
        &self,
        path: &'static str,
        question: Q,
    ) -> Result<(usize, Streaming<A>), EtcdError>
    where
        Q: prost::Message + Clone + 'static,
        A: EtcdResponse,
    {
        let used = self.current_member();
        // At some members the call ends when the client closes its direction.
        let questions = || tokio_stream::once(question.clone()).chain(tokio_stream::pending());
        let answers = self.with_token(used, || self.stream(used, path, questions()));
        Ok((used, self.with_timeout(used, PATIENCE, answers).await?))
    }

    /// Calls, and repeats with a new token if the token was the problem: then nothing had been done.
    async fn with_token<A, F>(&self, used: usize, call: impl Fn() -> F) -> Result<Streaming<A>, EtcdError>
    where
        F: Future<Output = Result<Streaming<A>, Status>>,
    {
        if let Some(error) = self.failure() {
            return Err(EtcdError::Other(error));
        }
        let Some(login) = &self.login else { return call().await.map_err(|status| self.fail(used, &status)) };
        let channel = &self.members[used].channel;
        login.ensure_token(channel).await.map_err(|status| self.fail(used, &status))?;
        let fault = match call().await {
            Ok(answers) => return Ok(answers),
            Err(status) => self.fail(used, &status),
        };
        if !matches!(fault, EtcdError::Token) {
            return Err(fault);
        }
        login.forget();
        login.ensure_token(channel).await.map_err(|status| self.fail(used, &status))?;
        call().await.map_err(|status| match self.fail(used, &status) {
            EtcdError::Token => self
                .skip_member(used, "does not take the token that it just gave: check that its members agree"),
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
        A: EtcdResponse,
    {
        let mut grpc = Grpc::new(self.members[used].channel.clone()).max_decoding_message_size(usize::MAX);
        let mut request = Request::new(questions);
        // A member without a leader then says so at once instead of letting the client wait.
        request.metadata_mut().insert("hasleader", tonic::metadata::MetadataValue::from_static("true"));
        if let Some(token) = self.login.as_ref().and_then(EtcdLogin::token) {
            request.metadata_mut().insert("token", token);
        }
        async move {
            grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
            let path = path.parse().map_err(|_| Status::internal("a path that is none"))?;
            Ok(grpc.streaming(request, path, ProstCodec::<S::Item, A>::default()).await?.into_inner())
        }
    }

    /// Whether the client authenticates with a user's token.
    pub(super) fn has_login(&self) -> bool {
        self.login.is_some()
    }

    /// Makes the next call get a new token.
    pub(super) fn forget_token(&self) {
        self.login.iter().for_each(EtcdLogin::forget);
    }

    /// The status of a member, which needs no leader. A refusal does not matter: the member is alive.
    pub(super) async fn status_of(&self, member: usize) -> Option<StatusResponse> {
        let mut grpc = Grpc::new(self.members[member].channel.clone());
        let mut request = Request::new(StatusRequest {});
        if let Some(token) = self.login.as_ref().and_then(EtcdLogin::token) {
            request.metadata_mut().insert("token", token);
        }
        grpc.ready().await.ok()?;
        let path = "/etcdserverpb.Maintenance/Status".parse().ok()?;
        let codec = ProstCodec::<StatusRequest, StatusResponse>::default();
        Some(grpc.unary(request, path, codec).await.ok()?.into_inner())
    }

    async fn with_timeout<T>(
        &self,
        used: usize,
        patience: Duration,
        what: impl Future<Output = Result<T, EtcdError>>,
    ) -> Result<T, EtcdError> {
        match tokio::time::timeout(patience, what).await {
            Ok(answer) => answer,
            Err(_) => {
                let late = format!("no answer within {} ms", patience.as_millis());
                Err(self.fail(used, &Status::deadline_exceeded(late)))
            }
        }
    }

    /// Maps a failure, and switches to the next member if that may help.
    pub(super) fn fail(&self, used: usize, status: &Status) -> EtcdError {
        if errors::is_member_failure(status) {
            self.use_next_member(used);
        }
        self.explain(used, status)
    }

    /// Switches to the next member, which may work better than this one.
    fn skip_member(&self, used: usize, why: &str) -> EtcdError {
        self.use_next_member(used);
        EtcdError::Other(RegistryError::Unavailable(format!("etcd at {} {why}", self.members[used].host)))
    }

    fn use_next_member(&self, used: usize) {
        let next = (used + 1) % self.members.len();
        self.current.send_if_modified(|now| *now == used && std::mem::replace(now, next) != next);
    }

    /// Maps a failure that another member would return as well.
    pub(super) fn explain(&self, used: usize, status: &Status) -> EtcdError {
        errors::from_status(&self.members[used].host, status)
    }

    /// Checks that an answer is from the known etcd cluster and not older than what was known at the request.
    fn check<A: EtcdResponse>(&self, answer: A, floor: u64) -> Result<A, EtcdError> {
        let Some(header) = answer.header() else { return Ok(answer) };
        let (cluster, revision) = (header.cluster_id, u64::try_from(header.revision).unwrap_or(0));
        let known = self.cluster.compare_exchange(0, cluster, Ordering::Relaxed, Ordering::Relaxed);
        if known.is_err_and(|known| known != cluster) {
            return Err(self.stop(&format!("is another etcd than before, {BEGINS}")));
        }
        if A::AGREED && revision < floor {
            return Err(EtcdError::Older);
        }
        if A::AGREED {
            self.floor.fetch_max(revision, Ordering::Relaxed);
            self.leader.observe_term(header.raft_term);
        }
        Ok(answer)
    }

    /// Whether etcd itself, and not just one member, is behind the known revision: a member that was paused may answer
    /// with what it knew then (in releases before 3.4.42, 3.5.28 and 3.6.9). A write comes after all earlier answers.
    async fn went_back(&self, used: usize, patience: Duration, floor: u64) -> Result<bool, EtcdError> {
        let question = PutRequest { key: self.probe_key.clone(), ..PutRequest::default() };
        let PutResponse { header } = self.call_member(used, PUT, question, patience).await?;
        let revision = header.and_then(|header| u64::try_from(header.revision).ok());
        // A member that does not report a revision has not been rolled back by that.
        let revision = revision.ok_or_else(|| self.skip_member(used, "does not say how far it is"))?;
        Ok(revision <= floor)
    }

    /// Ends the session, once the reason is recorded for the next connection.
    pub(super) fn stop(&self, what: &str) -> EtcdError {
        let error = RegistryError::Fatal(format!("what answers as etcd {what}"));
        if self.lost.receiver_count() == 0 {
            self.fail_permanently(error.clone());
            return EtcdError::Other(error);
        }
        let told = generation_pending(&error);
        self.lost.send_replace(Some(error));
        EtcdError::Other(told)
    }
}

/// The error while the new generation is not yet recorded where the next connection finds it.
fn generation_pending(why: &RegistryError) -> RegistryError {
    RegistryError::Unavailable(format!("the generation is being raised, for {why}"))
}

fn tls(url: &EngineUrl) -> Result<Option<ClientTlsConfig>, RegistryError> {
    let Some(PemBundle { ca, identity }) = read_pems(url)? else { return Ok(None) };
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
