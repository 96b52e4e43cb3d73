//! The tree of ElasticJob 3.x: settings as YAML, `instances`, what runs under `sharding`.

use std::collections::BTreeMap;

use evenkeel_core::job::Work;
use evenkeel_core::sharding_strategy::ShardingStrategy;
use serde_yaml_ng::Value;

use super::compat_job::CompatJob;
use super::elasticjob1::{class, command_line, parameters};
use super::shard::shards;
use super::tree::{CompatEntry, CompatEntryKind, CompatTree};

pub(super) fn render(seen: &CompatJob) -> Vec<CompatEntry> {
    let mut tree = CompatTree::of(&seen.job().name, &class(&seen.job().work.action()));
    tree.persistent("config", config(seen));
    instances(seen, &mut tree);
    leader(seen, &mut tree);
    servers(seen, &mut tree);
    sharding(seen, &mut tree);
    for member in seen.members.keys().filter(|member| seen.is_requested(&member.node)) {
        tree.persistent(&format!("trigger/{}", seen.id(member)), "");
    }
    tree.entries
}

fn config(seen: &CompatJob) -> String {
    let job = seen.job();
    let difference = job.placement.members().and_then(|members| members.max_clock_skew);
    let difference = difference.map_or(-1, |skew| skew.0 / 1000);
    let mut config: BTreeMap<&str, Value> = [
        ("description", job.description.as_str().into()),
        ("disabled", (!job.enabled).into()),
        ("failover", seen.fails_over().into()),
        ("jobName", job.name.as_str().into()),
        ("jobParameter", job.parameter.as_str().into()),
        ("maxTimeDiffSeconds", difference.into()),
        ("misfire", seen.catches_up().into()),
        ("monitorExecution", job.placement.is_monitored().into()),
        ("shardingItemParameters", parameters(&job.shard_parameters).into()),
        ("shardingTotalCount", seen.sharding.shard_map.total_of(job).into()),
        ("staticSharding", job.placement.has_sticky_shards().into()),
    ]
    .into();
    let strategy = match job.placement.strategy() {
        ShardingStrategy::Average => None,
        ShardingStrategy::OddEven => Some("ODEVITY"),
        ShardingStrategy::Rotate => Some("ROUND_ROBIN"),
    };
    let some = |text: &str| Some(Value::from(text)).filter(|_| !text.is_empty());
    let property = match (job.work.action(), job.work.dataflow()) {
        (Work::Command(argv), _) => Some(("script.command.line", command_line(&argv))),
        (_, Some(dataflow)) => Some(("streaming.process", dataflow.streaming.to_string())),
        (Work::Function(_) | Work::Http(_), None) => None,
    };
    let property = property.map(|(name, value)| (Value::from(name), Value::from(value)));
    let props = property.map(|property| Value::Mapping([property].into_iter().collect()));
    let present = [
        ("cron", some(job.rules())),
        ("jobShardingStrategyType", strategy.map(Value::from)),
        ("props", props),
        ("timeZone", some(job.timezone())),
    ];
    config.extend(present.into_iter().filter_map(|(key, value)| Some((key, value?))));
    yaml(&config)
}

fn yaml(map: &BTreeMap<&str, Value>) -> String {
    // A map of texts, numbers and booleans, which YAML can always express.
    serde_yaml_ng::to_string(map).expect("a map of plain values").trim_end().to_owned()
}

fn instances(seen: &CompatJob, tree: &mut CompatTree) {
    tree.persistent("instances", "");
    for member in seen.members.keys().filter(|member| !seen.is_shut(&member.node)) {
        let id = seen.id(member);
        let host = seen.host(&member.node);
        let value = yaml(&[("jobInstanceId", id.as_str().into()), ("serverIp", host.into())].into());
        tree.ephemeral(&format!("instances/{id}"), value);
    }
}

fn leader(seen: &CompatJob, tree: &mut CompatTree) {
    tree.persistent("leader/election", "");
    if let Some(leader) = seen.leader() {
        tree.ephemeral("leader/election/instance", seen.id(leader));
    }
    for shard in seen.left_behind().iter() {
        tree.persistent(&format!("leader/failover/items/{shard}"), "");
    }
    tree.persistent("leader/sharding", "");
    tree.add_flag(seen.sharding.reshard_pending.is_some(), "leader/sharding/necessary");
}

fn servers(seen: &CompatJob, tree: &mut CompatTree) {
    tree.persistent("servers", "");
    for (host, nodes) in seen.hosts() {
        let off = nodes.iter().all(|node| seen.is_disabled(node));
        tree.persistent(&format!("servers/{host}"), if off { "DISABLED" } else { "ENABLED" });
    }
}

fn sharding(seen: &CompatJob, tree: &mut CompatTree) {
    let monitor = seen.job().placement.is_monitored();
    let schedule = seen.job().schedule_with_calendars(seen.calendars.as_ref());
    // With failover, the source keeps the entry of a crashed run until another instance takes it over.
    let running = if seen.fails_over() { CompatEntryKind::Persistent } else { CompatEntryKind::Ephemeral };
    for shard in shards(seen) {
        let at = format!("sharding/{}", shard.shard);
        tree.persistent(&at, "");
        tree.add_flag(shard.is_off(), &format!("{at}/disabled"));
        if let Some(taker) = shard.failover_member() {
            tree.ephemeral(&format!("{at}/failover"), seen.id(taker));
            tree.persistent(&format!("{at}/failovering"), seen.id(taker));
        }
        if let Some(holder) = shard.holder {
            tree.persistent(&format!("{at}/instance"), seen.id(holder));
        }
        tree.add_flag(monitor && shard.has_missed(schedule.as_ref()), &format!("{at}/misfire"));
        if let Some((by, _)) = shard.run().filter(|_| monitor) {
            tree.add(&format!("{at}/running"), running, seen.id(by));
        }
    }
}
