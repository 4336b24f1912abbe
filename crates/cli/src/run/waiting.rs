//! What a command prints while it waits for its turn: its position in the queue, the expected wait, and who holds the lock. At a terminal it
//! draws a progress line; elsewhere it prints lines. In both cases it reports what else keeps the command from its turn.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::mem::{replace, take};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fairlock::{LossReason, OutageKind, Ticket, Waiting};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::interval;

use super::entrance::Entrance;
use super::holds::{Asks, Holds};
use super::supervisor_handle::Line;
use crate::args::Run;
use crate::failure::say;
use crate::ipc::{Order, now};
use crate::location::Location;
use crate::output::{holds, rounded};
use crate::text::shown;

/// How often the progress line changes.
pub(crate) const TICK: Duration = Duration::from_millis(200);
/// Without a progress line, a new position is printed at most this often.
const OFTEN: Duration = Duration::from_secs(30);

/// How much is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// A line that is redrawn, and removed at the end.
    Drawn,
    /// A line when the wait begins, a line when the position has changed (at most every `OFTEN`), and a line at the grant.
    Told,
    /// The same, but each change of the position is printed.
    ToldAll,
    Silent,
}

impl Manner {
    fn of(options: &Run) -> Manner {
        match () {
            () if options.claim.quiet => Manner::Silent,
            () if options.claim.verbose => Manner::ToldAll,
            () => Manner::usual(),
        }
    }

    fn usual() -> Manner {
        match std::io::stderr().is_terminal() {
            true => Manner::Drawn,
            false => Manner::Told,
        }
    }
}

/// The position that was printed last, at which lock, and when.
struct Told {
    lock: String,
    place: usize,
    at: Duration,
}

/// The progress output of one wait.
pub(crate) struct ProgressLine {
    bar: ProgressBar,
    said: Arc<Mutex<Option<String>>>,
    told: Arc<Mutex<Option<Told>>>,
    began: Duration,
}

impl ProgressLine {
    /// Returns the progress output, and the same request, which now reports to it. The next command may start once this one has a place in the
    /// queue, or cannot reach DynamoDB.
    pub(super) fn of(
        options: &Run,
        asks: Asks,
        line: Line,
        entrance: Entrance,
    ) -> (ProgressLine, Asks) {
        // Of several locks, one is taken while the next is waited for.
        let is_one = !matches!(asks, Asks::Several(_));
        let (picture, tells) = ProgressLine::new(Manner::of(options), &options.location, is_one);
        let (places, entrance) = (Mutex::new(BTreeMap::new()), Mutex::new(entrance));
        let asks = asks.observed(move |lock, waiting| {
            if waiting.place_id.is_some() || waiting.outage.is_some() {
                take(&mut *locked(&entrance));
            }
            line.tell(&Order::Places(noted(&mut locked(&places), lock, waiting)));
            tells(lock, waiting);
        });
        (picture, asks)
    }

    /// Returns the progress output of a wait for one lock, and what tells it of that wait.
    pub(crate) fn of_lock(
        name: &str,
        location: &Location,
    ) -> (
        ProgressLine,
        impl Fn(&Waiting) + Send + Sync + 'static + use<>,
    ) {
        let (picture, tells) = ProgressLine::new(Manner::usual(), location, true);
        let name = name.to_owned();
        (picture, move |waiting: &Waiting| tells(&name, waiting))
    }

    /// Returns the progress output, and what tells it of the wait for a lock.
    fn new(
        manner: Manner,
        location: &Location,
        is_one: bool,
    ) -> (
        ProgressLine,
        impl Fn(&str, &Waiting) + Send + Sync + 'static + use<>,
    ) {
        let bar = match manner {
            Manner::Drawn => ProgressBar::new_spinner().with_style(style()),
            Manner::Told | Manner::ToldAll | Manner::Silent => ProgressBar::hidden(),
        };
        let (said, told) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
        let picture = ProgressLine {
            bar: bar.clone(),
            said: Arc::clone(&said),
            told: Arc::clone(&told),
            began: now(),
        };
        let (outage, loss) = (Mutex::new(None), Mutex::new(false));
        let location = location.clone();
        let is_taken = move |waiting: &Waiting| !is_one && waiting.position == Some(0);
        let tells = move |lock: &str, waiting: &Waiting| {
            let (name, kind) = (shown(lock), waiting.outage.as_ref().map(|it| it.kind));
            let before = replace(&mut *locked(&outage), kind);
            if kind != before && manner != Manner::Silent {
                undrawn(&bar, || say(&outage_words(waiting, before, &location)));
            }
            let was_lost = replace(&mut *locked(&loss), waiting.place_lost.is_some());
            if let Some(reason) = waiting.place_lost.as_ref().filter(|_| !was_lost)
                && manner != Manner::Silent
            {
                undrawn(&bar, || say(&loss_words(&name, reason)));
                // The next position is news, however soon it comes, and though it be the same.
                if let Some(told) = &mut *locked(&told) {
                    (told.at, told.place) = (Duration::ZERO, usize::MAX);
                }
            }
            let words = words(waiting).filter(|_| !is_taken(waiting));
            if let Some((place, words)) = waiting.position.zip(words.as_ref())
                && is_news(manner, &mut locked(&told), lock, place)
            {
                say(&format!("lock `{name}`: {words}"));
            }
            *locked(&said) = words.map(|words| format!("{name}: {words}"));
        };
        (picture, tells)
    }

    /// Redraws the line, unless another process group is in the foreground of the terminal: the line would be drawn over its output.
    pub(crate) fn tick(&self) {
        let said = locked(&self.said);
        if let Some(said) = said.as_ref().filter(|_| is_in_foreground() && is_read()) {
            self.bar.set_message(said.clone());
            self.bar.tick();
        }
    }

    /// Shows the wait until it ends. Fails with the number of a signal that comes before.
    pub(crate) async fn until<T>(
        &self,
        ends: impl Future<Output = T>,
        signals: &mut UnboundedReceiver<i32>,
    ) -> Result<T, i32> {
        let (mut ends, mut tick) = (pin!(ends), interval(TICK));
        loop {
            tokio::select! {
                biased;
                Some(number) = signals.recv() => return Err(number),
                ended = &mut ends => return Ok(ended),
                _ = tick.tick() => self.tick(),
            }
        }
    }

    /// Prints the grant, if a wait was printed before.
    pub(super) fn granted(&self, holds: &Holds) {
        for guard in holds.guards() {
            self.granted_one(guard.name(), guard.ticket());
        }
    }

    /// Prints the grant of one lock, if a wait was printed before.
    pub(crate) fn granted_one(&self, lock: &str, ticket: Ticket) {
        if locked(&self.told).is_none() {
            return;
        }
        let (name, waited) = (shown(lock), rounded(now().saturating_sub(self.began)));
        say(&format!(
            "lock `{name}`: granted with ticket {ticket} after {waited}"
        ));
    }
}

/// Notes the place at this lock, or that there is none, and returns all places. A place of a lock that was lost while the next lock was
/// waited for stays until this process has another place there. It is given up already then, so that giving it up again changes nothing.
fn noted(places: &mut BTreeMap<String, String>, lock: &str, waiting: &Waiting) -> Vec<String> {
    match &waiting.place_id {
        Some(place) => places.insert(lock.to_owned(), place.to_string()),
        None => places.remove(lock),
    };
    places.values().cloned().collect()
}

/// Whether to print this position. Remembers it as the last one printed.
fn is_news(manner: Manner, told: &mut Option<Told>, lock: &str, place: usize) -> bool {
    let often = match manner {
        Manner::Told => OFTEN,
        Manner::ToldAll => Duration::ZERO,
        Manner::Drawn | Manner::Silent => return false,
    };
    let is_same = |told: &Told| told.place == place && told.lock == lock;
    let is_old = |told: &Told| !is_same(told) && now().saturating_sub(told.at) >= often;
    let is_news = told.as_ref().is_none_or(is_old);
    if is_news {
        *told = Some(Told {
            lock: lock.to_owned(),
            place,
            at: now(),
        });
    }
    is_news
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if !is_read() {
            self.bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        self.bar.finish_and_clear();
    }
}

/// Runs `work` while nothing is drawn.
fn undrawn(bar: &ProgressBar, work: impl FnOnce()) {
    match is_read() {
        true => bar.suspend(work),
        false => work(),
    }
}

/// Whether the terminal accepts output. It does not after Ctrl-S, and this process must not block on it.
fn is_read() -> bool {
    let stderr = std::io::stderr();
    let mut terminal = [PollFd::new(&stderr, PollFlags::OUT)];
    poll(&mut terminal, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn style() -> ProgressStyle {
    let template = ProgressStyle::with_template("{spinner} {msg}, waited {elapsed}");
    template.unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn is_in_foreground() -> bool {
    rustix::termios::tcgetpgrp(std::io::stderr())
        .is_ok_and(|group| group == rustix::process::getpgrp())
}

/// Says what keeps this process from its turn, or that what did `before` does no more.
fn outage_words(waiting: &Waiting, before: Option<OutageKind>, location: &Location) -> String {
    use OutageKind::{Conflict, LoadingCredentials, Refused, Throttled};
    let engine = location.engine();
    let Some(outage) = &waiting.outage else {
        return match before {
            Some(Throttled | Conflict | LoadingCredentials | Refused) => {
                format!("{engine} serves requests again")
            }
            _ => format!("reached {engine} again"),
        };
    };
    let (cause, way) = (&outage.cause, location.way_there());
    match (location.explained(cause), outage.kind) {
        (Some(why), _) => format!("{why}; goes on trying"),
        (None, Throttled) => format!("{engine} is too busy; goes on trying: {cause}"),
        (None, Conflict) => {
            format!("another program's transactions use the lock; goes on trying: {cause}")
        }
        (None, Refused) => {
            format!("{engine} refuses a request; goes on trying for a while: {cause}")
        }
        (None, LoadingCredentials) => format!("waits for credentials: {cause}"),
        (None, _) => format!("cannot reach {engine}, and goes on trying: {cause}: {way}"),
    }
}

fn loss_words(name: &str, reason: &LossReason) -> String {
    format!("lock `{name}`: its place in the queue was lost: {reason}; waits again, at the end")
}

/// Describes the wait. Returns `None` until this process has a position in the queue.
fn words(waiting: &Waiting) -> Option<String> {
    // The lock is granted already, and the caller is about to learn that.
    let (own, holder) = (waiting.place_id.as_ref(), waiting.holder.as_ref());
    if own
        .zip(holder)
        .is_some_and(|(own, holder)| own.ticket() == holder.ticket)
    {
        return None;
    }
    // The holder comes first in the queue, and does not wait.
    let before = match waiting.position?.saturating_sub(1) {
        0 => "you are next".to_owned(),
        1 => "1 waits before you".to_owned(),
        more => format!("{more} wait before you"),
    };
    let soon = match waiting.expected_wait {
        Some(wait) if wait > Duration::ZERO => format!(", in about {}", rounded(wait)),
        _ => String::new(),
    };
    let holder = waiting.holder.as_ref();
    let holder = holder.map(|holder| format!("{}, ", holds(holder)));
    Some(format!("{}{before}{soon}", holder.unwrap_or_default()))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
