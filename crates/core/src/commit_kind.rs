//! The kinds of commits: rules, pacing, slots and alarms depend on them, and logs and traces show them.

use core::fmt::{self, Write};

/// The purpose of a commit. Each variant is one kind of transaction of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitKind {
    /// A member's entry is written, with its lease.
    Join,
    /// A member changes what its entry says of it.
    UpdateMember,
    /// A free job is claimed.
    ClaimJob,
    /// A job of a dead member is claimed.
    TakeOver,
    /// A job is released to a node that owns too few.
    HandOver,
    /// A claimed fire that has not started is withdrawn.
    Withdraw,
    /// A draining node releases a job.
    Release,
    /// A due fire is claimed.
    ClaimFire,
    /// Runs were started.
    Confirm,
    /// Runs have ended.
    Finish,
    /// A run has ended, and the next due fire is claimed in its slot.
    FinishAndClaim,
    /// The runs that a former owner left open get an outcome.
    Settle,
    /// A fire is skipped.
    Skip,
    /// A manual run is refused.
    Refuse,
    /// A run is closed without a start.
    GiveUp,
    /// A run waits for its next attempt.
    WaitForRetry,
    /// The next attempt of a run is claimed.
    Retry,
    /// A run that waits for its next attempt ends in favour of the next fire.
    SetAside,
    /// Outcomes that the history has are removed from the registry.
    ClearVerdicts,
    /// Due shards are claimed.
    ClaimShards,
    /// Shards were started.
    ConfirmShards,
    /// A member takes over the shards of a dead one.
    FailOver,
    /// A member becomes the leader of a sharded job.
    Elect,
    /// The leader of a sharded job gives up the lead.
    Resign,
    /// The dead leader of a sharded job is removed.
    Depose,
    /// A reshard is requested.
    RequestReshard,
    /// Shards are assigned anew.
    Reshard,
    /// A reshard is given up, as no node may get shards.
    WithdrawReshard,
    /// The remains of a deleted job or of a dead member are removed.
    Retire,
    /// A dead member is removed from the shard assignments.
    Delist,
    /// Runs are planned, each for a node.
    Plan,
    /// Planned runs move to other nodes.
    PlanAgain,
    /// A plan follows its job's changed schedule.
    FollowSchedule,
    /// A node accepts a run that is planned for it.
    Accept,
    /// Runs take permits of a pool.
    EnterPool,
    /// Permits of a pool are released.
    LeavePool,
    /// A lock is taken.
    Lock,
    /// A lock is released.
    Unlock,
    /// An operation of a beat is claimed.
    TakeBeat,
    /// An operation of a beat is claimed in place of a dead member.
    TakeBeatOver,
    /// A node publishes its load.
    PublishLoad,
    /// A node could not be reached.
    Strike,
    /// A node was reached again.
    Forgive,
    /// A node is marked offline.
    MarkOffline,
    /// A node is marked online again, because others reach it.
    MarkOnline,
    /// A restarted node is marked online.
    ComeOnline,
    /// A node takes the lead of the cluster.
    TakeLead,
    /// The leader starts to serve.
    Serve,
    /// The leader releases the lead.
    GiveLeadBack,
    /// A job is created.
    CreateJob,
    /// A job is changed.
    UpdateJob,
    /// A job is deleted.
    DeleteJob,
    /// A job is paused or resumed.
    PauseOrResume,
    /// A job is enabled or disabled.
    EnableOrDisable,
    /// Shards are enabled or disabled.
    SwitchShards,
    /// A job is enabled or disabled on one node.
    SwitchOnNode,
    /// A manual run is triggered.
    RequestRun,
    /// A trigger is withdrawn.
    CancelRequest,
    /// A backfill is requested.
    Backfill,
    /// A backfill is cancelled.
    CancelBackfill,
    /// A drain of a node is requested.
    Drain,
    /// The drain of a node is cancelled.
    Undrain,
    /// A node is cordoned.
    Cordon,
    /// A node is no longer cordoned.
    Uncordon,
    /// A draining node reports that it owns nothing any more.
    MarkDrained,
    /// A draining node reports that it owns something again.
    MarkNotDrained,
    /// A calendar is created.
    CreateCalendar,
    /// A calendar is changed.
    UpdateCalendar,
    /// A calendar is deleted.
    DeleteCalendar,
    /// A user or an API token is created.
    CreatePrincipal,
    /// A user or an API token is changed.
    UpdatePrincipal,
    /// A user or an API token is deleted.
    DeletePrincipal,
    /// A secret is set for the first time, or after it was deleted.
    CreateSecret,
    /// A secret is set anew.
    UpdateSecret,
    /// A secret is deleted.
    DeleteSecret,
    /// A namespace is created.
    CreateNamespace,
    /// A namespace is changed.
    UpdateNamespace,
    /// A namespace is deleted.
    DeleteNamespace,
    /// A newer layout is requested.
    WantLayout,
    /// The tree is written in a newer layout.
    RaiseLayout,
    /// A setting of the cluster is changed.
    Configure,
    /// An operator marks a node as online.
    Activate,
    /// A node publishes how much data it processed.
    CountData,
    /// People were notified of a fire.
    RecordNotification,
}

impl CommitKind {
    /// Whether the start of a fire waits for this commit. How fast the registry answers limits how many of them are in
    /// flight at once.
    #[must_use]
    pub fn is_paced(self) -> bool {
        use CommitKind as K;
        self.claims_fire()
            || matches!(self, K::ClaimShards | K::Accept | K::Confirm | K::ConfirmShards | K::Retry)
    }

    /// Whether a fire of a claimed job is claimed.
    #[must_use]
    pub fn claims_fire(self) -> bool {
        matches!(self, Self::ClaimFire | Self::FinishAndClaim)
    }

    /// Whether the commit opens a run that takes a further slot. Until it is answered the commit counts as one used slot.
    #[must_use]
    pub fn takes_slot(self) -> bool {
        use CommitKind as K;
        matches!(self, K::ClaimFire | K::Retry | K::Accept | K::ConfirmShards | K::EnterPool)
    }
}

/// The words of the name, such as `claim fire`.
impl fmt::Display for CommitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(WordSplitter(f), "{self:?}")
    }
}

/// Writes each upper-case letter as the beginning of a word.
struct WordSplitter<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl fmt::Write for WordSplitter<'_, '_> {
    fn write_str(&mut self, name: &str) -> fmt::Result {
        for (at, letter) in name.char_indices() {
            if at > 0 && letter.is_ascii_uppercase() {
                self.0.write_char(' ')?;
            }
            self.0.write_char(letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_kind_is_shown_by_the_words_of_its_name() {
        assert_eq!(CommitKind::Join.to_string(), "join");
        assert_eq!(CommitKind::TakeBeatOver.to_string(), "take beat over");
    }
}
