//! A picture of a run: who waited for the lock and held it, and when.

use fairlock_cli::contention::plot_style::Drawn;
use fairlock_cli::contention::timeline;
use fairlock_cli::contention::turn::Turn;

use crate::contend::options::Options;

pub(crate) fn svg(options: &Options, turns: &[Turn]) -> Drawn<String> {
    timeline::svg(&title(options), turns)
}

fn title(options: &Options) -> String {
    let Options {
        algorithm,
        workers,
        hold_ms,
        ..
    } = options;
    let mut title = format!("{}: {workers} workers, hold {hold_ms:?}", algorithm.name());
    if !options.poll().is_zero() {
        title += &format!(", poll {:?}", options.poll());
    }
    if let Some(round_trip) = options.rtt_ms {
        title += &format!(", round trip {round_trip:?}");
    }
    title
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn the_title_says_what_contends_and_how() {
        let flags = [
            "contend",
            "--algorithm",
            "lease",
            "--workers",
            "2",
            "--rtt-ms",
            "10",
        ];
        let options = Options::try_parse_from(flags).unwrap();
        let drawn = svg(&options, &[]).unwrap();
        let title = "lease: 2 workers, hold 50ms, poll 1s, round trip 10ms";
        assert!(drawn.contains(title), "{drawn}");
    }
}
