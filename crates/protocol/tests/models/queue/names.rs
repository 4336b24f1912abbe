//! The nonces wherever a world names one: the same world under other names is the same state.

use std::hash::{Hash, Hasher};

use super::client::{Client, Role, Task};
use super::few::Few;
use super::request::{Admit, Request, Shown};
use super::rules::{Mutant, Rules};
use super::snapshot::Snapshot;
use super::table::{Entry, Item, Nonce, Row};
use super::world::World;
use crate::explore::Fold;

impl World {
    /// Gives a client a nonce that appears nowhere, for one more request for a place.
    pub(super) fn names(&mut self, me: usize, rules: &Rules) {
        if rules.broken(Mutant::OneNonce) && self.clients[me].nonce.is_some() {
            return;
        }
        self.clients[me].nonce = None;
        let mut named = 1_u32;
        self.each_nonce(&mut |nonce| {
            if nonce.process() == me {
                named |= 1 << nonce.attempt();
            }
        });
        let client = &mut self.clients[me];
        client.nonce = Some(Nonce::new(me, named.trailing_ones() as u8));
        client.lapsed = 0;
        client.late_renewal = 0;
    }

    /// Puts clients in order that do the same, because they may stand for each other.
    pub(super) fn sort(&mut self, roles: &[Role], together: bool) {
        for end in (1..roles.len()).rev() {
            for me in 0..end {
                let is_out_of_order = || self.clients[me].rank() > self.clients[me + 1].rank();
                let is_like = roles[me] == roles[me + 1] && roles[me] != Role::Pair;
                // The second place of a process must not be taken for another process.
                let is_apart = together && me == 1;
                if is_like && !is_apart && is_out_of_order() {
                    self.swap(me);
                }
            }
        }
    }

    fn swap(&mut self, me: usize) {
        self.clients.swap(me, me + 1);
        self.each_nonce(&mut |nonce| {
            *nonce = match nonce.process() {
                _ if nonce.attempt() == 0 => return,
                process if process == me => Nonce::new(me + 1, nonce.attempt()),
                process if process == me + 1 => Nonce::new(me, nonce.attempt()),
                _ => return,
            }
        });
        self.late.sort_unstable();
    }

    fn each_nonce(&mut self, each: &mut impl FnMut(&mut Nonce)) {
        let (items, rows) = (self.table.item.iter_mut(), self.table.rows.iter_mut());
        items.for_each(|item| item.each_nonce(each));
        rows.flatten().for_each(|row| row.each_nonce(each));
        let (clients, late) = (self.clients.iter_mut(), self.late.iter_mut());
        clients.for_each(|client| client.each_nonce(each));
        late.for_each(|request| request.each_nonce(each));
    }
}

impl Client {
    /// Tells clients apart by everything but names.
    fn rank(&self) -> u64 {
        let (mut nameless, mut rank) = (*self, Fold::default());
        nameless.each_nonce(&mut |nonce| *nonce = Nonce::new(0, nonce.attempt()));
        nameless.hash(&mut rank);
        rank.finish()
    }

    fn each_nonce(&mut self, each: &mut impl FnMut(&mut Nonce)) {
        self.nonce.iter_mut().for_each(&mut *each);
        self.row.iter_mut().for_each(|row| each(&mut row.nonce));
        match &mut self.task {
            Task::Sent(request) => request.each_nonce(each),
            Task::Answered(request, answer) => {
                request.each_nonce(each);
                match &mut answer.shown {
                    Shown::Item(item) => item.iter_mut().for_each(|item| item.each_nonce(each)),
                    Shown::Row(row) => row.iter_mut().for_each(|row| row.each_nonce(each)),
                }
            }
            Task::Reading(snapshot) => snapshot.each_nonce(each),
            _ => {}
        }
    }
}

impl Item {
    fn each_nonce(&mut self, each: &mut impl FnMut(&mut Nonce)) {
        self.sharers.each_nonce(each);
        self.slots.each_nonce(each);
    }
}

impl Few {
    fn each_nonce(&mut self, each: &mut impl FnMut(&mut Nonce)) {
        self.iter_mut().for_each(|entry| each(&mut entry.nonce));
    }
}

impl Row {
    fn each_nonce(&mut self, each: &mut impl FnMut(&mut Nonce)) {
        if let Row::Waiting(Entry { nonce, .. }) = self {
            each(nonce);
        }
    }
}

impl Snapshot {
    fn each_nonce(&mut self, each: &mut impl FnMut(&mut Nonce)) {
        self.item.each_nonce(each);
        self.rows_mut().for_each(|row| row.each_nonce(each));
    }
}

impl Request {
    fn each_nonce(&mut self, each: &mut impl FnMut(&mut Nonce)) {
        match self {
            Request::Enter { who, .. }
            | Request::EnterOver { who, .. }
            | Request::Share { who, .. }
            | Request::Join { who, .. } => each(&mut who.nonce),
            Request::Fill(fill) => fill.found.each_nonce(each),
            Request::Admit(Admit { nonce, .. })
            | Request::Release { nonce, .. }
            | Request::Evict { nonce, .. }
            | Request::Downgrade { nonce, .. }
            | Request::EvictSuccessor { nonce, .. }
            | Request::Rise { nonce, .. }
            | Request::VoidDead { nonce, .. }
            | Request::VoidMine { nonce, .. }
            | Request::RenewSuccessor { nonce, .. }
            | Request::RenewRow { nonce, .. } => each(nonce),
            Request::Resize(change) => {
                let first = change.first.iter_mut();
                first.for_each(|first| each(&mut first.nonce));
            }
            Request::Draw { .. }
            | Request::VoidGap { .. }
            | Request::Left { .. }
            | Request::Delete { .. }
            | Request::Remove { .. } => {}
        }
    }
}
