//! Reads valid job files in little time and memory: nothing is kept of a job but its encoded form, and a TOML file is never
//! in memory as one document.
//!
//! Nothing is reported here. Where a file is not plainly valid the caller reads it again as a whole, which finds the first
//! mistake with its line. So what is read here must be valid, and must mean the same as the whole file.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZero;
use std::thread;

use evenkeel_core::calendar::{Calendar, CalendarFile};
use evenkeel_core::job::{Job, JobFile};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::encoded::{EncodedJobs, JobsEncoder};
use crate::text_input::{self, ReadTarget, TextFormat};

/// The bytes of a TOML file that are parsed as one document, and more up to where the next job begins.
const PART: usize = 16 * 1024;
/// The headers at which a TOML file may be cut.
const HEADS: [&str; 2] = ["[[job]]", "[[calendar]]"];

/// The checked declarations of a file, its jobs encoded.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckedTables {
    #[serde(default, deserialize_with = "checked")]
    pub(super) job: EncodedJobs,
    #[serde(default, deserialize_with = "calendars")]
    pub(super) calendar: Vec<Calendar>,
}

fn calendars<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<Calendar>, D::Error> {
    let files = Vec::<CalendarFile>::deserialize(input)?;
    files.into_iter().map(|file| file.calendar(None).map_err(D::Error::custom)).collect()
}

/// Checks and encodes jobs one by one.
fn checked<'de, D: Deserializer<'de>>(input: D) -> Result<EncodedJobs, D::Error> {
    struct JobsVisitor;
    impl<'de> Visitor<'de> for JobsVisitor {
        type Value = EncodedJobs;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of jobs")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<EncodedJobs, A::Error> {
            let mut jobs = JobsEncoder::default();
            while let Some(file) = list.next_element::<JobFile>()? {
                let job = Job::parse(file).map_err(A::Error::custom)?;
                jobs.add(&job).map_err(A::Error::custom)?;
            }
            Ok(jobs.finish())
        }
    }
    input.deserialize_seq(JobsVisitor)
}

/// The declarations of these texts; `None` unless all of them are valid and no name is declared twice.
pub(super) fn read<'a>(texts: impl Iterator<Item = (TextFormat, &'a str)>) -> Option<CheckedTables> {
    let mut all = CheckedTables::default();
    for (language, text) in texts {
        let part = match language {
            TextFormat::Toml => toml(text)?,
            TextFormat::Json => serde_json::from_str(text).ok()?,
            TextFormat::Yaml => text_input::read(language, text, ReadTarget::JobFile).ok()?,
        };
        all.append(part);
    }
    let names: BTreeSet<_> = all.calendar.iter().map(|calendar| &calendar.name).collect();
    let is_valid = names.len() == all.calendar.len()
        && all.calendar.iter().all(|calendar| calendar.read().is_ok())
        && !all.job.may_repeat_a_name();
    is_valid.then_some(all)
}

impl CheckedTables {
    fn append(&mut self, part: Self) {
        self.calendar.extend(part.calendar);
        self.job.append(part.job);
    }
}

/// Reads a TOML file part by part, in as many threads as there are processors.
fn toml(text: &str) -> Option<CheckedTables> {
    let parts = parts(text)?;
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(parts.len().max(1));
    let shares = parts.chunks(parts.len().div_ceil(threads).max(1));
    let read: Vec<Option<CheckedTables>> = thread::scope(|scope| {
        let begun: Vec<_> = shares.map(|share| scope.spawn(|| in_order(share))).collect();
        begun.into_iter().map(|thread| thread.join().ok().flatten()).collect()
    });
    joined(read.into_iter())
}

fn in_order(parts: &[&str]) -> Option<CheckedTables> {
    joined(parts.iter().map(|part| toml::from_str(part).ok()))
}

fn joined(mut parts: impl Iterator<Item = Option<CheckedTables>>) -> Option<CheckedTables> {
    parts.try_fold(CheckedTables::default(), |mut all, part| {
        all.append(part?);
        Some(all)
    })
}

/// Cuts a TOML file before headers of jobs and calendars. `None` for a file that may mean something else in parts.
///
/// A part that is a document by itself ends outside of every text and list, so the next one begins there too, with the
/// header. All tables of a part then belong to the jobs and calendars that begin in it, since no other key is allowed: a table
/// of an earlier part's job would make `job` a table, which is refused. Before the first header nothing may be declared, as
/// that would be a key of the whole file.
fn parts(text: &str) -> Option<Vec<&str>> {
    let is_head = |line: &&str| HEADS.iter().any(|head| line.starts_with(head));
    let before = text.split_inclusive('\n').take_while(|line| !is_head(line));
    let is_silent = |line: &str| line.trim_ascii().is_empty() || line.starts_with('#');
    let mut start = 0;
    for line in before {
        if !is_silent(line) {
            return None;
        }
        start += line.len();
    }
    // What is only a comment is checked with the first part.
    let mut parts = Vec::new();
    let (mut from, mut at) = (0, start);
    while let Some(found) = text.get(at..).and_then(|rest| rest.find("\n[[")) {
        let cut = at + found + 1;
        at = cut;
        if cut - from >= PART && text.get(cut..).is_some_and(|rest| is_head(&rest)) {
            parts.push(text.get(from..cut)?);
            from = cut;
        }
    }
    parts.push(text.get(from..)?);
    Some(parts)
}

#[cfg(test)]
mod tests;
