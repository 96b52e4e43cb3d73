//! The host on which a test starts servers: what is missing there is said aloud, and ports are found.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::TcpListener;

/// Says that a test is skipped, and why.
///
/// # Panics
/// Where `REQUIRE=all` wants every test.
pub(crate) fn skip(why: &str) {
    assert!(!std::env::var("REQUIRE").is_ok_and(|which| which == "all"), "{why}");
    eprintln!("skipped: {why}");
}

/// So many ports that nobody listened on a moment ago, no two the same. They lie below those that the system gives away, so
/// that nobody is given one while its server is down.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let mut listeners = Vec::new();
    while listeners.len() < count {
        let dice = RandomState::new().build_hasher().finish();
        let port = 10_000 + u16::try_from(dice % 22_000).expect("a small number");
        listeners.extend(TcpListener::bind(("127.0.0.1", port)));
    }
    listeners.iter().map(|listener| listener.local_addr().expect("an address").port()).collect()
}
