//! What a day of waiting costs, and a day of holding.

use std::mem::take;
use std::time::Duration;

use fairlock::{FairLock, LockGuard, RecordWait};
use fairlock_testkit::queue::{Build, Site};
use fairlock_testkit::request_counts::{Counter, Traffic};
use tokio::task::JoinSet;

use crate::performance::Done;
use crate::performance::budget::Budget;
use crate::performance::dollars;
use crate::performance::page::Page;
use crate::performance::queues::in_virtual_time;
use crate::performance::scene::ROUND_TRIP_MS;
use crate::performance::table::{Table, digits};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The callers that are watched, by how many come before each.
type Places = &'static [(usize, &'static str)];

/// A holder and one waiter.
const TWO: Places = &[(0, "holder, one waiter"), (1, "the only waiter")];
const MANY: Places = &[
    (0, "holder, a hundred waiters"),
    (1, "the first of them"),
    (10, "behind ten"),
    (100, "behind a hundred"),
];

pub(crate) fn report(budget: &Budget, page: &mut Page) -> Done<()> {
    let mut table = Table::new([
        "process",
        "requests a day",
        "write units",
        "read units",
        "dollars a day",
    ]);
    for are_notified in [false, true] {
        eprintln!("a long hold, in virtual time, notified: {are_notified}");
        let build = Build {
            are_notified,
            ..Build::default()
        };
        for places in [TWO, MANY] {
            let traffic = in_virtual_time(watched(budget, build, places));
            add(&mut table, budget, (places, &traffic), are_notified);
        }
    }
    page.write("days", &table.to_string())
}

fn add(
    table: &mut Table,
    budget: &Budget,
    (places, traffic): (Places, &[Traffic]),
    are_notified: bool,
) {
    let how = if are_notified { ", notified" } else { "" };
    for ((_, who), traffic) in places.iter().zip(traffic) {
        let (turns, beats) = (traffic.of_turns(), traffic.heartbeats());
        let a_day = |count: f64| count * DAY.div_duration_f64(budget.watched);
        let requests = a_day((turns.requests + beats.requests) as f64);
        let writes = a_day(turns.write_units + beats.write_units);
        let reads = a_day(turns.read_units + beats.read_units);
        let dollars = format!("{:.4}", dollars::of(writes, reads));
        table.row([
            format!("{who}{how}"),
            digits(requests),
            digits(writes),
            digits(reads),
            dollars,
        ]);
    }
}

/// What each of these places sent in this time, in which nothing moved.
async fn watched(budget: &Budget, build: Build, places: Places) -> Vec<Traffic> {
    let site = Site::built(Duration::from_millis(ROUND_TRIP_MS.into()), build).await;
    let (everybody, mut waiting) = (Counter::default(), JoinSet::new());
    let mut watched = Vec::new();
    // In a check, those who are watched come one after the other.
    let place =
        |(nth, (place, _)): (usize, &(usize, _))| if budget.is_brief { nth } else { *place };
    let places: Vec<_> = places.iter().enumerate().map(place).collect();
    for place in 0..=places.last().copied().unwrap_or_default() {
        let is_watched = places.contains(&place);
        let counter = if is_watched {
            Counter::default()
        } else {
            everybody.clone()
        };
        let lock = site.process(place, &counter);
        watched.extend(is_watched.then_some(counter));
        waiting.spawn(hold(lock));
        // So that they come in this order.
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(budget.settles).await;
    let taken = |counter: &Counter| take(&mut *counter.counted());
    watched.iter().for_each(|counter| drop(taken(counter)));
    tokio::time::sleep(budget.watched).await;
    watched.iter().map(taken).collect()
}

/// Holds the lock until it is dropped.
#[expect(
    clippy::expect_used,
    reason = "a day that does not come to pass cannot be measured"
)]
async fn hold(lock: FairLock) {
    let guard: LockGuard = lock.acquire(RecordWait::Infinite).await.expect("a turn");
    guard.lost().await;
}
