//! What an examination finds: members, leader, size, alarms, and whether history is ever forgotten.

use super::Shared;
use super::fault::Fault;
use super::message::{
    MemberListRequest, MemberListResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse,
};
use crate::RegistryError;
use crate::examine::Examined;

/// etcd stops taking writes at 2 GiB, unless it is told another quota.
const SIZE_LATE: i64 = 3 << 29;

/// So many revisions are days of a busy cluster: etcd that still knows them compacts never, or too seldom.
const HISTORY_LATE: i64 = 5_000_000;

impl Shared {
    pub(super) async fn examine(&self) -> Result<Examined, RegistryError> {
        let mut found = Examined { version: Some(self.version.clone()), ..Examined::default() };
        let status: StatusResponse = self
            .wire
            .ask("/etcdserverpb.Maintenance/Status", StatusRequest {})
            .await
            .map_err(Fault::explain)?;
        self.look_at_members(&mut found, status.leader).await;
        for error in &status.errors {
            found.fault("alarm", error.clone(), "see `etcdctl alarm list` and etcd's log");
        }
        let size = format!("{} MiB", status.db_size >> 20);
        match status.db_size > SIZE_LATE {
            false => found.tell("size", size),
            true => found.fault(
                "size",
                format!("{size}; etcd stops taking writes at its quota, 2048 MiB by default"),
                "compact and defragment it, and let it compact by itself: --auto-compaction-retention=1h",
            ),
        }
        self.look_at_history(&mut found).await.map_err(Fault::explain)?;
        Ok(found)
    }

    async fn look_at_members(&self, found: &mut Examined, leader: u64) {
        if leader == 0 {
            found.fault(
                "leader",
                "there is none",
                "start the members that are down: more than half are needed",
            );
        }
        let listed: Result<MemberListResponse, _> =
            self.wire.ask("/etcdserverpb.Cluster/MemberList", MemberListRequest {}).await;
        // A user may be kept from this, which is no fault.
        let Ok(listed) = listed else { return };
        let count = listed.members.len();
        match count {
            0 => {}
            2 => found.fault(
                "members",
                "2, of which none may fail",
                "add a third: with two, the loss of either stops everything",
            ),
            1 => found.tell("members", "1; its host is the one that must not fail"),
            _ => found.tell("members", format!("{count}, of which {} may fail", (count - 1) / 2)),
        }
    }

    /// Asks for what was long ago: an error is the good answer.
    async fn look_at_history(&self, found: &mut Examined) -> Result<(), Fault> {
        let look = |revision| RangeRequest { key: self.tree.meta(), revision, ..RangeRequest::default() };
        let now: RangeResponse = self.wire.ask("/etcdserverpb.KV/Range", look(0)).await?;
        let long_ago = now.header.map_or(0, |header| header.revision) - HISTORY_LATE;
        if long_ago <= 0 {
            found.tell("history", "short");
            return Ok(());
        }
        match self.wire.ask::<_, RangeResponse>("/etcdserverpb.KV/Range", look(long_ago)).await {
            Err(Fault::Compacted) => found.tell("history", "compacted from time to time"),
            Err(fault) => return Err(fault),
            Ok(_) => found.fault(
                "history",
                format!("more than {HISTORY_LATE} revisions are kept, and the database grows"),
                "let etcd compact by itself: --auto-compaction-mode=periodic --auto-compaction-retention=1h",
            ),
        }
        Ok(())
    }
}
