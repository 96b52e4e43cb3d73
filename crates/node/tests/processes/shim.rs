//! The copy of the guard that becomes a run: nothing of the guard stays in it.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::guard::{TestGuard, folder};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("shim::a_run_has_nothing_of_its_guard", a_run_has_nothing_of_its_guard),
    ("shim::a_guard_with_other_threads_starts_nothing", a_guard_with_other_threads_starts_nothing),
];

/// In the environment of a process of these tests: it has another thread before it asks for its role.
const THREADED: &str = "TEST_THREADED";

/// What `main` does before anything else.
pub(crate) fn begin() {
    if std::env::var_os(THREADED).is_some() {
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
    }
}

fn a_run_has_nothing_of_its_guard() {
    let data = folder();
    let mut guard = TestGuard::start(&data);
    // For each of them the guard has files open: in the end more than the last run may have.
    for _ in 0..20 {
        guard.launch(&["sleep", "600"], |_| {});
        guard.started();
    }
    let few = |start: &mut Value| start["setting"] = json!({"limits": {"files": 8}});
    let mut said = |argv: &[&str]| {
        let run = guard.launch(argv, few);
        let (end, said) = (guard.ended(), guard.output(&run));
        assert_eq!(end["code"], 0, "{said}");
        said
    };
    // What this process has itself, whoever starts it, a run may have as well.
    let without = |argv: &[&str]| {
        let told = Command::new(argv[0]).args(&argv[1..]).stdin(Stdio::null()).output().unwrap();
        String::from_utf8(told.stdout).unwrap()
    };
    let files = ["ls", "/proc/self/fd"];
    assert_eq!(said(&files), without(&files));
    let signals = ["grep", "^Sig[BIC]", "/proc/self/status"];
    assert_eq!(said(&signals), without(&signals));
    let stat = said(&["cat", "/proc/self/stat"]);
    let numbers: Vec<&str> = stat.split(' ').collect();
    assert_eq!(numbers[0], numbers[4], "it leads its group: {stat}");
}

fn a_guard_with_other_threads_starts_nothing() {
    let data = folder();
    let mut command = Command::new("/proc/self/exe");
    command.arg(data.path()).env(THREADED, "yes").env("EVENKEEL_ROLE", "guard");
    let told = command.stdin(Stdio::null()).output().unwrap();
    let why = String::from_utf8(told.stderr).unwrap();
    assert_eq!(told.status.code(), Some(1), "{why}");
    assert!(why.contains("call evenkeel::guard::run_if_asked() first in main"), "{why}");
}
