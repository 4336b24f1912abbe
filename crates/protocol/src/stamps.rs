//! Two clocks, each compared with itself: an entry is dated by the server's time and by its host's wall clock, and is over by both.
//!
//! Nothing here compares a time of one clock with a time of the other. So no live hold ends though all front ends are wrong, or all wall
//! clocks are.

use std::time::Duration;

use crate::moment::{HostTime, Moment, ServerTime};

/// What a judge adds to each lease in which an owner believes. Right clocks are off by less than two seconds each, and a `Date` has whole
/// seconds.
pub const ALLOWANCE: Duration = Duration::from_secs(5);
/// A stamp of a right clock is ahead of no right clock by more.
const AHEAD: Duration = Duration::from_secs(5);
/// A `Date` has whole seconds.
const GRAIN: Duration = Duration::from_secs(1);
/// What a draw may set a stamp back by: the times of right clients differ a little, and a `Date` has whole seconds.
const SET_BACK: Duration = Duration::from_secs(2);
/// A clock that is slow by 2 % counts 49 seconds in 50.
const SLOW_DIVISOR: u32 = 49;
/// A clock that is fast by 2 % counts 51 seconds in 50.
const FAST_DIVISOR: u32 = 51;

/// What the wall clock of a participant is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub enum Wall {
    /// It is a clock of its own, and shows this.
    Shows(HostTime),
    /// The table is kept by an engine on this very machine, whose `Date` and wall clock would be one clock. The `Date` counts alone.
    IsNoWitness,
}

impl Wall {
    pub(crate) fn time(self) -> Option<HostTime> {
        match self {
            Wall::Shows(time) => Some(time),
            Wall::IsNoWitness => None,
        }
    }
}

/// What a judge reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Reading {
    /// The `Date` of the answer that shows the entry, as it was told: carried on it would be too late. If that took several answers, the
    /// earliest. `None` if none has one: then nothing is over.
    pub date: Option<ServerTime>,
    /// The judge's own, read once the answer is there. A renewal in the meantime has another beat.
    pub wall: Wall,
}

impl Reading {
    /// Of what nothing told the time: it judges nobody.
    pub const UNTOLD: Reading = Reading {
        date: None,
        wall: Wall::IsNoWitness,
    };

    /// The reading of a snapshot that took several answers. A later page's `Date` says nothing of what an earlier page showed. An earlier wall
    /// clock may be behind what a later page shows, which would then lie in its future.
    #[must_use]
    pub fn and_then(self, later: Reading) -> Reading {
        Reading {
            date: self.date.zip(later.date).map(|(one, other)| one.min(other)),
            wall: later.wall,
        }
    }

    /// What was read, as it would be written.
    pub fn stamps(self) -> Stamps {
        Stamps {
            server: self.date,
            host: self.wall.time(),
        }
    }
}

/// A time by both clocks, as it is written on an entry. By a part that is absent nothing is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct Stamps {
    /// By DynamoDB's clock.
    pub server: Option<ServerTime>,
    /// By the wall clock of the host that wrote it.
    pub host: Option<HostTime>,
}

impl Stamps {
    /// Combines each part with the same part of other stamps.
    fn with(
        self,
        other: Stamps,
        combine: impl Fn(Option<Duration>, Option<Duration>) -> Option<Duration>,
    ) -> Stamps {
        let [own, theirs] = [self.parts(), other.parts()];
        Stamps {
            server: combine(own[0], theirs[0]).map(ServerTime),
            host: combine(own[1], theirs[1]).map(HostTime),
        }
    }

    pub(crate) fn parts(self) -> [Option<Duration>; 2] {
        [self.server.map(|time| time.0), self.host.map(|time| time.0)]
    }

    /// Whether the two clocks showed the same time, as far as right clocks do. The server's may be off by this slack besides.
    fn agree(self, slack: Duration) -> bool {
        let differ = |(server, host): (ServerTime, HostTime)| server.0.abs_diff(host.0);
        let both = self.server.zip(self.host);
        both.is_some_and(|both| differ(both) <= AHEAD.saturating_add(slack))
    }

    /// The later of the two clocks: when an item may be deleted, and where its tickets begin, may be too late and never too early. If one
    /// clock is behind by anything, the other counts.
    pub fn later(self) -> Option<Duration> {
        self.parts().into_iter().flatten().max()
    }
}

/// The newest `Date` that a client was told, and what the client knows of when.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct LastDate {
    /// The `Date`, or what stands in for it where answers have none.
    pub date: ServerTime,
    /// When the request was sent that brought it.
    pub sent: Moment,
    /// When the answer arrived.
    pub arrived: Moment,
}

impl LastDate {
    /// The newer of two: that of the request that was sent later, in whichever order the answers arrive. A `Date` has whole seconds. So the
    /// older one, counted on by a clock that may be fast by 2 %, may tell the time of the same second better. Without that, many stamps would
    /// be [early] by a part of a second.
    #[must_use]
    pub fn or_newer(self, heard: LastDate) -> LastDate {
        let (older, newer) = match heard.sent >= self.sent {
            true => (self, heard),
            false => (heard, self),
        };
        let since = newer.sent.since(older.arrived);
        let counted = older.date.0.saturating_add(since - since / FAST_DIVISOR);
        let is_of_that_second = counted.saturating_sub(newer.date.0) < GRAIN;
        let date = match is_of_that_second {
            true => ServerTime(counted).max(newer.date),
            false => newer.date,
        };
        LastDate { date, ..newer }
    }

    /// The time to write into an entry. An owner whose stamps are early is taken for dead while it believes. So the time counts from the
    /// sending, by a clock that may be slow by 2 %. It is late by 4 % of the time since at most, and by what the request took.
    pub fn stamps(&self, now: Moment, wall: Wall) -> Stamps {
        let since = now.since(self.sent);
        self.after(since.saturating_add(since / SLOW_DIVISOR), wall)
    }

    /// A time that has passed, for a lease whose end others are told: an observer counts from the moment at which it is written. So the
    /// time counts from the arrival, by a clock that may be fast by 2 %.
    pub fn past(&self, now: Moment, wall: Wall) -> Stamps {
        let since = now.since(self.arrived);
        self.after(since - since / FAST_DIVISOR, wall)
    }

    /// By how much its time may be off that is carried on until now, besides what its clock is: what the request took, and 4 % of the time
    /// since.
    pub fn slack(&self, now: Moment) -> Duration {
        let (took, since) = (self.arrived.since(self.sent), now.since(self.sent));
        took.saturating_add(since / SLOW_DIVISOR + since / FAST_DIVISOR)
    }

    fn after(&self, span: Duration, wall: Wall) -> Stamps {
        Stamps {
            server: Some(ServerTime(self.date.0.saturating_add(span))),
            host: wall.time(),
        }
    }
}

/// Whether an entry is over in which its owner may believe, or a join timeout since a draw. A wrong `Date` alone is not enough, nor is a
/// wrong wall clock.
pub fn is_over(stamps: Stamps, lease: Duration, now: Reading) -> bool {
    has_passed(stamps, lease.saturating_add(ALLOWANCE), now)
}

/// Whether the time is over for which an entry stays that its owner has given back. No caller believes in it, so it may end early by what
/// clocks differ.
pub fn is_over_given_back(stamps: Stamps, rest: Duration, now: Reading) -> bool {
    has_passed(stamps, rest, now)
}

/// Whether an item may go that stays until `expiry`, in seconds since 1970. Its tickets would begin again by one of the two clocks.
pub fn is_idle(expiry: u64, now: Reading) -> bool {
    let expiry = Duration::from_secs(expiry);
    let [date, wall] = now.stamps().parts().map(|now| now.map(|now| now > expiry));
    date == Some(true) && wall != Some(false)
}

/// A wall clock's stamp that lies in the judge's future proves that one of the two wall clocks is wrong: then the `Date` judges alone.
fn has_passed(then: Stamps, span: Duration, now: Reading) -> bool {
    let is_past = |then: Duration, now: Duration| now.saturating_sub(then) > span;
    let by_host = |now: HostTime| {
        let then = then.host.map(|then| then.0);
        then.is_some_and(|then| is_past(then, now.0) || is_ahead(then, now.0))
    };
    let by_date = now.date.zip(then.server);
    by_date.is_some_and(|(now, then)| is_past(then.0, now.0)) && now.wall.time().is_none_or(by_host)
}

fn is_ahead(stamp: Duration, own: Duration) -> bool {
    stamp > own.saturating_add(AHEAD)
}

/// What a caller writes over the stamps that it saw: its own parts for those that are absent, and the `Date` for one that lies in its
/// future. It came of a front end that was ahead, and would keep a dead entry for as long. A wall clock's stamp stays: a judge in whose
/// future it lies goes by the `Date` alone. Returns `None` if all stay.
///
/// The write names the beat that was seen. The answer that showed it told a time no earlier than that beat, so an owner that lives is not
/// dated too early. A `Date` of before is not enough. Where the machine stood still since, what it carries on is early, and so is its wall
/// clock.
pub fn redated(seen: Stamps, now: Reading) -> Option<Stamps> {
    let own = now.stamps();
    let dates = seen.server.zip(own.server);
    let is_ahead = dates.is_some_and(|(seen, own)| is_ahead(seen.0, own.0));
    let redated = Stamps {
        server: seen.server.filter(|_| !is_ahead).or(own.server),
        host: seen.host.or(own.host),
    };
    (redated != seen).then_some(redated)
}

/// What a draw writes over the stamps of the newest draw. A draw has no beat, so a late copy of an earlier one may come after it. So a part
/// that is later stays, and stands for the new tickets too.
///
/// Without a time of its own the draw leaves none. A draw that was stamped before may then date these tickets, too early. So a client draws
/// without a time only where no answer has one.
pub fn drawn(seen: Stamps, own: Stamps) -> Stamps {
    seen.with(own, |seen, own| match stays(seen, own) {
        true => seen,
        false => own,
    })
}

/// The parts of its own stamps that a draw writes, and those under which a later one stays.
pub(crate) fn replaced(seen: Stamps, own: Stamps) -> [Stamps; 2] {
    let parts = |stay: bool| seen.with(own, |seen, own| own.filter(|_| stays(seen, own) == stay));
    [parts(false), parts(true)]
}

fn stays(seen: Option<Duration>, own: Option<Duration>) -> bool {
    own.is_some_and(|own| seen > Some(own.saturating_add(SET_BACK)))
}

/// The newest stamps that these may replace.
pub(crate) fn newest(own: Stamps) -> Stamps {
    own.with(own, |own, _| Some(own?.saturating_add(SET_BACK)))
}

/// By how much the server's stamp of an entry is earlier than the `Date` of the answer that shows it, if the two stamps agree, but for this
/// [slack](LastDate::slack). Then its owner's clocks were right, and its machine stood still for so long with them, or clocks differ. A judge
/// adds no more than what its own `Date` may be later than that one, so nothing is excused.
///
/// Where they do not agree, a clock was wrong before. If all front ends are, each `Date` may be ahead of the one before, and an owner would
/// believe in nothing that it writes.
pub fn early(stamps: Stamps, slack: Duration, now: Reading) -> Duration {
    let both = now.date.zip(stamps.server);
    let both = both.filter(|_| stamps.agree(slack));
    both.map_or(Duration::ZERO, |(date, stamp)| {
        date.0.saturating_sub(stamp.0)
    })
}

/// For how much of a `span` an owner may rely on an entry with these stamps, counted from before its `own` time. A judge counts from the
/// stamps: what they are early by is taken off.
///
/// The `Date` of the answer to the write is such a time, too: it shows that the machine had stood still with its clocks.
pub fn relied_on(stamps: Stamps, span: Duration, own: Stamps) -> Duration {
    let early = own.with(stamps, |own, stamp| {
        Some(own?.saturating_sub(stamp.unwrap_or_default()))
    });
    span.saturating_sub(early.later().unwrap_or(span))
}

/// The stamps and the lease of an extension to `by` from the answer that shows the lease. By neither clock it ends sooner than what was
/// seen: another process may have been told that end. Where a part lies in the future, the whole lease may be left.
pub fn extended(
    (seen, lease): (Stamps, Duration),
    by: Duration,
    now: Reading,
) -> (Stamps, Duration) {
    let seen = redated(seen, now).unwrap_or(seen);
    let stamps = seen.with(now.stamps(), |seen, own| seen.max(own));
    let left = seen.with(stamps, |seen, stamp| {
        Some(seen?.saturating_add(lease).saturating_sub(stamp?))
    });
    (stamps, by.max(left.later().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: Duration = Duration::from_secs(1_700_000_000);
    const MILLI: Duration = Duration::from_millis(1);

    fn at(seconds: u64) -> Duration {
        DATE + Duration::from_secs(seconds)
    }

    fn stamps(server: Option<Duration>, host: Option<Duration>) -> Stamps {
        Stamps {
            server: server.map(ServerTime),
            host: host.map(HostTime),
        }
    }

    fn reads(date: Option<Duration>, wall: Duration) -> Reading {
        Reading {
            date: date.map(ServerTime),
            wall: Wall::Shows(HostTime(wall)),
        }
    }

    #[test]
    fn a_judge_needs_both_clocks_and_both_stamps_and_more_than_the_allowance() {
        let lease = Duration::from_secs(30);
        let both = stamps(Some(at(0)), Some(at(100)));
        let (date, wall) = (at(35) + MILLI, at(135) + MILLI);
        for (stamps, date, wall, over) in [
            (both, Some(date), wall, true),
            (both, Some(at(35)), wall, false),
            (both, Some(date), at(135), false),
            // The stamp of a right clock may be later than the wall clock, and one that is later by more counts for nothing.
            (both, Some(date), at(95), false),
            (both, Some(date), at(95) - MILLI, true),
            (both, Some(at(35)), at(95) - MILLI, false),
            (both, None, wall, false),
            (
                stamps(None, both.host.map(|it| it.0)),
                Some(date),
                wall,
                false,
            ),
            (stamps(Some(at(0)), None), Some(date), wall, false),
        ] {
            assert_eq!(
                is_over(stamps, lease, reads(date, wall)),
                over,
                "{stamps:?}"
            );
        }
        let alone = Reading {
            date: Some(ServerTime(date)),
            wall: Wall::IsNoWitness,
        };
        assert!(is_over(stamps(Some(at(0)), None), lease, alone));
        assert!(!is_over(stamps(None, Some(at(0))), lease, alone));
        let back = reads(Some(at(30) + MILLI), at(130) + MILLI);
        assert!(is_over_given_back(both, lease, back) && !is_over(both, lease, back));
    }

    #[test]
    fn a_row_that_was_renewed_between_two_pages_is_not_of_the_future() {
        let (lease, ahead) = (Duration::from_secs(30), Some(at(1000)));
        let read = reads(ahead, at(0)).and_then(reads(ahead, at(20)));
        assert!(!is_over(stamps(Some(at(19)), Some(at(19))), lease, read));
        // The first page was before the time that the second one tells.
        let read = reads(Some(at(0)), at(0)).and_then(reads(ahead, at(1000)));
        assert!(!is_over(stamps(Some(at(0)), Some(at(0))), lease, read));
    }

    #[test]
    fn a_date_of_the_future_is_replaced_and_a_wall_clocks_stamp_only_where_there_is_none() {
        let now = reads(Some(at(0)), at(50));
        for (server, host, replaced) in [
            (at(5), at(55), None),
            (at(0), at(0), None),
            (at(5) + MILLI, at(55), Some((at(0), at(55)))),
            (at(5), at(55) + MILLI, None),
        ] {
            let replaced = replaced.map(|(server, host)| stamps(Some(server), Some(host)));
            let seen = stamps(Some(server), Some(host));
            assert_eq!(redated(seen, now), replaced);
        }
        assert_eq!(redated(Stamps::default(), now), Some(now.stamps()));
        let undated = stamps(None, Some(at(50)));
        assert_eq!(redated(undated, now), Some(now.stamps()));
        let silent = reads(None, at(50));
        assert_eq!(redated(now.stamps(), silent), None);
        assert_eq!(redated(undated, silent), None);
    }

    #[test]
    fn a_draw_sets_stamps_back_by_two_seconds_at_most_and_leaves_none_that_it_does_not_know() {
        let own = stamps(Some(at(0)), Some(at(50)));
        let (kept, gone) = (at(2) + MILLI, at(2));
        assert_eq!(
            drawn(stamps(Some(kept), Some(at(51))), own),
            stamps(Some(kept), Some(at(50)))
        );
        assert_eq!(drawn(stamps(Some(gone), None), own), own);
        assert_eq!(
            drawn(own, stamps(None, Some(at(60)))),
            stamps(None, Some(at(60)))
        );
    }

    #[test]
    fn an_item_goes_by_the_later_clock_and_is_idle_by_both() {
        assert_eq!(stamps(Some(at(3)), Some(at(2))).later(), Some(at(3)));
        assert_eq!(stamps(None, Some(at(2))).later(), Some(at(2)));
        assert_eq!(Stamps::default().later(), None);
        let expiry = at(0).as_secs();
        assert!(is_idle(expiry, reads(Some(at(1)), at(1))));
        assert!(!is_idle(expiry, reads(Some(at(0)), at(1))));
        assert!(!is_idle(expiry, reads(Some(at(1)), at(0))));
        assert!(!is_idle(expiry, reads(None, at(1))));
    }

    #[test]
    fn the_newest_date_is_that_of_the_request_that_was_sent_last() {
        let moment = |seconds| Moment(Duration::from_secs(seconds));
        let last = |sent, arrived| LastDate {
            date: ServerTime(at(sent)),
            sent: moment(sent),
            arrived: moment(arrived),
        };
        assert_eq!(last(1, 9).or_newer(last(2, 3)), last(2, 3));
        assert_eq!(last(1, 2).or_newer(last(1, 9)), last(1, 9));
        assert_eq!(last(2, 3).or_newer(last(1, 9)), last(2, 3));
        // The older one tells that 0.6 s of the newer one's second have passed, or that the two are of different clocks.
        for (date, told) in [(69, 69_000), (68, 68_600), (67, 67_000)] {
            let older = LastDate {
                date: ServerTime(at(18) + 600 * MILLI),
                ..last(1, 2)
            };
            let newer = LastDate {
                date: ServerTime(at(date)),
                ..last(53, 54)
            };
            let told = ServerTime(DATE + told * MILLI);
            assert_eq!(
                older.or_newer(newer),
                LastDate {
                    date: told,
                    ..newer
                }
            );
            assert_eq!(
                newer.or_newer(older),
                LastDate {
                    date: told,
                    ..newer
                }
            );
        }
        let wall = Wall::Shows(HostTime(at(70)));
        let told = last(1, 2);
        assert_eq!(
            told.stamps(moment(50), wall),
            stamps(Some(at(51)), Some(at(70)))
        );
        assert_eq!(
            told.past(moment(53), wall),
            stamps(Some(at(51)), Some(at(70)))
        );
        let percent = Duration::from_secs(1) + Duration::from_secs(49) / 51;
        assert_eq!(told.slack(moment(50)), Duration::from_secs(1) + percent);
    }

    #[test]
    fn an_extension_ends_no_sooner_by_either_clock() {
        let (lease, by) = (Duration::from_secs(60), Duration::from_secs(10));
        let now = reads(Some(at(20)), at(70));
        let extend = |server, host| extended((stamps(Some(server), Some(host)), lease), by, now);
        assert_eq!(
            extend(at(0), at(40)),
            (now.stamps(), Duration::from_secs(40))
        );
        assert_eq!(
            extend(at(0), at(55)),
            (now.stamps(), Duration::from_secs(45))
        );
        // A stamp a little later stays, and a wall clock's always. A `Date` of the future is replaced, and nothing tells how much is left.
        let later = stamps(Some(at(22)), Some(at(70)));
        assert_eq!(extend(at(22), at(40)), (later, lease));
        let by_host = stamps(Some(at(20)), Some(at(400)));
        assert_eq!(extend(at(0), at(400)), (by_host, lease));
        assert_eq!(extend(at(400), at(40)), (now.stamps(), lease));
        let long = Duration::from_secs(600);
        let extended = extended((now.stamps(), lease), long, now);
        assert_eq!(extended, (now.stamps(), long));
    }

    #[test]
    fn the_owner_of_a_lease_takes_off_what_its_stamps_are_early_by() {
        let span = Duration::from_secs(49);
        let own = stamps(Some(at(20)), Some(at(70)));
        for (server, host, left) in [(20, 70, 49), (17, 70, 46), (30, 68, 47), (30, 80, 49)] {
            let stamps = stamps(Some(at(server)), Some(at(host)));
            assert_eq!(relied_on(stamps, span, own), Duration::from_secs(left));
        }
        let told = stamps(Some(at(22)), None);
        assert_eq!(relied_on(own, span, told), Duration::from_secs(47));
        assert_eq!(relied_on(Stamps::default(), span, own), Duration::ZERO);
        assert_eq!(relied_on(own, span, Stamps::default()), Duration::ZERO);
    }

    #[test]
    fn stamps_are_early_by_what_a_date_shows_if_they_agree() {
        let agreeing = (Some(at(20)), Some(at(25)));
        for ((server, host), slack, date, secs) in [
            (agreeing, 0, Some(22), 2),
            (agreeing, 0, Some(0), 0),
            (agreeing, 0, None, 0),
            ((Some(at(20)), Some(at(15))), 0, Some(22), 2),
            ((Some(at(20)), Some(at(14))), 0, Some(22), 0),
            ((Some(at(20)), Some(at(26))), 0, Some(22), 0),
            ((Some(at(20)), Some(at(26))), 1, Some(22), 2),
            ((Some(at(20)), None), 9, Some(22), 0),
            ((None, Some(at(20))), 9, Some(22), 0),
        ] {
            let slack = Duration::from_secs(slack);
            let early = early(stamps(server, host), slack, reads(date.map(at), at(70)));
            assert_eq!(early, Duration::from_secs(secs));
        }
    }
}
