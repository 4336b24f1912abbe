//! A first-come-first-served, starvation-free, distributed lock on DynamoDB.
//!
//! Name a lock, take a ticket, wait for your turn, work under a lease with a fencing token, and hand over.
//!
//! # Limitations
//!
//! - **A lease is not a guarantee against a stopped process.** Who is stopped for longer than its lease learns
//!   afterwards that the lock was lost. What must never be written late has to be [fenced](LockGuard::fence) with the
//!   [`ticket`](LockGuard::ticket); `docs/fencing.md` says how, for DynamoDB, PostgreSQL and S3.
//! - **Clocks must run at rates within 2 % of each other** over one lease. They may show anything.
//! - **One region, and no cache**: eventually consistent global tables are unsafe for locks across regions, and so is
//!   DAX in between.
//! - **Not re-entrant, and no upgrade**: who acquires a lock twice waits for itself, and who shares one and wants it
//!   alone gives it back first.
//! - **Tickets of those who share a lock do not exclude each other**, nor do those of a [`Semaphore`].
//! - **A lease of a [`LeaseLock`] is over by DynamoDB's clock, and nothing tells who has it**, but
//!   [`Lease::expires_at`], for a clock of the caller's own.
//! - **The lock's item grows** with those who share it and with its [data](LockGuard::set_data), and its writes are paid
//!   for by the kilobyte: `docs/operations.md`.
//! - **Anyone who may write the table can take a lock**: locks coordinate those who cooperate.
//! - Lock items that are deleted or restored by hand can send tickets back, as `docs/operations.md` says.
//!
//! # Guarantees
//!
//! - **Exclusion**: while a caller believes that it has a lock alone, nobody else believes to have it, and those who
//!   share it never have more permits than there are. With no assumption on clocks at all, tickets only grow, so a
//!   resource that refuses smaller ones than it has seen never accepts a stale writer.
//! - **Order**: grants are in the order of tickets. Who draws one, joins the queue within the join timeout and renews in
//!   time is never passed over.
//! - **Progress**: whoever waits is granted in the end; all who died at one moment cost the others one lease
//!   together (who stands more than 32 tickets back may notice up to a heartbeat later, and only 128 in a row are
//!   timed at once).
//! - **Nothing is left behind**: every future and guard may be dropped at any point, and an idle lock is one item,
//!   small but for the data on it, which DynamoDB's TTL removes.
//!
//! `docs/protocol.md` says how, and which tests show it.
//!
//! # The end of a process
//!
//! A guard that is dropped is released in the background, and a process that ends takes its background along. So a program runs its
//! work in [`LockClient::scope`], which releases and leaves everything however the work ends, or calls [`LockClient::shutdown`]
//! before it ends. `docs/operations.md` has each way to end, and what it leaves.
//!
//! # What there is
//!
//! | what | item |
//! |---|---|
//! | a lock for one, in the order of tickets | [`FairLock::acquire`], [`FairLock::run`] |
//! | shared by readers, in the same queue | [`FairLock::acquire_shared`], [`LockGuard::downgrade`] |
//! | several permits | [`LockClient::semaphore`] |
//! | several locks at once | [`LockClient::multi_lock`] |
//! | held for a time by a name, across processes | [`LockClient::lease_lock`] |
//! | leading | [`FairLock::candidate`] |
//! | data from holder to holder | [`LockGuard::set_data`] |
//! | writes that a stale holder cannot make | [`LockGuard::fence`], [`LockGuard::check_item`] |
//! | items changed only as they were read | [`VersionedTable`] |
//! | the queue and what befalls a hold | [`FairLock::inspect`], [`FairLock::watch`], [`LockGuard::events`] |
//!
//! `docs/features.md` has them beside other locks, each with the test that shows it.
//!
//! # Examples
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use fairlock::{LockClient, RecordWait, TableOptions, embedded::Engine};
//!
//! // In production: aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)
//! let dynamodb = Engine::memory()?.client();
//! let locks = LockClient::builder(dynamodb).table("locks").build()?;
//! locks.create_table(&TableOptions::default()).await?;
//!
//! // However this work ends, by `?` too, its locks are released before the scope returns.
//! locks.scope(async |locks| {
//!     let lock = locks.fair_lock("account/42")?;
//!     let guard = lock.acquire(RecordWait::Timeout(Duration::from_secs(60))).await?;
//!     tokio::select! {
//!         lost = guard.lost() => return Err(lost.into()),
//!         () = async { println!("working under token {}", guard.ticket()) } => {}
//!     }
//!     guard.release().await?;
//!     Ok(())
//! })
//! .await
//! # }
//! # #[cfg(not(feature = "embedded"))]
//! # fn main() {}
//! ```

mod acquire;
mod admin;
mod background;
mod client;
mod client_inner;
mod clock;
mod config;
mod counter;
mod data;
mod error;
mod events;
mod exit;
mod fence;
mod guard;
mod heartbeat;
mod hold;
mod inspect;
mod leader;
mod lease_lock;
mod lock;
mod multi_lock;
mod name;
mod offer;
mod place_id;
mod queue;
mod random_source;
mod reading;
mod reclaim;
mod reserved;
mod run;
mod scope;
mod semaphore;
mod signal;
mod size;
mod slots;
mod snapshot;
mod state;
mod store;
mod sweep_report;
mod sweeper;
mod sweeping;
mod table;
mod versioned;
mod wait;
mod waiter;
mod watch;

pub use client::{HeldLocks, LockClient, LockClientBuilder, ShutdownReport, Unfinished};
pub use clock::Clock;
pub use error::{Closed, Error, Holder, Invalid, ItemProblem, LockLost, LossReason};
pub use events::HoldEvent;
#[cfg(feature = "embedded")]
#[doc(inline)]
pub use fairlock_embedded as embedded;
pub use fairlock_protocol::numeral::ParseTicketError;
pub use fairlock_protocol::ticket::Ticket;
pub use fence::{Fence, Fenceable};
pub use guard::LockGuard;
pub use leader::{Candidate, LeadershipEvent, ResignHandle};
pub use lease_lock::{Lease, LeaseLock};
pub use lock::FairLock;
pub use multi_lock::{MultiLock, MultiLockGuard};
pub use place_id::PlaceId;
pub use random_source::RandomSource;
pub use run::RunOutcome;
pub use semaphore::Semaphore;
pub use state::{LockData, LockState, Outage, Participant, Stage, Waiting};
pub use sweep_report::{IdleLocks, SweepReport};
pub use sweeping::{SweepOptions, Sweeper, TableSweepReport};
pub use table::{Finding, Severity, TableOptions, TableReport};
pub use versioned::{
    Change, Item, UpdateError, UpdateOutcome, Version, VersionedTable, VersionedTableBuilder,
};
pub use wait::RecordWait;

/// The example of that page compiles.
#[cfg(doctest)]
#[doc = include_str!("../docs/fencing.md")]
struct FencingPage;

/// The README's example compiles and runs.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The example for services compiles.
#[cfg(doctest)]
#[doc = include_str!("../docs/operations.md")]
struct OperationsPage;

/// The template for tests of services compiles and runs.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../docs/testing-your-service.md")]
struct TestingYourService;

/// So do those for who comes from another lock client.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../docs/migration.md")]
struct Migration;
