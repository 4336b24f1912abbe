//! The client as a value, as a contender uses it.

use fairlock::Held;
use fairlock_protocol::agent::{Claim, Done};
use fairlock_protocol::failure::Failure;

use super::baseline::Failed;
use super::fair::Fair;

pub(crate) struct Driven(pub(crate) Fair);

impl Driven {
    pub(crate) async fn acquire(&self) -> Result<Held, Failed> {
        let (locks, name) = (&self.0.locks, self.0.lock.name());
        let asked = locks.driven().acquire(name, self.0.wait, Claim::default());
        asked.await.map_err(|why| format!("{why:?}").into())
    }
}

pub(crate) fn released(done: Result<Done, Failure>) -> Result<(), Failed> {
    match done.map_err(|failure| failure.to_string())? {
        Done::HandedOff(_) | Done::PassedOn | Done::ReleasedEarlier => Ok(()),
        lost => Err(format!("{lost:?}").into()),
    }
}
