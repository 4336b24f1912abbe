//! Items with versions: no change is lost, none is made twice, and the loser of a race learns what was found.

mod answers;
mod bank;
mod callers;
mod firsts;
mod races;
mod steps;

use std::collections::BTreeMap;

use bank::{Bank, Told, Way, Worker, audit, storm};
use fairlock_testkit::lab::SECOND;
use fairlock_testkit::virtual_time;
use futures::future::join_all;
use tokio::time::sleep;

/// Four workers make five withdrawals each, in a storm. Returns what is wrong afterwards, and how often callers were told what.
fn many_withdrawals(way: Way, seed: u64) -> (Vec<String>, BTreeMap<Told, usize>) {
    virtual_time(async {
        let bank = Bank::new().await;
        bank.open().await;
        let bank = &bank;
        let workers = (0..4).map(|who| async move {
            let worker = Worker::new(bank, way, 4 * seed + who, storm());
            let mut told = Vec::new();
            for turn in 0..5 {
                let name = format!("{who}/{turn}");
                let amount = i64::try_from(10 + (seed + 7 * who + 3 * turn) % 50).unwrap();
                told.push((name.clone(), worker.withdraw(&name, amount).await));
            }
            told
        });
        let told: BTreeMap<_, _> = join_all(workers).await.into_iter().flatten().collect();
        // Until the last copy of a request has arrived.
        sleep(10 * SECOND).await;
        let wrong = audit(&bank.account().await.unwrap(), &told);
        let mut counts = BTreeMap::new();
        for told in told.into_values() {
            *counts.entry(told).or_default() += 1;
        }
        (wrong, counts)
    })
}

#[test]
fn in_a_storm_each_withdrawal_is_made_once_or_not_at_all_as_its_caller_is_told() {
    let mut all = BTreeMap::new();
    for seed in 0..60 {
        let (wrong, counts) = many_withdrawals(Way::Versioned, seed);
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
        counts
            .into_iter()
            .for_each(|(told, count)| *all.entry(told).or_insert(0) += count);
    }
    let of = |told| all.get(&told).copied().unwrap_or(0);
    assert!(of(Told::Done) > 900 && of(Told::Refused) > 10, "{all:?}");
    assert!(of(Told::Unknown) < 20, "{all:?}");
}

#[test]
fn the_audit_notices_lost_withdrawals_and_doubled_ones() {
    let wrong = |way| (0..20).flat_map(move |seed| many_withdrawals(way, seed).0);
    let naive: Vec<_> = wrong(Way::Naive).collect();
    assert!(
        naive
            .iter()
            .any(|it| it.ends_with("Done and is there 0 times")),
        "{naive:?}"
    );
    let forgetful: Vec<_> = wrong(Way::Forgetful).collect();
    assert!(
        forgetful
            .iter()
            .any(|it| it.ends_with("Done and is there 2 times")),
        "{forgetful:?}"
    );
    assert!(
        !forgetful.iter().any(|it| it.ends_with("there 0 times")),
        "{forgetful:?}"
    );
}
