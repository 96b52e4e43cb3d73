//! What one program tells another one: nodes each other, and the one that stops the one that goes on.

use evenkeel_core::baton::{BATON, Baton, Passed, PassedLease};
use evenkeel_core::effect::Reason;
use evenkeel_core::input::{Ended, Offer, Role};
use evenkeel_core::job::Retry;
use evenkeel_core::record::Layouts;
use evenkeel_core::time::Millis;
use evenkeel_core::words::Fire;

use super::tree::{AT, member, run};
use super::{Line, every, line};

pub(crate) fn lines() -> Vec<Line> {
    let retry = Retry { max_retries: 3, delay: "5s".into(), max_delay: "1m".into(), exit_codes: vec![7] };
    let given = Passed {
        run: run(Fire::Due(AT)),
        attempt: 2,
        ended: Some((Ended::Failed(Some(7)), 5_000)),
        stopping: true,
        sharded: true,
        retry: Some(Box::new(retry.read().expect("it makes sense"))),
    };
    let lease = PassedLease { ttl: Millis::secs(15), confirmed: 4_000, clock: Some((AT, 3_990, 4_000)) };
    let baton =
        Baton { member: member(), lease, given: vec![given], written: vec!["j".parse().expect("a name")] };
    assert_eq!(BATON, 1, "another way to write it has another number");
    let ended =
        [Ended::Succeeded, Ended::Failed(Some(1)), Ended::Failed(None), Ended::Stopped(Reason::Killed)];
    let _complete = |it: Ended| match it {
        Ended::Succeeded | Ended::Failed(_) | Ended::Stopped(_) => (),
    };
    vec![
        line("baton", baton),
        line("layouts", Layouts { oldest: 1, newest: 2 }),
        line("offer", Offer { run: run(Fire::Due(AT)), must: true }),
        line("role", Role { serves: Some(3) }),
        line("reasons", every!(Reason: Killed, TimedOut, Fenced, Replaced)),
        line("ends", ended.to_vec()),
    ]
}
