//! The history of a seed as people read it, which is told only when a seed is replayed.

use std::fmt::Write;

use fairlock_protocol::agent::{Answer, Page, Refusal, Shown, What};
use fairlock_protocol::entry::Entry;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::item::{LockItem, RowState, TicketRow};

use crate::agenda::{At, MS};

/// The lines about each lock. Lines about hosts are among those of every lock.
pub(crate) struct Story(Vec<Vec<String>>);

impl Story {
    pub(crate) fn of(locks: usize) -> Self {
        Story(vec![Vec::new(); locks])
    }

    /// The last lines about a lock.
    pub(crate) fn last(&self, lock: usize, lines: usize) -> &[String] {
        let all = &self.0[lock];
        &all[all.len().saturating_sub(lines)..]
    }

    pub(crate) fn tell(&mut self, at: At, lock: Option<usize>, what: &str) {
        let ms = at / MS;
        let line = format!("{:>10}.{:03} s  {what}", ms / 1000, ms % 1000);
        match lock {
            Some(lock) => self.0[lock].push(line),
            None => self.0.iter_mut().for_each(|lines| lines.push(line.clone())),
        }
    }
}

/// The first words of what says a whole item.
pub(crate) fn cut(text: String) -> String {
    match text.find("LockItem") {
        Some(at) => format!("{}..", &text[..at]),
        None => text,
    }
}

pub(crate) fn refusal(why: &Refusal) -> String {
    match why {
        Refusal::NotGranted {
            item: Some(item),
            position,
        } => {
            format!("not granted, {position:?} {}", shown(item))
        }
        other => cut(format!("{other:?}")),
    }
}

pub(crate) fn asked(what: &What) -> String {
    match what {
        What::Write { write, shows } => {
            let (clauses, effects) = (&write.clauses, &write.effects);
            let shows = if *shows { "" } else { ", unread" };
            let text = format!("{}{shows} if {clauses:?} then {effects:?}", write.verb);
            short(&text)
        }
        What::WriteRow(ticket, write) => format!("row {ticket}: {}", write.verb),
        other => format!("{other:?}"),
    }
}

/// The text without what entries say besides.
fn short(text: &str) -> String {
    const MOST: usize = 600;
    let end = text
        .char_indices()
        .nth(MOST)
        .map_or(text.len(), |(at, _)| at);
    text[..end].replace("Entry(Slot(0), ", "(").to_owned()
}

pub(crate) fn answered_by(answer: &Result<Answer, Failure>) -> String {
    match answer {
        Ok(Answer::Applied(shown)) => format!("applied: {}", shown_by(shown)),
        Ok(Answer::ConditionFailed(Some(shown))) => format!("refused: {}", shown_by(shown)),
        Ok(Answer::ConditionFailed(None)) => "refused".to_owned(),
        Ok(Answer::Read(Some(item))) => shown(item),
        Ok(Answer::Read(None)) => "no item".to_owned(),
        Ok(Answer::Page(page)) => page_of(page),
        Ok(Answer::Deleted) => "deleted".to_owned(),
        Err(failure) => failure.to_string(),
    }
}

fn shown_by(by: &Shown) -> String {
    match by {
        Shown::Item(item) => shown(item),
        Shown::Row(row) => row_of(row),
        Shown::Nothing => "nothing".to_owned(),
    }
}

fn page_of(page: &Page) -> String {
    let mut text = page
        .item
        .as_deref()
        .map_or_else(|| "no item".to_owned(), shown);
    for row in page.rows.iter().take(12) {
        let _ = write!(text, " {}", row_of(row));
    }
    let _ = write!(text, " of {}, next {:?}", page.rows.len(), page.next);
    text
}

fn row_of(row: &TicketRow) -> String {
    match &row.state {
        RowState::Waiting(entry) => format!("row {}", entry_of(entry)),
        RowState::Void(_) => format!("void {}", row.ticket),
    }
}

/// A lock item in a line.
pub(crate) fn shown(item: &LockItem) -> String {
    let mut text = format!("[last {} watermark {}", item.last, item.watermark);
    for entry in &item.slots {
        let _ = write!(text, " {}", entry_of(entry));
    }
    for entry in &item.sharers {
        let _ = write!(text, " sharer {}", entry_of(entry));
    }
    if let Some(broken) = &item.broken {
        let _ = write!(text, " broken {}", broken.to);
    }
    let _ = write!(text, " expires {}]", item.expires_at);
    text
}

fn entry_of(entry: &Entry) -> String {
    let seconds = |time: Option<std::time::Duration>| time.map(|it| it.as_secs_f64());
    let stamps = entry.stamps;
    format!(
        "({} {} nonce {:.4} beat {} lease {:?} at {:?}/{:?}{})",
        entry.ticket,
        entry.owner,
        entry.nonce.to_string(),
        entry.beat,
        entry.lease,
        seconds(stamps.server.map(|it| it.0)),
        seconds(stamps.host.map(|it| it.0)),
        if entry.given_back { " given back" } else { "" }
    )
}
