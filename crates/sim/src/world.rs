//! A world: hosts, a table, and what happens between them, from a seed to the end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::agent::{Input, What};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::LockItem;
use fastrand::Rng;

use crate::agenda::{Agenda, At, Event, HOUR, Process, SECOND};
use crate::clocks::{FrontEnds, shifted};
use crate::faults::Planted;
use crate::features::Pairs;
use crate::host::{Doing, Host, Mood};
use crate::misbehaviour::{Misbehaviour, Tokens};
use crate::mistakes::{Mistake, Mistakes};
use crate::oracles::{Oracles, Violation};
use crate::plan::{HostPlan, Plan, nanos};
use crate::scripted::Waiter;
use crate::seen::Seen;
use crate::standing::Standing;
use crate::story::Story;
use crate::table::Table;

/// What a seed does besides running.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Its story is told.
    pub(crate) tells: bool,
    /// The mistake that is planted.
    pub(crate) mistake: Option<Mistake>,
    /// What every client does wrong.
    pub(crate) misbehaviour: Option<Misbehaviour>,
    /// It is noted which mistakes could be planted.
    pub(crate) collects: bool,
    /// It is short, and nothing goes wrong by itself.
    pub(crate) is_short: bool,
    /// The fault that is planted.
    pub(crate) fault: Option<Planted>,
    /// Each host has a record.
    pub(crate) records: bool,
}

/// What came of a seed.
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    pub(crate) turns: u64,
    pub(crate) violation: Option<Violation>,
    pub(crate) digest: u64,
    pub(crate) story: Option<Story>,
    pub(crate) mistakes: Mistakes,
    pub(crate) pairs: Pairs,
    /// The records of the last processes of the hosts.
    pub(crate) records: Vec<String>,
}

/// A world at a moment.
pub(crate) struct World {
    pub(crate) at: At,
    pub(crate) plan: Plan,
    pub(crate) rng: Rng,
    pub(crate) agenda: Agenda,
    pub(crate) table: Table,
    pub(crate) front_ends: FrontEnds,
    pub(crate) hosts: Vec<Host>,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) oracles: Oracles,
    /// The newest token that each resource accepted.
    pub(crate) fences: Vec<u64>,
    pub(crate) standing: Standing,
    /// How often scripted processes changed anything.
    pub(crate) scripted: u32,
    /// How often each lock was changed.
    pub(crate) changes: Vec<u32>,
    /// The place that was given back of each lock, and until when it is kept at most.
    pub(crate) given_back: Vec<(u64, At)>,
    /// The tickets of places that an operator broke.
    pub(crate) broken: BTreeSet<(usize, u64)>,
    pub(crate) requests: u64,
    pub(crate) turns: u64,
    pub(crate) turns_taken: u64,
    pub(crate) calls: u32,
    holds: u32,
    /// Nothing goes wrong any more, and nobody asks.
    pub(crate) is_calm: bool,
    pub(crate) fault: Option<Planted>,
    pub(crate) misbehaviour: Option<Misbehaviour>,
    pub(crate) tokens: Tokens,
    /// The next request is doubled, and its copy comes so much later.
    pub(crate) doubles: Option<At>,
    /// Nobody asks until then.
    pub(crate) quiet_until: At,
    /// The lock for which the last caller asks.
    pub(crate) last_lock: usize,
    pub(crate) story: Option<Story>,
    pub(crate) pairs: Pairs,
    mistakes: Option<Mistakes>,
    violation: Option<Violation>,
    digest: u64,
}

/// A world that has not come to rest after so many events does not.
const MOST_EVENTS: u64 = 400_000;
/// How long a seed lasts at most before its faults stop, silence aside.
const LONGEST: At = HOUR;
/// The last caller asks so often, and once more for each row, for a lock before it must have it.
const LAST_TRIES: usize = 8;

/// Runs a seed.
pub(crate) fn run(seed: u64, options: &Options) -> Outcome {
    let mut world = World::of(seed, options);
    if options.records {
        world.hosts.iter_mut().for_each(Host::records);
    }
    world.begin_chaos();
    for host in 0..world.hosts.len() {
        world.starts(host);
    }
    world.goes_on();
    Outcome {
        requests: world.requests,
        turns: world.turns,
        violation: world.violation,
        digest: world.digest,
        story: world.story,
        mistakes: world.mistakes.unwrap_or_default(),
        pairs: world.pairs,
        records: world.hosts.into_iter().filter_map(Host::record).collect(),
    }
}

impl World {
    fn of(seed: u64, options: &Options) -> World {
        let plan = match options.is_short {
            true => Plan::short(seed),
            false => Plan::of(seed),
        };
        let mut rng = Rng::with_seed(seed);
        let locks = plan.locks;
        let host = |host: &HostPlan, rng: &mut Rng| Host::new(host, rng.fork());
        World {
            at: 0,
            agenda: Agenda::default(),
            table: Table::new(locks, options.mistake.clone()),
            front_ends: FrontEnds::new(plan.dates, &mut rng),
            hosts: plan.hosts.iter().map(|it| host(it, &mut rng)).collect(),
            waiters: vec![Waiter::default(); plan.waiters],
            oracles: Oracles::of(&plan),
            fences: vec![0; locks],
            standing: Standing::default(),
            scripted: 0,
            changes: vec![0; locks],
            given_back: vec![(0, 0); locks],
            broken: BTreeSet::new(),
            requests: 0,
            turns: 0,
            turns_taken: 0,
            calls: 0,
            holds: 0,
            is_calm: false,
            fault: options.fault,
            misbehaviour: options.misbehaviour,
            tokens: Tokens::default(),
            doubles: None,
            quiet_until: 0,
            last_lock: 0,
            story: options.tells.then(|| Story::of(locks)),
            pairs: Pairs::default(),
            mistakes: options.collects.then(Mistakes::default),
            violation: None,
            digest: 0xcbf2_9ce4_8422_2325,
            plan,
            rng,
        }
    }

    /// Lets things go wrong, then lets all come to rest, and then one more caller ask for each lock.
    fn goes_on(&mut self) {
        self.runs_until(|world| world.has_done_enough());
        self.calms_down();
        let lease = self.plan.longest_lease();
        // Behind a long queue of dead rows a waiter sees the last of them with one poll, and with a later one that they are over.
        let looks = 1 + u64::from(self.plan.has_long_queues);
        let watches = lease + looks * self.plan.longest_stretched();
        let rest = 3 * lease + watches + 3 * self.plan.longest_join() + 120 * SECOND;
        let rests_at = self.at + rest;
        self.runs_until(|world| world.at >= rests_at);
        self.at = self.at.max(rests_at);
        self.is_at_rest();
        if self.front_ends.is_dated() {
            self.asks_last();
        }
        if self.violation.is_none() {
            let at = self.at;
            self.violation = self.oracles.rest(at).err();
        }
    }

    fn runs_until(&mut self, mut is_over: impl FnMut(&mut World) -> bool) {
        while self.violation.is_none() && !is_over(self) {
            let Some((at, event)) = self.agenda.next() else {
                break;
            };
            self.at = at;
            self.mix(at);
            if self.agenda.noted() > MOST_EVENTS {
                let message = format!("does not come to rest: {} turns", self.turns_taken);
                self.fail("rest", None, message);
            }
            self.happens(event);
        }
    }

    fn has_done_enough(&mut self) -> bool {
        if self.plan.silence > 0 && self.turns >= self.plan.turns / 2 {
            self.falls_silent();
        }
        let plan = &self.plan;
        let has_done = self.requests >= plan.requests && self.turns >= plan.turns;
        has_done || self.requests >= plan.enough || self.at > self.quiet_until + LONGEST
    }

    /// Nobody asks for a while. Often that ends when TTL, by its own clock, is about to delete the item.
    fn falls_silent(&mut self) {
        let mut silence = std::mem::take(&mut self.plan.silence);
        let now = shifted(self.at, 0).as_secs();
        let left = self
            .table
            .item(0)
            .map(|item| item.expires_at.saturating_sub(now));
        let (rest, soon) = (self.rng.u64(600..5 * 3600), self.rng.u64(20..120));
        if let Some(until) = left.and_then(|left| left.checked_sub(rest))
            && self.rng.bool()
        {
            silence = until * SECOND;
            self.plan.ttl.0 = (rest - soon).cast_signed();
            for minute in 1..6 {
                let at = self.at + silence + minute * 60 * SECOND;
                self.agenda.note(at, Event::Ttl);
            }
        }
        self.quiet_until = self.at + silence;
    }

    fn happens(&mut self, event: Event) {
        let event = match self.puts_off(event) {
            Some(event) => event,
            None => return,
        };
        match event {
            Event::Arrives(parcel) => self.arrives(*parcel),
            Event::Answers(delivery) => self.answers(*delivery),
            Event::Mail(process, input, late) => {
                self.hosts[process.host].late += late;
                self.turn(process.host, Some(*input));
            }
            Event::Datagram(process, datagram) => {
                self.mail(process.host, Input::Datagram(datagram));
            }
            Event::Wakes(process, arming) => self.wakes(process, arming),
            Event::Acts(process, caller) => self.acts(process, caller),
            Event::Cancels(process, call) => self.cancels(process, call),
            Event::Notices(process, hold) => self.notices(process, hold),
            Event::Mood(host) => self.changes_mood(host),
            Event::Stops(host) => self.stops(host),
            Event::Crashes(host) => self.crashes(host),
            Event::Starts(host) => self.starts(host),
            Event::Closes(host) => self.closes(host),
            Event::ClockStep => self.steps_clock(),
            Event::Ttl => self.expires(),
            Event::Operates => self.operates(),
            Event::Plants => self.plants(),
            Event::Waits(waiter) => self.waits(waiter),
            Event::BreakIsDue(hold) => self.is_due_to_know(hold, true),
            Event::AskIsDue(hold) => self.is_due_to_know(hold, false),
            Event::Format(lock, is_newer) => self.changes_format(lock, is_newer),
        }
    }

    /// The timer fires, maybe late.
    fn wakes(&mut self, process: Process, arming: u32) {
        if self.hosts[process.host].arming != arming {
            return;
        }
        self.turn(process.host, None);
    }

    /// What concerns a process that has ended is dropped, and so is what would go wrong once nothing does. What concerns one that stands still comes when it goes on.
    fn puts_off(&mut self, event: Event) -> Option<Event> {
        let process = match &event {
            Event::Answers(delivery) => delivery.to,
            Event::Mail(process, ..)
            | Event::Datagram(process, _)
            | Event::Wakes(process, _)
            | Event::Acts(process, _)
            | Event::Cancels(process, _)
            | Event::Notices(process, _) => *process,
            Event::Mood(_)
            | Event::Stops(_)
            | Event::Crashes(_)
            | Event::Closes(_)
            | Event::ClockStep
            | Event::Operates
            | Event::Plants
            | Event::Format(..) => return (!self.is_calm).then_some(event),
            _ => return Some(event),
        };
        let Process { host, life } = process;
        let it = &self.hosts[host];
        if it.life != life {
            return None;
        }
        if it.stopped_until > self.at {
            self.agenda.note(it.stopped_until, event);
            return None;
        }
        Some(event)
    }

    /// From now on nothing goes wrong, and nobody asks. A client that was shut down has ended.
    fn calms_down(&mut self) {
        self.is_calm = true;
        self.quiet_until = 0;
        self.front_ends.mend();
        for lock in 0..self.plan.locks {
            self.table.set_newer(lock, false);
        }
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_closing {
                self.ends_process(host);
            }
            let it = &mut self.hosts[host];
            it.mood = Mood::Fine;
            it.stopped_until = 0;
            it.is_down = false;
            self.tell_host(host, "has peace from now on");
        }
        // What was put off comes when its host would have gone on, which is soon enough.
        for host in 0..self.hosts.len() {
            self.turn(host, None);
            let callers = self.hosts[host].callers.iter().enumerate();
            let untaken = callers.filter_map(|(caller, it)| match it.doing {
                Doing::Granted(_) => Some(caller),
                _ => None,
            });
            for caller in untaken.collect::<Vec<_>>() {
                self.takes_soon(host, caller);
            }
        }
    }

    fn is_at_rest(&mut self) {
        for host in 0..self.hosts.len() {
            if !self.hosts[host].client.is_idle() && self.violation.is_none() {
                let message = format!("the client of host {host} has not come to rest");
                self.fail("rest", None, message);
            }
        }
    }

    /// A new host, whose clocks are right, asks for each lock until it has it.
    fn asks_last(&mut self) {
        let mut plan = self.plan.hosts[0].clone();
        (plan.rate, plan.ahead, plan.callers) = (1.0, 0, 1);
        let mut terms = (*plan.terms).clone();
        (terms.owner, terms.address) = ("last".into(), None);
        plan.terms = Arc::new(terms);
        let host = self.hosts.len();
        self.hosts.push(Host::new(&plan, self.rng.fork()));
        self.plan.rest = nanos(Duration::from_secs(1));
        for lock in 0..self.plan.locks {
            if self.violation.is_none() {
                self.asks_last_for(host, lock);
            }
        }
    }

    fn asks_last_for(&mut self, host: usize, lock: usize) {
        self.last_lock = lock;
        let turns = self.turns;
        // Each call replaces the stamps of one row at most.
        let rows = self.table.rows(lock).len();
        for _ in 0..LAST_TRIES + rows {
            let calls = self.calls;
            self.rests(host, 0);
            self.runs_until(|world| {
                let is_resting = world.hosts[host].callers[0].doing == Doing::Resting;
                world.calls > calls && is_resting
            });
            if self.turns > turns || self.violation.is_some() {
                return self.leaves_nothing(lock);
            }
            let again = self.at + self.plan.longest_lease() + 10 * SECOND;
            self.runs_until(|world| world.at >= again);
            self.at = self.at.max(again);
        }
        self.fail(
            "nothing is left",
            Some(lock),
            "the last caller never gets the lock".to_owned(),
        );
    }

    /// After the last turn nobody has the lock, or waits for it.
    fn leaves_nothing(&mut self, lock: usize) {
        let item = self.table.item(lock);
        let is_left = item.is_some_and(|item| !item.is_idle());
        if is_left && self.violation.is_none() {
            let message = "something is left after the last turn".to_owned();
            self.fail("nothing is left", Some(lock), message);
        }
    }

    pub(crate) fn is_last(&self, host: usize) -> bool {
        host >= self.plan.hosts.len()
    }

    /// A write changed the lock item: entries may have ended, or all of it.
    pub(crate) fn has_changed(&mut self, lock: usize, before: Option<&LockItem>, verb: &str) {
        self.changes[lock] += 1;
        self.counts_room(lock);
        self.stands(lock, before);
        let by_release = matches!(verb, "release" | "give up a slot");
        self.places_end(lock, before, by_release);
        let Some(before) = before else {
            return;
        };
        let after = self.table.item(lock).cloned();
        for entry in before.entries() {
            let stays =
                |item: &Arc<LockItem>| item.position_of_place(entry.nonce, entry.ticket).is_some();
            if !after.as_ref().is_some_and(stays) {
                let ticket = entry.ticket.get();
                if by_release && entry.id.is_some() {
                    // Another caller may have been told of it, and nobody here releases one.
                    let message = format!("the lease of {ticket} is given back by a client");
                    self.fail("leases last", Some(lock), message);
                }
                self.see(Seen::Unseated {
                    lock,
                    ticket,
                    by_release,
                });
            }
        }
        if after.is_none() {
            let is_promised = true;
            self.see(Seen::Removed { lock, is_promised });
        }
    }

    /// The permits that are left are those that no sharer has, and no place stands there twice.
    fn counts_room(&mut self, lock: usize) {
        let Some(item) = self.table.item(lock).filter(|it| !it.sharers.is_empty()) else {
            return;
        };
        let taken: i64 = item.sharers.iter().map(|it| it.permits.cast_signed()).sum();
        let left = item.there_are().cast_signed() - taken;
        let nonces: BTreeSet<_> = item.entries().map(|it| it.nonce).collect();
        if item.room != left || nonces.len() < item.entries().count() {
            let room = item.room;
            let message = format!("{room} permits are left, where sharers leave {left}");
            self.fail("room", Some(lock), message);
        }
    }

    /// An entry that holds the lock, or is next, may have a new beat, and so a new end. One that gave permits back may stand among sharers.
    fn stands(&mut self, lock: usize, before: Option<&LockItem>) {
        let Some(item) = self.table.item(lock).cloned() else {
            return;
        };
        let beats = |entry: &Entry| (entry.ticket, entry.beat);
        let first = |item: &'_ LockItem| -> Vec<_> {
            let holders = item.sharers.iter().chain(item.slots.first());
            holders.map(beats).collect()
        };
        let was = before.map(first).unwrap_or_default();
        for entry in item.sharers.iter().chain(item.slots.first()) {
            if !was.contains(&beats(entry)) {
                let (ticket, ends) = (entry.ticket.get(), self.at + nanos(entry.lease));
                self.see(Seen::Stands { lock, ticket, ends });
            }
        }
    }

    pub(crate) fn see(&mut self, seen: Seen) {
        self.tell_seen(&seen);
        if let Seen::Broken { lock, ticket } = seen {
            self.broken.insert((lock, ticket));
        }
        if self.violation.is_none() {
            self.violation = self.oracles.see(self.at, &seen).err();
        }
    }

    pub(crate) fn fail(&mut self, oracle: &'static str, lock: Option<usize>, message: String) {
        self.violation.get_or_insert(Violation {
            oracle,
            lock,
            message,
        });
    }

    pub(crate) fn next_hold(&mut self) -> u32 {
        self.holds += 1;
        self.holds
    }

    /// Notes which mistakes could be planted in a request.
    pub(crate) fn collects(&mut self, what: &What) {
        if let Some(mistakes) = &mut self.mistakes {
            match what {
                What::Write { write, .. } => mistakes.saw(write),
                What::WriteRow(_, write) => mistakes.saw_row(write),
                _ => {}
            }
        }
    }

    /// A span that is long only seldom.
    pub(crate) fn mostly_short(&mut self, most: At) -> At {
        let most = most >> self.rng.u32(0..8);
        self.rng.u64(0..=most)
    }

    /// Makes the digest differ where the number does.
    pub(crate) fn mix(&mut self, number: u64) {
        self.digest = (self.digest ^ number).wrapping_mul(0x0100_0000_01b3);
    }
}
