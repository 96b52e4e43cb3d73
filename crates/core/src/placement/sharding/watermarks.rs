//! How far the shards of a job are.

use crate::record::{ShardMap, ShardRunState};
use crate::time::Wall;

/// The furthest watermark of all shards, also of removed ones; `None` before the first fire.
pub(super) fn furthest<'a>(
    shard_map: &ShardMap,
    run_states: impl Iterator<Item = &'a ShardRunState>,
) -> Option<Wall> {
    let watermarks = run_states.flat_map(|run_state| &run_state.groups).map(|group| group.watermark);
    watermarks.chain(shard_map.furthest).max()
}
