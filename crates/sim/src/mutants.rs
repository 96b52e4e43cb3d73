//! Planted faults: each is one thing done wrong in every node of a world, and the watch has to find it by its name.
//!
//! A watch that finds nothing may be blind. So every rule of the house is broken on purpose here, one at a time, and seeds
//! are run until an invariant breaks: the right one, and soon.

use crate::invariants::{Broken, Invariant};
use crate::seed::{Manner, play};
use crate::tamper::{Honest, Tamper};

mod commits;
mod deaf;
mod rules;

/// How many seeds may be clean before a planted fault counts as not found.
pub const SEEDS_MAX: u64 = 2_000;

/// A planted fault.
#[derive(Clone, Copy)]
pub struct Mutant {
    /// What is done wrong.
    pub name: &'static str,
    /// How.
    pub tamper: &'static dyn Tamper,
    /// The invariants, one of which must be the first to break.
    pub breaks: &'static [Invariant],
    /// Whether it is the one that is not in the nodes but in the watch itself.
    pub canary: bool,
}

/// What became of a planted fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hunt {
    /// Found, after so many seeds.
    Found(u64, Broken),
    /// Something else broke than should have.
    Misnamed(u64, Broken),
    /// Nothing broke.
    Missed,
}

const fn mutant(name: &'static str, tamper: &'static dyn Tamper, breaks: &'static [Invariant]) -> Mutant {
    Mutant { name, tamper, breaks, canary: false }
}

/// All planted faults.
pub static ALL: &[Mutant] = {
    use Invariant::*;
    &[
        Mutant { name: "the canary", tamper: &Honest, breaks: &[Canary], canary: true },
        mutant("claim without guard", &commits::Unguarded("claim"), &[I10]),
        mutant("finish without guard", &commits::Unguarded("finish"), &[I1, I2, I46]),
        mutant("lock without guard", &commits::Unguarded("lock"), &[I1, I10]),
        mutant("takeover of the living", &commits::TakesFromTheLiving, &[I10]),
        mutant("failover twice", &commits::TakesOverTwice, &[I21]),
        mutant("token not bumped on takeover", &commits::KeepsToken, &[I1]),
        mutant("verdict dropped before history has it", &commits::DropsVerdicts, &[I22]),
        mutant("withdrawn without rollback", &commits::WithdrawsForGood, &[I16]),
        mutant("watermark not moved by a claim", &commits::ForgetsWatermark, &[I14, I16]),
        mutant("request not marked as taken", &commits::ForgetsRequests, &[I14, I24]),
        mutant("spec changed without its place", &commits::SparesPlace, &[I18, I37, I41]),
        mutant("start without a last moment", &commits::StartsAnytime, &[I3, I18]),
        mutant("executor without guard", &commits::NoGuard, &[I4, I15, I20]),
        mutant("alarm kept quiet", &commits::Quiet, &[I40]),
        mutant("X ≤ N", &rules::BeyondQuota, &[I36]),
        mutant("tolerance ignored", &rules::IgnoresTolerance, &[I35]),
        mutant("re-join not repeated after a lost lease", &rules::JoinsOnce, &[I53]),
        mutant("draining node still claims", &deaf::HearsNoDrain, &[I38]),
        mutant("spent intent forgotten", &deaf::ForgetsOutcomes, &[I46]),
        mutant("unknown treated as refused", &deaf::TakesUnknownForRefused, &[I46]),
        mutant("trust counted from the answer", &deaf::TrustsFromAnswer, &[I3, I4]),
        mutant("clock differences ignored", &deaf::IgnoresClocks, &[I16, I17, I23]),
        mutant("rescan left out", &deaf::NeverRescans, &[I16, I24, I35, I37, I38, I41, I53]),
    ]
};

impl Mutant {
    /// Runs seeds from this one on until something breaks, at most so many.
    #[must_use]
    pub fn hunt(&self, from: u64, most: u64) -> Hunt {
        let manner = Manner { keeps_text: false, tamper: self.tamper, canary: self.canary };
        for seed in 0..most {
            let world = play(from + seed, manner);
            if let Some(broken) = world.broken().cloned() {
                let named = self.breaks.contains(&broken.invariant);
                return if named { Hunt::Found(seed + 1, broken) } else { Hunt::Misnamed(seed + 1, broken) };
            }
        }
        Hunt::Missed
    }
}
