//! What a client will still use of an answer. The rest makes no difference any more, and states that differ only in it count as one.

use super::client::{Client, Role};
use super::few::Few;
use super::request::{Answer, Request, Shown};
use super::rules::Rules;
use super::table::{Entry, Item, Nonce, Row};
use fairlock_protocol::doorway::{Ask, next_ask};
use fairlock_protocol::place::Found;

impl Client {
    /// Returns what the client keeps of an answer to its own request.
    pub(crate) fn keeps(
        &self,
        role: Role,
        request: &Request,
        answer: Answer,
        rules: &Rules,
    ) -> Answer {
        let Answer { applied, shown } = answer;
        let (found, entry) = self.found(shown.item(), rules);
        let kept = |applied, item| Answer {
            applied,
            shown: Shown::Item(item),
        };
        let nothing = Answer {
            applied: false,
            shown: Shown::Row(None),
        };
        match request {
            _ if role == Role::Sweeper => nothing,
            Request::Resize(_) => Answer { applied, ..nothing },
            Request::Enter { .. } | Request::EnterOver { .. } | Request::Share { .. } => {
                let item = match (found, entry) {
                    (Found::Holds, Some(entry)) => Some(alone(entry)),
                    (Found::Waits, _) => shown.item(),
                    _ => shown.item().map(|item| self.refusing(role, item, rules)),
                };
                kept(applied, item)
            }
            Request::Draw { .. } => {
                let drawn = shown.item().filter(|_| applied);
                kept(applied, drawn.map(|item| with_last(item.last, 0)))
            }
            // What the client remembers of the queue, if it has another turn.
            Request::Release { .. } if applied && self.rounds > 1 => {
                kept(true, shown.item().map(at_a_glance))
            }
            Request::Release { .. } | Request::Rise { .. } | Request::Left { .. } => {
                let is_found = !applied && found != Found::Nowhere;
                kept(applied, shown.item().filter(|_| is_found))
            }
            Request::Downgrade { .. } => {
                kept(applied, entry.filter(|_| found == Found::Holds).map(alone))
            }
            Request::Join { .. } => match shown {
                Shown::Row(Some(Row::Void(_))) if !applied => Answer {
                    applied,
                    shown: Shown::Row(Some(Row::Void(0))),
                },
                _ => Answer {
                    applied: true,
                    ..nothing
                },
            },
            Request::Fill(fill) if fill.found.len() == 0 => Answer { applied, ..nothing },
            Request::Fill(_) => answer,
            _ => match shown {
                Shown::Item(item) => kept(false, item),
                Shown::Row(_) => nothing,
            },
        }
    }

    /// Returns what a place keeps that shares its process with another place. The other place is notified of the holder after a release,
    /// and knows a row that is renewed.
    pub(crate) fn keeps_for_two(
        &self,
        role: Role,
        request: &Request,
        answer: Answer,
        rules: &Rules,
    ) -> Answer {
        match request {
            Request::Release { .. } if answer.applied => answer,
            Request::RenewRow { .. } => answer,
            _ => self.keeps(role, request, answer, rules),
        }
    }

    /// Whether what the client does next may depend on when the answer arrives. If it does not, the client takes the answer in as it is
    /// given. Hearing of it late only makes the next step late, and the other clients see no difference.
    pub(crate) fn is_told_by(role: Role, request: &Request) -> bool {
        let tells_nothing = matches!(
            request,
            Request::VoidMine { .. }
                | Request::VoidGap { .. }
                | Request::VoidDead { .. }
                | Request::RenewRow { .. }
        );
        role.asks_for_a_place() && !tells_nothing
    }

    /// A client that must clear its way uses the whole item. A client that asks again only uses it at a glance.
    fn refusing(&self, role: Role, item: Item, rules: &Rules) -> Item {
        let seen = self.refused(Some(item), rules);
        let shares = self.share < rules.permits;
        match role.waits() && next_ask(seen, shares) != Ask::Nothing {
            true => at_a_glance(item),
            false => item,
        }
    }
}

/// An item on which this entry alone holds the lock.
fn alone(entry: Entry) -> Item {
    let mut item = with_last(entry.ticket, entry.ticket);
    item.slots.push(entry);
    item
}

fn with_last(last: u8, watermark: u8) -> Item {
    Item {
        last,
        watermark,
        ..Item::default()
    }
}

/// What a client without a place sees: how many entries there are and what they take, but not which entries they are.
fn at_a_glance(item: Item) -> Item {
    let anybody = |few: Few| few.iter().map(|entry| nobody(entry.share)).collect();
    Item {
        last: u8::from(item.last != item.watermark),
        watermark: 0,
        departures: 0,
        room: item.room,
        sharers: anybody(item.sharers),
        slots: anybody(item.slots),
        ..Item::default()
    }
}

/// An entry under a number that no attempt has.
fn nobody(share: u8) -> Entry {
    Entry {
        nonce: Nonce::new(0, 0),
        first: 0,
        ticket: 0,
        share,
        beat: 0,
        stray: false,
    }
}
