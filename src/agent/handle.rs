//! What callers have of a driver: its mailbox, and what comes back from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fairlock_protocol::agent::{CallId, Claim, Client, Input, Lock, Refusal, Stood, Terms, Work};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use tokio::sync::{mpsc, oneshot};

use super::driver::Driver;
use super::ground::{Ground, Views};
use super::held::{Held, Ordered};
use super::mail::{Caller, Message, Offered, Outbox};
use super::notes;
use super::post;
use super::record::Record;
use super::view::View;
use crate::agent::notify::Notifications;
use crate::runtime::background::{Background, Open};
use crate::store::requests::Requests;
use crate::telemetry::Origin;
use crate::vocabulary::name::LockName;
use crate::vocabulary::state::WaitObserver;

/// A client, as its callers have it.
#[derive(Debug)]
pub(crate) struct Driven {
    mailbox: Outbox,
    ground: Ground,
    calls: AtomicU64,
}

/// How a caller asks.
pub(crate) struct Asks<'a> {
    pub(crate) lock: &'a LockName,
    pub(crate) claim: Claim,
    pub(crate) observer: Option<WaitObserver>,
    pub(crate) origin: &'a Origin,
    /// When its driver must have answered.
    pub(crate) end: Option<Moment>,
}

/// What comes of asking.
pub(crate) enum Asked {
    /// A hold, which may have been lost before its caller came for it.
    Granted(Held),
    Refused(Refusal),
    /// The driver does not run.
    StandsStill,
}

impl Driven {
    pub(crate) fn new(
        requests: Requests,
        background: &Arc<Background>,
        post: Option<Arc<Notifications>>,
    ) -> Self {
        let (mailbox, inbox) = mpsc::unbounded_channel();
        let address = post.as_ref().map(|post| post.address().into());
        let terms = Arc::new(terms(&requests, address));
        if let Some(post) = post.clone() {
            background.spawn_unlisted(post::listens(post, mailbox.clone()));
        }
        let ground = Ground {
            requests,
            background: Arc::clone(background),
            views: Views::default(),
        };
        let record = Record::begins(&terms);
        let client = (Client::new(terms), record);
        let driver = Driver::new(client, ground.clone(), (mailbox.clone(), inbox), post);
        background.spawn_unlisted(driver.runs());
        Driven {
            mailbox,
            ground,
            calls: AtomicU64::new(0),
        }
    }

    /// A driver that has gone leaves no view that is held, so nothing is lost with a message to it.
    fn puts(&self, message: Message) {
        let _ = self.mailbox.send(message);
    }

    fn open(&self, lock: &LockName, work: Work) -> Open {
        self.ground.background.open(notes::job(lock, None, work))
    }

    /// Asks for a lock. Dropping the future gives back what the call has in the table.
    pub(crate) async fn asks(&self, asks: Asks<'_>) -> Asked {
        let Asks {
            lock,
            claim,
            observer,
            origin,
            end,
        } = asks;
        let call = CallId(self.calls.fetch_add(1, Ordering::Relaxed));
        let (to, mut answer) = oneshot::channel();
        let mut asking = Asking {
            driven: self,
            lock,
            call: Some(call),
        };
        self.puts(Message::Call {
            call,
            lock: of(lock),
            claim: Box::new(claim),
            caller: Box::new(Caller {
                to,
                observer,
                origin: origin.clone(),
            }),
        });
        let answer = match end {
            None => answer.await,
            Some(end) => tokio::select! {
                biased;
                answer = &mut answer => answer,
                () = self.ground.requests.store.config().clock.sleep_until_if_counted(end) => {
                    return Asked::StandsStill;
                }
            },
        };
        asking.call = None;
        match answer {
            Ok(Ok(offered)) => self.takes(&offered),
            Ok(Err(why)) => Asked::Refused(why),
            Err(_) => Asked::Refused(Refusal::NoRuntime),
        }
    }

    fn takes(&self, offered: &Offered) -> Asked {
        let (view, mailbox) = (&offered.view, &self.mailbox);
        if view.takes() {
            self.puts(Message::Told(Input::Taken(view.hold)));
        } else if view.loss().is_none() {
            return Asked::Refused(Refusal::Untaken);
        }
        let background = &self.ground.background;
        Asked::Granted(Held::new(Arc::clone(view), mailbox.clone(), background))
    }

    /// Shuts the client down.
    pub(crate) fn closes(&self, keeps_holds: bool, open: Open) {
        self.puts(Message::Close(Input::Close { keeps_holds }, open));
    }

    /// Gives up a place of another process, as this item shows it.
    pub(crate) fn gives_up(
        &self,
        lock: &LockName,
        (place, item): (Stood, LockItem),
        until: Moment,
    ) -> Ordered {
        let (to, done) = oneshot::channel();
        let (lock, item) = (of(lock), Arc::new(item));
        let given_up = move |reply| Input::GiveUp {
            lock,
            place,
            item,
            reply,
            until,
        };
        self.puts(Message::Answered(Box::new(given_up), to));
        done
    }

    /// An operation outside of the client saw this item.
    pub(crate) fn sees(&self, lock: &LockName, item: &LockItem) {
        let (lock, item) = (of(lock), Arc::new(item.clone()));
        self.puts(Message::Told(Input::Seen { lock, item }));
    }

    /// Asks how long a turn takes. Nothing comes back if that is not known.
    pub(crate) fn mean_turn(&self, lock: &LockName) -> oneshot::Receiver<Duration> {
        let (to, turn) = oneshot::channel();
        self.puts(Message::Turn(of(lock), to));
        turn
    }

    /// What its callers hold.
    pub(crate) fn held(&self) -> Vec<Arc<View>> {
        let mut views = self.ground.views.all();
        views.retain(|view| !view.remaining().is_zero());
        views
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        self.puts(Message::Deserted);
    }
}

/// A call that is not answered. Dropped, it is cancelled.
struct Asking<'a> {
    driven: &'a Driven,
    lock: &'a LockName,
    call: Option<CallId>,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(call) = self.call {
            let open = self.driven.open(self.lock, Work::Leave);
            self.driven.puts(Message::Cancel(call, open));
        }
    }
}

/// The lock, as the value has it.
fn of(lock: &LockName) -> Lock {
    Lock {
        name: lock.lock().into(),
        permits: lock.permits().unwrap_or_default(),
    }
}

/// The settings of the client, as the value goes by them.
fn terms(requests: &Requests, address: Option<Arc<str>>) -> Terms {
    let config = requests.store.config();
    Terms {
        owner: config.owner.as_str().into(),
        address,
        lease: config.lease,
        margin: config.safety_margin,
        heartbeat: config.heartbeat,
        request_timeout: config.request_timeout,
        join_timeout: config.join_timeout,
        retention: config.idle_retention,
        outage: config.outage_timeout,
        polls: (config.min_poll_interval, config.max_poll_interval),
        slots: config.successor_slots,
        filled_slots: config.filled_slots,
    }
}
