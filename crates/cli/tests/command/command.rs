//! Runs the command as a user without any settings does, and kills it if it takes too long.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose command cannot be started has failed"
)]

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a run printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// In seconds. A run that takes longer is killed, and its code is 137.
const BOUND: &str = "180";

/// The path to programs. The command is the first on it, so that scripts call it by its name, wherever it was built.
pub(crate) fn path() -> OsString {
    let built = Path::new(env!("CARGO_BIN_EXE_fairlock")).parent().unwrap();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&others);
    std::env::join_paths([built.to_owned()].into_iter().chain(others)).unwrap()
}

/// The command in `home`. It gets nothing of this test's environment but the path to programs.
pub(crate) fn fairlock(home: &Path, line: &[&str]) -> Command {
    let mut command = Command::new("env");
    // Restores the default signals, in case the tests were started in the background or by `nohup`.
    command.args(["--default-signal", "timeout", "-s", "KILL", BOUND]);
    command.arg(env!("CARGO_BIN_EXE_fairlock"));
    command.args(line).current_dir(home).stdin(Stdio::null());
    command.env_clear().env("HOME", home);
    command.env("PATH", path());
    // Outside of AWS, asking for a role takes a long time.
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// The command with no more rights over files than their modes give to their owner. A test that root runs keeps its user and loses its
/// capabilities. It runs a copy, because without them root may not enter every folder in which the command is built.
pub(crate) fn without_rights(home: &Path, line: &[&str]) -> Said {
    // Copied by another process: a program that is open for writing, also in a process that another test just starts, cannot be run.
    let copy = Command::new("cp")
        .arg("--no-clobber")
        .arg(env!("CARGO_BIN_EXE_fairlock"))
        .arg(home.join("fairlock"))
        .status();
    assert!(home.join("fairlock").exists(), "{copy:?}");
    let none = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"];
    let is_root = rustix::process::geteuid().is_root();
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", BOUND]);
    command.args(none.iter().filter(|_| is_root));
    command.arg("./fairlock").args(line);
    said(command.current_dir(home).env("HOME", home))
}

pub(crate) fn said(command: &mut Command) -> Said {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code(),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

// Every suite includes both functions, and need not use both.
const _: () = {
    let _ = (Said::assert_refused, Said::assert_done);
};

impl Said {
    /// The command failed, said why in one line, and printed nothing else.
    #[track_caller]
    pub(crate) fn assert_refused(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "", "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        assert!(self.err.starts_with("fairlock: "), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word}: {self:?}");
        }
    }

    /// The command worked, and printed nothing on standard error.
    #[track_caller]
    pub(crate) fn assert_done(&self) -> &str {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        &self.out
    }
}
