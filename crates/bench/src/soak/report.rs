//! What is printed: a line for each interval, and all figures at the end.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use fairlock_testkit::request_counts::Traffic;

use crate::soak::findings::Findings;
use crate::soak::memory::{JUDGED_FROM, Readings};
use crate::soak::options::Options;
use crate::soak::tally::Counts;
use crate::soak::vitals::{MIB, Vitals};

/// `println!` would panic if the reader has closed the pipe. The exit code tells as well how the run ended.
pub(crate) fn say(what: &impl Display) {
    let _ = std::io::stdout().write_all(format!("{what}\n").as_bytes());
}

/// The figures since the last report.
pub(crate) struct Interval {
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    pub(crate) counts: Counts,
    pub(crate) requests: u64,
    /// Since the start.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) vitals: Vitals,
    pub(crate) findings: u64,
}

impl Display for Interval {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Counts {
            turns,
            outcomes,
            waits,
            handoffs,
        } = &self.counts;
        let (at, rate) = (self.at.as_secs(), a_second(*turns, self.took));
        let each = a_turn(self.requests, *turns);
        writeln!(
            f,
            "{at:>6} s     {turns} turns ({rate}/s), {each} requests a turn; {} violations",
            self.findings
        )?;
        writeln!(f, "  outcomes   {}", listed(outcomes))?;
        writeln!(f, "  waits      {waits}; handoffs {handoffs}")?;
        writeln!(f, "  faults     so far: {}", listed(&self.faults))?;
        write!(f, "  process    {}", self.vitals)
    }
}

/// What is known of the process when the time has ended.
#[derive(Default)]
pub(crate) struct Course {
    pub(crate) lasted: Duration,
    pub(crate) is_cut_short: bool,
    pub(crate) memory: Readings,
    pub(crate) most_memory: u64,
    pub(crate) most_connections: usize,
    pub(crate) most_tasks: usize,
}

impl Course {
    pub(crate) fn note(&mut self, vitals: Vitals) {
        self.memory.add(vitals.memory);
        self.most_memory = self.most_memory.max(vitals.memory);
        self.most_connections = self.most_connections.max(vitals.connections);
        self.most_tasks = self.most_tasks.max(vitals.tasks);
    }
}

/// What the table contains at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    pub(crate) locks: usize,
    pub(crate) items: usize,
}

pub(crate) struct Report {
    pub(crate) options: Options,
    pub(crate) counts: Counts,
    pub(crate) names: u64,
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) traffic: Traffic,
    pub(crate) course: Course,
    pub(crate) left: Left,
    pub(crate) before: Vitals,
    pub(crate) after: Vitals,
    pub(crate) findings: Arc<Findings>,
}

impl Report {
    /// Reports memory that grew, in a run that is long enough to tell.
    pub(crate) fn judge_memory(&self) {
        if let (true, Some(curve)) = (self.is_long(), self.course.memory.curve())
            && !curve.is_flat()
        {
            self.findings
                .add(format!("leak: memory is not flat: {curve}"));
        }
    }

    pub(crate) fn is_good(&self) -> bool {
        self.findings.count() == 0
    }

    fn is_long(&self) -> bool {
        self.course.lasted >= JUDGED_FROM
    }

    fn work(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Counts {
            turns,
            outcomes,
            waits,
            handoffs,
        } = &self.counts;
        let rate = a_second(*turns, self.course.lasted);
        writeln!(f, "turns        {turns} ({rate}/s) of {} locks", self.names)?;
        writeln!(f, "outcomes     {}", listed(outcomes))?;
        writeln!(f, "waits        {waits}")?;
        writeln!(f, "handoffs   {handoffs}")?;
        let faults: u64 = self.faults.values().sum();
        writeln!(f, "faults       {faults}: {}", listed(&self.faults))?;
        let (sent, beats) = (self.traffic.of_turns(), self.traffic.heartbeats());
        let each = a_turn(sent.requests, *turns);
        writeln!(
            f,
            "requests     {each} a turn, and {} heartbeats; {} refused, {} unanswered",
            beats.requests,
            sent.refused + beats.refused,
            sent.unanswered + beats.unanswered
        )
    }

    fn process(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (course, most) = (&self.course, self.course.most_memory / MIB);
        write!(f, "memory       at most {most} MiB")?;
        match course.memory.curve() {
            Some(curve) if self.is_long() && curve.is_flat() => writeln!(f, "; flat: {curve}")?,
            Some(curve) if self.is_long() => writeln!(f, "; NOT flat: {curve}")?,
            _ => writeln!(f, "; not judged: the run was shorter than {JUDGED_FROM:?}")?,
        }
        let (connections, tasks) = (course.most_connections, course.most_tasks);
        writeln!(f, "at most      {connections} connections, {tasks} tasks")?;
        writeln!(f, "before       {}", self.before)?;
        writeln!(f, "after        {}", self.after)?;
        let Left { locks, items } = self.left;
        writeln!(f, "table        {items} items of {locks} locks")
    }
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (place, seed) = (self.options.place(), self.options.seed);
        let lasted = humantime::format_duration(Duration::from_secs(self.course.lasted.as_secs()));
        let short = if self.course.is_cut_short {
            ", cut short"
        } else {
            ""
        };
        writeln!(
            f,
            "soak         {lasted}{short}, tables in {place}, seed {seed}"
        )?;
        self.work(f)?;
        self.process(f)?;
        for finding in self.findings.words() {
            writeln!(f, "violation    {finding}")?;
        }
        match self.findings.count() {
            0 => write!(f, "good: 0 violations"),
            1 => write!(f, "FAILED: 1 violation"),
            count => write!(f, "FAILED: {count} violations"),
        }
    }
}

fn a_second(turns: u64, span: Duration) -> String {
    format!("{:.1}", turns as f64 / span.as_secs_f64().max(f64::EPSILON))
}

fn a_turn(requests: u64, turns: u64) -> String {
    format!("{:.2}", requests as f64 / turns.max(1) as f64)
}

fn listed(counts: &BTreeMap<&'static str, u64>) -> String {
    let listed = counts
        .iter()
        .map(|(what, count)| format!("{what}: {count}"));
    listed.collect::<Vec<_>>().join("; ")
}
