//! How entries become rows: coalesced, idempotent, and never over an end that stands.

use std::collections::BTreeMap;

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::time::Wall;
use evenkeel_core::words::{JobName, RunId, Shard};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::notice::{self, Notice, Wish};
use super::record::{LoadPoint, RunRecord, State};

/// One thing to be kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// An attempt as it stands now.
    Attempt(Box<RunRecord>),
    /// It was given to an executor and did not start.
    NotStarted { run: RunId, attempt: u32 },
    /// The last attempt of a run, at its end, and whom to tell.
    Outcome(Box<RunRecord>, Option<Box<Wish>>),
    /// A verdict that must be acknowledged, and whom to tell.
    Verdict(Box<Verdict>, Option<Box<Wish>>),
    /// Something to be told, which this node made.
    Notice(Box<Notice>, String),
    /// The notice of this number was told.
    Noticed(i64),
    /// What this node's earlier lives have not told is wanted.
    Untold(String),
    /// How busy the node was.
    Load(Box<LoadPoint>),
    /// Something that happened to the node.
    Event { at: Wall, node: String, kind: &'static str, text: String },
}

/// Drops what later entries of the same batch make needless: most attempts start and end within one.
pub(super) fn coalesce(batch: Vec<Entry>) -> Vec<Entry> {
    let mut started: BTreeMap<(RunId, u32), usize> = BTreeMap::new();
    let mut kept: Vec<Option<Entry>> = Vec::with_capacity(batch.len());
    for entry in batch {
        let key = match &entry {
            Entry::Attempt(record) | Entry::Outcome(record, _) => (record.run.clone(), record.attempt),
            Entry::NotStarted { run, attempt } => (run.clone(), *attempt),
            Entry::Verdict(..)
            | Entry::Load(_)
            | Entry::Event { .. }
            | Entry::Notice(..)
            | Entry::Noticed(_)
            | Entry::Untold(_) => {
                kept.push(Some(entry));
                continue;
            }
        };
        let running = matches!(&entry, Entry::Attempt(record) if record.state == State::Running);
        match started.remove(&key) {
            Some(before) if matches!(entry, Entry::NotStarted { .. }) => kept[before] = None,
            Some(before) => kept[before] = Some(entry),
            None => kept.push(Some(entry)),
        }
        if running {
            started.insert(key, kept.len() - 1);
        }
    }
    kept.into_iter().flatten().collect()
}

/// What a batch came to.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// How many rows each job got.
    pub(super) jobs: BTreeMap<JobName, u32>,
    /// What is to be told.
    pub(super) notices: Vec<Notice>,
}

/// Writes all of it in one transaction.
pub(super) fn write(db: &mut Connection, batch: &[Entry], now: Wall) -> rusqlite::Result<Written> {
    let all = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut written = Written::default();
    for entry in batch {
        match entry {
            Entry::Attempt(record) => {
                put(&all, record, now)?;
                *written.jobs.entry(record.job.clone()).or_default() += 1;
            }
            Entry::Outcome(record, wish) => {
                if put(&all, record, now)? {
                    notice::of_outcome(&all, record, wish.as_deref(), now, &mut written.notices)?;
                }
                *written.jobs.entry(record.job.clone()).or_default() += 1;
            }
            Entry::Notice(made, node) => notice::put(&all, (**made).clone(), node, &mut written.notices)?,
            Entry::Noticed(seq) => notice::told(&all, *seq)?,
            Entry::Untold(node) => notice::untold(&all, node, &mut written.notices)?,
            Entry::NotStarted { run, attempt } => {
                // Of a run that was attempted before something is to come; of another one there is nothing to tell.
                let statement = match attempt {
                    0 | 1 => "DELETE FROM attempt WHERE run = ?1 AND attempt = ?2 AND state = 0",
                    _ => "UPDATE attempt SET state = 8 WHERE run = ?1 AND attempt = ?2 AND state = 0",
                };
                all.prepare_cached(statement)?.execute(params![run.to_string(), attempt])?;
            }
            Entry::Verdict(verdict, wish) => {
                let shards: Vec<Shard> = shards_of(verdict).collect();
                let mut new = Vec::new();
                for shard in &shards {
                    if put(&all, &of_verdict(verdict, *shard, now), now)? {
                        new.push(*shard);
                    }
                }
                let (shards, wish) = ((&shards[..], &new[..]), wish.as_deref());
                notice::of_verdict(&all, verdict, shards, wish, now, &mut written.notices)?;
                *written.jobs.entry(verdict.run.job.clone()).or_default() += 1;
            }
            Entry::Load(load) => put_load(&all, load)?,
            Entry::Event { at, node, kind, text } => {
                all.prepare_cached("INSERT INTO event (at, node, kind, text) VALUES (?1, ?2, ?3, ?4)")?
                    .execute(params![at.0, node, kind, text])?;
            }
        }
    }
    all.commit()?;
    Ok(written)
}

fn put_load(db: &Transaction<'_>, load: &LoadPoint) -> rusqlite::Result<()> {
    let LoadPoint { node, at, cpu, memory, busy, slots, score } = load;
    db.prepare_cached(
        "INSERT OR REPLACE INTO load (node, at, cpu, memory, busy, slots, score)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![node, at.0, cpu, memory, busy, slots, score])?;
    Ok(())
}

/// A verdict may be on many shards of one fire; each of them is a run.
fn shards_of(verdict: &Verdict) -> impl Iterator<Item = Shard> {
    let own = verdict.shards.is_empty().then_some(verdict.run.shard);
    verdict.shards.iter().chain(own)
}

fn of_verdict(verdict: &Verdict, shard: Shard, now: Wall) -> RunRecord {
    RunRecord {
        seq: 0,
        run: RunId { shard, ..verdict.run.clone() },
        attempt: verdict.attempt,
        job: verdict.run.job.clone(),
        shard,
        due: verdict.due,
        node: verdict.node.clone(),
        state: match verdict.state {
            VerdictState::Lost => State::Lost,
            VerdictState::Skipped => State::Skipped,
        },
        reason: verdict.reason.clone(),
        code: None,
        sent: String::new(),
        token: None,
        started: None,
        ended: Some(now),
        from: verdict.from,
        output: 0,
    }
}

const PUT: &str = "
INSERT INTO attempt (run, attempt, job, shard, due, node, state, reason, code, token, started, ended, since, output, sent)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
ON CONFLICT (run, attempt) DO UPDATE SET
    state = excluded.state, reason = excluded.reason, code = excluded.code, output = excluded.output,
    node = CASE excluded.state WHEN 0 THEN excluded.node ELSE node END,
    sent = CASE excluded.sent WHEN '' THEN sent ELSE excluded.sent END,
    token = coalesce(excluded.token, token), started = coalesce(excluded.started, started), ended = excluded.ended
WHERE attempt.state IN (0, 8)";

/// An end that stands is left alone; what comes after it is kept aside (`I22`). Says whether it was written.
fn put(db: &Transaction<'_>, record: &RunRecord, now: Wall) -> rusqlite::Result<bool> {
    let run = record.run.to_string();
    let state = number(record.state);
    let changed = db.prepare_cached(PUT)?.execute(params![
        run,
        record.attempt,
        record.job.as_str(),
        record.shard.0,
        record.due.0,
        record.node,
        state,
        record.reason,
        record.code,
        record.token.map(|token| token.0.cast_signed()),
        record.started.map(|at| at.0),
        record.ended.map(|at| at.0),
        record.from.0,
        record.output.cast_signed(),
        record.sent,
    ])?;
    if changed == 0 && record.state.is_end() {
        // The same end told twice is one.
        db.prepare_cached(
            "INSERT OR IGNORE INTO late (run, attempt, node, state, reason, heard)
             SELECT ?1, ?2, ?3, ?4, ?5, ?6 FROM attempt WHERE run = ?1 AND attempt = ?2 AND state <> ?4",
        )?
        .execute(params![run, record.attempt, record.node, state, record.reason, now.0])?;
    }
    if record.attempt > 1 {
        // Whoever had the earlier attempt will not tell any more, or will be late.
        db.prepare_cached(
            "UPDATE attempt SET state = ?3, reason = 'taken over by a later attempt', ended = ?4
             WHERE run = ?1 AND attempt < ?2 AND state IN (0, 8)",
        )?
        .execute(params![run, record.attempt, number(State::Lost), now.0])?;
    }
    Ok(changed > 0)
}

/// A state as the file has it.
pub(super) fn number(state: State) -> i64 {
    State::ALL.iter().position(|s| *s == state).map_or(0, |n| n as i64)
}

/// The way back.
pub(super) fn state(number: i64) -> Option<State> {
    State::ALL.get(usize::try_from(number).ok()?).copied()
}
