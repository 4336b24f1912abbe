//! A machine whose wall clock is set while commands hold locks and leases in a file. The commands see a clock that libfaketime makes up.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::running::{Running, home, run_line};
use crate::command::{Said, fairlock, said};

/// Where Debian has the library, and others.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
];

/// The wall clock of the commands in a directory.
struct Wall<'a> {
    library: &'static str,
    home: &'a Path,
}

impl Wall<'_> {
    fn of(home: &Path) -> Option<Wall<'_>> {
        let library = LIBRARIES
            .into_iter()
            .find(|path| Path::new(path).exists())?;
        let wall = Wall { library, home };
        wall.is_set("+0");
        let year = |by| {
            wall.is_set(by);
            let mut date = Command::new("date");
            said(wall.shown_to(date.arg("+%Y"))).out
        };
        // A program that links the C library otherwise would not see it.
        (year("+3650d") != year("+0")).then_some(wall)
    }

    /// Sets the clock ahead by so much, or back, also for commands that run.
    fn is_set(&self, by: &str) {
        let (file, next) = (self.home.join("wall"), self.home.join("next"));
        fs::write(&next, by).unwrap();
        fs::rename(next, file).unwrap();
    }

    fn shown_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("LD_PRELOAD", self.library);
        command.env("FAKETIME_TIMESTAMP_FILE", self.home.join("wall"));
        command.env("FAKETIME_NO_CACHE", "1");
        command.env("DONT_FAKE_MONOTONIC", "1")
    }

    fn says(&self, line: &[&str]) -> Said {
        said(self.shown_to(&mut fairlock(self.home, line)))
    }
}

fn lease<'a>(id: &'a str, lock: &'a str) -> [&'a str; 9] {
    let [lease, acquire] = ["lease", "acquire"];
    [
        lease, acquire, "--local", "locks.db", "--id", id, "--for", "10m", lock,
    ]
}

/// Nobody gets a lock or lease that another has, by any command.
fn nobody_gets_them(wall: &Wall<'_>, by: &str) {
    let local = ["--local", "locks.db"];
    let not_granted = [
        &run_line(&["--quiet", "--wait", "none"], &["touch", "ran"])[..],
        &run_line(&["--quiet", "--wait", "1500ms"], &["touch", "ran"]),
        &lease("another", "a"),
        &lease("another", "leased"),
        &[&["delete"], &local[..], &["a"]].concat(),
        &[&["delete"], &local[..], &["leased"]].concat(),
        &[&["data", "put"], &local[..], &["--wait", "none", "a"]].concat(),
    ];
    for line in not_granted {
        let refused = wall.says(line);
        assert_eq!(refused.code, Some(75), "{by}: {line:?}: {refused:?}");
    }
    let swept = wall.says(&[&["sweep"], &local[..]].concat());
    assert_eq!(swept.code, Some(0), "{by}: {swept:?}");
}

#[test]
fn no_step_of_the_wall_clock_ends_a_hold_or_a_lease_in_a_file() {
    let home = home();
    let Some(wall) = Wall::of(home.path()) else {
        return println!("not tried: libfaketime is not installed");
    };
    wall.is_set("+0");
    let mut holder = Command::new("env");
    holder.args(["--default-signal", env!("CARGO_BIN_EXE_fairlock")]);
    holder.args(run_line(
        &["--lease", "20s"],
        &["sh", "-c", "echo $$ > held; sleep 600"],
    ));
    wall.shown_to(holder.current_dir(home.path()).stdin(Stdio::null()));
    let holder = Running::spawn(&mut holder, home.path());
    holder.pid_in("held");
    assert_eq!(wall.says(&lease("one", "leased")).code, Some(0));
    for by in ["+2m", "-2m", "+0", "+400d"] {
        wall.is_set(by);
        nobody_gets_them(&wall, by);
    }
    assert!(!home.path().join("ran").exists());
    holder.signal(rustix::process::Signal::TERM);
    assert_eq!(holder.end().0, 143);
}
