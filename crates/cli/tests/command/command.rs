//! Runs the command as a user without any settings does, and kills it if it takes too long.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

/// The command, as it was built.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_fairlock");
/// In seconds. A run that takes longer is killed, and its code is 137.
const BOUND: &str = "180";

/// What a run printed, and how it ended.
#[derive(Debug, PartialEq)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// The path to programs. The command is the first on it, so that scripts call it by its name, wherever it was built.
pub(crate) fn path() -> OsString {
    let built = Path::new(PROGRAM).parent().unwrap();
    let others = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&others);
    std::env::join_paths([built.to_owned()].into_iter().chain(others)).unwrap()
}

/// The command in `home`. It gets nothing of this test's environment but the path to programs.
pub(crate) fn fairlock<S: AsRef<OsStr>>(home: &Path, words: &[S]) -> Command {
    heeding(home, &["timeout", "-s", "KILL", BOUND, PROGRAM], words)
}

/// The same without a `timeout` before it, so that its process can be signalled.
pub(crate) fn signalled<S: AsRef<OsStr>>(home: &Path, words: &[S]) -> Command {
    heeding(home, &[PROGRAM], words)
}

/// A shell with the command on its path, which runs a script.
pub(crate) fn shell(home: &Path, shell: &str, script: &str) -> Command {
    heeding(
        home,
        &["timeout", "-s", "KILL", "60", shell],
        &["-c", script],
    )
}

/// A program that restores the default signals first, in case the tests were started in the background or by `nohup`.
pub(crate) fn heeding<S: AsRef<OsStr>>(home: &Path, program: &[&str], words: &[S]) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal").args(program).args(words);
    command.current_dir(home).stdin(Stdio::null());
    command.env_clear().env("HOME", home).env("PATH", path());
    // Outside of AWS, asking for a role takes a long time.
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command
}

/// The command with no more rights over files than their modes give to their owner. A test that root runs keeps its user and loses its
/// capabilities. It runs a copy, because without them root may not enter every folder in which the command is built.
pub(crate) fn without_rights(home: &Path, line: &str) -> Said {
    // Copied by another process: a program that is open for writing, also in a process that another test just starts, cannot be run.
    let mut copy = Command::new("cp");
    copy.args(["--no-clobber", PROGRAM])
        .arg(home.join("fairlock"));
    let copy = copy.status();
    assert!(home.join("fairlock").exists(), "{copy:?}");
    let bound = ["timeout", "-s", "KILL", BOUND];
    let none = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"];
    let none = match rustix::process::geteuid().is_root() {
        true => &none[..],
        false => &[],
    };
    let program = [&bound[..], none, &["./fairlock"]].concat();
    said(&mut heeding(home, &program, &words(line)))
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

/// The words of a line. Single quotes hold words together, as in a shell.
pub(crate) fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), None::<String>, false);
    for letter in line.chars() {
        match letter {
            ' ' if !is_quoted => words.extend(word.take()),
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            letter => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// The rows of a table of cases, with bars between the cells.
pub(crate) fn rows<const CELLS: usize>(table: &str) -> impl Iterator<Item = [&str; CELLS]> {
    let rows = table.lines().filter(|row| !row.trim().is_empty());
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        cells.try_into().unwrap()
    })
}

impl Said {
    /// The command failed, said why in one line, and printed nothing else.
    #[track_caller]
    pub(crate) fn assert_refused(&self, code: i32, words: &[&str]) {
        self.assert_ended(code, words);
        assert_eq!(self.out, "", "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        assert!(self.err.starts_with("fairlock: "), "{self:?}");
    }

    /// The command ended so, with these words on standard error.
    #[track_caller]
    pub(crate) fn assert_ended(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word}: {self:?}");
        }
    }

    /// The command ended so, and printed just this on standard output.
    #[track_caller]
    pub(crate) fn assert_said(&self, code: i32, out: &str) {
        assert_eq!((self.code, &*self.out), (Some(code), out), "{self:?}");
    }

    /// The command worked, and printed nothing on standard error.
    #[track_caller]
    pub(crate) fn assert_done(&self) -> &str {
        assert_eq!((self.code, &*self.err), (Some(0), ""), "{self:?}");
        &self.out
    }

    /// The command worked, and printed this.
    #[track_caller]
    pub(crate) fn assert_shows(&self, words: &[&str]) {
        for word in words {
            assert!(self.assert_done().contains(word), "no {word}: {self:?}");
        }
    }
}
