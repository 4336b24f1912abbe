//! Those who asked one client for one lock while another of them was on the way into the line: they draw their tickets
//! together, stand in one row, and have their turns one after the other, in the order in which they asked.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Prospect, Refused};
use crate::error::Error;
use crate::guard::LockGuard;
use crate::hold;
use crate::item::LockItem;
use crate::lock::Observer;
use crate::moment::Moment;
use crate::name::LockName;
use crate::state::{Waiting, system_time};
use crate::ticket::Ticket;

pub(crate) type Told = oneshot::Receiver<Result<LockGuard, Refused>>;

/// Which of a party a call is, and how it is told.
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
pub(crate) struct Party {
    /// Cancelled when nobody of them waits any more: no new step is made then but those that clean up.
    pub(crate) stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: u64,
    /// All have gone, or are about to.
    is_over: bool,
    members: VecDeque<Member>,
    item: Option<Arc<LockItem>>,
    /// That of the first of them.
    prospect: Option<Prospect>,
}

struct Member {
    number: u64,
    until: Option<Moment>,
    limit: Option<usize>,
    observer: Option<(Observer, Shown)>,
    tell: oneshot::Sender<Result<LockGuard, Refused>>,
}

/// What an observer was shown last: its place, and the holder's ticket.
type Shown = Option<(usize, Option<Ticket>)>;

impl Party {
    fn new(stop: CancellationToken) -> Self {
        Party {
            stop,
            state: Mutex::default(),
        }
    }

    /// With the first of them.
    pub(crate) fn founded(stop: CancellationToken, by: Caller) -> (Self, Joined) {
        let party = Party::new(stop);
        let joined = party.state().add(by);
        (party, joined)
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

    /// One of them waits no more, and all stop if it is the last. Whether it is: then a request under way may still bring it
    /// the lock.
    pub(crate) fn give_up(&self, number: u64) -> bool {
        let state = self.state();
        let is_last = state.members.iter().all(|member| member.number == number);
        if is_last {
            self.end(state);
        }
        is_last
    }

    /// One of them has gone.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state();
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

    /// Refuses those who will not wait behind so many, of `before` turns before the first of them and those of their party
    /// who stay.
    pub(super) fn turn_away(&self, before: usize) {
        let mut state = self.state();
        let refused = state.unwilling(before);
        if state.members.is_empty() {
            self.end(state);
        } else {
            drop(state);
        }
        for (member, place) in refused {
            let limit = member.limit.unwrap_or_default();
            // One of those before it has the lock, or will, and does not wait.
            let waiting = place.saturating_sub(1);
            // Whoever has gone need not be told.
            let _ = member.tell.send(Err(Refused::LineFull { waiting, limit }));
        }
    }

    /// How many turns may be before the first of them for all to stay; none if they wait behind however many.
    pub(super) fn most_before(&self) -> Option<usize> {
        let state = self.state();
        let members = state.members.iter().enumerate();
        let most = members.filter_map(|(index, member)| Some(member.limit?.saturating_sub(index)));
        most.min()
    }

    /// Takes in what an answer showed, and the prospect of the first of them.
    pub(super) fn saw(&self, item: &LockItem, prospect: Option<Prospect>) {
        let told = {
            let mut state = self.state();
            state.item = Some(Arc::new(item.clone()));
            state.prospect = prospect;
            prospect.map_or_else(Vec::new, |prospect| state.news(prospect, item))
        };
        for (number, observer, prospect) in told {
            let waiting = Waiting {
                place: prospect.place,
                expected_wait: prospect.wait(),
                holder: item.first_holder().cloned().map(hold::shown),
                held_since: item.held_since().map(system_time),
            };
            // What it breaks is its caller's, and ends that call alone.
            if catch_unwind(AssertUnwindSafe(|| observer(&waiting))).is_err() {
                self.leave(number);
            }
        }
    }

    /// What one of them is told that gave up.
    pub(crate) fn not_granted(&self, number: u64, name: &LockName, waited: Duration) -> Error {
        let state = self.state();
        let index = state.members.iter().position(|at| at.number == number);
        let prospect = state.prospect;
        let place = prospect.map(|first| first.behind(index.unwrap_or_default()).place);
        hold::not_granted(name, state.item.as_deref(), place, waited)
    }

    /// Gives a guard to the first who takes it; back, if there is none.
    pub(crate) fn grant(&self, mut guard: LockGuard) -> Option<LockGuard> {
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

    /// One of them has the lock, and is before all others.
    fn moved_up(&self) {
        let (item, prospect) = {
            let state = self.state();
            (state.item.clone(), state.prospect.unwrap_or_default())
        };
        if let Some(item) = item {
            self.saw(&item, Some(prospect.at(1)));
        }
    }

    /// Tells all of them that there will be no turn.
    pub(crate) fn refuse(&self, refused: Refused) {
        let mut refused = Some(refused);
        while let (Some(first), Some(told)) = (self.first(), refused.take()) {
            let (told, next) = told.shared();
            // Whoever has gone need not be told.
            let _ = first.tell.send(Err(told));
            refused = Some(next);
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
            observer: observer.map(|observer| (observer, None)),
            tell,
        });
        (self.asked, told)
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

    /// Whom to tell of a new place, or of another holder.
    fn news(&mut self, first: Prospect, item: &LockItem) -> Vec<(u64, Observer, Prospect)> {
        let holder = item.first_holder().map(|holder| holder.ticket);
        let members = self.members.iter_mut().enumerate();
        let observed = members.filter_map(|(index, member)| {
            let (observer, shown) = member.observer.as_mut()?;
            let prospect = first.behind(index);
            let now = Some((prospect.place, holder));
            let is_news = std::mem::replace(shown, now) != now;
            is_news.then(|| (member.number, Arc::clone(observer), prospect))
        });
        observed.collect()
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}
