//! Candidates of one lock. At most one leads. A leader that loses, returns or is stopped makes room for the next, and each candidate learns
//! what becomes of it.

use std::future::pending;
use std::ops::ControlFlow::{self, Break, Continue};
use std::panic::{AssertUnwindSafe, panic_any};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairlock::embedded::{Fault, Faults, When};
use fairlock::{Candidate, Error, HeldLocks, LeadershipEvent, LockGuard, LossReason, Ticket};
use fairlock_testkit::assert_is;
use fairlock_testkit::child_process::example;
use fairlock_testkit::lab::{Host, Lab, SECOND, acquire, away, cut_off, in_lab, waits};
use fairlock_testkit::real_time;
use futures::{FutureExt, poll};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// The default lease without its margin.
const BELIEVED: Duration = Duration::from_millis(29_400);

/// The events that candidates were told, in their order.
#[derive(Clone, Default)]
struct News(Arc<Mutex<Vec<Told>>>);

type Led = Result<Option<()>, Error>;

/// The candidate, the event, and the ticket of its term.
type Told = (&'static str, String, Option<Ticket>);

impl News {
    fn candidate(&self, host: &Host, who: &'static str) -> Candidate {
        self.observing(host.lock().candidate(), who)
    }

    fn observing(&self, candidate: Candidate, who: &'static str) -> Candidate {
        let news = self.0.clone();
        candidate.observed(move |told| {
            let (what, ticket) = words(told);
            news.lock().unwrap().push((who, what, ticket));
        })
    }

    /// A candidate stands for election in a task of its own.
    async fn leads(&self, lab: &Lab, host: &Host, who: &'static str) -> JoinSet<Led> {
        let mut leading = JoinSet::new();
        leading.spawn(self.candidate(host, who).lead(for_ever));
        lab.settle().await;
        leading
    }

    /// The events since the last call.
    fn heard(&self) -> Vec<String> {
        let news = std::mem::take(&mut *self.0.lock().unwrap());
        let news = news.iter().map(|(who, what, _)| format!("{who} {what}"));
        news.collect()
    }

    /// The tickets of the terms that began, in their order.
    fn terms(&self) -> Vec<Ticket> {
        let news = self.0.lock().unwrap();
        let began = news.iter().filter(|(_, what, _)| what == "began");
        began.filter_map(|(_, _, ticket)| *ticket).collect()
    }
}

/// Runs a test with candidates in as many clients as it names.
fn elects<const N: usize>(test: impl AsyncFnOnce(&Lab, News, [Host; N])) {
    in_lab(async |lab, hosts| test(lab, News::default(), hosts).await);
}

fn words(told: &LeadershipEvent) -> (String, Option<Ticket>) {
    match told {
        LeadershipEvent::Began { ticket } => ("began".into(), Some(*ticket)),
        LeadershipEvent::Ended { ticket, released } => {
            let how = released.as_ref().map_or_else(kind, |()| "ended");
            (how.into(), Some(*ticket))
        }
        LeadershipEvent::InDanger { ticket } => ("in danger".into(), Some(*ticket)),
        LeadershipEvent::Lost { ticket, reason } => (format!("lost: {reason:?}"), Some(*ticket)),
        LeadershipEvent::Unavailable { .. } => ("unavailable".into(), None),
        LeadershipEvent::OutageBegan { .. } => ("out of reach".into(), None),
        LeadershipEvent::OutageEnded => ("in reach".into(), None),
        other => panic!("{other:?}"),
    }
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Lost { .. } => "ended, lost",
        Error::Unavailable { .. } => "ended, unavailable",
        _ => "ended otherwise",
    }
}

/// Notes when the work that has it is dropped.
struct Stops(Arc<Mutex<Option<Instant>>>);

impl Drop for Stops {
    fn drop(&mut self) {
        *self.0.lock().unwrap() = Some(Instant::now());
    }
}

/// Leads until it is ended from outside.
async fn for_ever(_: &LockGuard) -> ControlFlow<()> {
    pending().await
}

#[test]
fn candidates_whose_work_gives_way_lead_by_turns_under_growing_tickets() {
    elects(async |lab, news, [a, b]| {
        let term = |mut terms: u32| {
            async move |_: &LockGuard| {
                sleep(SECOND).await;
                terms -= 1;
                if terms > 0 { Continue(()) } else { Break(()) }
            }
        };
        let (one, other) = (news.candidate(&a, "a"), news.candidate(&b, "b"));
        let (one, other) = tokio::join!(one.lead(term(3)), other.lead(term(3)));
        assert_eq!((one.unwrap(), other.unwrap()), (Some(()), Some(())));
        assert!(news.terms().is_sorted_by(|before, after| before < after));
        let turn = ["a began", "a ended", "b began", "b ended"];
        // A candidate that releases may be told before the next one is, or after.
        let mut heard = news.heard();
        heard.chunks_mut(4).for_each(|turn| turn.sort());
        assert_eq!(heard, [turn, turn, turn].concat());
        assert!(lab.is_free("a").await);
    });
}

/// Two thirds of the lease after the last renewal that was answered, and a third before the lock is lost.
#[test]
fn a_candidate_that_resigns_in_danger_stops_before_the_lock_is_lost() {
    elects(async |lab, news, [a, b]| {
        let first = news.observing(a.lock().candidate().resigns_in_danger(), "a");
        let dropped = Arc::new(Mutex::new(None));
        let noted = Arc::clone(&dropped);
        let first = first.lead(async |_: &LockGuard| -> ControlFlow<()> {
            let noted = Arc::clone(&noted);
            let _stops = Stops(noted);
            pending().await
        });
        let others = async {
            lab.settle().await;
            assert_eq!(news.heard(), ["a began"]);
            // A renewal that fails, and goes through in time, is no danger.
            a.network.set_faults(cut_off());
            lab.wait(15 * SECOND).await;
            a.network.set_faults(Faults::default());
            lab.wait(15 * SECOND).await;
            assert_eq!(news.heard(), [""; 0]);
            a.network.set_faults(cut_off());
            let cut = Instant::now();
            let next = acquire(&b).await;
            let stopped = dropped.lock().unwrap().unwrap();
            assert!(stopped > cut && stopped + 8 * SECOND < Instant::now());
            a.network.set_faults(Faults::default());
            next.release().await.unwrap();
            lab.wait(60 * SECOND).await;
        };
        tokio::select! {
            led = first => panic!("{led:?}"),
            () = others => {}
        }
        let heard = news.heard();
        assert_eq!(heard[0], "a in danger");
        assert!(heard[1].starts_with("a ended, "), "{heard:?}");
        assert!(heard[2..].contains(&"a began".to_owned()), "{heard:?}");
    });
}

#[test]
fn work_that_is_done_ends_all_and_its_value_is_returned_with_the_lock_released() {
    elects(async |lab, news, [host]| {
        let led = news.candidate(&host, "a");
        let led = led.lead(async |guard| Break((guard.name().to_owned(), guard.ticket())));
        let (name, ticket) = led.await.unwrap().unwrap();
        let next = acquire(&lab.host()).await;
        assert_eq!(name, "a");
        assert!(next.ticket() > ticket, "under its own token");
        assert_eq!(news.heard(), ["a began", "a ended"]);
    });
}

/// Ends a term when it is notified.
async fn told(to_resign: &Notify) -> ControlFlow<()> {
    to_resign.notified().await;
    Continue(())
}

#[test]
fn who_is_cut_off_stops_before_the_next_leads_and_stands_again_when_it_can() {
    elects(async |lab, news, [a, b]| {
        let (first, second) = (news.candidate(&a, "a"), news.candidate(&b, "b"));
        let resigns = Arc::new(Notify::new());
        let resigned = Arc::clone(&resigns);
        let work = async move |_: &LockGuard| told(&resigned).await;
        let mut leading = JoinSet::new();
        leading.spawn(first.lead(for_ever));
        lab.settle().await;
        leading.spawn(second.lead(work));
        lab.settle().await;
        a.network.set_faults(cut_off());
        lab.wait(60 * SECOND).await;
        let terms = news.terms();
        assert!(terms[0] < terms[1], "{terms:?}");
        let heard = news.heard();
        let (led, others): (Vec<_>, Vec<_>) =
            heard.iter().partition(|news| !news.ends_with("of reach"));
        let [began, lost, next] = led[..] else {
            panic!("{led:?}")
        };
        assert_eq!([began, next], ["a began", "b began"]);
        assert!(lost.starts_with("a lost: Unreachable { cause: "), "{lost}");
        assert_eq!(others, ["a out of reach"], "it tries again meanwhile");
        a.network.set_faults(Faults::default());
        lab.wait(60 * SECOND).await;
        assert_eq!(news.heard(), ["a in reach"]);
        resigns.notify_waiters();
        lab.settle().await;
        let mut heard = news.heard();
        heard.sort();
        assert_eq!(heard, ["a began", "b ended"]);
        leading.shutdown().await;
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn who_resigns_makes_room_for_those_in_queue_and_stands_behind_them() {
    elects(async |lab, news, [a, b]| {
        let candidate = news.candidate(&a, "a");
        let resigns = Arc::new(Notify::new());
        let resigned = Arc::clone(&resigns);
        let work = async move |_: &LockGuard| told(&resigned).await;
        let mut leading = JoinSet::new();
        leading.spawn(candidate.lead(work));
        lab.settle().await;
        let waiting = waits(lab, &b).await;
        resigns.notify_waiters();
        let guard = waiting.await.unwrap();
        lab.settle().await;
        guard.release().await.unwrap();
        lab.settle().await;
        assert_eq!(news.heard(), ["a began", "a ended", "a began"]);
        // Alone in the queue, it leads again.
        resigns.notify_waiters();
        lab.settle().await;
        assert_eq!(news.heard(), ["a ended", "a began"]);
    });
}

#[test]
fn a_term_that_lasts_ends_the_growth_of_the_pauses_and_a_candidate_can_be_stopped_in_one() {
    elects(async |_, news, [host]| {
        let begun = Arc::new(Mutex::new(Vec::new()));
        let times = begun.clone();
        let candidate = news.candidate(&host, "a").until(sleep(60 * SECOND));
        let work = async move |_: &LockGuard| {
            let nth = {
                let mut times = times.lock().unwrap();
                times.push(Instant::now());
                times.len()
            };
            // Of ten terms the first nine are short.
            sleep(SECOND / 5 * u32::from(nth == 10)).await;
            ControlFlow::<()>::Continue(())
        };
        let started = Instant::now();
        assert_eq!(candidate.lead(work).await.unwrap(), None);
        assert_eq!(started.elapsed(), 60 * SECOND, "in a pause too");
        let begun = begun.lock().unwrap();
        let pause = |n: usize| begun[n] - begun[n - 1];
        assert!((SECOND..3 * SECOND).contains(&pause(9)), "{:?}", pause(9));
        assert!(pause(11) < SECOND / 20, "{:?}", pause(11));
        let last = begun.len() - 1;
        assert!(
            (SECOND..3 * SECOND).contains(&pause(last)),
            "{:?}",
            pause(last)
        );
    });
}

#[test]
fn who_is_stopped_returns_with_the_lock_released_or_the_queue_left() {
    elects(async |lab, news, [a, b]| {
        let leads = news.candidate(&a, "a").until(sleep(20 * SECOND));
        let waits = news.candidate(&b, "b").until(sleep(10 * SECOND));
        let mut leading = JoinSet::new();
        leading.spawn(leads.lead(for_ever));
        lab.settle().await;
        a.network.set_faults(away(SECOND / 10));
        assert_eq!(waits.lead(for_ever).await.unwrap(), None);
        assert_eq!(leading.join_next().await.unwrap().unwrap().unwrap(), None);
        // Nothing of the release is left to background tasks, which the end of the process would cut short.
        let lock = b.lock();
        assert!(lock.try_acquire().await.unwrap().is_some());
        assert_eq!(news.heard(), ["a began", "a ended"]);
        lab.settle().await;
        assert_eq!(lab.items("a").await, ["fairlock/#lock"]);
    });
}

#[test]
fn pauses_grow_while_outages_end_the_waits_of_candidates_and_differ_between_them() {
    in_lab(async |lab, []| {
        let paused: [Arc<Mutex<Vec<Duration>>>; 2] = Default::default();
        let mut leading = JoinSet::new();
        let host =
            || lab.host_with(|builder| builder.testing(|it| it.outage_timeout = Some(SECOND)));
        let hosts = [host(), host()];
        for (host, paused) in hosts.iter().zip(&paused) {
            host.network.set_faults(cut_off());
            let (candidate, paused) = (host.lock().candidate(), paused.clone());
            let candidate = candidate.observed(move |news| {
                if let LeadershipEvent::Unavailable { error, pause } = news {
                    assert_is!(error, Error::Unavailable { .. });
                    paused.lock().unwrap().push(*pause);
                }
            });
            leading.spawn(candidate.lead(for_ever));
        }
        lab.wait(600 * SECOND).await;
        let [one, other] = paused.map(|paused| paused.lock().unwrap().clone());
        assert!(one.len() > 15 && one != other, "{one:?} {other:?}");
        for (pause, least) in one.iter().zip([1, 2, 4, 8, 15, 15, 15, 15, 15, 15]) {
            assert!(
                (least * SECOND..=2 * least * SECOND).contains(pause),
                "{one:?}"
            );
        }
        hosts[0].network.set_faults(Faults::default());
        lab.wait(60 * SECOND).await;
        assert!(lab.host().try_acquire().await.is_none(), "it leads");
    });
}

#[test]
fn a_candidate_keeps_its_place_through_an_outage_of_minutes_and_of_one_closed_connection() {
    for (fault, span) in [
        (Fault::Lose(When::Before), 600 * SECOND),
        (Fault::Refuse("ExpiredTokenException"), 600 * SECOND),
        (Fault::Close(When::After), Duration::ZERO),
    ] {
        elects(async |lab, news, [a, b]| {
            let guard = acquire(&a).await;
            let _leading = news.leads(lab, &b, "b").await;
            let (since, once) = (Instant::now(), AtomicBool::new(true));
            b.script(move |_| {
                let is_out = once.swap(false, Ordering::SeqCst) || since.elapsed() < span;
                is_out.then(|| fault.clone())
            });
            lab.wait(span + 30 * SECOND).await;
            assert_eq!(news.heard(), ["b out of reach", "b in reach"]);
            guard.release().await.unwrap();
            // Its next poll.
            lab.wait(5 * SECOND).await;
            assert_eq!(news.heard(), ["b began"]);
        });
    }
}

#[test]
fn a_queue_that_is_too_long_is_waited_for_until_it_is_not() {
    elects(async |lab, news, [a, b, c]| {
        let one = acquire(&b).await;
        let two = waits(lab, &c).await;
        let bounded = a.lock().max_waiters(1);
        let mut leading = JoinSet::new();
        leading.spawn(news.observing(bounded.candidate(), "a").lead(for_ever));
        lab.wait(60 * SECOND).await;
        assert!(leading.try_join_next().is_none());
        let heard = news.heard();
        assert!(heard.len() > 3, "{heard:?}");
        assert!(
            heard.iter().all(|told| told == "a unavailable"),
            "{heard:?}"
        );
        one.release().await.unwrap();
        two.await.unwrap().release().await.unwrap();
        lab.wait(60 * SECOND).await;
        assert_eq!(news.terms().len(), 1);
    });
}

#[test]
fn what_another_try_would_not_mend_ends_the_candidate() {
    elects(async |_, news, [host]| {
        let denied = Fault::Refuse("AccessDeniedException");
        host.script(move |_| Some(denied.clone()));
        let refused = news.candidate(&host, "a").lead(for_ever).await.unwrap_err();
        assert_is!(refused, Error::Refused { .. });
        // A policy that was just attached might not hold yet.
        assert_eq!(news.heard(), ["a out of reach"]);
    });
}

#[test]
fn a_shutdown_ends_who_leads_and_who_waits() {
    elects(async |lab, news, [a, b]| {
        let mut leading = JoinSet::new();
        for (host, who) in [(&a, "a"), (&b, "b")] {
            leading.spawn(news.candidate(host, who).lead(for_ever));
            lab.settle().await;
        }
        let waiter = b.locks.shutdown(HeldLocks::Keep, 5 * SECOND).await;
        let leader = a.locks.shutdown(HeldLocks::Release, 5 * SECOND).await;
        assert!(waiter.unfinished.is_empty() && leader.unfinished.is_empty());
        while let Some(led) = leading.join_next().await {
            assert!(matches!(led.unwrap(), Err(Error::ShutDown(_))));
        }
        assert_eq!(news.heard(), ["a began", "a lost: ShutDown"]);
        assert!(lab.is_free("a").await);
    });
}

#[test]
fn a_release_that_fails_is_told_and_takes_nothing_from_what_the_work_returned() {
    elects(async |_, news, [host]| {
        let led = news.candidate(&host, "a").lead(async |_| {
            host.network.set_faults(cut_off());
            Break(42)
        });
        assert_eq!(led.await.unwrap(), Some(42));
        assert_eq!(news.heard(), ["a began", "a ended, unavailable"]);
    });
}

#[test]
fn work_that_was_done_after_its_term_was_lost_does_not_count() {
    elects(async |_, news, [host]| {
        let (done, mut results) = mpsc::unbounded_channel();
        let led = news.candidate(&host, "a");
        let mut led = pin!(led.lead(async |_| Break(results.recv().await)));
        for _ in 0..10 {
            assert!(poll!(&mut led).is_pending());
            tokio::task::yield_now().await;
        }
        // The process stands still until the lease has ended, and ends its work first when it continues.
        let _ = tokio::time::advance(BELIEVED).now_or_never();
        done.send("late").unwrap();
        assert!(poll!(&mut led).is_pending());
        done.send("in time").unwrap();
        assert_eq!(led.await.unwrap(), Some(Some("in time")));
        let lost = format!("a lost: {:?}", LossReason::Expired);
        assert_eq!(news.heard(), ["a began", &lost, "a began", "a ended"]);
    });
}

#[test]
fn who_is_dropped_or_panics_leaves_the_lock_free() {
    elects(async |lab, news, [host]| {
        lab.drops(SECOND, news.candidate(&host, "a").lead(for_ever))
            .await;
        assert!(lab.is_free("a").await);
        let led = news.candidate(&host, "a");
        let led = led.lead::<()>(async |_| panic_any("the work's own"));
        let panicked = AssertUnwindSafe(led).catch_unwind().await.unwrap_err();
        assert_eq!(panicked.downcast_ref(), Some(&"the work's own"));
        assert!(lab.is_free("a").await);
        assert_eq!(news.heard(), ["a began", "a began"]);
    });
}

#[test]
fn the_example_shows_the_second_candidate_take_over_from_the_first() {
    let said = real_time(async { example("leader").output().unwrap() });
    assert!(said.status.success(), "{said:?}");
    let said = String::from_utf8(said.stdout).unwrap();
    let words: Vec<_> = said.lines().filter_map(|line| line.get(7..)).collect();
    let [leads, cut, lost, takes_over, back, stopped] = words[..] else {
        panic!("{said}");
    };
    assert!(leads.starts_with("first leads under token "), "{said}");
    assert_eq!(cut, "first is cut off from the network");
    assert!(lost.starts_with("first leads no more: its lease"), "{said}");
    assert!(
        takes_over.starts_with("second leads under token "),
        "{said}"
    );
    assert_eq!(
        [back, stopped],
        ["first is back", "second leads no more: stopped"]
    );
    let token = |words: &str| words.rsplit(' ').next().unwrap().parse::<u64>().unwrap();
    assert!(token(leads) < token(takes_over), "{said}");
}
