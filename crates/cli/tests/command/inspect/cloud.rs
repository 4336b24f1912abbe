//! A DynamoDB that is not found, or that refuses.

use std::io::{Read, Write};
use std::net::TcpListener;

use super::ALL;
use crate::command::{Said, said, signalled, words};
use crate::home::Home;
use crate::running::Running;
use crate::served::{AWS, KEY, REGION, SECRET, nobody};

fn in_the_cloud(home: &Home, line: &str, environment: &[(&str, &str)]) -> Said {
    said(home.bare(line).envs(environment.iter().copied()))
}

#[test]
fn what_every_command_lacks_or_meets_is_told_in_one_line() {
    let nowhere = format!("http://{}", nobody());
    let is_right = format!("whether {nowhere} is right");
    let at = |url: &str| format!("--endpoint-url {url}");
    let no_region = ["no AWS region", "set AWS_REGION"];
    let no_credentials = ["no AWS credentials", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"];
    let wrong = ["given by AWS_REGION, is no AWS region"];
    let is_no_region = |region| [("AWS_REGION", region), KEY, SECRET];
    let refused = |code: &'static str| (at(&refusing(code)), format!("{code}: because"));
    let (unknown, unknown_says) = refused("UnrecognizedClientException");
    let (busy, busy_says) = refused("ThrottlingException");
    let (expired, expired_says) = refused("ExpiredTokenException");
    let way = "see whether the AWS credentials";
    for (environment, flags, words) in [
        (&[KEY, SECRET][..], "", &no_region[..]),
        (&[("AWS_PROFILE", "none")], "", &no_region[..1]),
        (&is_no_region(""), "", &wrong),
        (&is_no_region(" eu west"), "", &wrong),
        (&is_no_region("eu/west"), "", &wrong),
        (&[REGION], "", &no_credentials),
        (&[REGION, KEY], "", &no_credentials),
        (&AWS, &at(&nowhere), &["Connection refused", &is_right]),
        (&AWS, &unknown, &[&unknown_says, way]),
        (&AWS, &busy, &[&busy_says, "try again later"]),
        (&AWS, &expired, &[&expired_says, way]),
    ] {
        let home = Home::empty();
        for line in ALL {
            let ended = in_the_cloud(&home, &format!("{line} {flags}"), environment);
            ended.assert_refused(69, words);
        }
    }
}

#[test]
fn a_watch_goes_on_while_nothing_answers() {
    let home = Home::empty();
    let line = format!("show --watch=100ms --endpoint-url http://{} a", nobody());
    let mut watch = signalled(home.path(), &words(&line));
    let mut watch = Running::spawn(watch.envs(AWS), home.path());
    let told = watch.told();
    assert!(told.contains("goes on trying"), "{told}");
    watch.process.kill().unwrap();
    // The message came once, however often the lock was polled.
    assert_eq!(watch.end().err, "");
}

/// The error tells the user which setting names the place.
#[test]
fn what_names_the_place_is_named_with_it() {
    let home = Home::empty();
    let url = format!("http://{}", nobody());
    let show = |environment: &[_]| in_the_cloud(&home, "show a", environment);
    for variable in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"] {
        let told = show(&[&AWS[..], &[(variable, &url)]].concat());
        let words = format!("whether {url}, given by {variable}, is right");
        told.assert_refused(69, &["Connection refused", &words]);
        let told = show(&[&AWS[..], &[(variable, "")]].concat());
        told.assert_refused(69, &[&format!("{variable} is empty")]);
    }
    let profile = ("AWS_PROFILE", "ci");
    let nowhere = "profile `ci` of AWS_PROFILE, which no file has";
    show(&[profile]).assert_refused(69, &["no AWS region", nowhere]);
    show(&[profile, REGION]).assert_refused(69, &["no AWS credentials", nowhere]);
    home.make_dir(".aws");
    let keys = "aws_access_key_id = x\naws_secret_access_key = y\n";
    let at = format!("[profile ci]\nregion = eu-west-1\nendpoint_url = {url}\n{keys}");
    home.write(".aws/config", at);
    let words = format!("whether {url}, given by profile `ci` of AWS_PROFILE, is right");
    show(&[profile]).assert_refused(69, &[&words]);
    let fails = "[profile ci]\nregion = eu-west-1\ncredential_process = /bin/false\n";
    home.write(".aws/config", fails);
    let words = [
        "no AWS credentials",
        "profile `ci` of AWS_PROFILE: ",
        "exit status: 1",
    ];
    show(&[profile]).assert_refused(69, &words);
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
    let home = Home::empty();
    let at = |line| in_the_cloud(&home, &format!("{line} --endpoint-url {url}"), &AWS);
    for line in ["table create", "show a", "ls", "ls --json"] {
        let check = format!("`fairlock table check --endpoint-url {url}`");
        at(line).assert_refused(69, &["AccessDeniedException: because", &check]);
    }
    let check = at("table check");
    assert_eq!(check.code, Some(1), "{check:?}");
    for words in [
        "permit `dynamodb:Query` on the table",
        "listed with `fairlock ls`",
    ] {
        assert!(check.out.contains(words), "{check:?}");
    }
}

#[test]
fn what_stands_before_dynamodb_is_told_by_its_status_and_its_address() {
    let home = Home::empty();
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
        for (verb, rest) in [("show", "a"), ("ls", ""), ("run --wait none", "a -- true")] {
            let line = format!("{verb} --endpoint-url {url} {rest}");
            in_the_cloud(&home, &line, &AWS).assert_refused(69, &[&told, &way]);
        }
    }
}

/// An empty object is DynamoDB's answer to nothing but a read of an item that is not there, which has a request id.
#[test]
fn an_empty_object_from_what_is_no_dynamodb_is_no_free_lock() {
    let url = answering("200 OK", "application/x-amz-json-1.0", "{}".to_owned());
    let home = Home::empty();
    let lines = "show a, show --json a, ls, ask a, break --yes a, delete a, resize a 3, data get a, lease show a, sweep, \
                 run --wait none a -- touch ran, hold --wait none a, run --wait 3s a -- touch ran";
    for line in lines.split(", ") {
        let place = [&AWS[..], &[("FAIRLOCK_ENDPOINT_URL", &url)]].concat();
        let ended = in_the_cloud(&home, line, &place);
        assert!(!matches!(ended.code, Some(0 | 1 | 75)), "{line}: {ended:?}");
        assert!(!ended.out.contains("free"), "{line}: {ended:?}");
    }
    assert!(!home.has("ran"));
}
