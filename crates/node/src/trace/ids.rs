//! The ids of traces and spans, derived from those of runs: every node of a cluster derives the same.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use evenkeel_core::effect::Run;
use evenkeel_core::ids::{FireId, NodeName, RunId};
use sha2::{Digest, Sha256};

/// The variable in which a command finds its trace context.
pub(crate) const TRACEPARENT: &str = "TRACEPARENT";

/// The id of a trace: of a fire with all its shards and attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceId(pub [u8; 16]);

/// The id of a span: of a fire of one shard, or of one of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpanId(pub [u8; 8]);

/// The trace context of an attempt, for spans of the program that it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace of the fire.
    pub trace: TraceId,
    /// The span of the attempt.
    pub span: SpanId,
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl TraceContext {
    /// The context as `traceparent` of W3C Trace Context. It is marked as sampled.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-01", self.trace, self.span)
    }
}

/// Derives ids for the runs of one cluster: two clusters that report to one place may have jobs of the same names.
#[derive(Clone, Debug)]
pub(crate) struct TraceIds {
    cluster: Arc<str>,
}

impl TraceIds {
    /// The ids of the cluster of this id; of no cluster if it is empty.
    pub(crate) fn new(cluster: &str) -> Self {
        Self { cluster: cluster.into() }
    }

    /// The trace of a fire.
    pub(crate) fn trace(&self, run: &RunId) -> TraceId {
        TraceId(self.digest("trace", format_args!("{}", FireId::from(run))))
    }

    /// The span of a fire of one shard.
    pub(crate) fn fire(&self, run: &RunId) -> SpanId {
        SpanId(self.digest("fire", format_args!("{run}")))
    }

    /// The context of an attempt.
    pub(crate) fn attempt(&self, run: &RunId, attempt: u32) -> TraceContext {
        let span = SpanId(self.digest("attempt", format_args!("{run} {attempt}")));
        TraceContext { trace: self.trace(run), span }
    }

    /// The first bytes of the hash of a text. They are never all zero, which would be no id.
    fn digest<const N: usize>(&self, kind: &str, text: fmt::Arguments<'_>) -> [u8; N] {
        let text = format!("evenkeel {kind} 1\n{}\n{text}", self.cluster);
        let hash = Sha256::digest(text.as_bytes());
        let mut id = [0; N];
        id.iter_mut().zip(hash).for_each(|(to, from)| *to = from);
        if id == [0; N] {
            id[N - 1] = 1;
        }
        id
    }
}

/// What every run is given: its facts, as the environment of commands, and its trace context.
#[derive(Clone, Debug)]
pub(crate) struct RunEnvironment {
    node: NodeName,
    ids: TraceIds,
}

impl RunEnvironment {
    /// The environment of runs on this node.
    pub(crate) fn new(node: NodeName, ids: TraceIds) -> Self {
        Self { node, ids }
    }

    /// The ids of the cluster's traces.
    pub(crate) fn ids(&self) -> &TraceIds {
        &self.ids
    }

    /// The facts of a run under the names of their variables, with its trace context.
    pub(crate) fn of(&self, run: &Run) -> BTreeMap<&'static str, String> {
        let mut facts = run.environment(&self.node);
        facts.insert(TRACEPARENT, self.context(run).traceparent());
        facts
    }

    /// The trace context of a run.
    pub(crate) fn context(&self, run: &Run) -> TraceContext {
        self.ids.attempt(&run.id, run.attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str) -> RunId {
        text.parse().unwrap()
    }

    #[test]
    fn all_attempts_and_shards_of_a_fire_have_one_trace_and_each_its_own_span() {
        let ids = TraceIds::new("c1");
        let (first, shard) = (run("j:1000:0"), run("j:1000:1"));
        let attempts =
            [ids.attempt(&first, 1), ids.attempt(&first, 2), ids.attempt(&shard, 1), ids.attempt(&shard, 2)];
        assert!(attempts.iter().all(|context| context.trace == attempts[0].trace));
        let mut spans: Vec<SpanId> = attempts.iter().map(|context| context.span).collect();
        spans.extend([ids.fire(&first), ids.fire(&shard)]);
        spans.sort();
        spans.dedup();
        assert_eq!(spans.len(), 6);
    }

    #[test]
    fn another_fire_job_or_cluster_has_another_trace_and_another_node_the_same() {
        let ids = TraceIds::new("c1");
        let trace = ids.trace(&run("j:1000:0"));
        assert_eq!(TraceIds::new("c1").trace(&run("j:1000:0")), trace);
        for other in ["j:2000:0", "team/j:1000:0", "j:ask-x:0"] {
            assert_ne!(ids.trace(&run(other)), trace, "{other}");
        }
        assert_ne!(TraceIds::new("c2").trace(&run("j:1000:0")), trace);
    }

    #[test]
    fn a_context_is_written_as_w3c_trace_context() {
        let context = TraceContext { trace: TraceId([0xab; 16]), span: SpanId([0x01; 8]) };
        assert_eq!(context.traceparent(), format!("00-{}-{}-01", "ab".repeat(16), "01".repeat(8)));
        // It is what receivers remember, so it stays as it is from version to version.
        let derived = TraceIds::new("c1").attempt(&run("j:1000:0"), 1).traceparent();
        assert_eq!(derived, "00-63f9add3c5a89ca70094b570b1b373bd-d2592969b1cea610-01");
    }
}
