//! The operator: changes the number of permits once, while clients hold the lock and wait for it.

use super::client::{Client, Role, Task};
use super::request::{Answer, Request};
use super::rules::Rules;
use super::table::Item;
use super::world::Setup;

impl Client {
    /// Sends the change that the item asks for, or ends if there is nothing to change.
    pub(crate) fn operates(&mut self, to: u8, item: Option<Item>, rules: &Rules) {
        match item.filter(|item| item.there_are(rules) != to) {
            Some(item) => self.send(Some(Request::resize(&item, to, rules))),
            None => self.finish(),
        }
    }

    /// Takes in the answer to the change: looks again if the change was refused.
    pub(crate) fn operated(&mut self, answer: Answer) {
        match answer.applied {
            true => self.finish(),
            false => self.task = Task::Waiting,
        }
    }
}

impl Setup {
    /// The most permits that there are at one time of the run.
    pub(crate) fn most_permits(&self) -> u8 {
        let changes = self.roles.iter().filter_map(|role| match role {
            Role::Operator(to) => Some(*to),
            _ => None,
        });
        changes.fold(self.rules.permits, u8::max)
    }
}
