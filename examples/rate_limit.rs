//! Six hosts call a service that allows two calls at a time, and two in each period: a semaphore counts for all of them.
//! `cargo run --example rate_limit`
//! In production each host uses `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{Error, LockClient, LockGuard, RecordWait};
use tokio::time::{Instant, sleep};

/// Every host must pass the same number.
const PERMITS: u64 = 2;
const PERIOD: Duration = Duration::from_millis(100);

/// The service, which counts the calls that it serves at the same time.
#[derive(Default)]
struct Service {
    now: AtomicU64,
    most: AtomicU64,
}

impl Service {
    async fn call(&self) {
        self.most
            .fetch_max(1 + self.now.fetch_add(1, Relaxed), Relaxed);
        sleep(Duration::from_millis(30)).await;
        self.now.fetch_sub(1, Relaxed);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dynamodb = Engine::memory()?.client();
    let host = |name: &str| LockClient::builder(dynamodb.clone()).owner(name).build();
    let operator = host("operator")?;
    operator.create_table().await?;
    let hosts = (1..=6)
        .map(|n| host(&format!("host {n}")))
        .collect::<Result<Vec<_>, _>>()?;
    let service = Service::default();

    // An operator takes all permits at once, and so keeps every host from calling.
    let permits = operator.semaphore("calls", PERMITS)?;
    let pause = permits.acquire_many(PERMITS, RecordWait::Infinite).await?;
    let hasty = hosts[0].semaphore("calls", PERMITS)?.try_acquire().await?;
    println!(
        "while the operator holds both permits, a call is let in: {}",
        hasty.is_some()
    );

    let calls = hosts
        .iter()
        .enumerate()
        .map(|(n, locks)| call(n + 1, locks, &service));
    let calls = futures::future::join_all(calls);
    let began = Instant::now();
    let (ended, paused) = tokio::join!(calls, pause.release());
    paused?;
    for ended in ended {
        ended?;
    }
    let periods = began.elapsed().as_millis() / PERIOD.as_millis();
    println!(
        "6 calls in {periods} periods, at most {} at a time",
        service.most.into_inner()
    );
    let all = permits
        .try_acquire_many(PERMITS)
        .await?
        .ok_or("a permit is left behind")?;
    println!("both permits are back");
    all.release().await?;
    Ok(())
}

async fn call(n: usize, locks: &LockClient, service: &Service) -> Result<(), Error> {
    let permits = locks.semaphore("calls", PERMITS)?;
    let called = permits
        .run(
            RecordWait::Timeout(Duration::from_secs(60)),
            async |permit: &LockGuard| {
                println!("host {n} calls under ticket {}", permit.ticket());
                // The host keeps its permit for at least one period, so all hosts together begin two calls in each period.
                tokio::join!(service.call(), sleep(PERIOD));
            },
        )
        .await;
    match called {
        Ok(ran) => ran.released,
        // The wait was over before the caller's turn. Try again later.
        Err(Error::NotGranted { waited, .. }) => {
            eprintln!("host {n} gives up after {waited:.0?}");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
