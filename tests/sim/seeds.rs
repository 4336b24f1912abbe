//! Runs many seeds on all cores, each on a paused runtime of its own. Tells how to replay the first seed that fails.

use std::io::Write;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use crate::doom;
use crate::mutation::Mutation;
use crate::oracles::{Violation, judge};
use crate::plan::Plan;
use crate::rare::Rare;
use crate::run::{Run, run};
use fairlock_testkit::datagram_network::PostFaults;
use fairlock_testkit::lying_notifier::Lie;
use fairlock_testkit::panics::{count_panics, panics};

/// The longest real time for one seed, however much virtual time passes in it. The slowest with a mistake takes 40 s by itself, and many run
/// beside each other.
const BOUND: Duration = Duration::from_secs(600);

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

/// How many threads run seeds beside each other.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The one seed that is to be run again.
pub(crate) fn replayed() -> Option<u64> {
    number("FAIRLOCK_SIM_SEED")
}

/// Whether to run a planted mistake: all are run, or only the one that the variable names.
pub(crate) fn is_meant(mutation: Mutation) -> bool {
    std::env::var("FAIRLOCK_SIM_MISTAKE").map_or(true, |name| name == format!("{mutation:?}"))
}

/// Which seeds to run: as the variables say, or `default` seeds.
pub(crate) fn seeds(default: u64) -> RangeInclusive<u64> {
    within(number("FAIRLOCK_SIM_SEEDS").unwrap_or(default))
}

/// `count` seeds from the one with which the variable begins, or the one that is to be run again.
pub(crate) fn within(count: u64) -> RangeInclusive<u64> {
    from(number("FAIRLOCK_SIM_FIRST").unwrap_or_default(), count)
}

/// The first `count` seeds, or the one that is to be run again.
pub(crate) fn first(count: u64) -> RangeInclusive<u64> {
    from(0, count)
}

fn from(begin: u64, count: u64) -> RangeInclusive<u64> {
    match replayed() {
        Some(seed) => seed..=seed,
        None => begin..=begin + count.saturating_sub(1),
    }
}

/// How to run the seeds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Trial {
    /// As they are.
    Plain,
    /// Bent towards the race of this mutation, but without the mutation.
    Bent(Mutation),
    /// Bent towards the race of this mutation, and with it.
    Mutated(Mutation),
    /// All hosts die, and later callers never wait. With a mutation or without.
    Doomed(Option<Mutation>),
    /// Bent towards what is rare.
    Rare(Rare),
    /// All hosts notify each other, and hear nothing but this lie, or the lie beside the truth.
    Lied(Lie),
}

/// Runs one seed, from its plan to its verdict.
pub(crate) fn one(seed: u64, trial: Trial) -> (Run, Vec<Violation>) {
    let _watched = watchdog(seed, trial);
    let _told = Told(seed, trial);
    count_panics();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let mut plan = Plan::of(seed);
    if matches!(trial, Trial::Plain | Trial::Lied(_)) {
        plan.set_dates();
    }
    if !matches!(trial, Trial::Plain) {
        // The seeds in which a mistake is noticed are pinned, and in those hosts only poll, and claims are plain.
        plan.notifies = None;
        (plan.bounds, plan.parts, plan.operates) = (false, false, false);
    }
    let mutation = match trial {
        Trial::Plain => None,
        Trial::Lied(lie) => {
            plan.notifies = Some(PostFaults::default());
            plan.lie = Some(lie);
            None
        }
        Trial::Bent(mutation) => {
            mutation.provoke(&mut plan);
            None
        }
        Trial::Mutated(mutation) => {
            mutation.provoke(&mut plan);
            Some(mutation)
        }
        Trial::Rare(rare) => {
            rare.bend(&mut plan);
            None
        }
        Trial::Doomed(mutation) => {
            doom::bend(&mut plan);
            mutation
        }
    };
    let done = match trial {
        Trial::Doomed(_) => runtime.block_on(doom::run(plan.clone(), mutation)),
        _ => runtime.block_on(run(plan.clone(), mutation)),
    };
    let mut violations = judge(&plan, &done.events);
    if panics() > 0 {
        violations.push(Violation {
            oracle: "no surprise",
            what: format!("{} panics, of background tasks too", panics()),
        });
    }
    (done, violations)
}

/// Runs the seeds on several threads, until `go_on` returns `false` for one of them.
pub(crate) fn each(
    seeds: RangeInclusive<u64>,
    trial: Trial,
    go_on: impl Fn(u64, Run, Vec<Violation>) -> bool + Sync,
) {
    let (left, over) = (Mutex::new(seeds), AtomicBool::new(false));
    let threads = processors();
    let work = || {
        while !over.load(Ordering::Relaxed) {
            let next = left.lock().unwrap().next();
            let Some(seed) = next else { break };
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

pub(crate) fn replay(seed: u64, trial: Trial) -> String {
    let test = match trial {
        Trial::Plain => "the_promises",
        Trial::Bent(_) => "the_plans",
        Trial::Rare(_) => "what_is_rare",
        Trial::Mutated(_) => "every_planted_mistake",
        Trial::Lied(_) => "lies",
        Trial::Doomed(None) => "who_never_waits",
        Trial::Doomed(Some(_)) => "a_planted_mistake_of_dates",
    };
    format!("{trial:?}: replay with\nFAIRLOCK_SIM_SEED={seed} cargo test --test sim {test}")
}

/// Tells how to replay a seed that panics.
struct Told(u64, Trial);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", replay(self.0, self.1));
        }
    }
}

/// Ends the process unless the returned value is dropped in time: a seed that hangs cannot be unwound.
fn watchdog(seed: u64, trial: Trial) -> Sender<()> {
    let (alive, watched) = channel();
    std::thread::spawn(move || {
        if watched.recv_timeout(BOUND) == Err(RecvTimeoutError::Timeout) {
            let replay = replay(seed, trial);
            let message = format!("hung for {BOUND:?} of real time; {replay}\n");
            let _ = std::io::stderr().write_all(message.as_bytes());
            std::process::abort();
        }
    });
    alive
}
