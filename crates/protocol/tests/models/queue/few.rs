//! A list of at most four entries, held without allocation.

use super::table::Entry;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Few([Option<Entry>; 4]);

impl FromIterator<Entry> for Few {
    fn from_iter<T: IntoIterator<Item = Entry>>(entries: T) -> Self {
        let mut few = Few::default();
        entries.into_iter().for_each(|entry| few.push(entry));
        few
    }
}

impl Few {
    pub(crate) fn push(&mut self, entry: Entry) {
        let end = self.len();
        self.0[end] = Some(entry);
    }

    pub(crate) fn get(&self, index: usize) -> Option<Entry> {
        self.0.get(index).copied().flatten()
    }

    pub(crate) fn set(&mut self, index: usize, entry: Entry) {
        self.0[index] = Some(entry);
    }

    pub(crate) fn len(&self) -> usize {
        self.iter().count()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Entry> + use<> {
        self.0.into_iter().flatten()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut().flatten()
    }
}
