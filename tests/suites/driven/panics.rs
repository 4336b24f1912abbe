//! A panic in a client ends the part of it where it came up, and no other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fairlock_protocol::agent::{
    Answer, CallId, Claim, Client, Clocks, Done, HoldId, Input, Lock, Loss, Of, Order, Output,
    Random, Refusal, Reply, ReplyId, Shown, Terms, Turn, What,
};
use fairlock_protocol::entry::Nonce;
use fairlock_protocol::moment::{HostTime, Moment};
use fairlock_protocol::stamps::Reading;
use fairlock_protocol::told::ToldTime;
use fairlock_testkit::lab::{EPOCH, SECOND};

/// Draws numbers as they follow each other, or panics.
struct Chance(Option<u128>);

impl Random for Chance {
    fn nonce(&mut self) -> Nonce {
        let next = self.0.as_mut().expect("chance has run out");
        *next += 1;
        Nonce::new(*next)
    }

    fn unit(&mut self) -> f64 {
        0.5
    }
}

fn turn<'a>(now: Moment, random: &'a mut Chance) -> Turn<'a> {
    let mut told = ToldTime::default();
    told.hear_no_date(None);
    let clocks = Clocks {
        now,
        host: HostTime(EPOCH),
        told,
        boot: None,
    };
    Turn { clocks, random }
}

const NOW: Moment = Moment(SECOND);

fn called(call: u64, lock: &str) -> Input {
    Input::Call {
        call: CallId(call),
        lock: Lock {
            name: lock.into(),
            permits: 1,
        },
        claim: Claim::default(),
    }
}

fn outputs(client: &mut Client) -> Vec<Output> {
    std::iter::from_fn(|| client.poll_output()).collect()
}

/// Has a lock that nobody had.
fn holds(client: &mut Client, chance: &mut Chance, call: Input) -> HoldId {
    client.handle(call, turn(NOW, chance));
    let (request, asked) = client.poll_request().unwrap();
    let What::Write { write, .. } = asked.what else {
        panic!("{asked:?}");
    };
    let item = Arc::new(write.apply(None).unwrap().unwrap());
    let reply = Box::new(Reply {
        answer: Ok(Answer::Applied(Shown::Item(item))),
        reading: Reading::UNTOLD,
        arrived: NOW,
    });
    client.handle(Input::Answer { request, reply }, turn(NOW, chance));
    let granted = outputs(client).into_iter().find_map(|output| match output {
        Output::Granted { hold, .. } => Some(hold),
        _ => None,
    });
    granted.unwrap()
}

#[test]
fn what_it_held_is_lost_its_calls_are_refused_and_another_lock_is_renewed() {
    let mut client = Client::new(Arc::new(terms()));
    let mut chance = Chance(Some(0));
    let lost = holds(&mut client, &mut chance, called(1, "a"));
    let kept = holds(&mut client, &mut chance, called(2, "b"));
    client.handle(Input::Taken(kept), turn(NOW, &mut chance));
    let put = Input::Order {
        hold: lost,
        order: Order::Put(None),
        reply: Some(ReplyId(5)),
    };
    client.handle(put, turn(NOW, &mut chance));
    client.poll_request().unwrap();
    let calls = AssertUnwindSafe(|| client.handle(called(3, "a"), turn(NOW, &mut Chance(None))));
    catch_unwind(calls).unwrap_err();
    client.buries();
    let told = outputs(&mut client);
    assert!(
        matches!(
            &told[..],
            [
                Output::Lost { hold, why: Loss::Crashed },
                Output::Done { reply: ReplyId(5), done: Ok(Done::Lost(Loss::Crashed)) },
                Output::Refused { call: CallId(3), why: Refusal::Crashed },
            ] if *hold == lost
        ),
        "{told:?}"
    );
    let (due, _) = client.next_timeout().unwrap();
    client.handle_timeout(turn(due, &mut chance));
    let (_, renewal) = client.poll_request().unwrap();
    assert_eq!(renewal.of, Of::Hold(kept));
    // Its part in the other lock begins again.
    client.handle(called(4, "a"), turn(due, &mut chance));
    let (_, asked) = client.poll_request().unwrap();
    assert_eq!(asked.of, Of::Call(CallId(4)));
}

fn terms() -> Terms {
    Terms {
        address: None,
        owner: "host".into(),
        lease: SECOND * 30,
        margin: Duration::ZERO,
        heartbeat: SECOND * 10,
        request_timeout: SECOND * 2,
        join_timeout: SECOND * 5,
        outage: None,
        polls: Terms::usual_polls(SECOND * 10),
        retention: SECOND * 1000,
        slots: 16,
        filled_slots: 8,
    }
}
