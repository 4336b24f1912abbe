//! Whatever another program writes into the table, there is no panic, no grant to two holders, and no call without end. Each call ends with
//! a typed error that names the item, or continues correctly. A documented way out exists.
//!
//! `FAIRLOCK_HOSTILE_CASES` is how many random cases are tried, `FAIRLOCK_HOSTILE_SEED` which.

mod siege;

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock_testkit::effort::{sampled, sized};
use fairlock_testkit::lab::{SECOND, acquire, cut_off, in_lab, waits};
use fairlock_testkit::panics::count_panics;
use fairlock_testkit::tamper::{
    Blow, FOREIGN, OF_A_SHARED_LOCK, OF_A_SHARER, OF_LOCK_ITEM, OF_ROW, RowBody, Target, values,
};
use fairlock_testkit::virtual_time;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use siege::{Crew, Misses, play, table};

/// When a queue of three is at rest.
const AT_REST: Duration = Duration::from_millis(1_500);

fn set(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Plays each blow by itself, at rest. Names every blow that did harm.
fn each(blows: impl Iterator<Item = Blow>) {
    each_at(Crew::Alone, blows);
}

fn each_at(crew: Crew, blows: impl Iterator<Item = Blow>) {
    count_panics();
    let (mut tried, mut failed) = (0, Vec::new());
    for blow in blows {
        tried += 1;
        let played = virtual_time(play(crew, vec![(AT_REST, blow.clone())], Misses::AreFaults));
        failed.extend(played.err().map(|wrong| format!("{blow:?}: {wrong}")));
    }
    println!("{tried} blows");
    let list = failed.join("\n");
    assert!(
        failed.is_empty(),
        "{} of {tried} failed:\n{list}",
        failed.len()
    );
}

fn each_attribute(crew: Crew, target: Target, paths: &'static [&'static str]) {
    let blows = paths.iter().flat_map(move |path| {
        let sets = values()
            .into_iter()
            .map(move |value| Blow::Set(target, path, value));
        sets.chain([Blow::Remove(target, path)])
    });
    // Each attribute has 22 blows. 21 has no divisor in common with that, so every attribute is in the sample, and every kind of blow.
    each_at(crew, sampled(blows, 21));
}

#[test]
fn every_attribute_of_a_lock_item_missing_or_of_every_type() {
    each_attribute(Crew::Alone, Target::LockItem, &OF_LOCK_ITEM);
}

#[test]
fn every_attribute_of_a_shared_lock_missing_or_of_every_type() {
    each_attribute(Crew::Sharing, Target::LockItem, &OF_A_SHARED_LOCK);
}

#[test]
fn every_attribute_of_a_sharer_missing_or_of_every_type() {
    each_attribute(Crew::Sharing, Target::Sharer, &OF_A_SHARER);
    each_attribute(Crew::Sharing, Target::Beside, &[""]);
}

#[test]
fn every_attribute_of_a_row_missing_or_of_every_type() {
    each_attribute(Crew::Alone, Target::Row, &OF_ROW);
}

#[test]
fn foreign_items_and_rows_deleted_items_shifted_counters_and_full_items() {
    let foreign = sampled(FOREIGN.into_iter(), 2).map(|key| Blow::Foreign(key, big()));
    let bodies = [
        RowBody::Empty,
        RowBody::Void,
        RowBody::Stranger,
        RowBody::Nonsense,
    ];
    let rows = [-2, -1, 0, 1, 2, 50].into_iter();
    // Every offset and every body is in the samples, and both ends of the shifts.
    let rows = rows.flat_map(|offset| bodies.map(|body| Blow::Row(offset, body)));
    let rows = sampled(rows, 3);
    let targets = [Target::LockItem, Target::Row];
    let shifts = [-1_000_000, -1, 1, 30, 1_000_000_000, i64::MAX].into_iter();
    let shifts = shifts.flat_map(|by| [true, false].map(|both| Blow::Shift(both, by)));
    let shifts = sampled(shifts, 11);
    let all = foreign.chain(rows).chain(targets.map(Blow::Delete));
    each(all.chain(shifts).chain(targets.map(Blow::Fill)));
}

fn big() -> AttributeValue {
    AttributeValue::S("x".repeat(400_000))
}

fn any_blow() -> impl Strategy<Value = Blow> {
    let targets = || select(vec![Target::LockItem, Target::Row]);
    let of = |target: Target, paths: &'static [&'static str]| {
        select(paths).prop_map(move |path| (target, path))
    };
    let paths = move || {
        prop_oneof![
            3 => of(Target::LockItem, &OF_LOCK_ITEM),
            3 => of(Target::Row, &OF_ROW),
            1 => of(Target::LockItem, &OF_A_SHARED_LOCK),
            1 => of(Target::Sharer, &OF_A_SHARER),
            1 => of(Target::Beside, &[""]),
        ]
    };
    let bodies = select(vec![
        RowBody::Empty,
        RowBody::Void,
        RowBody::Stranger,
        RowBody::Nonsense,
    ]);
    prop_oneof![
        4 => (paths(), select(values())).prop_map(|((to, path), value)| Blow::Set(to, path, value)),
        2 => paths().prop_map(|(target, path)| Blow::Remove(target, path)),
        2 => (select(&FOREIGN[..]), prop_oneof![select(values()), Just(big())])
            .prop_map(|(key, value)| Blow::Foreign(key, value)),
        3 => (-3..60_i64, bodies).prop_map(|(offset, body)| Blow::Row(offset, body)),
        1 => targets().prop_map(Blow::Delete),
        1 => (any::<bool>(), -2_000_000..2_000_000_i64).prop_map(|(both, by)| Blow::Shift(both, by)),
        1 => targets().prop_map(Blow::Fill),
    ]
}

#[test]
fn any_few_blows_at_any_moments() {
    let moment = (0..11_000_u64).prop_map(Duration::from_millis);
    let blows = proptest::collection::vec((moment, any_blow()), 1..5);
    let blows = blows.prop_map(|mut blows| {
        blows.sort_by_key(|(at, _)| *at);
        blows
    });
    let config = Config {
        cases: set("FAIRLOCK_HOSTILE_CASES").unwrap_or(sized(8, 200)) as u32,
        failure_persistence: None,
        max_shrink_iters: 200,
        ..Config::default()
    };
    let seed = set("FAIRLOCK_HOSTILE_SEED")
        .unwrap_or(0)
        .to_le_bytes()
        .repeat(4);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let crews = select(vec![Crew::Alone, Crew::Sharing]);
    let ran = TestRunner::new_with_rng(config, rng).run(&(crews, blows), |(crew, blows)| {
        count_panics();
        virtual_time(play(crew, blows, Misses::AreFine)).map_err(TestCaseError::fail)
    });
    assert!(ran.is_ok(), "{}", ran.unwrap_err());
}

#[test]
fn a_lease_that_somebody_made_longer_is_believed_in_no_longer_than_ones_own() {
    in_lab(async |lab, [a, b]| {
        let guard = acquire(&a).await;
        let successor = waits(lab, &b).await;
        let day = AttributeValue::N("86400000".into());
        let longer = Blow::Set(Target::LockItem, "slots[1].lease_ms", day);
        assert!(longer.strike(&table(lab)).await);
        guard.release().await.unwrap();
        let guard = successor.await.unwrap();
        // Its first renewal writes its own lease again, by which other clients judge it.
        lab.wait(12 * SECOND).await;
        b.network.set_faults(cut_off());
        let next = waits(lab, &a).await;
        let next = next.await.unwrap();
        assert!(next.is_held() && !guard.is_held());
    });
}
