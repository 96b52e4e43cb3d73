//! Which runs were in the way of skipped fires: the registry's file itself is made to write that down.
//!
//! A shard's fires that came due while the shard ran are skipped by the commit that closes the run. Triggers of SQLite are
//! part of that commit: they keep the lane before it and after it, where the lane after it tells of skipped fires.

use std::path::Path;

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::Shard;
use evenkeel_core::record::{ShardRunState, decode};
use evenkeel_core::shards::ShardSet;
use rusqlite::Connection;

use crate::fleet::books;

const TRIGGER: &str = "
CREATE TABLE skipping (n INTEGER PRIMARY KEY, before BLOB NOT NULL, after BLOB NOT NULL);
CREATE TRIGGER skips AFTER UPDATE OF value ON entry
WHEN NEW.key GLOB 'run/sharded-*' AND instr(NEW.value, CAST('\"skipped\"' AS BLOB)) > 0
BEGIN INSERT INTO skipping (before, after) VALUES (OLD.value, NEW.value); END;
";

/// Fires of a shard that were skipped, and the run that was in their way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SkippedFires {
    pub(crate) job: String,
    pub(crate) shard: u32,
    /// First and last of the fires.
    pub(crate) span: (i64, i64),
    /// The fire that ran.
    pub(crate) run: i64,
    /// From when on it could start.
    pub(crate) began: i64,
    /// When it was closed.
    pub(crate) closed: i64,
}

/// From now on the registry's file writes it down.
pub(crate) fn begin(folder: &Path) {
    books(folder).execute_batch(TRIGGER).expect("the registry's file takes a trigger");
}

/// What the registry's file wrote down.
pub(crate) fn read(folder: &Path) -> Vec<SkippedFires> {
    let run_states = run_states(&books(folder)).expect("the file is read");
    run_states.iter().flat_map(|(before, after)| between(before, after)).collect()
}

fn run_states(books: &Connection) -> rusqlite::Result<Vec<(ShardRunState, ShardRunState)>> {
    let mut rows = books.prepare("SELECT before, after FROM skipping ORDER BY n")?;
    let run_state = |value: Vec<u8>| decode(&value).expect("a lane");
    rows.query_map((), |row| Ok((run_state(row.get(0)?), run_state(row.get(1)?))))?.collect()
}

/// What one commit skipped.
fn between(before: &ShardRunState, after: &ShardRunState) -> Vec<SkippedFires> {
    let new = |verdict: &&Verdict| {
        verdict.state == VerdictState::Skipped && verdict.attempt == 0 && !before.verdicts.contains(verdict)
    };
    after.verdicts.iter().filter(new).flat_map(|verdict| skips(before, after, verdict)).collect()
}

fn skips(before: &ShardRunState, after: &ShardRunState, verdict: &Verdict) -> Vec<SkippedFires> {
    let own = ShardSet::one(verdict.run.shard);
    let shards = if verdict.shards.is_empty() { &own } else { &verdict.shards };
    let skip = |shard: Shard| {
        let open = before.open.iter().find(|open| open.shards.contains(shard))?;
        let goes_on = after.open.iter().any(|now| now.fire == open.fire && now.shards.contains(shard));
        let closed = after.ended.filter(|_| !goes_on)?;
        Some(SkippedFires {
            job: verdict.run.job.to_string(),
            shard: shard.0,
            span: (verdict.from.0, verdict.due.0),
            run: open.due.0,
            began: open.starts_at().0,
            closed: closed.0,
        })
    };
    shards.iter().filter_map(skip).collect()
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ids::{Fire, RunId};
    use evenkeel_core::record::Attempt;
    use evenkeel_core::time::Wall;

    use super::*;

    fn open(due: i64, shards: &[u32]) -> Attempt {
        let shards = shards.iter().map(|shard| Shard(*shard)).collect();
        let (due, back) = (Wall(due), Wall(due - 1_000));
        let first = Attempt::first(Fire::Due(due), due, "a@1".parse().expect("a member"));
        Attempt { from: Some(due), back, seq: 1, total: 3, shards, ..first }
    }

    fn run_state(open: Vec<Attempt>, verdicts: Vec<Verdict>, ended: i64) -> ShardRunState {
        let (groups, ended) = (Vec::new(), Some(Wall(ended)));
        ShardRunState { map_number: 1, seq: 1, groups, open, verdicts, ended, ..ShardRunState::default() }
    }

    fn skipped(span: (i64, i64), shards: &[u32]) -> Verdict {
        let due = Wall(span.1);
        let run = RunId {
            job: "sharded-2".parse().expect("a name"),
            fire: Fire::Due(due),
            shard: Shard(shards[0]),
        };
        let shards = shards.iter().map(|shard| Shard(*shard)).collect();
        let (state, reason, node) = (VerdictState::Skipped, String::new(), "n1".to_owned());
        Verdict { run, attempt: 0, due, state, reason, node, from: Wall(span.0), shards }
    }

    #[test]
    fn the_run_that_the_commit_closed_was_in_the_way() {
        let before = run_state(vec![open(5_000, &[0, 1]), open(7_000, &[2])], Vec::new(), 5_500);
        let verdict = skipped((6_000, 7_000), &[0, 1]);
        let after = run_state(vec![open(7_000, &[2])], vec![verdict.clone()], 8_400);
        let found = between(&before, &after);
        let first = SkippedFires {
            job: "sharded-2".into(),
            shard: 0,
            span: (6_000, 7_000),
            run: 5_000,
            began: 5_000,
            closed: 8_400,
        };
        assert_eq!(found, [first.clone(), SkippedFires { shard: 1, ..first.clone() }]);
        // A commit that tells of it once more closed nothing, and a shard that still runs is not closed.
        assert_eq!(between(&after, &after), []);
        let half = run_state(vec![open(5_000, &[1])], vec![verdict.clone()], 8_400);
        assert_eq!(between(&before, &half), [first]);
        assert_eq!(between(&run_state(Vec::new(), Vec::new(), 0), &after), [], "nothing was open");
    }
}
