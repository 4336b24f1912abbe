//! How waits are distributed, where the lock is fair and where it is not.

use crate::performance::Done;
use crate::performance::chart::{Curve, Panel, Style, draw};
use crate::performance::comparison::Comparison;
use crate::performance::page::Page;
use crate::performance::run::{Run, median};
use crate::performance::table::{Table, digits};

const PERCENTS: [usize; 8] = [1, 10, 25, 50, 75, 90, 99, 100];

pub(crate) fn report(by_length: &Comparison, page: &mut Page) -> Done<()> {
    let ends = ["mean, in ms", "out of order", "overlaps"];
    let percents = PERCENTS.iter().map(|percent| match percent {
        100 => "longest".to_owned(),
        percent => format!("{percent} %"),
    });
    let categories: Vec<_> = percents.collect();
    let heads = ["wait, against the mean".to_owned()].into_iter();
    let heads = heads
        .chain(categories.clone())
        .chain(ends.map(str::to_owned));
    let mut table = Table::new(heads);
    let mut curves = Vec::new();
    for (by, runs) in by_length.of_eight() {
        let share = |percent: usize| median(runs, |run| run.wait(percent) / run.mean_wait());
        let values = PERCENTS.map(share);
        let of_turns = |count: fn(&Run) -> usize| {
            let all: usize = runs.iter().map(|run| run.turns.len()).sum();
            format!("{} of {all}", runs.iter().map(count).sum::<usize>())
        };
        let ends = [
            digits(median(runs, Run::mean_wait)),
            of_turns(Run::out_of_order),
            of_turns(Run::overlaps),
        ];
        let name = [by.name()].into_iter();
        table.row(name.chain(values.map(digits)).chain(ends));
        curves.push(Curve {
            name: by.name(),
            style: Style::of(by),
            values: values.to_vec(),
        });
    }
    page.write("waits", &table.to_string())?;
    let panel = Panel {
        title: "How long eight workers wait for a turn".into(),
        across: "so many of the waits are at most as long".into(),
        upwards: "wait, against the mean of all".into(),
        categories,
        curves,
    };
    draw(&page.picture("waits.svg")?, &[panel])
}
