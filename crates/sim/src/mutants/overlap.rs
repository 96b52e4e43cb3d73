//! Faults in what becomes of fires that come due while a run goes on.

use evenkeel_core::commit_kind::CommitKind;
use evenkeel_core::effect::{Effect, Reason, Verdict};
use evenkeel_core::input::Input;
use evenkeel_core::job::Overlap;
use evenkeel_core::node::Node;
use evenkeel_core::time::Now;

use super::commits::{declarations, lanes};
use crate::tamper::Tamper;

/// Gives fires up that were not to wait, and says so to nobody.
pub(super) struct SkipsQuietly;

impl Tamper for SkipsQuietly {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        lanes(
            node,
            effects,
            &[CommitKind::Finish, CommitKind::ClaimFire, CommitKind::WaitForRetry, CommitKind::Retry],
            |lane, _| {
                lane.verdicts.retain(|v: &Verdict| !v.reason.contains("while the run before"));
            },
        );
    }
}

/// Ends runs for a later fire where there is none.
pub(super) struct GivesWayToNothing;

impl Tamper for GivesWayToNothing {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        if effects.iter().any(|effect| matches!(effect, Effect::Renew(_))) {
            let going = node.local().given.values().filter(|given| given.ended.is_none());
            effects.extend(going.map(|given| Effect::Stop(given.run.clone(), Reason::Replaced)));
        }
    }
}

/// Takes every job for one that lets what comes due wait as long as it is not too late.
pub(super) struct LetsAllWait;

impl Tamper for LetsAllWait {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| job.overlap = Overlap::Forbid);
    }
}

/// Takes every bound on the runs beside each other for none.
pub(super) struct AllowsAll;

impl Tamper for AllowsAll {
    fn input(&self, _node: &Node, _now: Now, input: &mut Input) {
        declarations(input, |job| {
            if matches!(job.overlap, Overlap::Limit(_)) {
                job.overlap = Overlap::Allow;
            }
        });
    }
}

/// Closes all runs of a job when one of them ends.
pub(super) struct ClosesBeside;

impl Tamper for ClosesBeside {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        lanes(node, effects, &[CommitKind::Finish], |lane, _| lane.open.clear());
    }
}

/// Counts fires that follow runs from when the last one was due.
pub(super) struct CountsFromDue;

impl Tamper for CountsFromDue {
    fn effects(&self, node: &Node, effects: &mut Vec<Effect>) {
        lanes(node, effects, &[CommitKind::Finish], |lane, known| {
            lane.watermark = known.map_or(lane.watermark, |known| known.watermark);
        });
    }
}
