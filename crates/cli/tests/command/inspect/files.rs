//! Locks that cannot be read, and files that contain none.

use fairlock_testkit::real_time;
use rusqlite::Connection;

use super::ALL;
use crate::clients::use_once;
use crate::command::said;
use crate::home::Home;

#[test]
fn a_damaged_lock_is_told_of_and_the_others_are_listed() {
    let home = Home::new();
    real_time(async {
        use_once(&home.host("alice"), "good").await;
        home.damage("bad").await;
        for line in ["ls", "ls --json"] {
            let listed = home.run_beside(line).await;
            listed.assert_ended(69, &["bad", "Repairing"]);
            assert!(listed.out.contains("good") && !listed.out.contains("bad"));
            assert_eq!(listed.err.lines().count(), 1, "{listed:?}");
        }
        let shown = home.run_beside("show bad").await;
        shown.assert_refused(69, &["bad", "Repairing a lock"]);
        let alone = Home::new();
        alone.damage("bad").await;
        let listed = alone.run_beside("ls").await;
        listed.assert_refused(69, &["bad"]);
    });
}

#[test]
fn what_is_no_file_of_locks_is_left_as_it_is_and_named() {
    let home = Home::empty();
    home.write("text", "dear diary");
    home.make_dir("folder");
    let foreign = |name: &str, pragma: &str| {
        let foreign = Connection::open(home.file(name)).unwrap();
        let made = foreign.execute_batch(&format!("{pragma}; CREATE TABLE notes (body TEXT)"));
        made.unwrap();
        foreign
    };
    drop(foreign("foreign.db", ""));
    // Another program has the file open, so its table is only in the log next to the file.
    let _open = foreign("open.db", "PRAGMA journal_mode = wal");
    drop(foreign("small.db", "PRAGMA page_size = 1024"));
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
            let ended = said(&mut home.bare(&format!("{line} --local {file}")));
            ended.assert_refused(69, &[file, word]);
        }
    }
    assert_eq!(std::fs::read(home.file("foreign.db")).unwrap(), as_it_was);
    let ended = said(&mut home.bare("table create --local no/such.db"));
    ended.assert_refused(69, &["there is no directory no"]);
    assert_eq!(home.read("text"), "dear diary");
}

#[test]
fn a_file_that_others_have_just_begun_is_taken_for_what_it_is() {
    let home = Home::empty();
    real_time(async {
        // The client stays open until the end, so that its tables are in SQLite's log next to the file.
        let host = home.host("alice");
        let begun = home.run_beside("show a").await;
        begun.assert_refused(69, &["no table fairlock", "table create"]);
        host.create_table().await.unwrap();
        home.run_beside("show a").await.assert_shows(&["a: free"]);
    });
}
