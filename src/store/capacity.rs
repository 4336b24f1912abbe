//! How long requests take, and what DynamoDB charges for them, for the metrics.
//!
//! Each request asks DynamoDB to tell what it charges. That is free of charge. The answer tells it in some sixty bytes more. Only an answer
//! that applies tells it: DynamoDB charges for a failed condition too, and does not say how much.

use aws_sdk_dynamodb::config::interceptors::{
    AfterDeserializationInterceptorContextRef, BeforeDeserializationInterceptorContextRef,
    BeforeSerializationInterceptorContextMut, BeforeTransmitInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::batch_write_item::{BatchWriteItemInput, BatchWriteItemOutput};
use aws_sdk_dynamodb::operation::delete_item::{DeleteItemInput, DeleteItemOutput};
use aws_sdk_dynamodb::operation::get_item::{GetItemInput, GetItemOutput};
use aws_sdk_dynamodb::operation::put_item::{PutItemInput, PutItemOutput};
use aws_sdk_dynamodb::operation::query::{QueryInput, QueryOutput};
use aws_sdk_dynamodb::operation::scan::{ScanInput, ScanOutput};
use aws_sdk_dynamodb::operation::update_item::{UpdateItemInput, UpdateItemOutput};
use aws_sdk_dynamodb::types::{ConsumedCapacity, ReturnConsumedCapacity};
use aws_smithy_runtime_api::client::interceptors::context::{Input, Output};
use aws_smithy_types::config_bag::{Storable, StoreReplace};

use super::exchange;
use crate::runtime::clock::Clock;
use crate::telemetry::Capacity;
use fairlock_protocol::moment::Moment;

/// Measures every request of a client.
#[derive(Debug)]
pub(super) struct Meter {
    clock: Clock,
}

impl Meter {
    pub(super) fn new(clock: Clock) -> Self {
        Meter { clock }
    }
}

/// When a request was sent, carried to its answer.
#[derive(Debug)]
struct SentAt(Moment);

impl Storable for SentAt {
    type Storer = StoreReplace<Self>;
}

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "fairlock::Meter"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(returns) = returns(context.input_mut()) {
            *returns = Some(ReturnConsumedCapacity::Total);
        }
        Ok(())
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        bag.interceptor_state().store_put(SentAt(self.clock.now()));
        Ok(())
    }

    fn read_before_deserialization(
        &self,
        _: &BeforeDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        bag: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(SentAt(sent)) = bag.load::<SentAt>() {
            exchange::took(self.clock.now().since(*sent));
        }
        Ok(())
    }

    fn read_after_deserialization(
        &self,
        context: &AfterDeserializationInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        if let Some(capacity) = context.output_or_error().ok().and_then(capacity) {
            exchange::charged(capacity);
        }
        Ok(())
    }
}

/// Where a request says what its answer is to tell of its charge. `None` if it reads and writes no items.
fn returns(input: &mut Input) -> Option<&mut Option<ReturnConsumedCapacity>> {
    macro_rules! returns {
        ($($input:ident),*) => {$(
            if input.downcast_ref::<$input>().is_some() {
                return input.downcast_mut::<$input>().map(|it| &mut it.return_consumed_capacity);
            }
        )*};
    }
    returns!(
        UpdateItemInput,
        GetItemInput,
        QueryInput,
        PutItemInput,
        DeleteItemInput,
        BatchWriteItemInput,
        ScanInput
    );
    None
}

/// What an answer tells of its charge.
fn capacity(output: &Output) -> Option<Capacity> {
    macro_rules! capacity {
        ($($output:ident => $kind:ident),*) => {$(
            if let Some(answer) = output.downcast_ref::<$output>() {
                return answer.consumed_capacity().and_then(units).map(Capacity::$kind);
            }
        )*};
    }
    capacity!(
        UpdateItemOutput => Write,
        GetItemOutput => Read,
        QueryOutput => Read,
        PutItemOutput => Write,
        DeleteItemOutput => Write,
        ScanOutput => Read
    );
    let batch = output.downcast_ref::<BatchWriteItemOutput>()?;
    let tables = batch.consumed_capacity();
    (!tables.is_empty()).then(|| Capacity::Write(tables.iter().filter_map(units).sum()))
}

fn units(consumed: &ConsumedCapacity) -> Option<f64> {
    consumed.capacity_units()
}
