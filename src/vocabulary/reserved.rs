//! The attribute names of fairlock's own items, which a table's keys and TTL attribute must not have.

use fairlock_protocol::entry::Nonce;

/// Every attribute at the top of a lock item or a ticket's row, except those that are named by a nonce. Attributes inside of an
/// entry are on other paths, and never collide with a key.
const OURS: [&str; 21] = [
    "asked",
    "broken",
    "data",
    "departures",
    "drawn_at",
    "drawn_on_host",
    "entry",
    "format",
    "granted_at",
    "join_timeout_ms",
    "last",
    "permits",
    "resized",
    "resizes",
    "room",
    "sharers",
    "slots",
    "state",
    "tickets",
    "watermark",
    "written",
];

/// Nonces are reserved too: a ticket that an entry's own write drew stands under the entry's nonce.
pub(crate) fn is_reserved(attribute: &str) -> bool {
    OURS.contains(&attribute) || Nonce::parse(attribute).is_some()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// All sources that write the items, or read them, except the probe, which writes nothing.
    const SOURCES: [&str; 9] = [
        include_str!("../queue/mod.rs"),
        include_str!("../store/scan.rs"),
        include_str!("../../crates/protocol/src/codec.rs"),
        include_str!("../../crates/protocol/src/write/clause.rs"),
        include_str!("../../crates/protocol/src/write/effect.rs"),
        include_str!("../../crates/protocol/src/write/entry.rs"),
        include_str!("../../crates/protocol/src/write/expression.rs"),
        include_str!("../../crates/protocol/src/write/lock.rs"),
        include_str!("../../crates/protocol/src/write/row.rs"),
    ];

    /// The words that stand for the configured names.
    const CONFIGURED: [&str; 3] = ["pk", "sk", "expires_at"];

    /// The names with which the paths of a source's expressions begin: each stands behind `#`, and not behind a dot.
    fn in_expressions(source: &str) -> BTreeSet<String> {
        let starts = source.match_indices('#').map(|(at, _)| at);
        let starts = starts.filter(|at| !source[..*at].ends_with('.'));
        let words = starts.map(|at| word(&source[at + 1..]).to_owned());
        words.filter(|word| !word.is_empty()).collect()
    }

    /// The attributes that a source takes out of an item by a function `read(item, "name")`, or puts into a row.
    fn in_items(source: &str) -> BTreeSet<String> {
        let marks = [
            "(item, \"",
            "item.get(\"",
            "row.insert(\"",
            "item.insert(\"",
        ];
        let found = marks.iter().flat_map(|mark| source.split(mark).skip(1));
        found.map(|rest| word(rest).to_owned()).collect()
    }

    fn word(text: &str) -> &str {
        let is_of_a_word = |c: char| c == '_' || c.is_ascii_alphanumeric();
        let end = text.find(|c| !is_of_a_word(c)).unwrap_or(text.len());
        &text[..end]
    }

    fn code(source: &str) -> String {
        let lines = source.lines().map(str::trim);
        let is_code = |line: &&str| !line.starts_with("//") && !line.starts_with("#[");
        lines.filter(is_code).collect::<Vec<_>>().join("\n")
    }

    /// Every attribute at the top of an item, as the sources name it.
    fn used() -> BTreeSet<String> {
        let sources = SOURCES.map(code);
        let used = sources.iter().flat_map(|source| {
            let mut used = in_expressions(source);
            used.extend(in_items(source));
            used
        });
        used.filter(|name| !CONFIGURED.contains(&name.as_str()))
            .collect()
    }

    fn reserved(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_the_items_use_is_reserved_and_nothing_else() {
        assert_eq!(used(), reserved(&OURS));
        assert!(OURS.is_sorted());
    }

    #[test]
    fn what_looks_like_a_nonce_is_reserved() {
        assert!(is_reserved(&Nonce::new(7).to_string()));
        assert!(!is_reserved("00000000000000000000000000000g07"));
    }

    #[test]
    fn a_name_that_is_left_out_is_found() {
        for left_out in OURS {
            let rest: Vec<_> = OURS.into_iter().filter(|name| *name != left_out).collect();
            let missing: Vec<_> = used().difference(&reserved(&rest)).cloned().collect();
            assert_eq!(missing, [left_out]);
        }
    }
}
