//! The verbs on the lock item: each is one conditional write, or a consistent read.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::name::LockName;
use fairlock_protocol::entry::{Entry, Nonce, ServerTime};
use fairlock_protocol::item::{self, At, Footing, Held, LockItem};
use fairlock_protocol::ticket::{Sequence, Ticket};

use super::codec::{self, FORMAT, Item, number, text};
use super::failure::Failure;
use super::forms::{self, End, Form};
use super::request::Values;
use super::{Attempt, Dating, Store, Timed, Write, broken_answer, renewal};

pub(super) type Answer = Result<Timed<Write<LockItem>>, Failure>;

impl Store {
    /// Takes a free lock that nobody waits for. The ticket is the one that this write draws. One that does not know the time
    /// takes only a lock that has an item: where the counter begins, and how long the item stays, are not up to this host's
    /// clock.
    pub(crate) async fn enter(&self, name: &LockName, attempt: &Attempt) -> Answer {
        let me = codec::entry(&self.new_entry(attempt, Ticket::default()), None);
        let mut values = vec![
            (":end", number(end(attempt.tickets).get())),
            (":zero", number(0)),
            (":tickets", number(attempt.tickets)),
            (":me", me),
            (":share", number(attempt.permits)),
            (":granted", self.granted_now()),
            (":none", nobody()),
            (":nobody", AttributeValue::L(Vec::new())),
            (":grace", codec::millis(self.config.gap_grace)),
        ];
        let (Some(now), Some(expiry)) = (self.time_of_items(), self.expiry()) else {
            return attempt.note(self.enter_known(name, values).await);
        };
        values.extend([
            (":start", number(self.start_of_tickets(now).as_micros())),
            (":expiry", number(expiry)),
        ]);
        let Form {
            verb,
            update,
            condition,
        } = forms::ENTER;
        // There may be no item yet that is ours.
        let expressions = [update, condition].map(String::from);
        attempt.note(self.send(name, verb, expressions, values).await)
    }

    /// If no item is shown, the next try makes one: this answer told the time.
    async fn enter_known(&self, name: &LockName, mut values: Values) -> Answer {
        let Form {
            verb,
            update,
            condition,
        } = forms::ENTER_KNOWN;
        values.extend(of_lock(name));
        self.timed(async {
            let (key, condition) = (self.lock_key(name), ours(condition));
            let expressions = [update, &condition];
            let write = self.update_unread(verb, key, expressions, values).await?;
            write.try_map(|item| self.decode_lock(verb, name, &item))
        })
        .await
    }

    /// Takes permits of a lock that nobody waits for. The ticket is the one that this write draws.
    pub(crate) async fn share(&self, name: &LockName, attempt: &Attempt) -> Answer {
        let me = codec::entry(&self.new_entry(attempt, Ticket::default()), None);
        let values = vec![
            (":one", number(1)),
            (":zero", number(0)),
            (":end", number(end(1).get())),
            (":me", me),
            (":share", number(attempt.permits)),
            (":room", room(name, attempt.permits)),
        ];
        let place = At::Sharer(attempt.nonce);
        attempt.note(self.write_at(name, &forms::SHARE, place, values).await)
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
            (":zero", number(0)),
            (":share", number(attempt.permits)),
            (":granted", self.granted_now()),
            (":last", number(seen.last.get())),
            (":seated", number(seen.seated.get())),
        ];
        let keeps = self.keeps(seen.expires_at);
        let write = self.write_keeping(name, &forms::ENTER_OVER, At::Holder, values, keeps);
        attempt.note(write.await)
    }

    /// Draws `ticket` and takes the seat behind the last heir as `seen` shows them, all in one.
    pub(crate) async fn sit(
        &self,
        name: &LockName,
        attempt: &Attempt,
        seen: &LockItem,
        ticket: Ticket,
    ) -> Answer {
        let me = codec::entry(&self.new_entry(attempt, ticket), Some(ticket));
        let values = vec![
            (":ticket", number(ticket.get())),
            (":me", AttributeValue::L(vec![me])),
            (":before", number(seen.last.get())),
            (":seats", number(self.config.seats)),
            (":zero", number(0)),
        ];
        let keeps = self.keeps(seen.expires_at);
        let write = self.write_keeping(name, &forms::SIT, At::Holder, values, keeps);
        attempt.note(write.await)
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
            (":zero", number(0)),
        ];
        if seen.is_free() {
            let (Some(first), Some(Entry { permits, .. })) = (entries.next(), found.first()) else {
                return Err(broken_answer("seat", "nobody was found to be seated"));
            };
            values.extend([
                (":share", number(permits)),
                (":first", first),
                (":granted", self.granted_now()),
                (":rest", AttributeValue::L(entries.collect())),
            ]);
            return attempt.note(self.write(name, &forms::SEAT_FREE, values).await);
        }
        let taken = self.config.seats.saturating_sub(found.len());
        values.extend([
            (":found", AttributeValue::L(entries.collect())),
            (":seats_taken", number(taken)),
        ]);
        attempt.note(self.write(name, &forms::SEAT, values).await)
    }

    /// Raises `seated` over tickets that are void.
    pub(crate) async fn settle(&self, name: &LockName, seen: &LockItem, upto: Ticket) -> Answer {
        let values = vec![
            (":upto", number(upto.get())),
            (":seated", number(seen.seated.get())),
            (":left", number(seen.left)),
        ];
        self.write(name, &forms::SETTLE, values).await
    }

    /// Gives the first heirs the permits that they wait for: they stand beside those who have some.
    pub(crate) async fn admit(&self, name: &LockName, heirs: &[Entry]) -> Answer {
        let Some((last, before)) = heirs.split_last() else {
            return Err(broken_answer("admit", "nobody was found to be admitted"));
        };
        let form = &forms::ADMIT;
        let (mut update, mut removed) = (form.update.to_owned(), String::from(" REMOVE PLACE"));
        for (index, heir) in heirs.iter().enumerate() {
            update.push_str(&format!(", #sharers.#{} = #heirs[{index}]", heir.nonce));
        }
        for index in 0..before.len() {
            removed.push_str(&format!(", #heirs[{index}]"));
        }
        let share = item::sum(heirs.iter().map(|heir| heir.permits));
        let mut values = named(last.nonce, last.ticket);
        values.push((":share", number(share)));
        let place = At::Heir(before.len());
        let expressions = [&(update + &removed), &ours(form.condition)].map(|it| placed(it, place));
        self.send(name, form.verb, expressions, values).await
    }

    /// Ends a hold. If nobody else has the lock, the first heir has it the moment this applies.
    pub(crate) async fn release(&self, name: &LockName, attempt: &Attempt, held: Held) -> Answer {
        let mut values = named(attempt.nonce, held.footing.ticket);
        values.extend(self.ending(held));
        attempt.note(self.end(name, &forms::RELEASE, held, values).await)
    }

    /// Ends the hold of one who is dead, as release would.
    pub(crate) async fn evict(&self, name: &LockName, dead: &Entry, held: Held) -> Answer {
        let mut values = seen(dead);
        values.extend(self.ending(held));
        self.end(name, &forms::EVICT, held, values).await
    }

    async fn end(&self, name: &LockName, how: &End, held: Held, values: Values) -> Answer {
        let at = held.footing.at;
        let is_sharer = matches!(at, At::Sharer(_));
        let form = how.form(is_sharer, held.hands_over);
        self.write_at(name, &form, at, values).await
    }

    fn ending(&self, held: Held) -> Values {
        let mut values = vec![(":share", number(held.permits)), (":zero", number(0))];
        if held.hands_over {
            values.push((":granted", self.granted_now()));
        }
        if held.hands_over || held.footing.at == At::Holder {
            values.push((":none", nobody()));
        }
        values
    }

    /// Keeps one of the permits that a hold has, and frees the others.
    pub(crate) async fn downgrade(&self, name: &LockName, nonce: Nonce, held: Held) -> Answer {
        let Footing { at, ticket, .. } = held.footing;
        let mut values = named(nonce, ticket);
        values.extend([
            (":share", number(held.permits)),
            (":kept", number(1)),
            (":freed", number(held.permits.saturating_sub(1))),
        ]);
        self.write_at(name, &forms::DOWNGRADE, at, values).await
    }

    /// Takes the seat of a dead heir away.
    pub(crate) async fn unseat(&self, name: &LockName, index: usize, dead: &Entry) -> Answer {
        self.write_at(name, &forms::UNSEAT, At::Heir(index), seen(dead))
            .await
    }

    /// Gives up one's own seat.
    pub(crate) async fn give_up_seat(&self, name: &LockName, index: usize, own: &Entry) -> Answer {
        let values = named(own.nonce, own.ticket);
        self.write_at(name, &forms::GIVE_UP_SEAT, At::Heir(index), values)
            .await
    }

    /// Says that a waiter left the queue, so that no look from before can seat it.
    pub(crate) async fn leave(&self, name: &LockName, ticket: Ticket) -> Answer {
        self.write(
            name,
            &forms::LEFT,
            vec![(":one", number(1)), (":ticket", number(ticket.get()))],
        )
        .await
    }

    /// Renews a hold or a seat, under the later date if one stands there; and keeps the item for longer if it would go too
    /// soon. The answer shows who else there is.
    pub(crate) async fn renew(
        &self,
        name: &LockName,
        attempt: &Attempt,
        Footing {
            at,
            ticket,
            expires_at,
        }: Footing,
        lease: Duration,
    ) -> Answer {
        let keeps = self.expiry().filter(|_| self.goes_early(expires_at));
        let renew = |dating: Dating| {
            let form = match dating {
                Dating::By(_) => &forms::RENEW,
                Dating::UnderLater(_) => &forms::RENEW_UNDER_LATER,
                Dating::None => &forms::RENEW_UNDATED,
            };
            let mut values = renewal(attempt.nonce, lease, dating);
            values.extend([
                (":beat", attempt.next_beat()),
                (":held", number(ticket.get())),
            ]);
            self.write_keeping(name, form, at, values, keeps)
        };
        let own = self.renewed(attempt, renew, |item| {
            item.entry_at(at).filter(|own| own.ticket == ticket)
        });
        own.await
    }

    /// Writes, and has the item stay until then. Refused because somebody keeps it for longer: writes without.
    async fn write_keeping(
        &self,
        name: &LockName,
        form: &Form,
        at: At,
        mut values: Values,
        keeps: Option<u64>,
    ) -> Answer {
        let Some(expiry) = keeps else {
            return self.write_at(name, form, at, values).await;
        };
        let [kept, unless] = forms::KEEP;
        let update = form.update.replacen("SET ", &format!("SET {kept}, "), 1);
        let condition = ours(&format!("{} AND {unless}", form.condition));
        let expressions = [&update, &condition].map(|it| placed(it, at));
        let without = values.clone();
        values.push((":expiry", number(expiry)));
        let answer = self.send(name, form.verb, expressions, values).await?;
        match &answer.value {
            Write::Refused(Some(item)) if item.expires_at > expiry => {
                self.write_at(name, form, at, without).await
            }
            _ => Ok(answer),
        }
    }

    /// Has the holder's lease last for so long from now on, and as long as it does at the least. Now is no earlier than `past`.
    pub(crate) async fn extend(
        &self,
        name: &LockName,
        entry: &Entry,
        by: Duration,
        past: ServerTime,
    ) -> Answer {
        let now = self.server.past().unwrap_or(past);
        let end = entry.renewed_at.map(|renewed| renewed.0 + entry.lease);
        let left = end.unwrap_or_default().saturating_sub(now.0);
        let mut values = seen(entry);
        values.extend([
            (":one", number(1)),
            (":lease", codec::millis(by.max(left))),
            (":renewed_at", codec::millis(now.0)),
        ]);
        let keeps = self.expiry();
        self.write_keeping(name, &forms::EXTEND, At::Holder, values, keeps)
            .await
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
            (":permits", number(all_of(name))),
            (":zero", number(0)),
            (":last", number(seen.last.get())),
            (":expiry", number(seen.expires_at)),
        ];
        self.delete(
            "remove an idle lock",
            self.lock_key(name),
            &ours(forms::REMOVE_IDLE),
            values,
        )
        .await
    }

    /// When whoever this write makes the holder was granted the lock.
    fn granted_now(&self) -> AttributeValue {
        codec::time_if_known(self.server.stamp())
    }

    async fn write(&self, name: &LockName, form: &Form, values: Values) -> Answer {
        self.write_at(name, form, At::Holder, values).await
    }

    pub(super) async fn write_at(
        &self,
        name: &LockName,
        form: &Form,
        at: At,
        values: Values,
    ) -> Answer {
        let expressions = [form.update, &ours(form.condition)].map(|it| placed(it, at));
        self.send(name, form.verb, expressions, values).await
    }

    pub(super) async fn send(
        &self,
        name: &LockName,
        verb: &'static str,
        [update, condition]: [String; 2],
        mut values: Values,
    ) -> Answer {
        values.extend(of_lock(name));
        self.timed(async {
            let key = self.lock_key(name);
            let write = self
                .update(verb, key, [&update, &condition], values)
                .await?;
            write.try_map(|item| self.decode_lock(verb, name, &item))
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
        let read = read.and_then(|item| codec::of_permits(item, name.permits()));
        read.map_err(|problem| self.unreadable(verb, name, &name.lock_key(), problem))
    }
}

/// What `last` must be below for so many tickets to be left.
pub(super) fn end(tickets: u64) -> Ticket {
    Ticket::new(u64::MAX).first_of(tickets)
}

/// What every condition takes.
fn of_lock(name: &LockName) -> [(&'static str, AttributeValue); 2] {
    [
        (":format", number(FORMAT)),
        (":permits", number(all_of(name))),
    ]
}

/// By what an entry on the lock item is named in conditions.
pub(super) fn named(nonce: Nonce, ticket: Ticket) -> Values {
    vec![
        (":nonce", text(nonce.to_string())),
        (":held", number(ticket.get())),
    ]
}

/// The same, with the beat that was seen.
pub(super) fn seen(entry: &Entry) -> Values {
    let mut values = named(entry.nonce, entry.ticket);
    values.push((":beat", number(entry.beat)));
    values
}

/// What the removal of a row is conditional on: the beat that was judged.
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

/// What may be taken at the most for so many permits to be left.
fn room(name: &LockName, permits: u64) -> AttributeValue {
    number(all_of(name).saturating_sub(permits))
}

/// No lock has none: of a name that says nothing, nothing is written.
pub(super) fn all_of(name: &LockName) -> u64 {
    name.permits().unwrap_or_default()
}

pub(super) fn ours(condition: &str) -> String {
    format!("{}{condition}", forms::OURS)
}

/// The expression at a place.
pub(super) fn placed(expression: &str, at: At) -> String {
    let mine = |named| expression.replace("MINE", named);
    match at {
        At::Holder => mine(forms::HOLDER).replace("PLACE", "#holder"),
        At::Heir(index) => mine(forms::HEIR).replace("PLACE", &format!("#heirs[{index}]")),
        At::Sharer(nonce) => mine(forms::SHARER)
            .replace("PLACE", &format!("#sharers.#{nonce}"))
            .replace("NONCE", &format!("#{nonce}")),
    }
}
