//! The only module that spawns background work, so that the work is counted and can be waited for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use futures::future::BoxFuture;
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

impl Job {
    /// The client hears that it is shut down.
    pub(crate) fn closes() -> Self {
        Job {
            lock: String::new(),
            ticket: None,
            task: Task::Close,
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.task {
            Task::Acquire => "leaving the queue of",
            Task::Leave => "leaving the queue of",
            Task::Release => "releasing",
            Task::Admit => "letting successors in at",
            Task::Clean => "cleaning up behind",
            Task::Close => "closing",
        };
        match self.ticket {
            Some(ticket) => write!(f, "{what} lock `{}` (ticket {ticket})", self.lock),
            None => write!(f, "{what} lock `{}`", self.lock),
        }
    }
}

/// The kinds of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Acquire,
    Leave,
    Release,
    Admit,
    Clean,
    /// The client hears that it is shut down.
    Close,
}

impl Task {
    /// Whether other clients wait for a lease if the work is not done.
    pub(crate) fn is_in_the_way(self) -> bool {
        matches!(self, Task::Acquire | Task::Leave | Task::Release)
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
    /// Jobs that ended without success, the newest of them.
    failed: VecDeque<Job>,
}

/// The most failures that are kept for a report.
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

    /// Runs `work` to its end, and then calls what it returned, which tells its caller that it is done. The job is off the list by then, so
    /// a caller that was notified of its end never finds it unfinished.
    pub(crate) fn spawn(
        self: &Arc<Self>,
        job: Job,
        work: impl Future<Output: FnOnce()> + Send + 'static,
    ) {
        let open = self.open(job);
        // Boxed, because the task would otherwise reserve memory for the work twice: as it was given, and as it runs.
        self.spawn_unlisted(Box::pin(async move {
            let done = work.await;
            drop(open);
            done();
        }));
    }

    /// Runs work that no caller waits for, and that ends with its client.
    pub(crate) fn spawn_unlisted(&self, work: impl Future<Output = ()> + Send + 'static) {
        spawn_apart(&self.runtime, work);
    }

    /// Lists a job that a task does beside another job.
    pub(crate) fn open(self: &Arc<Self>, job: Job) -> Open {
        let mut jobs = self.jobs();
        jobs.drawn += 1;
        let number = jobs.drawn;
        jobs.open.insert(number, job);
        Open {
            background: Arc::clone(self),
            number,
        }
    }

    /// Waits until no work runs. Cancel safe.
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
        // `Relaxed` is enough, because nothing is read on the strength of this flag. The last handle is dropped after the shutdown, which
        // borrowed a handle.
        self.is_reported.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_reported(&self) -> bool {
        self.is_reported.load(Ordering::Relaxed)
    }

    /// Records a job that was tried and could not be done.
    pub(crate) fn failed(&self, job: Job) {
        let mut jobs = self.jobs();
        jobs.failed.truncate(FAILED - 1);
        jobs.failed.push_front(job);
    }

    /// Forgets the jobs that could not be done so far.
    pub(crate) fn forget_failures(&self) {
        self.jobs().failed.clear();
    }

    /// The jobs that could not be done since failures were last forgotten.
    pub(crate) fn failures(&self) -> Vec<Job> {
        self.jobs().failed.iter().cloned().collect()
    }

    /// What was not done: the jobs that run, and those that failed.
    pub(crate) fn undone(&self) -> impl Iterator<Item = Job> + use<> {
        let unfinished = self.unfinished().into_iter();
        let told = unfinished.filter(|job| job.task != Task::Close);
        told.chain(self.failures())
    }

    /// The jobs that run.
    pub(crate) fn unfinished(&self) -> Vec<Job> {
        self.jobs().open.values().cloned().collect()
    }

    fn jobs(&self) -> std::sync::MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where work goes on that no caller waits for, and that ends by itself: in a client's runtime, or in the one that is there.
#[derive(Clone, Debug)]
pub(crate) struct Apart(pub(crate) Option<Handle>);

impl Apart {
    /// Runs the work until it has to wait for something. From then on it goes on by itself, as long as its runtime does.
    pub(crate) async fn run(&self, mut work: BoxFuture<'static, ()>) {
        let runtime = self.0.clone().or_else(|| Handle::try_current().ok());
        let is_done = poll_fn(|context| {
            // What the work opens belongs to the runtime in which it goes on.
            let _inside = runtime.as_ref().map(Handle::enter);
            Poll::Ready(work.as_mut().poll(context).is_ready())
        });
        match (is_done.await, runtime) {
            (true, _) => {}
            (false, Some(runtime)) => spawn_apart(&runtime, work),
            (false, None) => work.await,
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the door to background work"
)]
fn spawn_apart(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) {
    runtime.spawn(work);
}

/// Runs work on the runtime of the task that calls this.
pub(crate) fn spawn_here(work: impl Future<Output = ()> + Send + 'static) {
    spawn_apart(&Handle::current(), work);
}

/// A job on the list. Takes it off when it is dropped, also by a panic or a runtime that shuts down.
#[derive(Debug)]
pub(crate) struct Open {
    background: Arc<Background>,
    number: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.background.jobs().open.remove(&self.number);
        self.background.ended.notify_waiters();
    }
}
