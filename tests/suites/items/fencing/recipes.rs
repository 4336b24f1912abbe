//! The SQL of docs/fencing.md does what the page says, on an available SQL engine.

use rusqlite::{Connection, named_params};

const PAGE: &str = include_str!("../../../../docs/fencing.md");

/// The block of SQL that has these words.
fn sql(words: &str) -> &'static str {
    let blocks = PAGE.split("```sql\n").skip(1);
    let mut blocks = blocks.filter_map(|block| Some(block.split_once("```")?.0));
    blocks.find(|block| block.contains(words)).unwrap()
}

/// An account of 100 whose newest token is 8.
fn accounts() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch(sql("CREATE TABLE account"))
        .unwrap();
    let account = "INSERT INTO account (id, balance, fence) VALUES ('42', 100, 8)";
    assert_eq!(connection.execute(account, []).unwrap(), 1);
    connection
}

fn account(connection: &Connection) -> (i64, i64) {
    let select = "SELECT balance, fence FROM account WHERE id = '42'";
    let row = connection.query_row(select, [], |row| Ok((row.get(0)?, row.get(1)?)));
    row.unwrap()
}

#[test]
fn an_sql_update_is_refused_by_a_newer_token_and_remembers_its_own() {
    let connection = accounts();
    let update = |token: i64, balance: i64| {
        let values = named_params! { "$1": "42", "$2": balance, "$3": token };
        connection
            .execute(sql("UPDATE account SET balance = $2"), values)
            .unwrap()
    };
    assert_eq!((update(7, 1), account(&connection)), (0, (100, 8)));
    assert_eq!((update(8, 2), account(&connection)), (1, (2, 8)));
    assert_eq!((update(9, 3), account(&connection)), (1, (3, 9)));
    assert_eq!((update(8, 4), account(&connection)), (0, (3, 9)));
}

#[test]
fn an_sql_insert_over_a_row_is_refused_by_a_newer_token() {
    let connection = accounts();
    let upsert = |id: &str, token: i64| {
        let values = named_params! { "$1": id, "$2": 5, "$3": token };
        connection.execute(sql("ON CONFLICT"), values).unwrap()
    };
    assert_eq!((upsert("42", 7), account(&connection)), (0, (100, 8)));
    assert_eq!((upsert("42", 9), account(&connection)), (1, (5, 9)));
    assert_eq!(upsert("43", 7), 1);
}

/// PostgreSQL looks for tables among the caller's temporary ones first, unless the path names their schema.
#[test]
fn a_function_with_its_owner_s_rights_writes_to_no_temporary_table_of_its_caller() {
    let functions = PAGE.split("CREATE FUNCTION ").skip(1);
    let heads = functions.filter_map(|function| function.split_once(" AS $$"));
    let mut definers = heads.filter(|(head, _)| head.contains("SECURITY DEFINER"));
    let is_last = |(head, _): (&str, _)| {
        let path = head.split_once("SET search_path =");
        path.is_some_and(|(_, schemas)| schemas.trim().ends_with(", pg_temp"))
    };
    assert!(definers.clone().count() > 0 && definers.all(is_last));
}
