//! The file of `--local`: created for the first turn, and what happens to it while a command holds a lock in it.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use rusqlite::Connection;
use rustix::process::{Signal, kill_process};

use crate::command::{Said, heeding, said, shell, without_rights};
use crate::home::Home;
use crate::running::{is_alive, parent_of, until};

/// All files of a database.
const ALL: [&str; 3] = ["locks.db", "locks.db-wal", "locks.db-shm"];
/// A disk of its own, where the kernel lets a test have one.
const DISK: [&str; 4] = ["unshare", "--user", "--map-root-user", "--mount"];

/// Runs the command from a shell, with the shell's limits and file mode mask.
fn from_shell(home: &Home, before: &str, line: &str) -> Said {
    let script = format!("{before}; exec fairlock {line}");
    said(&mut shell(home.path(), "sh", &script))
}

#[test]
fn a_file_is_made_for_the_first_turn_with_the_mode_that_the_umask_asks_for() {
    let home = Home::empty();
    for (umask, mode) in [("002", 0o664), ("077", 0o600), ("022", 0o644)] {
        let line = format!("run --local {umask}.db a -- stat -c %a {umask}.db {umask}.db-wal");
        let ran = from_shell(&home, &format!("umask {umask}"), &line);
        assert_eq!(ran.assert_done(), format!("{mode:o}\n{mode:o}\n"));
        let made = fs::metadata(home.file(&format!("{umask}.db"))).unwrap();
        assert_eq!(made.mode() & 0o777, mode);
    }
}

#[test]
fn a_file_with_two_names_is_refused_by_either() {
    let home = Home::new();
    let other = home.file("other.db");
    fs::hard_link(home.file("locks.db"), &other).unwrap();
    for file in ["locks.db", "other.db"] {
        for line in [
            "run --local F a -- true",
            "show --local F a",
            "ls --local F",
        ] {
            let refused = said(&mut home.bare(&line.replace('F', file)));
            let words = [
                &*format!("cannot use {file}"),
                "it has 2 names (hard links)",
            ];
            refused.assert_refused(69, &words);
        }
    }
    home.remove("other.db");
    symlink("locks.db", other).unwrap();
    let _held = home.held("");
    let ran = said(&mut home.bare("run --quiet --wait none --local other.db a -- true"));
    ran.assert_refused(75, &["not granted"]);
}

#[test]
fn a_file_that_is_mounted_by_itself_is_refused() {
    let home = Home::new();
    home.write("other.db", "");
    let script =
        "mount --bind locks.db other.db || exit 99; exec fairlock run --local other.db a -- true";
    let refused = said(&mut heeding(home.path(), &DISK, &["sh", "-c", script]));
    match refused.code {
        Some(69) => refused.assert_refused(69, &["it is mounted by itself", "mount its directory"]),
        _ => println!("not tried: this kernel lets a test mount nothing: {refused:?}"),
    }
}

/// The kernel says of a file system in a program what it is, also where the program never answers. Root may mount one for another user.
#[test]
fn a_file_on_a_file_system_of_a_program_is_refused_unless_the_user_insists() {
    let home = Home::empty();
    let script = "mkdir served && exec 3<>/dev/fuse || exit 99
        mount -i -t fuse -o fd=3,rootmode=40000,user_id=65534,group_id=65534 none served || exit 99
        fairlock doctor --local served/l.db
        fairlock doctor --any-filesystem --local served/l.db
        exec fairlock run --local served/l.db a -- true";
    let alone = ["timeout", "-s", "KILL", "60", "unshare", "--mount"];
    let refused = said(&mut heeding(home.path(), &alone, &["sh", "-c", script]));
    if refused.code != Some(69) {
        return println!("not tried: this test may mount nothing: {refused:?}");
    }
    let words = [
        "cannot use served/l.db",
        "a file system that a program serves (FUSE)",
        "--any-filesystem",
    ];
    refused.assert_ended(69, &words);
    for word in words
        .iter()
        .chain(&["warning  file: served/l.db: it is on"])
    {
        assert!(refused.out.contains(word), "{word}: {refused:?}");
    }
}

#[test]
fn what_a_shell_leaves_the_command_to_work_with_is_told_if_it_is_too_little() {
    let home = Home::empty();
    for (before, words) in [
        (
            "mkdir gone && cd gone && rmdir ../gone",
            "the working directory was deleted",
        ),
        ("trap '' XFSZ; ulimit -f 4", "ulimit -f"),
    ] {
        let ended = from_shell(&home, before, "run --local l.db a -- true");
        ended.assert_refused(69, &["cannot use l.db", words]);
    }
    // A runtime that cannot open the files it needs panics.
    for files in 4..=40 {
        let limit = format!("ulimit -n {files}");
        let ended = from_shell(&home, &limit, "run --local m.db a -- true");
        let is_told = ended.err.contains("Too many open files");
        let is_well = ended.code == Some(0) && ended.err.is_empty();
        assert!(is_well || is_told, "{files}: {ended:?}");
        assert_ne!(ended.code, Some(101), "{files}: {ended:?}");
    }
}

/// However the file is deleted, and whether or not another is created: only the holder could know that it held the lock. The newest writes
/// are in the log, and the next process that opens the file creates a new log.
#[test]
fn a_holder_whose_file_or_log_is_gone_has_lost_and_the_next_has_the_lock_alone() {
    let deleted = "locks.db was deleted, or another has its name";
    for (deletes, makes, words) in [
        (&ALL[..1], true, deleted),
        (&ALL, true, deleted),
        (&ALL[..1], false, deleted),
        (&ALL[1..], false, "locks.db-wal was deleted"),
    ] {
        let home = Home::empty();
        let running = home.held("");
        let holder = running.pid_in("held");
        deletes.iter().for_each(|file| home.remove(file));
        if makes {
            // The holder was told before this command began, or will be told within a moment. It never ends well.
            home.run("run a -- true").assert_done();
        }
        running.end().assert_ended(76, &[words]);
        until("the holder's end", || !is_alive(holder));
        if words == deleted {
            home.run("run a -- true").assert_done();
        }
    }
}

/// A lock in a deleted file cannot be released, and the command does not try for the rest of the lease.
#[test]
fn a_holder_whose_file_is_gone_when_its_command_ends_has_lost() {
    let home = Home::empty();
    let running = home.start("run --lease 10m a -- rm locks.db");
    let words = "locks.db was deleted, or another has its name";
    running.end().assert_ended(76, &[words]);
    home.run("run a -- true").assert_done();
}

/// By a shell's `>`, by `truncate` to a length that is none of SQLite's, and to one that is. Another file gets the name from one moment to
/// the next, and a command that waits has waited in no queue there. Or it is deleted.
#[test]
fn a_holder_and_a_waiter_whose_file_is_cut_replaced_or_deleted_are_told_and_the_command_ends() {
    let cut = ("locks.db was cut by someone", "someone has cut it");
    let replaced = ("", "another file has its name");
    let deleted = ("", "it was deleted, and its locks with it");
    for (changes, (told, waiter_is_told)) in [
        (": > locks.db", cut),
        ("truncate -s 1000 locks.db", cut),
        ("truncate -s 4096 locks.db", cut),
        ("mv other.db locks.db", replaced),
        ("rm locks.db locks.db-wal locks.db-shm", deleted),
    ] {
        let home = Home::new();
        said(&mut home.bare("run --local other.db a -- true")).assert_done();
        let first = home.held("--lease 60s");
        let holder = first.pid_in("held");
        let second = home.start("run --wait 30s a -- touch ran");
        home.until_successor();
        said(&mut shell(home.path(), "sh", changes)).assert_done();
        first.end().assert_ended(76, &[told]);
        until(changes, || !is_alive(holder));
        second.end().assert_ended(69, &[waiter_is_told]);
        assert!(!home.has("ran"), "{changes}");
    }
}

/// A backup keeps the file busy like this, or a process that was stopped in the middle of a request.
#[test]
fn a_file_that_others_keep_busy_is_waited_for_no_longer_than_was_asked() {
    let home = Home::new();
    let busy = Connection::open(home.file("locks.db")).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    for line in [
        "run --quiet --wait 1500ms a -- touch ran",
        "run --quiet --wait none a -- touch ran",
        "show a",
    ] {
        let words = ["cannot use locks.db", "others keep it busy"];
        home.run(line).assert_refused(69, &words);
    }
    // A command that waits prints a message, and can be ended by a signal.
    let mut waits = home.start("run --wait infinite a -- touch ran");
    while !waits.told().contains("goes on trying") {}
    waits.signal(Signal::TERM);
    waits.end().assert_ended(143, &[]);
    busy.execute_batch("ROLLBACK").unwrap();
    assert!(!home.has("ran"));
    home.run("run a -- true").assert_done();
}

#[test]
fn what_sqlite_takes_for_something_else_is_the_name_of_a_file() {
    let home = Home::empty();
    for name in [":memory:", "file:foo", "file:foo?mode=memory"] {
        said(&mut home.bare(&format!("run --local {name} a -- true"))).assert_done();
        assert!(fs::metadata(home.file(name)).unwrap().len() > 0);
        let shown = said(&mut home.bare(&format!("show --local {name} a")));
        shown.assert_shows(&["a: free"]);
    }
    assert!(!home.has("foo"));
}

#[test]
fn a_full_disk_is_called_one_and_ends_a_turn_only_with_its_lease() {
    let home = Home::empty();
    let tried = ["mount", "-t", "tmpfs", "tmpfs", "/mnt"];
    if said(&mut heeding(home.path(), &DISK, &tried)).code != Some(0) {
        return println!("not tried: this kernel gives a test no disk of its own");
    }
    let script = "mount -t tmpfs -o size=400k tmpfs disk && cd disk || exit 99
        fairlock run --local l.db --lease 3s a -- sh -c '
            head -c 1M /dev/zero > fill 2> /dev/null
            fairlock run --wait none --local l.db b -- true; echo none $?
            fairlock run --wait 300ms --local l.db b -- true; echo some $?
            fairlock show --local l.db a | head -n 1
            sleep 60'
        echo held $?
        rm fill; fairlock run --local l.db a -- true; echo again $?
        head -c 1M /dev/zero > fill 2> /dev/null
        fairlock run --wait 300ms --local l.db a -- true 2>&1; echo first $?";
    home.make_dir("disk");
    let alone = [&["timeout", "-s", "KILL", "60"][..], &DISK].concat();
    let ended = said(&mut heeding(home.path(), &alone, &["sh", "-c", script]));
    for word in [
        "none 69\n",
        "some 69\n",
        "a: held by",
        "held 76\n",
        "again 0\n",
        "cannot use l.db: its disk is full: make room there\nfirst 69\n",
    ] {
        assert!(ended.out.contains(word), "{word}: {ended:?}");
    }
    let full = "cannot use l.db: its disk is full: make room there";
    for told in [
        format!("fairlock: {full}\n"),
        format!("{full}; goes on trying"),
        format!("could not be renewed ({full}); goes on trying\n"),
        format!("could not be renewed ({full})\n"),
    ] {
        assert!(ended.err.contains(&told), "{told}: {ended:?}");
    }
}

#[test]
fn a_user_who_may_not_write_a_file_may_read_it_and_is_told_why_not_more() {
    let home = Home::new();
    let as_a_user = |line: &str| without_rights(home.path(), line);
    let set_modes = |of_file, of_folder| {
        home.set_mode("locks.db", of_file);
        home.set_mode("", of_folder);
    };
    as_a_user("--version").assert_done();
    home.run("run a -- true").assert_done();
    home.make_dir("link");
    symlink("../locks.db", home.file("link/db")).unwrap();
    let shows = |what: &str, cell: &str| {
        let shown = as_a_user("show --local locks.db a");
        shown.assert_shows(&[&format!("a: {what}")]);
        let linked = as_a_user("show --local link/db a");
        assert_eq!(
            linked.assert_done().lines().next(),
            shown.out.lines().next()
        );
        as_a_user("ls --local locks.db").assert_shows(&[cell]);
    };
    set_modes(0o444, 0o555);
    shows("free", "free");
    let refused = |line: &str, words: &[&str]| as_a_user(line).assert_refused(69, words);
    let words = ["it belongs to", "with mode 444", "may not write it"];
    refused("run --local locks.db a -- true", &words);
    let words = ["its directory belongs to", "may not make files there"];
    refused("run --local other.db a -- true", &words);
    let check = as_a_user("table check --local locks.db");
    assert_eq!(check.code, Some(1), "{check:?}");
    let is_told = check.out.contains("may not write it") && !check.out.contains("dynamodb:");
    assert!(is_told, "{check:?}");
    set_modes(0o644, 0o755);
    // While another process has it open, and after that process was killed.
    let running = home.held("--lease 3s");
    let supervisor = parent_of(running.pid_in("held"));
    set_modes(0o444, 0o555);
    shows("held by", "s ago)");
    running.signal(Signal::STOP);
    kill_process(supervisor, Signal::KILL).unwrap();
    running.signal(Signal::KILL);
    let are_gone = || ![supervisor, running.pid()].into_iter().any(is_alive);
    until("their end", are_gone);
    shows("held by", "s ago)");
    drop(running);
    // Read-only commands leave nothing next to the file.
    set_modes(0o644, 0o755);
    home.run("run --wait 60s a -- true");
    home.set_mode("locks.db", 0o000);
    refused("show --local locks.db a", &["may not read it"]);
}
