//! Tells what happens, if the story is told.

use fairlock_protocol::agent::{Answer, Input, Output, Request};
use fairlock_protocol::failure::Failure;

use crate::host::number;
use crate::parcel::Parcel;
use crate::seen::Seen;
use crate::story::{answered_by, asked, cut, refusal, shown};
use crate::world::World;

impl World {
    /// Tells what happened to a lock, if the story is told.
    pub(crate) fn tell(&mut self, lock: usize, what: impl FnOnce() -> String) {
        let at = self.at;
        if let Some(story) = &mut self.story {
            story.tell(at, Some(lock), &what());
        }
    }

    pub(crate) fn tell_host(&mut self, host: usize, what: &str) {
        let at = self.at;
        if let Some(story) = &mut self.story {
            story.tell(at, None, &format!("host {host} {what}"));
        }
    }

    pub(crate) fn tell_seen(&mut self, seen: &Seen) {
        let at = self.at;
        if let Some(story) = &mut self.story {
            story.tell(at, seen.lock(), &format!("        {seen:?}"));
        }
    }

    pub(crate) fn tell_sending(&mut self, host: usize, request: &Request) {
        self.tell(number(&request.lock), || {
            let of = request.of;
            format!("  host {host} sends for {of:?}: {}", asked(&request.what))
        });
    }

    pub(crate) fn tell_arrival(
        &mut self,
        lock: usize,
        parcel: &Parcel,
        answer: &Result<Answer, Failure>,
    ) {
        self.tell(lock, || {
            let host = parcel.from.host;
            let answered = match parcel.answered {
                Some(_) => "",
                None => ", unanswered",
            };
            let what = parcel.request.what.verb();
            format!(
                "  table, of host {host}{answered}: {what} {}",
                answered_by(answer)
            )
        });
    }

    pub(crate) fn tell_input(&mut self, host: usize, input: Option<&Input>) {
        if self.story.is_none() {
            return;
        }
        let (lock, text) = match input {
            None => (None, "is due".to_owned()),
            Some(Input::Call { call, lock, claim }) => {
                let bounds = claim.bounds;
                (Some(number(lock)), format!("{call:?} {bounds:?}"))
            }
            Some(Input::Answer { request, reply }) => {
                (None, format!("{request:?} {}", answered_by(&reply.answer)))
            }
            Some(Input::Seen { lock, item }) => {
                (Some(number(lock)), format!("Seen {}", shown(item)))
            }
            Some(other) => (None, format!("{other:?}")),
        };
        let hold = match input {
            Some(Input::Order { hold, .. } | Input::Taken(hold) | Input::Expired(hold)) => {
                Some(hold)
            }
            _ => None,
        };
        let held = hold.and_then(|hold| self.hosts[host].holds.get(hold));
        let lock = lock.or(held.map(|held| held.lock));
        let at = self.at;
        if let Some(story) = &mut self.story {
            story.tell(at, lock, &format!("host {host} <- {text}"));
        }
    }

    pub(crate) fn tell_output(&mut self, host: usize, output: &Output) {
        if self.story.is_none() {
            return;
        }
        let text = match output {
            Output::Granted { call, hold, seen } => {
                format!(
                    "{call:?} granted {hold:?} ticket {} until {:?}",
                    seen.ticket, seen.until
                )
            }
            Output::Refused { call, why } => format!("{call:?} refused: {}", refusal(why)),
            Output::View { hold, seen } => {
                format!("{hold:?} until {:?} trouble {:?}", seen.until, seen.trouble)
            }
            Output::Lost { hold, why } => cut(format!("{hold:?} lost: {why:?}")),
            Output::Done { reply, done } => cut(format!("{reply:?} {done:?}")),
            Output::Shown { .. } => return,
            other => format!("{other:?}"),
        };
        let at = self.at;
        if let Some(story) = &mut self.story {
            story.tell(at, None, &format!("host {host} -> {text}"));
        }
    }
}
