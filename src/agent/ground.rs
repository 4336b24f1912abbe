//! What a driver stands on: its requests, its background work, and what its callers hold.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairlock_protocol::agent::HoldId;

use super::view::View;
use crate::runtime::background::Background;
use crate::store::requests::Requests;

/// What a driver stands on.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    pub(super) requests: Requests,
    pub(super) background: Arc<Background>,
    pub(super) views: Views,
}

/// The holds of a client that its driver keeps, as their callers see them.
#[derive(Clone, Debug, Default)]
pub(super) struct Views(Arc<Mutex<BTreeMap<HoldId, Arc<View>>>>);

impl Views {
    pub(super) fn insert(&self, hold: HoldId, view: Arc<View>) {
        self.views().insert(hold, view);
    }

    pub(super) fn get(&self, hold: HoldId) -> Option<Arc<View>> {
        self.views().get(&hold).cloned()
    }

    pub(super) fn remove(&self, hold: HoldId) -> Option<Arc<View>> {
        self.views().remove(&hold)
    }

    pub(super) fn all(&self) -> Vec<Arc<View>> {
        self.views().values().cloned().collect()
    }

    fn views(&self) -> MutexGuard<'_, BTreeMap<HoldId, Arc<View>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
