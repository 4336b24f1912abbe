//! A caller at a lock that is not free to enter: clears what is over out of its way, or is turned away.

use futures::future::join_all;

use crate::config::{MOST_SEATS, SHARERS};
use crate::look::{self, Look, WATCHED};
use crate::name::LockName;
use crate::store::{self, Failure, Patience, Store, Timed, Write};
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::line::{self, Has, Known, Refusal, Unsettled};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::witness::Witnesses;

/// Steps that a caller takes past those in line: all who can have a seat, and a few pages behind them.
const STEPS: usize = MOST_SEATS + 16;

/// All who can have a fair lock, and those in the seats, who have it after them.
const EVICTIONS: usize = SHARERS as usize + MOST_SEATS;

/// Reads more where two answers disagree on the time, or one alone tells it to one who would date what has no date: a third tells
/// which was wrong.
const MORE: u8 = 2;

/// How the lock stands for a caller that could not enter it.
#[derive(Debug)]
pub(crate) enum Way {
    /// Nothing is in the way any more.
    Free,
    /// Free, with every drawn ticket settled; and the rows seen on the way.
    Settled(Look),
    /// Somebody alive has it, or waits for it.
    Taken(LockItem),
}

/// Removes dead holders and heirs and settles dead waiters and gaps, all of them judged by DynamoDB's clock, until
/// the way is free or somebody alive stands in it. Takes so many steps and no more: what is left then counts as in the
/// way, and the next caller finds less of it, for what is settled is passed and deleted as it is met.
pub(crate) async fn clear(
    store: &Store,
    name: &LockName,
    patience: &Patience,
    permits: u64,
    item: LockItem,
) -> Result<Way, Failure> {
    let (mut look, config) = (Look::of(item), store.config());
    let mut budget = Budget::default();
    // The answer that showed the item has just come.
    let mut judge = Judge::hears(store.newest_date());
    while store.has_patience(patience) {
        let time = judge.time();
        let digest = look.digest(|_, entry| look::by_common_clock(config, entry, time));
        let ripe = look::gaps_are_over(config, &look.item, time);
        let is_left = look.item.has_left(permits);
        let ripe = |_| ripe.then_some(look.item.last);
        let refusal = line::next_refusal(&digest.view(), is_left, ripe);
        if judge.looks_again(store, &refusal, &look) {
            let Some(answer) = Look::read(store, name, WATCHED, patience).await? else {
                return Ok(Way::Free);
            };
            judge.witnesses.hear(answer.date);
            look = answer.value;
            continue;
        }
        if !budget.allows(&refusal) {
            // Whoever is dead still is in nobody's way.
            if look.item.has_room_for(permits) {
                return Ok(Way::Free);
            }
            break;
        }
        let next = match refusal {
            Refusal::Free => return Ok(Way::Free),
            Refusal::Settled => return Ok(Way::Settled(look)),
            Refusal::Taken => {
                if store.has_patience(patience) {
                    date(store, name, &look).await;
                }
                return Ok(Way::Taken(look.item));
            }
            Refusal::Evict(has) => shown(evict(store, name, patience, &look.item, has).await?),
            Refusal::Unseat(index) => {
                shown(unseat(store, name, patience, &look.item, index).await?)
            }
            Refusal::Settle(over) => {
                settle(store, name, patience, &look, over).await?;
                read_after(store, name, patience, &look).await?
            }
            Refusal::Pass(upto) => {
                pass(store, name, patience, &look, upto).await?;
                read_after(store, name, patience, &look).await?
            }
            Refusal::ReadOn if look.known == Known::Nothing => read(store, name, patience).await?,
            Refusal::ReadOn => {
                let further = look.read_on(store, name, patience).await?;
                further.map(|answer| answer.value)
            }
        };
        match next {
            Some(next) => look = next,
            None => return Ok(Way::Free),
        }
    }
    Ok(Way::Taken(look.item))
}

/// What time it is for one decision, by the answers to its requests.
struct Judge {
    witnesses: Witnesses,
    /// From here on two answers judge, or none.
    is_confirmed: bool,
    more: u8,
}

impl Judge {
    fn hears(date: Option<ServerTime>) -> Judge {
        let mut witnesses = Witnesses::default();
        witnesses.hear(date);
        Judge {
            witnesses,
            is_confirmed: false,
            more: MORE,
        }
    }

    fn time(&self) -> Option<ServerTime> {
        match (self.is_confirmed, self.more) {
            (true, MORE) => self.witnesses.time(),
            (true, _) => self.witnesses.time_of_three().or(self.witnesses.time()),
            (false, _) => self.witnesses.hint(),
        }
    }

    /// Whether another answer is asked for, before anybody is taken for dead or the caller turned away.
    fn looks_again(&mut self, store: &Store, refusal: &Refusal, look: &Look) -> bool {
        if !self.is_confirmed && takes_for_dead(refusal) {
            self.is_confirmed = true;
            return true;
        }
        let is_unsure = match self.is_confirmed {
            true => self.witnesses.disagree(),
            false => store.lacks_a_witness() && store::lacks_a_date(&look.item, &look.rows),
        };
        let asks = is_unsure && self.more > 0 && matches!(refusal, Refusal::Taken);
        self.more -= u8::from(asks);
        asks
    }
}

/// So many steps of each kind, and no more.
struct Budget {
    steps: usize,
    evictions: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Budget {
            steps: STEPS,
            evictions: EVICTIONS,
        }
    }
}

impl Budget {
    /// Whether another step of this kind may be taken, which is counted.
    fn allows(&mut self, refusal: &Refusal) -> bool {
        let left = match refusal {
            Refusal::Free | Refusal::Settled | Refusal::Taken => return true,
            Refusal::Evict(_) => &mut self.evictions,
            _ => &mut self.steps,
        };
        let is_left = *left > 0;
        *left = left.saturating_sub(1);
        is_left
    }
}

/// What the answer to a write shows of the lock. None: it is gone.
fn shown(answer: Option<Timed<Write<LockItem>>>) -> Option<Look> {
    answer.and_then(|answer| answer.value.shown()).map(Look::of)
}

/// Reads what a step has changed, if there is time to do anything about it.
async fn read_after(
    store: &Store,
    name: &LockName,
    patience: &Patience,
    before: &Look,
) -> Result<Option<Look>, Failure> {
    match store.has_patience(patience) {
        true => read(store, name, patience).await,
        false => Ok(Some(before.clone())),
    }
}

async fn read(
    store: &Store,
    name: &LockName,
    patience: &Patience,
) -> Result<Option<Look>, Failure> {
    let look = Look::read(store, name, WATCHED, patience).await?;
    Ok(look.map(|answer| answer.value))
}

/// Whether this is done only because somebody is dead, or a gap is over, by what the time is.
fn takes_for_dead(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::Evict(_) | Refusal::Unseat(_) | Refusal::Settle(_)
    )
}

/// A process that enters before it has heard the time of any answer leaves no date before its first renewal. If it dies before
/// that, callers that do not wait could never tell: so whoever meets it writes one down, by one write at the most. The same of
/// whatever else has none. What fails is left to the next who comes.
pub(crate) async fn date(store: &Store, name: &LockName, look: &Look) {
    if let Err(failure) = store.date(name, &look.item, &look.rows).await {
        store.heed(&failure);
        tracing::debug!(lock = %name, %failure, "left what has no date to the next who comes");
    }
}

/// Raises `seated` over tickets that are settled and deletes their rows, which would have to be read again else. Refused:
/// somebody was seated, or left, since the look.
async fn pass(
    store: &Store,
    name: &LockName,
    patience: &Patience,
    look: &Look,
    upto: Ticket,
) -> Result<(), Failure> {
    let settle = || store.settle(name, &look.item, upto);
    let settled = store.persist(patience, settle).await?.value;
    if settled.is_applied() && store.has_patience(patience) {
        let litter: Vec<_> = look.litter(upto).map(|row| row.ticket).collect();
        clean(store, name, patience, &litter).await;
    }
    Ok(())
}

/// Deletes rows that are settled. What fails is left to the next who cleans.
pub(crate) async fn clean(store: &Store, name: &LockName, patience: &Patience, settled: &[Ticket]) {
    let delete = || store.delete_rows(name, settled);
    if let Err(failure) = store.persist(patience, delete).await {
        tracing::debug!(lock = %name, %failure, "left settled rows to the next who cleans");
    }
}

/// Ends the hold of one who is dead. None: nobody stands there.
pub(crate) async fn evict(
    store: &Store,
    name: &LockName,
    patience: &Patience,
    item: &LockItem,
    has: Has,
) -> Result<Option<Timed<Write<LockItem>>>, Failure> {
    let Some((dead, held)) = item.who(has) else {
        return Ok(None);
    };
    tracing::info!(lock = %name, ticket = %dead.ticket, owner = %dead.owner, "evicts a dead holder");
    let evict = || store.evict(name, dead, held);
    store.persist(patience, evict).await.map(Some)
}

/// Takes the seat of a dead heir away. None: nobody has it.
pub(crate) async fn unseat(
    store: &Store,
    name: &LockName,
    patience: &Patience,
    item: &LockItem,
    index: usize,
) -> Result<Option<Timed<Write<LockItem>>>, Failure> {
    let Some(dead) = item.heirs().get(index) else {
        return Ok(None);
    };
    tracing::info!(lock = %name, ticket = %dead.ticket, owner = %dead.owner, "unseats a dead heir");
    let unseat = || store.unseat(name, item.at_heir(index), dead);
    store.persist(patience, unseat).await.map(Some)
}

/// How many tickets were made void.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Voided {
    pub(crate) gaps: u64,
    pub(crate) waiters: u64,
}

/// Makes what is over in the line void, each conditional on what the look showed, and all at once.
pub(crate) async fn settle(
    store: &Store,
    name: &LockName,
    patience: &Patience,
    look: &Look,
    over: Vec<Unsettled>,
) -> Result<Voided, Failure> {
    let each = over
        .into_iter()
        .map(|one| settle_one(store, name, patience, look, one));
    let mut voided = Voided::default();
    for one in join_all(each).await {
        let Voided { gaps, waiters } = one?;
        voided.gaps += gaps;
        voided.waiters += waiters;
    }
    Ok(voided)
}

async fn settle_one(
    store: &Store,
    name: &LockName,
    patience: &Patience,
    look: &Look,
    over: Unsettled,
) -> Result<Voided, Failure> {
    match over {
        Unsettled::Gap(first, last) => {
            let tickets = last.get() - first.get() + 1;
            tracing::info!(lock = %name, ticket = %last, tickets, "closes a gap");
            let answer = store
                .persist(patience, || store.void_gap(name, last, tickets))
                .await?;
            Ok(Voided {
                gaps: tickets * u64::from(answer.value.is_applied()),
                waiters: 0,
            })
        }
        Unsettled::Dead(ticket) => {
            let Some(dead) = look.waiting(ticket) else {
                return Ok(Voided::default());
            };
            tracing::info!(lock = %name, %ticket, owner = %dead.owner, "passes a dead waiter");
            let answer = store
                .persist(patience, || store.void_dead(name, dead))
                .await?;
            Ok(Voided {
                gaps: 0,
                waiters: u64::from(answer.value.is_applied()),
            })
        }
    }
}
