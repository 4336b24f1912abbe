//! Every write of the protocol, as a function of values and as DynamoDB's own engines run it: the same answer, the same item.
//!
//! A pair is an item and a write. Items are drawn at random, small and similar to each other. A write is built from what a client saw of
//! the item, or of a slightly different one, so that conditions fail about as often as they hold. The expressions go to the embedded
//! engine, and to the server at `FAIRLOCK_TEST_ENDPOINT`. `FAIRLOCK_DIFFERENTIAL=N` plays N pairs of each kind of write.

/// The kinds of writes on one kind of item, and all of them in a list.
macro_rules! kinds {
    ($kinds:ident: $($kind:ident),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $kinds {
            $($kind),+
        }

        impl $kinds {
            pub(crate) const ALL: &[$kinds] = &[$($kinds::$kind),+];
        }
    };
}

mod engine;
mod locks;
mod rows;
mod some;
mod stored;

use fairlock_testkit::http;
use std::time::Duration;

use engine::{Engine, Played};
use fairlock_protocol::item::{LockItem, TicketRow};
use fairlock_protocol::ticket::Ticket;
use fairlock_protocol::write::{LockWrite, RowChange, RowWrite};
use fairlock_testkit::effort::sized;
use locks::LockKind;
use rows::RowKind;
use some::Few;

/// Fewer pairs of a kind may all be refused.
const LEAST: usize = 30;
/// Pairs of each kind of write in memory, in a brief and in a thorough run. Over HTTP a tenth of them is played.
const PAIRS: [usize; 2] = [40, 1_000];
/// How many pairs are tried until one notices the planted mistake.
const TRIES: usize = 24_000;
/// In how many rounds.
const ROUNDS: usize = 30;
/// How many besides are played on an engine, in a brief and in a thorough run.
const TRIES_ON_THE_ENGINE: [usize; 2] = [90, 9_000];

fn pairs() -> usize {
    let set = std::env::var("FAIRLOCK_DIFFERENTIAL").ok();
    set.map_or(sized(PAIRS[0], PAIRS[1]), |pairs| pairs.parse().unwrap())
}

/// Nothing is timed: the bound only ends a test that hangs.
fn bounded(work: impl Future<Output = ()>) {
    let bound = Duration::from_secs(900 + pairs() as u64);
    fairlock_testkit::real_time_within(bound, work);
}

/// The answer that is expected of an engine. A lock whose counter is at the last ticket is reported as damaged.
fn played(after: Option<Option<LockItem>>) -> Played<LockItem> {
    match &after {
        Some(Some(item)) if item.last == Ticket::new(u64::MAX) => {
            Err("contradicts itself (the counter is not at its end): damaged".to_owned())
        }
        _ => Ok(after),
    }
}

/// Checks that both ways give the same answer and the same item, and that both kinds of answers occur.
async fn agree(engine: &Engine, pairs: usize) {
    for &kind in LockKind::ALL {
        let (mut some, mut applied) = (Few::seeded(kind as u64), 0);
        for _ in 0..pairs {
            let (item, write) = locks::pair(kind, &mut some);
            let after = write.apply(item.as_ref());
            let played = engine.lock(item.as_ref(), &write).await;
            applied += usize::from(after.is_some());
            assert_eq!(
                played,
                self::played(after),
                "{kind:?}: {write:#?}\nof {item:#?}"
            );
        }
        both_answers_come_up(applied, pairs, &format!("{kind:?} of a lock"));
    }
    for &kind in RowKind::ALL {
        let (mut some, mut applied) = (Few::seeded(kind as u64), 0);
        for _ in 0..pairs {
            let (row, write) = rows::pair(kind, &mut some);
            let expected = write.apply(row.as_ref(), &rows::nothing());
            let played = engine.row(row.as_ref(), &write, &mut some).await;
            applied += usize::from(expected.is_some());
            assert_eq!(played, Ok(expected), "{kind:?}: {write:#?}\nof {row:#?}");
        }
        both_answers_come_up(applied, pairs, &format!("{kind:?} of a row"));
    }
}

fn both_answers_come_up(applied: usize, pairs: usize, kind: &str) {
    let is_both = applied > pairs / 50 && applied < pairs;
    assert!(is_both, "{kind} applied to {applied} of {pairs}");
}

#[test]
fn every_write_is_what_the_embedded_engine_makes_of_it() {
    bounded(async {
        agree(&Engine::embedded().await, pairs()).await;
    });
}

#[test]
fn every_write_is_what_dynamodb_local_makes_of_it() {
    http::over_http(|url| {
        bounded(async {
            agree(&Engine::at(url).await, (pairs() / 10).max(LEAST)).await;
        });
    });
}

/// What a planted mistake removes from a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    Clause(usize),
    Effect(usize),
}

impl Planted {
    fn all(clauses: usize, effects: usize) -> impl Iterator<Item = Planted> {
        (0..clauses)
            .map(Planted::Clause)
            .chain((0..effects).map(Planted::Effect))
    }
}

/// Every item that can be read has one more ticket left, so the missing clause is not noticed.
const NEEDLESS: [(LockKind, Planted); 1] = [(LockKind::Share, Planted::Clause(2))];

#[test]
fn the_page_of_testing_names_as_many_kinds() {
    let page = include_str!("../../../../docs/testing.md").replace('\n', " ");
    let (locks, rows) = (LockKind::ALL.len(), RowKind::ALL.len());
    let there_are = format!("{locks} kinds on the lock item, and {rows} on rows");
    assert!(page.contains(&there_are), "{there_are}");
}

/// The list is made from the writes themselves, so it contains every new clause and effect.
#[test]
fn every_clause_and_every_effect_of_a_lock_write_is_missed_if_it_is_left_out() {
    bounded(async {
        let engine = Engine::embedded().await;
        let (mut planted, mut unnoticed) = (0, Vec::new());
        for &kind in LockKind::ALL {
            let mut some = Few::seeded(kind as u64);
            let (_, shape) = locks::pair(kind, &mut some);
            for plant in Planted::all(shape.clauses.len(), shape.effects.len()) {
                planted += 1;
                if !notices_in_lock(&engine, kind, plant, &mut some).await {
                    unnoticed.push((kind, plant));
                }
            }
        }
        assert_eq!(unnoticed, NEEDLESS, "of {planted}");
        println!("{planted} left out, and each noticed but for {NEEDLESS:?}");
    });
}

/// Looks for a pair at which the two writes differ as functions, and plays that. If there is none, an engine may still tell them apart, by an
/// item that cannot be read. Both are tried by turns, so that neither kind of mistake takes long.
async fn notices_in_lock(engine: &Engine, kind: LockKind, plant: Planted, some: &mut Few) -> bool {
    let [brief, thorough] = TRIES_ON_THE_ENGINE;
    for _ in 0..ROUNDS {
        for _ in 0..TRIES / ROUNDS {
            let Some((item, write, mistaken)) = mistaken_lock_write(kind, plant, some) else {
                continue;
            };
            let right = write.apply(item.as_ref());
            if mistaken.apply(item.as_ref()) != right
                && engine.lock(item.as_ref(), &mistaken).await != played(right)
            {
                return true;
            }
        }
        for _ in 0..sized(brief, thorough) / ROUNDS {
            let Some((item, write, mistaken)) = mistaken_lock_write(kind, plant, some) else {
                continue;
            };
            if engine.lock(item.as_ref(), &mistaken).await != played(write.apply(item.as_ref())) {
                return true;
            }
            // Only an item of a newer format shows this mistake; an item that can be read never does.
            if item.is_some() && engine.newer(item.as_ref(), &mistaken).await {
                return true;
            }
        }
    }
    false
}

/// An item, a write, and the same write with the mistake. A write of one kind may have fewer clauses or effects at times: `None` then.
fn mistaken_lock_write(
    kind: LockKind,
    plant: Planted,
    some: &mut Few,
) -> Option<(Option<LockItem>, LockWrite, LockWrite)> {
    let (item, write) = locks::pair(kind, some);
    let mut mistaken = write.clone();
    match plant {
        Planted::Clause(index) if index < write.clauses.len() => {
            mistaken.clauses.remove(index);
        }
        Planted::Effect(index) if index < write.effects.len() => {
            mistaken.effects.remove(index);
        }
        _ => return None,
    }
    Some((item, write, mistaken))
}

#[test]
fn every_clause_and_every_effect_of_a_row_write_is_missed_if_it_is_left_out() {
    bounded(async {
        let (engine, mut unnoticed) = (Engine::embedded().await, Vec::new());
        for &kind in RowKind::ALL {
            let mut some = Few::seeded(kind as u64);
            let (_, shape) = rows::pair(kind, &mut some);
            let effects = match &shape.change {
                RowChange::Update(effects) => effects.len(),
                RowChange::Put(_) | RowChange::Delete => 0,
            };
            for plant in Planted::all(shape.clauses.len(), effects) {
                if !notices_in_row(&engine, kind, plant, &mut some).await {
                    unnoticed.push((kind, plant));
                }
            }
        }
        assert_eq!(unnoticed, []);
    });
}

/// As of a lock's write.
async fn notices_in_row(engine: &Engine, kind: RowKind, plant: Planted, some: &mut Few) -> bool {
    for is_played in [false, true] {
        for _ in 0..TRIES {
            let Some((row, write, mistaken)) = mistaken_row_write(kind, plant, some) else {
                continue;
            };
            let right = write.apply(row.as_ref(), &rows::nothing());
            let differs = mistaken.apply(row.as_ref(), &rows::nothing()) != right;
            if (differs || is_played)
                && engine.row(row.as_ref(), &mistaken, some).await != Ok(right)
            {
                return true;
            }
        }
    }
    false
}

fn mistaken_row_write(
    kind: RowKind,
    plant: Planted,
    some: &mut Few,
) -> Option<(Option<TicketRow>, RowWrite, RowWrite)> {
    let (row, write) = rows::pair(kind, some);
    let mut mistaken = write.clone();
    match (plant, &mut mistaken.change) {
        (Planted::Clause(index), _) if index < write.clauses.len() => {
            mistaken.clauses.remove(index);
        }
        (Planted::Effect(index), RowChange::Update(effects)) if index < effects.len() => {
            effects.remove(index);
        }
        _ => return None,
    }
    Some((row, write, mistaken))
}
