//! What the lock protects: a list behind a Unix socket. It accepts no write with a ticket older than its newest, and records when each
//! write came.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairlock_cli::contention::monotonic::now_ns;

/// Times are nanoseconds of CLOCK_MONOTONIC, one clock for all processes of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) ticket: u64,
    pub(crate) at: u64,
}

/// The time during which a process believed that it held the lock, as it reported itself.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) ticket: u64,
    pub(crate) pid: u32,
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) is_released: bool,
}

/// Whether the ledger checks tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    Closed,
    Open,
}

#[derive(Debug, Default)]
pub(crate) struct Book {
    pub(crate) writes: Vec<Written>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) refused: usize,
    /// How many notifications for its places each process has heard so far.
    heard: BTreeMap<u32, u64>,
}

#[derive(Clone)]
pub(crate) struct Ledger {
    book: Arc<Mutex<Book>>,
    fence: Fence,
}

impl Ledger {
    /// Listens at `path` for as long as the process lives.
    pub(crate) fn open(path: &Path, fence: Fence) -> Ledger {
        let ledger = Ledger {
            book: Arc::default(),
            fence,
        };
        let (listener, listening) = (UnixListener::bind(path).unwrap(), ledger.clone());
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                let ledger = listening.clone();
                std::thread::spawn(move || ledger.serve(caller));
            }
        });
        ledger
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a caller until it leaves, or is killed in the middle of a line.
    fn serve(&self, caller: UnixStream) {
        let mut answers = caller.try_clone().unwrap();
        for line in BufReader::new(caller).lines() {
            let Some(answer) = line.ok().and_then(|line| self.answer(&line)) else {
                return;
            };
            if answers.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }

    /// Parses `granted`, `writes` or `done`, a ticket, a process, and the instants between which that process believes. Or `heard`, a number
    /// of notifications, the process, and two numbers that mean nothing.
    fn answer(&self, line: &str) -> Option<&'static str> {
        let mut words = line.split(' ');
        let what = words.next()?;
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        let [ticket, pid, from, until] = numbers[..] else {
            return None;
        };
        let mut book = self.book();
        match what {
            "writes" => {
                book.believes(ticket, pid as u32, from, until);
                Some(book.write(ticket, self.fence))
            }
            "heard" => {
                book.heard.insert(pid as u32, ticket);
                Some("ok\n")
            }
            "done" => {
                book.ends(ticket, until);
                Some("ok\n")
            }
            _ => {
                book.believes(ticket, pid as u32, from, until);
                Some("ok\n")
            }
        }
    }
}

impl Book {
    fn believes(&mut self, ticket: u64, pid: u32, from: u64, until: u64) {
        let mut holds = self.holds.iter_mut().rev();
        match holds.find(|hold| hold.ticket == ticket && hold.pid == pid) {
            Some(hold) => hold.until = hold.until.max(until),
            None => self.holds.push(Hold {
                ticket,
                pid,
                from,
                until,
                is_released: false,
            }),
        }
    }

    fn ends(&mut self, ticket: u64, until: u64) {
        let mut holds = self.holds.iter_mut().rev();
        if let Some(hold) = holds.find(|hold| hold.ticket == ticket) {
            hold.until = hold.until.min(until);
            hold.is_released = true;
        }
    }

    fn write(&mut self, ticket: u64, fence: Fence) -> &'static str {
        let newest = self.writes.iter().map(|write| write.ticket).next_back();
        if fence == Fence::Closed && newest.is_some_and(|newest| ticket < newest) {
            self.refused += 1;
            return "stale\n";
        }
        let at = now_ns();
        self.writes.push(Written { ticket, at });
        "ok\n"
    }

    /// The process that holds the lock now, according to the latest reports.
    pub(crate) fn holder(&self) -> Option<u32> {
        let newest = self.holds.iter().max_by_key(|hold| hold.ticket)?;
        (!newest.is_released).then_some(newest.pid)
    }

    /// How many notifications all processes heard together.
    pub(crate) fn heard(&self) -> u64 {
        self.heard.values().sum()
    }

    /// The newest ticket of a hold, or of a write if the process reports only writes.
    pub(crate) fn newest(&self) -> u64 {
        let held = self.holds.iter().map(|hold| hold.ticket);
        held.chain(self.writes.iter().map(|write| write.ticket))
            .max()
            .unwrap_or(0)
    }
}

/// The process to name in place of the one that reports.
pub(crate) const PROCESS: &str = "FAIRLOCK_CRASH_PROCESS";

/// A process's connection to the ledger.
pub(crate) struct Pen(BufReader<UnixStream>);

impl Pen {
    pub(crate) fn to(path: &Path) -> Pen {
        Pen(BufReader::new(UnixStream::connect(path).unwrap()))
    }

    /// Whether the ledger accepted it. The process ends with the test that owns the ledger.
    pub(crate) fn says(&mut self, what: &str, ticket: u64, from: u64, until: u64) -> bool {
        let pid = std::env::var(PROCESS).unwrap_or_else(|_| std::process::id().to_string());
        let line = format!("{what} {ticket} {pid} {from} {until}\n");
        let mut answer = String::new();
        let asked = self.0.get_mut().write_all(line.as_bytes());
        let heard = asked.and_then(|()| self.0.read_line(&mut answer));
        if heard.unwrap_or(0) == 0 {
            std::process::exit(1);
        }
        answer == "ok\n"
    }
}
