//! Planted faults: each is one mistake in every node of a world, and the checker has to find it by its invariant.
//!
//! A checker that finds nothing may be blind. So every rule is broken on purpose here, one at a time, and seeds are run
//! until an invariant is violated: the right one, and soon. The worlds are brief: a rule that is always broken shows in
//! their one minute of faults or hardly ever, and ten brief worlds are ten different ones.

use evenkeel_core::commit_kind::CommitKind;

use crate::invariants::{Invariant, InvariantViolation};
use crate::mutation::{Mutation, NoMutation};
use crate::seed::{SeedOptions, play};

mod broadcast;
mod cancels;
mod commits;
mod generations;
mod inputs;
mod labels;
mod overlap;
mod peers;
mod pools;
mod retries;
mod rules;
mod sharding;
mod upgrades;
mod versions;

/// How many seeds may pass before a planted fault counts as not found.
pub const SEEDS_MAX: u64 = 2_000;

/// The latest seed in which each planted fault was found, a line each: `SEED NAME`. `sim --mutants --record` writes it.
const RECORDED: &str = include_str!("../planted_faults.txt");

/// A planted fault.
#[derive(Clone, Copy)]
pub struct MutantSpec {
    /// The name of the mistake.
    pub name: &'static str,
    /// The mutation that plants it.
    pub mutation: &'static dyn Mutation,
    /// The invariants, one of which must be the first to break.
    pub breaks: &'static [Invariant],
    /// The seed with which the search begins, if the fault shows rarely.
    pub first: u64,
    /// Whether it is the one in the checker itself and not in the nodes.
    pub sentinel: bool,
}

/// The result of the search for a planted fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HuntOutcome {
    /// Found in this seed.
    Found(u64, InvariantViolation),
    /// Another invariant was violated in this seed than expected.
    Misnamed(u64, InvariantViolation),
    /// No invariant was violated.
    Missed,
}

const fn mutant(
    name: &'static str,
    tamper: &'static dyn Mutation,
    breaks: &'static [Invariant],
) -> MutantSpec {
    rare(name, tamper, breaks, 0)
}

/// A fault that shows in few worlds only, or violates another invariant first: searched from a seed shortly before one
/// in which the expected invariant is violated.
const fn rare(
    name: &'static str,
    tamper: &'static dyn Mutation,
    breaks: &'static [Invariant],
    first: u64,
) -> MutantSpec {
    MutantSpec { name, mutation: tamper, breaks, first, sentinel: false }
}

/// All planted faults.
pub static ALL: &[MutantSpec] = {
    use Invariant::*;
    &[
        MutantSpec {
            name: "the canary",
            mutation: &NoMutation,
            breaks: &[Sentinel],
            first: 0,
            sentinel: true,
        },
        mutant("claim without guard", &commits::UnguardedCommits(&[CommitKind::ClaimJob]), &[I10]),
        mutant(
            "claim of a fire without guard",
            &commits::UnguardedCommits(&commits::CLAIMS),
            &[I1, I2, I18, I46],
        ),
        mutant(
            "finish without guard",
            &commits::UnguardedCommits(&[CommitKind::Finish]),
            &[I1, I2, I22, I28, I30, I33, I46],
        ),
        mutant("calendar not guarded", &commits::SkipsCalendarGuard, &[I16, I18]),
        mutant("lock without guard", &commits::UnguardedCommits(&[CommitKind::Lock]), &[I1, I10, I46]),
        mutant("takeover of the living", &commits::SkipsAbsenceGuard, &[I10]),
        rare("failover twice", &commits::SkipsTakeoverGuard, &[I21], 4),
        mutant("token not bumped on takeover", &commits::ReusesTokenAfterLoss, &[I1]),
        mutant("verdict dropped before history has it", &commits::DropsVerdicts, &[I22]),
        mutant("withdrawn without rollback", &commits::KeepsWithdrawnWatermark, &[I16]),
        mutant("watermark not moved by a claim", &commits::SkipsWatermark, &[I14, I16]),
        mutant("request not marked as taken", &commits::SkipsRequestWrite, &[I14, I20, I22, I24]),
        mutant(
            "spec changed without its place",
            &commits::SkipsAssignmentWrite,
            &[I12, I16, I18, I29, I30, I33, I37, I41, Touched],
        ),
        mutant("start without a last moment", &commits::IgnoresNotAfter, &[I3, I18]),
        mutant("executor without guard", &commits::NoGuardProcess, &[I4, I15, I20]),
        mutant("member removed before its runs have ended", &commits::RemovesBeforeRunsEnd, &[I4]),
        mutant("member of a stopped process removed", &commits::TakesStoppedForDead, &[I4]),
        mutant("alarm kept quiet", &commits::SuppressesAlarms, &[I40]),
        mutant("X ≤ N", &rules::ExceedsQuota, &[I36]),
        mutant("tolerance ignored", &rules::IgnoresTolerance, &[I35]),
        mutant("re-join not repeated after a lost lease", &rules::JoinsOnce, &[I53]),
        mutant("draining node still claims", &inputs::IgnoresDrain, &[I38]),
        rare("spent intent forgotten", &inputs::InvertsClaimOutcome, &[I46], 1),
        mutant("unknown treated as refused", &inputs::TreatsUnknownAsRefused, &[I46]),
        mutant("trust counted from the answer", &inputs::CountsLeaseFromGrant, &[I3, I4]),
        mutant("clock differences ignored", &inputs::IgnoresClockSkew, &[I16, I17, I23]),
        rare(
            "rescan left out",
            &inputs::NeverRescans,
            &[I12, I13, I16, I21, I24, I27, I31, I35, I37, I38, I41, I53],
            78,
        ),
        rare("lease counted on a clock that sleeps", &sharding::LeaseClockSleeps, &[I3, I4, I16], 7),
        mutant("claim that ignores the mark", &sharding::IgnoresReshardPending, &[I30, I31]),
        mutant("cut by somebody who does not lead", &sharding::AssumesLeadership, &[I12, I29]),
        mutant("election over a living leader", &sharding::ElectsSecondLeader, &[I12]),
        mutant("mark forgotten at an election", &sharding::DropsReshardPending, &[I29, I31]),
        mutant(
            "mark cleared before the lanes are read",
            &sharding::ReshardsUnguarded,
            &[I1, I14, I16, I28, I29, I46],
        ),
        mutant("cut that forgets the watermarks of the dead", &sharding::DropsDeadWatermarks, &[I14]),
        mutant("token not raised at a cut", &sharding::RestartsTokensOnReshard, &[I1, I2, I29]),
        mutant("cut under a run", &sharding::MovesDrainingShards, &[I28]),
        mutant("shares dealt by arrival", &sharding::AssignsByArrival, &[I28, I32]),
        mutant("cut once and never again", &sharding::ReshardsOnce, &[I13, I53]),
        mutant("run states that go with what they held", &sharding::DelistsWithState, &[I14, I29]),
        mutant("no node takes over shards", &sharding::SkipsShardFailover, &[I21]),
        mutant(
            "failover of shards without the once guard",
            &sharding::FailoverUnguarded,
            &[I1, I2, I21, I28, I46],
        ),
        mutant("failover that leaves a copy", &sharding::FailoverDuplicates, &[I28]),
        mutant("late end of a shard applied", &sharding::EndsUnguarded, &[I1, I2, I22, I28, I30, I33, I46]),
        mutant("misfires made up without a bound", &sharding::CatchesUpEverything, &[I16, I23]),
        mutant("request by hand not marked for its shards", &sharding::SkipsRequestedShards, &[I14, I24]),
        mutant("run told of another number of shards", &sharding::UsesCurrentTotal, &[I33]),
        mutant("run on one node instead of every one", &broadcast::KeepsBroadcastTotal, &[I29, I31, I33]),
        mutant("number of a node dealt anew", &broadcast::RenumbersNodes, &[I28, I32]),
        mutant("fires that went with a node and are not reported", &broadcast::HidesDepartedFires, &[I16]),
        rare("attempted again without a wait", &retries::SkipsRetryDelay, &[I17, I22, I28], 3),
        mutant("attempted again after a success", &retries::RetriesEveryEnd, &[I20]),
        mutant("attempt given up without a word", &retries::HidesGivenUpRetries, &[I16]),
        mutant("next attempt under the token of the one that failed", &retries::ReusesTokenOnRetry, &[I2]),
        rare("fire given up without a word for a run", &overlap::HidesSkippedFires, &[I16], 2),
        mutant("run ended for no later fire", &overlap::ReplacesWithoutFire, &[I18]),
        mutant("more waits for a run than may", &overlap::QueuesEveryFire, &[I23]),
        mutant("run without a permit of its pool", &pools::SkipsPoolPermit, &[I55]),
        mutant("permits of others overlooked", &pools::CountsOwnPermits, &[I55]),
        mutant("run ended by an operator that waits on", &cancels::ReportsFalseCancel, &[I16, I46]),
        rare("another shard ended than the one named", &cancels::CancelsOtherShard, &[I16], 300),
        mutant("run wherever there is room", &labels::IgnoresNodeSelector, &[I54]),
        mutant("more go on beside each other than may", &overlap::IgnoresRunLimit, &[I15]),
        rare(
            "the end of a run that another one goes on beside",
            &overlap::ClosesConcurrentRuns,
            &[I16, I22],
            33,
        ),
        mutant("counted from when the run before was due", &overlap::CountsFromDue, &[I17]),
        mutant("beat of another number, be it smaller", &peers::AcceptsAnyBeat, &[I11, I23, I17, I16]),
        mutant("token of a beat not raised", &peers::ReusesBeatToken, &[I1]),
        mutant("lead without the wait", &peers::SkipsPredecessorWait, &[I5]),
        mutant("lead served before it is loaded", &peers::ServesBeforeReading, &[I7]),
        mutant(
            "order without the lead",
            &peers::UnguardedEntries(
                &[
                    CommitKind::CreateJob,
                    CommitKind::UpdateJob,
                    CommitKind::DeleteJob,
                    CommitKind::PauseOrResume,
                    CommitKind::RequestRun,
                ],
                peers::is_right,
            ),
            &[I6],
        ),
        rare(
            "beat numbered by settings that are over",
            &peers::UnguardedEntries(&[CommitKind::TakeBeat], peers::is_settings),
            &[I11],
            5_880,
        ),
        mutant(
            "plan without the right",
            &peers::UnguardedEntries(&[CommitKind::Plan], peers::is_right),
            &[I6, I16],
        ),
        mutant(
            "plan from a stale copy",
            &peers::UnguardedEntries(&[CommitKind::Plan], peers::is_plan),
            &[I1, I2, I14, I16, I22, I46],
        ),
        mutant(
            "run accepted from a stale copy",
            &peers::UnguardedEntries(&[CommitKind::Accept], peers::is_plan),
            &[I1, I2, I6, I14, I15, I16, I20, I22, I46],
        ),
        mutant("furthest fire not remembered", &peers::SkipsPlanWatermark, &[I14]),
        rare("all runs dealt to one node", &peers::PlansOnOneNode, &[I42], 9),
        mutant("drained node is planned for", &peers::PlansOnDrainedNodes, &[I38]),
        mutant("strikes of an earlier life counted", &peers::KeepsOldStrikes, &[I42, I44]),
        mutant("two strikes in a beat", &peers::StrikesTwice, &[I44]),
        mutant("strikes of one beat counted for each observer", &peers::CountsEachObserver, &[I44]),
        mutant("node said to be drained at once", &peers::ReportsDrainedEarly, &[I38]),
        mutant("busy taken for unreachable", &peers::StrikesBusyNodes, &[I42]),
        mutant(
            "upgrade that forgets what runs",
            &upgrades::DropsHandoffRuns,
            &[I1, I2, I14, I15, I16, I20, I22],
        ),
        mutant("lease counted anew at an upgrade", &upgrades::CountsLeaseFromHandoff, &[I3, I4]),
        rare("join without a look at the wanted layout", &versions::SkipsLayoutCheck, &[I49], 1_460),
        rare("layout raised at once", &versions::RaisesLayoutEarly, &[I49], 3_800),
        mutant("member that says too much", &versions::OverstatesLayout, &[I49]),
        rare("upgrade to a program that knows less", &versions::AcceptsAnyProgram, &[I49], 1_620),
        mutant(
            "joined before others know that the registry went back",
            &generations::JoinsBeforeNotice,
            &[I4, I15],
        ),
        mutant("what the registry forgot not noted", &generations::HidesLossWindow, &[I19]),
        mutant(
            "registry put back and not remembered otherwise",
            &generations::ForgetsRegistryMark,
            &[I1, I2, I19],
        ),
        rare(
            "registry put back and what was written not remembered",
            &generations::RemembersOrderOnly,
            &[I1, I2, I19],
            680,
        ),
        mutant("offer taken without trust", &peers::AcceptsEveryOffer, &[I45]),
    ]
};

impl MutantSpec {
    /// The latest seed in which it was found; `None` if that is not recorded.
    #[must_use]
    pub fn recorded_seed(&self) -> Option<u64> {
        let lines = RECORDED.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(_, name)| *name == self.name).find_map(|(seed, _)| seed.parse().ok())
    }

    /// Runs seeds from its first one on until an invariant is violated, at most this many.
    #[must_use]
    pub fn hunt(&self, most: u64) -> HuntOutcome {
        self.play(self.first..self.first + most)
    }

    /// The options of a world with the fault.
    #[must_use]
    pub fn manner(&self) -> SeedOptions {
        SeedOptions { mutation: self.mutation, sentinel: self.sentinel, ..SeedOptions::default() }
    }

    /// Runs seeds until an invariant is violated.
    #[must_use]
    pub fn play(&self, seeds: std::ops::Range<u64>) -> HuntOutcome {
        for seed in seeds {
            let world = play(seed, self.manner());
            if let Some(broken) = world.broken().cloned() {
                let named = self.breaks.contains(&broken.invariant);
                return if named {
                    HuntOutcome::Found(seed, broken)
                } else {
                    HuntOutcome::Misnamed(seed, broken)
                };
            }
        }
        HuntOutcome::Missed
    }
}
