//! Dispatched runs of six shapes of schedules, slots and durations: at due moments in a row no node is busy with two runs more than
//! another. That no run waits beside a free slot is a matter of milliseconds, which the tests of the step function judge.

use serde_json::{Value, json};

use crate::evenly::{DispatchShape, evenness, play};

/// proves: S0-12, S0-41
#[test]
fn many_short_runs_that_are_due_together_are_on_all_nodes() {
    play(&DispatchShape { jobs: 30, every: 2, together: true, slots: 16, takes: "0" }, None);
}

/// proves: S0-12, S0-41
#[test]
fn runs_that_the_nodes_cannot_share_equally_differ_by_one() {
    play(&DispatchShape { jobs: 7, every: 2, together: true, slots: 4, takes: "0" }, None);
}

/// proves: S0-12, S0-41
#[test]
fn runs_that_take_half_of_their_period_are_on_all_nodes() {
    play(&DispatchShape { jobs: 10, every: 3, together: true, slots: 8, takes: "1.5" }, None);
}

/// proves: S0-12, S0-41
#[test]
fn runs_that_are_due_while_others_go_on_go_where_fewer_do() {
    play(&DispatchShape { jobs: 12, every: 6, together: false, slots: 8, takes: "2.5" }, None);
}

/// proves: S0-12, S0-41
#[test]
fn a_few_runs_each_second_are_on_all_nodes() {
    play(&DispatchShape { jobs: 4, every: 1, together: true, slots: 3, takes: "0.2" }, None);
}

/// proves: S0-12, S0-41
#[test]
fn slots_that_are_just_enough_are_all_used() {
    play(&DispatchShape { jobs: 6, every: 3, together: true, slots: 2, takes: "1.5" }, None);
}

#[test]
fn a_moment_is_even_where_no_node_has_two_runs_more() {
    let row = |node: &str, due: u32, ended: u32| -> Value {
        json!({ "node": node, "due": format!("{due:04}"), "ended": format!("{ended:04}") })
    };
    let even = [row("a", 1, 2), row("b", 1, 2), row("c", 1, 2), row("a", 1, 2)];
    assert_eq!(evenness(&even, 4), [true]);
    assert_eq!(evenness(&even, 5), [false], "one is not known");
    let uneven = [row("a", 1, 2), row("b", 1, 2), row("a", 1, 2)];
    assert_eq!(evenness(&uneven, 3), [false], "c has none and a two");
    let beside = [row("a", 1, 9), row("b", 3, 9), row("c", 5, 9), row("a", 7, 9)];
    assert_eq!(evenness(&beside, 1), [true; 4]);
    let beside = [row("a", 1, 9), row("a", 3, 9), row("b", 5, 6), row("a", 7, 9)];
    assert_eq!(evenness(&beside, 1), [true, false, false, false], "what goes on counts");
}
