//! The ports at which the processes of one lock are notified. A process that starts is given the port of one that was killed.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

use super::PROCESSES;

/// A process starts before the one that it replaces is killed.
const SPAN: u16 = PROCESSES as u16 + 1;
/// The system gives no port below this one to who asks for any.
const LOWEST: u16 = 20_000;
/// How many ports a process that tests uses at most.
const OF_A_TEST: u16 = 100;

pub(crate) struct Ports {
    first: u16,
    given: Mutex<Given>,
}

#[derive(Default)]
struct Given {
    ports: BTreeSet<u16>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) given: u16,
    /// How many of these were another's before.
    pub(crate) given_again: u16,
    /// How often somebody listened at one of the ports when another was given.
    pub(crate) listened_at: u16,
}

impl Ports {
    /// Ports that no other lock has.
    pub(crate) fn of_a_lock() -> Ports {
        static LOCKS: AtomicU16 = AtomicU16::new(0);
        let number = LOCKS.fetch_add(1, Ordering::Relaxed);
        let tests = (std::process::id() % 100) as u16;
        Ports {
            first: LOWEST + tests * OF_A_TEST + number * SPAN % OF_A_TEST,
            given: Mutex::default(),
        }
    }

    /// The next port in turn at which nobody listens, or zero, which means any.
    pub(crate) fn give(&self) -> u16 {
        let mut given = self.given.lock().unwrap();
        let turn = given.counts.given;
        let ports = (0..SPAN).map(|more| self.first + (turn + more) % SPAN);
        let is_free = |port: &u16| UdpSocket::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
        let free: Vec<_> = ports.filter(is_free).collect();
        let port = free.first().copied().unwrap_or(0);
        given.counts.given += 1;
        given.counts.listened_at += SPAN - free.len() as u16;
        given.counts.given_again += u16::from(!given.ports.insert(port));
        port
    }

    pub(crate) fn counts(&self) -> Counts {
        self.given.lock().unwrap().counts
    }
}
