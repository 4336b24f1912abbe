//! What `show` and `ls` print, for people and for programs.

mod columns;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::ops::ControlFlow;
use std::time::{Duration, SystemTime};

use aws_smithy_types::base64;
use fairlock::{Holder, LockData, LockState, Participant};
use serde::Serialize;

use crate::failure::Failure;
use crate::text::shown;
#[cfg(feature = "top")]
pub(crate) use columns::plain_table;
use columns::{BAD, BOLD, Cell, GOOD, PLAIN, table};

/// The permits of a lock that is not a semaphore.
pub(crate) const OF_A_LOCK: u64 = 64;

/// A lock in JSON, by the schema in `json.md`.
#[derive(Serialize)]
struct Lock<'a> {
    lock: &'a str,
    permits: Option<u64>,
    resized: Option<u64>,
    holder: Option<Person<'a>>,
    sharers: Vec<Person<'a>>,
    held_since: Option<String>,
    queue: Vec<Person<'a>>,
    waiting: u64,
    newest_ticket: Option<u64>,
    data: Option<Data>,
}

/// The data that a lock carries.
#[derive(Serialize)]
struct Data {
    ticket: u64,
    base64: String,
}

/// A holder or a waiter.
#[derive(Serialize)]
struct Person<'a> {
    ticket: u64,
    permits: Option<u64>,
    tickets: u64,
    owner: &'a str,
    attributes: &'a BTreeMap<String, String>,
    lease_id: Option<&'a str>,
    kept_until: Option<String>,
    stage: String,
    since: Option<String>,
    lease_ms: u64,
    lease_left_ms: Option<u64>,
    is_notifiable: bool,
}

impl<'a> From<&'a LockState> for Lock<'a> {
    fn from(state: &'a LockState) -> Self {
        let person = |who| Person::of(who, state);
        Lock {
            lock: &state.lock,
            permits: permits(state),
            resized: state.resized,
            holder: state.holder.as_ref().map(person),
            sharers: state.sharers.iter().map(person).collect(),
            held_since: state.held_since.and_then(to_the_millisecond),
            queue: state.queue.iter().map(person).collect(),
            waiting: state.waiting,
            newest_ticket: state.newest_ticket.map(|ticket| ticket.get()),
            data: state.data.as_ref().map(Data::from),
        }
    }
}

impl From<&LockData> for Data {
    fn from(data: &LockData) -> Self {
        Data {
            ticket: data.ticket.get(),
            base64: base64::encode(&data.bytes),
        }
    }
}

impl<'a> Person<'a> {
    fn of(who: &'a Participant, state: &LockState) -> Self {
        Person {
            ticket: who.ticket.get(),
            permits: part(who, state),
            tickets: who.tickets,
            owner: &who.owner,
            attributes: &who.attributes,
            lease_id: who.lease_id.as_deref(),
            kept_until: who.kept_until.and_then(to_the_millisecond),
            stage: who.stage.to_string(),
            since: who.since.and_then(to_the_millisecond),
            lease_ms: milliseconds(who.lease),
            lease_left_ms: who.lease_left.map(milliseconds),
            is_notifiable: who.is_notifiable,
        }
    }
}

/// The lock's total permits, where that matters. Returns `None` for a lock that is not a semaphore, unless a participant shares it.
fn permits(state: &LockState) -> Option<u64> {
    let all = state.permits?;
    let mut there = state
        .holder
        .iter()
        .chain(&state.sharers)
        .chain(&state.queue);
    (all != OF_A_LOCK || there.any(|who| who.permits < all)).then_some(all)
}

/// Writes a lock as one line of JSON.
pub(crate) fn json(state: &LockState) -> Result<String, Failure> {
    json_line(&Lock::from(state))
}

/// Escapes control characters beyond ASCII. JSON permits them, but some terminals obey them. They occur in strings only.
fn without_controls(json: &str) -> String {
    let mut clean = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\u{7f}'..='\u{9f}' => clean.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => clean.push(c),
        }
    }
    clean
}

/// Prints the text, with colours where the terminal shows them. Returns `Break` if the reader has closed the pipe.
pub(crate) fn print(text: &str) -> Result<ControlFlow<()>, Failure> {
    let mut stdout = anstream::stdout();
    let printed = stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush());
    printed.map_or_else(
        |error| unprinted(&error),
        |()| Ok(ControlFlow::Continue(())),
    )
}

/// Prints bytes as they are. Returns `Break` if the reader has closed the pipe.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<ControlFlow<()>, Failure> {
    let mut stdout = std::io::stdout().lock();
    let printed = stdout.write_all(bytes).and_then(|()| stdout.flush());
    printed.map_or_else(
        |error| unprinted(&error),
        |()| Ok(ControlFlow::Continue(())),
    )
}

fn unprinted(error: &std::io::Error) -> Result<ControlFlow<()>, Failure> {
    match error.kind() {
        ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        _ => Err(Failure::unwritten(error)),
    }
}

/// Writes a value as one line of JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(value);
    let mut line = line.map_err(|error| Failure::internal(format!("no JSON: {error}")))?;
    line.push('\n');
    Ok(without_controls(&line))
}

fn lease_left(who: &Participant) -> Cell {
    let style = match who.lease_left {
        Some(Duration::ZERO) if who.kept_until.is_none() => BAD,
        _ => PLAIN,
    };
    let text = match who.kept_until {
        Some(_) => format!("kept for {}", left(who)),
        None => left(who),
    };
    Cell { text, style }
}

/// The text for a lock of which the table has no item. The name may be a typing error.
pub(crate) fn unknown(state: &LockState, table: &str) -> String {
    let name = shown(&state.lock);
    format!(
        "{BOLD}{name}{BOLD:#}: {GOOD}free{GOOD:#}: no such lock is known in {table}, where nobody has used it lately\n"
    )
}

/// How long the lock has been held at `now`.
pub(crate) fn held_for(state: &LockState, now: SystemTime) -> Option<Duration> {
    let since = state.held_since.filter(|_| state.holder.is_some())?;
    Some(now.duration_since(since).unwrap_or_default())
}

/// Shows one lock and its queue, at `now`.
pub(crate) fn lock(state: &LockState, now: SystemTime) -> String {
    let name = shown(&state.lock);
    let mut text = match &state.holder {
        Some(holder) => held(&name, holder, state, now),
        None => format!(
            "{BOLD}{name}{BOLD:#}: {GOOD}free{GOOD:#}{}\n",
            all_of(state)
        ),
    };
    for sharer in &state.sharers {
        text.push_str(&format!(
            "  and by {BOLD}{}{BOLD:#} with ticket {}{}{}, {} {}\n",
            named(sharer),
            sharer.ticket,
            share(sharer, state),
            notifiable(sharer),
            match sharer.kept_until {
                Some(_) => "which gave it back: kept for",
                None => "lease left",
            },
            left(sharer),
        ));
    }
    if let Some(line) = too_many(state) {
        text.push_str(&line);
    }
    if !state.queue.is_empty() {
        let head = ["PLACE", "TICKET", "OWNER", "STAGE", "SINCE", "LEASE LEFT"];
        let mut before = 0_u64;
        let rows = state.queue.iter().map(|who| {
            let place = before.saturating_add(1);
            before = before.saturating_add(who.tickets);
            stand(place, who, now)
        });
        text.push('\n');
        text.push_str(&table(head, rows.collect()));
    }
    text
}

fn held(name: &str, holder: &Participant, state: &LockState, now: SystemTime) -> String {
    let how = match holder.kept_until {
        Some(_) => "given back",
        None => "held",
    };
    format!(
        "{BOLD}{name}{BOLD:#}: {how} by {BOLD}{}{BOLD:#} with ticket {}{}{}\n  since {}\n  {}\n",
        named(holder),
        tickets(holder),
        share(holder, state),
        notifiable(holder),
        when(state.held_since, now),
        ending(holder),
    )
}

/// Until when a hold lasts, unless it is renewed.
fn ending(holder: &Participant) -> String {
    if let Some(until) = holder.kept_until {
        let until = to_the_second(until).unwrap_or_else(|| "unknown".into());
        return format!(
            "kept until {until} for its shortest time, {} left",
            left(holder)
        );
    }
    let left = match holder.lease_left {
        None => "what is left of it is unknown: it has no date yet, and whoever has it may be dead"
            .into(),
        Some(Duration::ZERO) => "over: it looks dead, and is passed once that is sure".into(),
        Some(left) => format!("{} left", rounded(left)),
    };
    format!("lease {}, {left}", humantime::format_duration(holder.lease))
}

fn stand(place: u64, who: &Participant, now: SystemTime) -> [Cell; 6] {
    [
        Cell::plain(ordinal(place)),
        Cell::plain(tickets(who)),
        Cell::plain(named(who)),
        Cell::plain(format!("{}{}", who.stage, notifiable(who))),
        Cell::plain(when(who.since, now)),
        lease_left(who),
    ]
}

/// Lists the locks in order of their names, at `now`.
pub(crate) fn locks(mut states: Vec<LockState>, now: SystemTime) -> String {
    states.sort_by(|a, b| a.lock.cmp(&b.lock));
    let head = [
        "LOCK",
        "HOLDER",
        "TICKET",
        "HELD SINCE",
        "LEASE LEFT",
        "WAITING",
    ];
    let rows = states.iter().map(|state| listed(state, now));
    table(head, rows.collect())
}

fn listed(state: &LockState, now: SystemTime) -> [Cell; 6] {
    let name = Cell::plain(shown(&state.lock));
    let waiting = Cell::plain(state.waiting.to_string());
    let Some(holder) = &state.holder else {
        let free = Cell {
            text: "free".into(),
            style: GOOD,
        };
        return [
            name,
            free,
            Cell::none(),
            Cell::none(),
            Cell::none(),
            waiting,
        ];
    };
    [
        name,
        Cell::plain(match state.sharers.len() {
            0 => named(holder),
            more => format!("{} and {more} more", named(holder)),
        }),
        Cell::plain(tickets(holder)),
        Cell::plain(when(state.held_since, now)),
        lease_left(holder),
        waiting,
    ]
}

/// Writes a time, and how long ago it was. The time is DynamoDB's, so the difference is inexact if this machine's clock differs.
fn when(at: Option<SystemTime>, now: SystemTime) -> String {
    let Some((at, text)) = at.and_then(|at| Some((at, to_the_second(at)?))) else {
        return "unknown".into();
    };
    let ago = now.duration_since(at).unwrap_or_default();
    format!("{text} ({} ago)", rounded(ago))
}

fn left(who: &Participant) -> String {
    match who.lease_left {
        None => "unknown".into(),
        Some(Duration::ZERO) => "over".into(),
        Some(left) => rounded(left),
    }
}

/// Rounds down to seconds, and uses two units at most.
pub(crate) fn rounded(span: Duration) -> String {
    let text = humantime::format_duration(Duration::from_secs(span.as_secs())).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

pub(crate) fn to_the_second(at: SystemTime) -> Option<String> {
    let text = written(humantime::format_rfc3339_seconds(at))?;
    Some(text.replace('T', " ").replace('Z', " UTC"))
}

pub(crate) fn to_the_millisecond(at: SystemTime) -> Option<String> {
    written(humantime::format_rfc3339_millis(at))
}

/// Returns `None` for a time after the year 9999, which RFC 3339 cannot write. A damaged item may contain such a time.
fn written(at: impl std::fmt::Display) -> Option<String> {
    let mut text = String::new();
    write!(text, "{at}").is_ok().then_some(text)
}

pub(crate) fn milliseconds(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// The owner, and the name of the lease if it has one. A named lease can outlive its process.
pub(crate) fn named(who: &Participant) -> String {
    let owner = shown(&who.owner);
    match &who.lease_id {
        Some(id) => format!("{owner} as {}", shown(id)),
        None => owner,
    }
}

/// The same in a sentence: who has it, or gave it back.
pub(crate) fn has(who: &Participant) -> String {
    match who.kept_until {
        Some(until) => gave_back(&named(who), until),
        None => format!("{} has it", named(who)),
    }
}

fn gave_back(owner: &str, until: SystemTime) -> String {
    let until = to_the_second(until).unwrap_or_else(|| "unknown".into());
    format!("{owner} gave it back, kept until {until}")
}

/// The holder as an error or a wait shows it. A lease can outlive its process, so its name comes first.
pub(crate) fn holds(holder: &Holder) -> String {
    let owner = shown(&holder.owner);
    match (&holder.lease_id, holder.kept_until) {
        (_, Some(until)) => gave_back(&owner, until),
        (Some(id), None) => format!("lease `{}` of {owner} has it", shown(id)),
        (None, None) => format!("{owner} has it"),
    }
}

/// The ticket, or the first and the newest ticket if there are several.
pub(crate) fn tickets(who: &Participant) -> String {
    let newest = who.ticket.get();
    match who.tickets {
        0 | 1 => newest.to_string(),
        several => format!("{}-{newest}", newest.saturating_sub(several - 1)),
    }
}

/// The permits that a participant holds or asks for, if they are not all of the lock's.
pub(crate) fn part(who: &Participant, state: &LockState) -> Option<u64> {
    Some(who.permits).filter(|permits| state.permits.is_some_and(|all| *permits < all))
}

/// The same in words. After their number was lowered, more permits may be held than there are.
fn share(who: &Participant, state: &LockState) -> String {
    match (part(who, state), there_are(state)) {
        (Some(part), Some(all)) if held_permits(state) <= all => {
            format!(", {part} of {}", numbered(all))
        }
        (Some(part), _) => format!(", {}", numbered(part)),
        (None, _) => String::new(),
    }
}

/// How many permits are given out at most now.
fn there_are(state: &LockState) -> Option<u64> {
    state.resized.or(state.permits)
}

/// How many permits the holders have together.
fn held_permits(state: &LockState) -> u64 {
    let holders = state.holder.iter().chain(&state.sharers);
    holders.map(|who| who.permits).fold(0, u64::saturating_add)
}

/// The permits of a free semaphore in words.
fn all_of(state: &LockState) -> String {
    match (permits(state), state.resized) {
        (Some(named), Some(now)) => format!(", with {} in place of {named}", numbered(now)),
        (Some(named), None) => format!(", with {}", numbered(named)),
        (None, Some(now)) => format!(", shared by {now} readers at most"),
        (None, None) => String::new(),
    }
}

/// A line about permits that are held beyond those that there are.
fn too_many(state: &LockState) -> Option<String> {
    let (named, now) = (state.permits?, state.resized?);
    let held = held_permits(state);
    let is_shared = state.holder.as_ref().is_some_and(|who| who.permits < named);
    (is_shared && held > now).then(|| {
        let now = numbered(now);
        format!(
            "  {now} in place of {named}: {held} are held, and none is given out until fewer are\n"
        )
    })
}

fn numbered(permits: u64) -> String {
    match permits {
        1 => "1 permit".to_owned(),
        more => format!("{more} permits"),
    }
}

/// A word about a participant whose client can be notified when to poll.
fn notifiable(who: &Participant) -> &'static str {
    match who.is_notifiable {
        true => ", notifiable",
        false => "",
    }
}

fn ordinal(place: u64) -> String {
    let ending = match (place % 10, place % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{place}{ending}")
}

#[expect(
    clippy::disallowed_methods,
    reason = "for people only: nothing is decided by it"
)]
pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn places_are_counted_as_people_count() {
        let told = [1, 2, 3, 4, 11, 12, 13, 21, 102, 111].map(ordinal);
        let said = "1st 2nd 3rd 4th 11th 12th 13th 21st 102nd 111th";
        assert_eq!(told.join(" "), said);
    }

    #[test]
    fn times_are_told_absolutely_and_from_now_and_those_that_cannot_be_are_unknown() {
        let at = SystemTime::UNIX_EPOCH + 1_700_000_000 * SECOND;
        let told = when(Some(at), at + 12 * SECOND + SECOND / 2);
        assert_eq!(told, "2023-11-14 22:13:20 UTC (12s ago)");
        assert!(when(Some(at), at - SECOND).ends_with("(0s ago)"));
        let beyond = SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800);
        assert_eq!(when(Some(beyond), at), "unknown");
        assert_eq!(to_the_millisecond(beyond), None);
        assert_eq!(when(None, at), "unknown");
    }

    #[test]
    fn spans_have_two_units_at_the_most() {
        assert_eq!(rounded(SECOND / 2), "0s");
        assert_eq!(rounded(3_725 * SECOND), "1h 2m");
    }

    #[test]
    fn json_has_no_control_characters_of_any_kind() {
        let json = serde_json::to_string("\u{1b}\u{7f}\u{9b}é").unwrap();
        let clean = without_controls(&json);
        assert_eq!(clean, r#""\u001b\u007f\u009bé""#);
        assert_eq!(
            serde_json::from_str::<String>(&clean).unwrap(),
            "\u{1b}\u{7f}\u{9b}é"
        );
    }
}
