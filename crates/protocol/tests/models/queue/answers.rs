//! Of an answer, what its client will make use of. The rest makes no difference any more, and states that differ in it alone are one.

use super::client::{Client, Role};
use super::few::Few;
use super::request::{Answer, Request, Shown};
use super::rules::Rules;
use super::table::{Entry, Item, Nonce, Row};
use fairlock_protocol::doorway::{Ask, next_ask};
use fairlock_protocol::place::Found;

impl Client {
    /// Of an answer to its own request.
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
            // What it remembers of the queue, if it has another turn.
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
            Request::Fill { found, .. } if found.len() == 0 => Answer { applied, ..nothing },
            Request::Fill { .. } => answer,
            _ => match shown {
                Shown::Item(item) => kept(false, item),
                Shown::Row(_) => nothing,
            },
        }
    }

    /// The same of one of two places of a process: who has the lock after a release is told to the other, and a row that is renewed is
    /// known to it.
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

    /// Whether what it does next may depend on when the answer arrives. Else it is taken in as it is given: to hear of it late is to be
    /// late with what comes next, and it is the same client for the others.
    pub(crate) fn is_told_by(role: Role, request: &Request) -> bool {
        let tells_nothing = matches!(
            request,
            Request::VoidMine { .. }
                | Request::VoidGap { .. }
                | Request::VoidDead { .. }
                | Request::RenewRow { .. }
        );
        role != Role::Sweeper && !tells_nothing
    }

    /// Whoever is to clear something out of its way looks at all of it, and whoever asks again at a glance.
    fn refusing(&self, role: Role, item: Item, rules: &Rules) -> Item {
        let seen = self.seen(Some(item), rules);
        let shares = self.share < rules.permits;
        match role.waits() && next_ask(seen, shares) != Ask::Snapshot {
            true => at_a_glance(item),
            false => item,
        }
    }
}

/// An item on which one has the lock.
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

/// What one at the door sees: how many are there, and what they take; not who.
fn at_a_glance(item: Item) -> Item {
    let anybody = |few: Few| {
        let mut all = Few::default();
        few.iter().for_each(|entry| all.push(nobody(entry.share)));
        all
    };
    Item {
        last: u8::from(item.last != item.watermark),
        watermark: 0,
        left: 0,
        room: item.room,
        sharers: anybody(item.sharers),
        slots: anybody(item.slots),
    }
}

/// Under a number that no attempt has.
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
