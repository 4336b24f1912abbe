//! The formula of docs/cost.md gives what queues cost, by the units that the engine reports, and the page says what the formula gives.
//!
//! The formula stands once, in `fairlock_testkit::cost`. Each of its numbers is changed on purpose, and a figure must show each change.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::thread;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::RecordWait;
use fairlock_testkit::cost::{Constants, QueueCost, TurnCost};
use fairlock_testkit::effort::sized;
use fairlock_testkit::queue::{Build, Items, QueueSetup, Site};
use fairlock_testkit::request_counts::Counter;
use fairlock_testkit::virtual_time;

const MS: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_millis(10);

/// By how much of the formula's figure a measured one may differ. The page says so, and why.
const TOLERANCE: f64 = 0.15;
/// A tenth of a request a turn is where in a cycle the counting began.
const SLACK: f64 = 0.1;

// ---------------------------------------------------------------------------------------------------------------
// Figures

/// What a figure is of the formula's.
type Of = fn(QueueCost) -> f64;

/// What the engine reported, beside the formula.
struct Figure {
    what: String,
    measured: f64,
    cost: QueueCost,
    of: Of,
}

impl Figure {
    fn new(what: String, measured: f64, cost: QueueCost, of: Of) -> Figure {
        Figure {
            what,
            measured,
            cost,
            of,
        }
    }

    fn by_formula(&self, constants: Constants) -> f64 {
        let with = QueueCost {
            constants,
            ..self.cost
        };
        (self.of)(with)
    }

    /// How far the figure is from that of the formula with these numbers, if that is too far.
    fn differs(&self, constants: Constants) -> Option<String> {
        let (what, measured, told) = (&self.what, self.measured, self.by_formula(constants));
        let differs = (measured - told).abs() > told * TOLERANCE + SLACK;
        differs.then(|| format!("{what}: measured {measured:.2}, by the formula {told:.2}"))
    }
}

/// A queue or a wait to be measured.
type Measurement = Box<dyn FnOnce() -> Vec<Figure> + Send>;

/// All figures. They are measured once: time is virtual, so they are the same in each run.
static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let all = queues().into_iter().chain(renewals()).chain(first_waits());
    let figures = on_all_processors(all.collect());
    for figure in &figures {
        let told = figure.by_formula(Constants::default());
        let (what, measured) = (&figure.what, figure.measured);
        println!("{what}: measured {measured:.2}, by the formula {told:.2}");
    }
    figures
});

/// The measurements do not know of each other, and each runs on one processor.
fn on_all_processors(measurements: Vec<Measurement>) -> Vec<Figure> {
    let next = Mutex::new(measurements.into_iter());
    let measure = || {
        let mut figures = Vec::new();
        // Each turn of the loop takes one measurement off the list.
        loop {
            let Some(measurement) = next.lock().unwrap().next() else {
                return figures;
            };
            figures.extend(measurement());
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..processors).map(|_| scope.spawn(measure)).collect();
        let figures = threads.into_iter().flat_map(|it| it.join().unwrap());
        figures.collect()
    })
}

/// Requests and units of a turn in queues of several lengths, built in several ways.
fn queues() -> Vec<Measurement> {
    let slotted = Build {
        slots: 4,
        ..Build::default()
    };
    let notified = Build {
        are_notified: true,
        ..Build::default()
    };
    let plain = [2, 8, 16, 32, 64].map(|waiters| (waiters, Build::default()));
    let built = [
        (32, leased(3_000)),
        (16, slotted),
        (2, notified),
        (8, notified),
    ];
    let figures = |(waiters, build)| {
        let (measured, cost, [writes, _]) = turn_of(setup(waiters, 50, 20), build);
        let figures: [(&str, f64, Of); 4] = [
            ("requests", measured.requests, |it| it.turn().requests),
            ("write units", measured.write_units, |it| {
                it.turn().write_units
            }),
            ("read units", measured.read_units, |it| it.turn().read_units),
            ("writes", writes, |it| it.requests_to_write()),
        ];
        let what = |figure| format!("{figure} of {waiters} waiters, {build:?}");
        let figure = |(figure, measured, of)| Figure::new(what(figure), measured, cost, of);
        figures.map(figure).into()
    };
    later(plain.into_iter().chain(built), figures)
}

fn leased(ms: u32) -> Build {
    Build {
        lease: MS * ms,
        ..Build::default()
    }
}

/// Each case as a measurement, which makes these figures of it.
fn later<T: Send + 'static>(
    cases: impl IntoIterator<Item = T>,
    figures: impl Fn(T) -> Vec<Figure> + Copy + Send + 'static,
) -> Vec<Measurement> {
    let one = |case| Box::new(move || figures(case)) as Measurement;
    cases.into_iter().map(one).collect()
}

/// Renewals in queues in which holders and waiters renew. Turns are short against the lease, or every waiter has a slot.
fn renewals() -> Vec<Measurement> {
    let cases = [(64, 50, 1_500), (4, 5_000, 10_000)];
    let figure = |(waiters, hold, lease)| {
        let (measured, cost) = renewals_of(waiters, hold, lease);
        let what = format!("renewals of {waiters} waiters, {hold} ms, a lease of {lease} ms");
        let of = |it: QueueCost| it.renewals().total();
        vec![Figure::new(what, measured, cost, of)]
    };
    let mut all = later(cases, figure);
    all.push(Box::new(renewals_of_a_few));
    all
}

/// The leases of a queue whose waiters renew once to three times.
const LEASES: [u32; 5] = [2_400, 2_800, 3_000, 3_200, 3_600];

/// Turns of one length last a whole number of heartbeats and some more, and so few renewals come at the same point of each turn: once more, or
/// twice where that is the handoff. The formula gives their average, so the figure is the average of several leases.
fn renewals_of_a_few() -> Vec<Figure> {
    let all = LEASES.map(|lease| renewals_of(32, 50, lease));
    let measured = mean(all.iter().map(|(measured, _)| *measured));
    let what = format!("renewals of 32 waiters, 50 ms, leases of {LEASES:?} ms");
    let of = |it: QueueCost| {
        let cost = |lease| QueueCost {
            lease: MS * lease,
            ..it
        };
        mean(LEASES.iter().map(|lease| cost(*lease).renewals().total()))
    };
    let (_, cost) = all[0];
    vec![Figure::new(what, measured, cost, of)]
}

fn renewals_of(waiters: usize, hold: u32, lease: u32) -> (f64, QueueCost) {
    let (_, cost, [_, measured]) = turn_of(setup(waiters, hold, 30), leased(lease));
    (measured, cost)
}

/// The polls of a waiter that has seen no turn before, from its first one to its grant.
fn first_waits() -> Vec<Measurement> {
    let holds = [200, 1_000, 5_000, 20_000, 60_000];
    let figure = |hold: u32| {
        let cost = QueueCost::new(1.0, MS * hold, ROUND_TRIP);
        let what = format!("polls of a first wait for {hold} ms");
        let measured = virtual_time(polls_of(MS * hold));
        vec![Figure::new(what, measured, cost, |it| it.first())]
    };
    later(holds, figure)
}

fn setup(waiters: usize, hold: u32, settles: u64) -> QueueSetup {
    QueueSetup {
        waiters,
        hold: MS * hold,
        round_trip: ROUND_TRIP,
        settles: Duration::from_secs(sized(settles / 2, settles)),
        handoffs: sized(50, 100),
    }
}

/// What a turn costs as the engine reports it, the same queue for the formula, and the writes and the renewals of a turn.
fn turn_of(setup: QueueSetup, build: Build) -> (TurnCost, QueueCost, [f64; 2]) {
    let toll = virtual_time(setup.run_built(build));
    let measured = TurnCost {
        requests: toll.requests(),
        write_units: toll.a_handoff(|sent| sent.write_units),
        read_units: toll.a_handoff(|sent| sent.read_units),
    };
    let (item_units, row_bytes) = sizes(&toll.items);
    let cost = QueueCost {
        lease: build.lease,
        slots: build.slots as f64,
        are_notified: build.are_notified,
        item_units,
        row_bytes,
        ..QueueCost::new(setup.waiters as f64, setup.hold, setup.round_trip)
    };
    let a_turn = |requests: u64| requests as f64 / toll.took.len() as f64;
    let renewals = a_turn(toll.traffic.heartbeats().requests);
    let reads = toll
        .traffic
        .lines()
        .filter(|(name, _, _)| ["GetItem", "Query"].contains(name));
    let reads = a_turn(reads.map(|(_, _, sent)| sent.requests).sum());
    (
        measured,
        cost,
        [measured.requests - reads - renewals, renewals],
    )
}

async fn polls_of(hold: Duration) -> f64 {
    let site = Site::new(ROUND_TRIP).await;
    let (held, waited) = (Counter::default(), Counter::default());
    let (holder, waiter) = (site.process(0, &held), site.process(1, &waited));
    let guard = holder.acquire(RecordWait::Infinite).await.unwrap();
    let (granted, released) = tokio::join!(waiter.acquire(RecordWait::Infinite), async {
        tokio::time::sleep(hold).await;
        guard.release().await
    });
    released.unwrap();
    let counted = waited.counted().clone();
    let polls = counted.lines().filter(|(name, _, _)| *name == "GetItem");
    let polls: u64 = polls.map(|(_, _, sent)| sent.requests).sum();
    granted.unwrap().release().await.unwrap();
    polls as f64
}

// ---------------------------------------------------------------------------------------------------------------
// Sizes

/// The units of a write of the lock item, and the bytes of a row, both on average.
fn sizes(seen: &[Items]) -> (f64, f64) {
    let is_lock = |item: &&HashMap<String, AttributeValue>| {
        let key = item["sk"].as_s();
        key.is_ok_and(|key| key.ends_with("#lock"))
    };
    let (locks, rows): (Vec<_>, Vec<_>) = seen.iter().flatten().partition(is_lock);
    let units = locks.iter().map(|item| size(item).div_ceil(1_024) as f64);
    (mean(units), mean(rows.iter().map(|item| size(item) as f64)))
}

fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len().max(1);
    numbers.sum::<f64>() / count as f64
}

/// As DynamoDB counts bytes.
fn size(item: &HashMap<String, AttributeValue>) -> usize {
    let attributes = item.iter();
    let bytes = attributes.map(|(name, value)| name.len() + size_of(value));
    bytes.sum()
}

fn size_of(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(number) => number.len().div_ceil(2) + 1,
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::L(list) => 3 + list.iter().map(|it| 1 + size_of(it)).sum::<usize>(),
        AttributeValue::M(map) => 3 + map.len() + size(map),
        _ => 1,
    }
}

// ---------------------------------------------------------------------------------------------------------------
// The formula and what was measured

#[test]
fn queues_cost_what_the_formula_says() {
    let figures = FIGURES.iter();
    let differing = figures.filter_map(|figure| figure.differs(Constants::default()));
    let differing: Vec<_> = differing.collect();
    assert!(differing.is_empty(), "{differing:#?}");
}

/// Changes one of the numbers.
type Change = fn(&mut Constants);

/// Each number that one of the figures depends on, changed. `handoff`, `watched` and `most_leases` matter in longer queues than these: the
/// page's own figures, which the test below computes, depend on them.
const CHANGES: [(&str, Change); 13] = [
    ("hold_share", |it| it.hold_share *= 1.4),
    ("overlap", |it| it.overlap += 2.0),
    ("notified_first", |it| it.notified_first += 1.0),
    ("slot_writes", |it| it.slot_writes *= 1.4),
    ("row_writes", |it| it.row_writes *= 1.4),
    ("taken", |it| it.taken *= 0.4),
    ("successor_base", |it| it.successor_base = 4.0),
    ("row_base", |it| it.row_base = 1.7),
    ("item_writes", |it| it.item_writes *= 1.4),
    ("other_writes", |it| it.other_writes *= 1.8),
    ("polls_of_rows", |it| it.polls_of_rows *= 2.0),
    ("heartbeats", |it| it.heartbeats *= 1.4),
    ("lease_share", |it| it.lease_share *= 1.5),
];

#[test]
fn a_number_of_the_formula_that_is_changed_is_found() {
    let unseen = CHANGES.iter().filter(|(_, change)| {
        let mut constants = Constants::default();
        change(&mut constants);
        let mut figures = FIGURES.iter();
        figures.all(|figure| figure.differs(constants).is_none())
    });
    let unseen: Vec<_> = unseen.map(|(name, _)| name).collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}

// ---------------------------------------------------------------------------------------------------------------
// The formula and the page

fn page(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    fs::read_to_string(docs.join(name)).unwrap()
}

/// The cells of the row that begins with this cell.
fn row(page: &str, first: &str) -> Vec<String> {
    let begins = format!("| {first} |");
    let line = page.lines().find(|line| line.starts_with(&begins));
    let line = line.unwrap_or_else(|| panic!("no row {first:?}"));
    let cells = line.trim_matches('|').split('|').skip(1);
    cells.map(|cell| cell.trim().to_owned()).collect()
}

/// Each of these lengths, as the page writes them.
const LENGTHS: [u32; 7] = [1, 2, 8, 32, 128, 1_000, 10_000];

#[test]
fn the_page_has_the_figures_of_the_formula() {
    let cost = page("cost.md");
    let by_formula = LENGTHS.map(|waiters| {
        let queue = QueueCost::new(waiters.into(), MS * 50, ROUND_TRIP);
        format!("{:.1}", queue.turn().requests)
    });
    assert_eq!(row(&cost, "requests, by the formula"), by_formula);
}

#[test]
fn the_example_of_the_page_is_computed_by_the_formula() {
    let cost = page("cost.md");
    let queue = |are_notified| QueueCost {
        are_notified,
        item_units: 2.0,
        ..QueueCost::new(7.0, MS * 50, ROUND_TRIP)
    };
    let number = |value: f64| {
        let text = format!("{value:.1}");
        text.strip_suffix(".0").unwrap_or(&text).to_owned()
    };
    let dollars = |turn: TurnCost| 0.625 * turn.write_units + 0.125 * turn.read_units;
    let expected: [(&str, &dyn Fn(QueueCost) -> String); 5] = [
        ("`first`, `successors`", &|it| {
            format!("{}, {}", number(it.first()), number(it.successors()))
        }),
        ("read units a turn", &|it| number(it.turn().read_units)),
        ("write units a turn", &|it| number(it.turn().write_units)),
        ("requests a turn", &|it| number(it.turn().requests)),
        ("dollars for a million turns", &|it| {
            format!("{:.2}", dollars(it.turn()))
        }),
    ];
    for (name, of) in expected {
        let cells = [false, true].map(|are_notified| of(queue(are_notified)));
        assert_eq!(row(&cost, name), cells, "{name}");
    }
}

#[test]
fn the_page_says_what_a_first_wait_takes_and_how_far_the_formula_may_be_off() {
    let cost = page("cost.md").replace('\n', " ");
    let first = [50, 200, 1_000].map(|hold| {
        let queue = QueueCost::new(1.0, MS * hold, ROUND_TRIP);
        format!("{:.0}", queue.first())
    });
    let [brief, longer, long] = first;
    let told = format!("{brief}, {longer} and {long}");
    assert!(cost.contains(&told), "{told}");
    let tolerance = format!("within {:.0} %", TOLERANCE * 100.0);
    assert!(cost.contains(&tolerance), "{tolerance}");
}
