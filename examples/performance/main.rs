//! Measures what docs/performance.md says, and writes its figures and its pictures; the prose around them is kept by hand.
//!
//! Workers are processes: the driver `contend`, which is built first. Long lines and days pass in virtual time, and
//! instructions are counted by `scripts/instructions`. Nothing else should run on the machine meanwhile.
//!
//! ```text
//! cargo run --release --all-features --example performance
//! ```
#![expect(
    dead_code,
    reason = "the driver needs more of its parts than are measured with here"
)]

#[path = "../contend/algorithm.rs"]
mod algorithm;
mod budget;
mod chart;
mod comparison;
#[path = "../../src/bin/fairlock/contest/mod.rs"]
mod contest;
mod days;
mod dollars;
mod driver;
mod instructions;
#[path = "../../tests/pace/line.rs"]
mod line;
mod lines;
mod machine;
mod memory;
mod page;
#[path = "../contend/palette.rs"]
mod palette;
mod promises;
mod run;
mod scene;
mod table;
mod timeline;
#[path = "../contend/traffic.rs"]
mod traffic;
#[path = "../contend/verb.rs"]
mod verb;
mod waits;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;

use crate::budget::Budget;
use crate::comparison::Comparison;
use crate::driver::Driver;
use crate::page::Page;

pub(crate) type Done<T> = Result<T, Box<dyn Error>>;

/// Measures what docs/performance.md says, and writes its figures and pictures.
#[derive(Parser)]
struct Options {
    /// Where performance.md is, and the folder of its pictures
    #[arg(long, default_value = "docs")]
    docs: PathBuf,

    /// Everything, but so briefly that the figures mean nothing: whether it works
    #[arg(long)]
    check: bool,

    /// This process is to show how much memory so many tasks take that wait
    #[arg(long, hide = true)]
    waiting: Option<usize>,
}

fn main() -> Done<()> {
    let options = Options::parse();
    if let Some(tasks) = options.waiting {
        return memory::show(tasks);
    }
    let budget = match options.check {
        true => Budget::brief(),
        false => Budget::whole(),
    };
    let mut page = Page::open(&options.docs)?;
    measure(&budget, &mut page)?;
    page.save()
}

fn measure(budget: &Budget, page: &mut Page) -> Done<()> {
    let driver = Driver::build(budget)?;
    page.write("machine", &machine::described()?)?;
    let long_lines = lines::measure(budget);
    let by_length = Comparison::by_length(&driver, budget)?;
    let by_hold = Comparison::by_hold(&driver, budget)?;
    let promises = promises::measure(&driver, budget, &long_lines)?;
    page.write("promises", &promises)?;
    by_length.report(page)?;
    by_hold.report(page)?;
    waits::report(&by_length, page)?;
    lines::report(&long_lines, page)?;
    dollars::report(&by_length, page)?;
    days::report(budget, page)?;
    timeline::report(&driver, budget, page)
}
