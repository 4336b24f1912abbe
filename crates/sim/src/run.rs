//! Runs seeds on several threads, and prints what came of them.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use clap::ValueEnum;

use crate::Args;
use crate::faults::{Fault, Planted};
use crate::features::Pairs;
use crate::misbehaviour::Misbehaviour;
use crate::mistakes::Mistake;
use crate::oracles::Violation;
use crate::world::{self, Options, Outcome};

/// How many violations are told with their stories.
const TOLD: u64 = 20;
/// How many lines of a story are told.
pub(crate) const LINES: usize = 60;
/// How many seeds show which mistakes can be planted.
const COLLECTED: u64 = 300;

#[derive(Default)]
struct Totals {
    seeds: u64,
    requests: u64,
    turns: u64,
    violations: u64,
    /// The same for the same seeds, in whichever order they end.
    digest: u64,
    pairs: Pairs,
}

/// What all seeds came to, on whichever thread.
#[derive(Default)]
struct Tally(Mutex<Totals>);

impl Tally {
    /// Runs a seed, and tells its violation.
    fn plays(&self, seed: u64, options: &Options, lines: usize) {
        let outcome = run(seed, options);
        let mut totals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        totals.seeds += 1;
        totals.requests += outcome.as_ref().map_or(0, |it| it.requests);
        totals.turns += outcome.as_ref().map_or(0, |it| it.turns);
        totals.digest ^= outcome.as_ref().map_or(0, |it| it.digest);
        if let Ok(outcome) = &outcome {
            totals.pairs.add(&outcome.pairs);
        }
        let violation = match outcome {
            Ok(outcome) => outcome.violation,
            Err(()) => Some(panicked()),
        };
        if let Some(violation) = violation {
            totals.violations += 1;
            match totals.violations <= TOLD {
                true => tell(seed, options, lines),
                false => tell_briefly(seed, options, &violation),
            }
        }
    }

    fn print(self, began: Instant, pairs: bool) -> ExitCode {
        let totals = self.0.into_inner().unwrap_or_default();
        if pairs {
            totals.pairs.print();
        }
        println!(
            "{{\"seeds\":{},\"seconds\":{:.3},\"requests\":{},\"turns\":{},\"violations\":{},\"digest\":{}}}",
            totals.seeds,
            began.elapsed().as_secs_f64(),
            totals.requests,
            totals.turns,
            totals.violations,
            totals.digest
        );
        let is_unmet = pairs && totals.pairs.unmet().next().is_some();
        ExitCode::from(u8::from(totals.violations > 0 || is_unmet))
    }
}

/// A seed as it is, or a short history with this fault.
fn with(fault: Option<Planted>) -> Options {
    Options {
        is_short: fault.is_some(),
        fault,
        ..Options::default()
    }
}

/// Runs seeds, and tells each violation.
pub(crate) fn seeds(args: &Args) -> ExitCode {
    let (began, tally) = (now(), Tally::default());
    each(args, args.seeds, |seed| {
        let seed = args.first + seed;
        tally.plays(seed, &with(args.fault), args.lines);
        if let Some(folder) = &args.record
            && let Err(why) = records(seed, args.fault, folder)
        {
            eprintln!("{}: {why}", folder.display());
        }
    });
    tally.print(began, args.pairs)
}

/// Runs a seed once more, and puts the records of its hosts into a folder.
fn records(seed: u64, fault: Option<Planted>, folder: &Path) -> std::io::Result<()> {
    let recorded = Options {
        records: true,
        ..with(fault)
    };
    let records = run(seed, &recorded).map_or_else(|()| Vec::new(), |it| it.records);
    for (host, record) in records.iter().enumerate() {
        std::fs::write(folder.join(format!("{seed}-{host}.jsonl")), record)?;
    }
    Ok(())
}

/// Plays short histories, each again with each fault at each request. `seeds` of the line are histories.
pub(crate) fn every(args: &Args) -> ExitCode {
    let (began, tally) = (now(), Tally::default());
    each(args, args.seeds, |seed| {
        let seed = args.first + seed;
        let short = Options {
            is_short: true,
            ..Options::default()
        };
        let requests = run(seed, &short).map_or(0, |it| it.requests);
        for nth in 1..=requests {
            for &fault in Fault::value_variants() {
                let fault = Some(Planted { nth, fault });
                tally.plays(seed, &with(fault), args.lines);
            }
        }
    });
    tally.print(began, args.pairs)
}

#[expect(
    clippy::disallowed_methods,
    reason = "only what a run took is measured"
)]
fn now() -> Instant {
    Instant::now()
}

/// Does something for each number on several threads.
fn each(args: &Args, numbers: u64, act: impl Fn(u64) + Sync) {
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or_else(processors).max(1);
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= numbers {
                        return;
                    }
                    act(number);
                }
            });
        }
    });
}

/// Runs a seed. An error is a panic of a client, or of the simulation.
fn run(seed: u64, options: &Options) -> Result<Outcome, ()> {
    catch_unwind(AssertUnwindSafe(|| world::run(seed, options))).map_err(|_| ())
}

fn panicked() -> Violation {
    Violation {
        oracle: "panics",
        lock: None,
        message: "a client, or the simulation, panicked".to_owned(),
    }
}

/// Runs a seed again, and tells its story.
fn tell(seed: u64, options: &Options, lines: usize) {
    let told = Options {
        tells: true,
        ..options.clone()
    };
    eprintln!("seed {seed}");
    let Ok(outcome) = run(seed, &told) else {
        return tell_briefly(seed, options, &panicked());
    };
    let violation = outcome.violation.unwrap_or(Violation {
        oracle: "determinism",
        lock: None,
        message: "kept when it is run again".to_owned(),
    });
    if let Some(story) = &outcome.story {
        let lines = story.last(violation.lock.unwrap_or_default(), lines);
        lines.iter().for_each(|line| eprintln!("{line}"));
    }
    tell_briefly(seed, options, &violation);
}

fn tell_briefly(seed: u64, options: &Options, violation: &Violation) {
    let Violation {
        oracle,
        lock,
        message,
    } = violation;
    eprintln!("violation of `{oracle}` on lock {lock:?}: {message}");
    let fault = options.fault;
    let fault = fault.map(|it| format!(" --fault {}:{:?}", it.nth, it.fault));
    let fault = fault.unwrap_or_default();
    eprintln!("replay: cargo run --release -p fairlock-sim -- --seeds 1 --first {seed}{fault}\n");
}

/// Plants each mistake that the writes of some seeds allow, and prints which are noticed.
pub(crate) fn mistakes(args: &Args) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let mistakes = Mutex::new(BTreeSet::new());
    each(args, COLLECTED, |seed| {
        let options = Options {
            collects: true,
            ..Options::default()
        };
        if let Ok(outcome) = run(args.first + seed, &options) {
            let mut all = mistakes
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            all.extend(outcome.mistakes.0);
        }
    });
    let mistakes = mistakes.into_inner().unwrap_or_default();
    let writes = mistakes.into_iter().map(Wrong::Write);
    let behaviours = Misbehaviour::value_variants().iter().copied();
    let behaviours = behaviours.map(Wrong::Behaviour);
    let (allowed, mistakes): (Vec<_>, Vec<_>) = writes
        .chain(behaviours)
        .filter(|wrong| wrong.name().contains(&args.only))
        .partition(|wrong| wrong.excuse().is_some());
    let noticed = Mutex::new(vec![None; mistakes.len()]);
    each(args, mistakes.len() as u64, |index| {
        let index = usize::try_from(index).unwrap_or_default();
        let seeds = seeds_to_notice(args, &mistakes[index]);
        let mut noticed = noticed
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        noticed[index] = seeds;
    });
    let noticed = noticed.into_inner().unwrap_or_default();
    let found: Vec<_> = mistakes.iter().zip(noticed).collect();
    print_mistakes(&found, &allowed);
    ExitCode::from(u8::from(found.iter().any(|(_, seeds)| seeds.is_none())))
}

/// What is planted.
#[derive(Clone)]
enum Wrong {
    Write(Mistake),
    Behaviour(Misbehaviour),
}

impl Wrong {
    fn name(&self) -> String {
        match self {
            Wrong::Write(mistake) => mistake.name(),
            Wrong::Behaviour(wrong) => format!("{wrong:?}"),
        }
    }

    /// Why nothing here can notice it, if that is so.
    fn excuse(&self) -> Option<&'static str> {
        match self {
            Wrong::Write(mistake) => mistake.excuse(),
            Wrong::Behaviour(_) => None,
        }
    }

    fn planted(&self) -> Options {
        let planted = Options::default();
        match self.clone() {
            Wrong::Write(mistake) => Options {
                mistake: Some(mistake),
                ..planted
            },
            Wrong::Behaviour(wrong) => Options {
                misbehaviour: Some(wrong),
                ..planted
            },
        }
    }
}

/// After how many seeds a mistake is noticed, if it is.
fn seeds_to_notice(args: &Args, wrong: &Wrong) -> Option<u64> {
    let options = wrong.planted();
    let is_violated =
        |seed, options: &Options| run(seed, options).map_or(true, |it| it.violation.is_some());
    // What is violated without the mistake shows nothing.
    let is_noticed = |seed: &u64| {
        let seed = args.first + seed;
        is_violated(seed, &options) && !is_violated(seed, &Options::default())
    };
    (0..args.seeds).find(is_noticed).map(|seeds| seeds + 1)
}

fn print_mistakes(found: &[(&Wrong, Option<u64>)], allowed: &[Wrong]) {
    let quoted = |it: &Wrong| format!("\"{}\"", it.name());
    let missed = found.iter().filter(|(_, seeds)| seeds.is_none());
    let missed: Vec<_> = missed.map(|(it, _)| quoted(it)).collect();
    let noticed = found.iter().filter_map(|(it, seeds)| Some((it, (*seeds)?)));
    let noticed: Vec<_> = noticed
        .map(|(it, seeds)| format!("{}:{seeds}", quoted(it)))
        .collect();
    let excuse = |it: &Wrong| format!("{}:\"{}\"", quoted(it), it.excuse().unwrap_or_default());
    let allowed: Vec<_> = allowed.iter().map(excuse).collect();
    println!(
        "{{\"planted\":{},\"noticed\":{},\"missed\":[{}],\"allowed\":{{{}}},\"seeds\":{{{}}}}}",
        found.len() + allowed.len(),
        noticed.len(),
        missed.join(","),
        allowed.join(","),
        noticed.join(",")
    );
}
