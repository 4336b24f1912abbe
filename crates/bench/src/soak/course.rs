//! From the start to the end of the time: checks the locks, reads the process's vitals, and reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock_cli::contention::monotonic::now_ns;
use signal_hook::consts::{SIGINT, SIGTERM};
use tokio::time::MissedTickBehavior;

use crate::failure::Failure;
use crate::soak::memory::Readings;
use crate::soak::report::{self, Interval};
use crate::soak::stage::Soak;
use crate::soak::vitals::Vitals;

const TICK: Duration = Duration::from_millis(500);

/// What is known of the process when the time has ended.
#[derive(Default)]
pub(crate) struct Course {
    pub(crate) lasted: Duration,
    pub(crate) is_cut_short: bool,
    pub(crate) memory: Readings,
    pub(crate) most_memory: u64,
    pub(crate) most_connections: usize,
    pub(crate) most_tasks: usize,
}

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
    while since() < soak.options.lasts && !told_to_stop.load(Ordering::SeqCst) {
        ticks.tick().await;
        soak.oracle.check_stalls(soak.options.stalled_after);
        let vitals = vitals()?;
        course.note(vitals);
        if since() >= reported + soak.options.every {
            let sent = soak.turns.counted().of_turns().requests;
            report::say(&Interval {
                at: since(),
                took: since() - reported,
                counts: soak.tally.latest(),
                requests: sent - requests,
                faults: soak.climate.befallen(),
                vitals,
                findings: soak.findings.count(),
            });
            (reported, requests) = (since(), sent);
        }
    }
    course.lasted = since();
    course.is_cut_short = course.lasted < soak.options.lasts;
    Ok(course)
}

pub(crate) fn vitals() -> Result<Vitals, Failure> {
    Vitals::take().map_err(|error| Failure::run("cannot read /proc", error))
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

impl Course {
    fn note(&mut self, vitals: Vitals) {
        self.memory.add(vitals.memory);
        self.most_memory = self.most_memory.max(vitals.memory);
        self.most_connections = self.most_connections.max(vitals.connections);
        self.most_tasks = self.most_tasks.max(vitals.tasks);
    }
}
