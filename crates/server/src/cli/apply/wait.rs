//! `--wait`: until the declared jobs can fire.

use std::collections::BTreeMap;
use std::time::Duration;

use evenkeel::clock;
use evenkeel_core::ids::{JobName, counted};
use evenkeel_core::time::{Millis, TimeSpan};

use super::owners;
use crate::client::ApiClient;
use crate::exit::{CliError, ExitKind};
use crate::files::JobHead;
use evenkeel_client::types::JobRow;

/// The pause between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How many jobs a message names.
const NAMED: usize = 10;

/// How far the jobs are.
#[derive(Debug, Default, PartialEq, Eq)]
struct JobProgress {
    owned: usize,
    /// The jobs that no node owns yet.
    free: Vec<String>,
    /// The jobs that no online node may run: waiting does not change that.
    unschedulable: Vec<String>,
}

impl JobProgress {
    fn of<'a>(names: impl Iterator<Item = &'a JobName>, rows: &BTreeMap<String, JobRow>) -> Self {
        let mut progress = Self::default();
        for name in names.map(ToString::to_string) {
            match rows.get(&name) {
                // An operator has disabled it.
                Some(row) if row.disabled => {}
                Some(row) if row.unschedulable => progress.unschedulable.push(name),
                // Of a sharded job this is its leader, which gives out shards before the first fire; of a dispatched one its planner.
                Some(row) if row.owner.is_some() => progress.owned += 1,
                _ => progress.free.push(name),
            }
        }
        progress
    }

    fn refusal(&self, patience: TimeSpan) -> Option<CliError> {
        let mut parts = Vec::new();
        if !self.free.is_empty() {
            parts.push(format!("without an owner after {patience}: {}", named(&self.free)));
        }
        if !self.unschedulable.is_empty() {
            let names = named(&self.unschedulable);
            parts.push(format!(
                "unschedulable, for no online node fits: {names}; see `evenkeel explain job NAME`"
            ));
        }
        (!parts.is_empty()).then(|| CliError::new(ExitKind::Unavailable, parts.join("\n")))
    }
}

fn named(names: &[String]) -> String {
    let first = names.iter().take(NAMED).map(|name| format!("job {name}")).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Waits until each enabled job has an owner, and returns a sentence that says so.
///
/// # Errors
/// A job is unschedulable, has no owner after this time, or no node answers for as long.
pub(super) fn wait(client: &ApiClient, jobs: &[JobHead], patience: TimeSpan) -> Result<String, CliError> {
    let names = || jobs.iter().filter(|job| job.enabled).map(|job| &job.name);
    let namespaces = owners::namespaces(names());
    let span = i64::try_from(Duration::from(patience).as_millis()).unwrap_or(i64::MAX / 2);
    let until = clock::now().mono + Millis(span);
    loop {
        let is_over = clock::now().mono >= until;
        match owners::list(client, namespaces.iter().cloned(), "") {
            Ok(rows) => {
                let rows = rows.into_iter().map(|row| (row.name.clone(), row)).collect();
                let progress = JobProgress::of(names(), &rows);
                if is_over || progress.free.is_empty() {
                    let owned = counted(progress.owned, "job");
                    return progress.refusal(patience).map_or(Ok(format!("{owned} owned")), Err);
                }
            }
            Err(failure) if is_over => return Err(failure),
            // The node may be slow for a moment.
            Err(_) => {}
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_core::job::Placement;

    use super::*;

    fn row(name: &str, owner: Option<&str>, nodes: usize, placement: Placement) -> JobRow {
        JobRow {
            name: name.to_owned(),
            schedule: String::new(),
            timezone: "UTC".to_owned(),
            placement,
            owner: owner.map(ToOwned::to_owned),
            nodes,
            next: None,
            paused: false,
            disabled: false,
            shadow: false,
            missing: Vec::new(),
            unschedulable: false,
            labels: BTreeMap::new(),
            runs: None,
        }
    }

    #[test]
    fn a_job_is_waited_for_until_it_can_fire() {
        let rows = [
            row("claimed", Some("n1"), 1, Placement::Claimed),
            row("free", None, 0, Placement::Claimed),
            row("led", Some("n1"), 0, Placement::Sharded),
            row("sharded", Some("n1"), 2, Placement::Sharded),
            row("planned", Some("n1"), 0, Placement::Dispatched),
            row("unplanned", None, 0, Placement::Dispatched),
            JobRow { disabled: true, ..row("off", None, 0, Placement::Claimed) },
            JobRow { unschedulable: true, ..row("picky", None, 0, Placement::Claimed) },
        ];
        let rows: BTreeMap<String, JobRow> = rows.into_iter().map(|row| (row.name.clone(), row)).collect();
        let names: Vec<JobName> = rows
            .keys()
            .map(String::as_str)
            .chain(["lost"])
            .map(|name| name.parse().expect("a name"))
            .collect();
        let progress = JobProgress::of(names.iter(), &rows);
        assert_eq!(progress.owned, 4);
        assert_eq!(progress.free, ["free", "unplanned", "lost"]);
        assert_eq!(progress.unschedulable, ["picky"]);
        let patience = TimeSpan::parse("", "60s", evenkeel_core::time::SpanLimits::ANY).expect("a span");
        let refused = progress.refusal(patience).expect("some have no owner").message;
        assert!(
            refused.contains("job free, job unplanned") && refused.contains("unschedulable"),
            "{refused}"
        );
        assert!(JobProgress::of(names.iter().take(1), &rows).refusal(patience).is_none());
    }
}
