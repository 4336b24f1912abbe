//! A contender, by any algorithm: acquires a hold, and releases it.

mod article;
mod baseline;
#[cfg(test)]
mod baselines;
mod fair;
mod heartbeat;
mod lease;

use fairlock::LockGuard;
use fairlock_cli::contention::error_chain::told;

use crate::algorithm::Algorithm;
use crate::contend::backend::{self, Backend};
use crate::contend::options::Options;
use crate::failure::Failure;
use article::{Article, Row};
use baseline::{Baseline, Failed};
use fair::Fair;
use lease::{Held, Lease};

pub(crate) enum Contender {
    Fair(Fair),
    Article(Article),
    Lease(Lease),
}

pub(crate) enum Hold {
    Fair(LockGuard),
    Article(Row),
    Lease(Held),
}

impl Contender {
    pub(crate) fn new(
        number: u32,
        options: &Options,
        backend: &Backend,
    ) -> Result<Contender, Failure> {
        let baseline = || Baseline {
            client: backend.single_requests(options),
            table: options.table.clone(),
            lock: options.lock.clone(),
            lease: options.lease,
            poll: options.poll(),
        };
        Ok(match options.algorithm {
            Algorithm::Fairlock => {
                let locks = backend.locks(options, number)?;
                Contender::Fair(Fair {
                    lock: backend::lock(options, &locks)?,
                    locks,
                    wait: options.wait.unwrap_or_default(),
                })
            }
            Algorithm::Article => Contender::Article(Article(baseline())),
            Algorithm::Lease => Contender::Lease(Lease(baseline())),
        })
    }

    pub(crate) async fn acquire(&self) -> Result<Hold, String> {
        let acquired = match self {
            Contender::Fair(fair) => fair.acquire().await.map(Hold::Fair),
            Contender::Article(article) => article.acquire().await.map(Hold::Article),
            Contender::Lease(lease) => lease.acquire().await.map(Hold::Lease),
        };
        acquired.map_err(|failed| told(&*failed))
    }

    /// Returns what could not be finished.
    pub(crate) async fn finish(self) -> Vec<String> {
        match self {
            Contender::Fair(fair) => fair.finish().await,
            Contender::Article(_) | Contender::Lease(_) => Vec::new(),
        }
    }
}

impl Hold {
    /// Returns the ticket. A record version number is no ticket.
    pub(crate) fn ticket(&self) -> Option<u64> {
        match self {
            Hold::Fair(guard) => Some(guard.ticket().get()),
            Hold::Article(row) => Some(row.ticket),
            Hold::Lease(_) => None,
        }
    }

    pub(crate) async fn release(self) -> Result<(), String> {
        let released = match self {
            Hold::Fair(guard) => guard.release().await.map_err(Failed::from),
            Hold::Article(row) => row.release().await,
            Hold::Lease(held) => held.release().await,
        };
        released.map_err(|failed| format!("released: {}", told(&*failed)))
    }
}
