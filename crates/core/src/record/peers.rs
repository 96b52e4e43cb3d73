//! The entries by which nodes cooperate: plans, beats, loads, strikes, and the serving leader.

use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

use super::{Attempt, FailureStreak, Outcomes};
use crate::effect::Verdict;
use crate::ids::Member;
use crate::load::{HostLoad, Score};
use crate::overlap::SkippedSpan;
use crate::settings::Spread;
use crate::time::{Millis, Wall};

/// The plan of a dispatched job: its planned and running runs, under `keys::plan`. Written by the planner, and by the
/// node of each run for that run.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Plan {
    /// Every fire due up to here is settled or among the runs.
    pub watermark: Wall,
    /// The furthest fire that was ever accepted or skipped: no change of the schedule plans it again.
    pub reached: Wall,
    /// Counts writes; the lower part of tokens.
    pub seq: u64,
    /// The version of the spec that it follows.
    #[serde(default)]
    pub version: u64,
    /// The versions of the calendars that it follows, added up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub calendars: u64,
    /// The node that planned last, and its beat or, as the serving leader, its epoch: for people who ask why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner: Option<Planner>,
    /// When a run ended last: from then on the run that is due first goes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed: Option<Wall>,
    /// The expected duration of a run, from those that ended lately: the latest one counts as much as all before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took: Option<Millis>,
    /// The runs, in the order in which they were planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<Attempt>,
    /// Verdicts that history has not acknowledged yet (law 9).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verdicts: Vec<Verdict>,
    /// The runs in a row that ended badly, of a job that is paused after some.
    #[serde(default, skip_serializing_if = "FailureStreak::is_none")]
    pub failures: FailureStreak,
    /// Fires that came due while runs went on, and that will not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passed: Vec<SkippedSpan>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            watermark: Wall::MIN,
            reached: Wall::MIN,
            seq: 0,
            version: 0,
            calendars: 0,
            planner: None,
            freed: None,
            took: None,
            runs: Vec::new(),
            verdicts: Vec::new(),
            failures: FailureStreak::default(),
            passed: Vec::new(),
        }
    }
}

impl Plan {
    /// The parts that the ends of runs change.
    pub fn outcomes(&mut self) -> Outcomes<'_> {
        Outcomes { verdicts: &mut self.verdicts, failures: &mut self.failures }
    }
}

/// The planner, and its right to plan.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Planner {
    /// The planner.
    pub member: Member,
    /// The number of its beat, or its epoch as the serving leader.
    pub number: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_of(n: &u32) -> bool {
    *n == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// The node that does a cluster-wide operation in a beat, under `keys::beat` (S0-24 … S0-26). It is never released:
/// in the next beat the number is larger, and so the operation is free.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BeatRecord {
    /// The number of the beat: how many spans of a beat's length since 1970.
    pub beat: u64,
    /// The node that claimed it.
    pub holder: Member,
    /// Rises with every write; the lower part of the holder's token.
    pub seq: u64,
}

/// The load of a node, under `keys::load`; written by that node once a beat.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LoadRecord {
    /// The life of the node.
    pub incarnation: u64,
    /// When it was measured, by the node's clock.
    pub at: Wall,
    /// The measured load of its host.
    #[serde(flatten)]
    pub sample: HostLoad,
    /// How many of its slots were busy.
    pub busy: u32,
    /// How many of these were busy with runs of dispatched jobs.
    #[serde(default, skip_serializing_if = "is_none_of")]
    pub dispatched: u32,
    /// How many slots it has.
    pub slots: u32,
    /// Its load score.
    pub score: Score,
    /// Rises with every write.
    pub seq: u64,
}

/// How many items of a job were processed between two moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ProcessedItems {
    /// Start of the interval.
    pub from: Wall,
    /// End of the interval.
    pub until: Wall,
    /// How many items succeeded (S2-36).
    pub succeeded: u64,
    /// How many items failed (S2-37).
    pub failed: u64,
}

/// The items that a node processed of a job in its latest interval, under `keys::count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CountRecord {
    /// The counted items.
    #[serde(flatten)]
    pub count: ProcessedItems,
    /// Rises with every write.
    pub seq: u64,
}

/// How often one node could not reach another, under `keys::strike` (S0-47).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StrikeRecord {
    /// The life that could not be reached. Strikes of another life count for nothing (S0-52).
    pub incarnation: u64,
    /// How many times, since it was last reached.
    pub count: u32,
    /// The beat of the last one: there is at most one a beat (I44).
    pub beat: u64,
    /// The beats of these strikes, the latest last, at most as many as make a node offline. Strikes of several
    /// observers in one beat are one beat without contact (S0-48). Empty where a program did not record them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beats: Vec<u64>,
    /// Rises with every write.
    pub seq: u64,
}

impl StrikeRecord {
    /// The beats of its strikes, the latest last. Where they are not recorded, they are assumed to be consecutive.
    pub fn missed(&self) -> impl Iterator<Item = u64> {
        let end = self.beat.saturating_add(1);
        let assumed = if self.beats.is_empty() { u64::from(self.count).min(end) } else { 0 };
        self.beats.iter().copied().chain(end - assumed..end)
    }
}

/// Whether its peers have marked a node as offline, under `keys::offline` (S0-48, S0-50).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OfflineRecord {
    /// The life it is about. Another life is online (S0-52).
    pub incarnation: u64,
    /// Whether it is offline; `false` once its peers reach it again, or after an operator activated it.
    pub offline: bool,
    /// The beat in which that was so: strikes up to it are forgiven once it is online again.
    pub beat: u64,
    /// When that changed.
    pub since: Wall,
    /// The writer: of two nodes that write the same at one moment each can see whose write it was (law 5).
    pub by: Member,
    /// Rises with every write.
    pub seq: u64,
}

/// The serving leader, where the planner is a leader, under `keys::serving` (S4-02).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServingRecord {
    /// The leader; `None` once it has released the lead. Persistent: its membership says whether it lives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<Member>,
    /// Counts leaders (I1).
    pub epoch: u64,
    /// Whether the leader has loaded the metadata, waited, and serves now.
    #[serde(default)]
    pub serves: bool,
    /// Whether the leader before stopped by itself and recorded that: then there is no need to wait (I4-01).
    #[serde(default)]
    pub released: bool,
    /// Rises with every write.
    pub seq: u64,
}

/// The settings of the whole cluster, under `keys::settings`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterSettings {
    /// Who plans the runs of dispatched jobs: a new planner each beat, or the leader.
    pub planner: PlannerKind,
    /// The length of a beat in seconds.
    pub beat: u32,
    /// An offset added to the number of beats since 1970, so that numbers go on rising when beats become longer.
    pub shift: i64,
    /// How many strikes make a node offline (S0-48).
    pub strikes: u32,
    /// The wait of a new serving leader before it serves.
    pub handover: Handover,
    /// How free jobs are spread over nodes.
    #[serde(skip_serializing_if = "is_even")]
    pub spread: Spread,
    /// Rises with every write.
    pub seq: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_even(spread: &Spread) -> bool {
    *spread == Spread::Even
}

impl Default for ClusterSettings {
    fn default() -> Self {
        Self {
            planner: PlannerKind::Beat,
            beat: 60,
            shift: 0,
            strikes: 3,
            handover: Handover::Fenced,
            spread: Spread::Even,
            seq: 0,
        }
    }
}

impl ClusterSettings {
    /// The length of a beat.
    #[must_use]
    pub fn beat_length(&self) -> Millis {
        Millis::secs(i64::from(self.beat.max(1)))
    }

    /// The number of the beat that contains a moment.
    #[must_use]
    pub fn beat_of(&self, at: Wall) -> u64 {
        u64::try_from(at.0.div_euclid(self.beat_length().0).saturating_add(self.shift)).unwrap_or(0)
    }

    /// The same settings with beats of this length from now on, in seconds. The beat of this moment is the one after
    /// the present beat, so that no node has claimed it yet and no later number was ever given.
    #[must_use]
    pub fn with_beat(&self, secs: u32, now: Wall) -> Self {
        let next = i64::try_from(self.beat_of(now)).unwrap_or(0) + 1;
        let new = Self { beat: secs, shift: 0, ..self.clone() };
        let unshifted = i64::try_from(new.beat_of(now)).unwrap_or(0);
        Self { shift: next - unshifted, ..new }
    }

    /// When a beat begins.
    #[must_use]
    pub fn start_of(&self, beat: u64) -> Wall {
        let since_1970 = i64::try_from(beat).unwrap_or(i64::MAX).saturating_sub(self.shift);
        Wall(since_1970.saturating_mul(self.beat_length().0))
    }
}

/// The planner of dispatched jobs: who plans their runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PlannerKind {
    /// In each beat the node that claims it first, which is the least loaded as a rule (seed 000).
    #[default]
    Beat,
    /// The serving leader, for as long as it lives; the others are on standby and take no commands (seed 004).
    Leader,
}

/// The wait of a new serving leader before it serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Handover {
    /// The rest of the wait by the arithmetic of leases: nothing, where every leader stops by its own deadline.
    #[default]
    Fenced,
    /// T1 + T2 in full, as if leaders kept no deadline (seed 004 to the letter).
    Waited,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// proves: S0-25, I11
    #[test]
    fn numbers_of_beats_rise_whatever_their_length_becomes() {
        let mut settings = ClusterSettings::default();
        let mut now = Wall(1_763_749_200_000);
        assert_eq!(settings.beat_of(now), 29_395_820, "minutes since 1970 as long as nobody changes it");
        let mut last = settings.beat_of(now);
        for secs in [5, 60, 1, 3_600, 7, 60] {
            now = now + Millis(12_345);
            last = last.max(settings.beat_of(now));
            settings = settings.with_beat(secs, now);
            let beat = settings.beat_of(now);
            assert_eq!(beat, last + 1, "of {secs} s");
            assert!(settings.start_of(beat) <= now && now < settings.start_of(beat + 1));
            assert_eq!(settings.start_of(beat).0 % (i64::from(secs) * 1000), 0, "on the clock's own marks");
            last = beat;
        }
    }

    /// proves: S0-48
    #[test]
    fn strikes_without_their_beats_are_taken_to_have_followed_each_other() {
        let missed = |count, beat, beats: &[u64]| {
            let strike = StrikeRecord { incarnation: 1, count, beat, beats: beats.to_vec(), seq: 1 };
            strike.missed().collect::<Vec<_>>()
        };
        assert_eq!(missed(3, 9, &[4, 7, 9]), [4, 7, 9]);
        assert_eq!(missed(3, 9, &[]), [7, 8, 9]);
        assert!(missed(0, 9, &[]).is_empty());
        assert_eq!(missed(3, 1, &[]), [0, 1], "there is no beat before the first one");
    }
}
