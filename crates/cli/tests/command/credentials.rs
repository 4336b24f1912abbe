//! Credentials that come late, fail at first, expire or are corrected: what `run` makes of them, over HTTP.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock::embedded::Fault;
use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::command::{Said, fairlock, words};
use crate::served::{Cloud, finished};

/// The profile whose credentials a program gives.
const PROCESS: &[(&str, &str)] = &[("AWS_PROFILE", "process")];

/// A served engine. `script` is the program that gives credentials, and notes that it ran.
async fn cloud(script: &str) -> Cloud {
    with_program(Cloud::new().await, script)
}

fn with_program(cloud: Cloud, script: &str) -> Cloud {
    let program = format!("#!/bin/sh\necho ran >> \"$HOME/ran\"\n{script}\n");
    cloud.home.write_script("program", &program);
    cloud.home.make_dir(".aws");
    let config = "[profile process]\ncredential_process = \"$HOME/program\"\n\
                  [profile chain]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = source\n\
                  [profile source]\naws_access_key_id = x\naws_secret_access_key = y\n\
                  [profile login]\nlogin_session = arn:aws:iam::123456789012:user/u\n";
    cloud.home.write(".aws/config", config);
    cloud
}

impl Cloud {
    fn sh(&self, flags: &str, script: &str, environment: &[(&str, &str)]) -> Command {
        let mut line = words(&format!("run {flags} a -- sh -c"));
        line.push(script.to_owned());
        let mut command = self.placed(fairlock(self.home.path(), &line));
        command.envs(environment.iter().copied());
        command
    }

    async fn run_sh(&self, flags: &str, script: &str, environment: &[(&str, &str)]) -> Said {
        finished(self.sh(flags, script, environment)).await
    }

    /// Runs with what `mend` mends as soon as the command has told that it goes on trying. Returns what it told.
    async fn mended(
        &self,
        flags: &str,
        environment: &[(&str, &str)],
        mend: impl Future<Output = ()>,
    ) -> String {
        let mut command = self.sh(flags, "echo done", environment);
        let told = std::fs::File::create(self.home.file("told")).unwrap();
        let waits = command.stdout(Stdio::piped()).stderr(told).spawn().unwrap();
        let told = || self.home.read("told");
        while !told().contains("goes on trying") {
            sleep(Duration::from_millis(20)).await;
        }
        mend.await;
        let ended = spawn_blocking(move || waits.wait_with_output().unwrap());
        assert_eq!(ended.await.unwrap().stdout, b"done\n", "{}", told());
        told()
    }

    /// How often the program ran.
    fn ran(&self) -> usize {
        self.home.read("ran").lines().count()
    }
}

const GIVES: &str = r#"echo '{"Version":1,"AccessKeyId":"test","SecretAccessKey":"test"}'"#;

/// A server of credentials, as those of containers, of instances and of roles. It answers with an error until it is mended.
struct Credentialer {
    url: String,
    is_mended: Arc<AtomicBool>,
}

impl Credentialer {
    fn start() -> Self {
        Credentialer::at("127.0.0.1:0", "503 Service Unavailable", Duration::ZERO)
    }

    /// It takes its time for each answer.
    fn at(address: &str, error: &'static str, delay: Duration) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let is_mended = Arc::new(AtomicBool::new(false));
        let is_well = Arc::clone(&is_mended);
        std::thread::spawn(move || {
            for mut connection in listener.incoming().map_while(Result::ok) {
                let mut bytes = [0; 65536];
                let length = connection.read(&mut bytes).unwrap_or_default();
                let request = String::from_utf8_lossy(&bytes[..length]).into_owned();
                let (status, body) = match is_well.load(Ordering::SeqCst) {
                    true => ("200 OK", answer(&request)),
                    false => (error, String::new()),
                };
                std::thread::sleep(delay);
                let (ttl, length) = ("x-aws-ec2-metadata-token-ttl-seconds: 600", body.len());
                let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n{ttl}");
                let _ = write!(
                    connection,
                    "{head}\r\nContent-Length: {length}\r\n\r\n{body}"
                );
            }
        });
        Credentialer { url, is_mended }
    }

    /// The variables by which a process asks it, as a process of this kind does.
    fn environment(&self, kind: &str) -> Vec<(&'static str, &str)> {
        let url = self.url.as_str();
        match kind {
            "container" => vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)],
            "instance" => vec![
                ("AWS_EC2_METADATA_DISABLED", "false"),
                ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url),
            ],
            _ => vec![("AWS_PROFILE", "chain"), ("AWS_ENDPOINT_URL_STS", url)],
        }
    }
}

fn answer(request: &str) -> String {
    let line = request.lines().next().unwrap_or_default();
    let json = r#"{"Code":"Success","Type":"AWS-HMAC","LastUpdated":"2026-01-01T00:00:00Z","AccessKeyId":"test",
                   "SecretAccessKey":"test","Token":"t","Expiration":"2099-01-01T00:00:00Z"}"#;
    let xml = "<AssumeRoleResponse><AssumeRoleResult><AssumedRoleUser><AssumedRoleId>i:s</AssumedRoleId>\
               <Arn>arn:aws:sts::123456789012:assumed-role/r/s</Arn></AssumedRoleUser><Credentials>\
               <AccessKeyId>test</AccessKeyId><SecretAccessKey>test</SecretAccessKey><SessionToken>t</SessionToken>\
               <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>";
    match line {
        line if line.contains("/latest/api/token") => "token".to_owned(),
        line if line.contains("/security-credentials/ ") => "role".to_owned(),
        line if line.starts_with("POST") => xml.to_owned(),
        _ => json.to_owned(),
    }
}

#[test]
fn credentials_that_expire_under_a_hold_are_renewed_by_a_slow_program_and_nothing_is_lost() {
    real_time(async {
        let expiry = r#"date -u -d '+6 seconds' +%Y-%m-%dT%H:%M:%SZ"#;
        let gives = format!(
            r#"sleep 1; echo "{{\"Version\":1,\"AccessKeyId\":\"test\",\"SecretAccessKey\":\"test\",\"SessionToken\":\"t\",\"Expiration\":\"$({expiry})\"}}""#
        );
        let cloud = cloud(&gives).await;
        let script = "sleep 12; echo held";
        let ended = cloud.run_sh("--quiet --lease 6s", script, PROCESS).await;
        assert_eq!(ended.assert_done(), "held\n");
        assert!(cloud.ran() >= 3, "{}", cloud.ran());
    });
}

#[test]
fn an_endpoint_of_credentials_that_is_out_of_order_is_waited_for_and_told_once() {
    real_time(async {
        let cloud = cloud("exit 1").await;
        for kind in ["container", "instance", "chain"] {
            let endpoint = Credentialer::start();
            let names = endpoint.environment(kind);
            let ended = cloud.run_sh("--wait none", "echo done", &names).await;
            ended.assert_refused(69, &["no AWS credentials"]);
            let ended = cloud.run_sh("--wait 2s", "echo done", &names).await;
            ended.assert_said(69, "");
            let told = cloud.mended("--wait 60s", &names, async {
                endpoint.is_mended.store(true, Ordering::SeqCst);
            });
            assert_eq!(told.await.lines().count(), 1, "{kind}");
        }
    });
}

/// Of a client that gives up after a second nothing would come.
#[test]
fn a_metadata_service_that_is_slow_is_waited_for_and_that_is_told() {
    real_time(async {
        let cloud = cloud("exit 1").await;
        let slow = Credentialer::at("127.0.0.1:0", "", Duration::from_secs(2));
        slow.is_mended.store(true, Ordering::SeqCst);
        for wait in ["none", "60s"] {
            let (flags, names) = (format!("--wait {wait}"), slow.environment("instance"));
            let ended = cloud.run_sh(&flags, "echo done", &names).await;
            ended.assert_said(0, "done\n");
            ended.assert_ended(0, &["waits for AWS credentials"]);
            assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
        }
    });
}

#[test]
fn a_metadata_service_that_is_named_and_refuses_connections_at_first_is_waited_for() {
    real_time(comes_late(false));
}

#[test]
fn a_metadata_service_that_has_no_role_at_first_is_waited_for() {
    real_time(comes_late(true));
}

/// What an instance that starts lacks may come later than any wrong configuration is waited for.
async fn comes_late(is_there: bool) {
    let cloud = cloud("exit 1").await;
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let address = free.unwrap().to_string();
    let url = format!("http://{address}");
    let start = || Credentialer::at(&address, "404 Not Found", Duration::ZERO);
    let service = is_there.then(start);
    let names = [
        ("AWS_EC2_METADATA_DISABLED", "false"),
        ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.as_str()),
    ];
    let told = cloud.mended("--wait 100s", &names, async {
        sleep(Duration::from_secs(22)).await;
        let service = service.unwrap_or_else(start);
        service.is_mended.store(true, Ordering::SeqCst);
    });
    let (told, words) = (told.await, format!("the metadata service at {url}: "));
    assert!(told.contains(&words), "{told}");
}

#[test]
fn credentials_that_another_program_writes_are_waited_for() {
    real_time(async {
        let cloud = cloud("exit 1").await;
        let written = "[default]\naws_access_key_id = x\naws_secret_access_key = y\n";
        let mend = async { cloud.home.write(".aws/credentials", written) };
        cloud.mended("--wait 60s", &[], mend).await;
    });
}

#[test]
fn a_program_that_is_slow_is_told_unless_a_command_is_to_be_quiet() {
    real_time(async {
        let cloud = cloud(&format!("sleep 6; {GIVES}")).await;
        for (flags, times) in [("--wait none", 1), ("--wait 60s", 1), ("--quiet", 0)] {
            let ended = cloud.run_sh(flags, "echo done", PROCESS).await;
            ended.assert_said(0, "done\n");
            let words = "waits for AWS credentials (profile `process` of AWS_PROFILE)";
            assert_eq!(ended.err.matches(words).count(), times, "{ended:?}");
            assert!(times > 0 || ended.err.is_empty(), "{ended:?}");
        }
        // Though it takes longer than many attempts.
        assert_eq!(cloud.ran(), 3);
    });
}

#[test]
fn a_program_that_is_corrected_while_a_command_waits_ends_its_wait() {
    real_time(async {
        let cloud = cloud(&format!("[ -e \"$HOME/signed-in\" ] || exit 1; {GIVES}")).await;
        let mend = async { cloud.home.write("signed-in", "") };
        cloud.mended("--wait 60s", PROCESS, mend).await;
    });
}

#[test]
fn credentials_that_are_rejected_are_asked_for_again_until_they_are_right() {
    real_time(async {
        let is_right = Arc::new(AtomicBool::new(false));
        let is_taken = Arc::clone(&is_right);
        let place = ServedEngine::before(Wire::Tcp, true, |network| {
            network.script(move |request| {
                let is_of_a_lock = !["ListTables", "CreateTable"].contains(&request.operation());
                let is_refused = is_of_a_lock && !is_taken.load(Ordering::SeqCst);
                is_refused.then_some(Fault::Refuse("UnrecognizedClientException"))
            })
        });
        let cloud = with_program(Cloud::at(place.await).await, GIVES);
        let mut command = cloud.sh("--wait 90s --quiet", "echo done", PROCESS);
        let waits = command.stdout(Stdio::piped()).spawn().unwrap();
        while cloud.ran() < 2 {
            sleep(Duration::from_millis(20)).await;
        }
        is_right.store(true, Ordering::SeqCst);
        let ended = spawn_blocking(move || waits.wait_with_output().unwrap());
        assert_eq!(ended.await.unwrap().stdout, b"done\n");
    });
}

#[test]
fn a_profile_that_signs_in_with_the_aws_cli_is_told_the_line_that_works() {
    real_time(async {
        let cloud = cloud("exit 1").await;
        let login = [("AWS_PROFILE", "login")];
        let ended = cloud.run_sh("--wait none", "true", &login).await;
        let line = "`credential_process = aws configure export-credentials --profile login --format process`";
        ended.assert_refused(69, &["`aws login`", line]);
        assert!(!ended.err.contains("feature"), "{ended:?}");
    });
}
