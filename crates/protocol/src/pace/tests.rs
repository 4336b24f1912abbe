//! The pace of polls, poll by poll.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u32) -> Moment {
    Moment::default() + MS * ms
}

/// Takes in a poll over a network with a round trip of 10 ms.
fn poll(pace: &mut PollSchedule, holder: u64, arrived: u32) {
    let holder = Some(Ticket::new(holder));
    pace.timed(at(arrived.saturating_sub(10)), at(arrived));
    pace.saw(holder, at(arrived));
}

fn pace() -> PollSchedule {
    let mut pace = PollSchedule::new(5 * MS, 1000 * MS);
    poll(&mut pace, 1, 10);
    pace
}

#[test]
fn the_first_successor_polls_without_pause_until_a_twentieth_of_the_hold_is_longer_than_a_round_trip()
 {
    let mut pace = pace();
    for (arrived, pause) in [(20, 0), (110, 0), (410, 10), (10_010, 490), (100_010, 990)] {
        poll(&mut pace, 1, arrived);
        let next = pace.until_next(PollPosition::Successor(0), 0.8, 1, at(arrived));
        assert_eq!(next, MS * pause, "at {arrived} ms");
    }
}

#[test]
fn a_brake_slows_down_the_first_successor_too() {
    let mut pace = pace();
    poll(&mut pace, 1, 20);
    for (slowed, pause) in [(1, 0), (2, 0), (4, 10), (64, 310)] {
        let next = pace.until_next(PollPosition::Successor(0), 1.0, slowed, at(20));
        assert_eq!(next, MS * pause, "{slowed} times");
    }
}

#[test]
fn a_brake_makes_nobody_sleep_for_longer_than_it_stays_pressed() {
    let mut pace = pace();
    for turn in 1..=9 {
        poll(&mut pace, 1 + turn, 10 + turn as u32 * 100);
    }
    let next = |before, slowed| pace.until_next(PollPosition::Queue(before), 1.0, slowed, at(900));
    for (before, slowed, pause) in [(2, 1, 150), (2, 4, 600), (2, 64, 1_000), (8, 64, 1_000)] {
        assert_eq!(
            next(before, slowed),
            MS * pause,
            "{before} before, {slowed} times"
        );
    }
}

#[test]
fn an_answer_that_takes_no_time_is_followed_by_a_pause() {
    let mut pace = PollSchedule::new(5 * MS, 1000 * MS);
    pace.timed(at(0), at(0));
    assert_eq!(
        pace.until_next(PollPosition::Successor(0), 1.2, 1, at(0)),
        5 * MS
    );
}

#[test]
fn successors_poll_twice_in_the_time_of_the_turns_before_them_and_those_behind_after_three_quarters()
 {
    let mut pace = pace();
    for turn in 1..=9 {
        poll(&mut pace, 1 + turn * 4, 10 + turn as u32 * 400);
    }
    let next = |position| pace.until_next(position, 1.0, 1, at(3610));
    assert_eq!(next(PollPosition::Successor(2)), 90 * MS);
    assert_eq!(next(PollPosition::Queue(6)), 440 * MS);
    assert_eq!(
        next(PollPosition::QueueTold(6)),
        590 * MS,
        "all of that time"
    );
    // The queue was seen for 3.6 s.
    assert_eq!(next(PollPosition::Queue(u64::MAX)), 1_340 * MS);
}

#[test]
fn nobody_sleeps_for_longer_than_half_the_time_for_which_it_has_known_the_queue() {
    let mut pace = pace();
    let next = |pace: &PollSchedule, now| {
        let next = pace.until_next(PollPosition::Queue(1_000_000), 1.0, 1, at(now));
        (next + 10 * MS).as_millis()
    };
    assert_eq!(next(&pace, 10), 375);
    poll(&mut pace, 1, 385);
    assert_eq!(next(&pace, 385), 375);
    poll(&mut pace, 1, 8_010);
    assert_eq!(next(&pace, 8_010), 3_000);
    pace = pace.at_rest();
    poll(&mut pace, 9, 90_000);
    assert_eq!(next(&pace, 90_000), 2_996);
}

#[test]
fn requests_that_were_slow_make_no_slow_queue() {
    let mut pace = PollSchedule::new(5 * MS, 1000 * MS);
    for turn in 1..=9 {
        pace.timed(at(turn * 300 - 200), at(turn * 300));
        pace.saw(Some(Ticket::new(u64::from(turn))), at(turn * 300));
    }
    assert_eq!(pace.turn(), 300 * MS);
    pace.timed(at(2_700), at(2_710));
    // What a turn took beyond a round trip and a quarter, plus a round trip and a quarter as it is now.
    assert_eq!(pace.turn(), 50 * MS + 10 * MS * 5 / 4);
}

#[test]
fn the_first_successors_polls_overlap_when_the_hold_is_about_to_end() {
    let mut pace = pace();
    for turn in 1..=9 {
        assert_eq!(pace.overlap(0, at(20)), None, "knows {turn} turns");
        poll(&mut pace, 1 + turn, 10 + turn as u32 * 100);
    }
    let (before, overlap) = (None, Some(5 * MS));
    for (ms, expected) in [
        (969, before),
        (970, overlap),
        (1109, overlap),
        (1110, before),
    ] {
        assert_eq!(pace.overlap(0, at(ms)), expected, "at {ms} ms");
    }
    pace.saw(None, at(1200));
    assert_eq!(pace.overlap(0, at(1200)), overlap, "free");
}

/// Five turns of 200 ms, seen closely: the sixth holder is seen at 1,010 ms.
fn regular() -> PollSchedule {
    let mut pace = pace();
    for arrived in (20..=1_010).step_by(10) {
        poll(&mut pace, 1 + u64::from(arrived - 10) / 200, arrived);
    }
    pace
}

#[test]
fn where_holds_are_regular_the_first_successor_polls_rarely_before_the_end_and_often_around_it() {
    let mut pace = regular();
    let next = |pace: &PollSchedule, now| {
        let pause = pace.until_next(PollPosition::Successor(0), 1.0, 1, at(now));
        (pause.as_millis(), pace.overlap(0, at(now)).is_some())
    };
    // A third of a turn, but four round trips at most: the last poll was sent at 1,000 ms.
    assert_eq!(next(&pace, 1_010), (30, false));
    poll(&mut pace, 6, 1_170);
    // The end can be seen from 1,190 ms on, by a poll that is sent at 1,180 ms.
    assert_eq!(next(&pace, 1_170), (10, false));
    poll(&mut pace, 6, 1_190);
    assert_eq!(next(&pace, 1_190), (0, true));
    // The hold is longer than all others before it.
    poll(&mut pace, 6, 1_300);
    assert_eq!(next(&pace, 1_300), (4, false));
}

#[test]
fn a_client_knows_when_the_holder_to_which_it_handed_off_began() {
    let mut pace = regular().at_rest();
    pace.handed_off(Ticket::new(7), 190 * MS, at(1_200));
    // The first poll of the next wait is 150 ms later.
    poll(&mut pace, 7, 1_350);
    let next = pace.until_next(PollPosition::Successor(0), 1.0, 1, at(1_350));
    assert_eq!(
        next,
        30 * MS,
        "sent at 1,380 ms, and answered 190 ms after the handoff"
    );
    poll(&mut pace, 7, 1_390);
    assert!(pace.overlap(0, at(1_390)).is_some());
}

#[test]
fn the_polls_of_those_behind_overlap_when_turns_are_as_short_as_round_trips() {
    let short = |turn: u32| {
        let mut pace = pace();
        for holder in 2..=10 {
            poll(&mut pace, holder, 10 + holder as u32 * turn);
        }
        [1, 2].map(|before| pace.overlap(before, at(10 + turn * 10)))
    };
    assert_eq!(short(15), [Some(MS * 15 / 2), None]);
    assert_eq!(short(60), [None, None]);
}

#[test]
fn polls_overlap_by_no_less_than_the_shortest() {
    let mut pace = PollSchedule::new(5 * MS, 1000 * MS);
    for turn in 0..10 {
        pace.timed(at(turn * 50), at(turn * 50 + 6));
        pace.saw(Some(Ticket::new(1 + u64::from(turn))), at(turn * 50 + 6));
    }
    assert_eq!(pace.overlap(0, at(500)), Some(5 * MS));
    (0..99).for_each(|_| pace.timed(at(0), at(4)));
    assert_eq!(pace.overlap(0, at(500)), None);
}

#[test]
fn nobody_sleeps_for_longer_than_the_max_poll_interval_for_each_before_it() {
    let mut pace = pace();
    for turn in 1..=9 {
        poll(&mut pace, 1 + turn, 10 + turn as u32 * 60_000);
    }
    let next = |position| pace.until_next(position, 1.0, 1, at(540_010));
    assert_eq!(next(PollPosition::Successor(1)), 1990 * MS);
    assert_eq!(next(PollPosition::Queue(30)), 29_990 * MS);
}

#[test]
fn a_waiter_that_has_seen_little_takes_the_queue_to_be_fast() {
    let mut pace = pace();
    poll(&mut pace, 2, 60_000);
    assert_eq!(pace.turn(), 10 * MS);
    poll(&mut pace, 3, 120_000);
    assert_eq!(pace.turn(), 5 * MS * 25);
}

#[test]
fn one_long_hold_is_no_slow_queue() {
    let mut pace = pace();
    for turn in 1..=8 {
        poll(&mut pace, 1 + turn, 10 + turn as u32 * 65);
    }
    poll(&mut pace, 10, 60_000);
    assert_eq!(pace.turn(), 65 * MS);
}

#[test]
fn the_mean_is_none_until_a_turn_was_seen_to_end_and_counts_the_last_nine() {
    let mut pace = pace();
    assert_eq!(pace.mean(), None);
    poll(&mut pace, 2, 110);
    assert_eq!(pace.mean(), Some(100 * MS));
    for turn in 1..=8 {
        poll(&mut pace, 2 + turn, 110 + turn as u32 * 10);
    }
    assert_eq!(pace.mean(), Some(20 * MS));
    poll(&mut pace, 11, 200);
    assert_eq!(pace.mean(), Some(10 * MS));
}

#[test]
fn a_poll_that_was_overtaken_shows_no_new_turn() {
    let mut pace = pace();
    poll(&mut pace, 5, 60_010);
    poll(&mut pace, 4, 60_015);
    poll(&mut pace, 6, 60_020);
    assert_eq!(pace.turns.last(), Some(10 * MS));
    assert!(!pace.is_news(at(60_010), at(60_020)));
    assert!(pace.is_news(at(60_015), at(60_020)));
}

#[test]
fn the_time_between_two_waits_is_no_turn() {
    let mut pace = pace();
    for turn in 1..=9 {
        poll(&mut pace, 1 + turn, 10 + turn as u32 * 65);
    }
    for wait in 1..=9 {
        pace = pace.at_rest();
        poll(&mut pace, 10 + wait, wait as u32 * 3_600_000);
    }
    assert_eq!(pace.turn(), 65 * MS);
}

#[test]
fn the_speed_of_the_queue_is_not_learnt_from_the_waiters_own_polls() {
    let mut pace = pace();
    // The polls are very late: a hundred turns go by between any two.
    for poll_at in 1..=9 {
        poll(&mut pace, 1 + poll_at * 100, 10 + poll_at as u32 * 5_000);
    }
    assert_eq!(pace.turn(), 50 * MS);
}
