//! The real client on a bad network in virtual time, one seed deciding everything: the promises hold of every history.
//!
//! `FAIRLOCK_SIM_SEEDS=N` runs more seeds, `FAIRLOCK_SIM_SEED=N` replays one.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

mod exchange;
mod faults;
mod history;
mod link;
mod mischief;
mod mutation;
mod oracles;
mod plan;
mod register;
mod report;
mod run;
mod seeds;
mod stay;
#[path = "../common/verbs.rs"]
mod verbs;
mod worker;
mod world;

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Mutex;

use mutation::Mutation;
use report::Report;

/// Seeds of the default run.
const SEEDS: u64 = 1_000;

#[test]
fn the_promises_hold_of_every_seed() {
    let (report, failed) = (Report::default(), Mutex::new(None));
    seeds::each(seeds::seeds(SEEDS), None, |seed, run, violations| {
        report.add(seed, &run);
        let kinds = run.counts.faults.len();
        let problem = if !violations.is_empty() {
            format!("{violations:#?}")
        } else if run.counts.requests < plan::REQUESTS || kinds < 3 {
            format!("too tame: {:?}", run.counts)
        } else {
            return true;
        };
        *failed.lock().unwrap() = Some((seed, problem));
        false
    });
    println!("{report}");
    if let Some((seed, problem)) = failed.into_inner().unwrap() {
        panic!("{problem}\nreplay with\n{}", seeds::replay(seed));
    }
    assert!(report.compared() > 0, "nobody timely was ever seen in line");
}

/// A child process of the test below says this many seeds' digests.
const DIGESTS: std::ops::Range<u64> = 0..4;
const CHILD: &str = "FAIRLOCK_SIM_CHILD";

#[test]
fn the_same_seed_gives_the_same_history_in_two_processes() {
    if std::env::var_os(CHILD).is_some() {
        for seed in DIGESTS {
            println!("digest {seed} {:016x}", seeds::one(seed, None).0.digest);
        }
        return;
    }
    let (one, other) = (digests(), digests());
    assert_eq!(one.len(), DIGESTS.count());
    assert_eq!(one, other);
}

fn digests() -> Vec<String> {
    let name = "the_same_seed_gives_the_same_history_in_two_processes";
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
    let said = String::from_utf8(child.output().unwrap().stdout).unwrap();
    let lines = said
        .lines()
        .filter_map(|line| line.find("digest ").map(|at| &line[at..]));
    lines.map(str::to_owned).collect()
}

/// How many seeds it took until somebody noticed, and which oracles did.
fn caught(mutation: Mutation, within: u64) -> Option<(u64, BTreeSet<&'static str>)> {
    let first = Mutex::new(None);
    seeds::each(0..within, Some(mutation), |seed, _, violations| {
        let oracles: BTreeSet<_> = violations.iter().map(|broken| broken.oracle).collect();
        if oracles.is_empty() {
            return true;
        }
        println!("{mutation:?}: seed {seed}: {violations:#?}");
        first.lock().unwrap().get_or_insert((seed + 1, oracles));
        false
    });
    first.into_inner().unwrap()
}

#[test]
fn survey() {
    use Mutation::*;
    for m in [
        EnterHeld,
        EnterPastTickets,
        SeatWithoutSeated,
        SeatWithoutLeft,
        ReleaseWithoutNonce,
        EvictWithoutBeat,
        VoidWithoutBeat,
        VoidWithoutNotExists,
        JoinWithoutNotExists,
        SlowClock,
    ] {
        println!("RESULT {m:?} {:?}", caught(m, 60));
    }
}
