//! Many commands that start at once on one file start one after the other, and leave the file sound.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;

use rustix::process::{Pid, Signal};

use crate::home::Home;
use crate::running::{Running, until};

fn entrance(home: &Home) -> File {
    File::open(home.file("locks.db")).unwrap()
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
fn held_up(home: &Home) -> (File, Running) {
    let entrance = entrance(home);
    entrance.lock().unwrap();
    let first = home.start("run a -- touch first");
    until("the entrance", || waits_for(&entrance, first.pid()));
    (entrance, first)
}

#[test]
fn whoever_comes_while_another_one_comes_in_waits_for_that_or_ends_at_a_signal() {
    let home = Home::new();
    let (entrance, first) = held_up(&home);
    first.signal(Signal::TERM);
    let ended = first.end();
    assert_eq!((ended.code, &*ended.err), (Some(143), ""));
    assert!(!home.has("first"));
    drop(entrance);
    let (entrance, first) = held_up(&home);
    entrance.unlock().unwrap();
    first.end().assert_done();
    assert!(home.has("first"));
}

/// Its wait has ended by then, and it asks once all the same.
#[test]
fn whoever_was_held_up_for_all_of_its_wait_asks_once() {
    let home = Home::new();
    let entrance = entrance(&home);
    entrance.lock().unwrap();
    home.run("run --wait 1us a -- true").assert_done();
    let _holder = home.held("");
    let refused = home.run("run --quiet --wait 1us a -- true");
    refused.assert_refused(75, &["not granted", "has it"]);
    // Held up by a process that stands still in the entrance, or by another program with such a lock, it says so and passes.
    home.go();
    let ran = home.run("run --wait infinite a -- true");
    ran.assert_ended(0, &["lets others come in at locks.db first"]);
}

#[test]
fn whoever_has_a_place_in_queue_lets_the_next_one_in() {
    let home = Home::new();
    let _holder = home.held("");
    let _successor = home.start("run --wait infinite a -- true");
    home.until_successor();
    let entrance = entrance(&home);
    until("a free entrance", || entrance.try_lock().is_ok());
}

/// The first of them makes the file. Closing it once would end the locks that SQLite has on it.
#[test]
fn many_at_once_make_one_file_and_leave_it_sound() {
    let home = Home::empty();
    let script = "mkdir inside && rmdir inside";
    let start = |_| home.start_sh("--lease 10m --wait infinite", script);
    let all: Vec<_> = (0..30).map(start).collect();
    for running in all {
        let ended = running.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(!ended.err.contains("goes on trying"), "{ended:?}");
    }
    let file = rusqlite::Connection::open(home.file("locks.db")).unwrap();
    let sound = file.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(sound.unwrap(), "ok");
}
