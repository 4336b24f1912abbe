//! What keeps a waiting call from its turn, since when, and when its caller is told.

use std::time::Duration;

use crate::failure::{Failure, Kind, Lack};
use crate::moment::Moment;

/// What keeps a call though DynamoDB answers is told when it has lasted this long: many such answers are followed by better ones.
const SOME_SECONDS: Duration = Duration::from_secs(5);

/// What keeps a waiting call from its turn, besides the callers before it. A request without an answer is told at once. All else is told when
/// it has lasted for five seconds.
///
/// # Examples
///
/// ```
/// # use fairlock_protocol::outage as fairlock;
/// # fn show(kind: fairlock::OutageKind) {
/// if kind == fairlock::OutageKind::Throttled {
///     eprintln!("too many requests");
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutageKind {
    /// There is no connection, no answer in time, or a server error.
    Unreachable,
    /// Credentials are still being loaded.
    LoadingCredentials,
    /// Credentials cannot be loaded, or DynamoDB does not accept them.
    NoCredentials,
    /// DynamoDB does not accept the signature: this host's clock is far off, or the secret key is wrong.
    Signature,
    /// DynamoDB is too busy, or the capacity of the table is used up.
    Throttled,
    /// Transactions of other programs use the item.
    Conflict,
    /// DynamoDB refuses the request. The call goes on for twenty seconds if a policy denies it, because a new policy does not hold at once.
    Refused,
}

/// Whether no answer came, or DynamoDB did not look at the request.
pub fn is_unanswered(kind: OutageKind) -> bool {
    match kind {
        OutageKind::Unreachable | OutageKind::NoCredentials | OutageKind::Signature => true,
        OutageKind::LoadingCredentials
        | OutageKind::Throttled
        | OutageKind::Conflict
        | OutageKind::Refused => false,
    }
}

/// What a failure keeps a call by. Returns `None` for an item that is not ours, or damaged.
pub fn kept_by(failure: &Failure) -> Option<OutageKind> {
    match &failure.kind {
        Kind::Busy(_) => Some(OutageKind::Throttled),
        Kind::Conflict(_) => Some(OutageKind::Conflict),
        Kind::Unserved(Lack::Loading, _) => Some(OutageKind::LoadingCredentials),
        Kind::Unserved(Lack::Credentials, _) => Some(OutageKind::NoCredentials),
        Kind::Unserved(Lack::Signature, _) => Some(OutageKind::Signature),
        Kind::Unserved(Lack::Connection | Lack::Answer, _) | Kind::Unknown(_) => {
            Some(OutageKind::Unreachable)
        }
        Kind::Refused(..) => Some(OutageKind::Refused),
        Kind::Invalid { .. } => None,
    }
}

/// What a waiting call is told of its requests.
#[derive(Debug)]
pub enum News {
    /// Something keeps the call from its turn.
    Kept {
        /// When the first request was sent that was not served.
        since: Moment,
        /// By what.
        kind: OutageKind,
        /// It was not told before.
        is_new: bool,
        /// What became of the request that failed last.
        failure: Failure,
    },
    /// Nothing does any more.
    Over {
        /// What did.
        kind: OutageKind,
        /// For how long.
        after: Duration,
    },
}

/// What was told of a call, and since when that has kept it.
pub type ToldOutage = (Moment, OutageKind);

/// Whether a request reads or writes: a table may serve the one and not the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It writes.
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

/// What keeps one call, as far as its requests show it.
#[derive(Debug, Default)]
pub struct Outages {
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

impl Outages {
    /// Nothing is known of the call, but that another caller at the door was told this.
    pub fn after(told: Option<ToldOutage>) -> Self {
        let unanswered = told.filter(|(_, kind)| is_unanswered(*kind));
        Outages {
            unanswered: unanswered.map(|(since, _)| since),
            told,
            ..Outages::default()
        }
    }

    /// Takes in what became of a request that was sent then.
    pub fn hears(&mut self, access: Access, sent: Moment, failure: Option<&Failure>) {
        let Some(failure) = failure else {
            return self.served(access);
        };
        if let Some(kind) = kept_by(failure) {
            self.fails(access, kind, sent, failure.clone());
        }
    }

    /// What was told.
    pub fn told(&self) -> Option<ToldOutage> {
        self.told
    }

    /// When there will be something to tell, if nothing changes until then.
    pub fn due(&self) -> Option<Moment> {
        Some(self.untold()?.due(self.told))
    }

    /// For how long DynamoDB has refused requests, up to the newest one that it refused. While a process stands still, none is refused.
    pub fn refused_for(&self) -> Option<Duration> {
        let refused = self.kept().filter(|it| it.kind == OutageKind::Refused);
        let newest = refused.max_by_key(|it| it.newest)?;
        Some(newest.newest.since(newest.of_kind_since))
    }

    /// Since when no request of the call was answered, if the last one was not.
    pub fn unanswered_since(&self) -> Option<Moment> {
        self.unanswered
    }

    /// What became of the last request that had no answer, if none was answered since.
    pub fn silence(&self) -> Option<&Failure> {
        let silent = self.kept().filter(|it| is_unanswered(it.kind));
        silent.max_by_key(|it| it.newest).map(|it| &it.failure)
    }

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
            kept.take_if(|it| is_unanswered(it.kind));
        }
    }

    fn fails(&mut self, access: Access, kind: OutageKind, sent: Moment, failure: Failure) {
        match kind {
            // Nothing was sent, so nothing is known.
            OutageKind::LoadingCredentials => {}
            kind if is_unanswered(kind) => _ = self.unanswered.get_or_insert(sent),
            _ => self.answered(),
        }
        let before = self.of(access).take();
        let since = before.as_ref().map_or(sent, |it| it.since);
        // What was denied long before says nothing of this denial.
        let goes_on = |it: &Kept| kind != OutageKind::Refused || sent < it.newest + SOME_SECONDS;
        let same = before.filter(|it| it.kind == kind && goes_on(it));
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

    /// What is due to be told.
    pub fn news(&mut self, now: Moment) -> Option<News> {
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
            is_unanswered(kind) && self.unanswered.is_none() || self.kept().next().is_none();
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
        match is_unanswered(self.kind) && told.is_none() {
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
