//! Keeps a hold renewed until it ends, and reports when it could not.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::error::LossReason;
use crate::hold::Hold;
use crate::holder;
use crate::place_writes;
use crate::requests::{Requests, RetryPolicy};
use crate::store::{Store, Timed, Write};
use crate::telemetry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{At, LockItem};
use fairlock_protocol::moment::Moment;

/// A renewal is late if it is sent more than a twentieth of a heartbeat after it was due.
const IN_STEP: u32 = 20;

/// Renews a hold until it ends. Ends it as lost when this client no longer holds the lock, or at the local deadline, whatever the network
/// does. `saw` gets every lock item that a renewal brings.
///
/// Ends with the hold: every pass of the loop renews it, or comes nearer to its deadline.
pub(crate) async fn keep(requests: &Requests, hold: &Hold, saw: impl Fn(&LockItem)) {
    let stop = CancellationToken::new();
    let _stop_pauses = stop.clone().drop_guard();
    tokio::select! {
        biased;
        () = hold.wait_inactive() => {}
        () = renew_in_time(requests, hold, stop, saw) => {}
    }
}

async fn renew_in_time(
    requests: &Requests,
    hold: &Hold,
    stop: CancellationToken,
    saw: impl Fn(&LockItem),
) {
    let store = &requests.store;
    let heartbeat = store.config().heartbeat;
    loop {
        let (due, before) = (hold.renewal_due(store), hold.footing().at);
        let policy = RetryPolicy::stopped_by(&stop).until(hold.believed_until());
        let answer = tokio::select! {
            biased;
            () = hold.wait_expiry() => return lose(hold, hold.expiry_reason()),
            answer = renew_when_due(requests, hold, due, &policy) => answer,
        };
        match answer.map(|answer| settle(hold, answer, (due, heartbeat), before)) {
            Some(Ok(item)) => saw(&item),
            Some(Err(loss)) => return lose(hold, loss),
            None => {}
        }
    }
}

/// Returns `None` if the renewal was refused for now: by a policy, for example, which may be corrected before the lease ends.
async fn renew_when_due(
    requests: &Requests,
    hold: &Hold,
    due: Moment,
    policy: &RetryPolicy,
) -> Option<Timed<Write<LockItem>>> {
    let store = &requests.store;
    let (clock, heartbeat) = (&store.config().clock, store.config().heartbeat);
    clock.sleep_until(due).await;
    // Boxed, so that the task of each hold does not reserve memory for it all the time.
    match Box::pin(requests.retry_renewal(policy, || renew_once(store, hold))).await {
        Ok(answer) => Some(answer),
        Err(_) => {
            clock.sleep(heartbeat / 4).await;
            None
        }
    }
}

async fn renew_once(store: &Store, hold: &Hold) -> Result<Timed<Write<LockItem>>, Failure> {
    let lease = hold.lease_to_ask_for(store.config());
    let renew = place_writes::renew(store, &hold.name, &hold.attempt, (hold.footing(), lease));
    let answer = renew.await;
    if let Err(failure) = &answer
        && hold.failed(failure)
    {
        tracing::warn!(lock = %hold.name, ticket = %hold.ticket, %failure, "a renewal failed and is tried again");
    }
    answer
}

/// Takes in the answer of a renewal that was due at `due`, of a hold that stood at `before` when it was waited for.
fn settle(
    hold: &Hold,
    answer: Timed<Write<LockItem>>,
    (due, heartbeat): (Moment, Duration),
    before: At,
) -> Result<LockItem, LossReason> {
    let answered = answer.answered();
    match answer.value {
        Write::Applied(item) => {
            let lag = answered.sent.since(due);
            telemetry::renewed(hold.telemetry.label(), lag);
            if hold.renewed_in_time(&item, answered) && lag > heartbeat / IN_STEP {
                hold.stagger_again();
            }
            hold.loss().map_or(Ok(item), Err)
        }
        // The next renewal names the new position, and is due already.
        Write::ConditionFailed(Some(item)) if hold.takes_in_move(&item, before) => Ok(item),
        Write::ConditionFailed(item) => Err(holder::evicted(item.as_ref(), hold.ticket)),
    }
}

fn lose(hold: &Hold, loss: LossReason) {
    hold.lose(loss);
}
