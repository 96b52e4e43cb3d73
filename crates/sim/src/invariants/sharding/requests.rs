//! Checks requests for manual runs that the nodes of a sharded job refuse.

use evenkeel_core::effect::VerdictState;
use evenkeel_core::ids::Fire;

use super::super::{Invariant, InvariantResults, JobTrack};
use super::ShardedTxn;

impl ShardedTxn<'_> {
    /// A request is refused for running shards, and only for those.
    pub(super) fn refusals(&self, book: &mut JobTrack, findings: &mut InvariantResults) {
        // An unmonitored run may go on in several places, and only its node knows.
        let unmonitored = book.spec.as_ref().is_some_and(|spec| !spec.job.placement.is_monitored());
        // If each node has one shard, its run may go on under its previous number.
        let broadcast = book.spec.as_ref().is_some_and(|spec| spec.job.placement.is_broadcast());
        let runs = broadcast && self.before.open.values().any(|(by, _)| Some(by) == self.act.member);
        for verdict in self.new_verdicts(VerdictState::Skipped).filter(|v| v.attempt == 0) {
            let Fire::Asked(id) = &verdict.run.fire else { continue };
            let forgotten = book.requested.get(id).is_some_and(|at| {
                let asked = evenkeel_core::time::Wall(crate::world::clock::START.0 + at);
                book.forgets(self.at(), verdict, asked, findings)
            });
            for shard in verdict.shards.iter() {
                let running =
                    self.before.open.contains_key(&shard) || book.sharding.running.contains_key(&shard);
                let busy = running || runs || unmonitored;
                let claimed =
                    book.sharding.fires.get(&(verdict.run.fire.clone(), shard)).is_some_and(|f| f.claimed);
                book.sharding.refused.insert((verdict.run.fire.clone(), shard));
                // A number that moved to another node has no refusals any more.
                let moved = broadcast && self.was_resharded();
                findings.test(self.at(), Invariant::I24, (busy || moved || forgotten) && !claimed, || {
                    format!(
                        "the request {id} was refused for shard {shard} of {}, which does not run",
                        self.job
                    )
                });
            }
        }
    }
}
