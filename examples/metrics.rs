//! Two hosts of a service take turns, and show to Prometheus how long they wait and hold, and what their requests cost.
//!
//! `cargo run --example metrics` prints the metrics after three turns of each host.
//! `cargo run --example metrics -- 127.0.0.1:9464 locks.db 60` shows them over HTTP for 60 s, with the locks in a file that processes share.
//! `docs/metrics.md` says what they mean, and has a dashboard and alerts.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{LockClient, RecordWait};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use tokio::time::sleep;

type Done<T> = Result<T, Box<dyn Error>>;

const WORK: Duration = Duration::from_millis(100);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done<()> {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match &args[..] {
        [] => {
            let handle = exporter()?.install_recorder()?;
            let (one, other) = hosts(&Engine::memory()?).await?;
            tokio::try_join!(turns(&one, 3), turns(&other, 3))?;
            tokio::join!(ended(one), ended(other));
            print!("{}", handle.render());
        }
        [address, file, seconds] => {
            let address: SocketAddr = address.parse()?;
            exporter()?.with_http_listener(address).install()?;
            let (one, other) = hosts(&Engine::file(file)?).await?;
            let service =
                async { tokio::try_join!(turns(&one, u32::MAX), turns(&other, u32::MAX)) };
            tokio::select! {
                ended = service => drop(ended?),
                () = sleep(Duration::from_secs(seconds.parse()?)) => {}
            }
            tokio::join!(ended(one), ended(other));
        }
        _ => return Err("metrics [ADDRESS FILE SECONDS]".into()),
    }
    Ok(())
}

/// A recorder that divides the histograms as the dashboard and the alerts need it.
fn exporter() -> Done<PrometheusBuilder> {
    let mut exporter = PrometheusBuilder::new();
    for (metric, bounds) in fairlock::metric_buckets() {
        exporter = exporter.set_buckets_for_metric(Matcher::Full(metric.into()), bounds)?;
    }
    Ok(exporter)
}

/// The recorder must be there before the clients are built, which tell it what each metric is.
async fn hosts(engine: &Engine) -> Done<(LockClient, LockClient)> {
    let host = |owner| {
        let builder = LockClient::builder(engine.client()).owner(owner);
        // There are few locks here. By default their names are no label.
        builder.lock_label(str::to_owned).build()
    };
    let (one, other) = (host("one")?, host("other")?);
    one.create_table().await?;
    Ok((one, other))
}

async fn turns(locks: &LockClient, turns: u32) -> Done<()> {
    let lock = locks.fair_lock("orders")?;
    for _ in 0..turns {
        let guard = lock.acquire(RecordWait::Infinite).await?;
        sleep(WORK).await;
        guard.release().await?;
    }
    Ok(())
}

async fn ended(locks: LockClient) {
    locks
        .shutdown(fairlock::HeldLocks::Release, Duration::from_secs(2))
        .await;
}
