//! The demo's workers, each a process of its own.

use std::env;
use std::io;

use fairlock_cli::contention::worker_process::Member;
use futures::future::{join, join_all, try_join_all};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::event_log::EventLog;
use super::line::Line;
use super::phase::{Means, Phase, ROUND_TRIP};
use super::stdout_thread::Screen;
use super::workspace::Workspace;
use crate::args::Demo;
use crate::failure::Failure;

/// How many lines are sorted and shown together, at most.
const MAX_AT_ONCE: usize = 1000;

#[derive(Default)]
pub(crate) struct Crew(Vec<Member>);

impl Crew {
    pub(crate) fn start(
        &mut self,
        options: &Demo,
        phase: &Phase,
        workspace: &Workspace,
    ) -> Result<(), Failure> {
        let failed = |error| Failure::internal(format!("cannot start a worker: {error}"));
        for number in 1..=options.workers {
            let command = command(number, options, phase, workspace).map_err(failed)?;
            self.0.push(Member::start(number, command).map_err(failed)?);
        }
        Ok(())
    }

    /// Waits until all workers are ready and only wait for the word to start.
    pub(crate) async fn ready(&mut self) -> Result<(), Failure> {
        try_join_all(self.0.iter_mut().map(ready)).await?;
        Ok(())
    }

    /// Lets all workers start, and shows what they do until the last one has ended.
    pub(crate) async fn contend(&mut self, screen: &Screen) -> EventLog {
        let log = EventLog::start();
        join_all(self.0.iter_mut().map(Member::go)).await;
        let (tell, told) = unbounded_channel();
        let follow = |member| follow(member, tell.clone());
        let all = join_all(self.0.iter_mut().map(follow));
        // The channel must close when the workers end, so this extra sender is dropped.
        drop(tell);
        // A worker reports its grant before it releases the lock. So when the report of a grant arrives, the reports of all earlier grants
        // have been written, and are read first. Sorted by time, they are shown in the order of the grants.
        join(all, show(log, told, screen)).await.1
    }

    /// Ends all workers at once. No worker is left when this returns, and others may be started.
    pub(crate) async fn dismiss(&mut self) {
        for member in &mut self.0 {
            // A worker that has already ended needs no kill.
            let _ = member.child.start_kill();
        }
        join_all(self.0.iter_mut().map(Member::end)).await;
        self.0.clear();
    }
}

fn command(
    number: u32,
    options: &Demo,
    phase: &Phase,
    workspace: &Workspace,
) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(["demo-worker", "--number", &number.to_string()]);
    command.args(["--first", &phase.first.to_string()]);
    command.args(["--turns", &phase.turns.to_string()]);
    command.args([
        "--hold",
        &humantime::format_duration(options.hold).to_string(),
    ]);
    if phase.means != Means::File {
        let round_trip = humantime::format_duration(ROUND_TRIP);
        command.args(["--round-trip", &round_trip.to_string()]);
    }
    if let Means::Notifications(notify) = phase.means {
        command.args(["--notify", &notify.to_string()]);
    }
    // The terminal's interrupt reaches the demo alone, which then ends the workers.
    command.process_group(0);
    command.arg("--file").arg(workspace.file());
    command.arg("--ledger").arg(workspace.ledger().path());
    Ok(command)
}

async fn ready(member: &mut Member) -> Result<(), Failure> {
    match member.line().await {
        Ok(Some(Line::Ready)) => Ok(()),
        Ok(_) => Err(Failure::internal(format!(
            "{} before it was ready",
            member.end().await
        ))),
        Err(trouble) => Err(Failure::internal(trouble)),
    }
}

/// Passes on what a worker reports until it has ended.
async fn follow(member: &mut Member, tell: UnboundedSender<Line>) {
    let trouble = loop {
        match member.line().await {
            Ok(Some(Line::Done)) => return,
            // The receiver is gone when the demo is stopped.
            Ok(Some(line)) => drop(tell.send(line)),
            Ok(None) => break member.end().await,
            Err(trouble) => break trouble,
        }
    };
    let _ = tell.send(Line::Failed(trouble));
}

async fn show(mut log: EventLog, mut told: UnboundedReceiver<Line>, screen: &Screen) -> EventLog {
    let mut lines = Vec::new();
    while told.recv_many(&mut lines, MAX_AT_ONCE).await > 0 {
        lines.sort_by_key(Line::order);
        let shown = lines.drain(..).filter_map(|line| log.note(line));
        shown.for_each(|line| screen.show(line));
    }
    log
}
