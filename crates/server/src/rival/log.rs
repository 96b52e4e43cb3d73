//! The records of another scheduler, whatever their format: the runs, and what is no run or cannot be read.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use clap::ValueEnum;
use evenkeel_core::time::{Millis, Wall};
use jiff::tz::TimeZone;
use serde::Serialize;

/// The format of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RivalFormat {
    /// Rows with job, time and perhaps outcome, as CSV with a header or as JSON
    Rows,
    /// Rows of XXL-JOB's table xxl_job_log
    XxlJob,
    /// Jobs of Kubernetes, as kubectl get jobs -o json prints them
    Kubernetes,
    /// Lines of cron in a log, or of cron and systemd as journalctl -o json prints them
    Cron,
    /// Rows of ElasticJob's table JOB_EXECUTION_LOG
    #[value(name = "elasticjob")]
    ElasticJob,
}

/// What is known of a file beside its text.
#[derive(Clone, Debug)]
pub(crate) struct RivalSource {
    /// The file's name as shown in messages.
    pub(crate) shown: String,
    /// Its format; `None` to recognize it.
    pub(crate) format: Option<RivalFormat>,
    /// The time zone of times without an offset.
    pub(crate) zone: TimeZone,
    /// The present moment, which gives the year of times without one.
    pub(crate) now: Wall,
}

/// What the other scheduler names as having run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RivalSubject {
    /// A job by its name.
    Name(String),
    /// A job of XXL-JOB by its id, with its handler if the row has it.
    XxlJob { id: String, handler: String },
    /// A command of cron, with its user.
    Command { user: String, command: String },
}

impl fmt::Display for RivalSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::XxlJob { id, handler } if handler.is_empty() => write!(f, "job {id}"),
            Self::XxlJob { id, handler } => write!(f, "job {id} {handler}"),
            Self::Command { user, command } => write!(f, "({user}) {command}"),
        }
    }
}

/// One run of the other scheduler.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RivalFire {
    /// When it started.
    pub(crate) at: Wall,
    /// What became of it; empty if that is not known.
    pub(crate) outcome: String,
    /// Its shard, of a job whose shards have a record each.
    pub(crate) shard: Option<u32>,
    /// What tells the record from every other one, where the records have that; files may overlap.
    pub(crate) id: Option<String>,
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct BadRecord {
    /// Where it is, as `a.csv: line 7`.
    pub(crate) place: String,
    /// Why.
    pub(crate) why: String,
}

/// What the records say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RivalLog {
    /// The runs, by what ran.
    pub(crate) fires: BTreeMap<RivalSubject, Vec<RivalFire>>,
    /// The records that cannot be read.
    pub(crate) bad: Vec<BadRecord>,
    /// How many records are about something else, by what they are.
    pub(crate) left_out: BTreeMap<&'static str, u64>,
}

/// What a record is.
pub(super) enum RivalRecord {
    /// A run.
    Fire(RivalSubject, RivalFire),
    /// Something else, in words.
    Other(&'static str),
}

impl RivalLog {
    pub(super) fn take(&mut self, source: &RivalSource, place: &str, record: Result<RivalRecord, String>) {
        match record {
            Ok(RivalRecord::Fire(subject, fire)) => self.fires.entry(subject).or_default().push(fire),
            Ok(RivalRecord::Other(what)) => *self.left_out.entry(what).or_default() += 1,
            Err(why) => self.bad.push(BadRecord { place: format!("{}: {place}", source.shown), why }),
        }
    }

    /// Adds the records of another file.
    pub(crate) fn extend(&mut self, other: Self) {
        for (subject, fires) in other.fires {
            self.fires.entry(subject).or_default().extend(fires);
        }
        self.bad.extend(other.bad);
        for (what, count) in other.left_out {
            *self.left_out.entry(what).or_default() += count;
        }
    }

    /// Sorts the runs, drops those that two files have, and makes one run of the shards of a fire: those that started within
    /// `tolerance` of the first, each once.
    pub(crate) fn settle(&mut self, tolerance: Millis) {
        for fires in self.fires.values_mut() {
            fires.sort();
            let mut known: BTreeSet<String> = BTreeSet::new();
            fires.retain(|fire| fire.id.as_ref().is_none_or(|id| known.insert(id.clone())));
            let mut whole: Vec<RivalFire> = Vec::new();
            let mut shards: BTreeSet<u32> = BTreeSet::new();
            for fire in std::mem::take(fires) {
                let first = whole.last().map(|first| first.at);
                let is_near = first.is_some_and(|first| fire.at - first <= tolerance);
                if let Some(shard) = fire.shard
                    && is_near
                    && shards.insert(shard)
                {
                    continue;
                }
                shards = fire.shard.into_iter().collect();
                whole.push(fire);
            }
            *fires = whole;
        }
    }

    /// The last moment at which something ran.
    pub(crate) fn last(&self) -> Option<Wall> {
        self.fires.values().flatten().map(|fire| fire.at).max()
    }
}
