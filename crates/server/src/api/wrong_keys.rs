//! Slows callers that try keys, by address: after some wrong keys in a row an address is locked out, each time for longer.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel_core::time::{Millis, Mono};

use crate::listen::source;

/// The number of wrong keys in a row that cost nothing: people mistype.
const FREE: u32 = 5;
/// How long an address is locked out after the first wrong key beyond those. Each further one doubles it.
const FIRST_LOCK: Millis = Millis::secs(1);
const LONGEST_LOCK: Millis = Millis::secs(300);
/// How long loopback waits for the answer to a wrong key beyond those. It is not locked out: any user of the host could
/// lock out all others.
const LOOPBACK_WAIT: Millis = Millis::secs(1);
/// After this time without a wrong key an address is forgotten.
const FORGOTTEN_AFTER: Millis = Millis::secs(900);
/// The number of addresses that are remembered; the one that was seen longest ago gives way.
const ADDRESSES_MAX: usize = 4096;

/// Marks the refusal of a request that showed a wrong key.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrongKeyMarker;

/// The addresses from which wrong keys came.
#[derive(Debug, Default)]
pub(crate) struct WrongKeys(Mutex<BTreeMap<IpAddr, WrongKeyCount>>);

#[derive(Clone, Copy, Debug)]
struct WrongKeyCount {
    in_a_row: u32,
    last: Mono,
    locked_until: Mono,
}

/// What follows from a wrong key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrongKeyPenalty {
    /// It is refused at once.
    None,
    /// It is refused after this time.
    Wait(Millis),
    /// The address is locked out from now on for this time, after so many wrong keys in a row.
    Lock(Millis, u32),
}

impl WrongKeys {
    /// How long the address is still locked out; `None` if it is not.
    pub(super) fn locked_for(&self, from: IpAddr, now: Mono) -> Option<Millis> {
        let until = self.lock().get(&source(from))?.locked_until;
        (until > now).then(|| until - now)
    }

    /// Counts a wrong key.
    pub(super) fn count(&self, from: IpAddr, now: Mono) -> WrongKeyPenalty {
        let from = source(from);
        let mut known = self.lock();
        known.retain(|_, count| now - count.last < FORGOTTEN_AFTER);
        if known.len() >= ADDRESSES_MAX && !known.contains_key(&from) {
            let oldest = known.iter().min_by_key(|(_, count)| count.last).map(|(from, _)| *from);
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let new = WrongKeyCount { in_a_row: 0, last: now, locked_until: Mono(i64::MIN) };
        let count = known.entry(from).or_insert(new);
        count.in_a_row = count.in_a_row.saturating_add(1);
        count.last = now;
        let Some(beyond) = count.in_a_row.checked_sub(FREE + 1) else { return WrongKeyPenalty::None };
        if from.is_loopback() {
            return WrongKeyPenalty::Wait(LOOPBACK_WAIT);
        }
        let lock = Millis(FIRST_LOCK.0 << beyond.min(16)).min(LONGEST_LOCK);
        count.locked_until = now + lock;
        WrongKeyPenalty::Lock(lock, count.in_a_row)
    }

    /// Forgets the wrong keys of an address, from which the right one came.
    pub(super) fn forget(&self, from: IpAddr) {
        self.lock().remove(&source(from));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<IpAddr, WrongKeyCount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_that_tries_keys_is_locked_out_for_longer_each_time() {
        let (keys, guesser) = (WrongKeys::default(), ip("10.0.0.1"));
        for n in 0..FREE {
            assert_eq!(keys.count(guesser, Mono(n.into())), WrongKeyPenalty::None);
        }
        let mut now = Mono(100);
        let mut locks = Vec::new();
        for _ in 0..12 {
            let WrongKeyPenalty::Lock(lock, _) = keys.count(guesser, now) else { panic!("it is locked out") };
            assert_eq!(keys.locked_for(guesser, now + Millis(1)), Some(lock - Millis(1)));
            assert_eq!(keys.locked_for(ip("10.0.0.2"), now), None, "others are not");
            now = now + lock;
            assert_eq!(keys.locked_for(guesser, now), None, "until its time is over");
            locks.push(lock.0 / 1_000);
        }
        assert_eq!(locks, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        keys.forget(guesser);
        assert_eq!(keys.count(guesser, now), WrongKeyPenalty::None, "after the right key");
    }

    #[test]
    fn wrong_keys_are_forgotten_and_few_addresses_remembered() {
        let keys = WrongKeys::default();
        for _ in 0..FREE {
            keys.count(ip("10.0.0.1"), Mono(0));
        }
        assert_eq!(keys.count(ip("10.0.0.1"), Mono(FORGOTTEN_AFTER.0)), WrongKeyPenalty::None);
        for n in 0..2 * ADDRESSES_MAX {
            let from = IpAddr::from([10, 1, u8::try_from(n >> 8).expect("small"), n.to_le_bytes()[0]]);
            keys.count(from, Mono(FORGOTTEN_AFTER.0 + 1));
        }
        assert_eq!(keys.lock().len(), ADDRESSES_MAX);
    }

    #[test]
    fn no_user_of_the_host_can_lock_out_the_others() {
        let keys = WrongKeys::default();
        for _ in 0..100 {
            keys.count(ip("127.0.0.1"), Mono(0));
        }
        assert_eq!(keys.count(ip("::1"), Mono(0)), WrongKeyPenalty::Wait(LOOPBACK_WAIT), "it waits");
        assert_eq!(keys.locked_for(ip("127.0.0.1"), Mono(1)), None);
    }
}
