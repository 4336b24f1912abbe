//! The paths that a source names, in its imports and elsewhere. Each group in braces is written out.

/// A path as the source wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) segments: Vec<String>,
    /// The name of the path from here on: its last segment, or the name after `as`.
    pub(crate) name: String,
    /// The inline modules of the file that contain the path, from the outside.
    pub(crate) inside: Vec<String>,
}

/// All paths of two segments or more, and shorter ones that get another name.
pub(crate) fn paths(code: &str) -> Vec<Named> {
    let tokens = tokens(code);
    let mut reader = Reader {
        tokens: &tokens,
        at: 0,
        open: Vec::new(),
        found: Vec::new(),
    };
    // The loop ends because each step reads at least one token.
    while reader.at < tokens.len() {
        reader.step();
    }
    reader.found
}

/// Words that may stand before a path that starts with `::`, and are not part of it.
const BEFORE_PATHS: [&str; 12] = [
    "use", "in", "as", "dyn", "else", "if", "impl", "match", "mut", "return", "where", "while",
];

struct Reader<'a> {
    tokens: &'a [&'a str],
    at: usize,
    /// The open braces around the next token, each with the module that it opened.
    open: Vec<Option<&'a str>>,
    found: Vec<Named>,
}

impl<'a> Reader<'a> {
    fn token(&self, ahead: usize) -> &'a str {
        self.tokens.get(self.at + ahead).copied().unwrap_or("")
    }

    fn step(&mut self) {
        match self.token(0) {
            "mod" if self.token(2) == "{" => {
                self.open.push(Some(self.token(1)));
                self.at += 3;
            }
            "{" => {
                self.open.push(None);
                self.at += 1;
            }
            "}" => {
                self.open.pop();
                self.at += 1;
            }
            word if is_name(word) && !BEFORE_PATHS.contains(&word) => self.tree(Vec::new()),
            _ => self.at += 1,
        }
    }

    /// Reads what follows `before::`, including nested groups.
    fn tree(&mut self, mut before: Vec<String>) {
        if self.token(0) == "{" {
            return self.group(&before);
        }
        before.push(self.token(0).to_owned());
        self.at += 1;
        let next = self.token(1);
        if self.token(0) == "::" && (is_name(next) || next == "{" || next == "*") {
            self.at += 1;
            return self.tree(before);
        }
        self.end(before);
    }

    fn group(&mut self, before: &[String]) {
        self.at += 1;
        // The loop ends with the group, or with the file.
        while !matches!(self.token(0), "}" | "") {
            match self.token(0) {
                "," => self.at += 1,
                _ => self.tree(before.to_owned()),
            }
        }
        self.at += 1;
    }

    fn end(&mut self, segments: Vec<String>) {
        let other = (self.token(0) == "as").then(|| self.token(1));
        if segments.len() > 1 || other.is_some() {
            let last = segments.last().map_or("", String::as_str);
            let inside = self.open.iter().flatten();
            self.found.push(Named {
                name: other.unwrap_or(last).to_owned(),
                inside: inside.map(|module| (*module).to_owned()).collect(),
                segments,
            });
        }
        self.at += if other.is_some() { 2 } else { 0 };
    }
}

fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c == '_' || c.is_alphabetic())
}

/// Words, `::` and single signs, without comments and string literals.
fn tokens(mut rest: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    // The loop ends because each piece has at least one character.
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(length(rest));
        if !(piece.starts_with("//") || piece.starts_with(['"', '\'', ' ', '\n'])) {
            tokens.push(piece);
        }
        rest = after;
    }
    tokens
}

/// The length of the piece that `rest` begins with.
fn length(rest: &str) -> usize {
    let until = |end: Option<usize>| end.unwrap_or(rest.len());
    let first = rest.chars().next().map_or(1, char::len_utf8);
    match rest.as_bytes() {
        [b'/', b'/', ..] => until(rest.find('\n')),
        [b':', b':', ..] => 2,
        [b'"', ..] => text(rest, '"'),
        [b'\'', b'\\', ..] => text(rest, '\''),
        // A character literal. A lifetime has no second quotation mark there, and is read as a sign and a word.
        [b'\'', ..] if rest.chars().nth(2) == Some('\'') => {
            rest.chars().take(3).map(char::len_utf8).sum()
        }
        _ if is_name(rest) => until(rest.find(|c: char| c != '_' && !c.is_alphanumeric())),
        _ => first,
    }
}

/// The length up to the mark that ends the literal, including both marks.
fn text(rest: &str, mark: char) -> usize {
    let mut escaped = false;
    let end = rest.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == mark && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(rest.len(), |(at, _)| at + 1)
}
