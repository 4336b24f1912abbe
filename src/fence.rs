//! A fence for the caller's own writes: items that remember the newest token refuse those that come with an older one.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use aws_sdk_dynamodb::operation::delete_item::builders::DeleteItemFluentBuilder;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::builders::{DeleteBuilder, PutBuilder, UpdateBuilder};
use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};

use crate::error::Error;
use crate::guard::LockGuard;
use crate::ticket::Ticket;

/// A condition, and an update, for writes to items that remember the newest token: a write under an older one is refused.
///
/// An item accepts a token that is not smaller than the newest it remembers, so several writes under one hold are
/// fine, and an item without the attribute accepts any. What refuses is the item, when the write arrives: no clock
/// takes part, and it does not matter whether the writer has noticed that it lost the lock.
///
/// # Limitations
///
/// - **All who write the item must fence it**, with the same attribute and tokens of the same lock.
/// - **The fence closes with the first write under the newer token**, and not when that is granted. Who reads an item and
///   then decides should [raise the fence](#raising-the-fence) first: what a stale writer wrote before that is then seen, and
///   nothing comes after it.
/// - **A deletion forgets the token**: any writer can make the item anew, a stale one too. Where that matters put a
///   [tombstone](#tombstones) in place of the item.
/// - It does not tell whether one still has the lock. [`check_item`](LockGuard::check_item) does, in a transaction.
///
/// # Raising the fence
///
/// An update without an update expression of its own writes the token and nothing else, also to an item that is not
/// there yet:
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
/// A fenced put of the key, the token and the TTL attribute alone: readers take it for no item, stale writers are refused
/// by it, and DynamoDB deletes it when no write of the old holder can arrive any more.
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

impl Fence {
    /// A fence of this ticket, for items that remember the newest one in the top-level attribute of this name.
    ///
    /// For a token that was passed on, to another process say; whoever has the guard asks it for
    /// [its fence](LockGuard::fence). DynamoDB refuses a write whose attribute has no name, or is a key.
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
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock::{Fence, Ticket};
    ///
    /// assert_eq!(Fence::new("fence", Ticket::new(7)).attribute(), "fence");
    /// ```
    pub fn attribute(&self) -> &str {
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

    /// The same request, fenced: its own condition and the fence's must both hold, and what it writes remembers the
    /// token. Takes the SDK's builders of puts, updates and deletions, and those of the same for a transaction.
    ///
    /// Comes last: a condition that is set afterwards takes the place of the fenced one, and the values that the fence then
    /// left unused make DynamoDB refuse the request.
    ///
    /// Fences of several locks go on one request if their attributes differ.
    ///
    /// # Errors
    ///
    /// The request fails with `ConditionalCheckFailedException` for either condition. Which one it was shows the item, if the
    /// request asks for it with `ReturnValuesOnConditionCheckFailure::AllOld`: see [`refused_by`](Self::refused_by).
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

    /// The newer token that this item remembers, if it does: why it refuses what comes with this fence.
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

    /// The condition alone, in parentheses, for requests that are put together otherwise than by the SDK's builders. It takes
    /// [`name`](Self::name) and [`compared`](Self::compared).
    ///
    /// # Examples
    ///
    /// ```
    /// use fairlock::{Fence, Ticket};
    ///
    /// let fence = Fence::new("fence", Ticket::new(7));
    /// assert_eq!(fence.condition(), "(attribute_not_exists(#fenced_fence) OR #fenced_fence <= :fenced_fence_by)");
    /// assert_eq!(fence.assignment(), "#fenced_fence = :fenced_fence_to");
    /// assert_eq!(fence.name(), ("#fenced_fence".into(), "fence".into()));
    /// assert_eq!(fence.compared().0, ":fenced_fence_by");
    /// assert_eq!(fence.assigned().0, ":fenced_fence_to");
    /// assert_eq!(fence.value().as_n().map(String::as_str), Ok("7"));
    /// ```
    pub fn condition(&self) -> String {
        let (name, value) = (self.name().0, self.compared().0);
        format!("(attribute_not_exists({name}) OR {name} <= {value})")
    }

    /// What a `SET` clause has to contain, without the word. It takes [`name`](Self::name) and
    /// [`assigned`](Self::assigned). A put has [`value`](Self::value) in its item instead, and a deletion nothing.
    ///
    /// # Examples
    ///
    /// As [`condition`](Self::condition).
    pub fn assignment(&self) -> String {
        format!("{} = {}", self.name().0, self.assigned().0)
    }

    /// The expression attribute name that both expressions use: placeholder and attribute. Placeholders are different for
    /// different attributes.
    ///
    /// # Examples
    ///
    /// As [`condition`](Self::condition).
    pub fn name(&self) -> (String, String) {
        (format!("#{}", self.placeholder()), self.attribute.clone())
    }

    /// The expression attribute value of the condition.
    ///
    /// # Examples
    ///
    /// As [`condition`](Self::condition).
    pub fn compared(&self) -> (String, AttributeValue) {
        (format!(":{}_by", self.placeholder()), self.value())
    }

    /// The expression attribute value of the assignment: the same, but not under the same name, so that none of the two
    /// expressions can get lost unnoticed.
    ///
    /// # Examples
    ///
    /// As [`condition`](Self::condition).
    pub fn assigned(&self) -> (String, AttributeValue) {
        (format!(":{}_to", self.placeholder()), self.value())
    }

    /// The token as an attribute. DynamoDB's numbers are exact to 38 digits, and tokens have 20 at the most.
    ///
    /// # Examples
    ///
    /// As [`condition`](Self::condition).
    pub fn value(&self) -> AttributeValue {
        AttributeValue::N(self.ticket.to_string())
    }

    /// Different for different attributes: what a placeholder cannot have in it stands there as its bytes.
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

impl LockGuard {
    /// A fence of this hold's ticket, for writes to items that remember the newest one in this attribute.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn save(dynamodb: aws_sdk_dynamodb::Client, guard: fairlock::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
    /// # use aws_sdk_dynamodb::types::AttributeValue;
    /// let put = dynamodb
    ///     .put_item()
    ///     .table_name("reports")
    ///     .item("id", AttributeValue::S("nightly".into()))
    ///     .item("lines", AttributeValue::N("1234".into()));
    /// guard.fence("fence").on(put).send().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn fence(&self, attribute: impl Into<String>) -> Fence {
        Fence::new(attribute, self.ticket())
    }

    /// A part of a transaction of the caller's own: `TransactWriteItems` that contains it applies only if this hold is still
    /// the holder at that moment, by what the table says and not by anybody's clock.
    ///
    /// Unlike [a fence](Self::fence) it needs nothing in the items that are written, and lets nothing through once
    /// somebody else has the lock, before that one has written too. It costs a transaction, which is twice the write units of all
    /// its items and of the lock item, and it can meet conflicts: with a renewal, or with those who come to the line. The transaction
    /// is then cancelled for `TransactionConflict` and can be sent again. The table of locks must be in the same account
    /// and region, and the caller needs `dynamodb:ConditionCheckItem` on it.
    ///
    /// Of callers of one client who came together and have the lock [at one
    /// place](crate::FairLock::acquire#several-callers-of-one-client), one after the other, each has a check of its own. Where one
    /// of them asked for a check, its release is a write before the next of them has the lock, as it is between clients.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is not believed in any more: nothing is sent to find out.
    ///
    /// # Examples
    ///
    /// ```
    /// # async fn settle(dynamodb: aws_sdk_dynamodb::Client, guard: fairlock::LockGuard) -> Result<(), Box<dyn std::error::Error>> {
    /// # use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem, Update};
    /// let update = Update::builder()
    ///     .table_name("accounts")
    ///     .key("id", AttributeValue::S("42".into()))
    ///     .update_expression("SET balance = :balance")
    ///     .expression_attribute_values(":balance", AttributeValue::N("100".into()));
    /// dynamodb
    ///     .transact_write_items()
    ///     .transact_items(TransactWriteItem::builder().update(update.build()?).build())
    ///     .transact_items(guard.check_item()?)
    ///     .send()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn check_item(&self) -> Result<TransactWriteItem, Error> {
        if let Some(reason) = self.hold.loss() {
            return Err(self.lost_with(reason));
        }
        let (store, hold) = (&self.core.store, &self.hold);
        hold.is_to_be_checked();
        let check = store.check_holder(&hold.name, &hold.attempt, hold.turns_left());
        check.map_err(|failure| failure.into_error(&store.config().table, Duration::ZERO))
    }
}

/// A write that [`Fence::on`] takes: the SDK's builders of puts, updates and deletions, alone or in a transaction.
///
/// # Examples
///
/// ```
/// use fairlock::{Fence, Fenceable};
///
/// fn fenced_if<R: Fenceable>(fence: Option<&Fence>, request: R) -> R {
///     match fence {
///         Some(fence) => fence.on(request),
///         None => request,
///     }
/// }
/// ```
pub trait Fenceable: sealed::Fenceable {}

impl<R: sealed::Fenceable> Fenceable for R {}

mod sealed {
    /// Not to be named, nor implemented, by anybody else.
    pub trait Fenceable: Sized {
        fn fenced(self, fence: &super::Fence) -> Self;
    }
}

/// The builders call what they have in common by the same names.
macro_rules! fenceable {
    ($($builder:ident remembers by $how:ident;)*) => {$(
        impl sealed::Fenceable for $builder {
            fn fenced(self, fence: &Fence) -> Self {
                let own = self.get_condition_expression().as_deref();
                let condition = both(own, fence.condition());
                let ((name, attribute), (compared, token)) = (fence.name(), fence.compared());
                let request = self
                    .condition_expression(condition)
                    .expression_attribute_names(name, attribute)
                    .expression_attribute_values(compared, token);
                fenceable!(@ $how request fence)
            }
        }
    )*};
    (@ item $request:ident $fence:ident) => {
        $request.item(&$fence.attribute, $fence.value())
    };
    (@ update $request:ident $fence:ident) => {{
        let own = $request.get_update_expression().as_deref();
        let update = also_set(own.unwrap_or(""), &$fence.assignment());
        let (name, token) = $fence.assigned();
        $request.update_expression(update).expression_attribute_values(name, token)
    }};
    (@ nothing $request:ident $fence:ident) => {
        $request
    };
}

fenceable! {
    PutItemFluentBuilder remembers by item;
    PutBuilder remembers by item;
    UpdateItemFluentBuilder remembers by update;
    UpdateBuilder remembers by update;
    DeleteItemFluentBuilder remembers by nothing;
    DeleteBuilder remembers by nothing;
}

fn both(own: Option<&str>, fence: String) -> String {
    match own {
        Some(own) if is_enclosed(own) => format!("{own} AND {fence}"),
        Some(own) => format!("({own}) AND {fence}"),
        None => fence,
    }
}

/// Whether one pair of parentheses is around all of it: DynamoDB refuses a second one.
fn is_enclosed(condition: &str) -> bool {
    let condition = condition.trim();
    let mut depth = 0;
    let closes = condition.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    condition.starts_with('(') && closes.is_some_and(|at| at + 1 == condition.len())
}

/// The update with an assignment more, in its `SET` clause if it has one: each clause may be there once.
fn also_set(update: &str, assignment: &str) -> String {
    match behind_set(update) {
        Some(at) => {
            let (before, after) = update.split_at(at);
            format!("{before} {assignment},{after}")
        }
        None => format!("SET {assignment} {update}").trim_end().to_owned(),
    }
}

/// Where the word `SET` ends. An attribute cannot be called so but by a placeholder, for it is reserved.
fn behind_set(update: &str) -> Option<usize> {
    let belongs = |c: char| c == '_' || c.is_ascii_alphanumeric();
    let upper = update.to_ascii_uppercase();
    let found = upper
        .match_indices("SET")
        .map(|(at, set)| (at, at + set.len()));
    let mut words = found.filter(|(start, end)| {
        let (before, after) = (&update[..*start], &update[*end..]);
        let starts = !before.ends_with(|c| belongs(c) || matches!(c, '#' | ':' | '.'));
        starts && !after.starts_with(belongs)
    });
    words.next().map(|(_, end)| end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_joins_the_set_clause_wherever_it_stands() {
        for (update, fenced) in [
            ("", "SET #f = :f"),
            ("SET a = :a", "SET #f = :f, a = :a"),
            ("set a = :a, b = :b", "set #f = :f, a = :a, b = :b"),
            ("SET\n a = :a", "SET #f = :f,\n a = :a"),
            ("REMOVE a SET b = :b", "REMOVE a SET #f = :f, b = :b"),
            ("REMOVE a", "SET #f = :f REMOVE a"),
            ("ADD offset :one", "SET #f = :f ADD offset :one"),
            ("REMOVE #set, a.set", "SET #f = :f REMOVE #set, a.set"),
            ("ADD a :set", "SET #f = :f ADD a :set"),
            ("ADD set_a :a", "SET #f = :f ADD set_a :a"),
            ("SET#a = :a", "SET #f = :f,#a = :a"),
        ] {
            assert_eq!(also_set(update, "#f = :f"), fenced);
        }
    }

    #[test]
    fn a_condition_gets_parentheses_unless_it_has_them() {
        for (own, is_wrapped) in [
            ("a = :a", true),
            ("(a = :a OR b = :b)", false),
            (" (a = :a) ", false),
            ("((a = :a) OR b = :b)", false),
            ("(a = :a) OR (b = :b)", true),
            ("attribute_exists(a)", true),
            ("(attribute_exists(a))", false),
        ] {
            let wrapped = format!("({own}) AND (f)");
            assert_eq!(
                both(Some(own), "(f)".into()) == wrapped,
                is_wrapped,
                "{own}"
            );
        }
    }

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
