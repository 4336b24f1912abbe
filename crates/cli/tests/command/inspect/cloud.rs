//! A DynamoDB that is not found, or that refuses.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use super::home::{ALL, Home, UNAVAILABLE};
use crate::command::{Said, fairlock, said};

/// Runs every command in the cloud, with some environment variables. None of them works.
fn assert_all_refused(environment: &[(&str, &str)], flags: &[&str], words: &[&str]) {
    let home = Home::new();
    for line in ALL {
        let line: Vec<_> = line.split(' ').chain(flags.iter().copied()).collect();
        let mut command = fairlock(home.0.path(), &line);
        let ended = said(command.envs(environment.iter().copied()));
        ended.assert_refused(UNAVAILABLE, words);
    }
}

const REGION: (&str, &str) = ("AWS_REGION", "eu-west-1");
const KEY: (&str, &str) = ("AWS_ACCESS_KEY_ID", "test");
const SECRET: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "test");

#[test]
fn a_missing_region_is_told_in_one_line() {
    assert_all_refused(&[KEY, SECRET], &[], &["no AWS region", "set AWS_REGION"]);
    let profile = ("AWS_PROFILE", "none");
    assert_all_refused(&[profile], &[], &["no AWS region"]);
    for region in ["", " eu west", "eu/west"] {
        let region = ("AWS_REGION", region);
        let words = ["given by AWS_REGION, is no AWS region"];
        assert_all_refused(&[region, KEY, SECRET], &[], &words);
    }
}

#[test]
fn a_watch_goes_on_while_nothing_answers() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let mut watch = Command::new(env!("CARGO_BIN_EXE_fairlock"));
    watch.args(["show", "--watch=100ms", "--endpoint-url", &url, "a"]);
    watch.envs([REGION, KEY, SECRET]).stderr(Stdio::piped());
    let mut watch = watch.spawn().unwrap();
    let mut told = String::new();
    let mut err = BufReader::new(watch.stderr.take().unwrap());
    err.read_line(&mut told).unwrap();
    assert!(told.contains("goes on trying"), "{told}");
    watch.kill().unwrap();
    watch.wait().unwrap();
    // The message came once, however often the lock was polled.
    assert_eq!(std::io::read_to_string(err).unwrap(), "");
}

#[test]
fn missing_credentials_are_told_in_one_line() {
    let words = ["no AWS credentials", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"];
    assert_all_refused(&[REGION], &[], &words);
    assert_all_refused(&[REGION, KEY], &[], &words);
}

#[test]
fn an_endpoint_that_does_not_answer_is_named() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let words = ["Connection refused", &format!("whether {url} is right")];
    assert_all_refused(&[REGION, KEY, SECRET], &["--endpoint-url", &url], &words);
}

/// The error tells the user which setting names the place.
#[test]
fn what_names_the_place_is_named_with_it() {
    let home = Home::new();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let show = |environment: &[(&str, &str)]| {
        let mut command = fairlock(home.0.path(), &["show", "a"]);
        said(command.envs(environment.iter().copied()))
    };
    for variable in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"] {
        let told = show(&[REGION, KEY, SECRET, (variable, &url)]);
        let words = format!("whether {url}, given by {variable}, is right");
        told.assert_refused(UNAVAILABLE, &["Connection refused", &words]);
        let told = show(&[REGION, KEY, SECRET, (variable, "")]);
        told.assert_refused(UNAVAILABLE, &[&format!("{variable} is empty")]);
    }
    let profile = ("AWS_PROFILE", "ci");
    let nowhere = "profile `ci` of AWS_PROFILE, which no file has";
    show(&[profile]).assert_refused(UNAVAILABLE, &["no AWS region", nowhere]);
    show(&[profile, REGION]).assert_refused(UNAVAILABLE, &["no AWS credentials", nowhere]);
    std::fs::create_dir(home.file(".aws")).unwrap();
    let written = format!(
        "[profile ci]\nregion = eu-west-1\nendpoint_url = {url}\naws_access_key_id = x\naws_secret_access_key = y\n"
    );
    std::fs::write(home.file(".aws/config"), written).unwrap();
    let words = format!("whether {url}, given by profile `ci` of AWS_PROFILE, is right");
    show(&[profile]).assert_refused(UNAVAILABLE, &[&words]);
    std::fs::write(
        home.file(".aws/config"),
        "[profile ci]\nregion = eu-west-1\ncredential_process = /bin/false\n",
    )
    .unwrap();
    let words = [
        "no AWS credentials",
        "profile `ci` of AWS_PROFILE: ",
        "exit status: 1",
    ];
    show(&[profile]).assert_refused(UNAVAILABLE, &words);
}

/// An endpoint that refuses every request with one code, for as long as the test runs.
pub(crate) fn refusing(code: &'static str) -> String {
    let body = format!(r#"{{"__type":"com.amazon#{code}","message":"because"}}"#);
    answering("400 Bad Request", "application/x-amz-json-1.0", body)
}

/// An endpoint that gives every request the same answer.
fn answering(status: &'static str, kind: &'static str, body: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            // This command's requests are small enough for one read, and each has a connection of its own.
            let _ = connection.read(&mut [0; 65536]);
            let length = body.len();
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: {kind}");
            let _ = write!(
                connection,
                "{head}\r\nContent-Length: {length}\r\n\r\n{body}"
            );
        }
    });
    url
}

#[test]
fn denied_access_is_named_with_where_to_read_what_is_missing() {
    let url = refusing("AccessDeniedException");
    let home = Home::new();
    for line in ["table create", "show a", "ls", "ls --json"] {
        let ended = in_the_cloud(&home, line, &url);
        let check = format!("`fairlock table check --endpoint-url {url}`");
        ended.assert_refused(UNAVAILABLE, &["AccessDeniedException: because", &check]);
    }
    let check = in_the_cloud(&home, "table check", &url);
    assert_eq!(check.code, Some(1), "{check:?}");
    let permit = "permit `dynamodb:Query` on the table";
    assert!(check.out.contains(permit), "{check:?}");
    assert!(check.out.contains("listed with `fairlock ls`"), "{check:?}");
}

#[test]
fn what_stands_before_dynamodb_is_told_by_its_status_and_its_address() {
    for (status, body) in [
        ("403 Forbidden", "no"),
        ("502 Bad Gateway", "<html></html>"),
        ("302 Found", ""),
        ("200 OK", "<html>log in</html>"),
    ] {
        let url = answering(status, "text/html", body.into());
        let number = &status[..3];
        let told = format!("HTTP status {number}, in an answer that is not DynamoDB's");
        let way = format!("see whether {url} is right, and what answers there");
        let home = Home::new();
        for line in ["show a", "ls", "run --wait none a"] {
            let end = if line.starts_with("run") {
                " -- true"
            } else {
                ""
            };
            let line = format!("{line} --endpoint-url {url}{end}");
            let mut command = fairlock(home.0.path(), &line.split(' ').collect::<Vec<_>>());
            let ended = said(command.envs([REGION, KEY, SECRET]));
            ended.assert_refused(UNAVAILABLE, &[&told, &way]);
        }
    }
}

fn in_the_cloud(home: &Home, line: &str, url: &str) -> Said {
    let line = format!("{line} --endpoint-url {url}");
    let mut command = fairlock(home.0.path(), &line.split(' ').collect::<Vec<_>>());
    said(command.envs([REGION, KEY, SECRET]))
}

/// An empty object is DynamoDB's answer to nothing but a read of an item that is not there, which has a request id.
#[test]
fn an_empty_object_from_what_is_no_dynamodb_is_no_free_lock() {
    let url = answering("200 OK", "application/x-amz-json-1.0", "{}".to_owned());
    let home = Home::new();
    for line in [
        "show a",
        "show --json a",
        "ls",
        "ask a",
        "break --yes a",
        "delete a",
        "resize a 3",
        "data get a",
        "lease show a",
        "sweep",
        "run --wait none a -- touch ran",
        "hold --wait none a",
        "run --wait 3s a -- touch ran",
    ] {
        let line: Vec<_> = line.split(' ').collect();
        let mut command = fairlock(home.0.path(), &line);
        let ended = said(command.envs([REGION, KEY, SECRET, ("FAIRLOCK_ENDPOINT_URL", &url)]));
        assert!(
            !matches!(ended.code, Some(0 | 1 | 75)),
            "{line:?}: {ended:?}"
        );
        assert!(!ended.out.contains("free"), "{line:?}: {ended:?}");
    }
    assert!(!home.file("ran").exists());
}

#[test]
fn credentials_that_nobody_knows_are_told_apart_from_missing_permission() {
    let url = refusing("UnrecognizedClientException");
    let words = [
        "UnrecognizedClientException: because",
        "see whether the AWS credentials",
    ];
    assert_all_refused(&[REGION, KEY, SECRET], &["--endpoint-url", &url], &words);
}

#[test]
fn a_table_that_is_too_busy_is_told_apart_from_one_that_is_not_there() {
    for (code, word) in [
        ("ThrottlingException", "try again later"),
        ("ExpiredTokenException", "see whether the AWS credentials"),
    ] {
        let (url, said) = (refusing(code), format!("{code}: because"));
        assert_all_refused(
            &[REGION, KEY, SECRET],
            &["--endpoint-url", &url],
            &[&said, word],
        );
    }
}
