//! The host on which a test starts servers: what is missing there is said aloud, and ports are found.

use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _};
use std::net::TcpListener;
use std::sync::Mutex;

/// Says that a test is skipped, and why.
///
/// # Panics
/// Where `REQUIRE=all` wants every test.
pub(crate) fn skip(why: &str) {
    assert!(!std::env::var("REQUIRE").is_ok_and(|which| which == "all"), "{why}");
    eprintln!("skipped: {why}");
}

/// So many ports that no server listens on, no two the same. Each is reserved for this process until it ends: no other test that
/// asks here is given it, not even while the server that listens on it is down. They lie below those that the system gives to
/// clients. A program of another kind may still take one before the server has it, so a server that finds its port in use is
/// started again with another one.
pub(crate) fn free_ports(count: usize) -> Vec<u16> {
    let mut listeners = Vec::new();
    while listeners.len() < count {
        let dice = RandomState::new().build_hasher().finish();
        let port = 10_000 + u16::try_from(dice % 22_000).expect("a small number");
        if reserve(port) {
            listeners.extend(TcpListener::bind(("127.0.0.1", port)));
        }
    }
    listeners.iter().map(|listener| listener.local_addr().expect("an address").port()).collect()
}

/// Whether a port is this process's from now on. The lock on its file ends with the process.
fn reserve(port: u16) -> bool {
    static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("evenkeel-test-ports");
    std::fs::create_dir_all(&folder).expect("a folder for the locks of ports");
    let file = File::options().create(true).append(true).open(folder.join(port.to_string()));
    let Some(file) = file.ok().filter(|file| file.try_lock().is_ok()) else { return false };
    RESERVED.lock().expect("no test fails inside").push(file);
    true
}
