//! An attempt to get a place, over all the requests that are made for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::name::LockName;
use crate::notify::Registration;
use crate::place_id::PlaceId;
use crate::store::{Answered, Store, Timed, Write};
use fairlock_protocol::entry::{Attributes, Entry, Nonce, Unknown};
use fairlock_protocol::failure::{Failure, Kind, cause};
use fairlock_protocol::lease::{Renewal, RenewalHistory};
use fairlock_protocol::moment::Moment;
use fairlock_protocol::stamps::Stamps;
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::told::ToldTime;

/// An attempt to get a place, over all the retries of its requests.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) nonce: Nonce,
    /// How many tickets it asks for.
    pub(crate) tickets: u64,
    /// How many of the lock's permits each of them takes.
    pub(crate) permits: u64,
    pub(crate) attributes: Attributes,
    /// The caller's id for a lease and the time for which it takes its place. `None` if it takes the client's own lease duration.
    pub(crate) lasting: Option<(String, Duration)>,
    /// By how much its owner stops believing before the lease in its entry ends.
    margin: Duration,
    /// A request of this attempt got no answer, so its nonce may turn up in the table at any later time.
    in_doubt: AtomicBool,
    /// How many renewals were sent, by all callers that have its place.
    renewals: Arc<AtomicU64>,
    /// How other clients notify its place, if they can.
    registration: Option<Arc<Registration>>,
}

impl Attempt {
    pub(crate) fn new(nonce: Nonce, tickets: u64, permits: u64) -> Self {
        Attempt {
            nonce,
            tickets,
            permits,
            attributes: Attributes::default(),
            lasting: None,
            margin: Duration::ZERO,
            in_doubt: AtomicBool::new(false),
            renewals: Arc::default(),
            registration: None,
        }
    }

    /// The attempt to get a lease with this id, which lasts for `lease` without renewals.
    pub(crate) fn lasting(self, id: String, lease: Duration) -> Self {
        Attempt {
            lasting: Some((id, lease)),
            ..self
        }
    }

    /// The attempt of a caller that publishes these attributes.
    pub(crate) fn described(self, attributes: &Attributes) -> Self {
        Attempt {
            attributes: attributes.clone(),
            ..self
        }
    }

    /// The attempt of a client with this safety margin.
    pub(crate) fn with_margin(self, margin: Duration) -> Self {
        Attempt { margin, ..self }
    }

    pub(crate) fn margin(&self) -> Duration {
        self.margin
    }

    /// The lease that its entry shows to others, where its owner believes in `lease`.
    pub(crate) fn in_table(&self, lease: Duration) -> Duration {
        lease.saturating_add(self.margin)
    }

    /// The lease in which its owner believes, where its entry shows `lease` to others.
    pub(crate) fn believed_in(&self, lease: Duration) -> Duration {
        lease.saturating_sub(self.margin)
    }

    /// The attempt of another client, whose entry shows this many renewals.
    pub(crate) fn after(self, renewals: u64) -> Self {
        Attempt {
            renewals: Arc::new(AtomicU64::new(renewals)),
            ..self
        }
    }

    /// The attempt to which a late entry belongs: more copies of its request may be under way.
    pub(crate) fn late(entry: &Entry) -> Self {
        Attempt {
            in_doubt: AtomicBool::new(true),
            ..Attempt::new(entry.nonce, entry.tickets, entry.permits)
        }
    }

    /// The name of its place, by the newest of its tickets.
    pub(crate) fn place_id(&self, name: &LockName, newest: Ticket) -> PlaceId {
        PlaceId::of(name, self.nonce, (newest, self.tickets), self.permits)
    }

    /// The same attempt, for the next caller at its place.
    pub(crate) fn again(&self) -> Self {
        Attempt {
            nonce: self.nonce,
            tickets: self.tickets,
            permits: self.permits,
            attributes: self.attributes.clone(),
            lasting: self.lasting.clone(),
            margin: self.margin,
            in_doubt: AtomicBool::new(self.is_in_doubt()),
            renewals: Arc::clone(&self.renewals),
            registration: self.registration.clone(),
        }
    }

    /// The attempt whose place other clients can notify.
    pub(crate) fn notified(self, registration: Registration) -> Self {
        Attempt {
            registration: Some(Arc::new(registration)),
            ..self
        }
    }

    pub(crate) fn registration(&self) -> Option<&Registration> {
        self.registration.as_deref()
    }

    /// Its place is about to end: no place behind it may take it for one that stays.
    pub(crate) fn confirms_no_more(&self) {
        if let Some(registration) = self.registration() {
            registration.leaves();
        }
    }

    /// Where other clients notify its place, as its entry says.
    pub(crate) fn address(&self) -> Option<&Arc<str>> {
        self.registration().map(Registration::address)
    }

    /// The beat of the next renewal. No other renewal of this attempt has it, answered or not: so a beat in the table tells which
    /// renewal made it.
    pub(crate) fn next_beat(&self) -> u64 {
        self.renewals.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// Whether it is for a lease, which belongs to any process that knows its name.
    pub(crate) fn is_named(&self) -> bool {
        self.lasting.is_some()
    }

    pub(crate) fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Relaxed)
    }

    /// Its entry, which starts now.
    pub(crate) fn entry(&self, store: &Store, ticket: Ticket) -> Entry {
        let lasting = self.lasting.as_ref();
        let config = store.config();
        let stamps = match lasting {
            Some(_) => store.past().unwrap_or_default(),
            None => store.stamps(),
        };
        Entry {
            nonce: self.nonce,
            attributes: self.attributes.clone(),
            id: lasting.map(|(id, _)| id.clone()),
            owner: config.owner.clone(),
            ticket,
            tickets: self.tickets,
            permits: self.permits,
            beat: 0,
            session: None,
            lease: lasting.map_or_else(|| self.in_table(config.lease), |(_, lease)| *lease),
            stamps,
            since: stamps.server,
            address: self.address().cloned(),
            given_back: false,
            unknown: Unknown::default(),
        }
    }

    /// The history of a place of it that was taken by a request first sent at `first_sent`: its lease counts from there, whichever try was
    /// applied. The last one was sent as `answered` says. What this client's clock has counted in between, its stamps are not early by. They
    /// carry on what was `told` at first, or later.
    pub(crate) fn history(
        &self,
        store: &Store,
        (first_sent, told): (Moment, ToldTime),
        (shown, answered): (&Entry, Answered),
    ) -> RenewalHistory {
        let answered = Answered { told, ..answered };
        let counted = answered.sent.since(first_sent);
        let early = answered.early(shown).saturating_sub(counted);
        RenewalHistory::taken((first_sent, early), store.config().lease).with_margin(self.margin)
    }

    /// Renews what `entry` finds in the item, with stamps. If a refusal is due to a later renewal of the same attempt, or to a second copy
    /// of this one, the entry is renewed all the same.
    ///
    /// A lease counts from before its stamp is taken. A process that stops in between, and then sends, must not rely on the lease for
    /// longer than the clients that judge it by its stamps.
    pub(crate) async fn renewed<T, Fut>(
        &self,
        store: &Store,
        write: impl Fn(u64, Stamps) -> Fut + Send,
        entry: impl Fn(&T) -> Option<&Entry> + Send + Sync,
    ) -> Result<Timed<Write<T>>, Failure>
    where
        T: Send + Sync,
        Fut: Future<Output = Result<Timed<Write<T>>, Failure>> + Send,
    {
        let (told, began) = (store.told(), store.now());
        let sent = self.next_beat();
        let answer = write(sent, store.stamps()).await?;
        let refused = |write: &Write<T>, beat| match write {
            Write::Applied(_) => None,
            Write::ConditionFailed(item) => {
                let own = item.as_ref().and_then(&entry);
                let own = own.filter(|own| own.nonce == self.nonce);
                Some(Renewal::refused(own.map(|own| own.beat), beat))
            }
        };
        let value = match (refused(&answer.value, sent), answer.value) {
            (Some(Renewal::Stands), Write::ConditionFailed(Some(item))) => Write::Applied(item),
            (Some(Renewal::Older), _) => return Err(overtaken()),
            (_, write) => write,
        };
        Ok(Timed {
            value,
            sent: began,
            told,
            ..answer
        })
    }

    pub(crate) fn note<T>(&self, answer: Result<T, Failure>) -> Result<T, Failure> {
        if answer.as_ref().is_err_and(Failure::is_ambiguous) {
            self.in_doubt.store(true, Ordering::Relaxed);
        }
        answer
    }
}

/// The failure of a renewal that others overtook each time, so that neither it nor a later one applied. The next one may.
fn overtaken() -> Failure {
    Failure {
        verb: "renew",
        kind: Kind::Conflict(cause("other renewals of the same place came in between")),
    }
}
