//! The tables of the audit log: an entry is written before its change is tried, and the outcome is written into it
//! after.
//!
//! A final outcome is never overwritten. A writer starts by setting the open outcomes of its earlier lives to unknown.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::input::CommandId;
use evenkeel_core::time::{Millis, Wall};
use evenkeel_registry::sql::{SqlArg, SqlStatement};

use super::connection::{DatabaseError, HistoryConnection, HistoryRow, odd};
use super::entry::HistoryWrite;
use super::history_query::{HistoryQuery, LIMIT_MAX};
use super::namespace::JobsOfNamespace;
use super::rows::{any_of, change, plain};
use crate::audit::{AuditFilter, AuditOutcome, AuditRecord, Proof, Requester};

/// The columns of an entry, in the order in which [`record`] reads them.
const COLUMNS: &str = "seq, id, at, node, proof, origin, claims, verb, object, job, about, outcome, rev_before, rev_after, \
                       what, request";
/// The columns that change.
const CHANGING: [&str; 4] = ["outcome", "rev_before", "rev_after", "what"];
/// Entries are in the order in which history received them, which is nearly that of their times: clocks and waits
/// differ. Their times may be out of order by this much.
const APART: Millis = Millis::secs(3_600);

/// What happens to an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuditDisposition {
    /// It stands as it is.
    Keep,
    /// It is deleted: nothing was decided here.
    Drop,
    /// It is deleted if the same request has an applied entry already; otherwise it stays.
    Repeat,
}

/// An entry as it should be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AuditEntry {
    pub(crate) record: AuditRecord,
    /// The id of a request that may be repeated; empty otherwise.
    pub(crate) request: String,
    pub(crate) fate: AuditDisposition,
    /// The command that waits until the entry is durable.
    pub(crate) ask: Option<CommandId>,
}

/// The part of a batch that is about the audit log.
#[derive(Debug, Default)]
pub(super) struct AuditBatch {
    last: u64,
    drafts: BTreeMap<String, AuditDraft>,
    /// Requests that were applied.
    applied_requests: BTreeSet<String>,
    gone: Vec<i64>,
}

#[derive(Debug)]
struct AuditDraft {
    record: AuditRecord,
    request: String,
    stored: bool,
    touched: bool,
}

impl AuditBatch {
    /// Reads the rows that the batch names.
    pub(super) async fn load(
        link: &mut HistoryConnection,
        batch: &[HistoryWrite],
    ) -> Result<Self, DatabaseError> {
        let noted = |entry: &'_ HistoryWrite| {
            if let HistoryWrite::Audit(noted) = entry { Some((**noted).clone()) } else { None }
        };
        let noted: Vec<AuditEntry> = batch.iter().filter_map(noted).collect();
        let mut audits = Self::default();
        if noted.is_empty() {
            return Ok(audits);
        }
        let table = link.table("audit");
        let last = link.rows(link.statement(format!("SELECT coalesce(max(seq), 0) FROM {table}"))).await?;
        audits.last = last.first().ok_or_else(|| odd(0))?.number(0)?;
        let ids: BTreeSet<&str> = noted.iter().map(|noted| noted.record.id.as_str()).collect();
        let asked = format!("SELECT {COLUMNS} FROM {table} WHERE id IN ");
        for row in any_of(link, &asked, ids.into_iter()).await? {
            let (record, request) = (record(&row)?, row.text(15)?);
            audits
                .drafts
                .insert(record.id.clone(), AuditDraft { record, request, stored: true, touched: false });
        }
        let repeated = noted.iter().filter(|noted| noted.fate == AuditDisposition::Repeat);
        let requests: BTreeSet<&str> = repeated.map(|noted| noted.request.as_str()).collect();
        let asked = format!(
            "SELECT request FROM {table} WHERE outcome = {} AND request IN ",
            number(AuditOutcome::Applied)
        );
        for row in any_of(link, &asked, requests.into_iter()).await? {
            audits.applied_requests.insert(row.text(0)?);
        }
        Ok(audits)
    }

    /// Takes an entry of the batch.
    pub(super) fn take(&mut self, noted: &AuditEntry) {
        let AuditEntry { record, request, fate, .. } = noted;
        if *fate == AuditDisposition::Drop
            || (*fate == AuditDisposition::Repeat && self.applied_requests.contains(request))
        {
            if let Some(line) = self.drafts.remove(&record.id) {
                self.gone.extend(line.stored.then_some(line.record.seq.cast_signed()));
            }
            return;
        }
        if record.outcome == AuditOutcome::Applied && !request.is_empty() {
            self.applied_requests.insert(request.clone());
        }
        match self.drafts.get_mut(&record.id) {
            Some(line) if line.record.outcome.is_end() || record.outcome == AuditOutcome::Asked => {}
            Some(line) => {
                line.record = AuditRecord { seq: line.record.seq, at: line.record.at, ..record.clone() };
                line.touched = true;
            }
            None => {
                self.last += 1;
                let record = AuditRecord { seq: self.last, ..record.clone() };
                let line = AuditDraft { record, request: request.clone(), stored: false, touched: true };
                self.drafts.insert(line.record.id.clone(), line);
            }
        }
    }

    /// Writes the batch's results.
    pub(super) async fn save(&mut self, link: &mut HistoryConnection) -> Result<(), DatabaseError> {
        let gone = std::mem::take(&mut self.gone);
        change(link, &format!("DELETE FROM {} WHERE seq IN ", link.table("audit")), gone).await?;
        let mut touched: Vec<&AuditDraft> = self.drafts.values().filter(|line| line.touched).collect();
        touched.sort_by_key(|line| line.record.seq);
        let proofs: Vec<String> = touched.iter().map(|line| line.record.asker.proof.to_string()).collect();
        let texts: Vec<_> = touched.iter().map(|line| texts(&line.record)).zip(&proofs).collect();
        let each = touched.iter().zip(&texts).map(|(line, ([from, claims, object, what], proof))| {
            let record = &line.record;
            [
                SqlArg::Int(record.seq.cast_signed()),
                SqlArg::Text(&record.id),
                SqlArg::Int(record.at.0),
                SqlArg::Text(&record.node),
                SqlArg::Text(proof),
                SqlArg::Text(from),
                SqlArg::Text(claims),
                SqlArg::Text(&record.verb),
                SqlArg::Text(object),
                SqlArg::Text(record.job.as_ref().map_or("", |job| job.as_str())),
                SqlArg::Text(record.about.as_ref().map_or("", |node| node.as_str())),
                SqlArg::Int(number(record.outcome)),
                SqlArg::Maybe(record.before.map(u64::cast_signed)),
                SqlArg::Maybe(record.after.map(u64::cast_signed)),
                SqlArg::Text(what),
                SqlArg::Text(&line.request),
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

/// Sets outcomes that an earlier life of this node left open to unknown: nothing else will ever write them.
pub(super) async fn close_earlier(link: &mut HistoryConnection, name: &str) -> Result<(), DatabaseError> {
    let (asked, unknown) = (number(AuditOutcome::Asked), number(AuditOutcome::Unknown));
    let text =
        format!("UPDATE {} SET outcome = {unknown} WHERE outcome = {asked} AND node = ", link.table("audit"));
    link.run(link.statement(text).with(SqlArg::Text(name))).await.map(drop)
}

impl HistoryQuery for AuditFilter {
    type Item = AuditRecord;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<AuditRecord>, DatabaseError> {
        let either = |wanted: &Option<String>, columns: [&'static str; 2]| match wanted {
            Some(_) => columns.map(Some).to_vec(),
            None => vec![None],
        };
        let mut found = Vec::new();
        let before = bound(link, self).await?;
        let jobs = self.namespace.as_ref().map(JobsOfNamespace::of);
        // Each column separately: then an index gives the order, and nothing is sorted.
        for node in either(&self.node, ["node", "about"]) {
            for who in either(&self.who, ["proof", "claims"]) {
                let rows = link.rows(page(link, self, (before, jobs.as_ref()), [node, who])).await?;
                found.extend(rows.iter().map(record).collect::<Result<Vec<_>, _>>()?);
            }
        }
        found.sort_by_key(|record| std::cmp::Reverse(record.seq));
        found.dedup_by_key(|record| record.seq);
        found.truncate(self.limit.min(LIMIT_MAX) as usize);
        Ok(found)
    }
}

/// An upper bound of the sequence numbers on a page: with an end of time given, rows far beyond are not read.
async fn bound(link: &mut HistoryConnection, filter: &AuditFilter) -> Result<i64, DatabaseError> {
    let before = filter.before.map_or(i64::MAX, u64::cast_signed);
    let Some(until) = filter.until else { return Ok(before) };
    let asked = link.statement(format!("SELECT seq FROM {} WHERE at > ", link.table("audit")));
    let rows = link.rows(asked.with(SqlArg::Int((until + APART).0)).then(" ORDER BY at LIMIT 1")).await?;
    rows.first().map_or(Ok(before), |row| Ok(before.min(row.int(0)?)))
}

fn page<'a>(
    link: &HistoryConnection,
    filter: &'a AuditFilter,
    (before, jobs): (i64, Option<&'a JobsOfNamespace>),
    [node, who]: [Option<&str>; 2],
) -> SqlStatement<'a> {
    let table = link.table("audit");
    let mut asked =
        link.statement(format!("SELECT {COLUMNS} FROM {table} WHERE seq < ")).with(SqlArg::Int(before));
    // A lower bound of time is turned into a sequence number too, to the same end.
    if let Some(since) = filter.since {
        let first = format!(" AND seq >= coalesce((SELECT seq FROM {table} WHERE at < ");
        asked = asked.then(" AND at >= ").with(SqlArg::Int(since.0));
        asked =
            asked.then(&first).with(SqlArg::Int((since - APART).0)).then(" ORDER BY at DESC LIMIT 1), 0)");
    }
    if let Some(until) = filter.until {
        asked = asked.then(" AND at <= ").with(SqlArg::Int(until.0));
    }
    if let Some(jobs) = jobs {
        asked = jobs.narrow(asked);
    }
    let job = filter.job.as_ref().map(|job| job.as_str());
    let given = [(Some("job"), job), (node, filter.node.as_deref()), (who, filter.who.as_deref())];
    let given: Vec<_> = given.into_iter().filter_map(|(column, wanted)| column.zip(wanted)).collect();
    // By the filter that most likely has the fewest entries; the others only filter its rows.
    let narrow =
        ["job", "claims", "about"].into_iter().find(|name| given.iter().any(|(column, _)| column == name));
    for (column, wanted) in given {
        let column = match narrow {
            Some(narrow) if narrow != column => format!("coalesce({column}, '')"),
            _ => column.to_owned(),
        };
        asked = asked.then(&format!(" AND {column} = ")).with(SqlArg::Text(wanted));
    }
    asked.then(&format!(" ORDER BY seq DESC LIMIT {}", filter.limit.min(LIMIT_MAX)))
}

/// An entry from a row of [`COLUMNS`].
fn record(row: &HistoryRow) -> Result<AuditRecord, DatabaseError> {
    let outcome = usize::try_from(row.int(11)?).ok().and_then(|n| AuditOutcome::ALL.get(n).copied());
    let name = |at| row.text(at).map(|text| Some(text).filter(|text| !text.is_empty()));
    let version = |at| row.maybe(at).map(|version| version.map(i64::cast_unsigned));
    Ok(AuditRecord {
        seq: row.int(0)?.cast_unsigned(),
        id: row.text(1)?,
        at: Wall(row.int(2)?),
        node: row.text(3)?,
        asker: Requester {
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
fn number(outcome: AuditOutcome) -> i64 {
    AuditOutcome::ALL.iter().position(|o| *o == outcome).map_or(0, |n| n as i64)
}
