//! An account from which several clients withdraw at once, in good and bad ways, and the audit of its ledger afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType};
use fairlock::embedded::{Engine, Faults, Latency, Network};
use fairlock::{Change, Clock, Item, UpdateError, VersionedTable};

use fairlock_testkit::keyed_tables::create_table;
use fairlock_testkit::virtual_time;

/// The time at which every test starts, in seconds since 1970.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);
const LIMIT: i64 = -500;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overdrawn {
    pub(crate) balance: i64,
}

/// An engine with a table of accounts.
#[derive(Clone)]
pub(crate) struct Bank {
    pub(crate) engine: Engine,
    pub(crate) clock: Clock,
}

pub(crate) fn key() -> [(&'static str, AttributeValue); 1] {
    [("AccountId", AttributeValue::S("123".into()))]
}

pub(crate) fn n(number: impl ToString) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

/// A number of an item.
pub(crate) fn read(item: &Item, attribute: &str) -> i64 {
    item[attribute].as_n().unwrap().parse().unwrap()
}

/// Runs a test in virtual time, with an account that was opened.
pub(crate) fn in_bank(test: impl AsyncFnOnce(&Bank)) {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        test(&bank).await;
    });
}

impl Bank {
    pub(crate) async fn new() -> Self {
        let clock = Clock::of_tokio(EPOCH);
        let engine = Engine::memory().unwrap().with_clock(clock.clone());
        let keys = [("AccountId", ScalarAttributeType::S)];
        create_table(&engine.client(), "accounts", &keys).await;
        Bank { engine, clock }
    }

    pub(crate) fn network(&self, seed: u64) -> Network {
        Network::to(&self.engine).seeded(seed)
    }

    pub(crate) fn accounts_on(&self, network: &Network, seed: u64) -> VersionedTable {
        let builder = VersionedTable::builder(network.client(), "accounts");
        let builder = builder.clock(self.clock.clone());
        builder.seeded(seed).build().unwrap()
    }

    /// A client without faults.
    pub(crate) fn accounts(&self) -> VersionedTable {
        self.accounts_on(&self.network(0), 0)
    }

    /// Opens the article's account: a balance of 100.
    pub(crate) async fn open(&self) {
        let open = |item: Option<Item>| {
            assert_eq!(item, None);
            Ok::<_, Overdrawn>(Change::Put(opened()))
        };
        self.accounts().update(key(), open).await.unwrap();
    }

    /// The stored account, with all its attributes.
    pub(crate) async fn account(&self) -> Option<Item> {
        let get = self.engine.client().get_item().table_name("accounts");
        let get = get.set_key(Some(whole_key())).consistent_read(true);
        get.send().await.unwrap().item
    }
}

pub(crate) fn whole_key() -> Item {
    key().map(|(name, value)| (name.to_owned(), value)).into()
}

pub(crate) fn opened() -> Item {
    Item::from([
        ("Balance".into(), n(100)),
        ("OverdraftLimit".into(), n(LIMIT)),
        ("Ledger".into(), AttributeValue::L(Vec::new())),
    ])
}

/// The account after a withdrawal, which its ledger names.
pub(crate) fn less(mut account: Item, name: &str, amount: i64) -> Result<Item, Overdrawn> {
    let balance = read(&account, "Balance");
    if balance - amount < read(&account, "OverdraftLimit") {
        return Err(Overdrawn { balance });
    }
    let mut ledger = account["Ledger"].as_l().unwrap().clone();
    ledger.push(AttributeValue::S(format!("{name} {amount}")));
    account.insert("Ledger".into(), AttributeValue::L(ledger));
    account.insert("Balance".into(), n(balance - amount));
    Ok(account)
}

pub(crate) async fn withdraw(
    accounts: &VersionedTable,
    name: &str,
    amount: i64,
) -> Result<fairlock::UpdateOutcome, UpdateError<Overdrawn>> {
    let decide = |item: Option<Item>| less(item.unwrap(), name, amount).map(Change::Put);
    accounts.update(key(), decide).await
}

/// How withdrawals are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Versioned,
    /// Read, then put.
    Naive,
    /// With a version in the condition. All of it is repeated whenever the answer is not a success.
    Forgetful,
}

/// What a withdrawal's caller was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Told {
    Done,
    Refused,
    Unknown,
}

pub(crate) struct Worker {
    way: Way,
    accounts: VersionedTable,
    client: Client,
}

impl Worker {
    pub(crate) fn new(bank: &Bank, way: Way, seed: u64, faults: Faults) -> Self {
        let network = bank.network(seed).faults(faults);
        let config = network.client().config().to_builder();
        let timeouts = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_secs(2));
        let config = config.retry_config(RetryConfig::disabled());
        Worker {
            way,
            accounts: bank.accounts_on(&network, seed),
            client: Client::from_conf(config.timeout_config(timeouts.build()).build()),
        }
    }

    pub(crate) async fn withdraw(&self, name: &str, amount: i64) -> Told {
        match self.way {
            Way::Versioned => told(withdraw(&self.accounts, name, amount).await),
            Way::Naive => self.carelessly(name, amount, false).await,
            Way::Forgetful => self.carelessly(name, amount, true).await,
        }
    }

    /// Retries until the withdrawal is applied, as far as its answers show, at most twenty times.
    async fn carelessly(&self, name: &str, amount: i64, with_version: bool) -> Told {
        for _ in 0..20 {
            let get = self.client.get_item().table_name("accounts");
            let get = get.set_key(Some(whole_key())).consistent_read(true);
            let Ok(seen) = get.send().await else { continue };
            let account = seen.item.unwrap();
            let version = read(&account, "version");
            let Ok(mut account) = less(account, name, amount) else {
                return Told::Refused;
            };
            account.insert("version".into(), n(version + 1));
            let mut put = self.client.put_item().table_name("accounts");
            put = put.set_item(Some(account));
            if with_version {
                put = put.condition_expression("version = :seen");
                put = put.expression_attribute_values(":seen", n(version));
            }
            if put.send().await.is_ok() {
                return Told::Done;
            }
        }
        Told::Unknown
    }
}

fn told<T>(answer: Result<T, UpdateError<Overdrawn>>) -> Told {
    match answer {
        Ok(_) => Told::Done,
        Err(UpdateError::OutcomeUnknown { .. }) => Told::Unknown,
        Err(_) => Told::Refused,
    }
}

/// Everything that goes wrong between a client and DynamoDB.
pub(crate) fn storm() -> Faults {
    let ms = Duration::from_millis;
    Faults {
        round_trip: Latency::HeavyTailed {
            median: ms(5),
            p99: ms(200),
        },
        lost_requests: 0.04,
        closes_before: 0.02,
        closes_after: 0.02,
        lost_answers: 0.08,
        errors_before: 0.02,
        errors_after: 0.04,
        hangs_before: 0.02,
        hangs_after: 0.02,
        throttles: 0.04,
        conflicts: 0.04,
        duplicates: 0.05,
        duplicate_within: Duration::from_secs(5),
    }
}

/// What in the account contradicts what the callers were told.
pub(crate) fn audit(account: &Item, told: &BTreeMap<String, Told>) -> Vec<String> {
    let ledger = account["Ledger"].as_l().unwrap();
    let entries = ledger.iter().map(|entry| entry.as_s().unwrap());
    let entries: Vec<_> = entries
        .map(|entry| entry.rsplit_once(' ').unwrap())
        .collect();
    let mut wrong = Vec::new();
    let mut balance = 100;
    for (_, amount) in &entries {
        balance -= amount.parse::<i64>().unwrap();
        if balance < LIMIT {
            wrong.push(format!("overdrawn: {balance}"));
        }
    }
    if balance != read(account, "Balance") {
        wrong.push(format!("the ledger adds up to {balance}: {account:?}"));
    }
    for (name, told) in told {
        let times = entries.iter().filter(|(entry, _)| entry == name).count();
        let fits = match told {
            Told::Done => times == 1,
            Told::Refused => times == 0,
            Told::Unknown => times <= 1,
        };
        if !fits {
            wrong.push(format!(
                "{name} was told {told:?} and is there {times} times"
            ));
        }
    }
    wrong
}
