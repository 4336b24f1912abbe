//! A run whose workers are processes: this program again, once for each worker.

use std::env;
use std::process::Stdio;

use futures::future::{join_all, try_join_all};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;

use crate::child::{Line, Parting};
use crate::failure::Failure;
use crate::harvest::Harvest;
use crate::log::{self, Log};
use crate::options::Options;

/// A child at the other end of its pipes, killed when dropped. Its input stays open until then: it ends with that.
struct Member {
    number: u32,
    child: Child,
    words: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

pub(crate) async fn run(options: &Options) -> Result<Harvest, Failure> {
    let members: Result<Vec<_>, _> = (1..=options.workers).map(Member::start).collect();
    let ready = try_join_all(members?.into_iter().map(Member::ready)).await?;
    let go = join_all(ready.into_iter().map(Member::go)).await;
    let log = Log::default();
    let follow = |member: Member| member.follow(log.clone());
    let partings = go.into_iter().map(follow).collect::<JoinSet<_>>();
    let mut harvest = Harvest::default();
    for parting in partings.join_all().await {
        harvest.traffic.merge(&parting.traffic);
        harvest.troubles.extend(parting.troubles);
    }
    let (turns, trouble) = log.take();
    harvest.turns = turns;
    harvest.troubles.extend(trouble);
    Ok(harvest)
}

impl Member {
    fn start(number: u32) -> Result<Member, Failure> {
        let failed = |error| Failure::run("cannot start a worker", error);
        let mut command = Command::new(env::current_exe().map_err(failed)?);
        command.args(env::args_os().skip(1));
        command.args(["--worker".into(), number.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().map_err(failed)?;
        let (Some(words), Some(lines)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::Run("a worker without pipes".into()));
        };
        Ok(Member {
            number,
            child,
            words,
            lines: BufReader::new(lines).lines(),
        })
    }

    async fn ready(mut self) -> Result<Member, Failure> {
        match self.line().await {
            Ok(Some(Line::Ready { .. })) => Ok(self),
            Ok(_) => Err(Failure::Run(format!(
                "{} before it was ready",
                self.end().await
            ))),
            Err(trouble) => Err(Failure::Run(trouble)),
        }
    }

    /// One that is gone already is found out about when it is followed.
    async fn go(mut self) -> Member {
        let _ = self.words.write_all(b"go\n").await;
        self
    }

    /// Passes its turns on until it ends.
    async fn follow(mut self, log: Log) -> Parting {
        loop {
            match self.line().await {
                Ok(Some(Line::Turn(turn))) => log.add(turn),
                Ok(Some(Line::Ready { .. })) => {}
                Ok(Some(Line::Parting(parting))) => return parting,
                Ok(None) => return died(self.end().await),
                Err(trouble) => return died(trouble),
            }
        }
    }

    async fn line(&mut self) -> Result<Option<Line>, String> {
        let number = self.number;
        let line = self.lines.next_line().await;
        let line = line.map_err(|error| format!("worker {number} cannot be heard: {error}"))?;
        let read = |line: String| {
            let read = serde_json::from_str(&line);
            read.map_err(|_| format!("worker {number} said what makes no sense: {line}"))
        };
        line.map(read).transpose()
    }

    /// How a child that says nothing more came to its end.
    async fn end(&mut self) -> String {
        match self.child.wait().await {
            Ok(status) => format!("worker {} died: {status}", self.number),
            Err(error) => format!("worker {} died: {error}", self.number),
        }
    }
}

/// Told at once, for the others go on until the lease of the dead is over.
fn died(trouble: String) -> Parting {
    log::tell(format_args!("contend: {trouble}"));
    Parting {
        traffic: Default::default(),
        troubles: vec![trouble],
    }
}
