//! `fairlock ls`: the locks of a table.

use std::ops::ControlFlow;
use std::pin::pin;
use std::process::ExitCode;

use fairlock::{Error, LockClient, LockState};
use futures::StreamExt;

use crate::args::Ls;
use crate::failure::Failure;
use crate::output;
use crate::place::Place;

pub(crate) async fn ls(options: Ls) -> Result<ExitCode, Failure> {
    let Ls { json, place } = &options;
    let locks = place.locks().await?;
    let mut listing = Listing::new(place, *json);
    let mut states = pin!(locks.locks());
    // Ends because each page of the table starts behind the one before.
    while let Some(found) = states.next().await {
        if listing.tell(found)?.is_break() {
            return Ok(listing.ended);
        }
    }
    listing.end(&locks).await
}

struct Listing<'a> {
    place: &'a Place,
    json: bool,
    /// For people, who are shown them in order.
    states: Vec<LockState>,
    found: usize,
    ended: ExitCode,
}

impl<'a> Listing<'a> {
    fn new(place: &'a Place, json: bool) -> Self {
        Listing {
            place,
            json,
            states: Vec::new(),
            found: 0,
            ended: ExitCode::SUCCESS,
        }
    }

    /// A damaged lock is told of, and does not keep the others from being listed.
    fn tell(&mut self, found: Result<LockState, Error>) -> Result<ControlFlow<()>, Failure> {
        self.found += 1;
        match found {
            Ok(state) if self.json => return output::print(&output::json(&state)?),
            Ok(state) => self.states.push(state),
            Err(error @ Error::Unreadable { .. }) => {
                self.ended = Failure::of(&error, self.place).tell();
            }
            Err(error) => return Err(Failure::of(&error, self.place)),
        }
        Ok(ControlFlow::Continue(()))
    }

    async fn end(self, locks: &LockClient) -> Result<ExitCode, Failure> {
        if self.found == 0 {
            self.try_keys(locks).await?;
        }
        let ended = self.ended;
        if !self.json {
            let _ = output::print(&self.text())?;
        }
        Ok(ended)
    }

    /// A table of other keys has no locks either, and that is not to be found out by who waits for one.
    async fn try_keys(&self, locks: &LockClient) -> Result<(), Failure> {
        let told = |error| Failure::of(&error, self.place);
        let any = locks.fair_lock("any").map_err(told)?;
        any.inspect().await.map(drop).map_err(told)
    }

    fn text(self) -> String {
        let Place { namespace, .. } = self.place;
        match self.states {
            _ if self.found == 0 => {
                format!("no locks in {}, namespace {namespace}\n", self.place.name())
            }
            // Each was told of already.
            damaged if damaged.is_empty() => String::new(),
            states => output::locks(states, output::now()),
        }
    }
}
