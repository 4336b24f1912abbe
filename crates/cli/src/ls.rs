//! `fairlock ls`: lists the locks of a table.

use std::ops::ControlFlow;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use fairlock::{Error, LockClient, LockState};
use futures::StreamExt;

use crate::args::Ls;
use crate::failure::Failure;
use crate::location::Location;
use crate::output;

pub(crate) async fn ls(options: Ls) -> Result<ExitCode, Failure> {
    let locks = options.location.locks().await?;
    let mut listing = Listing::new(&options);
    let mut states = pin!(locks.locks());
    // The loop ends because each page of the table starts after the page before.
    while let Some(found) = states.next().await {
        if listing.tell(found)?.is_break() {
            return Ok(listing.ended);
        }
    }
    listing.end(&locks).await
}

struct Listing<'a> {
    options: &'a Ls,
    location: &'a Location,
    /// Locks for the human-readable list, which is sorted at the end.
    states: Vec<LockState>,
    found: usize,
    ended: ExitCode,
}

impl<'a> Listing<'a> {
    fn new(options: &'a Ls) -> Self {
        Listing {
            options,
            location: &options.location,
            states: Vec::new(),
            found: 0,
            ended: ExitCode::SUCCESS,
        }
    }

    /// Adds one lock to the listing. A damaged lock is reported, and the listing goes on.
    fn tell(&mut self, found: Result<LockState, Error>) -> Result<ControlFlow<()>, Failure> {
        self.found += 1;
        match found {
            Ok(state) if !self.wants(&state) => {}
            Ok(state) if self.options.json => return output::print(&output::json(&state)?),
            Ok(state) => self.states.push(state),
            Err(error @ Error::InvalidItem { .. }) => {
                self.ended = Failure::of(&error, self.location).tell();
            }
            Err(error) => return Err(Failure::of(&error, self.location)),
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the flags select this lock.
    fn wants(&self, state: &LockState) -> bool {
        let Ls {
            held,
            waiting,
            older_than,
            prefix,
            ..
        } = self.options;
        let begins = |prefix: &String| state.lock.starts_with(prefix);
        let is_older = |span: &Duration| output::held_for(state, output::now()) >= Some(*span);
        prefix.as_ref().is_none_or(begins)
            && (!held || state.holder.is_some())
            && (!waiting || state.waiting > 0)
            && older_than.as_ref().is_none_or(is_older)
    }

    async fn end(self, locks: &LockClient) -> Result<ExitCode, Failure> {
        if self.found == 0 {
            self.try_keys(locks).await?;
        }
        let ended = self.ended;
        if !self.options.json {
            let _ = output::print(&self.text())?;
        }
        Ok(ended)
    }

    /// Reads one lock to check the key names. A table with other keys has no locks either; the user should learn that here, and not later,
    /// while waiting for a lock.
    async fn try_keys(&self, locks: &LockClient) -> Result<(), Failure> {
        let told = |error| Failure::of(&error, self.location);
        let any = locks.fair_lock("any").map_err(told)?;
        any.inspect().await.map(drop).map_err(told)
    }

    fn text(self) -> String {
        let Location { namespace, .. } = self.location;
        match self.states {
            _ if self.found == 0 => {
                format!(
                    "no locks in {}, namespace {namespace}\n",
                    self.location.name()
                )
            }
            // Every damaged lock has already been reported.
            none if none.is_empty() && self.ended == ExitCode::SUCCESS => {
                format!(
                    "no such locks in {}, namespace {namespace}\n",
                    self.location.name()
                )
            }
            none if none.is_empty() => String::new(),
            states => output::locks(states, output::now()),
        }
    }
}
