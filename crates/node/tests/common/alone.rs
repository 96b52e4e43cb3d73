//! Tests that measure their whole process.

/// Set in a process that runs one test.
const ALONE: &str = "TEST_ALONE";

/// Whether this process runs one test alone. Elsewhere the test of this name is run in a process of its own, and must succeed.
pub(crate) fn is_alone(test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let done = alone.args(["--exact", test]).env(ALONE, "yes").output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    false
}
