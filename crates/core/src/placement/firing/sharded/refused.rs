//! The verdicts on manual runs that some shards do not run.

use alloc::format;
use alloc::string::String;

use super::RunStateWriter;
use crate::effect::Verdict;
use crate::ids::{Fire, Shard};
use crate::record::{Attempt, TriggerRequest};
use crate::shards::ShardSet;

impl RunStateWriter<'_> {
    /// The outcome of a trigger on a node that has no shards of the job. It is recorded as the trigger's first run.
    pub(super) fn refused_without_shards(&self, request: &TriggerRequest) -> Option<Verdict> {
        let (fire, at) = (Fire::Asked(request.id.clone()), request.at);
        let reason = "asked for on a node that has no shards of the job".into();
        let verdict = self.runs.refused(fire, (at, at), &ShardSet::one(Shard(0)), reason)?;
        Some(Verdict { shards: ShardSet::empty(), ..verdict })
    }

    /// The obstacle of a manual run on these shards, in words.
    pub(super) fn obstacle(&self, refused: &ShardSet) -> String {
        let now = self.context().now.wall;
        let open = self.draft.open.iter().filter(|open| open.shards.meets(refused));
        if open.clone().any(|open| open.wait.is_some()) {
            return "asked for while the run before waited for its next attempt: ask again after it".into();
        }
        let ahead = |open: &&Attempt| open.attempt == 1 && open.starts_at() > now;
        let claimed = open.clone().filter(ahead).fold(ShardSet::empty(), |all, open| all.or(&open.shards));
        match open.clone().find(ahead) {
            // A run outside the run state is in no open fire.
            Some(first) if refused.minus(&claimed).is_empty() => {
                format!("asked for when the fire of {} was claimed already: ask again after it", first.due)
            }
            _ => "asked for while the run before was going on: ask again after it".into(),
        }
    }
}
