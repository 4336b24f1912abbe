//! `fairlock`: a fair lock for any program.
//!
//! This program contains the arguments, signals, exit codes and progress output. It has no lock logic of its own: it only uses the
//! library's public API.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the command `fairlock` needs Linux, where it can find every process that a command has started"
);

mod args;
mod bench;
mod cloud;
mod command_line;
mod completions;
mod connect;
mod credentials;
mod data;
mod demo;
mod doctor;
mod endpoint;
mod environment;
mod explain;
mod failure;
mod hold;
mod intervene;
mod ipc;
mod json_page;
mod lease;
mod local_file;
mod location;
mod ls;
mod metadata;
mod metrics;
mod notify;
mod output;
mod process_tree;
mod prompt;
mod request_meter;
mod run;
mod serve;
mod show;
mod signals;
mod stderr_thread;
mod supervisor;
mod sweep;
mod table;
mod table_advice;
mod table_identity;
mod text;
#[cfg(feature = "top")]
mod top;
mod trust;

use std::fs::File;
use std::io::IsTerminal;
use std::process::ExitCode;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt, registry};

use args::Command;
use failure::Failure;

/// More files than a runtime and its signal handling need.
const FILES: usize = 18;

fn main() -> ExitCode {
    if let Err(failure) = signals::outlive_long_files() {
        return failure.tell();
    }
    let args = match command_line::read() {
        Ok(args) => args,
        Err(error) => return args::refuse(&error),
    };
    log();
    let ended = may_open_enough().and_then(|()| match args.command {
        Command::Run(options) => run::run(options),
        Command::Hold(options) => hold::hold(options),
        Command::Holder(options) => hold::holder(&options),
        Command::Data { what } => data::data(what),
        Command::Lease { what } => lease::lease(what),
        Command::Sweep(options) => sweep::sweep(options),
        Command::Doctor(options) => on_runtime(doctor::doctor(options)),
        Command::Completions(options) => completions::completions(&options),
        Command::Man(options) => completions::man(&options),
        Command::Table { what } => on_runtime(table::table(what)),
        Command::Show(options) => on_runtime(show::show(options)),
        Command::Ls(options) => on_runtime(ls::ls(options)),
        Command::Ask(options) => on_runtime(intervene::ask(options)),
        Command::Delete(options) => on_runtime(intervene::delete(options)),
        Command::Resize(options) => on_runtime(intervene::resize(options)),
        Command::Break(options) => on_runtime(intervene::break_hold(options)),
        #[cfg(feature = "top")]
        Command::Top(options) => top::top(options),
        Command::Serve(options) => serve::serve(options),
        Command::Bench(options) => bench::bench(options),
        Command::Demo(options) => demo::demo(&options),
        Command::DemoWorker(options) => on_runtime(demo::work(options)),
        Command::Supervisor(options) => supervisor::guard(options),
    });
    let code = ended.unwrap_or_else(|failure| failure.tell());
    stderr_thread::finish();
    code
}

/// A runtime that runs out of files while it starts panics. This check reports the problem instead.
fn may_open_enough() -> Result<(), Failure> {
    let opened: std::io::Result<Vec<File>> = (0..FILES).map(|_| File::open("/dev/null")).collect();
    opened.map(drop).map_err(|error| {
        Failure::internal(format!(
            "cannot start: {error}: allow it {FILES} more than it has open (ulimit -n)"
        ))
    })
}

/// Logs on standard error, if the environment asks for it by `RUST_LOG`.
fn log() {
    let Some(asked) = environment::set("RUST_LOG") else {
        return;
    };
    match asked.parse::<Targets>() {
        Ok(targets) => {
            let log = fmt::layer()
                .with_writer(|| stderr_thread::Log)
                .with_ansi(std::io::stderr().is_terminal());
            registry().with(log.with_filter(targets)).init();
        }
        Err(error) => failure::say(&format!(
            "nothing is logged: RUST_LOG={asked}: {error}: write it as `info` or `fairlock=debug,aws_smithy_runtime=warn`"
        )),
    }
}

/// Runs the work to its end on this thread alone. A request that still waits for a busy file is left behind.
fn on_runtime<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Failure::internal(format!("cannot start: {error}")))?;
    let ended = runtime.block_on(work);
    runtime.shutdown_background();
    ended
}
