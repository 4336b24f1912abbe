//! How long a file of locks is, and whether someone has cut it.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use super::file_type::{SQLITE, open_for_good};

/// The head of a database: its first bytes, the size of a page, and the number of pages.
const HEAD: usize = 32;

#[derive(Debug)]
pub(super) struct Length {
    opened: ManuallyDrop<File>,
    /// The longest that the file was.
    longest: AtomicU64,
}

impl Length {
    pub(super) fn of(file: &Path) -> Option<Length> {
        let opened = open_for_good(file).ok()?;
        let longest = AtomicU64::new(opened.metadata().ok()?.len());
        Some(Length { opened, longest })
    }

    /// Whether the file is shorter than it was, and not because SQLite has made it so.
    pub(super) fn is_cut(&self) -> bool {
        let Ok(found) = self.opened.metadata() else {
            return false;
        };
        let longest = self.longest.fetch_max(found.len(), Ordering::Relaxed);
        found.len() < longest && !self.is_whole(found.len())
    }

    /// Whether the file has all pages of which its head tells, as after a `VACUUM`.
    fn is_whole(&self, length: u64) -> bool {
        let mut head = [0; HEAD];
        if self.opened.read_exact_at(&mut head, 0).is_err() || !head.starts_with(SQLITE) {
            return false;
        }
        let page = match u16::from_be_bytes([head[16], head[17]]) {
            1 => 65_536,
            page => u64::from(page),
        };
        let pages = u32::from_be_bytes([head[28], head[29], head[30], head[31]]);
        pages > 0 && u64::from(pages) * page <= length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of this length whose head tells of so many pages.
    fn write(file: &Path, length: usize, pages: u8) {
        let mut bytes = vec![0; length];
        bytes[..SQLITE.len()].copy_from_slice(SQLITE);
        (bytes[16], bytes[31]) = (16, pages);
        std::fs::write(file, bytes).unwrap();
    }

    #[test]
    fn a_file_is_cut_if_it_is_shorter_than_it_was_and_than_its_head_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("locks.db");
        write(&file, 3 * 4096, 9);
        let length = Length::of(&file).unwrap();
        assert!(!length.is_cut(), "SQLite is about to write the other pages");
        write(&file, 9 * 4096, 9);
        assert!(!length.is_cut());
        write(&file, 5 * 4096, 5);
        assert!(!length.is_cut(), "a VACUUM");
        write(&file, 5 * 4096, 9);
        assert!(length.is_cut());
        std::fs::write(&file, "").unwrap();
        assert!(length.is_cut());
    }
}
