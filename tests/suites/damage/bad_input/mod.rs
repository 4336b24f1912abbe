//! What callers get wrong, and what is wrong with the table or on the way to it. Each case ends in time with a typed error, and leaves
//! nothing in the table.

mod clocks;
mod told;

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType};
use fairlock::embedded::{Engine, Fault, Network, When};
use fairlock::{Error, Invalid, ItemProblem, LockClient, LockClientBuilder, RecordWait};
use fairlock_testkit::http;
use fairlock_testkit::invalid::is_invalid;
use fairlock_testkit::keyed_tables::create_table;
use fairlock_testkit::lab::{Host, Lab, MS, SECOND, acquire, has_turn, in_lab, waits};
use fairlock_testkit::{real_time, virtual_time};
use tokio::time::Instant;

const WAITS: [RecordWait; 3] = [
    RecordWait::NoWait,
    RecordWait::Timeout(Duration::from_secs(5)),
    RecordWait::Infinite,
];

// ---------------------------------------------------------------------------------------------------------------
// Names and settings

#[test]
fn a_name_that_is_empty_or_too_long_is_refused_and_nothing_is_sent() {
    virtual_time(async {
        let host = Lab::new().await.host();
        // The limit is in bytes: 683 letters of three bytes each are one byte too many.
        for (name, length) in [
            (String::new(), 0),
            ("x".repeat(2049), 2049),
            ("漢".repeat(683), 2049),
        ] {
            let refused = host.locks.fair_lock(name).unwrap_err();
            let words = format!("takes 1 to 2048 bytes, and this one has {length}");
            assert!(is_invalid(&refused, &words), "{refused}");
        }
        assert_eq!(host.network.counts().requests(), 0);
    });
}

#[test]
fn strange_names_are_locks_like_any_other_and_each_is_its_own_in_its_namespace() {
    in_lab(async |lab, [host, other]| {
        let apart = lab.host_with(|builder| builder.namespace("apart"));
        let longest = "x".repeat(2048);
        let names = [
            "/",
            "a/b",
            "a/",
            "#lock",
            "fairlock/#lock",
            "a\nb",
            "\n",
            " ",
            "\0",
            "\"",
            ":me",
            "naïve",
            "nai\u{308}ve",
            "鎖",
            "🔒",
            "\u{202e}a",
            "a",
            "A",
            &longest,
        ];
        let mut held = Vec::new();
        for name in names {
            let lock = host.locks.fair_lock(name).unwrap();
            assert_eq!(lock.name(), name);
            held.push(lock.acquire(RecordWait::NoWait).await.unwrap());
        }
        for (name, guard) in names.into_iter().zip(held) {
            let lock = other.locks.fair_lock(name).unwrap();
            assert!(lock.try_acquire().await.unwrap().is_none(), "{name:?}");
            let namesake = apart.locks.fair_lock(name).unwrap();
            has_turn(namesake.acquire(RecordWait::NoWait)).await;
            guard.release().await.unwrap();
            let guard = lock.acquire(RecordWait::default()).await.unwrap();
            assert_eq!(guard.name(), name);
            guard.release().await.unwrap();
            let items = ["apart/#lock", "fairlock/#lock"];
            assert_eq!(lab.items(name).await, items, "{name:?}");
        }
    });
}

fn refusal(set: impl FnOnce(LockClientBuilder) -> LockClientBuilder) -> Invalid {
    let network = Network::to(&Engine::memory().unwrap());
    match set(LockClient::builder(network.client())).build() {
        Err(Error::Invalid(invalid)) => invalid,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_namespace_with_a_slash_or_without_letters_or_with_too_many_is_refused() {
    virtual_time(async {
        for namespace in ["", "/", "a/b", "a/", &"x".repeat(986)] {
            let refused = refusal(|builder| builder.namespace(namespace));
            let (told, said) = (refused.to_string(), &namespace[..namespace.len().min(80)]);
            assert!(told.starts_with(&format!("namespace \"{said}")), "{told}");
            assert!(told.contains("1 to 985 bytes without `/`"), "{told}");
        }
    });
}

#[test]
fn a_duration_of_zero_is_refused_wherever_it_is_said() {
    virtual_time(async {
        let zero = Duration::ZERO;
        for refused in [
            refusal(|builder| builder.lease_duration(zero)),
            refusal(|builder| builder.heartbeat_interval(zero)),
            refusal(|builder| builder.idle_retention(zero)),
            refusal(|builder| builder.request_timeout(zero)),
        ] {
            let told = refused.to_string();
            assert!(told.contains(" is 0ns and must be at least "), "{told}");
        }
        let host = Lab::new().await.host();
        let lock = host.lock();
        let refused = lock.acquire(RecordWait::Timeout(zero)).await.unwrap_err();
        assert!(is_invalid(&refused, "say RecordWait::NoWait"), "{refused}");
        assert_eq!(host.network.counts().requests(), 0);
    });
}

#[test]
fn durations_that_cross_are_refused() {
    virtual_time(async {
        for refused in [
            refusal(|builder| {
                builder
                    .lease_duration(10 * SECOND)
                    .heartbeat_interval(10 * SECOND)
            }),
            refusal(|builder| {
                builder
                    .lease_duration(10 * SECOND)
                    .request_timeout(5 * SECOND)
            }),
            refusal(|builder| builder.idle_retention(SECOND)),
        ] {
            let told = refused.to_string();
            assert!(told.contains("s and must be at "), "{told}");
        }
    });
}

// ---------------------------------------------------------------------------------------------------------------
// Tables and items

async fn assert_refused_at_once(host: &Host, code: &str) {
    let lock = host.lock();
    let started = Instant::now();
    let mut errors = Vec::new();
    for wait in WAITS {
        errors.push(lock.acquire(wait).await.unwrap_err());
    }
    errors.push(lock.try_acquire().await.unwrap_err());
    errors.push(lock.sweep().await.unwrap_err());
    for error in errors {
        let Error::Refused { table, .. } = &error else {
            panic!("{error}")
        };
        assert_eq!(table, "locks");
        let told = error.to_string();
        assert!(told.contains(code), "{told}");
        let (_, cause) = told.rsplit_once(": ").unwrap();
        assert_eq!(told.matches(cause).count(), 1, "said once: {told}");
    }
    assert!(started.elapsed() < SECOND);
    assert!(host.network.counts().requests() <= 5);
}

fn host_on(engine: &Engine) -> Host {
    let network = Network::to(engine);
    let locks = LockClient::builder(network.client()).table("locks");
    let locks = locks.build().unwrap();
    Host { locks, network }
}

#[test]
fn a_missing_table_is_a_refusal_at_once_whatever_the_wait() {
    virtual_time(async {
        let host = host_on(&Engine::memory().unwrap());
        assert_refused_at_once(&host, "ResourceNotFoundException").await;
    });
}

#[test]
fn a_table_of_another_schema_is_a_refusal_at_once_and_stays_empty() {
    virtual_time(async {
        use ScalarAttributeType::{N, S};
        let schemas: [&[_]; 3] = [
            &[("pk", S)],
            &[("id", S), ("sk", S)],
            &[("pk", S), ("sk", N)],
        ];
        for keys in schemas {
            let engine = Engine::memory().unwrap();
            create_table(&engine.client(), "locks", keys).await;
            assert_refused_at_once(&host_on(&engine), "ValidationException").await;
            let items = engine.client().scan().table_name("locks").send().await;
            assert_eq!(items.unwrap().count(), 0);
        }
    });
}

type Item = HashMap<String, AttributeValue>;

async fn lock_item(lab: &Lab) -> Item {
    let request = lab.engine.client().get_item().table_name("locks");
    let request = request.key("pk", AttributeValue::S("a".into()));
    let request = request.key("sk", AttributeValue::S("fairlock/#lock".into()));
    request.send().await.unwrap().item.unwrap()
}

/// A newer version writes the lock item, in a format that only it knows.
async fn renewed_by_a_newer_version(lab: &Lab) -> Item {
    let mut item = lock_item(lab).await;
    item.insert("format".into(), AttributeValue::N("6".into()));
    item.insert("novelty".into(), AttributeValue::Bool(true));
    let request = lab.engine.client().put_item().table_name("locks");
    request.set_item(Some(item.clone())).send().await.unwrap();
    item
}

fn assert_newer(error: &Error) {
    let Error::InvalidItem { problem, item, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(*problem, ItemProblem::NewerFormat { found: 6, known: 5 });
    assert!(item.contains("#lock"), "{item}");
}

/// As many attributes as fit into the largest total size that a call may set.
fn many_tiny_attributes() -> Vec<(String, String)> {
    let letters = || (b'!'..=b'~').map(char::from);
    let pairs = letters().flat_map(|a| letters().map(move |b| format!("{a}{b}")));
    let names = letters().map(String::from).chain(pairs).take(559);
    names.map(|name| (name, String::new())).collect()
}

#[test]
fn a_call_whose_attributes_would_keep_others_from_renewing_is_refused_and_nothing_is_sent() {
    in_lab(async |lab, []| {
        let host = lab.host_with(|builder| builder.owner("o".repeat(512)));
        for (permits, fits) in [(100, true), (102, true), (170, false), (1000, false)] {
            let semaphore = host.locks.semaphore("s", permits).unwrap();
            let semaphore = semaphore.attributes(many_tiny_attributes());
            let before = host.network.counts().requests();
            match semaphore.try_acquire().await {
                Ok(permit) => {
                    assert!(fits && permit.is_some(), "{permits} permits");
                    lab.wait(SECOND).await;
                    drop(permit);
                }
                Err(error) => {
                    assert!(
                        !fits && is_invalid(&error, "shorten them"),
                        "{permits}: {error}"
                    );
                    assert_eq!(host.network.counts().requests(), before);
                }
            }
            lab.delete_lock_item("s").await;
        }
    });
}

#[test]
fn a_lock_item_without_room_for_another_entry_says_what_to_shorten() {
    in_lab(async |lab, [host, other]| {
        let guard = acquire(&host).await;
        let key = |value: &str| AttributeValue::S(value.into());
        let fill = async |bytes: usize| {
            let fill = lab.engine.client().update_item().table_name("locks");
            let fill = fill.key("pk", key("a")).key("sk", key("fairlock/#lock"));
            let fill = fill.update_expression("SET foreign_bytes = :bytes");
            let bytes = AttributeValue::S("x".repeat(bytes));
            let fill = fill.expression_attribute_values(":bytes", bytes);
            fill.send().await.is_ok()
        };
        // Fills up the item until fewer than fifty bytes are left.
        let mut bytes = 400 * 1024;
        while !fill(bytes).await {
            bytes -= 50;
        }
        let lock = other.lock();
        let refused = lock.acquire(RecordWait::Infinite).await.unwrap_err();
        assert!(matches!(refused, Error::Refused { .. }), "{refused}");
        let told = refused.to_string();
        for word in ["400 KB", "shorten", "data", "owners and attributes"] {
            assert!(told.contains(word), "{told}");
        }
        drop(guard);
    });
}

#[test]
fn a_newer_format_is_said_to_everybody_who_comes_and_its_item_stays_as_it_is() {
    virtual_time(async {
        for held in [false, true] {
            let lab = Lab::new().await;
            let (holder, host) = (lab.host(), lab.host());
            let guard = acquire(&holder).await;
            let guard = match held {
                true => Some(guard),
                false => {
                    guard.release().await.unwrap();
                    None
                }
            };
            let item = renewed_by_a_newer_version(&lab).await;
            let lock = host.lock();
            let started = Instant::now();
            for wait in WAITS {
                assert_newer(&lock.acquire(wait).await.unwrap_err());
            }
            assert_newer(&lock.try_acquire().await.unwrap_err());
            assert_newer(&lock.sweep().await.unwrap_err());
            assert!(started.elapsed() < SECOND);
            // Longer than a heartbeat, and than the holder's lease.
            lab.wait(60 * SECOND).await;
            assert_eq!(lock_item(&lab).await, item);
            drop(guard);
            lab.wait(60 * SECOND).await;
            assert_eq!(lock_item(&lab).await, item);
            assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        }
    });
}

#[test]
fn a_release_that_meets_a_newer_format_says_so_and_its_item_stays_as_it_is() {
    in_lab(async |lab, []| {
        let guard = acquire(&lab.host()).await;
        let item = renewed_by_a_newer_version(lab).await;
        let started = Instant::now();
        assert_newer(&guard.release().await.unwrap_err());
        assert!(started.elapsed() < 31 * SECOND, "{:?}", started.elapsed());
        lab.wait(60 * SECOND).await;
        assert_eq!(lock_item(lab).await, item);
    });
}

// ---------------------------------------------------------------------------------------------------------------
// The way to the table

#[test]
fn a_code_that_asks_to_slow_down_ends_no_wait_without_end() {
    virtual_time(async {
        for code in [
            "SlowDown",
            "RequestThrottled",
            "RequestThrottledException",
            "BandwidthLimitExceeded",
            "LimitExceededException",
            "RequestTimeout",
            "RequestTimeoutException",
        ] {
            // From the very first request, and on the way into the queue.
            for first in [0, 1, 2] {
                let lab = Lab::new().await;
                let (holder, host) = (lab.host(), lab.host());
                let guard = acquire(&holder).await;
                let sent = AtomicUsize::new(0);
                let _ = host.network.clone().script(move |_| {
                    let nth = sent.fetch_add(1, Ordering::Relaxed);
                    let meets = (first..first + 3).contains(&nth);
                    meets.then_some(Fault::Refuse(code))
                });
                let waiting = waits(&lab, &host).await;
                lab.wait(10 * SECOND).await;
                assert!(host.network.counts().requests() > 6, "{code}");
                guard.release().await.unwrap();
                waiting.await.unwrap().release().await.unwrap();
            }
        }
    });
}

/// A client that talks to this address, where something or nothing listens, and its network.
fn over_http(listener: &TcpListener) -> Host {
    let network = http::network();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let locks = LockClient::builder(http::client(&network, &url));
    // Short, because these tests take real time.
    let locks = locks
        .request_timeout(200 * MS)
        .testing(|it| it.outage_timeout = Some(SECOND));
    let locks = locks.build().unwrap();
    Host { locks, network }
}

async fn assert_unavailable(host: &Host) {
    for wait in WAITS {
        let lock = host.lock();
        let before = host.network.counts().of("UpdateItem");
        // The error comes even for a wait without a time limit, because the client's outage time-out bounds it.
        let refused = lock.acquire(wait).await.unwrap_err();
        let is_typed = matches!(refused, Error::Unavailable { verb: "enter", .. });
        assert!(is_typed, "{refused}");
        let enters = host.network.counts().of("UpdateItem") - before;
        // On a busy machine the time of the call is over before the last try.
        let is_few = (1..=4).contains(&enters);
        assert!(is_few || wait != RecordWait::NoWait, "{enters}");
    }
}

#[test]
fn an_endpoint_where_nobody_listens_is_unavailable_after_a_few_attempts_or_an_outage_time_out() {
    real_time(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = over_http(&listener);
        drop(listener);
        assert_unavailable(&host).await;
    });
}

#[test]
fn an_endpoint_that_takes_connections_and_says_nothing_is_as_one_where_nobody_listens() {
    real_time(async {
        // The listener's backlog accepts the connections.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        assert_unavailable(&over_http(&listener)).await;
    });
}

/// Answers every request on its one thread with an empty document.
fn says_nothing_of_worth(listener: TcpListener) {
    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    std::thread::spawn(move || {
        // The loop ends with the test's process.
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
}

#[test]
fn a_server_that_is_not_dynamodb_is_told_from_a_table_without_keys() {
    real_time(async {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let host = over_http(&listener);
        says_nothing_of_worth(listener);
        let created = host.locks.create_table().await;
        let checked = host.locks.check_table().await.map(drop);
        for refused in [created.unwrap_err(), checked.unwrap_err()] {
            assert!(matches!(refused, Error::Refused { .. }), "{refused}");
            let told = refused.to_string();
            assert!(told.contains("not DynamoDB's"), "{told}");
        }
    });
}

/// DynamoDB is silent from the first request on, for longer than the caller waits. Then it answers again.
async fn silent(when: When, wait: RecordWait) {
    let lab = Lab::new().await;
    let host = lab.host();
    let heals = Instant::now() + 15 * SECOND;
    let network = host.network.clone();
    let _ = network.script(move |_| (Instant::now() < heals).then_some(Fault::Hang(when)));
    let lock = host.lock();
    let started = Instant::now();
    let ended = lock.acquire(wait).await;
    let took = started.elapsed();
    if wait == RecordWait::Infinite {
        // The call goes on until there is an answer.
        assert!((15 * SECOND..20 * SECOND).contains(&took), "{took:?}");
        ended.unwrap().release().await.unwrap();
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
        return;
    }
    let refused = ended.unwrap_err();
    let is_typed = matches!(
        refused,
        Error::Unavailable { .. } | Error::NotGranted { .. }
    );
    assert!(is_typed, "{when:?}, {wait:?}: {refused}");
    let bound = match wait {
        RecordWait::Timeout(span) => span + 2 * SECOND,
        RecordWait::NoWait | RecordWait::Infinite => 10 * SECOND,
    };
    assert!(took <= bound + 10 * MS, "{when:?}, {wait:?}: {took:?}");
    lab.wait(15 * SECOND).await;
    // This is before the lease of an applied request would have ended: the lock was released, and did not have to expire.
    assert!(started.elapsed() < 27 * SECOND);
    let left = lab.items("a").await;
    assert!(left.is_empty() || left == ["fairlock/#lock"], "{left:?}");
    let other = lab.host().lock();
    let guard = other.try_acquire().await.unwrap();
    assert!(guard.is_some(), "{when:?}, {wait:?}: not free");
}

#[test]
fn an_endpoint_that_falls_silent_is_waited_for_or_a_typed_error_in_time_and_nothing_is_left() {
    for when in [When::Before, When::After] {
        for wait in WAITS {
            virtual_time(silent(when, wait));
        }
    }
}
