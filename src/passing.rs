//! A caller at a lock that is not free to enter: clears what is over out of its way, or is turned away.

use futures::future::join_all;

use crate::config::{MOST_SEATS, SHARERS};
use crate::item::{LockItem, Spot};
use crate::line::{self, Has, Known, Refusal, Unsettled};
use crate::look::{self, Look, WATCHED};
use crate::name::LockName;
use crate::store::{Failure, Patience, Store, Timed, Write};
use crate::ticket::Ticket;

/// Steps that a caller takes past those in line: all who can have a seat, and a few pages behind them.
const STEPS: usize = MOST_SEATS + 16;

/// All who can have a fair lock, and those in the seats, who have it after them.
const EVICTIONS: usize = SHARERS as usize + MOST_SEATS;

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
    let mut look = Look::of(item);
    let (mut steps, mut evictions) = (STEPS, EVICTIONS);
    while store.has_patience(patience) {
        let digest = look.digest(|_, entry| look::by_common_clock(store, entry));
        let ripe = look::gaps_are_over(store, &look.item);
        let is_left = look.item.has_left(permits);
        let refusal = line::next_refusal(&digest.view(), is_left, |_| ripe);
        let left = match refusal {
            Refusal::Free | Refusal::Settled | Refusal::Taken => None,
            Refusal::Evict(_) => Some(&mut evictions),
            _ => Some(&mut steps),
        };
        if let Some(left) = left {
            if *left == 0 {
                // Whoever is dead still is in nobody's way.
                if look.item.has_room_for(permits) {
                    return Ok(Way::Free);
                }
                break;
            }
            *left -= 1;
        }
        let next = match refusal {
            Refusal::Free => return Ok(Way::Free),
            Refusal::Settled => return Ok(Way::Settled(look)),
            Refusal::Taken => {
                date(store, name, &look.item).await;
                return Ok(Way::Taken(look.item));
            }
            Refusal::Evict(has) => {
                let answer = evict(store, name, patience, &look.item, has).await?;
                let item = answer.and_then(|answer| answer.value.shown());
                item.map(Look::of)
            }
            Refusal::Unseat(index) => {
                let answer = unseat(store, name, patience, &look.item, index).await?;
                let item = answer.and_then(|answer| answer.value.shown());
                item.map(Look::of)
            }
            Refusal::Settle(over) => {
                settle(store, name, patience, &look, over).await?;
                read(store, name, patience).await?
            }
            Refusal::Pass(upto) => {
                pass(store, name, patience, &look, upto).await?;
                read(store, name, patience).await?
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

async fn read(
    store: &Store,
    name: &LockName,
    patience: &Patience,
) -> Result<Option<Look>, Failure> {
    let look = Look::read(store, name, WATCHED, patience).await?;
    Ok(look.map(|answer| answer.value))
}

/// Who enters before it has heard the time of any answer leaves no date before its first renewal. If it dies before that, those
/// who do not wait could never tell: so the first of them writes one down. What fails is left to the next.
async fn date(store: &Store, name: &LockName, item: &LockItem) {
    let undated = item.holders().filter(|holder| holder.renewed_at.is_none());
    let places = undated.filter_map(|undated| match item.place_of(undated.nonce)? {
        Spot::Has(at, undated) => Some(store.date(name, at, undated)),
        Spot::Heir(..) => None,
    });
    for dated in join_all(places).await {
        if let Err(failure) = dated {
            store.heed(&failure);
            tracing::debug!(lock = %name, %failure, "left a holder without a date to the next who comes");
        }
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
    if settled.is_applied() {
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
    let Some(dead) = item.heirs.get(index) else {
        return Ok(None);
    };
    tracing::info!(lock = %name, ticket = %dead.ticket, owner = %dead.owner, "unseats a dead heir");
    let unseat = || store.unseat(name, index, dead);
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
