//! The cut-over of docs/migration.md, name by name: while both fleets run, no client of the old one works beside the new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::RecordWait;
use fairlock_testkit::keyed_tables::{OF_LOCKS, create_table};
use fairlock_testkit::lab::{Host, Lab, SECOND, in_lab};
use tokio::time::{Instant, sleep};

const DAY: Duration = Duration::from_secs(24 * 3600);
/// The lease of the old fleet.
const LEASE: Duration = Duration::from_secs(30);

/// A client by the old rules. If it finds no item, it puts one. If it has seen an item unchanged for that item's lease, it puts its own in
/// its place. To release the lock, it deletes its own item.
struct Old {
    table: Client,
    worker: usize,
    retry: Duration,
    acquired: usize,
}

impl Old {
    fn new(lab: &Lab, worker: usize, retry: Duration) -> Self {
        Old {
            table: lab.engine.client(),
            worker,
            retry,
            acquired: 0,
        }
    }

    /// Retries until it holds the lock. The loop ends because a lease that is not renewed ends, if it is one of the old fleet.
    async fn acquire(&mut self, lease: Duration) -> String {
        self.acquired += 1;
        let version = format!("{}-{}", self.worker, self.acquired);
        let mut seen = (None, Instant::now());
        loop {
            let found = self.found().await;
            let (before, lives) = found.unzip();
            if seen.0 != before {
                seen = (before, Instant::now());
            }
            let is_over = lives.is_none_or(|lives| seen.1.elapsed() > lives);
            if is_over && self.put(&version, lease, seen.0.as_deref()).await {
                return version;
            }
            sleep(self.retry).await;
        }
    }

    /// The version of the item that is there, and its lease.
    async fn found(&self) -> Option<(String, Duration)> {
        let get = self.table.get_item().table_name("old");
        let get = get.key("pk", text("a")).key("sk", text("-"));
        let item = get.consistent_read(true).send().await.unwrap().item?;
        let lease = item["lease_duration"].as_n().unwrap().parse().unwrap();
        let version = item["version"].as_s().unwrap().clone();
        Some((version, Duration::from_secs(lease)))
    }

    async fn put(&self, version: &str, lease: Duration, instead: Option<&str>) -> bool {
        let put = self.table.put_item().table_name("old");
        let put = put.item("pk", text("a")).item("sk", text("-"));
        let lease = AttributeValue::N(lease.as_secs().to_string());
        let put = put
            .item("version", text(version))
            .item("lease_duration", lease);
        let put = match instead {
            None => put.condition_expression("attribute_not_exists(pk)"),
            Some(old) => put
                .condition_expression("version = :old")
                .expression_attribute_values(":old", text(old)),
        };
        put.send().await.is_ok()
    }

    async fn release(&self, version: &str) {
        let delete = self.table.delete_item().table_name("old");
        let delete = delete.key("pk", text("a")).key("sk", text("-"));
        let delete = delete.condition_expression("version = :mine");
        let delete = delete.expression_attribute_values(":mine", text(version));
        delete.send().await.unwrap();
    }
}

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

/// What the lock protects.
#[derive(Default)]
struct Work {
    inside: AtomicUsize,
    overlaps: AtomicUsize,
    old: AtomicUsize,
    new: AtomicUsize,
}

impl Work {
    async fn turn(&self, turns: &AtomicUsize) {
        turns.fetch_add(1, Ordering::SeqCst);
        if self.inside.fetch_add(1, Ordering::SeqCst) > 0 {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        sleep(3 * SECOND).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

fn works_the_old_way(lab: &Lab, worker: usize, work: &Arc<Work>) {
    let (mut locks, work) = (Old::new(lab, worker, 5 * SECOND), Arc::clone(work));
    tokio::spawn(async move {
        loop {
            let version = locks.acquire(LEASE).await;
            work.turn(&work.old).await;
            locks.release(&version).await;
            sleep(SECOND).await;
        }
    });
}

fn works_the_new_way(host: &Host, work: &Arc<Work>) {
    let (lock, work) = (host.lock(), Arc::clone(work));
    tokio::spawn(async move {
        loop {
            let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
            work.turn(&work.new).await;
            guard.release().await.unwrap();
        }
    });
}

/// An old fleet at work, after one client died while it held the lock.
async fn old_fleet(lab: &Lab, work: &Arc<Work>) {
    create_table(&lab.engine.client(), "old", &OF_LOCKS).await;
    Old::new(lab, 100, SECOND).acquire(LEASE).await;
    (0..3).for_each(|worker| works_the_old_way(lab, worker, work));
    lab.wait(200 * SECOND).await;
}

async fn new_fleet(lab: &Lab, work: &Arc<Work>) {
    // Without a lower bound, polls would be very many, because this network takes no time.
    let host = |_| {
        lab.host_with(|builder| {
            builder.testing(|it| it.poll_interval = Some((SECOND / 10, SECOND)))
        })
    };
    let hosts = [1, 2].map(host);
    hosts.iter().for_each(|host| works_the_new_way(host, work));
    lab.wait(200 * SECOND).await;
    assert!(hosts.iter().all(|host| host.network.counts().writes() > 0));
}

/// Plays the cut-over with a gate that is held for this long, if there is one. Returns the work, and what the old fleet had done before.
async fn cut_over(lab: &Lab, gate: Option<Duration>) -> (Arc<Work>, usize) {
    let work = Arc::default();
    old_fleet(lab, &work).await;
    if let Some(lease) = gate {
        // It retries more often than workers do: there is no queue, so it would wait for long otherwise.
        Old::new(lab, 200, SECOND / 10).acquire(lease).await;
    }
    let before = work.old.load(Ordering::SeqCst);
    lab.wait(LEASE).await;
    new_fleet(lab, &work).await;
    (work, before)
}

#[test]
fn a_gate_held_by_the_old_client_for_good_keeps_the_old_fleet_out_while_the_new_one_works() {
    in_lab(async |lab, []| {
        let (work, before) = cut_over(lab, Some(10 * DAY)).await;
        assert!(before > 5, "{before}");
        assert_eq!(work.old.load(Ordering::SeqCst), before);
        assert!(work.new.load(Ordering::SeqCst) > 30);
        assert_eq!(work.overlaps.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn without_the_gate_or_with_a_short_one_both_fleets_work_at_once() {
    for gate in [None, Some(LEASE)] {
        in_lab(async |lab, []| {
            let (work, _) = cut_over(lab, gate).await;
            assert!(work.overlaps.load(Ordering::SeqCst) > 5);
        });
    }
}
