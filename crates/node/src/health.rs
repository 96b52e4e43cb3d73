//! What a node knows of its own health, for people and for other nodes.

use evenkeel_core::node::Node;
use evenkeel_core::time::{Millis, Now, Wall};
use serde::{Deserialize, Serialize};

use crate::clock;
use crate::handle::Handle;
use crate::metrics::TimePercentiles;

/// The health of one node, as it measures itself. A node of another version may leave something out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeHealth {
    /// The version of its program.
    pub version: String,
    /// The engine of its registry.
    pub engine: String,
    /// The time of day by its clock.
    pub at: Wall,
    /// How long this process has run the node, in milliseconds.
    pub uptime_ms: i64,
    /// Whether it is a member whose lease is trusted, so that it may act.
    pub member: bool,
    /// The time since the registry last confirmed its lease, in milliseconds; `None` without a lease.
    pub lease_age_ms: Option<i64>,
    /// The term of its lease, in milliseconds.
    pub lease_term_ms: i64,
    /// How long it may still act if the registry does not answer any more, in milliseconds.
    pub lease_trusted_ms: Option<i64>,
    /// How many requests about its lease the registry did not answer or refused, since the process began.
    pub lease_failures: u64,
    /// By how much its clock differs from the registry's at least, in milliseconds; `None` if the registry has no clock.
    pub clock_offset_ms: Option<i64>,
    /// By how much its clock may differ before it claims no fires, in milliseconds.
    pub clock_offset_max_ms: i64,
    /// How long the registry took to answer the latest batches of transactions.
    pub commits: Option<TimePercentiles>,
    /// How many transactions have no answer yet.
    pub commits_waiting: u64,
    /// How long after their due moments the latest fires started.
    pub lateness: Option<TimePercentiles>,
    /// How many runs may go on at once.
    pub slots: u32,
    /// How many do.
    pub slots_busy: u32,
    /// How many jobs have a due fire that waits for a slot.
    pub slots_waiting: u64,
    /// How many jobs have a run that waits for a permit of a pool or a namespace.
    pub permits_waiting: u64,
    /// How many entries the history has not written yet.
    pub history_waiting: u64,
    /// Why the history takes no entries, so that the node starts nothing; `None` if it does.
    pub history_trouble: Option<String>,
}

impl Handle {
    /// The health of this node, as it measures itself now.
    #[must_use]
    pub fn health(&self) -> NodeHealth {
        let (shared, now) = (&self.shared, clock::now());
        let measured = NodeHealth {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            engine: shared.facts.engine.to_owned(),
            at: now.wall,
            uptime_ms: shared.metrics.uptime(now.mono).0,
            lease_failures: shared.metrics.lease_failures(),
            commits: shared.metrics.commit_times(),
            lateness: shared.metrics.lateness_times(),
            history_waiting: shared.history.waiting(),
            history_trouble: shared.history.trouble(),
            ..NodeHealth::default()
        };
        self.with_node(|node| measured.with_state(node, now))
    }
}

impl NodeHealth {
    fn with_state(self, node: &Node, now: Now) -> Self {
        let (local, lease) = (node.local(), node.local().lease());
        let (_, busy, slots, _) = node.load();
        let trusted = node.trusted_until(now.mono);
        let span = |span: Millis| span.0;
        Self {
            member: node.member().is_some() && trusted.is_some(),
            lease_age_ms: lease.confirmed().map(|confirmed| span(now.mono - confirmed)),
            lease_term_ms: span(lease.ttl()),
            lease_trusted_ms: trusted.map(|until| span(until - now.mono)),
            clock_offset_ms: lease.difference(now).map(span),
            clock_offset_max_ms: span(local.settings().max_clock_skew),
            commits_waiting: local.commits().iter().count() as u64,
            slots,
            slots_busy: busy,
            slots_waiting: local.waiting_for_slot() as u64,
            permits_waiting: local.waiting_for_permit() as u64,
            ..self
        }
    }
}
