//! Processes at one lock, and what happens to them at random moments: each is killed, or stopped for longer than its lease.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; processes live in real time"
)]

use std::fmt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::ledger::Ledger;
use super::worker::LEASE;

/// However busy the machine is, the next process is granted the lock by then. This bounds liveness; the actual times are reported in
/// leases.
const BOUND: Duration = Duration::from_secs(60);
/// In milliseconds, between two events.
const MOMENTS: std::ops::Range<u64> = 20..900;

/// What happens to them, in percent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Odds {
    /// Killed rather than stopped.
    pub(crate) killed: u8,
    /// The holder rather than a random process.
    pub(crate) holder: u8,
}

pub(crate) struct Crew<'a> {
    ledger: &'a Ledger,
    start: &'a dyn Fn() -> Command,
    rng: fastrand::Rng,
    odds: Odds,
    members: Vec<Member>,
    pub(crate) progress: Progress,
    pub(crate) kills: usize,
    pub(crate) stops: usize,
}

/// A process, killed when dropped.
struct Member {
    process: Child,
    goes_on: Option<Instant>,
}

/// How long it took from each kill to the next grant.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    kills: usize,
    beyond_a_lease: usize,
    longest: Duration,
}

impl Progress {
    fn note(&mut self, waited: Duration) {
        self.kills += 1;
        self.beyond_a_lease += usize::from(waited > LEASE);
        self.longest = self.longest.max(waited);
    }
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kills, beyond) = (self.kills, self.beyond_a_lease);
        let leases = self.longest.as_secs_f64() / LEASE.as_secs_f64();
        write!(
            f,
            "somebody was granted the lock after each kill, within a lease but for {beyond} of {kills}, \
             and {leases:.1} leases at the most"
        )
    }
}

impl<'a> Crew<'a> {
    pub(crate) fn start(
        size: usize,
        seed: u64,
        odds: Odds,
        ledger: &'a Ledger,
        start: &'a dyn Fn() -> Command,
    ) -> Crew<'a> {
        Crew {
            ledger,
            start,
            rng: fastrand::Rng::with_seed(seed),
            odds,
            members: (0..size).map(|_| Member::start(start())).collect(),
            progress: Progress::default(),
            kills: 0,
            stops: 0,
        }
    }

    /// Runs until this many processes were killed. After each kill, another process must be granted the lock.
    pub(crate) fn suffer(&mut self, kills: usize) {
        self.see_progress(0);
        self.progress = Progress::default();
        while self.kills < kills {
            let moment = Duration::from_millis(self.rng.u64(MOMENTS));
            self.live(moment);
            let victim = self.victim();
            let newest = self.ledger.book().newest();
            if self.rng.u8(0..100) < self.odds.killed {
                self.kill(victim);
                self.see_progress(newest);
            } else {
                self.stop(victim);
            }
        }
        self.live(3 * LEASE);
        self.members.clear();
    }

    /// The holder, or a random process.
    fn victim(&mut self) -> usize {
        let holder = self.ledger.book().holder();
        let mut members = self.members.iter();
        let found = members.position(|member| Some(member.process.id()) == holder);
        let any = self.rng.usize(0..self.members.len());
        found
            .filter(|_| self.rng.u8(0..100) < self.odds.holder)
            .unwrap_or(any)
    }

    fn kill(&mut self, victim: usize) {
        self.members[victim] = Member::start((self.start)());
        self.kills += 1;
    }

    fn stop(&mut self, victim: usize) {
        let member = &mut self.members[victim];
        let span = LEASE.mul_f64(1.1 + self.rng.f64());
        if member.goes_on.is_none() {
            member.signal(Signal::STOP);
            member.goes_on = Some(Instant::now() + span);
            self.stops += 1;
        }
    }

    /// Waits until a process has a newer ticket than this, within the bound.
    fn see_progress(&mut self, newest: u64) {
        let started = Instant::now();
        while self.ledger.book().newest() <= newest {
            let waited = started.elapsed();
            assert!(
                waited < BOUND,
                "nobody was granted the lock within {waited:?}"
            );
            self.live(Duration::from_millis(5));
        }
        self.progress.note(started.elapsed());
    }

    /// Lets time pass. Stopped processes continue when their time comes, and new ones replace those that have ended.
    fn live(&mut self, span: Duration) {
        let until = Instant::now() + span;
        while Instant::now() < until {
            for member in &mut self.members {
                if member.goes_on.is_some_and(|at| at <= Instant::now()) {
                    member.signal(Signal::CONT);
                    member.goes_on = None;
                }
                if member.process.try_wait().unwrap().is_some() {
                    *member = Member::start((self.start)());
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Member {
    fn start(mut command: Command) -> Member {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Member {
            process: command.process_group(0).spawn().unwrap(),
            goes_on: None,
        }
    }

    fn signal(&self, signal: Signal) {
        // A process that has ended meanwhile is not reaped yet, so its number is still its own.
        let _ = kill_process(Pid::from_child(&self.process), signal);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Kills this process only: its supervisor must end what a `fairlock run` started.
        self.signal(Signal::KILL);
        let _ = self.process.wait();
    }
}
