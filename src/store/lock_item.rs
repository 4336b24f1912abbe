//! The verbs on the lock item. Each is one conditional write; the comment on its condition names the race it closes.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::entry::{Entry, Nonce, ServerTime};
use crate::item::LockItem;
use crate::name::LockName;
use crate::ticket::Ticket;

use super::codec::{self, FORMAT, Item, number, text};
use super::failure::Failure;
use super::request::Values;
use super::{Attempt, Store, Timed, Write, broken_answer, dated, renewal};

/// A write's two expressions. `format` is in every condition, so that an older client never writes over a newer format.
pub(super) struct Form {
    pub(super) verb: &'static str,
    pub(super) update: &'static str,
    pub(super) condition: &'static str,
}

/// Free, and nobody has an open ticket: no barging past one who drew. `left` starts anew: a seat write from before fails
/// all the same, because `seated` moved.
const ENTER: Form = Form {
    verb: "enter",
    update: "SET #format = :format, #last = if_not_exists(#last, :start) + :tickets, \
             #seated = if_not_exists(#last, :start) + :tickets, #entered = if_not_exists(#last, :start) + :tickets, \
             #left = :zero, #holder = :me, #granted_at = :granted, #heirs = :nobody, #expires_at = :expiry \
             REMOVE #drawn_at",
    condition: "(attribute_not_exists(#format) OR #format = :format) AND attribute_not_exists(#holder.#nonce) \
                AND (attribute_not_exists(#last) OR (#seated = #last AND #last < :end))",
};

/// `last` as seen too: whoever drew since the look has a ticket that was not looked at.
const ENTER_OVER: Form = Form {
    verb: "enter over the settled",
    update: "SET #last = :ticket, #seated = :ticket, #entered = :ticket, #holder = :me, #granted_at = :granted, \
             #heirs = :nobody, #expires_at = :expiry",
    condition: "#format = :format AND attribute_not_exists(#holder.#nonce) AND #last = :last AND #seated = :seated",
};

/// `last` and `seated` as seen: nobody with a ticket is passed. Held: a free lock has no heirs.
const SIT: Form = Form {
    verb: "sit",
    update: "SET #last = :ticket, #seated = :ticket, #heirs = list_append(#heirs, :me), #expires_at = :expiry",
    condition: "#format = :format AND attribute_exists(#holder.#nonce) AND #last = :before AND #seated = :before \
                AND attribute_exists(#heirs) AND size(#heirs) < :seats",
};

/// There is a counter, which the fast enter starts, and it can go on: nobody drew since who makes a bounded line too long. No
/// later date there: a late duplicate must not make
/// who drew since look overdue by DynamoDB's clock.
const DRAW: Form = Form {
    verb: "draw",
    update: "SET #last = #last + :tickets, #drawn_at = :drawn_at, #expires_at = :expiry",
    condition: "#format = :format AND #last < :end AND NOT #drawn_at > :newest",
};
const DRAW_UNDATED: Form = Form {
    verb: "draw",
    update: "SET #last = #last + :tickets, #expires_at = :expiry REMOVE #drawn_at",
    condition: "#format = :format AND #last < :end",
};

/// `seated` as seen: nobody is seated twice. `left` as seen: nobody is seated who left since the look.
const SEAT: Form = Form {
    verb: "seat",
    update: "SET #seated = :upto, #heirs = list_append(#heirs, :found), #expires_at = :expiry",
    condition: "#format = :format AND attribute_exists(#holder.#nonce) AND #seated = :seated AND #left = :left \
                AND attribute_exists(#heirs) AND size(#heirs) <= :taken",
};
/// Free as seen: else the first of the found would take the lock from its holder.
const SEAT_FREE: Form = Form {
    verb: "seat",
    update: "SET #seated = :upto, #holder = :first, #granted_at = :granted, #heirs = :rest, \
             #expires_at = :expiry",
    condition: "#format = :format AND attribute_not_exists(#holder.#nonce) AND #seated = :seated AND #left = :left",
};
/// Nobody is seated; the tickets that `seated` passes are void, and void is for ever.
const SETTLE: Form = Form {
    verb: "settle",
    update: "SET #seated = :upto, #expires_at = :expiry",
    condition: "#format = :format AND #seated = :seated AND #left = :left",
};

const HAND_OVER: &str = "SET #holder = if_not_exists(#heirs[0], :none), #granted_at = :granted, \
                         #expires_at = :expiry REMOVE #heirs[0]";
pub(super) const IS_HOLDER: &str = "#format = :format AND #holder.#nonce = :nonce";
/// Still the holder: a late release must not release another's hold.
const RELEASE: Form = Form {
    verb: "release",
    update: HAND_OVER,
    condition: IS_HOLDER,
};
/// The very beat that was judged: a renewal that came meanwhile saves the holder.
const EVICT: Form = Form {
    verb: "evict",
    update: HAND_OVER,
    condition: "#format = :format AND #holder.#nonce = :nonce AND #holder.#beat = :beat",
};

/// `INDEX` stands for a seat. Seats shift, so the nonce decides which one is meant.
const UNSEAT: Form = Form {
    verb: "unseat",
    update: "SET #expires_at = :expiry REMOVE #heirs[INDEX]",
    condition: "#format = :format AND #heirs[INDEX].#nonce = :nonce AND #heirs[INDEX].#beat = :beat",
};
const GIVE_UP_SEAT: Form = Form {
    verb: "give up a seat",
    update: UNSEAT.update,
    condition: "#format = :format AND #heirs[INDEX].#nonce = :nonce",
};

/// The very hold that was seen, and still without a date: what its owner says of itself is not written over.
const DATE: Form = Form {
    verb: "date",
    update: "SET #holder.#renewed_at = :renewed_at, #expires_at = :expiry",
    condition: "#format = :format AND #holder.#nonce = :nonce AND #holder.#beat = :beat \
                AND attribute_not_exists(#holder.#renewed_at)",
};

/// The nonce still there: a renewal must not bring back what was released or evicted. No later date there: a late
/// duplicate must not make who renewed since look dead by DynamoDB's clock.
const RENEW_HOLDER: Form = Form {
    verb: "renew",
    update: "SET #holder.#beat = #holder.#beat + :one, #holder.#lease_ms = :lease, \
             #holder.#renewed_at = :renewed_at, #holder.#since = if_not_exists(#holder.#since, :renewed_at), \
             #expires_at = :expiry",
    condition: "#format = :format AND #holder.#nonce = :nonce AND NOT #holder.#renewed_at > :newest",
};
const RENEW_HOLDER_UNDATED: Form = Form {
    verb: "renew",
    update: "SET #holder.#beat = #holder.#beat + :one, #holder.#lease_ms = :lease, #expires_at = :expiry \
             REMOVE #holder.#renewed_at",
    condition: RELEASE.condition,
};
const RENEW_SEAT: Form = Form {
    verb: "renew",
    update: "SET #heirs[INDEX].#beat = #heirs[INDEX].#beat + :one, #heirs[INDEX].#lease_ms = :lease, \
             #heirs[INDEX].#renewed_at = :renewed_at, #expires_at = :expiry",
    condition: "#format = :format AND #heirs[INDEX].#nonce = :nonce \
                AND NOT #heirs[INDEX].#renewed_at > :newest",
};
const RENEW_SEAT_UNDATED: Form = Form {
    verb: "renew",
    update: "SET #heirs[INDEX].#beat = #heirs[INDEX].#beat + :one, #heirs[INDEX].#lease_ms = :lease, \
             #expires_at = :expiry REMOVE #heirs[INDEX].#renewed_at",
    condition: GIVE_UP_SEAT.condition,
};

/// Not seated yet: whoever saw the row waiting can then no longer seat it.
const LEFT: Form = Form {
    verb: "leave",
    update: "SET #left = #left + :one, #expires_at = :expiry",
    condition: "#format = :format AND #seated < :ticket",
};

/// Idle, and untouched since it was seen.
const REMOVE_IDLE: &str = "#format = :format AND attribute_not_exists(#holder.#nonce) AND #last = :last \
                           AND #seated = :last AND #expires_at = :expiry";

pub(super) type Answer = Result<Timed<Write<LockItem>>, Failure>;

impl Store {
    /// Takes a free lock that nobody waits for. The ticket is the one that this write draws.
    pub(crate) async fn enter(&self, name: &LockName, attempt: &Attempt) -> Answer {
        let me = codec::entry(&self.new_entry(attempt, Ticket::default()), None);
        let start = number(self.config.clock.unix().as_micros());
        let values = vec![
            (":start", start),
            (":end", number(end(attempt.tickets).get())),
            (":zero", number(0)),
            (":tickets", number(attempt.tickets)),
            (":me", me),
            (":granted", self.granted_now()),
            (":nobody", AttributeValue::L(Vec::new())),
        ];
        attempt.note(self.write(name, &ENTER, values).await)
    }

    /// Takes a free lock all of whose drawn tickets `seen` and its rows showed to be settled.
    pub(crate) async fn enter_over(
        &self,
        name: &LockName,
        attempt: &Attempt,
        seen: &LockItem,
        ticket: Ticket,
    ) -> Answer {
        let values = vec![
            (":ticket", number(ticket.get())),
            (
                ":me",
                codec::entry(&self.new_entry(attempt, ticket), Some(ticket)),
            ),
            (":granted", self.granted_now()),
            (":nobody", AttributeValue::L(Vec::new())),
            (":last", number(seen.last.get())),
            (":seated", number(seen.seated.get())),
        ];
        attempt.note(self.write(name, &ENTER_OVER, values).await)
    }

    /// Draws `ticket` and takes the seat behind the last heir, all in one.
    pub(crate) async fn sit(
        &self,
        name: &LockName,
        attempt: &Attempt,
        before: Ticket,
        ticket: Ticket,
    ) -> Answer {
        let me = codec::entry(&self.new_entry(attempt, ticket), Some(ticket));
        let values = vec![
            (":ticket", number(ticket.get())),
            (":me", AttributeValue::L(vec![me])),
            (":before", number(before.get())),
            (":seats", number(self.config.seats)),
        ];
        attempt.note(self.write(name, &SIT, values).await)
    }

    /// Draws the next tickets, so many of them, if none is newer than `most`. The newest is `last` of the answer. Without a
    /// date if a later one stands there, as in a renewal.
    pub(crate) async fn draw(&self, name: &LockName, tickets: u64, most: Ticket) -> Answer {
        let end = most.next().unwrap_or(most).min(end(tickets));
        let draw = |at: Option<ServerTime>| {
            let mut values = vec![(":tickets", number(tickets)), (":end", number(end.get()))];
            values.extend(at.into_iter().flat_map(|at| dated(":drawn_at", at)));
            self.write(name, at.map_or(&DRAW_UNDATED, |_| &DRAW), values)
        };
        let only_date = |item: &LockItem| item.drawn_at.is_some() && item.last < end;
        self.with_date(draw, only_date).await
    }

    /// Gives seats to `found`, the next in line as `seen` and its rows showed them.
    pub(crate) async fn seat(
        &self,
        name: &LockName,
        attempt: &Attempt,
        seen: &LockItem,
        found: &[Entry],
        upto: Ticket,
    ) -> Answer {
        let mut entries = found
            .iter()
            .map(|entry| codec::entry(entry, Some(entry.ticket)));
        let mut values = vec![
            (":upto", number(upto.get())),
            (":seated", number(seen.seated.get())),
            (":left", number(seen.left)),
        ];
        if seen.holder.is_none() {
            let Some(first) = entries.next() else {
                return Err(broken_answer("seat", "nobody was found to be seated"));
            };
            values.extend([
                (":first", first),
                (":granted", self.granted_now()),
                (":rest", AttributeValue::L(entries.collect())),
            ]);
            return attempt.note(self.write(name, &SEAT_FREE, values).await);
        }
        let taken = self.config.seats.saturating_sub(found.len());
        values.extend([
            (":found", AttributeValue::L(entries.collect())),
            (":taken", number(taken)),
        ]);
        attempt.note(self.write(name, &SEAT, values).await)
    }

    /// Raises `seated` over tickets that are void.
    pub(crate) async fn settle(&self, name: &LockName, seen: &LockItem, upto: Ticket) -> Answer {
        let values = vec![
            (":upto", number(upto.get())),
            (":seated", number(seen.seated.get())),
            (":left", number(seen.left)),
        ];
        self.write(name, &SETTLE, values).await
    }

    /// Ends a hold; the first heir has the lock the moment this applies.
    pub(crate) async fn release(&self, name: &LockName, attempt: &Attempt) -> Answer {
        let values = vec![
            (":none", nobody()),
            (":granted", self.granted_now()),
            (":nonce", text(attempt.nonce.to_string())),
        ];
        attempt.note(self.write(name, &RELEASE, values).await)
    }

    /// Ends the hold of a dead holder, as release would.
    pub(crate) async fn evict(&self, name: &LockName, dead: &Entry) -> Answer {
        let mut values = judged(dead);
        values.extend([(":none", nobody()), (":granted", self.granted_now())]);
        self.write(name, &EVICT, values).await
    }

    /// Takes the seat of a dead heir away.
    pub(crate) async fn unseat(&self, name: &LockName, index: usize, dead: &Entry) -> Answer {
        self.write_at(name, &UNSEAT, Some(index), judged(dead))
            .await
    }

    /// Gives up one's own seat.
    pub(crate) async fn give_up_seat(&self, name: &LockName, index: usize, nonce: Nonce) -> Answer {
        self.write_at(
            name,
            &GIVE_UP_SEAT,
            Some(index),
            vec![(":nonce", text(nonce.to_string()))],
        )
        .await
    }

    /// Dates a hold that its owner has not dated, if the time is known.
    pub(crate) async fn date(&self, name: &LockName, undated: &Entry) -> Result<(), Failure> {
        let Some(now) = self.server.stamp() else {
            return Ok(());
        };
        let mut values = judged(undated);
        values.push((":renewed_at", codec::millis(now.0)));
        self.write(name, &DATE, values).await.map(drop)
    }

    /// Renews a hold. The answer shows the heirs.
    pub(crate) async fn renew_hold(
        &self,
        name: &LockName,
        nonce: Nonce,
        lease: Duration,
    ) -> Answer {
        self.renew(
            name,
            [&RENEW_HOLDER, &RENEW_HOLDER_UNDATED],
            None,
            nonce,
            lease,
        )
        .await
    }

    /// Renews a seat. The answer shows holder and heirs.
    pub(crate) async fn renew_seat(
        &self,
        name: &LockName,
        index: usize,
        nonce: Nonce,
        lease: Duration,
    ) -> Answer {
        self.renew(
            name,
            [&RENEW_SEAT, &RENEW_SEAT_UNDATED],
            Some(index),
            nonce,
            lease,
        )
        .await
    }

    /// Says that a waiter left the queue, so that no look from before can seat it.
    pub(crate) async fn leave(&self, name: &LockName, ticket: Ticket) -> Answer {
        self.write(
            name,
            &LEFT,
            vec![(":one", number(1)), (":ticket", number(ticket.get()))],
        )
        .await
    }

    async fn renew(
        &self,
        name: &LockName,
        [with, without]: [&Form; 2],
        index: Option<usize>,
        nonce: Nonce,
        lease: Duration,
    ) -> Answer {
        let renew = |at: Option<ServerTime>| {
            let form = at.map_or(without, |_| with);
            self.write_at(name, form, index, renewal(nonce, lease, at))
        };
        let is_ours = |item: &LockItem| match index {
            Some(index) => item.heirs.get(index).is_some_and(|it| it.nonce == nonce),
            None => item.holder.as_ref().is_some_and(|it| it.nonce == nonce),
        };
        self.with_date(renew, is_ours).await
    }

    /// Reads the lock item, strongly consistent.
    pub(crate) async fn read_lock(
        &self,
        name: &LockName,
    ) -> Result<Timed<Option<LockItem>>, Failure> {
        self.timed(self.get_lock(name)).await
    }

    /// Removes an idle lock item that nobody has touched since `seen`. Whether it is gone.
    pub(crate) async fn remove_idle(
        &self,
        name: &LockName,
        seen: &LockItem,
    ) -> Result<bool, Failure> {
        let values: Values = vec![
            (":format", number(FORMAT)),
            (":last", number(seen.last.get())),
            (":expiry", number(seen.expires_at)),
        ];
        self.delete(
            "remove an idle lock",
            self.lock_key(name),
            REMOVE_IDLE,
            values,
        )
        .await
    }

    /// When whoever this write makes the holder was granted the lock.
    fn granted_now(&self) -> AttributeValue {
        codec::time_if_known(self.server.stamp())
    }

    pub(super) async fn write(&self, name: &LockName, form: &Form, values: Values) -> Answer {
        self.write_at(name, form, None, values).await
    }

    async fn write_at(
        &self,
        name: &LockName,
        form: &Form,
        index: Option<usize>,
        mut values: Values,
    ) -> Answer {
        values.extend([(":format", number(FORMAT)), (":expiry", self.expiry())]);
        let (update, condition) = (
            at_index(form.update, index),
            at_index(form.condition, index),
        );
        self.timed(async {
            let key = self.lock_key(name);
            let write = self
                .update(form.verb, key, [&update, &condition], values)
                .await?;
            write.try_map(|item| self.decode_lock(form.verb, name, &item))
        })
        .await
    }

    async fn get_lock(&self, name: &LockName) -> Result<Option<LockItem>, Failure> {
        let verb = "read the lock item";
        let item = self.get(verb, self.lock_key(name)).await?;
        item.map(|item| self.decode_lock(verb, name, &item))
            .transpose()
    }

    pub(super) fn decode_lock(
        &self,
        verb: &'static str,
        name: &LockName,
        item: &Item,
    ) -> Result<LockItem, Failure> {
        let read = codec::lock_item(item, &self.config.names.ttl);
        read.map_err(|problem| self.unreadable(verb, name, &name.lock_key(), problem))
    }
}

/// What `last` must be below for so many tickets to be left.
fn end(tickets: u64) -> Ticket {
    Ticket::new(u64::MAX).first_of(tickets)
}

/// What a removal is conditional on: the beat that was judged.
pub(super) fn judged(dead: &Entry) -> Values {
    vec![
        (":nonce", text(dead.nonce.to_string())),
        (":beat", number(dead.beat)),
    ]
}

/// An empty map: the holder of a free lock.
fn nobody() -> AttributeValue {
    AttributeValue::M(Item::new())
}

fn at_index(expression: &str, index: Option<usize>) -> String {
    match index {
        Some(index) => expression.replace("INDEX", &index.to_string()),
        None => expression.to_owned(),
    }
}
