//! Text from other programs, made safe to show at a terminal.

use std::ffi::OsString;

/// Escapes what does not print. Names come from a table that many may write, and must neither move the cursor nor break a line.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match prints(c) {
            true => shown.push(c),
            false => shown.extend(c.escape_default()),
        }
    }
    shown
}

/// The name of the program that a command line runs.
pub(crate) fn program(command: &[OsString]) -> String {
    let program = command.first();
    program.map_or(String::new(), |program| {
        program.to_string_lossy().into_owned()
    })
}

/// Whether a character prints. It is tested after another character, because an accent follows the character that carries it. Quotes and
/// backslashes print as well: `escape_debug` escapes them for source code only.
fn prints(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || format!("a{c}").escape_debug().count() == 2
}

/// Quotes a word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prints_is_shown_as_it_is() {
        for text in [
            "deploy/prod",
            r#"it's "a\b""#,
            "Müller",
            "e\u{301}",
            "नमस्ते",
            "🔒",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_moves_the_cursor_breaks_the_line_or_turns_it_round_is_escaped() {
        assert_eq!(shown("a\u{1b}[2J\n\r\t\u{7}"), r"a\u{1b}[2J\n\r\t\u{7}");
        assert_eq!(shown("\u{9b}1m\u{7f}"), r"\u{9b}1m\u{7f}");
        assert_eq!(
            shown("\u{202e}\u{200b}\u{2028}"),
            r"\u{202e}\u{200b}\u{2028}"
        );
    }

    #[test]
    fn words_are_quoted_as_a_shell_takes_them() {
        assert_eq!(quoted("a-b/c.db"), "a-b/c.db");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
