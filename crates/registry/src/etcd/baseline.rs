//! The etcd client alone, for benchmarks: one transaction a commit, or many as one; as many in flight as in the engine.

use tokio::task::JoinSet;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::UNDER_WAY_MAX;
use super::commit::{PATH, absent, written_at};
use super::keyspace::revision;
use super::message::{EtcdOp, PutRequest, RequestOp, TxnRequest, TxnResponse};
use crate::bench::{BaselineClient, BenchError, VALUE, row_key};
use crate::{BoxFuture, EngineUrl};
use evenkeel_core::registry::Revision;

/// How many commits fit in one transaction, with two guards and two writes each.
const AS_ONE: usize = 64;

/// The rows, and the last revision of each.
pub(crate) struct EtcdBaseline {
    channel: Channel,
    root: String,
    revisions: Vec<Revision>,
    as_one: usize,
}

impl EtcdBaseline {
    /// Connects to the first host.
    pub(crate) async fn make(url: &EngineUrl, rows: u32, together: bool) -> Result<Self, BenchError> {
        let host = url.addresses().first().ok_or("no host")?.with_port(2379);
        let endpoint = Endpoint::from_shared(format!("http://{host}"))?.tcp_nodelay(true);
        let root = format!("by-hand-{}-{together}", std::process::id());
        let mut made =
            Self { channel: endpoint.connect().await?, root, revisions: Vec::new(), as_one: AS_ONE };
        made.revisions = vec![Revision(0); rows as usize];
        let pairs: Vec<_> = (0..rows / 2).map(|pair| [2 * pair, 2 * pair + 1]).collect();
        made.commit(&pairs).await?;
        made.as_one = if together { AS_ONE } else { 1 };
        Ok(made)
    }

    fn request(&self, pairs: &[[u32; 2]]) -> TxnRequest {
        let key = |row| format!("{}/{}", self.root, row_key(row)).into_bytes();
        let guard = |row| match self.revisions[row as usize] {
            Revision(0) => absent(key(row)),
            known => written_at(key(row), known),
        };
        let rows = pairs.as_flattened().iter().copied();
        let compare = rows.clone().map(guard).collect();
        let put = |row| EtcdOp::Put(PutRequest { key: key(row), value: VALUE.to_vec(), lease: 0 });
        let success = rows.map(|row| RequestOp { step: Some(put(row)) }).collect();
        TxnRequest { compare, success, failure: Vec::new() }
    }
}

async fn send(channel: Channel, request: TxnRequest) -> Result<Revision, BenchError> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let codec = ProstCodec::<TxnRequest, TxnResponse>::default();
    let answer = grpc.unary(Request::new(request), PATH.parse()?, codec).await?.into_inner();
    match answer.header {
        Some(header) if answer.succeeded => Ok(revision(header.revision)),
        _ => Err("a row is not as it was left".into()),
    }
}

impl BaselineClient for EtcdBaseline {
    fn commit<'a>(&'a mut self, pairs: &'a [[u32; 2]]) -> BoxFuture<'a, Result<(), BenchError>> {
        Box::pin(async move {
            let (mut under_way, mut waiting) = (JoinSet::new(), pairs.chunks(self.as_one));
            loop {
                while under_way.len() < UNDER_WAY_MAX
                    && let Some(pairs) = waiting.next()
                {
                    let (channel, request, pairs) =
                        (self.channel.clone(), self.request(pairs), pairs.to_vec());
                    under_way
                        .spawn(async move { Ok::<_, BenchError>((pairs, send(channel, request).await?)) });
                }
                let Some(ended) = under_way.join_next().await else { return Ok(()) };
                let (pairs, revision) = ended??;
                pairs.as_flattened().iter().for_each(|row| self.revisions[*row as usize] = revision);
            }
        })
    }
}
