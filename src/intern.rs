//! The hash table behind labels, productions and nodes.
//!
//! Interning answers one question: *which id has this content?* The content lives in
//! flat arrays of the caller; the table holds one word per id, the upper half 32 bits of
//! the content's hash, the lower half the id plus one (0 is an empty slot). A look-up
//! compares hashes inside that word and asks the caller only when they agree, so a miss
//! costs one cache line, and growing needs neither content nor hash function.
//!
//! Linear probing, at most three slots in four used: 10.7 to 21.3 bytes per id. A load
//! of one half (as fast within noise on question trees) would need 16 to 32, and the
//! forest's budget is 48 bytes per node in all. `hashbrown::HashTable` is the same idea
//! with the hash kept outside the slot; it has to ask the content for its hash when it
//! grows, and costs a second cache line per look-up.
//!
//! Hashes depend on two random numbers of each table ([`Seed`]): who writes the trees
//! cannot choose labels or subtrees that collide. Ids count contents in the order in
//! which they come, so nothing but time depends on the numbers.

use std::hash::{BuildHasher, RandomState};

use crate::ids::{Id, IdVec};
use crate::memory::reserve;
use crate::{Error, Result};

/// Ids found by the hash of their content.
#[derive(Debug, Clone, Default)]
pub(crate) struct IdTable {
    slots: Vec<u64>,
    used: usize,
    pub(crate) seed: Seed,
}

impl IdTable {
    /// The id with this hash whose content `same` accepts.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: u32,
        mut same: impl FnMut(u32) -> bool,
    ) -> Option<u32> {
        // The length is a power of two. An empty table has no slots, and `get` says so.
        let mask = self.slots.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        loop {
            let slot = *self.slots.get(at)?;
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == hash && same(slot as u32 - 1) {
                return Some(slot as u32 - 1);
            }
            at = (at + 1) & mask;
        }
    }

    /// Makes room for one more id.
    ///
    /// # Errors
    /// [`Error::Memory`], with nothing changed.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Result<()> {
        if (self.used + 1) * 4 > self.slots.len() * 3 { self.grow() } else { Ok(()) }
    }

    /// Enters an id. The caller has made sure that its content is new.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve).
    #[inline]
    pub(crate) fn insert(&mut self, hash: u32, id: u32) -> Result<()> {
        self.reserve()?;
        self.enter(hash, id);
        Ok(())
    }

    /// As [`insert`](Self::insert), after [`reserve`](Self::reserve).
    #[inline]
    pub(crate) fn enter(&mut self, hash: u32, id: u32) {
        self.place(u64::from(hash) << 32 | (u64::from(id) + 1));
        self.used += 1;
    }

    /// Forgets all ids from `len` on: the way back after a failed call. Takes no memory,
    /// for there may be none.
    pub(crate) fn truncate(&mut self, len: usize) {
        // A slot that was free before: no id that stays was placed past it. Past a slot
        // that is freed here one may have been.
        let free = self.slots.iter().position(|&slot| slot == 0).unwrap_or(0);
        for slot in &mut self.slots {
            if *slot as u32 as usize > len {
                *slot = 0;
                self.used -= 1;
            }
        }
        // Once around from there, everything moves as far forward as it can.
        for at in (free..self.slots.len()).chain(0..free) {
            match std::mem::take(&mut self.slots[at]) {
                0 => {}
                slot => self.place(slot),
            }
        }
    }

    /// The hash of a triple of numbers.
    pub(crate) fn hash_key(&self, [a, b, c]: [u32; 3]) -> u32 {
        // Two steps: one would let ascending children at ascending positions collide.
        self.seed.hash_ids(u64::from(a), [b, c].into_iter())
    }

    /// Bytes held.
    pub(crate) fn nbytes(&self) -> usize {
        self.slots.capacity() * size_of::<u64>()
    }

    #[inline]
    fn place(&mut self, slot: u64) {
        let mask = self.slots.len() - 1;
        let mut at = (slot >> 32) as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
    }

    #[cold]
    fn grow(&mut self) -> Result<()> {
        // Twice as long, so that an insertion takes constant time on average.
        let len = (self.slots.len() * 2).max(16);
        // Zeros cost nothing from the call that cannot fail: so another one asks before
        // whether there is room. (Writing them made parsing slower by 3 %.)
        let mut room: Vec<u64> = Vec::new();
        reserve(&mut room, len)?;
        drop(std::hint::black_box(room));
        let old = std::mem::replace(&mut self.slots, vec![0; len]);
        old.into_iter().filter(|&slot| slot != 0).for_each(|slot| self.place(slot));
        Ok(())
    }
}

/// What hashes depend on besides the content.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seed {
    start: u64,
    factor: u64,
}

impl Default for Seed {
    fn default() -> Self {
        let random = RandomState::new();
        Self { start: random.hash_one(0), factor: random.hash_one(1) | 1 }
    }
}

impl Seed {
    /// For hashes that are the same in every process.
    pub(crate) const FIXED: Self =
        Self { start: 0x517C_C1B7_2722_0A95, factor: 0x9E37_79B9_7F4A_7C15 };

    /// One step of the hash: a full 64 x 64 multiplication, folded.
    #[inline]
    pub(crate) fn mix(self, hash: u64, word: u64) -> u64 {
        let product = u128::from(hash ^ word) * u128::from(self.factor);
        (product as u64) ^ ((product >> 64) as u64)
    }

    /// The hash of one word.
    #[inline]
    pub(crate) fn hash_word(self, word: u64) -> u32 {
        (self.mix(self.start, word) >> 16) as u32
    }

    /// The hash of a sequence of ids behind a number, two of them a step.
    #[inline]
    pub(crate) fn hash_ids(
        self,
        first: u64,
        ids: impl ExactSizeIterator<Item = u32>,
    ) -> u32 {
        let mut ids = ids;
        // The number of ids is part of the hash, as sequences are padded.
        let mut hash = self.mix(self.start, first ^ (ids.len() as u64) << 32);
        while let Some(first) = ids.next() {
            let second = ids.next().unwrap_or(u32::MAX);
            hash = self.mix(hash, u64::from(first) << 32 | u64::from(second));
        }
        // The upper half counts as well.
        (hash ^ hash >> 32) as u32
    }

    /// The hash of a byte string.
    #[inline]
    pub(crate) fn hash_bytes(self, bytes: &[u8]) -> u64 {
        let mut hash = self.mix(self.start, bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            hash = self.mix(hash, short_key(chunk));
        }
        hash
    }
}

/// Ids for triples of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Keys<I> {
    table: IdTable,
    pub(crate) keys: IdVec<I, [u32; 3]>,
}

impl<I> Default for Keys<I> {
    fn default() -> Self {
        Self { table: IdTable::default(), keys: IdVec::default() }
    }
}

impl<I: Id> Keys<I> {
    pub(crate) fn find(&self, key: [u32; 3]) -> Option<I> {
        let same = |id| self.keys[I::from_number(id)] == key;
        self.table.find(self.table.hash_key(key), same).map(I::from_number)
    }

    /// The id of a key, a new one if need be.
    ///
    /// # Errors
    /// [`Error::Capacity`] beyond 2^32 of them, called `what`; [`Error::Memory`].
    pub(crate) fn insert(&mut self, key: [u32; 3], what: &'static str) -> Result<I> {
        if let Some(id) = self.find(key) {
            return Ok(id);
        }
        // Room first: an error leaves table and keys as long as each other.
        let id = I::next(self.keys.len(), what)?;
        reserve(&mut self.keys, 1)?;
        self.table.insert(self.table.hash_key(key), id.number())?;
        self.keys.push(key);
        Ok(id)
    }

    /// Bytes held.
    pub(crate) fn nbytes(&self) -> usize {
        self.table.nbytes() + self.keys.capacity() * size_of::<[u32; 3]>()
    }
}

/// `index` as an id, or the error that names what there are too many of.
///
/// One id is kept free, so that `u32::MAX` can mean "none" and id + 1 fits a slot.
#[inline]
pub(crate) fn new_id(index: usize, what: &'static str) -> Result<u32> {
    match u32::try_from(index) {
        Ok(id) if id < u32::MAX => Ok(id),
        _ => Err(Error::Capacity { what, limit: u64::from(u32::MAX) }),
    }
}

/// Up to eight bytes as one little-endian word, padded with zeros.
#[inline]
pub(crate) fn short_key(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_differ_in_one_bit_have_other_hashes() {
        let words = (0..64).map(|bit| 1 << bit).chain([0]);
        let hashes = words.map(|word| Seed::FIXED.hash_word(word));
        assert_eq!(hashes.collect::<std::collections::HashSet<_>>().len(), 65);
    }

    #[test]
    fn ids_are_found_after_growth_and_forgotten_after_truncation() {
        let hash = |id: u32| Seed::FIXED.hash_word(u64::from(id % 7)); // many collisions
        let mut table = IdTable::default();
        assert_eq!(table.find(3, |_| true), None);
        for id in 0..1000 {
            table.insert(hash(id), id).unwrap();
        }
        let find = |table: &IdTable, id| table.find(hash(id), |other| other == id);
        assert!((0..1000).all(|id| find(&table, id) == Some(id)));
        table.truncate(400);
        assert!((0..1000).all(|id| find(&table, id) == (id < 400).then_some(id)));
        table.insert(hash(400), 400).unwrap();
        assert_eq!(find(&table, 400), Some(400));
    }

    /// All ways to place up to six ids at the end and the start of a table of 16 slots:
    /// whatever goes, the others are found, also those that lay around the end.
    #[test]
    fn ids_around_the_end_of_the_table_survive_truncation() {
        let homes = [13, 14, 15, 0, 1];
        for case in 0..5_u32.pow(6) {
            let hash = |id: u32| homes[(case / 5_u32.pow(id) % 5) as usize];
            for len in 0..6 {
                let mut table = IdTable::default();
                // The ids that go come first, as in a table that has grown.
                for id in (0..6).rev() {
                    table.insert(hash(id), id).unwrap();
                }
                table.truncate(len);
                for id in 0..6 {
                    let found = table.find(hash(id), |other| other == id);
                    assert_eq!(
                        found,
                        ((id as usize) < len).then_some(id),
                        "{case} {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_last_id_is_kept_free() {
        assert_eq!(new_id(u32::MAX as usize - 1, "nodes"), Ok(u32::MAX - 1));
        assert!(new_id(u32::MAX as usize, "nodes").is_err());
    }
}
