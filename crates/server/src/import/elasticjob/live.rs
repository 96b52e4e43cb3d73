//! What the tree of a living ElasticJob says of its jobs: their `config` nodes, and what `servers`, `sharding`, `instances` and
//! `leader` add to them.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::job::JobFile;

use super::super::foreign_keys::ForeignKeys;
use super::super::report::ImportFate;
use super::super::{ImportNotes, ImportRefusal, ImportSource, Imported};
use super::{ElasticJobConfig, texts};

/// The nodes below the node of one job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ElasticJobTree {
    /// The name of the job's node.
    pub(crate) name: String,
    /// The data of the job's node: in 3.x its class, or its type where that is no class.
    pub(crate) class: Vec<u8>,
    /// The data of `config`.
    pub(crate) config: ElasticJobConfigNode,
    /// The addresses below `servers`, and whether each is enabled.
    pub(crate) servers: BTreeMap<String, bool>,
    /// The ids below `instances`: each is a process that executes the job.
    pub(crate) instances: BTreeSet<String>,
    /// The id in `leader/election/instance`.
    pub(crate) leader: Option<String>,
    /// The sharding items below `leader/failover/items`, which wait for another instance.
    pub(crate) waiting_items: BTreeSet<u32>,
    /// The sharding items with a `disabled` node.
    pub(crate) disabled_items: BTreeSet<u32>,
    /// The sharding items with a `running` node, and the instance that it names.
    pub(crate) running_items: BTreeMap<u32, String>,
}

/// What a `config` node holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum ElasticJobConfigNode {
    /// There is none, so the node above it is no job.
    #[default]
    Missing,
    /// Its data.
    Data(Vec<u8>),
    /// It cannot be read; the text has the reason and the fix.
    Unreadable(String),
}

/// Makes a job of each tree with a `config` node.
#[must_use]
pub(crate) fn convert(trees: Vec<ElasticJobTree>, namespace: &str, source: &ImportSource) -> Imported {
    let mut imported = Imported::default();
    let read: Vec<_> = trees.into_iter().map(|tree| (settings(&tree), tree)).collect();
    let configs = || read.iter().filter_map(|(config, _)| config.as_ref().ok());
    let old = configs().filter(|config| is_version_2(config)).count();
    for (version, count) in [("3.x", configs().count() - old), ("2.x", old)] {
        if count > 0 {
            let said = format!("ElasticJob {version}: {count} {}", if count == 1 { "job" } else { "jobs" });
            imported.about(&format!("namespace {namespace}"), "version", ImportFate::Taken, said);
        }
    }
    for (config, tree) in read {
        let object = format!("job {}", tree.name);
        if tree.config == ElasticJobConfigNode::Missing {
            imported.left_out(&object, "it has no config node, so it is no job of ElasticJob");
            continue;
        }
        imported.object(&object, |notes| {
            let config = config?;
            let mut job = super::job(ForeignKeys::of("", with_class(config, &tree))?, source, notes)?;
            state(&tree, &mut job, notes);
            Ok(job)
        });
    }
    imported
}

/// The settings in the `config` node.
fn settings(tree: &ElasticJobTree) -> Result<ElasticJobConfig, ImportRefusal> {
    let wrong = |said: String| ImportRefusal::new("config", said);
    let data = match &tree.config {
        ElasticJobConfigNode::Data(data) => data,
        ElasticJobConfigNode::Missing => return Err(wrong("there is none".to_owned())),
        ElasticJobConfigNode::Unreadable(why) => return Err(wrong(why.clone())),
    };
    let text = std::str::from_utf8(data).map_err(|_| wrong("its data is no text in UTF-8".to_owned()))?;
    if text.trim().is_empty() {
        return Err(wrong(
            "it is empty: its job was not written to its end, or is of Elastic-Job 1.x".to_owned(),
        ));
    }
    const SHOWN: &str = "config";
    let read = texts::read(text, SHOWN).map_err(|refused| {
        let said = refused.message.strip_prefix(&format!("{SHOWN}: ")).unwrap_or(&refused.message);
        wrong(format!("its data is neither YAML nor JSON: {said}"))
    })?;
    let mut configs = read.into_iter();
    match (configs.next(), configs.next()) {
        (Some(config), None) => Ok(config),
        _ => Err(wrong("its data is not the settings of one job, with jobName".to_owned())),
    }
}

/// Version 2 writes JSON with the type and the class of the job, version 3 writes YAML without either.
fn is_version_2(config: &ElasticJobConfig) -> bool {
    config.contains_key("jobClass") || config.contains_key("jobType")
}

/// Adds what version 3 has in the node above `config`: the class, or a type that is no class.
fn with_class(mut config: ElasticJobConfig, tree: &ElasticJobTree) -> serde_json::Value {
    let class = String::from_utf8_lossy(&tree.class);
    let has_own = ["elasticJobType", "jobType", "elasticJobClass", "jobClass"];
    if !class.is_empty() && !has_own.iter().any(|key| config.contains_key(*key)) {
        let key = if ["SCRIPT", "HTTP"].contains(&&*class) { "elasticJobType" } else { "elasticJobClass" };
        config.insert(key.to_owned(), class.as_ref().into());
    }
    serde_json::Value::Object(config)
}

/// What the nodes beside `config` change of the job, and what they say to a person.
fn state(tree: &ElasticJobTree, job: &mut JobFile, notes: &mut ImportNotes) {
    servers(tree, job, notes);
    let name = job.name.name().clone();
    if !tree.disabled_items.is_empty() {
        let items = numbers(&tree.disabled_items);
        notes.lost(
            "sharding/N/disabled",
            format!(
                "shards {items} are disabled there: `evenkeel shard disable {name} {items}` does it here"
            ),
        );
    }
    if !tree.waiting_items.is_empty() {
        let items = numbers(&tree.waiting_items);
        notes.lost("leader/failover/items", format!("shards {items} wait for failover there, not here"));
    }
    let (living, gone): (BTreeMap<_, _>, BTreeMap<_, _>) = tree
        .running_items
        .iter()
        // Version 2 keeps no instance in the node, which then ends with its session.
        .partition(|(_, instance)| instance.is_empty() || tree.instances.contains(*instance));
    let items = |items: &BTreeMap<&u32, &String>| numbers(&items.keys().map(|item| **item).collect());
    if !living.is_empty() {
        let said =
            format!("shards {} run there now: these runs end there, and no history has them", items(&living));
        notes.lost("sharding/N/running", said);
    }
    if !gone.is_empty() {
        let said = format!("shards {} ran on instances that are gone", items(&gone));
        notes.lost("sharding/N/running", said);
    }
    // What is disabled there does not run twice.
    if !tree.instances.is_empty() && job.enabled {
        let leader =
            tree.leader.as_ref().map(|leader| format!(", of which {leader} leads")).unwrap_or_default();
        notes.lost(
            "instances",
            format!(
                "{} online{leader}: ElasticJob runs the job, too, until it is disabled there",
                few(tree.instances.iter().map(String::as_str))
            ),
        );
    }
}

/// A job that is disabled on every server does not run.
fn servers(tree: &ElasticJobTree, job: &mut JobFile, notes: &mut ImportNotes) {
    let disabled: Vec<&str> =
        tree.servers.iter().filter(|(_, enabled)| !**enabled).map(|(name, _)| name.as_str()).collect();
    let all = tree.servers.len();
    if all == disabled.len() {
        if all > 0 && job.enabled {
            job.enabled = false;
            notes.changed("servers", format!("enabled = false: all {all} servers are disabled for the job"));
        }
    } else if !disabled.is_empty() {
        notes.lost(
            "servers",
            format!(
                "{} of {all} servers are disabled for the job: {}; node_selector says which nodes run it",
                disabled.len(),
                few(disabled.into_iter())
            ),
        );
    } else if !job.enabled {
        notes.changed(
            "servers",
            format!(
                "enabled = false as config says, which counts for new servers there; now the job is enabled on all {all} servers: \
                 `evenkeel job enable {}` does it here",
                job.name.name()
            ),
        );
    }
}

/// Numbers as the command line takes them: `0,2-5`.
fn numbers(items: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for item in items {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*item) => *last = *item,
            _ => ranges.push((*item, *item)),
        }
    }
    let range = |(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

/// The first of some names, and how many more there are.
fn few<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 5;
    let more = names.len().saturating_sub(SHOWN);
    let first = names.take(SHOWN).collect::<Vec<_>>().join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

#[cfg(test)]
mod tests;
