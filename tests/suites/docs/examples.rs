//! The examples tell what their first lines promise: who did what, under growing tokens, and that nothing is left behind.
//! `leader` and `fencing` have their tests in the suites of the same names.

use std::collections::BTreeSet;

use fairlock_testkit::child_process::{Ended, Run, example};

/// What an example says, all of it. It must end well and complain of nothing.
fn said(name: &str) -> Vec<String> {
    good(Run::start(example(name)).end())
}

fn good(ended: Ended) -> Vec<String> {
    let Ended {
        status,
        lines,
        summary,
    } = ended;
    assert!(status.success(), "{status}: {lines:?} {summary}");
    assert_eq!(summary, "", "{lines:?}");
    lines
}

/// The number after each of these words.
fn numbers(lines: &[String], word: &str) -> Vec<u64> {
    let after = lines.iter().filter_map(|line| line.split_once(word));
    let digits = after.map(|(_, rest)| rest.trim_start().split([' ', ',']).next().unwrap());
    digits.map(|digits| digits.parse().unwrap()).collect()
}

fn grow(numbers: &[u64]) -> bool {
    numbers.is_sorted_by(|one, next| one < next)
}

fn count(lines: &[String], words: &str) -> usize {
    lines.iter().filter(|line| line.contains(words)).count()
}

#[test]
fn workers_with_a_runtime_and_without_one_do_each_file_once_and_in_turn() {
    for name in ["batch_workers", "blocking_folder"] {
        let lines = said(name);
        let [turns @ .., end] = &lines[..] else {
            unreachable!("{lines:?}")
        };
        assert_eq!(end, "the folder is empty; held: false, waiting: 0");
        assert_eq!(numbers(turns, " counts"), [1, 2, 3, 4, 5, 6]);
        let tokens = numbers(turns, "under token");
        assert!(tokens.len() == 6 && grow(&tokens), "{lines:?}");
        for worker in ["worker 1 ", "worker 2 ", "worker 3 "] {
            let is_there = count(turns, worker) > 0;
            assert!(is_there || name == "blocking_folder", "{lines:?}");
        }
    }
}

#[test]
fn a_service_shows_its_turns_and_what_they_cost() {
    let lines = said("metrics");
    for line in [
        "fairlock_wait_seconds_count{outcome=\"granted\",lock=\"orders\"} 6",
        "fairlock_hold_seconds_count{outcome=\"released\",lock=\"orders\"} 6",
        "fairlock_waiting_calls{lock=\"orders\"} 0",
        "# TYPE fairlock_capacity_units_total counter",
    ] {
        assert_eq!(count(&lines, line), 1, "{line}: {lines:?}");
    }
}

#[test]
fn hosts_that_notify_each_other_over_a_broker_poll_hardly_at_all() {
    let lines = said("notified");
    let tokens = numbers(&lines, "under token");
    assert!(tokens.len() == 2 && grow(&tokens), "{lines:?}");
    // It enters, renews its slot six times, and polls a few times.
    let requests = numbers(&lines, "after");
    assert!(requests[0] <= 12, "{lines:?}");
}

#[test]
fn one_host_of_many_runs_a_cron_job_once_a_night() {
    let lines = said("cron_job");
    let (first, rest) = lines.split_at(4);
    let (second, end) = rest.split_at(4);
    for (night, day) in [(first, "2030-01-01"), (second, "2030-01-02")] {
        assert_eq!(count(night, day), 4, "{lines:?}");
        assert_eq!(count(night, " runs the job under token"), 1, "{lines:?}");
        assert_eq!(count(night, " skips the job, which"), 3, "{lines:?}");
        assert!(night[3].ends_with("host d skips the job, which is done"));
    }
    assert!(grow(&numbers(&lines, "under token")), "{lines:?}");
    assert_eq!(end, ["both nights are done; held: false, waiting: 0"]);
}

#[test]
fn a_service_leaves_its_lock_free_when_its_work_is_done() {
    let lines = said("service");
    let [batches @ .., ended, next] = &lines[..] else {
        unreachable!("{lines:?}")
    };
    assert_eq!(numbers(batches, "sends batch"), Vec::from_iter(1..=10));
    assert_eq!(ended, "the service has ended: all batches are sent");
    assert!(next.starts_with("another host holds the lock under token "));
    let tokens = numbers(&lines, "under token");
    assert!(tokens.len() == 11 && grow(&tokens), "{lines:?}");
}

#[cfg(unix)]
#[test]
fn a_service_that_is_told_to_stop_gives_its_lock_back_at_once() {
    use rustix::process::{Pid, Signal, kill_process};
    let service = Run::start(example("service"));
    let first = service.stdout.recv().unwrap();
    assert!(first.starts_with("sends batch 1 under token "), "{first}");
    let id = Pid::from_raw(service.id().cast_signed()).unwrap();
    kill_process(id, Signal::TERM).unwrap();
    let lines = good(service.end());
    let [.., ended, next] = &lines[..] else {
        unreachable!("{lines:?}")
    };
    assert_eq!(ended, "the service has ended: SIGTERM");
    assert!(next.starts_with("another host holds the lock under token "));
    assert!(lines.len() < 11, "all batches were sent: {lines:?}");
    assert!(numbers(&[first], "under token") < numbers(&lines[lines.len() - 1..], "under token"));
}

#[test]
fn readers_read_together_and_never_what_is_half_written() {
    let lines = said("readers_writers");
    let refused = "while the writer holds the lock, a reader is let in: false";
    assert_eq!(lines[1], refused);
    assert_eq!(count(&lines, " reads edition 1 under token "), 3);
    assert_eq!(lines[7], "the file is whole; held: false, waiting: 0");
    assert_eq!(lines.len(), 8, "{lines:?}");
    let (writer, shared) = (
        numbers(&lines[..1], "under token"),
        numbers(
            &lines[2..],
            "shares the lock with three readers under token",
        ),
    );
    assert_eq!(writer, shared);
    let readers = numbers(&lines, " reads edition 1 under token");
    let editor = numbers(&lines, "editor writes edition 2 under token");
    assert!(
        readers
            .iter()
            .all(|reader| writer[0] < *reader && *reader < editor[0])
    );
}

#[test]
fn a_semaphore_limits_the_calls_of_all_hosts_and_their_rate() {
    let lines = said("rate_limit");
    let [refused, calls @ .., rate, back] = &lines[..] else {
        unreachable!("{lines:?}")
    };
    let words = "while the operator holds both permits, a call is let in: false";
    assert_eq!(refused, words);
    let hosts = BTreeSet::from_iter(numbers(calls, "host"));
    let tickets = BTreeSet::from_iter(numbers(calls, "calls under ticket"));
    assert_eq!((calls.len(), hosts.len(), tickets.len()), (6, 6, 6));
    assert!(rate.ends_with(" periods, at most 2 at a time"), "{rate}");
    assert!(numbers(&lines, "calls in")[0] >= 3, "{rate}");
    assert_eq!(back, "both permits are back");
}

#[test]
fn transfers_in_both_directions_lose_no_money_and_end() {
    let mut lines = said("transfer");
    let end = lines.split_off(3);
    assert_eq!(count(&lines, "anna pays 60 to bert, under tokens "), 1);
    assert_eq!(count(&lines, "bert pays 30 to anna, under tokens "), 1);
    assert_eq!(count(&lines, "carl cannot pay 500 to anna"), 1);
    // Each pays the other: the later transfer has the larger token of both locks.
    lines.retain(|line| line.contains(" pays "));
    let (payers, payees) = (numbers(&lines, "under tokens"), numbers(&lines, " and"));
    assert!(payers[0] < payees[1] && payees[0] < payers[1], "{lines:?}");
    let balances = ["anna has 70", "bert has 130", "carl has 100"];
    assert_eq!(end, balances.map(|balance| format!("in the end {balance}")));
}

#[test]
fn a_lease_goes_from_process_to_process() {
    let lines = said("hand_lease");
    let (taken, found) = (
        numbers(&lines[..1], "token"),
        numbers(&lines, "second: finds transaction-1234 under token"),
    );
    assert_eq!(taken, found, "{lines:?}");
    assert_eq!(
        lines[1],
        "first: a caller without the lease is refused: true"
    );
    assert!(lines[2].ends_with("longer: true"), "{lines:?}");
    assert_eq!(
        lines[3],
        "second: has done the work, and has released the lease"
    );
    assert_eq!(lines[4], "first: the lease has been released");
    assert!(numbers(&lines[5..], "first: the lock is free for token") > taken);
    assert_eq!(lines.len(), 6, "{lines:?}");
}

#[test]
fn optimistic_hosts_take_what_is_there_and_no_more() {
    let lines = said("optimistic");
    assert_eq!(lines[0], "12 goods are there at version 1");
    let versions = numbers(&lines[1..8], "at version");
    assert_eq!(versions, Vec::from_iter(2..=7), "{lines:?}");
    assert_eq!(count(&lines, " takes none: 0 are left"), 1);
    let hosts = BTreeSet::from_iter(numbers(&lines, "host"));
    assert_eq!(hosts, BTreeSet::from_iter(1..=7));
    let attempts = numbers(&lines, "after");
    assert!(attempts.iter().any(|attempts| *attempts > 1), "{lines:?}");
    assert_eq!(lines[8..], ["0 are left at version 7"]);
}

#[test]
fn a_test_of_a_users_own_checks_what_it_says() {
    let lines = said("own_test");
    assert_eq!(count(&lines, "checked: "), 5, "{lines:?}");
    assert_eq!(lines[4], "checked: nothing is left behind");
}
