//! Leases whose callers wait for their turn in the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fairlock::embedded::{Fault, When};
use fairlock::{Error, Lease, LeaseLock, RecordWait};
use futures::future::join;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{ALLOWED, MINUTE, in_processes, is_at_rest, is_refused, named, process};
use fairlock_testkit::assert_is;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, holder_told, in_lab, waits};

/// A call that waits in a task of its own.
type Waiting = JoinHandle<Result<Lease, Error>>;

const FOREVER: RecordWait = RecordWait::Infinite;

/// Waits for a lease in a task of its own, and returns when the call rests in its place.
async fn leases_in_turn(lab: &Lab, lock: LeaseLock, id: &'static str) -> Waiting {
    let waiting = async move { lock.acquire_in_turn(id, MINUTE, FOREVER).await };
    let waiting = tokio::spawn(waiting);
    lab.settle().await;
    waiting
}

/// The leases of two of the three permits of a semaphore.
fn pairs(host: &Host) -> LeaseLock {
    host.locks.semaphore("a", 3).unwrap().lease_lock(2).unwrap()
}

fn single(host: &Host) -> LeaseLock {
    host.locks.semaphore("a", 3).unwrap().lease_lock(1).unwrap()
}

async fn queue(host: &Host) -> usize {
    let lock = host.lock();
    lock.inspect().await.unwrap().queue.len()
}

#[test]
fn a_free_lock_is_leased_by_one_request_and_a_name_that_has_it_gets_its_lease() {
    in_processes(async |lab, [a, b]| {
        let before = a.network.counts().requests();
        let lease = named(&a).acquire_in_turn("one", MINUTE, FOREVER).await;
        let lease = lease.unwrap();
        assert_eq!(a.network.counts().requests() - before, 1);
        let again = named(&b).acquire_in_turn("one", MINUTE, FOREVER).await;
        assert_eq!(again.unwrap(), lease);
        named(&b).release(&lease).await.unwrap();
        assert!(is_at_rest(lab).await);
    });
}

#[test]
fn leases_and_guards_are_granted_in_the_order_in_which_they_were_asked_for() {
    in_processes(async |lab, [a, b, c, d]| {
        let held = acquire(&a).await;
        let first = leases_in_turn(lab, named(&b), "first").await;
        let guard = waits(lab, &c).await;
        let last = leases_in_turn(lab, named(&d), "last").await;
        assert!(is_refused(&named(&a).acquire("barges in", MINUTE).await));
        held.release().await.unwrap();
        let first = first.await.unwrap().unwrap();
        assert!(!guard.is_finished() && !last.is_finished());
        // No process renews it, and a minute later another one goes on with it.
        lab.wait(MINUTE / 2).await;
        let text = first.to_string();
        let first: Lease = text.parse().unwrap();
        let first = named(&a).extend(&first, 2 * MINUTE).await.unwrap();
        lab.wait(MINUTE + ALLOWED).await;
        assert!(!guard.is_finished(), "the lease was extended");
        named(&a).release(&first).await.unwrap();
        let guard = guard.await.unwrap();
        assert!(guard.ticket() > first.ticket() && !last.is_finished());
        guard.release().await.unwrap();
        let last = last.await.unwrap().unwrap();
        assert_eq!((last.id(), queue(&a).await), ("last", 0));
        named(&a).release(&last).await.unwrap();
        assert!(is_at_rest(lab).await);
    });
}

#[test]
fn a_lease_that_was_granted_in_turn_ends_by_itself() {
    in_processes(async |lab, [a, b]| {
        let held = acquire(&a).await;
        let lease = leases_in_turn(lab, named(&b), "one").await;
        held.release().await.unwrap();
        let lease = lease.await.unwrap().unwrap();
        let before = b.network.counts().requests();
        lab.wait(MINUTE - 2 * SECOND).await;
        assert!(is_refused(&named(&a).acquire("other", MINUTE).await));
        lab.wait(2 * SECOND + ALLOWED).await;
        assert_eq!(b.network.counts().requests(), before, "its client rests");
        let other = named(&a).acquire("other", MINUTE).await.unwrap();
        assert!(other.ticket() > lease.ticket());
        assert_is!(named(&b).release(&lease).await, Err(Error::Lost { .. }));
    });
}

#[test]
fn a_wait_that_times_out_leaves_nothing_and_no_wait_does_not_wait() {
    in_processes(async |lab, [a, b]| {
        let held = acquire(&a).await;
        for wait in [RecordWait::NoWait, RecordWait::Timeout(10 * SECOND)] {
            let refused = named(&b).acquire_in_turn("one", MINUTE, wait).await;
            let holder = holder_told(refused);
            assert_eq!(holder.ticket, held.ticket());
            lab.settle().await;
            assert_eq!(queue(&a).await, 0);
        }
        held.release().await.unwrap();
        assert_eq!(named(&a).find("one").await.unwrap(), None);
        assert!(is_at_rest(lab).await);
    });
}

#[test]
fn what_no_call_could_do_is_refused_at_once_and_nothing_is_sent() {
    in_processes(async |_, [host]| {
        let before = host.network.counts().requests();
        let zero = RecordWait::Timeout(std::time::Duration::ZERO);
        for (lock, id, span, wait) in [
            (named(&host), "one", MINUTE, zero),
            (named(&host), "", MINUTE, FOREVER),
            (named(&host), "one", SECOND / 2, FOREVER),
            (named(&host), "one", 1_000_000 * MINUTE, FOREVER),
            (named(&host).max_waiters(0), "one", MINUTE, FOREVER),
        ] {
            let refused = lock.acquire_in_turn(id, span, wait).await;
            assert_is!(refused, Err(Error::Invalid(_)));
        }
        let exports = host.locks.semaphore("a", 3).unwrap();
        for permits in [0, 4] {
            let refused = exports.lease_lock(permits).unwrap_err();
            assert!(is_invalid(&refused, "there are 1 to 3"), "{refused}");
        }
        assert_eq!(host.network.counts().requests(), before);
    });
}

#[test]
fn a_queue_that_is_too_long_is_left_alone() {
    in_processes(async |lab, [a, b, c]| {
        let held = acquire(&a).await;
        let waiting = leases_in_turn(lab, named(&b), "one").await;
        let short = named(&c).max_waiters(1);
        let refused = short.acquire_in_turn("other", MINUTE, FOREVER).await;
        assert_is!(refused, Err(Error::QueueFull { .. }));
        held.release().await.unwrap();
        let lease = waiting.await.unwrap().unwrap();
        named(&a).release(&lease).await.unwrap();
        assert!(is_at_rest(lab).await);
    });
}

#[test]
fn a_step_that_two_processes_wait_for_under_one_name_is_leased_once() {
    in_lab(async |lab, []| {
        for leases in [named, pairs] {
            let [a, b, c] = [process(lab).await, process(lab).await, process(lab).await];
            let held = match leases(&a).acquire("before", MINUTE).await {
                Ok(held) => held,
                Err(refused) => panic!("{refused}"),
            };
            let one = leases_in_turn(lab, leases(&b), "step").await;
            let other = leases_in_turn(lab, leases(&c), "step").await;
            assert_eq!(queue(&a).await, 2);
            leases(&a).release(&held).await.unwrap();
            let (one, other) = join(one, other).await;
            let lease = one.unwrap().unwrap();
            assert_eq!(other.unwrap().unwrap(), lease);
            lab.settle().await;
            assert_eq!(queue(&a).await, 0, "the second left the queue");
            leases(&a).release(&lease).await.unwrap();
            assert!(is_at_rest(lab).await);
            lab.delete_lock_item("a").await;
        }
    });
}

/// Both hold a permit at one moment, and turn their holds into leases of one name. To give one back in favour of the other would not be
/// safe: its owner may give that one back too.
#[test]
fn of_two_permits_for_one_name_each_is_a_lease() {
    in_processes(async |lab, [a, b, c]| {
        // Beside another holder a request for a permit is applied whatever names the others have.
        let beside = single(&c).acquire("beside", MINUTE).await.unwrap();
        let (one, other) = (single(&a), single(&b));
        assert_eq!(other.find("step").await.unwrap(), None);
        let gate = b.held("share", 1, When::Before);
        let (lease, late) = join(
            async {
                lab.settle().await;
                let lease = one.acquire("step", MINUTE).await.unwrap();
                gate.open();
                lease
            },
            other.acquire("step", MINUTE),
        )
        .await;
        let late = late.unwrap();
        assert_ne!(late.ticket(), lease.ticket());
        for lease in [lease, late, beside] {
            one.release(&lease).await.unwrap();
        }
        assert!(is_at_rest(lab).await);
    });
}

/// The sole reader of a free lock stands in the first slot, as a writer would.
#[test]
fn a_name_that_shares_the_lock_does_not_have_it_alone() {
    in_processes(async |lab, [a, b]| {
        for readers in [1, 2] {
            let mut reading = Vec::new();
            for reader in 0..readers {
                let id = ["wf", "beside"][reader];
                reading.push(named(&a).shared().acquire(id, MINUTE).await.unwrap());
            }
            assert!(is_refused(&named(&b).acquire("wf", MINUTE).await));
            let writes = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&writes);
            b.script(move |request| {
                let is_write = request.operation() == "UpdateItem";
                count.fetch_add(usize::from(is_write), Ordering::SeqCst);
                None
            });
            let writer = leases_in_turn(lab, named(&b), "wf").await;
            lab.wait(5 * SECOND).await;
            // It asks, is refused, takes a slot, and perhaps has its place dated.
            let writes = writes.load(Ordering::SeqCst);
            assert!(writes < 6, "{writes} writes in six seconds");
            assert!(!writer.is_finished());
            for lease in reading {
                named(&a).shared().release(&lease).await.unwrap();
            }
            let writer = writer.await.unwrap().unwrap();
            let reader = named(&a).shared();
            // Whoever has it alone may read it too.
            assert_eq!(reader.acquire("wf", MINUTE).await.unwrap(), writer);
            named(&a).release(&writer).await.unwrap();
            assert!(is_at_rest(lab).await);
        }
    });
}

#[test]
fn fewer_permits_of_a_name_are_not_as_many_as_are_asked_for() {
    in_processes(async |lab, [a, b]| {
        let one = single(&a).acquire("job", MINUTE).await.unwrap();
        let two = pairs(&b).acquire("job", MINUTE).await.unwrap();
        assert_ne!(one.ticket(), two.ticket());
        assert!(is_refused(&single(&a).acquire("more", MINUTE).await));
        pairs(&a).release(&two).await.unwrap();
        single(&b).release(&one).await.unwrap();
        assert!(is_at_rest(lab).await);
    });
}

#[test]
fn permits_are_leased_found_extended_and_given_back_by_other_processes() {
    in_processes(async |lab, [a, b, c]| {
        let two = pairs(&a).acquire("two", MINUTE).await.unwrap();
        let one = single(&b).acquire("one", MINUTE).await.unwrap();
        assert!(is_refused(&single(&c).acquire("more", MINUTE).await));
        let waiting = leases_in_turn(lab, pairs(&c), "more").await;
        assert_eq!(single(&c).find("one").await.unwrap(), Some(one.clone()));
        assert_eq!(pairs(&c).find("two").await.unwrap(), Some(two.clone()));
        lab.wait(MINUTE / 2).await;
        let carried: Lease = one.to_string().parse().unwrap();
        let longer = single(&c).extend(&carried, 3 * MINUTE).await.unwrap();
        assert!(longer.expires_at() > one.expires_at() && longer.ticket() == one.ticket());
        // The other lease ends, and its permits go to the next in the queue.
        lab.wait(MINUTE / 2 + ALLOWED).await;
        let more = waiting.await.unwrap().unwrap();
        assert!(matches!(
            pairs(&b).extend(&two, MINUTE).await,
            Err(Error::Lost { .. })
        ));
        single(&a).release(&longer).await.unwrap();
        pairs(&a).release(&more).await.unwrap();
        for lease in [longer, more] {
            assert_is!(single(&b).release(&lease).await, Err(Error::Lost { .. }));
        }
        assert!(is_at_rest(lab).await);
    });
}

#[test]
fn readers_lease_the_lock_together_and_a_writer_waits_for_all_of_them() {
    in_processes(async |lab, [a, b, c]| {
        let reading = |host: &Host| named(host).shared();
        let one = reading(&a).acquire("one", MINUTE).await.unwrap();
        let two = reading(&b).acquire("two", MINUTE).await.unwrap();
        let guard = a.lock().acquire_shared(RecordWait::NoWait).await.unwrap();
        let writer = leases_in_turn(lab, named(&c), "writer").await;
        reading(&c).release(&one).await.unwrap();
        guard.release().await.unwrap();
        lab.settle().await;
        assert!(!writer.is_finished(), "a reader is left");
        let late = leases_in_turn(lab, reading(&a), "late").await;
        reading(&c).release(&two).await.unwrap();
        let writer = writer.await.unwrap().unwrap();
        assert!(!late.is_finished(), "behind the writer");
        named(&a).release(&writer).await.unwrap();
        let late = late.await.unwrap().unwrap();
        reading(&b).release(&late).await.unwrap();
        assert!(is_at_rest(lab).await);
    });
}

#[test]
fn requests_that_go_astray_make_one_lease() {
    in_lab(async |lab, []| {
        for verb in ["enter", "share", "draw", "lease out"] {
            for when in [When::Before, When::After] {
                for leases in [named, pairs] {
                    let (a, b) = (process(lab).await, process(lab).await);
                    let held = leases(&a).acquire("before", MINUTE).await.unwrap();
                    b.meets(verb, 1, Fault::Lose(when));
                    let waiting = leases_in_turn(lab, leases(&b), "one").await;
                    leases(&a).release(&held).await.unwrap();
                    let lease = waiting.await.unwrap().unwrap();
                    let found = leases(&a).find("one").await.unwrap();
                    assert_eq!(found.as_ref(), Some(&lease), "{verb}, {when:?}");
                    leases(&a).release(&lease).await.unwrap();
                    assert!(is_at_rest(lab).await, "{verb}, {when:?}");
                    lab.delete_lock_item("a").await;
                }
            }
        }
    });
}

/// No request arrives that would make the hold a lease: then the hold ends with the client's own lease.
#[test]
fn a_hold_that_does_not_become_a_lease_ends_with_the_lease_of_its_client() {
    in_processes(async |lab, [a, b, c]| {
        let held = acquire(&a).await;
        let lost = Fault::Lose(When::Before);
        b.meets("lease out", usize::MAX, lost);
        let failing = leases_in_turn(lab, named(&b), "one").await;
        let next = waits(lab, &c).await;
        held.release().await.unwrap();
        assert_is!(failing.await.unwrap(), Err(Error::Unavailable { .. }));
        let next = next.await.unwrap();
        assert_eq!(named(&a).find("one").await.unwrap(), None);
        next.release().await.unwrap();
        assert!(is_at_rest(lab).await);
    });
}

/// A wait for a lease puts up with what a wait for a lock puts up with, also when its first request meets it.
#[test]
fn a_wait_goes_on_through_the_trouble_that_its_first_requests_meet() {
    let troubles = [
        Fault::Throttle,
        Fault::Refuse("AccessDeniedException"),
        Fault::Refuse("ExpiredTokenException"),
        Fault::ServerError(When::Before),
        Fault::Hang(When::Before),
    ];
    let locks: [fn(&Host) -> LeaseLock; 2] = [named, pairs];
    for (fault, lock) in troubles
        .iter()
        .flat_map(|fault| locks.map(|lock| (fault, lock)))
    {
        in_processes(async |_, [host]| {
            let (since, wait) = (Instant::now(), RecordWait::Timeout(MINUTE));
            let (met, until) = (fault.clone(), 12 * SECOND);
            host.script(move |_| (since.elapsed() < until).then(|| met.clone()));
            let at_once = lock(&host).acquire("one", MINUTE).await;
            assert!(at_once.is_err() && since.elapsed() <= 10 * SECOND);
            let lease = lock(&host).acquire_in_turn("one", MINUTE, wait).await;
            assert!(lease.is_ok(), "{fault:?}: {lease:?}");
            assert!(since.elapsed() < 20 * SECOND, "{:?}", since.elapsed());
        });
    }
}

#[test]
fn a_wait_ends_at_once_by_what_no_waiter_puts_up_with() {
    in_processes(async |_, [host]| {
        let missing = Fault::Refuse("ResourceNotFoundException");
        host.script(move |_| Some(missing.clone()));
        let began = Instant::now();
        let refused = named(&host).acquire_in_turn("one", MINUTE, FOREVER).await;
        assert_is!(refused, Err(Error::Refused { .. }));
        assert!(began.elapsed() < SECOND);
    });
}

/// The process that has a lease is not the one that makes DynamoDB busy.
#[test]
fn a_lease_is_extended_and_released_though_dynamodb_is_busy_for_seconds() {
    in_processes(async |lab, [host]| {
        let lease = named(&host).acquire("one", MINUTE).await.unwrap();
        let busy = || {
            let since = Instant::now();
            host.script(move |_| (since.elapsed() < 3 * SECOND).then_some(Fault::Throttle));
        };
        busy();
        let longer = named(&host).extend(&lease, 2 * MINUTE).await.unwrap();
        assert!(longer.expires_at() > lease.expires_at());
        busy();
        named(&host).release(&longer).await.unwrap();
        assert!(is_at_rest(lab).await);
        // Not for ever: a call has its time.
        host.script(|_| Some(Fault::Throttle));
        let began = Instant::now();
        let busy = named(&host).find("one").await.unwrap_err();
        assert!(busy.to_string().contains("Throughput"), "{busy}");
        assert!(began.elapsed() <= 10 * SECOND, "{:?}", began.elapsed());
    });
}
