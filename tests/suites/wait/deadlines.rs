//! Each public call returns within the time that its page gives, whatever becomes of its requests.

use std::time::Duration;

use fairlock::embedded::{Fault, Faults, When};
use fairlock::{Error, FairLock, HeldLocks, Lease, LockGuard, Participant, RecordWait};
use fairlock_testkit::lab::{Host, Lab, SECOND, away, silent};
use fairlock_testkit::virtual_time;
use tokio::time::Instant;

/// The default request time-out, and what timers round up to.
const REQUEST: Duration = Duration::from_secs(2);
const TICK: Duration = Duration::from_millis(100);
/// The default lease.
const LEASE: Duration = Duration::from_secs(30);
/// A call that does not wait.
const AT_ONCE: Duration = Duration::from_secs(10);
const SPAN: Duration = SECOND;
const WAIT: RecordWait = RecordWait::Timeout(SPAN);
/// A call that waits.
const IN_TURN: Duration = Duration::from_secs(3);
const HOUR: Duration = Duration::from_secs(3_600);

/// Four attempts at each of so many requests, and the pauses between them.
const fn of_requests(count: u64) -> Duration {
    Duration::from_secs(9 * count)
}

/// What an endpoint does to a client.
const WEATHERS: [&str; 6] = [
    "silent",
    "slow",
    "refusing",
    "closing",
    "half dead",
    "mostly dead",
];

fn turns(host: &Host, weather: &str) {
    let every = |of: u64| {
        host.script(move |request| {
            (request.number() % of != 0).then_some(Fault::Hang(When::Before))
        });
    };
    match weather {
        "slow" => host.network.set_faults(away(SECOND * 19 / 10)),
        "refusing" => {
            host.script(|_| Some(Fault::Refuse("AccessDeniedException")));
        }
        "closing" => host.network.set_faults(Faults {
            closes_after: 1.0,
            ..Faults::default()
        }),
        "half dead" => every(2),
        "mostly dead" => every(4),
        _ => host.network.set_faults(silent()),
    }
}

/// A client that knows the time, and locks that it and others hold.
struct Scene {
    lab: Lab,
    host: Host,
    own: LockGuard,
    lease: Lease,
    seen: Participant,
    /// What the others hold.
    _held: (Host, [LockGuard; 2]),
}

fn fair(host: &Host, name: &str) -> FairLock {
    host.locks.fair_lock(name).unwrap()
}

async fn scene() -> Scene {
    let lab = Lab::new().await;
    let (host, other) = (lab.host(), lab.host());
    let own = fair(&host, "own").acquire(WAIT).await.unwrap();
    let a = fair(&other, "a").acquire(WAIT).await.unwrap();
    let b = fair(&other, "b").acquire(WAIT).await.unwrap();
    let leases = other.locks.lease_lock("l").unwrap();
    let lease = leases.acquire("one", HOUR).await.unwrap();
    let permits = other.locks.semaphore("s", 3).unwrap().lease_lock(2);
    permits.unwrap().acquire("one", HOUR).await.unwrap();
    let idle = fair(&other, "idle").acquire(WAIT).await.unwrap();
    idle.release().await.unwrap();
    // An idle lock is deleted when its ticket is a minute old.
    lab.wait(90 * SECOND).await;
    let seen = fair(&host, "b").inspect().await.unwrap().holder.unwrap();
    Scene {
        lab,
        host,
        own,
        lease,
        seen,
        _held: (other, [a, b]),
    }
}

/// Each call, and how long it may take.
const CALLS: [(&str, Duration); 32] = [
    ("acquire", IN_TURN),
    ("acquire shared", IN_TURN),
    ("acquire a free lock", IN_TURN),
    ("acquire permits", IN_TURN),
    ("acquire several", IN_TURN),
    ("try", AT_ONCE),
    ("try shared", AT_ONCE),
    ("try permits", AT_ONCE),
    (
        "try several",
        AT_ONCE.saturating_add(AT_ONCE).saturating_add(REQUEST),
    ),
    ("lease", AT_ONCE),
    ("lease that there is", AT_ONCE),
    ("lease of permits that there is", AT_ONCE),
    (
        "lease of permits",
        AT_ONCE.saturating_add(AT_ONCE).saturating_add(LEASE),
    ),
    ("lease in turn", IN_TURN),
    ("lease of permits in turn", IN_TURN),
    ("find", AT_ONCE),
    ("extend", AT_ONCE),
    ("release a lease", AT_ONCE),
    ("turn into a lease", AT_ONCE.saturating_add(LEASE)),
    ("release", LEASE.saturating_add(REQUEST)),
    ("set data", LEASE.saturating_add(REQUEST)),
    ("downgrade", LEASE.saturating_add(REQUEST)),
    ("shut down", IN_TURN),
    ("inspect", of_requests(1)),
    ("ask", of_requests(2)),
    ("break", of_requests(2)),
    ("give up", of_requests(4)),
    ("resize", of_requests(2)),
    ("delete", of_requests(6)),
    ("sweep", of_requests(4)),
    ("check the table", of_requests(6)),
    ("create the table", Duration::from_secs(302)),
];

async fn told<T>(call: impl Future<Output = Result<T, Error>>) -> String {
    let done = call.await;
    done.map_or_else(|error| error.to_string(), |_| "done".to_owned())
}

async fn wait_for(call: &str, host: &Host) -> Option<String> {
    let (a, permits) = (fair(host, "a"), host.locks.semaphore("s", 3).unwrap());
    let several = host.locks.multi_lock(["a", "own"]).unwrap();
    Some(match call {
        "acquire" => told(a.acquire(WAIT)).await,
        "acquire shared" => told(a.acquire_shared(WAIT)).await,
        "acquire a free lock" => told(fair(host, "idle").acquire(WAIT)).await,
        "acquire permits" => told(permits.acquire_many(2, WAIT)).await,
        "acquire several" => told(several.acquire(WAIT)).await,
        "try" => told(a.try_acquire()).await,
        "try shared" => told(a.try_acquire_shared()).await,
        "try permits" => told(permits.try_acquire_many(2)).await,
        "try several" => told(several.try_acquire()).await,
        _ => return None,
    })
}

async fn lease(call: &str, host: &Host, lease: &Lease) -> Option<String> {
    let leases = |name: &str| host.locks.lease_lock(name).unwrap();
    let permits = host.locks.semaphore("s", 3).unwrap().lease_lock(2).unwrap();
    Some(match call {
        "lease" => told(leases("a").acquire("two", HOUR)).await,
        "lease that there is" => told(leases("l").acquire("one", HOUR)).await,
        "lease of permits that there is" => told(permits.acquire("one", HOUR)).await,
        "lease of permits" => told(permits.acquire("two", HOUR)).await,
        "lease in turn" => told(leases("a").acquire_in_turn("two", HOUR, WAIT)).await,
        "lease of permits in turn" => told(permits.acquire_in_turn("two", HOUR, WAIT)).await,
        "find" => told(leases("l").find("one")).await,
        "extend" => told(leases("l").extend(lease, 2 * HOUR)).await,
        "release a lease" => told(leases("l").release(lease)).await,
        _ => return None,
    })
}

async fn hold(call: &str, host: &Host, mut own: LockGuard) -> String {
    match call {
        "turn into a lease" => told(own.into_lease("own", HOUR)).await,
        "release" => told(own.release()).await,
        "set data" => told(own.set_data("x")).await,
        "downgrade" => told(own.downgrade()).await,
        _ => {
            let report = host.locks.shutdown(HeldLocks::Release, SPAN).await;
            format!("{} unfinished", report.unfinished.len())
        }
    }
}

async fn administer(
    call: &str,
    host: &Host,
    seen: &Participant,
    own: &LockGuard,
) -> Option<String> {
    let locks = &host.locks;
    Some(match call {
        "inspect" => told(fair(host, "a").inspect()).await,
        "ask" => told(locks.ask_to_yield("a", "please")).await,
        "break" => told(locks.break_hold("b", seen, "away")).await,
        "give up" => told(locks.give_up(&own.place_id(), Duration::ZERO)).await,
        "resize" => told(locks.resize("s", 4)).await,
        "delete" => told(locks.delete_lock("idle")).await,
        "sweep" => told(fair(host, "idle").sweep()).await,
        "check the table" => told(locks.check_table()).await,
        "create the table" => told(locks.create_table()).await,
        _ => return None,
    })
}

/// Makes a call in a weather. Returns how long it took, and what it returned.
async fn takes(call: &str, weather: &str) -> (Duration, String) {
    let it = scene().await;
    turns(&it.host, weather);
    let began = Instant::now();
    let mut ended = wait_for(call, &it.host).await;
    if ended.is_none() {
        ended = lease(call, &it.host, &it.lease).await;
    }
    if ended.is_none() {
        ended = administer(call, &it.host, &it.seen, &it.own).await;
    }
    let ended = match ended {
        Some(ended) => ended,
        None => hold(call, &it.host, it.own).await,
    };
    let took = began.elapsed();
    drop(it.lab);
    (took, ended)
}

#[test]
fn each_call_returns_within_its_time_whatever_the_endpoint_does() {
    let mut late = Vec::new();
    for weather in WEATHERS {
        for (call, most) in CALLS {
            let (took, ended) = virtual_time(takes(call, weather));
            if took > most + TICK {
                late.push((weather, call, took, most, ended));
            }
        }
    }
    assert!(late.is_empty(), "{late:#?}");
}
