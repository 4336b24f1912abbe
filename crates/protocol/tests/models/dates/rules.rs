//! The rules of a run: which clocks are wrong, and which rule, if any, is changed to see that the search catches it.

use std::time::Duration;

use fairlock_protocol::moment::{HostTime, Moment, ServerTime};
use fairlock_protocol::stamps::{self, LastDate, Reading, Stamps, Wall};

use crate::blank::{both, parts, reads, shows};

/// The rules of dates with one of them changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mutant {
    JudgesByDates,
    JudgesByWalls,
    /// One of the two clocks is enough.
    JudgesByEither,
    /// A judge goes by a `Date` of before, carried on as one that stamps does.
    JudgesByCarried,
    NoAllowance,
    /// What was given back ends by `Date`s alone.
    GivesUpByDates,
    /// An owner writes its wall clock for the server's time.
    StampsByWallAlone,
    /// An owner writes the server's time for its wall clock.
    StampsByDateAlone,
    /// A `Date` counts from the arrival of its answer.
    FromTheArrival,
    /// An owner believes by stamps that the answer shows to be early.
    TrustsItsClocks,
    /// It does so once it has its place.
    RenewsByItsClocks,
    /// A `Date` of whole seconds excuses stamps that are early by one.
    ExcusesASecond,
    /// What stamps are early by counts though they do not agree.
    CountsWhatDisagrees,
    /// Stamps are to agree as if their `Date` had just been told.
    CarriesExactly,
    /// Of two `Date`s the older one tells a part of a second as it is carried on into stamps.
    HearsByASlowClock,
    /// A `Date` is carried on as a clock counts that is never slow.
    CarriesPlainly,
    /// A hold counts from when its stamps were taken.
    BelievesFromTheStamps,
    EvictsWithoutBeat,
    /// A caller dates what it saw, whatever stands there now.
    DatesWithoutBeat,
    /// A caller dates what it saw by a `Date` of before, though its machine stood still since.
    DatesByItsClocks,
    /// A late copy of a write applies, though a newer beat stands there.
    BeatsGoBack,
    /// A lease is dated by the time of a renewal, which may be to come.
    LeasesFromTheStamps,
    /// What the stamps of a lease are early by counts for its owner.
    ReliesFromTheWrite,
    ExtendsFromNow,
    ExtendsByDates,
    /// A draw writes over later stamps.
    DrawsGoBack,
    /// No caller dates what has no stamps, or a `Date` of the future.
    LeavesDates,
    /// A stamp of a wall clock in a judge's future counts.
    TrustsWalls,
    /// It counts for nothing though right clocks differ by as much.
    DoubtsRightWalls,
    /// A caller writes its own wall clock over a stamp of its future.
    RedatesWalls,
    /// The earlier of the two clocks counts for an item and its tickets.
    ItemsByTheEarlier,
    SweepsByWalls,
}

/// Which clocks of a participant may show anything, another time at each reading: also steps, forwards and back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrong {
    pub(crate) dates: bool,
    pub(crate) walls: bool,
}

pub(crate) const NONE: Wrong = wrong(false, false);
pub(crate) const DATES: Wrong = wrong(true, false);
pub(crate) const WALLS: Wrong = wrong(false, true);

pub(crate) const fn wrong(dates: bool, walls: bool) -> Wrong {
    Wrong { dates, walls }
}

/// Whose clock a `Date` is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// Front ends' that are no clock of a participant, ahead of the true time by so many milliseconds for ever.
    Ahead(i64),
    /// The same, and wall clocks are known to be no witness.
    Alone(i64),
    /// The wall clock of the only machine.
    TheWall,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) mutant: Option<Mutant>,
    /// A tick of true time, in milliseconds.
    pub(crate) tick: i64,
    /// Of the owner and of the callers.
    pub(crate) wrong: [Wrong; 3],
    /// By how many milliseconds the right `Date`s are off that the owner is told.
    pub(crate) told: &'static [i64],
    /// By how many milliseconds wrong clocks may be wrong.
    pub(crate) offsets: &'static [i64],
    pub(crate) server: Server,
    /// Whether callers meet answers without a `Date`, too.
    pub(crate) is_silent_at_times: bool,
    /// The rate of the clock by which the owner counts, in percent.
    pub(crate) rate: i64,
}

/// Right clocks are off by less than two seconds, and a `Date` has whole seconds. What lies between makes no difference.
pub(crate) const DATES_OFF: &[i64] = &[-2_999, 1_999];
const WALLS_OFF: [i64; 2] = [-1_999, 1_999];
/// By how much a `Date` may be late that was carried on for four minutes.
const CARRIED_ON: Duration = Duration::from_secs(10);
/// The true time at tick zero, in milliseconds.
const BEGIN: i64 = 1_700_000_000_000;

pub(crate) fn millis(millis: i64) -> Duration {
    Duration::from_millis(millis.try_into().unwrap_or_default())
}

impl Rules {
    pub(crate) fn broken(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The true time, in milliseconds.
    pub(crate) fn time(&self, tick: u8) -> i64 {
        BEGIN + i64::from(tick) * self.tick
    }

    /// By the clock that the owner counts by. An hour of it was before.
    pub(crate) fn moment(&self, time: i64) -> Moment {
        Moment(millis((time - BEGIN + 3_600_000) * self.rate / 100))
    }

    /// How long a span of the owner's clock is in true time, in milliseconds.
    pub(crate) fn lasts(&self, span: Duration) -> i64 {
        self.whole(span) * 100 / self.rate
    }

    pub(crate) fn whole(&self, span: Duration) -> i64 {
        i64::try_from(span.as_millis()).unwrap_or_default()
    }

    fn ahead(&self) -> i64 {
        match self.server {
            Server::Ahead(by) | Server::Alone(by) => by,
            Server::TheWall => 0,
        }
    }

    /// What an answer may tell of this true time.
    pub(crate) fn dates(&self, who: usize, time: i64) -> Vec<ServerTime> {
        let right = if who == 0 { self.told } else { DATES_OFF };
        let wrong = self.wrong[who].dates.then_some(self.offsets);
        let offs = right.iter().chain(wrong.into_iter().flatten());
        offs.map(|off| ServerTime(millis(time + self.ahead() + off)))
            .collect()
    }

    /// What a participant's wall clock may show at this true time.
    pub(crate) fn walls(&self, who: usize, time: i64) -> Vec<Wall> {
        if let Server::Alone(_) = self.server {
            return vec![Wall::IsNoWitness];
        }
        let wrong = self.wrong[who].walls.then_some(self.offsets);
        let offs = WALLS_OFF.iter().chain(wrong.into_iter().flatten());
        offs.map(|off| Wall::Shows(HostTime(millis(time + off))))
            .collect()
    }

    /// What a caller may read together.
    pub(crate) fn readings(&self, who: usize, time: i64) -> Vec<Reading> {
        let mut read = Vec::new();
        for wall in self.walls(who, time) {
            let told = |date: ServerTime| reads(Some(date.0), wall);
            match self.server {
                Server::TheWall => read.push(reads(shows(wall), wall)),
                _ => read.extend(self.dates(who, time).into_iter().map(told)),
            }
            let is_silent = self.is_silent_at_times;
            read.extend(is_silent.then_some(reads(None, wall)));
        }
        read
    }

    /// Whether all clocks of one kind are right: only then is a time by them worth anything.
    pub(crate) fn are_right(&self) -> Wrong {
        let all = |is: fn(&Wrong) -> bool| !self.wrong.iter().any(is);
        wrong(all(|it| it.dates), all(|it| it.walls))
    }

    /// Whether a part that is known to be right is later than the time, by more than right clocks are.
    pub(crate) fn are_to_come(&self, stamps: Stamps, time: i64) -> bool {
        let (right, [server, host]) = (self.are_right(), parts(stamps));
        let is_later = |part, latest: i64| part > Some(millis(time + latest));
        right.dates && is_later(server, self.ahead() + DATES_OFF[1])
            || right.walls && is_later(host, WALLS_OFF[1])
    }

    /// Until when, in true time, a process may rely on a lease that was told its end by both clocks and reads right ones.
    pub(crate) fn relied_on(&self, stamps: Stamps, span: Duration) -> i64 {
        let (right, [server, host]) = (self.are_right(), parts(stamps));
        let end = |part: Option<Duration>, earliest| Some(self.whole(part? + span) - earliest);
        let by_dates = end(server, self.ahead() + DATES_OFF[0]).filter(|_| right.dates);
        let by_walls = end(host, WALLS_OFF[0]).filter(|_| right.walls);
        by_dates.into_iter().chain(by_walls).min().unwrap_or(0)
    }

    /// What a client may have been told at this true time.
    pub(crate) fn told(&self, time: i64) -> Vec<LastDate> {
        let (sent, arrived) = (self.moment(time), self.moment(time));
        let heard = |date| LastDate {
            date,
            sent,
            arrived,
        };
        self.dates(0, time).into_iter().map(heard).collect()
    }

    /// What a client writes at this time. Without a `Date` it knows its own wall clock alone.
    pub(crate) fn own_stamps(&self, last: Option<LastDate>, time: i64, wall: Wall) -> Stamps {
        let Some(mut last) = last else {
            return both(None, shows(wall));
        };
        if self.broken(Mutant::FromTheArrival) {
            last.sent = last.arrived;
        }
        let now = self.moment(time);
        let stamps = last.stamps(now, wall);
        let [server, host] = parts(stamps);
        match self.mutant {
            Some(Mutant::StampsByWallAlone) => both(host, host),
            Some(Mutant::StampsByDateAlone) => both(server, server),
            Some(Mutant::CarriesPlainly) => both(Some(last.date.0 + now.since(last.sent)), host),
            _ => stamps,
        }
    }

    /// What a caller writes over stamps that it saw.
    pub(crate) fn redated(&self, seen: Stamps, read: Reading) -> Option<Stamps> {
        let read = match self.mutant {
            Some(Mutant::LeavesDates) => return None,
            Some(Mutant::DatesByItsClocks) => stood_still(read),
            _ => read,
        };
        let doubts = self.broken(Mutant::RedatesWalls) && is_later(seen, read.wall, 5);
        let [server, host] = parts(seen);
        let seen = both(server, host.filter(|_| !doubts));
        stamps::redated(seen, read)
    }

    /// Whether a caller takes an entry for over, with its stamps, its lease, and whether it was given back.
    pub(crate) fn is_over(&self, entry: (Stamps, Duration, bool), now: Reading) -> bool {
        let (stamps, lease, is_given_back) = entry;
        let is_over = |now| match is_given_back || self.broken(Mutant::NoAllowance) {
            true => stamps::is_over_given_back(stamps, lease, now),
            false => stamps::is_over(stamps, lease, now),
        };
        let date = now.date.map(|date| date.0);
        let by_dates = reads(date, Wall::IsNoWitness);
        let at = |date| reads(Some(date), now.wall);
        let is_later = |by| is_later(stamps, now.wall, by);
        match self.mutant {
            Some(Mutant::TrustsWalls) if is_later(5) => false,
            Some(Mutant::DoubtsRightWalls) if is_later(0) => is_over(by_dates),
            Some(Mutant::JudgesByDates) => is_over(by_dates),
            Some(Mutant::GivesUpByDates) if is_given_back => is_over(by_dates),
            Some(Mutant::JudgesByWalls) => is_over(at(Duration::MAX)),
            Some(Mutant::JudgesByEither) => is_over(by_dates) || is_over(at(Duration::MAX)),
            Some(Mutant::JudgesByCarried) => {
                date.is_some_and(|date| is_over(at(date + CARRIED_ON)))
            }
            _ => is_over(now),
        }
    }
}

/// Whether a wall clock's stamp is later than the wall clock by more than so many seconds.
fn is_later(stamps: Stamps, wall: Wall, by: u64) -> bool {
    let late = |wall| parts(stamps)[1] > Some(wall + Duration::from_secs(by));
    shows(wall).is_some_and(late)
}

/// What a caller would read by its clocks alone, if they stood still for a minute since it was told a `Date`.
fn stood_still(read: Reading) -> Reading {
    let earlier = |time: Duration| time.saturating_sub(Duration::from_secs(60));
    let [date, wall] = parts(read.stamps()).map(|time| time.map(earlier));
    let wall = wall.map_or(Wall::IsNoWitness, |wall| Wall::Shows(HostTime(wall)));
    reads(date, wall)
}
