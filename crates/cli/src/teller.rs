//! Standard error, by a thread of its own: whoever is to read there may not, and neither a wait nor a lease may stand still for that.

use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// How long somebody who has more to do waits until what was said can be read: it comes before what a command says that starts next.
pub(crate) const SOON: Duration = Duration::from_millis(50);
/// How long the end of this program waits for that, if it ends with an error: somebody may read slowly.
pub(crate) const AT_LAST: Duration = Duration::from_secs(5);
/// And if it has nothing to say in the end.
const IN_PASSING: Duration = Duration::from_millis(250);
/// What nobody reads is kept up to so many times, and no more is said after that.
const KEPT: usize = 256;

/// Text, and whom to tell that it is written.
type Said = (Vec<u8>, Option<Sender<()>>);

static TELLER: OnceLock<Option<SyncSender<Said>>> = OnceLock::new();

/// None if the system gives no more threads.
fn teller() -> Option<&'static SyncSender<Said>> {
    let teller = TELLER.get_or_init(|| {
        let (say, said) = sync_channel::<Said>(KEPT);
        let write = move || {
            for (text, done) in said {
                // Nobody may be left to read it.
                let _ = anstream::stderr().write_all(&text);
                let _ = done.map(|done| done.send(()));
            }
        };
        let thread = Builder::new().name("fairlock".into()).spawn(write);
        thread.ok().map(|_| say)
    });
    teller.as_ref()
}

/// Says it, and waits for so long until it can be read.
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

/// Waits until all that was said can be read, though not for ever.
pub(crate) fn finish() {
    if TELLER.get().is_some() {
        say(String::new(), IN_PASSING);
    }
}

/// For logs, which are said without any waiting.
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
