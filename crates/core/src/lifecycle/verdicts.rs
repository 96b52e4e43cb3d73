//! Verdicts: what the history is told of attempts that did not run, or whose outcome is unknown.

use alloc::format;
use alloc::string::String;

use super::JobRuns;
use super::cancel::MANUAL;
use crate::due::{FORGOTTEN, MisfirePolicy};
use crate::effect::{Verdict, VerdictState};
use crate::ids::{Fire, RunId};
use crate::overlap::{STILL_RUNNING, SUPERSEDED};
use crate::record::Attempt;
use crate::rule_context::{RuleAction, RuleContext, RuleOutput};
use crate::shards::ShardSet;
use crate::time::Wall;

/// How the reason of a lost attempt ends when another attempt of its run follows.
pub(super) const REPEATED: &str = "another attempt follows";
/// The reason of an attempt of a job with `shadow = true`.
pub const SHADOW: &str = "shadow: nothing was executed";

/// The verdict that this attempt of a run will not be made, which the history expects.
pub(crate) fn not_attempted(run: RunId, attempt: u32, due: Wall, node: &str, why: &str) -> Verdict {
    let reason = if attempt > 1 { format!("not attempted again: {why}") } else { String::from(why) };
    let shards = ShardSet::one(run.shard);
    let (state, node) = (VerdictState::Skipped, String::from(node));
    Verdict { run, attempt, due, state, reason, node, from: due, shards }
}

impl JobRuns<'_> {
    /// The verdict that attempt `n` at the runs of an attempt will not be made.
    pub(crate) fn not_attempted(&self, attempt: &Attempt, n: u32, why: &str) -> Verdict {
        let node = self.ctx.member.node.as_str();
        let verdict = not_attempted(self.id(attempt), n, attempt.due, node, why);
        Verdict { shards: attempt.shards.clone(), ..verdict }
    }

    /// The verdict that the outcome of an attempt is unknown.
    pub(super) fn lost(&self, attempt: &Attempt, why: &str) -> Verdict {
        Verdict {
            run: self.id(attempt),
            attempt: attempt.attempt,
            due: attempt.due,
            state: VerdictState::Lost,
            reason: why.into(),
            node: attempt.by.node.as_str().into(),
            from: attempt.due,
            shards: attempt.shards.clone(),
        }
    }

    /// The verdict that the fires from `from` to `last` are skipped for these shards; `None` when there are no shards.
    pub(crate) fn skipped(&self, span: (Wall, Wall), shards: &ShardSet, reason: String) -> Option<Verdict> {
        self.refused(Fire::Due(span.1), span, shards, reason)
    }

    /// The verdict that a fire, and those before it from `from` on, are not run for these shards; `None` when there are no
    /// shards.
    pub(crate) fn refused(
        &self,
        fire: Fire,
        (from, due): (Wall, Wall),
        shards: &ShardSet,
        reason: String,
    ) -> Option<Verdict> {
        let run = self.run_id(&fire, shards.first()?);
        let (state, node) = (VerdictState::Skipped, self.ctx.member.node.as_str().into());
        Some(Verdict { run, attempt: 0, due, state, reason, node, from, shards: shards.clone() })
    }
}

/// Hands verdicts to the history that it was not handed before.
pub(crate) fn hand_over<'v>(
    ctx: &RuleContext<'_>,
    verdicts: impl Iterator<Item = &'v Verdict>,
    out: &mut RuleOutput,
) {
    for verdict in verdicts {
        if !ctx.local.verdicts.is_sent(verdict) {
            out.add(RuleAction::Record(verdict.clone()));
        }
    }
}

/// Whether the history has a verdict.
pub(crate) fn is_recorded(ctx: &RuleContext<'_>, verdict: &Verdict) -> bool {
    ctx.local.verdicts.is_recorded(verdict)
}

/// Why fires are skipped.
pub(crate) fn too_old(from: Wall, last: Wall, policy: &MisfirePolicy, now: Wall) -> String {
    let grace = policy.grace;
    let superseded = policy.newest && last >= now - grace;
    if policy.lost >= Some(last) {
        return missed(from, last, FORGOTTEN);
    }
    if policy.lost >= Some(from) {
        let later =
            if superseded { SUPERSEDED.into() } else { format!("they are older than the grace of {grace}") };
        return missed(from, last, &format!("{FORGOTTEN}; later ones: {later}"));
    }
    match superseded {
        true => missed(from, last, SUPERSEDED),
        false if from == last => no_more(from, policy),
        false => format!("all fires from {from} on are older than the grace of {grace}"),
    }
}

/// Why a fire is skipped that no younger one replaces.
pub(crate) fn no_more(due: Wall, policy: &MisfirePolicy) -> String {
    let old = || format!("older than the grace of {}", policy.grace);
    if policy.lost >= Some(due) { FORGOTTEN.into() } else { old() }
}

/// The verdict on fires that are skipped for another reason.
pub(crate) fn missed(from: Wall, last: Wall, why: &str) -> String {
    if from == last { String::from(why) } else { format!("all fires from {from} on: {why}") }
}

/// Whether another attempt follows a lost one. Only the reason says so, as a verdict may come from an earlier version.
#[must_use]
pub fn is_repeated(reason: &str) -> bool {
    reason.ends_with(REPEATED)
}

/// Whether an attempt executed nothing because its job is a shadow. Only the reason says so.
#[must_use]
pub fn is_shadow(reason: &str) -> bool {
    reason == SHADOW
}

/// Whether a fire is skipped because its job or an operator wants it so, and not because no node ran it in time.
#[must_use]
pub fn is_skipped_on_purpose(reason: &str) -> bool {
    let wanted = [STILL_RUNNING, SUPERSEDED, MANUAL, SHADOW].iter().any(|why| reason.contains(why));
    wanted && !reason.contains(FORGOTTEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_says_whether_a_fire_is_skipped_on_purpose() {
        let whole = missed(Wall(1), Wall(2), SUPERSEDED);
        assert!([STILL_RUNNING, SUPERSEDED, MANUAL, SHADOW, &whole].into_iter().all(is_skipped_on_purpose));
        let lost = missed(Wall(1), Wall(2), &format!("{FORGOTTEN}; later ones: {SUPERSEDED}"));
        assert!(!["older than the grace of 60 s", &lost, ""].into_iter().any(is_skipped_on_purpose));
    }
}
