//! What a commit is for: rules, pacing, slots and alarms go by it, and logs and traces show it.

use core::fmt::{self, Write};

/// What a commit does. Each stands for one kind of transaction of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CommitKind {
    /// A member's entry is written, with its lease.
    Join,
    /// A member says something new of itself.
    UpdateMember,
    /// A free job is claimed.
    ClaimJob,
    /// A job of a member that is gone is claimed.
    TakeOver,
    /// A job is given to a node that owns too few.
    HandOver,
    /// A fire that has not started is taken back.
    Withdraw,
    /// A job is given back by a draining node.
    Release,
    /// A fire that is due is opened.
    ClaimFire,
    /// Runs were started.
    Confirm,
    /// Runs have ended.
    Finish,
    /// What a former owner left open gets an outcome.
    Settle,
    /// A fire is passed over.
    Skip,
    /// A requested run is refused.
    Refuse,
    /// A run ends without a start.
    GiveUp,
    /// A run waits for its next attempt.
    WaitForRetry,
    /// The next attempt of a run is opened.
    Retry,
    /// A run that waits for its next attempt gives its place to the next fire.
    SetAside,
    /// Outcomes that are in the history leave the registry.
    ClearVerdicts,
    /// Shards that are due are opened.
    ClaimShards,
    /// Shards were started.
    ConfirmShards,
    /// A member takes shards of one that is gone.
    FailOver,
    /// A member becomes the leader of a sharded job.
    Elect,
    /// The leader of a sharded job gives that up.
    Resign,
    /// The leader of a sharded job is gone.
    Depose,
    /// Shares are to be cut anew.
    RequestReshard,
    /// Shares are cut.
    Reshard,
    /// What stands of a deleted job, or of a member that is gone, is removed.
    Retire,
    /// A member that is gone leaves the shares.
    Delist,
    /// Runs are planned, each for a node.
    Plan,
    /// Planned runs go to other nodes.
    PlanAgain,
    /// A plan follows the schedule of its job, which has changed.
    FollowSchedule,
    /// A node accepts a run that is planned for it.
    Accept,
    /// Runs take seats in a pool.
    EnterPool,
    /// Seats in a pool are given back.
    LeavePool,
    /// A lock is taken.
    Lock,
    /// A lock is given back.
    Unlock,
    /// An operation of a beat is taken.
    TakeBeat,
    /// An operation of a beat is taken from a member that is gone.
    TakeBeatOver,
    /// A node says how busy it is.
    PublishLoad,
    /// A node could not be reached.
    Strike,
    /// A node was reached again.
    Forgive,
    /// A node counts as offline.
    MarkOffline,
    /// A node counts as online again, because others reach it.
    MarkOnline,
    /// A node that was started again counts as online.
    ComeOnline,
    /// A node takes the lead of the cluster.
    TakeLead,
    /// The leader begins to serve.
    Serve,
    /// The leader gives the lead back.
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
    /// Shards are switched on or off.
    SwitchShards,
    /// A job is switched on or off on one node.
    SwitchOnNode,
    /// A run is requested.
    RequestRun,
    /// A request for a run is taken back.
    CancelRequest,
    /// A node is to drain.
    Drain,
    /// A node is to drain no longer.
    Undrain,
    /// A draining node says that it owns nothing any more.
    MarkDrained,
    /// A draining node says that it owns something again.
    MarkNotDrained,
    /// A calendar is created.
    CreateCalendar,
    /// A calendar is changed.
    UpdateCalendar,
    /// A calendar is deleted.
    DeleteCalendar,
    /// A newer layout is wanted.
    WantLayout,
    /// The tree is written in a newer layout.
    RaiseLayout,
    /// A setting of the cluster is changed.
    Configure,
    /// A person says that a node is online.
    Activate,
    /// A node says how much data it processed.
    CountData,
    /// People were notified of a fire.
    RecordNotification,
}

impl CommitKind {
    /// Whether the start of a fire waits for it. How many of these are under way at once is paced by how fast the registry
    /// answers.
    #[must_use]
    pub fn is_paced(self) -> bool {
        use CommitKind as K;
        matches!(self, K::ClaimFire | K::ClaimShards | K::Accept | K::Confirm | K::ConfirmShards | K::Retry)
    }

    /// Whether a run is open after it that takes a slot. Until it is answered it counts for one.
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
