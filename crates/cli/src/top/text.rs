//! `fairlock top --once`: the list as text or JSON, for scripts and for places without a terminal.

use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;
use tokio::time::sleep;

use super::draw::{cost, ends_in, turn, turns};
use super::reader::{Reader, Trouble};
use super::row::Row;
use super::state::{State, Wanted};
use crate::args::top::Top;
use crate::failure::{Failure, UNAVAILABLE, say};
use crate::output::{self, milliseconds, rounded};
use crate::text::shown;

/// A line of the list in JSON, by the schema in `json.md`.
#[derive(Serialize)]
struct Listed<'a> {
    lock: &'a str,
    holder: Option<&'a str>,
    holders: u64,
    held_for_ms: Option<u64>,
    lease_left_ms: Option<u64>,
    ends_in_ms: Option<u64>,
    waiting: u64,
    turns_an_hour: Option<u64>,
    turn_ms: Option<u64>,
}

impl<'a> From<&'a Row> for Listed<'a> {
    fn from(row: &'a Row) -> Self {
        Listed {
            lock: &row.lock,
            holder: row.holder.as_deref(),
            holders: row.holders as u64,
            held_for_ms: row.held_for.map(milliseconds),
            lease_left_ms: row.lease_left.map(milliseconds),
            ends_in_ms: row.ends_in.map(milliseconds),
            waiting: row.waiting,
            turns_an_hour: row
                .turns_a_minute
                .map(|turns| (turns * 60.0).round() as u64),
            turn_ms: row.turn.map(milliseconds),
        }
    }
}

/// Reads once, or twice with `--every` between, and prints the list.
pub(crate) async fn once(options: &Top, mut reader: Reader) -> Result<ExitCode, Failure> {
    let mut state = State::new(options.every());
    if let Some(every) = options.every {
        let first = reader.read(Wanted::All).await.map_err(Trouble::failure)?;
        state.read(first);
        sleep(every).await;
    }
    let mut read = reader.read(Wanted::All).await.map_err(Trouble::failure)?;
    let unreadable = std::mem::take(&mut read.unreadable);
    state.read(read);
    unreadable.iter().for_each(|text| say(text));
    let rows = state.rows(output::now());
    let text = match options.json {
        true => rows
            .iter()
            .map(|row| output::json_line(&Listed::from(row)))
            .collect::<Result<String, _>>()?,
        false => table(&rows, &state, options),
    };
    let _ = output::print(&text)?;
    Ok(match unreadable.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(UNAVAILABLE),
    })
}

fn table(rows: &[Row], state: &State, options: &Top) -> String {
    let cost = match options.every {
        Some(_) => cost(state),
        None => format!(
            "one read, of {} read units",
            state.units.unwrap_or_default()
        ),
    };
    if rows.is_empty() {
        return format!("no locks in {}\n{cost}\n", options.location.name());
    }
    let head = [
        "LOCK",
        "HOLDER",
        "HELD FOR",
        "LEASE",
        "ENDS IN",
        "WAITING",
        "TURNS/MIN",
        "TURN",
    ];
    let lines = rows.iter().map(|row| {
        [
            shown(&row.lock),
            holder(row),
            span(row.held_for),
            span(row.lease_left),
            ends_in(row),
            row.waiting.to_string(),
            turns(row),
            turn(row),
        ]
    });
    output::plain_table(head, lines.collect()) + &cost + "\n"
}

fn holder(row: &Row) -> String {
    match (&row.holder, row.holders) {
        (None, _) => "free".to_owned(),
        (Some(holder), 0 | 1) => holder.clone(),
        (Some(holder), more) => format!("{holder} and {} more", more - 1),
    }
}

fn span(span: Option<Duration>) -> String {
    span.map_or_else(|| "-".to_owned(), rounded)
}
