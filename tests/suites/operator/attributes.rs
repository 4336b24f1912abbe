//! The attributes that callers set: kept with their places, and shown to observers.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{FairLock, LockState, Participant, RecordWait};
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::lab::{Host, Lab, acquire, has_turn, in_lab, in_slots, waits};
use futures::future::join_all;

const MINUTE: Duration = Duration::from_secs(60);

fn saying(host: &Host, job: &str) -> FairLock {
    let lock = host.lock();
    lock.attributes([("job", job), ("where", "here")])
}

fn jobs(state: &LockState) -> Vec<&str> {
    let all = state
        .holder
        .iter()
        .chain(&state.sharers)
        .chain(&state.queue);
    all.map(job).collect()
}

fn job(who: &Participant) -> &str {
    who.attributes.get("job").map_or("", String::as_str)
}

/// The holder, a successor, and a waiter behind the slots. Each keeps its attributes while it holds the lock, through many renewals.
#[test]
fn they_stay_with_a_place_from_its_first_write_until_its_release() {
    in_slots(1, async |lab, hosts: [Host; 4]| {
        let holding = saying(&hosts[0], "0").acquire(RecordWait::Infinite).await;
        let mut waiting = Vec::new();
        for (host, job) in hosts[1..].iter().zip(["1", "2", "3"]) {
            let lock = saying(host, job);
            waiting.push(tokio::spawn(async move {
                lock.acquire(RecordWait::Infinite).await
            }));
            lab.settle().await;
        }
        lab.wait(10 * MINUTE).await;
        assert_eq!(jobs(&hosts[0].inspect().await), ["0", "1", "2", "3"]);
        let mut guard = holding.unwrap();
        for (index, next) in waiting.into_iter().enumerate() {
            guard.release().await.unwrap();
            guard = next.await.unwrap().unwrap();
            lab.wait(MINUTE).await;
            let state = hosts[0].inspect().await;
            assert_eq!(jobs(&state), ["1", "2", "3"][index..]);
            let said = &state.holder.unwrap().attributes;
            assert_eq!(said.get("where").map(String::as_str), Some("here"));
        }
        guard.release().await.unwrap();
        assert_eq!(jobs(&hosts[0].inspect().await), [""; 0]);
    });
}

const LATER: &str = "said_by_a_later_version";

/// Marks an entry of a row or of the lock item, by the path to it.
async fn marked(lab: &Lab, sort: &str, path: &str) {
    let update = lab.engine.client().update_item().table_name("locks");
    let update = update
        .key("pk", AttributeValue::S("a".into()))
        .key("sk", AttributeValue::S(sort.into()))
        .update_expression(format!("SET {path}.#it = :it"))
        .condition_expression("attribute_exists(pk)")
        .expression_attribute_names("#it", LATER)
        .expression_attribute_values(":it", AttributeValue::N("7".into()));
    update.send().await.unwrap();
}

/// How many entries of the lock have the mark, and where: in rows, in slots, among the sharers.
async fn marks(lab: &Lab) -> [usize; 3] {
    let has = |entry: &AttributeValue| entry.as_m().unwrap().contains_key(LATER);
    let scan = lab.engine.client().scan().table_name("locks");
    let items = scan.send().await.unwrap().items.unwrap();
    let entries = |item: &std::collections::HashMap<String, AttributeValue>| {
        let rows = item.get("entry").into_iter().filter(|it| has(it)).count();
        let slots = item.get("slots").and_then(|slots| slots.as_l().ok());
        let slots = slots.map_or(0, |slots| slots.iter().filter(|it| has(it)).count());
        let sharers = item.get("sharers").and_then(|sharers| sharers.as_m().ok());
        let sharers = sharers.map_or(0, |sharers| sharers.values().filter(|it| has(it)).count());
        [rows, slots, sharers]
    };
    let all = items.iter().map(entries);
    all.fold([0; 3], |sum, each| {
        [sum[0] + each[0], sum[1] + each[1], sum[2] + each[2]]
    })
}

/// The mark moves from its row to a slot, and from there to the sharers, written by clients that do not know it.
#[test]
fn what_a_later_version_says_in_an_entry_goes_where_the_entry_goes() {
    in_slots(1, async |lab, hosts: [Host; 4]| {
        let first = acquire(&hosts[0]).await;
        let second = waits(lab, &hosts[1]).await;
        let mut readers = Vec::new();
        for host in &hosts[2..] {
            let lock = host.lock();
            readers.push(tokio::spawn(async move {
                lock.acquire_shared(RecordWait::Infinite).await
            }));
            lab.settle().await;
        }
        let scan = lab.engine.client().scan().table_name("locks");
        let items = scan.send().await.unwrap().items.unwrap();
        let sorts = items.iter().map(|item| item["sk"].as_s().unwrap());
        let rows: Vec<_> = sorts.filter(|sort| !sort.contains('#')).collect();
        assert_eq!(rows.len(), 2);
        for row in rows {
            marked(lab, row, "entry").await;
        }
        assert_eq!(marks(lab).await, [2, 0, 0]);
        lab.wait(10 * MINUTE).await;
        first.release().await.unwrap();
        let second = second.await.unwrap();
        lab.wait(MINUTE).await;
        let [_, slots, sharers] = marks(lab).await;
        assert_eq!((slots, sharers), (1, 0));
        second.release().await.unwrap();
        let mut guards = Vec::new();
        for reader in readers {
            guards.push(reader.await.unwrap().unwrap());
        }
        lab.wait(10 * MINUTE).await;
        let [_, slots, sharers] = marks(lab).await;
        assert_eq!((slots + sharers, sharers > 0), (2, true));
        let released = join_all(guards.into_iter().map(|guard| guard.release())).await;
        assert!(released.iter().all(Result::is_ok));
    });
}

#[test]
fn those_who_share_a_lock_have_permits_or_a_lease_say_theirs_too() {
    in_lab(async |_, hosts: [Host; 2]| {
        let first = saying(&hosts[0], "0");
        let first = first.acquire_shared(RecordWait::NoWait).await.unwrap();
        let second = saying(&hosts[1], "1");
        let second = second.acquire_shared(RecordWait::NoWait).await.unwrap();
        assert_eq!(jobs(&hosts[0].inspect().await), ["0", "1"]);
        join_all([first, second].map(|guard| guard.release())).await;

        let lease = hosts[0].locks.lease_lock("a").unwrap();
        let lease = lease.attributes([("job", "2")]);
        let held = lease.acquire("one", MINUTE).await.unwrap();
        assert_eq!(jobs(&hosts[1].inspect().await), ["2"]);
        let held = lease.extend(&held, 2 * MINUTE).await.unwrap();
        assert_eq!(jobs(&hosts[1].inspect().await), ["2"]);
        lease.release(&held).await.unwrap();

        let permits = hosts[0].locks.semaphore("b", 3).unwrap();
        let permits = permits.attributes([("job", "3")]);
        let guard = permits.acquire_many(2, RecordWait::NoWait).await.unwrap();
        let state = hosts[1].locks.fair_lock("b").unwrap().inspect().await;
        assert_eq!(jobs(&state.unwrap()), ["3"]);
        guard.release().await.unwrap();
    });
}

#[test]
fn callers_of_one_client_who_say_something_stand_each_for_themselves() {
    in_lab(async |lab, [host, other]| {
        let guard = acquire(&other).await;
        let calls = ["0", "1", "2"].map(|job| {
            let lock = saying(&host, job);
            tokio::spawn(async move {
                let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
                guard.release().await.unwrap();
            })
        });
        lab.settle().await;
        let plain = waits(lab, &host).await;
        let state = host.inspect().await;
        let mut said = jobs(&state);
        said.sort_unstable();
        assert_eq!(said, ["", "", "0", "1", "2"]);
        assert!(state.queue.iter().all(|who| who.tickets == 1));
        guard.release().await.unwrap();
        for call in calls {
            call.await.unwrap();
        }
        plain.await.unwrap().release().await.unwrap();
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn too_many_or_nameless_ones_are_refused_and_nothing_is_sent() {
    in_lab(async |_, [host]| {
        let lock = host.lock();
        let long = lock.clone().attributes([("job", "x".repeat(1022))]);
        let refused = long.acquire(RecordWait::Infinite).await.unwrap_err();
        let told = "1025 bytes of attributes are too many, of which a call has at most 1024";
        assert_eq!(refused.to_string(), told);
        let nameless = lock.clone().attributes([("", "x")]);
        let refused = nameless.try_acquire().await.unwrap_err();
        assert!(is_invalid(&refused, "takes 1 byte at least"), "{refused}");
        let lease = host.locks.lease_lock("a").unwrap();
        let lease = lease.attributes([("x".repeat(1025), "")]);
        assert!(lease.acquire("one", MINUTE).await.is_err());
        assert_eq!(host.network.counts().requests(), 0);
        let most = lock.attributes([("job", "x".repeat(1021))]);
        has_turn(most.acquire(RecordWait::NoWait)).await;
    });
}

#[test]
fn none_say_nothing_and_what_was_said_last_counts() {
    in_lab(async |lab, [host]| {
        let lock = saying(&host, "0").attributes([("only", "this")]);
        let guard = lock.try_acquire().await.unwrap().unwrap();
        let said = host.inspect().await.holder.unwrap().attributes;
        let this = BTreeMap::from([("only".to_owned(), "this".to_owned())]);
        assert_eq!(said, this);
        guard.release().await.unwrap();
        let lock = lock.attributes([("", ""); 0]);
        let guard = lock.try_acquire().await.unwrap().unwrap();
        let item = lab.engine.client().get_item().table_name("locks");
        let item = item.key("pk", AttributeValue::S("a".into()));
        let item = item.key("sk", AttributeValue::S("fairlock/#lock".into()));
        let item = item.send().await.unwrap().item.unwrap();
        assert!(
            !item["slots"].as_l().unwrap()[0]
                .as_m()
                .unwrap()
                .contains_key("attributes")
        );
        guard.release().await.unwrap();
    });
}
