//! Reads etcd's version and limits when connecting, and checks whether it may have been rolled back.

use evenkeel_core::registry::Revision;

use super::client::EtcdClient;
use super::commit;
use super::errors::EtcdError;
use super::keyspace::{self, EtcdKeyspace};
use super::lease;
use super::message::{RangeRequest, RangeResponse, StatusRequest, StatusResponse, TxnRequest, TxnResponse};
use super::{EtcdShared, client};
use crate::RegistryError;
use crate::health::release;

/// The layout that this program writes.
const LAYOUT: &str = "1";

/// The most operations that etcd takes by default.
const OPERATIONS_MAX: usize = 128;

/// The entry with the id of the etcd cluster of this namespace, and how often that may have been rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EtcdMeta {
    cluster: u64,
    generation: u16,
}

impl EtcdMeta {
    fn write(&self) -> Vec<u8> {
        format!("{LAYOUT} {:x} {}", self.cluster, self.generation).into_bytes()
    }

    fn read(value: &[u8]) -> Result<Self, RegistryError> {
        let text = String::from_utf8_lossy(value);
        let refused =
            |why: &str| RegistryError::Refused(format!("etcd's namespace holds {text:?} as meta: {why}"));
        let mut parts = text.split(' ');
        if parts.next() != Some(LAYOUT) {
            return Err(refused(
                "it is of a newer evenkeel, or of another program: use that, or another namespace",
            ));
        }
        let cluster = parts.next().and_then(|part| u64::from_str_radix(part, 16).ok());
        let generation = parts.next().and_then(|part| part.parse().ok());
        match (cluster, generation) {
            (Some(cluster), Some(generation)) => Ok(Self { cluster, generation }),
            _ => Err(refused("it is damaged: restore it, or use another namespace")),
        }
    }
}

/// The generation, and where it was found or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EtcdGeneration {
    pub(super) generation: u16,
    /// The revision at which it was written: guards compare it, so that no client continues under an old generation.
    pub(super) since: Revision,
}

/// Adopts the generation. It is raised if etcd is another cluster than the recorded one (as after `etcdctl snapshot
/// restore`), or to above `lost`, the generation of a client that saw etcd rolled back.
pub(super) async fn adopt_generation(
    wire: &EtcdClient,
    tree: &EtcdKeyspace,
    lost: Option<u16>,
) -> Result<EtcdGeneration, RegistryError> {
    loop {
        let look = RangeRequest { key: tree.meta(), ..RangeRequest::default() };
        let found: RangeResponse =
            wire.call_any("/etcdserverpb.KV/Range", look).await.map_err(EtcdError::into_registry_error)?;
        let cluster = wire.cluster();
        let (guard, meta) = match found.kvs.first() {
            None => (commit::absent(tree.meta()), EtcdMeta { cluster, generation: 0 }),
            Some(kv) => {
                let old = EtcdMeta::read(&kv.value)?;
                let raised = old.generation.saturating_add(u16::from(old.cluster != cluster));
                let generation = raised.max(lost.map_or(0, |lost| lost.saturating_add(1)));
                let new = EtcdMeta { cluster, generation };
                let since = keyspace::revision(kv.mod_revision);
                if new == old {
                    return Ok(EtcdGeneration { generation, since });
                }
                (commit::written_at(tree.meta(), since), new)
            }
        };
        let write = commit::put(vec![guard], tree.meta(), meta.write(), 0);
        let written: TxnResponse =
            wire.call_once(commit::PATH, write).await.map_err(EtcdError::into_registry_error)?;
        if written.succeeded {
            let since = keyspace::revision(written.header.map_or(0, |header| header.revision));
            return Ok(EtcdGeneration { generation: meta.generation, since });
        }
        // Another client wrote it at the same moment.
    }
}

impl EtcdShared {
    /// Ends the session if a refused transaction found another generation.
    pub(super) fn check_generation(&self, answer: &TxnResponse) -> Result<(), EtcdError> {
        let Some(found) = answer.responses.last().and_then(|op| op.range.as_ref()) else { return Ok(()) };
        let since = found.kvs.first().map(|kv| keyspace::revision(kv.mod_revision));
        match answer.succeeded || since == Some(self.since) {
            true => Ok(()),
            false => Err(self.client.stop(client::REPLACED)),
        }
    }
}

/// The version, which must support every request in use.
pub(super) async fn version(wire: &EtcdClient) -> Result<String, RegistryError> {
    let status: StatusResponse = wire
        .call_any("/etcdserverpb.Maintenance/Status", StatusRequest {})
        .await
        .map_err(EtcdError::into_registry_error)?;
    match release(&status.version) {
        Some(known) if known >= [3, 4, 0] => Ok(status.version),
        _ => Err(RegistryError::Refused(format!(
            "etcd is of version {}, which is too old: use 3.4 or newer",
            status.version
        ))),
    }
}

/// The shortest term in seconds: what etcd grants for a request of one second.
pub(super) async fn least_term(wire: &EtcdClient) -> Result<i64, RegistryError> {
    // Number 0 lets etcd choose; the number is not kept here, so the lease ends by itself.
    Ok(lease::grant(wire, 0, 1).await.map_err(EtcdError::into_registry_error)?.max(1))
}

/// How many comparisons and how many writes one transaction may have, up to the number in use.
pub(super) async fn operations_max(wire: &EtcdClient, tree: &EtcdKeyspace) -> Result<usize, RegistryError> {
    let mut most = OPERATIONS_MAX;
    loop {
        // It compares and writes nothing, so it costs no more than a read. It reads something, or a member that lags
        // behind would answer by itself.
        let compare = vec![commit::absent(tree.meta()); most];
        let look = vec![keyspace::exists_op(tree.meta())];
        let question = TxnRequest { compare, success: look.clone(), failure: look };
        match wire.call_any::<_, TxnResponse>(commit::PATH, question).await {
            // One is for the generation.
            Ok(_) => return Ok(most - 1),
            Err(EtcdError::TooLarge) if most > 8 => most /= 2,
            Err(fault) => return Err(fault.into_registry_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meta_is_read_back_and_strangers_are_left_alone() {
        let meta = EtcdMeta { cluster: 0xdead_beef, generation: 3 };
        assert_eq!(EtcdMeta::read(&meta.write()), Ok(meta));
        for strange in ["", "2 a 1", "1 x 1", "1 a", "hello"] {
            assert!(
                matches!(EtcdMeta::read(strange.as_bytes()), Err(RegistryError::Refused(_))),
                "{strange}"
            );
        }
    }
}
