//! A worker's process, as its parent sees it through its pipes.

use std::io;
use std::process::Stdio;

use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A worker's process. It is killed when this is dropped. Its standard input stays open until then, and the worker ends when that closes.
pub struct Member {
    /// The worker's number, counted from one.
    pub number: u32,
    /// The process.
    pub child: Child,
    words: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Member {
    /// Starts the process, with pipes to its standard input and output.
    pub fn start(number: u32, mut command: Command) -> io::Result<Member> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn()?;
        let (Some(words), Some(lines)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a worker without pipes"));
        };
        Ok(Member {
            number,
            child,
            words,
            lines: BufReader::new(lines).lines(),
        })
    }

    /// Sends the word to start. If the process is gone, reading its output will tell.
    pub async fn go(&mut self) {
        let _ = self.words.write_all(b"go\n").await;
    }

    /// Returns the next line of JSON that the worker prints. Returns `None` if it has ended.
    pub async fn line<L: DeserializeOwned + Send>(&mut self) -> Result<Option<L>, String> {
        let number = self.number;
        let line = self.lines.next_line().await;
        let line = line.map_err(|error| format!("worker {number} cannot be heard: {error}"))?;
        let read = |line: String| {
            let read = serde_json::from_str(&line);
            read.map_err(|_| format!("worker {number} said what makes no sense: {line}"))
        };
        line.map(read).transpose()
    }

    /// Describes how a worker that prints nothing more ended.
    pub async fn end(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("worker {} died: {status}", self.number),
            Err(error) => format!("worker {} died: {error}", self.number),
        }
    }
}
