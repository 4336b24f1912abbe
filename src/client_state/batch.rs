//! A batch: callers that asked one client for one lock while an earlier caller was on its way into the queue. They draw their tickets
//! together, stand in one row, and take their turns one after the other, in the order in which they asked.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Holding, Refused, SoughtLease, Trouble, WaitEstimate};
use crate::error::{Error, LossReason};
use crate::holder;
use crate::name::LockName;
use crate::offer::Granted;
use crate::state::{WaitObserver, Waiting, system_time};
use crate::telemetry::Origin;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::moment::Moment;
use fairlock_protocol::outage::{OutageKind, ToldOutage, is_unanswered};
use fairlock_protocol::ticket::Ticket;

/// The channel on which a caller hears how its call ended.
pub(crate) type AnswerReceiver = oneshot::Receiver<Result<Granted<Holding>, Refused>>;

/// A call that waits for its answer: its number in its batch, and the channel.
pub(crate) type PendingCall = (u64, AnswerReceiver);

/// A caller of the lock.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) until: Option<Moment>,
    /// The most turns that the caller waits behind.
    pub(crate) limit: Option<usize>,
    pub(crate) observer: Option<WaitObserver>,
    /// Learns of the lease that makes the wait needless.
    pub(crate) sought: Option<Arc<SoughtLease>>,
    /// The call, to which the span of the hold belongs.
    pub(crate) origin: Origin,
}

/// The callers of a batch, in the order in which they asked.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Cancelled when no member waits any more. After that the task takes no new step, except to clean up.
    pub(crate) stop: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: u64,
    /// All members have gone, or are about to.
    is_over: bool,
    /// Why no turn will come. Set while the task leaves what the batch has in the table.
    refusal: Option<Refused>,
    members: VecDeque<Member>,
    /// How many members were before each refused member, by its number. Kept until that member's call has ended.
    refused: BTreeMap<u64, usize>,
    /// If the queue is too long for all members: the position that each member would have had.
    too_long: BTreeMap<u64, usize>,
    item: Option<Arc<LockItem>>,
    /// The estimate of the first member.
    estimate: Option<WaitEstimate>,
    /// Set while something keeps the batch from its turn, and was told.
    trouble: Option<Trouble>,
    /// Why the batch lost its place. Set until it has another.
    place_lost: Option<LossReason>,
    is_answered: bool,
    /// A task has begun to acquire the lock.
    is_under_way: bool,
    /// The members wait behind a hold of their own client, at its place. No request is under way that may bring the lock to a member, and
    /// the members have nothing in the table to leave.
    is_behind_its_own: bool,
}

struct Member {
    number: u64,
    until: Option<Moment>,
    limit: Option<usize>,
    observer: Option<(WaitObserver, Shown)>,
    sought: Option<Arc<SoughtLease>>,
    origin: Origin,
    tell: oneshot::Sender<Result<Granted<Holding>, Refused>>,
}

/// What an observer was shown last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    /// The member's position, the newest ticket of its place, and the holder's ticket.
    queue: Option<(usize, Option<Ticket>, Option<Ticket>)>,
    /// What keeps the member from its turn.
    outage: Option<OutageKind>,
    /// The place was lost, and there is no other yet.
    is_place_lost: bool,
}

impl Batch {
    fn new(stop: CancellationToken) -> Self {
        Batch {
            stop,
            state: Mutex::default(),
        }
    }

    /// Makes a batch with its first member.
    pub(crate) fn founded(stop: CancellationToken, by: Caller) -> (Self, PendingCall) {
        let batch = Batch::new(stop);
        let pending = batch.state().add(by);
        (batch, pending)
    }

    /// Adds a caller behind all others. Returns `None` if no member waits any more, because then no task acquires the lock.
    pub(crate) fn join(&self, caller: Caller) -> Option<PendingCall> {
        let mut state = self.state();
        (!state.is_over).then(|| state.add(caller))
    }

    /// How many tickets the members need.
    pub(crate) fn size(&self) -> u64 {
        self.state().members.len().max(1) as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.state().members.is_empty()
    }

    /// Until when the last member waits. Returns `None` if a member waits without end.
    pub(crate) fn until(&self) -> Option<Moment> {
        let state = self.state();
        let untils = state.members.iter().map(|member| member.until);
        untils.collect::<Option<Vec<_>>>()?.into_iter().max()
    }

    /// Whether some member still has time left.
    pub(crate) fn waits(&self, now: Moment) -> bool {
        let state = self.state();
        state.members.iter().any(|member| !member.is_late(now))
    }

    /// Whether all members have stopped waiting.
    pub(crate) fn is_over(&self) -> bool {
        self.state().is_over
    }

    /// The first time at which a member's time runs out. Returns `None` if no member's time has an end, or if all members have stopped.
    pub(crate) fn next_until(&self) -> Option<Moment> {
        let state = self.state();
        let untils = state.members.iter().filter_map(|member| member.until);
        untils.min().filter(|_| !state.is_over)
    }

    /// Refuses the members whose time has run out, if others still wait. If the time of all has run out, the batch stops. A request under
    /// way may still bring the lock to a member then. Behind a hold of their own client no request is under way, and the members are
    /// refused at once.
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
            let _ = member.tell.send(Err(Refused::NotGranted));
        }
    }

    /// Removes a member that has gone.
    pub(crate) fn leave(&self, number: u64) {
        let mut state = self.state();
        state.refused.remove(&number);
        state.members.retain(|member| member.number != number);
        if state.members.is_empty() {
            self.end(state);
        }
    }

    /// Stops the batch. A caller that joined now would be refused with the members that stopped.
    fn end(&self, mut state: MutexGuard<'_, State>) {
        state.is_over = true;
        self.stop.cancel();
    }

    /// Refuses each member that will not wait behind the `before` turns before the batch and the earlier members that stay.
    pub(crate) fn turn_away(&self, before: usize) {
        let mut state = self.state();
        let refused = state.unwilling(before);
        if state.members.is_empty() {
            // These members are refused when nothing is left to do.
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
            // A member that has gone need not be told.
            let _ = member.tell.send(Err(refused));
        }
    }

    /// How many turns may be before the first member so that all members stay. Returns `None` if every member waits behind any number.
    pub(crate) fn most_before(&self) -> Option<usize> {
        let state = self.state();
        let members = state.members.iter().enumerate();
        let most = members.filter_map(|(index, member)| Some(member.limit?.saturating_sub(index)));
        most.min()
    }

    /// Takes in what an answer showed, and the estimate of the first member.
    pub(crate) fn saw(&self, item: &LockItem, estimate: Option<WaitEstimate>) {
        let mut state = self.state();
        let sought = state.members.iter().filter_map(|it| it.sought.as_ref());
        sought.for_each(|sought| sought.looks_at(item));
        state.item = Some(Arc::new(item.clone()));
        if estimate.is_some() {
            state.place_lost = None;
        }
        (state.estimate, state.is_answered) = (estimate, true);
        self.tell(state);
    }

    /// Notes that the batch goes to the end of the queue. There is a reason if it lost its place.
    pub(crate) fn note_requeued(&self, lost: Option<LossReason>) {
        let mut state = self.state();
        (state.estimate, state.place_lost) = (None, lost);
        self.tell(state);
    }

    /// Notes what keeps the batch from its turn.
    pub(crate) fn note_trouble(&self, trouble: Trouble) {
        let mut state = self.state();
        state.trouble = Some(trouble);
        self.tell(state);
    }

    /// Notes that DynamoDB answered the batch, or the batch before it at the doorway.
    pub(crate) fn note_answered(&self) {
        let mut state = self.state();
        state.trouble.take_if(|it| is_unanswered(it.outage.kind));
        state.is_answered = true;
        self.tell(state);
    }

    /// Notes that nothing keeps the batch from its turn any more.
    pub(crate) fn note_served(&self) {
        let mut state = self.state();
        (state.trouble, state.is_answered) = (None, true);
        self.tell(state);
    }

    /// Takes in a lock item that was shown to the batch before this one at the doorway.
    pub(crate) fn hears(&self, item: &LockItem) {
        self.state().item = Some(Arc::new(item.clone()));
        self.note_answered();
    }

    /// What the batch was told that keeps it from its turn.
    pub(crate) fn told_outage(&self) -> Option<ToldOutage> {
        let state = self.state();
        let trouble = state.trouble.as_ref();
        trouble.map(|trouble| (trouble.since, trouble.outage.kind))
    }

    /// Tells each observer what is new to it.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let told = state.news();
        drop(state);
        for (number, observer, waiting) in told {
            // Unwind safe, because what a panic breaks belongs to the caller. It ends that call alone.
            if catch_unwind(AssertUnwindSafe(|| observer(&waiting))).is_err() {
                self.leave(number);
            }
        }
    }

    /// Notes that a task acquires the lock for the batch, so the client's runtime runs.
    pub(crate) fn sets_out(&self) {
        let mut state = self.state();
        (state.is_under_way, state.is_behind_its_own) = (true, false);
    }

    pub(crate) fn is_under_way(&self) -> bool {
        self.state().is_under_way
    }

    /// The last failure, while DynamoDB does not answer, or refuses what the batch asks.
    pub(crate) fn unserved(&self) -> Option<Failure> {
        let state = self.state();
        let Trouble {
            outage, failure, ..
        } = state.trouble.as_ref()?;
        let is_not_now = matches!(outage.kind, OutageKind::Throttled | OutageKind::Conflict);
        (!is_not_now).then(|| failure.clone())
    }

    /// Whether DynamoDB has answered the batch, or the batch before it at the doorway while this batch waited there.
    pub(crate) fn has_answers(&self) -> bool {
        self.state().is_answered
    }

    /// Logs a wait that has become long.
    pub(crate) fn log(&self, name: &LockName, waited: Duration) {
        let state = self.state();
        let holder = state.item.as_deref().and_then(LockItem::first_holder);
        let (owner, holder) = (
            holder.map(|holder| holder.owner.as_str()),
            holder.map(|holder| tracing::field::display(holder.ticket)),
        );
        let estimate = state.estimate.as_ref();
        let (place, ticket) = (
            estimate.map(|estimate| estimate.position),
            estimate.and_then(|estimate| Some(estimate.id.as_ref()?.ticket)),
        );
        let ticket = ticket.map(tracing::field::display);
        tracing::info!(lock = %name, ticket, place, owner, holder, ?waited, "still waits for its turn");
    }

    /// The error of a member that was not granted the lock.
    pub(crate) fn not_granted(&self, number: u64, name: &LockName, waited: Duration) -> Error {
        let state = self.state();
        let index = state.members.iter().position(|at| at.number == number);
        let index = index.or_else(|| state.refused.get(&number).copied());
        let estimate = state.estimate.as_ref();
        let position = estimate.map(|first| first.behind(index.unwrap_or_default()).position);
        holder::not_granted(name, state.item.as_deref(), position, waited)
    }

    /// Gives a guard to the first member that takes it. Returns the call of that member, or the guard if there is no such member.
    pub(crate) fn grant(&self, mut guard: Granted<Holding>) -> Result<Origin, Granted<Holding>> {
        while let Some(first) = self.first() {
            match first.tell.send(Ok(guard)) {
                Err(Ok(back)) => guard = back,
                Ok(()) | Err(Err(_)) => {
                    self.moved_up();
                    return Ok(first.origin);
                }
            }
        }
        Err(guard)
    }

    /// Notes that a member holds the lock, and is before all others. If there are no others, no member need be told anything more.
    fn moved_up(&self) {
        let (item, estimate) = {
            let mut state = self.state();
            state.is_behind_its_own = true;
            if state.members.is_empty() {
                (state.item, state.estimate) = (None, None);
                return;
            }
            (
                state.item.clone(),
                state.estimate.clone().unwrap_or_default(),
            )
        };
        if let Some(item) = item {
            self.saw(&item, Some(estimate.at(1)));
        }
    }

    /// Notes that no turn will come. The members are notified when their place is left.
    pub(crate) fn will_refuse(&self, refused: Refused) {
        self.state().refusal = Some(refused);
    }

    /// Takes the reason why no turn will come. For a caller that acquires alone, and whose time runs out before it is notified.
    pub(crate) fn refusal(&self) -> Option<Refused> {
        self.state().refusal.take()
    }

    /// Refuses all members: no turn will come.
    pub(crate) fn refuse(&self, refused: &Refused) {
        let (members, too_long) = {
            let mut state = self.state();
            (state.all(), std::mem::take(&mut state.too_long))
        };
        for member in members {
            let place = too_long.get(&member.number);
            let told = place.map_or_else(|| refused.clone(), |place| member.will_not_wait(*place));
            // A member that has gone need not be told.
            let _ = member.tell.send(Err(told));
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
    fn add(&mut self, caller: Caller) -> PendingCall {
        let Caller {
            until,
            limit,
            observer,
            sought,
            origin,
        } = caller;
        let (tell, told) = oneshot::channel();
        self.asked += 1;
        self.members.push_back(Member {
            number: self.asked,
            until,
            limit,
            observer: observer.map(|observer| (observer, Shown::default())),
            sought,
            origin,
            tell,
        });
        (self.asked, told)
    }

    /// Takes out the members whose time has run out.
    fn late(&mut self, now: Moment) -> Vec<Member> {
        let members = std::mem::take(&mut self.members).into_iter().enumerate();
        let (late, staying): (Vec<_>, Vec<_>) =
            members.partition(|(_, member)| member.is_late(now));
        self.members = staying.into_iter().map(|(_, member)| member).collect();
        self.refuses(late)
    }

    /// Takes out all members.
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

    /// Takes out each member that will not wait behind the turns before it: the first member has `place` turns before it. Returns each with
    /// the position that it would have had.
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

    /// The observers to tell of a new position, of another holder, or of an outage that begins or ends, each with what to tell it.
    fn news(&mut self) -> Vec<(u64, WaitObserver, Waiting)> {
        let State {
            members,
            item,
            estimate,
            trouble,
            place_lost,
            ..
        } = self;
        let item = item.as_deref();
        let ticket = item.and_then(LockItem::first_holder).map(|it| it.ticket);
        let members = members.iter_mut().enumerate();
        let observed = members.filter_map(|(index, member)| {
            let (observer, shown) = member.observer.as_mut()?;
            let estimate = estimate.as_ref().map(|first| first.behind(index));
            let place_id = estimate.as_ref().and_then(|it| it.id.clone());
            let own = place_id.as_ref().map(|id| id.ticket);
            let now = Shown {
                // At the doorway no position is known, which is no news.
                queue: estimate
                    .as_ref()
                    .map_or(shown.queue, |it| Some((it.position, own, ticket))),
                outage: trouble.as_ref().map(|trouble| trouble.outage.kind),
                is_place_lost: place_lost.is_some(),
            };
            let is_news = std::mem::replace(shown, now) != now;
            let waiting = || Waiting {
                position: estimate.as_ref().map(|it| it.position),
                place_id: place_id.clone(),
                expected_wait: estimate.as_ref().and_then(WaitEstimate::wait),
                holder: item.and_then(holder::shown),
                held_since: item.and_then(LockItem::held_since).map(system_time),
                outage: trouble.as_ref().map(|trouble| trouble.outage.clone()),
                place_lost: place_lost.clone(),
            };
            is_news.then(|| (member.number, Arc::clone(observer), waiting()))
        });
        observed.collect()
    }
}

impl Member {
    /// The refusal of a member at that position of a queue.
    fn will_not_wait(&self, place: usize) -> Refused {
        Refused::QueueFull {
            // The first caller before it holds the lock, or will, and does not wait.
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
