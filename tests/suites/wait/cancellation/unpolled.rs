//! A call that is no longer polled, and the callers behind it. They soon get what it waited for or was granted.

use std::future::pending;
use std::pin::pin;
use std::sync::mpsc::channel;
use std::time::Duration;

use fairlock::{Error, FairLock, LockClient, LockGuard, RecordWait};
use futures::future::join;
use futures::poll;
use futures::stream::{self, StreamExt};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::{Instant, advance, timeout};

use super::stage::single;
use fairlock_testkit::assert_is;
use fairlock_testkit::datagram_network::Post;
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, waits};

/// The two request time-outs after which a guard is given back, and a few polls.
const PROMPT: Duration = Duration::from_secs(12);
/// The time-out of the calls that have one.
const TIME: Duration = Duration::from_secs(5);
/// More steps than there are from a release to the poll of the call that is granted the lock.
const STEPS: usize = 120;

type Ended = Result<LockGuard, Error>;

/// Why the call is not polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The future is polled once, and again after everything else has ended.
    Once,
    /// `select!` runs another of its branches.
    Select,
    /// The loop over `buffer_unordered` works with the lock that came first.
    Buffered,
    /// The caller's thread is blocked, and the client runs on another one.
    Blocked,
    /// A planted mistake: the call is polled, and its guard is kept for as long as the other calls are not polled.
    Keeps,
}

/// Where the call stands when it is no longer polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a free lock.
    Free,
    Slot,
    Row,
    /// The second of three calls of one client.
    Middle,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    pub(crate) way: Way,
    pub(crate) place: Place,
    pub(crate) wait: RecordWait,
    /// When the holder releases.
    pub(crate) releases: Duration,
    /// The clients notify each other when to poll.
    pub(crate) notifies: bool,
}

/// Every way at every place. The lock comes before the call's time has ended, and after it.
pub(crate) fn all() -> Vec<Stall> {
    let mut stalls = Vec::new();
    for way in [Way::Once, Way::Select, Way::Buffered, Way::Blocked] {
        for wait in [
            RecordWait::Timeout(TIME),
            RecordWait::Infinite,
            RecordWait::NoWait,
        ] {
            stalls.extend(at_places(way, wait));
        }
    }
    stalls
}

pub(crate) fn at_places(way: Way, wait: RecordWait) -> Vec<Stall> {
    let is_timed = wait != RecordWait::Infinite;
    if is_timed && way == Way::Blocked {
        // Its thread has a clock of its own.
        return Vec::new();
    }
    let places: &[Place] = match wait {
        RecordWait::NoWait => &[Place::Free],
        _ => &[Place::Free, Place::Slot, Place::Row, Place::Middle],
    };
    let cells = places.iter().flat_map(|place| {
        [2, 60].map(|releases| Stall {
            way,
            place: *place,
            wait,
            releases: SECOND * releases,
            notifies: false,
        })
    });
    cells.collect()
}

impl Stall {
    /// Whether the lock comes to the call before it stops waiting.
    fn is_granted(self) -> bool {
        let is_over = self.wait == RecordWait::Timeout(TIME) && self.releases > TIME;
        self.place == Place::Free || !is_over
    }
}

/// Plays the cell, and returns how long the next caller waited for the lock after it could be granted.
pub(crate) async fn play(cell: Stall) -> Duration {
    let lab = Lab::new().await;
    let post = cell.notifies.then(|| Post::seeded(1));
    let [one, successor, two, three] =
        [(); 4].map(|()| single(&lab, post.as_ref().map(Post::notifier)));
    let holder = match cell.place {
        Place::Free => None,
        _ => Some(acquire(&one).await),
    };
    let before = match cell.place {
        Place::Row => Some(turn(&successor)),
        Place::Middle => Some(turn(&two)),
        _ => None,
    };
    if cell.place == Place::Row {
        lab.settle().await;
    }
    yield_now().await;
    let (resume, resumed) = oneshot::channel();
    let stalled = stalls(cell, &two, resumed);
    yield_now().await;
    let behind = (cell.place == Place::Middle).then(|| turn(&two));
    lab.settle().await;
    let next = tokio::spawn(timeout(120 * SECOND, acquires(three.locks.clone())));
    lab.wait(cell.releases).await;
    let released = Instant::now();
    if let Some(holder) = holder {
        holder.release().await.unwrap();
    }
    let (guard, granted) = next
        .await
        .unwrap()
        .unwrap_or_else(|_| unreachable!("the next waits for ever: {cell:?}"));
    guard.release().await.unwrap();
    for turn in before.into_iter().chain(behind) {
        turn.await.unwrap();
    }
    resume.send(()).unwrap();
    judge(cell, stalled.await.unwrap());
    assert!(lab.is_free("a").await, "not free: {cell:?}");
    assert_eq!(lab.items("a").await, ["fairlock/#lock"], "{cell:?}");
    granted.saturating_duration_since(released)
}

/// Checks the result that the call gets when it is polled at last.
fn judge(cell: Stall, ended: Ended) {
    match ended {
        Err(Error::NotGranted { untaken, .. }) => {
            assert_eq!(untaken, cell.is_granted(), "{cell:?}");
        }
        other => unreachable!("{other:?}: {cell:?}"),
    }
}

pub(crate) fn is_prompt(took: Duration) -> bool {
    took < PROMPT
}

async fn acquires(locks: LockClient) -> (LockGuard, Instant) {
    let lock = locks.fair_lock("a").unwrap();
    let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
    (guard, Instant::now())
}

/// A caller that is polled, and releases the lock at once.
fn turn(host: &Host) -> JoinHandle<()> {
    let lock = host.lock();
    tokio::spawn(async move {
        let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
        guard.release().await.unwrap();
    })
}

/// The call, polled until it waits, and then not again until it is resumed.
fn stalls(cell: Stall, host: &Host, resumed: oneshot::Receiver<()>) -> JoinHandle<Ended> {
    let (lock, other) = (host.lock(), host.locks.fair_lock("x").unwrap());
    let wait = cell.wait;
    match cell.way {
        Way::Once => tokio::spawn(once(lock, wait, resumed)),
        Way::Select => tokio::spawn(select(lock, wait, resumed)),
        Way::Buffered => tokio::spawn(buffered([other, lock], wait, resumed)),
        Way::Blocked => blocked(lock, wait, resumed),
        Way::Keeps => tokio::spawn(async move {
            let ended = lock.acquire(wait).await;
            resumed.await.unwrap();
            ended
        }),
    }
}

async fn once(lock: FairLock, wait: RecordWait, resumed: oneshot::Receiver<()>) -> Ended {
    let mut call = pin!(lock.acquire(wait));
    assert!(poll!(&mut call).is_pending());
    resumed.await.unwrap();
    call.await
}

async fn select(lock: FairLock, wait: RecordWait, resumed: oneshot::Receiver<()>) -> Ended {
    let mut call = pin!(lock.acquire(wait));
    let mut work = Some(resumed);
    loop {
        tokio::select! {
            biased;
            ended = &mut call => return ended,
            () = async {}, if work.is_some() => work.take().unwrap().await.unwrap(),
        }
    }
}

async fn buffered(locks: [FairLock; 2], wait: RecordWait, resumed: oneshot::Receiver<()>) -> Ended {
    let calls = locks.map(|lock| async move { lock.acquire(wait).await });
    let mut calls = stream::iter(calls).buffer_unordered(2);
    let first = calls.next().await.unwrap().unwrap();
    assert_eq!(first.name(), "x");
    resumed.await.unwrap();
    calls.next().await.unwrap()
}

fn blocked(lock: FairLock, wait: RecordWait, resumed: oneshot::Receiver<()>) -> JoinHandle<Ended> {
    let (began, begun) = channel();
    let (go_on, goes_on) = channel();
    let (end, ended) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut call = pin!(lock.acquire(wait));
            assert!(poll!(&mut call).is_pending());
            began.send(()).unwrap();
            goes_on.recv().unwrap();
            drop(end.send(call.await));
        });
    });
    begun.recv().unwrap();
    tokio::spawn(async move {
        resumed.await.unwrap();
        go_on.send(()).unwrap();
        ended.await.unwrap()
    })
}

/// A runtime stands still at a moment between a release and the poll of the call that is granted the lock by it. The lock is not taken from
/// a caller that is polled as soon as anything runs. Returns whether the call had been granted before.
pub(crate) async fn stands_still(after: usize) -> bool {
    let lab = Lab::new().await;
    // Both callers are of one client, so that only steps lie between the two.
    let host = lab.host();
    let holder = acquire(&host).await;
    let mut next = waits(&lab, &host).await;
    let releasing = tokio::spawn(holder.release());
    for _ in 0..after {
        yield_now().await;
    }
    let was_granted = next.is_finished();
    advance(PROMPT).await;
    let guard = timeout(600 * SECOND, &mut next).await.unwrap().unwrap();
    assert!(guard.is_held(), "after {after} steps");
    releasing.await.unwrap().unwrap();
    guard.release().await.unwrap();
    was_granted
}

pub(crate) const MOMENTS: std::ops::Range<usize> = 0..STEPS;

async fn second_lock(host: &Host) -> LockGuard {
    let lock = host.locks.fair_lock("b").unwrap();
    lock.acquire(RecordWait::Infinite).await.unwrap()
}

/// `join!` polls both calls. So the first lock is held for as long as the second is awaited, and no longer.
pub(crate) async fn joined() {
    let lab = Lab::new().await;
    let (one, two, three) = (lab.host(), lab.host(), lab.host());
    let held = second_lock(&one).await;
    let locks = ["a", "b"].map(|name| two.locks.fair_lock(name).unwrap());
    let both = tokio::spawn(async move {
        let [a, b] = locks
            .each_ref()
            .map(|lock| lock.acquire(RecordWait::Timeout(TIME)));
        let (a, b) = join(a, b).await;
        drop(b.unwrap_err());
        drop(a.unwrap());
    });
    lab.settle().await;
    let started = Instant::now();
    let (guard, granted) = acquires(three.locks.clone()).await;
    assert!(granted - started < TIME + PROMPT);
    both.await.unwrap();
    guard.release().await.unwrap();
    held.release().await.unwrap();
    assert!(lab.is_free("a").await && lab.is_free("b").await);
}

/// A call for several locks holds the first and waits for the second when it is no longer polled.
pub(crate) async fn several(wait: RecordWait, releases: Duration) {
    let lab = Lab::new().await;
    let (one, two, three) = (lab.host(), lab.host(), lab.host());
    let held = second_lock(&one).await;
    let both = two.locks.multi_lock(["a", "b"]).unwrap();
    let mut call = pin!(both.acquire(wait));
    assert!(poll!(&mut call).is_pending());
    lab.settle().await;
    assert!(!is_to_be_had(&three).await);
    lab.wait(releases).await;
    held.release().await.unwrap();
    lab.wait(PROMPT).await;
    assert!(
        is_to_be_had(&three).await,
        "{wait:?}, released after {releases:?}"
    );
    assert_is!(call.await, Err(Error::NotGranted { .. }));
    assert!(lab.is_free("a").await && lab.is_free("b").await);
}

async fn is_to_be_had(host: &Host) -> bool {
    let guard = host.try_acquire().await;
    guard.is_some()
}

/// A candidate is granted the lock while it is not polled. It leads in the next turn for which it is polled.
pub(crate) async fn candidate() {
    let lab = Lab::new().await;
    let (one, two) = (lab.host(), lab.host());
    let holder = acquire(&one).await;
    let lock = two.lock();
    let mut leads = pin!(
        lock.candidate()
            .lead(async |_| -> std::ops::ControlFlow<()> { pending().await })
    );
    assert!(poll!(&mut leads).is_pending());
    lab.settle().await;
    holder.release().await.unwrap();
    lab.wait(PROMPT).await;
    let other = acquire(&one).await;
    assert!(poll!(&mut leads).is_pending());
    lab.settle().await;
    other.release().await.unwrap();
    assert!(timeout(SECOND, &mut leads).await.is_err());
    assert_eq!(
        lock.inspect().await.unwrap().holder.unwrap().owner,
        "host-1"
    );
}
