//! The SQL statements of a batch: reads the rows that it names, and writes its results, many rows at a time.

use std::collections::BTreeSet;

use evenkeel_core::ids::{JobName, RunId, Shard};
use evenkeel_core::time::Wall;
use evenkeel_registry::sql::SqlArg;

use super::audit::{self, AuditBatch};
use super::connection::{DatabaseError, HistoryConnection, HistoryRow, odd};
use super::draft::{BatchDraft, LastNumbers, shards_of};
use super::entry::{BatchId, HistoryWrite};
use super::notice::Notice;
use super::parameters;
use super::record::{EventRecord, LoadPoint, RunRecord};
use super::rows::{COLUMNS, any_of, change, number, plain, record};
use super::summary;
use super::summary::mark::FireMark;

/// The columns that change.
const CHANGING: [&str; 10] =
    ["node", "state", "reason", "code", "token", "started", "ended", "output", "sent", "counted"];

/// The most unsent notices of an earlier life that are sent in the next one.
const UNSENT_MAX: i64 = 200;

/// Up to this many failing shards are all read; beyond, each of up to this many jobs is looked up.
pub(super) const FEW: usize = 100;

/// Begins a life of a node, whose batches are distinct from those of its earlier lives.
///
/// # Errors
/// The database cannot be written to.
pub(super) async fn enter(link: &mut HistoryConnection, name: &str, now: Wall) -> Result<i64, DatabaseError> {
    link.lock().await?;
    let known = link.statement(format!("SELECT max(life) FROM {} WHERE name = ", link.table("writer")));
    let known = link.rows(known.with(SqlArg::Text(name))).await?;
    let life = known.first().map_or(Ok(None), |row| row.maybe(0))?.unwrap_or_default() + 1;
    insert_batch_id(link, &BatchId { name: name.into(), life, batch: 0 }, now).await?;
    audit::close_earlier(link, name).await?;
    link.commit().await?;
    Ok(life)
}

/// Whether this batch is stored already.
pub(super) async fn has(link: &mut HistoryConnection, stamp: &BatchId) -> Result<bool, DatabaseError> {
    let asked = link.statement(format!("SELECT batch FROM {} WHERE name = ", link.table("writer")));
    let asked = asked.with(SqlArg::Text(&stamp.name)).then(" AND life = ").with(SqlArg::Int(stamp.life));
    match link.rows(asked).await?.first() {
        Some(row) => Ok(row.int(0)? == stamp.batch),
        None => Ok(false),
    }
}

async fn insert_batch_id(
    link: &mut HistoryConnection,
    stamp: &BatchId,
    now: Wall,
) -> Result<(), DatabaseError> {
    let BatchId { name, life, batch } = stamp;
    let mark =
        link.statement(format!("INSERT INTO {} (name, life, batch, at) VALUES ", link.table("writer")));
    let mark = mark.rows([[SqlArg::Text(name), SqlArg::Int(*life), SqlArg::Int(*batch), SqlArg::Int(now.0)]]);
    let mark = mark.then(&link.dialect.update("name, life", &["batch", "at"]));
    link.run(mark).await.map(drop)
}

/// Reads the rows that the batch names.
pub(super) async fn load(
    link: &mut HistoryConnection,
    batch: &[HistoryWrite],
    now: Wall,
) -> Result<BatchDraft, DatabaseError> {
    let mut draft = BatchDraft::new(now, last(link).await?);
    draft.audits = AuditBatch::load(link, batch).await?;
    let (mut runs, mut jobs) = (Vec::new(), BTreeSet::new());
    for entry in batch {
        match entry {
            HistoryWrite::Attempt(record) => runs.push(record.run.to_string()),
            HistoryWrite::NotStarted { run, .. } | HistoryWrite::StartedLate(run) => {
                runs.push(run.to_string())
            }
            HistoryWrite::Outcome(record, _) => {
                runs.push(record.run.to_string());
                jobs.insert(record.job.as_str());
            }
            HistoryWrite::Verdict(verdict, ..) => {
                let run = |shard| RunId { shard, ..verdict.run.clone() }.to_string();
                runs.extend(shards_of(verdict).map(run));
                jobs.insert(verdict.run.job.as_str());
            }
            HistoryWrite::Notice(..)
            | HistoryWrite::NoticeSent(_)
            | HistoryWrite::ResendNotices(_)
            | HistoryWrite::Load(_)
            | HistoryWrite::Audit(_)
            | HistoryWrite::JobVersion(_)
            | HistoryWrite::Event { .. } => {}
        }
    }
    runs.sort_unstable();
    runs.dedup();
    let asked = format!("SELECT {COLUMNS}, counted FROM {} WHERE run IN ", link.table("attempt"));
    for row in any_of(link, &asked, runs.iter().map(String::as_str)).await? {
        draft.found(record(&row)?, FireMark::of(row.int(16)?));
    }
    for row in failing(link, &jobs).await? {
        draft.found_failing(job(&row, 0)?, Shard(row.number(1)?), Wall(row.int(2)?));
    }
    Ok(draft)
}

/// Reads which shards of these jobs fail, and perhaps of others: if few fail, all are read in one query.
async fn failing(
    link: &mut HistoryConnection,
    jobs: &BTreeSet<&str>,
) -> Result<Vec<HistoryRow>, DatabaseError> {
    let asked = format!("SELECT job, shard, since FROM {}", link.table("failing"));
    if jobs.len() > FEW {
        let all = link.rows(link.statement(format!("{asked} LIMIT {}", FEW + 1))).await?;
        if all.len() <= FEW {
            return Ok(all);
        }
    }
    any_of(link, &format!("{asked} WHERE job IN "), jobs.iter().copied()).await
}

/// Reads the last sequence number of each table.
async fn last(link: &mut HistoryConnection) -> Result<LastNumbers, DatabaseError> {
    let [attempt, event, notice] = ["attempt", "event", "notice"]
        .map(|table| format!("coalesce((SELECT max(seq) FROM {}), 0)", link.table(table)));
    let asked = format!("SELECT {attempt}, {event}, {notice}");
    let rows = link.rows(link.statement(asked)).await?;
    let row = rows.first().ok_or_else(|| odd(0))?;
    Ok(LastNumbers { attempt: row.number(0)?, event: row.number(1)?, notice: row.int(2)? })
}

/// Writes a batch's results, and returns the notices to send: those of earlier lives, and the new ones.
pub(super) async fn save(
    link: &mut HistoryConnection,
    draft: &mut BatchDraft,
    stamp: &BatchId,
) -> Result<Vec<Notice>, DatabaseError> {
    let told = std::mem::take(&mut draft.sent_notices);
    change(link, &format!("UPDATE {} SET told = 1 WHERE seq IN ", link.table("notice")), told).await?;
    let mut notices = Vec::new();
    for node in std::mem::take(&mut draft.resend_for) {
        notices.extend(unsent_notices(link, &node).await?);
    }
    notices.extend(save_notices(link, draft).await?);
    let gone = draft.gone.iter().map(|seq| seq.cast_signed()).collect();
    change(link, &format!("DELETE FROM {} WHERE seq IN ", link.table("attempt")), gone).await?;
    save_attempts(link, &draft.touched()).await?;
    draft.is_counted = summary::store::save(link, &draft.tally).await?;
    save_late(link, draft).await?;
    save_failing(link, draft).await?;
    parameters::save(link, &draft.parameters, draft.now).await?;
    save_events(link, &draft.events).await?;
    save_loads(link, draft.loads.values()).await?;
    draft.audits.save(link).await?;
    draft.versions.save(link).await?;
    insert_batch_id(link, stamp, draft.now).await?;
    Ok(notices)
}

async fn save_attempts(
    link: &mut HistoryConnection,
    records: &[(&RunRecord, FireMark)],
) -> Result<(), DatabaseError> {
    let texts: Vec<_> = records
        .iter()
        .map(|(record, _)| (record.run.to_string(), plain(&record.reason), plain(&record.sent)))
        .collect();
    let each = records.iter().zip(&texts).map(|((record, mark), (run, reason, sent))| {
        [
            SqlArg::Int(record.seq.cast_signed()),
            SqlArg::Text(run),
            SqlArg::Int(record.attempt.into()),
            SqlArg::Text(record.job.as_str()),
            SqlArg::Int(record.shard.0.into()),
            SqlArg::Int(record.due.0),
            SqlArg::Text(&record.node),
            SqlArg::Int(number(record.state)),
            SqlArg::Text(reason),
            SqlArg::Maybe(record.code.map(i64::from)),
            SqlArg::Maybe(record.token.map(|token| token.0.cast_signed())),
            SqlArg::Maybe(record.started.map(|at| at.0)),
            SqlArg::Maybe(record.ended.map(|at| at.0)),
            SqlArg::Int(record.from.0),
            SqlArg::Int(record.output.cast_signed()),
            SqlArg::Text(sent),
            SqlArg::Int(mark.number()),
        ]
    });
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT INTO {} ({COLUMNS}, counted) VALUES ", link.table("attempt"));
    let behind = link.dialect.update("run, attempt", &CHANGING);
    link.insert((&before, &behind), &rows).await
}

async fn save_late(link: &mut HistoryConnection, draft: &BatchDraft) -> Result<(), DatabaseError> {
    let runs: Vec<_> =
        draft.late.iter().map(|(late, reason)| (late.run.to_string(), plain(reason))).collect();
    let each = draft.late.keys().zip(&runs).map(|(late, (run, reason))| {
        [
            SqlArg::Text(run),
            SqlArg::Int(late.attempt.into()),
            SqlArg::Text(&late.node),
            SqlArg::Int(number(late.state)),
            SqlArg::Text(reason),
            SqlArg::Int(draft.now.0),
        ]
    });
    let rows: Vec<_> = each.collect();
    let (ignore, behind) = link.dialect.ignore;
    let before = format!(
        "INSERT {ignore}INTO {} (run, attempt, node, state, reason, heard) VALUES ",
        link.table("late")
    );
    link.insert((&before, behind), &rows).await
}

async fn save_failing(link: &mut HistoryConnection, draft: &BatchDraft) -> Result<(), DatabaseError> {
    let healed = format!("DELETE FROM {} WHERE job = ", link.table("failing"));
    for (job, shard) in draft.healed() {
        let healed = link.statement(&healed).with(SqlArg::Text(job.as_str()));
        link.run(healed.then(" AND shard = ").with(SqlArg::Int(shard.0.into()))).await?;
    }
    let each = draft.failed().map(|((job, shard), since)| {
        [SqlArg::Text(job.as_str()), SqlArg::Int(shard.0.into()), SqlArg::Int(since.0)]
    });
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT INTO {} (job, shard, since) VALUES ", link.table("failing"));
    link.insert((&before, ""), &rows).await
}

async fn save_events(link: &mut HistoryConnection, events: &[EventRecord]) -> Result<(), DatabaseError> {
    let texts: Vec<_> = events.iter().map(|event| plain(&event.text)).collect();
    let each = events.iter().zip(&texts).map(|(event, text)| {
        [
            SqlArg::Int(event.seq.cast_signed()),
            SqlArg::Int(event.at.0),
            SqlArg::Text(&event.node),
            SqlArg::Text(&event.kind),
            SqlArg::Text(text),
        ]
    });
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT INTO {} (seq, at, node, kind, text) VALUES ", link.table("event"));
    link.insert((&before, ""), &rows).await?;
    let of_jobs = events.iter().filter_map(|event| Some((event, event.job.as_ref()?)));
    let rows: Vec<_> = of_jobs
        .map(|(event, job)| {
            [SqlArg::Int(event.seq.cast_signed()), SqlArg::Int(event.at.0), SqlArg::Text(job.as_str())]
        })
        .collect();
    let before = format!("INSERT INTO {} (of_event, happened, job) VALUES ", link.table("event_job"));
    link.insert((&before, ""), &rows).await
}

async fn save_loads(
    link: &mut HistoryConnection,
    loads: impl Iterator<Item = &LoadPoint>,
) -> Result<(), DatabaseError> {
    let each = loads.map(|load| {
        [
            SqlArg::Text(&load.node),
            SqlArg::Int(load.at.0),
            SqlArg::Maybe(load.cpu.map(i64::from)),
            SqlArg::Maybe(load.memory.map(i64::from)),
            SqlArg::Int(load.busy.into()),
            SqlArg::Int(load.slots.into()),
            SqlArg::Int(load.score.into()),
        ]
    });
    let rows: Vec<_> = each.collect();
    let before =
        format!("INSERT INTO {} (node, at, cpu, memory, busy, slots, score) VALUES ", link.table("load"));
    let behind = link.dialect.update("node, at", &["cpu", "memory", "busy", "slots", "score"]);
    link.insert((&before, &behind), &rows).await
}

/// Stores the new notices until they are sent, and an event for each.
async fn save_notices(
    link: &mut HistoryConnection,
    draft: &mut BatchDraft,
) -> Result<Vec<Notice>, DatabaseError> {
    let wanted = std::mem::take(&mut draft.notices);
    let asked = format!("SELECT id FROM {} WHERE id IN ", link.table("notice"));
    let known = any_of(link, &asked, wanted.iter().map(|(notice, _)| notice.id.as_str())).await?;
    let known: BTreeSet<String> = known.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
    let (mut made, mut bodies) = (Vec::new(), Vec::new());
    for (mut notice, node) in wanted.into_iter().filter(|(notice, _)| !known.contains(&notice.id)) {
        draft.last.notice += 1;
        notice.seq = draft.last.notice;
        notice.text = plain(&notice.text).into_owned();
        draft.event((notice.at, &node), notice.occasion.kind(), Some(&notice.job), &notice.text);
        bodies.push((node, serde_json::to_string(&notice).map_err(|e| DatabaseError(e.to_string()))?));
        made.push(notice);
    }
    let each = made.iter().zip(&bodies).map(|(notice, (node, body))| {
        [
            SqlArg::Int(notice.seq),
            SqlArg::Text(&notice.id),
            SqlArg::Text(node),
            SqlArg::Int(notice.at.0),
            SqlArg::Text(body),
        ]
    });
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT INTO {} (seq, id, node, at, body) VALUES ", link.table("notice"));
    link.insert((&before, ""), &rows).await?;
    Ok(made)
}

/// Reads the notices that this node made in an earlier life and has not sent.
async fn unsent_notices(link: &mut HistoryConnection, node: &str) -> Result<Vec<Notice>, DatabaseError> {
    let asked = link.statement(format!("SELECT seq, body FROM {} WHERE node = ", link.table("notice")));
    let asked =
        asked.with(SqlArg::Text(node)).then(&format!(" AND told = 0 ORDER BY seq DESC LIMIT {UNSENT_MAX}"));
    let mut notices = Vec::new();
    for row in link.rows(asked).await?.iter().rev() {
        let seq = row.int(0)?;
        // A notice of a newer program is left alone.
        let notice = serde_json::from_str(&row.text(1)?).ok();
        notices.extend(notice.map(|notice: Notice| Notice { seq, ..notice }));
    }
    Ok(notices)
}

fn job(row: &HistoryRow, at: usize) -> Result<JobName, DatabaseError> {
    row.text(at)?.parse().map_err(|_| odd(at))
}
