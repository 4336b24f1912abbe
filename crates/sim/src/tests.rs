//! Seeds that keep every promise, and mistakes that do not.

use std::collections::BTreeSet;

use clap::ValueEnum;
use fairlock_protocol::agent::record::play;

use crate::faults::Fault;
use crate::world::{Options, run};

/// How many seeds are run.
const SEEDS: u64 = 200;

#[test]
fn a_seed_decides_everything() {
    for seed in 0..5 {
        let digests: BTreeSet<_> = [(); 2]
            .map(|()| run(seed, &Options::default()).digest)
            .into();
        assert_eq!(digests.len(), 1, "{seed}");
    }
}

#[test]
fn a_story_changes_nothing() {
    let tells = Options {
        tells: true,
        ..Options::default()
    };
    for seed in 0..5 {
        let digest = run(seed, &Options::default()).digest;
        assert_eq!(run(seed, &tells).digest, digest, "{seed}");
    }
}

#[test]
fn seeds_keep_the_promises_and_are_long() {
    let (mut requests, mut turns) = (0, 0);
    for seed in 0..SEEDS {
        let outcome = run(seed, &Options::default());
        let violation = outcome.violation.map(|it| (it.oracle, it.message));
        assert_eq!(violation, None, "--seeds 1 --first {seed}");
        requests += outcome.requests;
        turns += outcome.turns;
    }
    assert!(
        requests >= 700 * SEEDS && turns >= 30 * SEEDS,
        "{requests} {turns}"
    );
}

#[test]
fn a_short_history_keeps_the_promises_with_each_fault_at_each_request() {
    let short = |fault| Options {
        is_short: true,
        fault,
        ..Options::default()
    };
    for nth in 1..=run(3, &short(None)).requests {
        for fault in Fault::value_variants() {
            let planted = format!("{nth}:{fault:?}").parse().unwrap();
            let violation = run(3, &short(Some(planted))).violation;
            let violation = violation.map(|it| (it.oracle, it.message));
            assert_eq!(
                violation, None,
                "--seeds 1 --first 3 --fault {nth}:{fault:?}"
            );
        }
    }
}

/// A release that releases any hold.
#[test]
fn a_mistake_is_noticed() {
    let options = Options {
        collects: true,
        ..Options::default()
    };
    let mistakes = run(1, &options).mistakes.0;
    let release = mistakes
        .iter()
        .find(|it| it.name() == "release: clause Is 0");
    let options = Options {
        mistake: release.cloned(),
        ..Options::default()
    };
    assert!(options.mistake.is_some());
    assert!((0..SEEDS).any(|seed| run(seed, &options).violation.is_some()));
}

#[test]
fn a_record_played_again_does_the_same_and_one_that_was_changed_does_not() {
    let options = Options {
        records: true,
        ..Options::default()
    };
    for seed in 0..10 {
        let records = run(seed, &options).records;
        assert!(records.len() > 1);
        for record in records {
            let lines: Vec<_> = record.lines().collect();
            let played = play(lines.iter().copied()).unwrap();
            assert_eq!(played.difference, None, "{seed}");
            let is_told = |line: &&str| line.starts_with("{\"Told\"");
            let Some(at) = lines.iter().position(is_told) else {
                continue;
            };
            let mut changed = lines.clone();
            changed[at] = "{\"Told\":\"nothing\"}";
            let difference = play(changed).unwrap().difference.unwrap();
            assert_eq!(difference.line, at as u64 + 1);
        }
    }
}
