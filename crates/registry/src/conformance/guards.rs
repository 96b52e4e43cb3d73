//! Cases of guards: each where it holds and where it does not.

use evenkeel_core::registry::{Guard, LeaseId, Revision};

use super::{Stage, absent, at, born, delete, present, put};

/// proves: S1-06
pub async fn absent_holds_for_a_key_never_written(stage: Stage) {
    assert!(stage.holds([absent("a")]).await);
}

pub async fn absent_fails_for_an_entry(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    assert!(!stage.holds([absent("a")]).await);
}

pub async fn absent_holds_again_after_deletion(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    stage.commit_applied([], [delete("a")]).await;
    assert!(stage.holds([absent("a")]).await);
}

pub async fn present_holds_for_an_entry(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    assert!(stage.holds([present("a")]).await);
}

pub async fn present_fails_for_a_key_never_written(stage: Stage) {
    assert!(!stage.holds([present("a")]).await);
}

pub async fn present_fails_after_deletion(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    stage.commit_applied([], [delete("a")]).await;
    assert!(!stage.holds([present("a")]).await);
}

pub async fn at_holds_at_the_last_write(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    let last = stage.commit_applied([], [put("a", "2")]).await;
    stage.commit_applied([], [put("b", "1")]).await;
    assert!(stage.holds([at("a", last)]).await);
}

/// proves: S4-29
pub async fn at_fails_after_another_write(stage: Stage) {
    let first = stage.commit_applied([], [put("a", "1")]).await;
    stage.commit_applied([], [put("a", "1")]).await;
    assert!(!stage.holds([at("a", first)]).await);
}

pub async fn at_fails_for_a_key_never_written(stage: Stage) {
    assert!(!stage.holds([at("a", Revision(0))]).await);
}

pub async fn at_fails_after_deletion(stage: Stage) {
    let first = stage.commit_applied([], [put("a", "1")]).await;
    let gone = stage.commit_applied([], [delete("a")]).await;
    assert!(!stage.holds([at("a", first)]).await);
    assert!(!stage.holds([at("a", gone)]).await);
    assert!(!stage.holds([at("a", Revision(0))]).await);
}

pub async fn at_fails_at_the_revision_of_another_key(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    let other = stage.commit_applied([], [put("b", "1")]).await;
    assert!(!stage.holds([at("a", other)]).await);
}

pub async fn at_fails_at_a_revision_to_come(stage: Stage) {
    let last = stage.commit_applied([], [put("a", "1")]).await;
    assert!(!stage.holds([at("a", Revision(last.0 + 1))]).await);
    assert!(!stage.holds([at("a", Revision(u64::MAX))]).await);
}

pub async fn born_holds_at_the_creation(stage: Stage) {
    let birth = stage.commit_applied([], [put("a", "1")]).await;
    assert!(stage.holds([born("a", birth)]).await);
}

pub async fn born_holds_after_later_writes(stage: Stage) {
    let birth = stage.commit_applied([], [put("a", "1")]).await;
    stage.commit_applied([], [put("a", "2")]).await;
    stage.commit_applied([], [put("a", "3")]).await;
    assert!(stage.holds([born("a", birth)]).await);
}

pub async fn born_fails_at_a_later_write(stage: Stage) {
    stage.commit_applied([], [put("a", "1")]).await;
    let later = stage.commit_applied([], [put("a", "2")]).await;
    assert!(!stage.holds([born("a", later)]).await);
}

/// A node that left and came back is not the node that a commit was meant for.
pub async fn born_fails_for_another_life_of_the_key(stage: Stage) {
    let birth = stage.commit_applied([], [put("a", "1")]).await;
    stage.commit_applied([], [delete("a")]).await;
    stage.commit_applied([], [put("a", "1")]).await;
    assert!(!stage.holds([born("a", birth)]).await);
}

pub async fn born_fails_for_a_key_never_written(stage: Stage) {
    assert!(!stage.holds([born("a", Revision(0))]).await);
}

pub async fn open_holds_while_the_lease_lives(stage: Stage) {
    let lease = stage.lease().await;
    assert!(stage.holds([Guard::Open(lease)]).await);
}

pub async fn open_fails_after_its_close(stage: Stage) {
    let lease = stage.lease().await;
    stage.close(lease).await;
    assert!(!stage.holds([Guard::Open(lease)]).await);
}

pub async fn open_fails_after_its_term(stage: Stage) {
    let held = stage.short_lease().await;
    stage.wait_expired(&held).await;
    assert!(!stage.holds([Guard::Open(held.lease)]).await);
}

pub async fn open_fails_for_a_lease_never_granted(stage: Stage) {
    let lease = stage.lease().await;
    for never in stage.unknown_leases(lease) {
        assert!(!stage.holds([Guard::Open(never)]).await, "{never}");
    }
}

pub async fn every_guard_must_hold(stage: Stage) {
    let (lease, birth) = (stage.lease().await, stage.commit_applied([], [put("a", "1")]).await);
    let good = [absent("b"), present("a"), at("a", birth), born("a", birth), Guard::Open(lease)];
    let bad = [absent("a"), present("b"), at("b", birth), born("b", birth), Guard::Open(LeaseId(u64::MAX))];
    assert!(stage.holds(good.clone()).await);
    for (i, bad) in bad.into_iter().enumerate() {
        let mut guards = good.clone();
        guards[i] = bad;
        assert!(!stage.holds(guards).await, "guard {i} was not looked at");
    }
}

pub async fn without_guards_everything_holds(stage: Stage) {
    assert!(stage.holds([]).await);
}

pub async fn hot_keys_are_guarded_like_others(stage: Stage) {
    assert!(stage.holds([absent("run/j/claim")]).await);
    let birth = stage.commit_applied([], [put("run/j/claim", "1")]).await;
    let last = stage.commit_applied([at("run/j/claim", birth)], [put("run/j/claim", "2")]).await;
    assert!(stage.holds([at("run/j/claim", last), born("run/j/claim", birth)]).await);
    assert!(!stage.holds([absent("run/j/claim")]).await);
}

pub async fn a_key_may_be_guarded_twice(stage: Stage) {
    let birth = stage.commit_applied([], [put("a", "1")]).await;
    let last = stage.commit_applied([], [put("a", "2")]).await;
    assert!(stage.holds([present("a"), born("a", birth), at("a", last), at("a", last)]).await);
    assert!(!stage.holds([present("a"), absent("a")]).await);
}
