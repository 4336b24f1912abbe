//! Credentials that come late, fail at first, expire or are corrected: what `run` makes of them, over HTTP.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a helper of a test that cannot go on has failed the test; these tests wait for real processes"
)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fairlock::embedded::Fault;
use fairlock_testkit::real_time;
use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use tempfile::TempDir;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::command::{Said, fairlock, said};

/// A served engine, and a home with a program that gives credentials.
struct Cloud {
    _place: ServedEngine,
    url: String,
    home: TempDir,
}

/// The profile whose credentials a program gives.
const PROCESS: (&str, &str) = ("AWS_PROFILE", "process");

impl Cloud {
    /// `script` is the program, and notes that it ran.
    async fn new(script: &str) -> Cloud {
        Cloud::at(ServedEngine::new(Wire::Tcp).await, script).await
    }

    async fn at(place: ServedEngine, script: &str) -> Cloud {
        let (url, home) = (place.url().await, TempDir::new().unwrap());
        let program = home.path().join("program");
        std::fs::write(
            &program,
            format!("#!/bin/sh\necho ran >> \"$HOME/ran\"\n{script}\n"),
        )
        .unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let config = "[profile process]\ncredential_process = \"$HOME/program\"\n\
                      [profile chain]\nrole_arn = arn:aws:iam::123456789012:role/r\nsource_profile = source\n\
                      [profile source]\naws_access_key_id = x\naws_secret_access_key = y\n\
                      [profile login]\nlogin_session = arn:aws:iam::123456789012:user/u\n";
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        Cloud {
            _place: place,
            url,
            home,
        }
    }

    fn command(&self, flags: &str, script: &str) -> Command {
        let line = format!("run --table locks --endpoint-url {} {flags} a --", self.url);
        let words: Vec<_> = line.split(' ').chain(["sh", "-c", script]).collect();
        let mut command = fairlock(self.home.path(), &words);
        command.env("AWS_REGION", "eu-west-1");
        command
    }

    async fn run(&self, flags: &str, script: &str, environment: &[(&str, &str)]) -> Said {
        let mut command = self.command(flags, script);
        command.envs(environment.iter().copied());
        spawn_blocking(move || said(&mut command)).await.unwrap()
    }

    /// Runs with what `mend` mends as soon as the command has told that it goes on trying. Returns what it told.
    async fn mended(
        &self,
        flags: &str,
        environment: &[(&str, &str)],
        mend: impl Future<Output = ()>,
    ) -> String {
        let (file, mut command) = (
            self.home.path().join("told"),
            self.command(flags, "echo done"),
        );
        command.envs(environment.iter().copied());
        let told = std::fs::File::create(&file).unwrap();
        let waits = command.stdout(Stdio::piped()).stderr(told).spawn().unwrap();
        let told = || std::fs::read_to_string(&file).unwrap();
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
        let ran = std::fs::read_to_string(self.home.path().join("ran"));
        ran.unwrap_or_default().lines().count()
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
    fn environment(&self, kind: &str) -> Vec<(&'static str, String)> {
        let url = &self.url;
        match kind {
            "container" => vec![("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("{url}/creds"))],
            "instance" => vec![
                ("AWS_EC2_METADATA_DISABLED", "false".to_owned()),
                ("AWS_EC2_METADATA_SERVICE_ENDPOINT", url.clone()),
            ],
            _ => vec![
                ("AWS_PROFILE", "chain".to_owned()),
                ("AWS_ENDPOINT_URL_STS", url.clone()),
            ],
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
fn a_program_that_takes_longer_than_an_attempt_is_waited_for_and_runs_once() {
    real_time(async {
        // An attempt takes half a second.
        let cloud = Cloud::new(&format!("sleep 2; {GIVES}")).await;
        for wait in ["none", "30s"] {
            let flags = format!("--quiet --lease 3s --wait {wait}");
            let ended = cloud.run(&flags, "echo done", &[PROCESS]).await;
            assert_eq!(ended.assert_done(), "done\n");
        }
        assert_eq!(cloud.ran(), 2);
    });
}

#[test]
fn credentials_that_expire_under_a_hold_are_renewed_by_a_slow_program_and_nothing_is_lost() {
    real_time(async {
        let expiry = r#"date -u -d '+6 seconds' +%Y-%m-%dT%H:%M:%SZ"#;
        let gives = format!(
            r#"sleep 1; echo "{{\"Version\":1,\"AccessKeyId\":\"test\",\"SecretAccessKey\":\"test\",\"SessionToken\":\"t\",\"Expiration\":\"$({expiry})\"}}""#
        );
        let cloud = Cloud::new(&gives).await;
        let ended = cloud
            .run("--quiet --lease 3s", "sleep 12; echo held", &[PROCESS])
            .await;
        assert_eq!(ended.assert_done(), "held\n");
        assert!(cloud.ran() >= 3, "{}", cloud.ran());
    });
}

#[test]
fn an_endpoint_of_credentials_that_is_out_of_order_is_waited_for_and_told_once() {
    real_time(async {
        let cloud = Cloud::new("exit 1").await;
        for kind in ["container", "instance", "chain"] {
            let endpoint = Credentialer::start();
            let environment = endpoint.environment(kind);
            let names = environment
                .iter()
                .map(|(name, value)| (*name, value.as_str()));
            let names: Vec<_> = names.collect();
            let ended = cloud.run("--wait none", "echo done", &names).await;
            ended.assert_refused(69, &["no AWS credentials"]);
            let ended = cloud.run("--wait 2s", "echo done", &names).await;
            assert_eq!(
                (ended.code, ended.out.as_str()),
                (Some(69), ""),
                "{kind}: {ended:?}"
            );
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
        let cloud = Cloud::new("exit 1").await;
        let slow = Credentialer::at("127.0.0.1:0", "", Duration::from_secs(2));
        slow.is_mended.store(true, Ordering::SeqCst);
        let environment = slow.environment("instance");
        let names = environment
            .iter()
            .map(|(name, value)| (*name, value.as_str()));
        let names: Vec<_> = names.collect();
        for wait in ["none", "60s"] {
            let flags = format!("--wait {wait}");
            let ended = cloud.run(&flags, "echo done", &names).await;
            assert_eq!(ended.out, "done\n", "{ended:?}");
            assert_eq!(ended.err.lines().count(), 1, "{ended:?}");
            assert!(ended.err.contains("waits for AWS credentials"), "{ended:?}");
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
    let cloud = Cloud::new("exit 1").await;
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
        let cloud = Cloud::new("exit 1").await;
        let files = cloud.home.path().join(".aws/credentials");
        let written = "[default]\naws_access_key_id = x\naws_secret_access_key = y\n";
        cloud
            .mended("--wait 60s", &[], async {
                std::fs::write(files, written).unwrap();
            })
            .await;
    });
}

#[test]
fn a_program_that_is_slow_is_told_unless_a_command_is_to_be_quiet() {
    real_time(async {
        let cloud = Cloud::new(&format!("sleep 6; {GIVES}")).await;
        for flags in ["--wait none", "--wait 60s"] {
            let ended = cloud.run(flags, "echo done", &[PROCESS]).await;
            assert_eq!(ended.out, "done\n", "{ended:?}");
            let words = "waits for AWS credentials (profile `process` of AWS_PROFILE)";
            assert_eq!(ended.err.matches(words).count(), 1, "{ended:?}");
        }
        let quiet = cloud.run("--quiet", "echo done", &[PROCESS]).await;
        assert_eq!(quiet.assert_done(), "done\n");
    });
}

#[test]
fn a_program_that_is_corrected_while_a_command_waits_ends_its_wait() {
    real_time(async {
        let script = format!("[ -e \"$HOME/signed-in\" ] || exit 1; {GIVES}");
        let cloud = Cloud::new(&script).await;
        let mend = async { std::fs::write(cloud.home.path().join("signed-in"), "").unwrap() };
        cloud.mended("--wait 60s", &[PROCESS], mend).await;
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
        let cloud = Cloud::at(place.await, GIVES).await;
        let mut command = cloud.command("--wait 90s --quiet", "echo done");
        command.envs([PROCESS]).stdout(Stdio::piped());
        let waits = command.spawn().unwrap();
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
        let cloud = Cloud::new("exit 1").await;
        let ended = cloud
            .run("--wait none", "true", &[("AWS_PROFILE", "login")])
            .await;
        let line = "`credential_process = aws configure export-credentials --profile login --format process`";
        ended.assert_refused(69, &["`aws login`", line]);
        assert!(!ended.err.contains("feature"), "{ended:?}");
    });
}
