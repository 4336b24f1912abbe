//! How long a call takes that does not wait.

use std::collections::HashMap;
use std::sync::Mutex;

use fairlock::embedded::{Fault, When};
use fairlock::{Error, RecordWait};
use tokio::time::Instant;

use super::{LEASE, REQUEST, TICK, several};
use fairlock_testkit::assert_is;
use fairlock_testkit::lab::in_lab;
use fairlock_testkit::verbs::verb;

/// An attempt at one lock ends within this many request time-outs.
const TRY: u32 = 5;

#[test]
fn the_last_lock_is_tried_for_as_long_as_alone_and_then_the_others_are_released() {
    in_lab(async |lab, [host]| {
        // DynamoDB falls silent as soon as the call holds `a` and `b`.
        let is_silent = |lock: Option<&str>, verb: &str| lock == Some("c") || verb == "release";
        let network = host.network.clone().script(move |request| {
            let hangs = is_silent(request.key("pk"), verb(request));
            hangs.then_some(Fault::Hang(When::Before))
        });
        let all = several(&host, &["a", "b", "c"]);
        let started = Instant::now();
        let refused = all.acquire(RecordWait::NoWait).await.unwrap_err();
        let took = started.elapsed();
        assert_is!(refused, Error::Unavailable { .. });
        // The attempt at `c` takes as long as it would alone, and the release has its time too.
        assert!(REQUEST * TRY < took, "{took:?}");
        assert!(took <= REQUEST * (TRY + 1) + TICK, "{took:?}");
        let _ = network.script(|_| None);
        lab.wait(2 * LEASE).await;
        for lock in ["a", "b", "c"] {
            assert!(lab.is_free(lock).await, "{lock}");
        }
    });
}

#[test]
fn locks_that_are_lost_again_and_again_make_the_call_no_longer() {
    in_lab(async |lab, []| {
        let host =
            lab.host_with(|builder| builder.lease_duration(6 * REQUEST).request_timeout(REQUEST));
        // The first lock is never renewed, and is lost before the last is granted: each attempt at another takes more than three request
        // time-outs.
        let tries: Mutex<HashMap<String, Instant>> = Mutex::default();
        let network = host.network.clone().script(move |request| {
            let lock = request.key("pk").unwrap_or_default();
            let hangs = match (lock, verb(request)) {
                ("a", "renew hold") => true,
                ("b" | "c", "enter" | "enter known") => {
                    let mut tries = tries.lock().unwrap();
                    let since = tries.entry(lock.to_owned()).or_insert_with(Instant::now);
                    if since.elapsed() >= 4 * REQUEST {
                        *since = Instant::now();
                    }
                    since.elapsed() < 3 * REQUEST
                }
                _ => false,
            };
            hangs.then_some(Fault::Hang(When::Before))
        });
        let all = several(&host, &["a", "b", "c"]);
        let started = Instant::now();
        let refused = all.acquire(RecordWait::NoWait).await.unwrap_err();
        let took = started.elapsed();
        assert!(
            matches!(&refused, Error::NotGranted { lock, .. } if lock == "a"),
            "after {took:?}: {refused}"
        );
        // It began again once: two of its three times have passed after the second loss.
        assert!(2 * TRY * REQUEST < took, "{took:?}");
        assert!(took <= REQUEST * (3 * TRY + 1) + TICK, "{took:?}");
        let _ = network.script(|_| None);
        lab.wait(2 * LEASE).await;
        for lock in ["a", "b", "c"] {
            assert!(lab.is_free(lock).await, "{lock}");
        }
    });
}
