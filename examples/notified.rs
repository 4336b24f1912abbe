//! Two hosts that notify each other over a message broker: the second waits for a minute, and polls the table hardly at all.
//!
//! `cargo run --example notified`
//!
//! It runs on tokio's paused clock. With the feature `udp`, `fairlock::UdpNotifier` does without a broker.

use std::collections::HashMap;
use std::error::Error;
use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fairlock::embedded::{Engine, Network};
use fairlock::{Clock, LockClient, Notifier, RecordWait};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Stands for a broker such as NATS: a message goes to whoever subscribed to its subject.
type Broker = Arc<Mutex<HashMap<String, Sender<Vec<u8>>>>>;

/// A subject for each client. Its name stands in the table, beside each place of the client.
#[derive(Debug)]
struct OverBroker {
    subject: String,
    broker: Broker,
    messages: tokio::sync::Mutex<Receiver<Vec<u8>>>,
}

impl OverBroker {
    fn new(broker: &Broker, subject: &str) -> Self {
        let (sender, messages) = channel(64);
        let mut subjects = broker.lock().unwrap_or_else(PoisonError::into_inner);
        subjects.insert(subject.into(), sender);
        OverBroker {
            subject: subject.into(),
            broker: Arc::clone(broker),
            messages: tokio::sync::Mutex::new(messages),
        }
    }
}

impl Notifier for OverBroker {
    fn address(&self) -> String {
        self.subject.clone()
    }

    fn send(&self, address: &str, datagram: &[u8]) {
        let subjects = self.broker.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(subscriber) = subjects.get(address) {
            // Best effort: what does not fit is lost, and its reader polls as usual.
            let _ = subscriber.try_send(datagram.to_vec());
        }
    }

    fn receive(&self) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send + '_>> {
        Box::pin(async {
            match self.messages.lock().await.recv().await {
                Some(message) => message,
                None => pending().await,
            }
        })
    }
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
    let engine = Engine::memory()?.with_clock(clock.clone());
    let (broker, network) = (Broker::default(), Network::to(&engine));
    let builder = |client| LockClient::builder(client).clock(clock.clone());
    let first = builder(engine.client())
        .notifier(OverBroker::new(&broker, "first"))
        .build()?;
    let second = builder(network.client())
        .notifier(OverBroker::new(&broker, "second"))
        .build()?;
    first.create_table().await?;

    let guard = first
        .fair_lock("report")?
        .acquire(RecordWait::Infinite)
        .await?;
    println!(
        "the first host holds the lock under token {}",
        guard.ticket()
    );
    let lock = second.fair_lock("report")?;
    let holds_for_a_minute = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        guard.release().await
    };
    let (released, next) = tokio::join!(holds_for_a_minute, lock.acquire(RecordWait::Infinite));
    released?;
    let next = next?;
    let sent = network.counts().requests();
    println!(
        "the second host holds the lock under token {}, after {sent} requests",
        next.ticket()
    );
    next.release().await?;
    Ok(())
}
