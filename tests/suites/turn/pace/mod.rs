//! How fast a lock is handed off and what that costs, in round trips and requests. Virtual time makes the figures exact, and the same on
//! every machine.

mod burst;
pub(crate) mod contest;
mod crowd;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use burst::{Behind, Burst};
use contest::{Contest, Course, RTT, distant, distant_with};
use crowd::Crowd;
use fairlock::RecordWait;
use fairlock::embedded::{Fault, Faults, Latency, When};
use fairlock_testkit::effort::{sampled, sized};
use fairlock_testkit::lab::{Lab, SECOND, acquire, cut_off, in_lab, waits};
use fairlock_testkit::queue::{QueueSetup, Toll};
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

/// Workers in a process each.
fn contest(workers: usize, turns: usize, holds: &'static [u64]) -> Course {
    contest_in(workers, workers, turns, holds)
}

fn contest_in(processes: usize, workers: usize, turns: usize, holds: &'static [u64]) -> Course {
    let contest = Contest {
        workers,
        processes,
        turns,
        holds,
    };
    virtual_time(contest.run())
}

/// `--nocapture` shows what was measured.
pub(super) fn at_most(what: &str, measured: f64, bound: f64) {
    println!("{what}: {measured:.2} of {bound:.2}");
    assert!(measured <= bound, "{what}: {measured:.2}, not {bound:.2}");
}

#[test]
fn an_uncontended_acquire_takes_one_round_trip() {
    in_lab(async |lab, []| {
        let host = distant(lab);
        // If the lock did not exist, a client that does not know the time would need one more round trip to create it.
        acquire(&lab.host()).await.release().await.unwrap();
        let asked = Instant::now();
        let guard = acquire(&host).await;
        assert_eq!(asked.elapsed(), RTT);
        guard.release().await.unwrap();
        assert_eq!(asked.elapsed(), 2 * RTT);
    });
}

#[test]
fn eight_processes_hand_off_in_less_than_one_and_a_half_round_trips_for_fourteen_requests() {
    let course = contest(8, sized(120, 400), &[50]);
    at_most("half of the handoffs", course.handoff(0.5), 1.45);
    at_most("99 of 100", course.handoff(0.99), 2.3);
    at_most("requests a turn", course.requests_a_turn(), 14.0);
    at_most("unevenness", course.unevenness(), 1.2);
}

/// Holds of a hundred round trips, which all last as long: the first successor knows when to expect the end.
#[test]
fn the_end_of_a_hold_as_long_as_all_before_is_found_by_few_polls() {
    let course = contest(8, sized(60, 200), &[1000]);
    at_most("half of the handoffs", course.handoff(0.5), 2.2);
    at_most("requests a turn", course.requests_a_turn(), 45.0);
    let course = contest(8, sized(60, 200), &[200]);
    at_most("half of the handoffs", course.handoff(0.5), 1.4);
    at_most("requests a turn", course.requests_a_turn(), 23.0);
}

/// Most holds last for a second. The others are much shorter, or longer, and no successor expects them.
#[test]
fn a_hold_that_ends_unexpectedly_is_handed_off_within_a_twentieth_of_the_others() {
    let holds = &[1000, 1000, 1000, 1000, 50, 1000, 1000, 0, 1000, 1000, 4000];
    let course = contest(8, sized(80, 200), holds);
    at_most("half of the handoffs", course.handoff(0.5), 4.5);
    // A twentieth of four seconds, and what the handoffs behind it were late by.
    at_most("all handoffs", course.handoff(1.0), 1.5 + 40.0);
}

#[test]
fn eight_processes_that_hold_for_no_time_take_two_turns_in_three_round_trips() {
    let course = contest(8, sized(120, 400), &[0]);
    let round_trips = 1.0 / course.turns_a_round_trip();
    at_most("round trips a turn", round_trips, 1.0 / 0.65);
}

/// The release's answer tells which waiter is next, and no waiter polls.
#[test]
fn a_handoff_inside_a_process_takes_one_round_trip_for_four_requests() {
    let course = contest_in(1, 8, sized(120, 400), &[50]);
    at_most("half of the handoffs", course.handoff(0.5), 1.0);
    at_most("99 of 100", course.handoff(0.99), 1.0);
    at_most("requests a turn", course.requests_a_turn(), 4.0);
    let course = contest_in(1, 8, sized(120, 400), &[0]);
    let round_trips = 1.0 / course.turns_a_round_trip();
    at_most("round trips a turn", round_trips, 1.0 / 0.85);
}

/// Half a round trip each for the release, the poll under way, and its answer, and a twentieth of the hold.
#[test]
fn a_handoff_after_a_long_hold_waits_for_a_twentieth_of_it_at_the_most() {
    for (holds, share) in [(&[1000], 5.0), (&[5000], 25.0)] {
        let course = contest(4, sized(24, 40), holds);
        at_most(&format!("{holds:?} ms"), course.handoff(1.0), 1.5 + share);
    }
}

/// All waiters poll at the pace of the long hold, and the turns after it are short. All of them together are late by the same twentieth
/// only.
#[test]
fn a_long_hold_makes_all_behind_it_late_by_a_twentieth_of_it_together() {
    let brief = vec![(5, 12), (300, 12)];
    let thorough = vec![(5, 12), (20, 12), (100, 12), (200, 12), (600, 40)];
    for (seconds, processes) in sized(brief, thorough) {
        let (hold, turn) = (SECOND * seconds, RTT / 2);
        let behind = Behind {
            processes,
            hold,
            turn,
        };
        let lasted = virtual_time(behind.run());
        let ideal = (turn + 2 * RTT) * processes as u32;
        let told = format!("{processes} behind {seconds} s");
        let most = (hold / 20 + ideal).as_secs_f64();
        at_most(&told, lasted.as_secs_f64(), most);
    }
}

/// The lock is free, and the client that drew the next ticket has died. Returns how many requests the waiter behind it sends while the join
/// timeout passes, and how long it waits.
fn behind_a_gap(grace: Duration) -> (u64, Duration) {
    in_lab(async |lab, []| {
        let host = || lab.host_with(|builder| builder.successor_slots(1));
        let (successor, behind) = (host(), host());
        let guard = acquire(&host()).await;
        let successor = waits(lab, &successor).await;
        // The longest join timeout with such a request time-out.
        let request = grace * 2 / 5;
        let dies = lab.host_with(|builder| {
            let builder = builder.successor_slots(1).lease_duration(request * 15);
            builder
                .request_timeout(request)
                .testing(|it| it.join_timeout = Some(grace))
        });
        let is_dead = Arc::new(AtomicBool::new(false));
        dies.script(move |request| {
            // It draws, and then nothing that it sends arrives any more.
            let is_row = request.operation() == "PutItem";
            let is_lost = is_dead.load(Ordering::SeqCst) || is_row;
            is_dead.store(is_lost, Ordering::SeqCst);
            is_lost.then_some(Fault::Lose(When::Before))
        });
        let lock = dies.lock();
        lab.drops(SECOND, lock.acquire(RecordWait::Infinite)).await;
        let waiting = waits(lab, &behind).await;
        guard.release().await.unwrap();
        successor.await.unwrap().release().await.unwrap();
        let (before, free) = (behind.network.counts().requests(), Instant::now());
        waiting.await.unwrap().release().await.unwrap();
        (behind.network.counts().requests() - before, free.elapsed())
    })
}

#[test]
fn a_grace_costs_a_twentieth_of_itself_and_few_polls() {
    for (grace, requests) in [(5, 200.0), (60, 250.0), (3_600, 2_500.0)] {
        let (sent, waited) = behind_a_gap(SECOND * grace);
        at_most(&format!("{grace} s: requests"), sent as f64, requests);
        let most = 1.05 * grace as f64 + 0.1;
        at_most(&format!("{grace} s: waited"), waited.as_secs_f64(), most);
    }
}

#[test]
fn holds_of_all_lengths_are_handed_off_as_fast() {
    let course = contest(8, sized(120, 400), &[10, 90, 35, 0, 120]);
    at_most("half of the handoffs", course.handoff(0.5), 1.6);
    at_most("99 of 100", course.handoff(0.99), 3.0);
}

/// A waiter that took a stall for a slow queue would sleep even longer, and the queue would stall because of that.
#[test]
fn no_queue_stalls_however_long_it_is() {
    let short = contest(8, sized(100, 200), &[50]).requests_a_turn();
    for workers in sampled([96, 32].into_iter(), 2).map(|it| sized(40, it)) {
        let course = contest(workers, workers * 4, &[50]);
        at_most(&format!("{workers}, handoffs"), course.handoff(1.0), 3.0);
        let requests = course.requests_a_turn();
        at_most(&format!("{workers}, requests"), requests, 2.0 * short);
    }
}

/// A hundred processes start at one moment, and requests take up to fifty times as long at first. A waiter that planned by that pace would
/// sleep, and stall the queue. In all, the queue takes at most twice as long as turns of the hold and two round trips.
#[test]
fn a_queue_that_began_while_requests_were_slow_is_fast_when_they_are() {
    let ms = Duration::from_millis;
    let cells = [
        (500, 3_000, 0),
        (200, 1_500, 0),
        (100, 1_000, 50),
        (50, 1_500, 0),
    ];
    for (slow, until, hold) in sampled(cells.into_iter(), 4) {
        let burst = Burst {
            processes: 100,
            slow: ms(slow),
            until: ms(until),
            hold: ms(hold),
        };
        let drained = virtual_time(burst.run());
        let turns = drained.handoffs.len() as u32;
        let told = format!("{slow} ms until {until} ms, holds of {hold} ms, {turns} turns");
        let ideal = (ms(hold) + 2 * RTT) * turns;
        let share = drained.lasted.div_duration_f64(ideal);
        at_most(&told, share, 2.0);
        let most = drained.handoffs[drained.handoffs.len() - 1].div_duration_f64(RTT);
        at_most(&format!("{told}: the slowest handoff"), most, 40.0);
        at_most(&format!("{told}: requests"), drained.requests_a_turn, 28.0);
    }
}

/// How many handoffs are counted.
fn handoffs() -> usize {
    sized(60, 200)
}

/// What all of a queue of `waiters` processes send for a handoff.
fn toll(waiters: usize) -> Toll {
    virtual_time(
        QueueSetup {
            waiters,
            hold: Duration::from_millis(50),
            round_trip: RTT,
            settles: sized(6, 20) * SECOND,
            handoffs: handoffs(),
        }
        .run(),
    )
}

/// If a request is dropped, its connection is lost.
#[test]
fn polls_that_are_under_way_when_the_lock_comes_are_answered() {
    let sent = toll(8).traffic.of_turns();
    assert!(sent.requests > 10 * handoffs() as u64, "{}", sent.requests);
    assert_eq!(sent.unanswered, 0);
}

/// Ten processes more than slots are filled, or four in a brief run, and holds of three leases, or of one.
#[test]
fn every_request_of_a_queue_is_counted_as_what_it_is() {
    let (waiters, hold) = (sized(12, 18), sized(35, 90) * SECOND);
    let queue = QueueSetup {
        waiters,
        hold,
        round_trip: RTT,
        // They have come at once and stand in slots, until each has had a turn.
        settles: hold * waiters as u32,
        // Slots are filled again at every fourth handoff, and rows are deleted behind that.
        handoffs: sized(4, 8),
    };
    let traffic = virtual_time(queue.run()).traffic;
    let steps: BTreeSet<_> = traffic.lines().map(|(_, step, _)| step).collect();
    let expected = [
        "clean",
        "draw",
        "join",
        "read queue",
        "read lock",
        "release",
        "renew hold",
        "renew row",
        "renew slot",
        "fill",
    ];
    assert_eq!(steps, BTreeSet::from(expected));
    // Only the holder's renewals: three in a lease.
    let (beats, turns) = (traffic.heartbeats(), traffic.of_turns());
    assert!(
        beats.requests > queue.handoffs as u64 * sized(3, 9),
        "{}",
        beats.requests
    );
    assert_eq!(beats.read_units, 0.0);
    assert!(turns.requests > 0 && turns.read_units > 0.0);
}

/// The long queue has 128 waiters in a thorough run, and 32 in a brief one: four times as many as the short one.
#[test]
fn a_handoff_costs_a_long_queue_little_more_than_one_of_eight() {
    let waiters = sized(32, 128);
    let (short, long) = (toll(8), toll(waiters));
    let requests = long.requests() / short.requests();
    at_most(&format!("requests of {waiters} against 8"), requests, 2.0);
    let capacity = long.capacity() / short.capacity();
    at_most(&format!("capacity of {waiters} against 8"), capacity, 3.0);
}

#[test]
fn a_table_that_is_too_busy_is_asked_less_and_no_heartbeat_is_missed() {
    in_lab(async |lab, []| {
        let (holder, successor) = (lab.host(), distant(lab));
        let guard = acquire(&holder).await;
        let waiting = waits(lab, &successor).await;
        let calm = successor.network.counts().requests();
        lab.wait(60 * SECOND).await;
        let calm = successor.network.counts().requests() - calm;
        successor.network.set_faults(Faults {
            round_trip: Latency::Constant(RTT),
            throttles: 0.8,
            ..Faults::default()
        });
        let busy = successor.network.counts().requests();
        lab.wait(300 * SECOND).await;
        let busy = successor.network.counts().requests() - busy;
        assert!(busy < calm * 5, "{busy} in five minutes, {calm} in one");
        successor.network.set_faults(Faults::default());
        let before = guard.ticket();
        guard.release().await.unwrap();
        // The first ticket that it drew: it never lost its slot.
        let next = waiting.await.unwrap();
        assert_eq!(next.ticket().get(), before.get() + 1);
    });
}

/// The leases of all places behind the holder and the slots that are filled, in seconds: on the lock item, and then in rows.
async fn leases(lab: &Lab) -> Vec<u64> {
    let scan = lab.engine.client().scan().table_name("locks");
    let items = scan.send().await.unwrap().items.unwrap();
    let entries = items.iter().flat_map(|item| {
        let on_the_item = item.get("slots").and_then(|slots| slots.as_l().ok());
        let far_back = on_the_item.into_iter().flatten().skip(1 + 8);
        far_back.chain(item.get("entry"))
    });
    let lease = |entry: &AttributeValue| {
        let lease = entry.as_m().unwrap()["lease_ms"].as_n().unwrap();
        lease.parse::<u64>().unwrap() / 1000
    };
    entries.map(lease).collect()
}

#[test]
fn leases_far_back_in_the_queue_are_stretched_and_those_near_a_slot_are_not() {
    virtual_time(a_waiter_dies_far_back(8, 40, 12));
}

#[test]
fn leases_behind_the_slots_that_are_filled_are_stretched_too() {
    virtual_time(a_waiter_dies_far_back(32, 26, 8));
}

/// With turns of ten seconds, a waiter with thirty turns before it renews for three quarters of their time. The waiter with so many turns before
/// it dies after some of them.
async fn a_waiter_dies_far_back(slots: usize, before: usize, dies_after: usize) {
    let lab = Lab::new().await;
    // In a brief run they poll once a second.
    let process = || {
        distant_with(&lab, |builder| {
            let builder = builder.successor_slots(slots);
            builder.testing(|it| it.poll_interval = Some((sized(SECOND, SECOND / 500), SECOND)))
        })
    };
    let holder = process();
    let mut guard = acquire(&holder).await;
    let hosts: Vec<_> = (0..before + 5).map(|_| process()).collect();
    let mut queue = std::collections::VecDeque::new();
    for host in &hosts {
        queue.push_back(waits(&lab, host).await);
    }
    assert!(leases(&lab).await.iter().all(|lease| *lease == 30));
    let mut slowest = Duration::ZERO;
    let mut longest = 0;
    for turn in 0..before {
        lab.wait(10 * SECOND).await;
        if turn == dies_after {
            // Far back, with a long lease, which ends before its turn comes.
            hosts[before].network.set_faults(cut_off());
        }
        let seen = leases(&lab).await;
        longest = longest.max(seen.iter().copied().max().unwrap_or(0));
        if let Some(first) = seen.first()
            && turn < before - 10
        {
            assert_eq!(*first, 30, "the first in the queue, turn {turn}: {seen:?}");
        }
        let released = Instant::now();
        guard.release().await.unwrap();
        guard = queue.pop_front().unwrap().await.unwrap();
        slowest = slowest.max(released.elapsed());
    }
    assert!(longest > 100, "{longest} s");
    // In a hold as long as the first one was, a successor polls once a second. The release and the poll take a round trip each.
    let most = SECOND + 2 * RTT;
    assert!(slowest < most, "{slowest:?}");
    queue.pop_front().unwrap().abort();
    lab.wait(10 * SECOND).await;
    guard.release().await.unwrap();
    let released = Instant::now();
    let _next = queue.pop_front().unwrap().await.unwrap();
    assert!(released.elapsed() < most, "{:?}", released.elapsed());
}

/// A partition bears 1,000 write units and 3,000 read units a second: this is for each caller what a crowd of 10,000 has. Callers that do
/// not give way take the holder's lock then.
#[test]
fn a_crowd_behind_a_holder_takes_neither_its_lock_nor_each_other_s_turns() {
    virtual_time(async {
        let crowd = Crowd {
            callers: 100,
            write_units: 10.0,
            read_units: 30.0,
            hold: 45 * SECOND,
            turn: SECOND / 10,
        };
        let dissolved = crowd.run().await;
        assert!(dissolved.released.is_ok(), "{dissolved:?}");
        assert_eq!(dissolved.turns, crowd.callers, "{dissolved:?}");
        println!("throttled: {:?}", dissolved.throttled);
    });
}
