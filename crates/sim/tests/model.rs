//! The exhaustive model: what it searches is clean, and each rule it is taken away from is missed.

use evenkeel_core::job::Delivery;
use evenkeel_sim::model::{ModelCommand, ModelScope, ProtocolFlaw, SearchOrder, explore, mutants};

/// proves: I1, I3, I14, I15, I16, I18, I19, I22
#[test]
#[ignore = "soak: 600,000 states"]
fn two_nodes_that_race_for_a_job_run_each_fire_once_in_every_order() {
    let report = explore(&ModelScope::race(Delivery::AtMostOnce), SearchOrder::Depth);
    assert!(report.failure.is_none(), "{report}");
    assert!(report.complete && report.states > 600_000, "{report}");
}

/// One fire, so that the search is short; `model fault` searches two.
///
/// proves: I1, I2, I3, I14, I15, I16, I18, I19, I20, I21, I22, I46
#[test]
fn a_fire_has_its_outcome_whatever_fault_happens_when() {
    for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
        let scope = ModelScope { due: vec![1_000], heal: 4_000, ..ModelScope::fault(delivery) };
        let report = explore(&scope, SearchOrder::Depth);
        assert!(report.failure.is_none(), "{report}");
        assert!(report.complete && report.states > 10_000, "{report}");
    }
}

/// proves: S1-33, I14, I15, I38, I41
#[test]
fn a_job_or_its_node_is_given_up_at_any_moment() {
    let scope = ModelScope { due: vec![1_000], ..ModelScope::one_command(Delivery::AtLeastOnce) };
    let report = explore(&scope, SearchOrder::Depth);
    assert!(report.failure.is_none(), "{report}");
    assert!(report.complete && report.states > 10_000, "{report}");
}

/// A crash, a cut or a lost answer between the first cut and the claim of the fire, to the leader or the other, soon mended.
/// `model rescue`, `succession` and `shards` search the time after as well.
///
/// proves: I1, I2, I14, I16, I19, I21, I29
#[test]
#[ignore = "soak: a wide scope"]
fn each_shard_has_its_outcome_whatever_happened_before_its_fire() {
    for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
        let report =
            explore(&ModelScope { heal: 1_100, ..ModelScope::failover(delivery, 1) }, SearchOrder::Depth);
        assert!(report.failure.is_none(), "{report}");
        assert!(report.complete && report.states > 1_000, "{report}");
    }
}

/// The first states of a search that is too wide for a test: faults come also while shards run.
///
/// proves: I14, I15, I19, I21, I22
#[test]
#[ignore = "soak: a wide scope"]
fn shards_are_taken_over_once() {
    for lasting in [0, 1] {
        let scope = ModelScope { states: 60_000, ..ModelScope::failover(Delivery::AtLeastOnce, lasting) };
        let report = explore(&scope, SearchOrder::Depth);
        assert!(report.failure.is_none(), "{report}");
        assert!(report.ends > 100, "{report}");
    }
}

/// Of two nodes with a shard each one is switched off around the claim of the fire: the shares are cut anew, and no fire is
/// forgotten or doubled. `model recut` searches every wish at any moment.
///
/// proves: S2-54, I14, I15, I16, I27, I28, I29
#[test]
#[ignore = "soak: a wide scope"]
fn shares_are_cut_anew_before_a_fire() {
    let scope = ModelScope {
        lasting: Some(1),
        choice: &[ModelCommand::SwitchOff],
        heal: 1_100,
        ..ModelScope::reshard(Delivery::AtMostOnce)
    };
    let report = explore(&scope, SearchOrder::Depth);
    assert!(report.failure.is_none(), "{report}");
    assert!(report.complete && report.states > 500, "{report}");
}

#[test]
#[ignore = "soak: a search for each rule"]
fn each_rule_taken_away_is_missed() {
    for (flaw, report) in mutants() {
        let failure = report.failure.unwrap_or_else(|| panic!("nothing breaks when {flaw}"));
        assert!(failure.trace.lines().count() >= failure.length, "{flaw}: {failure}");
    }
}

/// A state is judged by what it leads to: the same search twice finds the same.
#[test]
fn a_search_repeats() {
    let scope = ModelScope { due: vec![1_000], ..ModelScope::of(ProtocolFlaw::NoGuardProcess) };
    let [first, second] = [0, 1].map(|_| explore(&scope, SearchOrder::Breadth));
    assert_eq!(first.failure, second.failure);
    assert_eq!((first.states, first.steps), (second.states, second.steps));
}

/// Every order in which two nodes can take a beat, plan, offer and accept; with faults the first states of a search that is
/// too wide for a test: `model plan` goes on.
///
/// proves: S0-33, I11, I14, I15, I16, I19, I22, I42
#[test]
#[ignore = "soak: a wide scope"]
fn a_planned_run_is_accepted_once_by_the_node_that_it_is_planned_for() {
    for delivery in [Delivery::AtMostOnce, Delivery::AtLeastOnce] {
        let report =
            explore(&ModelScope { faults: 0, split: true, ..ModelScope::plan(delivery) }, SearchOrder::Depth);
        assert!(report.failure.is_none(), "{report}");
        assert!(report.complete && report.ends > 0, "{report}");
        let report =
            explore(&ModelScope { states: 60_000, ..ModelScope::plan(delivery) }, SearchOrder::Depth);
        assert!(report.failure.is_none(), "{report}");
        assert!(report.ends > 100, "{report}");
    }
}
