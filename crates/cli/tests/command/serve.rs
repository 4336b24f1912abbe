//! `fairlock serve`: programs of any language and commands of several processes use it as they use DynamoDB.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::AttributeValue::S;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType,
    ReturnValuesOnConditionCheckFailure, ScalarAttributeType,
};
use fairlock_testkit::real_time;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::command::{Said, fairlock, path, said};
use crate::inspect::schema::documented;

/// No answer on a connection may take longer.
const BOUND: Duration = Duration::from_secs(120);
/// How many clients of a kind behave badly at one time.
const CROWD: usize = 40;

/// A server that was started, in a directory of its own.
struct Served {
    process: Child,
    out: BufReader<ChildStdout>,
    home: TempDir,
    url: String,
}

impl Served {
    fn new() -> Served {
        Served::start(TempDir::new().unwrap(), &[])
    }

    /// Starts it without a `timeout` before it, so that its process can be signalled.
    fn start(home: TempDir, flags: &[&str]) -> Served {
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_fairlock"), "serve"]);
        command.args(["--listen", "127.0.0.1:0"]).args(flags);
        command.current_dir(home.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut url = String::new();
        out.read_line(&mut url).unwrap();
        Served {
            process,
            out,
            home,
            url: url.trim_end().to_owned(),
        }
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
            .retry_config(aws_sdk_dynamodb::config::retry::RetryConfig::disabled())
            .endpoint_url(&self.url)
            .build();
        Client::from_conf(config)
    }

    /// A command that finds its locks here.
    fn command(&self, line: &[&str]) -> Command {
        let mut command = fairlock(self.home.path(), line);
        let names = ["AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
        command.envs(names.map(|name| (name, "test")));
        command.env("FAIRLOCK_ENDPOINT_URL", &self.url);
        command
    }

    fn run(&self, line: &[&str]) -> Said {
        said(&mut self.command(line))
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

    fn asked(&self, target: &str, body: &str) -> Answer {
        self.sent("POST", &format!("X-Amz-Target: {target}\r\n"), body)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Waits for its end. Returns its code, what it printed after its first line, and its directory.
    fn end(mut self) -> (Option<i32>, String, TempDir) {
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        let mut pipe = self.process.stderr.take().unwrap();
        pipe.read_to_string(&mut err).unwrap();
        let code = self.process.wait().unwrap().code();
        let home = std::mem::replace(&mut self.home, TempDir::new().unwrap());
        (code, out + &err, home)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
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
    let created = client
        .create_table()
        .table_name("jobs")
        .billing_mode(BillingMode::PayPerRequest)
        .attribute_definitions(
            AttributeDefinition::builder()
                .attribute_name("id")
                .attribute_type(ScalarAttributeType::S)
                .build()
                .unwrap(),
        )
        .key_schema(
            KeySchemaElement::builder()
                .attribute_name("id")
                .key_type(KeyType::Hash)
                .build()
                .unwrap(),
        );
    created.send().await.unwrap();
}

#[test]
fn the_sdk_makes_a_table_and_writes_and_reads_items_over_tcp() {
    real_time(async {
        let served = Served::new();
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
        let found = match &refused {
            aws_sdk_dynamodb::operation::put_item::PutItemError::ConditionalCheckFailedException(
                failed,
            ) => failed.item().unwrap()["by"].clone(),
            other => unreachable!("{other:?}"),
        };
        assert_eq!(found, S("a".into()));
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
    let served = Served::new();
    let created = served.run(&["table", "create"]);
    assert!(created.assert_done().contains("is ready"));
    let turns = |name: &str| {
        let script = format!("echo {name} >> turns; test ! -e held; touch held; rm held");
        let line = [
            "run", "--quiet", "--wait", "100s", "a", "--", "sh", "-ec", &script,
        ];
        let mut command = served.command(&line);
        std::iter::repeat_with(move || said(&mut command)).take(5)
    };
    std::thread::scope(|scope| {
        let workers = ["one", "two"].map(|name| {
            scope.spawn(move || {
                turns(name).for_each(|ended| drop(ended.assert_done().to_owned()));
            })
        });
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
    let told = std::fs::read_to_string(served.home.path().join("turns")).unwrap();
    let of = |name| told.lines().filter(|line| *line == name).count();
    assert_eq!((of("one"), of("two")), (5, 5), "{told}");
    assert_eq!(served.run(&["doctor"]).code, Some(0));
}

/// The checksum is compared with one that is computed here by its definition.
#[test]
fn every_answer_has_a_date_and_the_checksum_that_sdks_compare() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    let served = Served::new();
    for (target, body) in [
        ("DynamoDB_20120810.ListTables", "{}"),
        ("DynamoDB_20120810.DescribeTable", r#"{"TableName":"none"}"#),
        ("DynamoDB_20120810.Dance", "{}"),
    ] {
        let answer = served.asked(target, body);
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
    let served = Served::new();
    let listed = served.asked("DynamoDB_20120810.ListTables", "{}");
    assert_eq!(
        (listed.status(), &*listed.body),
        ("200", r#"{"TableNames":[]}"#)
    );
    for target in [
        "DynamoDB_20120810.ListStreams",
        "DynamoDB_20120810.",
        "DynamoDBStreams_20120810.ListTables",
        "ListTables",
    ] {
        let answer = served.asked(target, "{}");
        answer.assert_refused("400", "UnknownOperationException");
    }
    served
        .sent("POST", "", "{}")
        .assert_refused("400", "UnknownOperationException");
    served
        .sent("PUT", "", "{}")
        .assert_refused("404", "UnknownOperationException");
    // A page of another site, which a browser shows on this machine, is not let in.
    let from_a_page = served.sent("OPTIONS", "origin: http://example.com\r\n", "");
    assert_eq!(
        from_a_page.header("access-control-allow-origin"),
        None,
        "{from_a_page:?}"
    );
    for body in ["", "not JSON", "{\"TableName\": 7}"] {
        let answer = served.asked("DynamoDB_20120810.DescribeTable", body);
        answer.assert_refused("400", "SerializationException");
    }
    let health = served.sent("GET", "", "");
    assert_eq!(health.status(), "200", "{health:?}");
    assert!(health.body.starts_with("healthy: "), "{health:?}");
}

#[test]
fn a_body_that_is_too_large_is_refused_announced_or_not_and_the_server_goes_on() {
    const PIECE: usize = 1 << 20;
    let served = Served::new();
    let head = "POST / HTTP/1.1\r\nhost: x\r\nX-Amz-Target: DynamoDB_20120810.ListTables\r\n";
    let mut announced = served.connect();
    write!(announced, "{head}content-length: {}\r\n\r\n", 17 * PIECE).unwrap();
    let refused = Answer::of(announced);
    refused.assert_refused("413", "RequestEntityTooLargeException");
    let mut hidden = served.connect();
    write!(hidden, "{head}transfer-encoding: chunked\r\n\r\n").unwrap();
    let piece = vec![b' '; PIECE];
    // The server stops reading at some time, and then nothing more can be written.
    let _ = (0..18).try_for_each(|_| {
        write!(hidden, "{PIECE:x}\r\n")?;
        hidden.write_all(&piece)?;
        hidden.write_all(b"\r\n")
    });
    let refused = Answer::of(hidden);
    refused.assert_refused("413", "RequestEntityTooLargeException");
    assert_eq!(
        served.asked("DynamoDB_20120810.ListTables", "{}").status(),
        "200"
    );
}

/// Each kind many times, and all connections stay open meanwhile.
#[test]
fn slow_silent_and_broken_clients_hold_nobody_up() {
    let served = Served::new();
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
        assert_eq!(
            served.asked("DynamoDB_20120810.ListTables", "{}").status(),
            "200"
        );
    }
    drop(open);
    served.signal(Signal::TERM);
    assert_eq!(served.end().0, Some(0));
}

#[test]
fn a_signal_ends_it_and_a_file_keeps_what_was_written() {
    real_time(async {
        let mut home = TempDir::new().unwrap();
        for (nth, signal) in [Signal::TERM, Signal::INT, Signal::HUP]
            .into_iter()
            .enumerate()
        {
            let served = Served::start(home, &["--local", "tables.db"]);
            let client = served.client();
            if nth == 0 {
                make_table(&client).await;
            }
            let put = client.put_item().table_name("jobs");
            put.item("id", S(nth.to_string())).send().await.unwrap();
            let counted = client.scan().table_name("jobs").send().await.unwrap();
            assert_eq!(counted.count() as usize, nth + 1);
            // The connection of this client stays open, and idle.
            served.signal(signal);
            let address = served.address().to_owned();
            let (code, told, kept) = served.end();
            assert_eq!(code, Some(0), "{told}");
            assert!(
                told.contains("for tests only") && told.contains("tables.db"),
                "{told}"
            );
            assert!(TcpStream::connect(address).is_err());
            home = kept;
        }
    });
}

#[test]
fn each_operation_is_printed_if_that_is_asked_for() {
    for (flags, printed) in [(&["--log"][..], true), (&[], false)] {
        let served = Served::start(TempDir::new().unwrap(), flags);
        served.asked("DynamoDB_20120810.ListTables", "{}");
        served.asked("DynamoDB_20120810.Dance\tit", "{}");
        served.signal(Signal::TERM);
        let (_, told, _) = served.end();
        assert_eq!(
            told.ends_with("\nListTables 200\nDance\\tit 400\n"),
            printed,
            "{told:?}"
        );
    }
}

#[test]
fn commands_may_use_the_file_beside_it() {
    let served = Served::start(TempDir::new().unwrap(), &["--local", "locks.db"]);
    served.run(&["table", "create"]).assert_done();
    let inside = "fairlock show --json --local locks.db a";
    let line = [
        "run",
        "--quiet",
        "a",
        "--",
        "env",
        "-u",
        "FAIRLOCK_ENDPOINT_URL",
        "sh",
        "-c",
        inside,
    ];
    let shown = served.run(&line);
    let state: serde_json::Value = serde_json::from_str(shown.assert_done()).unwrap();
    assert!(state["holder"].is_object(), "{state}");
}

/// The lines of the page are the script.
#[test]
fn the_lines_that_a_test_starts_it_with_work_as_they_stand_in_the_page() {
    let page = include_str!("../../../../docs/testing-your-service.md");
    let blocks = page.split("```bash\n").skip(1);
    let mut blocks = blocks.filter_map(|block| Some(block.split_once("```")?.0));
    let lines = blocks
        .find(|block| block.contains("fairlock serve"))
        .unwrap();
    let home = TempDir::new().unwrap();
    std::fs::write(
        home.path().join("report.sh"),
        "echo \"$FAIRLOCK_LOCK\" > ran\n",
    )
    .unwrap();
    let lines = lines.replace("./report.sh", "sh ./report.sh");
    let mut shell = Command::new("timeout");
    shell.args(["-s", "KILL", "60", "bash", "-e", "-c", &lines]);
    shell
        .current_dir(home.path())
        .stdin(Stdio::null())
        .env_clear();
    let ended = said(shell.env("PATH", path()).env("HOME", home.path()));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ran = std::fs::read_to_string(home.path().join("ran")).unwrap();
    assert_eq!(ran, "nightly\n");
}

#[test]
fn the_address_is_printed_for_programs_as_documented() {
    for (flags, file) in [
        (&["--json"][..], None),
        (&["--json", "--local", "t.db"], Some("t.db")),
    ] {
        let served = Served::start(TempDir::new().unwrap(), flags);
        let [line] = &documented("A server,", &served.url)[..] else {
            unreachable!("one line");
        };
        assert_eq!(line["file"].as_str(), file);
        let address = line["url"]
            .as_str()
            .unwrap()
            .strip_prefix("http://")
            .unwrap();
        assert!(TcpStream::connect(address).is_ok());
    }
}

#[test]
fn an_address_that_cannot_be_had_and_a_file_that_cannot_be_used_are_refused() {
    let served = Served::new();
    let home = TempDir::new().unwrap();
    let refuse = |line: &[&str], code, words: &[&str]| {
        let ended = said(&mut fairlock(Path::new(home.path()), line));
        ended.assert_refused(code, words);
    };
    let taken = served.address();
    refuse(&["serve", "--listen", taken], 69, &[taken, "127.0.0.1:0"]);
    let free = ["serve", "--listen", "127.0.0.1:0", "--local"];
    refuse(&[&free[..], &["."]].concat(), 69, &["it is a directory"]);
    std::fs::write(home.path().join("text"), "no database").unwrap();
    refuse(&[&free[..], &["text"]].concat(), 69, &["it is no database"]);
    let no_address = said(&mut fairlock(
        home.path(),
        &["serve", "--listen", "localhost"],
    ));
    assert_eq!(no_address.code, Some(64), "{no_address:?}");
}
