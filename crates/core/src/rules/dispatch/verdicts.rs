//! The verdicts on skipped and doubtful runs, in words for the history.

use alloc::format;
use alloc::string::String;

use crate::due::{FORGOTTEN, MisfirePolicy};
use crate::effect::{Verdict, VerdictState};
use crate::ids::{Fire, RunId};
use crate::overlap::SUPERSEDED;
use crate::record::Planned;
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};
use crate::view::JobTerms;

/// Whether a run that is planned ahead is no longer due.
pub(in crate::rules) fn is_stale(terms: &JobTerms, run: &Planned, now: Wall) -> bool {
    let Fire::Due(due) = run.fire else { return !terms.enabled };
    let scheduled = || terms.schedule.as_ref().and_then(|s| s.next(due - Millis(1)));
    // A pause that ends before the run is due leaves it in the plan.
    (terms.paused && due <= now) || !terms.enabled || due <= terms.since || scheduled() != Some(due)
}

/// Why fires are skipped.
pub(in crate::rules) fn too_old(from: Wall, last: Wall, policy: &MisfirePolicy, now: Wall) -> String {
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
pub(in crate::rules) fn no_more(due: Wall, policy: &MisfirePolicy) -> String {
    let old = || format!("older than the grace of {}", policy.grace);
    if policy.lost >= Some(due) { FORGOTTEN.into() } else { old() }
}

/// The verdict on fires that are skipped for another reason.
pub(in crate::rules) fn missed(from: Wall, last: Wall, why: &str) -> String {
    if from == last { String::from(why) } else { format!("all fires from {from} on: {why}") }
}

/// The verdict on a run whose outcome is unknown.
pub(in crate::rules) fn lost_verdict(id: RunId, run: &Planned, repeats: bool) -> Verdict {
    let then =
        if repeats { "another attempt follows" } else { "it is not repeated: delivery is at_most_once" };
    Verdict {
        run: id,
        attempt: run.attempt,
        due: run.due,
        state: VerdictState::Lost,
        reason: format!("its node is gone; {then}"),
        node: run.by.node.as_str().into(),
        from: run.due,
        shards: ShardSet::empty(),
    }
}
