//! Calls that could only wait for what their own client holds.

use std::time::{Duration, SystemTime};

use super::ClientInner;
use crate::agent::Driven;
use crate::vocabulary::error::{Error, Holder};
use crate::vocabulary::name::LockName;
use crate::vocabulary::state::system_time;
use fairlock_protocol::ticket::Ticket;

impl ClientInner {
    /// The error of a call that asks for `permits` permits, if it would have to wait for holds of this client. Local: no request is sent.
    ///
    /// A hold counts while its guard may be relied on. A hold that was lost or given back does not, and neither do permits that a guard has
    /// given back.
    pub(crate) fn self_wait(&self, name: &LockName, permits: u64) -> Option<Error> {
        let mut own = self.own_holds(name);
        own.retain(|hold| hold.permits > 0);
        // Of holds that have seen different numbers, the largest counts: no call is refused that could be granted.
        let total = own.iter().map(|hold| hold.total).max()?;
        let taken = own.iter().map(|hold| hold.permits);
        let taken = taken.fold(permits, u64::saturating_add);
        // A claim of the whole lock takes all permits, however many there are by now.
        let is_alone = Some(permits) == name.permits();
        if !is_alone && taken <= total {
            return None;
        }
        let oldest = own.iter().min_by_key(|hold| hold.ticket)?;
        Some(Error::NotGranted {
            lock: name.to_string(),
            holder: Some(Box::new(Holder {
                owner: self.store.config().owner.clone(),
                ticket: oldest.ticket,
                is_this_process: true,
                is_shared: Some(oldest.permits) != name.permits(),
                lease_id: None,
                kept_until: None,
            })),
            since: oldest.since,
            position: None,
            untaken: false,
            waited: Duration::ZERO,
        })
    }

    fn own_holds(&self, name: &LockName) -> Vec<Own> {
        let held = self.used().map(Driven::held).unwrap_or_default();
        let held = held.into_iter().filter(|it| it.name.lock() == name.lock());
        let held = held.map(|view| {
            let item = view.item();
            Own {
                ticket: view.ticket,
                permits: view.permits(),
                total: item.there_are(),
                since: item.held_since().map(system_time),
            }
        });
        held.collect()
    }
}

/// A hold of this client.
struct Own {
    ticket: Ticket,
    permits: u64,
    total: u64,
    since: Option<SystemTime>,
}
