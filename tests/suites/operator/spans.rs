//! The spans of a turn: one for the call that waits, and one for the hold; and that polls write no events.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock, Mutex};

use fairlock::RecordWait;
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, cut_off, have_turns, in_lab, waits};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Instrument, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// As in `fairlock_testkit::said`: with a second subscriber, no test beside this one answers for its thread.
static BESIDE: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// What a tracer is told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    /// A span begins, with the span around it.
    Opened(&'static str, Option<&'static str>),
    /// A span comes after another.
    Follows(&'static str, &'static str),
    /// A span has ended, with its fields.
    Closed(&'static str, BTreeMap<&'static str, String>),
    /// A message, with the span around it.
    Event(String, Option<&'static str>),
}

#[derive(Clone, Debug, Default)]
struct Recorder(Arc<Mutex<Vec<Told>>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl Recorder {
    fn notes(&self, told: Told) {
        self.0.lock().unwrap().push(told);
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut fields = BTreeMap::new();
        attributes.record(&mut Fields(&mut fields));
        span.extensions_mut().insert(fields);
        let parent = span.parent().map(|parent| parent.name());
        self.notes(Told::Opened(span.name(), parent));
    }

    fn on_record(&self, id: &Id, record: &Record<'_>, context: Context<'_, S>) {
        let span = context.span(id).unwrap();
        let mut extensions = span.extensions_mut();
        record.record(&mut Fields(extensions.get_mut().unwrap()));
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        let name = |id| context.span(id).unwrap().name();
        self.notes(Told::Follows(name(id), name(follows)));
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let around = context.event_span(event).map(|span| span.name());
        self.notes(Told::Event(fields["message"].clone(), around));
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id).unwrap();
        let fields = span.extensions_mut().remove().unwrap();
        self.notes(Told::Closed(span.name(), fields));
    }
}

/// What is told of fairlock in a test, on the test's own thread and in virtual time.
fn told<const N: usize>(test: impl AsyncFnOnce(&Recorder, &Lab, [Host; N])) -> Vec<Told> {
    let recorder = Recorder::default();
    LazyLock::force(&BESIDE);
    let is_of_fairlock = tracing_subscriber::filter::filter_fn(|metadata| {
        metadata.target().starts_with("fairlock") || metadata.name() == "request"
    });
    let subscriber = Registry::default().with(recorder.clone().with_filter(is_of_fairlock));
    tracing::subscriber::with_default(subscriber, || {
        in_lab(async |lab, hosts| test(&recorder, lab, hosts).await);
    });
    recorder.0.lock().unwrap().clone()
}

/// The fields of the spans of this name that have ended.
fn closed<'a>(told: &'a [Told], name: &str) -> Vec<&'a BTreeMap<&'static str, String>> {
    let each = told.iter().filter_map(|told| match told {
        Told::Closed(closed, fields) if *closed == name => Some(fields),
        _ => None,
    });
    each.collect()
}

#[test]
fn a_contended_turn_has_a_span_that_waits_and_then_one_that_holds_beside_it() {
    let mut tickets = Vec::new();
    let told = told(async |recorder, lab, [a, b]| {
        let first = acquire(&a).await;
        recorder.0.lock().unwrap().clear();
        let lock = b.lock();
        let work = async {
            let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
            lab.wait(12 * SECOND).await;
            tickets.push(guard.ticket().to_string());
            guard.release().await.unwrap();
        };
        let release = async {
            lab.wait(5 * SECOND).await;
            first.release().await.unwrap();
        };
        tokio::join!(work.instrument(tracing::info_span!("request")), release);
    });
    let of_the_second = told.iter().filter(|told| match told {
        Told::Closed("hold", fields) => fields["ticket"] == tickets[0],
        Told::Closed(name, _) => *name == "acquire",
        Told::Opened(_, parent) => parent.is_some(),
        Told::Follows(..) => true,
        Told::Event(_, around) => around.is_some(),
    });
    let shape: Vec<_> = of_the_second
        .map(|told| match told {
            Told::Opened(name, parent) => format!("{name} in {}", parent.unwrap()),
            Told::Follows(name, other) => format!("{name} after {other}"),
            Told::Closed(name, _) => format!("{name} ended"),
            Told::Event(message, around) => format!("{message} in {}", around.unwrap()),
        })
        .collect();
    assert_eq!(
        shape,
        [
            "acquire in request",
            // The first holder's release.
            "released in hold",
            "hold in request",
            "hold after acquire",
            "granted in acquire",
            "acquire ended",
            "released in hold",
            "hold ended",
        ],
        "{told:#?}"
    );
    let [acquired] = closed(&told, "acquire")[..] else {
        unreachable!("{told:#?}")
    };
    let holds = closed(&told, "hold");
    let [first, held] = holds[..] else {
        unreachable!("{told:#?}")
    };
    assert_eq!([&acquired["lock"], &held["lock"]], ["a", "a"]);
    assert_eq!([&acquired["ticket"], &held["ticket"]], [&tickets[0]; 2]);
    assert_eq!(acquired["outcome"], "granted");
    assert!(acquired["waited"].starts_with("5."), "{acquired:?}");
    assert_eq!(held["waited"], acquired["waited"]);
    assert!(held["held"].starts_with("12"), "{held:?}");
    assert_eq!(held["outcome"], "released");
    assert_ne!(first["ticket"], held["ticket"]);
}

#[test]
fn a_call_that_ends_without_the_lock_has_a_span_with_its_outcome_and_no_hold() {
    let told = told(async |recorder, lab, [a, b]| {
        let _guard = acquire(&a).await;
        recorder.0.lock().unwrap().clear();
        let lock = b.lock();
        lock.acquire(RecordWait::Timeout(2 * SECOND))
            .await
            .unwrap_err();
        lab.drops(SECOND, lock.acquire(RecordWait::Infinite)).await;
        assert!(lock.try_acquire().await.unwrap().is_none());
        lab.settle().await;
        let told = recorder.0.lock().unwrap();
        assert!(closed(&told, "hold").is_empty(), "{told:#?}");
    });
    let calls = closed(&told, "acquire");
    let outcomes: Vec<_> = calls.iter().map(|call| call["outcome"].as_str()).collect();
    assert_eq!(outcomes, ["timed_out", "dropped", "busy"]);
    assert!(calls.iter().all(|call| !call.contains_key("ticket")));
}

#[test]
fn a_hold_that_is_lost_is_told_so_in_its_own_span() {
    let told = told(async |_, lab, [host]| {
        let guard = acquire(&host).await;
        host.network.set_faults(cut_off());
        guard.lost().await;
        drop(guard);
        lab.settle().await;
    });
    let events = told.iter().filter_map(|told| match told {
        Told::Event(message, around) => Some((message.as_str(), *around)),
        _ => None,
    });
    let in_hold: Vec<_> = events
        .filter(|(_, around)| *around == Some("hold"))
        .map(|(message, _)| message)
        .collect();
    assert_eq!(in_hold, ["a renewal failed and is tried again", "lost"]);
    let [held] = closed(&told, "hold")[..] else {
        unreachable!("{told:#?}")
    };
    assert_eq!(held["outcome"], "lost");
}

#[test]
fn polls_and_renewals_open_no_span_and_write_no_event() {
    let told = told(async |recorder, lab, []| {
        let hosts = lab.hosts_with_slots(3, 1);
        let guard = acquire(&hosts[0]).await;
        let waiting = [waits(lab, &hosts[1]).await, waits(lab, &hosts[2]).await];
        let sent = || {
            let counts = hosts.iter().map(|host| host.network.counts());
            counts.map(|counts| counts.requests()).sum::<u64>()
        };
        recorder.0.lock().unwrap().clear();
        // A wait is logged when it has lasted for ten seconds.
        let before = sent();
        lab.wait(7 * SECOND).await;
        let polls = sent() - before;
        assert!(polls >= 10, "{polls} polls");
        let told = std::mem::take(&mut *recorder.0.lock().unwrap());
        assert_eq!(told, []);
        // Renewals of the hold, the slot and the row.
        lab.wait(60 * SECOND).await;
        let told = std::mem::take(&mut *recorder.0.lock().unwrap());
        let is_of_time = |told: &Told| matches!(told, Told::Event(message, _) if message == "still waits for its turn");
        assert!(told.iter().all(is_of_time), "{told:#?}");
        guard.release().await.unwrap();
        have_turns(waiting).await;
        lab.settle().await;
    });
    let has = |words: &str| {
        told.iter()
            .any(|told| matches!(told, Told::Event(message, _) if message == words))
    };
    // The recorder works: what comes after the polls is there.
    assert!(has("granted") && has("released"), "{told:#?}");
}
