//! The health check: members, leader, size, alarms, and whether old history is compacted.

use super::errors::EtcdError;
use super::message::{
    MemberListRequest, MemberListResponse, RangeRequest, RangeResponse, StatusRequest, StatusResponse,
};
use super::shared::EtcdShared;
use crate::RegistryError;
use crate::health::{HealthReport, release};

/// etcd stops accepting writes at 2 GiB, unless its quota is set.
const SIZE_LATE: i64 = 3 << 29;

/// This many revisions are days of a busy cluster: an etcd that still has them compacts never, or too seldom.
const HISTORY_LATE: i64 = 5_000_000;

/// The findings.
#[derive(Clone, Debug, Default)]
struct EtcdHealth {
    version: String,
    status: StatusResponse,
    /// The number of members; `None` if this user may not read it.
    members: Option<usize>,
    history: HistoryRetention,
}

/// How much of the history is still available.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HistoryRetention {
    /// The history is short.
    #[default]
    Short,
    /// Old history is compacted.
    Compacted,
    /// All of a long history is available.
    Long,
}

impl EtcdShared {
    pub(super) async fn check_health(&self) -> Result<HealthReport, RegistryError> {
        let status = self.client.call_any("/etcdserverpb.Maintenance/Status", StatusRequest {}).await;
        let status = status.map_err(EtcdError::into_registry_error)?;
        let listed: Result<MemberListResponse, _> =
            self.client.call_any("/etcdserverpb.Cluster/MemberList", MemberListRequest {}).await;
        // The user may lack the right, which is no fault.
        let members = listed.ok().map(|listed| listed.members.len()).filter(|count| *count > 0);
        let history = self.check_history().await.map_err(EtcdError::into_registry_error)?;
        let found = report(&EtcdHealth { version: self.version.clone(), status, members, history });
        Ok(HealthReport { version: Some(self.version.clone()), ..found })
    }

    /// Reads at an old revision: an error is the good answer.
    async fn check_history(&self) -> Result<HistoryRetention, EtcdError> {
        let look = |revision| RangeRequest { key: self.keyspace.meta(), revision, ..RangeRequest::default() };
        let now: RangeResponse = self.client.call_any("/etcdserverpb.KV/Range", look(0)).await?;
        let long_ago = now.header.map_or(0, |header| header.revision) - HISTORY_LATE;
        if long_ago <= 0 {
            return Ok(HistoryRetention::Short);
        }
        match self.client.call_any::<_, RangeResponse>("/etcdserverpb.KV/Range", look(long_ago)).await {
            Err(EtcdError::Compacted) => Ok(HistoryRetention::Compacted),
            Err(fault) => Err(fault),
            Ok(_) => Ok(HistoryRetention::Long),
        }
    }
}

/// Whether a hung leader of this release may end a lease that was renewed at its successor (etcd's issue 15247).
fn ends_renewed_leases(version: &str) -> bool {
    match release(version) {
        Some([3, 4, patch]) => patch < 31,
        Some([3, 5, patch]) => patch < 13,
        _ => false,
    }
}

fn report(health: &EtcdHealth) -> HealthReport {
    let (mut found, status) = (HealthReport::default(), &health.status);
    if status.leader == 0 {
        found.add_problem(
            "leader",
            "there is none",
            "start the members that are down: more than half are needed",
        );
    }
    match health.members {
        None => {}
        Some(1) => found.add_check("members", "1; its host is the one that must not fail"),
        Some(2) => found.add_problem(
            "members",
            "2, of which none may fail",
            "add a third: with two, the loss of either stops everything",
        ),
        Some(count) => found.add_check("members", format!("{count}, of which {} may fail", (count - 1) / 2)),
    }
    if health.members.is_some_and(|count| count > 1) && ends_renewed_leases(&health.version) {
        found.add_problem(
            "release",
            format!("a leader of {} that hung may end leases that were renewed meanwhile", health.version),
            "take 3.5.13, 3.4.31 or a later one",
        );
    }
    for error in &status.errors {
        found.add_problem("alarm", error.clone(), "see `etcdctl alarm list` and etcd's log");
    }
    let size = format!("{} MiB", status.db_size >> 20);
    match status.db_size > SIZE_LATE {
        false => found.add_check("size", size),
        true => found.add_problem(
            "size",
            format!("{size}; etcd stops taking writes at its quota, 2048 MiB by default"),
            "compact and defragment it, and let it compact by itself: --auto-compaction-retention=1h",
        ),
    }
    match health.history {
        HistoryRetention::Short => found.add_check("history", "short"),
        HistoryRetention::Compacted => found.add_check("history", "compacted from time to time"),
        HistoryRetention::Long => found.add_problem(
            "history",
            format!("more than {HISTORY_LATE} revisions are kept, and the database grows"),
            "let etcd compact by itself: --auto-compaction-mode=periodic --auto-compaction-retention=1h",
        ),
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::fake_server;
    use super::super::message::ResponseHeader;
    use super::*;

    fn good() -> EtcdHealth {
        let status = StatusResponse { leader: 1, db_size: 5 << 20, ..StatusResponse::default() };
        EtcdHealth {
            version: "3.5.13".into(),
            status,
            members: Some(3),
            history: HistoryRetention::Compacted,
        }
    }

    fn faults(health: &EtcdHealth) -> Vec<String> {
        report(health).problems.into_iter().map(|fault| format!("{}: {}", fault.name, fault.detail)).collect()
    }

    fn check_values(health: &EtcdHealth, name: &str) -> Vec<String> {
        report(health).checks.into_iter().filter(|it| it.0 == name).map(|(_, value)| value).collect()
    }

    #[test]
    fn a_healthy_etcd_is_told_of() {
        assert_eq!(faults(&good()), [""; 0]);
        assert_eq!(check_values(&good(), "members"), ["3, of which 1 may fail"]);
        assert_eq!(check_values(&good(), "size"), ["5 MiB"]);
        assert_eq!(check_values(&good(), "history"), ["compacted from time to time"]);
        let alone = EtcdHealth { members: Some(1), history: HistoryRetention::Short, ..good() };
        assert_eq!(faults(&alone), [""; 0]);
        assert_eq!(check_values(&alone, "history"), ["short"]);
        assert!(check_values(&alone, "members")[0].starts_with("1;"));
        let kept_from = EtcdHealth { members: None, ..good() };
        assert_eq!((faults(&kept_from), check_values(&kept_from, "members")), (vec![], vec![]));
    }

    #[test]
    fn each_fault_is_named() {
        assert_eq!(
            faults(&EtcdHealth { members: Some(2), ..good() }),
            ["members: 2, of which none may fail"]
        );
        let of = |status| EtcdHealth { status, ..good() };
        let status = good().status;
        assert_eq!(faults(&of(StatusResponse { leader: 0, ..status.clone() })), ["leader: there is none"]);
        let alarm = "memberID:7 alarm:NOSPACE ";
        let alarmed = of(StatusResponse { errors: vec![alarm.into()], ..status.clone() });
        assert_eq!(faults(&alarmed), [format!("alarm: {alarm}")]);
        let large = |db_size| of(StatusResponse { db_size, ..status.clone() });
        assert_eq!(faults(&large(SIZE_LATE)), [""; 0]);
        let full = faults(&large(SIZE_LATE + 1));
        assert!(full.len() == 1 && full[0].starts_with("size: 1536 MiB; etcd stops"), "{full:?}");
        let long = faults(&EtcdHealth { history: HistoryRetention::Long, ..good() });
        assert!(long.len() == 1 && long[0].starts_with("history: more than"), "{long:?}");
    }

    #[test]
    fn a_release_that_ends_renewed_leases_is_a_fault_where_leaders_change() {
        for (version, ends) in
            [("3.4.23", true), ("3.4.31", false), ("3.5.12", true), ("3.5.13", false), ("3.6.0-rc.1", false)]
        {
            let of =
                |members| faults(&EtcdHealth { version: version.into(), members: Some(members), ..good() });
            assert_eq!((of(1).len(), of(3).len()), (0, usize::from(ends)), "{version}");
        }
    }

    /// An etcd at this revision with its whole history.
    async fn history_at(revision: i64) -> Result<HistoryRetention, EtcdError> {
        let shared = fake_server::start("", move |_| {
            let header = Some(ResponseHeader { cluster_id: 1, revision, raft_term: 1 });
            vec![fake_server::bytes(&RangeResponse { header, ..RangeResponse::default() })]
        });
        shared.await.check_history().await
    }

    #[tokio::test]
    async fn a_history_is_long_from_some_number_on() {
        assert!(matches!(history_at(HISTORY_LATE).await, Ok(HistoryRetention::Short)));
        assert!(matches!(history_at(HISTORY_LATE + 1).await, Ok(HistoryRetention::Long)));
    }
}
