//! The versions of a job that the histories of all nodes have.

use std::collections::BTreeMap;

use evenkeel::{JobVersion, JobVersionFilter};
use evenkeel_core::ids::{JobName, NodeName};
use evenkeel_core::time::Wall;

use super::{HistorySources, MergeableRecord, PATIENCE, ask};
use crate::api::{ApiError, App};

/// The most versions of a job that are read from one history, which keeps fewer.
const VERSIONS_MAX: u32 = 200;
/// How often a node is asked for more, where declarations are so large that they do not fit into one answer.
const PAGES_MAX: usize = 100;

impl MergeableRecord for JobVersion {
    type Id = u64;

    fn id(&self) -> Self::Id {
        self.version
    }

    fn seq(&self) -> u64 {
        self.version
    }

    fn moment(&self) -> Wall {
        self.at
    }

    fn outranks(&self, known: &Self) -> bool {
        self.asker.is_some() && known.asker.is_none()
    }
}

/// All versions of a job in all histories, in no order, and the online nodes that did not answer.
pub(in crate::api) async fn versions(
    app: &App,
    job: &JobName,
) -> Result<(Vec<JobVersion>, Vec<NodeName>), ApiError> {
    let filter = JobVersionFilter { job: job.clone(), limit: VERSIONS_MAX, before: None };
    let mut found = app.handle.job_versions(filter.clone()).await?;
    let mut missing = Vec::new();
    // Where the next page of each node begins that has more.
    let mut rest: Option<BTreeMap<NodeName, u64>> = None;
    for _ in 0..PAGES_MAX {
        let wanted = |node: &NodeName| match &rest {
            None => Some(filter.clone()),
            Some(rest) => Some(JobVersionFilter { before: Some(*rest.get(node)?), ..filter.clone() }),
        };
        let answers: HistorySources<JobVersion> =
            ask(app, "/peer/v1/versions", (PATIENCE, u32::MAX), wanted).await;
        missing.extend(answers.missing);
        let more = answers.found.iter().filter_map(|(node, page)| Some((node.clone(), page.next?)));
        let more: BTreeMap<NodeName, u64> = more.collect();
        found.extend(answers.found.into_values().flat_map(|page| page.rows));
        if more.is_empty() {
            break;
        }
        rest = Some(more);
    }
    Ok((found, missing))
}
