//! Looks for a registry without creating one, and deletes one.

use super::client::EtcdClient;
use super::commit;
use super::errors::EtcdError;
use super::keyspace::EtcdKeyspace;
use super::message::{
    DeleteRangeRequest, EtcdOp, RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse,
};
use crate::{EngineUrl, RegistryError};

/// How many keys are deleted together: few enough to be deleted in time.
const PIECE: i64 = 10_000;

/// Whether the namespace has its meta entry, which every registry has.
pub(super) async fn exists(url: &EngineUrl) -> Result<bool, RegistryError> {
    let tree = keyspace(url)?;
    let look = RangeRequest { key: tree.meta(), keys_only: true, ..RangeRequest::default() };
    let found = range(&*EtcdClient::new(url, &tree)?, look).await?;
    Ok(!found.kvs.is_empty())
}

/// Deletes every key of the namespace.
pub(super) async fn erase(url: &EngineUrl) -> Result<(), RegistryError> {
    let tree = keyspace(url)?;
    let wire = EtcdClient::new(url, &tree)?;
    let (first, behind) = tree.whole_range();
    loop {
        let look = RangeRequest {
            key: first.clone(),
            range_end: behind.clone(),
            limit: PIECE,
            keys_only: true,
            ..RangeRequest::default()
        };
        let Some(last) = range(&wire, look).await?.kvs.pop() else { return Ok(()) };
        // The key after the last one that was found.
        let range_end = [last.key.as_slice(), &[0]].concat();
        let delete = EtcdOp::Delete(DeleteRangeRequest { key: first.clone(), range_end });
        let success = vec![RequestOp { step: Some(delete) }];
        let request = TxnRequest { compare: vec![], success, failure: vec![] };
        // Deleting again what is gone is no change.
        let _: TxnResponse =
            wire.call_any(commit::PATH, request).await.map_err(EtcdError::into_registry_error)?;
    }
}

fn keyspace(url: &EngineUrl) -> Result<EtcdKeyspace, RegistryError> {
    let ([], namespace) = url.path_segments([])?;
    Ok(EtcdKeyspace::new(namespace))
}

async fn range(wire: &EtcdClient, look: RangeRequest) -> Result<RangeResponse, RegistryError> {
    wire.call_any("/etcdserverpb.KV/Range", look).await.map_err(EtcdError::into_registry_error)
}
