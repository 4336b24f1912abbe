//! Whatever another program writes into the table, the command ends with a documented code and one line that names the item and the way
//! out. And the way out works.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::embedded::Engine;
use fairlock::{HeldLocks, LockClient, RecordWait};
use fairlock_testkit::effort::{sampled, sized};
use fairlock_testkit::real_time;
use fairlock_testkit::tamper::{
    Blow, FOREIGN, Item, OF_LOCK_ITEM, OF_ROW, RowBody, Table, Target, delete_all, values,
};
use futures::future::join;

use crate::command::Said;
use crate::home::Home;

const SECOND: Duration = Duration::from_secs(1);
/// The item has another number of permits than the command line.
const MISUSE: i32 = 64;
const UNAVAILABLE: i32 = 69;
const NOT_GRANTED: i32 = 75;
/// No client in the table expires while a test looks at it.
const LEASE: Duration = Duration::from_secs(3600);

/// What is asked at the damaged table, and the codes that the manual lists for it.
const LINES: [(&str, &[i32]); 7] = [
    ("show a", &[0, UNAVAILABLE]),
    ("show --json a", &[0, UNAVAILABLE]),
    ("ls", &[0, UNAVAILABLE]),
    ("ls --json", &[0, UNAVAILABLE]),
    ("table check", &[0]),
    ("run --wait none a -- true", &OF_A_RUN),
    ("run --quiet --wait 500ms a -- true", &OF_A_RUN),
];
const OF_A_RUN: [i32; 4] = [0, MISUSE, UNAVAILABLE, NOT_GRANTED];

/// A directory with a file of locks, and the items of lock `a` in it: a holder, a successor and a row behind it.
struct Damaged {
    home: Home,
    table: Table,
    whole: Vec<Item>,
}

impl Damaged {
    async fn new() -> Damaged {
        let home = Home::empty();
        let table = Table {
            client: home.engine().client(),
            name: "fairlock".into(),
        };
        let whole = queue_of_three(&table).await;
        Damaged { home, table, whole }
    }

    /// Restores the queue, and strikes it once.
    async fn damaged(&self, blow: &Blow) {
        delete_all(&self.table).await;
        for item in &self.whole {
            let put = self.table.client.put_item().table_name(&self.table.name);
            put.set_item(Some(item.clone())).send().await.unwrap();
        }
        assert!(blow.strike(&self.table).await, "{blow:?} met nothing");
    }

    /// What the command says of the damage. On a busy machine a file may take so long to open that it says so: then it is run again.
    async fn said(&self, blow: &Blow, line: &str) -> Said {
        let mut tries = 0..20;
        loop {
            // The run before may have repaired or changed it.
            self.damaged(blow).await;
            let said = self.home.run(line);
            if !said.err.contains("others keep it busy") || tries.next().is_none() {
                return said;
            }
        }
    }

    fn has_a_turn_with_a_new_ticket(&self) -> bool {
        let lasts = self.whole.iter().filter_map(|item| item.get("last"));
        let lasts = lasts.map(|last| last.as_n().unwrap().parse().unwrap());
        let newest: u64 = lasts.max().unwrap();
        let said = self.home.run("run a -- printenv FAIRLOCK_TICKET");
        let ticket = said.out.trim().parse();
        said.code == Some(0) && ticket.is_ok_and(|ticket: u64| ticket > newest)
    }
}

/// Three callers come to lock `a`. Returns its items at that time. Afterwards the callers leave.
async fn queue_of_three(table: &Table) -> Vec<Item> {
    let locks = LockClient::builder(table.client.clone()).lease_duration(LEASE);
    let locks = locks.successor_slots(1).build().unwrap();
    locks.create_table().await.unwrap();
    let lock = locks.fair_lock("a").unwrap();
    let _guard = lock.acquire(RecordWait::NoWait).await.unwrap();
    let waiting = || lock.acquire(RecordWait::Infinite);
    let looking = async {
        while lock.inspect().await.unwrap().queue.len() < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let scan = table.client.scan().table_name(&table.name).send().await;
        scan.unwrap().items.unwrap()
    };
    let items = tokio::select! {
        biased;
        _ = join(waiting(), waiting()) => unreachable!("the lock is held"),
        items = looking => items,
    };
    let left = locks.shutdown(HeldLocks::Release, 60 * SECOND).await;
    assert!(left.unfinished.is_empty(), "{left:?}");
    items
}

/// What is wrong with how a run ended.
fn wrong(said: &Said, codes: &[i32]) -> Option<&'static str> {
    let Said { code, err, .. } = said;
    let (is_one_line, is_told) = (err.lines().count() == 1, err.starts_with("fairlock: "));
    match code {
        Some(code) if !codes.contains(code) => Some("a code that is not documented"),
        Some(0) if err.is_empty() => None,
        Some(0) => Some("words on standard error"),
        Some(_) if !is_one_line || !is_told => Some("not one line"),
        Some(UNAVAILABLE) if !names_the_way_out(err) => Some("no way out"),
        Some(UNAVAILABLE) if !names_the_item(err) => Some("no item"),
        Some(MISUSE) if !err.contains("permits") => Some("no permits"),
        Some(MISUSE) if !names_the_item(err) => Some("no item"),
        Some(_) => None,
        None => Some("killed"),
    }
}

fn names_the_way_out(err: &str) -> bool {
    err.contains("`Repairing a lock`")
        || err.ends_with("this version knows formats up to 5: upgrade\n")
}

/// DynamoDB itself does not say which item is too large.
fn names_the_item(err: &str) -> bool {
    err.contains("`pk = a, sk = fairlock/") || err.contains("an item of the lock was filled")
}

/// Strikes each blow by itself. Every command ends as documented, and then the way out works. In a brief run the commands take turns.
fn each(blows: impl Iterator<Item = Blow>) {
    let mut failed = Vec::new();
    let home = real_time(Damaged::new());
    let mut lines = LINES.into_iter().cycle();
    for blow in blows {
        real_time(async {
            for (line, codes) in lines.by_ref().take(sized(1, LINES.len())) {
                let said = home.said(&blow, line).await;
                let wrong = wrong(&said, codes);
                failed.extend(wrong.map(|wrong| format!("{blow:?}: {line}: {wrong}: {said:?}")));
            }
            delete_all(&home.table).await;
            if !home.has_a_turn_with_a_new_ticket() {
                failed.push(format!("{blow:?}: the way out leads nowhere"));
            }
        });
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Some of the types, and the limits of numbers.
fn each_attribute(target: Target, paths: &'static [&'static str]) {
    let values = || values().into_iter().step_by(3);
    let blows = paths.iter().flat_map(move |path| {
        let sets = values().map(move |value| Blow::Set(target, path, value));
        sets.chain([Blow::Remove(target, path)])
    });
    // Each attribute has eight blows, so every attribute and every kind of blow is in the sample.
    each(sampled(blows, 7));
}

#[test]
fn every_attribute_of_a_lock_item_missing_or_of_another_type() {
    each_attribute(Target::LockItem, &OF_LOCK_ITEM);
}

#[test]
fn every_attribute_of_a_row_missing_or_of_another_type() {
    each_attribute(Target::Row, &OF_ROW);
}

#[test]
fn foreign_items_and_rows_deleted_items_shifted_counters_and_full_items() {
    let big = AttributeValue::S("x".repeat(400_000));
    let foreign = sampled(FOREIGN.into_iter(), 2);
    let foreign = foreign.map(|key| Blow::Foreign(key, big.clone()));
    let bodies = [RowBody::Empty, RowBody::Stranger, RowBody::Nonsense];
    let rows = [-1, 1, 50].into_iter();
    // Every offset and every body is in the samples, and both ends of the shifts.
    let rows = rows.flat_map(|offset| bodies.map(|body| Blow::Row(offset, body)));
    let rows = sampled(rows, 2);
    let targets = [Target::LockItem, Target::Row];
    let shifts = [-1, 1, 1_000_000_000, i64::MAX].into_iter();
    let shifts = shifts.flat_map(|by| [true, false].map(|both| Blow::Shift(both, by)));
    let shifts = sampled(shifts, 3);
    let all = foreign.chain(rows).chain(targets.map(Blow::Delete));
    each(all.chain(shifts).chain(targets.map(Blow::Fill)));
}

#[test]
fn a_file_that_is_deleted_and_made_again_is_a_way_out_too() {
    let mut damaged = real_time(Damaged::new());
    real_time(damaged.damaged(&Blow::Remove(Target::LockItem, "format")));
    assert_eq!(damaged.home.run("run a -- true").code, Some(UNAVAILABLE));
    // No process has the file open any more.
    damaged.table.client = Engine::memory().unwrap().client();
    for file in damaged.home.files() {
        damaged.home.remove(&file);
    }
    assert_eq!(damaged.home.run("table create").code, Some(0));
    assert!(damaged.has_a_turn_with_a_new_ticket());
}
