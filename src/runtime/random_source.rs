//! The only module that draws random numbers: nonces, and the jitter of pauses.

use std::sync::{Arc, Mutex, PoisonError};

use fairlock_protocol::entry::Nonce;

/// The source of a client's randomness: the operating system, or for tests a seed.
#[derive(Clone, Debug)]
pub(crate) struct RandomSource(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Seeded(Arc<Mutex<fastrand::Rng>>),
}

impl RandomSource {
    /// Takes nonces from the operating system, and jitter from a fast generator.
    pub(crate) fn system() -> Self {
        RandomSource(Source::System)
    }

    /// Takes everything from one seed, so that a simulated run repeats. Never for production: nonces must not repeat.
    pub(crate) fn seeded(seed: u64) -> Self {
        RandomSource(Source::Seeded(Arc::new(Mutex::new(
            fastrand::Rng::with_seed(seed),
        ))))
    }

    /// 128 bits that no other attempt, on any machine, ever had.
    pub(crate) fn nonce(&self) -> Nonce {
        match &self.0 {
            Source::System => Nonce::new(os_bits()),
            Source::Seeded(rng) => Nonce::new(locked(rng, |rng| rng.u128(..))),
        }
    }

    /// A seed for the jitter of one run of retries.
    pub(crate) fn seed(&self) -> u64 {
        match &self.0 {
            Source::System => system_jitter(),
            Source::Seeded(rng) => locked(rng, |rng| rng.u64(..)),
        }
    }

    /// A factor between 0.8 and 1.2, so that clients do not keep in step.
    pub(crate) fn jitter(&self) -> f64 {
        0.8 + self.unit() * 0.4
    }

    /// A number from 0 to below 1.
    pub(crate) fn unit(&self) -> f64 {
        (self.seed() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

fn locked<T>(rng: &Mutex<fastrand::Rng>, draw: impl FnOnce(&mut fastrand::Rng) -> T) -> T {
    draw(&mut rng.lock().unwrap_or_else(PoisonError::into_inner))
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to the generator that jitter comes from"
)]
fn system_jitter() -> u64 {
    fastrand::u64(..)
}

#[expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "this is the door to the system's randomness"
)]
fn os_bits() -> u128 {
    let mut bits = [0; 16];
    // A system without randomness cannot tell two attempts apart. No lock can be held safely there, and no retry helps.
    getrandom::fill(&mut bits).expect("the operating system gives random bits");
    u128::from_be_bytes(bits)
}
