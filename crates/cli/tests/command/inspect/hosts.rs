//! What stands between this process and DynamoDB: the host, a proxy, certificates. And which commands are at the same table.
#![expect(
    clippy::unwrap_used,
    reason = "a helper of a test that cannot go on has failed the test"
)]

use std::net::TcpListener;

use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use tokio::task::spawn_blocking;

use super::home::{Home, UNAVAILABLE};
use crate::command::{Said, fairlock, said};

const KEYS: [(&str, &str); 2] = [
    ("AWS_ACCESS_KEY_ID", "test"),
    ("AWS_SECRET_ACCESS_KEY", "test"),
];

/// An address of this machine where nobody answers, so that no test leaves it.
fn nobody() -> String {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    nobody.local_addr().unwrap().to_string()
}

fn run(home: &Home, line: &str, environment: &[(&str, &str)]) -> Said {
    let mut command = fairlock(home.0.path(), &line.split(' ').collect::<Vec<_>>());
    said(command.envs(KEYS).envs(environment.iter().copied()))
}

#[test]
fn the_host_that_is_contacted_and_the_proxy_on_the_way_are_named() {
    let (home, proxy) = (Home::new(), nobody());
    let url = format!("http://somebody:secret@{proxy}");
    for (environment, host) in [
        (
            &[("AWS_REGION", "eu-west-1")][..],
            "dynamodb.eu-west-1.amazonaws.com",
        ),
        (
            &[("AWS_REGION", "cn-north-1")],
            "dynamodb.cn-north-1.amazonaws.com.cn",
        ),
        (
            &[
                ("AWS_REGION", "us-east-1"),
                ("AWS_USE_FIPS_ENDPOINT", "true"),
            ],
            "dynamodb-fips.us-east-1.amazonaws.com",
        ),
        (
            &[
                ("AWS_REGION", "eu-west-1"),
                ("AWS_USE_DUALSTACK_ENDPOINT", "true"),
            ],
            "dynamodb.eu-west-1.api.aws",
        ),
        (
            &[
                ("AWS_REGION", "eu-west-1"),
                ("AWS_ACCOUNT_ID", "123456789012"),
            ],
            "123456789012.ddb.eu-west-1.amazonaws.com",
        ),
    ] {
        for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
            let environment = [environment, &[(variable, &url)]].concat();
            let ended = run(&home, "show a", &environment);
            let through = format!("through the proxy {proxy}, given by {variable}");
            let direct = format!("name {host} in NO_PROXY");
            let is = format!("its DynamoDB is {host}");
            ended.assert_refused(UNAVAILABLE, &[&is, &through, &direct]);
            assert!(!ended.err.contains("secret"), "{ended:?}");
        }
    }
    // A proxy that is not used is not named.
    let at = format!("show --endpoint-url http://{} a", nobody());
    let unused = [
        ("AWS_REGION", "eu-west-1"),
        ("HTTP_PROXY", &url),
        ("NO_PROXY", "127.0.0.1"),
    ];
    let ended = run(&home, &at, &unused);
    ended.assert_refused(UNAVAILABLE, &["is right, and what answers there"]);
    assert!(!ended.err.contains("proxy"), "{ended:?}");
}

#[test]
fn a_system_without_certificates_is_told_so_before_anything_is_sent() {
    let home = Home::new();
    let none = [
        ("AWS_REGION", "eu-west-1"),
        ("SSL_CERT_FILE", "/nonexistent"),
    ];
    for line in ["show a", "run --wait 30s a -- true"] {
        let ended = run(&home, line, &none);
        ended.assert_refused(
            UNAVAILABLE,
            &["no CA certificates", "`ca-certificates`", "AWS_CA_BUNDLE"],
        );
    }
    // Where nothing is encrypted, none are needed.
    let ended = run(
        &home,
        &format!("show --endpoint-url http://{} a", nobody()),
        &none,
    );
    ended.assert_refused(UNAVAILABLE, &["Connection refused"]);
}

#[test]
fn a_bundle_of_certificates_is_trusted_in_place_of_those_of_the_system() {
    real_time(async {
        let place = ServedEngine::new(Wire::Tls).await;
        let (home, url) = (Home::new(), place.url().await);
        std::fs::write(home.file("bundle"), &place.certificate).unwrap();
        std::fs::write(
            home.file("garbage"),
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        )
        .unwrap();
        std::fs::write(home.file("empty"), "").unwrap();
        let told = spawn_blocking(move || {
            let line = format!("run --table locks --wait none --endpoint-url {url} a -- echo done");
            let bundle = |name: &str| {
                let file = home.file(name);
                let file = file.to_str().unwrap();
                run(
                    &home,
                    &line,
                    &[("AWS_REGION", "eu-west-1"), ("AWS_CA_BUNDLE", file)],
                )
            };
            let told = ["bundle", "garbage", "empty", "missing"].map(bundle);
            (told, run(&home, &line, &[("AWS_REGION", "eu-west-1")]))
        });
        let ([done, garbage, empty, missing], untrusted) = told.await.unwrap();
        assert_eq!(done.assert_done(), "done\n");
        for (ended, words) in [
            (garbage, ""),
            (empty, "no certificate"),
            (missing, "No such file"),
        ] {
            ended.assert_refused(UNAVAILABLE, &["given by AWS_CA_BUNDLE", words]);
        }
        untrusted.assert_refused(UNAVAILABLE, &["AWS_CA_BUNDLE"]);
    });
}

/// A turn within a turn, each with its own flags and variables. The inner one does not wait.
async fn nested(home: &Home, outer: (&str, &str), inner: (&str, &str)) -> Said {
    let ((outer, around), (inner, within)) = (outer, inner);
    let program = env!("CARGO_BIN_EXE_fairlock");
    let script = format!(
        "env -u AWS_REGION {within} \"$0\" run --table locks --wait none {inner} a -- echo done"
    );
    let line = format!("run --quiet --table locks {outer} a -- sh -c");
    let words: Vec<_> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let mut command = fairlock(home.0.path(), &[&words[..], &[&script, program]].concat());
    command.envs(KEYS);
    for (name, value) in around.split(' ').filter_map(|pair| pair.split_once('=')) {
        command.env(name, value);
    }
    spawn_blocking(move || said(&mut command)).await.unwrap()
}

#[test]
fn two_commands_are_at_one_table_if_what_their_configurations_come_to_is_the_same() {
    real_time(async {
        let (one, other) = (
            ServedEngine::new(Wire::Tcp).await,
            ServedEngine::new(Wire::Tcp).await,
        );
        let (one, other) = (one.url().await, other.url().await);
        let home = Home::new();
        std::fs::create_dir(home.file(".aws")).unwrap();
        let keys = "aws_access_key_id = x\naws_secret_access_key = y";
        let profiles = format!(
            "[profile p]\nregion = test\nendpoint_url = {one}\n{keys}\n[profile s]\nregion = test\nservices = s\n{keys}\n\
             [services s]\ndynamodb =\n  endpoint_url = {one}\n"
        );
        std::fs::write(home.file(".aws/config"), profiles).unwrap();
        let flag = format!("--endpoint-url {one}");
        let (general, special) = (
            format!("AWS_ENDPOINT_URL={one}"),
            format!("AWS_ENDPOINT_URL_DYNAMODB={one}"),
        );
        let region = |rest: &str| format!("AWS_REGION=test {rest}");
        let default = |rest: &str| format!("AWS_DEFAULT_REGION=test {rest}");
        let slash = format!("--endpoint-url {one}/");
        let without = "env -u AWS_ENDPOINT_URL -u AWS_ENDPOINT_URL_DYNAMODB env";
        let profile = |name: &str| format!("{without} AWS_PROFILE={name}");
        for (outer, inner) in [
            ((flag.as_str(), region("")), (flag.as_str(), default(""))),
            ((flag.as_str(), region("")), ("", region(&general))),
            (("", region(&special)), (flag.as_str(), default(""))),
            (("", region(&general)), ("", region(&special))),
            ((flag.as_str(), region("")), (slash.as_str(), region(""))),
            ((flag.as_str(), region("")), ("", profile("p"))),
            (("", region(&special)), ("", profile("s"))),
        ] {
            let ended = nested(&home, (outer.0, &outer.1), (inner.0, &inner.1)).await;
            let case = format!("{outer:?}, {inner:?}: {ended:?}");
            assert_eq!(ended.code, Some(75), "{case}");
            assert!(ended.err.contains("--nested"), "{case}");
        }
        let elsewhere = format!("AWS_ENDPOINT_URL_DYNAMODB={other}");
        let account = |id| region(&format!("{special} AWS_ACCOUNT_ID={id}"));
        let ids = ("123456789012", "210987654321");
        for (outer, inner) in [
            (("", region(&special)), ("", region(&elsewhere))),
            (
                ("", region(&special)),
                ("--namespace other", region(&special)),
            ),
        ] {
            let ended = nested(&home, (outer.0, &outer.1), (inner.0, &inner.1)).await;
            assert_eq!(ended.assert_done(), "done\n");
        }
        // The table is the same here, so the lock is held: but not by the command around it, as far as it can know.
        let ended = nested(&home, ("", &account(ids.0)), ("", &account(ids.1))).await;
        assert_eq!(ended.code, Some(75), "{ended:?}");
        assert!(!ended.err.contains("--nested"), "{ended:?}");
    });
}
