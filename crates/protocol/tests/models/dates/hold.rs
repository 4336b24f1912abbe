//! The model of an entry: an owner that writes it, callers that judge it by both clocks, and true time.

use std::time::Duration;

use fairlock_protocol::lease::believed;
use fairlock_protocol::moment::ServerTime;
use fairlock_protocol::stamps::{self, LastDate, Reading, Stamps, Wall};
use stateright::{Model, Property};

use super::owner::{Flight, Owner, Pause, Write};
use super::rules::{Mutant, Rules};
use super::table::{Kind, Mark};
use crate::blank::{both, parts, reads};

pub(crate) const STOPPED: &str = "what is ended has no believer";
pub(crate) const KEPT: &str = "what was given back stays, but for what clocks differ";
pub(crate) const PASSED: &str = "a lease is dated by a time that has passed";
pub(crate) const WHOLE: &str = "without a pause an owner believes in all that it writes";
pub(crate) const ENDED: &str = "an entry is ended";

/// By how much right clocks may differ, in milliseconds: so much earlier what was given back may end.
const DIFFER: i64 = 4_998;

#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) lease: Duration,
    /// What becomes of the hold in the end.
    pub(crate) ends: Kind,
    pub(crate) renewals: u8,
    pub(crate) losses: u8,
    /// How many ticks before its client may have been told a `Date`. Besides, it may have been told none.
    pub(crate) ages: &'static [u8],
    /// How long a request takes at most, in ticks.
    pub(crate) timeout: u8,
    /// How often each caller polls.
    pub(crate) polls: [u8; 2],
    /// By how much callers extend a lease, if they do.
    pub(crate) extends: Option<Duration>,
    pub(crate) horizon: u8,
    pub(crate) pause: Pause,
    pub(crate) rules: Rules,
}

/// What a caller has under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Act {
    End(u8),
    Date(Mark, Stamps),
    Extend(u8, Write),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Caller {
    polls: u8,
    act: Option<Act>,
}

#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct World {
    now: u8,
    owner: Owner,
    callers: [Caller; 2],
    table: Option<Mark>,
    /// Until when somebody may believe in the entry, in true time.
    until: i64,
    was_ended: bool,
    broken: Option<&'static str>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// The owner's client was told this before.
    Know(Option<LastDate>),
    Tick,
    /// The owner's machine stands still with all of its clocks.
    Pause,
    Begin(Kind),
    Send(Wall),
    Serve(ServerTime),
    Hear,
    /// No answer arrives.
    Lose,
    Late,
    /// A caller polls and judges, or polls and extends.
    Judge(usize, Reading),
    Extend(usize, Reading),
    /// The write that a caller has under way is applied.
    Apply(usize),
}

impl Model for Setup {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        let mut world = World::default();
        (world.owner.renewals, world.owner.losses) = (self.renewals, self.losses);
        world.callers = self.polls.map(|polls| Caller { polls, act: None });
        vec![world]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        if !world.owner.has_begun {
            let told = self.ages.iter().map(|age| {
                let age = i64::from(*age) * self.rules.tick;
                self.rules.told(self.rules.time(0) - age)
            });
            actions.extend(told.flatten().map(|last| Action::Know(Some(last))));
            return actions.push(Action::Know(None));
        }
        let is_through = |caller: &Caller| caller.polls == 0 && caller.act.is_none();
        if world.was_ended || world.broken.is_some() || world.callers.iter().all(is_through) {
            return;
        }
        let counted = |tick| tick - world.owner.stood(tick, self);
        let late = |flight: &Flight| counted(world.now) >= counted(flight.sent) + self.timeout;
        if world.now < self.horizon && !world.owner.flight.as_ref().is_some_and(late) {
            actions.push(Action::Tick);
        }
        world.of_the_owner(self, actions);
        world.of_the_callers(self, actions);
    }

    fn next_state(&self, last: &World, action: Action) -> Option<World> {
        let mut world = last.clone();
        match action {
            Action::Know(last) => (world.owner.has_begun, world.owner.last) = (true, last),
            Action::Tick => world.now += 1,
            Action::Pause => world.owner.paused = Some(world.now),
            Action::Begin(kind) => {
                world.owner.begins(kind, world.now);
                // The owner has stopped to believe before it lets go.
                if world.owner.has_let_go {
                    world.until = 0;
                }
            }
            Action::Send(wall) => {
                world.owner.sends(wall, world.now, self);
                world.check_the_lease(self);
            }
            Action::Serve(date) => {
                if let Some(flight) = world.owner.flight {
                    let write = world.owner.counted(flight.write, world.now, self);
                    let (sent, served) = (flight.sent, Some((date, world.write(write, self))));
                    world.owner.flight = Some(Flight {
                        write,
                        sent,
                        served,
                    });
                }
            }
            Action::Hear => {
                let sent = world.owner.flight.map(|flight| flight.write.until);
                let heard = world.owner.hears(world.now, self);
                if let Some(write) = heard.filter(|_| self.pause != Pause::Never) {
                    world.believe(write, self);
                    let is_less = sent > Some(write.until) && self.pause == Pause::Before(0);
                    world.broken = is_less.then_some(WHOLE);
                }
            }
            Action::Lose => world.owner.loses(),
            Action::Late => {
                let late = world.owner.late.take()?;
                world.write(late.write, self);
            }
            Action::Judge(who, read) => world.judge(who, read, self)?,
            Action::Extend(who, read) => world.extend(who, read, self)?,
            Action::Apply(who) => world.apply(who, self)?,
        }
        let may_write = world.may_write(self);
        world.owner.forgets(may_write);
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always(STOPPED, |_, world| world.broken != Some(STOPPED)),
            Property::<Self>::always(KEPT, |_, world| world.broken != Some(KEPT)),
            Property::<Self>::always(PASSED, |_, world| world.broken != Some(PASSED)),
            Property::<Self>::always(WHOLE, |_, world| world.broken != Some(WHOLE)),
            Property::<Self>::sometimes(ENDED, |_, world| world.was_ended),
        ]
    }
}

impl World {
    /// An owner renews what it believes in, or is to believe in.
    fn may_renew(&self, setup: &Setup) -> bool {
        setup.rules.time(self.now) < self.until || setup.pause != Pause::Never
    }

    /// Whether the owner may yet write more, or hears how early it wrote.
    fn may_write(&self, setup: &Setup) -> bool {
        let owner = &self.owner;
        let is_to_end = setup.ends != Kind::Hold;
        let hears = setup.pause != Pause::Never && owner.flight.is_some();
        hears || owner.beats == 0 || !owner.has_let_go && (owner.renewals > 0 || is_to_end)
    }

    fn of_the_owner(&self, setup: &Setup, actions: &mut Vec<Action>) {
        let owner = &self.owner;
        let is_unserved = owner.flight.is_some_and(|it| it.served.is_none());
        if is_unserved && !owner.is_amid_a_pause(self.now, setup) {
            let dates = setup.rules.dates(0, setup.rules.time(self.now));
            actions.extend(dates.into_iter().map(Action::Serve));
        }
        actions.extend(owner.late.map(|_| Action::Late));
        if owner.stands(self.now, setup) {
            return;
        }
        actions.extend(owner.may_pause(setup).then_some(Action::Pause));
        if owner.is_idle() && owner.beats == 0 {
            actions.push(Action::Begin(Kind::Hold));
        } else if owner.is_idle() && !owner.has_let_go && self.may_renew(setup) {
            actions.extend((owner.renewals > 0).then_some(Action::Begin(Kind::Hold)));
            let knows = setup.ends != Kind::Lease || owner.last.is_some();
            let ends = setup.ends != Kind::Hold && knows;
            actions.extend(ends.then_some(Action::Begin(setup.ends)));
        }
        if let Some((stamped, _)) = owner.stamps_at(self.now, setup) {
            let time = owner.time(stamped, setup);
            let walls = setup.rules.walls(0, time);
            actions.extend(walls.into_iter().map(Action::Send));
        }
        let is_answered = owner.flight.is_some_and(|flight| flight.served.is_some());
        actions.extend(is_answered.then_some(Action::Hear));
        if owner.losses > 0 && owner.flight.is_some() {
            actions.push(Action::Lose);
        }
    }

    fn of_the_callers(&self, setup: &Setup, actions: &mut Vec<Action>) {
        for (who, caller) in self.callers.iter().enumerate() {
            if caller.act.is_some() {
                actions.push(Action::Apply(who));
            } else if let (Some(mark), true) = (self.table, caller.polls > 0) {
                let reads = setup.rules.readings(who + 1, setup.rules.time(self.now));
                let extends = setup.extends.is_some() && mark.kind == Kind::Lease;
                for read in reads {
                    actions.push(Action::Judge(who, read));
                    actions.extend(extends.then_some(Action::Extend(who, read)));
                }
            }
        }
    }

    /// A lease may be told to others once it is sent.
    fn check_the_lease(&mut self, setup: &Setup) {
        let (now, rules) = (self.now, &setup.rules);
        let sent = self.owner.flight.map(|flight| flight.write.mark);
        let lease = sent.filter(|mark| mark.kind == Kind::Lease);
        if lease.is_some_and(|mark| rules.are_to_come(mark.stamps, rules.time(now))) {
            self.broken = Some(PASSED);
        }
    }

    /// Applies a write of the owner, on the condition of its beat, and returns whether it did. The owner counts as believing at once,
    /// unless its belief hangs on the answer.
    fn write(&mut self, write: Write, setup: &Setup) -> bool {
        let mark = write.mark;
        let written = match self.table {
            None => (mark.beat == 0 && !self.was_ended).then_some(mark),
            Some(_) if setup.rules.broken(Mutant::BeatsGoBack) => Some(mark),
            Some(stands) => stands.written(mark),
        };
        self.table = written.or(self.table);
        if written.is_some() && setup.pause == Pause::Never {
            self.believe(write, setup);
        }
        written.is_some()
    }

    /// An owner that has let go does not believe in a renewal that it sent before.
    fn believe(&mut self, write: Write, setup: &Setup) {
        let mark = write.mark;
        let told = match mark.kind {
            Kind::Lease => setup.rules.relied_on(mark.stamps, believed(mark.lease)),
            Kind::Hold | Kind::GivenBack => 0,
        };
        if mark.kind != Kind::Hold || !self.owner.has_let_go {
            self.until = self.until.max(write.until).max(told);
        }
    }

    fn judge(&mut self, who: usize, read: Reading, setup: &Setup) -> Option<()> {
        let (shows, rules) = (self.table?, &setup.rules);
        let caller = &mut self.callers[who];
        caller.polls -= 1;
        let is_given_back = shows.kind == Kind::GivenBack;
        if rules.is_over((shows.stamps, shows.lease, is_given_back), read) {
            caller.act = Some(Act::End(shows.beat));
            return Some(());
        }
        let redated = rules.redated(shows.stamps, read);
        caller.act = redated.map(|stamps| Act::Date(shows, stamps));
        Some(())
    }

    fn extend(&mut self, who: usize, read: Reading, setup: &Setup) -> Option<()> {
        let (shows, rules, by) = (self.table?, &setup.rules, setup.extends?);
        let (began, time) = (self.now, rules.time(self.now));
        read.date?;
        let (stamps, lease) = stamps::extended((shows.stamps, shows.lease), by, read);
        let lease = match rules.mutant {
            Some(Mutant::ExtendsFromNow) => by,
            Some(Mutant::ExtendsByDates) => {
                let [server, date] = [shows.stamps, read.stamps()].map(|it| parts(it)[0]);
                let read = reads(date, Wall::IsNoWitness);
                stamps::extended((both(server, None), shows.lease), by, read).1
            }
            _ => lease,
        };
        let mark = Mark {
            beat: shows.beat + 1,
            stamps,
            lease,
            ..shows
        };
        let relied_on = stamps::relied_on(stamps, believed(lease), read.stamps());
        let until = time + rules.whole(relied_on);
        let write = Write { mark, began, until };
        let caller = &mut self.callers[who];
        caller.polls -= 1;
        caller.act = Some(Act::Extend(shows.beat, write));
        Some(())
    }

    fn apply(&mut self, who: usize, setup: &Setup) -> Option<()> {
        let (act, stands) = (self.callers[who].act.take()?, self.table?);
        let rules = &setup.rules;
        match act {
            Act::End(seen) => {
                if stands.is_evicted(seen) || rules.broken(Mutant::EvictsWithoutBeat) {
                    self.end(stands, setup);
                }
            }
            Act::Date(_, stamps) if rules.broken(Mutant::DatesWithoutBeat) => {
                self.table = Some(Mark { stamps, ..stands });
            }
            Act::Date(seen, stamps) => self.table = stands.dated(seen, stamps).or(self.table),
            Act::Extend(seen, write) => {
                let by = (write.mark.stamps, write.mark.lease);
                if let Some(extended) = stands.extended(seen, by) {
                    self.table = Some(extended);
                    self.believe(write, setup);
                }
            }
        }
        Some(())
    }

    fn end(&mut self, stands: Mark, setup: &Setup) {
        (self.table, self.was_ended) = (None, true);
        let time = setup.rules.time(self.now);
        self.broken = match stands.kind {
            Kind::GivenBack => (time < self.until - DIFFER).then_some(KEPT),
            Kind::Hold | Kind::Lease => (time < self.until).then_some(STOPPED),
        };
    }
}
