//! Names: a type name stands for one thing in the whole workspace, and retired names do not come back.

use std::collections::BTreeMap;

use super::violation::TidyViolation;
use crate::tree::SourceTree;

/// Names of code that were given up, each with the name that took its place.
const RETIRED: &[(&str, &str)] = &[
    ("Aside", "RegistryThread"),
    ("Baton", "NodeHandoff"),
    ("Board", "queries"),
    ("Book", "what it holds: SqlState, SqliteTransaction"),
    ("Books", "BackupRegistry"),
    ("BY_HAND", "MANUAL"),
    ("call_off", "cancel"),
    ("Canary", "Sentinel"),
    ("Decisions", "RuleOutput"),
    ("Deed", "AuditAction"),
    ("Desk", "what it does: PlanWriter, RunStateWriter, Preview"),
    ("Door", "AccessPolicy"),
    ("Ear", "PeerServer"),
    ("every_node", "Placement::Broadcast"),
    ("Happening", "DriverEvent"),
    ("Lane", "RunState"),
    ("Ledger", "SqlSnapshot"),
    ("live_on", "keep_running"),
    ("Mark", "ReshardPending"),
    ("News", "ExecutorEvent"),
    ("Order", "HandleRequest"),
    ("Pace", "TimeSource"),
    ("parrot", "what it does"),
    ("Passed", "HandoffRun"),
    ("Place", "Assignment"),
    ("Portion", "ShardAssignment"),
    ("Reach", "ConnectArgs"),
    ("Scene", "RuleContext"),
    ("Seat", "PoolPermit"),
    ("Sight", "ClockObservation"),
    ("Standing", "what it says: eligibility"),
    ("Storm", "FaultDriver"),
    ("Subject", "CommitScope"),
    ("Swarm", "Workload"),
    ("Tamper", "Mutation"),
    ("Told", "HistoryEvent"),
    ("Tongue", "SqlDialect"),
    ("Trails", "PendingAudit"),
    ("Turn", "what is decided: ItemDecision, BeatDecision"),
    ("unhurried", "no_ddl_timeout"),
    ("Verb", "the group's command: JobCommand, NodeCommand"),
    ("Wish", "CommandItem"),
];

/// The keywords that declare a type.
const DECLARES: &[&str] = &["struct", "enum", "union", "trait", "type"];

/// Complains about each type name that is declared more than once.
pub(super) fn unique_types(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut first: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    let mut said = Vec::new();
    for (path, rust) in tree.rust_in(&["crates/", "examples/"]) {
        for (line, text) in rust.code.split('\n').enumerate() {
            let Some(name) = declared_type(text) else { continue };
            match first.get(name) {
                None => {
                    first.insert(name, (path, line));
                }
                Some((other, number)) => {
                    let fix = "say in its name what this one is";
                    let number = number + 1;
                    said.push(TidyViolation::at(
                        path,
                        line,
                        format!("`{name}` is also a type in {other}:{number}: {fix}"),
                    ));
                }
            }
        }
    }
    said
}

/// Complains about each use of a retired name in code; comments and texts may quote one.
pub(super) fn retired(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut said = Vec::new();
    for (path, rust) in tree.rust_in(&["crates/", "examples/"]) {
        for (old, new) in RETIRED {
            for line in rust.mentions(old) {
                said.push(TidyViolation::at(path, line, format!("`{old}` was given up for {new}")));
            }
        }
    }
    said
}

/// The type that a line declares. A `type` that is indented is an associated one, which has its trait's name.
fn declared_type(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let text = match text.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) if rest.starts_with(' ') => rest,
        _ => text,
    };
    let (keyword, rest) = text.trim_start().split_once(' ')?;
    if !DECLARES.contains(&keyword) || (keyword == "type" && line.starts_with(' ')) {
        return None;
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end]).filter(|name| name.starts_with(char::is_uppercase))
}
