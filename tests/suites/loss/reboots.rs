//! A machine is started again under those who use its file of locks: who held one, or waited, is gone at once, and nobody else is.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock::embedded::{Engine, Fault, When};
use fairlock::{LockGuard, Participant, RecordWait};
use fairlock_testkit::lab::{Host, SECOND, acquire, cut_off};
use fairlock_testkit::sweeps::sweep_table;
use tokio::time::{Instant, sleep};

use super::stepped_clocks::{Machine, host_on, in_a_file, nobody_else_gets_it};

/// No lease ends by itself while a test asks whether somebody is gone.
const LEASE: Duration = Duration::from_secs(600);
/// From the crash of a machine to the first request after it.
const AWAY: Duration = Duration::from_secs(10);
/// What the wall clock shows after that: it was not kept, is right, or is ahead.
const WALLS: [i64; 3] = [-3600, 10, 300];

fn private(file: &Path, machine: &Machine) -> Engine {
    let engine = Engine::file(file).unwrap().with_clock(machine.clone());
    engine.private_to_machine()
}

fn process_on(engine: &Engine, machine: &Machine, seed: u64) -> Host {
    host_on(engine, machine, seed, |builder| {
        builder.lease_duration(LEASE).successor_slots(1)
    })
}

fn process(file: &Path, machine: &Machine, seed: u64) -> Host {
    process_on(&private(file, machine), machine, seed)
}

/// A lock with a holder, a successor, and a waiter behind it, who hold and wait until the machine crashes.
struct Queue {
    hosts: Vec<Host>,
    guard: LockGuard,
}

impl Queue {
    async fn at(file: &Path, machine: &Machine) -> Queue {
        let holder = process(file, machine, 1);
        holder.locks.create_table().await.unwrap();
        let guard = acquire(&holder).await;
        let mut queue = Queue {
            hosts: vec![holder],
            guard,
        };
        for seed in [2, 3] {
            queue.joins(process(file, machine, seed)).await;
        }
        queue
    }

    async fn joins(&mut self, host: Host) {
        let lock = host.lock();
        tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await });
        sleep(2 * SECOND).await;
        self.hosts.push(host);
    }

    /// One more draws a ticket, and its row never comes.
    async fn draws(&mut self, host: Host) {
        let is_dead = AtomicBool::new(false);
        host.script(move |request| {
            let is_lost = request.operation() == "PutItem" || is_dead.load(Ordering::SeqCst);
            is_dead.store(is_lost, Ordering::SeqCst);
            is_lost.then_some(Fault::Lose(When::Before))
        });
        self.joins(host).await;
    }

    fn crashes(&self) {
        let networks = self.hosts.iter().map(|host| &host.network);
        networks.for_each(|network| network.set_faults(cut_off()));
    }
}

fn rebooted(machine: &Machine, boot: &str, wall: i64) -> Machine {
    let mut machine = machine.restarted(boot, wall);
    machine.up = AWAY;
    machine
}

/// The holder and those who wait.
async fn shown(engine: &Engine, machine: &Machine) -> Vec<Participant> {
    let reader = process_on(engine, machine, 9).locks.fair_lock("a");
    let state = reader.unwrap().inspect().await.unwrap();
    state.holder.into_iter().chain(state.queue).collect()
}

#[test]
fn who_held_a_lock_or_waited_is_gone_at_once_after_a_reboot() {
    for wall in WALLS {
        for way in ["does not wait", "waits", "sweeps a lock", "sweeps a table"] {
            in_a_file(async |file, machine| {
                let mut queue = Queue::at(file, &machine).await;
                queue.draws(process(file, &machine, 4)).await;
                let alive = shown(&private(file, &machine), &machine).await;
                assert!(alive.iter().all(|one| one.lease_left > Some(LEASE / 2)));
                queue.crashes();
                let machine = rebooted(&machine, "second", wall);
                let reader = Engine::read_only(file).unwrap();
                let reader = reader.with_clock(machine.clone()).private_to_machine();
                for engine in [reader, private(file, &machine)] {
                    let gone = shown(&engine, &machine).await;
                    let left = gone.iter().map(|one| one.lease_left);
                    assert_eq!(left.collect::<Vec<_>>(), [Some(Duration::ZERO); 3]);
                }
                let asked = Instant::now();
                let caller = process(file, &machine, 5);
                let lock = caller.lock();
                match way {
                    "waits" => drop(acquire(&caller).await),
                    "sweeps a lock" => {
                        let swept = lock.sweep().await.unwrap();
                        // A successor is promoted before it is swept.
                        let counts = (swept.holders, swept.waiters, swept.gaps);
                        assert_eq!(counts, (2, 1, 1), "{swept}");
                    }
                    "sweeps a table" => {
                        let swept = sweep_table(&caller.locks).await.unwrap();
                        assert_eq!(swept.removed.holders, 2, "{swept}");
                    }
                    _ => assert!(lock.try_acquire().await.unwrap().is_some(), "{wall}"),
                }
                // Who waits gives the ticket without a row its join timeout: it may be of this boot.
                assert!(
                    asked.elapsed() < 10 * SECOND,
                    "{way}: {:?}",
                    asked.elapsed()
                );
            });
        }
    }
}

#[test]
fn a_lease_by_name_and_a_hold_that_was_given_back_last_on_after_a_reboot() {
    for is_by_name in [true, false] {
        in_a_file(async |file, machine| {
            let host = process(file, &machine, 1);
            host.locks.create_table().await.unwrap();
            if is_by_name {
                let lock = host.locks.lease_lock("a").unwrap();
                lock.acquire("one", LEASE).await.unwrap();
            } else {
                let lock = host.lock().min_hold(LEASE);
                let guard = lock.try_acquire().await.unwrap().unwrap();
                guard.release().await.unwrap();
            }
            host.network.set_faults(cut_off());
            let machine = rebooted(&machine, "second", 10);
            let caller = process(file, &machine, 2);
            nobody_else_gets_it(&caller, "at once").await;
            sleep(LEASE * 3 / 4).await;
            nobody_else_gets_it(&caller, "before its end").await;
            sleep(LEASE / 4 + 10 * SECOND).await;
            assert!(caller.try_acquire().await.is_some(), "{is_by_name}");
        });
    }
}

/// How it may look as if the machine was started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doubt {
    HiddenAfter,
    HiddenBefore,
    /// A container has an id of its own.
    AnotherIdInOneBoot,
    /// Who writes first after the boot may be on another machine.
    SharedAfter,
    /// Who comes then serves clients on other machines.
    SharedSince,
    /// Another engine on the file had such clients, two boots ago.
    SharedBefore,
}

impl Doubt {
    const ALL: [Doubt; 6] = [
        Doubt::HiddenAfter,
        Doubt::HiddenBefore,
        Doubt::AnotherIdInOneBoot,
        Doubt::SharedAfter,
        Doubt::SharedSince,
        Doubt::SharedBefore,
    ];

    fn before(self) -> Machine {
        let mut machine = Machine::new();
        if self == Doubt::HiddenBefore {
            machine.boot = Arc::from("");
        }
        machine
    }

    fn after(self, before: &Machine) -> Machine {
        let mut machine = rebooted(before, "second", 10);
        match self {
            Doubt::HiddenAfter => machine.boot = Arc::from(""),
            Doubt::AnotherIdInOneBoot => {
                machine = before.clone();
                machine.boot = Arc::from("another");
            }
            _ => {}
        }
        machine
    }

    /// The engines of two who ask one after the other.
    fn engines(self, file: &Path, machine: &Machine) -> [Engine; 2] {
        let shared = || Engine::file(file).unwrap().with_clock(machine.clone());
        let private = || private(file, machine);
        match self {
            Doubt::SharedAfter => [shared(), private()],
            Doubt::SharedSince => [shared(), shared()],
            _ => [private(), private()],
        }
    }
}

/// Asks for something, as the first of a boot or the first on another machine.
async fn comes(engine: Engine) {
    let listed = engine.client().list_tables().send().await;
    assert_eq!(listed.unwrap().table_names(), ["locks"]);
}

#[test]
fn the_lease_decides_where_it_is_not_certain_that_the_machine_was_started_again() {
    for doubt in Doubt::ALL {
        in_a_file(async |file, _| {
            let mut machine = doubt.before();
            let queue = Queue::at(file, &machine).await;
            if doubt == Doubt::SharedBefore {
                comes(Engine::file(file).unwrap().with_clock(machine.clone())).await;
                machine = rebooted(&machine, "between", 10);
                comes(private(file, &machine)).await;
                sleep(2 * AWAY).await;
                nobody_else_gets_it(&process(file, &machine, 4), "in between").await;
            }
            if doubt != Doubt::AnotherIdInOneBoot {
                queue.crashes();
            }
            let machine = doubt.after(&machine);
            if doubt == Doubt::SharedSince {
                comes(private(file, &machine)).await;
            }
            let callers = doubt.engines(file, &machine);
            for (caller, seed) in callers.iter().zip(5..) {
                let caller = process_on(caller, &machine, seed);
                nobody_else_gets_it(&caller, &format!("{doubt:?}")).await;
            }
            assert!(queue.guard.is_held());
            queue.crashes();
            sleep(LEASE + 60 * SECOND).await;
            let lock = process(file, &machine, 7).lock();
            assert!(lock.try_acquire().await.unwrap().is_some(), "{doubt:?}");
        });
    }
}

#[test]
fn who_holds_a_lock_since_a_reboot_keeps_it_until_the_next() {
    for wall in WALLS {
        in_a_file(async |file, _| {
            let first = Machine::new();
            let queue = Queue::at(file, &first).await;
            queue.crashes();
            let second = rebooted(&first, "second", wall);
            let [holder, caller] = [5, 6].map(|seed| process(file, &second, seed));
            let guard = acquire(&holder).await;
            nobody_else_gets_it(&caller, "at once").await;
            sleep(LEASE / 2).await;
            second.wall.step(-7200);
            nobody_else_gets_it(&caller, "later").await;
            nobody_else_gets_it(&process(file, &second, 7), "a new process").await;
            assert!(guard.is_held());
            holder.network.set_faults(cut_off());
            let third = rebooted(&second, "third", 10);
            let lock = process(file, &third, 8).lock();
            assert!(lock.try_acquire().await.unwrap().is_some(), "{wall}");
        });
    }
}
