//! The builder of a client: its settings, set one by one and checked together.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::agent::client_state::{ClientHandle, ClientInner};
use crate::agent::notify::{Notifications, Notifier};
use crate::runtime::background::Apart;
use crate::runtime::clock::Clock;
use crate::runtime::random_source::RandomSource;
use crate::store::Store;
#[cfg(feature = "metrics")]
use crate::telemetry;
#[cfg(feature = "metrics")]
use crate::vocabulary::config::LockLabel;
use crate::vocabulary::config::{Config, Names, Settings, Testing};
use crate::vocabulary::error::{Error, Invalid};

use super::LockClient;

/// Settings of a [`LockClient`]. [`build`](Self::build) checks them against each other and sends nothing.
///
/// # Examples
///
/// ```
/// # async fn build(dynamodb: aws_sdk_dynamodb::Client) -> Result<(), fairlock::Error> {
/// use std::time::Duration;
/// use fairlock::LockClient;
///
/// let locks = LockClient::builder(dynamodb)
///     .table("locks")
///     .namespace("billing")
///     .lease_duration(Duration::from_secs(10))
///     .build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct LockClientBuilder {
    dynamodb: aws_sdk_dynamodb::Client,
    settings: Settings,
    notifier: Option<Arc<dyn Notifier>>,
}

impl LockClientBuilder {
    pub(crate) fn new(dynamodb: aws_sdk_dynamodb::Client) -> Self {
        LockClientBuilder {
            dynamodb,
            settings: Settings::default(),
            notifier: None,
        }
    }

    /// Sets the table's name or ARN. Default: `fairlock`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.table("locks")
    /// # }
    /// ```
    pub fn table(mut self, table: impl Into<String>) -> Self {
        self.settings.table = table.into();
        self
    }

    /// Sets the names of the table's partition key, sort key and TTL attribute. Default: `pk`, `sk`, `expires_at`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.key_names("id", "range", "ttl")
    /// # }
    /// ```
    pub fn key_names(
        mut self,
        partition_key: impl Into<String>,
        sort_key: impl Into<String>,
        ttl: impl Into<String>,
    ) -> Self {
        self.settings.names = Names {
            partition_key: partition_key.into(),
            sort_key: sort_key.into(),
            ttl: ttl.into(),
        };
        self
    }

    /// Sets the namespace, which keeps these locks apart from locks of the same names in the same table. It must not contain `/`. Default:
    /// `fairlock`.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.namespace("billing")
    /// # }
    /// ```
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.settings.namespace = namespace.into();
        self
    }

    /// Sets the name under which people see this client's holds and waits: 1 to 512 bytes. Default: `user@host:pid`.
    ///
    /// The user is that of the environment: `USER`, `LOGNAME` or `USERNAME`. Many containers and units set none of these. Then the user is
    /// the name that `/etc/passwd` has for the process's user id, or else that number.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.owner("nightly-report on worker 7")
    /// # }
    /// ```
    pub fn owner(mut self, owner: impl Into<String>) -> Self {
        self.settings.owner = Some(owner.into());
        self
    }

    /// Sets how long a holder, a successor or a waiter keeps its place without a renewal: at least 50 ms, and at most a day. Default: 30 s.
    ///
    /// The lease less its margin of 2 % must have room for a [heartbeat](Self::heartbeat_interval) and two [request
    /// time-outs](Self::request_timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.lease_duration(Duration::from_secs(10))
    /// # }
    /// ```
    pub fn lease_duration(mut self, lease: Duration) -> Self {
        self.settings.lease = lease;
        self
    }

    /// Sets how long before its lease ends a hold of this client counts as lost, in `remaining`, `lost` and all else that a holder is told.
    /// Default: none beyond the 2 % by which clocks may differ.
    ///
    /// Meant for resources that cannot compare [fencing tokens](crate::Fence): what the holder sent last has this time to arrive before
    /// another caller gets the lock. A hold that ended at its local deadline, with [`LossReason::Expired`](crate::LossReason::Expired),
    /// [`LossReason::Unreachable`](crate::LossReason::Unreachable) or [`LossReason::MaxHold`](crate::LossReason::MaxHold), is not released
    /// before the margin is over, whatever becomes of its guard. All that ends a hold on purpose hands the lock over at once, as ever.
    ///
    /// Heartbeat and request time-outs must fit into the lease less the margin. The margin does not protect from what arrives later still,
    /// so fence wherever the resource can.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// // Believes for 30 s, and others wait for 40 s.
    /// builder.lease_duration(Duration::from_secs(40)).safety_margin(Duration::from_secs(10))
    /// # }
    /// ```
    pub fn safety_margin(mut self, margin: Duration) -> Self {
        self.settings.safety_margin = margin;
        self
    }

    /// Sets the time between two renewals of a lease, at most four minutes. Default: a third of the lease, or four minutes
    /// if that is less.
    ///
    /// The lease must have room for a heartbeat and two [request time-outs](Self::request_timeout), as [`lease_duration`](Self::lease_duration)
    /// says.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.heartbeat_interval(Duration::from_secs(5))
    /// # }
    /// ```
    pub fn heartbeat_interval(mut self, heartbeat: Duration) -> Self {
        self.settings.heartbeat = Some(heartbeat);
        self
    }

    /// Sets how many successors the lock item has room for: 1 to 32. Default: 32.
    ///
    /// A caller that finds a free slot waits there. It has its ticket and its place by its first write. So callers that come at once have their
    /// tickets in the order of these writes, as long as there are slots. Where a ticket is open, or no slot is left, a caller draws a ticket
    /// by a second write, and waits in the queue.
    ///
    /// Each write of the lock item costs a write unit for each kilobyte, and about four successors fill a kilobyte.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.successor_slots(4)
    /// # }
    /// ```
    pub fn successor_slots(mut self, slots: usize) -> Self {
        self.settings.successor_slots = slots;
        self
    }

    /// Sets how long an unused lock's item stays in the table. It stays for at least half of this time, and at most all of it. Default: 7
    /// days.
    ///
    /// The retention must be at least a day, and at least twice the lease. Other clients of the lock may have another retention: the longer
    /// counts.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.idle_retention(Duration::from_secs(30 * 24 * 3600))
    /// # }
    /// ```
    pub fn idle_retention(mut self, retention: Duration) -> Self {
        self.settings.idle_retention = retention;
        self
    }

    /// Sets how long one request may take before it is given up and tried again. Default: 2 s, or a sixth of the lease if that is shorter.
    ///
    /// A lease must have room for two of these time-outs and a [heartbeat](Self::heartbeat_interval), as [`lease_duration`](Self::lease_duration) says.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.request_timeout(Duration::from_millis(800))
    /// # }
    /// ```
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.settings.request_timeout = Some(timeout);
        self
    }

    /// Lets this client and the others of a lock notify each other when it is time to poll. Default: none, so that a client learns of a
    /// handoff by polling alone.
    ///
    /// Notifications save most of the polls, and make handoffs faster. They are never believed: the table alone says who holds a lock. A
    /// client without a notifier, or with one that does not reach the others, polls as usual. `docs/notifications.md` says when a notifier
    /// pays, and what it needs.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder, notifier: impl fairlock::Notifier) -> fairlock::LockClientBuilder {
    /// builder.notifier(notifier)
    /// # }
    /// ```
    pub fn notifier(mut self, notifier: impl Notifier) -> Self {
        self.notifier = Some(Arc::new(notifier));
        self
    }

    /// Sets the label `lock` of the metrics of each lock, from the lock's name. Default: no such label, so that a metric has one series for
    /// all locks of the process.
    ///
    /// Each value is a time series of its own, in each process and for as long as Prometheus keeps it. So label locks by their name only if
    /// there are few. Of many locks, label a part of the name. An empty label is none to Prometheus. If the function panics, the metrics
    /// of that lock have no such label.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// // `account/42` and `account/7` are counted as `account`.
    /// builder.lock_label(|lock| lock.split('/').next().unwrap_or_default().to_owned())
    /// # }
    /// ```
    #[cfg(feature = "metrics")]
    pub fn lock_label(mut self, label: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.settings.lock_label = Some(LockLabel::new(label));
        self
    }

    /// Sets where time comes from, for tests. Default: the system's clocks.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.clock(fairlock::Clock::system())
    /// # }
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.settings.clock = clock;
        self
    }

    /// Sets a clock whose wall time stands in for the `Date` that answers do not have. Meant for tests, and for engines whose answers have
    /// no `Date`, such as DynamoDB Local. Default: none, so that without a `Date` only watching tells that a lease has ended, and
    /// [`LeaseLock`](crate::LeaseLock) refuses its calls.
    ///
    /// The client reads this clock when an answer without a `Date` arrives. With it, leases across processes, callers that do not wait, and
    /// TTL work on such an engine as they work on DynamoDB.
    ///
    /// An answer that has a `Date` always wins. From the first such answer on, the client reads this clock no more, and forgets what the
    /// clock told. So at DynamoDB the setting has no effect.
    ///
    /// # Limitations
    ///
    /// - Set it at all clients of the table. What a client without it writes has no date, and no client judges that without watching it.
    /// - The clocks of the clients' hosts must agree within three seconds. Where they differ by more, a client may pass a holder that is
    ///   alive, and two callers hold the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// // All clients run on the host of DynamoDB Local.
    /// builder.fallback_date(fairlock::Clock::system())
    /// # }
    /// ```
    pub fn fallback_date(mut self, clock: Clock) -> Self {
        self.settings.fallback_date = Some(clock);
        self
    }

    /// Takes all randomness from a seed, so that a test has the same run each time. Never for production: two clients with one seed take
    /// each other's requests for their own. Default: the operating system's randomness.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn set(builder: fairlock::LockClientBuilder) -> fairlock::LockClientBuilder {
    /// builder.seeded(42)
    /// # }
    /// ```
    pub fn seeded(mut self, seed: u64) -> Self {
        self.settings.random_source = RandomSource::seeded(seed);
        self
    }

    /// Sets what only tests change.
    #[doc(hidden)]
    pub fn testing(mut self, set: impl FnOnce(&mut Testing)) -> Self {
        set(&mut self.settings.testing);
        self
    }

    /// Checks the settings against each other, and makes the client. Must be called inside a tokio runtime, on which the background work of
    /// this client then runs. So a guard dropped outside of it still releases.
    ///
    /// The runtime needs timers: `enable_time`, or `enable_all`, on a `tokio::runtime::Builder`. tokio does not tell whether a runtime has
    /// them, so this method does not check it. Without timers calls panic, or end with [`Closed::NoRuntime`](crate::Closed::NoRuntime)
    /// while a panic in the background says the same.
    ///
    /// # Errors
    ///
    /// [`Error::Invalid`] names the values that do not go together.
    ///
    /// # Examples
    ///
    /// ```
    /// # use std::time::Duration;
    /// # fn build(builder: fairlock::LockClientBuilder) {
    /// let refused = builder.lease_duration(Duration::from_secs(1)).heartbeat_interval(Duration::from_secs(1)).build();
    /// assert!(matches!(refused, Err(fairlock::Error::Invalid(_))));
    /// # }
    /// ```
    pub fn build(self) -> Result<LockClient, Error> {
        let runtime = Handle::try_current().map_err(|_| {
            Invalid::new("a lock client must be built inside a tokio runtime, where its background work then runs")
        })?;
        let config = Config::try_from(self.settings)?;
        let notifications = self.notifier.map(Notifications::new);
        let notifications = notifications.transpose()?;
        #[cfg(feature = "metrics")]
        telemetry::describe(&config);
        let store = Store::new(&self.dynamodb, config, Apart(Some(runtime.clone())));
        let inner = ClientInner::new(store, runtime, notifications);
        Ok(LockClient {
            inner: ClientHandle::new(&Arc::new(inner)),
        })
    }
}
