//! The tables of Qross Keeper: nodes, the locks of a beat, and planned or running tasks, a row an entry.

use evenkeel_core::ids::{Fire, JobName, NodeName, RunId, Shard};
use evenkeel_core::time::Wall;
use serde_json::{Value, json};

use super::compat_cluster::{CompatCluster, CompatNode};
use super::tree::{CompatEntry, CompatTree};

pub(super) fn render(whole: &CompatCluster) -> Vec<CompatEntry> {
    let mut tree = CompatTree::whole();
    tree.persistent("locks", "");
    for (name, record, since) in &whole.beats {
        let node = whole.address(&record.holder.node);
        let row = json!({ "name": name, "node": node, "tick": since.to_string(), "beat": record.beat });
        tree.persistent(&format!("locks/{name}"), row.to_string());
    }
    nodes(whole, &mut tree);
    tree.persistent("tasks", "");
    for job in &whole.jobs {
        let name = &job.job().name;
        for (fire, due, status, node, by) in tasks(whole, job) {
            let run = RunId { job: JobName::clone(name), fire, shard: Shard(0) };
            let row = json!({
                "job": name, "task_time": due.to_string(), "status": status, "node": node, "created_by": by,
            });
            tree.persistent(&format!("tasks/{}", run.to_string().replace('/', "+")), row.to_string());
        }
    }
    tree.entries
}

fn nodes(whole: &CompatCluster, tree: &mut CompatTree) {
    tree.persistent("nodes", "");
    let living = whole.nodes.iter().map(|node| (whole.address(&node.member.node), row(whole, node)));
    let away = whole.away.iter().map(|(node, seen)| (node.as_str(), gone(node, *seen)));
    let mut rows: Vec<(&str, Value)> = living.chain(away).collect();
    rows.sort_by_key(|(id, _)| *id);
    for (id, row) in rows {
        tree.persistent(&format!("nodes/{id}"), row.to_string());
    }
}

fn row(whole: &CompatCluster, node: &CompatNode) -> Value {
    let address = whole.address(&node.member.node);
    let (ip, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let percent = |hundredths: u32| f64::from(hundredths) / 100.0;
    let load = node.load.as_ref();
    json!({
        "name": node.member.node,
        "ip": ip,
        "port": port.parse::<u16>().ok(),
        "status": if node.offline.is_some() { "disconnected" } else { "online" },
        "disconnection": node.strikes,
        "cpu_usage": load.and_then(|load| load.sample.cpu).map(|cpu| percent(cpu.hundredths())),
        "memory_usage": load.and_then(|load| load.sample.memory).map(|memory| percent(memory.hundredths())),
        "busy_executors": load.map(|load| load.busy),
        "executors": node.info.slots,
        "load_score": load.map(|load| percent(load.score.0)),
        "online_time": node.joined.map(|at| at.to_string()),
        "disconnect_time": node.offline.map(|at| at.to_string()),
    })
}

/// The row of an offline node, of which only the name is known.
fn gone(node: &NodeName, seen: Wall) -> Value {
    json!({ "name": node, "status": "offline", "offline_time": seen.to_string() })
}

type KeeperTask<'a> = (Fire, Wall, &'static str, Option<&'a str>, Option<String>);

/// The unfinished tasks: requested, planned, running.
fn tasks<'a>(
    whole: &'a CompatCluster,
    job: &'a super::compat_cluster::CompatJobSummary,
) -> Vec<KeeperTask<'a>> {
    let asked = job.waiting.iter().map(|(id, at)| (Fire::Asked(id.clone()), *at, "new", None, None));
    let begun = |from: Option<Wall>| from.is_some_and(|from| from <= whole.now);
    let status = |from| if begun(from) { "executing" } else { "ready" };
    let open = job.open.iter().map(|open| {
        let by = whole.address(&open.by.node);
        (
            open.fire.clone(),
            open.due,
            status(Some(open.starts_at())),
            Some(by),
            Some(open.by.node.to_string()),
        )
    });
    let planner = job.plan.as_ref().and_then(|plan| plan.planner.as_ref());
    let planned = job.plan.iter().flat_map(|plan| &plan.runs).map(|run| {
        let by = planner.map(|planner| planner.member.node.to_string());
        (run.fire.clone(), run.due, status(run.from), Some(whole.address(&run.by.node)), by)
    });
    let held: Vec<KeeperTask<'_>> = open.chain(planned).collect();
    // A request that is planned already is no second task.
    let asked = asked.filter(|(fire, ..)| held.iter().all(|(other, ..)| other != fire));
    let asked: Vec<KeeperTask<'_>> = asked.collect();
    asked.into_iter().chain(held).collect()
}
