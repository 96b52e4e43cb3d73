//! The table of job versions: the node that changes a declaration writes the new one, and the one that it replaces.
//!
//! A job and a version are the key, so what is written twice is there once. The replaced version never overwrites one
//! of which more is known: it is there for the case that the node that made it died before its history had it.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::ids::JobName;
use evenkeel_core::job::Job;
use evenkeel_core::time::Wall;
use evenkeel_registry::sql::{ROWS_MAX, SqlArg};

use super::connection::{DatabaseError, HistoryConnection, HistoryRow, odd};
use super::history_query::{HistoryQuery, LIMIT_MAX};
use super::rows::plain;
use crate::audit::{Proof, Requester};
use crate::job_version::{JobChange, JobVersion, JobVersionFilter};

/// How many versions of a job are kept.
pub(super) const KEPT: u32 = 50;
/// The columns, in the order in which [`version`] reads them.
const COLUMNS: &str = "job, version, at, node, proof, origin, claims, kind, restored, declared";
/// The columns that change when more becomes known of a version.
const CHANGING: [&str; 9] =
    ["at", "node", "proof", "origin", "claims", "kind", "restored", "declared", "replaced"];

/// What a change of a job's declaration leaves in history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobVersionEntry {
    /// The new version, without its declaration.
    pub(crate) version: JobVersion,
    /// What is declared; `None` if the job was deleted.
    pub(crate) job: Option<Box<Job>>,
    /// The version that it replaces.
    pub(crate) replaced: Option<(u64, Box<Job>)>,
}

impl JobVersionEntry {
    /// The new version with its declaration, and the replaced one. They are written as JSON here, on the thread of history.
    fn rows(&self) -> (JobVersion, Option<JobVersion>) {
        // Without a text the version would be that of a deletion.
        let text = |job: &Job| serde_json::to_string(job).expect("declarations are plain data");
        let declared = self.job.as_deref().map(text);
        let replaced = self.replaced.as_ref().map(|(version, job)| JobVersion {
            version: *version,
            asker: None,
            change: JobChange::Found,
            restored: None,
            declared: Some(text(job)),
            ..self.version.clone()
        });
        (JobVersion { declared, ..self.version.clone() }, replaced)
    }
}

/// The versions of a batch.
#[derive(Debug, Default)]
pub(super) struct JobVersionBatch {
    written: BTreeMap<(JobName, u64), VersionDraft>,
    found: BTreeMap<(JobName, u64), VersionDraft>,
}

/// A version, and when it was replaced: from then on its age counts. A deletion counts as replaced at once.
#[derive(Debug)]
struct VersionDraft {
    version: JobVersion,
    replaced: Option<Wall>,
}

impl JobVersionBatch {
    /// Takes an entry of the batch.
    pub(super) fn take(&mut self, entry: &JobVersionEntry) {
        let (version, replaced) = entry.rows();
        let at = version.at;
        if let Some(found) = replaced {
            let key = (found.job.clone(), found.version);
            if let Some(known) = self.written.get_mut(&key) {
                known.replaced = Some(at);
            } else {
                self.found.entry(key).or_insert(VersionDraft { version: found, replaced: Some(at) });
            }
        }
        let key = (version.job.clone(), version.version);
        self.found.remove(&key);
        let replaced = (version.change == JobChange::Deleted).then_some(at);
        self.written.insert(key, VersionDraft { version, replaced });
    }

    /// The jobs with new versions.
    pub(super) fn jobs(&self) -> BTreeSet<JobName> {
        self.written.keys().map(|(job, _)| job.clone()).collect()
    }

    /// Writes the batch's versions.
    pub(super) async fn save(&self, link: &mut HistoryConnection) -> Result<(), DatabaseError> {
        let Some(first) = self.written.values().map(|draft| draft.version.at).min() else { return Ok(()) };
        let table = link.table("job_version");
        let jobs: Vec<JobName> = self.jobs().into_iter().collect();
        for some in jobs.chunks(ROWS_MAX) {
            let replaced =
                link.statement(format!("UPDATE {table} SET replaced = ")).with(SqlArg::Int(first.0));
            let replaced = replaced.then(" WHERE replaced IS NULL AND at <= ").with(SqlArg::Int(first.0));
            let replaced = replaced.then(" AND job IN ");
            link.run(replaced.any_of(some.iter().map(|job| SqlArg::Text(job.as_str())))).await?;
        }
        let (ignore, behind) = link.dialect.ignore;
        insert(link, (ignore, behind), &self.found).await?;
        let behind = link.dialect.update("job, version", &CHANGING);
        insert(link, ("", &behind), &self.written).await
    }
}

async fn insert(
    link: &mut HistoryConnection,
    (ignore, behind): (&str, &str),
    drafts: &BTreeMap<(JobName, u64), VersionDraft>,
) -> Result<(), DatabaseError> {
    let texts: Vec<_> = drafts
        .values()
        .map(|VersionDraft { version, .. }| {
            let asker = version.asker.as_ref();
            let proof = asker.map(|asker| asker.proof.to_string()).unwrap_or_default();
            let [from, claims] = [asker.map(|asker| &asker.from), asker.map(|asker| &asker.claims)]
                .map(|text| plain(text.map_or("", String::as_str)));
            (proof, from, claims, plain(version.declared.as_deref().unwrap_or_default()))
        })
        .collect();
    let each = drafts.values().zip(&texts).map(|(draft, (proof, from, claims, declared))| {
        let version = &draft.version;
        [
            SqlArg::Text(version.job.as_str()),
            SqlArg::Int(version.version.cast_signed()),
            SqlArg::Int(version.at.0),
            SqlArg::Text(&version.node),
            SqlArg::Text(proof),
            SqlArg::Text(from),
            SqlArg::Text(claims),
            SqlArg::Text(version.change.as_str()),
            SqlArg::Maybe(version.restored.map(u64::cast_signed)),
            SqlArg::Text(declared),
            SqlArg::Maybe(draft.replaced.map(|at| at.0)),
        ]
    });
    let rows: Vec<_> = each.collect();
    let before = format!("INSERT {ignore}INTO {} ({COLUMNS}, replaced) VALUES ", link.table("job_version"));
    link.insert((&before, behind), &rows).await
}

/// Deletes the versions of these jobs beyond the latest ones.
pub(super) async fn trim(link: &mut HistoryConnection, jobs: &[JobName]) -> Result<(), DatabaseError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let table = link.table("job_version");
    let many = link.statement(format!("SELECT job FROM {table} WHERE job IN "));
    let many = many.any_of(jobs.iter().map(|job| SqlArg::Text(job.as_str())));
    let many = link.rows(many.then(&format!(" GROUP BY job HAVING count(*) > {KEPT}"))).await?;
    for row in many {
        let job = row.text(0)?;
        let last = link.statement(format!("SELECT version FROM {table} WHERE job = "));
        let last =
            last.with(SqlArg::Text(&job)).then(&format!(" ORDER BY version DESC LIMIT 1 OFFSET {KEPT}"));
        let Some(last) = link.rows(last).await?.first().map(|row| row.int(0)).transpose()? else { continue };
        let old = link.statement(format!("DELETE FROM {table} WHERE job = ")).with(SqlArg::Text(&job));
        link.run(old.then(" AND version <= ").with(SqlArg::Int(last))).await?;
    }
    Ok(())
}

impl HistoryQuery for JobVersionFilter {
    type Item = JobVersion;

    async fn ask(&self, link: &mut HistoryConnection) -> Result<Vec<JobVersion>, DatabaseError> {
        let asked =
            link.statement(format!("SELECT {COLUMNS} FROM {} WHERE job = ", link.table("job_version")));
        let before = self.before.map_or(i64::MAX, u64::cast_signed);
        let asked = asked.with(SqlArg::Text(self.job.as_str()));
        let asked = asked.then(" AND version < ").with(SqlArg::Int(before));
        let asked = asked.then(&format!(" ORDER BY version DESC LIMIT {}", self.limit.min(LIMIT_MAX)));
        link.rows(asked).await?.iter().map(version).collect()
    }
}

/// A version from a row of [`COLUMNS`].
fn version(row: &HistoryRow) -> Result<JobVersion, DatabaseError> {
    let proof = Some(row.text(4)?).filter(|proof| !proof.is_empty());
    let asker = match proof {
        Some(proof) => Some(Requester {
            proof: Proof::parse(&proof).ok_or_else(|| odd(4))?,
            from: row.text(5)?,
            claims: row.text(6)?,
        }),
        None => None,
    };
    Ok(JobVersion {
        job: row.text(0)?.parse().map_err(|_| odd(0))?,
        version: row.int(1)?.cast_unsigned(),
        at: Wall(row.int(2)?),
        node: row.text(3)?,
        asker,
        change: JobChange::parse(&row.text(7)?).ok_or_else(|| odd(7))?,
        restored: row.maybe(8)?.map(i64::cast_unsigned),
        declared: Some(row.text(9)?).filter(|declared| !declared.is_empty()),
    })
}
