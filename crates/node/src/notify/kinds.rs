//! The kinds of events.

/// Every kind of event that notifiers can report, as history, notifiers and `event list` write them.
pub(crate) const KINDS: [&str; 37] = [
    "joined",
    "upgraded",
    "not_upgraded",
    "lease_lost",
    "storage_failed",
    "alarm",
    "name_taken",
    "clock_differs",
    "unreadable",
    "unschedulable",
    "drained",
    "electing",
    "elected",
    "shards_draining",
    "rejected",
    "closed",
    "connected",
    "disconnected",
    "nodes_changed",
    "node.left",
    "node.offline",
    "node.online",
    "leader_changed",
    "leader_lost",
    "resuming",
    "serving",
    "suspended",
    "multi_leader",
    "shut",
    "unknown_layout",
    "outdated",
    "job.failure",
    "job.recovery",
    "job.miss",
    "job.late",
    "job.absent",
    "job.lost",
];

/// The kind of the event that a notification failed, which is listed and never sent.
pub(super) const NOTIFY_FAILED: &str = "notify_failed";

/// Every kind of event that is listed.
pub fn event_kinds() -> impl Iterator<Item = &'static str> {
    KINDS.into_iter().chain([NOTIFY_FAILED])
}

/// The kind of event with this name, with dots or underscores; `None` when there is none.
#[must_use]
pub fn event_kind(name: &str) -> Option<&'static str> {
    KINDS.into_iter().find(|kind| kind.replace('.', "_") == name.replace('.', "_"))
}
