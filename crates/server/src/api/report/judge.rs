//! What became of each fire of a job: its records, the registry, and where records are not kept, the counts.

use std::collections::BTreeMap;

use evenkeel::{AttemptState, FireClass, FireCounts};
use evenkeel_client::types::{FireState, ReportCounts, ReportRow, moment};
use evenkeel_core::ids::JobName;
use evenkeel_core::overdue::FireStatus;
use evenkeel_core::shards::ShardSet;
use evenkeel_core::time::Wall;

use super::fires::{DueFires, ON_ITS_WAY};
use super::records::ScheduledRuns;
use crate::api::summary::hour_of;
use crate::peer::FireRecord;

/// What is known of a job, beside its records.
pub(super) struct ReportEvidence<'a> {
    pub(super) now: Wall,
    pub(super) history: &'a ScheduledRuns,
    /// Where fires begin that the present declaration has, and which nodes therefore still start; `None` while it is paused or
    /// disabled.
    pub(super) live_since: Option<Wall>,
    /// What the registry has of fires without a record.
    pub(super) statuses: BTreeMap<Wall, FireStatus>,
    /// The counts of hours in which records may have been deleted.
    pub(super) hours: BTreeMap<i64, FireCounts>,
    /// The members that are online.
    pub(super) living: &'a [String],
    /// Why records may be missing that exist; `None` if all histories were read.
    pub(super) gap: Option<String>,
    /// Calendars changed then: whether an earlier fire was due is not known.
    pub(super) calendars_since: Option<Wall>,
    /// The shards that are switched off.
    pub(super) off: &'a ShardSet,
    /// Whether shards may have let fires pass as they were switched.
    pub(super) shards_switched: bool,
    /// The last change after which fires that had not begun were given up.
    pub(super) given_up_at: Option<Wall>,
}

/// What became of a fire, or of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FireFinding {
    pub(super) due: Wall,
    pub(super) until: Wall,
    pub(super) fires: u64,
    pub(super) state: FireState,
    pub(super) reason: String,
    pub(super) node: String,
}

impl FireFinding {
    fn of(due: Wall, state: FireState, reason: impl Into<String>) -> Self {
        Self { due, until: due, fires: 1, state, reason: reason.into(), node: String::new() }
    }

    /// Whether fires that follow each other are one row.
    fn folds(&self, next: &Self) -> bool {
        let one_row = matches!(
            self.state,
            FireState::Missed
                | FireState::Skipped
                | FireState::Unaccounted
                | FireState::Unknown
                | FireState::Waiting
        );
        one_row && self.state == next.state && self.reason == next.reason && self.until < next.due
    }

    pub(super) fn row(self, job: &JobName) -> ReportRow {
        ReportRow {
            job: job.to_string(),
            due: moment(self.due),
            until: (self.until > self.due).then(|| moment(self.until)),
            fires: self.fires,
            state: self.state,
            reason: Some(self.reason).filter(|reason| !reason.is_empty()),
            node: Some(self.node).filter(|node| !node.is_empty()),
        }
    }
}

impl ReportEvidence<'_> {
    /// The fires of which the registry has to be asked: those that lack records.
    pub(super) fn lacking(&self, due: &DueFires) -> Vec<Wall> {
        let lacks = |(at, shards): &&(Wall, u32)| self.of_records(*at, *shards).1 || self.began(*at);
        due.fires.iter().filter(lacks).map(|(at, _)| *at).collect()
    }

    /// Whether an attempt of a fire began on a member that is gone.
    fn began(&self, at: Wall) -> bool {
        self.runs(at).any(|record| record.state == AttemptState::Running && !self.lives(record))
    }

    fn lives(&self, record: &FireRecord) -> bool {
        let is = |member: &String| *member == record.node || member.split('@').next() == Some(&record.node);
        self.living.iter().any(is)
    }

    fn runs(&self, at: Wall) -> impl Iterator<Item = &FireRecord> {
        self.history.runs.range((at, 0)..=(at, u32::MAX)).map(|(_, record)| record)
    }

    /// The finding by the records of a fire, and whether it lacks some.
    fn of_records(&self, at: Wall, shards: u32) -> (Option<FireFinding>, bool) {
        let spans = self.history.runs.range((at, 0)..).map(|(_, record)| record);
        let spans = spans.filter(|record| record.due > at && record.from.is_some_and(|from| from <= at));
        let mut lacking = ShardSet::all(shards.max(1)).minus(self.off);
        let (mut worst, mut records): (Option<FireFinding>, u32) = (None, 0);
        for record in self.runs(at).chain(spans) {
            let (state, reason) = self.judged(record, at);
            lacking = lacking.minus(&ShardSet::one(record.shard));
            records += 1;
            if worst.as_ref().is_none_or(|worst| state < worst.state) {
                let node = record.node.split('@').next().unwrap_or_default().to_owned();
                // Where the number of shards is not known, the first one may be the only one.
                let is_whole = shards == 1 || shards == 0 && record.shard.0 == 0;
                let reason = match is_whole || state == FireState::Ran {
                    true => reason,
                    false => format!("shard {}: {reason}", record.shard.0),
                };
                worst = Some(FireFinding { node, ..FireFinding::of(at, state, reason) });
            }
        }
        // The number of runs of a fire varies where each node has one.
        let lacks = if shards == 0 { records == 0 } else { !lacking.is_empty() };
        (worst, lacks && !(self.shards_switched && records > 0))
    }

    fn judged(&self, record: &FireRecord, at: Wall) -> (FireState, String) {
        let reason = record.reason.clone();
        match FireClass::of_attempt(record.state, record.attempt, &record.reason) {
            Some(FireClass::Ran) => (FireState::Ran, reason),
            Some(FireClass::Failed) if reason.is_empty() => {
                (FireState::Failed, record.state.as_str().to_owned())
            }
            Some(FireClass::Failed) => (FireState::Failed, reason),
            Some(FireClass::Killed) => (FireState::Killed, reason),
            Some(FireClass::Missed) => (FireState::Missed, reason),
            Some(FireClass::Skipped) => (FireState::Skipped, reason),
            None if record.state == AttemptState::Running && self.lives(record) => {
                (FireState::Running, reason)
            }
            None if record.state == AttemptState::Running => match self.statuses.get(&at) {
                Some(FireStatus::Running(why)) => (FireState::Running, why.clone()),
                Some(FireStatus::Waiting(why)) => (FireState::Waiting, why.clone()),
                _ => (
                    FireState::Unaccounted,
                    format!("attempt {} began on {} and has no outcome", record.attempt, record.node),
                ),
            },
            None => (
                FireState::Waiting,
                if reason.is_empty() { "waits for its next attempt".into() } else { reason },
            ),
        }
    }

    /// What became of the fires, in order.
    pub(super) fn findings(&self, due: &DueFires, until: Wall) -> Vec<FireFinding> {
        let mut found: Vec<FireFinding> = Vec::new();
        let mut uncounted: BTreeMap<i64, Vec<(Wall, u32)>> = BTreeMap::new();
        for (at, shards) in &due.fires {
            let (known, lacks) = self.of_records(*at, *shards);
            match known {
                Some(known) if !lacks || known.state == FireState::Unaccounted => found.push(known),
                known => match self.without_records(*at) {
                    Some(finding) => found.push(self.partly(finding, known.as_ref())),
                    None => uncounted.entry(hour_of(*at)).or_default().push((*at, *shards)),
                },
            }
        }
        for (hour, fires) in uncounted {
            found.extend(self.of_counts(hour, &fires));
        }
        let end = due.end(until);
        let others = self.history.runs.values().filter(|record| record.due < end && !due.has(record.due));
        let others: Vec<Wall> = others.map(|record| record.due).collect();
        for at in std::collections::BTreeSet::from_iter(others) {
            found.extend(self.of_records(at, 0).0);
        }
        found.sort_by_key(|finding| finding.due);
        fold(found)
    }

    /// The finding of a fire of which only some shards have records.
    fn partly(&self, finding: FireFinding, known: Option<&FireFinding>) -> FireFinding {
        match known {
            Some(known) if known.state < finding.state => known.clone(),
            Some(_) => FireFinding { reason: format!("of some shards: {}", finding.reason), ..finding },
            None => finding,
        }
    }

    /// The finding of a fire without records; `None` where counts have to say.
    fn without_records(&self, at: Wall) -> Option<FireFinding> {
        let is_live = self.live_since.is_some_and(|since| at > since);
        if is_live {
            match self.statuses.get(&at) {
                Some(FireStatus::Waiting(why)) => return Some(FireFinding::of(at, FireState::Waiting, why)),
                Some(FireStatus::Running(why)) => return Some(FireFinding::of(at, FireState::Running, why)),
                _ if self.now - at < ON_ITS_WAY => {
                    let why = "its record may be on its way";
                    return Some(FireFinding::of(at, FireState::Waiting, why));
                }
                _ => {}
            }
        }
        if self.history.kept_from.is_some_and(|kept| at < kept) {
            return None;
        }
        Some(self.unaccounted(at))
    }

    fn unaccounted(&self, at: Wall) -> FireFinding {
        if let Some(gap) = &self.gap {
            return FireFinding::of(at, FireState::Unknown, format!("no record was found, and {gap}"));
        }
        if let Some(changed) = self.calendars_since.filter(|changed| at <= *changed) {
            let why =
                format!("no record, and whether it was due is not known: a calendar changed at {changed}");
            return FireFinding::of(at, FireState::Unknown, why);
        }
        match self.given_up_at.filter(|changed| at <= *changed) {
            Some(changed) => FireFinding::of(
                at,
                FireState::Unaccounted,
                format!(
                    "no record; the job changed at {changed}, and fires that had not begun were given up"
                ),
            ),
            None => FireFinding::of(at, FireState::Unaccounted, "no record"),
        }
    }

    /// What became of fires of an hour whose records may have been deleted: as many came to an outcome as were counted.
    fn of_counts(&self, hour: i64, fires: &[(Wall, u32)]) -> Vec<FireFinding> {
        let counts = self.hours.get(&hour).copied().unwrap_or_default();
        let mut room = [
            (FireState::Failed, counts.failed),
            (FireState::Missed, counts.missed),
            (FireState::Killed, counts.killed),
            (FireState::Skipped, counts.skipped),
            (FireState::Ran, counts.ran),
        ];
        // Of fires with records it is known which they are.
        for record in self.history.runs.values().filter(|record| hour_of(record.due) == hour) {
            let (state, _) = self.judged(record, record.due);
            if let Some((_, count)) = room.iter_mut().find(|(of, _)| *of == state) {
                *count = count.saturating_sub(1);
            }
        }
        let Some((first, last)) = fires.first().zip(fires.last()) else { return Vec::new() };
        let finding = |state, fires, reason: &str| FireFinding {
            until: last.0,
            fires,
            ..FireFinding::of(first.0, state, reason)
        };
        let mut left = fires.len() as u64;
        // Each shard of a fire is counted.
        let shards = u64::from(fires.iter().map(|(_, shards)| *shards).max().unwrap_or(1).max(1));
        let mut found = Vec::new();
        for (state, count) in room {
            let some = count.div_ceil(shards).min(left);
            left -= some;
            if some > 0 {
                found.push(finding(state, some, "only the counts of this hour are kept"));
            }
        }
        if left > 0 {
            let (state, why) = match &self.gap {
                Some(gap) => (FireState::Unknown, format!("not counted, and {gap}")),
                None => (
                    FireState::Unaccounted,
                    "records of this hour are not kept, and these are not counted".to_owned(),
                ),
            };
            found.push(finding(state, left, &why));
        }
        found
    }
}

/// Rows of fires that follow each other and came to the same.
fn fold(found: Vec<FireFinding>) -> Vec<FireFinding> {
    let mut folded: Vec<FireFinding> = Vec::new();
    for finding in found {
        match folded.last_mut() {
            Some(last) if last.folds(&finding) => {
                (last.until, last.fires) = (finding.until, last.fires + finding.fires);
            }
            _ => folded.push(finding),
        }
    }
    folded
}

/// The counts of findings.
pub(super) fn counts(found: &[FireFinding], due: &DueFires) -> ReportCounts {
    let mut counts = ReportCounts { to_come: due.to_come, ..ReportCounts::default() };
    found.iter().for_each(|finding| counts.add(finding.state, finding.fires));
    due.idle.iter().for_each(|idle| counts.add(FireState::NotExpected, idle.fires));
    counts
}

#[cfg(test)]
mod tests {
    use evenkeel_core::ids::Shard;

    use super::*;

    const MINUTE: i64 = 60_000;

    fn record(due: i64, shard: u32, state: AttemptState, reason: &str) -> FireRecord {
        FireRecord {
            due: Wall(due * MINUTE),
            shard: Shard(shard),
            attempt: 1,
            state,
            node: "a@1".to_owned(),
            reason: reason.to_owned(),
            from: None,
            ended: state.is_end().then_some(Wall(due * MINUTE + 1)),
        }
    }

    struct Case {
        history: ScheduledRuns,
        off: ShardSet,
        living: Vec<String>,
    }

    impl Case {
        fn of(records: Vec<FireRecord>) -> Self {
            let runs = records.into_iter().map(|record| ((record.due, record.shard.0), record)).collect();
            let history = ScheduledRuns { runs, kept_from: Some(Wall::MIN) };
            Self { history, off: ShardSet::empty(), living: vec!["a@1".to_owned()] }
        }

        fn evidence(&self) -> ReportEvidence<'_> {
            ReportEvidence {
                now: Wall(1_000 * MINUTE),
                history: &self.history,
                live_since: Some(Wall(0)),
                statuses: BTreeMap::new(),
                hours: BTreeMap::new(),
                living: &self.living,
                gap: None,
                calendars_since: None,
                off: &self.off,
                shards_switched: false,
                given_up_at: None,
            }
        }
    }

    /// Fires of each of these minutes.
    fn due(minutes: std::ops::RangeInclusive<i64>, shards: u32) -> DueFires {
        DueFires { fires: minutes.map(|n| (Wall(n * MINUTE), shards)).collect(), ..DueFires::default() }
    }

    fn shown(evidence: &ReportEvidence<'_>, due: &DueFires) -> Vec<String> {
        let one =
            |f: FireFinding| format!("{}+{} {} {}", f.due.0 / MINUTE, f.fires, f.state.as_str(), f.reason);
        evidence.findings(due, Wall(900 * MINUTE)).into_iter().map(one).collect()
    }

    #[test]
    fn each_fire_counts_by_its_record_and_one_without_a_record_is_unaccounted() {
        let span = FireRecord {
            from: Some(Wall(4 * MINUTE)),
            ..record(6, 0, AttemptState::Skipped, "older than the grace of 60 s")
        };
        let case = Case::of(vec![
            record(1, 0, AttemptState::Succeeded, ""),
            record(2, 0, AttemptState::Failed, "exit code 3"),
            span,
            record(7, 0, AttemptState::Running, ""),
            FireRecord { node: "b@1".to_owned(), ..record(8, 0, AttemptState::Running, "") },
            record(9, 0, AttemptState::Lost, "node b is gone"),
        ]);
        let mut evidence = case.evidence();
        let found = [
            "1+1 ran ",
            "2+1 failed exit code 3",
            "3+1 unaccounted no record",
            "4+3 missed older than the grace of 60 s",
            "7+1 running ",
            "8+1 unaccounted attempt 1 began on b@1 and has no outcome",
            "9+1 failed node b is gone",
        ];
        assert_eq!(shown(&evidence, &due(1..=9, 1)), found);
        assert_eq!(evidence.lacking(&due(1..=9, 1)), [Wall(3 * MINUTE), Wall(8 * MINUTE)]);
        evidence.statuses =
            BTreeMap::from([(Wall(3 * MINUTE), FireStatus::Waiting("no node holds it".into()))]);
        assert_eq!(shown(&evidence, &due(3..=3, 1))[2], "3+1 waiting no node holds it");
        evidence.live_since = None;
        evidence.given_up_at = Some(Wall(3 * MINUTE));
        assert!(shown(&evidence, &due(3..=3, 1))[2].contains("were given up"));
    }

    #[test]
    fn without_a_history_that_may_have_it_a_fire_is_unknown() {
        let case = Case::of(Vec::new());
        let evidence = ReportEvidence { gap: Some("node b does not answer".into()), ..case.evidence() };
        assert_eq!(
            shown(&evidence, &due(1..=3, 1)),
            ["1+3 unknown no record was found, and node b does not answer"]
        );
        let evidence = ReportEvidence { calendars_since: Some(Wall(2 * MINUTE)), ..case.evidence() };
        let states: Vec<_> =
            evidence.findings(&due(1..=3, 1), Wall(900 * MINUTE)).into_iter().map(|f| f.state).collect();
        assert_eq!(states, [FireState::Unknown, FireState::Unaccounted]);
        let evidence = ReportEvidence { now: Wall(3 * MINUTE + 1), ..case.evidence() };
        assert!(shown(&evidence, &due(3..=3, 1))[0].contains("on its way"));
    }

    #[test]
    fn a_fire_counts_by_its_worst_shard_and_needs_a_record_of_each() {
        let mut case = Case::of(vec![
            record(1, 0, AttemptState::Succeeded, ""),
            record(1, 1, AttemptState::Failed, "exit code 1"),
            record(2, 0, AttemptState::Succeeded, ""),
        ]);
        let found = ["1+1 failed shard 1: exit code 1", "2+1 unaccounted of some shards: no record"];
        assert_eq!(shown(&case.evidence(), &due(1..=2, 2)), found);
        let switched = ReportEvidence { shards_switched: true, ..case.evidence() };
        assert_eq!(shown(&switched, &due(2..=2, 2))[1], "2+1 ran ");
        assert_eq!(shown(&case.evidence(), &due(2..=2, 0))[1], "2+1 ran ", "each node has a shard");
        case.off = ShardSet::one(Shard(1));
        assert_eq!(shown(&case.evidence(), &due(2..=2, 2))[1], "2+1 ran ");
    }

    #[test]
    fn where_records_are_deleted_the_counts_of_the_hour_say_how_many_came_to_what() {
        let mut case = Case::of(vec![record(59, 0, AttemptState::Succeeded, "")]);
        case.history.kept_from = Some(Wall(59 * MINUTE));
        let counts = FireCounts { ran: 6, failed: 2, ..FireCounts::default() };
        let mut evidence = case.evidence();
        evidence.hours = BTreeMap::from([(0, counts)]);
        let kept = "only the counts of this hour are kept";
        assert_eq!(
            shown(&evidence, &due(50..=59, 1)),
            [
                format!("50+2 failed {kept}"),
                format!("50+5 ran {kept}"),
                "50+2 unaccounted records of this hour are not kept, and these are not counted".to_owned(),
                "59+1 ran ".to_owned(),
            ]
        );
    }

    #[test]
    fn a_fire_that_ran_counts_though_no_schedule_that_is_known_had_it() {
        let case = Case::of(vec![record(5, 0, AttemptState::Succeeded, "")]);
        let (evidence, none) = (case.evidence(), DueFires::default());
        assert_eq!(shown(&evidence, &none), ["5+1 ran "]);
        assert_eq!(counts(&evidence.findings(&none, Wall(900 * MINUTE)), &none).ran, 1);
    }
}
