//! The form of Azkaban with a highly available web: its leader, versioned projects and triggers, and the executors.

use evenkeel_core::schedule::Schedule;
use serde_json::json;

use super::compat_cluster::{CompatCluster, CompatJobSummary};
use super::tree::{CompatEntry, CompatTree};
use evenkeel_client::types::{moment, zone};

pub(super) fn render(whole: &CompatCluster) -> Vec<CompatEntry> {
    let mut tree = CompatTree::whole();
    tree.persistent("executors", "");
    let mut executors: Vec<(&str, bool)> = whole
        .nodes
        .iter()
        .map(|node| {
            let name = &node.member.node;
            (whole.address(name), node.offline.is_none() && !whole.drained.contains(name))
        })
        .collect();
    executors.sort_unstable();
    for (address, active) in executors {
        tree.ephemeral(&format!("executors/{address}"), json!({ "active": active }).to_string());
    }
    leader(whole, &mut tree);
    tree.persistent("projects", "");
    for job in &whole.jobs {
        let (job, version) = (job.job(), job.spec.version);
        let row = json!({ "name": job.name, "active": job.enabled, "version": version });
        tree.persistent(&format!("projects/{}", job.name.path_part()), row.to_string());
    }
    tree.persistent("triggers", "");
    for job in whole.jobs.iter().filter(|job| job.job().schedule.is_some()) {
        tree.persistent(&format!("triggers/{}", job.job().name.path_part()), trigger(whole, job));
    }
    tree.entries
}

/// The lock of the web, which names its holder as long as that lives (S4-15).
fn leader(whole: &CompatCluster, tree: &mut CompatTree) {
    let Some(serving) = &whole.serving else { return };
    let leader = serving.leader.as_ref().filter(|leader| whole.lives(leader));
    if let Some(leader) = leader {
        tree.ephemeral("leader", whole.address(&leader.node));
    }
    tree.persistent("leader/epoch", serving.epoch.to_string());
    if leader.is_some() {
        tree.ephemeral("leader/state", if serving.serves { "serving" } else { "resuming" });
    }
}

fn trigger(whole: &CompatCluster, job: &CompatJobSummary) -> String {
    let (spec, calendars, job) = (&job.spec, &job.calendars, job.job());
    let fires = job.enabled && !spec.paused;
    let schedule: Option<Schedule> = job.schedule_with_calendars(calendars.as_ref()).filter(|_| fires);
    let schedule = schedule.filter(|schedule| !schedule.follows_runs());
    let next = schedule.and_then(|schedule| schedule.next(whole.now.max(spec.since)));
    let row = json!({
        "project": job.name,
        "version": spec.version,
        "cron": job.rules(),
        "timezone": zone(job.timezone()),
        "status": if fires { "READY" } else { "PAUSED" },
        "next_check_time": next.map(moment),
    });
    row.to_string()
}
