//! Locks that are held for a time by a name, across processes that come and go.

mod dates;
mod guards;
mod in_turn;
mod late;

use std::time::Duration;

use fairlock::embedded::{Fault, When};
use fairlock::{Error, Lease, LeaseLock, LossReason};
use fairlock_testkit::assert_is;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, in_lab, loss};

const MINUTE: Duration = Duration::from_secs(60);
/// The allowance, and the grain of dates.
const ALLOWED: Duration = Duration::from_secs(5 + 2);

fn named(host: &Host) -> LeaseLock {
    host.locks.lease_lock("a").unwrap()
}

/// A process that knows the time, as each does after its first answer.
async fn process(lab: &Lab) -> Host {
    let host = lab.host();
    let _ = host
        .locks
        .fair_lock("what time is it?")
        .unwrap()
        .sweep()
        .await;
    host
}

/// Runs a test in a laboratory with as many processes that know the time as it names.
fn in_processes<const N: usize>(test: impl AsyncFnOnce(&Lab, [Host; N])) {
    in_lab(async |lab, []| {
        let processes = futures::future::join_all([(); N].map(|()| process(lab))).await;
        test(lab, processes.try_into().ok().unwrap()).await;
    });
}

/// Whether nothing is left of any place: one item, which no participant has or waits for. Unlike `Lab::is_free`, whatever its permits.
async fn is_at_rest(lab: &Lab) -> bool {
    lab.settle().await;
    let lock = lab.host().lock();
    let state = lock.inspect().await.unwrap();
    let is_idle = state.holder.is_none() && state.sharers.is_empty() && state.queue.is_empty();
    is_idle && lab.items("a").await == ["fairlock/#lock"]
}

fn is_refused(refused: &Result<Lease, Error>) -> bool {
    matches!(refused, Err(Error::NotGranted { .. }))
}

#[test]
fn a_lock_can_be_acquired_if_none_exists() {
    in_processes(async |lab, [host]| {
        let before = host.network.counts().requests();
        let lease = named(&host).acquire("one", MINUTE).await.unwrap();
        assert_eq!(host.network.counts().requests() - before, 1);
        assert_eq!((lease.lock(), lease.id()), ("a", "one"));
        let state = host.inspect().await;
        let holder = state.holder.unwrap();
        assert_eq!(holder.ticket, lease.ticket());
        assert_eq!(holder.lease_id.as_deref(), Some(lease.id()));
        lab.wait(10 * MINUTE).await;
        assert_eq!(
            host.network.counts().requests() - before,
            2,
            "nothing runs behind"
        );
    });
}

#[test]
fn the_same_name_again_is_recognised_also_by_another_process_and_lasts_no_longer() {
    in_processes(async |lab, [a, b]| {
        let lease = named(&a).acquire("one", MINUTE).await.unwrap();
        lab.wait(MINUTE / 2).await;
        assert_eq!(named(&b).acquire("one", MINUTE).await.unwrap(), lease);
        lab.wait(MINUTE / 2 + ALLOWED).await;
        let again = named(&b).acquire("one", MINUTE).await.unwrap();
        assert!(
            lease.ticket() < again.ticket(),
            "it was over, and is another"
        );
    });
}

#[test]
fn a_lease_is_carried_as_text_extended_and_released_by_whoever_has_it() {
    in_processes(async |lab, [a, b, c]| {
        let lock = a.locks.lease_lock("a lock: with spaces").unwrap();
        let lease = lock.acquire("one id", MINUTE).await.unwrap();
        let text = lease.to_string();
        assert!(!text.contains('\n'));
        let carried: Lease = text.parse().unwrap();
        assert_eq!(carried, lease);
        lab.wait(MINUTE / 2).await;
        let lock = b.locks.lease_lock("a lock: with spaces").unwrap();
        let longer = lock.extend(&carried, 10 * MINUTE).await.unwrap();
        assert_eq!(longer.ticket(), lease.ticket());
        assert!(longer.expires_at() > lease.expires_at() + 5 * MINUTE);
        lab.wait(5 * MINUTE).await;
        let other = c.locks.lease_lock("a lock: with spaces").unwrap();
        assert!(is_refused(&other.acquire("other", MINUTE).await));
        // The older text still names the same lease.
        lock.release(&carried).await.unwrap();
        assert!(other.acquire("other", MINUTE).await.is_ok());
        for text in [
            "",
            "lease",
            "lease x 1 1 1 aa",
            &text[1..],
            &text.replace(' ', ""),
        ] {
            assert!(text.parse::<Lease>().is_err(), "{text}");
        }
    });
}

/// The process that took it is gone, and its name alone would lead nowhere.
#[test]
fn a_caller_that_a_lease_keeps_out_is_told_the_name_of_the_lease() {
    in_processes(async |_, [a, b]| {
        let lease = named(&a).acquire("build 7", MINUTE).await.unwrap();
        let refused = named(&b).acquire("other", MINUTE).await.unwrap_err();
        let words = refused.to_string();
        let Error::NotGranted { holder, .. } = refused else {
            panic!("{words}");
        };
        assert_eq!(holder.unwrap().lease_id.as_deref(), Some("build 7"));
        assert!(words.contains("lease \"build 7\" of "), "{words}");
        named(&a).release(&lease).await.unwrap();
        let _guard = acquire(&a).await;
        let refused = named(&b).acquire("other", MINUTE).await.unwrap_err();
        assert!(!refused.to_string().contains("lease"), "{refused}");
    });
}

#[test]
fn a_lease_of_any_time_reads_back_from_its_text_as_the_same_lease() {
    in_processes(async |_, [host]| {
        let lock = named(&host);
        let reads_back = |lease: &Lease| {
            let again: Lease = lease.to_string().parse().unwrap();
            assert_eq!((&again, again.expires_at()), (lease, lease.expires_at()));
        };
        let micros = (1_000_000..1_100_000).step_by(777);
        for micros in micros.chain([1_025_000, 3_333_000, 12_345_678]) {
            let span = Duration::from_micros(micros);
            let lease = lock.acquire("id", span).await.unwrap();
            reads_back(&lease);
            reads_back(&lock.find("id").await.unwrap().unwrap());
            let longer = lock.extend(&lease, span * 2).await.unwrap();
            reads_back(&longer);
            lock.release(&longer).await.unwrap();
        }
    });
}

#[test]
fn a_lease_that_is_released_twice_is_already_released_whoever_has_the_lock_by_then() {
    in_lab(async |lab, [one, other]| {
        let lease = named(&one).acquire("one", MINUTE).await.unwrap();
        let again: Lease = lease.to_string().parse().unwrap();
        named(&other).release(&lease).await.unwrap();
        assert_eq!(
            loss(named(&one).release(&again).await),
            LossReason::Released
        );
        assert_eq!(
            loss(named(&one).extend(&again, MINUTE).await),
            LossReason::Released
        );
        let guard = acquire(&other).await;
        assert_eq!(
            loss(named(&one).release(&again).await),
            LossReason::Released
        );
        guard.release().await.unwrap();
        // After its time, it is unknown whether it was released or evicted.
        lab.wait(MINUTE).await;
        let late = loss(named(&one).release(&again).await);
        assert_eq!(late, LossReason::Evicted { by: None });
    });
}

#[test]
fn a_lease_that_others_took_after_its_time_is_evicted_and_not_released() {
    in_lab(async |lab, [one, other]| {
        let lease = named(&one).acquire("one", MINUTE).await.unwrap();
        lab.wait(MINUTE + ALLOWED).await;
        let guard = acquire(&other).await;
        let by = |loss| match loss {
            LossReason::Evicted { by: Some(by) } => by.ticket,
            other => panic!("{other}"),
        };
        let released = named(&one).release(&lease).await;
        let extended = named(&one).extend(&lease, MINUTE).await.map(drop);
        assert_eq!(by(loss(released)), guard.ticket());
        assert_eq!(by(loss(extended)), guard.ticket());
        lab.delete_lock_item("a").await;
        assert_eq!(loss(named(&one).release(&lease).await), LossReason::Deleted);
        assert_eq!(lab.items("a").await, [""; 0]);
    });
}

#[test]
fn a_lease_that_is_over_begins_again_when_its_name_asks_before_anybody_else() {
    in_processes(async |lab, [a, b]| {
        let old = named(&a).acquire("one", 10 * SECOND).await.unwrap();
        lab.wait(14 * SECOND).await;
        assert!(is_refused(&named(&b).acquire("other", MINUTE).await));
        let new = named(&b).acquire("one", MINUTE).await.unwrap();
        assert_eq!(new.ticket(), old.ticket());
        assert!(new.expires_at() > old.expires_at() + MINUTE);
        lab.wait(MINUTE / 2).await;
        assert!(is_refused(&named(&a).acquire("other", MINUTE).await));
    });
}

#[test]
fn lost_answers_and_late_copies_leave_one_lease() {
    in_processes(async |lab, [a, b]| {
        a.meets("enter", 1, Fault::Lose(When::After));
        let lease = named(&a).acquire("one", MINUTE).await.unwrap();
        assert_eq!(named(&b).find("one").await.unwrap(), Some(lease.clone()));
        a.meets("release", 1, Fault::Duplicate { after: 5 * SECOND });
        named(&a).release(&lease).await.unwrap();
        let next = named(&a).acquire("one", MINUTE).await.unwrap();
        lab.wait(10 * SECOND).await;
        assert_eq!(
            named(&b).find("one").await.unwrap(),
            Some(next),
            "a late copy of the release took the next lease of the same name"
        );
    });
}

#[test]
fn names_and_times_that_cannot_be_are_refused_and_nothing_is_sent() {
    in_lab(async |_, [host]| {
        let lock = named(&host);
        let long = "x".repeat(257);
        for refused in [
            lock.acquire("", MINUTE).await,
            lock.acquire(long, MINUTE).await,
            lock.acquire("one", SECOND / 2).await,
            lock.acquire("one", 25 * 60 * MINUTE).await,
        ] {
            assert_is!(refused, Err(Error::Invalid(_)));
        }
        assert_eq!(host.network.counts().requests(), 0);
        let lease = lock.acquire("one", MINUTE).await.unwrap();
        let other = host.locks.lease_lock("b").unwrap();
        let refused = other.release(&lease).await.unwrap_err();
        assert!(is_invalid(&refused, "must be of this lock"), "{refused}");
    });
}

/// The first request of a lease is held up, and the second is answered. The lease ends, and another has its turn. Then the first request
/// arrives, and takes the lock again under the lease's own name and nonce.
#[test]
fn a_lease_that_was_lost_is_neither_extended_nor_released_after_a_late_copy_of_its_enter() {
    for extends in [true, false] {
        in_processes(async |lab, [a, b]| {
            acquire(&b).await.release().await.unwrap();
            let gate = a.held("enter", 1, When::Before);
            let lease = named(&a).acquire("job", 10 * SECOND).await.unwrap();
            lab.wait(40 * SECOND).await;
            let fresh = b.lock().try_acquire().await;
            let fresh = fresh.unwrap().unwrap();
            assert!(fresh.ticket() > lease.ticket());
            fresh.release().await.unwrap();
            gate.open();
            lab.settle().await;
            let found = named(&a).find("job").await.unwrap().unwrap();
            assert!(found.ticket() > lease.ticket(), "taken again");
            let told = match extends {
                true => named(&a).extend(&lease, 10 * SECOND).await.map(drop),
                false => named(&a).release(&lease).await,
            };
            assert_is!(told, Err(Error::Lost { .. }));
            assert_eq!(named(&a).find("job").await.unwrap(), Some(found.clone()));
            named(&a).release(&found).await.unwrap();
        });
    }
}
