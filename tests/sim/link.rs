//! The link of one host to the table, on which the faults of a seed happen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlock::embedded::{Fault, Gate, Request, When};
use fastrand::Rng;
use tokio::time::Instant;

use crate::exchange::{Answer, Exchange};
use crate::faults::{LATEST, Rates, Tally};
use crate::front_ends::FrontEnds;
use crate::plan::HostPlan;
use crate::world::World;
use fairlock::embedded::Signal;
use fairlock_testkit::datagram_network::PostBox;
use fairlock_testkit::verbs::verb;

/// The state of a whole host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// Nothing that the host sends arrives.
    CutOff,
    /// The host's credentials are refused.
    Denied,
    /// The host renews whatever it holds at the last moment, or a moment too late.
    Tardy,
    /// The host stands still. What it sends is held back until it goes on, and so are the answers to what it sent before.
    Frozen,
    /// The host never sends anything again, and receives nothing.
    Dead,
}

pub(crate) struct Link {
    gate: Gate,
    /// Through which the host is notified, if it is.
    post: Option<PostBox>,
    mood: Signal<Mood>,
    sent: Signal<u64>,
    chance: Mutex<(Rng, Weather)>,
    tardy: Mutex<Tardy>,
    front_ends: Mutex<FrontEnds>,
    harm: Mutex<Harm>,
    asked: Mutex<BTreeMap<String, Asked>>,
    tally: Arc<Tally>,
}

/// Verbs that a client without a place sends.
const ASKING: [&str; 6] = [
    "enter",
    "enter known",
    "enter over",
    "share",
    "draw",
    "read lock",
];

/// Such requests for one lock.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    under_way: u32,
    /// When the last of them ended without an answer.
    in_vain: Option<Instant>,
    /// When the last of them ended.
    ended: Option<Instant>,
}

/// When something last went wrong with a request or with the host. A slow request counts too.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Harm {
    pub(crate) any: Option<Instant>,
    pub(crate) denied: Option<Instant>,
}

/// What may go wrong with single requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) rates: Rates,
    /// These verbs are slow, mostly for longer than a time-out.
    pub(crate) slow: Vec<&'static str>,
    /// The share of their writes that are slow.
    pub(crate) slow_writes: f64,
}

/// Since when each nonce has been trying to renew.
#[derive(Default)]
struct Tardy {
    lease: Duration,
    since: BTreeMap<String, Instant>,
}

impl Link {
    pub(crate) fn new(
        rng: Rng,
        weather: Weather,
        plan: HostPlan,
        post: Option<PostBox>,
        world: &World,
    ) -> Link {
        let front_ends = Mutex::new(FrontEnds::new(rng.clone(), world.plan.dates));
        let gate = Gate::closed();
        gate.open();
        Link {
            gate,
            post,
            mood: Signal::new(Mood::Well),
            sent: Signal::new(0),
            chance: Mutex::new((rng, weather)),
            tardy: Mutex::new(Tardy {
                lease: plan.lease,
                ..Tardy::default()
            }),
            front_ends,
            harm: Mutex::default(),
            asked: Mutex::default(),
            tally: world.tally.clone(),
        }
    }

    pub(crate) fn mood(&self) -> Mood {
        self.mood.get()
    }

    pub(crate) fn harm(&self) -> Harm {
        *self.harm.lock().unwrap()
    }

    /// Records that a request met a fault, or took too long.
    pub(crate) fn is_harmed(&self) {
        let mut harm = self.harm.lock().unwrap();
        harm.any = Some(Instant::now());
        if self.mood() == Mood::Denied {
            harm.denied = harm.any;
        }
    }

    fn asks(&self, request: &Request) {
        if ASKING.contains(&verb(request)) {
            let mut asked = self.asked.lock().unwrap();
            let lock = request.key("pk").unwrap_or_default();
            asked.entry(lock.to_owned()).or_default().under_way += 1;
        }
    }

    /// Records that a request has ended.
    pub(crate) fn has_asked(&self, exchange: &Exchange) {
        if ASKING.contains(&exchange.verb) {
            let mut asked = self.asked.lock().unwrap();
            let asked = asked.entry(exchange.lock.clone()).or_default();
            asked.under_way -= 1;
            asked.ended = Some(Instant::now());
            if exchange.answer == Answer::Failed {
                asked.in_vain = Some(Instant::now());
            }
        }
    }

    /// Whether a request for this lock is unanswered, or is answered at this very moment, which also ends a call that waits behind it. Also
    /// true if a request ended without an answer since `since`.
    pub(crate) fn is_asking_for(&self, lock: &str, since: Instant) -> bool {
        let asked = self.asked.lock().unwrap();
        let asked = asked.get(lock).copied().unwrap_or_default();
        let is_answered_now = asked.ended == Some(Instant::now());
        asked.under_way > 0 || is_answered_now || asked.in_vain.is_some_and(|at| since <= at)
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.mood.change(|now| *now = mood);
        if mood != Mood::Well {
            self.is_harmed();
        }
        match mood {
            Mood::Frozen | Mood::Dead => self.gate.close(),
            Mood::Well | Mood::CutOff | Mood::Denied | Mood::Tardy => self.gate.open(),
        }
        if let Some(post) = &self.post {
            self.set_post(post, mood);
        }
    }

    /// A host that is only cut off from the table, or refused there, goes on notifying and being notified.
    fn set_post(&self, post: &PostBox, mood: Mood) {
        match mood {
            Mood::Frozen => post.stands_still(),
            Mood::Dead => post.dies(),
            Mood::Well | Mood::CutOff | Mood::Denied | Mood::Tardy => {
                if post.goes_on() > 0 {
                    self.tally.fault("heard late");
                }
            }
        }
    }

    /// Sets what may go wrong with single requests from now on.
    pub(crate) fn turns(&self, weather: Weather) {
        self.chance.lock().unwrap().1 = weather;
    }

    /// Waits while the host stands still.
    pub(crate) async fn awake(&self) {
        self.mood.is(|mood| *mood != Mood::Frozen).await;
    }

    /// Waits until the host has sent this many more requests.
    pub(crate) async fn has_sent(&self, more: u64) {
        let until = self.sent.get() + more;
        self.sent.is(|sent| *sent >= until).await;
    }

    /// Decides the fate of a request. Its answer must pass the gate, so a host that freezes or dies receives nothing.
    pub(crate) fn decide(&self, request: &Request) -> Option<Fault> {
        self.asks(request);
        let mood = self.mood();
        if mood == Mood::Dead {
            return Some(Fault::Lose(When::Before));
        }
        self.tally.request();
        self.sent.change(|sent| *sent += 1);
        let heard = Fault::Hold(When::After, self.gate.clone());
        let ahead = self.front_ends.lock().unwrap().answer();
        if ahead.abs() > 1 {
            self.tally.fault("wrong date");
        }
        let heard = heard.and(Fault::Skew(ahead));
        Some(match self.suffer(mood, request) {
            Some((kind, fault)) => {
                self.tally.fault(kind);
                self.is_harmed();
                heard.and(fault)
            }
            None => heard,
        })
    }

    fn suffer(&self, mood: Mood, request: &Request) -> Option<(&'static str, Fault)> {
        let mut chance = self.chance.lock().unwrap();
        let (rng, weather) = &mut *chance;
        let befalls = weather.befall(request, rng);
        match mood {
            Mood::CutOff => Some(("cut off", Fault::Lose(When::Before))),
            Mood::Denied => Some(("refused", Fault::Refuse("AccessDeniedException"))),
            Mood::Frozen => Some(("frozen", Fault::Hold(When::Before, self.gate.clone()))),
            Mood::Tardy => self.tardy.lock().unwrap().befall(request, rng).or(befalls),
            Mood::Well | Mood::Dead => befalls,
        }
    }
}

impl Weather {
    fn befall(&self, request: &Request, rng: &mut Rng) -> Option<(&'static str, Fault)> {
        let befalls = self.rates.befall(request, rng);
        let late = LATEST.mul_f64(rng.f64());
        let (verb, is_late) = (verb(request), rng.f64());
        if !self.slow.contains(&verb) {
            return befalls;
        }
        // A read that returns late shows an old state. A write that arrives late does what was right when it was sent.
        match verb.starts_with("read") {
            true if is_late < 0.3 => Some(("slow poll", Fault::Delay(When::After, late / 2))),
            false if is_late < self.slow_writes => {
                Some(("slow write", Fault::Delay(When::Before, late)))
            }
            _ => befalls,
        }
    }
}

impl Tardy {
    /// A renewal is due when a third of the lease has passed. It gets through when five sixths have passed, or later.
    fn befall(&mut self, request: &Request, rng: &mut Rng) -> Option<(&'static str, Fault)> {
        let nonce = request.body()["ExpressionAttributeValues"][":nonce"]["S"].as_str()?;
        if !verb(request).starts_with("renew") {
            return None;
        }
        let since = self.since.entry(nonce.to_owned());
        let tried = since.or_insert_with(Instant::now).elapsed();
        // A holder believes in its hold for 98 % of the lease. A row or a slot lives until another client has observed it for a lease.
        let spread = if verb(request) == "renew hold" {
            0.1
        } else {
            0.35
        };
        if tried < self.lease.mul_f64(0.5 + rng.f64() * spread) {
            return Some(("renewal lost", Fault::Lose(When::Before)));
        }
        self.since.remove(nonce);
        None
    }
}
