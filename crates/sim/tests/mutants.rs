//! The watch is not blind: every planted fault is found by its name, and what is found is told in one line.

use evenkeel_sim::Failure;
use evenkeel_sim::mutants::{self, Hunt};
use evenkeel_sim::seed::{Manner, judge, play};
use evenkeel_sim::swarm::Span;

/// Enough for each; `sim --mutants` has more patience.
const SEEDS: u64 = 250;

#[test]
fn every_planted_fault_is_found_by_its_name() {
    let mut wrong = Vec::new();
    for mutant in mutants::ALL {
        match mutant.hunt(0, SEEDS) {
            Hunt::Found(..) => {}
            Hunt::Misnamed(seed, broken) => {
                wrong.push(format!("{}: {broken} in seed {seed:#x}", mutant.name))
            }
            Hunt::Missed => wrong.push(format!("{}: not found in {SEEDS} seeds", mutant.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn red_is_told_in_one_line_that_repeats_it() {
    let world = play(0x2a, Manner { canary: true, ..Manner::default() });
    for (span, repeats) in [(Span::Brief, "sim --brief 0x2a"), (Span::Long, "sim 0x2a")] {
        let failure: Failure = judge(0x2a, span, &world).unwrap_err();
        let line = failure.to_string();
        let begins = format!("cargo xtask {repeats} # canary at ");
        assert!(line.starts_with(&begins) && !line.contains('\n'), "{line}");
    }
}

#[test]
fn the_text_of_a_world_is_kept_when_it_is_wanted_and_changes_nothing() {
    let (told, silent) =
        (play(5, Manner { keeps_text: true, ..Manner::default() }), play(5, Manner::default()));
    assert!(told.trace().text().iter().any(|line| line.contains("→ commit")));
    assert!(silent.trace().text().is_empty());
    assert_eq!(told.trace().hash(), silent.trace().hash());
}
