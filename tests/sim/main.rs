//! Runs the real client on a bad network in virtual time. A seed decides everything, and every history must keep the promises.
//!
//! `FAIRLOCK_SIM_SEEDS=N` runs N seeds, `FAIRLOCK_SIM_FIRST=N` begins with seed N, `FAIRLOCK_SIM_SEED=N` replays one seed.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

/// Saves a sixth of what the tests compute.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod applied;
mod batches;
mod bounds;
mod call;
mod careless;
mod checked;
mod data;
mod doom;
mod exchange;
mod faults;
mod front_ends;
mod gossip;
mod history;
mod leases;
mod link;
mod memory;
mod mischief;
mod multi_lock;
mod mutation;
mod operator;
mod oracles;
mod plan;
mod provoke;
mod rare;
mod register;
mod report;
mod run;
mod seeds;
mod shown;
mod stay;
mod wanted;
mod worker;
mod world;

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use doom::Remains;
use fairlock_testkit::effort::{graded, is_thorough, sampled, sized};
use fairlock_testkit::lying_notifier::LIES;
use history::Event;
use mutation::Mutation;
use mutation::Mutation as By;
use report::Report;
use run::Run;
use seeds::Trial;

/// How many seeds are run for a change, for a commit, and for a release.
const SEEDS: (u64, u64, u64) = (12, 400, 1_000);

#[test]
fn the_promises_hold_of_every_seed() {
    let (report, failed) = (Report::default(), Mutex::new(None));
    seeds::each(
        seeds::seeds(graded(SEEDS)),
        Trial::Plain,
        |seed, run, violations| {
            report.add(&run);
            let problem = if !violations.is_empty() {
                let story = history::story(&run.events);
                let broken = violations.iter().map(|broken| format!("{broken}\n"));
                format!("{story}{}", broken.collect::<String>())
            } else if run.troubled < plan::REQUESTS {
                format!("too short: {} of {:?}", run.troubled, run.counts)
            } else {
                return true;
            };
            *failed.lock().unwrap() = Some((seed, problem));
            false
        },
    );
    println!("{report}");
    if let Some((seed, problem)) = failed.into_inner().unwrap() {
        panic!("{problem}\n{}", seeds::replay(seed, Trial::Plain));
    }
    let missing = report.missing();
    assert!(missing.is_empty(), "never happened: {missing:?}");
    assert!(!report.is_tame(), "too few kinds of faults in too many");
}

/// Runs these seeds, none of which may break a promise, for as long as `go_on` says.
fn keeps(seeds: RangeInclusive<u64>, trial: Trial, go_on: impl Fn(&Run) -> bool + Sync) {
    seeds::each(seeds, trial, |seed, run, violations| {
        let (story, replay) = (history::story(&run.events), seeds::replay(seed, trial));
        assert!(violations.is_empty(), "{story}{violations:#?}\n{replay}");
        go_on(&run)
    });
}

/// Within how many seeds of a plan that is bent towards it something rare happens. Most of it does in the first.
const RARE: u64 = 40;

#[test]
fn what_is_rare_happens_in_plans_that_are_bent_towards_it() {
    let all = Mutex::new(rare::ALL.into_iter());
    each_processor(|| {
        while let Some(rare) = next(&all) {
            happens(rare);
        }
    });
}

fn happens(rare: rare::Rare) {
    let report = Report::default();
    let missing = || report.missing_of(rare.events());
    for seed in seeds::within(RARE) {
        keeps(seed..=seed, Trial::Rare(rare), |run| {
            report.add(run);
            true
        });
        if missing().is_empty() {
            break;
        }
    }
    println!("{rare:?}: {report}");
    let is_missing = !missing().is_empty() && seeds::replayed().is_none();
    assert!(!is_missing, "never happened: {:?}", missing());
}

/// Works on each processor at a time.
fn each_processor(work: impl Fn() + Sync) {
    std::thread::scope(|scope| {
        for _ in 0..seeds::processors() {
            scope.spawn(&work);
        }
    });
}

/// Seeds that once failed because of a fault of the product, which has been repaired.
const MENDED: [u64; 4] = [20_001_620, 30_002_321, 30_004_248, 1_071];

#[test]
fn the_promises_hold_of_seeds_that_broke_them_once() {
    for seed in MENDED {
        keeps(seed..=seed, Trial::Plain, |_| true);
    }
}

/// A child process of the test below prints the digests of these seeds.
fn of_digests() -> Range<u64> {
    0..sized(2, 12)
}

const CHILD: &str = "FAIRLOCK_SIM_CHILD";

#[test]
fn the_same_seed_gives_the_same_history_in_two_processes() {
    if std::env::var_os(CHILD).is_some() {
        for seed in of_digests() {
            println!(
                "digest {seed} {:016x}",
                seeds::one(seed, Trial::Plain).0.digest
            );
        }
        return;
    }
    let (one, other) = (digests(), digests());
    assert_eq!(one.len(), of_digests().count());
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

/// The planted mistakes, the oracle that notices each, the number of seeds within which it does, and the seed in which it did last time. A
/// brief run tries the first of each oracle.
const MUTATIONS: [(By, &str, u64, u64); 47] = [
    (By::ClosedIsRefused, "no surprise", 10, 0),
    (By::StartAtOne, "fencing", 10, 0),
    (By::StartAtOne, "ticket order", 10, 0),
    (By::UnknownState, "no surprise", 10, 0),
    (By::EnterHeld, "a slot for the asking", 10, 0),
    (By::EnterPastTickets, "nobody timely passed", 30, 2),
    (By::EnterOneAtATime, "a slot for the asking", 10, 0),
    (By::FillWithoutWatermark, "the queue in order", 30, 3),
    (By::FillWithoutLeft, "who left is gone", 60, 0),
    (By::FillByMemory, "who left is gone", 30, 11),
    (By::ReleaseWithoutNonce, "nobody timely passed", 20, 3),
    (By::EvictWithoutBeat, "exclusion", 60, 13),
    (By::VoidWithoutBeat, "nobody timely voided", 30, 12),
    (By::VoidWithoutNotExists, "nobody timely voided", 20, 2),
    (By::JoinWithoutNotExists, "rows go forward", 10, 0),
    (By::ConfirmedIsRenewed, "progress", 10, 1),
    (By::LeaseInMicroseconds, "progress", 10, 0),
    (By::DeleteNoRow, "nothing left", 10, 0),
    (By::ExpireYearsLater, "nothing left", 10, 0),
    (By::SlowClock, "exclusion", 20, 4),
    (By::DrawOneLess, "ticket order", 10, 0),
    (By::DrawOneLess, "fencing", 10, 0),
    (By::DrawOneLess, "turns as asked", 10, 5),
    (By::PlaceOfOneLess, "nobody timely voided", 30, 0),
    (By::PlaceOfOneMore, "the queue in order", 10, 0),
    (By::Overstay, "exclusion", 10, 0),
    (By::ToldLate, "calls end in time", 10, 2),
    (By::ShareWithoutRoom, "the queue in order", 10, 1),
    (By::SharePastSuccessors, "the queue in order", 10, 0),
    (By::AdmitWhoeverIsThere, "no surprise", 10, 0),
    (By::ShareWithoutFirst, "the queue in order", 10, 0),
    (By::LeaseOverstayed, "exclusion", 10, 4),
    (By::DataOfTheLost, "data in order", 20, 2),
    (By::DataGoesBack, "data in order", 20, 1),
    (By::ExpiryOfHosts, "exclusion", 100, 6),
    (By::DatesOfHosts, "exclusion", 10, 2),
    (By::JudgedByDates, "exclusion", 10, 0),
    (By::JudgedByWallClocks, "exclusion", 10, 0),
    (By::AllClocksWrong, "exclusion", 10, 0),
    (By::NonceAlone, "one hold a nonce", 20, 7),
    (By::NoncesAgain, "one hold a nonce", 20, 0),
    (By::ReleasingIsReleased, "exclusion", 10, 0),
    (By::BoundsForgotten, "holds end in time", 10, 0),
    (By::BoundsForgotten, "short holds last", 10, 0),
    (By::BoundsForgotten, "a margin after a loss", 20, 0),
    (By::ResizedWithoutRoom, "the queue in order", 10, 0),
    (By::NoticesOfOthers, "told what was done", 20, 0),
];

/// The seed in which this oracle noticed the mistake. A thorough run tries all seeds from the first on, and others first the last one.
fn noticed(trial: Trial, oracle: &str, within: u64, last: u64) -> Option<u64> {
    let is_brief = !is_thorough() && seeds::replayed().is_none();
    let again = is_brief.then(|| caught(trial, oracle, last..=last));
    let anywhere = || caught(trial, oracle, seeds::first(within));
    again.flatten().or_else(anywhere)
}

#[test]
fn every_planted_mistake_is_noticed_by_its_oracle() {
    let meant = MUTATIONS.into_iter();
    let meant = meant.filter(|(mutation, ..)| seeds::is_meant(*mutation));
    // For a change, each oracle has to notice one.
    let mut shown = BTreeSet::new();
    let meant = meant.filter(|(_, oracle, ..)| shown.insert(*oracle) || is_thorough());
    let meant: Vec<_> = meant.collect();
    // Most are noticed in their first seed, so each processor takes mistakes of its own.
    let (meant, found) = (Mutex::new(meant.into_iter()), Mutex::new(Vec::new()));
    each_processor(|| {
        while let Some((mutation, oracle, within, last)) = next(&meant) {
            let first = noticed(Trial::Mutated(mutation), oracle, within, last);
            let mut found = found.lock().unwrap();
            found.push((mutation, oracle, first, within));
        }
    });
    let found = found.into_inner().unwrap();
    for (mutation, oracle, first, within) in &found {
        println!("{mutation:?}: {oracle}, seed {first:?} of {within}");
    }
    let unnoticed = found.iter().filter(|(.., first, _)| first.is_none());
    let unnoticed: Vec<_> = unnoticed.map(|(mutation, ..)| mutation).collect();
    let is_one = seeds::replayed().is_some();
    assert!(unnoticed.is_empty() || is_one, "unnoticed: {unnoticed:?}");
}

fn next<T>(all: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    all.lock().unwrap().next()
}

/// The seed in which this oracle noticed the mistake.
fn caught(trial: Trial, oracle: &str, within: RangeInclusive<u64>) -> Option<u64> {
    let first = Mutex::new(None);
    seeds::each(within, trial, |seed, _, violations| {
        let is_caught = violations.iter().any(|broken| broken.oracle == oracle);
        if is_caught {
            violations.iter().for_each(|broken| println!("{broken}"));
            let mut first = first.lock().unwrap();
            *first = Some(first.map_or(seed, |first: u64| first.min(seed)));
        }
        !is_caught
    });
    first.into_inner().unwrap()
}

/// How many seeds in which all hosts die.
const DOOMED: (u64, u64, u64) = (20, 100, 200);

#[test]
fn who_never_waits_gets_past_all_who_died_by_the_server_clock() {
    let left = Mutex::new(Remains::default());
    keeps(seeds::first(graded(DOOMED)), Trial::Doomed(None), |run| {
        let mut left = left.lock().unwrap();
        for (_, event) in &run.events {
            if let Event::Remains(remains) = event {
                *left = left.and(remains);
            }
        }
        true
    });
    let left = left.into_inner().unwrap();
    println!("{left:?}");
    let has_all = left.has_every_kind() || seeds::replayed().is_some();
    assert!(has_all, "{left:?}");
}

#[test]
fn a_planted_mistake_of_dates_keeps_out_who_never_waits() {
    let trial = Trial::Doomed(Some(Mutation::DatesYearsLater));
    let first = caught(trial, "past the dead", seeds::first(10));
    println!("past the dead, seed {first:?} of 10");
    assert!(first.is_some() || seeds::replayed().is_some());
}

/// How many seeds of each lie.
const LIED_TO: (u64, u64, u64) = (1, 8, 25);

#[test]
fn lies_of_every_notifier_break_no_promise() {
    for lie in LIES {
        let told = AtomicU64::new(0);
        keeps(seeds::seeds(graded(LIED_TO)), Trial::Lied(lie), |run| {
            told.fetch_add(run.lies, Ordering::Relaxed);
            true
        });
        println!("{lie:?}: told {told:?} times");
        let is_told = told.into_inner() > 0;
        assert!(is_told || seeds::replayed().is_some(), "{lie:?}");
    }
}

/// How many seeds of each bent plan, of which a brief run takes one in eight: most mistakes are noticed within as many.
/// `FAIRLOCK_SIM_SEEDS` runs more.
const BENT: (u64, u64, u64) = (1, 2, 4);

#[test]
fn the_plans_of_planted_mistakes_break_no_promise_without_them() {
    let mut mutations = MUTATIONS.map(|(mutation, ..)| mutation).to_vec();
    mutations.dedup();
    mutations.retain(|mutation| seeds::is_meant(*mutation));
    for mutation in sampled(mutations.into_iter(), 8) {
        keeps(seeds::seeds(graded(BENT)), Trial::Bent(mutation), |_| true);
    }
}
