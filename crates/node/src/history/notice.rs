//! Notices: what becomes of a job's fires and is told to people.
//!
//! A notice is written in the transaction that makes it true, and marked once whoever asked for it was told. So it is made
//! once, whoever writes the same again, and a node that died before it told anybody tells it in its next life.

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::job::{Notify, Occasion};
use evenkeel_core::time::Wall;
use evenkeel_core::words::{Fire, JobName, NotifierName, RunId, Shard};
use rusqlite::{OptionalExtension, Transaction, params};
use serde::{Deserialize, Serialize};

use super::record::{RunRecord, State};
use super::write::state;

/// So many notices that an earlier life left untold are told in the next one.
const UNTOLD_MAX: u32 = 200;

/// What is to be told of a job, and to whom, where history finds that it became true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The node that tells.
    node: String,
    occasions: Vec<Occasion>,
    to: Vec<NotifierName>,
    must: bool,
}

/// Something that became of a job's fire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Notice {
    /// Its number in this history.
    #[serde(skip)]
    pub(crate) seq: i64,
    /// What names it, so that it is made once, and so that whoever is told twice can tell.
    pub(crate) id: String,
    pub(crate) occasion: Occasion,
    pub(crate) job: JobName,
    pub(crate) run: RunId,
    pub(crate) due: Wall,
    pub(crate) attempt: u32,
    /// When it became true.
    pub(crate) at: Wall,
    /// In words.
    pub(crate) text: String,
    /// The notifiers that the job names.
    pub(crate) to: Vec<NotifierName>,
    /// Whether the job asked for it itself, so that it should not be told to nobody.
    pub(crate) must: bool,
}

impl Wish {
    /// What a job that says this of being told comes to at a node whose settings ask for these occasions; `None` where nothing
    /// is to be told.
    pub(crate) fn of(notify: Option<&Notify>, asked: &[Occasion], node: &str) -> Option<Box<Self>> {
        let wanted = |occasion: Occasion| match notify {
            None => asked.contains(&occasion),
            Some(notify) => {
                let own = notify.on.is_some() || !notify.to.is_empty() || notify.limit(occasion).is_some();
                notify.names(occasion) && (own || asked.contains(&occasion))
            }
        };
        let occasions: Vec<Occasion> =
            Occasion::ALL.into_iter().filter(|occasion| wanted(*occasion)).collect();
        let to = notify.map_or_else(Vec::new, |notify| notify.to.clone());
        let must = notify.is_some_and(|notify| notify.on.is_some());
        (!occasions.is_empty()).then(|| Box::new(Self { node: node.to_owned(), occasions, to, must }))
    }

    /// The notice that a fire is late, or absent; `None` where nobody wants it.
    pub(crate) fn overdue(
        &self,
        job: &JobName,
        occasion: Occasion,
        due: Wall,
        at: Wall,
        text: String,
    ) -> Option<Notice> {
        let run = RunId { job: job.clone(), fire: Fire::Due(due), shard: Shard(0) };
        self.notice(occasion, run, (0, due), at, text)
    }

    fn notice(
        &self,
        occasion: Occasion,
        run: RunId,
        (attempt, due): (u32, Wall),
        at: Wall,
        text: String,
    ) -> Option<Notice> {
        if !self.occasions.contains(&occasion) {
            return None;
        }
        let id = match attempt {
            0 => format!("{} {run}", occasion.kind()),
            n => format!("{} {run} {n}", occasion.kind()),
        };
        let (job, to, must) = (run.job.clone(), self.to.clone(), self.must);
        Some(Notice { seq: 0, id, occasion, job, run, due, attempt, at, text, to, must })
    }
}

/// Makes what follows from the last attempt of a run, which this transaction wrote for the first time.
pub(super) fn of_outcome(
    db: &Transaction<'_>,
    record: &RunRecord,
    wish: Option<&Wish>,
    now: Wall,
    made: &mut Vec<Notice>,
) -> rusqlite::Result<()> {
    let RunRecord { job, run, attempt, node, .. } = record;
    let (occasion, text) = match record.state {
        State::Failed | State::TimedOut => {
            fail(db, job, record.shard, now)?;
            let why = if record.reason.is_empty() { record.state.as_str() } else { &record.reason };
            (Occasion::Failure, format!("job {job} failed on {node}: {why} (run {run}, attempt {attempt})"))
        }
        State::Succeeded => match heal(db, job, record.shard)? {
            Some(since) => (
                Occasion::Recovery,
                format!(
                    "job {job} succeeds again on {node} after failing since {since} (run {run}, attempt {attempt})"
                ),
            ),
            None => return Ok(()),
        },
        // Somebody ended it and knows; of one that was cut off a verdict follows.
        State::Killed | State::Fenced | State::Lost | State::Skipped | State::Running | State::Waiting => {
            return Ok(());
        }
    };
    let Some(wish) = wish else { return Ok(()) };
    let notice = wish.notice(occasion, run.clone(), (*attempt, record.due), now, text);
    notice.map_or(Ok(()), |notice| put(db, notice, &wish.node, made))
}

/// Makes what follows from a verdict on these shards of a fire; `new` are those of which history heard it for the first time.
pub(super) fn of_verdict(
    db: &Transaction<'_>,
    verdict: &Verdict,
    (shards, new): (&[Shard], &[Shard]),
    wish: Option<&Wish>,
    now: Wall,
    made: &mut Vec<Notice>,
) -> rusqlite::Result<()> {
    let Verdict { run, attempt, due, reason, from, node, .. } = verdict;
    let job = &run.job;
    let stands = |shard: Shard, attempt: u32| stands(db, &RunId { shard, ..run.clone() }, attempt);
    let mut heard = false;
    let (occasion, text) = match verdict.state {
        VerdictState::Lost => {
            for shard in shards {
                // An end that stands says more than a verdict; that it was cut off says the same.
                if matches!(stands(*shard, *attempt)?, Some(State::Lost | State::Fenced)) {
                    fail(db, job, *shard, now)?;
                    heard = true;
                }
            }
            let text = format!("job {job}: nobody can say how run {run} ended on {node}: {reason}");
            (Occasion::Lost, text)
        }
        VerdictState::Skipped if *attempt > 1 => {
            for shard in new {
                // The attempt that will not be made was the last hope of one that failed, or followed one that is told as lost.
                if !matches!(stands(*shard, attempt - 1)?, Some(State::Lost | State::Fenced)) {
                    fail(db, job, *shard, now)?;
                    heard = true;
                }
            }
            let text =
                format!("job {job} failed, and its attempt {attempt} will not be made: {reason} (run {run})");
            (Occasion::Failure, text)
        }
        VerdictState::Skipped => {
            heard = !new.is_empty();
            let fires = if from == due {
                format!("its fire of {due}")
            } else {
                format!("its fires of {from} to {due}")
            };
            (Occasion::Miss, format!("job {job} does not run for {fires}: {reason}"))
        }
    };
    let Some(wish) = wish.filter(|_| heard) else { return Ok(()) };
    let notice = wish.notice(occasion, run.clone(), (*attempt, *due), now, text);
    notice.map_or(Ok(()), |notice| put(db, notice, &wish.node, made))
}

/// Keeps a notice until it was told, and an event of it. One that is there already is not made again.
pub(super) fn put(
    db: &Transaction<'_>,
    mut notice: Notice,
    node: &str,
    made: &mut Vec<Notice>,
) -> rusqlite::Result<()> {
    let body =
        serde_json::to_string(&notice).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
    let new = db
        .prepare_cached("INSERT OR IGNORE INTO notice (id, node, at, body) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![notice.id, node, notice.at.0, body])?;
    if new == 1 {
        notice.seq = db.last_insert_rowid();
        db.prepare_cached("INSERT INTO event (at, node, kind, text) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![notice.at.0, node, notice.occasion.kind(), notice.text])?;
        made.push(notice);
    }
    Ok(())
}

/// Whoever wanted to know was told, or it was said that he was not.
pub(super) fn told(db: &Transaction<'_>, seq: i64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE notice SET told = 1 WHERE seq = ?1")?.execute([seq])?;
    Ok(())
}

/// What this node made in an earlier life and has not told.
pub(super) fn untold(db: &Transaction<'_>, node: &str, made: &mut Vec<Notice>) -> rusqlite::Result<()> {
    let mut found = db.prepare_cached(
        "SELECT seq, body FROM notice WHERE node = ?1 AND told = 0 ORDER BY seq DESC LIMIT ?2",
    )?;
    let rows =
        found.query_map(params![node, UNTOLD_MAX], |row| Ok((row.get(0)?, row.get::<_, String>(1)?)))?;
    let rows: Vec<(i64, String)> = rows.collect::<rusqlite::Result<_>>()?;
    // One of a newer program's is left alone.
    let notices = rows.into_iter().rev().filter_map(|(seq, body)| {
        let notice: Notice = serde_json::from_str(&body).ok()?;
        Some(Notice { seq, ..notice })
    });
    made.extend(notices);
    Ok(())
}

fn stands(db: &Transaction<'_>, run: &RunId, attempt: u32) -> rusqlite::Result<Option<State>> {
    let found = db
        .prepare_cached("SELECT state FROM attempt WHERE run = ?1 AND attempt = ?2")?
        .query_row(params![run.to_string(), attempt], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(found.and_then(state))
}

/// A shard of a job fails from now on, unless it has done so already.
fn fail(db: &Transaction<'_>, job: &JobName, shard: Shard, now: Wall) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT OR IGNORE INTO failing (job, shard, since) VALUES (?1, ?2, ?3)")?
        .execute(params![job.as_str(), shard.0, now.0])?;
    Ok(())
}

/// It fails no more; since when it did, if it did.
fn heal(db: &Transaction<'_>, job: &JobName, shard: Shard) -> rusqlite::Result<Option<Wall>> {
    db.prepare_cached("DELETE FROM failing WHERE job = ?1 AND shard = ?2 RETURNING since")?
        .query_row(params![job.as_str(), shard.0], |row| Ok(Wall(row.get(0)?)))
        .optional()
}
