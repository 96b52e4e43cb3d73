//! Whether a server that was just started listens at its port, or found it in use.

use std::collections::BTreeSet;

/// How many ports a server is started with at most until one is free.
pub(crate) const PORTS: usize = 5;

/// Whether it is this process, and no other program, that listens at this port.
pub(crate) fn listens(pid: u32, port: u16) -> bool {
    let sockets: BTreeSet<String> =
        ["tcp", "tcp6"].into_iter().flat_map(|table| listeners(table, port)).collect();
    let Ok(files) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().filter_map(|file| std::fs::read_link(file.path()).ok()).any(|opened| {
        let socket = opened.to_str().and_then(|name| name.strip_prefix("socket:[")?.strip_suffix(']'));
        socket.is_some_and(|socket| sockets.contains(socket))
    })
}

/// The numbers of the sockets that listen at a port, of one of the kernel's tables.
fn listeners(table: &str, port: u16) -> Vec<String> {
    let table = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
    let socket = |line: &str| {
        let cells: Vec<_> = line.split_whitespace().collect();
        let (local, state, inode) = (cells.get(1)?, cells.get(3)?, cells.get(9)?);
        (local.ends_with(&format!(":{port:04X}")) && *state == "0A").then(|| (*inode).to_owned())
    };
    table.lines().filter_map(socket).collect()
}

/// Whether a server says in its log that an address is in use.
pub(crate) fn says_in_use(log: &str) -> bool {
    log.to_lowercase().contains("address already in use")
}
