//! Credentials that take long, fail, expire or are wrong: what they cost callers and holders, by a provider that a test scripts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::future::ProvideCredentials as Providing;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Credentials, ProvideCredentials};
use aws_sdk_dynamodb::types::{AttributeValue, ScalarAttributeType};
use fairlock::embedded::{Fault, Network};
use fairlock::{Change, Clock, Error, LockClient, LockClientBuilder, RecordWait, VersionedTable};
use tokio::time::{Instant, sleep};

use fairlock_testkit::keyed_tables::create_table;
use fairlock_testkit::lab::{EPOCH, Host, Lab, SECOND, acquire, in_lab};
use fairlock_testkit::real_time;

/// What the provider does when it is asked for the n-th time.
#[derive(Clone, Copy, Debug)]
enum Load {
    /// Returns credentials after this time. They are valid for this long from then on, or for ever.
    Gives(Duration, Option<Duration>),
    Fails(fn() -> CredentialsError),
    Hangs,
    Panics,
}

/// A provider by a script, which counts how often it was asked.
#[derive(Clone)]
struct Scripted {
    began: Instant,
    asked: Arc<AtomicUsize>,
    script: Arc<dyn Fn(usize, Duration) -> Load + Send + Sync>,
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scripted")
    }
}

impl Scripted {
    /// `script` is given how often the provider was asked before, and the time since its beginning.
    fn new(script: impl Fn(usize, Duration) -> Load + Send + Sync + 'static) -> Self {
        Scripted {
            began: Instant::now(),
            asked: Arc::default(),
            script: Arc::new(script),
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn expiry(&self, life: Duration) -> SystemTime {
        UNIX_EPOCH + EPOCH + self.began.elapsed() + life
    }
}

impl ProvideCredentials for Scripted {
    fn provide_credentials<'a>(&'a self) -> Providing<'a>
    where
        Self: 'a,
    {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let load = (self.script)(number, self.began.elapsed());
        Providing::new(async move {
            match load {
                Load::Gives(after, life) => {
                    sleep(after).await;
                    let expiry = life.map(|life| self.expiry(life));
                    Ok(Credentials::new("id", "secret", None, expiry, "script"))
                }
                Load::Fails(how) => Err(how()),
                Load::Hangs => std::future::pending().await,
                Load::Panics => panic!("the provider's own"),
            }
        })
    }
}

fn dynamodb(network: &Network, provider: &Scripted) -> Client {
    let config = network.client().config().to_builder();
    Client::from_conf(config.credentials_provider(provider.clone()).build())
}

fn host(
    lab: &Lab,
    provider: &Scripted,
    set: impl FnOnce(LockClientBuilder) -> LockClientBuilder,
) -> Host {
    let network = Network::to(&lab.engine);
    let builder = LockClient::builder(dynamodb(&network, provider)).table("locks");
    let builder = builder.clock(lab.clock.clone()).seeded(7);
    Host {
        locks: set(builder).build().unwrap(),
        network,
    }
}

/// The errors of the SDK's providers, by kind: a process or an endpoint that fails, nobody who has any, a file that says nonsense, and an
/// endpoint that takes too long.
fn failures() -> [fn() -> CredentialsError; 4] {
    [
        || CredentialsError::provider_error("HTTP status 503"),
        || CredentialsError::not_loaded("no provider has any"),
        || CredentialsError::invalid_configuration("a profile that is not there"),
        || CredentialsError::provider_timed_out(SECOND),
    ]
}

#[test]
fn credentials_that_take_longer_than_an_attempt_come_with_one_load_for_all_who_wait() {
    for takes in [3, 9, 25].map(|span| SECOND * span) {
        in_lab(async |lab, []| {
            let provider = Scripted::new(move |_, _| Load::Gives(takes, None));
            // Loading is no outage: it may take longer than callers put up with one.
            let host = host(lab, &provider, |it| {
                it.testing(|it| it.outage_timeout = Some(SECOND))
            });
            let started = Instant::now();
            let asks = ["a", "b", "c"].map(|name| {
                let lock = host.locks.fair_lock(name).unwrap();
                let wait = RecordWait::Timeout(takes + 5 * SECOND);
                tokio::spawn(async move { lock.acquire(wait).await })
            });
            for asked in asks {
                let guard = asked.await.unwrap().unwrap();
                // The longest pause between two attempts, and a moment.
                let took = started.elapsed();
                assert!(took <= takes + 3 * SECOND, "{took:?}");
                guard.release().await.unwrap();
            }
            assert_eq!(provider.asked(), 1);
        });
    }
}

#[test]
fn who_does_not_wait_is_refused_in_its_time_and_the_load_goes_on_for_the_next_call() {
    in_lab(async |lab, []| {
        let provider = Scripted::new(|_, _| Load::Gives(20 * SECOND, None));
        let host = host(lab, &provider, |it| it);
        let lock = host.lock();
        let started = Instant::now();
        for _ in 0..2 {
            let refused = lock.acquire(RecordWait::NoWait).await.unwrap_err();
            assert!(matches!(refused, Error::Unavailable { .. }), "{refused}");
            let told = refused.to_string();
            assert!(told.contains("no valid credentials so far"), "{told}");
        }
        // Five request time-outs each, as documented.
        assert!(started.elapsed() <= 20 * SECOND);
        assert_eq!(host.network.counts().requests(), 0);
        lab.wait(20 * SECOND).await;
        let guard = lock.acquire(RecordWait::NoWait).await.unwrap();
        guard.release().await.unwrap();
        assert_eq!(provider.asked(), 1);
    });
}

#[test]
fn a_provider_that_fails_at_first_is_asked_again_until_it_has_some() {
    for failure in failures() {
        in_lab(async |lab, []| {
            let provider = Scripted::new(move |_, since| match since < 8 * SECOND {
                true => Load::Fails(failure),
                false => Load::Gives(Duration::ZERO, None),
            });
            let host = host(lab, &provider, |it| it);
            let lock = host.lock();
            let started = Instant::now();
            let guard = lock
                .acquire(RecordWait::Timeout(30 * SECOND))
                .await
                .unwrap();
            let took = started.elapsed();
            assert!(took >= 8 * SECOND && took <= 12 * SECOND, "{took:?}");
            assert!(provider.asked() <= 10, "{}", provider.asked());
            guard.release().await.unwrap();
        });
    }
}

#[test]
fn a_load_that_hangs_or_panics_is_given_up_and_begun_again() {
    for (first, at) in [(Load::Hangs, 30), (Load::Panics, 0)] {
        in_lab(async |lab, []| {
            let provider = Scripted::new(move |number, _| match number {
                0 => first,
                _ => Load::Gives(Duration::ZERO, None),
            });
            let host = host(lab, &provider, |it| it);
            let lock = host.lock();
            let started = Instant::now();
            // The panic is that of the background task that asked.
            let guard = lock.acquire(RecordWait::Timeout(60 * SECOND)).await;
            if let Load::Hangs = first {
                guard.unwrap().release().await.unwrap();
                assert!(started.elapsed() >= at * SECOND);
            }
            let guard = lock
                .acquire(RecordWait::Timeout(60 * SECOND))
                .await
                .unwrap();
            guard.release().await.unwrap();
            assert_eq!(provider.asked(), 2);
        });
    }
}

/// With each pair of a load and a validity, a hold of 20 minutes survives, with a lease of three seconds.
#[test]
fn credentials_that_expire_are_renewed_while_they_are_valid_and_no_hold_is_lost() {
    for (takes, life) in [(0, 20), (2, 20), (9, 30), (20, 60), (29, 900), (29, 3600)] {
        in_lab(async |lab, []| {
            let (takes, life) = (SECOND * takes, SECOND * life);
            let provider = Scripted::new(move |_, _| Load::Gives(takes, Some(life)));
            let host = host(lab, &provider, |it| it.lease_duration(3 * SECOND));
            let guard = acquire(&host).await;
            let spans = 1200 / u32::try_from(life.as_secs()).unwrap() + 1;
            lab.wait(1200 * SECOND).await;
            assert!(guard.is_held(), "{takes:?}, {life:?}");
            guard.release().await.unwrap();
            let asked = provider.asked();
            assert!(asked <= 3 * spans as usize + 1, "{asked} for {spans}");
        });
    }
}

/// A refresh that fails for a while is no loss either, as long as what is there is valid.
#[test]
fn a_renewal_of_credentials_that_fails_for_minutes_is_repeated_while_the_old_ones_serve() {
    in_lab(async |lab, []| {
        let provider = Scripted::new(|number, since| {
            let fails = since > 600 * SECOND && since < 850 * SECOND && number > 0;
            match fails {
                true => Load::Fails(failures()[0]),
                false => Load::Gives(Duration::ZERO, Some(900 * SECOND)),
            }
        });
        let host = host(lab, &provider, |it| it.lease_duration(3 * SECOND));
        let guard = acquire(&host).await;
        lab.wait(1500 * SECOND).await;
        assert!(guard.is_held());
        guard.release().await.unwrap();
        assert!(provider.asked() <= 30, "{}", provider.asked());
    });
}

/// The host's clock does not decide: credentials that look expired from the start are used, and DynamoDB says whether it takes them.
#[test]
fn a_host_whose_clock_is_hours_off_uses_what_its_provider_gives() {
    for (ahead, life) in [(3 * 3600, 3600), (0, 3600)] {
        in_lab(async |lab, []| {
            let provider = Scripted::new(move |_, _| Load::Gives(3 * SECOND, Some(life * SECOND)));
            let clock: Clock = lab.clock.clone().ahead(SECOND * ahead);
            let host = host(lab, &provider, |it| it.clock(clock));
            let guard = acquire(&host).await;
            lab.wait(60 * SECOND).await;
            assert!(guard.is_held());
            guard.release().await.unwrap();
            assert!(provider.asked() <= 8, "{}", provider.asked());
        });
    }
}

#[test]
fn credentials_that_dynamodb_rejects_are_loaded_again_until_it_takes_them() {
    for code in [
        "UnrecognizedClientException",
        "ExpiredTokenException",
        "InvalidSignatureException",
    ] {
        in_lab(async |lab, []| {
            // Corrected after a minute.
            let provider = Scripted::new(|_, _| Load::Gives(SECOND, None));
            let right = Arc::new(AtomicUsize::new(usize::MAX));
            let (asked, wrong) = (Arc::clone(&provider.asked), Arc::clone(&right));
            let host = host(lab, &provider, |it| it);
            let _ = host.network.clone().script(move |_| {
                let is_right = asked.load(Ordering::SeqCst) > wrong.load(Ordering::SeqCst);
                (!is_right).then_some(Fault::Refuse(code))
            });
            let lock = host.lock();
            let asks = tokio::spawn(async move { lock.acquire(RecordWait::Infinite).await });
            lab.wait(60 * SECOND).await;
            assert!(!asks.is_finished());
            let before = provider.asked();
            assert!(before > 1 && before <= 8, "{before}");
            right.store(before, Ordering::SeqCst);
            let started = Instant::now();
            asks.await.unwrap().unwrap().release().await.unwrap();
            assert!(started.elapsed() <= 15 * SECOND);
            // From then on they are kept.
            let after = provider.asked();
            lab.wait(300 * SECOND).await;
            assert_eq!(provider.asked(), after);
        });
    }
}

#[test]
fn a_versioned_table_waits_for_its_credentials_too() {
    in_lab(async |lab, []| {
        create_table(
            &lab.engine.client(),
            "accounts",
            &[("id", ScalarAttributeType::S)],
        )
        .await;
        let provider = Scripted::new(|_, _| Load::Gives(5 * SECOND, None));
        let dynamodb = dynamodb(&Network::to(&lab.engine), &provider);
        let table = VersionedTable::builder(dynamodb, "accounts");
        let table = table.clock(lab.clock.clone()).build().unwrap();
        let key = [("id", AttributeValue::S("1".into()))];
        let updated = table.update(key, |item| {
            Ok::<_, std::convert::Infallible>(Change::Put(item.unwrap_or_default()))
        });
        updated.await.unwrap();
        assert_eq!(provider.asked(), 1);
    });
}

/// The load belongs to the client's runtime: the caller's own may end before it.
#[test]
fn a_load_outlives_the_runtime_of_the_call_that_began_it() {
    let own = tokio::runtime::Builder::new_multi_thread();
    let own = { own }.worker_threads(1).enable_all().build().unwrap();
    let (lab, host, provider) = own.block_on(async {
        let lab = Lab::new().await;
        let provider = Scripted::new(|_, _| Load::Gives(SECOND / 2, None));
        let host = host(&lab, &provider, |it| it.request_timeout(SECOND / 5));
        (lab, host, provider)
    });
    let short = tokio::runtime::Builder::new_current_thread();
    let short = { short }.enable_all().build().unwrap();
    let refused = short.block_on(host.lock().inspect());
    drop(short);
    assert!(refused.is_err() || provider.asked() == 1);
    real_time(async {
        let lock = host.lock();
        let guard = lock
            .acquire(RecordWait::Timeout(60 * SECOND))
            .await
            .unwrap();
        guard.release().await.unwrap();
        assert_eq!(provider.asked(), 1);
    });
    drop((lab, host));
}
