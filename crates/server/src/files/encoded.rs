//! Checked jobs as requests carry them: one after another as JSON, in a fraction of the memory of their declarations.

use std::hash::{DefaultHasher, Hash, Hasher};

use evenkeel_core::ids::JobName;
use evenkeel_core::job::{Job, JobLabels};
use serde::Deserialize;

use crate::exit::{CliError, ExitKind};

/// What comes before and after the jobs in the body of a request.
const HEAD: &[u8] = b"{\"jobs\":[";
const TAIL: &[u8] = b"]}";

/// Checked jobs as JSON, in their order.
#[derive(Debug, Default)]
pub(crate) struct EncodedJobs {
    parts: Vec<EncodedPart>,
    /// A hash of each job's name.
    names: Vec<u64>,
}

/// What is known of a checked job without the rest of its declaration.
#[derive(Debug, Deserialize)]
pub(crate) struct JobHead {
    /// Its full name.
    pub(crate) name: JobName,
    /// Its labels.
    #[serde(default)]
    pub(crate) labels: JobLabels,
    /// Whether its declaration enables it.
    #[serde(default = "is_enabled")]
    pub(crate) enabled: bool,
}

/// A job is enabled where its declaration does not say otherwise.
const fn is_enabled() -> bool {
    true
}

/// Some jobs after each other.
#[derive(Debug)]
struct EncodedPart {
    bytes: Vec<u8>,
    /// Where each job ends.
    ends: Vec<usize>,
}

/// Collects the jobs of one part.
#[derive(Debug, Default)]
pub(super) struct JobsEncoder {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    names: Vec<u64>,
}

impl JobsEncoder {
    /// Adds a job.
    ///
    /// # Errors
    /// It cannot be encoded.
    pub(super) fn add(&mut self, job: &Job) -> serde_json::Result<()> {
        serde_json::to_writer(&mut self.bytes, job)?;
        self.ends.push(self.bytes.len());
        let mut hash = DefaultHasher::new();
        job.name.hash(&mut hash);
        self.names.push(hash.finish());
        Ok(())
    }

    /// The jobs, in no more memory than they need.
    pub(super) fn finish(mut self) -> EncodedJobs {
        self.bytes.shrink_to_fit();
        self.ends.shrink_to_fit();
        EncodedJobs { parts: vec![EncodedPart { bytes: self.bytes, ends: self.ends }], names: self.names }
    }
}

impl EncodedPart {
    fn jobs(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).filter_map(|(start, end)| self.bytes.get(start..*end))
    }
}

impl EncodedJobs {
    /// Encodes jobs.
    ///
    /// # Errors
    /// A job cannot be encoded.
    pub(crate) fn of<'a>(jobs: impl IntoIterator<Item = &'a Job>) -> Result<Self, CliError> {
        let mut encoder = JobsEncoder::default();
        let added = jobs.into_iter().try_for_each(|job| encoder.add(job));
        added.map(|()| encoder.finish()).map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))
    }

    /// Adds all jobs of another list.
    pub(super) fn append(&mut self, other: Self) {
        self.parts.extend(other.parts);
        self.names.extend(other.names);
    }

    /// The number of jobs.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there is no job.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether two jobs have the same name, or two names the same hash, which hardly ever happens.
    pub(super) fn may_repeat_a_name(&self) -> bool {
        let mut names = self.names.clone();
        names.sort_unstable();
        names.windows(2).any(|pair| pair.first() == pair.last())
    }

    /// The name, the labels and the state of each job.
    ///
    /// # Errors
    /// None: what was encoded is read.
    pub(crate) fn heads(&self) -> Result<Vec<JobHead>, CliError> {
        let heads = self.jobs().map(serde_json::from_slice);
        heads.collect::<Result<_, _>>().map_err(|e| CliError::new(ExitKind::Failed, e.to_string()))
    }

    fn jobs(&self) -> impl Iterator<Item = &[u8]> {
        self.parts.iter().flat_map(EncodedPart::jobs)
    }

    /// The bodies of the requests that apply all jobs: each with at most `jobs_max` jobs of at most `bytes_max` bytes
    /// together, and with at least one, whatever its size.
    pub(crate) fn bodies(&self, jobs_max: usize, bytes_max: usize) -> impl Iterator<Item = Vec<u8>> {
        let mut left = self.jobs().peekable();
        std::iter::from_fn(move || {
            let mut body = HEAD.to_vec();
            body.extend_from_slice(left.next()?);
            let mut jobs = 1;
            while jobs < jobs_max
                && let Some(job) = left.next_if(|job| body.len() - HEAD.len() + 1 + job.len() <= bytes_max)
            {
                body.push(b',');
                body.extend_from_slice(job);
                jobs += 1;
            }
            body.extend_from_slice(TAIL);
            Some(body)
        })
    }
}

impl PartialEq for EncodedJobs {
    fn eq(&self, other: &Self) -> bool {
        self.jobs().eq(other.jobs())
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::job::{JobFile, Work};
    use serde_json::{Value, json};

    use super::*;

    fn job(name: &str) -> Job {
        let file = JobFile::new(name.parse().expect("a name"), "@daily", Work::Function("f".to_owned()));
        Job::parse(file).expect("a valid job")
    }

    #[test]
    fn every_job_is_in_one_request_and_none_is_larger_than_allowed() {
        let jobs: Vec<Job> = (0..7).map(|n| job(&format!("j{n}"))).collect();
        let encoded = EncodedJobs::of(&jobs).expect("plain data");
        let sizes = |jobs_max, bytes_max| {
            let read = |body: Vec<u8>| serde_json::from_slice::<Value>(&body).expect("it is JSON");
            let bodies: Vec<Value> = encoded.bodies(jobs_max, bytes_max).map(read).collect();
            let sent: Vec<&Value> = bodies.iter().flat_map(|b| b["jobs"].as_array().expect("jobs")).collect();
            assert_eq!(json!(sent), json!(jobs), "all of them, in their order");
            bodies.iter().map(|b| b["jobs"].as_array().map_or(0, Vec::len)).collect::<Vec<_>>()
        };
        let one = serde_json::to_vec(&jobs[0]).expect("plain data").len();
        assert_eq!(sizes(3, 1 << 20), [3, 3, 1]);
        assert_eq!(sizes(7, 1 << 20), [7]);
        assert_eq!(sizes(100, 2 * one + 1), [2, 2, 2, 1], "with the comma between them");
        assert_eq!(sizes(100, 2 * one), [1; 7]);
        assert_eq!(sizes(100, 1), [1; 7], "a large job is sent alone");
        assert_eq!(EncodedJobs::default().bodies(3, 100).count(), 0);
    }

    #[test]
    fn lists_that_are_joined_are_one_list() {
        let jobs = ["a", "b", "c"].map(job);
        let mut joined = EncodedJobs::default();
        for part in [&jobs[..2], &[], &jobs[2..]] {
            joined.append(EncodedJobs::of(part).expect("plain data"));
        }
        assert_eq!((joined.len(), joined.may_repeat_a_name()), (3, false));
        assert_eq!(joined, EncodedJobs::of(&jobs).expect("plain data"));
        let names: Vec<_> =
            joined.heads().expect("they are jobs").into_iter().map(|job| job.name.to_string()).collect();
        assert_eq!(names, ["a", "b", "c"]);
        joined.append(EncodedJobs::of(&jobs[..1]).expect("plain data"));
        assert!(joined.may_repeat_a_name());
    }
}
