//! How large an item is, counted as DynamoDB counts it against its limit.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

/// The largest item that DynamoDB stores.
pub(crate) const LARGEST_ITEM: usize = 400 * 1024;

/// What a list or a map takes by itself, and what each of its elements takes beside its own bytes.
pub(crate) const CONTAINER: usize = 3;
pub(crate) const ELEMENT: usize = 1;

/// The bytes of an item: its attributes' names and values. A number is counted as the request writes it, which comes
/// to the same in the table.
pub(crate) fn bytes_of(item: &HashMap<String, AttributeValue>) -> usize {
    item.iter()
        .map(|(name, value)| name.len() + bytes_of_value(value))
        .sum()
}

/// The bytes of a value, without the name of its attribute. Ends because DynamoDB nests values 32 deep at the most.
pub(crate) fn bytes_of_value(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => bytes_of_number(digits),
        AttributeValue::B(bytes) => bytes.as_ref().len(),
        AttributeValue::Ss(all) => all.iter().map(String::len).sum(),
        AttributeValue::Ns(all) => all.iter().map(|digits| bytes_of_number(digits)).sum(),
        AttributeValue::Bs(all) => all.iter().map(|bytes| bytes.as_ref().len()).sum(),
        AttributeValue::L(all) => {
            let elements = all.iter().map(|value| ELEMENT + bytes_of_value(value));
            CONTAINER + elements.sum::<usize>()
        }
        AttributeValue::M(all) => CONTAINER + ELEMENT * all.len() + bytes_of(all),
        // A boolean, null, or a type that this version of the SDK does not know.
        _ => 1,
    }
}

/// A number takes one byte, one for each two significant digits before the point and after it, and one for a minus.
fn bytes_of_number(text: &str) -> usize {
    let (digits, before_point) = significant(text);
    let before = usize::try_from(before_point).unwrap_or(0).min(digits.len());
    let after = digits.len() - before;
    let minus = text.trim().starts_with('-') && !digits.is_empty();
    1 + before.div_ceil(2) + after.div_ceil(2) + usize::from(minus)
}

/// A number's digits without zeros before or after them, and how many of its digits stand before the point.
fn significant(text: &str) -> (String, i64) {
    let text = text.trim().trim_start_matches(['-', '+']);
    let (text, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction}");
    let leading = digits.len() - digits.trim_start_matches('0').len();
    let before = i64::try_from(whole.len()).unwrap_or(i64::MAX);
    let before = before.saturating_sub_unsigned(leading as u64);
    let before = before.saturating_add(exponent.parse().unwrap_or(0));
    (digits.trim_matches('0').to_owned(), before)
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use aws_smithy_types::Blob;
    use dynoxide::AttributeValue as Engines;

    use super::*;

    /// The same value as the engine has it. The engine counts sizes as AWS's servers were measured to do.
    fn engines(value: &AttributeValue) -> Engines {
        let bytes = |blob: &Blob| blob.as_ref().to_vec();
        match value {
            AttributeValue::S(text) => Engines::S(text.clone()),
            AttributeValue::N(digits) => Engines::N(digits.clone()),
            AttributeValue::B(blob) => Engines::B(bytes(blob)),
            AttributeValue::Ss(all) => Engines::SS(all.clone()),
            AttributeValue::Ns(all) => Engines::NS(all.clone()),
            AttributeValue::Bs(all) => Engines::BS(all.iter().map(bytes).collect()),
            AttributeValue::L(all) => Engines::L(all.iter().map(engines).collect()),
            AttributeValue::M(all) => {
                let all = all
                    .iter()
                    .map(|(name, value)| (name.clone(), engines(value)));
                Engines::M(all.collect())
            }
            AttributeValue::Bool(it) => Engines::BOOL(*it),
            _ => Engines::NULL(true),
        }
    }

    fn numbers() -> impl Iterator<Item = String> {
        let written = [
            "0",
            "-0",
            "0.0",
            "7",
            "-7",
            "42",
            "100",
            "123",
            "1.5",
            "-1.25",
            "0.001",
            "00120",
            "1e3",
            "1E-3",
            "12.50e1",
            "-99e20",
            "3.14159",
            "18446744073709551615",
            "+5",
        ];
        let powers = (0..38).flat_map(|n| [format!("1e{n}"), format!("-15e-{n}")]);
        let counted = (0..64).map(|n| (1_u64 << n).to_string());
        written
            .map(str::to_owned)
            .into_iter()
            .chain(powers)
            .chain(counted)
    }

    #[test]
    fn every_kind_of_value_is_as_large_as_the_engine_counts_it() {
        let text = |it: &str| AttributeValue::S(it.to_owned());
        let blob = || Blob::new([1, 2, 3]);
        let map = [
            ("größe".to_owned(), text("ß")),
            ("b".to_owned(), AttributeValue::Bool(true)),
        ];
        let list = vec![
            AttributeValue::M(map.clone().into()),
            AttributeValue::Null(true),
        ];
        let others = [
            text(""),
            text("naïve"),
            AttributeValue::B(blob()),
            AttributeValue::Bs(vec![blob(), Blob::new([])]),
            AttributeValue::Ss(vec!["a".into(), "bc".into()]),
            AttributeValue::Ns(vec!["1".into(), "-1.5".into()]),
            AttributeValue::L(Vec::new()),
            AttributeValue::M(HashMap::new()),
            AttributeValue::L(list.clone()),
            AttributeValue::M([("deep".to_owned(), AttributeValue::L(list))].into()),
        ];
        for value in numbers().map(AttributeValue::N).chain(others) {
            assert_eq!(bytes_of_value(&value), engines(&value).size(), "{value:?}");
        }
    }

    #[test]
    fn an_items_names_count_too() {
        let item = HashMap::from([("id".to_owned(), AttributeValue::S("abc".into()))]);
        assert_eq!(bytes_of(&item), 5);
    }
}
