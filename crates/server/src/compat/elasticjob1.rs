//! The tree of Elastic-Job-Lite 1.x: an entry a setting, servers by address, what runs under `execution`.

use evenkeel_core::job::Work;
use evenkeel_core::record::ProcessedItems;
use evenkeel_core::sharding_strategy::ShardingStrategy;

use super::compat_job::CompatJob;
use super::shard::shards;
use super::tree::{CompatEntry, CompatTree};

/// The package of its strategies.
const STRATEGIES: &str = "com.dangdang.ddframe.job.plugin.sharding.strategy";

pub(super) fn render(seen: &CompatJob) -> Vec<CompatEntry> {
    let mut tree = CompatTree::of(&seen.job().name, "");
    config(seen, &mut tree);
    execution(seen, &mut tree);
    leader(seen, &mut tree);
    servers(seen, &mut tree);
    tree.entries
}

fn config(seen: &CompatJob, tree: &mut CompatTree) {
    let job = seen.job();
    let strategy = match job.placement.strategy() {
        ShardingStrategy::Average => "AverageAllocationJobShardingStrategy",
        ShardingStrategy::OddEven => "OdevitySortByNameJobShardingStrategy",
        ShardingStrategy::Rotate => "RotateServerByNameJobShardingStrategy",
    };
    let difference = job.placement.members().and_then(|members| members.max_clock_skew);
    let difference = difference.map_or("-1".to_owned(), |skew| (skew.0 / 1000).to_string());
    // Each node decides its number of threads unless the job sets it.
    if let Some(threads) = job.work.dataflow().and_then(|dataflow| dataflow.threads) {
        tree.persistent("config/concurrentDataProcessThreadCount", threads.to_string());
    }
    tree.persistent("config/cron", job.rules());
    tree.persistent("config/description", &*job.description);
    tree.persistent("config/failover", seen.fails_over().to_string());
    if let Some(dataflow) = job.work.dataflow() {
        tree.persistent("config/fetchDataCount", dataflow.fetch.to_string());
    }
    tree.persistent("config/jobClass", class(&job.work.action()));
    tree.persistent("config/jobParameter", &*job.parameter);
    tree.persistent("config/jobShardingStrategyClass", format!("{STRATEGIES}.{strategy}"));
    tree.persistent("config/maxTimeDiffSeconds", difference);
    tree.persistent("config/misfire", seen.catches_up().to_string());
    tree.persistent("config/monitorExecution", job.placement.is_monitored().to_string());
    if let Some(dataflow) = job.work.dataflow() {
        tree.persistent("config/processCountIntervalSeconds", dataflow.interval.to_string());
    }
    if let Work::Command(argv) = job.work.action() {
        tree.persistent("config/scriptCommandLine", command_line(&argv));
    }
    tree.persistent("config/shardingItemParameters", parameters(&job.shard_parameters));
    tree.persistent("config/shardingTotalCount", seen.sharding.shard_map.total_of(job).to_string());
    if let Some(dataflow) = job.work.dataflow() {
        tree.persistent("config/streamingProcess", dataflow.streaming.to_string());
    }
}

/// The class of a job: the function's name, or the source's name for any program and any request.
pub(super) fn class(work: &Work) -> String {
    match work {
        Work::Command(_) => "SCRIPT".to_owned(),
        Work::Function(name) => name.clone(),
        Work::Http(_) => "HTTP".to_owned(),
    }
}

/// The shard parameters in the source's format.
pub(super) fn parameters(list: &[String]) -> String {
    let given = list.iter().enumerate().filter(|(_, parameter)| !parameter.is_empty());
    given.map(|(shard, parameter)| format!("{shard}={parameter}")).collect::<Vec<_>>().join(",")
}

/// A program and its arguments in shell syntax.
pub(super) fn command_line(argv: &[String]) -> String {
    let word = |arg: &String| {
        let bare = |b: u8| b.is_ascii_alphanumeric() || b"_@%+=:,./-".contains(&b);
        match !arg.is_empty() && arg.bytes().all(bare) {
            true => arg.clone(),
            false => format!("'{}'", arg.replace('\'', r"'\''")),
        }
    };
    argv.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn execution(seen: &CompatJob, tree: &mut CompatTree) {
    if !seen.job().placement.is_monitored() {
        return;
    }
    // A declaration was checked when it was stored; one that can no longer be parsed fires nothing.
    let schedule = seen.job().schedule_with_calendars(seen.calendars.as_ref());
    for shard in shards(seen) {
        let at = format!("execution/{}", shard.shard);
        tree.persistent(&at, "");
        tree.add_flag(shard.is_completed(), &format!("{at}/completed"));
        if let Some(taker) = shard.failover_member() {
            tree.ephemeral(&format!("{at}/failover"), seen.host(&taker.node));
        }
        if let Some(began) = shard.began() {
            tree.persistent(&format!("{at}/lastBeginTime"), began.0.to_string());
        }
        if let Some(ended) = shard.ended() {
            tree.persistent(&format!("{at}/lastCompleteTime"), ended.0.to_string());
        }
        tree.add_flag(shard.has_missed(schedule.as_ref()), &format!("{at}/misfire"));
        if let Some(next) = shard.next(schedule.as_ref()) {
            tree.persistent(&format!("{at}/nextFireTime"), next.0.to_string());
        }
        if shard.run().is_some() {
            tree.ephemeral(&format!("{at}/running"), "");
        }
    }
}

fn leader(seen: &CompatJob, tree: &mut CompatTree) {
    tree.persistent("leader/election", "");
    if let Some(leader) = seen.leader() {
        tree.ephemeral("leader/election/host", seen.host(&leader.node));
    }
    tree.persistent("leader/execution", "");
    tree.add_flag(seen.is_resized(), "leader/execution/necessary");
    tree.persistent("leader/failover", "");
    for shard in seen.left_behind().iter() {
        tree.persistent(&format!("leader/failover/items/{shard}"), "");
    }
    tree.persistent("leader/sharding", "");
    tree.add_flag(seen.sharding.reshard_pending.is_some(), "leader/sharding/necessary");
}

fn servers(seen: &CompatJob, tree: &mut CompatTree) {
    for (host, nodes) in seen.hosts() {
        let at = |name: &str| format!("servers/{host}/{name}");
        let names: Vec<&str> = nodes.iter().map(|node| node.as_str()).collect();
        tree.add_flag(nodes.iter().all(|node| seen.is_disabled(node)), &at("disabled"));
        tree.persistent(&at("hostName"), names.join(","));
        tree.add_flag(nodes.iter().all(|node| seen.is_paused(node)), &at("paused"));
        let counted = || nodes.iter().filter_map(|node| seen.counts.get(*node));
        if counted().next().is_some() {
            let sum = |of: fn(&ProcessedItems) -> u64| counted().map(of).sum::<u64>().to_string();
            tree.persistent(&at("processFailureCount"), sum(|count| count.failed));
            tree.persistent(&at("processSuccessCount"), sum(|count| count.succeeded));
        }
        let assignments =
            nodes.iter().filter_map(|node| seen.assignment(node)).reduce(|all, more| all.or(&more));
        if let Some(assignment) = assignments {
            let shards: Vec<String> = assignment.iter().map(|shard| shard.to_string()).collect();
            tree.persistent(&at("sharding"), shards.join(","));
        }
        tree.add_flag(nodes.iter().all(|node| seen.is_shut(node)), &at("shutdown"));
        let runs = nodes.iter().any(|node| seen.is_running(node));
        let waits = |node: &&_| seen.lives_of(node).next().is_some() && !seen.is_shut(node);
        if runs {
            tree.ephemeral(&at("status"), "RUNNING");
        } else if nodes.iter().any(waits) {
            tree.ephemeral(&at("status"), "READY");
        }
        tree.add_flag(nodes.iter().any(|node| seen.is_requested(node)), &at("trigger"));
    }
}
