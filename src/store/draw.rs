//! The verb that draws tickets.

use crate::name::LockName;
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::item::{At, LockItem};
use fairlock_protocol::ticket::{Sequence, Ticket};

use super::codec::{self, number};
use super::forms::{self, Form};
use super::lock_item::{Answer, end, ours, placed};
use super::request::Values;
use super::{Dating, Store, Timed, Write, newest};

/// Each try but the first knows better what stands on the item: a later date, or a shorter grace.
const TRIES: usize = 3;

/// How a draw is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Drawing {
    dating: Dating,
    /// Makes the grace that stands on the item as long as its own.
    raises_grace: bool,
    /// Has an item stay until then that would go soon.
    keeps: Option<u64>,
}

impl Store {
    /// Draws the next tickets, so many of them, if none is newer than `most`. The newest is `last` of the answer. Under the
    /// later date if one stands there, as in a renewal; and the grace that stands there is as long as this client's after it.
    pub(crate) async fn draw(
        &self,
        name: &LockName,
        tickets: u64,
        most: Ticket,
        seen: Option<&LockItem>,
    ) -> Answer {
        let end = most.next().unwrap_or(most).min(end(tickets));
        let (began, stamp) = (self.now(), self.server.stamp());
        let mut how = self.drawing(seen, stamp);
        let mut answer = self.draw_so(name, tickets, end, how).await?;
        for _ in 1..TRIES {
            let Write::Refused(Some(item)) = &answer.value else {
                break;
            };
            let better = self.drawing(Some(item), stamp);
            if end <= item.last || better == how {
                break;
            }
            how = better;
            answer = self.draw_so(name, tickets, end, how).await?;
        }
        Ok(Timed {
            sent: began,
            ..answer
        })
    }

    /// As the item asks for, as far as it is known.
    fn drawing(&self, seen: Option<&LockItem>, stamp: Option<ServerTime>) -> Drawing {
        let dating = match (stamp, seen.and_then(|item| item.drawn_at)) {
            (Some(stamp), Some(drawn_at)) if drawn_at > newest(stamp) => Dating::UnderLater(stamp),
            (Some(stamp), _) => Dating::By(stamp),
            (None, _) => Dating::None,
        };
        let is_short = |item: &LockItem| item.grace < Some(self.config.gap_grace);
        Drawing {
            dating,
            raises_grace: seen.is_some_and(is_short),
            keeps: seen.and_then(|item| self.keeps(item.expires_at)),
        }
    }

    async fn draw_so(&self, name: &LockName, tickets: u64, end: Ticket, how: Drawing) -> Answer {
        let mut values: Values = vec![
            (":tickets", number(tickets)),
            (":end", number(end.get())),
            (":grace", codec::millis(self.config.gap_grace)),
        ];
        values.extend(how.dating.values(":drawn_at"));
        let Form {
            verb,
            update,
            condition,
        } = match how.dating {
            Dating::By(_) => forms::DRAW,
            Dating::UnderLater(_) => forms::DRAW_UNDER_LATER,
            Dating::None => forms::DRAW_UNDATED,
        };
        let [raise, unless] = forms::LONGER_GRACE;
        let mut update = update.to_owned();
        let mut condition = condition.to_owned();
        let mut besides = |set: Option<&str>, unless: &str| {
            if let Some(set) = set {
                update = update.replacen("SET ", &format!("SET {set}, "), 1);
            }
            condition.push_str(" AND ");
            condition.push_str(unless);
        };
        match how.raises_grace {
            true => besides(Some(raise), unless),
            false => besides(None, forms::LONG_GRACE),
        }
        if let Some(expiry) = how.keeps {
            let [keep, unless] = forms::KEEP;
            besides(Some(keep), unless);
            values.push((":expiry", number(expiry)));
        }
        let condition = ours(&condition);
        let expressions = [&update, &condition].map(|it| placed(it, At::Holder));
        self.send(name, verb, expressions, values).await
    }
}
