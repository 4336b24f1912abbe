//! A holder that does not notice that it lost the lock.

use aws_sdk_dynamodb::Client;
use fairlock::LockGuard;

use super::items::things;
use fairlock_testkit::lab::{Host, Lab, acquire, cut_off, waits};

/// A holder that believes in its hold although the next caller holds the lock: it is cut off, and its clock is too slow.
pub(crate) struct Overtaken {
    _lab: Lab,
    pub(crate) things: Client,
    pub(crate) stale: LockGuard,
    pub(crate) fresh: LockGuard,
    _hosts: [Host; 2],
}

impl Overtaken {
    /// The first holder runs `before` while it certainly holds the lock.
    pub(crate) async fn after<T>(before: impl AsyncFnOnce(&LockGuard, &Client) -> T) -> (Self, T) {
        let lab = Lab::new().await;
        let things = things(&lab).await;
        let slow = lab.clock.clone().at_rate(0.1);
        let a = lab.host_with(|builder| builder.clock(slow));
        let b = lab.host();
        let stale = acquire(&a).await;
        let done = before(&stale, &things).await;
        let waiting = waits(&lab, &b).await;
        a.network.set_faults(cut_off());
        let fresh = waiting.await.unwrap();
        assert!(stale.is_held() && fresh.is_held(), "one of them is wrong");
        let overtaken = Overtaken {
            _lab: lab,
            things,
            stale,
            fresh,
            _hosts: [a, b],
        };
        (overtaken, done)
    }

    pub(crate) async fn new() -> Self {
        let nothing = async |_: &LockGuard, _: &Client| {};
        Overtaken::after(nothing).await.0
    }
}
