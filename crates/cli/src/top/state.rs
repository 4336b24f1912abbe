//! What `fairlock top` shows: a function of the reads and the keys that have come. It reads nothing and draws nothing.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use super::lock::Lock;
use super::row::{Row, Sort};
use super::turn_rate::Seen;

/// A key that means something here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Backspace,
    Letter(char),
    /// Ctrl-C, which ends the program also while a filter is typed.
    Interrupt,
}

/// What the program does after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    End,
}

/// What the next read reads. Keys change it, and never cause a read of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The whole table.
    All,
    /// A single lock, with all of its queue.
    One(String),
}

/// What a read found.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    /// When it ended, since this program began.
    pub(crate) at: Duration,
    pub(crate) of: Wanted,
    pub(crate) locks: Vec<Lock>,
    /// Why the items of some locks cannot be read, one text for each.
    pub(crate) unreadable: Vec<String>,
    /// The read units that DynamoDB charged.
    pub(crate) units: f64,
}

/// How many lines a page key moves.
const PAGE: usize = 10;

/// What is shown.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) every: Duration,
    locks: BTreeMap<String, Seen>,
    pub(crate) sort: Sort,
    /// Only locks in whose names this stands.
    pub(crate) filter: String,
    /// Whether letters go to the filter.
    pub(crate) is_typing: bool,
    /// The lock at the cursor, and its line when it was last seen.
    cursor: (Option<String>, usize),
    /// The lock that is shown by itself.
    pub(crate) inspected: Option<String>,
    /// How many lines of the inspected queue are above the screen.
    pub(crate) scrolled: usize,
    /// How many reads there were.
    pub(crate) reads: u64,
    /// The read units of the newest read.
    pub(crate) units: Option<f64>,
    /// How many locks the newest read of the table could not read.
    pub(crate) unreadable: usize,
    /// Why the newest read failed.
    pub(crate) trouble: Option<String>,
}

impl State {
    pub(crate) fn new(every: Duration) -> State {
        State {
            every,
            locks: BTreeMap::new(),
            sort: Sort::default(),
            filter: String::new(),
            is_typing: false,
            cursor: (None, 0),
            inspected: None,
            scrolled: 0,
            reads: 0,
            units: None,
            unreadable: 0,
            trouble: None,
        }
    }

    /// What the next read is to read.
    pub(crate) fn wanted(&self) -> Wanted {
        match &self.inspected {
            Some(lock) => Wanted::One(lock.clone()),
            None => Wanted::All,
        }
    }

    /// Takes a read. A read of the table replaces all locks, and a read of one lock that lock.
    pub(crate) fn read(&mut self, read: Read) {
        self.reads += 1;
        self.units = Some(read.units);
        self.trouble = None;
        let mut before = match read.of {
            Wanted::All => std::mem::take(&mut self.locks),
            Wanted::One(_) => BTreeMap::new(),
        };
        if read.of == Wanted::All {
            self.unreadable = read.unreadable.len();
        }
        for lock in read.locks {
            let known = before.remove(&lock.name);
            let known = known.or_else(|| self.locks.remove(&lock.name));
            let name = lock.name.clone();
            let seen = match known {
                Some(mut seen) => {
                    seen.read(lock, read.at);
                    seen
                }
                None => Seen::new(lock, read.at),
            };
            self.locks.insert(name, seen);
        }
    }

    /// Notes that a read failed. What was read before stays.
    pub(crate) fn failed(&mut self, why: String) {
        self.trouble = Some(why);
    }

    /// The rows of the list, in their order.
    pub(crate) fn rows(&self, now: SystemTime) -> Vec<Row> {
        let fits = |name: &&String| name.contains(&self.filter);
        let names = self.locks.keys().filter(fits);
        let mut rows: Vec<_> = names.map(|name| Row::of(&self.locks[name], now)).collect();
        self.sort.sort(&mut rows);
        rows
    }

    /// The line of the cursor among these rows. Returns `None` if there are none.
    pub(crate) fn line(&self, rows: &[Row]) -> Option<usize> {
        let (lock, line) = &self.cursor;
        let at = lock
            .as_ref()
            .and_then(|lock| rows.iter().position(|row| row.lock == *lock));
        // Of a lock that has gone, the cursor keeps the line.
        let last = rows.len().checked_sub(1)?;
        Some(at.unwrap_or(*line).min(last))
    }

    /// The inspected lock and its row. Returns `None` if no lock is inspected.
    pub(crate) fn inspection(&self, now: SystemTime) -> Option<(&Lock, Row)> {
        let seen = self.locks.get(self.inspected.as_ref()?)?;
        Some((&seen.lock, Row::of(seen, now)))
    }

    /// How many locks there are, are held, and how many callers wait for them.
    pub(crate) fn totals(&self) -> (usize, usize, u64) {
        let locks = || self.locks.values().map(|seen| &seen.lock);
        let held = locks().filter(|lock| !lock.holders.is_empty()).count();
        (
            self.locks.len(),
            held,
            locks().map(|lock| lock.waiting).sum(),
        )
    }

    /// The read units in a second, if all reads cost as much as the newest. There is at most one read in `every`.
    pub(crate) fn units_a_second(&self) -> Option<f64> {
        Some(self.units? / self.every.as_secs_f64())
    }

    /// Takes a key that was pressed at `now`.
    pub(crate) fn key(&mut self, key: Key, now: SystemTime) -> Next {
        match key {
            Key::Interrupt => return Next::End,
            key if self.is_typing => self.typed(key),
            Key::Letter('q') => return Next::End,
            key if self.inspected.is_some() => self.key_at_inspection(key),
            key => self.key_at_list(key, now),
        }
        Next::GoOn
    }

    fn typed(&mut self, key: Key) {
        match key {
            Key::Letter(letter) => self.filter.push(letter),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.is_typing = false,
            Key::Escape => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
    }

    fn key_at_inspection(&mut self, key: Key) {
        let waiting = self
            .inspected
            .as_ref()
            .and_then(|lock| self.locks.get(lock));
        let last = waiting.map_or(0, |seen| seen.lock.queue.len().saturating_sub(1));
        match moved(key, self.scrolled, last) {
            Some(to) => self.scrolled = to,
            None if matches!(key, Key::Escape | Key::Enter | Key::Backspace) => {
                self.inspected = None;
            }
            None => {}
        }
    }

    fn key_at_list(&mut self, key: Key, now: SystemTime) {
        let rows = self.rows(now);
        let Some(line) = self.line(&rows) else {
            return self.key_anywhere(key);
        };
        match moved(key, line, rows.len() - 1) {
            Some(to) => self.cursor = (Some(rows[to].lock.clone()), to),
            None if key == Key::Enter => {
                let lock = rows[line].lock.clone();
                self.cursor = (Some(lock.clone()), line);
                self.inspected = Some(lock);
                self.scrolled = 0;
            }
            None => self.key_anywhere(key),
        }
    }

    fn key_anywhere(&mut self, key: Key) {
        match key {
            Key::Letter('s') => self.sort = self.sort.next(),
            Key::Letter('/') => self.is_typing = true,
            Key::Escape => self.filter.clear(),
            _ => {}
        }
    }
}

/// Where a key moves a line. Returns `None` if it moves none.
fn moved(key: Key, line: usize, last: usize) -> Option<usize> {
    let to = match key {
        Key::Up | Key::Letter('k') => line.saturating_sub(1),
        Key::Down | Key::Letter('j') => line + 1,
        Key::PageUp => line.saturating_sub(PAGE),
        Key::PageDown => line + PAGE,
        Key::Home => 0,
        Key::End => last,
        _ => return None,
    };
    Some(to.min(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::samples::{THEN, contended, free};

    const EVERY: Duration = Duration::from_secs(2);

    fn all(at: u32, locks: Vec<Lock>) -> Read {
        Read {
            at: at * EVERY,
            of: Wanted::All,
            locks,
            unreadable: Vec::new(),
            units: 3.0,
        }
    }

    fn three() -> State {
        let mut state = State::new(EVERY);
        state.read(all(
            0,
            vec![contended("a", 100, 1), contended("b", 100, 5), free("c", 9)],
        ));
        state
    }

    fn press(state: &mut State, keys: &[Key]) {
        for key in keys {
            assert_eq!(state.key(*key, THEN), Next::GoOn, "{key:?}");
        }
    }

    fn letters(text: &str) -> Vec<Key> {
        text.chars().map(Key::Letter).collect()
    }

    fn names(state: &State) -> String {
        state.rows(THEN).into_iter().map(|row| row.lock).collect()
    }

    fn at_cursor(state: &State) -> String {
        let rows = state.rows(THEN);
        rows[state.line(&rows).unwrap()].lock.clone()
    }

    #[test]
    fn the_busiest_locks_are_first_and_s_sorts_by_something_else() {
        let mut state = three();
        // After one read there are no turns yet, and the longest queue is first.
        assert_eq!(names(&state), "bac");
        state.read(all(
            1,
            vec![
                contended("a", 101, 1),
                contended("b", 100, 5),
                free("c", 19),
            ],
        ));
        assert_eq!(names(&state), "cab");
        press(&mut state, &letters("s"));
        assert_eq!((names(&state).as_str(), state.sort), ("bac", Sort::Waiting));
        press(&mut state, &letters("ss"));
        assert_eq!((names(&state).as_str(), state.sort), ("abc", Sort::Name));
    }

    #[test]
    fn the_cursor_stays_at_its_lock_and_at_its_line_if_the_lock_goes() {
        let mut state = three();
        press(&mut state, &[Key::Down]);
        assert_eq!(at_cursor(&state), "a");
        press(&mut state, &letters("sss"));
        assert_eq!(
            (names(&state).as_str(), at_cursor(&state).as_str()),
            ("abc", "a")
        );
        press(&mut state, &[Key::End, Key::Down]);
        assert_eq!(at_cursor(&state), "c");
        state.read(all(1, vec![contended("a", 100, 1), contended("b", 100, 5)]));
        assert_eq!(at_cursor(&state), "b");
        press(&mut state, &[Key::PageUp]);
        assert_eq!(at_cursor(&state), "a");
        state.read(all(2, Vec::new()));
        assert_eq!(state.line(&state.rows(THEN)), None);
        press(&mut state, &[Key::Down, Key::Enter, Key::Home]);
        assert_eq!(state.inspected, None);
    }

    #[test]
    fn a_filter_is_typed_kept_and_cleared() {
        let mut state = three();
        press(&mut state, &letters("/q"));
        // While it is typed, letters are no commands.
        assert_eq!((state.filter.as_str(), names(&state).as_str()), ("q", ""));
        press(&mut state, &[Key::Backspace, Key::Letter('a'), Key::Enter]);
        assert_eq!((names(&state).as_str(), state.is_typing), ("a", false));
        press(&mut state, &letters("s"));
        assert_eq!(state.sort, Sort::Waiting);
        press(&mut state, &[Key::Escape]);
        assert_eq!(names(&state).len(), 3);
        press(
            &mut state,
            &[Key::Letter('/'), Key::Letter('b'), Key::Escape],
        );
        assert_eq!((names(&state).len(), state.is_typing), (3, false));
    }

    #[test]
    fn an_inspected_lock_is_all_that_is_read_and_stays_when_others_are_not_read() {
        let mut state = three();
        assert_eq!(state.wanted(), Wanted::All);
        press(&mut state, &[Key::Enter]);
        assert_eq!(state.wanted(), Wanted::One("b".to_owned()));
        // No read came of the key: what is shown is what the table showed.
        assert_eq!(state.reads, 1);
        assert_eq!(state.inspection(THEN).unwrap().0.queue.len(), 5);
        state.read(Read {
            of: state.wanted(),
            locks: vec![contended("b", 120, 20)],
            units: 0.5,
            ..all(1, Vec::new())
        });
        assert_eq!(state.inspection(THEN).unwrap().0.queue.len(), 20);
        assert_eq!((state.totals(), state.units), ((3, 2, 21), Some(0.5)));
        press(&mut state, &[Key::PageDown, Key::PageDown, Key::Up]);
        assert_eq!(state.scrolled, 18);
        press(&mut state, &[Key::Escape]);
        assert_eq!(
            (state.wanted(), at_cursor(&state).as_str()),
            (Wanted::All, "b")
        );
    }

    #[test]
    fn an_inspected_lock_that_is_deleted_is_shown_no_more() {
        let mut state = three();
        press(&mut state, &[Key::Enter]);
        state.read(all(1, vec![free("c", 9)]));
        assert!(state.inspection(THEN).is_none());
        press(&mut state, &[Key::Down, Key::Escape]);
        assert_eq!(state.inspected, None);
    }

    #[test]
    fn q_and_ctrl_c_end_it_and_only_ctrl_c_while_a_filter_is_typed() {
        let mut state = three();
        assert_eq!(state.key(Key::Letter('q'), THEN), Next::End);
        press(&mut state, &[Key::Enter]);
        assert_eq!(state.key(Key::Letter('q'), THEN), Next::End);
        press(
            &mut state,
            &[Key::Escape, Key::Letter('/'), Key::Letter('q')],
        );
        assert_eq!(state.key(Key::Interrupt, THEN), Next::End);
    }

    #[test]
    fn the_cost_is_that_of_the_newest_read_in_each_interval() {
        let mut state = State::new(EVERY);
        assert_eq!(state.units_a_second(), None);
        state.read(all(0, Vec::new()));
        assert_eq!(state.units_a_second(), Some(1.5));
    }

    #[test]
    fn a_failed_read_is_told_and_takes_nothing_away_and_the_next_one_clears_it() {
        let mut state = three();
        state.failed("cannot reach DynamoDB".to_owned());
        assert_eq!((names(&state).len(), state.trouble.is_some()), (3, true));
        state.read(all(1, vec![free("c", 9)]));
        assert_eq!(state.trouble, None);
    }
}
