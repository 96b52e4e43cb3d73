//! The list of all cases: a macro that makes a test of each.
//!
//! A case without a mark needs no passing time, and every engine runs it in the gate. The marks are for cases
//! that differ on a server, whose time is real:
//!
//! - `waits_in_gate`: the case waits until a lease ends, and the gate runs it all the same. There are six of these.
//! - `waits`: the case waits for time, so only the soak runs it.
//! - `clock_only`: the case needs a clock that it can set, so there is no such test.
//! - `server_only`: the case is about real time: only servers have it, and only the soak runs it.

/// Makes one `#[test]` of each case, for the engine that the expression creates with a clock; `server:` before the
/// expression says that the engine is a server, whose time is real.
#[macro_export]
macro_rules! conformance {
    (server: $engine:expr) => {
        $crate::conformance_list! { server $engine }
    };
    ($engine:expr) => {
        $crate::conformance_list! { clock $engine }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_list {
    ($kind:ident $engine:expr) => {
        $crate::conformance_tests! { $kind $engine;
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
                open_fails_after_its_term: waits,
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
                a_revision_is_used_once_in_a_batch,
                an_empty_batch_has_no_answers,
                a_large_batch_is_answered_apart,
                those_that_share_a_guard_are_answered_apart,
                an_unknown_outcome_is_settled_by_sending_again,
                sending_again_after_success_changes_nothing,
                two_connections_see_one_order,
            ]
            races: [
                of_sixteen_who_insert_one_wins,
                of_sixteen_who_replace_one_wins,
                no_increment_is_lost,
                a_takeover_needs_the_member_to_be_gone: waits,
                every_revision_is_given_once,
                a_dropped_commit_is_made_whole_or_not_at_all,
                a_close_and_a_renewal_never_both_win,
                run_states_lose_no_increment_beside_other_writers,
                a_run_state_is_written_in_the_life_that_guards_it,
            ]
            leases: [
                numbers_are_never_zero_and_never_the_same,
                numbers_are_not_given_again_after_a_restart,
                a_lease_has_the_term_asked_for,
                a_term_is_held_within_bounds,
                a_lease_never_ends_early: waits_in_gate,
                a_lease_ends_with_its_term: waits_in_gate,
                a_lease_is_over_soon_after_its_term: server_only,
                a_renewal_prolongs_by_the_term: waits_in_gate,
                an_ended_lease_is_never_renewed: waits_in_gate,
                a_closed_lease_is_never_renewed,
                a_lease_never_granted_is_not_renewed,
                closing_twice_is_no_change,
                what_lives_by_a_lease_goes_with_its_close,
                what_lives_by_a_lease_goes_with_its_term: waits_in_gate,
                what_lives_by_a_lease_goes_at_one_revision,
                what_lives_by_nothing_stays,
                an_entry_can_be_handed_to_another_lease,
                an_entry_can_be_made_persistent,
                an_entry_cannot_live_by_an_ended_lease: waits,
                somebody_elses_act_ends_a_lease: waits_in_gate,
                several_leases_end_at_once: waits,
                a_lease_survives_a_restart: waits,
                an_engine_that_was_away_prolongs_first: clock_only,
                a_short_lease_does_not_prolong_a_long_one: clock_only,
                next_end_is_the_earliest,
                the_calendar_is_told: waits,
            ]
            feeds: [
                a_listing_and_a_feed_miss_nothing,
                a_feed_from_the_beginning_tells_everything,
                news_comes_in_order,
                a_transaction_is_told_whole,
                a_deletion_is_news,
                the_end_of_a_lease_is_news: waits,
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
                the_heaviest_transaction_fits,
                a_heavier_transaction_is_refused_alone,
                a_batch_may_be_heavier_than_a_transaction,
            ]
            differential: [
                answers_as_the_store_does,
                answers_as_the_store_does_by_other_dice,
            ]
            temporary: [
                a_temporary_registry_begins_empty_beside_the_others,
                a_removed_registry_leaves_nothing,
                a_registry_that_exists_is_never_taken,
            ]
            linear: [
                histories_can_have_happened_one_after_the_other,
            ]
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($kind:ident $engine:expr; $($subject:ident: [$($case:ident $(: $mark:ident)?),+ $(,)?])+) => {
        $(mod $subject {
            use super::*;

            $($crate::conformance_test! { $kind $engine; $subject $case $($mark)? })+
        })+
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_test {
    (server $engine:expr; $subject:ident $case:ident clock_only) => {};
    (clock $engine:expr; $subject:ident $case:ident server_only) => {};
    (server $engine:expr; $subject:ident $case:ident waits) => {
        #[test]
        #[ignore = "soak: waits for time on a server"]
        fn $case() {
            $crate::conformance::run($engine, $crate::conformance::$subject::$case);
        }
    };
    (server $engine:expr; $subject:ident $case:ident server_only) => {
        #[test]
        #[ignore = "soak: measures how late a lease is over"]
        fn $case() {
            $crate::conformance::run($engine, $crate::conformance::$subject::$case);
        }
    };
    ($kind:ident $engine:expr; $subject:ident $case:ident $($mark:ident)?) => {
        #[test]
        fn $case() {
            $crate::conformance::run($engine, $crate::conformance::$subject::$case);
        }
    };
}
