//! Where `fairlock run --metrics` shows what the library counts: over HTTP at an address, or in a file for node_exporter.

use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::future::pending;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::str::FromStr;
use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::sleep;

use crate::failure::{Failure, say};

/// How often the file is written.
const EVERY: Duration = Duration::from_secs(10);
/// How long this process waits for a file that it writes. A disk may be slow, and neither a lease nor the end may stand still for that.
const WRITING: Duration = Duration::from_secs(2);
/// The only files that node_exporter reads.
const EXTENSION: &str = "prom";

/// What `--metrics` names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// Prometheus reads them here over HTTP.
    Address(SocketAddr),
    /// The textfile collector of node_exporter reads this file.
    File(PathBuf),
}

impl FromStr for Target {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse::<SocketAddr>() {
            Ok(at) if at.port() == 0 => {
                return Err("Prometheus must know the port: name one, such as 9464");
            }
            Ok(at) => return Ok(Target::Address(at)),
            Err(_) => {}
        }
        let file = PathBuf::from(text);
        match file.extension() == Some(OsStr::new(EXTENSION)) {
            true => Ok(Target::File(file)),
            false => Err(
                "neither an address such as 127.0.0.1:9464, nor a file whose name ends in .prom",
            ),
        }
    }
}

type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Shows the metrics of this process for as long as it works.
pub(crate) enum Exporter {
    Nowhere,
    Http(Serving),
    File(PathBuf, PrometheusHandle),
}

impl Exporter {
    /// Has the metrics recorded from now on. Fails if the address cannot be listened at, or if the file cannot be written.
    pub(crate) async fn start(target: Option<&Target>) -> Result<Exporter, Failure> {
        let Some(target) = target else {
            return Ok(Exporter::Nowhere);
        };
        let builder = buckets().map_err(internal)?;
        match target {
            Target::Address(at) => {
                let cannot = |error| {
                    let text = format!(
                        "cannot show metrics at {at}: {error}: name another with --metrics"
                    );
                    Failure::misuse(text)
                };
                let built = builder.with_http_listener(*at).build();
                let (recorder, serving) = built.map_err(cannot)?;
                metrics::set_global_recorder(recorder).map_err(internal)?;
                let serving = async move {
                    if let Err(error) = serving.await {
                        say(&format!("shows no metrics any more: {error:?}"));
                    }
                };
                Ok(Exporter::Http(Box::pin(serving)))
            }
            Target::File(file) => {
                let recorder = builder.build_recorder();
                let handle = recorder.handle();
                metrics::set_global_recorder(recorder).map_err(internal)?;
                written(file, handle.render()).await.map_err(|error| {
                    let file = file.display();
                    let text = format!(
                        "cannot write metrics to {file}: {error}: name another file with --metrics"
                    );
                    Failure::misuse(text)
                })?;
                Ok(Exporter::File(file.clone(), handle))
            }
        }
    }

    /// Does the work, and shows its metrics meanwhile. Afterwards a file has what was counted to the end.
    pub(crate) async fn beside<T: Send>(mut self, work: impl Future<Output = T> + Send) -> T {
        let mut work = pin!(work);
        let done = tokio::select! {
            biased;
            done = &mut work => done,
            never = self.shows() => match never {},
        };
        if let Exporter::File(file, handle) = &self {
            tell(file, written(file, handle.render()).await);
        }
        done
    }

    /// Each turn of the loop writes the file once. The caller ends it.
    async fn shows(&mut self) -> Infallible {
        match self {
            Exporter::Nowhere => {}
            Exporter::Http(serving) => serving.await,
            Exporter::File(file, handle) => {
                let mut is_told = false;
                loop {
                    sleep(EVERY).await;
                    let ended = written(file, handle.render()).await;
                    let failed = ended.is_err();
                    if !is_told {
                        tell(file, ended);
                    }
                    is_told = failed;
                }
            }
        }
        pending().await
    }
}

fn tell(file: &Path, written: io::Result<()>) {
    if let Err(error) = written {
        say(&format!(
            "cannot write metrics to {}: {error}",
            file.display()
        ));
    }
}

/// Histograms, not summaries: Prometheus can add histograms up over processes.
fn buckets() -> Result<PrometheusBuilder, BuildError> {
    fairlock::metric_buckets().try_fold(PrometheusBuilder::new(), |builder, (metric, bounds)| {
        builder.set_buckets_for_metric(Matcher::Full(metric.into()), bounds)
    })
}

fn internal(error: impl std::fmt::Display) -> Failure {
    Failure::internal(format!("cannot record metrics: {error}"))
}

/// Writes the file in a thread of its own, and waits for that no longer than `WRITING`.
#[expect(
    clippy::disallowed_methods,
    reason = "a slow disk must not keep the lease from being renewed"
)]
async fn written(file: &Path, text: String) -> io::Result<()> {
    let file = file.to_owned();
    let writing = tokio::task::spawn_blocking(move || write(&file, &text));
    tokio::select! {
        biased;
        written = writing => written.unwrap_or_else(|failed| Err(io::Error::other(failed))),
        () = sleep(WRITING) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// Writes the text under another name in the same folder, which node_exporter does not read, and renames it.
fn write(file: &Path, text: &str) -> io::Result<()> {
    let folder = file.parent().filter(|folder| *folder != Path::new(""));
    let mut whole = tempfile::Builder::new();
    // The umask decides as for any other file: node_exporter, which runs as another user, must read it.
    let whole = whole
        .prefix(".fairlock-")
        .suffix(".tmp")
        .permissions(Permissions::from_mode(0o666));
    let mut whole = whole.tempfile_in(folder.unwrap_or(Path::new(".")))?;
    whole.write_all(text.as_bytes())?;
    whole.persist(file).map(drop).map_err(|failed| failed.error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_an_address_with_a_port_or_a_file_that_node_exporter_reads() {
        let at = |text: &str| Ok(Target::Address(text.parse().unwrap()));
        let file = |text: &str| Ok(Target::File(text.into()));
        assert_eq!("127.0.0.1:9464".parse(), at("127.0.0.1:9464"));
        assert_eq!("[::1]:9464".parse(), at("[::1]:9464"));
        assert_eq!("/var/lib/x/a.prom".parse(), file("/var/lib/x/a.prom"));
        assert_eq!("a.prom".parse(), file("a.prom"));
        for wrong in [
            "",
            ".prom",
            "127.0.0.1",
            "127.0.0.1:0",
            "localhost:9464",
            "9464",
            "/tmp/a.txt",
            "a.prom.tmp",
        ] {
            let target = wrong.parse::<Target>();
            assert!(target.is_err(), "{wrong}: {target:?}");
        }
    }
}
