//! Planted faults: each is one thing done wrong in every node of a world, and the watch has to find it by its name.
//!
//! A watch that finds nothing may be blind. So every rule of the house is broken on purpose here, one at a time, and seeds
//! are run until an invariant breaks: the right one, and soon. The worlds are brief: a rule that is broken all the time shows
//! in their one minute of faults or hardly ever, and ten brief worlds are ten different ones.

use evenkeel_core::commit_kind::CommitKind;

use crate::invariants::{Broken, Invariant};
use crate::seed::{Manner, play};
use crate::tamper::{Honest, Tamper};

mod called_off;
mod commits;
mod deaf;
mod every_node;
mod labels;
mod overlap;
mod past;
mod peers;
mod pools;
mod retries;
mod rules;
mod shares;
mod upgrades;
mod versions;

/// How many seeds may be clean before a planted fault counts as not found.
pub const SEEDS_MAX: u64 = 2_000;

/// The seed in which each planted fault was found last, a line each: `SEED NAME`. `sim --mutants --record` writes it.
const RECORDED: &str = include_str!("../planted_faults.txt");

/// A planted fault.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// What is done wrong.
    pub name: &'static str,
    /// How.
    pub tamper: &'static dyn Tamper,
    /// The invariants, one of which must be the first to break.
    pub breaks: &'static [Invariant],
    /// The seed with which the search begins, where the chance that shows it is rare.
    pub first: u64,
    /// Whether it is the one that is not in the nodes but in the watch itself.
    pub canary: bool,
}

/// What became of a planted fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hunt {
    /// Found, in this seed.
    Found(u64, Broken),
    /// Something else broke in this seed than should have.
    Misnamed(u64, Broken),
    /// Nothing broke.
    Missed,
}

const fn mutant(name: &'static str, tamper: &'static dyn Tamper, breaks: &'static [Invariant]) -> Mutant {
    rare(name, tamper, breaks, 0)
}

/// One that shows in few worlds only, or in the first ones by something else that it breaks too: looked for from a seed shortly
/// before one in which it shows by its name.
const fn rare(
    name: &'static str,
    tamper: &'static dyn Tamper,
    breaks: &'static [Invariant],
    first: u64,
) -> Mutant {
    Mutant { name, tamper, breaks, first, canary: false }
}

/// All planted faults.
pub static ALL: &[Mutant] = {
    use Invariant::*;
    &[
        Mutant { name: "the canary", tamper: &Honest, breaks: &[Canary], first: 0, canary: true },
        mutant("claim without guard", &commits::Unguarded(CommitKind::ClaimJob), &[I10]),
        mutant(
            "claim of a fire without guard",
            &commits::Unguarded(CommitKind::ClaimFire),
            &[I1, I2, I18, I46],
        ),
        mutant(
            "finish without guard",
            &commits::Unguarded(CommitKind::Finish),
            &[I1, I2, I22, I28, I30, I46],
        ),
        mutant("calendar not guarded", &commits::SparesCalendars, &[I16, I18]),
        mutant("lock without guard", &commits::Unguarded(CommitKind::Lock), &[I1, I10, I46]),
        mutant("takeover of the living", &commits::TakesFromTheLiving, &[I10]),
        mutant("failover twice", &commits::TakesOverTwice, &[I21]),
        mutant("token not bumped on takeover", &commits::KeepsToken, &[I1]),
        mutant("verdict dropped before history has it", &commits::DropsVerdicts, &[I22]),
        mutant("withdrawn without rollback", &commits::WithdrawsForGood, &[I16]),
        mutant("watermark not moved by a claim", &commits::ForgetsWatermark, &[I14, I16]),
        mutant("request not marked as taken", &commits::ForgetsRequests, &[I14, I20, I22, I24]),
        mutant(
            "spec changed without its place",
            &commits::SparesPlace,
            &[I12, I16, I18, I29, I30, I33, I37, I41, Touched],
        ),
        mutant("start without a last moment", &commits::StartsAnytime, &[I3, I18]),
        mutant("executor without guard", &commits::NoGuard, &[I4, I15, I20]),
        mutant("alarm kept quiet", &commits::Quiet, &[I40]),
        mutant("X ≤ N", &rules::BeyondQuota, &[I36]),
        mutant("tolerance ignored", &rules::IgnoresTolerance, &[I35]),
        mutant("re-join not repeated after a lost lease", &rules::JoinsOnce, &[I53]),
        mutant("draining node still claims", &deaf::HearsNoDrain, &[I38]),
        rare("spent intent forgotten", &deaf::ForgetsOutcomes, &[I46], 1),
        mutant("unknown treated as refused", &deaf::TakesUnknownForRefused, &[I46]),
        mutant("trust counted from the answer", &deaf::TrustsFromAnswer, &[I3, I4]),
        mutant("clock differences ignored", &deaf::IgnoresClocks, &[I16, I17, I23]),
        mutant(
            "rescan left out",
            &deaf::NeverRescans,
            &[I12, I13, I16, I21, I24, I27, I31, I35, I37, I38, I41, I53],
        ),
        mutant("lease counted on a clock that sleeps", &shares::SleepsOnTime, &[I3, I4, I16]),
        mutant("claim that ignores the mark", &shares::HearsNoMark, &[I30, I31]),
        mutant("cut by somebody who does not lead", &shares::LeadsUnasked, &[I12, I29]),
        mutant("election over a living leader", &shares::StandsBeside, &[I12]),
        mutant("mark forgotten at an election", &shares::ElectedForgetful, &[I29, I31]),
        mutant("mark cleared before the lanes are read", &shares::CutsUnread, &[I1, I14, I16, I28, I29, I46]),
        mutant("cut that forgets the watermarks of the dead", &shares::ForgetsTheDead, &[I14]),
        mutant("token not raised at a cut", &shares::CutsTokens, &[I1, I2, I29]),
        mutant("cut under a run", &shares::MovesThePinned, &[I28]),
        mutant("shares dealt by arrival", &shares::DealsByArrival, &[I28, I32]),
        mutant("cut once and never again", &shares::CutsOnce, &[I13, I53]),
        mutant("lanes that go with what they held", &shares::DelistsForgetfully, &[I14, I29]),
        mutant("nobody takes over shards", &shares::LeavesTheDead, &[I21]),
        mutant(
            "failover of shards without the once guard",
            &shares::RescuesUnasked,
            &[I1, I2, I21, I28, I46],
        ),
        mutant("failover that leaves a copy", &shares::RescuesCopies, &[I28]),
        mutant("late end of a shard applied", &shares::EndsLate, &[I1, I2, I22, I28, I30, I46]),
        mutant("misfires made up without a bound", &shares::MakesUpEverything, &[I16, I23]),
        mutant("request by hand not marked for its shards", &shares::ForgetsAsked, &[I14, I24]),
        mutant("run told of another number of shards", &shares::CountsAnew, &[I33]),
        mutant("run on one node instead of every one", &every_node::CutsIntoOne, &[I29, I31, I33]),
        mutant("number of a node dealt anew", &every_node::ShufflesNumbers, &[I28, I32]),
        mutant("fires that went with a node told to nobody", &every_node::ForgetsTheGone, &[I16]),
        mutant("attempted again without a wait", &retries::TriesAtOnce, &[I17, I22, I28]),
        mutant("attempted again after a success", &retries::TakesAllForFailed, &[I20]),
        mutant("attempt given up without a word", &retries::GivesUpQuietly, &[I16]),
        mutant("next attempt under the token of the one that failed", &retries::KeepsToken, &[I2]),
        rare("fire given up without a word for a run", &overlap::SkipsQuietly, &[I16], 2),
        mutant("run ended for no later fire", &overlap::GivesWayToNothing, &[I18]),
        mutant("more waits for a run than may", &overlap::LetsAllWait, &[I23]),
        mutant("run without a seat in its pool", &pools::TakesNoSeat, &[I55]),
        mutant("seats of others overlooked", &pools::SeesOwnSeats, &[I55]),
        mutant("run ended by hand that waits on", &called_off::EndsInWords, &[I16, I46]),
        rare("another shard ended than the one named", &called_off::EndsTheNeighbour, &[I16], 300),
        mutant("run wherever there is room", &labels::RunsEverywhere, &[I54]),
        mutant("more go on beside each other than may", &overlap::AllowsAll, &[I15]),
        rare("the end of a run that another one goes on beside", &overlap::ClosesBeside, &[I22], 33),
        mutant("counted from when the run before was due", &overlap::CountsFromDue, &[I17]),
        mutant("beat of another number, be it smaller", &peers::TakesOtherBeats, &[I11, I23, I17, I16]),
        mutant("token of a beat not raised", &peers::KeepsBeatToken, &[I1]),
        mutant("lead without the wait", &peers::WaitsForNobody, &[I5]),
        mutant("lead served before it is loaded", &peers::ServesAtOnce, &[I7]),
        mutant(
            "order without the lead",
            &peers::Unseen(
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
            &peers::Unseen(&[CommitKind::TakeBeat], peers::is_settings),
            &[I11],
            4_100,
        ),
        mutant("plan without the right", &peers::Unseen(&[CommitKind::Plan], peers::is_right), &[I6, I16]),
        mutant(
            "plan from a stale copy",
            &peers::Unseen(&[CommitKind::Plan], peers::is_plan),
            &[I1, I2, I14, I16, I22, I46],
        ),
        mutant(
            "run accepted from a stale copy",
            &peers::Unseen(&[CommitKind::Accept], peers::is_plan),
            &[I1, I2, I6, I14, I15, I16, I20, I22, I46],
        ),
        mutant("furthest fire not remembered", &peers::ForgetsReached, &[I14]),
        mutant("all runs dealt to one node", &peers::PlansForOne, &[I42]),
        mutant("drained node is planned for", &peers::PlansForTheDrained, &[I38]),
        mutant("strikes of an earlier life counted", &peers::RemembersStrikes, &[I42, I44]),
        mutant("two strikes in a beat", &peers::StrikesTwice, &[I44]),
        mutant("strikes of one beat counted for each observer", &peers::CountsObservers, &[I44]),
        mutant("node said to be drained at once", &peers::SaysDrainedAtOnce, &[I38]),
        mutant("busy taken for unreachable", &peers::StrikesTheBusy, &[I42]),
        mutant("upgrade that forgets what runs", &upgrades::ForgetsGiven, &[I1, I2, I14, I15, I16, I20, I22]),
        mutant("lease counted anew at an upgrade", &upgrades::TrustsAnew, &[I3, I4]),
        rare("join without a look at the wanted layout", &versions::JoinsUnasked, &[I49], 1_460),
        rare("layout raised at once", &versions::RaisesAtOnce, &[I49], 1_850),
        mutant("member that says too much", &versions::SaysTooMuch, &[I49]),
        rare("upgrade to a program that knows less", &versions::GoesOnInAny, &[I49], 1_620),
        mutant("joined before others know that the registry went back", &past::JoinsAtOnce, &[I4, I15]),
        mutant("what the registry forgot not noted", &past::ForgetsWhatIsLost, &[I19]),
        mutant("registry put back and not remembered otherwise", &past::RemembersNothing, &[I1, I2, I19]),
        rare(
            "registry put back and what was written not remembered",
            &past::RemembersTheOrder,
            &[I1, I2, I19],
            680,
        ),
        mutant("offer taken without trust", &peers::TakesEverything, &[I45]),
    ]
};

impl Mutant {
    /// The seed in which it was found last; `None` where that is not recorded.
    #[must_use]
    pub fn recorded_seed(&self) -> Option<u64> {
        let lines = RECORDED.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(_, name)| *name == self.name).find_map(|(seed, _)| seed.parse().ok())
    }

    /// Runs seeds from its own first one on until something breaks, at most so many.
    #[must_use]
    pub fn hunt(&self, most: u64) -> Hunt {
        self.play(self.first..self.first + most)
    }

    /// How a world is played in which the fault is planted.
    #[must_use]
    pub fn manner(&self) -> Manner {
        Manner { tamper: self.tamper, canary: self.canary, ..Manner::default() }
    }

    /// Runs seeds until something breaks.
    #[must_use]
    pub fn play(&self, seeds: std::ops::Range<u64>) -> Hunt {
        for seed in seeds {
            let world = play(seed, self.manner());
            if let Some(broken) = world.broken().cloned() {
                let named = self.breaks.contains(&broken.invariant);
                return if named { Hunt::Found(seed, broken) } else { Hunt::Misnamed(seed, broken) };
            }
        }
        Hunt::Missed
    }
}
