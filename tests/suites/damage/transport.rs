//! Real connections that end in the middle of an exchange. Whatever may have left the process may have been applied, and what did not leave
//! it was not. The tests run over TCP and over TLS, with kept connections, at every part of the answer.

use std::convert::Infallible;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Change, Error, RecordWait, UpdateError};
use fairlock_testkit::effort::sampled;
use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use fairlock_testkit::wire::server::{Blow, End, Part};

/// The clause by which a request is recognised.
const ENTER: &str = "list_append(if_not_exists(#slots";
const RELEASE: &str = "REMOVE #slots[0]";
const RENEW: &str = ".#lease_ms = :lease";
const PUT: &str = "a value of the test's own";
/// Far below a lease, so no call waited for one.
const SOON: Duration = Duration::from_secs(20);

/// Every way in which a connection ends, at every part of the answer, to a request that was applied or not. The sample has every part, and
/// every end of a request of either kind.
fn blows() -> impl Iterator<Item = Blow> {
    let parts = Part::ALL.into_iter();
    let cells = parts.flat_map(|part| End::ALL.map(|end| (part, end)));
    let cells = cells.flat_map(|(part, end)| {
        [false, true].map(|is_applied| Blow {
            is_applied,
            part,
            end,
        })
    });
    sampled(cells, 3)
}

/// Plays a cell for each blow, and prints the cell, so that a failure names it.
fn each<F: Future<Output = ()>>(wire: Wire, play: impl Fn(ServedEngine, Blow) -> F) {
    for blow in blows() {
        println!("{wire:?}, {blow:?}");
        real_time(async { play(ServedEngine::new(wire).await, blow).await });
    }
}

/// A turn in which one request meets a blow. The caller gets its lock and releases it, and nothing is left.
async fn turn(place: ServedEngine, blow: Blow, clause: &'static str) {
    let locks = place.locks();
    place.server.strike(clause, blow);
    let lock = locks.fair_lock("a").unwrap();
    let guard = lock.acquire(RecordWait::Timeout(SOON)).await.unwrap();
    if clause == RENEW {
        place.server.was_struck().await;
    }
    assert!(guard.is_held());
    guard.release().await.unwrap();
    assert!(place.server.is_struck());
    let other = place.locks().fair_lock("a").unwrap();
    let next = other.acquire(RecordWait::Timeout(SOON)).await.unwrap();
    next.release().await.unwrap();
    assert_eq!(place.items("a").await, ["fairlock/#lock"]);
}

#[test]
fn an_enter_whose_connection_ends_in_the_middle_is_recognised() {
    for wire in Wire::ALL {
        each(wire, |place, blow| turn(place, blow, ENTER));
    }
}

#[test]
fn a_release_whose_connection_ends_in_the_middle_is_released_and_not_lost() {
    for wire in Wire::ALL {
        each(wire, |place, blow| turn(place, blow, RELEASE));
    }
}

#[test]
fn a_renewal_whose_connection_ends_in_the_middle_loses_no_healthy_lock() {
    let cells = Wire::ALL
        .into_iter()
        .flat_map(|wire| Part::ALL.map(|part| (wire, part)));
    for (wire, part) in sampled(cells, 3) {
        let blow = Blow {
            is_applied: true,
            part,
            end: End::Close,
        };
        real_time(async { turn(ServedEngine::new(wire).await, blow, RENEW).await });
    }
}

#[test]
fn a_waiter_whose_polls_end_in_the_middle_keeps_its_place() {
    for wire in Wire::ALL {
        each(wire, |place, blow| async move {
            let (holder, waiter) = (place.locks(), place.locks());
            let lock = holder.fair_lock("a").unwrap();
            let guard = lock.acquire(RecordWait::NoWait).await.unwrap();
            let lock = waiter.fair_lock("a").unwrap();
            let waits = lock.acquire(RecordWait::Infinite);
            let goes_on = async {
                place.server.strike("ConsistentRead", blow);
                place.server.was_struck().await;
                guard.release().await.unwrap();
            };
            let (next, ()) = tokio::join!(waits, goes_on);
            next.unwrap().release().await.unwrap();
            assert_eq!(place.items("a").await, ["fairlock/#lock"]);
        });
    }
}

/// The result of a write of a caller's own.
async fn written(place: &ServedEngine) -> Result<(), UpdateError<Infallible>> {
    let table = place.versioned();
    let key = [("id", AttributeValue::S("x".into()))];
    let put = |_: Option<_>| {
        let value = AttributeValue::S(PUT.into());
        Ok(Change::Put([("value".to_owned(), value)].into()))
    };
    table.update(key, put).await.map(drop)
}

#[test]
fn a_write_none_of_whose_answers_arrives_may_have_been_applied() {
    let ends = [
        (Part::Nothing, End::Close),
        (Part::HalfTheHead, End::Reset),
        (Part::HalfTheBody, End::HalfClose),
        (Part::Rubbish, End::Close),
    ];
    let cells = ends.into_iter();
    let cells = cells.flat_map(|end| Wire::ALL.map(|wire| (wire, end)));
    for (wire, (part, end)) in sampled(cells, 3) {
        real_time(async {
            let place = ServedEngine::new(wire).await;
            let is_applied = false;
            place.server.strike_all(
                PUT,
                Blow {
                    is_applied,
                    part,
                    end,
                },
            );
            let told = written(&place).await;
            let is_unknown = matches!(told, Err(UpdateError::OutcomeUnknown { .. }));
            assert!(is_unknown, "{wire:?}, {part:?}, {end:?}: {told:?}");
        });
    }
}

/// Checks the errors of a call that does not wait, and of a write of the caller's own. Neither request ever left.
async fn assert_not_sent(place: &ServedEngine) {
    let lock = place.locks().fair_lock("a").unwrap();
    let refused = lock.acquire(RecordWait::NoWait).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
    let told = written(place).await;
    assert!(
        matches!(told, Err(UpdateError::Table(Error::Unavailable { .. }))),
        "{told:?}"
    );
    place.server.opens();
    assert!(written(place).await.is_ok());
    let guard = lock.acquire(RecordWait::NoWait).await.unwrap();
    guard.release().await.unwrap();
}

#[test]
fn a_connection_that_is_refused_or_ends_in_the_handshake_carries_nothing() {
    for wire in Wire::ALL {
        real_time(async {
            let place = ServedEngine::new(wire).await;
            place.server.shuts();
            // Without TLS there is no handshake: the server then accepts connections, and never reads a request.
            if wire == Wire::Tls {
                assert_not_sent(&place).await;
            }
        });
        real_time(async {
            let place = ServedEngine::nowhere(wire).await;
            let told = written(&place).await;
            assert!(
                matches!(told, Err(UpdateError::Table(Error::Unavailable { .. }))),
                "{told:?}"
            );
        });
    }
}

#[test]
fn a_certificate_that_is_not_trusted_is_an_outage_and_nothing_is_sent() {
    real_time(async {
        let place = ServedEngine::untrusted().await;
        let told = written(&place).await.unwrap_err();
        assert!(
            matches!(told, UpdateError::Table(Error::Unavailable { .. })),
            "{told:?}"
        );
        assert_eq!(place.server.requests(), 0);
    });
}

#[test]
fn a_kept_connection_that_is_closed_between_two_requests_costs_nobody_anything() {
    for wire in Wire::ALL {
        for end in [End::Close, End::Reset] {
            real_time(async {
                let place = ServedEngine::new(wire).await;
                // The whole answer, which a reset may overtake, and then the end.
                let blow = Blow {
                    is_applied: true,
                    part: Part::Whole,
                    end,
                };
                let lock = place.locks().fair_lock("a").unwrap();
                for _ in 0..10 {
                    place.server.strike(ENTER, blow);
                    let guard = lock.acquire(RecordWait::Timeout(SOON)).await.unwrap();
                    guard.release().await.unwrap();
                }
                assert_eq!(place.items("a").await, ["fairlock/#lock"]);
            });
        }
    }
}
