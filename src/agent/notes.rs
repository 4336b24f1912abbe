//! What the log and the metrics are told of a client.

use fairlock_protocol::agent::{Done, Note, Took, Work};
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::LockItem;
use fairlock_protocol::ticket::Ticket;

use super::view::View;
use super::words::{count, reason};
use crate::runtime::background::{Background, Job, Task};
use crate::telemetry::{self, EvictedPlace, Label, ReleaseOutcome};
use crate::vocabulary::config::Config;
use crate::vocabulary::name::LockName;

pub(super) fn tell(config: &Config, lock: &LockName, note: Note) {
    match note {
        Note::Joined(ticket, before) => {
            telemetry::joined(config, lock, ticket, count(before));
        }
        Note::Passed(ticket, why) => {
            let reason = reason(&why);
            tracing::info!(%lock, %ticket, %reason, "was passed in the queue: draws again");
        }
        Note::TooSlow(ticket) => {
            tracing::info!(%lock, %ticket, "too slow to join the queue: draws again");
        }
        Note::Leaves(ticket) => tracing::debug!(%lock, %ticket, "leaves the queue"),
        Note::StillWaits {
            waited,
            position: place,
            ticket,
            item,
        } => {
            let holder = item.as_deref().and_then(LockItem::first_holder);
            let owner = holder.map(|holder| holder.owner.as_str());
            let holder = holder.map(|holder| tracing::field::display(holder.ticket));
            let ticket = ticket.map(tracing::field::display);
            tracing::info!(%lock, ticket, place, owner, holder, ?waited, "still waits for its turn");
        }
        Note::Unserved(kind, failure) => telemetry::unserved(lock, kind, &failure),
        Note::Served(kind, after) => telemetry::served(lock, kind, after),
        Note::Retried(verb) => telemetry::retried(verb),
        Note::GrantedLate(ticket) => {
            tracing::warn!(%lock, %ticket, "granted after its lease was over: gives the lock up");
        }
        Note::GrantFailed(ticket, failure) => {
            tracing::warn!(%lock, %ticket, %failure, "could not renew the hold that it was granted");
        }
        Note::Renewed(lag) => telemetry::renewed(&Label::of(config, lock), lag),
        Note::RenewalFailed(_, ticket, failure) => {
            tracing::warn!(%lock, %ticket, %failure, "a renewal failed and is tried again");
        }
        Note::NotFreed(ticket, failure) => {
            tracing::warn!(%lock, %ticket, %failure, "could not free the permits that a hold gave back: tries again");
        }
        Note::KeptForMargin(ticket) => {
            tracing::info!(%lock, %ticket, "lost: others wait for its safety margin");
        }
        Note::KeptOn(ticket, owed) => {
            tracing::debug!(%lock, %ticket, ?owed, "given back: kept for its shortest time");
        }
        Note::CameLate(ticket) => {
            tracing::info!(%lock, %ticket, "a late request of an ended attempt took a place: gives it up");
        }
        Note::Evicted(took, dead) => {
            let place = match took {
                Took::Hold => EvictedPlace::Holder,
                Took::Slot => EvictedPlace::Successor,
                Took::Row => EvictedPlace::Waiter,
            };
            telemetry::evicted(config, lock, place, &dead);
        }
        Note::GapClosed(ticket, tickets) => telemetry::closed_gap(config, lock, ticket, tickets),
    }
}

/// Work that is to be done for nobody who waits for it.
pub(super) fn job(lock: &LockName, ticket: Option<Ticket>, work: Work) -> Job {
    Job {
        lock: lock.to_string(),
        ticket,
        task: match work {
            Work::Leave => Task::Leave,
            Work::Release => Task::Release,
            Work::Clean => Task::Clean,
            Work::Admit => Task::Admit,
        },
    }
}

/// It was not done.
pub(super) fn undone(
    background: &Background,
    lock: &LockName,
    (ticket, work): (Option<Ticket>, Work),
    failure: &Failure,
) {
    background.failed(job(lock, ticket, work));
    match work {
        Work::Leave => {
            tracing::warn!(%lock, ?ticket, %failure, "could not leave: others pass this ticket in time, and a slot lapses with its lease");
        }
        Work::Release | Work::Clean | Work::Admit => {
            let ticket = ticket.unwrap_or_default();
            tracing::warn!(%lock, %ticket, %failure, "could not release: the lease ends the hold");
        }
    }
}

/// What became of a release. A failure of which no caller hears is for the log.
pub(super) fn released(
    background: &Background,
    view: &View,
    done: &Result<Done, Failure>,
    is_unheard: bool,
) {
    let outcome = match done {
        Ok(Done::HandedOff(item)) => ReleaseOutcome::shown(item, view.ticket),
        Ok(Done::ReleasedEarlier) => ReleaseOutcome::Idle,
        Ok(Done::PassedOn) => ReleaseOutcome::PassedOn,
        Ok(
            Done::KeptOn
            | Done::LeasedOut(_)
            | Done::Lost(_)
            | Done::Put
            | Done::Freed
            | Done::Left,
        ) => ReleaseOutcome::LeftToLease,
        Ok(Done::NotOurs(_)) => ReleaseOutcome::Gone,
        Err(_) => ReleaseOutcome::Failed,
    };
    view.telemetry.released(outcome);
    if let (Err(failure), true) = (done, is_unheard) {
        undone(
            background,
            &view.name,
            (Some(view.ticket), Work::Release),
            failure,
        );
    }
}
