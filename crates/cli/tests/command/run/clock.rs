//! A machine whose wall clock is set while commands hold locks and leases in a file. The commands see a clock that libfaketime makes up.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::command::{said, signalled};
use crate::home::{Home, UNTIL_GO, scripted};
use crate::running::Running;

/// Where Debian has the library, and others.
const LIBRARIES: [&str; 3] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
];

/// The wall clock of the commands in a directory.
struct Wall<'a> {
    library: &'static str,
    home: &'a Home,
}

impl Wall<'_> {
    fn of(home: &Home) -> Option<Wall<'_>> {
        let mut libraries = LIBRARIES.into_iter();
        let library = libraries.find(|path| Path::new(path).exists())?;
        let wall = Wall { library, home };
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
        self.home.write("next", by);
        fs::rename(self.home.file("next"), self.home.file("wall")).unwrap();
    }

    fn shown_to<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("LD_PRELOAD", self.library);
        command.env("FAKETIME_TIMESTAMP_FILE", self.home.file("wall"));
        command.env("FAKETIME_NO_CACHE", "1");
        command.env("DONT_FAKE_MONOTONIC", "1")
    }

    #[track_caller]
    fn assert_code(&self, line: &str, code: i32, by: &str) {
        let said = said(self.shown_to(&mut self.home.command(line)));
        assert_eq!(said.code, Some(code), "{by}: {line}: {said:?}");
    }
}

#[test]
fn no_step_of_the_wall_clock_ends_a_hold_or_a_lease_in_a_file() {
    let home = Home::new();
    let Some(wall) = Wall::of(&home) else {
        return println!("not tried: libfaketime is not installed");
    };
    let mut holder = signalled(home.path(), &scripted("--lease 20s", UNTIL_GO));
    let holder = Running::spawn(wall.shown_to(&mut holder), home.path());
    holder.pid_in("held");
    wall.assert_code("lease acquire --id one --for 10m leased", 0, "");
    for by in ["+2m", "-2m", "+0", "+400d"] {
        wall.is_set(by);
        // Nobody gets a lock or lease that another has, by any command.
        for line in [
            "run --quiet --wait none a -- touch ran",
            "run --quiet --wait 1500ms a -- touch ran",
            "lease acquire --id another --for 10m a",
            "lease acquire --id another --for 10m leased",
            "delete a",
            "delete leased",
            "data put --wait none a",
        ] {
            wall.assert_code(line, 75, by);
        }
        wall.assert_code("sweep", 0, by);
    }
    assert!(!home.has("ran"));
    holder.signal(rustix::process::Signal::TERM);
    holder.end().assert_ended(143, &[]);
}
