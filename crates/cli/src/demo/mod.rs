//! `fairlock demo`: processes contend for one lock, and the demo judges each turn.

mod crew;
mod event_log;
mod ledger;
mod line;
mod phase;
mod report;
mod savings;
mod signals;
mod stdout_thread;
mod worker;
mod workspace;

use std::process::ExitCode;

use futures::future::try_join;

use crate::args::Demo;
use crate::failure::{Failure, killed_by};
use crate::notify::Notify;
use crew::Crew;
use phase::Phase;
use report::Report;
use signals::Signal;
use stdout_thread::Screen;
use workspace::Workspace;

pub(crate) use worker::work;

/// Why the demo ends early.
enum Stop {
    Signal(i32),
    Failed(Failure),
}

pub(crate) fn demo(options: &Demo) -> Result<ExitCode, Failure> {
    if options.plant_fault && u64::from(options.workers) * u64::from(options.turns) < 2 {
        return Err(Failure::misuse("--plant-fault needs at least two turns"));
    }
    // Caught before there is anything that a signal could leave behind.
    let signal = signals::first()?;
    let workspace = Workspace::build()?;
    let ended = crate::on_runtime(play(options, &workspace, signal));
    // The workers are gone, and every writer of the directory ended with the runtime.
    let cleared = workspace.clear();
    ended.and_then(|code| cleared.map(|()| code))
}

/// Plays until the report is shown, a signal comes, or the reader closes the output. No worker is left then.
async fn play(options: &Demo, workspace: &Workspace, signal: Signal) -> Result<ExitCode, Failure> {
    let mut crew = Crew::default();
    let (screen, shown) = stdout_thread::open();
    let contest = contest(options, workspace, &mut crew, screen);
    let ended = tokio::select! {
        biased;
        Ok(number) = signal => Err(Stop::Signal(number)),
        ended = try_join(contest, shown) => ended.map(|(code, ())| code),
    };
    crew.dismiss().await;
    match ended {
        Ok(code) => Ok(code),
        Err(Stop::Signal(number)) => Ok(ExitCode::from(killed_by(number))),
        Err(Stop::Failed(failure)) => Err(failure),
    }
}

async fn contest(
    options: &Demo,
    workspace: &Workspace,
    crew: &mut Crew,
    screen: Screen,
) -> Result<ExitCode, Stop> {
    let phases = Phase::all(options);
    let ready = async {
        options.notify.map_or(Ok(()), try_out)?;
        workspace.create_table().await
    };
    ready.await.map_err(Stop::Failed)?;
    let mut logs = Vec::new();
    for phase in &phases {
        let ready = async {
            crew.start(options, phase, workspace)?;
            crew.ready().await
        };
        ready.await.map_err(Stop::Failed)?;
        if let Some(title) = phase.title() {
            screen.show(title.into());
        }
        logs.push(crew.contend(&screen).await);
        crew.dismiss().await;
    }
    let turns = phases.iter().map(|phase| phase.turns).sum();
    let report = Report::new(options, turns, logs, workspace.ledger().tickets());
    screen.show(report.to_string());
    Ok(report.exit_code())
}

/// Fails if the workers could not listen there.
fn try_out(notify: Notify) -> Result<(), Failure> {
    match notify {
        Notify::At(at) if at.port() != 0 => {
            let host = at.ip();
            let text = format!(
                "--notify={at} is the address of one worker: say --notify={host}, for each to have a port of its own"
            );
            Err(Failure::misuse(text))
        }
        notify => notify.listen(true).map(drop),
    }
}
