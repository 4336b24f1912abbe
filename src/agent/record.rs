//! What a driver writes down of its client, where `FAIRLOCK_RECORD` names a file.

use fairlock_protocol::agent::{Client, Input, Output, Request, RequestId, Terms, Turn};

#[cfg(feature = "record")]
pub(super) use written::Record;

/// Nothing is written down.
#[cfg(not(feature = "record"))]
#[derive(Debug)]
pub(super) struct Record;

#[cfg(not(feature = "record"))]
impl Record {
    pub(super) fn begins(_: &Terms) -> Self {
        Record
    }

    pub(super) fn turn(&mut self, client: &mut Client, input: Option<Input>, turn: Turn<'_>) {
        client.turn(input, turn);
    }

    pub(super) fn told(&mut self, _: &Output) {}

    pub(super) fn asked(&mut self, _: &(RequestId, Request)) {}
}

#[cfg(feature = "record")]
mod written {
    use std::env;
    use std::ffi::OsString;
    use std::fs::File;
    use std::io::{self, LineWriter};
    use std::sync::atomic::{AtomicU64, Ordering};

    use fairlock_protocol::agent::record::Recorder;

    use super::{Client, Input, Output, Request, RequestId, Terms, Turn};

    /// The clients of this process that are recorded. The second one's file has `.2` behind its name.
    static CLIENTS: AtomicU64 = AtomicU64::new(0);

    /// What is written down, until that fails.
    #[derive(Debug)]
    pub(in super::super) struct Record(Option<Recorder<LineWriter<File>>>);

    impl Record {
        pub(in super::super) fn begins(terms: &Terms) -> Self {
            let Some(mut name) = env::var_os("FAIRLOCK_RECORD") else {
                return Record(None);
            };
            let number = CLIENTS.fetch_add(1, Ordering::Relaxed) + 1;
            if number > 1 {
                name.push(OsString::from(format!(".{number}")));
            }
            let file = File::create(name);
            let recorder = file.and_then(|file| Recorder::new(LineWriter::new(file), terms));
            let mut record = Record(None);
            match recorder {
                Ok(recorder) => record.0 = Some(recorder),
                Err(failure) => record.ends(Err(failure)),
            }
            record
        }

        pub(in super::super) fn turn(
            &mut self,
            client: &mut Client,
            input: Option<Input>,
            turn: Turn<'_>,
        ) {
            match &mut self.0 {
                Some(recorder) => {
                    let written = recorder.turn(client, input, turn);
                    self.ends(written);
                }
                None => client.turn(input, turn),
            }
        }

        pub(in super::super) fn told(&mut self, output: &Output) {
            let written = self.0.as_mut().map_or(Ok(()), |it| it.told(output));
            self.ends(written);
        }

        pub(in super::super) fn asked(&mut self, request: &(RequestId, Request)) {
            let written = self.0.as_mut().map_or(Ok(()), |it| it.asked(request));
            self.ends(written);
        }

        /// A record that cannot be written any more ends. Its client goes on.
        fn ends(&mut self, written: io::Result<()>) {
            if let Err(failure) = written {
                tracing::warn!(%failure, "no record is written any more");
                self.0 = None;
            }
        }
    }
}
