//! Those who asked one client for one lock while another of them was on the way into the queue: they draw their tickets
//! together, stand in one row, and have their turns one after the other, in the order in which they asked.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Holding, Prospect, Refused, Trouble};
use crate::error::Error;
use crate::hold;
use crate::name::LockName;
use crate::offer::Granted;
use crate::state::{Waiting, system_time};
use crate::store::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::ticket::Ticket;

/// Who is told how far an acquisition has come.
pub(crate) type Observer = Arc<dyn Fn(&Waiting) + Send + Sync>;

pub(crate) type Told = oneshot::Receiver<Result<Granted<Holding>, Refused>>;

/// Which of a batch a call is, and how it is told.
pub(crate) type Joined = (u64, Told);

/// One who asks.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) until: Option<Moment>,
    /// It waits behind no more than so many turns.
    pub(crate) limit: Option<usize>,
    pub(crate) observer: Option<Observer>,
}

/// In the order in which they asked.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Cancelled when nobody of them waits any more: no new step is made then but those that clean up.
    pub(crate) stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: u64,
    /// All have gone, or are about to.
    is_over: bool,
    /// Why there will be no turn, while what is in the table is being left.
    refusal: Option<Refused>,
    members: VecDeque<Member>,
    /// How many of them were before each who was refused, until it has heard of it.
    refused: BTreeMap<u64, usize>,
    /// If the queue is too long for all of them: the place that each would have had.
    too_long: BTreeMap<u64, usize>,
    item: Option<Arc<LockItem>>,
    /// That of the first of them.
    prospect: Option<Prospect>,
    /// Set while DynamoDB does not answer.
    trouble: Option<Trouble>,
    is_answered: bool,
    /// Somebody has begun to go for the lock.
    is_under_way: bool,
    /// The place that they wait at is that of a hold of their own client: no request is under way that may bring the lock to
    /// one of them, and nothing in the table is theirs to leave.
    is_behind_its_own: bool,
}

struct Member {
    number: u64,
    until: Option<Moment>,
    limit: Option<usize>,
    observer: Option<(Observer, Shown)>,
    tell: oneshot::Sender<Result<Granted<Holding>, Refused>>,
}

/// What an observer was shown last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    /// Its place, the newest of its tickets, and the holder's.
    queue: Option<(usize, Option<Ticket>, Option<Ticket>)>,
    /// DynamoDB does not answer.
    is_out: bool,
}

impl Batch {
    fn new(stop: CancellationToken) -> Self {
        Batch {
            stop,
            state: Mutex::default(),
        }
    }

    /// With the first of them.
    pub(crate) fn founded(stop: CancellationToken, by: Caller) -> (Self, Joined) {
        let batch = Batch::new(stop);
        let joined = batch.state().add(by);
        (batch, joined)
    }

    /// One more, behind all others; none if nobody of them waits any more, and so nobody goes for the lock.
    pub(crate) fn join(&self, caller: Caller) -> Option<Joined> {
        let mut state = self.state();
        (!state.is_over).then(|| state.add(caller))
    }

    /// Tickets that they need.
    pub(crate) fn size(&self) -> u64 {
        self.state().members.len().max(1) as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().members.is_empty()
    }

    /// Until when one of them waits; none if one waits without end.
    pub(crate) fn until(&self) -> Option<Moment> {
        let state = self.state();
        let untils = state.members.iter().map(|member| member.until);
        untils.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Whether the time of one of them is not over.
    pub(crate) fn waits(&self, now: Moment) -> bool {
        let state = self.state();
        state.members.iter().any(|member| !member.is_late(now))
    }

    /// All of them have stopped waiting.
    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// When the time of the first of them is over that has an end; none when all have stopped.
    pub(crate) fn next_until(&self) -> Option<Moment> {
        let state = self.state();
        let untils = state.members.iter().filter_map(|member| member.until);
        untils.min().filter(|_| !state.is_over)
    }

    /// Refuses the members whose time is over, if others still wait. If the time of all is over, all stop, and a request under way
    /// may still bring the lock to one of them. Behind a hold of their own client nothing is under way, and they are told at once.
    pub(crate) fn part(&self, now: Moment) {
        let mut state = self.state();
        let all_are_late = state.members.iter().all(|member| member.is_late(now));
        if all_are_late && !state.is_behind_its_own {
            return self.end(state);
        }
        let late = state.late(now);
        match all_are_late {
            true => self.end(state),
            false => drop(state),
        }
        for member in late {
            // A member that has gone need not be told.
            let _ = member.tell.send(Err(Refused::GaveUp));
        }
    }

    /// One of them has gone.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state();
        state.refused.remove(&number);
        state.members.retain(|member| member.number != number);
        if state.members.is_empty() {
            self.end(state);
        }
    }

    /// Whoever comes now would be refused with those who stopped.
    fn end(&self, mut state: MutexGuard<'_, State>) {
        state.is_over = true;
        self.stop.cancel();
    }

    /// Refuses those who will not wait behind so many, of `before` turns before the first of them and those of their batch
    /// who stay.
    pub(crate) fn turn_away(&self, before: usize) {
        let mut state = self.state();
        let refused = state.unwilling(before);
        if state.members.is_empty() {
            // They are told when nothing is left to do.
            state.too_long = refused
                .iter()
                .map(|(member, place)| (member.number, *place))
                .collect();
            state.members = refused.into_iter().map(|(member, _)| member).collect();
            return self.end(state);
        }
        drop(state);
        for (member, place) in refused {
            let refused = member.will_not_wait(place);
            // Whoever has gone need not be told.
            let _ = member.tell.send(Err(refused));
        }
    }

    /// How many turns may be before the first of them for all to stay; none if they wait behind however many.
    pub(crate) fn most_before(&self) -> Option<usize> {
        let state = self.state();
        let members = state.members.iter().enumerate();
        let most = members.filter_map(|(index, member)| Some(member.limit?.saturating_sub(index)));
        most.min()
    }

    /// Takes in what an answer showed, and the prospect of the first of them.
    pub(crate) fn saw(&self, item: &LockItem, prospect: Option<Prospect>) {
        let mut state = self.state();
        state.item = Some(Arc::new(item.clone()));
        (state.prospect, state.is_answered) = (prospect, true);
        self.tell(state);
    }

    /// DynamoDB does not answer them.
    pub(crate) fn is_in_trouble(&self, trouble: Trouble) {
        let mut state = self.state();
        state.trouble = Some(trouble);
        self.tell(state);
    }

    /// DynamoDB answered, them or those before them at the door.
    pub(crate) fn is_answered(&self) {
        let mut state = self.state();
        (state.trouble, state.is_answered) = (None, true);
        self.tell(state);
    }

    /// Those before them at the door were shown this.
    pub(crate) fn hears(&self, item: &LockItem) {
        self.state().item = Some(Arc::new(item.clone()));
        self.is_answered();
    }

    /// Since when DynamoDB has not answered them.
    pub(crate) fn troubled_since(&self) -> Option<Moment> {
        self.state().trouble.as_ref().map(|trouble| trouble.since)
    }

    /// Tells those who listen what is news to them.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let told = state.news();
        drop(state);
        for (number, observer, waiting) in told {
            // What it breaks is its caller's, and ends that call alone.
            if catch_unwind(AssertUnwindSafe(|| observer(&waiting))).is_err() {
                self.leave(number);
            }
        }
    }

    /// Somebody goes for the lock for them: their client's runtime runs.
    pub(crate) fn sets_out(&self) {
        let mut state = self.state();
        (state.is_under_way, state.is_behind_its_own) = (true, false);
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.state().is_under_way
    }

    /// What failed last, while DynamoDB does not answer.
    pub(crate) fn unanswered(&self) -> Option<Failure> {
        let mut state = self.state();
        let (failure, trouble) = state.trouble.take()?.failure();
        state.trouble = Some(trouble);
        Some(failure)
    }

    /// Whether DynamoDB has answered them, or those before them at the door while they stood there.
    pub(crate) fn has_answers(&self) -> bool {
        self.state().is_answered
    }

    /// What is logged of a wait that has become long.
    pub(crate) fn log(&self, name: &LockName, waited: Duration) {
        let state = self.state();
        let holder = state.item.as_deref().and_then(LockItem::first_holder);
        let (owner, holder) = (
            holder.map(|holder| holder.owner.as_str()),
            holder.map(|holder| tracing::field::display(holder.ticket)),
        );
        let prospect = state.prospect.as_ref();
        let (place, ticket) = (
            prospect.map(|prospect| prospect.place),
            prospect.and_then(|prospect| Some(prospect.id.as_ref()?.ticket)),
        );
        let ticket = ticket.map(tracing::field::display);
        tracing::info!(lock = %name, ticket, place, owner, holder, ?waited, "still waits for its turn");
    }

    /// What one of them is told that gave up.
    pub(crate) fn not_granted(&self, number: u64, name: &LockName, waited: Duration) -> Error {
        let state = self.state();
        let index = state.members.iter().position(|at| at.number == number);
        let index = index.or_else(|| state.refused.get(&number).copied());
        let prospect = state.prospect.as_ref();
        let place = prospect.map(|first| first.behind(index.unwrap_or_default()).place);
        hold::not_granted(name, state.item.as_deref(), place, waited)
    }

    /// Gives a guard to the first who takes it; back, if there is none.
    pub(crate) fn grant(&self, mut guard: Granted<Holding>) -> Option<Granted<Holding>> {
        while let Some(first) = self.first() {
            match first.tell.send(Ok(guard)) {
                Err(Ok(back)) => guard = back,
                Ok(()) | Err(Err(_)) => {
                    self.moved_up();
                    return None;
                }
            }
        }
        Some(guard)
    }

    /// One of them has the lock, and is before all others. If there are none, nobody is to be told anything more.
    fn moved_up(&self) {
        let (item, prospect) = {
            let mut state = self.state();
            state.is_behind_its_own = true;
            if state.members.is_empty() {
                (state.item, state.prospect) = (None, None);
                return;
            }
            (
                state.item.clone(),
                state.prospect.clone().unwrap_or_default(),
            )
        };
        if let Some(item) = item {
            self.saw(&item, Some(prospect.at(1)));
        }
    }

    /// There will be no turn. They are told when their place is left.
    pub(crate) fn will_refuse(&self, refused: Refused) {
        self.state().refusal = Some(refused);
    }

    /// Why there will be no turn, for one who went alone and whose time is over before it is told.
    pub(crate) fn refusal(&self) -> Option<Refused> {
        self.state().refusal.take()
    }

    /// Tells all of them that there will be no turn.
    pub(crate) fn refuse(&self, refused: Refused) {
        let mut refused = refused;
        let (members, too_long) = {
            let mut state = self.state();
            (state.all(), std::mem::take(&mut state.too_long))
        };
        for member in members {
            let (told, next) = refused.shared();
            let place = too_long.get(&member.number);
            let told = place.map_or(told, |place| member.will_not_wait(*place));
            // Whoever has gone need not be told.
            let _ = member.tell.send(Err(told));
            refused = next;
        }
    }

    fn first(&self) -> Option<Member> {
        self.state().members.pop_front()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn add(&mut self, caller: Caller) -> Joined {
        let Caller {
            until,
            limit,
            observer,
        } = caller;
        let (tell, told) = oneshot::channel();
        self.asked += 1;
        self.members.push_back(Member {
            number: self.asked,
            until,
            limit,
            observer: observer.map(|observer| (observer, Shown::default())),
            tell,
        });
        (self.asked, told)
    }

    /// Takes out the members whose time is over.
    fn late(&mut self, now: Moment) -> Vec<Member> {
        let members = std::mem::take(&mut self.members).into_iter().enumerate();
        let (late, staying): (Vec<_>, Vec<_>) =
            members.partition(|(_, member)| member.is_late(now));
        self.members = staying.into_iter().map(|(_, member)| member).collect();
        self.refuses(late)
    }

    /// Takes out all.
    fn all(&mut self) -> Vec<Member> {
        let members = std::mem::take(&mut self.members).into_iter();
        self.refuses(members.enumerate().collect())
    }

    fn refuses(&mut self, members: Vec<(usize, Member)>) -> Vec<Member> {
        let places = members
            .iter()
            .map(|(index, member)| (member.number, *index));
        self.refused.extend(places);
        members.into_iter().map(|(_, member)| member).collect()
    }

    /// Takes out those who will not wait behind so many; with the place that each would have had.
    fn unwilling(&mut self, mut place: usize) -> Vec<(Member, usize)> {
        let (mut staying, mut refused) = (VecDeque::new(), Vec::new());
        for member in self.members.drain(..) {
            if member.limit.is_some_and(|limit| limit < place) {
                refused.push((member, place));
            } else {
                staying.push_back(member);
                place = place.saturating_add(1);
            }
        }
        self.members = staying;
        refused
    }

    /// Whom to tell of a new place, of another holder, or of an outage that begins or is over; and what.
    fn news(&mut self) -> Vec<(u64, Observer, Waiting)> {
        let State {
            members,
            item,
            prospect,
            trouble,
            ..
        } = self;
        let item = item.as_deref();
        let ticket = item.and_then(LockItem::first_holder).map(|it| it.ticket);
        let members = members.iter_mut().enumerate();
        let observed = members.filter_map(|(index, member)| {
            let (observer, shown) = member.observer.as_mut()?;
            let prospect = prospect.as_ref().map(|first| first.behind(index));
            let place_id = prospect.as_ref().and_then(|it| it.id.clone());
            let own = place_id.as_ref().map(|id| id.ticket);
            let now = Shown {
                // At the door no place is known, which is no news.
                queue: prospect
                    .as_ref()
                    .map_or(shown.queue, |it| Some((it.place, own, ticket))),
                is_out: trouble.is_some(),
            };
            let is_news = std::mem::replace(shown, now) != now;
            let waiting = || Waiting {
                position: prospect.as_ref().map(|it| it.place),
                place_id: place_id.clone(),
                expected_wait: prospect.as_ref().and_then(Prospect::wait),
                holder: item.and_then(hold::shown),
                held_since: item.and_then(LockItem::held_since).map(system_time),
                outage: trouble.as_ref().map(|trouble| trouble.outage.clone()),
            };
            is_news.then(|| (member.number, Arc::clone(observer), waiting()))
        });
        observed.collect()
    }
}

impl Member {
    /// At that place of a queue.
    fn will_not_wait(&self, place: usize) -> Refused {
        Refused::QueueFull {
            // The first before it has the lock, or will, and does not wait.
            waiting: place.saturating_sub(1),
            limit: self.limit.unwrap_or_default(),
        }
    }

    fn is_late(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
