//! The same suite for every engine. Each scenario is written once, and played in memory, in a file, and in a file that two engines share.
//! It is also played on an engine that shows no items with its refusals, and on the server at `FAIRLOCK_TEST_ENDPOINT`.
//!
//! Without that variable the tests of `dynamodb_local` say so and pass; `scripts/dynamodb-local` sets it. In memory, time is virtual.
//! Elsewhere it is real, and nothing is timed: the bound of a test only ends it when it hangs.

use std::panic::catch_unwind;

use fairlock::Clock;
use fairlock_testkit::http::endpoint;
use fairlock_testkit::lab::{EPOCH, acquire};

mod admin;
mod data;
mod dead;
mod faults;
mod formats;
mod inspect;
mod lease_lock;
mod leaving;
mod refusals;
mod rig;
mod sharers;
mod sharing;
mod table;
mod turns;
mod writes;

/// Every scenario on one engine.
macro_rules! suite {
    ($engine:ident) => {
        mod $engine {
            tests! { $engine:
                table::a_table_is_made_once_and_found_fit,
                table::a_table_that_is_missing_or_of_other_keys_is_named,
                table::a_table_without_ttl_is_warned_of_until_it_is_switched_on,
                table::what_is_added_to_the_request_is_there_and_nothing_else_is_compared,
                turns::an_uncontended_turn_is_two_requests_and_leaves_one_item,
                turns::every_record_wait_is_granted_a_free_lock_and_a_time_out_of_zero_is_refused,
                turns::a_wait_that_times_out_leaves_nothing,
                leaving::a_guard_that_is_dropped_releases,
                leaving::a_release_that_is_no_longer_waited_for_is_done_all_the_same,
                turns::eight_workers_take_ten_turns_each_in_the_order_of_their_tickets_and_never_two_at_once,
                turns::tickets_grow_over_a_lock_item_that_was_deleted,
                turns::those_who_stop_waiting_are_passed,
                sharing::readers_come_and_go_beside_each_other_and_the_last_hands_over,
                sharing::a_downgrade_lets_readers_in_and_no_writer,
                sharing::permits_that_are_not_left_are_refused_and_their_number_must_be_the_same,
                sharers::a_write_of_a_sharer_that_was_applied_unseen_is_recognised,
                sharers::a_write_of_a_sharer_that_was_not_applied_is_sent_again,
                sharers::a_write_of_a_sharer_that_comes_twice_is_applied_once,
                sharers::dead_readers_are_evicted_one_by_one_and_the_living_stay,
                data::data_goes_to_the_next_holder_and_stays_until_it_is_removed,
                data::who_has_an_older_token_writes_nothing_and_is_told,
                data::a_late_copy_of_a_write_takes_no_later_one_back,
                data::data_is_written_once_whatever_its_request_meets,
                lease_lock::a_lease_is_found_extended_and_released_by_another_process,
                lease_lock::a_lease_that_is_over_is_passed_by_who_waits,
                lease_lock::leases_are_granted_in_turn_and_permits_are_leased,
                dead::a_dead_holder_is_passed_after_its_lease_and_told,
                dead::a_holder_whose_lock_item_was_deleted_is_told_so,
                dead::a_dead_successor_and_the_dead_behind_it_are_passed,
                faults::a_write_that_was_applied_unseen_is_recognised,
                faults::a_write_that_was_not_applied_is_sent_again,
                faults::four_workers_on_a_bad_network_are_never_two_at_once,
                refusals::a_refusal_costs_a_consistent_read_where_it_shows_no_item_and_none_where_it_does,
                inspect::an_observer_sees_the_holder_and_the_queue_and_writes_nothing,
                inspect::a_listing_shows_every_lock_over_all_pages,
                admin::a_sweep_removes_the_dead_of_a_whole_queue,
                admin::an_idle_lock_is_removed_after_its_retention,
                writes::a_fenced_item_refuses_the_stale_and_takes_the_fresh,
                writes::a_checked_transaction_applies_only_while_its_hold_is_the_holder,
                writes::versioned_updates_of_many_at_once_lose_nothing,
                writes::a_versioned_write_that_was_applied_unseen_is_made_once,
                formats::an_item_of_another_format_is_not_written_to,
            }
        }
    };
}

macro_rules! tests {
    ($engine:ident: $($part:ident::$scenario:ident),+ $(,)?) => {
        $(#[test]
        fn $scenario() {
            super::rig::$engine(super::$part::$scenario);
        })+
    };
}

suite!(memory);
suite!(file);
suite!(shared_file);
suite!(without_old_items);
suite!(dynamodb_local);

#[test]
fn the_page_of_testing_counts_the_scenarios() {
    let (source, page) = (
        include_str!("mod.rs"),
        include_str!("../../../../docs/testing.md").replace('\n', " "),
    );
    let (_, listed) = source.split_once("tests! { $engine:").expect("the list");
    let listed = listed.lines().skip(1).take_while(|line| line.trim() != "}");
    let there_are = listed.count().to_string();
    let counts = page.split(" scenarios").filter_map(|before| {
        let word = before.rsplit(char::is_whitespace).next()?;
        word.parse::<usize>().ok().map(|_| word)
    });
    assert_eq!(Vec::from_iter(counts), [there_are]);
}

#[test]
#[should_panic(expected = "reads that are not consistent")]
fn a_client_whose_reads_are_not_consistent_is_found() {
    rig::memory(async |rig| {
        let host = rig.host();
        let _ = host.network.clone().rewrite(|body| {
            let fields = body.as_object_mut();
            fields.map(|fields| fields.remove("ConsistentRead"));
        });
        let lock = host.lock();
        lock.inspect().await.expect("an empty queue");
    });
}

#[test]
fn a_client_whose_clock_is_years_behind_is_found() {
    let plays = || {
        rig::dynamodb_local(async |rig| {
            let behind = Clock::of_tokio(EPOCH);
            let host = rig.host_with(|builder| builder.clock(behind));
            let guard = acquire(&host).await;
            guard.release().await.expect("the lock was held");
        });
    };
    // Without a server the scenario is not played.
    assert_eq!(catch_unwind(plays).is_err(), endpoint().is_some());
}
