//! Writes standard error in a thread of its own. Its reader may not read, and neither a wait nor a lease may stand still for that.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// How long a caller that has more to do waits until its text is written. The text should come before what a command prints that starts
/// next.
pub(crate) const SOON: Duration = Duration::from_millis(50);
/// How long this program waits for that at its end if it ends with an error. The reader may be slow.
pub(crate) const AT_LAST: Duration = Duration::from_secs(5);
/// How long this program waits for that at its end if it has nothing more to print.
const IN_PASSING: Duration = Duration::from_millis(250);
/// How many unread texts are kept. Further texts are dropped.
const KEPT: usize = 256;

/// A text, and a channel that reports when it is written.
type Said = (Vec<u8>, Option<Sender<()>>);

static TELLER: OnceLock<Option<SyncSender<Said>>> = OnceLock::new();

/// Returns the thread's channel. Returns `None` if the system gives no more threads.
fn teller() -> Option<&'static SyncSender<Said>> {
    let teller = TELLER.get_or_init(|| {
        let (say, said) = sync_channel::<Said>(KEPT);
        let write = move || {
            for (text, done) in said {
                // There may be no reader any more.
                let _ = anstream::stderr().write_all(&text);
                let _ = done.map(|done| done.send(()));
            }
        };
        let thread = Builder::new().name("fairlock".into()).spawn(write);
        thread.ok().map(|_| say)
    });
    teller.as_ref()
}

/// Prints the text, and waits for at most `within` until it is written.
pub(crate) fn say(text: String, within: Duration) {
    let Some(teller) = teller() else {
        let _ = anstream::stderr().write_all(text.as_bytes());
        return;
    };
    let (done, written) = channel();
    if teller.try_send((text.into_bytes(), Some(done))).is_ok() {
        let _ = written.recv_timeout(within);
    }
}

/// Waits until all text is written, for at most `IN_PASSING`.
pub(crate) fn finish() {
    if TELLER.get().is_some() {
        say(String::new(), IN_PASSING);
    }
}

/// For logs, which never wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        if let Some(teller) = teller() {
            let _ = teller.try_send((text.to_vec(), None));
        }
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
