//! A fault that meets one request of a history: each fault at each request is tried.

use std::str::FromStr;

use clap::ValueEnum;

/// What happens to the request, or with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fault {
    LostBefore,
    LostAfter,
    Late,
    Doubled,
    Busy,
    Denied,
    NoConnection,
    /// Its process ends before it is sent.
    CrashBefore,
    /// Its process ends once it is sent.
    CrashSent,
    /// Its process ends once it is applied.
    CrashAfter,
    /// Its process stands still for longer than a lease.
    Stop,
}

/// A fault at the request with this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planted {
    pub(crate) nth: u64,
    pub(crate) fault: Fault,
}

impl FromStr for Planted {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "is no number and fault, such as 12:LostAfter";
        let (nth, name) = text.split_once(':').ok_or(FORM)?;
        let nth = nth.parse().map_err(|_| FORM)?;
        let mut faults = Fault::value_variants().iter().copied();
        let fault = faults.find(|it| format!("{it:?}") == name);
        fault.map(|fault| Planted { nth, fault }).ok_or(FORM)
    }
}
