//! Measures the time and the requests of a turn: fairlock beside the two baselines of the driver `contend`, in one run.
//!
//! Tables are in memory, behind a network with a round trip of two milliseconds, so the results differ by the algorithm and not by the
//! engine. Each worker of a baseline sleeps between two attempts for 5 ms times the number of workers. So all of them together try 200
//! times a second. A higher rate would keep the engine busy, and not the lock.
//!
//! ```text
//! cargo bench
//! ```
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, SamplingMode, criterion_group, criterion_main};

use fairlock_bench::{Algorithm, Crew};

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Fairlock, Algorithm::Article, Algorithm::Lease];

/// A turn at a lock that no other worker wants.
fn uncontended(criterion: &mut Criterion) {
    let group = criterion.benchmark_group("uncontended");
    each(
        group,
        |algorithm| Crew::at_work(algorithm, 1, 0),
        Crew::turns,
    );
}

/// A turn among other workers. Each asks again as soon as it has released, and holds the lock for no time.
fn contention(criterion: &mut Criterion) {
    for workers in [2, 8, 32, 128] {
        let group = criterion.benchmark_group(format!("contention/{workers}"));
        let crew = |algorithm| Crew::at_work(algorithm, workers, 0);
        each(group, crew, Crew::turns);
    }
}

/// The time from the release to the grant of another waiter, after holds of 20 ms.
fn handoff(criterion: &mut Criterion) {
    let group = criterion.benchmark_group("handoff");
    let crew = |algorithm| Crew::at_work(algorithm, 2, 20);
    each(group, crew, Crew::handoffs);
}

/// A queue of 32 workers that come at the same moment, until each has had one turn.
fn queue(criterion: &mut Criterion) {
    let group = criterion.benchmark_group("queue");
    each(
        group,
        |algorithm| Crew::gathered(algorithm, 32),
        Crew::queues,
    );
}

/// Measures each algorithm in turn. Prints on standard error what it sent.
fn each(
    mut group: BenchmarkGroup<'_, WallTime>,
    new: impl Fn(Algorithm) -> Crew,
    measure: impl Fn(&mut Crew, u64) -> Duration,
) {
    group.sampling_mode(SamplingMode::Flat);
    for algorithm in ALGORITHMS {
        // Created on first use, so that nothing is built for benchmarks that are filtered out.
        let mut crew = None;
        group.bench_function(algorithm.name(), |bencher| {
            let crew = crew.get_or_insert_with(|| new(algorithm));
            bencher.iter_custom(|times| measure(crew, times));
        });
        if let Some(crew) = crew {
            eprintln!(
                "{:>42} requests a turn",
                format!("{:.2}", crew.requests_a_turn())
            );
        }
    }
    group.finish();
}

criterion_group! {
    name = turns;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(4));
    targets = uncontended, contention, handoff, queue
}
criterion_main!(turns);
