//! What time it is by the answers to a client that judges. A single answer never makes an entry count as expired.

use std::time::Duration;

use crate::entry::ServerTime;
use crate::step::{ClearingStep, Removal};

/// A `Date` has whole seconds and DynamoDB's hosts differ a little, so a client that judges by a date subtracts this much.
pub(crate) const GRAIN: Duration = Duration::from_secs(1);
/// Two answers agree if their times differ by no more than this. A `Date` has whole seconds, an answer takes its time, and front ends
/// differ a little.
pub const AGREE: Duration = Duration::from_secs(8);
/// How many more answers a client asks for. It asks if two answers disagree on the time, or if it would stamp what has no date by one
/// answer alone. A third answer tells which was wrong.
const MORE: u8 = 2;

/// The dates of the two newest answers to requests of one decision. The earlier of the two counts, because judging an entry too late only
/// costs time. The client's clock takes care that the two are not of one wrong front end: it retires that front end's connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Witnesses {
    newest: Option<ServerTime>,
    before: Option<ServerTime>,
    /// The answer before those two.
    third: Option<ServerTime>,
}

impl Witnesses {
    /// Takes in an answer, with its date or without one.
    pub fn hear(&mut self, date: Option<ServerTime>) {
        if date.is_some() {
            (self.third, self.before) = (self.before, self.newest);
            self.newest = date;
        }
    }

    /// The time to judge by, never later than now if one of the two answers is right. Returns `None` if there are not two.
    pub fn time(&self) -> Option<ServerTime> {
        let earlier = self.newest?.min(self.before?);
        Some(of_one(earlier))
    }

    /// What the newest answer told, which judges nobody.
    pub fn newest(&self) -> Option<ServerTime> {
        self.newest
    }

    /// Whether one of the two is wrong: a third answer, asked for at once, tells which.
    pub fn disagree(&self) -> bool {
        let two = self.newest.zip(self.before);
        two.is_some_and(|(one, other)| one.0.abs_diff(other.0) > AGREE)
    }

    /// The time by three answers to requests that were sent at once, of which one may be wrong. It is never later than the later of the two
    /// others.
    pub fn time_of_three(&self) -> Option<ServerTime> {
        let mut three = [self.newest?, self.before?, self.third?];
        three.sort();
        Some(of_one(three[1]))
    }

    /// What the time seems to be, by the answers that there are: enough to ask again, and for nothing else.
    pub fn hint(&self) -> Option<ServerTime> {
        self.time().or(self.newest.map(of_one))
    }
}

/// The time for one decision of a refused caller, by the answers to its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Judge {
    witnesses: Witnesses,
    /// Whether two answers judge from here on, and fewer do not.
    is_confirmed: bool,
    more: u8,
}

impl Judge {
    /// Starts from the answer that refused the caller, with its date or without one.
    pub fn hears(date: Option<ServerTime>) -> Self {
        let mut witnesses = Witnesses::default();
        witnesses.hear(date);
        Judge {
            witnesses,
            is_confirmed: false,
            more: MORE,
        }
    }

    /// Takes in the answer to a poll, with its date or without one.
    pub fn hear(&mut self, date: Option<ServerTime>) {
        self.witnesses.hear(date);
    }

    /// The time to judge by. Before another answer confirms it, the caller may do nothing by it but ask again.
    pub fn time(&self) -> Option<ServerTime> {
        match (self.is_confirmed, self.more) {
            (true, MORE) => self.witnesses.time(),
            (true, _) => self.witnesses.time_of_three().or(self.witnesses.time()),
            (false, _) => self.witnesses.hint(),
        }
    }

    /// Whether the caller asks for another answer, before an entry counts as expired or the caller is turned away. `lacks` returns whether
    /// something has no date and nothing confirms the only answer that there is.
    pub fn polls_again(&mut self, refusal: &ClearingStep, lacks: impl FnOnce() -> bool) -> bool {
        if !self.is_confirmed && takes_for_dead(refusal) {
            self.is_confirmed = true;
            return true;
        }
        let is_unsure = match self.is_confirmed {
            true => self.witnesses.disagree(),
            false => lacks(),
        };
        let asks = is_unsure && self.more > 0 && matches!(refusal, ClearingStep::Taken);
        self.more -= u8::from(asks);
        asks
    }
}

/// Whether this is done only because, by the time, an entry has expired or a gap has outlived its join timeout.
fn takes_for_dead(refusal: &ClearingStep) -> bool {
    matches!(refusal, ClearingStep::Remove(removal) if !matches!(removal, Removal::Settle(_)))
}

/// The time by the date of one answer, for display to people.
pub fn of_one(date: ServerTime) -> ServerTime {
    ServerTime(date.0.saturating_sub(GRAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_judges_nobody_and_of_two_the_earlier_counts() {
        let at = |seconds| Some(ServerTime(Duration::from_secs(seconds)));
        let mut witnesses = Witnesses::default();
        witnesses.hear(at(113));
        assert_eq!((witnesses.time(), witnesses.hint()), (None, at(112)));
        witnesses.hear(None);
        assert_eq!(witnesses.time(), None);
        witnesses.hear(at(101));
        assert_eq!(witnesses.time(), at(100));
        witnesses.hear(at(102));
        assert_eq!(witnesses.time(), at(100));
        witnesses.hear(at(103));
        assert_eq!(witnesses.time(), at(101));
    }

    #[test]
    fn of_three_answers_one_may_be_wrong_by_anything() {
        let at = |seconds| Some(ServerTime(Duration::from_secs(seconds)));
        for (told, disagree, time) in [
            ([100, 101, 102], false, 100),
            ([9, 101, 102], false, 100),
            ([100, 9, 102], true, 99),
            ([100, 101, 9], true, 99),
            ([3_700, 101, 102], false, 101),
            ([100, 3_701, 102], true, 101),
            ([100, 101, 3_702], true, 100),
        ] {
            let mut witnesses = Witnesses::default();
            assert_eq!(
                (witnesses.disagree(), witnesses.time_of_three()),
                (false, None)
            );
            told.into_iter().for_each(|told| witnesses.hear(at(told)));
            let now = (witnesses.disagree(), witnesses.time_of_three());
            assert_eq!(now, (disagree, at(time)), "{told:?}");
        }
    }
}
