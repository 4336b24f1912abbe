//! Runs `contend` as a program: this program again.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

use fairlock_cli::contention::turn::Turn;

use crate::performance::Done;
use crate::performance::budget::Budget;
use crate::performance::run::Run;
use crate::performance::scene::{FAIRLOCK, Place, Scene};

pub(crate) struct Driver {
    program: PathBuf,
    /// How long contestants sleep between two attempts that would sleep as their authors chose. `None` if they do.
    slow_poll_ms: Option<u32>,
}

impl Driver {
    pub(crate) fn new(budget: &Budget) -> Done<Driver> {
        Ok(Driver {
            program: std::env::current_exe()?,
            slow_poll_ms: budget.is_brief.then_some(50),
        })
    }

    pub(crate) fn runs(&self, scene: Scene, times: usize) -> Done<Vec<Run>> {
        (0..times).map(|_| self.run(scene, &[])).collect()
    }

    /// Runs each scene once, all at the same time.
    pub(crate) fn side_by_side(&self, scenes: &[Scene]) -> Done<Vec<Run>> {
        thread::scope(|scope| {
            let start = |scene: &Scene| {
                let scene = *scene;
                scope.spawn(move || self.run(scene, &[]).map_err(|error| error.to_string()))
            };
            let running: Vec<_> = scenes.iter().map(start).collect();
            let ended = running.into_iter().map(|run| match run.join() {
                Ok(ended) => ended.map_err(Into::into),
                Err(_) => Err("a run was not followed to its end".into()),
            });
            ended.collect()
        })
    }

    pub(crate) fn run(&self, scene: Scene, flags: &[&str]) -> Done<Run> {
        eprintln!("{}", scene.command());
        let place = tempfile::tempdir()?;
        let sent = place.path().join("sent.json");
        let mut contend = Command::new(&self.program);
        contend
            .arg("contend")
            .args(scene.flags().iter().flat_map(|flag| flag.split(' ')));
        contend.args(flags).arg("--sent").arg(&sent);
        if let Some(poll) = self.slow_poll_ms.filter(|_| scene.by.is_slow()) {
            contend.args(["--poll-ms", &poll.to_string()]);
        }
        if scene.place == Place::Processes {
            contend.arg("--local").arg(place.path().join("tables"));
        }
        let Output {
            status,
            stdout,
            stderr,
        } = contend.output()?;
        // A failed run of a baseline is used as well: overlaps and turns out of order are what is measured.
        let turns = String::from_utf8(stdout)?;
        let turns: Vec<Turn> = turns
            .lines()
            .map(serde_json::from_str)
            .collect::<Result<_, _>>()?;
        if scene.by == FAIRLOCK && !status.success() || turns.is_empty() {
            let said = String::from_utf8_lossy(&stderr);
            return Err(format!("{} failed: {said}", scene.command()).into());
        }
        Ok(Run::new(turns, serde_json::from_reader(File::open(sent)?)?))
    }
}
