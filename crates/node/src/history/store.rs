//! The statements of a batch: what it names is read, and what it came to is written, many rows at a time.

use std::borrow::Cow;
use std::collections::BTreeSet;

use evenkeel_core::time::Wall;
use evenkeel_core::words::{JobName, RunId, Shard, Token};
use evenkeel_registry::sql::{Arg, ROWS_MAX};

use super::audit::{self, Audits};
use super::draft::{Draft, Last, shards_of};
use super::link::{Fault, Link, Row, odd};
use super::notice::Notice;
use super::record::{EventRecord, LoadPoint, RunRecord, State};
use super::write::{Entry, Stamp};

/// The columns of an attempt, in the order in which [`record`] reads them.
pub(super) const COLUMNS: &str = "seq, run, attempt, job, shard, due, node, state, reason, code, token, started, ended, \
                                  since, output, sent";
/// Those that change.
const CHANGING: [&str; 9] =
    ["node", "state", "reason", "code", "token", "started", "ended", "output", "sent"];

/// So many notices that an earlier life left untold are told in the next one.
const UNTOLD_MAX: i64 = 200;

/// Where no more shards fail than this all are read, rather than looked for by each of more jobs than this.
pub(super) const FEW: usize = 100;

/// Begins a life of a node: its batches are told from those of its earlier lives.
///
/// # Errors
/// The database cannot be written to.
pub(super) async fn enter(link: &mut Link, name: &str, now: Wall) -> Result<i64, Fault> {
    link.lock().await?;
    let known = link.says(format!("SELECT max(life) FROM {} WHERE name = ", link.table("writer")));
    let known = link.rows(known.with(Arg::Text(name))).await?;
    let life = known.first().map_or(Ok(None), |row| row.maybe(0))?.unwrap_or_default() + 1;
    mark(link, &Stamp { name: name.into(), life, batch: 0 }, now).await?;
    audit::close_earlier(link, name).await?;
    link.commit().await?;
    Ok(life)
}

/// Whether this batch is there already.
pub(super) async fn has(link: &mut Link, stamp: &Stamp) -> Result<bool, Fault> {
    let asked = link.says(format!("SELECT batch FROM {} WHERE name = ", link.table("writer")));
    let asked = asked.with(Arg::Text(&stamp.name)).then(" AND life = ").with(Arg::Int(stamp.life));
    match link.rows(asked).await?.first() {
        Some(row) => Ok(row.int(0)? == stamp.batch),
        None => Ok(false),
    }
}

async fn mark(link: &mut Link, stamp: &Stamp, now: Wall) -> Result<(), Fault> {
    let Stamp { name, life, batch } = stamp;
    let mark = link.says(format!("INSERT INTO {} (name, life, batch, at) VALUES ", link.table("writer")));
    let mark = mark.rows([[Arg::Text(name), Arg::Int(*life), Arg::Int(*batch), Arg::Int(now.0)]]);
    let mark = mark.then(&link.dialect.update("name, life", &["batch", "at"]));
    link.run(mark).await.map(drop)
}

/// Reads what the batch names.
pub(super) async fn load(link: &mut Link, batch: &[Entry], now: Wall) -> Result<Draft, Fault> {
    let mut draft = Draft::new(now, last(link).await?);
    draft.audits = Audits::load(link, batch).await?;
    let (mut runs, mut jobs) = (Vec::new(), BTreeSet::new());
    for entry in batch {
        match entry {
            Entry::Attempt(record) => runs.push(record.run.to_string()),
            Entry::NotStarted { run, .. } => runs.push(run.to_string()),
            Entry::Outcome(record, _) => {
                runs.push(record.run.to_string());
                jobs.insert(record.job.as_str());
            }
            Entry::Verdict(verdict, _) => {
                let run = |shard| RunId { shard, ..verdict.run.clone() }.to_string();
                runs.extend(shards_of(verdict).map(run));
                jobs.insert(verdict.run.job.as_str());
            }
            Entry::Notice(..)
            | Entry::Noticed(_)
            | Entry::Untold(_)
            | Entry::Load(_)
            | Entry::Audit(_)
            | Entry::Event { .. } => {}
        }
    }
    runs.sort_unstable();
    runs.dedup();
    let asked = format!("SELECT {COLUMNS} FROM {} WHERE run IN ", link.table("attempt"));
    for row in any_of(link, &asked, runs.iter().map(String::as_str)).await? {
        draft.found(record(&row)?);
    }
    for row in failing(link, &jobs).await? {
        draft.found_failing(job(&row, 0)?, Shard(row.number(1)?), Wall(row.int(2)?));
    }
    Ok(draft)
}

/// Which shards of these jobs fail, and perhaps of others: where few do, all are read, and not one job after another.
async fn failing(link: &mut Link, jobs: &BTreeSet<&str>) -> Result<Vec<Row>, Fault> {
    let asked = format!("SELECT job, shard, since FROM {}", link.table("failing"));
    if jobs.len() > FEW {
        let all = link.rows(link.says(format!("{asked} LIMIT {}", FEW + 1))).await?;
        if all.len() <= FEW {
            return Ok(all);
        }
    }
    any_of(link, &format!("{asked} WHERE job IN "), jobs.iter().copied()).await
}

/// The last number given in each list.
async fn last(link: &mut Link) -> Result<Last, Fault> {
    let [attempt, event, notice] = ["attempt", "event", "notice"]
        .map(|table| format!("coalesce((SELECT max(seq) FROM {}), 0)", link.table(table)));
    let asked = format!("SELECT {attempt}, {event}, {notice}");
    let rows = link.rows(link.says(asked)).await?;
    let row = rows.first().ok_or_else(|| odd(0))?;
    Ok(Last { attempt: row.number(0)?, event: row.number(1)?, notice: row.int(2)? })
}

/// Asks for many at once.
pub(super) async fn any_of<'a>(
    link: &mut Link,
    text: &str,
    these: impl Iterator<Item = &'a str>,
) -> Result<Vec<Row>, Fault> {
    let (these, mut found): (Vec<_>, _) = (these.collect(), Vec::new());
    for some in these.chunks(ROWS_MAX) {
        let asked = link.says(text).any_of(some.iter().map(|text| Arg::Text(text)));
        found.extend(link.rows(asked).await?);
    }
    Ok(found)
}

/// Writes what a batch came to, and returns what is to be told: what earlier lives left, and what is new.
pub(super) async fn save(link: &mut Link, draft: &mut Draft, stamp: &Stamp) -> Result<Vec<Notice>, Fault> {
    let told = std::mem::take(&mut draft.told);
    change(link, &format!("UPDATE {} SET told = 1 WHERE seq IN ", link.table("notice")), told).await?;
    let mut notices = Vec::new();
    for node in std::mem::take(&mut draft.untold) {
        notices.extend(untold(link, &node).await?);
    }
    notices.extend(save_notices(link, draft).await?);
    let gone = draft.gone.iter().map(|seq| seq.cast_signed()).collect();
    change(link, &format!("DELETE FROM {} WHERE seq IN ", link.table("attempt")), gone).await?;
    save_attempts(link, &draft.touched()).await?;
    save_late(link, draft).await?;
    save_failing(link, draft).await?;
    save_events(link, &draft.events).await?;
    save_loads(link, draft.loads.values()).await?;
    draft.audits.save(link).await?;
    mark(link, stamp, draft.now).await?;
    Ok(notices)
}

/// Changes or deletes the rows of these numbers.
pub(super) async fn change(link: &mut Link, text: &str, rows: Vec<i64>) -> Result<(), Fault> {
    for some in rows.chunks(ROWS_MAX) {
        let these = link.says(text).any_of(some.iter().map(|seq| Arg::Int(*seq)));
        link.run(these).await?;
    }
    Ok(())
}

async fn save_attempts(link: &mut Link, records: &[&RunRecord]) -> Result<(), Fault> {
    let texts: Vec<_> = records
        .iter()
        .map(|record| (record.run.to_string(), plain(&record.reason), plain(&record.sent)))
        .collect();
    let each = records.iter().zip(&texts).map(|(record, (run, reason, sent))| {
        [
            Arg::Int(record.seq.cast_signed()),
            Arg::Text(run),
            Arg::Int(record.attempt.into()),
            Arg::Text(record.job.as_str()),
            Arg::Int(record.shard.0.into()),
            Arg::Int(record.due.0),
            Arg::Text(&record.node),
            Arg::Int(number(record.state)),
            Arg::Text(reason),
            Arg::Maybe(record.code.map(i64::from)),
            Arg::Maybe(record.token.map(|token| token.0.cast_signed())),
            Arg::Maybe(record.started.map(|at| at.0)),
            Arg::Maybe(record.ended.map(|at| at.0)),
            Arg::Int(record.from.0),
            Arg::Int(record.output.cast_signed()),
            Arg::Text(sent),
        ]
    });
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT INTO {} ({COLUMNS}) VALUES ", link.table("attempt"));
    let behind = link.dialect.update("run, attempt", &CHANGING);
    link.insert((&before, &behind), &rows).await
}

async fn save_late(link: &mut Link, draft: &Draft) -> Result<(), Fault> {
    let runs: Vec<_> =
        draft.late.iter().map(|(late, reason)| (late.run.to_string(), plain(reason))).collect();
    let each = draft.late.keys().zip(&runs).map(|(late, (run, reason))| {
        [
            Arg::Text(run),
            Arg::Int(late.attempt.into()),
            Arg::Text(&late.node),
            Arg::Int(number(late.state)),
            Arg::Text(reason),
            Arg::Int(draft.now.0),
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

async fn save_failing(link: &mut Link, draft: &Draft) -> Result<(), Fault> {
    let healed = format!("DELETE FROM {} WHERE job = ", link.table("failing"));
    for (job, shard) in draft.healed() {
        let healed = link.says(&healed).with(Arg::Text(job.as_str()));
        link.run(healed.then(" AND shard = ").with(Arg::Int(shard.0.into()))).await?;
    }
    let each = draft
        .failed()
        .map(|((job, shard), since)| [Arg::Text(job.as_str()), Arg::Int(shard.0.into()), Arg::Int(since.0)]);
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT INTO {} (job, shard, since) VALUES ", link.table("failing"));
    link.insert((&before, ""), &rows).await
}

async fn save_events(link: &mut Link, events: &[EventRecord]) -> Result<(), Fault> {
    let texts: Vec<_> = events.iter().map(|event| plain(&event.text)).collect();
    let each = events.iter().zip(&texts).map(|(event, text)| {
        [
            Arg::Int(event.seq.cast_signed()),
            Arg::Int(event.at.0),
            Arg::Text(&event.node),
            Arg::Text(&event.kind),
            Arg::Text(text),
        ]
    });
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT INTO {} (seq, at, node, kind, text) VALUES ", link.table("event"));
    link.insert((&before, ""), &rows).await
}

async fn save_loads(link: &mut Link, loads: impl Iterator<Item = &LoadPoint>) -> Result<(), Fault> {
    let each = loads.map(|load| {
        [
            Arg::Text(&load.node),
            Arg::Int(load.at.0),
            Arg::Maybe(load.cpu.map(i64::from)),
            Arg::Maybe(load.memory.map(i64::from)),
            Arg::Int(load.busy.into()),
            Arg::Int(load.slots.into()),
            Arg::Int(load.score.into()),
        ]
    });
    let rows: Vec<_> = each.collect();
    let before =
        format!("INSERT INTO {} (node, at, cpu, memory, busy, slots, score) VALUES ", link.table("load"));
    let behind = link.dialect.update("node, at", &["cpu", "memory", "busy", "slots", "score"]);
    link.insert((&before, &behind), &rows).await
}

/// Keeps the notices that are not there already until they are told, and an event of each.
async fn save_notices(link: &mut Link, draft: &mut Draft) -> Result<Vec<Notice>, Fault> {
    let wanted = std::mem::take(&mut draft.notices);
    let asked = format!("SELECT id FROM {} WHERE id IN ", link.table("notice"));
    let known = any_of(link, &asked, wanted.iter().map(|(notice, _)| notice.id.as_str())).await?;
    let known: BTreeSet<String> = known.iter().map(|row| row.text(0)).collect::<Result<_, _>>()?;
    let (mut made, mut bodies) = (Vec::new(), Vec::new());
    for (mut notice, node) in wanted.into_iter().filter(|(notice, _)| !known.contains(&notice.id)) {
        draft.last.notice += 1;
        notice.seq = draft.last.notice;
        notice.text = plain(&notice.text).into_owned();
        draft.event(notice.at, &node, notice.occasion.kind(), &notice.text);
        bodies.push((node, serde_json::to_string(&notice).map_err(|e| Fault(e.to_string()))?));
        made.push(notice);
    }
    let each = made.iter().zip(&bodies).map(|(notice, (node, body))| {
        [Arg::Int(notice.seq), Arg::Text(&notice.id), Arg::Text(node), Arg::Int(notice.at.0), Arg::Text(body)]
    });
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT INTO {} (seq, id, node, at, body) VALUES ", link.table("notice"));
    link.insert((&before, ""), &rows).await?;
    Ok(made)
}

/// What this node made in an earlier life and has not told.
async fn untold(link: &mut Link, node: &str) -> Result<Vec<Notice>, Fault> {
    let asked = link.says(format!("SELECT seq, body FROM {} WHERE node = ", link.table("notice")));
    let asked =
        asked.with(Arg::Text(node)).then(&format!(" AND told = 0 ORDER BY seq DESC LIMIT {UNTOLD_MAX}"));
    let mut notices = Vec::new();
    for row in link.rows(asked).await?.iter().rev() {
        let seq = row.int(0)?;
        // One of a newer program's is left alone.
        let notice = serde_json::from_str(&row.text(1)?).ok();
        notices.extend(notice.map(|notice: Notice| Notice { seq, ..notice }));
    }
    Ok(notices)
}

/// An attempt from a row of [`COLUMNS`].
pub(super) fn record(row: &Row) -> Result<RunRecord, Fault> {
    let run: RunId = row.text(1)?.parse().map_err(|_| odd(1))?;
    let wall = |column| row.maybe(column).map(|at| at.map(Wall));
    Ok(RunRecord {
        seq: row.int(0)?.cast_unsigned(),
        attempt: row.number(2)?,
        job: run.job.clone(),
        shard: run.shard,
        run,
        due: Wall(row.int(5)?),
        node: row.text(6)?,
        state: state(row.int(7)?).ok_or_else(|| odd(7))?,
        reason: row.text(8)?,
        code: row.maybe_number(9)?,
        token: row.maybe(10)?.map(|token| Token(token.cast_unsigned())),
        started: wall(11)?,
        ended: wall(12)?,
        from: Wall(row.int(13)?),
        output: row.int(14)?.cast_unsigned(),
        sent: row.text(15)?,
    })
}

fn job(row: &Row, at: usize) -> Result<JobName, Fault> {
    row.text(at)?.parse().map_err(|_| odd(at))
}

/// A text without the one character that PostgreSQL cannot keep.
pub(super) fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}

/// A state as the tables have it.
pub(super) fn number(state: State) -> i64 {
    State::ALL.iter().position(|s| *s == state).map_or(0, |n| n as i64)
}

/// The way back.
fn state(number: i64) -> Option<State> {
    State::ALL.get(usize::try_from(number).ok()?).copied()
}
