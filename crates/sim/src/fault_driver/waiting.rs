//! Kills runs that wait for their time, a slot, a permit or the next attempt.

use evenkeel_core::ids::{Fire, JobName, NodeName, RunId, Shard};

use super::FaultDriver;
use crate::invariants::JobTrack;
use crate::world::SimWorld;

impl FaultDriver<'_> {
    /// An open run, and the node that is to start it.
    pub(super) fn some_open(&mut self, world: &SimWorld) -> Option<(NodeName, RunId)> {
        let books =
            world.checker().jobs().iter().filter(|(name, _)| !self.workload.calm_jobs.contains(*name));
        let open: Vec<(NodeName, RunId)> = books.flat_map(|(name, book)| open(name, book)).collect();
        self.work.pick(&open).cloned()
    }
}

fn open(name: &JobName, book: &JobTrack) -> Vec<(NodeName, RunId)> {
    let run = |fire: &Fire, shard| RunId { job: name.clone(), fire: fire.clone(), shard };
    let run_state = book.run_state.iter().flat_map(|run_state| &run_state.open);
    let run_state = run_state.map(|open| (open.by.node.clone(), run(&open.fire, Shard(0))));
    let plan = book.plan.iter().flat_map(|plan| &plan.runs);
    let plan = plan.map(|planned| (planned.by.node.clone(), run(&planned.fire, Shard(0))));
    let shards = book.sharding.standing.open.iter();
    let shards = shards.map(|(shard, (by, open))| (by.node.clone(), run(&open.fire, *shard)));
    // An unclaimed run is for the owner to start.
    let asked =
        book.assignment.owner.iter().flat_map(|owner| book.requested.keys().map(move |id| (owner, id)));
    let asked = asked.map(|(owner, id)| (owner.node.clone(), run(&Fire::Asked(id.clone()), Shard(0))));
    run_state.chain(plan).chain(shards).chain(asked).collect()
}
