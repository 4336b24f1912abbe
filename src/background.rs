//! The one place where background work is spawned, so that it is counted and can be waited for.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::Notify;

use fairlock_protocol::ticket::Ticket;

/// What a background task does, for the report of what was left undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub(crate) lock: String,
    pub(crate) ticket: Option<Ticket>,
    pub(crate) task: Task,
}

/// The kinds of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Acquire,
    Leave,
    Release,
    Admit,
    Clean,
    Heartbeat,
    Sweep,
    Poll,
}

impl Task {
    /// Whether others wait for a lease if it is not done.
    pub(crate) fn is_in_the_way(self) -> bool {
        matches!(self, Task::Acquire | Task::Leave | Task::Release)
    }

    /// Heartbeats go on until their guards go, which may be long after the client; of looks nobody waits for the end.
    /// Everything else ends by itself or, as sweeps do, when the client is shut down.
    fn ends(self) -> bool {
        !matches!(self, Task::Heartbeat | Task::Poll)
    }
}

/// The background work of one client, on the runtime it was built in.
#[derive(Debug)]
pub(crate) struct Background {
    runtime: Handle,
    jobs: Mutex<Jobs>,
    ended: Notify,
    /// A shutdown has told its caller what is unfinished.
    is_reported: AtomicBool,
}

#[derive(Debug, Default)]
struct Jobs {
    drawn: u64,
    open: BTreeMap<u64, Job>,
    /// Ended without success, the newest of them.
    failed: VecDeque<Job>,
}

/// Failures kept for a report at the most.
const FAILED: usize = 1024;

impl Background {
    pub(crate) fn new(runtime: Handle) -> Self {
        Background {
            runtime,
            jobs: Mutex::default(),
            ended: Notify::new(),
            is_reported: AtomicBool::new(false),
        }
    }

    /// Runs `work` to its end, and then calls what it returned, which tells its caller that it is done. The job is off the list
    /// by then, so that a caller that hears of its end never finds it unfinished.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        job: Job,
        work: impl Future<Output: FnOnce()> + Send + 'static,
    ) {
        self.spawn_with(job, |open| async move {
            let done = work.await;
            drop(open);
            done();
        });
    }

    /// Runs work that takes its job off the list itself, and may say meanwhile what it is about.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door to background work"
    )]
    pub(crate) fn spawn_with<W>(self: &Arc<Self>, job: Job, work: impl FnOnce(Open) -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        // Boxed, or the task would have room for the work twice: as it was given, and as it runs.
        self.runtime.spawn(Box::pin(work(self.open(job))));
    }

    /// Puts a job on the list that a task does beside another one.
    pub(crate) fn open(self: &Arc<Self>, job: Job) -> Open {
        let mut jobs = self.jobs();
        jobs.drawn += 1;
        let number = jobs.drawn;
        jobs.open.insert(number, job);
        Open(Listed {
            background: Arc::clone(self),
            number,
        })
    }

    /// Waits until nothing runs that ends by itself. Cancel safe.
    pub(crate) async fn idle(&self) {
        loop {
            let ended = self.ended.notified();
            if self.unfinished().is_empty() {
                return;
            }
            ended.await;
        }
    }

    /// Notes that a shutdown told its caller what is unfinished.
    pub(crate) fn reported(&self) {
        // Nothing is read on the strength of it: the last handle that is dropped comes after the shutdown that borrowed one.
        self.is_reported.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_reported(&self) -> bool {
        self.is_reported.load(Ordering::Relaxed)
    }

    /// Notes what was tried and could not be done.
    pub(crate) fn failed(&self, job: Job) {
        let mut jobs = self.jobs();
        jobs.failed.truncate(FAILED - 1);
        jobs.failed.push_front(job);
    }

    /// Forgets what could not be done so far.
    pub(crate) fn forget_failures(&self) {
        self.jobs().failed.clear();
    }

    /// What could not be done since then.
    pub(crate) fn failures(&self) -> Vec<Job> {
        self.jobs().failed.iter().cloned().collect()
    }

    /// What runs and should have ended.
    pub(crate) fn unfinished(&self) -> Vec<Job> {
        self.jobs()
            .open
            .values()
            .filter(|job| job.task.ends())
            .cloned()
            .collect()
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A job on the list, if it is still there.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    background: Arc<Background>,
    number: u64,
}

impl Listed {
    /// What the work is about from now on.
    pub(crate) fn becomes(&self, task: Task, ticket: Ticket) {
        let mut jobs = self.background.jobs();
        if let Some(job) = jobs.open.get_mut(&self.number) {
            (job.task, job.ticket) = (task, Some(ticket));
        }
        drop(jobs);
        if !task.ends() {
            self.background.ended.notify_waiters();
        }
    }
}

/// Takes a job off the list when it is dropped, also by a panic or a runtime that shuts down.
#[derive(Debug)]
pub(crate) struct Open(Listed);

impl Open {
    pub(crate) fn listed(&self) -> Listed {
        self.0.clone()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let Open(Listed { background, number }) = self;
        background.jobs().open.remove(number);
        background.ended.notify_waiters();
    }
}
