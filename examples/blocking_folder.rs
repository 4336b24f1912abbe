//! Three synchronous workers take the files of one folder in turn, without a runtime and without `async`.
//! `cargo run --example blocking_folder`
//! In production each worker is a process, and makes its client with `fairlock::blocking::LockClient::connect`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io, thread};

use aws_sdk_dynamodb::Client;
use fairlock::RecordWait;
use fairlock::blocking::{LockClient, LockGuard};
use fairlock::embedded::Engine;

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Done<()> {
    let folder = tempfile::tempdir()?;
    for n in 1..=6 {
        fs::write(folder.path().join(format!("{n}.txt")), "word ".repeat(n))?;
    }
    let dynamodb = Engine::memory()?.client();
    let locks = LockClient::new(fairlock::LockClient::builder(dynamodb.clone()))?;
    locks.create_table()?;

    let workers = (1..=3).map(|number| {
        let (dynamodb, folder) = (dynamodb.clone(), folder.path().to_owned());
        thread::spawn(move || worker(number, dynamodb, &folder))
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.join().map_err(|_| "a worker panicked")??;
    }
    let state = locks.fair_lock("inbox")?.inspect()?;
    let (is_held, waiting) = (state.holder.is_some(), state.waiting);
    println!("the folder is empty; held: {is_held}, waiting: {waiting}");
    Ok(())
}

/// A worker's process, which ends when the folder is empty. Its client releases what it holds when it is dropped, by `?` too.
fn worker(number: u32, dynamodb: Client, folder: &Path) -> Done<()> {
    let name = format!("worker {number}");
    let builder = fairlock::LockClient::builder(dynamodb).owner(&name);
    let locks = LockClient::new(builder)?;
    let lock = locks.fair_lock("inbox")?;
    loop {
        let guard = lock.acquire(RecordWait::Timeout(Duration::from_secs(60)))?;
        let is_done = turn(&name, &guard, folder)?;
        guard.release()?;
        if is_done {
            return Ok(());
        }
    }
}

/// Does the next file. The lease is renewed meanwhile. Returns `true` if there is none.
fn turn(name: &str, guard: &LockGuard, folder: &Path) -> Done<bool> {
    let Some(file) = next_file(folder)? else {
        return Ok(true);
    };
    let words = fs::read_to_string(&file)?.split_whitespace().count();
    // The lock may be lost while the work computes. Its result is then not for this worker to write.
    guard.check()?;
    fs::write(file.with_extension("count"), words.to_string())?;
    fs::remove_file(&file)?;
    let (token, id) = (guard.ticket(), file.file_name().unwrap_or_default());
    println!(
        "{name} counts {words} words in {} under token {token}",
        id.display()
    );
    Ok(false)
}

fn next_file(folder: &Path) -> io::Result<Option<PathBuf>> {
    let files = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path()));
    let files = files.collect::<io::Result<Vec<_>>>()?;
    let texts = files
        .into_iter()
        .filter(|file| file.extension().is_some_and(|ending| ending == "txt"));
    Ok(texts.min())
}
