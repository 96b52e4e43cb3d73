//! Pausing a job after runs in a row that ended badly, where the job asks for that.

use alloc::format;

use super::{JobRuns, attempts};
use crate::cluster::control;
use crate::commit_kind::CommitKind;
use crate::effect::{Event, StopReason};
use crate::input::RunOutcome;
use crate::job::SwitchOrigin;
use crate::local::CommitScope;
use crate::record::{FailureStreak, Outcomes};
use crate::rule_context::{CommitNotice, RuleContext, RuleOutput};
use crate::view::JobId;

impl JobRuns<'_> {
    /// Counts the end of a run. One that was cancelled or replaced says nothing of the next one.
    pub(super) fn count_outcome(&self, outcome: RunOutcome, outcomes: &mut Outcomes<'_>) {
        match outcome {
            RunOutcome::Succeeded => *outcomes.failures = FailureStreak::default(),
            RunOutcome::Failed(_) | RunOutcome::Stopped(StopReason::TimedOut) => self.count_failure(outcomes),
            RunOutcome::Stopped(StopReason::Killed | StopReason::Replaced | StopReason::Fenced) => {}
        }
    }

    /// Counts a run that ended badly.
    pub(super) fn count_failure(&self, outcomes: &mut Outcomes<'_>) {
        let version = self.job.version();
        // The terms are known of the jobs that this node has already; the declaration, also of one that it takes over.
        let declared = || self.job.spec()?.job.pause_after_failures;
        if self.terms.map_or_else(declared, |terms| terms.pause_after_failures).is_some() {
            let before = Some(*outcomes.failures).filter(|before| before.version == version);
            let runs = before.map_or(0, |before| before.runs).saturating_add(1);
            *outcomes.failures = FailureStreak { runs, version };
        }
    }

    fn pause_after(&self) -> Option<u32> {
        self.terms?.pause_after_failures
    }

    /// Whether the job claims the fires of its schedule: not while it is paused, nor once it is to be paused.
    pub(crate) fn may_claim_due(&self, failures: FailureStreak) -> bool {
        self.terms.is_some_and(|terms| !terms.paused) && !self.is_failing(failures)
    }

    /// Whether as many runs in a row ended badly as the job allows.
    fn is_failing(&self, failures: FailureStreak) -> bool {
        let counts = failures.version == self.job.version();
        counts && self.pause_after().is_some_and(|most| failures.runs >= most)
    }
}

/// Pauses the job, as its owner or the node of its shards or runs, once as many runs in a row ended badly as it allows.
/// The streak ends with the change: a job that is resumed counts anew.
pub fn decide(ctx: &RuleContext<'_>, id: JobId, out: &mut RuleOutput) {
    let (runs, scope) = (JobRuns::new(ctx, ctx.job(id)), CommitScope::Job(id));
    let Some(most) = runs.pause_after() else { return };
    let failing = attempts::failures(&runs.job, ctx.member).is_some_and(|failures| runs.is_failing(failures));
    let paused = runs.terms.is_some_and(|terms| terms.paused);
    if !failing || paused || !runs.job.is_consistent() || !ctx.is_idle(&scope) || out.commits_since(0, &scope)
    {
        return;
    }
    let by = format!("pause_after_failures: {most} runs in a row ended badly");
    let txn = control::pause(ctx, &runs.job, SwitchOrigin { at: ctx.now.wall, by });
    let Some((mut txn, born)) = txn.zip(ctx.born()) else { return };
    txn.guards.push(born);
    let event = Event::PausedAfterFailures(runs.job.name().clone(), most);
    out.notices.push(CommitNotice { scope: scope.clone(), sent: false, event });
    out.commit(scope, CommitKind::PauseOrResume, txn);
}
