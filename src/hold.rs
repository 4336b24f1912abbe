//! A hold as its owner knows it: until when it may be believed in, whether it is in danger, and how it ended.

use std::collections::{BTreeMap, btree_map};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::Clock;
use crate::config::Config;
use crate::error::{Error, Holder, LossReason};
use crate::name::LockName;
use crate::place_id::PlaceId;
use crate::signal::Signal;
use crate::state::{LockData, system_time};
use crate::store::{Attempt, Failure, Store};
use fairlock_protocol::entry::{Entry, Nonce};
use fairlock_protocol::item::{At, Footing, Held, LockItem, Written};
use fairlock_protocol::lease::{self, RenewalHistory};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::stagger::Stagger;
use fairlock_protocol::ticket::Ticket;

/// How a hold stands. It is lost at most once, and what was lost never comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Held,
    Lost(LossReason),
    /// Given back, or being given back, by its owner.
    Released,
}

/// One hold of one lock.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) name: LockName,
    pub(crate) attempt: Attempt,
    pub(crate) ticket: Ticket,
    /// When this process was first told of it.
    pub(crate) begun: Moment,
    /// Of those who have their turns at the same place, one after the other.
    newest: Ticket,
    clock: Clock,
    lease: Duration,
    tenure: Signal<Tenure>,
}

#[derive(Debug)]
struct Tenure {
    /// Where it stands and what it takes, and whether it is alone, as far as is known.
    held: Held,
    /// What the lock carries, and the write that left it so, as far as is known.
    data: Option<LockData>,
    written: Option<Written>,
    beats: RenewalHistory,
    /// The beat that the table shows.
    beat: u64,
    /// Others can judge the entry by DynamoDB's clock.
    is_dated: bool,
    /// None until it is kept with the client's others.
    stagger: Option<Stagger>,
    /// What became of the last renewal, if it failed.
    trouble: Option<String>,
    /// How many renewals were answered.
    renewed: u64,
    is_failing: bool,
    /// How often it wrote data.
    writes: u64,
    /// Of those, how many have no answer.
    unanswered: u64,
    is_checked: bool,
    /// It was downgraded while callers of its client waited to have the lock next, for whom the table keeps all permits.
    shares: bool,
    standing: Standing,
}

impl Tenure {
    /// That of the next hold at the same place.
    fn passed_on(&self) -> Self {
        Tenure {
            beats: self.beats.clone(),
            stagger: self.stagger.clone(),
            data: self.data.clone(),
            trouble: self.trouble.clone(),
            writes: 0,
            unanswered: 0,
            is_checked: false,
            shares: false,
            standing: Standing::Held,
            ..*self
        }
    }

    /// How renewals go: how many were answered, and whether the last failed.
    fn pulse(&self) -> (u64, bool) {
        (self.renewed, self.is_failing)
    }

    /// Takes in an answer. Where that of a renewal comes late, it shows what the lock carried before a write that was answered since.
    fn shows(&mut self, item: &LockItem, at: At, entry: &Entry) {
        self.held = Held::of(item, at, entry);
        if self.written <= item.written {
            (self.data, self.written) = (LockData::of(item), item.written);
        }
    }
}

/// The places at which guards of this process hold locks, so that an error can say that a lock is not re-entrant.
/// Counted, because seeded nonces repeat from test to test.
static HELD: Mutex<BTreeMap<(Nonce, Ticket), usize>> = Mutex::new(BTreeMap::new());

impl Hold {
    /// The hold with `ticket` that `entry`, one's own at its place, shows. It lasts no longer than one's own lease either, whatever
    /// stands in the entry: the next renewal writes that one, and others judge by it from then on.
    pub(crate) fn new(
        name: LockName,
        attempt: Attempt,
        ticket: Ticket,
        (item, at, entry): (&LockItem, At, &Entry),
        config: &Config,
        beats: RenewalHistory,
    ) -> Self {
        let place = (attempt.nonce, entry.ticket);
        *locked(&HELD).entry(place).or_default() += 1;
        let tenure = Tenure {
            held: Held::of(item, at, entry),
            data: LockData::of(item),
            written: item.written,
            beats,
            beat: entry.beat,
            is_dated: entry.renewed_at.is_some(),
            stagger: None,
            trouble: None,
            renewed: 0,
            is_failing: false,
            writes: 0,
            unanswered: 0,
            is_checked: false,
            shares: false,
            standing: Standing::Held,
        };
        Hold {
            name,
            attempt,
            ticket,
            begun: config.clock.now(),
            newest: entry.ticket,
            clock: config.clock.clone(),
            lease: entry.lease.min(config.lease),
            tenure: Signal::new(tenure),
        }
    }

    /// The next hold at the same place, which lasts as long as this one would have.
    pub(crate) fn passed_on(&self, ticket: Ticket) -> Hold {
        *locked(&HELD).entry(self.place()).or_default() += 1;
        let tenure = self.tenure.read(Tenure::passed_on);
        Hold {
            name: self.name.clone(),
            attempt: self.attempt.again(),
            ticket,
            begun: self.clock.now(),
            newest: self.newest,
            clock: self.clock.clone(),
            lease: self.lease,
            tenure: Signal::new(tenure),
        }
    }

    /// How many are still to have a turn at this place, this hold included.
    pub(crate) fn turns_left(&self) -> u64 {
        self.newest.get().saturating_sub(self.ticket.get()) + 1
    }

    /// Whether a request may still be under way that is this hold's by the table, as long as the table shows its turn.
    pub(crate) fn may_act_late(&self) -> bool {
        self.tenure.read(|now| now.is_checked || now.unanswered > 0)
    }

    /// Whether the hold may be believed in now. Local: no request is sent.
    pub(crate) fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// How much of the lease may still be believed in.
    pub(crate) fn remaining(&self) -> Duration {
        match self.is_standing() {
            true => self.believed_until().since(self.clock.now()),
            false => Duration::ZERO,
        }
    }

    pub(crate) fn is_in_danger(&self) -> bool {
        self.is_failing() && self.until_danger().is_zero()
    }

    fn until_danger(&self) -> Duration {
        lease::until_danger(self.lease, self.remaining())
    }

    fn is_failing(&self) -> bool {
        self.tenure.read(|now| now.is_failing)
    }

    /// Waits until the hold has ended, or is in danger if it was not, or no more if it was. Cancel safe. Each turn of the loop
    /// ends with the hold, with a renewal, or in danger.
    pub(crate) async fn news(&self, was_in_danger: bool) -> Standing {
        loop {
            let pulse = self.tenure.read(Tenure::pulse);
            let standing = self.standing();
            if standing != Standing::Held || self.is_in_danger() != was_in_danger {
                return standing;
            }
            let is_news = |now: &Tenure| now.standing != Standing::Held || now.pulse() != pulse;
            let (_, is_failing) = pulse;
            tokio::select! {
                biased;
                () = self.tenure.wait_for(|now| is_news(now).then_some(())) => {}
                () = self.clock.sleep(self.until_danger()), if is_failing && !was_in_danger => {}
                () = self.lapses() => if let Some(loss) = self.loss() {
                    return Standing::Lost(loss);
                }
            }
        }
    }

    /// Waits until it has ended: also by the local deadline alone, for what renews it may stand still. None if it was given back.
    /// Cancel safe. Each turn of the loop is one renewal.
    pub(crate) async fn ended(&self) -> Option<LossReason> {
        loop {
            match self.standing() {
                Standing::Lost(loss) => return Some(loss),
                Standing::Released => return None,
                Standing::Held => {}
            }
            tokio::select! {
                biased;
                () = self.has_ended() => {}
                () = self.lapses() => if self.remaining().is_zero() {
                    return self.loss();
                },
            }
        }
    }

    /// Waits for the local deadline as it is now.
    async fn lapses(&self) {
        let until = self.believed_until();
        self.clock.sleep_until_if_counted(until).await;
    }

    /// The local deadline. It counts from before the write that established the beat the table shows was sent.
    pub(crate) fn believed_until(&self) -> Moment {
        let until = |now: &Tenure| now.beats.believed_until(now.beat, self.lease);
        self.tenure.read(until).unwrap_or_default()
    }

    /// When the next renewal is to be sent: soon, if it has no date and may bring one, or another answer that tells the time.
    pub(crate) fn renewal_due(&self, store: &Store) -> Moment {
        self.tenure.read(|now| {
            let heartbeat = store.heartbeat(now.is_dated);
            let stagger = now.stagger.as_ref();
            let span = stagger.map_or(heartbeat, |stagger| stagger.span(heartbeat));
            let established = now.beats.established(now.beat);
            established.map_or_else(Moment::default, |sent| sent + span)
        })
    }

    /// Takes its place among the renewals of its client, unless it has one.
    pub(crate) fn stagger(&self, stagger: Stagger) {
        self.tenure.note(|now| {
            now.stagger.get_or_insert(stagger);
        });
    }

    /// Its last renewal came late: it takes its place among those of its client again.
    pub(crate) fn stagger_anew(&self) {
        self.tenure
            .note(|now| now.stagger.iter_mut().for_each(Stagger::again));
    }

    /// How many permits its caller may count on.
    pub(crate) fn permits(&self) -> u64 {
        self.tenure.read(|now| match now.shares {
            true => 1,
            false => now.held.permits,
        })
    }

    /// Its caller counts on one permit from now on, whatever the table keeps for the next at its place.
    pub(crate) fn is_to_share(&self) {
        self.tenure
            .change(|now| !std::mem::replace(&mut now.shares, true));
    }

    /// Waits until that is said of it. Cancel safe.
    pub(crate) async fn shares(&self) {
        self.tenure.wait_for(|now| now.shares.then_some(())).await;
    }

    /// What a transaction that checks this hold asks of the table, and how many are still to have a turn then. If the hold was
    /// downgraded, it asks for one permit. The table shows that when nobody is to have the lock next, and nobody else has a
    /// turn at the place from then on.
    pub(crate) fn to_be_checked(&self) -> (Held, u64) {
        let (held, shares) = self.tenure.note(|now| {
            now.is_checked = true;
            (now.held, now.shares)
        });
        let permits = if shares { 1 } else { held.permits };
        let turns_left = match permits < held.permits || !shares {
            true => self.turns_left(),
            false => 1,
        };
        (Held { permits, ..held }, turns_left)
    }

    /// Where it stands, and what it takes.
    pub(crate) fn held(&self) -> Held {
        self.tenure.read(|now| now.held)
    }

    pub(crate) fn place_id(&self) -> PlaceId {
        self.attempt.place_id(&self.name, self.newest)
    }

    /// Where it stands, for its renewals.
    pub(crate) fn footing(&self) -> Footing {
        self.held().footing
    }

    /// A renewal sent at `sent` was answered with this item. Whether it shows the hold.
    pub(crate) fn renewed(&self, item: &LockItem, sent: Moment) -> bool {
        let Some((at, entry)) = item.hold_of(self.attempt.nonce, self.newest) else {
            return false;
        };
        self.tenure.change(|now| {
            now.shows(item, at, entry);
            now.beats.renewed(entry.beat, sent);
            now.beat = entry.beat;
            now.trouble = None;
            // The renewal that only brings a date is no heartbeat.
            if std::mem::replace(&mut now.is_dated, entry.renewed_at.is_some()) {
                now.stagger.iter_mut().for_each(Stagger::step);
            }
            now.renewed += 1;
            now.is_failing = false;
            true
        })
    }

    pub(crate) fn data(&self) -> Option<LockData> {
        self.tenure.read(|now| now.data.clone())
    }

    /// The next write of data by this hold. Without an answer, as if it was dropped, it may come at any time.
    pub(crate) fn begin_write(&self) -> Written {
        let ticket = self.ticket;
        self.tenure.note(|now| {
            now.unanswered += 1;
            now.writes += 1;
            Written {
                ticket,
                count: now.writes,
            }
        })
    }

    pub(crate) fn end_write(&self) {
        self.tenure.note(|now| now.unanswered -= 1);
    }

    /// Takes in what an answer shows of its place, its permits and the data. Whether it shows the hold.
    pub(crate) fn saw(&self, item: &LockItem) -> bool {
        let Some((at, entry)) = item.hold_of(self.attempt.nonce, self.newest) else {
            return false;
        };
        self.tenure.note(|now| now.shows(item, at, entry));
        true
    }

    /// Notes a renewal that brought no answer. Whether it is the first since one did.
    pub(crate) fn failed(&self, failure: &Failure) -> bool {
        let trouble = Some(failure.to_string());
        self.tenure.change(|now| {
            now.trouble = trouble;
            !std::mem::replace(&mut now.is_failing, true)
        })
    }

    /// Ends the hold as lost, unless it has ended already. Whether it did.
    pub(crate) fn lose(&self, loss: LossReason) -> bool {
        self.end(Standing::Lost(loss))
    }

    /// Ends the hold as given back, unless it has ended already. Whether it did.
    pub(crate) fn give_back(&self) -> bool {
        self.end(Standing::Released)
    }

    fn end(&self, how: Standing) -> bool {
        let ended = self.tenure.change(|now| {
            let holds = now.standing == Standing::Held;
            if holds {
                now.standing = how;
            }
            holds
        });
        if ended {
            self.forget();
        }
        ended
    }

    /// What names its place, and no other one that its nonce got later. The holds before and after it there have the same.
    pub(crate) fn place(&self) -> (Nonce, Ticket) {
        (self.attempt.nonce, self.newest)
    }

    /// This process holds the lock no more.
    fn forget(&self) {
        let mut held = locked(&HELD);
        if let btree_map::Entry::Occupied(mut count) = held.entry(self.place()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
            }
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.tenure.read(|now| now.standing.clone())
    }

    /// Waits until somebody has ended it. Cancel safe.
    pub(crate) async fn has_ended(&self) {
        let ended = |now: &Tenure| (now.standing != Standing::Held).then_some(());
        self.tenure.wait_for(ended).await;
    }

    /// Whether nothing has ended it yet.
    pub(crate) fn is_standing(&self) -> bool {
        self.tenure.read(|now| now.standing == Standing::Held)
    }

    pub(crate) fn is_lost(&self) -> bool {
        matches!(self.standing(), Standing::Lost(_))
    }

    /// Why the hold was lost, if it was: also when nobody has noticed yet that its lease ran out.
    pub(crate) fn loss(&self) -> Option<LossReason> {
        match self.standing() {
            Standing::Lost(loss) => Some(loss),
            Standing::Held if self.remaining().is_zero() => Some(self.lapse()),
            Standing::Held | Standing::Released => None,
        }
    }

    /// What became of the last renewal, if it failed.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.tenure.read(|now| now.trouble.clone())
    }

    /// Why the lease ran out.
    pub(crate) fn lapse(&self) -> LossReason {
        match self.trouble() {
            Some(cause) => LossReason::Unreachable { cause },
            None => LossReason::Expired,
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_standing() {
            self.forget();
        }
    }
}

/// Whether a guard of this process holds a lock at this place.
fn is_held_here(holder: &Entry) -> bool {
    locked(&HELD).contains_key(&(holder.nonce, holder.ticket))
}

/// Who has a lock, and has had it for longest, as a caller is told of it.
pub(crate) fn shown(item: &LockItem) -> Option<Holder> {
    item.first_holder().map(|holder| Holder {
        is_this_process: is_held_here(holder),
        is_shared: holder.permits != item.permits,
        owner: holder.owner.clone(),
        ticket: holder.first(),
    })
}

/// Somebody else has the lock, as far as the item that was seen last shows.
pub(crate) fn not_granted(
    name: &LockName,
    item: Option<&LockItem>,
    position: Option<usize>,
    waited: Duration,
) -> Error {
    Error::NotGranted {
        lock: name.to_string(),
        holder: item.and_then(shown),
        since: item.and_then(LockItem::held_since).map(system_time),
        position,
        untaken: false,
        waited,
    }
}

/// A grant that was given back, for its call was not polled in time.
pub(crate) fn untaken(name: &LockName, waited: Duration) -> Error {
    Error::NotGranted {
        lock: name.to_string(),
        holder: None,
        since: None,
        position: None,
        untaken: true,
        waited,
    }
}

/// Why a hold has ended that an item, if there is one, does not show.
pub(crate) fn evicted(item: Option<LockItem>) -> LossReason {
    item.map_or(LossReason::Deleted, |item| LossReason::Evicted {
        by: shown(&item),
    })
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
