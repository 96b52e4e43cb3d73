//! What was proposed to a leader that is gone may be lost without a word, and etcd lets its client wait for seven seconds.
//! So whoever waits for long looks whether its member lives and has another leader since.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};
use tonic::Status;

use super::client::EtcdClient;
use super::errors::EtcdError;
use crate::clock::Stopwatch;

/// After how long without an answer a look is due: far more than a healthy etcd takes.
const SOON: Duration = Duration::from_millis(500);
/// How often looks follow each other, whoever waits.
const AGAIN: Duration = Duration::from_millis(200);
/// How long a member may take to say how it is, which it knows by itself.
const ALIVE: Duration = Duration::from_secs(1);
/// How long a new leader has to answer for what the one before had agreed on.
const HEIR: Duration = Duration::from_millis(300);

/// Which leader there is.
#[derive(Debug, Default)]
pub(super) struct LeaderMonitor {
    /// The last term of which a leader was heard.
    term: AtomicU64,
    /// Who looked last.
    last_probe: Mutex<Option<MemberProbe>>,
}

/// A look at a member.
#[derive(Debug)]
struct MemberProbe {
    member: usize,
    since: Stopwatch,
    /// It said nothing at all.
    silent: bool,
}

impl LeaderMonitor {
    /// An answer came that only a leader can have agreed to.
    pub(super) fn observe_term(&self, term: u64) {
        self.term.fetch_max(term, Ordering::Relaxed);
    }

    fn term(&self) -> u64 {
        self.term.load(Ordering::Relaxed)
    }
}

impl EtcdClient {
    /// Ends when nothing can be expected any more of what is proposed at this moment: its leader was followed by another
    /// one, or the member that passed it on is silent.
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

    /// Looks at a member, unless somebody just has. Whoever waits there with others hears what the first of them heard.
    async fn is_silent(&self, member: usize) -> bool {
        let mut looked = self.leader.last_probe.lock().await;
        if let Some(look) = looked.as_ref().filter(|look| look.member == member)
            && look.since.elapsed() < if look.silent { ALIVE } else { AGAIN }
        {
            return look.silent;
        }
        let said = timeout(ALIVE, self.status_of(member)).await;
        let silent = said.is_err();
        // One without a leader knows of no later term that anything could be agreed on in.
        let said = said.ok().flatten().filter(|said| said.leader != 0);
        said.and_then(|said| said.header)
            .into_iter()
            .for_each(|header| self.leader.observe_term(header.raft_term));
        *looked = Some(MemberProbe { member, since: Stopwatch::start(), silent });
        silent
    }
}
