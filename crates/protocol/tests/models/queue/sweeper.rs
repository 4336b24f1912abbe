//! The sweeper: settles what the dead left, deletes litter, and removes a lock item that is idle.

use super::client::{Client, Task};
use super::look::Look;
use super::request::Request;
use super::rules::Rules;
use super::table::{Entry, Table};
use fairlock_protocol::line::{Occupant, Step, Walk, remove_the_dead, survey};
use fairlock_protocol::ticket::Ticket;

impl Client {
    pub(crate) fn swept(&mut self, request: Request) {
        self.task = Task::Waiting;
        if matches!(request, Request::Remove { .. }) {
            self.finish();
        }
    }

    /// One look of a sweeper, which reads the whole line.
    pub(crate) fn sweep(
        &mut self,
        rules: &Rules,
        look: Look,
        table: &Table,
        judge: impl Fn(Entry) -> Occupant,
        ripe: impl Fn(Ticket) -> bool,
    ) {
        let digest = look.digest(rules, judge);
        self.task = Task::Waiting;
        match remove_the_dead(&digest.view()) {
            Some(Step::Evict(has)) => self.send(Request::evict(&look.item, has, rules)),
            Some(Step::Unseat(index)) => self.send(Request::unseat(&look.item, index, rules)),
            _ if !look.is_whole() => self.task = Task::Reading(look),
            _ => self.tidy(
                &look,
                &survey(&digest.view(), |gap| ripe(gap).then_some(gap)),
                table,
            ),
        }
    }

    fn tidy(&mut self, look: &Look, line: &Walk, table: &Table) {
        let litter = (1..=look.item.seated).find(|ticket| table.row(*ticket).is_some());
        if !line.unsettled.is_empty() {
            self.send(Request::settle(look, &line.unsettled));
        } else if line.found.is_empty() && line.upto.get() as u8 > look.item.seated {
            self.send(Some(Request::pass(&look.item, line.upto)));
        } else if let Some(ticket) = litter {
            self.send(Some(Request::Delete { ticket }));
        } else if look.item.is_idle() {
            let last = look.item.last;
            self.send(Some(Request::Remove { last }));
        } else {
            self.finish();
        }
    }
}
