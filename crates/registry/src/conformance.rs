//! The suite that every engine passes: one `#[test]` a case, about twenty lines an engine.
//!
//! ```ignore
//! conformance!(|clock| MyEngine::new(clock));
//! ```
//! Time is a [`HandClock`], so no case sleeps through a lease. Cases compare revisions only with each other.

#[doc(hidden)]
pub mod differential;
#[doc(hidden)]
pub mod feeds;
#[doc(hidden)]
pub mod guards;
#[doc(hidden)]
pub mod leases;
#[doc(hidden)]
pub mod limits;
#[doc(hidden)]
pub mod races;
#[doc(hidden)]
pub mod reads;
#[doc(hidden)]
pub mod transactions;
#[doc(hidden)]
pub mod writes;

use std::sync::Arc;
use std::time::Duration;

use evenkeel_core::keys::Key;
use evenkeel_core::registry::{Batch, Change, Entry, Granted, Guard, LeaseId, Outcome, Revision, Txn, Write};
use evenkeel_core::time::Millis;

use crate::clock::HandClock;
use crate::{BoxFuture, Feed, Registry, RegistryError};

/// One registry of an engine, however many connect to it. Dropped when its case is over.
pub trait Engine: Send + Sync + 'static {
    /// Connects to it, as another process would.
    fn connect(&self) -> BoxFuture<'_, Result<Arc<dyn Registry>, RegistryError>>;
}

/// What a case plays on: a registry that began empty.
pub struct Stage {
    /// A connection to it.
    pub registry: Arc<dyn Registry>,
    /// Its time.
    pub clock: Arc<HandClock>,
    engine: Box<dyn Engine>,
}

/// How long a case waits for what must come: long enough for a busy machine, short enough for a person.
const WAIT: Duration = Duration::from_secs(30);

/// A usual term.
const TTL: Millis = Millis::secs(10);

/// Plays one case. Called by [`conformance!`](crate::conformance!).
///
/// # Panics
/// When the engine does not do as the case says.
pub fn run<E: Engine, F: Future<Output = ()>>(
    engine: impl FnOnce(Arc<HandClock>) -> E,
    case: impl FnOnce(Stage) -> F,
) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a test may start threads").block_on(async {
        let clock = Arc::new(HandClock::default());
        let engine = Box::new(engine(clock.clone()));
        let registry = engine.connect().await.expect("the engine connects");
        tokio::time::timeout(WAIT * 4, case(Stage { registry, clock, engine })).await.expect("the case ends");
    });
}

impl Stage {
    /// Another connection to the same registry.
    pub async fn another(&self) -> Arc<dyn Registry> {
        self.engine.connect().await.expect("the engine connects again")
    }

    /// Everybody leaves, and comes back.
    pub async fn restart(self) -> Self {
        let Self { registry, clock, engine } = self;
        drop(registry);
        let registry = engine.connect().await.expect("the engine connects after a restart");
        Self { registry, clock, engine }
    }

    /// Sends one transaction.
    pub async fn commit(&self, txn: Txn) -> Outcome {
        let mut outcomes = self.registry.commit(vec![txn]).await;
        assert_eq!(outcomes.len(), 1, "one answer a transaction");
        outcomes.remove(0)
    }

    /// Sends one that must be made.
    pub async fn made(&self, guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Revision {
        match self.commit(txn(guards, writes)).await {
            Outcome::Applied(revision) => revision,
            other => panic!("should have been made: {other:?}"),
        }
    }

    /// Sends one that must be refused, and returns what was found.
    pub async fn refused(&self, guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Vec<Change> {
        match self.commit(txn(guards, writes)).await {
            Outcome::Refused(found) => found,
            other => panic!("should have been refused: {other:?}"),
        }
    }

    /// Whether guards hold, asked by a transaction that writes nothing.
    pub async fn holds(&self, guards: impl Into<Vec<Guard>>) -> bool {
        match self.commit(txn(guards, [])).await {
            Outcome::Applied(_) => true,
            Outcome::Refused(_) => false,
            Outcome::Unknown => panic!("should have been answered"),
        }
    }

    /// Opens a lease of [`TTL`].
    pub async fn lease(&self) -> LeaseId {
        self.open(TTL).await.lease
    }

    /// Opens a lease.
    pub async fn open(&self, ttl: Millis) -> Granted {
        self.registry.open(ttl).await.expect("a lease")
    }

    /// Renews a lease.
    pub async fn renew(&self, lease: LeaseId) -> Option<Granted> {
        self.registry.renew(lease).await.expect("an answer to the renewal")
    }

    /// Ends a lease.
    pub async fn close(&self, lease: LeaseId) {
        self.registry.close(lease).await.expect("the lease is closed");
    }

    /// Lets time pass in steps in which somebody acts, so that the engine does not count as having been away.
    pub async fn pass(&self, span: Millis) {
        let step = Millis(400);
        let mut left = span;
        while left > Millis::ZERO {
            self.clock.pass(left.min(step));
            left = left - step;
            self.made([], []).await;
        }
    }

    /// The entry at a key.
    pub async fn entry(&self, at: &str) -> Option<Entry> {
        self.read([at]).await.remove(0).entry
    }

    /// The value at a key as text.
    pub async fn value(&self, at: &str) -> Option<String> {
        self.entry(at).await.map(|entry| String::from_utf8_lossy(&entry.value).into_owned())
    }

    /// Reads some keys.
    pub async fn read<const N: usize>(&self, keys: [&str; N]) -> Vec<Change> {
        self.registry.read(keys.map(key).to_vec()).await.expect("the entries")
    }

    /// Lists.
    pub async fn list(&self) -> Batch {
        self.registry.list().await.expect("the listing")
    }

    /// Listens.
    pub async fn watch(&self, after: Revision) -> Feed {
        self.registry.watch(after).await.expect("the feed")
    }
}

/// The next batch, which must come.
async fn news(feed: &mut Feed) -> Batch {
    let next = tokio::time::timeout(WAIT, feed.next()).await.expect("news in time");
    next.expect("news without a gap")
}

/// Every change up to a revision, which must come.
async fn news_until(feed: &mut Feed, revision: Revision) -> Vec<Change> {
    let mut changes = Vec::new();
    loop {
        let batch = news(feed).await;
        changes.extend(batch.changes);
        if batch.revision >= revision {
            return changes;
        }
    }
}

fn key(text: &str) -> Key {
    Key::from_stored(text)
}

fn txn(guards: impl Into<Vec<Guard>>, writes: impl Into<Vec<Write>>) -> Txn {
    Txn { guards: guards.into(), writes: writes.into() }
}

fn put(at: &str, value: &str) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner: None }
}

fn put_by(lease: LeaseId, at: &str, value: &str) -> Write {
    Write::Put { key: key(at), value: value.as_bytes().into(), owner: Some(lease) }
}

fn delete(at: &str) -> Write {
    Write::Delete { key: key(at) }
}

fn absent(at: &str) -> Guard {
    Guard::Absent(key(at))
}

fn present(at: &str) -> Guard {
    Guard::Present(key(at))
}

fn at(key_text: &str, revision: Revision) -> Guard {
    Guard::At(key(key_text), revision)
}

fn born(key_text: &str, revision: Revision) -> Guard {
    Guard::Born(key(key_text), revision)
}

/// Chance that can be repeated (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let bound = u64::try_from(from.len()).expect("a length is a number");
        from[usize::try_from(self.below(bound)).expect("below a length")]
    }
}

/// Makes one `#[test]` of each case, for the engine that the expression makes of a clock.
#[macro_export]
macro_rules! conformance {
    ($engine:expr) => {
        $crate::conformance_tests! { $engine;
            guards: [
                absent_holds_for_a_key_never_written,
                absent_fails_for_an_entry,
                absent_holds_again_after_deletion,
                present_holds_for_an_entry,
                present_fails_for_a_key_never_written,
                present_fails_after_deletion,
                at_holds_at_the_last_write,
                at_fails_after_another_write,
                at_fails_for_a_key_never_written,
                at_fails_after_deletion,
                at_fails_at_the_revision_of_another_key,
                at_fails_at_a_revision_to_come,
                born_holds_at_the_creation,
                born_holds_after_later_writes,
                born_fails_at_a_later_write,
                born_fails_for_another_life_of_the_key,
                born_fails_for_a_key_never_written,
                open_holds_while_the_lease_lives,
                open_fails_after_its_close,
                open_fails_after_its_term,
                open_fails_for_a_lease_never_granted,
                every_guard_must_hold,
                without_guards_everything_holds,
                hot_keys_are_guarded_like_others,
                a_key_may_be_guarded_twice,
            ]
            writes: [
                put_creates,
                put_replaces_and_keeps_the_birth,
                delete_removes,
                deleting_what_is_not_there_is_no_change,
                a_deleted_key_is_born_again,
                deleted_and_put_at_once_is_born_again,
                put_and_deleted_at_once_is_gone,
                the_last_of_two_puts_counts,
                all_writes_share_one_revision,
                revisions_strictly_grow,
                revisions_grow_across_a_restart,
                everything_is_there_after_a_restart,
                an_empty_value_is_a_value,
                every_byte_is_kept,
                a_value_of_a_mebibyte_is_kept,
                keys_are_kept_as_they_are,
                a_key_is_not_its_prefix,
                an_empty_transaction_is_made,
                replacing_by_the_same_value_is_a_write,
            ]
            transactions: [
                a_refused_one_writes_nothing,
                a_refusal_tells_every_key_once,
                a_refusal_tells_what_is_there_now,
                each_of_a_batch_is_answered_in_its_place,
                a_refused_one_holds_back_no_other,
                later_ones_of_a_batch_see_earlier_ones,
                an_empty_batch_has_no_answers,
                a_large_batch_is_answered_apart,
                an_unknown_outcome_is_settled_by_sending_again,
                sending_again_after_success_changes_nothing,
                two_connections_see_one_order,
            ]
            races: [
                of_sixteen_who_insert_one_wins,
                of_sixteen_who_replace_one_wins,
                no_increment_is_lost,
                a_takeover_needs_the_member_to_be_gone,
                every_revision_is_given_once,
                a_dropped_commit_is_made_whole_or_not_at_all,
                a_close_and_a_renewal_never_both_win,
            ]
            leases: [
                numbers_are_never_zero_and_never_the_same,
                numbers_are_not_given_again_after_a_restart,
                a_lease_has_the_term_asked_for,
                a_term_is_held_within_bounds,
                a_lease_never_ends_early,
                a_lease_ends_with_its_term,
                a_renewal_prolongs_by_the_term,
                an_ended_lease_is_never_renewed,
                a_closed_lease_is_never_renewed,
                a_lease_never_granted_is_not_renewed,
                closing_twice_is_no_change,
                what_lives_by_a_lease_goes_with_its_close,
                what_lives_by_a_lease_goes_with_its_term,
                what_lives_by_a_lease_goes_at_one_revision,
                what_lives_by_nothing_stays,
                an_entry_can_be_handed_to_another_lease,
                an_entry_can_be_made_persistent,
                an_entry_cannot_live_by_an_ended_lease,
                somebody_elses_act_ends_a_lease,
                several_leases_end_at_once,
                a_lease_survives_a_restart,
                an_engine_that_was_away_prolongs_first,
                a_short_lease_does_not_prolong_a_long_one,
                next_end_is_the_earliest,
                the_calendar_is_told,
            ]
            feeds: [
                a_listing_and_a_feed_miss_nothing,
                a_feed_from_the_beginning_tells_everything,
                news_comes_in_order,
                a_transaction_is_told_whole,
                a_deletion_is_news,
                the_end_of_a_lease_is_news,
                hot_keys_are_no_news,
                quiet_progress_is_told,
                a_refusal_is_no_news,
                every_listener_hears,
                news_of_another_connection_comes,
                a_feed_goes_on_after_a_restart,
                a_dropped_wait_loses_nothing,
                whoever_is_too_far_behind_must_list_again,
                nothing_is_invented,
                a_view_fed_under_load_ends_as_the_listing,
            ]
            reads: [
                what_is_not_there_is_told_as_absent,
                entries_come_in_the_order_asked,
                nothing_asked_nothing_told,
                hot_entries_can_be_read,
                a_read_sees_every_answered_write,
                a_read_is_of_one_moment,
                a_listing_has_every_cold_entry_once,
                a_listing_has_no_hot_entry,
                a_listing_is_of_one_moment,
                a_listing_knows_owners_and_births,
            ]
            limits: [
                the_facts_make_sense,
                the_largest_value_fits,
                a_larger_value_is_refused_alone,
                the_longest_transaction_fits,
                a_longer_transaction_is_refused_alone,
            ]
            differential: [
                answers_as_the_store_does,
                answers_as_the_store_does_by_other_dice,
            ]
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($engine:expr; $($subject:ident: [$($case:ident),+ $(,)?])+) => {
        $(mod $subject {
            use super::*;

            $(#[test]
            fn $case() {
                $crate::conformance::run($engine, $crate::conformance::$subject::$case);
            })+
        })+
    };
}

#[cfg(test)]
mod tests {
    /// A case that nobody calls proves nothing.
    #[test]
    fn every_case_is_on_the_list() {
        let list = include_str!("conformance.rs");
        for subject in [
            include_str!("conformance/differential.rs"),
            include_str!("conformance/feeds.rs"),
            include_str!("conformance/guards.rs"),
            include_str!("conformance/leases.rs"),
            include_str!("conformance/limits.rs"),
            include_str!("conformance/races.rs"),
            include_str!("conformance/reads.rs"),
            include_str!("conformance/transactions.rs"),
            include_str!("conformance/writes.rs"),
        ] {
            for line in subject.lines().filter_map(|line| line.strip_prefix("pub async fn ")) {
                let case = line.split('(').next().unwrap();
                assert!(
                    list.contains(&format!("                {case},\n")),
                    "{case} is not in conformance!"
                );
            }
        }
    }
}
