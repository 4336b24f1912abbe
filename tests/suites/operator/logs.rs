//! What is logged: transitions and failures, each in one short line, and nothing that was sent or answered.

use std::future::pending;
use std::time::Duration;

use fairlock::embedded::{Fault, Faults, When};
use fairlock_testkit::captured_log::said_in_lab;
use fairlock_testkit::lab::{SECOND, acquire, cut_off, waits};
use tokio::time::sleep;
use tracing::Level;

/// What a holder logs whose renewals fail for a while.
fn failing_renewals(fault: Fault) -> String {
    let lines = said_in_lab(Level::TRACE, async |lab, [host]| {
        let guard = acquire(&host).await;
        let _ = host.meets("renew hold", 1, fault);
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

/// What a client logs that repeatedly takes a turn behind two others, while these operations are denied to it.
fn denied_deletions(denied: &'static [&'static str]) -> Vec<String> {
    let lines = said_in_lab(Level::TRACE, async |lab, []| {
        let hosts = lab.hosts_with_slots(3, 1);
        hosts[2].script(|request| {
            let is_denied = denied.contains(&request.operation());
            is_denied.then_some(Fault::Refuse("AccessDeniedException"))
        });
        for _ in 0..5 {
            let guard = acquire(&hosts[0]).await;
            let successor = waits(lab, &hosts[1]).await;
            let queued = waits(lab, &hosts[2]).await;
            guard.release().await.unwrap();
            successor.await.unwrap().release().await.unwrap();
            queued.await.unwrap().release().await.unwrap();
            lab.settle().await;
        }
    });
    lines
        .into_iter()
        .filter(|line| line.starts_with("WARN"))
        .collect()
}

#[test]
fn a_denied_deletion_is_told_once_with_the_action_that_is_to_be_permitted() {
    let [in_batches] = &denied_deletions(&["BatchWriteItem"])[..] else {
        panic!("one warning");
    };
    assert!(
        in_batches.contains("action=\"BatchWriteItem\""),
        "{in_batches}"
    );
    let [_, single] = &denied_deletions(&["BatchWriteItem", "DeleteItem"])[..] else {
        panic!("a warning for each action");
    };
    assert!(single.contains("action=\"DeleteItem\""), "{single}");
}

#[test]
fn a_candidate_logs_when_it_leads_and_why_it_does_no_more() {
    let lines = said_in_lab(Level::TRACE, async |_, [host]| {
        let candidate = host.lock().candidate();
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

#[test]
fn a_long_wait_is_logged_with_its_place_and_holder_and_an_outage_when_it_begins_and_ends() {
    let lines = said_in_lab(Level::TRACE, async |lab, [a, b]| {
        let guard = acquire(&a).await;
        let waiting = waits(lab, &b).await;
        lab.wait(100 * SECOND).await;
        b.network.set_faults(cut_off());
        lab.wait(300 * SECOND).await;
        b.network.set_faults(Faults::default());
        lab.wait(60 * SECOND).await;
        guard.release().await.unwrap();
        waiting.await.unwrap().release().await.unwrap();
    });
    let told: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("still waits") || line.contains("reach"))
        .collect();
    let [ten, twenty, forty, eighty, out, back, late] = told[..] else {
        panic!("{lines:#?}");
    };
    for (line, waited) in [(ten, 10), (twenty, 20), (forty, 40), (eighty, 80)] {
        assert!(line.starts_with("INFO"), "{line}");
        let waited = format!("waited={waited}");
        for part in [
            "lock=\"a\"",
            "ticket=",
            "place=1",
            "owner=\"host-0\"",
            "holder=",
            &waited,
        ] {
            assert!(
                line.replace("lock=a", "lock=\"a\"").contains(part),
                "{part}: {line}"
            );
        }
    }
    assert!(
        out.starts_with("WARN") && out.contains("cannot reach DynamoDB"),
        "{out}"
    );
    assert!(out.contains("connection reset"), "{out}");
    assert!(
        back.starts_with("INFO") && back.contains("reached DynamoDB again"),
        "{back}"
    );
    assert!(
        back.contains("after=30") || back.contains("after=29"),
        "{back}"
    );
    assert!(late.contains("still waits"), "{late}");
}

#[test]
fn a_throttled_wait_is_logged_when_it_has_lasted_for_some_seconds_and_when_it_ends() {
    let lines = said_in_lab(Level::TRACE, async |lab, [host]| {
        let throttles = |throttles| Faults {
            throttles,
            ..Faults::default()
        };
        host.network.set_faults(throttles(1.0));
        let asked = async { acquire(&host).await.release().await.unwrap() };
        let weather = async {
            lab.wait(70 * SECOND).await;
            host.network.set_faults(throttles(0.0));
        };
        tokio::join!(asked, weather);
    });
    let lines: Vec<_> = lines.iter().filter(|it| it.contains("DynamoDB")).collect();
    let [began, ended] = lines[..] else {
        panic!("{lines:#?}");
    };
    assert!(began.starts_with("WARN") && began.contains("too busy: goes on trying"));
    assert!(ended.starts_with("INFO") && ended.contains("serves requests again"));
}
