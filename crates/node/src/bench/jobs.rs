//! Declares jobs by the thousand, and looks at a registry from outside.

use std::sync::Arc;

use evenkeel_core::ids::JobName;
use evenkeel_core::job::{Job, JobFile, Spec, Work};
use evenkeel_core::keys::{self, ParsedKey};
use evenkeel_core::record::{Assignment, SpecRecord, encode};
use evenkeel_core::registry::{EngineFacts, Guard, Revision, Txn, TxnOutcome, Write};
use evenkeel_registry::{Registry, RegistryError, open};

use crate::{Handle, SealKeys, clock};

/// The function that declared jobs call unless they are changed.
pub const FUNCTION: &str = "note";

/// How many jobs are declared in one request.
const BATCH: usize = 2_000;

/// Declares `n` jobs on this schedule behind the nodes' backs, as if they had been there for long. They call the
/// function [`FUNCTION`].
///
/// # Errors
/// The registry cannot be opened or written, or has such jobs already.
pub async fn declare(registry: &str, n: usize, schedule: &str) -> Result<(), RegistryError> {
    declare_with(registry, n, schedule, |_| {}).await
}

/// The same with something changed in each job.
///
/// # Errors
/// Same as [`declare`]; the changed job is invalid.
pub async fn declare_with(
    registry: &str,
    n: usize,
    schedule: &str,
    change: impl Fn(&mut JobFile),
) -> Result<(), RegistryError> {
    declare_sealed(registry, n, schedule, None, change).await
}

/// The same with seals, as nodes with these keys expect them.
///
/// # Errors
/// Same as [`declare_with`].
pub async fn declare_sealed(
    registry: &str,
    n: usize,
    schedule: &str,
    seals: Option<&SealKeys>,
    change: impl Fn(&mut JobFile),
) -> Result<(), RegistryError> {
    let registry = open(registry).await?;
    let since = clock::now().wall;
    let declaration = |i: usize| {
        let mut job = JobFile::new(job_name(i)?, schedule, Work::Function(FUNCTION.into()));
        change(&mut job);
        let job = Job::parse(job).map_err(|error| RegistryError::Refused(error.to_string()))?;
        let (spec, place) = (keys::spec(&job.name), keys::assignment(&job.name));
        let record = SpecRecord::Live(Box::new(Spec::new(job, 1, since)));
        let value = encode(&record);
        let value = seals.map_or_else(|| value.clone(), |seals| seals.seal(&spec, &value));
        let put = |key, value| Write::Put { key, value, owner: None };
        let assignment = Assignment { epoch: 1, version: 1, ..Assignment::default() };
        Ok(Txn {
            guards: vec![Guard::Absent(spec.clone())],
            writes: vec![put(spec, value), put(place, encode(&assignment))],
        })
    };
    for first in (0..n).step_by(BATCH) {
        let txns = (first..n.min(first + BATCH)).map(declaration).collect::<Result<_, RegistryError>>()?;
        for outcome in registry.commit(txns).await {
            match outcome {
                TxnOutcome::Applied(_) => {}
                TxnOutcome::Refused(_) => {
                    return Err(RegistryError::Refused("the registry has such jobs already".into()));
                }
                TxnOutcome::Unknown => {
                    let why = registry.last_error().map_or_else(String::new, |why| why.to_string());
                    return Err(RegistryError::Unavailable(format!(
                        "the jobs are perhaps not declared: {why}"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// The name of the `n`th declared job.
///
/// # Errors
/// Never: it is a valid name.
pub fn job_name(n: usize) -> Result<JobName, RegistryError> {
    format!("job-{n:07}").parse().map_err(|error| RegistryError::Refused(format!("{error}")))
}

/// The number of a declared job; `None` for another job.
#[must_use]
pub fn job_number(job: &str) -> Option<u32> {
    job.strip_prefix("job-")?.parse().ok()
}

/// How many jobs these nodes own, each by its own view.
#[must_use]
pub fn jobs_held(nodes: &[Handle]) -> Vec<usize> {
    let held =
        |node: &Handle| node.with_node(|node| node.member().map_or(0, |member| node.view().count(&member)));
    nodes.iter().map(held).collect()
}

/// A connection that only looks.
pub struct BenchObserver(Arc<dyn Registry>);

impl BenchObserver {
    /// Connects.
    ///
    /// # Errors
    /// The engine's.
    pub async fn open(registry: &str) -> Result<Self, RegistryError> {
        open(registry).await.map(Self)
    }

    /// The facts of the engine.
    #[must_use]
    pub fn facts(&self) -> EngineFacts {
        self.0.facts()
    }

    /// The position of the registry's order. Some engines have one order for all that they hold.
    ///
    /// # Errors
    /// The engine's.
    pub async fn revision(&self) -> Result<Revision, RegistryError> {
        let found = self.0.read(vec![keys::cluster()]).await?;
        Ok(found.first().map_or(Revision(0), |change| change.revision))
    }

    /// How many nodes are members.
    ///
    /// # Errors
    /// The engine's.
    pub async fn members(&self) -> Result<usize, RegistryError> {
        let listed = self.0.list().await?;
        let is_member = |key| matches!(keys::parse(key), Some(ParsedKey::Node(_)));
        Ok(listed.changes.iter().filter(|change| change.entry.is_some() && is_member(&change.key)).count())
    }
}
