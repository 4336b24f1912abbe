//! A caller: takes its turns on the locks of its plan, gives up at any moment, and writes to what the locks protect.

use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use fairlock::{Error, LockGuard, RecordWait};
use fastrand::Rng;
use futures::future::join_all;
use tokio::time::Instant;

use crate::bounds::Bounds;
use crate::call::Call;
use crate::checked;
use crate::data;
use crate::history::Event;
use crate::leases;
use crate::multi_lock;
use crate::operator;
use crate::plan::Sharing;
use crate::stay::Stay;
use crate::wanted::Wanted;
use crate::world::{Host, World, wait};

/// How long a caller that overstays goes on believing after it released the lock.
const OVERSTAYED: Duration = Duration::from_millis(50);

/// Takes turns until the world stops, and then one more without a time limit, which is granted because there are no faults. The worker may
/// bring other callers that want the same lock at nearly the same moment.
pub(crate) async fn work(world: Arc<World>, host: Arc<Host>, mut rng: Rng) {
    while !world.stopping.get() {
        let lock = any_lock(&world, &host, &mut rng);
        let callers = callers(&host, &mut rng);
        join_all(callers.map(|rng| take_turn(&world, &host, &lock, rng))).await;
    }
    let lock = any_lock(&world, &host, &mut rng);
    let callers = callers(&host, &mut rng);
    join_all(callers.map(|rng| last_turn(&world, &host, &lock, rng))).await;
}

fn callers(host: &Host, rng: &mut Rng) -> impl Iterator<Item = Rng> {
    let count = rng.usize(1..=host.plan.crowd);
    (0..count).map(|_| rng.fork())
}

/// Makes one call, whatever its result.
async fn take_turn(world: &World, host: &Host, lock: &Wanted, mut rng: Rng) {
    if world.plan.leases > 0 && rng.u8(0..world.plan.leases) == 0 {
        return leases::take_turn(world, host, lock, &mut rng).await;
    }
    if world.plan.has_several && rng.u8(0..3) == 0 {
        return multi_lock::take_turn(world, host, &mut rng).await;
    }
    let wanted = lock.draw(world, &mut rng).bounded(world, host, &mut rng);
    if rng.bool() {
        wait(Duration::from_millis(rng.u64(0..20))).await;
    }
    let how = RetryPolicy::draw(&mut rng, world.plan.only_infinite);
    let began = Instant::now();
    let mut call = Call::begin(world, host, &wanted, how.wait);
    match how.has(world, host, wanted.acquire(how.wait)).await {
        Some(Ok(guard)) => turn(world, host, (&mut call, wanted.bounds), guard, &mut rng).await,
        Some(Err(error)) => {
            drop(call);
            let is_due = is_due(&error, how.wait, host, (wanted.name(), began));
            refused(world, how.wait, &error, is_due, &mut rng).await;
        }
        None => world.tally.fault("wait dropped"),
    }
}

/// Handles an error: pauses if it was due, and otherwise records a surprise.
pub(crate) async fn refused(
    world: &World,
    wait: RecordWait,
    error: &Error,
    is_due: bool,
    rng: &mut Rng,
) {
    if !is_due {
        return surprised(world, wait, error);
    }
    if wait == RecordWait::Infinite {
        world.tally.fault("outage given up");
    }
    pause(world, Duration::from_millis(rng.u64(20..800))).await;
}

/// Works until the hold is lost, or the work is done. A host that stood still works on when it continues.
pub(crate) async fn works<T>(
    world: &World,
    host: &Host,
    lost: impl Future<Output = T>,
    rng: &mut Rng,
) {
    tokio::select! {
        biased;
        _ = lost => {}
        () = pause(world, span_of_work(world, host, rng)) => {}
    }
    host.link.awake().await;
}

async fn last_turn(world: &World, host: &Host, lock: &Wanted, mut rng: Rng) {
    let wanted = lock.draw(world, &mut rng);
    // The loop ends with the requests that were under way when the faults ended: a caller that joins others shares their outage too.
    loop {
        let began = Instant::now();
        let mut call = Call::begin(world, host, &wanted, RecordWait::Infinite);
        match wanted.acquire(RecordWait::Infinite).await {
            Ok(guard) => {
                break turn(world, host, (&mut call, wanted.bounds), guard, &mut rng).await;
            }
            Err(error) if is_due(&error, RecordWait::Infinite, host, (wanted.name(), began)) => {}
            Err(error) => break surprised(world, RecordWait::Infinite, &error),
        }
    }
}

fn any_lock(world: &World, host: &Host, rng: &mut Rng) -> Wanted {
    let name = rng.choice(&world.plan.locks).unwrap();
    Wanted::alone(world, host, name)
}

/// Whether a call for that lock, which began at `began`, may end with this error. Another client may hold the lock, if the call has a time
/// limit. Or the host's link gave cause, or had no answer yet.
pub(crate) fn is_due(
    error: &Error,
    wait: RecordWait,
    host: &Host,
    (lock, began): (&str, Instant),
) -> bool {
    let harm = host.link.harm();
    let since = |at: Option<Instant>| at.is_some_and(|at| began <= at);
    // A caller that joins others before they have a place, or joins their batch, may learn that their last request was not answered.
    let lately = |at: Option<Instant>| at.is_some_and(|at| began <= at + host.plan.timeout * 2);
    match error {
        Error::NotGranted { .. } => wait != RecordWait::Infinite,
        // A call without a time limit does not end by an outage, unless an outage time-out is set.
        Error::Unavailable { .. }
            if wait == RecordWait::Infinite && host.plan.outage_timeout.is_none() =>
        {
            false
        }
        Error::Unavailable { .. } => lately(harm.any) || host.link.is_asking_for(lock, began),
        Error::Refused { .. } => since(harm.denied),
        _ => false,
    }
}

fn surprised(world: &World, wait: RecordWait, error: &Error) {
    let told = format!("{wait:?} ends with: {error}");
    world.history.note(Event::Surprise(told));
}

/// How a caller waits, and what makes it drop the future.
pub(crate) struct RetryPolicy {
    pub(crate) wait: RecordWait,
    drop: Drops,
}

enum Drops {
    Never,
    After(Duration),
    /// When its host has sent this many more requests, which covers every step in turn.
    Requests(u64),
    Polls(u32),
}

impl RetryPolicy {
    pub(crate) fn draw(rng: &mut Rng, only_infinite: bool) -> RetryPolicy {
        let wait = match rng.u8(0..6) {
            _ if only_infinite => RecordWait::Infinite,
            0 => RecordWait::NoWait,
            1 => RecordWait::Timeout(Duration::from_millis(rng.u64(1..10_000))),
            _ => RecordWait::Infinite,
        };
        let drop = match rng.u8(0..16) {
            0 => Drops::After(Duration::from_millis(rng.u64(0..3_000))),
            1 | 2 => Drops::Requests(rng.u64(1..15)),
            3 => Drops::Polls(rng.u32(1..4)),
            _ => Drops::Never,
        };
        RetryPolicy { wait, drop }
    }

    /// Returns the call's result. Returns `None` if the call was dropped before.
    pub(crate) async fn has<T>(
        &self,
        world: &World,
        host: &Host,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Option<Result<T, Error>> {
        let granted = async {
            let granted = call.await;
            let late = world.told_late(host);
            if granted.is_err() && !late.is_zero() {
                wait(late).await;
            }
            granted
        };
        tokio::select! {
            biased;
            granted = polled(granted, &self.drop) => granted,
            () = self.dropped(host), if !world.stopping.get() => None,
        }
    }

    async fn dropped(&self, host: &Host) {
        match self.drop {
            Drops::After(span) => wait(span).await,
            Drops::Requests(more) => host.link.has_sent(more).await,
            Drops::Never | Drops::Polls(_) => std::future::pending().await,
        }
    }
}

/// Polls a future as often as `drop` allows. Returns `None` if it is not ready by then.
async fn polled<T>(future: impl Future<Output = T>, drop: &Drops) -> Option<T> {
    let mut left = match drop {
        Drops::Polls(left) => *left,
        _ => u32::MAX,
    };
    let mut future = pin!(future);
    std::future::poll_fn(move |context| {
        left = left.saturating_sub(1);
        match future.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// Takes one turn with the lock. A host that stood still works on when it continues, and may write before it checks its hold.
pub(crate) async fn turn(
    world: &World,
    host: &Host,
    (call, bounds): (&mut Call, Bounds),
    mut guard: LockGuard,
    rng: &mut Rng,
) {
    call.is_granted();
    let mut stay = Stay::begin(world, host.id, call.number, (&guard, bounds));
    host.known.is_at(&guard.place_id());
    host.link.awake().await;
    let is_alone = guard.permits() == guard.total_permits();
    if is_alone {
        stay.write(world, guard.name(), guard.ticket().get());
    }
    if world.plan.has_data {
        data::found(world, &guard);
    }
    let heeds = world.plan.operates && rng.bool();
    let over = async {
        tokio::select! {
            biased;
            _ = guard.lost() => {}
            _ = guard.asked_to_yield(), if heeds => {}
            () = stays_lost(world, host, &guard), if bounds != Bounds::default() => {}
        }
    };
    works(world, host, over, rng).await;
    operator::was_told(world, &guard).await;
    if is_alone && (guard.is_held() || rng.bool()) {
        stay.write(world, guard.name(), guard.ticket().get());
    }
    if world.plan.has_checks && is_alone && rng.bool() {
        checked::write(world, host, &guard).await;
    }
    if world.plan.has_data && is_alone && rng.bool() {
        data::put(world, &guard, rng).await;
        host.link.awake().await;
    }
    if world.plan.sharing != Sharing::None && is_alone && rng.bool() {
        stay.keeps(1);
        // The downgrade may be lost or not answered, like a release.
        let _ = guard.downgrade().await;
        pause(world, span_of_work(world, host, rng)).await;
        host.link.awake().await;
    } else if world.plan.parts && guard.permits() > 1 {
        in_parts(world, host, (&stay, &mut guard), rng).await;
    }
    if world.overstays() {
        drop(guard);
        return pause(world, OVERSTAYED).await;
    }
    stay.give_back();
    // The release may be lost or not answered: the history shows whether that did any harm.
    if rng.bool() && guard.release().await.is_ok() {
        stay.is_released();
    }
}

/// Watches whether a hold that its client took for lost comes back. Never ends.
async fn stays_lost(world: &World, host: &Host, guard: &LockGuard) {
    let mut was_held = true;
    loop {
        let is_held = guard.is_held();
        if is_held && !was_held {
            let ticket = guard.ticket();
            let told = format!("the hold of {} at {} came back", ticket, guard.name());
            world.history.note(Event::Surprise(told));
        }
        was_held = is_held;
        wait(host.plan.lease / 40).await;
    }
}

/// Gives a part of the permits back.
async fn in_parts(
    world: &World,
    host: &Host,
    (stay, guard): (&Stay, &mut LockGuard),
    rng: &mut Rng,
) {
    let part = rng.u64(1..guard.permits());
    stay.keeps(guard.permits() - part);
    let _ = guard.release_some(part).await;
    world.tally.fault("part released");
    pause(world, span_of_work(world, host, rng)).await;
    host.link.awake().await;
}

fn span_of_work(world: &World, host: &Host, rng: &mut Rng) -> Duration {
    match rng.u8(0..world.plan.long_turns) {
        0 => host.plan.lease.mul_f64(rng.f64() * 1.5),
        1 => Duration::ZERO,
        _ => Duration::from_millis(rng.u64(0..150)),
    }
}

/// Sleeps, but no longer than until the world stops.
pub(crate) async fn pause(world: &World, span: Duration) {
    tokio::select! {
        biased;
        _ = world.stopping.is(|stopping| *stopping) => {}
        () = wait(span) => {}
    }
}
