//! `fairlock serve`: programs of any language and commands of several processes use it as they use DynamoDB.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::AttributeValue::S;
use aws_sdk_dynamodb::types::{ReturnValuesOnConditionCheckFailure, ScalarAttributeType};
use fairlock_testkit::http::transport;
use fairlock_testkit::keyed_tables::create_table;
use fairlock_testkit::real_time;
use rustix::process::Signal;

use crate::command::{Said, rows, said, shell, signalled, words};
use crate::home::Home;
use crate::inspect::schema::documented;
use crate::operations::block;
use crate::running::Running;
use crate::served::AWS;

/// No answer on a connection may take longer.
const BOUND: Duration = Duration::from_secs(120);
/// How many clients of a kind behave badly at one time.
const CROWD: usize = 40;

/// A server that was started.
struct Served {
    running: Running,
    url: String,
}

impl Served {
    fn start(home: &Home, flags: &str) -> Served {
        let line = words(&format!("serve --listen 127.0.0.1:0 {flags}"));
        let mut running = Running::spawn(&mut signalled(home.path(), &line), home.path());
        let url = running.line().trim_end().to_owned();
        Served { running, url }
    }

    fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap()
    }

    /// A client of the SDK over TCP, which repeats nothing.
    fn client(&self) -> Client {
        let config = aws_sdk_dynamodb::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("any", "any", None, None, "test"))
            .retry_config(RetryConfig::disabled())
            .http_client(transport())
            .endpoint_url(&self.url)
            .build();
        Client::from_conf(config)
    }

    /// A command that finds its locks here.
    fn run(&self, home: &Home, line: &str) -> Said {
        let mut command = home.bare(line);
        said(command.envs(AWS).env("FAIRLOCK_ENDPOINT_URL", &self.url))
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream.set_write_timeout(Some(BOUND)).unwrap();
        stream
    }

    /// Sends a request by hand, on a connection of its own.
    fn sent(&self, method: &str, headers: &str, body: &str) -> Answer {
        let mut stream = self.connect();
        let length = body.len();
        let head = format!(
            "{method} / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        Answer::of(stream)
    }

    fn asked(&self, operation: &str, body: &str) -> Answer {
        let target = format!("X-Amz-Target: DynamoDB_20120810.{operation}\r\n");
        self.sent("POST", &target, body)
    }

    /// Ends it by a signal. Returns what it printed after its first line.
    fn ended_by(self, signal: Signal) -> String {
        self.running.signal(signal);
        let ended = self.running.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.out + &ended.err
    }
}

/// An answer as it came over the connection.
#[derive(Debug)]
struct Answer {
    head: String,
    body: String,
}

impl Answer {
    /// Reads all that a connection says until it ends.
    fn of(mut stream: TcpStream) -> Answer {
        let mut bytes = Vec::new();
        // A server that refuses a request does not read it to the end, and the kernel may tell that by a reset behind the answer.
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        Answer {
            head: head.to_ascii_lowercase(),
            body: body.to_owned(),
        }
    }

    fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }

    #[track_caller]
    fn assert_refused(&self, status: &str, kind: &str) {
        assert_eq!(self.status(), status, "{self:?}");
        assert!(self.body.contains(&format!("#{kind}\"")), "{self:?}");
    }
}

/// The checksum of zip and Ethernet, by its definition.
fn crc32(bytes: &[u8]) -> u32 {
    let shift = |crc: u32, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
    let taken = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), shift);
    !bytes.iter().fold(!0, taken)
}

async fn make_table(client: &Client) {
    create_table(client, "jobs", &[("id", ScalarAttributeType::S)]).await;
}

#[test]
fn the_sdk_makes_a_table_and_writes_and_reads_items_over_tcp() {
    let home = Home::empty();
    real_time(async {
        let served = Served::start(&home, "");
        let client = served.client();
        make_table(&client).await;
        let put = || {
            let put = client.put_item().table_name("jobs");
            put.item("id", S("7".into())).item("by", S("a".into()))
        };
        put().send().await.unwrap();
        let again = put()
            .condition_expression("attribute_not_exists(id)")
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        let refused = again.send().await.unwrap_err().into_service_error();
        let PutItemError::ConditionalCheckFailedException(failed) = &refused else {
            panic!("{refused:?}");
        };
        assert_eq!(failed.item().unwrap()["by"], S("a".into()));
        let got = client.get_item().table_name("jobs");
        let got = got.key("id", S("7".into())).consistent_read(true).send();
        assert_eq!(got.await.unwrap().item().unwrap()["by"], S("a".into()));
        // What it does not know is refused in DynamoDB's words.
        let unknown = client.describe_limits().send().await.unwrap_err();
        assert_eq!(unknown.code(), Some("UnknownOperationException"));
    });
}

#[test]
fn commands_take_turns_over_it() {
    let home = Home::empty();
    let served = Served::start(&home, "");
    let created = served.run(&home, "table create");
    created.assert_shows(&["is ready"]);
    std::thread::scope(|scope| {
        for name in ["one", "two"] {
            let (served, home) = (&served, &home);
            scope.spawn(move || {
                let script = format!("echo {name} >> turns; test ! -e held; touch held; rm held");
                let line = format!("run --quiet --wait 100s a -- sh -ec '{script}'");
                (0..5).for_each(|_| _ = served.run(home, &line).assert_done());
            });
        }
    });
    let told = home.read("turns");
    let of = |name| told.lines().filter(|line| *line == name).count();
    assert_eq!((of("one"), of("two")), (5, 5), "{told}");
    assert_eq!(served.run(&home, "doctor").code, Some(0));
}

/// The checksum is compared with one that is computed here by its definition.
#[test]
fn every_answer_has_a_date_and_the_checksum_that_sdks_compare() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    let home = Home::empty();
    let served = Served::start(&home, "");
    for (operation, body) in [
        ("ListTables", "{}"),
        ("DescribeTable", r#"{"TableName":"none"}"#),
        ("Dance", "{}"),
    ] {
        let answer = served.asked(operation, body);
        let checksum = crc32(answer.body.as_bytes()).to_string();
        assert_eq!(answer.header("x-amz-crc32"), Some(&*checksum), "{answer:?}");
        let kind = answer.header("content-type");
        assert_eq!(kind, Some("application/x-amz-json-1.0"), "{answer:?}");
        for name in ["date", "x-amzn-requestid", "content-length"] {
            assert!(answer.header(name).is_some(), "no {name}: {answer:?}");
        }
    }
}

#[test]
fn what_is_no_request_of_the_protocol_is_refused_in_its_words() {
    let home = Home::empty();
    let served = Served::start(&home, "");
    let listed = served.asked("ListTables", "{}");
    assert_eq!(
        (listed.status(), &*listed.body),
        ("200", r#"{"TableNames":[]}"#)
    );
    const REFUSED: &str = r#"
        POST | X-Amz-Target: DynamoDB_20120810.ListStreams          | {}              | 400 | UnknownOperationException
        POST | X-Amz-Target: DynamoDB_20120810.                     | {}              | 400 | UnknownOperationException
        POST | X-Amz-Target: DynamoDBStreams_20120810.ListTables    | {}              | 400 | UnknownOperationException
        POST | X-Amz-Target: ListTables                             | {}              | 400 | UnknownOperationException
        POST | x-none: x                                            | {}              | 400 | UnknownOperationException
        PUT  | x-none: x                                            | {}              | 404 | UnknownOperationException
        POST | X-Amz-Target: DynamoDB_20120810.DescribeTable        |                 | 400 | SerializationException
        POST | X-Amz-Target: DynamoDB_20120810.DescribeTable        | not JSON        | 400 | SerializationException
        POST | X-Amz-Target: DynamoDB_20120810.DescribeTable        | {"TableName":7} | 400 | SerializationException
    "#;
    for [method, header, body, status, kind] in rows(REFUSED) {
        let answer = served.sent(method, &format!("{header}\r\n"), body);
        answer.assert_refused(status, kind);
    }
    // A page of another site, which a browser shows on this machine, is not let in.
    let from_a_page = served.sent("OPTIONS", "origin: http://example.com\r\n", "");
    let is_let_in = from_a_page.header("access-control-allow-origin");
    assert_eq!(is_let_in, None, "{from_a_page:?}");
    let health = served.sent("GET", "", "");
    assert_eq!(health.status(), "200", "{health:?}");
    assert!(health.body.starts_with("healthy: "), "{health:?}");
}

#[test]
fn a_body_that_is_too_large_is_refused_announced_or_not_and_the_server_goes_on() {
    const PIECE: usize = 1 << 20;
    let home = Home::empty();
    let served = Served::start(&home, "");
    let head = "POST / HTTP/1.1\r\nhost: x\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n";
    let mut announced = served.connect();
    write!(announced, "{head}content-length: {}\r\n\r\n", 17 * PIECE).unwrap();
    let mut hidden = served.connect();
    write!(hidden, "{head}transfer-encoding: chunked\r\n\r\n").unwrap();
    let piece = vec![b' '; PIECE];
    // The server stops reading at some time, and then nothing more can be written.
    let _ = (0..18).try_for_each(|_| {
        write!(hidden, "{PIECE:x}\r\n")?;
        hidden.write_all(&piece)?;
        hidden.write_all(b"\r\n")
    });
    for stream in [announced, hidden] {
        let refused = Answer::of(stream);
        refused.assert_refused("413", "RequestEntityTooLargeException");
    }
    assert_eq!(served.asked("ListTables", "{}").status(), "200");
}

/// Each kind many times, and all connections stay open meanwhile.
#[test]
fn slow_silent_and_broken_clients_hold_nobody_up() {
    let home = Home::empty();
    let served = Served::start(&home, "");
    let half = "POST / HTTP/1.1\r\nhost: x\r\nX-Amz-Tar";
    let no_body = "POST / HTTP/1.1\r\nhost: x\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\ncontent-length: 100\r\n\r\n{}";
    let kinds = ["", half, no_body, "SSH-2.0-OpenSSH_9.6\r\n", "\0\0\0"];
    let open = |text: &str| {
        let mut stream = served.connect();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    };
    let crowd = |text| std::iter::repeat_with(move || open(text)).take(CROWD);
    let open: Vec<_> = kinds.into_iter().flat_map(crowd).collect();
    // Some go in the middle of a request.
    kinds.into_iter().flat_map(crowd).for_each(drop);
    for _ in 0..5 {
        assert_eq!(served.asked("ListTables", "{}").status(), "200");
    }
    drop(open);
    served.ended_by(Signal::TERM);
}

#[test]
fn a_signal_ends_it_and_a_file_keeps_what_was_written() {
    let home = Home::empty();
    real_time(async {
        let signals = [Signal::TERM, Signal::INT, Signal::HUP];
        for (nth, signal) in signals.into_iter().enumerate() {
            let served = Served::start(&home, "--local tables.db");
            let client = served.client();
            if nth == 0 {
                make_table(&client).await;
            }
            let put = client.put_item().table_name("jobs");
            put.item("id", S(nth.to_string())).send().await.unwrap();
            let counted = client.scan().table_name("jobs").send().await.unwrap();
            assert_eq!(counted.count() as usize, nth + 1);
            // The connection of this client stays open, and idle.
            let address = served.address().to_owned();
            let told = served.ended_by(signal);
            assert!(
                told.contains("for tests only") && told.contains("tables.db"),
                "{told}"
            );
            assert!(TcpStream::connect(address).is_err());
        }
    });
}

#[test]
fn each_operation_is_printed_if_that_is_asked_for() {
    let home = Home::empty();
    for (flags, is_printed) in [("--log", true), ("", false)] {
        let served = Served::start(&home, flags);
        served.asked("ListTables", "{}");
        served.asked("Dance\tit", "{}");
        let told = served.ended_by(Signal::TERM);
        let printed = told.ends_with("\nListTables 200\nDance\\tit 400\n");
        assert_eq!(printed, is_printed, "{told:?}");
    }
}

#[test]
fn commands_may_use_the_file_beside_it() {
    let home = Home::empty();
    let served = Served::start(&home, "--local locks.db");
    served.run(&home, "table create").assert_done();
    let inside = "fairlock show --json --local locks.db a";
    let line = format!("run --quiet a -- env -u FAIRLOCK_ENDPOINT_URL {inside}");
    let shown = served.run(&home, &line);
    let state: serde_json::Value = serde_json::from_str(shown.assert_done()).unwrap();
    assert!(state["holder"].is_object(), "{state}");
}

/// The lines of the page are the script.
#[test]
fn the_lines_that_a_test_starts_it_with_work_as_they_stand_in_the_page() {
    let page = include_str!("../../../../docs/testing-your-service.md");
    let lines = block(page, "fairlock serve", "bash");
    let home = Home::empty();
    home.write("report.sh", "echo \"$FAIRLOCK_LOCK\" > ran\n");
    let lines = lines.replace("./report.sh", "sh ./report.sh");
    let ended = said(&mut shell(home.path(), "bash", &format!("set -e\n{lines}")));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(home.read("ran"), "nightly\n");
}

#[test]
fn the_address_is_printed_for_programs_as_documented() {
    let home = Home::empty();
    for (flags, file) in [("--json", None), ("--json --local t.db", Some("t.db"))] {
        let served = Served::start(&home, flags);
        let line = documented("A server,", &served.url).remove(0);
        assert_eq!(line["file"].as_str(), file);
        let address = line["url"].as_str().unwrap().strip_prefix("http://");
        assert!(TcpStream::connect(address.unwrap()).is_ok());
    }
}

#[test]
fn an_address_that_cannot_be_had_and_a_file_that_cannot_be_used_are_refused() {
    let home = Home::empty();
    let served = Served::start(&home, "");
    home.write("text", "no database");
    let taken = served.address();
    for (flags, words) in [
        (taken, &[taken, "127.0.0.1:0"][..]),
        ("127.0.0.1:0 --local .", &["it is a directory"]),
        ("127.0.0.1:0 --local text", &["it is no database"]),
    ] {
        let ended = said(&mut home.bare(&format!("serve --listen {flags}")));
        ended.assert_refused(69, words);
    }
    let no_address = said(&mut home.bare("serve --listen localhost"));
    assert_eq!(no_address.code, Some(64), "{no_address:?}");
}
