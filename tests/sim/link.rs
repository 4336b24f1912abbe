//! One host's link to the table, on which a seed's faults happen to it.

use std::sync::{Arc, Mutex};

use fairlock::embedded::{Fault, Gate, Request, When};
use fastrand::Rng;
use tokio::sync::watch;

use crate::faults::{Rates, Tally};

/// How a host fares as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// Nothing that it sends arrives.
    CutOff,
    /// Its credentials are refused.
    Denied,
    /// It stands still: what it sends waits until it goes on, and so do the answers to what it sent before.
    Frozen,
    /// It never sends anything again, and hears of nothing.
    Dead,
}

pub(crate) struct Link {
    gate: Gate,
    mood: watch::Sender<Mood>,
    sent: watch::Sender<u64>,
    chance: Mutex<(Rng, Rates)>,
    tally: Arc<Tally>,
}

impl Link {
    pub(crate) fn new(rng: Rng, rates: Rates, tally: Arc<Tally>) -> Link {
        let gate = Gate::closed();
        gate.open();
        Link {
            gate,
            mood: watch::Sender::new(Mood::Well),
            sent: watch::Sender::new(0),
            chance: Mutex::new((rng, rates)),
            tally,
        }
    }

    pub(crate) fn mood(&self) -> Mood {
        *self.mood.borrow()
    }

    pub(crate) fn set(&self, mood: Mood) {
        self.mood.send_replace(mood);
        match mood {
            Mood::Frozen | Mood::Dead => self.gate.close(),
            Mood::Well | Mood::CutOff | Mood::Denied => self.gate.open(),
        }
    }

    pub(crate) fn set_rates(&self, rates: Rates) {
        self.chance.lock().unwrap().1 = rates;
    }

    /// Returns at once unless the host stands still.
    pub(crate) async fn awake(&self) {
        let mut mood = self.mood.subscribe();
        let _ = mood.wait_for(|mood| *mood != Mood::Frozen).await;
    }

    /// Returns when the host has sent so many more requests.
    pub(crate) async fn has_sent(&self, more: u64) {
        let mut sent = self.sent.subscribe();
        let until = *sent.borrow() + more;
        let _ = sent.wait_for(|sent| *sent >= until).await;
    }

    /// What becomes of a request. Its answer passes the gate, so that one who freezes or dies hears of nothing.
    pub(crate) fn decide(&self, request: &Request) -> Option<Fault> {
        let mood = self.mood();
        if mood == Mood::Dead {
            return Some(Fault::Lose(When::Before));
        }
        self.tally.request();
        self.sent.send_modify(|sent| *sent += 1);
        let heard = Fault::Hold(When::After, self.gate.clone());
        Some(match self.suffer(mood, request) {
            Some((kind, fault)) => {
                self.tally.fault(kind);
                heard.and(fault)
            }
            None => heard,
        })
    }

    fn suffer(&self, mood: Mood, request: &Request) -> Option<(&'static str, Fault)> {
        let mut chance = self.chance.lock().unwrap();
        let (rng, rates) = &mut *chance;
        let befalls = rates.befall(request, rng);
        match mood {
            Mood::CutOff => Some(("cut off", Fault::Lose(When::Before))),
            Mood::Denied => Some(("refused", Fault::Refuse("AccessDeniedException"))),
            Mood::Frozen => Some(("frozen", Fault::Hold(When::Before, self.gate.clone()))),
            Mood::Well | Mood::Dead => befalls,
        }
    }
}
