//! Wall clocks that are set while clients live: of the machine that has the file, of hosts, and of a front end.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use fairlock::embedded::{BootTime, Engine, Fault, Network, WallClock};
use fairlock::{Clock, LockClient, LockClientBuilder, RecordWait};
use fairlock_testkit::lab::{EPOCH, Host, Lab, SECOND, acquire, cut_off, in_lab, waits};
use fairlock_testkit::sweeps::sweep_table;
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

/// Forwards and back, by more than a lease and by more than front ends may differ, and to where the clock was.
const STEPS: [i64; 6] = [120, -240, 120, -86_400, 2 * 86_400, -86_400];

/// The clocks of a machine. Nothing sets the time since its boot.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) wall: Clock,
    booted: Instant,
    pub(crate) boot: Arc<str>,
    /// For how long the machine was up when the test began.
    pub(crate) up: Duration,
}

impl Machine {
    pub(crate) fn new() -> Self {
        Machine {
            wall: Clock::of_tokio(EPOCH),
            booted: Instant::now(),
            boot: Arc::from("first"),
            up: 100 * SECOND,
        }
    }

    /// Starts again, with a wall clock that is this many seconds off.
    pub(crate) fn restarted(&self, boot: &str, off: i64) -> Self {
        let wall = self.wall.clone().ahead(Duration::ZERO);
        wall.step(off);
        Machine {
            wall,
            booted: Instant::now(),
            boot: Arc::from(boot),
            up: SECOND,
        }
    }
}

impl WallClock for Machine {
    fn unix(&self) -> Duration {
        WallClock::unix(&self.wall)
    }

    fn boot_time(&self) -> Option<BootTime> {
        let elapsed = self.up + self.booted.elapsed();
        let boot = Arc::clone(&self.boot);
        Some(BootTime { boot, elapsed })
    }
}

fn engine(file: &Path, machine: &Machine) -> Engine {
    Engine::file(file).unwrap().with_clock(machine.clone())
}

/// By how many seconds an answer is dated after the beginning of the test.
async fn date(client: &Client) -> i64 {
    let missing = client.delete_table().table_name("missing").send().await;
    let refused = missing.unwrap_err();
    let date = refused.raw_response().unwrap().headers().get("date");
    let date = DateTime::from_str(date.unwrap(), Format::HttpDate).unwrap();
    date.secs() - EPOCH.as_secs().cast_signed()
}

pub(crate) fn in_a_file(play: impl AsyncFnOnce(&Path, Machine)) {
    let home = tempfile::tempdir().unwrap();
    virtual_time(async { play(&home.path().join("locks.db"), Machine::new()).await });
}

#[test]
fn a_file_tells_one_time_however_its_machines_wall_clock_is_set() {
    in_a_file(async |file, machine| {
        let first = engine(file, &machine).client();
        assert_eq!(date(&first).await, 0);
        for step in STEPS {
            machine.wall.step(step);
            let other = engine(file, &machine).client();
            assert_eq!((date(&first).await, date(&other).await), (0, 0), "{step}");
        }
        tokio::time::advance(90 * SECOND).await;
        machine.wall.step(3600);
        let other = engine(file, &machine).client();
        assert_eq!((date(&first).await, date(&other).await), (90, 90));
        let reader = Engine::read_only(file).unwrap().with_clock(machine.clone());
        let listed = Network::to(&reader).client().list_tables().send().await;
        assert!(
            listed.unwrap().table_names().is_empty(),
            "its own are hidden"
        );
    });
}

#[test]
fn after_a_boot_a_file_follows_the_wall_clock_and_never_goes_back() {
    for (boot, off, told) in [
        ("second", 300, 390),
        ("second", 0, 90),
        ("second", -3600, 90),
        // The system does not tell which boot it is, and the machine was up for longer.
        ("", -3600, 90),
        ("", 300, 390),
    ] {
        in_a_file(async |file, machine| {
            let first = engine(file, &machine).client();
            assert_eq!(date(&first).await, 0);
            tokio::time::advance(90 * SECOND).await;
            let writer = host(file, &machine, 1);
            writer.locks.create_table().await.unwrap();
            assert_eq!(date(&first).await, 90);
            let machine = machine.restarted(boot, off);
            let next = engine(file, &machine).client();
            assert_eq!(date(&next).await, told, "{boot} {off}");
            machine.wall.step(7200);
            tokio::time::advance(10 * SECOND).await;
            assert_eq!(date(&next).await, told + 10, "{boot} {off}");
        });
    }
}

/// Some containers hide the id of the boot. Nobody takes that for another boot.
#[test]
fn who_does_not_know_the_boot_tells_the_time_of_those_who_do() {
    in_a_file(async |file, machine| {
        let knows = engine(file, &machine).client();
        assert_eq!(date(&knows).await, 0);
        machine.wall.step(120);
        let hidden = Machine {
            boot: Arc::from(""),
            ..machine.clone()
        };
        let other = engine(file, &hidden).client();
        assert_eq!((date(&other).await, date(&knows).await), (0, 0));
    });
}

/// A client of a file on this machine.
fn host(file: &Path, machine: &Machine, seed: u64) -> Host {
    host_on(&engine(file, machine), machine, seed, |builder| {
        builder.lease_duration(20 * SECOND)
    })
}

pub(crate) fn host_on(
    engine: &Engine,
    machine: &Machine,
    seed: u64,
    set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
) -> Host {
    let network = Network::to(engine).seeded(seed);
    let builder = LockClient::builder(network.client()).table("locks");
    let builder = builder.clock(machine.wall.clone());
    let builder = builder.seeded(seed);
    let locks = set(builder).build().unwrap();
    Host { locks, network }
}

pub(crate) async fn nobody_else_gets_it(caller: &Host, why: &str) {
    let lock = caller.lock();
    assert!(lock.try_acquire().await.unwrap().is_none(), "{why}");
    let waits = RecordWait::Timeout(3 * SECOND);
    assert!(lock.acquire(waits).await.is_err(), "{why}");
    lock.sweep().await.unwrap();
    sweep_table(&caller.locks).await.unwrap();
}

#[test]
fn a_holder_in_a_file_keeps_its_lock_however_the_wall_clock_is_set() {
    in_a_file(async |file, machine| {
        let [holder, caller] = [1, 2].map(|seed| host(file, &machine, seed));
        holder.locks.create_table().await.unwrap();
        let guard = acquire(&holder).await;
        for step in STEPS {
            machine.wall.step(step);
            let why = format!("a step of {step} s");
            nobody_else_gets_it(&caller, &why).await;
            let late = host(file, &machine, 3);
            nobody_else_gets_it(&late, &why).await;
            assert!(guard.is_held(), "{why}");
        }
        holder.network.set_faults(cut_off());
        tokio::time::advance(35 * SECOND).await;
        assert!(caller.try_acquire().await.is_some());
    });
}

#[test]
fn a_holder_keeps_its_lock_however_the_wall_clocks_of_hosts_are_set() {
    in_lab(async |lab, []| {
        let clocks = [(); 3].map(|()| lab.clock.clone().ahead(Duration::ZERO));
        let [holder, waiter, caller] = clocks
            .each_ref()
            .map(|clock| lab.host_with(|builder| builder.clock(clock.clone())));
        let guard = acquire(&holder).await;
        let waiting = waits(lab, &waiter).await;
        for clock in &clocks {
            for step in STEPS {
                clock.step(step);
                lab.wait(11 * SECOND).await;
                let lock = caller.lock();
                assert!(lock.try_acquire().await.unwrap().is_none(), "{step}");
                lock.sweep().await.unwrap();
                assert!(guard.is_held() && !waiting.is_finished(), "{step}");
            }
        }
        guard.release().await.unwrap();
        assert!(waiting.await.unwrap().is_held());
    });
}

/// All front ends are wrong by as much, and step, while holders, callers and sweepers live; the hosts' clocks are right.
#[test]
fn a_holder_keeps_its_lock_though_all_front_ends_step() {
    virtual_time(async {
        for first in STEPS {
            let lab = Lab::new().await;
            let ahead = Arc::new(AtomicI64::new(first));
            let wrong = |host: Host| {
                let told = Arc::clone(&ahead);
                host.script(move |_| Some(Fault::Skew(told.load(Ordering::Relaxed))));
                host
            };
            let [holder, waiter, caller] = &[(); 3].map(|()| wrong(lab.host()));
            let guard = acquire(holder).await;
            let waiting = waits(&lab, waiter).await;
            for step in STEPS {
                ahead.fetch_add(step, Ordering::Relaxed);
                for _ in 0..4 {
                    lab.wait(3 * SECOND).await;
                    // The second has just started, and knows no other time.
                    for asks in [caller, &wrong(lab.host())] {
                        let got = asks.try_acquire().await;
                        assert!(got.is_none(), "{first} {step}");
                    }
                    caller.lock().sweep().await.unwrap();
                    assert!(guard.is_held() && !waiting.is_finished(), "{first} {step}");
                }
            }
            guard.release().await.unwrap();
            assert!(waiting.await.unwrap().is_held());
        }
    });
}
