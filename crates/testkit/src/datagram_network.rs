//! A post for the notifications of a test's clients, on the test's clock: late, lost, doubled and forged, as the test says.
#![expect(
    clippy::expect_used,
    reason = "a test whose post cannot be set up has failed"
)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlock::Notifier;
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::notification::{Kind, Notification, PlaceKey};
use fastrand::Rng;
use tokio::sync::Notify;
use tokio::time::Instant;

/// What happens to datagrams on their way. The shares are of all that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PostFaults {
    /// The share that never arrives.
    pub lost: f64,
    /// The share that arrives twice.
    pub doubled: f64,
    /// Each datagram takes up to this long, so that they overtake each other.
    pub delay: Duration,
    /// The share of which a forger learns, and sends something else to the same place, or to another, with a key that fits.
    pub forged: f64,
    /// Nothing arrives at boxes with an odd number: all paths to them work one way only.
    pub deafens_odd: bool,
}

/// The post of a test. Cheap to clone; the clones are one post.
#[derive(Clone, Debug)]
pub struct Post(Arc<Mutex<State>>);

struct State {
    rng: Rng,
    faults: PostFaults,
    boxes: Vec<Arc<Boxed>>,
    /// Where each place was told something, by its key, as a forger overhears it.
    overheard: BTreeMap<PlaceKey, String>,
    carried: u64,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").finish_non_exhaustive()
    }
}

/// Datagrams by when they arrive, the earliest first, and by their number.
type UnderWay = BinaryHeap<Reverse<(Instant, u64, Vec<u8>)>>;

/// What is under way to one client.
#[derive(Debug, Default)]
struct Boxed {
    under_way: Mutex<UnderWay>,
    grown: Notify,
    condition: Mutex<Condition>,
}

/// What has become of the process that a box belongs to.
#[derive(Debug, Default)]
enum Condition {
    #[default]
    Runs,
    /// It receives nothing, and what it sends leaves when it goes on.
    StandsStill(Vec<(String, Vec<u8>)>),
    /// It neither receives nor sends anything any more.
    Dead,
}

/// The notifier of one client. The clones are one box.
#[derive(Clone, Debug)]
pub struct PostBox {
    post: Post,
    number: usize,
    own: Arc<Boxed>,
    is_taken_over: bool,
}

impl Post {
    /// A post on which nothing goes wrong, and which takes no time.
    pub fn seeded(seed: u64) -> Self {
        Post(Arc::new(Mutex::new(State {
            rng: Rng::with_seed(seed),
            faults: PostFaults::default(),
            boxes: Vec::new(),
            overheard: BTreeMap::new(),
            carried: 0,
        })))
    }

    /// The same post with these faults, from now on.
    pub fn set_faults(&self, faults: PostFaults) {
        self.state().faults = faults;
    }

    /// A notifier for one more client. It may have the address of a dead one.
    pub fn notifier(&self) -> PostBox {
        let own = Arc::<Boxed>::default();
        let mut state = self.state();
        let dead = state.boxes.iter().position(|old| old.is_dead());
        let taken_over = dead.filter(|_| state.rng.bool());
        let number = taken_over.unwrap_or(state.boxes.len());
        match state.boxes.get_mut(number) {
            Some(old) => *old = Arc::clone(&own),
            None => state.boxes.push(Arc::clone(&own)),
        }
        PostBox {
            post: self.clone(),
            number,
            own,
            is_taken_over: taken_over.is_some(),
        }
    }

    /// Subscribes to each of these places at every client, except at one if there is one. Returns the box at which their confirmations
    /// arrive. No fault befalls this.
    pub fn asks_after(
        &self,
        places: impl IntoIterator<Item = PlaceKey>,
        except: Option<&PostBox>,
    ) -> PostBox {
        let asking = self.notifier();
        let (from, address) = (PlaceKey::of(Nonce::new(0)), asking.address());
        let except = except.map(|except| except.number);
        let mut state = self.state();
        for to in places {
            let (from, address) = (from, address.clone());
            let kind = Kind::Subscribe { from, address };
            let datagram = Notification { to, kind }.datagram();
            for number in 0..state.boxes.len() {
                if number != asking.number && Some(number) != except {
                    state.put(number, datagram.clone());
                }
            }
        }
        drop(state);
        asking
    }

    /// How many datagrams were sent.
    pub fn carried(&self) -> u64 {
        self.state().carried
    }

    /// Sends each client `count` datagrams that a forger made, with keys of their places as far as the forger overheard some.
    pub fn storm(&self, count: usize) {
        let mut state = self.state();
        for number in 0..state.boxes.len() {
            for _ in 0..count {
                let forged = state.forge();
                state.put(number, forged);
            }
        }
    }

    /// A forger tells this to every place of which it has overheard the key.
    pub fn forges(&self, kind: &Kind) {
        let mut state = self.state();
        for (to, address) in state.overheard.clone() {
            let datagram = Notification {
                to,
                kind: kind.clone(),
            };
            state.send(&address, &datagram.datagram());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn send(&mut self, to: &str, datagram: &[u8]) {
        self.carried += 1;
        if let Some(Notification { to: key, kind }) = Notification::read(datagram) {
            self.overheard.insert(key, to.to_owned());
            if let Kind::Subscribe { from, address } = kind {
                self.overheard.insert(from, address);
            }
        }
        let Some(number) = number_of(to).filter(|number| *number < self.boxes.len()) else {
            return;
        };
        if self.rng.f64() < self.faults.forged {
            let forged = self.forge();
            let victim = self.rng.usize(..self.boxes.len());
            self.put(victim, forged);
        }
        if self.rng.f64() < self.faults.lost || self.faults.deafens_odd && number % 2 == 1 {
            return;
        }
        if self.rng.f64() < self.faults.doubled {
            self.put(number, datagram.to_vec());
        }
        self.put(number, datagram.to_vec());
    }

    /// Any kind with a key that somebody has, or noise.
    fn forge(&mut self) -> Vec<u8> {
        let known = self.overheard.len();
        let any = |rng: &mut Rng| PlaceKey::of(Nonce::new(rng.u128(..)));
        let key = |state: &mut Self| match known {
            0 => any(&mut state.rng),
            _ => {
                let nth = state.rng.usize(..known);
                *state.overheard.keys().nth(nth).expect("counted")
            }
        };
        let to = key(self);
        let kind = match self.rng.u8(..6) {
            0 => Kind::Subscribe {
                from: key(self),
                address: "nobody lives here".into(),
            },
            1 => Kind::Confirm,
            2 => Kind::Releasing,
            3 => Kind::Changed,
            _ => {
                let length = self.rng.usize(..200);
                return (0..length).map(|_| self.rng.u8(..)).collect();
            }
        };
        Notification { to, kind }.datagram()
    }

    fn put(&mut self, number: usize, datagram: Vec<u8>) {
        let delay = self.faults.delay.mul_f64(self.rng.f64());
        self.carried += 1;
        let own = &self.boxes[number];
        own.under_way()
            .push(Reverse((Instant::now() + delay, self.carried, datagram)));
        own.grown.notify_one();
    }
}

impl PostBox {
    /// Whether this was the address of a client that is dead.
    pub fn is_taken_over(&self) -> bool {
        self.is_taken_over
    }

    /// How many datagrams wait for their client, or are under way to it.
    pub fn waiting(&self) -> usize {
        self.own.under_way().len()
    }

    /// From now on its process stands still.
    pub fn stands_still(&self) {
        let mut condition = self.own.condition();
        if matches!(*condition, Condition::Runs) {
            *condition = Condition::StandsStill(Vec::new());
        }
    }

    /// Its process goes on. It sends what it could not send, and receives what came meanwhile. Returns how many datagrams wait for it.
    pub fn goes_on(&self) -> usize {
        let mut condition = self.own.condition();
        let held = match std::mem::take(&mut *condition) {
            Condition::StandsStill(held) => held,
            Condition::Runs => return 0,
            Condition::Dead => {
                *condition = Condition::Dead;
                return 0;
            }
        };
        drop(condition);
        for (to, datagram) in held {
            self.post.state().send(&to, &datagram);
        }
        self.own.grown.notify_one();
        self.waiting()
    }

    /// Its process is dead. Its address may be given to another client.
    pub fn dies(&self) {
        *self.own.condition() = Condition::Dead;
    }
}

impl Boxed {
    fn condition(&self) -> MutexGuard<'_, Condition> {
        self.condition
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn is_dead(&self) -> bool {
        matches!(*self.condition(), Condition::Dead)
    }

    fn under_way(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the datagram that has arrived first, or says when the next one will.
    fn take(&self) -> Result<Vec<u8>, Option<Instant>> {
        if !matches!(*self.condition(), Condition::Runs) {
            return Err(None);
        }
        let mut under_way = self.under_way();
        let Some(Reverse((due, _, _))) = under_way.peek() else {
            return Err(None);
        };
        match *due <= Instant::now() {
            true => Ok(under_way.pop().expect("it was there").0.2),
            false => Err(Some(*due)),
        }
    }
}

fn number_of(address: &str) -> Option<usize> {
    address.strip_prefix("box ")?.parse().ok()
}

impl Notifier for PostBox {
    fn address(&self) -> String {
        format!("box {}", self.number)
    }

    fn send(&self, address: &str, datagram: &[u8]) {
        match &mut *self.own.condition() {
            Condition::Runs => {}
            Condition::StandsStill(held) => {
                return held.push((address.to_owned(), datagram.to_vec()));
            }
            Condition::Dead => return,
        }
        self.post.state().send(address, datagram);
    }

    #[expect(clippy::disallowed_methods, reason = "the test's own clock is tokio's")]
    fn receive(&self) -> Pin<Box<dyn Future<Output = Vec<u8>> + Send + '_>> {
        Box::pin(async {
            // Each turn of the loop is an arrival, or one more datagram under way.
            loop {
                match self.own.take() {
                    Ok(datagram) => return datagram,
                    Err(None) => self.own.grown.notified().await,
                    Err(Some(due)) => tokio::select! {
                        biased;
                        () = tokio::time::sleep_until(due) => {}
                        () = self.own.grown.notified() => {}
                    },
                }
            }
        })
    }
}
