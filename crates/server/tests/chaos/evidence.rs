//! What was done to nodes, what nodes recorded of themselves, and what of that explains a lost or a repeated run.
//!
//! A stalled machine delays everything, so no excuse here is a span of time with slack. A run may be lost, or attempted again,
//! only where its node was interrupted while it had the run: the trial killed the node or its registry, or the node itself
//! recorded that its lease was lost.

use serde_json::Value;

use crate::witness::moment;

/// How long before its moment a fire may be claimed.
pub(crate) const LEAD_MS: i64 = 1_000;

/// What a node says of runs whose guard did not answer in time, which a machine that is much too busy can bring about. They
/// were ended, and history has that end, so none of them is lost.
pub(crate) const UNGUARDED: &str = "the guard process was gone";

/// What a trial does to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultAction {
    Killed,
    Frozen,
    /// From its registry.
    CutOff,
    /// Nothing passes between it and its registry, and no connection ends.
    Silenced,
    /// Its registry was killed and started again.
    EngineKilled,
}

/// Something done to a node. Moments are in milliseconds of the calendar, spans in milliseconds.
#[derive(Clone, Debug)]
pub(crate) struct NodeFault {
    pub(crate) node: &'static str,
    pub(crate) how: FaultAction,
    /// Just before it was done.
    pub(crate) at: i64,
    /// Just after it was done; where the engine was killed, when all nodes were back.
    pub(crate) done: i64,
    /// How long until its claimed jobs were others'.
    pub(crate) takeover: i64,
    /// How long until its shards were others'.
    pub(crate) reshard: i64,
    /// How long after the end of its lease its claimed jobs were others', where the trial can read the lease.
    pub(crate) after_lease: Option<i64>,
}

/// A node recorded that its lease was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LostLease {
    pub(crate) node: String,
    pub(crate) at: i64,
}

impl LostLease {
    /// Reads what `event list --kind lease_lost` prints.
    pub(crate) fn read(rows: &Value) -> Vec<Self> {
        let read = |row: &Value| {
            let text = |key: &str| row[key].as_str().expect("an event has it").to_owned();
            Self { node: text("node"), at: moment(&text("at")).expect("a moment") }
        };
        rows.as_array().expect("a list").iter().filter(|row| row["kind"] == "lease_lost").map(read).collect()
    }
}

/// A node stopped working at a moment between these two, and nothing that it had then was in its hands afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Interruption {
    node: String,
    from: i64,
    until: i64,
}

/// That an attempt is lost, by history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttemptLoss {
    pub(crate) node: String,
    pub(crate) attempt: u64,
    /// When its node started it, which is earlier than the first line of its program.
    pub(crate) started: Option<i64>,
    /// When history heard of it.
    pub(crate) recorded: i64,
}

impl AttemptLoss {
    /// Reads a row of history; `None` where the row is not about a lost attempt. A run that its own node ended because trust
    /// in the lease ran out is in doubt like one whose node is gone.
    pub(crate) fn of(row: &Value) -> Option<Self> {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let lost = match text("state").as_str() {
            "lost" => true,
            "fenced" => text("reason") != UNGUARDED,
            _ => false,
        };
        let node = text("node").split('@').next().unwrap_or_default().to_owned();
        lost.then(|| Self {
            node,
            attempt: row["attempt"].as_u64().unwrap_or_default(),
            started: moment(&text("started")),
            recorded: moment(&text("ended")).expect("a lost attempt has an end"),
        })
    }

    /// When an attempt began: when its node started it, where history says so, for on a busy machine its program may write its
    /// first line after its node was killed.
    pub(crate) fn began(losses: &[Self], attempt: u32, first_line: i64) -> i64 {
        let of_attempt = losses.iter().find(|loss| loss.attempt == u64::from(attempt));
        of_attempt.and_then(|loss| loss.started).map_or(first_line, |started| started.min(first_line))
    }
}

/// When nodes were interrupted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    interruptions: Vec<Interruption>,
}

impl Evidence {
    /// `starts` is when each node's runs began, as the witness has it: at such a moment the node's lease was alive, so a lease
    /// that the node recorded as lost ended after the latest of them.
    pub(crate) fn gather(
        faults: &[NodeFault],
        lost_leases: &[LostLease],
        starts: impl Iterator<Item = (String, i64)>,
    ) -> Self {
        let killed =
            |fault: &&NodeFault| matches!(fault.how, FaultAction::Killed | FaultAction::EngineKilled);
        let faults = faults.iter().filter(killed);
        let mut interruptions: Vec<_> = faults
            .map(|fault| Interruption { node: fault.node.to_owned(), from: fault.at, until: fault.done })
            .collect();
        let starts: Vec<_> = starts.collect();
        interruptions.extend(lost_leases.iter().map(|lost| {
            let theirs = starts.iter().filter(|(node, at)| *node == lost.node && *at < lost.at);
            let from = theirs.map(|(_, at)| *at).max().unwrap_or(0);
            Interruption { node: lost.node.clone(), from, until: lost.at }
        }));
        Self { interruptions }
    }

    /// Whether an interruption explains that a fire was lost on a node. The fire was claimed `since` then at the earliest.
    /// `went_on` says whether a later fire of the same shard had begun by a moment: then this one was over by then.
    pub(crate) fn explains_loss(
        &self,
        loss: &AttemptLoss,
        since: i64,
        went_on: impl Fn(i64) -> bool,
    ) -> bool {
        self.of(&loss.node).any(|it| since <= it.until && it.from <= loss.recorded && !went_on(it.from))
    }

    /// Whether a node was interrupted after an attempt began there and before the next attempt began.
    pub(crate) fn explains_repetition(&self, node: &str, (first, next): (i64, i64)) -> bool {
        self.of(node).any(|it| first <= it.until && it.from <= next)
    }

    fn of(&self, node: &str) -> impl Iterator<Item = &Interruption> {
        self.interruptions.iter().filter(move |it| it.node == node)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A node that was killed at that moment.
    pub(crate) fn killed(at: i64) -> NodeFault {
        let (node, how) = ("n1", FaultAction::Killed);
        NodeFault { node, how, at, done: at, takeover: 0, reshard: 0, after_lease: None }
    }

    /// A node that recorded at that moment that its lease was lost.
    pub(crate) fn lost_lease(at: i64) -> LostLease {
        LostLease { node: "n1".into(), at }
    }

    fn loss(recorded: i64) -> AttemptLoss {
        AttemptLoss { node: "n1".into(), attempt: 1, started: None, recorded }
    }

    #[test]
    fn a_pause_or_a_cut_alone_explains_nothing() {
        for how in [FaultAction::Frozen, FaultAction::CutOff, FaultAction::Silenced] {
            let fault = NodeFault { how, ..killed(5_000) };
            let evidence = Evidence::gather(&[fault], &[], std::iter::empty());
            assert!(!evidence.explains_loss(&loss(9_000), 4_000, |_| false), "{how:?}");
        }
        let engine = NodeFault { how: FaultAction::EngineKilled, ..killed(5_000) };
        let evidence = Evidence::gather(&[engine], &[], std::iter::empty());
        assert!(evidence.explains_loss(&loss(9_000), 4_000, |_| false));
    }

    #[test]
    fn a_lease_ended_between_the_last_start_and_the_event() {
        let starts = [("n1", 3_000), ("n2", 4_000), ("n1", 6_000)].map(|(node, at)| (node.to_owned(), at));
        let evidence = Evidence::gather(&[], &[lost_lease(5_000)], starts.into_iter());
        assert!(evidence.explains_loss(&loss(9_000), 4_000, |_| false), "however late history heard of it");
        assert!(evidence.explains_loss(&loss(3_000), 4_000, |_| false));
        assert!(!evidence.explains_loss(&loss(2_999), 2_000, |_| false), "the node started a run later");
        assert!(!evidence.explains_loss(&loss(9_000), 5_001, |_| false), "the fire was claimed later");
        assert!(!evidence.explains_loss(&loss(9_000), 4_000, |by| by >= 3_000), "a later fire had begun");
        assert!(!evidence.explains_loss(&AttemptLoss { node: "n2".into(), ..loss(9_000) }, 4_000, |_| false));
        assert!(evidence.explains_repetition("n1", (2_500, 3_000)));
        assert!(!evidence.explains_repetition("n1", (2_000, 2_999)), "the node went on for longer");
        assert!(!evidence.explains_repetition("n1", (5_001, 9_000)), "the attempt began after it");
    }

    #[test]
    fn an_attempt_began_when_its_node_started_it() {
        let losses =
            [AttemptLoss { started: Some(2_010), ..loss(7_000) }, AttemptLoss { attempt: 2, ..loss(9_000) }];
        assert_eq!(AttemptLoss::began(&losses, 1, 2_500), 2_010);
        assert_eq!(AttemptLoss::began(&losses, 2, 2_500), 2_500, "history does not say when it started");
        assert_eq!(AttemptLoss::began(&[], 1, 2_500), 2_500);
    }

    #[test]
    fn rows_are_read() {
        let row = |state: &str, reason: &str| {
            let ended = "1970-01-01T00:00:07.250Z";
            let (started, attempt) = ("1970-01-01T00:00:02Z", 1);
            serde_json::json!({
                "state": state, "reason": reason, "node": "n1@7", "attempt": attempt, "started": started, "ended": ended
            })
        };
        let loss = |recorded| AttemptLoss { started: Some(2_000), ..loss(recorded) };
        assert_eq!(AttemptLoss::of(&row("lost", "its node is gone")), Some(loss(7_250)));
        assert_eq!(AttemptLoss::of(&row("fenced", "signal 15")), Some(loss(7_250)));
        assert_eq!(AttemptLoss::of(&row("fenced", UNGUARDED)), None);
        assert_eq!(AttemptLoss::of(&row("skipped", "")), None);
        let event =
            |kind: &str| serde_json::json!({"kind": kind, "node": "n1", "at": "1970-01-01T00:00:05Z"});
        let rows = serde_json::json!([event("joined"), event("lease_lost")]);
        assert_eq!(LostLease::read(&rows), [lost_lease(5_000)]);
    }
}
