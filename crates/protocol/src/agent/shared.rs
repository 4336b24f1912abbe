//! What the places of a client share, and where they leave what they ask and tell.

use std::collections::{BTreeMap, VecDeque};

use super::callers::{Callers, Refused};
use super::chore::Chore;
use super::{
    CallId, Done, Errand, Failed, HoldId, Lock, Note, Output, Refusal, ReplyId, Request, RequestId,
};
use crate::notification::PlaceKey;

/// Names a place within its client.
pub(super) type Key = u64;

/// What the places of a client share, and where they leave what they ask and tell.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) outputs: VecDeque<Output>,
    pub(super) requests: VecDeque<(RequestId, Request)>,
    pub(super) under_way: BTreeMap<RequestId, (Lock, Key)>,
    pub(super) calls: BTreeMap<CallId, Lock>,
    pub(super) holds: BTreeMap<HoldId, (Lock, Key)>,
    /// The orders whose givers wait for what becomes of them.
    pub(super) replies: BTreeMap<ReplyId, Lock>,
    /// Callers of the agent whose turn it is that ask again.
    pub(super) to_ask: Vec<Callers>,
    /// What is to be done for others by the agent whose turn it is.
    pub(super) to_do: Vec<Chore>,
    /// The places that others can notify.
    pub(super) posts: BTreeMap<PlaceKey, (Lock, Key)>,
    /// What is done that no caller may wait for, by the places that do it.
    pub(super) errands: BTreeMap<Key, Errand>,
    pub(super) are_errands_new: bool,
    ids: u64,
    staggered: u64,
    pub(super) is_closed: bool,
}

impl Shared {
    pub(super) fn next_id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// The number of a hold among those of the client, whose renewals are staggered.
    pub(super) fn next_stagger(&mut self) -> u64 {
        self.staggered = match self.holds.is_empty() {
            true => 0,
            false => self.staggered + 1,
        };
        self.staggered
    }

    pub(super) fn send(&mut self, (lock, key): (&Lock, Key), request: Request) -> RequestId {
        let id = RequestId(self.next_id());
        self.under_way.insert(id, (lock.clone(), key));
        self.requests.push_back((id, request));
        id
    }

    /// Takes in what a place does that no caller may wait for.
    pub(super) fn lists(&mut self, key: Key, errand: Option<Errand>) {
        if self.errands.get(&key) == errand.as_ref() {
            return;
        }
        self.are_errands_new = true;
        match errand {
            Some(errand) => _ = self.errands.insert(key, errand),
            None => _ = self.errands.remove(&key),
        }
    }

    pub(super) fn is_held(&mut self, hold: HoldId, (lock, key): (&Lock, Key)) {
        self.holds.insert(hold, (lock.clone(), key));
    }

    pub(super) fn is_held_no_more(&mut self, hold: HoldId) {
        self.holds.remove(&hold);
    }

    /// Tells the giver of an order what became of it, if it waits for that.
    pub(super) fn is_done(&mut self, reply: Option<ReplyId>, done: Result<Done, Failed>) {
        if let Some(reply) = reply {
            self.replies.remove(&reply);
            self.outputs.push_back(Output::Done { reply, done });
        }
    }

    /// Tells a call that it is refused.
    pub(super) fn refuses(&mut self, call: CallId, why: Refusal) {
        if self.calls.remove(&call).is_some() {
            self.outputs.push_back(Output::Refused { call, why });
        }
    }

    pub(super) fn refuses_all(&mut self, refused: Refused) {
        for (call, why) in refused {
            self.refuses(call, why);
        }
    }

    /// Notes what has happened in a lock.
    pub(super) fn notes(&mut self, lock: &Lock, note: Note) {
        let lock = lock.clone();
        self.outputs.push_back(Output::Noted { lock, note });
    }

    pub(super) fn is_answered(&mut self, call: CallId) {
        self.calls.remove(&call);
    }
}
