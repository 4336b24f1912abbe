//! `fairlock top`: the locks of a table as they are used, read again and again.

mod draw;
mod lock;
mod reader;
mod row;
#[cfg(test)]
mod samples;
mod screen;
mod state;
mod text;
mod turn_rate;

use std::future::pending;
use std::io::IsTerminal;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{MissedTickBehavior, interval};

use crate::args::top::Top;
use crate::failure::{Failure, killed_by};
use crate::output;
use crate::signals;
use reader::{Reader, Trouble};
use screen::Screen;
use state::{Next, Read, State, Wanted};

/// How often spans are drawn again that grow by themselves. Nothing is read for that.
const TICK: Duration = Duration::from_millis(500);

/// A terminal shows no more, and each read is paid for.
const SHORTEST: Duration = Duration::from_millis(100);

pub(crate) fn top(options: Top) -> Result<ExitCode, Failure> {
    if options.every() < SHORTEST {
        return Err(Failure::misuse(format!(
            "--every {:?} is too short: at least {SHORTEST:?}, because each read scans the whole table",
            options.every()
        )));
    }
    if options.once || options.json {
        return crate::on_runtime(async {
            let reader = Reader::open(options.location.clone()).await?;
            text::once(&options, reader).await
        });
    }
    if !std::io::stdout().is_terminal() {
        return Err(Failure::misuse(
            "there is no terminal to draw on: say --once for a table as text, or --json",
        ));
    }
    let signals = signals::endings()?;
    crate::on_runtime(live(options, signals))
}

/// Shows the locks until a key or a signal ends it.
async fn live(options: Top, mut signals: UnboundedReceiver<i32>) -> Result<ExitCode, Failure> {
    let reader = tokio::select! {
        biased;
        Some(number) = signals.recv() => return Ok(ExitCode::from(killed_by(number))),
        reader = Reader::open(options.location.clone()) => reader?,
    };
    let location = format!(
        "{}, namespace {}",
        options.location.name(),
        options.location.namespace
    );
    let mut state = State::new(options.every());
    let mut screen = Screen::open()?;
    let mut keys = screen::keys()?;
    let mut reads = Reads::new(reader, options.every());
    let mut tick = interval(TICK);
    // The loop ends with a key, a signal, the terminal, or an error that no later read mends.
    loop {
        let now = output::now();
        screen.draw(|frame| draw::draw(frame, &state, &location, now))?;
        if options.plant_panic && state.reads > 0 {
            planted();
        }
        tokio::select! {
            biased;
            Some(number) = signals.recv() => return Ok(ExitCode::from(killed_by(number))),
            key = keys.recv() => match key {
                Some(Some(key)) if state.key(key, now) == Next::End => return Ok(ExitCode::SUCCESS),
                Some(_) => {}
                None => return Ok(ExitCode::SUCCESS),
            },
            read = reads.next(|| state.wanted()) => match read {
                Ok(read) => state.read(read),
                Err(Trouble::Passing(failure)) => state.failed(failure.text().to_owned()),
                Err(Trouble::Lasting(failure)) => return Err(failure),
            },
            _ = tick.tick() => {}
        }
    }
}

#[expect(
    clippy::panic,
    reason = "asked for by a hidden flag, for the test of what a panic leaves behind"
)]
fn planted() {
    panic!("planted");
}

type UnderWay = Pin<Box<dyn Future<Output = (Reader, Result<Read, Trouble>)> + Send>>;

/// Reads one after the other. They begin at least `every` apart, whatever the keys do meanwhile.
struct Reads {
    due: tokio::time::Interval,
    idle: Option<Reader>,
    under_way: Option<UnderWay>,
}

impl Reads {
    fn new(reader: Reader, every: Duration) -> Reads {
        let mut due = interval(every);
        // A read that took too long is not made up for.
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Reads {
            due,
            idle: Some(reader),
            under_way: None,
        }
    }

    /// Waits for the next read. Cancel safe: a read that is under way goes on with the next call.
    async fn next(&mut self, wanted: impl Fn() -> Wanted) -> Result<Read, Trouble> {
        if self.under_way.is_none() {
            self.due.tick().await;
            let Some(mut reader) = self.idle.take() else {
                return pending().await;
            };
            let wanted = wanted();
            self.under_way = Some(Box::pin(async move {
                let read = reader.read(wanted).await;
                (reader, read)
            }));
        }
        let Some(under_way) = &mut self.under_way else {
            return pending().await;
        };
        let (reader, read) = under_way.await;
        self.under_way = None;
        self.idle = Some(reader);
        read
    }
}
