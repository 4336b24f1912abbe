//! Judges each lock while the soak runs: which callers believe, in what order, with which tokens, and whether the queue moves.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlock::LockGuard;
use fairlock_cli::contention::monotonic::now_ns;

use crate::soak::findings::Findings;
use crate::soak::register::{Fence, Register};

/// Locks that were not used for this long are forgotten. That is longer than idle items stay in the table, so the oracle sees that tickets
/// grow across the removal of their items.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(900);

pub(crate) struct Oracle {
    locks: Mutex<HashMap<String, Case>>,
    fence: Fence,
    pub(crate) findings: Arc<Findings>,
}

/// A lock, and what it protects.
#[derive(Default)]
struct Case {
    believers: Vec<Believer>,
    newest: u64,
    register: Register,
    /// Callers that wait without end.
    endless: usize,
    /// When the lock was last granted, or when the first of its current waiters came.
    moved: u64,
    /// When the lock was last released, to time the handoff.
    given_back: Option<u64>,
}

enum Believer {
    Holding(Arc<LockGuard>),
    /// Planted: believes whatever its guard says.
    Stubborn(u64),
}

impl Oracle {
    pub(crate) fn new(fence: Fence, findings: &Arc<Findings>) -> Oracle {
        Oracle {
            locks: Mutex::default(),
            fence,
            findings: Arc::clone(findings),
        }
    }

    /// A caller that asked at `asked` was given this guard. Returns how long the handoff took, if the caller waited for one.
    pub(crate) fn granted(&self, guard: &Arc<LockGuard>, asked: u64) -> Option<Duration> {
        let mut locks = self.locks();
        let case = locks.entry(guard.name().to_owned()).or_default();
        let (ticket, now) = (guard.ticket().get(), now_ns());
        // The others are asked after `now` was taken. A caller that believes now also believed then, because it has believed since before
        // that.
        let others = case.believers.iter().filter(|other| other.believes());
        let others: Vec<_> = others.map(Believer::ticket).collect();
        if guard.is_held() {
            let lock = guard.name();
            for other in others {
                self.findings.add(format!(
                    "overlap: tickets {other} and {ticket} of `{lock}` believed at the same time"
                ));
            }
            if ticket <= case.newest {
                let newest = case.newest;
                self.findings.add(format!(
                    "out of order: ticket {ticket} of `{lock}` was granted after {newest}"
                ));
            }
        }
        case.newest = case.newest.max(ticket);
        case.believers.push(Believer::Holding(Arc::clone(guard)));
        case.moved = now;
        let given_back = case.given_back.take().filter(|at| asked < *at);
        given_back.map(|at| Duration::from_nanos(now.saturating_sub(at)))
    }

    /// Writes to what the lock protects, with this token. A guard that is still believed in must not be refused.
    pub(crate) fn writes(&self, guard: &LockGuard, token: u64) {
        let mut locks = self.locks();
        let case = locks.entry(guard.name().to_owned()).or_default();
        let newest = case.register.newest();
        let is_taken = case.register.write(token, self.fence);
        let lock = guard.name();
        if is_taken && token < newest {
            self.findings
                .add(format!("stale: `{lock}` took token {token} after {newest}"));
        } else if !is_taken && guard.is_held() {
            self.findings.add(format!(
                "refused: `{lock}` refused token {token} of a believing holder after {newest}"
            ));
        }
    }

    /// The caller stops believing.
    pub(crate) fn ended(&self, guard: &LockGuard) {
        let ticket = guard.ticket().get();
        if let Some(case) = self.locks().get_mut(guard.name()) {
            case.believers
                .retain(|believer| believer.ticket() != ticket);
            case.given_back = guard.is_held().then(now_ns);
        }
    }

    /// Planted: the caller goes on believing.
    pub(crate) fn persists(&self, lock: &str, ticket: u64) {
        if let Some(case) = self.locks().get_mut(lock) {
            case.believers.clear();
            case.believers.push(Believer::Stubborn(ticket));
        }
    }

    /// A caller waits without end, until the returned value is dropped.
    pub(crate) fn waits(&self, lock: &str) -> Endless<'_> {
        let mut locks = self.locks();
        let case = locks.entry(lock.to_owned()).or_default();
        if case.endless == 0 {
            case.moved = now_ns();
        }
        case.endless += 1;
        Endless {
            oracle: self,
            lock: lock.to_owned(),
        }
    }

    /// Finds locks that were not granted for `bound` although a caller waits without end. Forgets unused locks.
    pub(crate) fn check_stalls(&self, bound: Duration) {
        let now = now_ns();
        let since = |then: u64| Duration::from_nanos(now.saturating_sub(then));
        let mut locks = self.locks();
        for (lock, case) in locks.iter_mut() {
            if case.endless > 0 && since(case.moved) > bound {
                let waiting = case.endless;
                self.findings.add(format!(
                    "stall: nobody was granted `{lock}` for {bound:?}, and {waiting} wait"
                ));
                case.moved = now;
            }
        }
        locks.retain(|_, case| {
            let is_idle = case.endless == 0 && case.believers.is_empty();
            !is_idle || since(case.moved) < FORGOTTEN_AFTER
        });
    }

    fn locks(&self) -> MutexGuard<'_, HashMap<String, Case>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Believer {
    fn believes(&self) -> bool {
        match self {
            Believer::Holding(guard) => guard.is_held(),
            Believer::Stubborn(_) => true,
        }
    }

    fn ticket(&self) -> u64 {
        match self {
            Believer::Holding(guard) => guard.ticket().get(),
            Believer::Stubborn(ticket) => *ticket,
        }
    }
}

/// A caller that waits without end.
pub(crate) struct Endless<'a> {
    oracle: &'a Oracle,
    lock: String,
}

impl Drop for Endless<'_> {
    fn drop(&mut self) {
        if let Some(case) = self.oracle.locks().get_mut(&self.lock) {
            case.endless -= 1;
        }
    }
}
