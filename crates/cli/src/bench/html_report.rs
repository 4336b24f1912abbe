//! The page of a contest: its figures and pictures in one file of HTML, which needs nothing beside it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use fairlock_cli::contention::plot_style::Drawn;
use fairlock_cli::contention::tally::Tally;
use fairlock_cli::contention::timeline;
use fairlock_cli::contention::turn::Turn;

use super::figures::Figures;
use super::plots;
use crate::failure::{Failure, IO};

const NAME: &str = "index.html";
const STYLE: &str = "body{font:16px/1.5 sans-serif;max-width:1200px;margin:2em auto;padding:0 1em;color:#282c34;\
background:#fcfcfa}th{text-align:left;vertical-align:top;padding-right:2em;font-weight:600}td{white-space:pre-line}\
svg{max-width:100%;height:auto;margin-top:1.5em}";

/// A directory that the page will be written into.
pub(super) struct Page(PathBuf);

impl Page {
    /// Makes the directory, before anything is spent. Fails if it cannot be made, or has a page.
    pub(super) fn prepare(directory: &Path) -> Result<Page, Failure> {
        let shown = directory.display();
        match fs::create_dir(directory) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists || !directory.is_dir() => {
                return Err(Failure::new(
                    IO,
                    format!("cannot make the directory {shown}: {error}"),
                ));
            }
            _ => {}
        }
        let file = directory.join(NAME);
        // Made now, so that a directory that cannot be written is told before the contest.
        match fs::File::create_new(&file) {
            Ok(_) => Ok(Page(file)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                Err(Failure::misuse(format!(
                    "{} is there already: name another directory with --report",
                    file.display()
                )))
            }
            Err(error) => Err(Failure::new(
                IO,
                format!("cannot write {}: {error}", file.display()),
            )),
        }
    }

    /// Removes the file, and its directory if nothing else is in it, because there will be no page.
    pub(super) fn abandon(&self) {
        let _ = fs::remove_file(&self.0);
        if let Some(directory) = self.0.parent() {
            let _ = fs::remove_dir(directory);
        }
    }

    /// Writes the page. Returns its name.
    pub(super) fn write(
        &self,
        title: &str,
        figures: &Figures,
        turns: &[Turn],
    ) -> Result<String, Failure> {
        let file = self.0.display();
        let cannot = |error: String| Failure::new(IO, format!("cannot write {file}: {error}"));
        let html = html(title, figures, turns).map_err(|error| cannot(error.to_string()))?;
        fs::write(&self.0, html).map_err(|error| cannot(error.to_string()))?;
        Ok(file.to_string())
    }
}

fn html(title: &str, figures: &Figures, turns: &[Turn]) -> Drawn<String> {
    let rows = figures.lines().into_iter();
    let rows: String = rows
        .map(|(name, figure)| {
            format!(
                "<tr><th>{}</th><td>{}</td></tr>\n",
                escaped(name),
                escaped(&figure)
            )
        })
        .collect();
    let handoffs = Tally::new(turns.to_vec()).handoff_times();
    let pictures = [
        plots::handoffs(&handoffs)?,
        plots::pace(turns)?,
        timeline::svg("which worker held the lock, and when", turns)?,
    ];
    let title = escaped(title);
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<table>\n{rows}</table>\n{}</body>\n</html>\n",
        pictures.concat()
    ))
}

fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '"' => "&quot;".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::tests::{figures, turns};

    #[test]
    fn the_page_has_all_figures_and_three_pictures_and_needs_nothing_else() {
        let page = html("lock <a&b>", &figures(), &turns()).unwrap();
        assert!(page.contains("<h1>lock &lt;a&amp;b&gt;</h1>"), "{page}");
        assert_eq!(page.matches("<svg").count(), 3);
        for (name, figure) in figures().lines() {
            let row = format!("<th>{name}</th><td>{}</td>", escaped(&figure));
            assert!(page.contains(&row), "no {row}: {page}");
        }
        for word in ["src=", "href=", "<script", "@import"] {
            assert!(!page.contains(word), "{word}: {page}");
        }
    }

    #[test]
    fn a_page_that_is_there_is_kept_and_an_abandoned_one_leaves_nothing() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("report");
        let page = Page::prepare(&directory).unwrap();
        assert!(Page::prepare(&directory).is_err());
        page.abandon();
        assert!(!directory.exists());
        assert!(Page::prepare(&home.path().join("no/such")).is_err());
    }
}
