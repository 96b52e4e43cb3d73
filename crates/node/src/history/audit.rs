//! The audit log: an entry is written before what it tells of is tried, and what came of it is written into it after.
//!
//! An outcome that stands is left alone. Whoever begins to write says first that what its earlier life left open is unknown.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::input::AskId;
use evenkeel_core::time::{Millis, Wall};
use evenkeel_registry::sql::{Arg, Statement};

use super::link::{Fault, Link, Row, odd};
use super::query::{LIMIT_MAX, Question};
use super::store::{any_of, change, plain};
use super::write::Entry;
use crate::audit::{Asker, AuditFilter, AuditRecord, Outcome, Proof};

/// The columns of an entry, in the order in which [`record`] reads them.
const COLUMNS: &str = "seq, id, at, node, proof, origin, claims, verb, object, job, about, outcome, rev_before, rev_after, \
                       what, request";
/// Those that change.
const CHANGING: [&str; 4] = ["outcome", "rev_before", "rev_after", "what"];
/// Entries are in the order in which history heard of them, and so nearly in that of their times: clocks and waits come
/// between. By this much they may be apart.
const APART: Millis = Millis::secs(3_600);

/// What is to become of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It stands as it is.
    Keep,
    /// It goes: nothing was decided here.
    Drop,
    /// It goes if the same request is told of as applied already, and else it stands.
    Repeat,
}

/// An entry as it is to stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Noted {
    pub(crate) record: AuditRecord,
    /// What names the request, where it is one that may be made again; empty otherwise.
    pub(crate) request: String,
    pub(crate) fate: Fate,
    /// Who waits until it is there for good.
    pub(crate) ask: Option<AskId>,
}

/// The part of a batch that is about the audit log.
#[derive(Debug, Default)]
pub(super) struct Audits {
    last: u64,
    lines: BTreeMap<String, Line>,
    /// Requests that were applied.
    made: BTreeSet<String>,
    gone: Vec<i64>,
}

#[derive(Debug)]
struct Line {
    record: AuditRecord,
    request: String,
    stored: bool,
    touched: bool,
}

impl Audits {
    /// Reads what the batch names.
    pub(super) async fn load(link: &mut Link, batch: &[Entry]) -> Result<Self, Fault> {
        let noted =
            |entry: &'_ Entry| if let Entry::Audit(noted) = entry { Some((**noted).clone()) } else { None };
        let noted: Vec<Noted> = batch.iter().filter_map(noted).collect();
        let mut audits = Self::default();
        if noted.is_empty() {
            return Ok(audits);
        }
        let table = link.table("audit");
        let last = link.rows(link.says(format!("SELECT coalesce(max(seq), 0) FROM {table}"))).await?;
        audits.last = last.first().ok_or_else(|| odd(0))?.number(0)?;
        let ids: BTreeSet<&str> = noted.iter().map(|noted| noted.record.id.as_str()).collect();
        let asked = format!("SELECT {COLUMNS} FROM {table} WHERE id IN ");
        for row in any_of(link, &asked, ids.into_iter()).await? {
            let (record, request) = (record(&row)?, row.text(15)?);
            audits.lines.insert(record.id.clone(), Line { record, request, stored: true, touched: false });
        }
        let repeated = noted.iter().filter(|noted| noted.fate == Fate::Repeat);
        let requests: BTreeSet<&str> = repeated.map(|noted| noted.request.as_str()).collect();
        let asked = format!(
            "SELECT request FROM {table} WHERE outcome = {} AND request IN ",
            number(Outcome::Applied)
        );
        for row in any_of(link, &asked, requests.into_iter()).await? {
            audits.made.insert(row.text(0)?);
        }
        Ok(audits)
    }

    /// Takes an entry of the batch.
    pub(super) fn take(&mut self, noted: &Noted) {
        let Noted { record, request, fate, .. } = noted;
        if *fate == Fate::Drop || (*fate == Fate::Repeat && self.made.contains(request)) {
            if let Some(line) = self.lines.remove(&record.id) {
                self.gone.extend(line.stored.then_some(line.record.seq.cast_signed()));
            }
            return;
        }
        if record.outcome == Outcome::Applied && !request.is_empty() {
            self.made.insert(request.clone());
        }
        match self.lines.get_mut(&record.id) {
            Some(line) if line.record.outcome.is_end() || record.outcome == Outcome::Asked => {}
            Some(line) => {
                line.record = AuditRecord { seq: line.record.seq, at: line.record.at, ..record.clone() };
                line.touched = true;
            }
            None => {
                self.last += 1;
                let record = AuditRecord { seq: self.last, ..record.clone() };
                let line = Line { record, request: request.clone(), stored: false, touched: true };
                self.lines.insert(line.record.id.clone(), line);
            }
        }
    }

    /// Writes what it came to.
    pub(super) async fn save(&mut self, link: &mut Link) -> Result<(), Fault> {
        let gone = std::mem::take(&mut self.gone);
        change(link, &format!("DELETE FROM {} WHERE seq IN ", link.table("audit")), gone).await?;
        let mut touched: Vec<&Line> = self.lines.values().filter(|line| line.touched).collect();
        touched.sort_by_key(|line| line.record.seq);
        let texts: Vec<_> = touched.iter().map(|line| texts(&line.record)).collect();
        let each = touched.iter().zip(&texts).map(|(line, [from, claims, object, what])| {
            let record = &line.record;
            [
                Arg::Int(record.seq.cast_signed()),
                Arg::Text(&record.id),
                Arg::Int(record.at.0),
                Arg::Text(&record.node),
                Arg::Text(record.asker.proof.as_str()),
                Arg::Text(from),
                Arg::Text(claims),
                Arg::Text(&record.verb),
                Arg::Text(object),
                Arg::Text(record.job.as_ref().map_or("", |job| job.as_str())),
                Arg::Text(record.about.as_ref().map_or("", |node| node.as_str())),
                Arg::Int(number(record.outcome)),
                Arg::Maybe(record.before.map(u64::cast_signed)),
                Arg::Maybe(record.after.map(u64::cast_signed)),
                Arg::Text(what),
                Arg::Text(&line.request),
            ]
        });
        let rows: Vec<_> = each.collect();
        let before = format!("INSERT INTO {} ({COLUMNS}) VALUES ", link.table("audit"));
        let behind = link.dialect.update("id", &CHANGING);
        link.insert((&before, &behind), &rows).await
    }
}

fn texts(record: &AuditRecord) -> [std::borrow::Cow<'_, str>; 4] {
    [plain(&record.asker.from), plain(&record.asker.claims), plain(&record.object), plain(&record.what)]
}

/// What an earlier life of this node asked for and did not see through nobody will tell any more.
pub(super) async fn close_earlier(link: &mut Link, name: &str) -> Result<(), Fault> {
    let (asked, unknown) = (number(Outcome::Asked), number(Outcome::Unknown));
    let text =
        format!("UPDATE {} SET outcome = {unknown} WHERE outcome = {asked} AND node = ", link.table("audit"));
    link.run(link.says(text).with(Arg::Text(name))).await.map(drop)
}

impl Question for AuditFilter {
    type Found = AuditRecord;

    async fn ask(&self, link: &mut Link) -> Result<Vec<AuditRecord>, Fault> {
        let either = |wanted: &Option<String>, columns: [&'static str; 2]| match wanted {
            Some(_) => columns.map(Some).to_vec(),
            None => vec![None],
        };
        let mut found = Vec::new();
        let before = bound(link, self).await?;
        // Each way apart: so each is found in the order of an index, and not sorted.
        for node in either(&self.node, ["node", "about"]) {
            for who in either(&self.who, ["proof", "claims"]) {
                let rows = link.rows(page(link, self, before, [node, who])).await?;
                found.extend(rows.iter().map(record).collect::<Result<Vec<_>, _>>()?);
            }
        }
        found.sort_by_key(|record| std::cmp::Reverse(record.seq));
        found.dedup_by_key(|record| record.seq);
        found.truncate(self.limit.min(LIMIT_MAX) as usize);
        Ok(found)
    }
}

/// Below which number all is that a page may show: where it is told until when, nothing is read that lies far beyond.
async fn bound(link: &mut Link, filter: &AuditFilter) -> Result<i64, Fault> {
    let before = filter.before.map_or(i64::MAX, u64::cast_signed);
    let Some(until) = filter.until else { return Ok(before) };
    let asked = link.says(format!("SELECT seq FROM {} WHERE at > ", link.table("audit")));
    let rows = link.rows(asked.with(Arg::Int((until + APART).0)).then(" ORDER BY at LIMIT 1")).await?;
    rows.first().map_or(Ok(before), |row| Ok(before.min(row.int(0)?)))
}

fn page<'a>(
    link: &Link,
    filter: &'a AuditFilter,
    before: i64,
    [node, who]: [Option<&str>; 2],
) -> Statement<'a> {
    let table = link.table("audit");
    let mut asked = link.says(format!("SELECT {COLUMNS} FROM {table} WHERE seq < ")).with(Arg::Int(before));
    // This bound of time is told as one of the order too, to the same end.
    if let Some(since) = filter.since {
        let first = format!(" AND seq >= coalesce((SELECT seq FROM {table} WHERE at < ");
        asked = asked.then(" AND at >= ").with(Arg::Int(since.0));
        asked = asked.then(&first).with(Arg::Int((since - APART).0)).then(" ORDER BY at DESC LIMIT 1), 0)");
    }
    if let Some(until) = filter.until {
        asked = asked.then(" AND at <= ").with(Arg::Int(until.0));
    }
    let job = filter.job.as_ref().map(|job| job.as_str());
    let given = [(Some("job"), job), (node, filter.node.as_deref()), (who, filter.who.as_deref())];
    let given: Vec<_> = given.into_iter().filter_map(|(column, wanted)| column.zip(wanted)).collect();
    // By the one that most likely has the fewest entries; the others only look at what that finds.
    let narrow =
        ["job", "claims", "about"].into_iter().find(|name| given.iter().any(|(column, _)| column == name));
    for (column, wanted) in given {
        let column = match narrow {
            Some(narrow) if narrow != column => format!("coalesce({column}, '')"),
            _ => column.to_owned(),
        };
        asked = asked.then(&format!(" AND {column} = ")).with(Arg::Text(wanted));
    }
    asked.then(&format!(" ORDER BY seq DESC LIMIT {}", filter.limit.min(LIMIT_MAX)))
}

/// An entry from a row of [`COLUMNS`].
fn record(row: &Row) -> Result<AuditRecord, Fault> {
    let outcome = usize::try_from(row.int(11)?).ok().and_then(|n| Outcome::ALL.get(n).copied());
    let name = |at| row.text(at).map(|text| Some(text).filter(|text| !text.is_empty()));
    let version = |at| row.maybe(at).map(|version| version.map(i64::cast_unsigned));
    Ok(AuditRecord {
        seq: row.int(0)?.cast_unsigned(),
        id: row.text(1)?,
        at: Wall(row.int(2)?),
        node: row.text(3)?,
        asker: Asker {
            proof: Proof::parse(&row.text(4)?).ok_or_else(|| odd(4))?,
            from: row.text(5)?,
            claims: row.text(6)?,
        },
        verb: row.text(7)?,
        object: row.text(8)?,
        job: name(9)?.map(|job| job.parse()).transpose().map_err(|_| odd(9))?,
        about: name(10)?.map(|node| node.parse()).transpose().map_err(|_| odd(10))?,
        outcome: outcome.ok_or_else(|| odd(11))?,
        before: version(12)?,
        after: version(13)?,
        what: row.text(14)?,
    })
}

/// An outcome as the tables have it.
fn number(outcome: Outcome) -> i64 {
    Outcome::ALL.iter().position(|o| *o == outcome).map_or(0, |n| n as i64)
}
