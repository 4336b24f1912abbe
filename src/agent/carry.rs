//! Sends a request of the client, and says what became of it.

use std::sync::Arc;

use fairlock_protocol::agent::{Answer, Lock, Page, Reply, Shown, What};
use fairlock_protocol::failure::{Failure, Kind, cause};
use fairlock_protocol::item::{LockItem, TicketRow};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::stamps::Reading;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{RowChange, RowWrite};

use crate::counter;
use crate::queue;
use crate::queue::cleaning;
use crate::store::requests::Requests;
use crate::store::{Timed, Write};
use crate::vocabulary::name::LockName;

type Sent = Result<Timed<Answer>, Failure>;

/// Sends a request once.
pub(super) async fn carry(requests: &Requests, lock: &Lock, what: What) -> Reply {
    let name = LockName::of(lock, &requests.store.config().namespace);
    match send(requests, &name, what).await {
        Ok(timed) => Reply {
            answer: Ok(timed.value),
            reading: timed.reading,
            arrived: timed.arrived,
        },
        Err(failure) => Reply {
            answer: Err(failure),
            reading: Reading::UNTOLD,
            arrived: requests.store.now(),
        },
    }
}

/// What is known of a request whose task has ended without an answer.
pub(super) fn ended(verb: &'static str) -> Reply {
    let kind = Kind::Unknown(cause("the task that sent it has ended"));
    Reply {
        answer: Err(Failure { verb, kind }),
        reading: Reading::UNTOLD,
        arrived: Moment::default(),
    }
}

async fn send(requests: &Requests, name: &LockName, what: What) -> Sent {
    let store = &requests.store;
    Ok(match what {
        What::Write { write, shows } => {
            let written = counter::write(store, name, (&write, shows)).await?;
            written.map(of(item))
        }
        What::WriteRow(ticket, write) => write_row(requests, name, (ticket, write)).await?,
        What::Read => {
            let read = store.read_lock(name).await?;
            read.map(|item| Answer::Read(item.map(Arc::new)))
        }
        What::Query { after, limit } => {
            let from = after.map(|after| queue::from(store, name, &after));
            let page = queue::read(store, name, from, limit).await?;
            page.map(|page| of_page(page, requests))
        }
        What::Delete(rows) => {
            cleaning::delete_rows(requests, name, &rows).await?;
            untold(requests, Answer::Deleted)
        }
    })
}

async fn write_row(
    requests: &Requests,
    name: &LockName,
    (ticket, write): (Ticket, RowWrite),
) -> Sent {
    if let RowChange::Delete = write.change {
        let is_deleted = queue::delete(&requests.store, name, ticket, &write).await?;
        let answer = match is_deleted {
            true => Answer::Applied(Shown::Nothing),
            false => Answer::ConditionFailed(None),
        };
        return Ok(untold(requests, answer));
    }
    let written = queue::write(&requests.store, name, ticket, &write).await?;
    Ok(written.map(of(row)))
}

/// An answer that tells nothing of the time.
fn untold(requests: &Requests, value: Answer) -> Timed<Answer> {
    let (told, now) = (requests.store.told(), requests.store.now());
    Timed {
        value,
        sent: now,
        arrived: now,
        told,
        reading: Reading::UNTOLD,
    }
}

fn of<T>(shown: impl Fn(T) -> Shown) -> impl FnOnce(Write<T>) -> Answer {
    move |write| match write {
        Write::Applied(it) => Answer::Applied(shown(it)),
        Write::ConditionFailed(it) => Answer::ConditionFailed(it.map(shown)),
    }
}

fn item(item: LockItem) -> Shown {
    Shown::Item(Arc::new(item))
}

fn row(row: TicketRow) -> Shown {
    Shown::Row(Box::new(row))
}

fn of_page(page: queue::Page, requests: &Requests) -> Answer {
    let next = page.next.and_then(|next| next.place(&requests.store));
    Answer::Page(Page {
        item: page.lock.map(Arc::new),
        rows: page.rows,
        next,
    })
}
