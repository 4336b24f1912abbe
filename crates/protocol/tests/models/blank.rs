//! An entry without anything in it, and stamps and readings of which the models say each part.

use std::time::Duration;

use fairlock_protocol::entry::{Attributes, Entry, Nonce, Unknown};
use fairlock_protocol::moment::{HostTime, ServerTime};
use fairlock_protocol::stamps::{Reading, Stamps, Wall};
use fairlock_protocol::ticket::Ticket;

pub(crate) fn entry(nonce: Nonce, ticket: Ticket, lease: Duration) -> Entry {
    Entry {
        nonce,
        owner: String::new(),
        ticket,
        tickets: 1,
        permits: 1,
        attributes: Attributes::default(),
        id: None,
        beat: 0,
        session: None,
        lease,
        stamps: Stamps::default(),
        since: None,
        given_back: false,
        address: None,
        unknown: Unknown::default(),
    }
}

pub(crate) fn both(server: Option<Duration>, host: Option<Duration>) -> Stamps {
    Stamps {
        server: server.map(ServerTime),
        host: host.map(HostTime),
    }
}

pub(crate) fn parts(stamps: Stamps) -> [Option<Duration>; 2] {
    [stamps.server.map(|it| it.0), stamps.host.map(|it| it.0)]
}

pub(crate) fn reads(date: Option<Duration>, wall: Wall) -> Reading {
    let date = date.map(ServerTime);
    Reading { date, wall }
}

pub(crate) fn shows(wall: Wall) -> Option<Duration> {
    parts(reads(None, wall).stamps())[1]
}
