//! The cut-over of docs/migration.md, name by name: while both fleets run, no client of the old one works beside the new one.
#![expect(clippy::disallowed_methods, reason = "workers' tasks")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::RecordWait;
use fairlock_testkit::keyed_tables::{OF_LOCKS, create_table};
use fairlock_testkit::lab::{Host, Lab, SECOND};
use fairlock_testkit::virtual_time;
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
    fn new(lab: &Lab, worker: usize) -> Self {
        Old {
            table: lab.engine.client(),
            worker,
            retry: 5 * SECOND,
            acquired: 0,
        }
    }

    /// Retries more often than workers do: there is no queue, so it would wait for long otherwise.
    fn gate(lab: &Lab) -> Self {
        Old {
            retry: SECOND / 10,
            ..Old::new(lab, 200)
        }
    }

    /// Retries until it holds the lock. The loop ends because a lease that is not renewed ends, if it is one of the old fleet.
    async fn acquire(&mut self, lease: Duration) -> String {
        self.acquired += 1;
        let version = format!("{}-{}", self.worker, self.acquired);
        let mut seen: Option<(String, Instant)> = None;
        loop {
            match self.found().await {
                None if self.put(&version, lease, None).await => return version,
                None => {}
                Some((found, lives)) => match &seen {
                    Some((before, since)) if *before == found => {
                        if since.elapsed() > lives && self.put(&version, lease, Some(&found)).await
                        {
                            return version;
                        }
                    }
                    _ => seen = Some((found, Instant::now())),
                },
            }
            sleep(self.retry).await;
        }
    }

    /// The version of the item that is there, and its lease.
    async fn found(&self) -> Option<(String, Duration)> {
        let get = self
            .table
            .get_item()
            .table_name("old")
            .consistent_read(true);
        let get = get.key("pk", text("a")).key("sk", text("-"));
        let item = get.send().await.unwrap().item?;
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
    let (mut locks, work) = (Old::new(lab, worker), Arc::clone(work));
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
    Old::new(lab, 100).acquire(LEASE).await;
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

#[test]
fn a_gate_held_by_the_old_client_for_good_keeps_the_old_fleet_out_while_the_new_one_works() {
    virtual_time(async {
        let (lab, work) = (Lab::new().await, Arc::new(Work::default()));
        old_fleet(&lab, &work).await;
        Old::gate(&lab).acquire(10 * DAY).await;
        let before = work.old.load(Ordering::SeqCst);
        assert!(before > 5, "{before}");
        lab.wait(LEASE).await;
        new_fleet(&lab, &work).await;
        assert_eq!(work.old.load(Ordering::SeqCst), before);
        assert!(work.new.load(Ordering::SeqCst) > 30);
        assert_eq!(work.overlaps.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn without_the_gate_or_with_a_short_one_both_fleets_work_at_once() {
    for gate in [None, Some(LEASE)] {
        virtual_time(async {
            let (lab, work) = (Lab::new().await, Arc::new(Work::default()));
            old_fleet(&lab, &work).await;
            if let Some(lease) = gate {
                Old::gate(&lab).acquire(lease).await;
                lab.wait(LEASE).await;
            }
            new_fleet(&lab, &work).await;
            assert!(work.overlaps.load(Ordering::SeqCst) > 5);
        });
    }
}
