//! The requests themselves: conditional writes and consistent reads of one item, whichever it is.

use aws_sdk_dynamodb::operation::RequestId;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure::AllOld};

use fairlock_protocol::failure::Failure;
use fairlock_protocol::write::{Expressions, Values};

use super::codec::{self, Item};
use super::failure::{not_dynamodbs, refusal, sort};
use super::{Store, Write, ask};

/// What the `:values` of an expression stand for. Returns `None` if there are none.
pub(super) fn owned(values: Values) -> Option<Item> {
    let each = values.into_iter();
    let owned: Item = each
        .map(|(name, value)| (name.to_owned(), codec::attribute(value)))
        .collect();
    (!owned.is_empty()).then_some(owned)
}

impl Store {
    /// Reads an item, strongly consistent.
    pub(crate) async fn get(&self, verb: &'static str, key: Item) -> Result<Option<Item>, Failure> {
        let request = self
            .client
            .get_item()
            .table_name(&self.config.table)
            .set_key(Some(key.clone()));
        let answer = ask(verb, request.consistent_read(true).send()).await;
        let answer = answer.map_err(|failed| sort(verb, failed).of_a_read())?;
        // That there is no item is told by an empty object, which anything else that speaks HTTP may answer too. Not all engines name requests.
        if answer.item.is_none() && answer.request_id().is_none() {
            self.query_key(verb, key).await?;
        }
        Ok(answer.item)
    }

    /// Fails if what answers is no DynamoDB, whose answer has a list of items even if there are none.
    async fn query_key(&self, verb: &'static str, key: Item) -> Result<(), Failure> {
        let query = self.client.query().table_name(&self.config.table);
        let (mut query, mut clauses) = (query.consistent_read(true), Vec::new());
        for (nth, (name, value)) in key.into_iter().enumerate() {
            clauses.push(format!("#k{nth} = :k{nth}"));
            query = query
                .expression_attribute_names(format!("#k{nth}"), name)
                .expression_attribute_values(format!(":k{nth}"), value);
        }
        let request = query.key_condition_expression(clauses.join(" AND "));
        let answer = ask(verb, request.send()).await;
        let answer = answer.map_err(|failed| sort(verb, failed).of_a_read())?;
        answer.items.map(drop).ok_or_else(|| not_dynamodbs(verb))
    }

    /// Puts an item, on a condition.
    pub(super) async fn put(
        &self,
        verb: &'static str,
        key: Item,
        item: Item,
        Expressions {
            condition, values, ..
        }: Expressions,
    ) -> Result<Write<Item>, Failure> {
        let request = self.client.put_item().table_name(&self.config.table);
        let request = request
            .set_item(Some(item.clone()))
            .set_expression_attribute_names(Some(self.names(&[&condition])))
            .set_expression_attribute_values(owned(values))
            .condition_expression(condition)
            .return_values_on_condition_check_failure(AllOld);
        match ask(verb, request.send()).await {
            Ok(_) => Ok(Write::Applied(item)),
            Err(failed) => self.in_the_way(verb, key, refusal(verb, failed)?).await,
        }
    }

    /// Updates an item, on a condition.
    pub(super) async fn update(
        &self,
        verb: &'static str,
        key: Item,
        expressions: Expressions,
    ) -> Result<Write<Item>, Failure> {
        match self.update_unread(verb, key.clone(), expressions).await? {
            Write::ConditionFailed(found) => self.in_the_way(verb, key, found).await,
            applied => Ok(applied),
        }
    }

    /// As `update`, for a caller that need not know what is in the way. If the engine is too old to send the item along, the item
    /// is `None` too.
    pub(super) async fn update_unread(
        &self,
        verb: &'static str,
        key: Item,
        expressions: Expressions,
    ) -> Result<Write<Item>, Failure> {
        let Expressions {
            update,
            condition,
            values,
        } = expressions;
        let request = self.client.update_item().table_name(&self.config.table);
        let request = request
            .set_key(Some(key))
            .set_expression_attribute_names(Some(self.names(&[&update, &condition])))
            .set_expression_attribute_values(owned(values))
            .update_expression(update)
            .condition_expression(condition)
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(AllOld);
        match ask(verb, request.send()).await {
            Ok(answer) => {
                let foreign = || not_dynamodbs(verb);
                answer.attributes.map(Write::Applied).ok_or_else(foreign)
            }
            Err(failed) => refusal(verb, failed).map(Write::ConditionFailed),
        }
    }

    /// Deletes an item, on a condition. Returns whether it did.
    pub(super) async fn delete(
        &self,
        verb: &'static str,
        key: Item,
        Expressions {
            condition, values, ..
        }: Expressions,
    ) -> Result<bool, Failure> {
        let request = self.client.delete_item().table_name(&self.config.table);
        let request = request
            .set_key(Some(key))
            .set_expression_attribute_names(Some(self.names(&[&condition])))
            .set_expression_attribute_values(owned(values))
            .condition_expression(condition);
        match ask(verb, request.send()).await {
            Ok(_) => Ok(true),
            Err(failed) => refusal(verb, failed).map(|_| false),
        }
    }

    /// The item that a failed condition met: from the answer, or read where the engine is too old to send it along.
    pub(crate) async fn in_the_way(
        &self,
        verb: &'static str,
        key: Item,
        item: Option<Item>,
    ) -> Result<Write<Item>, Failure> {
        match item {
            Some(item) => Ok(Write::ConditionFailed(Some(item))),
            None => self.get(verb, key).await.map(Write::ConditionFailed),
        }
    }
}
