//! The watch is not blind: every planted fault is found by its name, and what is found is told in one line.

use evenkeel_sim::SeedFailure;
use evenkeel_sim::mutants::{self, HuntOutcome};
use evenkeel_sim::seed::{SeedOptions, judge, play};
use evenkeel_sim::workload::SimDuration;

/// The table of seeds is right for today's rules. Where it is not, look at what changed, and let
/// `cargo xtask sim --mutants --record` find the seeds anew; the soak searches for each fault without the table.
#[test]
fn every_planted_fault_is_found_by_its_name_in_its_recorded_seed() {
    let mut wrong = Vec::new();
    for mutant in mutants::ALL {
        let Some(seed) = mutant.recorded_seed() else {
            wrong.push(format!("{}: planted_faults.txt has no seed", mutant.name));
            continue;
        };
        match mutant.play(seed..seed + 1) {
            HuntOutcome::Found(..) => {}
            HuntOutcome::Misnamed(_, broken) => {
                wrong.push(format!("{}: {broken} in seed {seed}", mutant.name))
            }
            HuntOutcome::Missed => wrong.push(format!("{}: not found in seed {seed}", mutant.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn red_is_told_in_one_line_that_repeats_it() {
    let world = play(0x2a, SeedOptions { sentinel: true, ..SeedOptions::default() });
    for (span, repeats) in [(SimDuration::Brief, "sim --brief 0x2a"), (SimDuration::Long, "sim 0x2a")] {
        let failure: SeedFailure = judge(0x2a, span, &world).unwrap_err();
        let line = failure.to_string();
        let begins = format!("cargo xtask {repeats} # canary at ");
        assert!(line.starts_with(&begins) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn the_text_of_a_world_is_kept_when_it_is_wanted_and_changes_nothing() {
    let (told, silent) = (
        play(5, SeedOptions { keeps_text: true, ..SeedOptions::default() }),
        play(5, SeedOptions::default()),
    );
    assert!(told.trace().text().iter().any(|line| line.contains("→ commit")));
    assert!(silent.trace().text().is_empty());
    assert_eq!(told.trace().hash(), silent.trace().hash());
}
