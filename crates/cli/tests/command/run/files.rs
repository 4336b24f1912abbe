//! The file of `--local`: created for the first turn, and what happens to it while a command holds a lock in it.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::promise::supervisor_of;
use super::running::{Running, has_a_successor, home, is_alive, run, until};
use crate::command::{Said, fairlock, path, said, without_rights};

/// Runs the command from a shell, with the shell's limits and file mode mask.
fn from_shell(home: &Path, before: &str, line: &str) -> Said {
    let script = format!("{before}; exec fairlock {line}");
    let mut shell = Command::new("timeout");
    shell.args(["-s", "KILL", "60", "sh", "-c", &script]);
    shell.current_dir(home).env("PATH", path());
    said(shell.env_remove("FAIRLOCK_HELD"))
}

#[test]
fn a_file_is_made_for_the_first_turn_with_the_mode_that_the_umask_asks_for() {
    let home = TempDir::new().unwrap();
    for (umask, mode) in [("002", 0o664), ("077", 0o600), ("022", 0o644)] {
        let line = format!("run --local {umask}.db a -- stat -c %a {umask}.db {umask}.db-wal");
        let ran = from_shell(home.path(), &format!("umask {umask}"), &line);
        assert_eq!(ran.assert_done(), format!("{mode:o}\n{mode:o}\n"));
        let made = fs::metadata(home.path().join(format!("{umask}.db"))).unwrap();
        assert_eq!(made.mode() & 0o777, mode);
    }
}

#[test]
fn a_file_with_two_names_is_refused_by_either() {
    let home = TempDir::new().unwrap();
    run(home.path(), &[], &["true"]).assert_done();
    fs::hard_link(home.path().join("locks.db"), home.path().join("other.db")).unwrap();
    for file in ["locks.db", "other.db"] {
        for line in [
            "run --local F a -- true",
            "show --local F a",
            "ls --local F",
        ] {
            let line = line.replace('F', file);
            let line: Vec<_> = line.split(' ').collect();
            let refused = said(&mut fairlock(home.path(), &line));
            let words = [
                &*format!("cannot use {file}"),
                "it has 2 names (hard links)",
            ];
            refused.assert_refused(69, &words);
        }
    }
    fs::remove_file(home.path().join("other.db")).unwrap();
    std::os::unix::fs::symlink("locks.db", home.path().join("other.db")).unwrap();
    let line = ["run", "--local", "other.db", "a", "--", "sh", "-c", NONE];
    let ran = said(&mut fairlock(home.path(), &line));
    assert_eq!(ran.assert_done(), "75\n");
}

const NONE: &str = "env -u FAIRLOCK_HELD fairlock run --quiet --wait none --local locks.db a -- true 2> err; echo $?";

#[test]
fn a_file_that_is_mounted_by_itself_is_refused() {
    let disk = ["--user", "--map-root-user", "--mount"];
    let home = TempDir::new().unwrap();
    run(home.path(), &[], &["true"]).assert_done();
    fs::write(home.path().join("other.db"), "").unwrap();
    let script =
        "mount --bind locks.db other.db || exit 99; exec fairlock run --local other.db a -- true";
    let mut alone = Command::new("unshare");
    alone.args(disk).args(["sh", "-c", script]);
    let refused = said(alone.current_dir(home.path()).env("PATH", path()));
    match refused.code {
        Some(69) => refused.assert_refused(69, &["it is mounted by itself", "mount its directory"]),
        _ => println!("not tried: this kernel lets a test mount nothing: {refused:?}"),
    }
}

/// The kernel says of a file system in a program what it is, also where the program never answers. Root may mount one for another user.
#[test]
fn a_file_on_a_file_system_of_a_program_is_refused_unless_the_user_insists() {
    let home = TempDir::new().unwrap();
    let script = "mkdir served && exec 3<>/dev/fuse || exit 99
        mount -i -t fuse -o fd=3,rootmode=40000,user_id=65534,group_id=65534 none served || exit 99
        fairlock doctor --local served/l.db
        fairlock doctor --any-filesystem --local served/l.db
        exec fairlock run --local served/l.db a -- true";
    let mut alone = Command::new("timeout");
    alone.args(["-s", "KILL", "60", "unshare", "--mount", "sh", "-c", script]);
    let tried = alone.current_dir(home.path()).env("PATH", path());
    let refused = said(tried);
    if refused.code != Some(69) {
        return println!("not tried: this test may mount nothing: {refused:?}");
    }
    let words = [
        "cannot use served/l.db",
        "a file system that a program serves (FUSE)",
        "--any-filesystem",
    ];
    for word in words {
        assert!(refused.err.contains(word), "{word}: {refused:?}");
        assert!(refused.out.contains(word), "{word}: {refused:?}");
    }
    let insists = "warning  file: served/l.db: it is on";
    assert!(refused.out.contains(insists), "{refused:?}");
}

#[test]
fn a_working_directory_that_is_gone_is_told() {
    let home = TempDir::new().unwrap();
    let gone = "mkdir gone && cd gone && rmdir ../gone";
    let ended = from_shell(home.path(), gone, "run --local l.db a -- true");
    ended.assert_refused(
        69,
        &["cannot use l.db", "the working directory was deleted"],
    );
}

#[test]
fn all_who_come_first_make_one_file() {
    let home = TempDir::new().unwrap();
    let script = "mkdir inside && rmdir inside";
    let all: Vec<_> = (0..8)
        .map(|_| Running::start(home.path(), &[], script))
        .collect();
    for running in all {
        let (code, _, err) = running.end();
        assert_eq!(code, 0, "{err}");
    }
}

/// However the file is deleted, and whether or not another is created: only the holder could know that it held the lock.
#[test]
fn a_holder_whose_file_is_gone_has_lost_and_the_next_has_the_lock_alone() {
    for (deletes, makes) in [
        (&["locks.db"][..], true),
        (&["locks.db", "locks.db-wal", "locks.db-shm"], true),
        (&["locks.db"], false),
    ] {
        let home = TempDir::new().unwrap();
        let script = "echo $$ > holder; sleep 60";
        let running = Running::start(home.path(), &[], script);
        let holder = running.pid_in("holder");
        for file in deletes {
            fs::remove_file(home.path().join(file)).unwrap();
        }
        if makes {
            // The holder was told before this command began, or will be told within a moment. It never ends well.
            run(home.path(), &[], &["true"]).assert_done();
        }
        let (code, _, err) = running.end();
        assert_eq!(code, 76, "{err}");
        assert!(
            err.contains("locks.db was deleted, or another has its name"),
            "{err}"
        );
        until("the holder's end", || !is_alive(holder));
        run(home.path(), &[], &["true"]).assert_done();
    }
}

/// A lock in a deleted file cannot be released, and the command does not try for the rest of the lease.
#[test]
fn a_holder_whose_file_is_gone_when_its_command_ends_has_lost() {
    let home = TempDir::new().unwrap();
    let running = Running::start(home.path(), &["--lease", "10m"], "rm locks.db");
    let (code, _, err) = running.end();
    assert_eq!(code, 76, "{err}");
    assert!(
        err.contains("locks.db was deleted, or another has its name"),
        "{err}"
    );
    run(home.path(), &[], &["true"]).assert_done();
}

/// By a shell's `>`, by `truncate` to a length that is none of SQLite's, and to one that is.
#[test]
fn a_holder_and_a_waiter_whose_file_is_cut_are_told_and_the_command_ends() {
    for cuts in [
        ": > locks.db",
        "truncate -s 1000 locks.db",
        "truncate -s 4096 locks.db",
    ] {
        let home = home();
        let first = Running::start(
            home.path(),
            &["--lease", "60s"],
            "echo $$ > holder; sleep 600",
        );
        let holder = first.pid_in("holder");
        let second = Running::start(home.path(), &["--wait", "30s"], "touch ran");
        until("a queue", || has_a_successor(home.path()));
        let mut shell = Command::new("sh");
        said(shell.args(["-c", cuts]).current_dir(home.path())).assert_done();
        let (code, _, err) = first.end();
        assert_eq!(code, 76, "{cuts}: {err}");
        assert!(err.contains("locks.db was cut by someone"), "{cuts}: {err}");
        assert!(!is_alive(holder), "{cuts}");
        let (code, _, err) = second.end();
        assert_eq!(code, 69, "{cuts}: {err}");
        assert!(err.contains("someone has cut it"), "{cuts}: {err}");
        assert!(!home.path().join("ran").exists(), "{cuts}");
    }
}

/// The newest writes are in the log, and the next process that opens the file creates a new log.
#[test]
fn a_holder_whose_log_is_gone_has_lost_too() {
    let home = TempDir::new().unwrap();
    let running = Running::start(home.path(), &[], "echo $$ > holder; sleep 60");
    let holder = running.pid_in("holder");
    for file in ["locks.db-wal", "locks.db-shm"] {
        fs::remove_file(home.path().join(file)).unwrap();
    }
    let (code, _, err) = running.end();
    assert_eq!(code, 76, "{err}");
    assert!(err.contains("locks.db-wal was deleted"), "{err}");
    until("the holder's end", || !is_alive(holder));
}

/// A backup keeps the file busy like this, or a process that was stopped in the middle of a request.
#[test]
fn a_file_that_others_keep_busy_is_waited_for_no_longer_than_was_asked() {
    let home = home();
    let busy = rusqlite::Connection::open(home.path().join("locks.db")).unwrap();
    busy.execute_batch("BEGIN IMMEDIATE").unwrap();
    let words = ["cannot use locks.db", "others keep it busy"];
    for wait in ["1500ms", "none"] {
        let refused = run(home.path(), &["--quiet", "--wait", wait], &["touch", "ran"]);
        refused.assert_refused(69, &words);
    }
    let show = ["show", "--local", "locks.db", "a"];
    said(&mut fairlock(home.path(), &show)).assert_refused(69, &words);
    // A command that waits prints a message, and can be ended by a signal.
    let told = home.path().join("told");
    let mut waits = Command::new("env");
    waits.args(["--default-signal", env!("CARGO_BIN_EXE_fairlock")]);
    waits.args([
        "run", "--wait", "infinite", "--local", "locks.db", "a", "--", "touch", "ran",
    ]);
    waits.current_dir(home.path()).env_remove("FAIRLOCK_HELD");
    waits.stderr(fs::File::create(&told).unwrap());
    let mut waits = waits.spawn().unwrap();
    until("a word", || {
        fs::read_to_string(&told).is_ok_and(|told| told.contains("goes on trying"))
    });
    kill_process(Pid::from_child(&waits), Signal::TERM).unwrap();
    assert_eq!(waits.wait().unwrap().code(), Some(143));
    busy.execute_batch("ROLLBACK").unwrap();
    assert!(!home.path().join("ran").exists());
    run(home.path(), &[], &["true"]).assert_done();
}

#[test]
fn what_sqlite_takes_for_something_else_is_the_name_of_a_file() {
    let home = TempDir::new().unwrap();
    for name in [":memory:", "file:foo", "file:foo?mode=memory"] {
        let turn = ["run", "--local", name, "a", "--", "true"];
        said(&mut fairlock(home.path(), &turn)).assert_done();
        assert!(fs::metadata(home.path().join(name)).unwrap().len() > 0);
        let show = ["show", "--local", name, "a"];
        let shown = said(&mut fairlock(home.path(), &show));
        assert!(shown.assert_done().starts_with("a: free"), "{shown:?}");
    }
    assert!(!home.path().join("foo").exists());
}

/// Another file gets the name from one moment to the next. A command that waits has waited in no queue there.
#[test]
fn whoever_waits_in_a_file_that_is_replaced_has_no_turn_in_the_new_one() {
    let home = TempDir::new().unwrap();
    let other = ["run", "--local", "other.db", "a", "--", "true"];
    said(&mut fairlock(home.path(), &other)).assert_done();
    let first = Running::start(home.path(), &[], "echo $$ > holder; sleep 60");
    first.pid_in("holder");
    let second = Running::start(home.path(), &["--wait", "30s"], "touch ran");
    until("a queue", || has_a_successor(home.path()));
    fs::rename(home.path().join("other.db"), home.path().join("locks.db")).unwrap();
    let (code, _, err) = second.end();
    assert_eq!(code, 69, "{err}");
    assert!(err.contains("another file has its name"), "{err}");
    assert!(!home.path().join("ran").exists());
    assert_eq!(first.end().0, 76);
}

#[test]
fn whoever_waits_in_a_file_that_is_deleted_is_told_so() {
    let home = TempDir::new().unwrap();
    let first = Running::start(home.path(), &[], "echo $$ > holder; sleep 60");
    first.pid_in("holder");
    let second = Running::start(home.path(), &["--wait", "30s"], "true");
    until("a queue", || has_a_successor(home.path()));
    for file in ["locks.db", "locks.db-wal", "locks.db-shm"] {
        fs::remove_file(home.path().join(file)).unwrap();
    }
    let (code, _, err) = second.end();
    assert_eq!(code, 69, "{err}");
    assert!(
        err.contains("it was deleted, and its locks with it"),
        "{err}"
    );
    first.end();
}

/// A disk of its own, where the kernel lets a test have one.
#[test]
fn a_full_disk_is_called_one_and_ends_a_turn_only_with_its_lease() {
    let disk = ["--user", "--map-root-user", "--mount"];
    let mut may = Command::new("unshare");
    may.args(disk)
        .args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"]);
    if !may.output().is_ok_and(|tried| tried.status.success()) {
        return println!("not tried: this kernel gives a test no disk of its own");
    }
    let home = TempDir::new().unwrap();
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
    fs::create_dir(home.path().join("disk")).unwrap();
    let mut alone = Command::new("timeout");
    alone
        .args(["-s", "KILL", "60", "unshare"])
        .args(disk)
        .args(["sh", "-c", script]);
    let ended = said(alone.current_dir(home.path()).env("PATH", path()));
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
    assert!(
        ended.err.contains(&format!("fairlock: {full}\n")),
        "{ended:?}"
    );
    assert!(
        ended.err.contains(&format!("{full}; goes on trying")),
        "{ended:?}"
    );
    let unrenewed = format!("could not be renewed ({full})");
    for end in ["; goes on trying\n", "\n"] {
        let told = format!("{unrenewed}{end}");
        assert!(ended.err.contains(&told), "{told}: {ended:?}");
    }
}

#[test]
fn a_file_that_may_not_grow_is_told_with_where_to_look() {
    let home = TempDir::new().unwrap();
    let limit = "trap '' XFSZ; ulimit -f 4";
    let ended = from_shell(home.path(), limit, "run --local l.db a -- true");
    ended.assert_refused(69, &["cannot use l.db", "ulimit -f"]);
}

#[test]
fn a_user_who_may_not_write_a_file_may_read_it_and_is_told_why_not_more() {
    let home = TempDir::new().unwrap();
    let mode =
        |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    without_rights(home.path(), &["--version"]).assert_done();
    run(home.path(), &[], &["true"]).assert_done();
    let file = home.path().join("locks.db");
    fs::create_dir(home.path().join("link")).unwrap();
    std::os::unix::fs::symlink("../locks.db", home.path().join("link/db")).unwrap();
    let shows = |what: &str, cell: &str| {
        let shown = without_rights(home.path(), &["show", "--local", "locks.db", "a"]);
        assert!(
            shown.assert_done().starts_with(&format!("a: {what}")),
            "{shown:?}"
        );
        let linked = without_rights(home.path(), &["show", "--local", "link/db", "a"]);
        assert_eq!(
            linked.assert_done().lines().next(),
            shown.out.lines().next()
        );
        let listed = without_rights(home.path(), &["ls", "--local", "locks.db"]);
        assert!(listed.assert_done().contains(cell), "{listed:?}");
    };
    mode(&file, 0o444);
    mode(home.path(), 0o555);
    shows("free", "free");
    let refused =
        |line: &[&str], words: &[&str]| without_rights(home.path(), line).assert_refused(69, words);
    let turn = ["run", "--local", "locks.db", "a", "--", "true"];
    refused(
        &turn,
        &["it belongs to", "with mode 444", "may not write it"],
    );
    let other = ["run", "--local", "other.db", "a", "--", "true"];
    refused(
        &other,
        &["its directory belongs to", "may not make files there"],
    );
    let check = without_rights(home.path(), &["table", "check", "--local", "locks.db"]);
    assert_eq!(check.code, Some(1), "{check:?}");
    assert!(
        check.out.contains("may not write it") && !check.out.contains("dynamodb:"),
        "{check:?}"
    );
    mode(home.path(), 0o755);
    mode(&file, 0o644);
    // While another process has it open, and after that process was killed.
    let running = Running::start(
        home.path(),
        &["--lease", "3s"],
        "echo $$ > holder; sleep 60",
    );
    let holder = running.pid_in("holder");
    mode(&file, 0o444);
    mode(home.path(), 0o555);
    shows("held by", "s ago)");
    let supervisor = supervisor_of(holder);
    running.signal(Signal::STOP);
    kill_process(supervisor, Signal::KILL).unwrap();
    running.signal(Signal::KILL);
    until("their end", || {
        ![supervisor, running.pid()].into_iter().any(is_alive)
    });
    shows("held by", "s ago)");
    drop(running);
    // Read-only commands leave nothing next to the file.
    mode(home.path(), 0o755);
    mode(&file, 0o644);
    run(home.path(), &["--wait", "60s"], &["true"]);
    mode(&file, 0o000);
    refused(&["show", "--local", "locks.db", "a"], &["may not read it"]);
}

/// A runtime that cannot open the files it needs panics.
#[test]
fn with_few_files_to_open_it_says_so_or_runs() {
    let home = home();
    for files in 4..=40 {
        let limit = format!("ulimit -n {files}");
        let ended = from_shell(home.path(), &limit, "run --local l.db a -- true");
        match ended.code {
            Some(0) => assert_eq!(ended.err, "", "{files} files"),
            _ => assert!(
                ended.err.contains("Too many open files"),
                "{files}: {ended:?}"
            ),
        }
        assert_ne!(ended.code, Some(101), "{files}: {ended:?}");
    }
}
