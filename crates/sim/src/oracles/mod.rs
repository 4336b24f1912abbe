//! The promises, each watched by an oracle that takes in one event after the other.

mod belief;
mod bounds;
mod broken;
mod calls;
mod data;
mod exclusion;
mod fencing;
mod order;
mod reasons;
#[cfg(test)]
mod tests;

use crate::agenda::At;
use crate::plan::Plan;
use crate::seen::Seen;

/// Watches a promise.
pub(crate) trait Oracle {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// Takes in what was seen at a true time. Says what is wrong if the promise is not kept.
    fn see(&mut self, at: At, seen: &Seen) -> Result<(), String>;
    /// The world has come to rest.
    fn rests(&mut self, at: At) -> Result<(), String> {
        let _ = at;
        Ok(())
    }
}

/// A promise that was not kept.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) oracle: &'static str,
    pub(crate) lock: Option<usize>,
    pub(crate) message: String,
}

/// All oracles.
pub(crate) struct Oracles(Vec<Box<dyn Oracle>>);

impl Oracles {
    pub(crate) fn of(plan: &Plan) -> Self {
        let locks = plan.locks;
        Oracles(vec![
            Box::new(exclusion::Exclusion::new(locks)),
            Box::new(belief::Belief::default()),
            Box::new(order::Order::new(locks)),
            Box::new(fencing::Fencing::new(locks)),
            Box::new(data::LeftData::new(locks)),
            Box::new(bounds::Longest::default()),
            Box::new(bounds::Kept::shortest(locks, plan)),
            Box::new(bounds::Kept::margin(locks)),
            Box::new(broken::Told::default()),
            Box::new(calls::Calls::default()),
            Box::new(reasons::Reasons::default()),
        ])
    }

    pub(crate) fn see(&mut self, at: At, seen: &Seen) -> Result<(), Violation> {
        self.each(seen.lock(), |oracle| oracle.see(at, seen))
    }

    pub(crate) fn rest(&mut self, at: At) -> Result<(), Violation> {
        self.each(None, |oracle| oracle.rests(at))
    }

    fn each(
        &mut self,
        lock: Option<usize>,
        mut asks: impl FnMut(&mut dyn Oracle) -> Result<(), String>,
    ) -> Result<(), Violation> {
        for oracle in &mut self.0 {
            asks(oracle.as_mut()).map_err(|message| Violation {
                oracle: oracle.name(),
                lock,
                message,
            })?;
        }
        Ok(())
    }
}
