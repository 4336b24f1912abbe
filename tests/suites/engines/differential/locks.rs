//! Each kind of write on the lock item, with an item for it.

use std::time::Duration;

use fairlock_protocol::entry::{Entry, ServerTime};
use fairlock_protocol::item::{At, Footing, ItemHold, LockItem};
use fairlock_protocol::moment::HostTime;
use fairlock_protocol::stamps::Stamps;
use fairlock_protocol::ticket::{Sequence, Ticket};
use fairlock_protocol::write::{Drawing, Entrance, LockWrite, NewItem, end};

use super::some::Few;

const TEN_SECONDS: Duration = Duration::from_secs(10);

kinds! { LockKind:
    Enter, EnterKnown, EnterFree, EnterKeeping, EnterOver, EnterOverKeeping, Share, Draw,
    DrawUnderLater, DrawUnderLaterOnHost, DrawUndated, DrawRaisingJoinTimeout, DrawKeeping, Fill, FillFree, Settle,
    Admit, Release, ReleaseSharer, Evict, EvictSharer, EvictSuccessor, Break, BreakSuccessor, Ask,
    ResizeMore, ResizeFewer, ResizeSharedHolder, ResizeSoleHolder, ResizeWaiter,
    ResizeWaiterForAll, GiveUpSlot, Leave, RenewHolder, RenewSharer, RenewSuccessor,
    RenewUndated, RenewKeeping, LeaseOut, LeaseOutSharer, Extend, ExtendSharer,
    Downgrade, DowngradeSharer, PassOn, PutData, RemoveData, Check, CheckTurns, DateHolds,
    DateSuccessor, DateDraw, RemoveIdle, RenewGivenBack,
}

/// An item, or none, and a write of this kind. A client that saw the item, or a similar one, sends the write.
pub(crate) fn pair(kind: LockKind, some: &mut Few) -> (Option<LockItem>, LockWrite) {
    // The loop ends, because each kind is possible for some items, and items are drawn until one fits.
    loop {
        let mut item = some.lock();
        if matches!(kind, LockKind::LeaseOut | LockKind::LeaseOutSharer) && some.once_in(3) {
            // Some of its holds are leases already.
            let entries = item.slots.iter_mut().chain(&mut item.sharers);
            entries.for_each(|entry| entry.id = Some("lease".to_owned()));
        }
        let mut seen = some.seen(&item);
        // In one case of four, the client saw the item as it is.
        if some.once_in(4) {
            seen = item.clone();
        }
        // Tickets that a client saw were drawn, and are not drawn again. An item keeps its `permits`.
        if seen.last > item.last
            || seen.permits != item.permits
            || kind == LockKind::Admit && !are_successors_of(&seen, &item)
        {
            continue;
        }
        let Some(write) = write(kind, &seen, some) else {
            continue;
        };
        let is_absent = some.once_in(8);
        return ((!is_absent).then_some(item), write);
    }
}

/// Whether the slots that a client saw fit the item. Entries come and go, but their order and contents never change, and no two have the
/// same nonce.
fn are_successors_of(seen: &LockItem, item: &LockItem) -> bool {
    let mut nonces: Vec<_> = seen.slots.iter().map(|entry| entry.nonce).collect();
    nonces.sort_unstable();
    if nonces.windows(2).any(|pair| pair[0] == pair[1]) {
        return false;
    }
    let shared = |index: usize| seen.slots[..=index] == item.slots[..=index];
    let both = seen.slots.iter().zip(&item.slots).enumerate();
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
        .or_else(|| resize(kind, permits, seen, some))
        .or_else(|| queue(kind, permits, seen, some))
        .or_else(|| renewal(kind, permits, seen, some))
        .or_else(|| rest(kind, permits, seen, some))
}

/// An entry with a nonce that comes with its ticket.
fn newcomer(permits: u64, tickets: u64, some: &mut Few) -> Entry {
    let (nonce, share) = (some.nonce_by_itself(), 1 + some.upto(permits - 1));
    let entry = some.entry(nonce, Ticket::default(), share);
    Entry { tickets, ..entry }
}

/// Writes that take a place.
fn place(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let tickets = 1 + some.upto(1);
    let over = |some: &mut Few| {
        let ticket = seen.last.after(tickets)?;
        let (nonce, share) = (some.nonce(), 1 + some.upto(permits - 1));
        let entry = some.entry(nonce, ticket, share);
        let entry = Entry { tickets, ..entry };
        Some(LockWrite::enter_over(permits, entry, seen))
    };
    Some(match kind {
        LockKind::Enter | LockKind::EnterKnown | LockKind::EnterFree | LockKind::EnterKeeping => {
            let is_known = matches!(kind, LockKind::EnterKnown | LockKind::EnterKeeping);
            let new = NewItem {
                start: Ticket::new(10),
                expiry: some.expiry(),
            };
            let entrance = Entrance {
                below: below(seen, tickets, some),
                slots: (kind != LockKind::EnterFree).then(|| 1 + some.upto(1) as usize),
                join_timeout: some.span(),
                new: (!is_known).then_some(new),
            };
            let write = LockWrite::enter(permits, newcomer(permits, tickets, some), entrance);
            write.keeping((kind == LockKind::EnterKeeping).then(|| some.expiry()))
        }
        LockKind::EnterOver => over(some)?,
        LockKind::EnterOverKeeping => over(some)?.keeping(Some(some.expiry())),
        LockKind::Share => {
            let first = 1 + some.upto(1);
            LockWrite::share(permits, newcomer(permits, 1, some), first)
        }
        _ => return draw(kind, permits, seen, some),
    })
}

fn draw(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let (mut own, join_timeout) = (some.stamps(), some.span());
    // Often earlier than the newest draw.
    let early = some.of(&[90, 98]);
    if matches!(
        kind,
        LockKind::DrawUnderLater | LockKind::DrawUnderLaterOnHost
    ) {
        own.host = Some(HostTime(Duration::from_secs(early)));
    }
    if kind == LockKind::DrawUnderLater {
        own.server = Some(ServerTime(Duration::from_secs(early)));
    }
    let later = Stamps {
        server: own.server.map(|own| ServerTime(own.0 + TEN_SECONDS)),
        host: own.host.map(|own| HostTime(own.0 + TEN_SECONDS)),
    };
    let (stamps, seen_stamps) = match kind {
        LockKind::Draw | LockKind::DrawRaisingJoinTimeout | LockKind::DrawKeeping => {
            (own, Stamps::default())
        }
        LockKind::DrawUnderLater => (own, later),
        LockKind::DrawUnderLaterOnHost => {
            let server = own.server;
            (own, Stamps { server, ..later })
        }
        LockKind::DrawUndated => (Stamps::default(), own),
        _ => return None,
    };
    let how = Drawing {
        stamps,
        seen: seen_stamps,
        join_timeout,
        raises_join_timeout: kind == LockKind::DrawRaisingJoinTimeout,
        keeps: (kind == LockKind::DrawKeeping).then(|| some.expiry()),
    };
    let tickets = 1 + some.upto(1);
    let below = below(seen, tickets, some);
    Some(LockWrite::draw(permits, tickets, below, how))
}

/// The limit of a bounded queue, or the end of all tickets.
fn below(seen: &LockItem, tickets: u64, some: &mut Few) -> Ticket {
    match some.once_in(3) {
        true => seen.last.next().unwrap_or_default().min(end(tickets)),
        false => end(tickets),
    }
}

/// Writes that serve the queue.
fn queue(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let granted = Some(some.date());
    let held = |at: Option<At>| {
        let (at, entry) = (at?, seen.entry_at(at?)?);
        Some((entry.clone(), ItemHold::of(seen, at, entry)))
    };
    let holder = seen.holder().map(|_| At::Slot(0));
    let sharer = seen.sharers.first().map(|sharer| At::Sharer(sharer.nonce));
    let release = |place| {
        let (own, held) = held(place)?;
        Some(LockWrite::release(permits, own.nonce, held, granted))
    };
    let evict = |place| {
        let (dead, held) = held(place)?;
        Some(LockWrite::evict(permits, &dead, held, granted))
    };
    let successor = some.upto(1) as usize;
    Some(match kind {
        // There are no open tickets that a row could be found for, or that could be settled.
        LockKind::Fill | LockKind::FillFree | LockKind::Settle if seen.watermark >= seen.last => {
            return None;
        }
        LockKind::Fill | LockKind::FillFree if seen.is_free() == (kind == LockKind::FillFree) => {
            fill(permits, seen, granted, some)?
        }
        LockKind::Settle => LockWrite::settle(permits, seen, seen.watermark.next()?),
        LockKind::Admit => {
            let admitted = &seen.successors()[..seen.admitted()];
            LockWrite::admit(permits, seen.first_successor(), admitted)?
        }
        LockKind::Release => release(holder)?,
        LockKind::ReleaseSharer => release(sharer)?,
        LockKind::Evict => evict(holder)?,
        LockKind::EvictSharer => evict(sharer)?,
        LockKind::Break => evict(holder)?.breaking(some.notice()),
        LockKind::BreakSuccessor => {
            let dead = seen.successors().get(successor)?;
            LockWrite::evict_successor(permits, seen.at_successor(successor), dead)
                .breaking(some.notice())
        }
        LockKind::Ask => LockWrite::ask(permits, some.notice(), seen.asks),
        LockKind::EvictSuccessor => LockWrite::evict_successor(
            permits,
            seen.at_successor(successor),
            seen.successors().get(successor)?,
        ),
        LockKind::GiveUpSlot => LockWrite::give_up_slot(
            permits,
            seen.at_successor(successor),
            seen.successors().get(successor)?,
        ),
        LockKind::Leave => LockWrite::leave(
            permits,
            seen.watermark
                .next()
                .filter(|_| successor == 0)
                .unwrap_or(seen.watermark),
        ),
        _ => return None,
    })
}

/// Changes of the number of permits, by what stands in the first slot.
fn resize(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let there_are = seen.there_are();
    let first = seen.slots.first();
    let takes_all = first.is_some_and(|first| first.permits >= permits);
    let is_kind = match (kind, seen.holder()) {
        (LockKind::ResizeMore, _) => true,
        (LockKind::ResizeFewer, None) => first.is_none(),
        (LockKind::ResizeSharedHolder, Some(_)) => !takes_all,
        (LockKind::ResizeSoleHolder, Some(_)) => takes_all,
        (LockKind::ResizeWaiter, None) => first.is_some() && !takes_all,
        (LockKind::ResizeWaiterForAll, None) => first.is_some() && takes_all,
        _ => false,
    };
    let to = match kind {
        LockKind::ResizeMore => there_are + 1 + some.upto(2),
        _ => 1 + some.upto(there_are.checked_sub(2)?),
    };
    is_kind.then(|| LockWrite::resize(permits, seen, to))
}

/// Gives slots to one or two rows behind the slots.
fn fill(
    permits: u64,
    seen: &LockItem,
    granted: Option<ServerTime>,
    some: &mut Few,
) -> Option<LockWrite> {
    let first = seen.watermark.next()?;
    let second = first
        .next()
        .filter(|second| *second <= seen.last && some.once_in(2));
    let found = [Some(first), second].into_iter().flatten().map(|ticket| {
        let (nonce, share) = (some.nonce(), 1 + some.upto(permits - 1));
        some.entry(nonce, ticket, share)
    });
    let found: Vec<_> = found.collect();
    let upto = second.unwrap_or(first);
    Some(LockWrite::fill(
        permits,
        seen,
        (&found, upto),
        some.upto(2) as usize,
        granted,
    ))
}

fn renewal(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let places = places(seen);
    let of = |wanted: fn(&At) -> bool| places.iter().find(|(at, _)| wanted(at)).cloned();
    let (at, entry) = match kind {
        LockKind::RenewHolder => of(|at| *at == At::Slot(0))?,
        LockKind::RenewSharer => of(|at| matches!(at, At::Sharer(_)))?,
        LockKind::RenewSuccessor => of(|at| matches!(at, At::Slot(1..)))?,
        LockKind::RenewUndated | LockKind::RenewKeeping | LockKind::RenewGivenBack => {
            (!places.is_empty()).then(|| some.of(&places))?
        }
        _ => return None,
    };
    let stamps = match kind {
        LockKind::RenewUndated => Stamps::default(),
        _ => some.stamps(),
    };
    let footing = Footing::of(seen, at, &entry);
    let beat = (1 + some.upto(2), some.span());
    let write = LockWrite::renew(permits, (entry.nonce, footing), beat, stamps);
    let write = match kind {
        LockKind::RenewGivenBack => write.given_back(at),
        _ => write,
    };
    let keeps = (kind == LockKind::RenewKeeping).then(|| some.expiry());
    Some(write.keeping(keeps))
}

fn rest(kind: LockKind, permits: u64, seen: &LockItem, some: &mut Few) -> Option<LockWrite> {
    let (stamps, successor) = (some.stamps(), some.upto(1) as usize);
    let mut holds = places(seen);
    let successor_at = seen.first_successor();
    holds.retain(|(at, _)| !matches!(at, At::Slot(slot) if *slot >= successor_at));
    let hold = (!holds.is_empty()).then(|| some.of(&holds));
    let held = |hold: Option<(At, Entry)>| {
        let (at, entry) = hold?;
        Some((entry.nonce, ItemHold::of(seen, at, &entry)))
    };
    let left = 1 + some.upto(1);
    Some(match kind {
        LockKind::LeaseOut | LockKind::LeaseOutSharer => {
            let (nonce, held) = held(hold_of(&holds, kind == LockKind::LeaseOutSharer))?;
            let until = (1 + some.upto(2), some.span(), stamps);
            LockWrite::lease_out(permits, (nonce, held.footing), until, "lease".into())
        }
        LockKind::Extend | LockKind::ExtendSharer => {
            let (at, entry) = hold_of(&holds, kind == LockKind::ExtendSharer)?;
            LockWrite::extend(permits, (at, &entry), (stamps, some.span()))
        }
        LockKind::Downgrade | LockKind::DowngradeSharer => {
            let (nonce, held) = held(hold_of(&holds, kind == LockKind::DowngradeSharer))?;
            // A holder of one permit keeps it, which is no downgrade.
            let keeps = 1 + some.upto(held.permits.checked_sub(2)?);
            LockWrite::downgrade(permits, nonce, held, keeps)
        }
        LockKind::PassOn => {
            let holder = seen.holder()?;
            LockWrite::pass_on(permits, holder.nonce, holder.ticket, 1)
        }
        LockKind::PutData | LockKind::RemoveData => {
            let (nonce, held) = held(hold)?;
            let bytes = (kind == LockKind::PutData).then(|| [some.upto(1) as u8].into());
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
            let first = &holds.first()?.1;
            let is_alike = |it: &Entry| (it.beat, it.stamps) == (first.beat, first.stamps);
            let same = holds.iter().filter(|(_, entry)| is_alike(entry));
            let same: Vec<_> = same.map(|(at, entry)| (*at, entry)).collect();
            LockWrite::date_holds(permits, &same, stamps)
        }
        LockKind::DateSuccessor => LockWrite::date_successor(
            permits,
            seen.at_successor(successor),
            seen.successors().get(successor)?,
            stamps,
        ),
        LockKind::DateDraw => LockWrite::date_draw(permits, seen, stamps),
        LockKind::RemoveIdle => {
            // An item without an expiry time is never removed as idle.
            (seen.expires_at > 0).then(|| LockWrite::remove_idle(permits, seen))?
        }
        _ => return None,
    })
}

/// The first of the sharers among some holds, or of the others.
fn hold_of(holds: &[(At, Entry)], shares: bool) -> Option<(At, Entry)> {
    let mut holds = holds.iter();
    let first = holds.find(|(at, _)| matches!(at, At::Sharer(_)) == shares);
    first.cloned()
}

/// The entries on the item, and their positions.
fn places(seen: &LockItem) -> Vec<(At, Entry)> {
    let slots = seen.slots.iter().enumerate();
    let slots = slots.map(|(slot, it)| (At::Slot(slot), it.clone()));
    let sharers = seen.sharers.iter();
    let sharers = sharers.map(|it| (At::Sharer(it.nonce), it.clone()));
    slots.chain(sharers).collect()
}
