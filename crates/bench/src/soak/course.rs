//! From the start to the end of the time: checks the locks, reads the process's vitals, and reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock_cli::contention::monotonic::now_ns;
use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::time::MissedTickBehavior;

use crate::failure::Failure;
use crate::soak::report::{self, Course, Interval};
use crate::soak::stage::Soak;
use crate::soak::vitals::vitals;

const TICK: Duration = Duration::from_millis(500);

/// Runs until the time has ended, or SIGINT or SIGTERM comes.
pub(crate) async fn run(soak: &Soak) -> Result<Course, Failure> {
    let told_to_stop = signals()?;
    let started = now_ns();
    let since = || Duration::from_nanos(now_ns() - started);
    let mut course = Course::default();
    let (mut reported, mut requests) = (Duration::ZERO, 0);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The loop ends with the time.
    while since() < soak.ground.options.lasts && !told_to_stop.load(Ordering::SeqCst) {
        ticks.tick().await;
        soak.oracle.check_stalls(soak.ground.options.stalled_after);
        let vitals = vitals()?;
        course.note(vitals);
        if since() >= reported + soak.ground.options.every {
            let sent = soak.ground.turns.counted().of_turns().requests;
            report::say(&Interval {
                at: since(),
                took: since() - reported,
                counts: soak.tally.latest(),
                requests: sent - requests,
                faults: soak.ground.climate.befallen(),
                vitals,
                findings: soak.findings.count(),
            });
            (reported, requests) = (since(), sent);
        }
    }
    course.lasted = since();
    course.is_cut_short = course.lasted < soak.ground.options.lasts;
    Ok(course)
}

fn signals() -> Result<Arc<AtomicBool>, Failure> {
    let told = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // The second signal ends the process at once.
        let at_once =
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&told));
        let registered =
            at_once.and_then(|_| signal_hook::flag::register(signal, Arc::clone(&told)));
        registered.map_err(|error| Failure::run("no signals", error))?;
    }
    Ok(told)
}
