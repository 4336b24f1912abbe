//! The thread in which a blocking client does its background work, from the client's first handle to its last.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::mem;
use std::process;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use super::context;
use crate::lock::client::{LockClient, LockClientBuilder};
use crate::vocabulary::error::{Closed, Error, Invalid};

/// How long the end of the thread waits for work that no runtime can stop, such as a lookup of a host's name.
const LOOKUPS: Duration = Duration::from_secs(1);

/// A handle to the thread. The last one ends it.
#[derive(Clone)]
pub(super) struct ClientThread(Arc<Inner>);

struct Inner {
    handle: Handle,
    /// The process of the thread. A process that was forked from it has copies of the handles, and no such thread.
    process: u32,
    ends: Option<Ends>,
}

/// What the last handle ends.
struct Ends {
    /// Dropped to end the thread.
    last_handle: oneshot::Sender<Infallible>,
    thread: JoinHandle<()>,
    client: Option<oneshot::Sender<LockClient>>,
}

impl ClientThread {
    /// Starts a thread that has no client yet.
    pub(super) fn start() -> Result<Self, Invalid> {
        let no_thread = |error: io::Error| {
            Invalid::new(format!(
                "a blocking lock client needs a thread of its own, which could not be started: {error}"
            ))
        };
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let runtime = Owned(Some(runtime));
        let (last_handle, ended) = oneshot::channel();
        let (client, given) = oneshot::channel();
        let thread = thread::Builder::new().name("fairlock".to_owned());
        let thread = thread.spawn(move || run(runtime, given, ended));
        let ends = Ends {
            last_handle,
            thread: thread.map_err(no_thread)?,
            client: Some(client),
        };
        let ends = Some(ends);
        let process = process::id();
        Ok(ClientThread(Arc::new(Inner {
            handle,
            process,
            ends,
        })))
    }

    /// Builds the client, whose background work then runs in this thread.
    pub(super) fn build(&mut self, builder: LockClientBuilder) -> Result<LockClient, Error> {
        let _inside = self.0.handle.enter();
        let client = builder.build()?;
        let inner = Arc::get_mut(&mut self.0).and_then(|inner| inner.ends.as_mut());
        if let Some(tell) = inner.and_then(|ends| ends.client.take()) {
            // The thread waits for it for as long as there is a handle.
            let _ = tell.send(client.clone());
        }
        Ok(client)
    }

    /// Polls a future in the calling thread. Its connections and timers are those of the client's thread.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        context::check()?;
        self.check_process()?;
        let _inside = self.0.handle.enter();
        Ok(pollster::block_on(work))
    }

    /// Refuses a process in which no thread would wake the caller.
    pub(super) fn check_process(&self) -> Result<(), Error> {
        match self.0.process == process::id() {
            true => Ok(()),
            false => Err(Error::ShutDown(Closed::NoRuntime)),
        }
    }
}

/// Runs the background work of a client, and ends it with the last handle as a scope ends: releases, leaves, and warns of what is not done.
fn run(
    mut runtime: Owned,
    client: oneshot::Receiver<LockClient>,
    ended: oneshot::Receiver<Infallible>,
) {
    let Some(runtime) = runtime.0.take() else {
        return;
    };
    runtime.block_on(async {
        // If the settings were refused, no client comes.
        if let Ok(client) = client.await {
            let until_the_last_handle = async |_: &LockClient| drop(ended.await);
            client.scope(until_the_last_handle).await;
        }
    });
    runtime.shutdown_timeout(LOOKUPS);
}

/// A runtime on its way to its thread. If the system starts no thread, it is dropped where it is, in async code too.
struct Owned(Option<Runtime>);

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(ends) = self.ends.take() else { return };
        if self.process != process::id() {
            // The thread is not here to be waited for, and it may have had locks of the runtime when this process was forked.
            return mem::forget(ends);
        }
        drop((ends.last_handle, ends.client));
        // Async code must not wait, nor must the thread wait for itself, where an observer may drop the last handle. The thread ends as well
        // if no other thread waits for it.
        let is_the_thread = ends.thread.thread().id() == thread::current().id();
        if !is_the_thread && context::may_block() {
            // An error would be a panic of the thread, which runs no code of the caller's but in tasks.
            let _ = ends.thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_forked_is_refused_and_waits_for_no_thread() {
        fairlock_testkit::blocking(|| {
            let mut thread = ClientThread::start().unwrap();
            Arc::get_mut(&mut thread.0).unwrap().process = 0;
            let refused = thread.block_on(std::future::pending::<()>());
            assert!(matches!(refused, Err(Error::ShutDown(Closed::NoRuntime))));
            // The thread ends with no handle that the forked process drops, so a drop that waits does not return.
            drop(thread);
        });
    }
}
