//! What keeps a waiting call from its turn, since when, and when the listener is told.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlock_protocol::failure::Failure;
use fairlock_protocol::moment::Moment;

use crate::state::OutageKind;

/// What keeps a call though DynamoDB answers is told when it has lasted this long: many such answers are followed by better ones.
const SOME_SECONDS: Duration = Duration::from_secs(5);

/// What a waiting call is told of its requests.
#[derive(Debug)]
pub(crate) enum News {
    /// Something keeps the call from its turn.
    Kept {
        /// When the first request was sent that was not served.
        since: Moment,
        kind: OutageKind,
        /// It was not told before.
        is_new: bool,
        failure: Failure,
    },
    /// Nothing does any more, this long after `since`.
    Over { kind: OutageKind, after: Duration },
}

/// What was told of a call, and since when that has kept it.
pub(crate) type ToldOutage = (Moment, OutageKind);

/// Whether a request reads or writes: a table may serve the one and not the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Access {
    fn other(self) -> Self {
        match self {
            Access::Read => Access::Write,
            Access::Write => Access::Read,
        }
    }
}

type Listener = Box<dyn Fn(News) + Send + Sync>;

/// What keeps one call. The store that the call uses carries it. By default there is no listener.
#[derive(Clone, Default)]
pub(crate) struct Reach(Option<Arc<ReachState>>);

/// What is known of one call.
struct ReachState {
    listener: Listener,
    /// For how long the call puts up with no answers.
    most: Option<Duration>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the first request was sent that had no answer, since the last answer.
    unanswered: Option<Moment>,
    writes: Option<Kept>,
    reads: Option<Kept>,
    told: Option<ToldOutage>,
}

/// What keeps the reads of a call, or its writes.
#[derive(Debug)]
struct Kept {
    since: Moment,
    kind: OutageKind,
    of_kind_since: Moment,
    /// When the last request was sent that was not served.
    newest: Moment,
    failure: Failure,
}

impl Reach {
    /// Tells `listener` what keeps a call. Another call at the door may have been told before.
    pub(crate) fn new(
        most: Option<Duration>,
        told: Option<ToldOutage>,
        listener: impl Fn(News) + Send + Sync + 'static,
    ) -> Self {
        let unanswered = told.filter(|(_, kind)| kind.is_unanswered());
        let state = State {
            unanswered: unanswered.map(|(since, _)| since),
            told,
            ..State::default()
        };
        Reach(Some(Arc::new(ReachState {
            listener: Box::new(listener),
            most,
            state: Mutex::new(state),
        })))
    }

    /// Takes in the result of a request.
    pub(super) fn heard<T>(
        &self,
        access: Access,
        (sent, now): (Moment, Moment),
        answer: Result<T, Failure>,
    ) -> Result<T, Failure> {
        let Some(reach) = &self.0 else { return answer };
        match &answer {
            Ok(_) => reach.state().served(access),
            Err(failure) => {
                if let Some(kind) = OutageKind::of(failure) {
                    reach.state().fails(access, kind, sent, failure.clone());
                }
            }
        }
        self.review(now);
        answer
    }

    /// Tells the listener what is due to be told.
    pub(crate) fn review(&self, now: Moment) {
        let Some(reach) = &self.0 else { return };
        let news = reach.state().news(now);
        if let Some(news) = news {
            (reach.listener)(news);
        }
    }

    /// When there will be something to tell, if nothing changes until then.
    pub(crate) fn due(&self) -> Option<Moment> {
        let state = self.0.as_ref()?.state();
        let untold = state.untold()?;
        Some(untold.due(state.told))
    }

    /// Since when DynamoDB has refused the requests of the call.
    pub(super) fn refused_since(&self) -> Option<Moment> {
        let state = self.0.as_ref()?.state();
        let refused = state.kept().filter(|it| it.kind == OutageKind::Refused);
        refused.map(|it| it.of_kind_since).min()
    }

    /// When there are no more attempts: at the end of a call's policy, or when there have been no answers for as long as the call
    /// puts up with that.
    pub(super) fn ends(&self, until: Option<Moment>) -> Option<Moment> {
        until.into_iter().chain(self.until()).min()
    }

    /// When there will have been no answers for as long as the call puts up with that.
    pub(super) fn until(&self) -> Option<Moment> {
        let reach = self.0.as_ref()?;
        let since = reach.state().unanswered;
        Some(since? + reach.most?)
    }
}

impl ReachState {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn of(&mut self, access: Access) -> &mut Option<Kept> {
        match access {
            Access::Read => &mut self.reads,
            Access::Write => &mut self.writes,
        }
    }

    fn kept(&self) -> impl Iterator<Item = &Kept> {
        self.writes.iter().chain(&self.reads)
    }

    fn served(&mut self, access: Access) {
        *self.of(access) = None;
        self.answered();
    }

    /// Any answer shows that DynamoDB is there.
    fn answered(&mut self) {
        self.unanswered = None;
        for kept in [&mut self.writes, &mut self.reads] {
            kept.take_if(|it| it.kind.is_unanswered());
        }
    }

    fn fails(&mut self, access: Access, kind: OutageKind, sent: Moment, failure: Failure) {
        match kind {
            // Nothing was sent, so nothing is known.
            OutageKind::LoadingCredentials => {}
            kind if kind.is_unanswered() => _ = self.unanswered.get_or_insert(sent),
            _ => self.answered(),
        }
        let before = self.of(access).take();
        let since = before.as_ref().map_or(sent, |it| it.since);
        let same = before.filter(|it| it.kind == kind);
        let of_kind_since = same.map_or(sent, |it| it.of_kind_since);
        *self.of(access) = Some(Kept {
            since,
            kind,
            of_kind_since,
            newest: sent,
            failure,
        });
        // What the other half of the requests met before has been overtaken.
        if of_kind_since + SOME_SECONDS <= sent {
            let other = self.of(access.other());
            other.take_if(|it| it.kind != kind && it.newest < of_kind_since);
        }
    }

    /// What is still to be told. What was told is told again only after something else.
    fn untold(&self) -> Option<&Kept> {
        let is_told = |it: &Kept| self.told.is_some_and(|(_, kind)| kind == it.kind);
        match self.kept().any(is_told) {
            true => None,
            false => self.kept().min_by_key(|it| it.due(self.told)),
        }
    }

    fn news(&mut self, now: Moment) -> Option<News> {
        let told = self.told;
        let is_told = |it: &&mut Kept| told.is_some_and(|(_, kind)| kind == it.kind);
        let mut kept = self.writes.iter_mut().chain(&mut self.reads);
        if let (Some((since, _)), Some(same)) = (told, kept.find(is_told)) {
            return Some(same.news(since, false));
        }
        let is_due = self.untold().is_some_and(|it| it.due(told) <= now);
        let due = match self.writes.as_ref().is_some_and(|it| it.due(told) <= now) {
            true => &mut self.writes,
            false => &mut self.reads,
        };
        if let Some(due) = due.as_mut().filter(|_| is_due) {
            let since = told.map_or(due.since, |(since, _)| since);
            self.told = Some((since, due.kind));
            return Some(due.news(since, true));
        }
        let (since, kind) = told?;
        let is_over =
            kind.is_unanswered() && self.unanswered.is_none() || self.kept().next().is_none();
        if !is_over {
            return None;
        }
        self.told = None;
        let after = now.since(since);
        Some(News::Over { kind, after })
    }
}

impl Kept {
    /// When it is told. What comes after something else that was told waits a while, as that may come again.
    fn due(&self, told: Option<ToldOutage>) -> Moment {
        match self.kind.is_unanswered() && told.is_none() {
            true => self.of_kind_since,
            false => self.of_kind_since + SOME_SECONDS,
        }
    }

    fn news(&self, since: Moment, is_new: bool) -> News {
        News::Kept {
            since,
            kind: self.kind,
            is_new,
            failure: self.failure.clone(),
        }
    }
}

impl fmt::Debug for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = self.0.as_ref().map(|reach| reach.state().told);
        f.debug_struct("Reach")
            .field("told", &told)
            .finish_non_exhaustive()
    }
}
