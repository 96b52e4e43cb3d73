//! Real processes: guards, runs, and nodes that are killed and paused. This program plays all of their parts.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod cgroups;
mod command;
mod ends;
mod guard;
mod node;
mod orphans;
mod process;
mod removal;
mod secrets;
mod shim;
mod standby;
#[path = "../../../registry/tests/common/still.rs"]
mod still;

use libtest_mimic::{Arguments, Trial};

fn main() {
    shim::begin();
    evenkeel::guard::run_if_asked();
    if std::env::var_os(node::ROLE).is_some() {
        return node::live();
    }
    let tests = guard::TESTS.iter().chain(command::TESTS).chain(ends::TESTS).chain(node::TESTS);
    let tests = tests.chain(orphans::TESTS).chain(cgroups::TESTS).chain(shim::TESTS).chain(standby::TESTS);
    let tests = tests.chain(removal::TESTS).chain(secrets::TESTS);
    let trial = |(name, test): &(&str, fn())| {
        let test = *test;
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    };
    let trials = tests.map(trial);
    let soak = guard::SOAK.iter().map(|test| trial(test).with_ignored_flag(true));
    libtest_mimic::run(&Arguments::from_args(), trials.chain(soak).collect()).exit();
}
