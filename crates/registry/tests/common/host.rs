//! The host on which a test starts servers: what is missing there is said aloud, and ports are found.

use std::net::TcpListener;

/// Says that a test is skipped, and why.
///
/// # Panics
/// Where `REQUIRE=all` wants every test.
pub(crate) fn skip(why: &str) {
    assert!(!std::env::var("REQUIRE").is_ok_and(|which| which == "all"), "{why}");
    eprintln!("skipped: {why}");
}

/// So many ports that nobody listened on a moment ago, no two the same.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port")).collect();
    listeners.iter().map(|listener| listener.local_addr().expect("an address").port()).collect()
}
