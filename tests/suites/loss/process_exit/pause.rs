//! A process that is stopped while it holds a lock, and goes on after another client was granted the lock.

use std::io::Read;

use fairlock::{Error, RecordWait};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout};

use super::home::{Home, of_this_process};

const HOLDS: &str = "holds";
/// What a process prints that has found its lock lost in every way.
pub(crate) const LOST: &str = "held false, for 0ns, lost Expired, released Err(\"Expired\")";

pub(crate) struct Stopped {
    process: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Stopped {
    /// Starts a process that holds the lock, and stops it.
    pub(crate) async fn as_holder(home: &Home, lock: &str) -> Stopped {
        let mut process = home
            .process("pause::is_stopped", "holder", lock)
            .spawn()
            .unwrap();
        let stdout = process.stdout.take().unwrap();
        let mut stopped = Stopped {
            process,
            says: BufReader::new(stdout).lines(),
        };
        stopped.says(HOLDS).await;
        stopped.signal(Signal::STOP);
        stopped
    }

    /// Continues the process, which checks its lock at once. Returns what it found.
    pub(crate) async fn goes_on(mut self) -> String {
        let mut input = self.process.stdin.take().unwrap();
        input.write_all(b"\n").await.unwrap();
        self.signal(Signal::CONT);
        let told = self.says("held").await;
        assert!(self.process.wait().await.unwrap().success());
        told
    }

    async fn says(&mut self, first: &str) -> String {
        loop {
            let line = self.says.next_line().await.unwrap().unwrap();
            if line.starts_with(first) {
                return line;
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }
}

/// Its main thread goes on as soon as it reads a byte, which was written before the process was continued.
#[test]
#[ignore = "one of the processes of the other tests"]
fn is_stopped() {
    #[tokio::main]
    async fn main() {
        let (_locks, lock) = of_this_process();
        let guard = lock.acquire(RecordWait::Infinite).await.unwrap();
        println!("\n{HOLDS}");
        std::io::stdin().read_exact(&mut [0]).unwrap();
        let (held, remaining) = (guard.is_held(), guard.remaining());
        let lost = guard.lost().await.reason;
        let released = guard.release().await.map_err(|error| match error {
            Error::Lost { reason, .. } => format!("{reason:?}"),
            other => other.to_string(),
        });
        println!("held {held}, for {remaining:?}, lost {lost:?}, released {released:?}");
    }
    main();
}
