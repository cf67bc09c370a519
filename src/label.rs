//! Labels to and from 32-bit ids.
//!
//! Every kernel asks of labels only whether they are equal, so each distinct string is
//! stored once and named by a [`Label`]. Most labels of parse trees have at most eight
//! bytes (`NP`, `VBZ`, `the`): those are hashed and compared as one machine word, and
//! their bytes are not touched.

use crate::error::quoted;
use crate::intern::{IdTable, new_id, short_key};
use crate::memory::reserve;
use crate::{Error, Result};

/// A label's id within one [`Labels`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Label(pub(crate) u32);

impl Label {
    /// The id as an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The alphabet of a forest: distinct strings, numbered in order of first use.
#[derive(Debug, Clone, Default)]
pub struct Labels {
    /// All strings, one after another.
    text: String,
    /// By label: where its string ends in the text.
    ends: Vec<usize>,
    /// Up to eight bytes without NUL: the string itself, padded with NUL. Others: a hash
    /// whose last byte is 0xff, which no UTF-8 has. So a short key is equal to another
    /// only if the strings are, and the strings are not looked at.
    keys: Vec<u64>,
    /// Labels by their keys.
    table: IdTable,
}

impl Labels {
    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string behind an id.
    pub fn name(&self, label: Label) -> &str {
        &self.text[self.start(label.index())..self.ends[label.index()]]
    }

    /// All strings, in the order of their ids.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.len() as u32).map(|id| self.name(Label(id)))
    }

    /// The id of a string, if it has one.
    pub fn get(&self, name: &str) -> Option<Label> {
        self.find(name, self.key(name)).map(Label)
    }

    /// The id of a string; a new one if it has none.
    ///
    /// # Errors
    /// [`Error::Capacity`] at 2^32 - 1 labels, [`Error::Memory`].
    #[inline]
    pub fn intern(&mut self, name: &str) -> Result<Label> {
        let key = self.key(name);
        match self.find(name, key) {
            Some(id) => Ok(Label(id)),
            None => self.new_label(name, key),
        }
    }

    /// As [`intern`](Self::intern), for a string of at most eight bytes, none of them
    /// NUL, whose key is at hand: the parser finds a short label's end in the very word
    /// that is its key. The string itself is asked for only when it is new.
    #[inline]
    pub(crate) fn intern_short<'a>(
        &mut self,
        key: u64,
        name: impl FnOnce() -> &'a str,
    ) -> Result<Label> {
        match self.table.find(self.hash(key), |id| self.keys[id as usize] == key) {
            Some(id) => Ok(Label(id)),
            None => self.new_label(name(), key),
        }
    }

    #[cold]
    fn new_label(&mut self, name: &str, key: u64) -> Result<Label> {
        let id = new_id(self.len(), "labels")?;
        let bytes = self.text.len() + name.len();
        // Room first: text, ends, keys and table grow together, or not at all.
        self.text.try_reserve(name.len()).map_err(|_| Error::Memory { bytes })?;
        reserve(&mut self.ends, 1)?;
        reserve(&mut self.keys, 1)?;
        self.table.insert(self.hash(key), id)?;
        self.text.push_str(name);
        self.ends.push(self.text.len());
        self.keys.push(key);
        Ok(Label(id))
    }

    /// Refuses an alphabet with a duplicate name: what it numbers would not be
    /// what it says.
    ///
    /// # Errors
    /// [`Error::Array`] that names the second one.
    pub(crate) fn check_distinct(names: &[impl AsRef<str>]) -> Result<()> {
        let mut seen = Self::default();
        for (index, name) in names.iter().enumerate() {
            let first = seen.intern(name.as_ref())?.index();
            if first < index {
                let expected = format!("another name than names[{first}]");
                let got = quoted(name.as_ref());
                return Err(Error::Array { array: "names", index, expected, got });
            }
        }
        Ok(())
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.text.truncate(self.start(len));
            self.ends.truncate(len);
            self.keys.truncate(len);
            self.table.truncate(len);
        }
    }

    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
        self.keys.shrink_to_fit();
    }

    /// Bytes held.
    pub fn nbytes(&self) -> usize {
        self.text.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.keys.capacity() * size_of::<u64>()
            + self.table.nbytes()
    }

    #[inline]
    fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.ends[index - 1] }
    }

    #[inline]
    fn key(&self, name: &str) -> u64 {
        let bytes = name.as_bytes();
        if bytes.len() <= 8 && !bytes.contains(&0) {
            short_key(bytes)
        } else {
            self.table.seed.hash_bytes(bytes) | LONG
        }
    }

    #[inline]
    fn hash(&self, key: u64) -> u32 {
        self.table.seed.hash_word(key)
    }

    #[inline]
    fn find(&self, name: &str, key: u64) -> Option<u32> {
        self.table.find(self.hash(key), |id| {
            self.keys[id as usize] == key
                // A short key is the whole string; of long ones the key is only a hash.
                && (key < LONG || self.name(Label(id)) == name)
        })
    }
}

/// What tells the key of a long string from that of a short one.
const LONG: u64 = 0xff << 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_share_an_id_and_only_those() {
        let names =
            ["", "a", "a\0", "NP", "12345678", "123456789", "123456780", "é", "\0"];
        let mut labels = Labels::default();
        for (id, name) in names.iter().enumerate() {
            assert_eq!(labels.intern(name), Ok(Label(id as u32)));
        }
        for (id, name) in names.iter().enumerate() {
            assert_eq!(labels.intern(name), Ok(Label(id as u32)));
            assert_eq!(labels.name(Label(id as u32)), *name);
        }
        assert_eq!(labels.names().collect::<Vec<_>>(), names);
        labels.truncate(2);
        assert_eq!((labels.get("a"), labels.get("NP")), (Some(Label(1)), None));
        assert_eq!(labels.intern("NP"), Ok(Label(2)));
    }
}
