//! What history forgets, a little at a time (`I48`).

use std::collections::BTreeMap;

use evenkeel_core::time::{Millis, Mono, Now};
use evenkeel_core::words::JobName;
use rusqlite::{Connection, params};

use crate::config::Keep;

/// How often it looks.
const EVERY: Millis = Millis::secs(5);
/// The most rows that one look deletes for each reason.
const CHUNK: u32 = 5_000;
/// The most jobs whose new rows are counted; beyond them age and number alone bound the file.
const JOBS_MAX: usize = 100_000;
/// The most jobs looked at in one look.
const JOBS_AT_ONCE: usize = 200;

/// Remembers what grew, and cuts it.
pub(super) struct Sweeper {
    keep: Keep,
    next: Mono,
    grown: BTreeMap<JobName, u32>,
}

impl Sweeper {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, next: Mono(i64::MIN), grown: BTreeMap::new() }
    }

    /// Counts new rows, and deletes old ones when it is time to.
    pub(super) fn sweep(
        &mut self,
        db: &mut Connection,
        jobs: BTreeMap<JobName, u32>,
        now: Now,
    ) -> rusqlite::Result<()> {
        for (job, rows) in jobs {
            if self.grown.len() < JOBS_MAX || self.grown.contains_key(&job) {
                *self.grown.entry(job).or_default() += rows;
            }
        }
        if now.mono < self.next {
            return Ok(());
        }
        self.next = now.mono + EVERY;
        let all = db.transaction()?;
        let oldest = now.wall - Millis(i64::try_from(self.keep.age.as_millis()).unwrap_or(i64::MAX));
        let runs = i64::try_from(self.keep.runs).unwrap_or(i64::MAX);
        all.prepare_cached(
            "DELETE FROM attempt WHERE seq IN (SELECT seq FROM attempt WHERE state <> 0 ORDER BY seq LIMIT ?1)
             AND (ended < ?2 OR seq <= (SELECT max(seq) FROM attempt) - ?3)",
        )?
        .execute(params![CHUNK, oldest.0, runs])?;
        for table in ["late", "event", "load", "notice"] {
            let at = if table == "late" { "heard" } else { "at" };
            all.prepare_cached(&format!("DELETE FROM {table} WHERE {at} < ?1"))?.execute([oldest.0])?;
        }
        for job in self.grown_much() {
            all.prepare_cached(
                "DELETE FROM attempt WHERE job = ?1 AND state <> 0 AND seq <=
                 (SELECT seq FROM attempt WHERE job = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
            )?
            .execute(params![job.as_str(), self.keep.runs_of_job])?;
        }
        all.commit()
    }

    /// Takes the jobs with enough new rows to be worth a look.
    fn grown_much(&mut self) -> Vec<JobName> {
        let much = (self.keep.runs_of_job / 10).max(1);
        let some = self.grown.iter().filter(|(_, rows)| **rows >= much).map(|(job, _)| job.clone());
        let some: Vec<JobName> = some.take(JOBS_AT_ONCE).collect();
        some.iter().for_each(|job| {
            self.grown.remove(job);
        });
        some
    }
}
