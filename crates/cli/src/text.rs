//! Words of others, as they may be shown at a terminal.

/// Names come from a table that many may write, and must neither move the cursor nor break a line: what does not print
/// is escaped.
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

/// Behind another character, for accents stand behind what they are on. Quotes and backslashes are escaped in code only.
fn prints(c: char) -> bool {
    matches!(c, '\'' | '"' | '\\') || format!("a{c}").escape_debug().count() == 2
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
}
