//! A served engine, and commands that find their locks there, or nowhere.

use std::net::TcpListener;
use std::process::Command;

use fairlock_testkit::wire::Wire;
use fairlock_testkit::wire::served_engine::ServedEngine;
use tokio::task::spawn_blocking;

use crate::command::{Said, said};
use crate::home::Home;

pub(crate) const REGION: (&str, &str) = ("AWS_REGION", "eu-west-1");
pub(crate) const KEY: (&str, &str) = ("AWS_ACCESS_KEY_ID", "test");
pub(crate) const SECRET: (&str, &str) = ("AWS_SECRET_ACCESS_KEY", "test");
pub(crate) const AWS: [(&str, &str); 3] = [REGION, KEY, SECRET];

pub(crate) struct Cloud {
    pub(crate) place: ServedEngine,
    pub(crate) url: String,
    pub(crate) home: Home,
}

impl Cloud {
    pub(crate) async fn new() -> Cloud {
        Cloud::at(ServedEngine::new(Wire::Tcp).await).await
    }

    pub(crate) async fn at(place: ServedEngine) -> Cloud {
        let (url, home) = (place.url().await, Home::empty());
        Cloud { place, url, home }
    }

    /// Tells a command where its locks are, and not yet who may use them.
    pub(crate) fn placed(&self, mut command: Command) -> Command {
        let place = [
            ("FAIRLOCK_TABLE", "locks"),
            ("FAIRLOCK_ENDPOINT_URL", &self.url),
        ];
        command.envs(place).env("AWS_REGION", "eu-west-1");
        command
    }

    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = self.placed(self.home.bare(line));
        command.envs(AWS);
        command
    }

    /// Runs to the end while the server answers.
    pub(crate) async fn run(&self, line: &str) -> Said {
        finished(self.command(line)).await
    }
}

pub(crate) async fn finished(mut command: Command) -> Said {
    spawn_blocking(move || said(&mut command)).await.unwrap()
}

/// An address of this machine where nobody answers, so that no test leaves it.
pub(crate) fn nobody() -> String {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    nobody.local_addr().unwrap().to_string()
}
