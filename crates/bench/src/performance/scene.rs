//! What is run: which algorithm contends, with how many workers, and how long each holds the lock.

use crate::algorithm::Algorithm;

pub(crate) const ROUND_TRIP_MS: u32 = 10;

/// An algorithm with its sleep between two attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contestant {
    pub(crate) algorithm: Algorithm,
    /// `None` means the sleep that its authors chose.
    pub(crate) poll_ms: Option<u32>,
}

/// Where the workers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a process each, with their tables in a file.
    Processes,
    /// Tasks of one client.
    OneClient,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene {
    pub(crate) by: Contestant,
    pub(crate) place: Place,
    pub(crate) workers: u32,
    pub(crate) hold_ms: u32,
    pub(crate) cycles: u32,
    /// The workers notify each other when to poll.
    pub(crate) is_notified: bool,
}

pub(crate) const FAIRLOCK: Contestant = Contestant {
    algorithm: Algorithm::Fairlock,
    poll_ms: None,
};

/// fairlock, the baselines when they poll often, and the baselines as their authors chose.
pub(crate) const CONTESTANTS: [Contestant; 5] = [
    FAIRLOCK,
    often(Algorithm::Article),
    often(Algorithm::Lease),
    by_default(Algorithm::Article),
    by_default(Algorithm::Lease),
];

const fn often(algorithm: Algorithm) -> Contestant {
    Contestant {
        algorithm,
        poll_ms: Some(10),
    }
}

const fn by_default(algorithm: Algorithm) -> Contestant {
    Contestant {
        algorithm,
        poll_ms: None,
    }
}

impl Contestant {
    /// Whether it sleeps most of the time, so that its runs can go side by side.
    pub(crate) fn is_slow(self) -> bool {
        self.poll_ms.is_none() && self.algorithm.poll().is_some()
    }

    pub(crate) fn name(self) -> String {
        let name = self.algorithm.name();
        let by_default = self.algorithm.poll().map(|poll| poll.as_millis());
        match self.poll_ms.map(u128::from).or(by_default) {
            Some(poll) => format!("{name}, polls every {poll} ms"),
            None => name.into(),
        }
    }
}

impl Scene {
    pub(crate) fn new(by: Contestant, workers: u32, hold_ms: u32, turns: u32) -> Scene {
        Scene {
            by,
            place: Place::Processes,
            workers,
            hold_ms,
            cycles: turns.div_ceil(workers),
            is_notified: false,
        }
    }

    /// The flags for `contend`, without the file.
    pub(crate) fn flags(&self) -> Vec<String> {
        let mut flags = vec![match self.place {
            Place::Processes => "--processes".to_owned(),
            Place::OneClient => "--one-client".to_owned(),
        }];
        let numbers = [
            ("--rtt-ms", Some(ROUND_TRIP_MS)),
            ("--workers", Some(self.workers)),
            ("--cycles", Some(self.cycles)),
            ("--hold-ms", Some(self.hold_ms)),
            ("--poll-ms", self.by.poll_ms),
        ];
        for (flag, number) in numbers {
            flags.extend(number.map(|number| format!("{flag} {number}")));
        }
        if self.is_notified {
            flags.push("--notify".to_owned());
        }
        if self.by != FAIRLOCK {
            flags.push(format!("--algorithm {}", self.by.algorithm.name()));
        }
        flags
    }

    /// The command as a user would type it.
    pub(crate) fn command(&self) -> String {
        let file = match self.place {
            Place::Processes => " --local FILE",
            Place::OneClient => "",
        };
        format!("contend {}{file}", self.flags().join(" "))
    }
}
