//! Detects lost leaders. A proposal to a leader that is gone may be lost silently, and etcd lets the client wait for
//! seven seconds. So a request that waits for long checks whether its member lives and has another leader since.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tonic::Status;

use super::client::EtcdClient;
use super::errors::EtcdError;
use crate::clock::Stopwatch;

/// How long to wait for an answer before a check: far more than a healthy etcd takes.
const SOON: Duration = Duration::from_millis(500);
/// The pause between checks, for all waiting requests together.
const AGAIN: Duration = Duration::from_millis(200);
/// How long a member may take to report its status, for which it needs no other.
const ALIVE: Duration = Duration::from_secs(1);
/// How long a new leader has to answer for proposals that the one before had agreed on.
const HEIR: Duration = Duration::from_millis(300);

/// The last known leader.
#[derive(Debug, Default)]
pub(super) struct LeaderMonitor {
    /// The last known term with a leader.
    term: AtomicU64,
    /// The last check.
    last_probe: Mutex<Option<MemberProbe>>,
}

/// A check of a member.
#[derive(Debug)]
struct MemberProbe {
    member: usize,
    since: Stopwatch,
    /// It did not answer.
    silent: bool,
}

impl LeaderMonitor {
    /// Notes the term of an answer that only a leader can have agreed to.
    pub(super) fn observe_term(&self, term: u64) {
        self.term.fetch_max(term, Ordering::Relaxed);
    }

    fn term(&self) -> u64 {
        self.term.load(Ordering::Relaxed)
    }
}

impl EtcdClient {
    /// Ends when a proposal of this moment cannot be expected to be answered any more: its leader was followed by
    /// another one, or the member that forwarded it is silent.
    pub(super) async fn until_leader_lost(&self, used: usize) -> EtcdError {
        let proposed_in = self.leader.term();
        sleep(SOON).await;
        loop {
            if self.is_silent(used).await {
                return self.fail(used, &Status::deadline_exceeded("it does not say how it is"));
            }
            if self.leader.term() > proposed_in {
                sleep(HEIR).await;
                return self.explain(used, &Status::cancelled("its leader went while it was asked"));
            }
            sleep(AGAIN).await;
        }
    }

    /// Checks a member, unless that was just done. Requests that wait there share the first one's result.
    async fn is_silent(&self, member: usize) -> bool {
        let mut looked = self.leader.last_probe.lock().await;
        if let Some(look) = looked.as_ref().filter(|look| look.member == member)
            && look.since.elapsed() < if look.silent { ALIVE } else { AGAIN }
        {
            return look.silent;
        }
        let said = timeout(ALIVE, self.status_of(member)).await;
        let silent = said.is_err();
        // A member without a leader knows of no later term in which anything could be agreed on.
        let said = said.ok().flatten().filter(|said| said.leader != 0);
        said.and_then(|said| said.header)
            .into_iter()
            .for_each(|header| self.leader.observe_term(header.raft_term));
        *looked = Some(MemberProbe { member, since: Stopwatch::start(), silent });
        silent
    }
}
