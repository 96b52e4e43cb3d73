//! When a streaming run, which could go on for ever, must come to an end by itself.

use super::Node;
use crate::ids::{JobName, Shard};

impl Node {
    /// Why a stream of this job should end on this node before its next fetch; `None` while it may go on.
    ///
    /// Its run is not stopped: what waits for it to end, such as a drain or a reshard, would wait for ever otherwise.
    #[must_use]
    pub fn ends_stream(&self, job: &JobName, shard: Shard) -> Option<&'static str> {
        let name = &self.local.settings.name;
        let spec = self.view.find(job).and_then(|job| job.spec());
        let switches = self.view.switches(job, name).and_then(|known| known.value.as_ref());
        let life = self.local.lease.id().map(|lease| lease.0);
        let sharding = self.view.find(job).and_then(|job| job.sharding());
        if self.local.availability.is_leaving() {
            Some("the node leaves")
        } else if self.view.intent(name).is_some() {
            Some("the node is drained")
        } else if spec.as_ref().is_none_or(|spec| !spec.job.enabled) {
            Some("the job was deleted or disabled")
        } else if spec.is_some_and(|spec| spec.off.contains(shard)) {
            Some("the shard was switched off")
        } else if switches.is_some_and(|s| s.disabled || s.shutdown.is_some() && s.shutdown == life) {
            Some("the job was disabled on this node")
        } else if sharding.is_some_and(|sharding| sharding.reshard_pending.is_some()) {
            Some("the shards are to be resharded")
        } else if self.is_paused(job) {
            Some("the job was paused")
        } else {
            None
        }
    }

    fn is_paused(&self, job: &JobName) -> bool {
        let Some(job) = self.view.find(job) else { return false };
        job.spec().is_some_and(|spec| spec.paused) || job.switches(&self.local.settings.name).paused
    }
}
