//! What nodes write of each other: beats, loads, strikes, the leader, settings.

use super::*;

pub(super) fn peers() -> Vec<LayoutLine> {
    vec![
        line("beat", BeatRecord { beat: 29_395_820, holder: member(), seq: 4 }),
        line(
            "serving",
            ServingRecord { leader: Some(member()), epoch: 3, serves: true, released: true, seq: 5 },
        ),
        line(
            "load",
            LoadRecord {
                incarnation: 7,
                at: AT,
                sample: HostLoad { cpu: part(0.25), memory: part(0.5) },
                busy: 3,
                dispatched: 0,
                slots: 64,
                score: Score(4_100),
                seq: 6,
            },
        ),
        line(
            "load",
            LoadRecord {
                incarnation: 7,
                at: AT,
                sample: HostLoad { cpu: part(0.25), memory: part(0.5) },
                busy: 3,
                dispatched: 1,
                slots: 64,
                score: Score(4_100),
                seq: 6,
            },
        ),
        line(
            "count",
            CountRecord {
                count: ProcessedItems { from: AT, until: later(300), succeeded: 5, failed: 1 },
                seq: 6,
            },
        ),
        line(
            "strike",
            StrikeRecord { incarnation: 7, count: 2, beat: 29_395_820, beats: Vec::new(), seq: 3 },
        ),
        line(
            "strike-beats",
            StrikeRecord {
                incarnation: 7,
                count: 2,
                beat: 29_395_820,
                beats: vec![29_395_817, 29_395_820],
                seq: 3,
            },
        ),
        line(
            "offline",
            OfflineRecord {
                incarnation: 7,
                offline: true,
                beat: 29_395_820,
                since: AT,
                by: member(),
                seq: 2,
            },
        ),
        line(
            "settings",
            ClusterSettings {
                planner: PlannerKind::Leader,
                beat: 5,
                shift: -1,
                strikes: 4,
                handover: Handover::Waited,
                spread: Spread::Even,
                seq: 3,
            },
        ),
        line(
            "settings-first-come",
            ClusterSettings { spread: Spread::FirstCome, ..ClusterSettings::default() },
        ),
        line("intent/node", NodeIntent { since: AT, wanted: true, seq: 2, ..NodeIntent::default() }),
        line(
            "intent/node-drained",
            NodeIntent { since: AT, wanted: true, drained: Some(7), seq: 3, ..NodeIntent::default() },
        ),
        line(
            "intent/node-cordoned",
            NodeIntent { since: AT, cordoned: true, seq: 4, ..NodeIntent::default() },
        ),
        line("lock", LockRecord { holder: Some(member()), seq: 2 }),
    ]
}
