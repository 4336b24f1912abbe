//! Puts a fence on the SDK's request builders, beside the expressions that the caller set there.

use aws_sdk_dynamodb::operation::delete_item::builders::DeleteItemFluentBuilder;
use aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::builders::{DeleteBuilder, PutBuilder, UpdateBuilder};

use super::{Fence, FenceParts};

/// A write that [`Fence::on`] takes: the SDK's builders of puts, updates and deletions, alone or for a transaction.
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
    /// Sealed: other crates can neither name nor implement it.
    pub trait Fenceable: Sized {
        fn fenced(self, fence: &super::Fence) -> Self;
    }
}

/// The SDK's builders have no common trait, but the same method names.
macro_rules! fenceable {
    ($($builder:ident remembers by $how:ident;)*) => {$(
        impl sealed::Fenceable for $builder {
            fn fenced(self, fence: &Fence) -> Self {
                let own = self.get_condition_expression().as_deref();
                let FenceParts { condition, name, compared, .. } = fence.parts();
                let condition = both(own, condition);
                let request = self
                    .condition_expression(condition)
                    .expression_attribute_names(name.0, name.1)
                    .expression_attribute_values(compared.0, compared.1);
                fenceable!(@ $how request fence)
            }
        }
    )*};
    (@ item $request:ident $fence:ident) => {
        $request.item(&$fence.attribute, $fence.value())
    };
    (@ update $request:ident $fence:ident) => {{
        let own = $request.get_update_expression().as_deref();
        let FenceParts { assignment, assigned, .. } = $fence.parts();
        let update = also_set(own.unwrap_or(""), &assignment);
        $request.update_expression(update).expression_attribute_values(assigned.0, assigned.1)
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

/// Whether one pair of parentheses encloses the whole condition: DynamoDB refuses a second pair.
fn is_enclosed(condition: &str) -> bool {
    let condition = condition.trim();
    let mut depth = 0;
    let closes = condition.find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    condition.starts_with('(') && closes.is_some_and(|at| at + 1 == condition.len())
}

/// Adds an assignment to the update, in its `SET` clause if it has one: an update may have each clause only once.
fn also_set(update: &str, assignment: &str) -> String {
    match behind_set(update) {
        Some(at) => {
            let (before, after) = update.split_at(at);
            format!("{before} {assignment},{after}")
        }
        None => format!("SET {assignment} {update}").trim_end().to_owned(),
    }
}

/// Where the word `SET` ends. No attribute can have this name but through a placeholder, because the word is reserved.
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
}
