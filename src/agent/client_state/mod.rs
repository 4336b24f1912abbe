//! What all locks of a client share: the store, the background work and the driver.

mod handle;
mod policies;
mod self_wait;

use std::fmt;
use std::future::Future;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;
use tokio_util::sync::CancellationToken;

use crate::agent::Driven;
use crate::agent::notify::Notifications;
use crate::agent::offer::{Offer, Unused};
use crate::runtime::background::{Background, Job, Task};
use crate::store::requests::Requests;
use crate::store::{Store, all_of};
use crate::vocabulary::error::{Closed, Error};
use crate::vocabulary::name::LockName;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::LockWrite;

pub(crate) use handle::ClientHandle;

/// How long a caller goes on waiting after the time at which the background has something to tell.
pub(crate) const STANDSTILL: Duration = Duration::from_millis(20);

/// What all locks of a client share.
pub(crate) struct ClientInner {
    pub(crate) store: Store,
    /// Its requests, sent again while that may help.
    pub(crate) requests: Requests,
    pub(crate) background: Arc<Background>,
    /// Cancelled by `shutdown`. Then everything that waits stops waiting.
    pub(crate) closed: CancellationToken,
    pub(crate) notifications: Option<Arc<Notifications>>,
    driven: OnceLock<Driven>,
    /// How many handles there are.
    handles: AtomicUsize,
}

impl ClientInner {
    pub(crate) fn new(store: Store, runtime: Handle, notifications: Option<Notifications>) -> Self {
        ClientInner {
            requests: Requests::new(store.clone()),
            store,
            notifications: notifications.map(Arc::new),
            background: Arc::new(Background::new(runtime)),
            closed: CancellationToken::new(),
            driven: OnceLock::new(),
            handles: AtomicUsize::new(0),
        }
    }

    /// Its driver, which the first use starts.
    pub(crate) fn driven(&self) -> &Driven {
        let post = || self.notifications.clone();
        let starts = || Driven::new(self.requests.clone(), &self.background, post());
        self.driven.get_or_init(starts)
    }

    /// The same, if it has been used.
    pub(crate) fn used(&self) -> Option<&Driven> {
        self.driven.get()
    }

    /// Waits for work of a call, no longer than a request may take. Waits neither beyond `until` nor for a client that is shut down.
    pub(crate) async fn within_a_request<T>(
        &self,
        until: Option<Moment>,
        work: impl Future<Output = T>,
    ) {
        let config = self.store.config();
        let bound = self.store.now() + config.request_timeout;
        let until = until.map_or(bound, |until| until.min(bound));
        tokio::select! {
            biased;
            () = self.closed.cancelled() => {}
            done = work => drop(done),
            () = config.clock.sleep_until_if_counted(until) => {}
        }
    }

    /// Gives back what was taken, before the caller asks for it again. Otherwise a caller that does not wait would find its own hold in the
    /// way. Also does so before an error is returned, so that a process may exit on the error. What is not done in time goes on in the
    /// background, and a shutdown waits for it.
    pub(crate) async fn let_go(
        &self,
        release: impl Future<Output = Result<(), Error>>,
        until: Option<Moment>,
    ) {
        self.within_a_request(until, release).await;
    }

    /// Does the work, and turns its failure into the error that a caller gets.
    pub(crate) async fn for_caller<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Error> {
        if self.closed.is_cancelled() {
            return Err(Error::ShutDown(Closed::ShutDown));
        }
        let started = self.store.now();
        work.await.map_err(|failure| self.failed(failure, started))
    }

    /// The error of work that failed and began then.
    pub(crate) fn failed(&self, failure: Failure, started: Moment) -> Error {
        if self.closed.is_cancelled() {
            return Error::ShutDown(Closed::ShutDown);
        }
        let waited = self.store.now().since(started);
        Error::of(failure, &self.store.config().table, waited)
    }

    /// What its driver tells of something that ends by then. `None` if the runtime of the driver stands still.
    pub(crate) async fn hears<T>(
        &self,
        told: oneshot::Receiver<T>,
        ends: Moment,
    ) -> Option<Result<T, RecvError>> {
        let config = self.store.config();
        let late = ends + config.request_timeout + STANDSTILL;
        tokio::select! {
            biased;
            told = told => Some(told),
            () = config.clock.sleep_until_if_counted(late) => None,
        }
    }

    /// The error of a call whose time has run out without a result from the background.
    pub(crate) fn stands_still(&self, verb: &'static str, waited: Duration) -> Error {
        let why = "the runtime in which this client was built does not run";
        self.unavailable(verb, waited, why)
    }

    /// The error of a call whose time has run out, though no request of its own failed.
    pub(crate) fn unavailable(
        &self,
        verb: &'static str,
        waited: Duration,
        why: &'static str,
    ) -> Error {
        Error::unavailable(&self.store.config().table, verb, waited, why)
    }

    /// When the caller of a call that does not wait stops waiting for it. Returns `None` outside of a runtime, where nothing counts the
    /// time.
    pub(crate) fn gives_up_at_once(&self, started: Moment) -> Option<Moment> {
        let counts = Handle::try_current().is_ok();
        counts.then(|| self.no_wait_ends(started))
    }

    /// Where other clients notify the places of this one, as their entries say.
    pub(crate) fn address(&self) -> Option<&str> {
        Some(self.notifications.as_ref()?.address())
    }

    pub(crate) fn spawn(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
        task: Task,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        self.spawn_then(name, ticket, task, work.map(|()| || {}));
    }

    /// Spawns work that returns a function, which reports that the work is done.
    pub(crate) fn spawn_then(
        self: &Arc<Self>,
        name: &LockName,
        ticket: Option<Ticket>,
        task: Task,
        work: impl Future<Output: FnOnce()> + Send + 'static,
    ) {
        self.background.spawn(job(name, ticket, task), work);
    }

    /// Takes in a lock item that an answer to an operation outside of the driver showed.
    pub(crate) fn saw(&self, name: &LockName, item: &LockItem) {
        if let Some(driven) = self.used() {
            driven.sees(name, item);
        }
    }

    /// Takes back what was granted to a call that is not polled, so that it is not kept from other callers.
    pub(crate) async fn untaken<G: Unused>(&self, offer: Offer<G>) -> Option<G> {
        let config = self.store.config();
        offer.untaken(&config.clock, config.request_timeout).await
    }

    /// Admits the successors that need not wait any more, in the background. Otherwise they would admit themselves with their next poll.
    pub(crate) fn admit(self: &Arc<Self>, name: &LockName, item: &LockItem) {
        let (first, admitted) = (
            item.first_successor(),
            item.successors()[..item.admitted()].to_vec(),
        );
        if admitted.is_empty() {
            return;
        }
        let (inner, name) = (Arc::clone(self), name.clone());
        let Some(write) = LockWrite::admit(all_of(&name), first, &admitted) else {
            return;
        };
        self.spawn(&name.clone(), None, Task::Admit, async move {
            let policy = inner.policy_of_few(CancellationToken::new());
            let admit = || inner.store.write(&name, &write);
            match inner.requests.retry(&policy, admit).await {
                Ok(answer) => {
                    if answer.value.is_applied()
                        && let Some(notifications) = &inner.notifications
                    {
                        let told = admitted.iter();
                        told.for_each(|entry| notifications.tell_change(entry));
                    }
                    if let Some(item) = answer.value.shown() {
                        inner.saw(&name, &item);
                    }
                }
                Err(failure) => {
                    tracing::debug!(lock = %name, %failure, "left it to the successors to come in");
                }
            }
        });
    }
}

fn job(name: &LockName, ticket: Option<Ticket>, task: Task) -> Job {
    Job {
        lock: name.to_string(),
        ticket,
        task,
    }
}

impl fmt::Debug for ClientInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let config = self.store.config();
        f.debug_struct("ClientInner")
            .field("table", &config.table)
            .field("namespace", &config.namespace)
            .finish_non_exhaustive()
    }
}
