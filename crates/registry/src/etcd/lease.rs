//! Leases: etcd's own, numbered by revisions, each with an entry that guards can compare.

use std::time::Duration;

use evenkeel_core::registry::{Granted, LeaseId};
use evenkeel_core::time::Millis;

use super::fault::Fault;
use super::message::{
    LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse, LeaseRevokeRequest,
    LeaseRevokeResponse, TxnRequest, TxnResponse,
};
use super::wire::Wire;
use super::{Shared, commit, tree};
use crate::{RegistryError, TTL_MAX};

/// How often something is tried again that another one's act came between.
const TRIES: usize = 4;

/// A pause, so that a new leader is heard of.
const PAUSE: Duration = Duration::from_millis(50);

impl Shared {
    pub(super) async fn open(&self, ttl: Millis) -> Result<Granted, RegistryError> {
        let ttl = ttl.clamp(self.facts.ttl_min, TTL_MAX);
        let mut opened = self.open_once(ttl).await;
        for _ in 1..TRIES {
            let Err(Fault::LeaseExists) = opened else { break };
            opened = self.open_once(ttl).await;
        }
        opened.map_err(Fault::explain)
    }

    /// A lost answer leaves at most a lease that nobody knows and that ends by itself.
    async fn open_once(&self, ttl: Millis) -> Result<Granted, Fault> {
        // No revision comes twice, so neither does a number: not after a restart, nor for another cluster in this etcd.
        let meta = self.tree.meta();
        let same = vec![commit::written_at(meta.clone(), self.since)];
        let numbering = commit::put(same, self.tree.last_lease(), Vec::new(), 0);
        let numbering = TxnRequest { failure: vec![tree::glance(meta)], ..numbering };
        let numbered: TxnResponse = self.wire.tell(commit::PATH, numbering).await?;
        self.check_generation(&numbered)?;
        let id = numbered.header.map_or(0, |header| header.revision);
        let lease = LeaseId(id.cast_unsigned());
        let ttl = grant(&self.wire, id, seconds(ttl)).await?;
        let entry = commit::put(Vec::new(), self.tree.lease(lease), Vec::new(), id);
        let _: TxnResponse = self.wire.tell(commit::PATH, entry).await?;
        Ok(granted(lease, ttl))
    }

    pub(super) async fn renew(&self, lease: LeaseId) -> Result<Option<Granted>, RegistryError> {
        let Some(id) = number(lease) else { return Ok(None) };
        for _ in 0..TRIES {
            match self.renew_once(lease, id).await {
                Ok(Renewed::Until(ttl)) => return Ok(Some(granted(lease, ttl))),
                Ok(Renewed::Gone) | Err(Fault::NoLease) => return Ok(None),
                Ok(Renewed::Unsure) => tokio::time::sleep(PAUSE).await,
                Err(fault) => return Err(fault.explain()),
            }
        }
        Err(RegistryError::Unavailable("etcd changes its leader again and again: look at its members".into()))
    }

    /// A leader that was frozen or cut off renews without asking anybody, also when there is another one already which
    /// will end the lease. So a renewal counts only when, after it, most members were still of the same term.
    async fn renew_once(&self, lease: LeaseId, id: i64) -> Result<Renewed, Fault> {
        let question = LeaseKeepAliveRequest { id };
        let renewed: LeaseKeepAliveResponse =
            self.wire.ask("/etcdserverpb.Lease/LeaseKeepAlive", question).await?;
        if renewed.ttl <= 0 {
            return Ok(Renewed::Gone);
        }
        // The generation last, as in every transaction that may not be made.
        let (lease, meta) = (self.tree.lease(lease), self.tree.meta());
        let look = TxnRequest {
            compare: vec![commit::written_at(meta.clone(), self.since)],
            success: vec![tree::glance(lease)],
            failure: vec![tree::glance(meta)],
        };
        let there: TxnResponse = self.wire.ask(commit::PATH, look).await?;
        self.check_generation(&there)?;
        let found = there.responses.first().and_then(|op| op.range.as_ref());
        let term = |header: Option<super::message::Header>| header.map(|header| header.raft_term);
        Ok(match found.is_none_or(|found| found.kvs.is_empty()) {
            true => Renewed::Gone,
            false if term(renewed.header) == term(there.header) => Renewed::Until(renewed.ttl),
            false => Renewed::Unsure,
        })
    }

    pub(super) async fn close(&self, lease: LeaseId) -> Result<(), RegistryError> {
        let Some(id) = number(lease) else { return Ok(()) };
        match revoke(&self.wire, id).await {
            Ok(()) | Err(Fault::NoLease) => Ok(()),
            Err(fault) => Err(fault.explain()),
        }
    }
}

enum Renewed {
    /// Prolonged by so many seconds.
    Until(i64),
    Gone,
    /// Perhaps by a leader that is none any more.
    Unsure,
}

/// Asks for a lease of this number and so many seconds, and returns how many it has.
pub(super) async fn grant(wire: &Wire, id: i64, ttl: i64) -> Result<i64, Fault> {
    let granted: LeaseGrantResponse =
        wire.tell("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl, id }).await?;
    match granted.error.as_str() {
        "" => Ok(granted.ttl),
        error => Err(Fault::Other(RegistryError::Unavailable(format!("etcd grants no lease: {error}")))),
    }
}

/// Ends a lease.
pub(super) async fn revoke(wire: &Wire, id: i64) -> Result<(), Fault> {
    let _: LeaseRevokeResponse =
        wire.ask("/etcdserverpb.Lease/LeaseRevoke", LeaseRevokeRequest { id }).await?;
    Ok(())
}

/// Numbers that etcd cannot have given are of no lease.
fn number(lease: LeaseId) -> Option<i64> {
    i64::try_from(lease.0).ok().filter(|id| *id > 0)
}

/// etcd counts in seconds, and a lease must not be shorter than asked.
fn seconds(ttl: Millis) -> i64 {
    ttl.0.div_euclid(1_000) + i64::from(ttl.0.rem_euclid(1_000) > 0)
}

fn granted(lease: LeaseId, seconds: i64) -> Granted {
    // etcd tells no calendar, and ends leases without being asked.
    Granted { lease, ttl: Millis(seconds.saturating_mul(1_000)), clock: None, next_end: None }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::message::{Header, KeyValue, RangeResponse, ResponseOp};
    use super::super::script;
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

    /// An etcd of which the leader that renews is of term 4 and most members are of another one, as often as said.
    async fn renewed(unsure: usize) -> (Result<Option<Granted>, RegistryError>, usize) {
        let looked = Arc::new(AtomicUsize::new(0));
        let counted = looked.clone();
        let shared = script::play("", move |path| {
            let header = |raft_term| Some(Header { cluster_id: 1, revision: 9, raft_term });
            vec![match path {
                "/etcdserverpb.Lease/LeaseKeepAlive" => {
                    script::bytes(&LeaseKeepAliveResponse { header: header(4), ttl: 15 })
                }
                _ => {
                    let term = if counted.fetch_add(1, Ordering::Relaxed) < unsure { 5 } else { 4 };
                    let there = RangeResponse { kvs: vec![KeyValue::default()], ..RangeResponse::default() };
                    let responses = vec![ResponseOp { range: Some(there) }];
                    script::bytes(&TxnResponse { header: header(term), succeeded: true, responses })
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
