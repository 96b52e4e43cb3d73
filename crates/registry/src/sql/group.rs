//! One group of requests in one transaction: what it finds, what it answers, and why it may not be done.

use std::collections::BTreeSet;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Change, LeaseGrant, Revision, TxnOutcome};
use evenkeel_core::time::{Millis, Wall};
use sqlx::Error;

use super::clock_step::{self, ClockObservation};
use super::commit::{CommitError, WantsNextEnd};
use super::config::{SqlConfig, SqlLimits};
use super::connection::SqlConnection;
use super::late;
use super::snapshot::{HotGate, SqlSnapshot};
use super::state::{SqlReply, SqlState, SqlTxnResult};
use super::statement::{SqlArg, SqlStatement};
use crate::RegistryError;
use crate::queue::WriteRequest;

/// The result of a group.
pub(super) struct GroupResult {
    pub(super) replies: Vec<SqlReply>,
    /// The position of the order, durable.
    pub(super) revision: Revision,
    /// The last revision of an ordered writer.
    pub(super) ordered: Revision,
    now: i64,
    next_end: Option<Millis>,
}

/// How far the order is known to have come.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownRevisions {
    /// The last ordered revision that only a restore can undo.
    pub(super) ordered: Revision,
    /// The last one in an answer of this process: likewise.
    pub(super) answered: Revision,
    /// The last one that the server has shown this process.
    pub(super) announced: Revision,
    /// The last hot entry that this process wrote and was answered. A sequence that went back may have come further.
    pub(super) hot: Option<(Key, Revision)>,
}

impl KnownRevisions {
    /// The revision of that hot entry by now, as an expression: it may have been written again or deleted since.
    pub(super) fn hot_now(&self, config: &SqlConfig) -> String {
        let Some((key, revision)) = &self.hot else {
            return SqlStatement::new(config.dialect, "").number(0).into_text();
        };
        let newest = format!("(SELECT coalesce(max(revision), {revision}) FROM {}", config.tables.entry);
        let newest = SqlStatement::new(config.dialect, newest).then(" WHERE k = ");
        newest.with(SqlArg::Text(key.as_str())).then(")").into_text()
    }

    /// The revision that it was written at.
    pub(super) fn hot_then(&self) -> Revision {
        self.hot.as_ref().map(|(_, revision)| *revision).unwrap_or_default()
    }
}

/// Why a group was not done.
pub(super) enum GroupError {
    /// It failed before the commit.
    BeforeCommit(Error),
    /// It failed at the commit: the outcome is unknown.
    AtCommit(Error),
    /// It failed before anything was sent, and for good.
    Stopped(RegistryError),
    /// Before any write: the order stands here, before what was answered.
    WentBack(Revision),
    /// Before any write: it has to close the gate early.
    GateOpen,
    /// Before any write: another node saw the server rolled back, and began a new generation.
    Replaced,
}

/// Applies a group in a transaction.
pub(super) async fn apply_group(
    snapshot: &mut SqlSnapshot<'_>,
    limits: SqlLimits,
    observation: &ClockObservation,
    group: &[WriteRequest],
    known: &KnownRevisions,
    gate: HotGate,
) -> Result<(GroupResult, ClockObservation), GroupError> {
    let begun = snapshot.begin(gate, &known.hot_now(snapshot.config)).await;
    let found = begun.map_err(GroupError::BeforeCommit)?;
    if found.hot < known.hot_then() {
        return Err(GroupError::WentBack(found.hot));
    }
    if found.ordered < known.ordered {
        return Err(GroupError::WentBack(found.ordered));
    }
    if found.meta.revision < known.answered {
        return Err(GroupError::WentBack(found.meta.revision));
    }
    if found.generation > i64::from(limits.facts.generation) {
        return Err(GroupError::Replaced);
    }
    let mut before = found.meta.clone();
    if before.revision < known.announced {
        // Some saw revisions that the server then lost in a crash, unanswered. So one is skipped, and they list again.
        before.revision = Revision(known.announced.0 + 1);
        before.forgotten = before.revision;
    }
    let skips = before.revision != found.meta.revision;
    let read = snapshot.read(limits, before, observation, group).await;
    let (mut state, seen) = read.map_err(GroupError::BeforeCommit)?;
    state.end_expired();
    let mut answers: Vec<_> = group.iter().map(|ask| state.apply(ask)).collect();
    if gate == HotGate::Late && (skips || !late::may_close(&state)) {
        return Err(GroupError::GateOpen);
    }
    load_values(snapshot, &mut answers).await.map_err(GroupError::BeforeCommit)?;
    let granted = answers.iter().any(|answer| matches!(answer, SqlReply::Granted(Some(_))));
    let wants_next_end = if granted { WantsNextEnd::Yes } else { WantsNextEnd::No };
    let committed = snapshot.write_and_commit(&mut state, &found, wants_next_end, gate).await;
    let (base, next_end) = committed.map_err(|error| match error {
        CommitError::Before(error) => GroupError::BeforeCommit(error),
        CommitError::At(error) => GroupError::AtCommit(error),
    })?;
    let SqlState { now, meta, .. } = state;
    let next_end = next_end.map(|end| end.max(clock_step::earliest_end(meta.clock, now)));
    let wrote = meta.revision != found.meta.revision;
    let (mut revision, mut ordered) = (meta.revision, if wrote { meta.revision } else { found.ordered });
    if gate == HotGate::Late {
        // Hot ones may have drawn revisions in between.
        let moved = base.map_or(0, |base| base.0.saturating_sub(found.meta.revision.0));
        late::move_revisions(&mut answers, found.meta.revision, moved);
        ordered = if wrote { Revision(meta.revision.0 + moved) } else { found.ordered };
        // The position before may be that of one that is not committed yet.
        revision = ordered;
    }
    Ok((GroupResult { replies: answers, revision, ordered, now, next_end }, seen))
}

/// The position of the order, its generation, and the time by the server's clock.
pub(super) struct CounterReading {
    pub(super) ordered: Revision,
    pub(super) position: Revision,
    pub(super) generation: i64,
    pub(super) now: i64,
}

pub(super) async fn read_counter(
    link: &mut SqlConnection,
    config: &SqlConfig,
) -> Result<CounterReading, Error> {
    let (now, position) = (config.dialect.sql.now, &config.tables.order.position);
    let select = format!("SELECT m.revision, m.generation, {now}, {position} FROM {} m", config.tables.meta);
    let row = link.ask_one(SqlStatement::new(config.dialect, select)).await?;
    Ok(CounterReading {
        ordered: row.revision(0)?,
        generation: row.int(1)?,
        now: row.int(2)?,
        position: row.revision(3)?,
    })
}

/// Reads the values for refusals. Nothing has been written yet, so the table has them as they were found.
async fn load_values(snapshot: &mut SqlSnapshot<'_>, answers: &mut [SqlReply]) -> Result<(), Error> {
    let results = answers.iter_mut().filter_map(|answer| match answer {
        SqlReply::Txns(verdicts) => Some(verdicts),
        SqlReply::Granted(_) | SqlReply::Closed => None,
    });
    let refused = results.flatten().filter_map(|verdict| match verdict {
        SqlTxnResult::Refused(found, _) => Some(found),
        SqlTxnResult::Applied(_) => None,
    });
    let mut bare: Vec<_> = refused
        .flatten()
        .filter_map(|(key, head)| head.as_mut().filter(|head| head.value.is_none()).map(|head| (&*key, head)))
        .collect();
    let keys: BTreeSet<_> = bare.iter().map(|(key, _)| (*key).clone()).collect();
    let values = snapshot.values(&keys.into_iter().collect::<Vec<_>>()).await?;
    for (key, head) in &mut bare {
        head.value = Some(values.get(*key).cloned().ok_or(Error::RowNotFound)?);
    }
    Ok(())
}

impl GroupResult {
    /// Answers the requests. The callers may be gone.
    pub(super) fn reply(self, group: Vec<WriteRequest>) {
        let Self { replies: answers, now, next_end, .. } = self;
        let granted = |(lease, ttl)| LeaseGrant { lease, ttl, clock: Some(Wall(now)), next_end };
        for (ask, answer) in group.into_iter().zip(answers) {
            match (ask, answer) {
                (WriteRequest::Open(_, reply), SqlReply::Granted(Some(lease))) => {
                    drop(reply.send(Ok(granted(lease))))
                }
                (WriteRequest::Renew(_, reply), SqlReply::Granted(lease)) => {
                    drop(reply.send(Ok(lease.map(granted))))
                }
                (WriteRequest::Close(_, reply), SqlReply::Closed) => drop(reply.send(Ok(()))),
                (WriteRequest::Commit(_, reply), SqlReply::Txns(verdicts)) => {
                    reply.send(verdicts.into_iter().map(outcome).collect());
                }
                (ask, _) => {
                    ask.fail(&RegistryError::Fatal("the registry's writer answered another question".into()));
                }
            }
        }
    }
}

pub(super) fn outcome(verdict: SqlTxnResult) -> TxnOutcome {
    match verdict {
        SqlTxnResult::Applied(revision) => TxnOutcome::Applied(revision),
        SqlTxnResult::Refused(found, revision) => {
            let change = |(key, head): (_, Option<super::state::EntryHead>)| Change {
                key,
                entry: head.and_then(super::state::EntryHead::entry),
                revision,
            };
            TxnOutcome::Refused(found.into_iter().map(change).collect())
        }
    }
}
