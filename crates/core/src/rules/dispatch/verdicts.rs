//! What history is told of runs that were given up, in words.

use alloc::format;
use alloc::string::String;

use crate::effect::{Verdict, VerdictState};
use crate::record::Planned;
use crate::shards::ShardSet;
use crate::time::{Millis, Wall};
use crate::words::RunId;

/// Why fires are given up.
pub(in crate::rules) fn too_old(from: Wall, last: Wall, grace: Millis) -> String {
    if from == last {
        format!("older than the grace of {grace}")
    } else {
        format!("all fires from {from} on are older than the grace of {grace}")
    }
}

/// What history is told of a run that nobody can say the end of.
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
