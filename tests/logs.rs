//! What is logged: transitions and failures, each in one short line, and nothing that was sent or answered.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod common;
#[path = "common/lab.rs"]
mod lab;
#[path = "common/verbs.rs"]
mod verbs;

use std::fmt::{Debug, Write};
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::virtual_time;
use fairlock::embedded::{Fault, Faults, When};
use lab::{Lab, acquire, cut_off};
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use verbs::meets;

const SECOND: Duration = Duration::from_secs(1);

/// Keeps the lines that this crate logs on this thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("fairlock")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Log {
    /// What is said in `test`, on the test's own thread.
    fn of(test: impl AsyncFnOnce()) -> Vec<String> {
        let log = Log::default();
        tracing::subscriber::with_default(log.clone(), || virtual_time(async { test().await }));
        log.0.lock().unwrap().clone()
    }
}

/// A holder whose renewals fail for a while, and what it logs of that.
fn failing_renewals(fault: Fault) -> String {
    let lines = Log::of(async || {
        let lab = Lab::new().await;
        let host = lab.host();
        let guard = acquire(&host).await;
        let _ = meets(&host.network, "renew hold", 1, fault);
        lab.wait(Duration::from_secs(20)).await;
        guard.release().await.unwrap();
    });
    let mut failing = lines.into_iter().filter(|line| line.contains("a renewal"));
    let line = failing.next().unwrap();
    assert_eq!(failing.next(), None, "once");
    line
}

#[test]
fn a_failed_request_is_told_in_one_line_without_what_was_sent_and_answered() {
    for (fault, told) in [
        (Fault::Throttle, "failure=`renew` came to nothing: "),
        (
            Fault::Lose(When::After),
            "failure=`renew` may have been applied: ",
        ),
        (
            Fault::Hang(When::Before),
            "failure=`renew` may have been applied: ",
        ),
        (
            Fault::Refuse("AccessDeniedException"),
            "failure=`renew` was refused: ",
        ),
    ] {
        let line = failing_renewals(fault);
        assert!(line.starts_with("WARN") && line.contains(told), "{line}");
        assert!(line.len() < 400 && !line.contains('\n'), "{line}");
        for sent in ["authorization", "x-amz", "Headers", "SdkBody", "TableName"] {
            assert!(!line.contains(sent), "{sent}: {line}");
        }
    }
}

#[test]
fn a_candidate_logs_when_it_leads_and_why_it_does_no_more() {
    let lines = Log::of(async || {
        let lab = Lab::new().await;
        let host = lab.host();
        let candidate = host.locks.fair_lock("a").unwrap().candidate();
        let candidate = candidate.until(sleep(100 * SECOND));
        let weather = async {
            sleep(20 * SECOND).await;
            host.network.set_faults(cut_off());
            sleep(40 * SECOND).await;
            host.network.set_faults(Faults::default());
        };
        let led = candidate.lead::<()>(async |_| pending().await);
        let (led, ()) = tokio::join!(led, weather);
        assert_eq!(led.unwrap(), None);
    });
    let told = lines.iter().filter(|line| line.contains("lead"));
    let told: Vec<_> = told.filter(|line| line.contains("lock=\"a\"")).collect();
    let [leads, lost, .., again, stopped] = told[..] else {
        panic!("{lines:#?}");
    };
    for line in [leads, again] {
        assert!(
            line.starts_with("INFO") && line.contains("=leads "),
            "{line}"
        );
    }
    for (line, why) in [(lost, "reason=its lease ran out"), (stopped, "ticket=")] {
        assert!(
            line.contains("=leads no more") && line.contains(why),
            "{line}"
        );
    }
}
