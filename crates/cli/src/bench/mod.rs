//! `fairlock bench`: workers contend for one lock of the user's own table, and what that shows is measured.

mod cleanup;
mod crew;
mod figures;
mod html_report;
mod plots;
mod price;

use std::process::ExitCode;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use fairlock::{LockClient, LockState};
use fairlock_cli::contention::overtaken::Overtaken;
use fairlock_cli::contention::tally::{self, Tally, ms};
use fairlock_cli::contention::verdict::Verdict;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::args::bench::{Bench, Length};
use crate::failure::{Failure, NOT_GRANTED, UNFIT, killed_by};
use crate::local_file::Purpose;
use crate::request_meter::Meter;
use crate::{output, prompt, signals};
use cleanup::Cleanup;
use crew::Contest;
use figures::{Figures, Times};
use html_report::Page;
use price::{Dollars, PRICE_READ, PRICE_WRITE, Plan, Turn};

/// Reads by which the round trip is measured. The first also opens the connection, and does not count.
const READS: usize = 5;

pub(crate) fn bench(options: Bench) -> Result<ExitCode, Failure> {
    crate::on_runtime(run(options))
}

async fn run(options: Bench) -> Result<ExitCode, Failure> {
    prompt::must_be_answerable(options.yes, "say --yes to begin without a question")?;
    let meter = Meter::default();
    let set = |builder: fairlock::LockClientBuilder| builder.lease_duration(options.lease);
    let (dynamodb, first) = options.location.metered(Purpose::Turn, &meter, set).await?;
    let bench = Opened {
        options: &options,
        meter: &meter,
        dynamodb,
        first,
    };
    let plan = bench.plan().await?;
    bench.tell(plan)?;
    if !options.yes && !prompt::asks("begin?") {
        return Err(Failure::new(NOT_GRANTED, "nothing was begun"));
    }
    // After the question, at which a signal ends this process as any other.
    let mut signals = signals::endings()?;
    let page = options.report.as_deref().map(Page::prepare).transpose()?;
    let ended = bench.contest(plan, &mut signals).await;
    if ended.is_err()
        && let Some(page) = &page
    {
        page.abandon();
    }
    let (figures, turns, signal) = ended?;
    let _ = output::print(&figures.to_string())?;
    if let Some(page) = page {
        let file = page.write(&bench.title(), &figures, &turns)?;
        let _ = output::print(&format!("{:<13}{file}\n", "report"))?;
    }
    if bench.is_own_lock() {
        Cleanup::of(&bench.first, &options)
            .remove(&mut signals)
            .await?;
    }
    Ok(match signal {
        Some(number) => ExitCode::from(killed_by(number)),
        None if figures.verdict.is_good() => ExitCode::SUCCESS,
        None => ExitCode::from(UNFIT),
    })
}

/// A contest whose table is open.
struct Opened<'a> {
    options: &'a Bench,
    meter: &'a Meter,
    dynamodb: Client,
    /// Reads and deletes the lock, and takes no turn.
    first: LockClient,
}

type Ended = (
    Figures,
    Vec<fairlock_cli::contention::turn::Turn>,
    Option<i32>,
);

impl Opened<'_> {
    fn failed(&self) -> impl Fn(fairlock::Error) -> Failure {
        |error| Failure::of(&error, &self.options.location)
    }

    /// Whether no caller knows the lock but this contest, which deletes it then.
    fn is_own_lock(&self) -> bool {
        self.options.lock.is_none()
    }

    fn title(&self) -> String {
        let Bench {
            workers,
            hold,
            location,
            ..
        } = self.options;
        let (lock, hold) = (self.options.lock(), humantime::format_duration(*hold));
        format!(
            "{workers} workers at lock {lock} in {}, hold {hold}",
            location.name()
        )
    }

    /// Checks that the lock is free, and measures the round trip meanwhile.
    async fn plan(&self) -> Result<Plan, Failure> {
        let lock = self
            .first
            .fair_lock(self.options.lock())
            .map_err(self.failed())?;
        let mut state = None;
        for _ in 0..READS {
            state = Some(lock.inspect().await.map_err(self.failed())?);
        }
        if let Some(state) = state.filter(is_used) {
            let text = format!("lock `{}` is in use: name another with --lock", state.lock);
            return Err(Failure::new(NOT_GRANTED, text));
        }
        let mut answers = self.meter.take().round_trips;
        answers.drain(..answers.len().min(1));
        let times = Times::of(answers);
        Ok(Plan {
            workers: self.options.workers,
            hold: self.options.hold,
            lease: self.options.lease,
            round_trip: times.map_or(Duration::ZERO, |times| times.p50),
        })
    }

    /// Prints what the contest will cost, by the formula.
    fn tell(&self, plan: Plan) -> Result<(), Failure> {
        let turn = plan.turn();
        let turns = self.turns(turn);
        let takes = Duration::from_secs_f64((turns * turn.takes.as_secs_f64()).round().max(1.0));
        let dollars = Dollars::of(turns * turn.write_units, turns * turn.read_units);
        let mut text = format!("{}\n", self.title());
        text.push_str(&format!(
            "round trip   {}, the median of {} reads\n",
            ms(plan.round_trip),
            READS - 1
        ));
        text.push_str(&format!(
            "turns        about {turns:.0} in {}\n",
            humantime::format_duration(takes)
        ));
        text.push_str(&format!(
            "requests     about {:.0}: {:.0} write units and {:.0} read units, and more in the first turns of each worker\n",
            turns * turn.requests,
            turns * turn.write_units,
            turns * turn.read_units
        ));
        let price = match self.is_charged() {
            true => format!("about {dollars}"),
            false => format!("nothing for a file; at DynamoDB about {dollars}"),
        };
        text.push_str(&format!(
            "price        {price}, at {PRICE_WRITE} dollars a million write units and {PRICE_READ} a million read units (on demand in \
             us-east-1, November 2026)\n"
        ));
        output::print(&text).map(drop)
    }

    /// How many turns there will be.
    fn turns(&self, turn: Turn) -> f64 {
        match self.options.length() {
            Length::Turns(each) => f64::from(each) * f64::from(self.options.workers),
            Length::Time(span) => span.as_secs_f64() / turn.takes.as_secs_f64().max(1e-3),
        }
    }

    fn is_charged(&self) -> bool {
        self.options.location.local.is_none()
    }

    /// Lets the workers contend, and measures that.
    async fn contest(
        &self,
        plan: Plan,
        signals: &mut UnboundedReceiver<i32>,
    ) -> Result<Ended, Failure> {
        let mut clients = Vec::new();
        for number in 1..=plan.workers {
            let builder = self.options.location.builder(self.dynamodb.clone());
            let builder = builder.lease_duration(plan.lease);
            let client = builder.owner(format!("bench worker {number}")).build();
            clients.push(client.map_err(self.failed())?);
        }
        let name = self.options.lock();
        let locks = clients.iter().map(|client| client.fair_lock(&name));
        let locks = locks.collect::<Result<_, _>>().map_err(self.failed())?;
        let _planning = self.meter.take();
        let mut contest = crew::contend(self.options, locks, signals).await;
        let counted = self.meter.take();
        contest.troubles.extend(crew::leave(&clients).await);
        if self.options.plant_fault {
            tally::plant_fault(&mut contest.turns);
        }
        let Contest {
            turns,
            troubles,
            signal,
        } = contest;
        let each = match self.options.length() {
            Length::Turns(each) if signal.is_none() => each,
            _ => 0,
        };
        let figures = Figures {
            took: figures::took(&turns),
            round_trips: Times::of(counted.round_trips.clone()),
            handoffs: Times::of(Tally::new(turns.clone()).handoff_times()),
            passed: Overtaken::of(&turns),
            verdict: Verdict::new(turns.clone(), plan.workers, each, troubles),
            counted,
            expected: plan.turn(),
            is_charged: self.is_charged(),
        };
        Ok((figures, turns, signal))
    }
}

fn is_used(state: &LockState) -> bool {
    state.holder.is_some() || state.waiting > 0
}
