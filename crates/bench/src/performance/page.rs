//! The page: prose that is written by hand, and measurements between pairs of marks.

use std::fs;
use std::path::{Path, PathBuf};

use crate::performance::Done;

pub(crate) struct Page {
    path: PathBuf,
    pictures: PathBuf,
    text: String,
}

impl Page {
    pub(crate) fn open(docs: &Path) -> Done<Page> {
        let path = docs.join("performance.md");
        let pictures = docs.join("performance");
        let read = fs::read_to_string(&path);
        let text = read.map_err(|error| format!("{}: {error}", path.display()))?;
        fs::create_dir_all(&pictures)?;
        Ok(Page {
            path,
            pictures,
            text,
        })
    }

    /// Replaces the measurements between two marks.
    pub(crate) fn write(&mut self, what: &str, measured: &str) -> Done<()> {
        let (begin, end) = (format!("<!-- {what} -->\n"), format!("<!-- /{what} -->"));
        let place = self.text.find(&begin).zip(self.text.find(&end));
        let (from, to) = place.ok_or(format!("the page has no place for {what}"))?;
        let measured = format!("{}\n", measured.trim_end());
        self.text.replace_range(from + begin.len()..to, &measured);
        Ok(())
    }

    /// The path of a picture that the page shows.
    pub(crate) fn picture(&self, name: &str) -> Done<PathBuf> {
        if !self.text.contains(&format!("(performance/{name})")) {
            return Err(format!("the page does not show {name}").into());
        }
        Ok(self.pictures.join(name))
    }

    pub(crate) fn save(self) -> Done<()> {
        Ok(fs::write(self.path, self.text)?)
    }
}
