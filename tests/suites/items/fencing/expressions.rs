//! What a fence and the caller's own request make together.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::AttributeValue;
use fairlock::{Fence, Ticket};

use super::items::*;
use fairlock_testkit::lab::in_lab;

fn on_things(test: impl AsyncFnOnce(&Client)) {
    in_lab(async |lab, []| {
        test(&things(lab).await).await;
    });
}

#[test]
fn the_callers_own_condition_holds_beside_the_fence() {
    on_things(async |things| {
        assert!(applied(fence(8).on(put(things, 1)).send().await));
        // Joined without parentheses, either condition alone would let the write through.
        let own = |condition: &str, ticket| {
            let update = set(things, 2).condition_expression(condition);
            let update = update.expression_attribute_values(":old", n(1));
            fence(ticket).on(update).send()
        };
        assert!(!applied(own("#v = :old OR #v > :old", 7).await));
        assert!(!applied(own("#v < :old OR #v > :old", 8).await));
        assert!(applied(own("#v < :old OR #v = :old", 9).await));
        let guarded = put(things, 3).condition_expression("attribute_not_exists(id)");
        assert!(!applied(fence(9).on(guarded).send().await));
        let guarded = delete(things).condition_expression("attribute_not_exists(id)");
        assert!(!applied(fence(9).on(guarded).send().await));
        assert_eq!(number(things, "value").await, Some(2));
    });
}

#[test]
fn the_callers_own_names_and_values_do_not_clash_with_the_fences() {
    on_things(async |things| {
        for attribute in ["fence", "a fence-2", "set", "_", "zäun"] {
            let fence = Fence::new(attribute, Ticket::new(8));
            let update = raise(things)
                .update_expression("SET #fence = :fence, #fenced = if_not_exists(#fenced, :token)")
                .expression_attribute_names("#fence", "mine")
                .expression_attribute_names("#fenced", "also mine")
                .expression_attribute_values(":fence", n(1))
                .expression_attribute_values(":token", n(2));
            assert!(applied(fence.on(update).send().await), "{attribute}");
            assert_eq!(number(things, attribute).await, Some(8));
            assert_eq!(number(things, "mine").await, Some(1));
        }
    });
}

#[test]
fn fences_of_two_locks_go_on_one_write_and_each_refuses_by_itself() {
    on_things(async |things| {
        let two = |one: u64, other: u64| {
            let (one, other) = (Ticket::new(one), Ticket::new(other));
            let fenced = Fence::new("one", one).on(set(things, one.get()));
            Fence::new("other", other).on(fenced).send()
        };
        assert!(applied(two(5, 50).await));
        assert!(!applied(two(4, 51).await));
        assert!(!applied(two(6, 49).await));
        assert!(applied(two(6, 50).await));
        assert_eq!(number(things, "value").await, Some(6));
    });
}

#[test]
fn a_condition_that_is_set_after_the_fence_is_refused_and_does_not_go_out_unfenced() {
    on_things(async |things| {
        let own = "attribute_not_exists(id)";
        let fence = fence(8);
        let put = fence.on(put(things, 1)).condition_expression(own);
        let update = fence.on(set(things, 1)).condition_expression(own);
        let expression = fence.on(set(things, 1)).update_expression("SET #v = :v");
        let delete = fence.on(delete(things)).condition_expression(own);
        let codes = [
            put.send().await.unwrap_err().code().map(str::to_owned),
            update.send().await.unwrap_err().code().map(str::to_owned),
            expression
                .send()
                .await
                .unwrap_err()
                .code()
                .map(str::to_owned),
            delete.send().await.unwrap_err().code().map(str::to_owned),
        ];
        assert!(
            codes
                .iter()
                .all(|code| code.as_deref() == Some("ValidationException")),
            "{codes:?}"
        );
    });
}

#[test]
fn an_attribute_that_is_no_token_refuses_every_write() {
    on_things(async |things| {
        let text = put(things, 1).item("fence", AttributeValue::S("7".into()));
        text.send().await.unwrap();
        assert!(!applied(fence(8).on(set(things, 2)).send().await));
        assert_eq!(fence(8).refused_by(&item(things).await.unwrap()), None);
    });
}

#[test]
fn a_deletion_forgets_the_token_and_a_tombstone_does_not() {
    on_things(async |things| {
        assert!(applied(fence(8).on(put(things, 1)).send().await));
        assert!(applied(fence(8).on(delete(things)).send().await));
        assert!(applied(fence(7).on(put(things, 7)).send().await));
        let tombstone = things.put_item().table_name("things").item("id", id());
        let tombstone = tombstone.item("deleted", AttributeValue::Bool(true));
        assert!(applied(fence(8).on(tombstone).send().await));
        assert!(!applied(fence(7).on(put(things, 7)).send().await));
        assert!(!applied(fence(7).on(delete(things)).send().await));
        assert_eq!(number(things, "value").await, None);
    });
}
