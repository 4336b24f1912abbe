//! Four callers, a sweeper and an observer use one lock while another program writes into its table; and the way out.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlock::{Error, HeldLocks, LockClient, LockGuard, RecordWait};
use futures::StreamExt;
use tokio::time::{Instant, sleep};

use fairlock_testkit::lab::{EPOCH, Host, Lab, SECOND, acquire};
use fairlock_testkit::panics::panics;
use fairlock_testkit::tamper::{Blow, Table, delete_all, names_the_item};

/// How long the siege lasts.
const SIEGE: Duration = Duration::from_secs(12);
const TIMEOUT: Duration = Duration::from_secs(5);
/// The permits of a fair lock.
const ALL: u64 = 64;
/// Short enough that a hold is renewed.
const LEASE: Duration = Duration::from_secs(6);
/// A call takes at most its `TIMEOUT` and this.
const AND_SOME: Duration = Duration::from_secs(12);
/// The mean number of requests of one client in a second. The next waiter in the queue polls up to fifty times, and gaps are closed one by
/// one.
const BUSY: u64 = 1_000;

#[derive(Default)]
struct Seen {
    guards: Vec<Arc<LockGuard>>,
    grants: Vec<Grant>,
    /// Moments at which the believing holders held more permits than there are.
    overlaps: Vec<Instant>,
    /// The blows that met something.
    struck: Vec<(Instant, Blow)>,
    faults: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    at: Instant,
    ticket: u64,
    is_alone: bool,
}

type Shared = Arc<Mutex<Seen>>;

/// Whether a blow may come when there is nothing for it to meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misses {
    AreFaults,
    AreFine,
}

/// What the first two of the callers want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crew {
    /// The lock exclusively, as the others do.
    Alone,
    /// To share the lock, which carries data.
    Sharing,
}

/// Plays everything, and returns what was wrong.
pub(crate) async fn play(
    crew: Crew,
    blows: Vec<(Duration, Blow)>,
    misses: Misses,
) -> Result<(), String> {
    let lab = Lab::new().await;
    if crew == Crew::Sharing {
        let guard = acquire(&lab.host()).await;
        guard.set_data("data").await.unwrap();
        guard.release().await.unwrap();
    }
    let hosts: Vec<_> = (0..5)
        .map(|_| {
            lab.host_with(|builder| {
                builder
                    .successor_slots(1)
                    .lease_duration(LEASE)
                    .testing(|it| it.poll_interval = Some((SECOND / 10, SECOND)))
            })
        })
        .collect();
    hosts.iter().for_each(bounded);
    let (seen, started) = (Shared::default(), Instant::now());
    let ends = started + SIEGE;
    let mut tasks: Vec<_> = hosts[..4]
        .iter()
        .enumerate()
        .map(|(number, host)| {
            let shares = crew == Crew::Sharing && number < 2;
            let locks = host.locks.clone();
            tokio::spawn(calls(locks, (number, shares), ends, seen.clone()))
        })
        .collect();
    tasks.push(tokio::spawn(inspects(
        hosts[4].locks.clone(),
        ends,
        seen.clone(),
    )));
    tasks.push(tokio::spawn(watches(ends, seen.clone())));
    for (at, blow) in &blows {
        tokio::time::sleep_until(started + *at).await;
        let now = Instant::now();
        let struck = blow.strike(&table(&lab)).await;
        if struck {
            seen.lock().unwrap().struck.push((now, blow.clone()));
        } else if misses == Misses::AreFaults {
            return Err("met nothing".into());
        }
    }
    for task in tasks {
        let ended = tokio::time::timeout(SIEGE + 2 * (TIMEOUT + AND_SOME), task).await;
        ended
            .map_err(|_| "a call never ended")?
            .map_err(|error| error.to_string())?;
    }
    judge(&seen)?;
    way_out(&lab, hosts, started, &seen).await?;
    match panics() {
        0 => Ok(()),
        panics => Err(format!("{panics} panics")),
    }
}

pub(crate) fn table(lab: &Lab) -> Table {
    Table {
        client: lab.engine.client(),
        name: "locks".into(),
    }
}

/// A client that sends without end, perhaps without any virtual time passing, panics here. That counts as a failure, and ends it.
#[expect(clippy::panic, reason = "nothing else ends it")]
fn bounded(host: &Host) {
    let (sent, most) = (AtomicU64::new(0), BUSY * (SIEGE + TIMEOUT).as_secs());
    let _ = host.network.clone().script(move |_| {
        if sent.fetch_add(1, Ordering::Relaxed) > most {
            panic!("more than {most} requests of one client");
        }
        None
    });
}

/// Takes turns. Some calls wait, and one does not.
async fn calls(locks: LockClient, (number, shares): (usize, bool), ends: Instant, seen: Shared) {
    let lock = locks.fair_lock("a").unwrap();
    let wait = if number == 3 {
        RecordWait::NoWait
    } else {
        RecordWait::Timeout(TIMEOUT)
    };
    while Instant::now() < ends {
        let started = Instant::now();
        let called = match shares {
            true => lock.acquire_shared(wait).await,
            false => lock.acquire(wait).await,
        };
        if started.elapsed() > TIMEOUT + AND_SOME {
            note(&seen, format!("a call took {:?}", started.elapsed()));
        }
        match called {
            Ok(guard) => hold(guard, &seen).await,
            Err(error) => {
                check(&seen, &error);
                sleep(SECOND).await;
            }
        }
    }
}

async fn hold(guard: LockGuard, seen: &Shared) {
    let guard = Arc::new(guard);
    {
        let mut seen = seen.lock().unwrap();
        seen.grants.push(Grant {
            at: Instant::now(),
            ticket: guard.ticket().get(),
            is_alone: guard.permits() == ALL,
        });
        seen.guards.push(guard.clone());
        seen.count();
    }
    tokio::select! {
        biased;
        _ = guard.lost() => {}
        () = sleep(3 * SECOND) => {}
    }
    seen.lock()
        .unwrap()
        .guards
        .retain(|other| !Arc::ptr_eq(other, &guard));
    if let Err(error) = Arc::try_unwrap(guard).unwrap().release().await {
        check(seen, &error);
    }
}

impl Seen {
    fn count(&mut self) {
        let believe = self.guards.iter().filter(|guard| guard.is_held());
        let taken: u64 = believe.map(|guard| guard.permits()).sum();
        if taken > ALL {
            self.overlaps.push(Instant::now());
        }
    }

    /// Whether the moment came before any blow that could have caused it.
    fn is_before(&self, moment: Instant, causes: impl Fn(&Blow) -> bool) -> bool {
        let mut causes = self.struck.iter().filter(|(_, blow)| causes(blow));
        causes.next().is_none_or(|(at, _)| moment < *at)
    }

    fn newest(&self) -> u64 {
        let tickets = self.grants.iter().map(|grant| grant.ticket);
        tickets.max().unwrap_or(0)
    }
}

/// Watches how many holders believe in their holds.
async fn watches(ends: Instant, seen: Shared) {
    while Instant::now() < ends {
        seen.lock().unwrap().count();
        sleep(SECOND / 10).await;
    }
}

/// Inspects and sweeps.
async fn inspects(locks: LockClient, ends: Instant, seen: Shared) {
    let lock = locks.fair_lock("a").unwrap();
    while Instant::now() < ends {
        let errors = [lock.inspect().await.err(), lock.sweep().await.err()];
        errors
            .iter()
            .flatten()
            .for_each(|error| check(&seen, error));
        let mut listing = Box::pin(locks.locks());
        while let Some(state) = listing.next().await {
            state.err().iter().for_each(|error| check(&seen, error));
        }
        sleep(3 * SECOND).await;
    }
}

fn note(seen: &Shared, fault: String) {
    seen.lock().unwrap().faults.push(fault);
}

/// Checks that an error says what to do: which item is damaged, who holds the lock, or that it was lost.
fn check(seen: &Shared, error: &Error) {
    let names_it = match error {
        Error::NotGranted { .. } | Error::Lost { .. } => true,
        error => names_the_item(error),
    };
    if !names_it {
        note(seen, format!("an error that helps nobody: {error}"));
    }
}

fn judge(seen: &Shared) -> Result<(), String> {
    let seen = seen.lock().unwrap();
    if let Some(fault) = seen.faults.first() {
        return Err(fault.clone());
    }
    let overlaps = seen.overlaps.iter();
    let overlaps = overlaps.filter(|at| seen.is_before(**at, Blow::takes_the_lock));
    let overlaps = overlaps.count();
    if overlaps > 0 {
        return Err(format!("{overlaps} moments with too many who believe"));
    }
    let grants = seen.grants.iter();
    let grants = grants.filter(|grant| seen.is_before(grant.at, Blow::moves_tickets));
    let grants: Vec<_> = grants.copied().collect();
    match are_in_order(&grants) {
        true => Ok(()),
        false => Err(format!("tickets out of order: {grants:?}")),
    }
}

/// Sharers may be in any order among themselves, between exclusive holders.
fn are_in_order(grants: &[Grant]) -> bool {
    grants.iter().enumerate().all(|(index, grant)| {
        let before = grants[..index].iter();
        let mut older = before.filter(|before| before.is_alone || grant.is_alone);
        older.all(|before| before.ticket < grant.ticket)
    })
}

/// As docs/repair.md says: stop the callers, delete the items, start the callers.
async fn way_out(
    lab: &Lab,
    hosts: Vec<Host>,
    started: Instant,
    seen: &Shared,
) -> Result<(), String> {
    for host in &hosts {
        host.locks.shutdown(HeldLocks::Release, 5 * SECOND).await;
    }
    drop(hosts);
    sleep(2 * SECOND).await;
    delete_all(&table(lab)).await;
    // If the counter was set ahead of this, deleting the item cannot make up for it.
    let clock = (EPOCH + started.elapsed()).as_micros() as u64;
    let fresh = lab.host();
    let guard = fresh.lock().try_acquire().await;
    let guard = guard.map_err(|error| format!("no way out: {error}"))?;
    let ticket = guard.ok_or("no way out: not granted")?.ticket().get();
    let newest = seen.lock().unwrap().newest();
    match ticket > newest || newest > clock {
        true => Ok(()),
        false => Err(format!("ticket {ticket} after {newest}")),
    }
}
