//! Where the repository lies, where cargo builds it, and which cargo that is.

use std::path::PathBuf;

/// Where the repository lies.
#[must_use]
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).expect("xtask lies in crates/xtask").to_owned()
}

/// Where cargo puts what it builds.
#[must_use]
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs us, or the one on the path.
#[must_use]
pub fn cargo() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
