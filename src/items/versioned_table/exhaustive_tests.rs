//! Every short history of one key, and whether what an item tells of a write is true in all of them.

use aws_sdk_dynamodb::types::AttributeValue;

use super::Item;
use super::revision::{Attributes, Fate, Revision};

/// The most events of a history after the read.
const LONGEST: usize = 5;

/// What can happen at a key after it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// A copy of the write arrives: the first one, a retry or a late one.
    Copy,
    /// Another update reads and writes.
    Other,
    Delete,
    /// A writer of another kind counts the version up.
    Count,
    /// A writer of another kind makes an item, without a version.
    MakePlain,
    /// A writer of another kind makes an item, of version 1.
    MakeNumbered,
    /// Another update writes so much that only the newest id fits.
    Fill,
}

const EVENTS: [Event; 7] = [
    Event::Copy,
    Event::Other,
    Event::Delete,
    Event::Count,
    Event::MakePlain,
    Event::MakeNumbered,
    Event::Fill,
];

/// Decides on the fate of the write.
type Judge = fn(&Revision, &Attributes, &str, Option<&Item>) -> Fate;

const OWN: &str = "own";

fn attributes() -> Attributes {
    Attributes {
        version: "version".into(),
        writes: "writes".into(),
    }
}

fn revision(item: Option<&Item>) -> Revision {
    attributes().revision(item).unwrap()
}

fn numbered(item: Item, version: u64) -> Item {
    let number = AttributeValue::N(version.to_string());
    item.into_iter()
        .chain([("version".to_owned(), number)])
        .collect()
}

fn version(item: &Item) -> Option<u64> {
    item.get("version")?.as_n().ok()?.parse().ok()
}

/// A key, and how often the write has been applied to it.
#[derive(Clone)]
struct World {
    base: Revision,
    item: Option<Item>,
    applied: usize,
    others: usize,
    /// The writer was told that its write was never applied.
    is_denied: bool,
    past: Vec<Event>,
}

impl World {
    fn of(item: Option<Item>) -> Self {
        World {
            base: revision(item.as_ref()),
            item,
            applied: 0,
            others: 0,
            is_denied: false,
            past: Vec::new(),
        }
    }

    /// Whether the write's condition holds.
    fn is_as_read(&self) -> bool {
        let now = revision(self.item.as_ref());
        (now.version, now.write()) == (self.base.version, self.base.write())
    }

    fn after(mut self, event: Event) -> Self {
        self.past.push(event);
        match (event, self.item.take()) {
            (Event::Copy, item) => self.item = item,
            (Event::Delete, _) => {}
            (Event::Other, item) => self.item = Some(self.other(Item::new(), item)),
            (Event::Fill, item) => {
                let big = AttributeValue::S("x".repeat(400 * 1024 - 80));
                let full = self.other([("big".to_owned(), big)].into(), item);
                // A series of full items would be slow to compare.
                let full = full.into_iter().filter(|(name, _)| name != "big");
                self.item = Some(full.collect());
            }
            (Event::Count, Some(item)) => {
                let next = version(&item).map(|version| version + 1);
                self.item = Some(next.map_or(item.clone(), |next| numbered(item, next)));
            }
            (Event::MakePlain, None) => self.item = Some(Item::new()),
            (Event::MakeNumbered, None) => self.item = Some(numbered(Item::new(), 1)),
            (Event::Count | Event::MakePlain | Event::MakeNumbered, item) => self.item = item,
        }
        if event == Event::Copy && self.is_as_read() {
            self.applied += 1;
            self.item = Some(attributes().marked(Item::new(), OWN, &self.base));
        }
        self
    }

    fn other(&mut self, item: Item, seen: Option<Item>) -> Item {
        self.others += 1;
        let id = format!("{:032}", self.others);
        attributes().marked(item, &id, &revision(seen.as_ref()))
    }

    /// Whether all that the writer was told is true, now and before. It is told something only when its condition does not hold.
    fn judge_answers(&mut self, judge: Judge) -> bool {
        if !self.is_as_read() {
            match judge(&self.base, &attributes(), OWN, self.item.as_ref()) {
                Fate::Applied if self.applied == 0 => return false,
                Fate::NotApplied => self.is_denied = true,
                Fate::Applied | Fate::Unknown => {}
            }
        }
        !self.is_denied || self.applied == 0
    }
}

/// What a key may hold when it is read.
fn bases() -> [Option<Item>; 5] {
    let first = attributes().marked(Item::new(), "first", &revision(None));
    [
        None,
        Some(Item::new()),
        Some(numbered(Item::new(), 1)),
        Some(first.clone()),
        Some(numbered(first, 2)),
    ]
}

/// The first history in which the writer is told something untrue. Ends with the longest.
fn broken(world: World, judge: Judge) -> Option<Vec<Event>> {
    EVENTS.into_iter().find_map(|event| {
        let mut world = world.clone().after(event);
        if !world.judge_answers(judge) {
            return Some(world.past);
        }
        let goes_on = world.past.len() < LONGEST;
        goes_on.then(|| broken(world, judge)).flatten()
    })
}

fn broken_by(judge: Judge) -> Vec<Option<Vec<Event>>> {
    bases().map(|item| broken(World::of(item), judge)).into()
}

#[test]
fn no_history_makes_what_an_item_tells_of_a_write_untrue() {
    let found = broken_by(Revision::fate);
    assert!(found.iter().all(Option::is_none), "{found:?}");
}

/// Planted fault: takes another write in its place for a proof, whatever was read.
fn trusting(read: &Revision, own: &Attributes, id: &str, found: Option<&Item>) -> Fate {
    let now = found.map(|item| own.revision(Some(item)).unwrap());
    let at_next = now.as_ref().and_then(|now| now.ids_at(read.next()));
    match read.fate(own, id, found) {
        Fate::Unknown if at_next.is_some() && read.write().is_none() => Fate::NotApplied,
        fate => fate,
    }
}

/// Planted fault: takes a newer version for a proof.
fn counting(read: &Revision, own: &Attributes, id: &str, found: Option<&Item>) -> Fate {
    let is_newer = found.and_then(version) > Some(read.next());
    match read.fate(own, id, found) {
        Fate::Unknown if is_newer => Fate::NotApplied,
        fate => fate,
    }
}

/// Planted fault: takes the version alone for the write's own.
fn hopeful(read: &Revision, own: &Attributes, id: &str, found: Option<&Item>) -> Fate {
    match read.fate(own, id, found) {
        Fate::Unknown if found.and_then(version) == Some(read.next()) => Fate::Applied,
        fate => fate,
    }
}

#[test]
fn each_planted_way_to_read_too_much_out_of_an_item_is_found() {
    for (name, judge) in [
        ("trusting", trusting as Judge),
        ("counting", counting),
        ("hopeful", hopeful),
    ] {
        let found = broken_by(judge);
        assert!(found.iter().any(Option::is_some), "{name}");
    }
    // Where the item that was read carried no id, another write in its place tells nothing. Where it did, `trusting` is right.
    let trusting: Vec<_> = broken_by(trusting).iter().map(Option::is_some).collect();
    assert_eq!(trusting, [true, true, true, false, true]);
}
