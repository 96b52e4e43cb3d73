//! Checks a sharded job in the registry, shard by shard: what one commit may change.

use std::collections::{BTreeMap, BTreeSet};

use evenkeel_core::effect::{Verdict, VerdictState};
use evenkeel_core::ids::{Fire, Member, Shard};
use evenkeel_core::keys::{self, ParsedKey};
use evenkeel_core::record::{Assignment, Attempt, RunState, ShardRunState, Sharding, SpecRecord, decode};
use evenkeel_core::store::Store;
use evenkeel_core::time::Wall;

use super::ledger::{FireLedger, LedgerViolation, require};

/// The job's entries at one moment, and the members then.
pub(super) struct ShardedEntries {
    epoch: u64,
    sharding: Sharding,
    run_states: BTreeMap<Member, ShardRunState>,
    present: BTreeSet<Member>,
    deleted: bool,
}

impl ShardedEntries {
    pub(super) fn of(store: &Store) -> Self {
        let mut found = Self {
            epoch: 0,
            sharding: Sharding::default(),
            run_states: BTreeMap::new(),
            present: BTreeSet::new(),
            deleted: false,
        };
        for (key, entry) in store.entries() {
            match keys::parse(key) {
                Some(ParsedKey::Node(member)) => {
                    found.present.insert(member);
                }
                Some(ParsedKey::Assignment(_)) => {
                    let place: Assignment = decode(&entry.value).unwrap_or_default();
                    found.epoch = place.epoch;
                    found.sharding = place.sharding.map(|sharding| *sharding).unwrap_or_default();
                }
                Some(ParsedKey::Spec(_)) => {
                    let record: Option<SpecRecord> = decode(&entry.value);
                    found.deleted = !matches!(record, Some(SpecRecord::Live(_)));
                }
                Some(ParsedKey::ShardRunState(_, member)) => {
                    found.run_states.extend(decode(&entry.value).map(|run_state| (member, run_state)));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether nothing runs and no verdict is left to record.
    pub(super) fn rest(&self) -> bool {
        self.run_states.values().all(ShardRunState::is_empty)
    }

    /// Whether this attempt is open, for a present member.
    pub(super) fn covers(&self, by: &Member, shard: Shard, due: Wall, attempt: u32) -> bool {
        let open = self.run_states.get(by).and_then(|run_state| run_state.open_of(shard));
        self.present.contains(by) && open.is_some_and(|o| o.due == due && o.attempt == attempt)
    }

    /// The members that may have a run state, and the run state as it counts after the last reshard.
    fn answering(&self) -> impl Iterator<Item = (&Member, ShardRunState)> {
        let run_state = |member: &Member| self.sharding.run_state_of(member, self.run_states.get(member));
        self.sharding.run_states.iter().map(move |member| (member, run_state(member)))
    }

    fn verdicts(&self, shard: Shard) -> impl Iterator<Item = &Verdict> {
        self.run_states
            .values()
            .flat_map(|run_state| &run_state.verdicts)
            .filter(move |v| v.shards.contains(shard))
    }

    /// One shard's state, as if it were a claimed job's; without a watermark while no member is responsible for it.
    fn shard(&self, shard: Shard) -> (Option<Wall>, RunState) {
        let verdicts = self.verdicts(shard).cloned().collect();
        let mut found = RunState { verdicts, ..RunState::default() };
        let mut watermark = None;
        for (member, run_state) in self.answering() {
            let group = run_state.groups.iter().find(|group| group.shards.contains(shard));
            let open = run_state.open_of(shard);
            if group.is_some() || open.is_some() {
                found.seq = run_state.seq;
            }
            watermark = watermark.or(group.map(|group| group.watermark));
            if let Some(o) = open.cloned() {
                let by = member.clone();
                found.open.push(Attempt {
                    by,
                    wait: None,
                    began: None,
                    shards: Attempt::single(),
                    total: 1,
                    ..o
                });
            }
        }
        found.watermark = watermark.unwrap_or(Wall::MIN);
        if found.seq == 0 {
            found.seq = self.run_states.values().map(|run_state| run_state.seq).max().unwrap_or(0);
        }
        (watermark, found)
    }

    /// Every shard is in one run state, with all its runs; and every run state is listed.
    fn whole(&self) -> Result<(), LedgerViolation> {
        let stray = self.run_states.keys().find(|member| !self.sharding.run_states.contains(member));
        require(stray.is_none(), "every lane is listed (I21)", || {
            format!(
                "no node will look for the run state of {}",
                stray.map(Member::to_string).unwrap_or_default()
            )
        })?;
        for shard in (0..self.sharding.shard_map.total).map(Shard) {
            let holds = |run_state: &ShardRunState| {
                run_state.groups.iter().filter(|g| g.shards.contains(shard)).count()
            };
            let run_states: Vec<_> = self.answering().collect();
            let places: usize = run_states.iter().map(|(_, run_state)| holds(run_state)).sum();
            require(places == 1, "a shard is in one place (I27)", || {
                format!("shard {} is in {places} lanes", shard.0)
            })?;
            let astray = run_states
                .iter()
                .find(|(_, run_state)| run_state.open_of(shard).is_some() && holds(run_state) == 0);
            require(astray.is_none(), "a run is where its shard is (I28)", || {
                format!("shard {} runs in a lane that does not answer for it", shard.0)
            })?;
        }
        Ok(())
    }
}

/// One applied commit.
pub(super) struct ModelCommit<'a> {
    pub(super) before: &'a ShardedEntries,
    pub(super) after: &'a ShardedEntries,
    pub(super) by: &'a Member,
    /// How far the writer could trust its lease when it decided.
    pub(super) trust: i64,
}

impl ModelCommit<'_> {
    pub(super) fn judge(&self, ledgers: &mut [FireLedger]) -> Result<(), LedgerViolation> {
        self.leader()?;
        self.writer()?;
        self.after.whole()?;
        for (shard, ledger) in (0..).map(Shard).zip(ledgers) {
            self.shard(shard, ledger)?;
        }
        Ok(())
    }

    /// A leader resigns by itself or when it is gone, and no member makes another one leader.
    fn leader(&self) -> Result<(), LedgerViolation> {
        let Self { before, after, by, .. } = self;
        let (was, is) = (before.sharding.leader.as_ref(), after.sharding.leader.as_ref());
        let same = before.sharding == after.sharding;
        require(same || after.epoch > before.epoch, "epochs rise (I2)", || {
            format!("the place changes in epoch {}", after.epoch)
        })?;
        if was == is {
            return Ok(());
        }
        let gone = was.is_none_or(|was| was == *by || !before.present.contains(was));
        require(gone, "one leader an epoch (I2)", || {
            format!("{by} deposes {}, which lives", was.map(Member::to_string).unwrap_or_default())
        })?;
        require(is.is_none_or(|is| is == *by), "a leader elects itself (I12)", || {
            format!("{by} makes {} the leader", is.map(Member::to_string).unwrap_or_default())
        })
    }

    /// A run state is its member's; another member writes it only when that one is gone.
    fn writer(&self) -> Result<(), LedgerViolation> {
        let Self { before, after, by, .. } = self;
        let all = before.run_states.keys().chain(after.run_states.keys());
        let mut changed = all.filter(|member| before.run_states.get(member) != after.run_states.get(member));
        let robbed = changed.find(|member| *member != *by && before.present.contains(member));
        require(robbed.is_none(), "a lane is its member's (I2)", || {
            format!(
                "{by} writes the lane of {}, which lives",
                robbed.map(Member::to_string).unwrap_or_default()
            )
        })
    }

    fn shard(&self, shard: Shard, ledger: &mut FireLedger) -> Result<(), LedgerViolation> {
        let ((_, mut was), (watermark, mut is)) = (self.before.shard(shard), self.after.shard(shard));
        // Of a deleted job no watermark is kept.
        is.watermark = watermark.unwrap_or(was.watermark);
        // And its claims ahead of time are not repeated, so that the watermark need not go back over them.
        if let (true, Some(open), None) = (self.after.deleted, was.open.first(), is.open.first())
            && !ledger.started(open.due.0)
        {
            (was.watermark, is.watermark) = (open.due, open.back);
        }
        let state = |run_state: &RunState| (run_state.watermark, run_state.open.clone());
        let (cuts, total) = (
            [self.before, self.after].map(|s| s.sharding.shard_map.number),
            self.after.sharding.shard_map.total,
        );
        let unmoved = state(&was) == state(&is);
        if cuts[0] != cuts[1] && total > 0 {
            let leads = self.before.sharding.leader.as_ref() == Some(self.by);
            require(leads, "only the leader cuts (I29)", || format!("{} cuts", self.by))?;
            return require(unmoved || cuts[0] == 0, "a cut keeps every shard's state (I28)", || {
                format!("shard {} goes from {:?} to {:?}", shard.0, state(&was), state(&is))
            });
        }
        self.check_reported(shard, &was, &is)?;
        if unmoved {
            return Ok(());
        }
        let fresh = |o: &Attempt| was.open.iter().all(|old| old.due != o.due);
        let claimed = is.open.first().filter(|o| fresh(o) && matches!(o.fire, Fire::Due(_)));
        require(
            claimed.is_none() || self.before.sharding.reshard_pending.is_none(),
            "no claim under the mark (I30)",
            || format!("{} claims a fire of shard {} while the shares are marked", self.by, shard.0),
        )?;
        ledger
            .check_run_state(Some(&was), &is, self.by, self.trust)
            .map_err(|broken| format!("{broken}, of shard {}", shard.0))
    }

    /// A verdict on a shard's attempt is in one run state, and comes with the end of that attempt.
    fn check_reported(&self, shard: Shard, was: &RunState, is: &RunState) -> Result<(), LedgerViolation> {
        let lost: Vec<_> = is.verdicts.iter().filter(|v| v.state == VerdictState::Lost).collect();
        let distinct: BTreeSet<_> = lost.iter().map(|v| (v.due, v.attempt)).collect();
        require(distinct.len() == lost.len(), "an attempt has one outcome (I22)", || {
            format!("two lanes give up the same attempt of shard {}", shard.0)
        })?;
        let ended = |v: &Verdict| was.open.iter().any(|o| (o.due, o.attempt) == (v.due, v.attempt));
        let new = lost.into_iter().find(|v| !was.verdicts.contains(v) && !ended(v));
        require(new.is_none(), "failover happens once (I21)", || {
            format!("an attempt of shard {} that is not open is given up", shard.0)
        })
    }
}
