//! The terminal: taken over while `fairlock top` runs, and given back as it was however that ends.

use std::io;
use std::thread::Builder;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::state::Key;
use crate::failure::Failure;

/// A terminal that this program has taken over. A panic gives it back too, before its message is printed.
pub(crate) struct Screen(DefaultTerminal);

impl Screen {
    pub(crate) fn open() -> Result<Screen, Failure> {
        let taken = ratatui::try_init().map(Screen);
        taken.map_err(|error| {
            Failure::misuse(format!(
                "this terminal cannot be drawn on: {error}: say --once for a table as text"
            ))
        })
    }

    pub(crate) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> Result<(), Failure> {
        let drawn = self.0.draw(draw);
        drawn.map(drop).map_err(|error| Failure::unwritten(&error))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // There may be no terminal any more.
        let _ = ratatui::try_restore();
    }
}

/// Receives the keys that mean something, and `None` when the terminal has another size. The channel closes with the terminal.
pub(crate) fn keys() -> Result<UnboundedReceiver<Option<Key>>, Failure> {
    let (tell, told) = unbounded_channel();
    let listens = move || {
        // Ends with the terminal, or with this program.
        while let Ok(event) = crossterm::event::read() {
            let heard = match event {
                Event::Key(key) => key_of(key).map(Some),
                Event::Resize(..) => Some(None),
                _ => None,
            };
            if heard.is_some_and(|heard| tell.send(heard).is_err()) {
                return;
            }
        }
    };
    let thread = Builder::new().name("keys".into()).spawn(listens);
    let unstarted = |error: io::Error| Failure::internal(format!("cannot read keys: {error}"));
    thread.map(|_| told).map_err(unstarted)
}

fn key_of(event: KeyEvent) -> Option<Key> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = event.modifiers.contains(KeyModifiers::CONTROL);
    let is_command = is_control || event.modifiers.contains(KeyModifiers::ALT);
    Some(match event.code {
        KeyCode::Char('c') if is_control => Key::Interrupt,
        KeyCode::Char(_) if is_command => return None,
        KeyCode::Char(letter) => Key::Letter(letter),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Backspace => Key::Backspace,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ctrl_c_interrupts_and_other_commands_are_no_letters() {
        let key = |code, modifiers| key_of(KeyEvent::new(code, modifiers));
        let control = KeyModifiers::CONTROL;
        assert_eq!(key(KeyCode::Char('c'), control), Some(Key::Interrupt));
        assert_eq!(key(KeyCode::Char('q'), control), None);
        assert_eq!(key(KeyCode::Char('q'), KeyModifiers::ALT), None);
        assert_eq!(
            key(KeyCode::Char('q'), KeyModifiers::NONE),
            Some(Key::Letter('q'))
        );
        assert_eq!(key(KeyCode::Tab, KeyModifiers::NONE), None);
        let released = KeyEvent {
            kind: KeyEventKind::Release,
            ..KeyEvent::from(KeyCode::Up)
        };
        assert_eq!(key_of(released), None);
    }
}
