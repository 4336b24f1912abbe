//! Many commands that start at once on one file start one after the other, and leave the file sound.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{Pid, Signal};

use super::running::{Running, has_a_successor, home, run, until};

fn file(home: &Path) -> File {
    File::open(home.join("locks.db")).unwrap()
}

/// Whether a process waits for a lock of the file, according to the kernel.
fn waits_for(file: &File, pid: Pid) -> bool {
    let (pid, inode) = (pid.to_string(), file.metadata().unwrap().ino().to_string());
    let locks = fs::read_to_string("/proc/locks").unwrap();
    locks.lines().any(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let is_of = |at: &&str| at.split(':').next_back() == Some(&inode);
        words.contains(&"->") && words.contains(&pid.as_str()) && words.iter().any(is_of)
    })
}

/// A command that will make the file `first`, and waits at the entrance while that is locked.
fn held_up(home: &Path) -> (File, Running) {
    let entrance = file(home);
    entrance.lock().unwrap();
    let first = Running::start(home, &[], "touch first");
    until("the entrance", || waits_for(&entrance, first.pid()));
    (entrance, first)
}

#[test]
fn whoever_comes_while_another_one_comes_in_waits_for_that() {
    let home = home();
    let (entrance, first) = held_up(home.path());
    entrance.unlock().unwrap();
    let (code, _, err) = first.end();
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(home.path().join("first").exists());
}

#[test]
fn whoever_has_had_enough_at_the_entrance_ends() {
    let home = home();
    let (_entrance, first) = held_up(home.path());
    first.signal(Signal::TERM);
    let (code, _, err) = first.end();
    assert_eq!((code, err.as_str()), (143, ""));
    assert!(!home.path().join("first").exists());
}

/// Its wait has ended by then, and it asks once all the same.
#[test]
fn whoever_was_held_up_for_all_of_its_wait_asks_once() {
    let home = home();
    let entrance = file(home.path());
    entrance.lock().unwrap();
    run(home.path(), &["--wait", "1us"], &["true"]).assert_done();
    let holder = Running::start(home.path(), &[], "echo $$ > holder; sleep 60");
    holder.pid_in("holder");
    let refused = run(home.path(), &["--quiet", "--wait", "1us"], &["true"]);
    refused.assert_refused(75, &["not granted", "has it"]);
}

/// Held up by a process that stands still in the entrance, or by another program with such a lock.
#[test]
fn whoever_is_held_up_for_long_says_so_and_passes() {
    let home = home();
    let entrance = file(home.path());
    entrance.lock().unwrap();
    let ran = run(home.path(), &["--wait", "infinite"], &["true"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.err.contains("lets others come in at locks.db first"),
        "{ran:?}"
    );
}

#[test]
fn whoever_has_a_place_in_queue_lets_the_next_one_in() {
    let home = home();
    let holder = Running::start(home.path(), &[], "echo $$ > holder; sleep 60");
    holder.pid_in("holder");
    let _successor = Running::start(home.path(), &["--wait", "infinite"], "true");
    until("a queue", || has_a_successor(home.path()));
    let entrance = file(home.path());
    until("a free entrance", || entrance.try_lock().is_ok());
}

/// Closing the file once would end the locks that SQLite has on it.
#[test]
fn many_at_once_leave_a_file_that_is_sound() {
    let home = home();
    let all: Vec<_> = (0..30)
        .map(|_| {
            Running::start(
                home.path(),
                &["--lease", "10m", "--wait", "infinite"],
                "true",
            )
        })
        .collect();
    for running in all {
        let (code, _, err) = running.end();
        assert_eq!(code, 0, "{err}");
        assert!(!err.contains("goes on trying"), "{err}");
    }
    let file = rusqlite::Connection::open(home.path().join("locks.db")).unwrap();
    let sound: String = file
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .unwrap();
    assert_eq!(sound, "ok");
}
