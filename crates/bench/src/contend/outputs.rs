//! The files that were requested beside the report, opened before any work starts.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::contend::events;
use crate::contend::harvest::Harvest;
use crate::contend::options::Options;
use crate::contend::plot;
use crate::failure::Failure;

pub(crate) struct Outputs {
    events: Option<Output>,
    plot: Option<Output>,
    sent: Option<Output>,
}

struct Output {
    path: PathBuf,
    file: File,
}

impl Outputs {
    pub(crate) fn open(options: &Options) -> Result<Outputs, Failure> {
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        Ok(Outputs {
            events: open(&options.events)?,
            plot: open(&options.plot)?,
            sent: open(&options.sent)?,
        })
    }

    /// Writes the files. Returns what could not be written.
    pub(crate) fn write(self, options: &Options, harvest: &Harvest) -> Vec<String> {
        let turns = &harvest.turns;
        let events = self
            .events
            .map(|output| output.write(|file| Ok(events::write(BufWriter::new(file), turns)?)));
        let plot = self.plot.map(|output| {
            output.write(|mut file| Ok(file.write_all(plot::svg(options, turns)?.as_bytes())?))
        });
        let sent = self
            .sent
            .map(|output| output.write(|file| Ok(serde_json::to_writer(file, &harvest.traffic)?)));
        let written = events.into_iter().chain(plot).chain(sent);
        written.filter_map(Result::err).collect()
    }
}

impl Output {
    fn open(path: &Path) -> Result<Output, Failure> {
        let file = File::create(path);
        let file = file
            .map_err(|error| Failure::usage(&format!("cannot write {}", path.display()), error))?;
        Ok(Output {
            path: path.to_owned(),
            file,
        })
    }

    fn write(
        self,
        write: impl FnOnce(File) -> Result<(), Box<dyn std::error::Error>>,
    ) -> Result<(), String> {
        let written = write(self.file);
        written.map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}
