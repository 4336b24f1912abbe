//! Each kind of write on the lock item, with an item for it.

use std::sync::Arc;

use fairlock_protocol::entry::Entry;
use fairlock_protocol::item::{At, Footing, Held, LockItem};
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::write::{Dating, Drawing, LockWrite, NewItem, Newcomer, end};

use crate::some::Few;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Enter,
    EnterKnown,
    EnterOver,
    EnterOverKeeping,
    Share,
    Sit,
    Draw,
    DrawUnderLater,
    DrawUndated,
    DrawRaisingGrace,
    DrawKeeping,
    Seat,
    SeatFree,
    Settle,
    Admit,
    ReleaseLast,
    ReleaseAmongOthers,
    ReleaseBySharerLast,
    ReleaseBySharer,
    Evict,
    EvictAmongOthers,
    EvictSharer,
    Unseat,
    GiveUpSeat,
    Leave,
    RenewHolder,
    RenewSharer,
    RenewHeir,
    RenewUnderLater,
    RenewUndated,
    RenewKeeping,
    Extend,
    Downgrade,
    PassOn,
    PutData,
    RemoveData,
    Check,
    CheckTurns,
    DateHolds,
    DateHeir,
    DateDraw,
    RemoveIdle,
}

impl LockKind {
    pub(crate) const ALL: [LockKind; 42] = [
        LockKind::Enter,
        LockKind::EnterKnown,
        LockKind::EnterOver,
        LockKind::EnterOverKeeping,
        LockKind::Share,
        LockKind::Sit,
        LockKind::Draw,
        LockKind::DrawUnderLater,
        LockKind::DrawUndated,
        LockKind::DrawRaisingGrace,
        LockKind::DrawKeeping,
        LockKind::Seat,
        LockKind::SeatFree,
        LockKind::Settle,
        LockKind::Admit,
        LockKind::ReleaseLast,
        LockKind::ReleaseAmongOthers,
        LockKind::ReleaseBySharerLast,
        LockKind::ReleaseBySharer,
        LockKind::Evict,
        LockKind::EvictAmongOthers,
        LockKind::EvictSharer,
        LockKind::Unseat,
        LockKind::GiveUpSeat,
        LockKind::Leave,
        LockKind::RenewHolder,
        LockKind::RenewSharer,
        LockKind::RenewHeir,
        LockKind::RenewUnderLater,
        LockKind::RenewUndated,
        LockKind::RenewKeeping,
        LockKind::Extend,
        LockKind::Downgrade,
        LockKind::PassOn,
        LockKind::PutData,
        LockKind::RemoveData,
        LockKind::Check,
        LockKind::CheckTurns,
        LockKind::DateHolds,
        LockKind::DateHeir,
        LockKind::DateDraw,
        LockKind::RemoveIdle,
    ];
}

/// An item, or none, and a write of this kind by somebody who saw it, or one like it.
pub(crate) fn pair(kind: LockKind, some: &mut Few) -> (Option<LockItem>, LockWrite) {
    // Ends: each kind is possible of some items, and those are drawn again and again.
    loop {
        let item = some.lock();
        let mut seen = some.seen(&item);
        // Most writes are of one who was there.
        if some.once_in(4) {
            seen = item.clone();
        }
        // Tickets that somebody saw were drawn, and are not drawn again.
        if seen.last > item.last || kind == LockKind::Admit && !are_heirs_of(&seen, &item) {
            continue;
        }
        let Some(write) = write(kind, &seen, some) else {
            continue;
        };
        let is_absent = some.once_in(8);
        return ((!is_absent).then_some(item), write);
    }
}

/// Heirs come and go, but never change, nor does their order, and no two have one nonce; and as long as there are heirs, nobody takes more.
fn are_heirs_of(seen: &LockItem, item: &LockItem) -> bool {
    if item.taken() > seen.taken() || item.permits != seen.permits {
        return false;
    }
    let mut nonces: Vec<_> = seen.heirs.iter().map(|heir| heir.nonce).collect();
    nonces.sort_unstable();
    if nonces.windows(2).any(|pair| pair[0] == pair[1]) {
        return false;
    }
    let shared = |index: usize| seen.heirs[..=index] == item.heirs[..=index];
    let both = seen.heirs.iter().zip(&item.heirs).enumerate();
    let mut same =
        both.filter(|(_, (one, other))| (one.nonce, one.ticket) == (other.nonce, other.ticket));
    same.all(|(index, _)| shared(index))
}

fn write(kind: LockKind, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let permits = match some.once_in(12) {
        true => 5 - seen.permits,
        false => seen.permits,
    };
    place(kind, permits, seen, some)
        .or_else(|| line(kind, permits, seen, some))
        .or_else(|| renewal(kind, permits, seen, some))
        .or_else(|| rest(kind, permits, seen, some))
}

fn newcomer(permits: u64, ticket: Option<Ticket>, some: &mut Few) -> Option<Newcomer> {
    let (nonce, share) = (some.nonce(), 1 + some.upto(permits - 1));
    let mut entry = some.entry(nonce, ticket?, share);
    entry.tickets = 1 + some.upto(1);
    Some(Newcomer {
        entry,
        granted: some.or_none(Few::date),
    })
}

/// Taking a place.
fn place(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let new = NewItem {
        start: Ticket::new(10),
        expiry: some.expiry(),
    };
    let tickets = 1 + some.upto(1);
    let drawn = |some: &mut Few| {
        let mut me = newcomer(permits, seen.last.after(tickets), some)?;
        me.entry.tickets = tickets;
        Some(me)
    };
    Some(match kind {
        LockKind::Enter => LockWrite::enter(
            permits,
            newcomer(permits, Some(Ticket::default()), some)?,
            some.span(),
            Some(new),
        ),
        LockKind::EnterKnown => LockWrite::enter(
            permits,
            newcomer(permits, Some(Ticket::default()), some)?,
            some.span(),
            None,
        ),
        LockKind::EnterOver => LockWrite::enter_over(permits, drawn(some)?, seen),
        LockKind::EnterOverKeeping => {
            LockWrite::enter_over(permits, drawn(some)?, seen).keeping(Some(some.expiry()))
        }
        LockKind::Share => {
            let mut me = newcomer(permits, Some(Ticket::default()), some)?.entry;
            (me.nonce, me.tickets) = (some.nonce_by_itself(), 1);
            LockWrite::share(permits, me)
        }
        LockKind::Sit => {
            let mut me = newcomer(permits, Some(Ticket::default()), some)?.entry;
            (me.nonce, me.tickets) = (some.nonce_by_itself(), tickets);
            let below = below(seen, tickets, some);
            LockWrite::sit(permits, me, below, 1 + some.upto(2) as usize)
        }
        _ => return draw(kind, permits, seen, some),
    })
}

fn draw(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let (date, grace) = (some.date(), some.span());
    let dating = match kind {
        LockKind::Draw | LockKind::DrawRaisingGrace | LockKind::DrawKeeping => Dating::By(date),
        LockKind::DrawUnderLater => Dating::UnderLater(some.early_date()),
        LockKind::DrawUndated => Dating::None,
        _ => return None,
    };
    let how = Drawing {
        dating,
        grace,
        raises_grace: kind == LockKind::DrawRaisingGrace,
        keeps: (kind == LockKind::DrawKeeping).then(|| some.expiry()),
    };
    let tickets = 1 + some.upto(1);
    let below = below(seen, tickets, some);
    Some(LockWrite::draw(permits, tickets, below, how))
}

/// A bounded line, or the end of all tickets.
fn below(seen: &LockItem, tickets: u64, some: &mut Few) -> Ticket {
    match some.once_in(3) {
        true => seen.last.next().unwrap_or_default().min(end(tickets)),
        false => end(tickets),
    }
}

/// Serving the line.
fn line(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let granted = some.or_none(Few::date);
    let held = |at: Option<At>, hands_over: bool, seen: &LockItem| {
        let (at, entry) = (at?, seen.entry_at(at?)?);
        let held = Held::of(seen, at, entry);
        Some((entry.clone(), Held { hands_over, ..held }))
    };
    let holder = seen.holder.as_ref().map(|_| At::Holder);
    let sharer = seen.sharers.first().map(|sharer| At::Sharer(sharer.nonce));
    let release = |place, hands_over| {
        let (own, held) = held(place, hands_over, seen)?;
        Some(LockWrite::release(permits, own.nonce, held, granted))
    };
    let evict = |place, hands_over| {
        let (dead, held) = held(place, hands_over, seen)?;
        Some(LockWrite::evict(permits, &dead, held, granted))
    };
    let heir = some.upto(1) as usize;
    Some(match kind {
        // Nobody is found, or settled, whose ticket was not drawn.
        LockKind::Seat | LockKind::SeatFree | LockKind::Settle if seen.seated >= seen.last => {
            return None;
        }
        LockKind::Seat | LockKind::SeatFree if seen.is_free() == (kind == LockKind::SeatFree) => {
            let first = seen.seated.next()?;
            let second = first
                .next()
                .filter(|second| *second <= seen.last && some.once_in(2));
            let found = [Some(first), second].into_iter().flatten().map(|ticket| {
                let (nonce, share) = (some.nonce(), 1 + some.upto(permits - 1));
                some.entry(nonce, ticket, share)
            });
            let found: Vec<_> = found.collect();
            let upto = second.unwrap_or(first);
            LockWrite::seat(
                permits,
                seen,
                (&found, upto),
                1 + some.upto(2) as usize,
                granted,
            )?
        }
        LockKind::Settle => LockWrite::settle(permits, seen, seen.seated.next()?),
        LockKind::Admit => LockWrite::admit(permits, &seen.heirs[..seen.admitted()])?,
        LockKind::ReleaseLast => release(holder, true)?,
        LockKind::ReleaseAmongOthers => release(holder, false)?,
        LockKind::ReleaseBySharerLast => release(sharer, true)?,
        LockKind::ReleaseBySharer => release(sharer, false)?,
        LockKind::Evict => evict(holder, true)?,
        LockKind::EvictAmongOthers => evict(holder, false)?,
        LockKind::EvictSharer => evict(sharer, some.once_in(2))?,
        LockKind::Unseat => LockWrite::unseat(permits, heir, seen.heirs.get(heir)?),
        LockKind::GiveUpSeat => LockWrite::give_up_seat(permits, heir, seen.heirs.get(heir)?),
        LockKind::Leave => LockWrite::leave(
            permits,
            seen.seated
                .next()
                .filter(|_| heir == 0)
                .unwrap_or(seen.seated),
        ),
        _ => return None,
    })
}

fn renewal(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let date = some.date();
    let places = places(seen);
    let of = |wanted: fn(&At) -> bool| places.iter().find(|(at, _)| wanted(at)).cloned();
    let (at, entry) = match kind {
        LockKind::RenewHolder => of(|at| *at == At::Holder)?,
        LockKind::RenewSharer => of(|at| matches!(at, At::Sharer(_)))?,
        LockKind::RenewHeir => of(|at| matches!(at, At::Heir(_)))?,
        LockKind::RenewUnderLater | LockKind::RenewUndated | LockKind::RenewKeeping => {
            (!places.is_empty()).then(|| some.of(&places))?
        }
        _ => return None,
    };
    let dating = match kind {
        LockKind::RenewUnderLater => Dating::UnderLater(some.early_date()),
        LockKind::RenewUndated => Dating::None,
        _ => Dating::By(date),
    };
    let footing = Footing::of(seen, at, &entry);
    let beat = (1 + some.upto(2), some.span());
    let write = LockWrite::renew(permits, (entry.nonce, footing), beat, dating);
    let keeps = (kind == LockKind::RenewKeeping).then(|| some.expiry());
    Some(write.keeping(keeps))
}

fn rest(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let (date, heir) = (some.date(), some.upto(1) as usize);
    let holds: Vec<_> = places(seen)
        .into_iter()
        .filter(|(at, _)| !matches!(at, At::Heir(_)))
        .collect();
    let hold = (!holds.is_empty()).then(|| some.of(&holds));
    let held = |hold: Option<(At, Entry)>| {
        let (at, entry) = hold?;
        Some((entry.nonce, Held::of(seen, at, &entry)))
    };
    let left = 1 + some.upto(1);
    Some(match kind {
        LockKind::Extend => LockWrite::extend(permits, seen.holder.as_ref()?, some.span(), date),
        LockKind::Downgrade => {
            let (nonce, held) = held(hold)?;
            // Who has one permit keeps it, and that is no downgrade.
            (held.permits > 1).then(|| LockWrite::downgrade(permits, nonce, held))?
        }
        LockKind::PassOn => {
            let holder = seen.holder.as_ref()?;
            LockWrite::pass_on(permits, holder.nonce, holder.ticket, 1)
        }
        LockKind::PutData | LockKind::RemoveData => {
            let (nonce, held) = held(hold)?;
            let bytes = (kind == LockKind::PutData).then(|| Arc::from([some.upto(1) as u8]));
            LockWrite::data(permits, (nonce, held.footing), (some.written(), 1), bytes)
        }
        LockKind::Check => {
            let (nonce, held) = held(hold)?;
            LockWrite::check(permits, nonce, held, 1)
        }
        LockKind::CheckTurns => {
            let (nonce, held) = held(hold)?;
            LockWrite::check(permits, nonce, held, 1 + left)
        }
        LockKind::DateHolds => {
            let (first, beat) = (holds.first()?, holds.first()?.1.beat);
            let same = holds
                .iter()
                .filter(|(at, entry)| entry.beat == beat || at == &first.0);
            let same: Vec<_> = same.map(|(at, entry)| (*at, entry)).collect();
            LockWrite::date_holds(permits, &same, date)
        }
        LockKind::DateHeir => LockWrite::date_heir(permits, heir, seen.heirs.get(heir)?, date),
        LockKind::DateDraw => LockWrite::date_draw(permits, seen.last, date),
        LockKind::RemoveIdle => {
            // Nobody removes what has no time to be removed at.
            (seen.expires_at > 0).then(|| LockWrite::remove_idle(permits, seen))?
        }
        _ => return None,
    })
}

/// The entries on the item, and where they stand.
fn places(seen: &LockItem) -> Vec<(At, Entry)> {
    let holder = seen
        .holder
        .iter()
        .map(|holder| (At::Holder, holder.clone()));
    let sharers = seen
        .sharers
        .iter()
        .map(|it| (At::Sharer(it.nonce), it.clone()));
    let heirs = seen
        .heirs
        .iter()
        .enumerate()
        .map(|(index, it)| (At::Heir(index), it.clone()));
    holder.chain(sharers).chain(heirs).collect()
}
