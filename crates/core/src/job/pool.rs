//! Pools: limits on the runs of several jobs at once, on all nodes together.

use serde::{Deserialize, Serialize};

use crate::ids::PoolName;

/// The pool of a job, and its limit. A [`JobFile`](super::JobFile) has the pool's name as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a pool, like { name = \"db\", limit = 3 }")]
pub struct Pool<N = PoolName> {
    /// The name of the pool: all jobs that name it share it.
    pub name: N,
    /// The limit: how many runs of the pool may execute once a run of this job has started, in the whole cluster.
    pub limit: u32,
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;
    use crate::job::{Job, JobFile, Placement, Work};

    #[test]
    fn what_makes_no_sense_is_refused_with_the_fix() {
        let said = |limit, monitor| {
            let file = JobFile::new("j".parse().unwrap(), "", Work::Function("f".into()));
            let pool = Some(Pool { name: "p".parse().unwrap(), limit });
            let file = JobFile { pool, monitor_execution: monitor, placement: Placement::Sharded, ..file };
            Job::parse(file).map(drop).map_err(|e| e.to_string())
        };
        assert!(said(0, true).unwrap_err().contains("allowed are 1 to 500"));
        assert!(said(501, true).unwrap_err().contains("allowed are 1 to 500"));
        assert!(said(3, false).unwrap_err().contains("takes monitor_execution = true"));
        assert_eq!(said(500, true), Ok(()));
    }
}
