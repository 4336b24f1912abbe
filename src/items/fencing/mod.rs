//! A fence for the caller's own writes: items that remember the newest token refuse writes with an older one.

mod request;

use std::collections::HashMap;
use std::fmt::Write as _;

use aws_sdk_dynamodb::types::AttributeValue;

use fairlock_protocol::ticket::Ticket;

pub use request::Fenceable;

/// 2 to the 64th.
const BEYOND_TOKENS: f64 = 18_446_744_073_709_551_616.0;

/// A condition and an update for writes to items that remember the newest token: such an item refuses a write under an older
/// token.
///
/// An item accepts a token that is not smaller than the newest it remembers, so a hold may write several times. An item without
/// the attribute accepts any token. The item itself refuses the write when the write arrives. No clock takes part, and it does
/// not matter whether the writer has noticed that it lost the lock.
///
/// # Limitations
///
/// - **All writers of the item must fence it**, with the same attribute and tokens of the same lock.
/// - **The fence closes with the first write under the newer token**, and not when the lock is granted. A caller that reads an
///   item and then decides should [raise the fence](#raising-the-fence) first. It then sees what a stale writer wrote before, and
///   nothing comes after it.
/// - **A deletion forgets the token**: any writer can then make the item again, a stale one too. Where that matters, put a
///   [tombstone](#tombstones) in place of the item.
/// - A fence does not tell whether the caller still holds the lock. [`check_item`](crate::LockGuard::check_item) does, in a
///   transaction.
///
/// # Raising the fence
///
/// An update without an update expression of its own writes only the token. It also works for an item that does not exist yet:
///
/// ```
/// # async fn raise(dynamodb: aws_sdk_dynamodb::Client, guard: fairlock::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
/// # use aws_sdk_dynamodb::types::AttributeValue;
/// let key = AttributeValue::S("42".into());
/// let raise = dynamodb.update_item().table_name("accounts").key("id", key);
/// guard.fence("fence").on(raise).send().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Tombstones
///
/// A fenced put of the key, the token and the TTL attribute alone. Readers take it for no item, it refuses stale writers, and
/// DynamoDB deletes it when no write of the old holder can arrive any more.
///
/// ```
/// # async fn bury(dynamodb: aws_sdk_dynamodb::Client, guard: fairlock::LockGuard, tomorrow: u64) -> Result<(), Box<dyn std::error::Error>> {
/// # use aws_sdk_dynamodb::types::AttributeValue;
/// let bury = dynamodb
///     .put_item()
///     .table_name("accounts")
///     .item("id", AttributeValue::S("42".into()))
///     .item("deleted", AttributeValue::Bool(true))
///     .item("expires_at", AttributeValue::N(tomorrow.to_string())); // unix time in seconds
/// guard.fence("fence").on(bury).send().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Examples
///
/// ```
/// # async fn settle(dynamodb: aws_sdk_dynamodb::Client, guard: fairlock::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
/// # use aws_sdk_dynamodb::types::AttributeValue;
/// let update = dynamodb
///     .update_item()
///     .table_name("accounts")
///     .key("id", AttributeValue::S("42".into()))
///     .update_expression("SET balance = balance - :amount")
///     .condition_expression("balance >= :amount")
///     .expression_attribute_values(":amount", AttributeValue::N("100".into()));
/// guard.fence("fence").on(update).send().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    attribute: String,
    ticket: Ticket,
}

/// The parts of a [`Fence`]. Each pair is a placeholder and what it stands for. Different attributes have different placeholders.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FenceParts {
    /// The condition, in parentheses. It uses `name` and `compared`.
    pub condition: String,
    /// What a `SET` clause has to contain, without the word `SET`. It uses `name` and `assigned`. A put has the token in its item instead,
    /// and a deletion needs neither.
    pub assignment: String,
    /// The name of the attribute.
    pub name: (String, String),
    /// The token of the condition.
    pub compared: (String, AttributeValue),
    /// The token of the assignment: the same under another name, so that neither expression can be lost unnoticed.
    pub assigned: (String, AttributeValue),
}

impl Fence {
    /// Creates a fence with this ticket, for items that remember the newest token in the top-level attribute of this name.
    ///
    /// For a token that was passed on, for example to another process. A caller that has the guard asks it for
    /// [its fence](crate::LockGuard::fence) instead. DynamoDB refuses a write whose attribute has an empty name, or is a key.
    ///
    /// # Examples
    ///
    /// In a command that `fairlock run` started:
    ///
    /// ```
    /// use fairlock::{Fence, Ticket};
    ///
    /// fn fence() -> Result<Fence, Box<dyn std::error::Error>> {
    ///     let ticket = std::env::var("FAIRLOCK_TICKET")?.parse()?;
    ///     Ok(Fence::new("fence", Ticket::new(ticket)))
    /// }
    /// ```
    pub fn new(attribute: impl Into<String>, ticket: Ticket) -> Self {
        Fence {
            attribute: attribute.into(),
            ticket,
        }
    }

    /// The attribute that remembers the newest token.
    pub(crate) fn attribute(&self) -> &str {
        &self.attribute
    }

    /// The token.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock::{Fence, Ticket};
    ///
    /// assert_eq!(Fence::new("fence", Ticket::new(7)).ticket(), Ticket::new(7));
    /// ```
    pub fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// Returns the request with the fence on it. Its own condition and the fence's must both hold, and the item that it writes
    /// remembers the token. Takes the SDK's builders of puts, updates and deletions, alone or for a transaction.
    ///
    /// Call this last. A condition that is set afterwards replaces the fenced one, and DynamoDB refuses the request for the
    /// values that the fence then left unused.
    ///
    /// Fences of several locks fit on one request if their attributes differ.
    ///
    /// # Errors
    ///
    /// The request fails with `ConditionalCheckFailedException` for either condition. The item shows which one it was, if the
    /// request asks for the item with `ReturnValuesOnConditionCheckFailure::AllOld`: see [`refused_by`](Self::refused_by).
    ///
    /// # Examples
    ///
    /// ```
    /// use aws_sdk_dynamodb::types::{AttributeValue, Delete, TransactWriteItem};
    /// use fairlock::Fence;
    ///
    /// fn remove(fence: &Fence, id: &str) -> Result<TransactWriteItem, Box<dyn std::error::Error>> {
    ///     let delete = Delete::builder().table_name("accounts").key("id", AttributeValue::S(id.into()));
    ///     Ok(TransactWriteItem::builder().delete(fence.on(delete).build()?).build())
    /// }
    /// ```
    #[must_use = "the fence is on the returned request"]
    pub fn on<R: Fenceable>(&self, request: R) -> R {
        request.fenced(self)
    }

    /// Returns the newer token that this item remembers, because of which it refuses writes with this fence. Returns `None` if it
    /// remembers no newer token.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use aws_sdk_dynamodb::types::AttributeValue;
    /// use fairlock::{Fence, Ticket};
    ///
    /// let item = HashMap::from([("fence".to_owned(), AttributeValue::N("8".into()))]);
    /// assert_eq!(Fence::new("fence", Ticket::new(7)).refused_by(&item), Some(Ticket::new(8)));
    /// assert_eq!(Fence::new("fence", Ticket::new(8)).refused_by(&item), None);
    /// ```
    pub fn refused_by(&self, item: &HashMap<String, AttributeValue>) -> Option<Ticket> {
        let newest = item.get(&self.attribute)?.as_n().ok()?.parse().ok()?;
        Some(Ticket::new(newest)).filter(|newest| *newest > self.ticket)
    }

    /// Returns what the item has in the attribute, if a token cannot replace it.
    pub(crate) fn blocked_by(&self, item: &HashMap<String, AttributeValue>) -> Option<String> {
        match item.get(&self.attribute)? {
            AttributeValue::N(number) => {
                let is_smaller = number
                    .parse()
                    .is_ok_and(|number: f64| number < BEYOND_TOKENS);
                (!is_smaller && number.parse::<u64>().is_err()).then(|| number.clone())
            }
            other => Some(format!("{other:?}")),
        }
    }

    /// Returns the fence in its parts, for requests that are not made with the SDK's builders.
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock::{Fence, Ticket};
    ///
    /// let parts = Fence::new("fence", Ticket::new(7)).parts();
    /// assert_eq!(parts.condition, "(attribute_not_exists(#fenced_fence) OR #fenced_fence <= :fenced_fence_by)");
    /// assert_eq!(parts.assignment, "#fenced_fence = :fenced_fence_to");
    /// assert_eq!(parts.name, ("#fenced_fence".into(), "fence".into()));
    /// assert_eq!(parts.compared.0, ":fenced_fence_by");
    /// assert_eq!(parts.assigned.0, ":fenced_fence_to");
    /// assert_eq!(parts.assigned.1.as_n().map(String::as_str), Ok("7"));
    /// ```
    pub fn parts(&self) -> FenceParts {
        let placeholder = self.placeholder();
        let (name, compared) = (format!("#{placeholder}"), format!(":{placeholder}_by"));
        let assigned = format!(":{placeholder}_to");
        FenceParts {
            condition: format!("(attribute_not_exists({name}) OR {name} <= {compared})"),
            assignment: format!("{name} = {assigned}"),
            name: (name, self.attribute.clone()),
            compared: (compared, self.value()),
            assigned: (assigned, self.value()),
        }
    }

    /// The token as an attribute. DynamoDB's numbers are exact to 38 digits, and tokens have at most 20.
    pub(crate) fn value(&self) -> AttributeValue {
        AttributeValue::N(self.ticket.to_string())
    }

    /// Different for different attributes: a byte that a placeholder cannot contain is written in hexadecimal.
    fn placeholder(&self) -> String {
        let mut placeholder = String::from("fenced_");
        for byte in self.attribute.bytes() {
            if byte.is_ascii_alphanumeric() {
                placeholder.push(char::from(byte));
            } else {
                // Writing to a string cannot fail.
                let _ = write!(placeholder, "_{byte:02x}");
            }
        }
        placeholder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_attributes_have_different_placeholders_that_dynamodb_accepts() {
        let names = [
            "fence", "fence_", "fence-", "fence.", "fence_2d", "Fence", "zäun", "a b", "",
        ];
        let placeholder = |name: &str| Fence::new(name, Ticket::new(1)).placeholder();
        let placeholders: std::collections::BTreeSet<_> = names.map(placeholder).into();
        assert_eq!(placeholders.len(), names.len());
        let is_accepted = |c: char| c == '_' || c.is_ascii_alphanumeric();
        assert!(
            placeholders
                .iter()
                .all(|name| name.chars().all(is_accepted))
        );
    }
}
