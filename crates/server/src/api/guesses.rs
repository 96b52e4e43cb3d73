//! Limits guesses of one user's password, from however many addresses they come.
//!
//! A guess costs a part of what the user's account has, and that comes back with time, so no account is locked for ever. An
//! address from which the user has logged in lately has an account of its own, which guesses from elsewhere do not use up.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use evenkeel_core::ids::PrincipalName;
use evenkeel_core::time::{Millis, Mono};

use crate::listen::source;

/// After this time there is room for one guess more.
const EACH: Millis = Millis::secs(6);
/// The number of guesses at once.
const AT_ONCE: i64 = 10;
/// The number of accounts, and of known addresses, that are remembered.
const ACCOUNTS_MAX: usize = 4096;

/// The guesses of passwords.
#[derive(Debug, Default)]
pub(crate) struct PasswordGuesses(Mutex<GuessAccounts>);

#[derive(Debug, Default)]
struct GuessAccounts {
    debts: BTreeMap<GuessAccount, GuessDebt>,
    /// When a user logged in last from an address.
    known: BTreeMap<(PrincipalName, IpAddr), Mono>,
}

/// The guesses of a user's password from one address that is known, or from all others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct GuessAccount {
    user: PrincipalName,
    from: Option<IpAddr>,
}

/// The time that guesses have used up.
#[derive(Clone, Copy, Debug)]
struct GuessDebt {
    debt: Millis,
    at: Mono,
}

impl GuessDebt {
    fn left(self, now: Mono) -> Millis {
        Millis((self.debt - (now - self.at)).0.max(0))
    }
}

impl GuessAccounts {
    fn account(&self, user: &PrincipalName, from: Option<IpAddr>) -> GuessAccount {
        let known = from.map(source).filter(|from| self.known.contains_key(&(user.clone(), *from)));
        GuessAccount { user: user.clone(), from: known }
    }
}

impl PasswordGuesses {
    /// Counts a guess before it is compared.
    ///
    /// # Errors
    /// There were too many: the time until the next one.
    pub(super) fn take(&self, user: &PrincipalName, from: Option<IpAddr>, now: Mono) -> Result<(), Millis> {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let account = accounts.account(user, from);
        let debt = accounts.debts.get(&account).map_or(Millis(0), |debt| debt.left(now)) + EACH;
        let over = debt - Millis(EACH.0 * AT_ONCE);
        if over > Millis(0) {
            return Err(over);
        }
        if accounts.debts.len() >= ACCOUNTS_MAX && !accounts.debts.contains_key(&account) {
            // The one with the fewest guesses: guesses of many names do not make room for more of one.
            let least = accounts.debts.iter().min_by_key(|(_, debt)| debt.left(now));
            let least = least.map(|(account, _)| account.clone());
            least.and_then(|least| accounts.debts.remove(&least));
        }
        accounts.debts.insert(account, GuessDebt { debt, at: now });
        Ok(())
    }

    /// Takes back the guess that was right, and remembers from where it came.
    pub(super) fn forgive(&self, user: &PrincipalName, from: Option<IpAddr>, now: Mono) {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let account = accounts.account(user, from);
        if let Some(debt) = accounts.debts.get_mut(&account) {
            *debt = GuessDebt { debt: Millis((debt.left(now) - EACH).0.max(0)), at: now };
        }
        let Some(from) = from.map(source) else { return };
        if accounts.known.len() >= ACCOUNTS_MAX {
            let oldest = accounts.known.iter().min_by_key(|(_, at)| **at).map(|(known, _)| known.clone());
            oldest.and_then(|oldest| accounts.known.remove(&oldest));
        }
        accounts.known.insert((user.clone(), from), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> PrincipalName {
        name.parse().expect("a name")
    }

    fn ip(n: usize) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, n.to_be_bytes()[6], n.to_be_bytes()[7]]))
    }

    #[test]
    fn guesses_of_one_user_are_limited_whatever_addresses_they_come_from() {
        let (guesses, ann) = (PasswordGuesses::default(), user("ann"));
        for n in 0..10 {
            assert_eq!(guesses.take(&ann, ip(n), Mono(0)), Ok(()));
        }
        assert_eq!(guesses.take(&ann, ip(11), Mono(0)), Err(EACH));
        assert_eq!(guesses.take(&ann, ip(12), Mono(1_000)), Err(Millis(5_000)));
        assert_eq!(guesses.take(&user("bob"), ip(11), Mono(0)), Ok(()), "another user");
        assert_eq!(guesses.take(&ann, ip(13), Mono(EACH.0)), Ok(()), "the limit is no lock");
        assert!(guesses.take(&ann, ip(13), Mono(EACH.0)).is_err());
        let minute =
            (0..600).filter(|n| guesses.take(&ann, ip(*n), Mono(EACH.0 + 100 * *n as i64)).is_ok()).count();
        assert_eq!(minute, 9, "ten in a minute, with the one before");
    }

    #[test]
    fn a_user_is_let_in_from_a_known_address_while_others_guess() {
        let (guesses, ann) = (PasswordGuesses::default(), user("ann"));
        assert_eq!(guesses.take(&ann, ip(1), Mono(0)), Ok(()));
        guesses.forgive(&ann, ip(1), Mono(0));
        while guesses.take(&ann, ip(2), Mono(1)).is_ok() {}
        for _ in 0..100 {
            assert_eq!(guesses.take(&ann, ip(1), Mono(1)), Ok(()), "right ones cost nothing");
            guesses.forgive(&ann, ip(1), Mono(1));
        }
        let wrong = (0..100).take_while(|_| guesses.take(&ann, ip(1), Mono(1)).is_ok()).count();
        assert_eq!(wrong, 10, "a known address guesses no more than others");
        assert!(guesses.take(&user("bob"), ip(1), Mono(1)).is_ok());
    }

    #[test]
    fn guesses_of_many_names_make_no_room_for_more_of_one() {
        let (guesses, ann) = (PasswordGuesses::default(), user("ann"));
        while guesses.take(&ann, ip(1), Mono(0)).is_ok() {}
        for n in 0..2 * ACCOUNTS_MAX {
            assert_eq!(guesses.take(&user(&format!("u{n}")), ip(2), Mono(0)), Ok(()));
        }
        assert!(guesses.take(&ann, ip(1), Mono(0)).is_err());
        assert_eq!(guesses.0.lock().expect("held by none").debts.len(), ACCOUNTS_MAX);
    }
}
