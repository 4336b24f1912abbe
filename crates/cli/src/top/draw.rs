//! Draws what is shown into a frame. Colours repeat what words say.

use std::time::{Duration, SystemTime};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as Cells, Table, TableState};

use super::lock::{Lock, Place};
use super::row::Row;
use super::state::State;
use crate::output::rounded;
use crate::text::shown;

const HEAD: Style = Style::new().add_modifier(Modifier::BOLD);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const FAINT: Style = Style::new().fg(Color::DarkGray);
const BAD: Style = Style::new().fg(Color::Red);
const GOOD: Style = Style::new().fg(Color::Green);

/// The columns of the list, and how wide each is.
const COLUMNS: [(&str, Constraint); 8] = [
    ("LOCK", Constraint::Fill(2)),
    ("HOLDER", Constraint::Fill(2)),
    ("HELD FOR", Constraint::Length(8)),
    ("LEASE", Constraint::Length(7)),
    ("ENDS IN", Constraint::Length(8)),
    ("WAITING", Constraint::Length(7)),
    ("TURNS/MIN", Constraint::Length(9)),
    ("TURN", Constraint::Length(7)),
];
/// Which of them are left out where there is little room, the first ones first: names say what a line is of.
const LEFT_OUT: [usize; 6] = [7, 6, 4, 3, 2, 5];
/// The columns of an inspected queue.
const OF_QUEUE: [(&str, Constraint); 6] = [
    ("PLACE", Constraint::Length(6)),
    ("TICKET", Constraint::Length(16)),
    ("OWNER", Constraint::Fill(1)),
    ("STAGE", Constraint::Length(9)),
    ("WAITS FOR", Constraint::Length(9)),
    ("LEASE", Constraint::Length(7)),
];
/// Which of these are left out.
const LEFT_OUT_OF_QUEUE: [usize; 3] = [4, 5, 3];
/// What a column of names needs so that they can be told apart.
const NAME: u16 = 12;
/// Between two columns.
const GAP: u16 = 2;

/// The columns for which there is room.
fn fitting<const N: usize>(
    columns: [(&'static str, Constraint); N],
    left_out: &[usize],
    width: u16,
) -> Vec<usize> {
    let needs = |at: &usize| match columns[*at].1 {
        Constraint::Length(length) => length + GAP,
        _ => NAME + GAP,
    };
    let mut shown: Vec<_> = (0..N).collect();
    for next in left_out {
        if shown.iter().map(needs).sum::<u16>() <= width + GAP {
            break;
        }
        shown.retain(|at| at != next);
    }
    shown
}

/// A table of the columns that fit.
fn table<const N: usize>(
    columns: [(&'static str, Constraint); N],
    shown: &[usize],
    rows: impl Iterator<Item = [Cell<'static>; N]>,
) -> Table<'static> {
    let only = |cells: [Cell<'static>; N]| {
        let cells = cells.into_iter().enumerate();
        let cells = cells.filter(|(at, _)| shown.contains(at));
        Cells::new(cells.map(|(_, cell)| cell))
    };
    let widths: Vec<_> = shown.iter().map(|at| columns[*at].1).collect();
    let head = columns.map(|(name, _)| Cell::new(name));
    Table::new(rows.map(only), widths)
        .header(only(head).style(HEAD))
        .column_spacing(GAP)
}

/// Draws all of it. `place` says which table it is.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, place: &str, now: SystemTime) {
    let head = head(state, place);
    let height = u16::try_from(head.len()).unwrap_or(u16::MAX);
    let parts = [
        Constraint::Length(height),
        Constraint::Fill(1),
        Constraint::Length(1),
    ];
    let [above, middle, below] = Layout::vertical(parts).areas(frame.area());
    frame.render_widget(Paragraph::new(head), above);
    match &state.inspected {
        Some(name) => inspection(frame, middle, state, name, now),
        None => list(frame, middle, state, now),
    }
    frame.render_widget(Paragraph::new(foot(state)), below);
}

fn head<'a>(state: &'a State, place: &'a str) -> Vec<Line<'a>> {
    let (locks, held, waiting) = state.totals();
    let mut lines = vec![
        Line::from(vec![Span::styled("fairlock top  ", HEAD), Span::raw(place)]),
        Line::raw(format!("{locks} locks, {held} held, {waiting} waiting")),
        Line::styled(cost(state), FAINT),
    ];
    if state.unreadable > 0 {
        let text = format!(
            "{} locks cannot be read: `fairlock ls` says why",
            state.unreadable
        );
        lines.push(Line::styled(text, BAD));
    }
    if let Some(trouble) = &state.trouble {
        lines.push(Line::styled(
            format!("{}; goes on trying", shown(trouble)),
            BAD,
        ));
    }
    lines.push(Line::default());
    lines
}

/// What the reads cost.
pub(crate) fn cost(state: &State) -> String {
    let every = humantime::format_duration(state.every);
    match (state.units, state.units_a_second()) {
        (Some(units), Some(a_second)) => {
            format!(
                "a read every {every} at most, the last of {units} read units: {a_second:.1} units a second"
            )
        }
        _ => format!("a read every {every} at most: what it costs is told after the first"),
    }
}

fn foot(state: &State) -> Line<'_> {
    if state.is_typing {
        return Line::raw(format!(
            "names with: {}_  enter: keep  esc: clear",
            shown(&state.filter)
        ));
    }
    if state.inspected.is_some() {
        return Line::styled("up, down: scroll  esc: back  q: quit", FAINT);
    }
    let mut foot = format!(
        "up, down: choose  enter: inspect  s: sorted by {}  /: ",
        state.sort.word()
    );
    match state.filter.as_str() {
        "" => foot.push_str("filter"),
        filter => foot.push_str(&format!("names with {}", shown(filter))),
    }
    foot.push_str("  q: quit");
    Line::styled(foot, FAINT)
}

fn list(frame: &mut Frame<'_>, area: Rect, state: &State, now: SystemTime) {
    let rows = state.rows(now);
    if rows.is_empty() {
        let text = match (state.reads, state.filter.is_empty()) {
            (0, _) => "reads the table",
            (_, true) => "no locks",
            (_, false) => "no such locks",
        };
        return frame.render_widget(Paragraph::new(text), area);
    }
    let line = state.line(&rows);
    let columns = fitting(COLUMNS, &LEFT_OUT, area.width);
    let table = table(COLUMNS, &columns, rows.iter().map(cells)).row_highlight_style(CHOSEN);
    let mut at = TableState::new().with_selected(line);
    frame.render_stateful_widget(table, area, &mut at);
}

fn cells(row: &Row) -> [Cell<'static>; 8] {
    let holder = match (&row.holder, row.holders) {
        (None, _) => Cell::new("free").style(GOOD),
        (Some(holder), 0 | 1) => Cell::new(holder.clone()),
        (Some(holder), more) => Cell::new(format!("{holder} and {} more", more - 1)),
    };
    [
        Cell::new(shown(&row.lock)),
        holder,
        Cell::new(span(row.held_for)),
        lease(row.holder.is_some(), row.lease_left),
        Cell::new(ends_in(row)),
        Cell::new(row.waiting.to_string()),
        Cell::new(turns(row)),
        Cell::new(turn(row)),
    ]
}

fn inspection(frame: &mut Frame<'_>, area: Rect, state: &State, name: &str, now: SystemTime) {
    let name = shown(name);
    let Some((lock, row)) = state.inspection(now) else {
        let text = format!("{name}: no such lock is known any more");
        return frame.render_widget(Paragraph::new(text), area);
    };
    let facts = facts(&name, lock, &row);
    let height = u16::try_from(facts.len()).unwrap_or(u16::MAX);
    let [above, below] =
        Layout::vertical([Constraint::Length(height), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Paragraph::new(facts), above);
    let places = lock.queue.iter().scan(1, |next, place| {
        let first = *next;
        *next += place.tickets;
        Some(queued(first, place, now))
    });
    let columns = fitting(OF_QUEUE, &LEFT_OUT_OF_QUEUE, below.width);
    frame.render_widget(
        table(OF_QUEUE, &columns, places.skip(state.scrolled)),
        below,
    );
}

/// What is known of a lock beside its queue.
fn facts(name: &str, lock: &Lock, row: &Row) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if lock.holders.is_empty() {
        lines.push(Line::styled(format!("{name}: free"), HEAD));
    }
    for (nth, holder) in lock.holders.iter().enumerate() {
        let (by, style) = match nth {
            0 => (format!("{name}: held by"), HEAD),
            _ => ("  and by".to_owned(), Style::new()),
        };
        let permits = holder.permits.map(|permits| format!(", {permits} permits"));
        let text = format!(
            "{by} {} with ticket {}{}, lease left {}",
            holder.owner,
            holder.ticket,
            permits.unwrap_or_default(),
            left(holder.lease_left)
        );
        lines.push(Line::styled(text, style));
    }
    if row.held_for.is_some() {
        let end = match row.ends_in {
            None => "nothing tells yet when it ends".to_owned(),
            Some(Duration::ZERO) => "expected to end any time".to_owned(),
            Some(left) => format!("expected to end in {}", precise(left)),
        };
        lines.push(Line::raw(format!("held for {}, {end}", span(row.held_for))));
    }
    lines.push(Line::raw(format!(
        "{} waiting, {} turns a minute, a turn and its handoff take {}, a new caller waits for {}",
        row.waiting,
        turns(row),
        turn(row),
        row.wait().map_or_else(none, precise)
    )));
    let hidden = lock
        .waiting
        .saturating_sub(lock.queue.iter().map(|place| place.tickets).sum());
    if hidden > 0 {
        let text = format!("{hidden} more wait behind these: the next read shows them");
        lines.push(Line::styled(text, FAINT));
    }
    lines.push(Line::default());
    lines
}

fn queued(number: u64, place: &Place, now: SystemTime) -> [Cell<'static>; 6] {
    let waits = place
        .since
        .map(|since| now.duration_since(since).unwrap_or_default());
    let permits = place.permits.map(|permits| format!(", {permits} permits"));
    [
        Cell::new(number.to_string()),
        Cell::new(place.ticket.clone()),
        Cell::new(format!("{}{}", place.owner, permits.unwrap_or_default())),
        Cell::new(place.stage.clone()),
        Cell::new(span(waits)),
        lease(true, place.lease_left),
    ]
}

fn lease(is_there: bool, left_of_it: Option<Duration>) -> Cell<'static> {
    match left_of_it {
        _ if !is_there => Cell::new(none()),
        Some(Duration::ZERO) => Cell::new("over").style(BAD),
        other => Cell::new(left(other)),
    }
}

fn left(left: Option<Duration>) -> String {
    match left {
        None => "unknown".to_owned(),
        Some(Duration::ZERO) => "over".to_owned(),
        Some(left) => rounded(left),
    }
}

fn none() -> String {
    "-".to_owned()
}

fn span(span: Option<Duration>) -> String {
    span.map_or_else(none, rounded)
}

pub(crate) fn ends_in(row: &Row) -> String {
    match row.ends_in {
        Some(Duration::ZERO) => "any time".to_owned(),
        other => span(other),
    }
}

pub(crate) fn turns(row: &Row) -> String {
    row.turns_a_minute
        .map_or_else(none, |turns| format!("{turns:.1}"))
}

pub(crate) fn turn(row: &Row) -> String {
    row.turn.map_or_else(none, precise)
}

/// A span that may be short.
fn precise(span: Duration) -> String {
    match span.as_millis() {
        short @ ..1_000 => format!("{short}ms"),
        ..10_000 => format!("{:.1}s", span.as_secs_f64()),
        _ => rounded(span),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::top::samples::{THEN, contended, free, place};
    use crate::top::state::{Key, Read, Wanted};

    /// The lines of a screen of this size, without the spaces at their ends.
    fn screen(state: &State, width: u16, height: u16, after: Duration) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let drawn = terminal.draw(|frame| draw(frame, state, "table locks", THEN + after));
        let buffer = drawn.unwrap().buffer.clone();
        let line = |y| {
            let cells = (0..width).map(|x| buffer[(x, y)].symbol());
            cells.collect::<String>().trim_end().to_owned()
        };
        (0..height).map(line).collect()
    }

    fn read(at: u64, locks: Vec<Lock>) -> Read {
        Read {
            at: Duration::from_secs(at),
            of: Wanted::All,
            locks,
            unreadable: Vec::new(),
            units: 4.5,
        }
    }

    /// Three locks, of which one is contended and two turns ended since the first read.
    fn state() -> State {
        let mut state = State::new(Duration::from_secs(2));
        for at in 0..3 {
            let locks = vec![
                contended("deploy/prod", 100 + at, 2),
                free("idle", 7),
                contended("nightly", 50, 0),
            ];
            state.read(read(2 * at, locks));
        }
        state
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_list_has_a_line_for_each_lock_with_what_its_reads_tell() {
        assert_eq!(
            screen(&state(), 110, 9, SECOND),
            [
                "fairlock top  table locks",
                "3 locks, 2 held, 2 waiting",
                "a read every 2s at most, the last of 4.5 read units: 2.2 units a second",
                "",
                "LOCK                       HOLDER                     HELD FOR  LEASE    ENDS IN   WAITING  TURNS/MIN  TURN",
                "deploy/prod                holder-of-deploy/prod      1s        30s      1s        2        30.0       2.0s",
                "idle                       free                       -         -        -         0        0.0        -",
                "nightly                    holder-of-nightly          1s        30s      -         0        0.0        -",
                "up, down: choose  enter: inspect  s: sorted by turns a minute  /: filter  q: quit",
            ]
        );
    }

    /// Half of a terminal, or a telephone's.
    #[test]
    fn the_narrower_it_is_the_fewer_columns_there_are_and_names_stay() {
        for width in 40..=110 {
            let mut state = state();
            let lines = screen(&state, width, 9, SECOND);
            assert!(
                lines[4].starts_with("LOCK ") && lines[4].contains("HOLDER"),
                "{lines:#?}"
            );
            assert!(lines[5].starts_with("deploy/prod "), "{width}: {lines:#?}");
            assert!(lines[5].contains("  holder-of-de"), "{width}: {lines:#?}");
            assert!(lines[4].contains("WAITING"), "{width}: {lines:#?}");
            assert_eq!(
                lines[4].contains("TURN"),
                width >= 75,
                "{width}: {lines:#?}"
            );
            state.key(Key::Enter, THEN);
            let lines = screen(&state, width, 12, SECOND);
            let head = lines.iter().find(|line| line.contains("PLACE"));
            assert!(
                head.is_some_and(|head| head.contains("OWNER")),
                "{lines:#?}"
            );
        }
    }

    #[test]
    fn an_inspected_lock_shows_its_holders_and_its_queue() {
        let mut state = state();
        let mut shared = contended("deploy/prod", 110, 12);
        shared.holders.push(place("another", "holder", 97));
        shared.queue.truncate(8);
        state.read(read(6, vec![shared]));
        state.key(Key::Enter, THEN);
        let shown = screen(&state, 100, 12, SECOND);
        assert_eq!(
            shown[4],
            "deploy/prod: held by holder-of-deploy/prod with ticket 98, lease left 30s"
        );
        assert_eq!(shown[5], "  and by another with ticket 97, lease left 30s");
        assert!(shown[7].starts_with("12 waiting, "), "{shown:#?}");
        assert_eq!(
            shown[8],
            "4 more wait behind these: the next read shows them"
        );
        assert!(shown[10].starts_with("PLACE   TICKET"), "{shown:#?}");
        state.key(Key::Down, THEN);
        let scrolled = screen(&state, 100, 14, SECOND);
        assert!(scrolled[11].starts_with("2       100 "), "{scrolled:#?}");
        assert!(
            scrolled[13].starts_with("up, down: scroll"),
            "{scrolled:#?}"
        );
    }

    #[test]
    fn what_is_missing_late_or_hostile_is_told_in_words() {
        let mut state = State::new(SECOND);
        assert_eq!(screen(&state, 60, 6, SECOND)[4], "reads the table");
        state.read(read(0, Vec::new()));
        assert_eq!(screen(&state, 60, 6, SECOND)[4], "no locks");
        let mut dead = contended("a\u{1b}[2J", 10, 1);
        dead.holders[0].lease_left = Some(Duration::ZERO);
        state.read(Read {
            unreadable: vec![String::new(); 2],
            ..read(1, vec![dead])
        });
        state.failed("cannot reach DynamoDB".to_owned());
        let shown = screen(&state, 100, 9, SECOND);
        assert_eq!(shown[3], "2 locks cannot be read: `fairlock ls` says why");
        assert_eq!(shown[4], "cannot reach DynamoDB; goes on trying");
        assert!(
            shown[7].starts_with("a\\u{1b}[2J") && shown[7].contains("  over  "),
            "{shown:#?}"
        );
        state.key(Key::Letter('/'), THEN);
        state.key(Key::Letter('z'), THEN);
        let shown = screen(&state, 100, 9, SECOND);
        assert_eq!(
            (shown[6].as_str(), shown[8].as_str()),
            ("no such locks", "names with: z_  enter: keep  esc: clear")
        );
    }

    /// No terminal is too small, and none makes it panic.
    #[test]
    fn a_tiny_terminal_shows_what_fits() {
        for (width, height) in [(1, 1), (3, 2), (20, 5), (200, 60)] {
            let mut state = state();
            screen(&state, width, height, SECOND);
            state.key(Key::Enter, THEN);
            screen(&state, width, height, SECOND);
        }
    }
}
