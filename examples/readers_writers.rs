//! Readers of a file share a lock, and a writer holds it alone: no reader sees a file that is half written.
//! `cargo run --example readers_writers`
//! In production each host uses `aws_sdk_dynamodb::Client::new(&aws_config::load_from_env().await)`.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use fairlock::embedded::Engine;
use fairlock::{LockClient, LockGuard, RecordWait};
use tokio::sync::Barrier;
use tokio::time::sleep;

type Done = Result<(), Box<dyn Error>>;
const WAIT: RecordWait = RecordWait::Timeout(Duration::from_secs(60));

#[tokio::main(flavor = "current_thread")]
async fn main() -> Done {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("prices");
    let dynamodb = Engine::memory()?.client();
    let host = |name: &str| LockClient::builder(dynamodb.clone()).owner(name).build();
    let (writer, editor) = (host("writer")?, host("editor")?);
    writer.create_table().await?;
    let readers = [host("reader 1")?, host("reader 2")?, host("reader 3")?];

    let mut guard = writer.fair_lock("prices")?.acquire(WAIT).await?;
    write("writer", 1, &guard, &file).await?;
    let hasty = readers[0].fair_lock("prices")?.try_acquire_shared().await?;
    let is_let_in = hasty.is_some();
    println!("while the writer holds the lock, a reader is let in: {is_let_in}");

    // It opens when the writer and three readers have come, so all four hold the lock at the same time.
    let together = Barrier::new(4);
    let readers = (1..).zip(&readers);
    let readers = readers.map(|(n, locks)| read(n, locks, &file, &together));
    let rest = async {
        // The writer goes on as a reader of its own edition: no other writer comes in between.
        guard.downgrade().await?;
        together.wait().await;
        let token = guard.ticket();
        println!("the writer shares the lock with three readers under token {token}");
        guard.release().await?;
        // This writer waits until the last reader has released.
        let guard = editor.fair_lock("prices")?.acquire(WAIT).await?;
        write("editor", 2, &guard, &file).await?;
        guard.release().await?;
        Done::Ok(())
    };
    let (read, rest) = tokio::join!(futures::future::join_all(readers), rest);
    read.into_iter().collect::<Done>()?;
    rest?;

    let state = editor.fair_lock("prices")?.inspect().await?;
    let (is_held, waiting) = (state.holder.is_some(), state.waiting);
    println!("the file is whole; held: {is_held}, waiting: {waiting}");
    Ok(())
}

/// Writes in two steps. Between them the file must not be read.
async fn write(name: &str, edition: u32, guard: &LockGuard, file: &Path) -> Done {
    let token = guard.ticket();
    println!("{name} writes edition {edition} under token {token}");
    let steps = async {
        fs::write(file, "half of an edition")?;
        sleep(Duration::from_millis(50)).await;
        fs::write(file, format!("edition {edition}"))
    };
    tokio::select! {
        lost = guard.lost() => Err(lost.into()), // stop: another writer may be at the file
        written = steps => Ok(written?),
    }
}

async fn read(n: u32, locks: &LockClient, file: &Path, together: &Barrier) -> Done {
    let guard = locks.fair_lock("prices")?.acquire_shared(WAIT).await?;
    let token = guard.ticket();
    let reading = async {
        together.wait().await;
        fs::read_to_string(file)
    };
    let text = guard.run(reading).await?.into_result()??;
    println!("reader {n} reads {text} under token {token}");
    Ok(())
}
