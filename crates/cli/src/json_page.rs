//! The page of the manual about the JSON of the commands, from the tables of `json.md`.

const TABLES: &str = include_str!("json.md");

/// The word behind `fairlock man` that names this page, in place of a command.
pub(crate) const NAME: &str = "json";
/// Its file among the pages of the commands.
pub(crate) const FILE: &str = "fairlock-json.1";

/// The page in the language of `man`.
pub(crate) fn rendered() -> Vec<u8> {
    let mut page = format!(
        ".TH fairlock-json 1  \"fairlock {}\"\n.SH NAME\nfairlock\\-json \\- the fields that commands print with \\-\\-json\n",
        env!("CARGO_PKG_VERSION")
    );
    page += ".SH DESCRIPTION\n";
    for line in TABLES.lines() {
        page += &match line.strip_prefix("| ") {
            Some(row) => field(row),
            None if line.starts_with('|') => String::new(),
            None if line.is_empty() => ".PP\n".to_owned(),
            None => format!("{}\n", escaped(line)),
        };
    }
    page.into_bytes()
}

/// A field with its type and its meaning. The head of a table has none.
fn field(row: &str) -> String {
    let mut cells = row.trim_end_matches(" |").splitn(3, " | ");
    match [cells.next(), cells.next(), cells.next()] {
        [Some(name), Some(kind), Some(meaning)] if name.starts_with('`') => {
            let (name, kind, meaning) = (escaped(name), escaped(kind), escaped(meaning));
            format!(".TP\n\\fB{name}\\fR ({kind})\n{meaning}\n")
        }
        _ => String::new(),
    }
}

/// The text without marks of code, and without signs that `man` would take for its own.
fn escaped(text: &str) -> String {
    let text = text.replace('`', "").replace('\\', "\\\\");
    text.replace('-', "\\-")
}
