//! The servers that keep registries and histories.

/// The URL of the server at `EVENKEEL_TEST_<engine>`, where there is one; where `REQUIRE=all` there must be.
pub(crate) fn find(engine: &str) -> Option<String> {
    let variable = format!("EVENKEEL_TEST_{engine}");
    let found = std::env::var(&variable).ok();
    if found.is_none() {
        let required = std::env::var("REQUIRE").is_ok_and(|which| which == "all");
        assert!(!required, "{variable} names no server: `cargo xtask engines up` starts one");
        println!("SKIPPED {engine}: bring it up with `cargo xtask engines up`");
    }
    found
}
