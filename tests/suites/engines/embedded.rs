//! The embedded engine does what DynamoDB does, in memory and on a file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use fairlock::Clock;
use fairlock::embedded::{Counts, Engine, Fault, Gate, Network};
use fairlock_testkit::lab::SECOND;
use futures::FutureExt;
use tempfile::TempDir;
use tokio::time::sleep;

use fairlock_testkit::counter::*;
use fairlock_testkit::{real_time, virtual_time};

const MINUTE: Duration = Duration::from_secs(60);

// ---------------------------------------------------------------------------------------------------------------
// The engine

#[test]
fn a_conditional_update_is_applied_once_and_a_refusal_shows_the_item_but_on_an_old_engine() {
    virtual_time(async {
        let engine = engine().await;
        let client = engine.client();
        count_up(&client, 0).await.unwrap();
        for (engine, item) in [
            (engine.clone(), Some(1)),
            (engine.clone().without_old_values(), None),
        ] {
            let refused = count_up(&engine.client(), 0).await.unwrap_err();
            assert_eq!(shown(&refused).as_ref().map(n_of), item);
        }
        count_up(&client, 1).await.unwrap();
        assert_eq!(counted(&engine).await, 2);
    });
}

#[test]
fn an_item_of_400_kilobytes_is_taken_and_one_byte_more_is_refused_put_and_updated() {
    virtual_time(async {
        let engine = engine().await;
        let key = [("pk", text("large")), ("sk", text("-"))];
        let key = HashMap::from(key.map(|(name, value)| (name.to_owned(), value)));
        let client = engine.client();
        let put = async |bytes: usize| {
            let put = client.put_item().table_name("things");
            let put = put.set_item(Some(key.clone()));
            let put = put.item("padding", text(&"x".repeat(bytes)));
            put.send().await.is_ok()
        };
        let update = async |bytes: usize| {
            let update = client.update_item().table_name("things");
            let update = update.set_key(Some(key.clone()));
            let update = update.update_expression("SET besides = :besides");
            let besides = text(&"y".repeat(bytes));
            let update = update.expression_attribute_values(":besides", besides);
            update.send().await.is_ok()
        };
        let most = 400 * 1024 - "pk".len() - "large".len() - "sk".len() - "-".len();
        let alone = most - "padding".len();
        assert!(put(alone).await && !put(alone + 1).await);
        assert!(put(alone / 2).await);
        let rest = alone - alone / 2 - "besides".len();
        assert!(update(rest).await && !update(rest + 1).await);
    });
}

#[test]
fn what_is_refused_has_its_code_and_applies_nothing() {
    virtual_time(async {
        let engine = engine().await;
        let network = first(&engine, Fault::Refuse("AccessDeniedException"));
        let scripted = add_one(&once(&network)).await.unwrap_err();
        assert_eq!(status(&scripted), 400);
        assert_eq!(scripted.code(), Some("AccessDeniedException"));
        let client = engine.client();
        let update = client.update_item().table_name("things");
        let update = update.key("pk", text("counter")).key("sk", text("-"));
        let invalid = update.update_expression("SET").send().await.unwrap_err();
        assert_eq!(invalid.code(), Some("ValidationException"));
        let unknown = client.describe_limits().send().await.unwrap_err();
        assert_eq!(unknown.code(), Some("UnknownOperationException"));
        assert_eq!(counted(&engine).await, 0);
    });
}

/// The `Date` of an answer. Errors are answers whose headers the SDK shows.
async fn date(client: &Client) -> Option<String> {
    let missing = client.describe_table().table_name("missing").send().await;
    let refused = missing.unwrap_err();
    let headers = refused.raw_response().unwrap().headers();
    headers.get("date").map(str::to_owned)
}

#[test]
fn the_date_of_an_answer_follows_the_engines_clock_unless_the_engine_sends_none() {
    virtual_time(async {
        let clock = Clock::of_tokio(Duration::from_secs(784_111_777));
        let engine = Engine::memory().unwrap().with_clock(clock);
        let dated = async || date(&engine.client()).await.unwrap();
        assert_eq!(dated().await, "Sun, 06 Nov 1994 08:49:37 GMT");
        sleep(83 * SECOND + Duration::from_millis(900)).await;
        assert_eq!(dated().await, "Sun, 06 Nov 1994 08:51:00 GMT");
        assert_eq!(date(&engine.clone().without_date().client()).await, None);
    });
}

#[test]
fn ttl_deletes_what_is_past_by_the_engines_clock_and_nothing_else() {
    virtual_time(async {
        let now = 1_700_000_000;
        let clock = Clock::of_tokio(Duration::from_secs(now));
        let engine = engine().await.with_clock(clock);
        let client = engine.client();
        put_expiring(&client, "later", now + 60).await;
        put_expiring(&client, "now", now).await;
        put_expiring(&client, "past", now - 1).await;
        put_expiring(&client, "six years past", now - 6 * 365 * 24 * 3600).await;
        assert_eq!(engine.expire().await.unwrap(), 0, "no TTL on the table");
        switch_on_ttl(&client).await;
        assert_eq!(engine.expire().await.unwrap(), 1);
        assert_eq!(names(&client).await, ["later", "now", "six years past"]);
        sleep(MINUTE + SECOND).await;
        assert_eq!(engine.expire().await.unwrap(), 2);
        assert_eq!(names(&client).await, ["six years past"]);
    });
}

#[test]
fn ttl_reaches_every_page_of_a_large_table() {
    virtual_time(async {
        let clock = Clock::of_tokio(Duration::from_secs(1_700_000_000));
        let engine = engine().await.with_clock(clock);
        let client = engine.client();
        switch_on_ttl(&client).await;
        for name in ["a", "b", "c", "d", "e", "f"] {
            let request = client.put_item().table_name("things");
            let request = request.item("pk", text(name)).item("sk", text("-"));
            let request = request.item("expires_at", number(1_699_999_999));
            let request = request.item("load", text(&"x".repeat(390_000)));
            request.send().await.unwrap();
        }
        let page = client.scan().table_name("things").send().await.unwrap();
        assert!(page.count() < 6, "one page holds a megabyte");
        assert_eq!(engine.expire().await.unwrap(), 6);
    });
}

// ---------------------------------------------------------------------------------------------------------------
// Files, which are read and written in real time

/// Counts up this many times, whatever others do.
async fn count(engine: Engine, times: u64) {
    let (client, mut seen) = (engine.client(), 0);
    // Each failed round saw a newer count, and the other counters make no more than `times` of them.
    for _ in 0..times {
        while let Err(refused) = count_up(&client, seen).await {
            seen = n_of(&shown(&refused).expect("the newer count"));
        }
        seen += 1;
    }
}

/// Where a new file may be made, and its directory.
fn new_file() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("things.db");
    (directory, path)
}

/// An engine on a new file, with a table.
fn on_a_new_file() -> (TempDir, PathBuf, Engine) {
    let (directory, path) = new_file();
    let engine = Engine::file(&path).unwrap();
    real_time(create_table(&engine.client()));
    (directory, path, engine)
}

fn on_a_thread(path: &Path) -> std::thread::JoinHandle<()> {
    let path = path.to_owned();
    std::thread::spawn(move || {
        real_time(async move { count(Engine::file(path).unwrap(), 200).await })
    })
}

#[test]
fn two_threads_with_an_engine_each_on_one_file_lose_no_increment() {
    let (_directory, path, engine) = on_a_new_file();
    let threads = [on_a_thread(&path), on_a_thread(&path)];
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(real_time(counted(&engine)), 400);
}

/// Longer than SQLite itself waits for a file.
const BUSY: Duration = Duration::from_millis(5_500);

#[test]
fn a_busy_file_is_tried_again_and_the_runtime_goes_on_meanwhile() {
    let (_directory, path, engine) = on_a_new_file();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let ticks = real_time(async {
        let network = Network::to(&engine);
        let client = once(&network);
        let mut request = Box::pin(add_one(&client));
        let mut ticks = 0;
        while ticks < BUSY.as_millis() / 100 {
            tokio::select! {
                biased;
                answer = &mut request => panic!("{answer:?} while another writes"),
                () = sleep(Duration::from_millis(100)) => ticks += 1,
            }
        }
        other.execute_batch("COMMIT").unwrap();
        request.await.unwrap();
        ticks
    });
    assert!(ticks > 50);
    assert_eq!(real_time(counted(&engine)), 1);
}

#[test]
fn a_file_that_another_writes_to_is_read_meanwhile() {
    let (_directory, path, engine) = on_a_new_file();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(real_time(counted(&engine)), 0);
    other.execute_batch("COMMIT").unwrap();
}

/// As a process does that is stopped in the middle of a request.
#[test]
#[cfg(unix)]
fn who_keeps_a_turn_at_the_file_for_ever_keeps_nobody_from_it() {
    let (directory, _, engine) = on_a_new_file();
    let log = std::fs::File::open(directory.path().join("things.db-wal")).unwrap();
    log.lock().unwrap();
    for there in 0..20 {
        assert_eq!(real_time(counted(&engine)), there);
        real_time(add_one(&engine.client())).unwrap();
    }
    drop(log);
    assert_eq!(real_time(counted(&engine)), 20);
}

/// Opens a file that does not exist, on several threads at the same instant.
fn opened_by(many: usize, path: &Path) {
    let together = Barrier::new(many);
    std::thread::scope(|threads| {
        for _ in 0..many {
            threads.spawn(|| {
                together.wait();
                Engine::file(path).unwrap()
            });
        }
    });
}

#[test]
fn whoever_opens_a_new_file_at_the_same_time_waits_and_opens_it() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..50 {
        opened_by(8, &directory.path().join(format!("{round}.db")));
    }
}

/// A table's description without the table. A maker leaves this if it is killed, or its disk is full, between writing the two.
#[test]
fn a_table_that_was_not_made_to_its_end_is_none_and_can_be_made() {
    let (_directory, path, engine) = on_a_new_file();
    drop(engine);
    let maker = rusqlite::Connection::open(&path).unwrap();
    maker.execute_batch("DROP TABLE things").unwrap();
    drop(maker);
    real_time(async {
        let client = Engine::file(&path).unwrap().client();
        let tables = client.list_tables().send().await.unwrap();
        assert!(tables.table_names().is_empty(), "{tables:?}");
        create_table(&client).await;
        add_one(&client).await.unwrap();
        // Opening the file again leaves the finished table as it is.
        assert_eq!(counted(&Engine::file(&path).unwrap()).await, 1);
    });
}

/// Whatever file has the name counts as the file, also for engines that had the earlier file open.
#[test]
fn a_file_that_is_deleted_takes_its_tables_with_it_and_the_next_has_its_own() {
    real_time(async {
        let (_directory, path) = new_file();
        let one = Engine::file(&path).unwrap();
        create_table(&one.client()).await;
        add_one(&one.client()).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let gone = add_one(&one.client())
            .await
            .unwrap_err()
            .into_service_error();
        assert!(gone.is_resource_not_found_exception(), "{gone}");
        // SQLite's files of the deleted database are still there, and must not be taken for those of the new one.
        let other = Engine::file(&path).unwrap();
        create_table(&other.client()).await;
        assert_eq!(counted(&one).await, 0);
        add_one(&one.client()).await.unwrap();
        assert_eq!((counted(&one).await, counted(&other).await), (1, 1));
    });
}

#[test]
fn a_link_to_a_file_that_is_not_there_makes_it_where_it_leads() {
    real_time(async {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        std::fs::create_dir(path("there")).unwrap();
        std::os::unix::fs::symlink("there/things.db", path("one")).unwrap();
        std::os::unix::fs::symlink(path("one"), path("two")).unwrap();
        let engine = Engine::file(path("two")).unwrap();
        create_table(&engine.client()).await;
        add_one(&engine.client()).await.unwrap();
        let other = Engine::file(path("there/things.db")).unwrap();
        assert_eq!(counted(&other).await, 1);
        std::os::unix::fs::symlink(path("endless"), path("endless")).unwrap();
        assert!(Engine::file(path("endless")).is_err());
    });
}

#[test]
fn an_engine_that_only_reads_sees_what_others_write_and_leaves_nothing_beside_the_file() {
    real_time(async {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("things?.db");
        assert!(Engine::read_only(&path).is_err(), "there is no file yet");
        let writer = Engine::file(&path).unwrap();
        create_table(&writer.client()).await;
        let reader = Engine::read_only(&path).unwrap();
        // SQLite's log is next to the file, and not next to the link.
        let elsewhere = tempfile::tempdir().unwrap();
        let link = elsewhere.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let by_link = Engine::read_only(&link).unwrap();
        for turns in 1..4 {
            add_one(&writer.client()).await.unwrap();
            assert_eq!(counted(&reader).await, turns);
            assert_eq!(counted(&by_link).await, turns);
        }
        let refused = add_one(&reader.client()).await.unwrap_err();
        assert_eq!(refused.code(), Some("AccessDeniedException"));
        drop(writer);
        assert_eq!(counted(&reader).await, 3);
        let files = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(files, 1, "a log is left");
    });
}

/// How often the file is opened, and how much is written each time.
const OPENED: u64 = 60;
const EACH: u64 = 3;

/// The writer opens the file for each write, so that it is read at times with a log next to it and at times without.
#[test]
fn an_engine_that_only_reads_a_file_that_is_opened_and_closed_all_the_time_reads_all_of_it() {
    real_time(async {
        let (_directory, path) = new_file();
        let maker = Engine::file(&path).unwrap();
        create_table(&maker.client()).await;
        add_one(&maker.client()).await.unwrap();
        drop(maker);
        let reader = Engine::read_only(&path).unwrap();
        let written = Arc::new(AtomicU64::new(1));
        let writer = std::thread::spawn({
            let (path, written) = (path.clone(), Arc::clone(&written));
            let opened = async move || {
                let engine = Engine::file(&path).unwrap();
                for _ in 0..EACH {
                    count(engine.clone(), 1).await;
                    written.fetch_add(1, Ordering::SeqCst);
                }
            };
            move || (0..OPENED).for_each(|_| real_time(opened()))
        });
        let mut reads = 0_u32;
        while !writer.is_finished() {
            let before = written.load(Ordering::SeqCst);
            let now = counted(&reader).await;
            assert!(now >= before, "{now} after {before}");
            reads += 1;
        }
        writer.join().unwrap();
        assert!(reads > 0);
        assert_eq!(counted(&reader).await, 1 + OPENED * EACH);
    });
}

#[test]
fn an_engine_on_a_file_learns_of_ttl_that_another_switched_on() {
    real_time(async {
        let (_directory, path) = new_file();
        let (one, other) = (Engine::file(&path).unwrap(), Engine::file(&path).unwrap());
        create_table(&one.client()).await;
        put_expiring(&other.client(), "past", 1_700_000_000).await;
        switch_on_ttl(&one.client()).await;
        let ttl = other.client().describe_time_to_live().table_name("things");
        let ttl = ttl.send().await.unwrap().time_to_live_description.unwrap();
        assert_eq!(ttl.attribute_name(), Some("expires_at"));
        let clock = Clock::of_tokio(Duration::from_secs(1_700_000_060));
        assert_eq!(other.with_clock(clock).expire().await.unwrap(), 1);
    });
}

#[test]
fn a_request_to_a_file_is_applied_though_its_future_is_dropped() {
    real_time(async {
        let (_directory, path) = new_file();
        let engine = Engine::file(path).unwrap();
        create_table(&engine.client()).await;
        assert!(add_one(&engine.client()).now_or_never().is_none());
        // The test's watchdog bounds the loop.
        while counted(&engine).await == 0 {}
        assert_eq!(counted(&engine).await, 1);
    });
}

#[test]
fn a_file_that_is_no_database_is_refused_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notes.txt");
    std::fs::write(
        &path,
        "not a database, and longer than a header of SQLite: ".repeat(20),
    )
    .unwrap();
    let refused = Engine::file(&path).unwrap_err();
    assert!(refused.to_string().contains("notes.txt"));
    assert!(std::error::Error::source(&refused).is_some());
}

#[test]
fn engines_and_networks_may_be_shared_between_threads() {
    fn shareable<T: Clone + Send + Sync + 'static>() {}
    shareable::<Engine>();
    shareable::<Network>();
    shareable::<Gate>();
    shareable::<Counts>();
}
