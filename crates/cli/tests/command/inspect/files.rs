//! Locks that cannot be read, and files that contain none.
use fairlock_testkit::real_time;

use super::home::{ALL, Home, UNAVAILABLE, hold, run};

#[test]
fn a_damaged_lock_is_told_of_and_the_others_are_listed() {
    let home = Home::with_table();
    real_time(async {
        let host = home.host("alice");
        hold(&host, "good").await.release().await.unwrap();
        home.damage("bad").await;
        for line in [
            &["ls", "--local", "locks.db"][..],
            &["ls", "--json", "--local", "locks.db"],
        ] {
            let listed = run(&home, line).await;
            assert_eq!(listed.code, Some(UNAVAILABLE));
            assert!(listed.out.contains("good") && !listed.out.contains("bad"));
            assert_eq!(listed.err.lines().count(), 1, "{listed:?}");
            assert!(listed.err.contains("bad") && listed.err.contains("Repairing"));
        }
        let alone = Home::with_table();
        alone.damage("bad").await;
        let listed = run(&alone, &["ls", "--local", "locks.db"]).await;
        listed.assert_refused(UNAVAILABLE, &["bad"]);
        let shown = run(&home, &["show", "bad", "--local", "locks.db"]).await;
        shown.assert_refused(UNAVAILABLE, &["bad", "Repairing a lock"]);
    });
}

#[test]
fn what_is_no_file_of_locks_is_left_as_it_is_and_named() {
    let home = Home::new();
    std::fs::write(home.file("text"), "dear diary").unwrap();
    std::fs::create_dir(home.file("folder")).unwrap();
    let foreign = rusqlite::Connection::open(home.file("foreign.db")).unwrap();
    foreign
        .execute_batch("CREATE TABLE notes (body TEXT)")
        .unwrap();
    drop(foreign);
    // Another program has the file open, so its table is only in the log next to the file.
    let open = rusqlite::Connection::open(home.file("open.db")).unwrap();
    open.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE notes (body TEXT)")
        .unwrap();
    let small = rusqlite::Connection::open(home.file("small.db")).unwrap();
    small
        .execute_batch("PRAGMA page_size = 1024; CREATE TABLE notes (body TEXT)")
        .unwrap();
    drop(small);
    let as_it_was = std::fs::read(home.file("foreign.db")).unwrap();
    for (file, word) in [
        ("text", "it is no database"),
        ("foreign.db", "database of another program"),
        ("open.db", "database of another program"),
        ("small.db", "database of another program"),
        ("folder", "it is a directory"),
        ("/dev/null", "it is no file"),
        ("text/a.db", "Not a directory"),
    ] {
        for line in ALL {
            let ended = home.run(&format!("{line} --local {file}"));
            ended.assert_refused(UNAVAILABLE, &[file, word]);
        }
    }
    assert_eq!(std::fs::read(home.file("foreign.db")).unwrap(), as_it_was);
    let ended = home.run("table create --local no/such.db");
    ended.assert_refused(UNAVAILABLE, &["there is no directory no"]);
    assert_eq!(
        std::fs::read_to_string(home.file("text")).unwrap(),
        "dear diary"
    );
}

#[test]
fn a_file_that_others_have_just_begun_is_taken_for_what_it_is() {
    let home = Home::new();
    real_time(async {
        // The client stays open until the end, so that its tables are in SQLite's log next to the file.
        let host = home.host("alice");
        let begun = ["show", "a", "--local", "locks.db"];
        let words = ["no table fairlock", "table create"];
        run(&home, &begun).await.assert_refused(UNAVAILABLE, &words);
        host.create_table().await.unwrap();
        assert!(
            run(&home, &begun)
                .await
                .assert_done()
                .starts_with("a: free")
        );
    });
}
