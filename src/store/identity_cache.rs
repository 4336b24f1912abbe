//! The identities that sign requests. They are loaded apart from the requests, once for all that wait, and renewed before they expire.
//!
//! The SDK loads an identity inside the attempt that needs it, and a load that is dropped with its attempt starts again with the next one.
//! So an identity that takes longer than an attempt would never come. Here a load goes on without the attempts that wait for it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::{ConfigBag, ResolveCachedIdentity, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_smithy_runtime_api::client::identity::{
    Identity, IdentityCachePartition, IdentityFuture, ResolveIdentity, SharedIdentityResolver,
};
use futures::FutureExt;
use tokio::sync::Notify;

use crate::runtime::background::Apart;
use crate::runtime::clock::Clock;
use crate::vocabulary::state::system_time;
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::moment::Moment;

use super::exchange;
use super::unreachable::{LOAD, NoIdentity};

/// An identity is renewed this long before it expires, or after half of its time if that is later. No heartbeat is longer, so a holder's
/// renewals notice in time that it is due.
const AHEAD: Duration = Duration::from_secs(300);
/// An identity that names no expiry is loaded again after this time, as by the SDK.
const UNDATED: Duration = Duration::from_secs(900);
/// The pause between two loads while there is no identity to use, and while there is one.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(10);

/// The identities of one client.
#[derive(Clone, Debug)]
pub(super) struct IdentityCache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: Clock,
    /// How long a request waits for a load. The rest of its time is for the request.
    patience: Duration,
    /// Where loads go on.
    apart: Apart,
    slots: Mutex<BTreeMap<IdentityCachePartition, Arc<Slot>>>,
}

/// The identity of one provider.
#[derive(Debug, Default)]
struct Slot {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    loaded: Option<Loaded>,
    /// When the load began that runs.
    loading: Option<Moment>,
    /// When the last load ended.
    ended: Option<Moment>,
    /// What the last load ended with, if it brought nothing.
    failure: Option<NoIdentity>,
    loads: u64,
}

#[derive(Clone, Debug)]
struct Loaded {
    identity: Identity,
    number: u64,
    /// How long it was valid when it came. `None` if it does not say, or if it would have expired by this host's clock, which may be wrong.
    life: Option<Duration>,
    came: Moment,
    is_rejected: bool,
}

impl Slot {
    /// DynamoDB does not take the identity of this number. Until the next load brings another one it stays in use: it may be taken yet, as a
    /// new key is after a while.
    fn rejected(&self, number: u64) {
        let mut state = self.state();
        if let Some(loaded) = &mut state.loaded {
            loaded.is_rejected |= loaded.number == number;
        }
    }
}

impl IdentityCache {
    /// A request waits half of `timeout` for an identity.
    pub(super) fn new(clock: Clock, timeout: Duration, apart: Apart) -> Self {
        IdentityCache(Arc::new(Inner {
            clock,
            patience: timeout / 2,
            apart,
            slots: Mutex::default(),
        }))
    }

    async fn resolved(
        &self,
        resolver: SharedIdentityResolver,
        components: &RuntimeComponents,
    ) -> Result<Identity, NoIdentity> {
        let Inner {
            clock, patience, ..
        } = &*self.0;
        let slot = self.slot(resolver.cache_partition());
        let until = clock.now() + *patience;
        // Each iteration but the last saw a load end, and the patience ends them all.
        loop {
            let ended = slot.ended.notified();
            if let Some(load) = slot.begins(clock) {
                self.run(load, resolver.clone(), components.clone()).await;
            }
            if let Some(answer) = slot.answer(clock.now()) {
                return answer;
            }
            tokio::select! {
                biased;
                () = ended => {}
                () = clock.sleep_until(until) => return Err(NoIdentity::Loading),
            }
        }
    }

    /// Runs a load, which goes on without the request where it has to wait for something.
    async fn run(
        &self,
        load: Load,
        resolver: SharedIdentityResolver,
        components: RuntimeComponents,
    ) {
        let clock = self.0.clock.clone();
        let work = async move {
            // Providers of credentials read nothing of the request's configuration.
            let config = ConfigBag::base();
            let end = tokio::select! {
                biased;
                loaded = resolver.resolve_identity(&components, &config) =>
                    loaded.map_err(|error| NoIdentity::Failed(Arc::from(error))),
                () = clock.sleep(LOAD) => Err(NoIdentity::TooLong),
            };
            load.ends(&clock, end);
        };
        self.0.apart.run(work.boxed()).await;
    }

    fn slot(&self, partition: IdentityCachePartition) -> Arc<Slot> {
        let mut slots = self.0.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(slots.entry(partition).or_default())
    }
}

impl ResolveCachedIdentity for IdentityCache {
    fn resolve_cached_identity<'a>(
        &'a self,
        resolver: SharedIdentityResolver,
        components: &'a RuntimeComponents,
        _: &'a ConfigBag,
    ) -> IdentityFuture<'a> {
        IdentityFuture::new(async {
            let identity = self.resolved(resolver, components).await;
            identity.map_err(BoxError::from)
        })
    }
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The load that is due, unless one runs.
    fn begins(self: &Arc<Self>, clock: &Clock) -> Option<Load> {
        let now = clock.now();
        let mut state = self.state();
        state.is_due(now).then(|| {
            state.loading = Some(now);
            state.loads += 1;
            Load {
                slot: Arc::clone(self),
                number: state.loads,
            }
        })
    }

    /// What a request gets without waiting.
    fn answer(self: &Arc<Self>, now: Moment) -> Option<Result<Identity, NoIdentity>> {
        let state = self.state();
        if let Some(loaded) = state.usable(now) {
            let (slot, number) = (Arc::clone(self), loaded.number);
            exchange::signed_by(move || slot.rejected(number));
            return Some(Ok(loaded.identity.clone()));
        }
        match state.loading {
            Some(_) => None,
            None => state.failure.clone().map(Err),
        }
    }
}

impl State {
    fn usable(&self, now: Moment) -> Option<&Loaded> {
        let is_valid = |it: &&Loaded| it.life.is_none_or(|life| now < it.came + life);
        self.loaded.as_ref().filter(is_valid)
    }

    fn is_due(&self, now: Moment) -> bool {
        let (is_due, pause) = match self.usable(now) {
            Some(loaded) => (loaded.is_due(now), loaded.pause()),
            None => (true, SOON),
        };
        let is_paused = self.ended.is_some_and(|ended| now < ended + pause);
        // A load that outlasts its time is in a runtime that does not run.
        let is_loading = self.loading.is_some_and(|began| now < began + LOAD + SOON);
        is_due && !is_paused && !is_loading
    }
}

impl Loaded {
    fn is_due(&self, now: Moment) -> bool {
        let after = match self.life {
            Some(life) => life - AHEAD.min(life / 2),
            None => UNDATED,
        };
        self.is_rejected || now >= self.came + after
    }

    fn pause(&self) -> Duration {
        self.life.map_or(LATER, |life| LATER.min(life / 4))
    }
}

/// A load that runs. Dropped without an end, it was given up with its runtime, or the provider panicked.
#[derive(Debug)]
struct Load {
    slot: Arc<Slot>,
    number: u64,
}

impl Load {
    fn ends(&self, clock: &Clock, end: Result<Identity, NoIdentity>) {
        let now = clock.now();
        let mut state = self.slot.state();
        if state.loads != self.number {
            return;
        }
        state.ended = Some(now);
        match end {
            Ok(identity) => {
                let wall = system_time(ServerTime(clock.unix()));
                let expiry = identity.expiration();
                let life = expiry.and_then(|expiry| expiry.duration_since(wall).ok());
                state.failure = None;
                state.loaded = Some(Loaded {
                    identity,
                    number: self.number,
                    life: life.filter(|life| !life.is_zero()),
                    came: now,
                    is_rejected: false,
                });
            }
            Err(failure) => {
                if state.failure.is_none() {
                    tracing::warn!(%failure, "credentials cannot be loaded");
                }
                state.failure = Some(failure);
            }
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let mut state = self.slot.state();
        if state.loads == self.number {
            state.loading = None;
        }
        drop(state);
        self.slot.ended.notify_waiters();
    }
}
