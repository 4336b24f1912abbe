//! What the answers to the requests of one client have told of the time.

use std::time::Duration;

use crate::moment::Moment;
use crate::stamps::{LastDate, Stamps, Wall};

/// The newest `Date` of all answers, or that no answer has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "record", derive(serde::Serialize, serde::Deserialize))]
pub struct ToldTime {
    last: Option<LastDate>,
    /// Some answer had a `Date`: from then on nothing stands in for it.
    is_dated: bool,
    /// Some answer had none, and nothing stood in for it.
    was_silent: bool,
}

impl ToldTime {
    /// Takes in an answer with a `Date`.
    pub fn hear(&mut self, heard: LastDate) {
        if !std::mem::replace(&mut self.is_dated, true) {
            self.last = None;
        }
        self.note(heard);
    }

    /// Takes in an answer of DynamoDB's own without a `Date`, and what a clock of the client's user says in its stead, if there is one.
    pub fn hear_no_date(&mut self, stand_in: Option<LastDate>) {
        match stand_in.filter(|_| !self.is_dated) {
            Some(stand_in) => self.note(stand_in),
            None => self.was_silent = true,
        }
    }

    fn note(&mut self, heard: LastDate) {
        self.last = Some(self.last.map_or(heard, |last| last.or_newer(heard)));
    }

    /// What is written into an entry that is made or renewed now.
    pub fn stamps(&self, now: Moment, wall: Wall) -> Stamps {
        match self.last {
            Some(last) => last.stamps(now, wall),
            None => Stamps {
                server: None,
                host: wall.time(),
            },
        }
    }

    /// What is written into a lease by name. Returns `None` if no answer has told the time.
    pub fn past(&self, now: Moment, wall: Wall) -> Option<Stamps> {
        self.last.map(|last| last.past(now, wall))
    }

    /// By how much the server's time [may be off](LastDate::slack) that is written now.
    pub fn slack(&self, now: Moment) -> Duration {
        let slack = |last: LastDate| last.slack(now);
        self.last.map_or(Duration::ZERO, slack)
    }

    /// Whether the server's time is known.
    pub fn is_known(&self) -> bool {
        self.last.is_some()
    }

    /// Whether the server's time was told within this span.
    pub fn is_younger(&self, now: Moment, span: Duration) -> bool {
        self.last
            .is_some_and(|last| now.since(last.arrived) <= span)
    }

    /// Whether answers come, and none has told the time.
    pub fn is_silent(&self) -> bool {
        self.was_silent && self.last.is_none()
    }

    /// Whether a client may draw, or make an item: it knows the time, or answers tell none. Before any answer it does not know which.
    pub fn is_settled(&self) -> bool {
        self.is_known() || self.is_silent()
    }

    /// Whether the time that is known is no `Date`.
    pub fn is_of_a_stand_in(&self) -> bool {
        self.is_known() && !self.is_dated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::{HostTime, ServerTime};

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn heard(date: u64, sent: u64) -> LastDate {
        LastDate {
            date: ServerTime(Duration::from_secs(date)),
            sent: at(sent),
            arrived: at(sent),
        }
    }

    fn server(told: &ToldTime, now: u64) -> Option<u64> {
        let wall = HostTime(Duration::from_secs(7));
        let stamps = told.stamps(at(now), Wall::Shows(wall));
        assert_eq!(stamps.host, Some(wall));
        stamps.server.map(|time| time.0.as_secs())
    }

    #[test]
    fn before_any_answer_the_time_is_not_known_and_may_be_told_yet() {
        let told = ToldTime::default();
        assert_eq!(server(&told, 1), None);
        assert_eq!(told.past(at(1), Wall::IsNoWitness), None);
        assert!(!told.is_settled() && !told.is_silent() && !told.is_of_a_stand_in());
    }

    #[test]
    fn where_answers_have_no_date_a_stand_in_counts_until_one_has() {
        let mut told = ToldTime::default();
        told.hear_no_date(None);
        assert!(told.is_silent() && told.is_settled() && server(&told, 1).is_none());
        told.hear_no_date(Some(heard(900, 1)));
        assert!(told.is_of_a_stand_in() && !told.is_silent());
        assert_eq!(server(&told, 1), Some(900));
        // The answer to an earlier request, with a `Date`.
        told.hear(heard(100, 0));
        assert!(told.is_known() && !told.is_of_a_stand_in());
        assert_eq!(server(&told, 0), Some(100));
        told.hear_no_date(Some(heard(950, 2)));
        told.hear_no_date(None);
        assert_eq!(server(&told, 0), Some(100));
        assert!(!told.is_silent());
        told.hear(heard(80, 3));
        assert_eq!(server(&told, 3), Some(80));
    }
}
