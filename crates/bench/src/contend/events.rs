//! What happened when: a line of JSON for each event, in the order of time.

use std::io::{self, Write};

use fairlock_cli::contention::turn::Turn;
use serde::Serialize;

#[derive(Serialize)]
struct Event {
    event: &'static str,
    worker: u32,
    cycle: u32,
    ticket: u64,
    /// Nanoseconds of CLOCK_MONOTONIC.
    at_ns: u64,
}

pub(crate) fn write(mut out: impl Write, turns: &[Turn]) -> io::Result<()> {
    let mut events: Vec<_> = turns.iter().flat_map(events_of).collect();
    // The sort is stable: a turn's own events keep their order, even if no time passed between them.
    events.sort_by_key(|event| event.at_ns);
    for event in events {
        serde_json::to_writer(&mut out, &event)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn events_of(turn: &Turn) -> [Event; 4] {
    let event = |event, at_ns| Event {
        event,
        worker: turn.worker,
        cycle: turn.cycle,
        ticket: turn.ticket,
        at_ns,
    };
    [
        event("asked", turn.requested_ns),
        event("granted", turn.acquired_ns),
        event("releasing", turn.releasing_ns),
        event("released", turn.released_ns),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_all_turns_are_in_the_order_of_time() {
        let turn = |worker, at| Turn {
            worker,
            cycle: 1,
            ticket: 7,
            requested_ns: at,
            acquired_ns: at + 10,
            releasing_ns: at + 10,
            released_ns: at + 20,
        };
        let mut out = Vec::new();
        write(&mut out, &[turn(2, 15), turn(1, 0)]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let first = r#"{"event":"asked","worker":1,"cycle":1,"ticket":7,"at_ns":0}"#;
        assert_eq!(text.lines().next(), Some(first));
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let told =
            lines.map(|line: serde_json::Value| format!("{} {}", line["worker"], line["event"]));
        let order = [
            "1 asked",
            "1 granted",
            "1 releasing",
            "2 asked",
            "1 released",
        ];
        assert_eq!(
            told.take(5)
                .map(|told| told.replace('"', ""))
                .collect::<Vec<_>>(),
            order
        );
    }
}
