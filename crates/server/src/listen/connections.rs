//! The table of open connections, and the choice of the connection that gives way to a new one.
//!
//! A connection without a request in progress can be closed at any moment: its caller connects again. So a caller with
//! many idle connections keeps nobody out. Only requests in progress count, and each address has a limit of them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// The limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionLimits {
    /// The maximum in total.
    pub(super) total: usize,
    /// The maximum of one address.
    pub(super) per_address: usize,
    /// The number of further ones for other nodes and `health` only.
    pub(super) reserve: usize,
}

/// How many of the connections an address may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionShare {
    /// The share of one address.
    OneAddress,
    /// As many as there are: a proxy brings many callers.
    All,
}

/// The state of a connection. The first states give way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ConnectionState {
    /// No request has come yet.
    Nothing,
    /// It waits for its next request.
    Waiting,
    /// It waits for the next request of a node.
    WaitingForNode,
    /// A request is in progress.
    Busy,
}

#[derive(Debug)]
struct ConnectionEntry {
    from: IpAddr,
    doing: ConnectionState,
    /// The order in which connections entered their states.
    since: u64,
    spare: bool,
    close: Arc<Notify>,
}

#[derive(Debug, Default)]
struct ConnectionMap {
    open: BTreeMap<u64, ConnectionEntry>,
    ticks: u64,
}

/// All open connections.
#[derive(Debug)]
pub(super) struct ConnectionTable {
    bounds: ConnectionLimits,
    known: Mutex<ConnectionMap>,
}

/// A connection's slot in the table, freed when dropped.
#[derive(Debug)]
pub(super) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    id: u64,
    /// Whether it is in the reserve, so that only nodes and `health` are answered on it.
    pub(super) spare: bool,
    /// Notified when the connection is to be closed.
    pub(super) close: Arc<Notify>,
}

impl ConnectionTable {
    pub(super) fn new(bounds: ConnectionLimits) -> Self {
        Self { bounds, known: Mutex::default() }
    }

    /// Takes a slot for a new connection; another connection may be closed for it. `None` if there is no slot.
    pub(super) fn admit(self: &Arc<Self>, from: IpAddr, share: ConnectionShare) -> Option<ConnectionSlot> {
        let from = source(from);
        let mut known = self.lock();
        let share = match share {
            ConnectionShare::OneAddress => self.bounds.per_address,
            ConnectionShare::All => self.bounds.total,
        };
        let spare = !known.makes_room((self.bounds.total, share), from);
        if spare && !known.makes_spare_room(&self.bounds) {
            return None;
        }
        known.ticks += 1;
        let (id, close) = (known.ticks, Arc::new(Notify::new()));
        let entry =
            ConnectionEntry { from, doing: ConnectionState::Nothing, since: id, spare, close: close.clone() };
        known.open.insert(id, entry);
        drop(known);
        Some(ConnectionSlot { table: self.clone(), id, spare, close })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, ConnectionMap> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionMap {
    /// Makes room for one more connection of this address, if it can.
    fn makes_room(&mut self, (total, share): (usize, usize), from: IpAddr) -> bool {
        let usual = |entry: &&ConnectionEntry| !entry.spare;
        let of_it = self.open.values().filter(usual).filter(|entry| entry.from == from).count();
        if of_it >= share {
            return self.closes_one(|entry| !entry.spare && entry.from == from);
        }
        let all = self.open.values().filter(usual).count();
        all < total || self.closes_one(|entry| !entry.spare)
    }

    fn makes_spare_room(&mut self, bounds: &ConnectionLimits) -> bool {
        let spare = self.open.values().filter(|entry| entry.spare).count();
        spare < bounds.reserve || self.closes_one(|entry| entry.spare)
    }

    /// Closes one of the matching connections without a request in progress, if there is any.
    fn closes_one(&mut self, which: impl Fn(&ConnectionEntry) -> bool) -> bool {
        let idle = self.open.iter().filter(|(_, entry)| entry.doing < ConnectionState::Busy && which(entry));
        let Some(id) = idle.min_by_key(|(_, entry)| (entry.doing, entry.since)).map(|(id, _)| *id) else {
            return false;
        };
        let closed = self.open.remove(&id);
        closed.inspect(|entry| entry.close.notify_one()).is_some()
    }
}

impl ConnectionSlot {
    /// Marks the start of a request.
    pub(super) fn begins(&self) {
        self.turn(|_| ConnectionState::Busy);
    }

    /// Marks the end of a response.
    pub(super) fn ends(&self, of_node: bool) {
        self.turn(|_| if of_node { ConnectionState::WaitingForNode } else { ConnectionState::Waiting });
    }

    /// Whether a request is in progress.
    pub(super) fn is_busy(&self) -> bool {
        self.table.lock().open.get(&self.id).is_some_and(|entry| entry.doing == ConnectionState::Busy)
    }

    fn turn(&self, next: impl FnOnce(ConnectionState) -> ConnectionState) {
        let mut known = self.table.lock();
        known.ticks += 1;
        let now = known.ticks;
        if let Some(entry) = known.open.get_mut(&self.id) {
            entry.doing = next(entry.doing);
            entry.since = now;
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.table.lock().open.remove(&self.id);
    }
}

/// The unit that counts as one address: all of loopback, and a whole network of IPv6, which one caller may have.
pub(crate) fn source(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        ip if ip.is_loopback() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::ConnectionShare::{All, OneAddress};
    use super::*;

    fn table() -> Arc<ConnectionTable> {
        Arc::new(ConnectionTable::new(ConnectionLimits { total: 6, per_address: 3, reserve: 2 }))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn open(table: &ConnectionTable) -> Vec<u64> {
        table.lock().open.keys().copied().collect()
    }

    #[test]
    fn whoever_holds_idle_connections_keeps_nobody_out() {
        let table = table();
        let places: Vec<ConnectionSlot> =
            (0..100).filter_map(|_| table.admit(ip("10.0.0.1"), OneAddress)).collect();
        assert_eq!((places.len(), open(&table).len()), (100, 3), "each came in, and the oldest went");
        assert!(places.iter().all(|place| !place.spare));
        let other = table.admit(ip("10.0.0.2"), OneAddress).expect("there is room");
        other.begins();
        for n in 3..100 {
            let _kept = table.admit(ip(&format!("10.0.0.{n}")), OneAddress).expect("there is room");
        }
        assert!(other.is_busy() && open(&table).len() <= 6);
    }

    #[test]
    fn who_has_asked_stays_longer_and_a_node_longest() {
        let table = table();
        let [node, person, silent] =
            [(); 3].map(|()| table.admit(ip("10.0.0.1"), OneAddress).expect("there is room"));
        node.begins();
        person.begins();
        node.ends(true);
        person.ends(false);
        let mut more = Vec::new();
        for left in [vec![node.id, person.id], vec![node.id, person.id], vec![node.id, person.id]] {
            more.push(table.admit(ip("10.0.0.1"), OneAddress).expect("there is room"));
            let all = open(&table);
            assert!(left.iter().all(|id| all.contains(id)) && !all.contains(&silent.id), "{all:?}");
        }
        more.last().expect("one").begins();
        let next = table.admit(ip("10.0.0.1"), OneAddress).expect("there is room");
        assert!(!open(&table).contains(&person.id) && open(&table).contains(&node.id));
        next.begins();
        let _last = table.admit(ip("10.0.0.1"), OneAddress).expect("there is room");
        assert!(!open(&table).contains(&node.id));
    }

    #[tokio::test]
    async fn requests_under_way_take_no_more_than_a_share_and_the_reserve_is_left() {
        let table = table();
        let busy = |from: &str| {
            let place = table.admit(ip(from), OneAddress).expect("there is room");
            place.begins();
            place
        };
        let first: Vec<ConnectionSlot> = (0..3).map(|_| busy("10.0.0.1")).collect();
        assert!(first.iter().all(|place| !place.spare));
        let spare = [(); 2].map(|()| table.admit(ip("10.0.0.1"), OneAddress).expect("of the reserve"));
        assert!(spare.iter().all(|place| place.spare));
        assert!(!busy("10.0.0.2").spare, "another address has its own share");
        let third = table.admit(ip("10.0.0.1"), OneAddress).expect("the oldest of the reserve goes");
        spare[0].close.notified().await;
        spare[1].begins();
        third.begins();
        assert!(table.admit(ip("10.0.0.1"), OneAddress).is_none(), "all of them are busy");
        drop(third);
        assert!(table.admit(ip("10.0.0.1"), OneAddress).is_some_and(|place| place.spare));
    }

    #[test]
    fn a_proxy_may_have_all_connections() {
        let table = Arc::new(ConnectionTable::new(ConnectionLimits { total: 8, per_address: 2, reserve: 1 }));
        let busy = |share| {
            let place = table.admit(ip("10.0.0.1"), share).expect("there is room");
            place.begins();
            place
        };
        let own: Vec<ConnectionSlot> = (0..8).map(|_| busy(All)).collect();
        assert!(own.iter().all(|place| !place.spare));
        assert!(busy(All).spare, "no more than there are");
    }

    #[test]
    fn what_one_caller_may_have_many_of_counts_as_one_address() {
        for (a, b, same) in [
            ("127.0.0.1", "127.9.0.1", true),
            ("127.0.0.1", "::1", true),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("2001:db8::1", "2001:db8::2:1", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("10.0.0.1", "10.0.0.2", false),
        ] {
            assert_eq!(source(ip(a)) == source(ip(b)), same, "{a} {b}");
        }
    }
}
