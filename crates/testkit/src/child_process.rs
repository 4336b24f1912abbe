//! A program of this package that runs as a process, and is watched.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// No run may take longer, on a machine that has much else to do.
pub const BOUND: Duration = Duration::from_secs(300);

/// A running program. It is killed when it takes too long, and with the test whatever happens.
pub struct Run {
    child: Arc<Mutex<Child>>,
    /// The lines of standard output, as they come.
    pub stdout: Receiver<String>,
    /// The lines of standard error, as they come.
    pub stderr: Receiver<String>,
    _watched: Sender<()>,
}

/// What a run printed, and how it ended.
pub struct Ended {
    /// The exit status, as the system has it.
    pub status: ExitStatus,
    /// All of standard output.
    pub lines: Vec<String>,
    /// All of standard error.
    pub summary: String,
}

/// An example of the package whose test asks for it. `cargo test` builds it, but `cargo test --test NAME` does not.
pub fn example(name: &str) -> Command {
    let here = std::env::current_exe().unwrap();
    let built = here.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(
        built.is_file(),
        "{} is missing: build it with `cargo build --example {name}`",
        built.display()
    );
    Command::new(built)
}

impl Run {
    /// Starts a run with pipes for both outputs.
    pub fn start(command: Command) -> Run {
        Run::into(command, Stdio::piped(), Stdio::piped())
    }

    /// Starts a run whose standard output and standard error go there. They are received if that is a pipe of this run's own.
    pub fn into(mut command: Command, stdout: Stdio, stderr: Stdio) -> Run {
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let stdout = child.stdout.take().map_or_else(nothing, lines);
        let stderr = child.stderr.take().map_or_else(nothing, lines);
        let child = Arc::new(Mutex::new(child));
        Run {
            _watched: watchdog(&child),
            child,
            stdout,
            stderr,
        }
    }

    /// Kills the process by SIGKILL.
    pub fn kill(&self) {
        self.child.lock().unwrap().kill().unwrap();
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// The processes that it has started, as Linux lists them.
    #[cfg(target_os = "linux")]
    pub fn children(&self) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.id())).unwrap();
        let listed = threads.map(|thread| thread.unwrap().path().join("children"));
        let listed: String = listed
            .map(|list| std::fs::read_to_string(list).unwrap())
            .collect();
        listed.split_whitespace().map(str::to_owned).collect()
    }

    /// Waits for the run to end.
    pub fn end(self) -> Ended {
        let lines = self.stdout.iter().collect();
        let summary = self.stderr.iter().collect::<Vec<_>>().join("\n");
        let status = self.child.lock().unwrap().wait().unwrap();
        Ended {
            status,
            lines,
            summary,
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        if let Ok(mut child) = self.child.lock() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Kills the run, which closes its pipes, unless the returned value is dropped in time.
fn watchdog(child: &Arc<Mutex<Child>>) -> Sender<()> {
    let (alive, watched) = channel();
    let child = Arc::clone(child);
    thread::spawn(move || {
        if watched.recv_timeout(BOUND) == Err(RecvTimeoutError::Timeout) {
            eprintln!("a run took longer than {BOUND:?}: killed");
            child.lock().unwrap().kill().unwrap();
        }
    });
    alive
}

fn nothing() -> Receiver<String> {
    channel().1
}

/// A pipe's lines as they come. The pipe is closed when the receiver is gone.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (tell, told) = channel();
    thread::spawn(move || {
        let lines = BufReader::new(pipe).lines();
        lines
            .map_while(Result::ok)
            .try_for_each(|line| tell.send(line))
    });
    told
}
