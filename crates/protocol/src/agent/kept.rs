//! What keeps the callers of a place from their turn, besides those before them.

use std::time::Duration;

use super::waiting::{Outage, Stand, Waiting};
use super::{Loss, Note, Refusal};
use crate::failure::Failure;
use crate::moment::Moment;
use crate::outage::{Access, News, OutageKind, Outages};

/// How long a waiting call puts up with a policy that denies its requests.
const DENIED_FOR: Duration = Duration::from_secs(20);
/// The most patience with the requests of a call: times the request time-out.
const MOST_PATIENCE: u32 = 8;

/// When it is first logged that a call waits.
const LONG: Duration = Duration::from_secs(10);

/// It goes with the callers from one place to the next.
pub(super) struct Kept {
    outages: Outages,
    /// What they were told of these.
    pub(super) outage: Option<Outage>,
    pub(super) place_lost: Option<Loss>,
    /// How many times the time-out their requests have.
    pub(super) patience: u32,
    pub(super) was_answered: bool,
    /// Since when the first of them waits, and for how long when that is logged next.
    waited: Option<(Moment, Duration)>,
}

impl Default for Kept {
    fn default() -> Self {
        Kept {
            outages: Outages::default(),
            outage: None,
            place_lost: None,
            patience: 1,
            was_answered: false,
            waited: None,
        }
    }
}

impl Kept {
    /// Takes in what became of a request. Returns what is to be logged of it.
    pub(super) fn hears(
        &mut self,
        (access, sent): (Access, Moment),
        failure: Option<&Failure>,
        now: Moment,
    ) -> Option<Note> {
        self.was_answered |= failure.is_none();
        self.outages.hears(access, sent, failure);
        self.reviews(now)
    }

    /// What has lasted long enough to be told.
    pub(super) fn reviews(&mut self, now: Moment) -> Option<Note> {
        match self.outages.news(now)? {
            News::Kept {
                since,
                kind,
                is_new,
                failure,
            } => {
                let note = Note::Unserved(kind, failure.clone());
                self.outage = Some(Outage {
                    since,
                    kind,
                    failure,
                });
                is_new.then_some(note)
            }
            News::Over { kind, after } => {
                self.outage = None;
                Some(Note::Served(kind, after))
            }
        }
    }

    /// When there will be something to tell.
    pub(super) fn due(&self) -> Option<Moment> {
        self.outages.due()
    }

    /// When no request of theirs will have been answered for so long.
    pub(super) fn gives_up(&self, after: Option<Duration>) -> Option<Moment> {
        Some(self.outages.unanswered_since()? + after?)
    }

    /// Whether this failure is a denial, and they have not lasted for too long yet.
    pub(super) fn waits_out(&self, failure: &Failure) -> bool {
        let lasted = self.outages.refused_for();
        failure.is_denied() && lasted.is_some_and(|lasted| lasted < DENIED_FOR)
    }

    /// Their requests were too slow.
    pub(super) fn is_more_patient(&mut self) {
        self.patience = (self.patience * 2).min(MOST_PATIENCE);
    }

    /// They ask for a place, and wait for it.
    pub(super) fn waits_since(&mut self, now: Moment) {
        self.waited.get_or_insert((now, LONG));
    }

    /// Whether they wait. Calls that do not are answered soon, and say then what kept them.
    pub(super) fn are_waiting(&self) -> bool {
        self.waited.is_some()
    }

    /// When it is logged that they still wait.
    pub(super) fn still_due(&self) -> Option<Moment> {
        let waited = self.waited.filter(|_| self.outage.is_none());
        waited.map(|(since, next)| since + next)
    }

    /// For how long they have waited, if that is to be logged. Each time is twice the one before, or later.
    pub(super) fn still_waits(&mut self, now: Moment) -> Option<Duration> {
        self.still_due().filter(|due| *due <= now)?;
        let (since, next) = self.waited.as_mut()?;
        let waited = now.since(*since);
        // Ends when the next time is later than the wait has lasted: each round doubles it.
        while *next <= waited {
            *next = next.saturating_mul(2);
        }
        Some(waited)
    }

    /// Takes in how the first of them stands.
    pub(super) fn stands(&mut self, first: &Stand) {
        if first.position.is_some() {
            self.place_lost = None;
        }
    }

    /// Why a call is refused whose time is over while DynamoDB does not serve it.
    pub(super) fn unserved(&self, waits: bool) -> Option<Refusal> {
        if !waits && self.was_answered {
            return None;
        }
        let is_not_now = |kind| matches!(kind, OutageKind::Throttled | OutageKind::Conflict);
        let told = self.outage.as_ref().filter(|it| !is_not_now(it.kind));
        let failure = self.outages.silence().or(told.map(|it| &it.failure))?;
        Some(Refusal::Failed(failure.clone()))
    }

    /// Why a call is refused whose time is over, if that is not for those before it.
    pub(super) fn why_late(&self, waits: bool) -> Option<Refusal> {
        let was_answered = self.was_answered;
        let is_late = !waits || !was_answered;
        let late = is_late.then_some(Refusal::Late { was_answered });
        self.unserved(waits).or(late)
    }

    /// Adds what keeps a call to how it stands.
    pub(super) fn adds_to(&self, waiting: &mut Waiting) {
        waiting.outage.clone_from(&self.outage);
        waiting.place_lost.clone_from(&self.place_lost);
    }

    /// What those behind them, who send no requests, are told of the same.
    pub(super) fn tells(&self, behind: &mut Kept) {
        behind.outage.clone_from(&self.outage);
    }
}
