//! A host: a client, its clocks, its callers and their holds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::agent::record::Recorder;
use fairlock_protocol::agent::{
    Client, Clocks, HoldId, Input, LeaseTerm, Lock, Output, Random, ReplyId, Request, RequestId,
    Stood, Terms, Turn,
};
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::moment::{Moment, ServerTime};
use fairlock_protocol::told::ToldTime;
use fastrand::Rng;

use crate::agenda::{At, MS, Process};
use crate::causes::Trouble;
use crate::clocks::HostClock;
use crate::features::Features;
use crate::plan::{HostPlan, nanos};
use crate::seen::Data;

/// The permits of an exclusive lock.
pub(crate) const PERMITS: u64 = 64;

/// The lock with this number.
pub(crate) fn lock(number: usize) -> Lock {
    Lock {
        name: format!("lock-{number}").into(),
        permits: PERMITS,
    }
}

/// The number of a lock.
pub(crate) fn number(lock: &Lock) -> usize {
    let last = lock.name.as_bytes().last();
    usize::from(last.copied().unwrap_or_default().saturating_sub(b'0'))
}

/// Chance, as a client is given it.
pub(crate) struct Chance(pub(crate) Rng);

impl Random for Chance {
    fn nonce(&mut self) -> Nonce {
        Nonce::new(self.0.u128(..))
    }

    fn unit(&mut self) -> f64 {
        self.0.f64()
    }
}

/// How the way to the table is for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Fine,
    Slow,
    Silent,
    /// Every request comes to this, or four in five.
    Trouble(Trouble),
}

/// A host.
pub(crate) struct Host {
    pub(crate) terms: Arc<Terms>,
    pub(crate) reads_newer: bool,
    pub(crate) life: u32,
    /// No process runs.
    pub(crate) is_down: bool,
    pub(crate) client: Client,
    pub(crate) told: ToldTime,
    pub(crate) clock: HostClock,
    pub(crate) chance: Chance,
    pub(crate) callers: Vec<Caller>,
    pub(crate) holds: BTreeMap<HoldId, Held>,
    /// Calls that their callers have left.
    pub(crate) cancelled: Vec<u64>,
    /// The data that are being put, by the replies to come.
    pub(crate) putting: BTreeMap<ReplyId, (HoldId, Data)>,
    /// The holds that give parts back, by the replies to come.
    pub(crate) freeing: BTreeMap<ReplyId, HoldId>,
    /// The places of others that it gives up, by the replies to come.
    pub(crate) giving_up: BTreeMap<ReplyId, (usize, Stood)>,
    /// It has said so to its client, and whether holds are kept.
    pub(crate) is_closing: bool,
    pub(crate) mood: Mood,
    /// Since when a policy denies its requests, or did last.
    pub(crate) denied_from: At,
    pub(crate) denied_until: At,
    pub(crate) front_end: usize,
    /// It handles nothing until then.
    pub(crate) stopped_until: At,
    /// Its mailbox is handled until then.
    pub(crate) mailbox_until: At,
    /// By how much its driver has been late, in all.
    pub(crate) late: At,
    /// When something went wrong for it last.
    pub(crate) troubled_at: At,
    /// For when its timer is armed, and how often it was.
    pub(crate) armed: Option<Moment>,
    pub(crate) arming: u32,
    next: u64,
    /// The record of its process, if it has one.
    pub(crate) record: Option<Recorder<Vec<u8>>>,
}

impl Host {
    pub(crate) fn new(plan: &HostPlan, mut rng: Rng) -> Self {
        let front_end = rng.usize(0..3);
        Host {
            terms: Arc::clone(&plan.terms),
            reads_newer: plan.reads_newer,
            life: 0,
            is_down: false,
            client: Client::new(Arc::clone(&plan.terms)),
            told: ToldTime::default(),
            clock: HostClock::new(plan.rate, plan.ahead),
            chance: Chance(rng),
            callers: vec![Caller::default(); plan.callers],
            holds: BTreeMap::new(),
            cancelled: Vec::new(),
            putting: BTreeMap::new(),
            freeing: BTreeMap::new(),
            giving_up: BTreeMap::new(),
            is_closing: false,
            mood: Mood::Fine,
            denied_from: 0,
            denied_until: 0,
            front_end,
            stopped_until: 0,
            mailbox_until: 0,
            late: 0,
            troubled_at: 0,
            armed: None,
            arming: 0,
            next: 0,
            record: None,
        }
    }

    /// A new process begins, which knows nothing of the one before.
    pub(crate) fn begins_anew(&mut self) {
        self.client = Client::new(Arc::clone(&self.terms));
        if self.record.is_some() {
            self.records();
        }
        self.told = ToldTime::default();
        self.callers.fill(Caller::default());
        self.cancelled.clear();
        self.putting.clear();
        self.freeing.clear();
        self.giving_up.clear();
        self.holds.clear();
        self.is_closing = false;
        self.armed = None;
        self.arming += 1;
        self.mailbox_until = 0;
    }

    pub(crate) fn process(&self, host: usize) -> Process {
        let life = self.life;
        Process { host, life }
    }

    /// Something is wrong for it, until then.
    pub(crate) fn is_troubled_until(&mut self, at: At) {
        self.troubled_at = self.troubled_at.max(at);
    }

    /// A number that nothing else of the host has.
    pub(crate) fn next(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Hands an input to the client, or says that something is due.
    pub(crate) fn handle(&mut self, (at, boot): (At, Option<ServerTime>), input: Option<Input>) {
        let clocks = Clocks {
            now: self.clock.moment(at),
            host: self.clock.wall(at),
            told: self.told,
            boot,
        };
        let turn = Turn {
            clocks,
            random: &mut self.chance,
        };
        match &mut self.record {
            Some(record) => record.turn(&mut self.client, input, turn).unwrap_or(()),
            None => self.client.turn(input, turn),
        }
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        let output = self.client.poll_output()?;
        if let Some(record) = &mut self.record {
            record.told(&output).unwrap_or(());
        }
        Some(output)
    }

    pub(crate) fn poll_request(&mut self) -> Option<(RequestId, Request)> {
        let request = self.client.poll_request()?;
        if let Some(record) = &mut self.record {
            record.asked(&request).unwrap_or(());
        }
        Some(request)
    }

    /// The record of its last process.
    pub(crate) fn record(self) -> Option<String> {
        String::from_utf8(self.record?.into_inner()).ok()
    }

    /// Begins a record of its process.
    pub(crate) fn records(&mut self) {
        self.record = Recorder::new(Vec::new(), &self.terms).ok();
    }

    /// When a call that waits is answered at the latest, whose time was over then.
    pub(crate) fn answered_by(&self, over: At) -> At {
        let timeout = nanos(self.terms.request_timeout);
        over + timeout + timeout / 90 + 50 * MS
    }

    /// The caller whose call this is.
    pub(crate) fn caller_of(&self, call: u64) -> Option<usize> {
        let asks = |it: &Caller| matches!(it.doing, Doing::Asking { call: of } if of == call);
        self.callers.iter().position(asks)
    }
}

/// What a caller does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doing {
    #[default]
    Resting,
    Asking {
        call: u64,
    },
    /// It has been given a hold, and has not looked yet.
    Granted(HoldId),
    /// It works under a hold, for so many steps more.
    Using(HoldId, u32),
    Releasing(HoldId, ReplyId),
}

/// A caller, and its turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Caller {
    pub(crate) doing: Doing,
    pub(crate) lock: usize,
    /// The call among all calls of the world.
    pub(crate) call: u32,
    pub(crate) asked: At,
    /// The bounds that it asked for.
    pub(crate) min: Option<At>,
    pub(crate) max: Option<At>,
    /// How many permits it wants, if it does not want all.
    pub(crate) share: Option<u64>,
    /// The lease that it asks for by its name.
    pub(crate) named: Option<LeaseTerm>,
    pub(crate) begins_later: bool,
    /// The newest request of its call.
    pub(crate) newest: Option<RequestId>,
    /// How many requests were sent for this turn.
    pub(crate) requests: u32,
    /// How often the lock was changed before the turn. `None` if something was in its way.
    pub(crate) plain: Option<u32>,
    /// Whether it waits for its turn.
    pub(crate) waits: bool,
    pub(crate) until: At,
    /// The most turns that it accepts before its own.
    pub(crate) limit: Option<u64>,
    /// It is told how it stands, and was told so.
    pub(crate) is_observed: bool,
    pub(crate) place: Option<Place>,
    pub(crate) is_kept: bool,
    /// It does not wait for its own client.
    pub(crate) denies_self_wait: bool,
    /// Its attempts that have had a place.
    pub(crate) nonces: Vec<Nonce>,
    /// It waits, and asks for nothing besides.
    pub(crate) is_plain: bool,
    /// The ticket of the holder that it meets, if that is all that is in its way.
    pub(crate) meets: Option<u64>,
    /// The newest ticket of a queue in which all is over, if that is all that is in its way.
    pub(crate) meets_dead: Option<(u64, u32)>,
    /// How long each step of its work takes.
    pub(crate) step: At,
    /// What it combines in its turn.
    pub(crate) features: Features,
}

/// What a caller was told last of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) stood: Stood,
    pub(crate) position: u64,
    /// The holder that it was told of.
    pub(crate) holder: Option<u64>,
}

/// A hold, as its caller sees it.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// The hold among all holds of the world.
    pub(crate) uid: u32,
    pub(crate) caller: usize,
    pub(crate) lock: usize,
    pub(crate) ticket: u64,
    pub(crate) place: u64,
    pub(crate) until: Moment,
    /// Its caller does not believe in it any more.
    pub(crate) is_over: bool,
    pub(crate) ended: At,
    pub(crate) puts: u64,
    /// How many permits its caller counts on.
    pub(crate) keeps: u64,
    /// Its client could not free a part.
    pub(crate) frees_later: bool,
    /// For how long it is to last as a lease.
    pub(crate) leases: Option<Duration>,
    /// When its bounds began.
    pub(crate) began: Option<At>,
}
