//! Runs many seeds on all cores, each on a paused runtime of its own, and tells how to replay the first that fails.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::mutation::Mutation;
use crate::oracles::{Violation, judge};
use crate::plan::Plan;
use crate::run::{Run, run};

/// No seed takes longer in real time, however much virtual time passes in it.
const BOUND: Duration = Duration::from_secs(180);

/// Which seeds to run: as the variables say, or so many.
pub(crate) fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().unwrap());
    match number("FAIRLOCK_SIM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FAIRLOCK_SIM_SEEDS").unwrap_or(default),
    }
}

/// What to make of seeds.
#[derive(Clone, Copy)]
pub(crate) enum Trial {
    /// As they are.
    Plain,
    /// Bent towards the race that a mutation is about, without it.
    Bent(Mutation),
    /// The same with it.
    Mutated(Mutation),
}

/// One seed from its plan to its verdict.
pub(crate) fn one(seed: u64, trial: Trial) -> (Run, Vec<Violation>) {
    let _watched = watchdog(seed);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let mut plan = Plan::of(seed);
    let mutation = match trial {
        Trial::Plain => None,
        Trial::Bent(mutation) => {
            mutation.provoke(&mut plan);
            None
        }
        Trial::Mutated(mutation) => {
            mutation.provoke(&mut plan);
            Some(mutation)
        }
    };
    let done = runtime.block_on(run(plan.clone(), mutation));
    let violations = judge(&plan, &done.events);
    (done, violations)
}

/// Runs the seeds until `go_on` says no of one of them, which is asked by several threads.
pub(crate) fn each(
    seeds: std::ops::Range<u64>,
    trial: Trial,
    go_on: impl Fn(u64, Run, Vec<Violation>) -> bool + Sync,
) {
    let (next, over) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        while !over.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                break;
            }
            let (done, violations) = one(seed, trial);
            if !go_on(seed, done, violations) {
                over.store(true, Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        (0..threads).for_each(|_| _ = scope.spawn(work));
    });
}

pub(crate) fn replay(seed: u64) -> String {
    format!("FAIRLOCK_SIM_SEED={seed} cargo test --all-features --test sim")
}

/// Ends the process unless the returned value is dropped in time: a seed that hangs cannot be unwound.
fn watchdog(seed: u64) -> Sender<()> {
    let (alive, watched) = channel();
    std::thread::spawn(move || {
        if watched.recv_timeout(BOUND) == Err(RecvTimeoutError::Timeout) {
            let replay = replay(seed);
            let message = format!("hung for {BOUND:?} of real time; replay with\n{replay}\n");
            let _ = std::io::stderr().write_all(message.as_bytes());
            std::process::abort();
        }
    });
    alive
}
