//! What a waiter does on a look: the dead are removed, what is over is made void, and the next are given seats.

use super::{Turn, Waiter};
use crate::look::Look;
use crate::passing;
use crate::store::{Attempt, Failure, Patience, Timed, Write};
use fairlock_protocol::item::LockItem;
use fairlock_protocol::line::{Has, Seating, Unsettled};

impl Waiter {
    /// Reads the rows that a decision needs. Ends because every page brings the walk further, and the line has an end.
    pub(super) async fn read_on(&mut self, patience: &Patience) -> Result<Turn, Failure> {
        let look = self.look.clone();
        let further = look.read_on(&self.store, &self.name, patience).await?;
        Ok(self.again(further))
    }

    pub(super) async fn evict(&mut self, has: Has, patience: &Patience) -> Result<Turn, Failure> {
        let (store, name, item) = (&self.store, &self.name, &self.look.item);
        let answer = passing::evict(store, name, patience, item, has).await?;
        Ok(answer.map_or(Turn::Again, |answer| self.wrote(answer)))
    }

    /// Gives the first heirs what they wait for, this one among them.
    pub(super) async fn admit(
        &mut self,
        heirs: usize,
        patience: &Patience,
    ) -> Result<Turn, Failure> {
        let item = &self.look.item;
        let (first, admitted) = (item.first_heir(), &item.heirs()[..heirs]);
        let admit = || self.store.admit(&self.name, first, admitted);
        let answer = self.store.persist(patience, admit).await?;
        Ok(self.wrote(answer))
    }

    pub(super) async fn unseat(
        &mut self,
        index: usize,
        patience: &Patience,
    ) -> Result<Turn, Failure> {
        let item = &self.look.item;
        let unseated = passing::unseat(&self.store, &self.name, patience, item, index).await?;
        Ok(unseated.map_or(Turn::Again, |answer| self.wrote(answer)))
    }

    /// The answer to a write on the lock item is a look at it, applied or not.
    fn wrote(&mut self, answer: Timed<Write<LockItem>>) -> Turn {
        let item = answer.map(Write::shown).transpose();
        self.again(item.map(|item| item.map(Look::of)))
    }

    fn again(&mut self, look: Option<Timed<Look>>) -> Turn {
        look.map_or(Turn::Retire, |look| {
            self.saw(look);
            Turn::Again
        })
    }

    pub(super) async fn settle(
        &mut self,
        over: Vec<Unsettled>,
        patience: &Patience,
    ) -> Result<Turn, Failure> {
        passing::settle(&self.store, &self.name, patience, &self.look, over).await?;
        Ok(self
            .read_line(patience)
            .await?
            .map_or(Turn::Retire, |()| Turn::Again))
    }

    /// Seats the next in line. The rows passed are settled then, and litter.
    pub(super) async fn seat(
        &mut self,
        seating: Seating,
        patience: &Patience,
    ) -> Result<Turn, Failure> {
        let found: Vec<_> = seating
            .found
            .iter()
            .filter_map(|ticket| self.look.waiting(*ticket).cloned())
            .collect();
        let Attempt {
            nonce,
            tickets,
            permits,
            ..
        } = self.attempt;
        let unanswered = Attempt::new(nonce, tickets, permits);
        let seat = || {
            self.store.seat(
                &self.name,
                &unanswered,
                &self.look.item,
                &found,
                seating.seated,
            )
        };
        let answer = self.store.persist(patience, seat).await?;
        let is_ours = matches!(answer.value, Write::Applied(_)) || unanswered.is_in_doubt();
        let before = self.look.clone();
        let turn = self.wrote(answer);
        if is_ours {
            self.litter
                .extend(before.litter(self.look.item.seated).map(|row| row.ticket));
        }
        Ok(turn)
    }
}
