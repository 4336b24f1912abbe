//! Measures what docs/performance.md says, and writes its figures and its pictures. The prose around them is written by hand.
//!
//! Workers are processes, of this program's `contend`. Long queues and days pass in virtual time, and `scripts/instructions` counts
//! instructions. Nothing else should run on the machine meanwhile.
//!
//! ```text
//! cargo run --release -p fairlock-bench -- performance
//! ```

mod budget;
mod chart;
mod comparison;
mod days;
mod dollars;
mod driver;
mod instructions;
mod machine;
mod memory;
mod notified;
mod page;
mod promises;
mod queues;
mod run;
mod scene;
mod table;
mod timeline;
mod waits;

use std::error::Error;
use std::path::PathBuf;

use clap::Parser;

use crate::performance::budget::Budget;
use crate::performance::comparison::Comparison;
use crate::performance::driver::Driver;
use crate::performance::page::Page;
use crate::performance::queues::LongQueue;

pub(crate) type Done<T> = Result<T, Box<dyn Error>>;

/// Measures what docs/performance.md says, and writes its figures and pictures.
#[derive(Debug, Parser)]
pub(crate) struct Options {
    /// The folder of performance.md, which also contains the folder of its pictures
    #[arg(long, default_value = "docs")]
    docs: PathBuf,

    /// Measure everything, but so briefly that the figures mean nothing: a check that it works
    #[arg(long)]
    check: bool,

    /// Measure only what passes in virtual time, long queues and what a day costs: what else the machine does changes nothing
    #[arg(long)]
    virtual_time: bool,

    /// This process shows how much memory this many waiting tasks take
    #[arg(long, hide = true)]
    waiting: Option<usize>,
}

/// Runs the driver by its command line.
pub(crate) fn run(options: &Options) -> Done<()> {
    if let Some(tasks) = options.waiting {
        return memory::show(tasks);
    }
    let budget = match options.check {
        true => Budget::brief(),
        false => Budget::whole(),
    };
    let mut page = Page::open(&options.docs)?;
    match options.virtual_time {
        true => {
            queues::report(&long_queues(&budget), &mut page)?;
            days::report(&budget, &mut page)?;
        }
        false => measure(&budget, &mut page)?,
    }
    page.save()
}

fn measure(budget: &Budget, page: &mut Page) -> Done<()> {
    let driver = Driver::new(budget)?;
    page.write("machine", &machine::described()?)?;
    let long_queues = long_queues(budget);
    let by_length = Comparison::by_length(&driver, budget)?;
    let by_hold = Comparison::by_hold(&driver, budget)?;
    let promises = promises::measure(&driver, budget, &long_queues[0])?;
    let notified = notified::measure(&driver, budget)?;
    page.write("promises", &promises)?;
    notified::report(&notified, page)?;
    by_length.report(page)?;
    by_hold.report(page)?;
    waits::report(&by_length, page)?;
    queues::report(&long_queues, page)?;
    dollars::report(&by_length, page)?;
    days::report(budget, page)?;
    timeline::report(&driver, budget, page)
}

/// The queues of clients that poll, and those of clients that notify each other.
fn long_queues(budget: &Budget) -> [Vec<LongQueue>; 2] {
    [false, true].map(|are_notified| queues::measure(budget, are_notified))
}
