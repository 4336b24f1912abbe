//! What stands between this process and DynamoDB: the host, a proxy, certificates. And which commands are at the same table.

use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;

use crate::command::{PROGRAM, Said, fairlock, rows, said, words};
use crate::home::Home;
use crate::served::{Cloud, KEY, REGION, SECRET, finished, nobody};

fn run(home: &Home, line: &str, environment: &[(&str, &str)]) -> Said {
    let environment = environment.iter().copied();
    said(home.bare(line).envs([KEY, SECRET]).envs(environment))
}

#[test]
fn the_host_that_is_contacted_and_the_proxy_on_the_way_are_named() {
    const HOSTS: &str = "
        eu-west-1  |                            |              | dynamodb.eu-west-1.amazonaws.com
        cn-north-1 |                            |              | dynamodb.cn-north-1.amazonaws.com.cn
        us-east-1  | AWS_USE_FIPS_ENDPOINT      | true         | dynamodb-fips.us-east-1.amazonaws.com
        eu-west-1  | AWS_USE_DUALSTACK_ENDPOINT | true         | dynamodb.eu-west-1.api.aws
        eu-west-1  | AWS_ACCOUNT_ID             | 123456789012 | 123456789012.ddb.eu-west-1.amazonaws.com
    ";
    let (home, proxy) = (Home::empty(), nobody());
    let url = format!("http://somebody:secret@{proxy}");
    for [region, name, value, host] in rows(HOSTS) {
        for variable in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
            let mut environment = vec![("AWS_REGION", region), (name, value), (variable, &url)];
            environment.retain(|(name, _)| !name.is_empty());
            let ended = run(&home, "show a", &environment);
            let through = format!("through the proxy {proxy}, given by {variable}");
            let direct = format!("name {host} in NO_PROXY");
            let is = format!("its DynamoDB is {host}");
            ended.assert_refused(69, &[&is, &through, &direct]);
            assert!(!ended.err.contains("secret"), "{ended:?}");
        }
    }
    // A proxy that is not used is not named.
    let at = format!("show --endpoint-url http://{} a", nobody());
    let unused = [REGION, ("HTTP_PROXY", &url), ("NO_PROXY", "127.0.0.1")];
    let ended = run(&home, &at, &unused);
    ended.assert_refused(69, &["is right, and what answers there"]);
    assert!(!ended.err.contains("proxy"), "{ended:?}");
}

#[test]
fn a_system_without_certificates_is_told_so_before_anything_is_sent() {
    let home = Home::empty();
    let none = [REGION, ("SSL_CERT_FILE", "/nonexistent")];
    for line in ["show a", "run --wait 30s a -- true"] {
        let words = ["no CA certificates", "`ca-certificates`", "AWS_CA_BUNDLE"];
        run(&home, line, &none).assert_refused(69, &words);
    }
    // Where nothing is encrypted, none are needed.
    let at = format!("show --endpoint-url http://{} a", nobody());
    run(&home, &at, &none).assert_refused(69, &["Connection refused"]);
}

#[test]
fn a_bundle_of_certificates_is_trusted_in_place_of_those_of_the_system() {
    real_time(async {
        let cloud = Cloud::at(ServedEngine::new(Wire::Tls).await).await;
        let home = &cloud.home;
        home.write("bundle", &cloud.place.certificate);
        home.write(
            "garbage",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        );
        home.write("empty", "");
        let line = "run --wait none a -- echo done";
        let bundle = async |name| {
            let mut command = cloud.command(line);
            command.env("AWS_CA_BUNDLE", home.file(name));
            finished(command).await
        };
        assert_eq!(bundle("bundle").await.assert_done(), "done\n");
        for (name, words) in [
            ("garbage", ""),
            ("empty", "no certificate"),
            ("missing", "No such file"),
        ] {
            let ended = bundle(name).await;
            ended.assert_refused(69, &["given by AWS_CA_BUNDLE", words]);
        }
        cloud.run(line).await.assert_refused(69, &["AWS_CA_BUNDLE"]);
    });
}

/// A turn within a turn, each with its own flags and variables. The inner one does not wait.
async fn nested(home: &Home, outer: (&str, &str), inner: (&str, &str)) -> Said {
    let ((outer, around), (inner, within)) = (outer, inner);
    let script = format!(
        "env -u AWS_REGION {within} \"$0\" run --table locks --wait none {inner} a -- echo done"
    );
    let mut line = words(&format!("run --quiet --table locks {outer} a -- sh -c"));
    line.extend([script, PROGRAM.to_owned()]);
    let mut command = fairlock(home.path(), &line);
    let around = around.split(' ').filter_map(|pair| pair.split_once('='));
    command.envs([KEY, SECRET]).envs(around);
    finished(command).await
}

#[test]
fn two_commands_are_at_one_table_if_what_their_configurations_come_to_is_the_same() {
    real_time(async {
        let (one, other) = (
            ServedEngine::new(Wire::Tcp).await,
            ServedEngine::new(Wire::Tcp).await,
        );
        let (one, other) = (one.url().await, other.url().await);
        let home = Home::empty();
        home.make_dir(".aws");
        let keys = "aws_access_key_id = x\naws_secret_access_key = y";
        let profiles = format!(
            "[profile p]\nregion = test\nendpoint_url = {one}\n{keys}\n[profile s]\nregion = test\nservices = s\n{keys}\n\
             [services s]\ndynamodb =\n  endpoint_url = {one}\n"
        );
        home.write(".aws/config", profiles);
        let without = "env -u AWS_ENDPOINT_URL -u AWS_ENDPOINT_URL_DYNAMODB env";
        let named = |text: &str| {
            let text = text.replace("FLAG", "--endpoint-url ONE");
            let text = text.replace("GENERAL", "AWS_REGION=test AWS_ENDPOINT_URL=ONE");
            let text = text.replace("SPECIAL", "AWS_REGION=test AWS_ENDPOINT_URL_DYNAMODB=ONE");
            let text = text.replace("WITHOUT", without);
            text.replace("ONE", &one).replace("OTHER", &other)
        };
        // The flags and the variables of the outer command, and those of the inner one.
        const ALIKE: &str = "
            FLAG | AWS_REGION=test | FLAG  | AWS_DEFAULT_REGION=test
            FLAG | AWS_REGION=test |       | GENERAL
                 | SPECIAL         | FLAG  | AWS_DEFAULT_REGION=test
                 | GENERAL         |       | SPECIAL
            FLAG | AWS_REGION=test | FLAG/ | AWS_REGION=test
            FLAG | AWS_REGION=test |       | WITHOUT AWS_PROFILE=p
                 | SPECIAL         |       | WITHOUT AWS_PROFILE=s
        ";
        for case in rows(ALIKE) {
            let [outer, around, inner, within] = &case.map(named);
            let ended = nested(&home, (outer, around), (inner, within)).await;
            ended.assert_ended(75, &["--nested"]);
        }
        const APART: &str = "
            | SPECIAL |                   | AWS_REGION=test AWS_ENDPOINT_URL_DYNAMODB=OTHER
            | SPECIAL | --namespace other | SPECIAL
        ";
        for case in rows(APART) {
            let [outer, around, inner, within] = &case.map(named);
            let ended = nested(&home, (outer, around), (inner, within)).await;
            assert_eq!(ended.assert_done(), "done\n");
        }
        // The table is the same here, so the lock is held: but not by the command around it, as far as it can know.
        let [one, other] = ["123456789012", "210987654321"]
            .map(|id| named(&format!("SPECIAL AWS_ACCOUNT_ID={id}")));
        let ended = nested(&home, ("", &one), ("", &other)).await;
        assert_eq!(ended.code, Some(75), "{ended:?}");
        assert!(!ended.err.contains("--nested"), "{ended:?}");
    });
}
