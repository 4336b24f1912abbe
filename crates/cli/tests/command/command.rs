//! The command as a user without any settings runs it, killed when it takes too long.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose command cannot be started has failed"
)]

use std::path::Path;
use std::process::{Command, Stdio};

/// What a run said, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// In seconds. No run takes longer: it is killed then, and its code is 137.
const BOUND: &str = "60";

/// The command in `home`, with nothing of this test's environment but the way to programs.
pub(crate) fn fairlock(home: &Path, line: &[&str]) -> Command {
    let mut command = Command::new("env");
    // Also where the tests were started in the background or by `nohup`.
    command.args(["--default-signal", "timeout", "-s", "KILL", BOUND]);
    command.arg(env!("CARGO_BIN_EXE_fairlock"));
    command.args(line).current_dir(home).stdin(Stdio::null());
    command.env_clear().env("HOME", home);
    command.env("PATH", std::env::var_os("PATH").unwrap());
    // Asking for a role outside of AWS takes its time.
    command.env("AWS_EC2_METADATA_DISABLED", "true");
    command
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

// Every suite is offered both, and need not use both.
const _: () = {
    let _ = (Said::assert_refused, Said::assert_done);
};

impl Said {
    /// It did not work, said why in one line, and nothing else.
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

    /// It worked, and said so without a word on standard error.
    #[track_caller]
    pub(crate) fn assert_done(&self) -> &str {
        assert_eq!((self.code, self.err.as_str()), (Some(0), ""), "{self:?}");
        &self.out
    }
}
