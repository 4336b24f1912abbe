//! What callers hold in their hands: a client, the locks that it names, and the guards of their holds. All is asked of the client's driver.

pub(crate) mod client;
pub(crate) mod data;
pub(crate) mod events;
pub(crate) mod fair_lock;
pub(crate) mod guard;
pub(crate) mod leader;
pub(crate) mod lease_lock;
pub(crate) mod multi_lock;
pub(crate) mod run;
mod scope;
pub(crate) mod semaphore;
