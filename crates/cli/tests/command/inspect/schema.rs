//! The JSON of the commands as `fairlock man json` describes it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::command::Said;

/// The table of fields that a line with these words introduces.
fn schema(words: &str) -> BTreeMap<String, String> {
    let tables = include_str!("../../../src/json.md");
    let (_, behind) = tables.split_once(&format!("\n{words}")).unwrap();
    let (_, table) = behind.split_once("|---|---|---|\n").unwrap();
    fields(table)
}

fn fields(table: &str) -> BTreeMap<String, String> {
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.map(|row| row.split('|').map(str::trim).collect::<Vec<_>>());
    let fields = cells.map(|cells| (cells[1].trim_matches('`').to_owned(), cells[2].to_owned()));
    fields.collect()
}

/// Checks for exactly the documented fields, of the documented types.
#[track_caller]
fn assert_documented(object: &Value, fields: &BTreeMap<String, String>) {
    let found: Vec<_> = object.as_object().unwrap().keys().collect();
    let documented: Vec<_> = fields.keys().collect();
    assert_eq!(found, documented, "{object}");
    for (field, kind) in fields {
        let (value, kinds) = (&object[field], kind.split(" or "));
        let fits = kinds.clone().any(|kind| is(value, kind));
        assert!(fits, "{field} is no {kind}: {object}");
    }
}

pub(crate) fn is(value: &Value, kind: &str) -> bool {
    let object_of = |is: fn(&Value) -> bool| {
        let object = value.as_object();
        object.is_some_and(|object| object.values().all(is))
    };
    match kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "number" => value.is_u64(),
        "boolean" => value.is_boolean(),
        "time" => value.as_str().is_some_and(is_time),
        "object of numbers" => object_of(Value::is_u64),
        "object of strings" => object_of(Value::is_string),
        "data" => value["ticket"].is_u64() && value["base64"].is_string(),
        "participant" => value.is_object(),
        "array of participants" => value.is_array(),
        _ => panic!("the schema knows no {kind}"),
    }
}

fn is_time(text: &str) -> bool {
    let form = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let form: String = text.chars().map(form).collect();
    form == "0000-00-00T00:00:00.000Z"
}

/// The output is lines of JSON, each as the table that these words introduce says. Returns the lines.
#[track_caller]
pub(crate) fn documented(words: &str, out: &str) -> Vec<Value> {
    let (lines, fields) = (lines(out), schema(words));
    lines
        .iter()
        .for_each(|line| assert_documented(line, &fields));
    lines
}

fn lines(out: &str) -> Vec<Value> {
    let lines = out.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[track_caller]
pub(crate) fn assert_a_documented_lock(lock: &Value) {
    let of_participant = schema("A participant ");
    assert_documented(lock, &schema("A lock:"));
    let line = lock["queue"].as_array().unwrap();
    let sharers = lock["sharers"].as_array().unwrap();
    let people = line.iter().chain(sharers).chain(Some(&lock["holder"]));
    for person in people.filter(|person| !person.is_null()) {
        assert_documented(person, &of_participant);
    }
}

pub(crate) fn parsed(said: &Said) -> Vec<Value> {
    lines(said.assert_done())
}
