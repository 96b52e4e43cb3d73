//! Cases of leases: they never end early, end for good, and take the entries that they own with them.

use std::collections::BTreeSet;

use evenkeel_core::registry::{Guard, LeaseId};
use evenkeel_core::time::Millis;

use super::{MachineStall, ServerTiming, Stage, TTL, absent, delete, next_changes, put, put_by};
use crate::TTL_MAX;
use crate::clock::Clock;

pub async fn numbers_are_never_zero_and_never_the_same(stage: Stage) {
    let mut given = BTreeSet::new();
    for _ in 0..20 {
        let lease = stage.lease().await;
        assert!(lease.0 > 0 && given.insert(lease), "{lease} was given twice");
        stage.close(lease).await;
    }
}

pub async fn numbers_are_not_given_again_after_a_restart(stage: Stage) {
    let mut given = BTreeSet::new();
    let mut stage = stage;
    for _ in 0..4 {
        for _ in 0..3 {
            let lease = stage.lease().await;
            assert!(given.insert(lease), "{lease} was given twice");
            stage.close(lease).await;
        }
        stage = stage.restart().await;
    }
}

pub async fn a_lease_has_the_term_asked_for(stage: Stage) -> Result<(), MachineStall> {
    let held = stage.short_lease().await;
    assert_eq!(held.ttl, stage.ttl());
    let renewed = stage.renew(held.lease).await;
    stage.expect_open(&held, renewed.is_some())?;
    assert_eq!(renewed.map(|g| (g.lease, g.ttl)), Some((held.lease, stage.ttl())));
    Ok(())
}

pub async fn a_term_is_held_within_bounds(stage: Stage) {
    let least = stage.registry.facts().ttl_min;
    for (asked, given) in [(Millis(0), least), (Millis(-5), least), (Millis(i64::MAX), TTL_MAX)] {
        let granted = stage.open(asked).await;
        match stage.manual_clock() {
            Some(_) => assert_eq!(granted.ttl, given, "{asked}"),
            // A server may have bounds of its own within ours.
            None => assert!((least..=TTL_MAX).contains(&granted.ttl), "{asked}: {}", granted.ttl),
        }
        stage.close(granted.lease).await;
    }
}

pub async fn a_lease_never_ends_early(stage: Stage) -> Result<(), MachineStall> {
    let mut held = stage.short_lease().await;
    stage.pass_most_of_ttl().await;
    stage.expect_open(&held, stage.holds([Guard::Open(held.lease)]).await)?;
    stage.renew_timed(&mut held).await?;
    stage.pass_most_of_ttl().await;
    // Its term counts from the renewal.
    stage.expect_open(&held, stage.holds([Guard::Open(held.lease)]).await)?;
    if stage.manual_clock().is_none() {
        // Checked all the time, it never ends before its term, and does end.
        while stage.holds([Guard::Open(held.lease)]).await {
            stage.idle(Millis(20)).await;
        }
        assert!(stage.may_be_over(&held), "ended early: {held:?}");
    }
    Ok(())
}

pub async fn a_lease_ends_with_its_term(stage: Stage) {
    let held = stage.short_lease().await;
    stage.wait_expired(&held).await;
    assert!(!stage.holds([Guard::Open(held.lease)]).await);
}

/// How late a lease may end is a guarantee of the engine. A stall of the machine makes an end seem
/// later than it was, so the best of several measurements counts.
pub async fn a_lease_is_over_soon_after_its_term(stage: Stage) -> Result<(), MachineStall> {
    const TRIES: usize = 12;
    let ServerTiming { late, .. } = stage.server_timing().expect("its time is real");
    let mut seen = Vec::new();
    while seen.len() < TRIES {
        let held = stage.short_lease().await;
        let granted = stage.now();
        stage.commit_applied_by(&held, [], [put_by(held.lease, "node/a@1", "")]).await?;
        stage.wait_removed(&held, async || stage.holds([absent("node/a@1")]).await).await;
        let after = stage.now() - granted - held.ttl;
        if after <= late {
            return Ok(());
        }
        seen.push(after);
    }
    panic!("over within {late} of its term none of {TRIES} times, but after {seen:?}");
}

pub async fn a_renewal_prolongs_by_the_term(stage: Stage) -> Result<(), MachineStall> {
    let mut held = stage.short_lease().await;
    for _ in 0..5 {
        stage.pass_most_of_ttl().await;
        stage.renew_timed(&mut held).await?;
    }
    stage.wait_expired(&held).await;
    assert!(stage.renew(held.lease).await.is_none());
    Ok(())
}

/// proves: I10, S4-25
pub async fn an_ended_lease_is_never_renewed(stage: Stage) {
    let held = stage.short_lease().await;
    stage.wait_expired(&held).await;
    for _ in 0..3 {
        assert!(stage.renew(held.lease).await.is_none());
    }
    assert!(!stage.holds([Guard::Open(held.lease)]).await, "a renewal that failed must not revive");
}

/// proves: I10
pub async fn a_closed_lease_is_never_renewed(stage: Stage) {
    let (lease, other) = (stage.lease().await, stage.lease().await);
    stage.close(lease).await;
    assert!(stage.renew(lease).await.is_none());
    assert!(stage.renew(other).await.is_some());
}

/// proves: S4-25, I10
pub async fn a_lease_never_granted_is_not_renewed(stage: Stage) {
    let lease = stage.lease().await;
    for never in stage.unknown_leases(lease) {
        assert!(stage.renew(never).await.is_none(), "{never}");
        stage.close(never).await;
    }
    assert!(stage.renew(lease).await.is_some());
}

pub async fn closing_twice_is_no_change(stage: Stage) {
    let lease = stage.lease().await;
    stage.commit_applied([], [put_by(lease, "a", "1")]).await;
    stage.close(lease).await;
    let after = stage.list().await;
    stage.close(lease).await;
    let again = stage.list().await;
    stage.assert_same_listing(&after, &again);
}

pub async fn what_lives_by_a_lease_goes_with_its_close(stage: Stage) {
    let (lease, other) = (stage.lease().await, stage.lease().await);
    stage
        .commit_applied(
            [],
            [put_by(lease, "node/a@1", ""), put_by(lease, "run/j/claim", ""), put_by(other, "b", "")],
        )
        .await;
    stage.close(lease).await;
    let there = stage.read(["node/a@1", "run/j/claim", "b"]).await;
    assert_eq!(there.iter().map(|c| c.entry.is_some()).collect::<Vec<_>>(), [false, false, true]);
}

/// proves: S4-17
pub async fn what_lives_by_a_lease_goes_with_its_term(stage: Stage) -> Result<(), MachineStall> {
    let held = stage.short_lease().await;
    stage.commit_applied_by(&held, [Guard::Open(held.lease)], [put_by(held.lease, "node/a@1", "")]).await?;
    stage.pass_most_of_ttl().await;
    stage.expect_open(&held, !stage.holds([absent("node/a@1")]).await)?;
    stage.wait_removed(&held, async || stage.holds([absent("node/a@1")]).await).await;
    assert!(!stage.holds([Guard::Open(held.lease)]).await, "the lease goes first");
    Ok(())
}

pub async fn what_lives_by_a_lease_goes_at_one_revision(stage: Stage) {
    let lease = stage.lease().await;
    let writes: Vec<_> = (0..20).map(|i| put_by(lease, &format!("k{i}"), "")).collect();
    let before = stage.commit_applied([], writes).await;
    let mut feed = stage.watch(before).await;
    stage.close(lease).await;
    let batch = next_changes(&mut feed).await;
    let revisions: BTreeSet<_> = batch.changes.iter().map(|change| change.revision).collect();
    assert_eq!((batch.changes.len(), revisions.len()), (20, 1));
}

pub async fn what_lives_by_nothing_stays(stage: Stage) {
    let lease = stage.lease().await;
    stage
        .commit_applied([Guard::Open(lease)], [put("job/a/assignment", "1"), put_by(lease, "node/a@1", "")])
        .await;
    stage.close(lease).await;
    assert_eq!(stage.value("job/a/assignment").await.as_deref(), Some("1"));
}

pub async fn an_entry_can_be_handed_to_another_lease(stage: Stage) {
    let (first, second) = (stage.lease().await, stage.lease().await);
    stage.commit_applied([], [put_by(first, "a", "1")]).await;
    stage.commit_applied([], [put_by(second, "a", "2")]).await;
    stage.close(first).await;
    assert_eq!(stage.entry("a").await.map(|e| e.owner), Some(Some(second)));
    stage.close(second).await;
    assert_eq!(stage.entry("a").await, None);
}

pub async fn an_entry_can_be_made_persistent(stage: Stage) {
    let lease = stage.lease().await;
    stage.commit_applied([], [put_by(lease, "a", "1"), put_by(lease, "b", "1")]).await;
    stage.commit_applied([], [put("a", "2"), delete("b")]).await;
    stage.commit_applied([], [put("b", "2")]).await;
    stage.close(lease).await;
    assert_eq!(stage.value("a").await.as_deref(), Some("2"));
    assert_eq!(stage.value("b").await.as_deref(), Some("2"));
}

pub async fn an_entry_cannot_live_by_an_ended_lease(stage: Stage) {
    let (closed, over) = (stage.lease().await, stage.short_lease().await);
    stage.close(closed).await;
    stage.wait_expired(&over).await;
    for lease in [closed, over.lease, LeaseId(u64::MAX)] {
        let found = stage.commit_refused([], [put("b", "1"), put_by(lease, "a", "1")]).await;
        assert_eq!(found.len(), 2);
        assert!(stage.holds([absent("a"), absent("b")]).await);
    }
}

/// The dead holder's process is not needed: any other act ends expired leases.
pub async fn somebody_elses_act_ends_a_lease(stage: Stage) -> Result<(), MachineStall> {
    let (dead, alive) = (stage.short_lease().await, stage.lease().await);
    let before = stage.commit_applied_by(&dead, [], [put_by(dead.lease, "node/d@1", "")]).await?;
    let renew = async || assert!(stage.renew(alive).await.is_some());
    stage.wait_expired_by(&dead, renew, async || stage.entry("node/d@1").await.is_none()).await;
    assert!(stage.list().await.revision > before);
    Ok(())
}

pub async fn several_leases_end_at_once(stage: Stage) -> Result<(), MachineStall> {
    let leases = [stage.short_lease().await, stage.short_lease().await, stage.short_lease().await];
    for held in &leases {
        stage.commit_applied_by(held, [], [put_by(held.lease, &format!("node/{}", held.lease), "")]).await?;
    }
    for held in &leases {
        stage.wait_removed(held, async || stage.holds([absent(&format!("node/{}", held.lease))]).await).await;
    }
    Ok(())
}

pub async fn a_lease_survives_a_restart(stage: Stage) -> Result<(), MachineStall> {
    let mut held = stage.short_lease().await;
    stage.commit_applied_by(&held, [], [put_by(held.lease, "a", "1")]).await?;
    let stage = stage.restart().await;
    stage.renew_timed(&mut held).await?;
    let there = stage.value("a").await;
    stage.expect_open(&held, there.is_some())?;
    assert_eq!(there.as_deref(), Some("1"));
    stage.wait_removed(&held, async || stage.entry("a").await.is_none()).await;
    Ok(())
}

/// No holder could renew while the engine was away (docs/design/protocol.md).
pub async fn an_engine_that_was_away_prolongs_first(stage: Stage) {
    let Some(clock) = stage.manual_clock() else { return };
    let lease = stage.lease().await;
    clock.advance(TTL + Millis(TTL.0 / 2));
    assert!(stage.holds([Guard::Open(lease)]).await);
    stage.pass(Millis(TTL.0 / 2)).await;
    assert!(!stage.holds([Guard::Open(lease)]).await);
}

pub async fn a_short_lease_does_not_prolong_a_long_one(stage: Stage) {
    let Some(clock) = stage.manual_clock() else { return };
    let (long, short) = (stage.lease().await, stage.open(Millis::secs(1)).await.lease);
    let mut passed = Millis::ZERO;
    while passed < TTL {
        // Half of the short term is exceeded, so it is extended; the long one has lost nothing.
        clock.advance(Millis(600));
        passed = passed + Millis(600);
        assert!(stage.renew(short).await.is_some());
    }
    assert!(stage.renew(long).await.is_none());
}

pub async fn next_end_is_the_earliest(stage: Stage) {
    if stage.manual_clock().is_none() {
        return a_server_tells_no_later_end(&stage).await;
    }
    let long = stage.open(TTL).await;
    assert_eq!(long.next_end, Some(Millis(TTL.0 / 3)), "before the pause is too long for it");
    let short = stage.open(Millis::secs(3)).await;
    assert_eq!(short.next_end, Some(Millis::secs(1)));
    stage.pass(Millis(1_200)).await;
    assert_eq!(stage.renew(long.lease).await.and_then(|g| g.next_end), Some(Millis::secs(1)));
    stage.pass(Millis(1_200)).await;
    assert_eq!(stage.renew(long.lease).await.and_then(|g| g.next_end), Some(Millis(600)), "it ends");
    stage.close(short.lease).await;
    assert_eq!(stage.renew(long.lease).await.and_then(|g| g.next_end), Some(Millis(TTL.0 / 3)));
    // A client that acts only when it must does not keep others' leases alive, however seldom its own needs it.
    let short = stage.open(Millis::secs(3)).await;
    let (mut passed, mut next) = (Millis::ZERO, short.next_end);
    while passed < short.ttl {
        let wait = next.expect("there are leases").min(Millis(TTL.0 / 3));
        stage.pass(wait).await;
        passed = passed + wait;
        next = stage.renew(long.lease).await.expect("alive").next_end;
    }
    assert!(stage.renew(short.lease).await.is_none(), "it is over after {passed}");
}

/// A server that ends leases itself may report no next end; one that it reports must not be too late.
async fn a_server_tells_no_later_end(stage: &Stage) {
    let long = stage.open(stage.long_ttl()).await;
    let short = stage.open(stage.ttl()).await;
    assert!(long.next_end.is_none_or(|end| Millis::ZERO < end && end <= long.ttl));
    assert!(short.next_end.is_none_or(|end| Millis::ZERO < end && end <= short.ttl));
    stage.close(short.lease).await;
    let after = stage.renew(long.lease).await.expect("alive");
    assert!(after.next_end.is_none_or(|end| short.ttl < end && end <= long.ttl), "{after:?}");
}

pub async fn the_calendar_is_told(stage: Stage) {
    let asked = stage.now();
    let granted = stage.open(stage.long_ttl()).await;
    let Some(clock) = stage.manual_clock() else {
        let Some(told) = granted.clock else { return };
        stage.idle(Millis(500)).await;
        let renewed = stage.renew(granted.lease).await.and_then(|granted| granted.clock).expect("told again");
        let passed = stage.now() - asked;
        let told = renewed - told;
        assert!(Millis(450) <= told && told <= passed + Millis(50), "{told} in {passed}");
        return;
    };
    clock.advance(Millis::secs(2));
    let renewed = stage.renew(granted.lease).await.expect("alive");
    assert_eq!(renewed.clock, Some(clock.now().wall));
    assert_eq!(granted.clock.map(|clock| clock + Millis::secs(2)), renewed.clock);
}
