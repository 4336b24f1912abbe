//! Runs a number of uncontended turns, one after the other, for a program that counts instructions. The turns are run by fairlock, or by
//! two calls of the bare SDK. These have the same expressions, values and time-outs, and as little retrying.
//!
//! Answers are recorded from the embedded engine once and then played back, so that only the client is counted. `scripts/instructions`
//! counts.
//!
//! ```text
//! cargo run --release -p fairlock-bench -- instructions fairlock 100
//! ```
#![expect(
    clippy::unwrap_used,
    reason = "nothing to count where the turns cannot be taken"
)]

mod bare;
mod player;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Credentials;
use clap::{Parser, ValueEnum};
use fairlock::embedded::{Engine, Network};
use fairlock::{FairLock, LockClient, RecordWait};

use bare::Bare;
use player::Player;

/// The first turn of a client is entered without a date, because no answer has told it the time yet.
const REHEARSALS: usize = 2;

/// Uncontended turns, one after the other, for a program that counts instructions.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// By fairlock, or by two bare calls of the SDK
    by: Way,
    /// How many turns
    turns: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Way {
    Fairlock,
    Bare,
}

/// Runs the driver by its command line.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(options: Options) {
    let Options { by, turns } = options;
    let network = Network::to(&Engine::memory().unwrap());
    let player = Player::recording(network.http_client());
    let config = network.client().config().to_builder();
    // Signed, as a table in AWS needs it.
    let signed = Credentials::new("id", "key", None, None, "instructions");
    let config = config.credentials_provider(signed);
    let client = Client::from_conf(config.http_client(player.http_client()).build());
    let lock = lock(&client).await;
    for _ in 0..REHEARSALS {
        turn(&lock).await;
    }
    match by {
        Way::Fairlock => {
            player.play();
            for _ in 0..turns {
                turn(&lock).await;
            }
        }
        Way::Bare => {
            let bare = Bare::new(&client, player.requests());
            player.play();
            for _ in 0..turns {
                bare.turn().await;
            }
        }
    }
}

async fn lock(client: &Client) -> FairLock {
    let locks = LockClient::builder(client.clone()).table("locks");
    let locks = locks.build().unwrap();
    locks.create_table().await.unwrap();
    locks.fair_lock("account/42").unwrap()
}

async fn turn(lock: &FairLock) {
    let guard = lock.acquire(RecordWait::default()).await.unwrap();
    guard.release().await.unwrap();
}
