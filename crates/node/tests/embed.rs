//! The example `embed`, built and run as it stands.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Where cargo puts examples, beside this test. `cargo test --test embed` alone does not build them.
fn example() -> PathBuf {
    let this = std::env::current_exe().expect("a test has a path");
    // target/<profile>/deps/<test>
    let target = this.ancestors().nth(3).expect("tests lie in their profile's folder");
    let mut cargo = Command::new(env!("CARGO"));
    // As one of the workspace, and without what cargo tells a test of its own package: nothing is built that was built already.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|it| it.starts_with("CARGO_PKG_") || it.starts_with("CARGO_MANIFEST_")) {
            cargo.env_remove(name);
        }
    }
    cargo.args(["build", "--workspace", "--quiet", "--offline", "--example", "embed", "--target-dir"]);
    let built = cargo.arg(target).current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
    assert!(built.success());
    target.join("debug/examples/embed")
}

/// proves: S1-86, S3-01
#[test]
fn ten_lines_are_a_node() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let mut process = Command::new(example())
        .current_dir(folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the example starts");
    let words = BufReader::new(process.stdout.take().expect("it was piped"));
    let dues: Vec<String> = words
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| line.strip_prefix("hello at ").map(str::to_string))
        .take(2)
        .collect();
    assert_eq!(dues.len(), 2);
    assert!(dues[0] < dues[1] && dues.iter().all(|due| due.ends_with(".000Z")), "{dues:?}");
    let pid = rustix::process::Pid::from_child(&process);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it lives");
    assert!(process.wait().expect("it ends").success(), "it leaves when asked to");
}
