//! A first-come-first-served, starvation-free, distributed lock on DynamoDB.
//!
//! A caller draws a ticket with one conditional write, waits in a queue for its turn, and works under a lease that the client
//! renews. The ticket is also the fencing token of the hold. The release hands the lock to the next caller in the queue by the
//! same write: no herd of waiters races for it.
//!
//! All state is in one DynamoDB table, which serves any number of locks. There is no server to run.
//!
//! # Examples
//!
//! ```
//! # #[cfg(feature = "embedded")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use fairlock::{LockClient, RecordWait, embedded::Engine};
//!
//! // In production: aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)
//! let dynamodb = Engine::memory()?.client();
//! let locks = LockClient::builder(dynamodb).build()?;
//! locks.create_table().await?;
//!
//! // However this work ends, by `?` too, the scope releases its locks before it returns.
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
//!
//! # Do you need a lock?
//!
//! Use fairlock if processes on several hosts take turns at one thing, and if each of them must get its turn in the end. Use
//! something else in these cases:
//!
//! - **A single DynamoDB item**: a conditional write needs no lock. [`VersionedTable`] changes items only as they were read.
//! - **Up to 100 items in one step**: `TransactWriteItems` is all or nothing by itself.
//! - **Inside one process**: a mutex of tokio or of the standard library is faster by orders of magnitude.
//! - **More than some tens of turns a second of one lock**: a successor in another process learns of its turn by polling. Each
//!   poll and each release is a round trip.
//! - **A resource that can compare neither tickets nor versions**: no lease-based lock can keep it correct.
//! - **Jobs that are handed out in no order**: use a message queue.
//!
//! # Which item for what
//!
//! | purpose | item |
//! |---|---|
//! | an exclusive lock, granted in the order of tickets | [`FairLock::acquire`], [`FairLock::run`] |
//! | readers together and writers alone, in the same queue | [`FairLock::acquire_shared`], [`LockGuard::downgrade`] |
//! | a lock of several permits | [`LockClient::semaphore`] |
//! | several locks at once, all or none | [`LockClient::multi_lock`] |
//! | a lock held for a time by a name, across processes | [`LockClient::lease_lock`] |
//! | a leader | [`FairLock::candidate`] |
//! | data that goes from holder to holder | [`LockGuard::set_data`] |
//! | writes that a stale holder cannot make | [`LockGuard::fence`], [`LockGuard::check_item`] |
//! | items that are changed only as they were read | [`VersionedTable`] |
//! | the queue, and the events of a hold | [`FairLock::inspect`], [`FairLock::watch`], [`LockGuard::events`] |
//!
//! `docs/features.md` compares these with other locks.
//!
//! # Guarantees
//!
//! - **Exclusion**: while a caller considers itself the exclusive holder of a lock, no other caller considers itself a holder.
//!   The callers that share a lock never hold more permits than it has. This assumes clock rates within the margin below.
//! - **Fencing**: tickets of a lock only grow, as long as its item stays. A new item starts from the unix time in microseconds, by the
//!   later of DynamoDB's clock and the host's. So an item that TTL removed comes back with larger tickets. A resource that refuses a ticket
//!   smaller than the largest it has seen never accepts a stale writer.
//! - **Order**: grants follow the order of tickets. A waiter that joins the queue within the join timeout and renews its lease in
//!   time is never overtaken.
//! - **Progress**: every waiter is granted the lock in the end. All clients that crash at one moment delay the others by one
//!   lease in total. A waiter more than 32 tickets back may notice up to a heartbeat later, and at most 128 crashed waiters in a
//!   row are timed at once.
//! - **Nothing is left behind**: a caller may drop every future and every guard at any point. An idle lock is one item, which is
//!   small but for the data on it, and DynamoDB's TTL removes it.
//!
//! `docs/safety.md` says why, and names the tests that show it; `docs/protocol.md` has each write and its condition.
//!
//! # Limitations
//!
//! - **A lease does not bind a stopped process.** A process that is stopped for longer than its lease learns only afterwards that
//!   it lost the lock. [Fence](LockGuard::fence) with the [`ticket`](LockGuard::ticket) what must never be written late.
//!   `docs/fencing.md` says how, for DynamoDB, PostgreSQL and S3.
//! - **Clocks must run at rates within 2 % of each other** over one lease. They may show any time, while DynamoDB's clock is right.
//! - **A single region, and no cache.** Eventually consistent global tables are unsafe for locks across regions. DAX between
//!   client and table is unsafe too.
//! - **Not re-entrant, and no upgrade.** A caller that acquires a lock twice waits for itself. A caller that shares a lock and
//!   wants it alone releases it first.
//! - **Tickets of callers that share a lock do not exclude each other.** Nor do the tickets of a [`Semaphore`].
//! - **A lease of a [`LeaseLock`] expires by DynamoDB's clock, and its owner is not notified.** The owner compares
//!   [`Lease::expires_at`] with a clock of its own.
//! - **The lock's item grows** with each sharer and with its [data](LockGuard::set_data). DynamoDB charges each write of it by
//!   the kilobyte: `docs/cost.md`.
//! - **Any process that may write the table can take a lock.** Locks coordinate clients that cooperate.
//! - **Lock items that are deleted or restored by hand** can send tickets back, as `docs/repair.md` says.
//!
//! # The end of a process
//!
//! The client releases a dropped guard in the background, and a process that ends takes its background along. The next caller
//! then waits for the lease. So a program runs its work in [`LockClient::scope`], which releases all locks and leaves all queues
//! however the work ends. Where that does not fit, it calls [`LockClient::shutdown`] before it ends. `docs/shutdown.md` lists
//! each way to end, and what it leaves.
//!
//! # Features
//!
//! - `embedded`: a DynamoDB API in this process, in memory or in a file that several processes share, for tests and
//!   demonstrations.
//! - `record`: a client writes what it is told, asks and tells where `FAIRLOCK_RECORD` names a file.
//! - `udp`: [`UdpNotifier`], by which the clients of a lock tell each other when to poll.
//! - `serde`: serde reads and writes a [`Ticket`] as a number.
//! - `blocking`: the module `blocking`, the locks for programs without a runtime.
//! - `metrics`: counts and durations of waits, holds, losses, takeovers and requests, for a recorder of the crate `metrics`:
//!   `docs/metrics.md`.
//!
//! # Further reading
//!
//! - Users: `docs/start.md`, `docs/concepts.md`, `docs/which-primitive.md`, `docs/shutdown.md`, `docs/errors.md`,
//!   `docs/fencing.md`, `docs/testing-your-service.md`, and `docs/migration.md` for a move from another lock.
//! - Operators: `docs/operations.md` for the table, permissions and settings, `docs/command.md`, `docs/repair.md`,
//!   `docs/metrics.md`, `docs/cost.md`, `docs/notifications.md`, `docs/security.md`.
//! - Reviewers: `docs/safety.md`, `docs/protocol.md`, `docs/testing.md`, `docs/performance.md`.

mod agent;
#[cfg(feature = "blocking")]
pub mod blocking;
mod counter;
mod items;
mod lock;
mod operator;
mod queue;
mod runtime;
mod store;
mod sweeper;
mod telemetry;
mod vocabulary;

pub use agent::notify::Notifier;
#[cfg(feature = "udp")]
pub use agent::notify::UdpNotifier;
#[cfg(feature = "embedded")]
#[doc(inline)]
pub use fairlock_embedded as embedded;
pub use fairlock_protocol::outage::OutageKind;
pub use fairlock_protocol::ticket::Ticket;
pub use items::{
    Change, Fence, FenceParts, Fenceable, Item, UpdateError, UpdateOutcome, Version,
    VersionedTable, VersionedTableBuilder,
};
pub use lock::client::{HeldLocks, LockClient, LockClientBuilder, ShutdownReport};
pub use lock::events::HoldEvent;
pub use lock::fair_lock::FairLock;
pub use lock::guard::LockGuard;
pub use lock::leader::{Candidate, LeadershipEvent};
pub use lock::lease_lock::{Lease, LeaseLock};
pub use lock::multi_lock::{LockClaim, MultiLock, MultiLockGuard};
pub use lock::run::RunOutcome;
pub use lock::semaphore::Semaphore;
pub use operator::{BreakOutcome, DeleteOutcome, Finding, ResizeOutcome, Severity, TableReport};
pub use runtime::Clock;
pub use sweeper::{SweepReport, TableSweepReport};
#[cfg(feature = "metrics")]
pub use telemetry::metric_buckets;
#[doc(hidden)]
pub use vocabulary::config::Testing;
pub use vocabulary::error::{Closed, Error, Holder, Invalid, ItemProblem, LockLost, LossReason};
pub use vocabulary::place_id::PlaceId;
pub use vocabulary::state::{
    LockData, LockState, Outage, Participant, Stage, Waiting, YieldRequest,
};
pub use vocabulary::wait::RecordWait;

/// Compiles the example of that page.
#[cfg(doctest)]
#[doc = include_str!("../docs/fencing.md")]
struct FencingPage;

/// Compiles and runs the README's example.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// Compiles and runs the template for tests of services.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../docs/testing-your-service.md")]
struct TestingYourService;

/// Compiles and runs the examples for users of other lock clients.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../docs/migration.md")]
struct Migration;

/// Compiles and runs the first steps.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../docs/start.md")]
struct Start;

/// Compiles the example of each primitive.
#[cfg(doctest)]
#[doc = include_str!("../docs/which-primitive.md")]
struct WhichPrimitive;

/// Compiles the examples for the end of a process.
#[cfg(doctest)]
#[doc = include_str!("../docs/shutdown.md")]
struct ShutdownPage;

/// Compiles the examples for notifications.
#[cfg(all(doctest, feature = "udp"))]
#[doc = include_str!("../docs/notifications.md")]
struct NotificationsPage;

/// Compiles the examples for errors.
#[cfg(doctest)]
#[doc = include_str!("../docs/errors.md")]
struct ErrorsPage;
