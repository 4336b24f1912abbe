//! A slot that holds one job at a time. A producer puts a job if there is none, and a consumer takes it by deleting it. The test compares
//! what producers were told of their jobs with what the consumer saw.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::Faults;
use fairlock::{Change, Item, UpdateError, VersionedTable};
use futures::future::join_all;
use tokio::time::sleep;

use super::bank::{Bank, Told, key, storm, whole_key};
use fairlock_testkit::effort::sized;
use fairlock_testkit::virtual_time;

const SECOND: Duration = Duration::from_secs(1);

/// How jobs are put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Versioned,
    /// With an id in the item. If another id is in its place, the producer takes that as a proof that its put was never applied.
    Trusting,
}

struct Producer {
    way: Way,
    slots: VersionedTable,
    client: Client,
}

fn job_of(item: &Item) -> Option<String> {
    Some(item.get("job")?.as_s().ok()?.clone())
}

fn holding(job: &str) -> Item {
    [("job".to_owned(), AttributeValue::S(job.to_owned()))].into()
}

impl Producer {
    fn new(bank: &Bank, way: Way, seed: u64) -> Self {
        // Late copies may bring back a job that was taken, as the limitations say. So there are no duplicates here.
        let faults = Faults {
            duplicates: 0.0,
            lost_answers: 0.2,
            ..storm()
        };
        let network = bank.network(seed).faults(faults);
        let config = network.client().config().to_builder();
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(2 * SECOND);
        let config = config.retry_config(RetryConfig::disabled());
        Producer {
            way,
            slots: bank.accounts_on(&network, seed),
            client: Client::from_conf(config.timeout_config(timeouts.build()).build()),
        }
    }

    async fn put(&self, job: &str) -> Told {
        match self.way {
            Way::Versioned => self.carefully(job).await,
            Way::Trusting => self.trustingly(job).await,
        }
    }

    async fn carefully(&self, job: &str) -> Told {
        let put = |item: Option<Item>| match item {
            None => Ok(Change::Put(holding(job))),
            Some(_) => Err(()),
        };
        match self.slots.update(key(), put).await {
            Ok(_) => Told::Done,
            Err(UpdateError::OutcomeUnknown { .. }) => Told::Unknown,
            Err(_) => Told::Refused,
        }
    }

    /// Retries until the put is applied, or another job is in the way, at most twenty times.
    async fn trustingly(&self, job: &str) -> Told {
        for _ in 0..20 {
            let mut item = holding(job);
            item.extend(whole_key());
            item.insert("id".into(), AttributeValue::S(job.to_owned()));
            let put = self.client.put_item().table_name("accounts");
            let put = put
                .set_item(Some(item))
                .condition_expression("attribute_not_exists(AccountId)");
            let Err(error) = put.send().await else {
                return Told::Done;
            };
            let is_refused = |it: &aws_sdk_dynamodb::operation::put_item::PutItemError| {
                it.is_conditional_check_failed_exception()
            };
            if !error.as_service_error().is_some_and(is_refused) {
                continue;
            }
            let get = self.client.get_item().table_name("accounts");
            let get = get.set_key(Some(whole_key())).consistent_read(true);
            let Ok(found) = get.send().await else {
                continue;
            };
            match found.item.as_ref().and_then(job_of) {
                Some(own) if own == job => return Told::Done,
                Some(_) => return Told::Refused,
                None => {}
            }
        }
        Told::Unknown
    }
}

/// Takes each job that it finds, until the producers have ended. Records the jobs.
async fn consume(slots: &VersionedTable, seen: &Mutex<BTreeSet<String>>, is_over: &AtomicBool) {
    // The loop ends with the producers.
    while !is_over.load(Ordering::Relaxed) {
        let take = |item: Option<Item>| {
            let item = item.ok_or(())?;
            seen.lock().unwrap().extend(job_of(&item));
            Ok::<_, ()>(Change::Delete)
        };
        drop(slots.update(key(), take).await);
        sleep(SECOND / 20).await;
    }
}

/// Three producers with eight jobs each, and a consumer. Returns what is wrong afterwards, and how many callers were told what.
fn jobs(way: Way, seed: u64) -> (Vec<String>, BTreeMap<Told, usize>) {
    virtual_time(async {
        let bank = Bank::new().await;
        let (seen, is_over) = (Mutex::default(), AtomicBool::new(false));
        let slots = bank.accounts();
        let producers = (0..3).map(|who| {
            let producer = Producer::new(&bank, way, 3 * seed + who);
            async move {
                let mut told = Vec::new();
                for turn in 0..8 {
                    let job = format!("{who}/{turn}");
                    told.push((job.clone(), producer.put(&job).await));
                }
                told
            }
        });
        let producers = async {
            let told = join_all(producers).await;
            sleep(5 * SECOND).await;
            is_over.store(true, Ordering::Relaxed);
            told
        };
        let (told, ()) = tokio::join!(producers, consume(&slots, &seen, &is_over));
        let told: BTreeMap<_, _> = told.into_iter().flatten().collect();
        let mut counts = BTreeMap::new();
        told.values()
            .for_each(|told| *counts.entry(*told).or_default() += 1);
        (audit(&told, &seen.into_inner().unwrap()), counts)
    })
}

/// No job that was seen was reported as not put, and each job that was reported as put was seen.
fn audit(told: &BTreeMap<String, Told>, seen: &BTreeSet<String>) -> Vec<String> {
    let wrong = told.iter().filter(|(job, told)| match told {
        Told::Done => !seen.contains(*job),
        Told::Refused => seen.contains(*job),
        Told::Unknown => false,
    });
    wrong
        .map(|(job, told)| format!("{job} was told {told:?}, and seen: {}", seen.contains(job)))
        .collect()
}

#[test]
fn in_a_storm_no_job_that_was_taken_is_said_never_to_have_been_put() {
    let mut all = BTreeMap::new();
    let seeds = sized(30, 60);
    for seed in 0..seeds {
        let (wrong, counts) = jobs(Way::Versioned, seed);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        counts
            .into_iter()
            .for_each(|(told, count)| *all.entry(told).or_insert(0) += count);
    }
    let of = |told| all.get(&told).copied().unwrap_or(0);
    let few = seeds as usize * 10 / 3;
    assert!(of(Told::Done) > few && of(Told::Refused) > few, "{all:?}");
    assert!(of(Told::Unknown) > 0, "{all:?}");
}

#[test]
fn the_audit_notices_who_takes_another_first_write_for_a_proof() {
    let mut wrong = (0..60).flat_map(|seed| jobs(Way::Trusting, seed).0);
    let is_noticed = wrong.any(|it| it.ends_with("told Refused, and seen: true"));
    assert!(is_noticed, "in none of the seeds");
}
