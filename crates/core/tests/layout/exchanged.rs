//! What one program tells another one: nodes each other, and the one that stops the one that goes on.

use evenkeel_core::effect::StopReason;
use evenkeel_core::handoff::{HANDOFF_VERSION, HandoffLease, HandoffRun, NodeHandoff};
use evenkeel_core::ids::Fire;
use evenkeel_core::input::{Offer, ProbeReply, RunOutcome};
use evenkeel_core::job::Retry;
use evenkeel_core::record::Layouts;
use evenkeel_core::time::Millis;

use super::tree::{AT, member, run};
use super::{LayoutLine, every, line};

pub(crate) fn lines() -> Vec<LayoutLine> {
    let retry = Retry { max_retries: 3, delay: "5s".into(), max_delay: "1m".into(), exit_codes: vec![7] };
    let given = HandoffRun {
        run: run(Fire::Due(AT)),
        attempt: 2,
        ended: Some((RunOutcome::Failed(Some(7)), 5_000)),
        stopping: true,
        sharded: true,
        retry: Some(Box::new(retry.read().expect("it makes sense"))),
    };
    let lease = HandoffLease { ttl: Millis::secs(15), confirmed: 4_000, clock: Some((AT, 3_990, 4_000)) };
    let baton = NodeHandoff {
        member: member(),
        lease,
        given: vec![given],
        written: vec!["j".parse().expect("a name")],
    };
    assert_eq!(HANDOFF_VERSION, 1, "another way to write it has another number");
    let ended = [
        RunOutcome::Succeeded,
        RunOutcome::Failed(Some(1)),
        RunOutcome::Failed(None),
        RunOutcome::Stopped(StopReason::Killed),
    ];
    let _complete = |it: RunOutcome| match it {
        RunOutcome::Succeeded | RunOutcome::Failed(_) | RunOutcome::Stopped(_) => (),
    };
    vec![
        line("baton", baton),
        line("layouts", Layouts { oldest: 1, newest: 2 }),
        line("offer", Offer { run: run(Fire::Due(AT)), must: true }),
        line("role", ProbeReply { serves: Some(3) }),
        line("reasons", every!(StopReason: Killed, TimedOut, Fenced, Replaced)),
        line("ends", ended.to_vec()),
    ]
}
