//! Leases: etcd's own, numbered by revisions, each with an entry that guards can compare.

use std::time::Duration;

use evenkeel_core::registry::{LeaseGrant, LeaseId};
use evenkeel_core::time::Millis;

use super::client::EtcdClient;
use super::errors::EtcdError;
use super::message::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, TxnRequest, TxnResponse,
};
use super::{EtcdShared, commit, keyspace};
use crate::{RegistryError, TTL_MAX};

/// How often to repeat a request that another process's act interfered with.
const TRIES: usize = 4;

/// A pause, so that a new leader becomes known.
const PAUSE: Duration = Duration::from_millis(50);

impl EtcdShared {
    pub(super) async fn open(&self, ttl: Millis) -> Result<LeaseGrant, RegistryError> {
        let ttl = ttl.clamp(self.facts.ttl_min, TTL_MAX);
        let mut opened = self.try_open(ttl).await;
        for _ in 1..TRIES {
            let Err(EtcdError::LeaseExists) = opened else { break };
            opened = self.try_open(ttl).await;
        }
        opened.map_err(EtcdError::into_registry_error)
    }

    /// A lost answer leaves at most a lease without a holder that ends by itself.
    async fn try_open(&self, ttl: Millis) -> Result<LeaseGrant, EtcdError> {
        // No revision comes twice, so neither does a lease number: not after a restart, nor in another namespace.
        let meta = self.keyspace.meta();
        let same = vec![commit::written_at(meta.clone(), self.since)];
        let numbering = commit::put(same, self.keyspace.last_lease(), Vec::new(), 0);
        let numbering = TxnRequest { failure: vec![keyspace::exists_op(meta)], ..numbering };
        let numbered: TxnResponse = self.client.call_once(commit::PATH, numbering).await?;
        self.check_generation(&numbered)?;
        let id = numbered.header.map_or(0, |header| header.revision);
        let lease = LeaseId(id.cast_unsigned());
        let ttl = grant(&self.client, id, seconds(ttl)).await?;
        let entry = commit::put(Vec::new(), self.keyspace.lease(lease), Vec::new(), id);
        let _: TxnResponse = self.client.call_once(commit::PATH, entry).await?;
        Ok(granted(lease, ttl))
    }

    pub(super) async fn renew(&self, lease: LeaseId) -> Result<Option<LeaseGrant>, RegistryError> {
        let Some(id) = number(lease) else { return Ok(None) };
        for _ in 0..TRIES {
            match self.try_renew(lease, id).await {
                Ok(RenewalResult::Renewed(ttl)) => return Ok(Some(granted(lease, ttl))),
                Ok(RenewalResult::Gone) | Err(EtcdError::NoLease) => return Ok(None),
                Ok(RenewalResult::Unsure) => tokio::time::sleep(PAUSE).await,
                Err(fault) => return Err(fault.into_registry_error()),
            }
        }
        Err(RegistryError::Unavailable("etcd changes its leader again and again: look at its members".into()))
    }

    /// A leader that was frozen or cut off renews without a quorum, also when there is another leader already which
    /// will end the lease. So a renewal counts only when, after it, most members were still of the same term.
    async fn try_renew(&self, lease: LeaseId, id: i64) -> Result<RenewalResult, EtcdError> {
        let question = LeaseKeepAliveRequest { id };
        let renewed: LeaseKeepAliveResponse =
            self.client.call_any("/etcdserverpb.Lease/LeaseKeepAlive", question).await?;
        if renewed.ttl <= 0 {
            return Ok(RenewalResult::Gone);
        }
        // The generation last, as in every transaction that may be refused.
        let (lease, meta) = (self.keyspace.lease(lease), self.keyspace.meta());
        let look = TxnRequest {
            compare: vec![commit::written_at(meta.clone(), self.since)],
            success: vec![keyspace::exists_op(lease)],
            failure: vec![keyspace::exists_op(meta)],
        };
        let there: TxnResponse = self.client.call_any(commit::PATH, look).await?;
        self.check_generation(&there)?;
        let found = there.responses.first().and_then(|op| op.range.as_ref());
        let term = |header: Option<super::message::ResponseHeader>| header.map(|header| header.raft_term);
        Ok(match found.is_none_or(|found| found.kvs.is_empty()) {
            true => RenewalResult::Gone,
            false if term(renewed.header) == term(there.header) => RenewalResult::Renewed(renewed.ttl),
            false => RenewalResult::Unsure,
        })
    }

    pub(super) async fn close(&self, lease: LeaseId) -> Result<(), RegistryError> {
        let Some(id) = number(lease) else { return Ok(()) };
        match revoke(&self.client, id).await {
            Ok(()) | Err(EtcdError::NoLease) => Ok(()),
            Err(fault) => Err(fault.into_registry_error()),
        }
    }
}

enum RenewalResult {
    /// Extended by this many seconds.
    Renewed(i64),
    Gone,
    /// Perhaps by a leader that is deposed.
    Unsure,
}

/// Requests a lease of this number and this many seconds, and returns how many it has.
pub(super) async fn grant(wire: &EtcdClient, id: i64, ttl: i64) -> Result<i64, EtcdError> {
    let granted: LeaseGrantResponse =
        wire.call_once("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl, id }).await?;
    match granted.error.as_str() {
        "" => Ok(granted.ttl),
        error => Err(EtcdError::Other(RegistryError::Unavailable(format!("etcd grants no lease: {error}")))),
    }
}

/// Ends a lease.
pub(super) async fn revoke(wire: &EtcdClient, id: i64) -> Result<(), EtcdError> {
    let _: LeaseRevokeResponse =
        wire.call_any("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id }).await?;
    Ok(())
}

/// The etcd id of a lease; `None` for numbers that etcd cannot have given.
fn number(lease: LeaseId) -> Option<i64> {
    i64::try_from(lease.0).ok().filter(|id| *id > 0)
}

/// The term in etcd's seconds, rounded up: a lease must not be shorter than requested.
fn seconds(ttl: Millis) -> i64 {
    ttl.0.div_euclid(1_000) + i64::from(ttl.0.rem_euclid(1_000) > 0)
}

fn granted(lease: LeaseId, seconds: i64) -> LeaseGrant {
    // etcd has no calendar clock, and ends leases without being asked.
    LeaseGrant { lease, ttl: Millis(seconds.saturating_mul(1_000)), clock: None, next_end: None }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::fake_server;
    use super::super::message::{KeyValue, RangeResponse, ResponseHeader, ResponseOp};
    use super::*;

    #[test]
    fn terms_are_rounded_up_to_seconds() {
        for (ttl, expected) in [(1, 1), (1_000, 1), (1_001, 2), (15_000, 15), (0, 0)] {
            assert_eq!(seconds(Millis(ttl)), expected, "{ttl}");
        }
    }

    #[test]
    fn numbers_that_etcd_cannot_have_are_no_leases() {
        assert_eq!([0, u64::MAX, 1 << 63, 7].map(|id| number(LeaseId(id))), [None, None, None, Some(7)]);
    }

    /// An etcd whose renewing leader is of term 4, while most members are of another one for the first `unsure` times.
    async fn renewed(unsure: usize) -> (Result<Option<LeaseGrant>, RegistryError>, usize) {
        let looked = Arc::new(AtomicUsize::new(0));
        let counted = looked.clone();
        let shared = fake_server::start("", move |path| {
            let header = |raft_term| Some(ResponseHeader { cluster_id: 1, revision: 9, raft_term });
            vec![match path {
                "/etcdserverpb.Lease/LeaseKeepAlive" => {
                    fake_server::bytes(&LeaseKeepAliveResponse { header: header(4), ttl: 15 })
                }
                _ => {
                    let term = if counted.fetch_add(1, Ordering::Relaxed) < unsure { 5 } else { 4 };
                    let there = RangeResponse { kvs: vec![KeyValue::default()], ..RangeResponse::default() };
                    let responses = vec![ResponseOp { range: Some(there) }];
                    fake_server::bytes(&TxnResponse { header: header(term), succeeded: true, responses })
                }
            }]
        })
        .await;
        (shared.renew(LeaseId(7)).await, looked.load(Ordering::Relaxed))
    }

    /// proves: I10
    #[tokio::test]
    async fn a_renewal_by_a_leader_that_may_be_none_any_more_does_not_count() {
        let granted = granted(LeaseId(7), 15);
        assert_eq!(renewed(0).await, (Ok(Some(granted)), 1));
        assert_eq!(renewed(2).await, (Ok(Some(granted)), 3));
        let (told, looked) = renewed(usize::MAX).await;
        assert!(matches!(told, Err(RegistryError::Unavailable(_))), "{told:?}");
        assert_eq!(looked, TRIES);
    }
}
