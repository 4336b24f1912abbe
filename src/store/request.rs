//! Requests about one lock, or one item: each is sent once. The only place that builds them.

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::operation::RequestId;
use aws_sdk_dynamodb::types::{
    DeleteRequest, ReturnValue, ReturnValuesOnConditionCheckFailure::AllOld, WriteRequest,
};
use fairlock_protocol::entry::ServerTime;
use fairlock_protocol::failure::Failure;
use fairlock_protocol::stamps::Reading;
use fairlock_protocol::write::{Expressions, Values};

use super::codec::{self, Item};
use super::exchange::ask_dated;
use super::failure::{Failed, not_dynamodbs, refusal, sort};
use super::{Store, Timed, Write, ask};

/// What the `:values` of an expression stand for. Returns `None` if there are none.
pub(super) fn owned(values: Values) -> Option<Item> {
    let each = values.into_iter();
    let owned: Item = each
        .map(|(name, value)| (name.to_owned(), codec::attribute(value)))
        .collect();
    (!owned.is_empty()).then_some(owned)
}

/// What became of a request, and when it was sent and answered.
pub(super) type Sent<T> = Result<Timed<T>, Failure>;

/// Items, and the key behind which the next are. It is `None` if there are no more.
pub(super) type Items = (Vec<Item>, Option<Item>);

impl Store {
    /// Reads an item, strongly consistent.
    pub(crate) async fn get(&self, verb: &'static str, key: Item) -> Sent<Option<Item>> {
        let request = self.client.get_item().table_name(&self.config.table);
        let request = request.set_key(Some(key.clone())).consistent_read(true);
        let answer = self.read(verb, request.send()).await?;
        // That there is no item is told by an empty object, which anything else that speaks HTTP may answer too. Not all engines name requests.
        if answer.value.item.is_none() && answer.value.request_id().is_none() {
            self.query_key(verb, key).await?;
        }
        Ok(answer.map(|answer| answer.item))
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
        let answer = self.read(verb, request.send()).await?;
        let items = answer.value.items.map(drop);
        items.ok_or_else(|| not_dynamodbs(verb))
    }

    /// Reads items in the order of their keys, strongly consistent: from the first that `keys` selects on, or from behind `after`.
    pub(crate) async fn query(
        &self,
        verb: &'static str,
        (keys, values): (&str, Item),
        after: Option<Item>,
        limit: usize,
    ) -> Sent<Items> {
        let request = self.client.query().table_name(&self.config.table);
        let request = request
            .consistent_read(true)
            .key_condition_expression(keys)
            .set_expression_attribute_names(Some(self.names(&[keys])))
            .set_expression_attribute_values(Some(values))
            .set_exclusive_start_key(after)
            .limit(i32::try_from(limit).unwrap_or(i32::MAX));
        let answer = self.read(verb, request.send()).await?;
        answer.try_map(|answer| {
            let items = answer.items.ok_or_else(|| not_dynamodbs(verb))?;
            Ok((items, answer.last_evaluated_key))
        })
    }

    /// Puts an item, on a condition.
    pub(crate) async fn put(
        &self,
        verb: &'static str,
        item: Item,
        Expressions {
            condition, values, ..
        }: Expressions,
    ) -> Sent<Write<Item>> {
        let request = self.client.put_item().table_name(&self.config.table);
        let request = request
            .set_item(Some(item.clone()))
            .set_expression_attribute_names(Some(self.names(&[&condition])))
            .set_expression_attribute_values(owned(values))
            .condition_expression(condition)
            .return_values_on_condition_check_failure(AllOld);
        let answer = self.once(verb, request.send()).await;
        answer.try_map(|answer| match answer {
            Ok(_) => Ok(Write::Applied(item)),
            Err(failed) => refusal(verb, failed).map(Write::ConditionFailed),
        })
    }

    /// Updates an item, on a condition.
    pub(crate) async fn update(
        &self,
        verb: &'static str,
        key: Item,
        Expressions {
            update,
            condition,
            values,
        }: Expressions,
    ) -> Sent<Write<Item>> {
        let request = self.client.update_item().table_name(&self.config.table);
        let request = request
            .set_key(Some(key))
            .set_expression_attribute_names(Some(self.names(&[&update, &condition])))
            .set_expression_attribute_values(owned(values))
            .update_expression(update)
            .condition_expression(condition)
            .return_values(ReturnValue::AllNew)
            .return_values_on_condition_check_failure(AllOld);
        let answer = self.once(verb, request.send()).await;
        answer.try_map(|answer| match answer {
            Ok(answer) => {
                let foreign = || not_dynamodbs(verb);
                answer.attributes.map(Write::Applied).ok_or_else(foreign)
            }
            Err(failed) => refusal(verb, failed).map(Write::ConditionFailed),
        })
    }

    /// Deletes an item, on a condition. Returns whether it did.
    pub(crate) async fn delete(
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

    /// Deletes items without a condition: 25 at most.
    pub(crate) async fn delete_all(
        &self,
        verb: &'static str,
        keys: impl Iterator<Item = Item>,
    ) -> Result<(), Failure> {
        let request = self.client.batch_write_item();
        let request = request.request_items(&self.config.table, keys.map(deletion).collect());
        let answer = ask(verb, request.send()).await;
        answer.map(drop).map_err(|failed| sort(verb, failed))
    }

    /// Reads the item that a failed condition met, where the answer does not show it: there is none, or the engine is too old to send it
    /// along.
    pub(crate) async fn in_the_way(
        &self,
        verb: &'static str,
        key: Item,
        answer: Timed<Write<Item>>,
    ) -> Sent<Write<Item>> {
        if !matches!(answer.value, Write::ConditionFailed(None)) {
            return Ok(answer);
        }
        let read = self.get(verb, key).await?;
        Ok(Timed {
            sent: answer.sent,
            told: answer.told,
            ..read.map(Write::ConditionFailed)
        })
    }

    /// Sends a read, of which nothing can have been applied.
    fn read<'a, T, E>(
        &'a self,
        verb: &'static str,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send + 'a,
    ) -> impl Future<Output = Sent<T>> + Send + 'a
    where
        T: Send + 'a,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let once = self.once(verb, request);
        async move {
            let answer = once.await;
            answer.try_map(|answer| answer.map_err(|failed| sort(verb, failed).of_a_read()))
        }
    }

    /// Sends one request, and notes the times. Not an `async fn`, which would move the SDK's large future once more.
    pub(super) fn once<'a, T, E>(
        &'a self,
        verb: &'static str,
        request: impl Future<Output = Result<T, SdkError<E, HttpResponse>>> + Send + 'a,
    ) -> impl Future<Output = Timed<Result<T, Failed<E>>>> + Send + 'a
    where
        T: Send + 'a,
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        let asked = ask_dated(verb, request);
        async move {
            let (told, sent) = (self.told(), self.now());
            let (value, date) = asked.await;
            Timed {
                value,
                sent,
                arrived: self.now(),
                told,
                reading: Reading {
                    date: date.map(ServerTime),
                    wall: self.clocks().wall(),
                },
            }
        }
    }
}

/// The part of a batch that deletes an item.
#[expect(
    clippy::expect_used,
    reason = "every required field of the request is set here"
)]
pub(crate) fn deletion(key: Item) -> WriteRequest {
    let delete = DeleteRequest::builder().set_key(Some(key)).build();
    WriteRequest::builder()
        .delete_request(delete.expect("a deletion with its key"))
        .build()
}
