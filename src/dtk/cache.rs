//! Vectors that are kept because somebody will ask for them again, within a limit.
//!
//! A slot is freed when its last known user is done with it (the caller knows), and its
//! buffer is the next to be handed out: while it is still in the processor's cache. When
//! the limit is reached, a clock goes round: each slot has as many lives as the logarithm
//! of what it cost to compute, gets them back when it is used, and loses one when the
//! hand passes; without any it goes. What is pinned stays, beyond the limit if need be.

use std::hash::{BuildHasherDefault, Hasher};

use super::random::mix;
use super::scale::Scale;
use crate::Result;
use crate::memory::{self, Map};

/// What a slot holds, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    /// A label's vector.
    Label(u32),
    /// The composed vector of a pair.
    Value(u32),
    /// The sum over all of a tree's fragments.
    Sum(u32),
    /// Spectra, as a left operand or as a right one.
    LeftLabel(u32),
    RightLabel(u32),
    LeftValue(u32),
    RightValue(u32),
}

impl Key {
    fn word(self) -> u64 {
        let (kind, id) = match self {
            Self::Label(id) => (0, id),
            Self::Value(id) => (1, id),
            Self::Sum(id) => (2, id),
            Self::LeftLabel(id) => (3, id),
            Self::RightLabel(id) => (4, id),
            Self::LeftValue(id) => (5, id),
            Self::RightValue(id) => (6, id),
        };
        // There are seven kinds, so three bits tell them apart.
        u64::from(id) << 3 | kind
    }
}

/// Keys are small integers: one mixing step scatters them.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(word);
    }
}

struct Slot<T> {
    /// The word of its key: how it is found again when the slot is freed.
    key: u64,
    data: Vec<T>,
    scale: Scale,
    /// How many users read it at the moment.
    pins: u32,
    /// How many times the hand may pass before it goes.
    lives: u8,
    /// The lives that a use gives back.
    most: u8,
}

pub(super) struct Cache<T> {
    /// By the word of a key: the place of its slot.
    index: Map<u64, u32, BuildHasherDefault<Mixed>>,
    slots: Vec<Slot<T>>,
    /// Places of slots that hold nothing; with room for all of them.
    empty: Vec<u32>,
    /// Vectors that were freed, to be written again.
    buffers: Vec<Vec<T>>,
    /// Where the clock's hand stands.
    hand: usize,
    width: usize,
    /// How many vectors the limit allows.
    capacity: usize,
}

impl<T: Copy + Default> Cache<T> {
    /// For vectors of `width`, up to `nbytes` of them, and some in any case.
    pub(super) fn new(width: usize, nbytes: usize) -> Self {
        Self {
            index: Map::default(),
            slots: Vec::new(),
            empty: Vec::new(),
            buffers: Vec::new(),
            hand: 0,
            width,
            // At least 8: a composition alone reads some vectors and writes another.
            capacity: (nbytes / (width * size_of::<T>()).max(1)).max(8),
        }
    }

    /// Where something is, if it is there.
    pub(super) fn find(&mut self, key: Key) -> Option<u32> {
        let slot = *self.index.get(&key.word())?;
        let entry = &mut self.slots[slot as usize];
        entry.lives = entry.most;
        Some(slot)
    }

    pub(super) fn get(&self, slot: u32) -> &[T] {
        &self.slots[slot as usize].data
    }

    /// What its numbers are to be multiplied by.
    pub(super) fn scale(&self, slot: u32) -> Scale {
        self.slots[slot as usize].scale
    }

    pub(super) fn pin(&mut self, slot: u32) {
        self.slots[slot as usize].pins += 1;
    }

    pub(super) fn unpin(&mut self, slot: u32) {
        self.slots[slot as usize].pins -= 1;
    }

    /// A vector to write into, its content arbitrary.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(super) fn buffer(&mut self) -> Result<Vec<T>> {
        // The one that was freed last is most likely still in the processor's cache.
        if let Some(buffer) = self.buffers.pop() {
            return Ok(buffer);
        }
        if self.index.len() >= self.capacity
            && let Some(buffer) = self.evict()
        {
            return Ok(buffer);
        }
        memory::filled(T::default(), self.width)
    }

    /// Enters a vector that took about `cost` compositions.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(super) fn insert(
        &mut self,
        key: Key,
        data: Vec<T>,
        scale: Scale,
        cost: u64,
    ) -> Result<u32> {
        let lives = (64 - cost.leading_zeros()).min(63) as u8;
        let key = key.word();
        let slot = Slot { key, data, scale, pins: 0, lives, most: lives };
        let place = if let Some(place) = self.empty.pop() {
            self.slots[place as usize] = slot;
            place
        } else {
            memory::push(&mut self.slots, slot)?;
            // Every slot may become empty, and freeing one must not fail.
            memory::reserve(&mut self.empty, self.slots.len())?;
            self.slots.len() as u32 - 1
        };
        self.index.insert(key, place)?;
        Ok(place)
    }

    /// Frees something that nobody will ask for, if it is there.
    pub(super) fn forget(&mut self, key: Key) {
        // What is pinned is read at the moment; it goes with the limit, later.
        if let Some(&slot) = self.index.get(&key.word())
            && self.slots[slot as usize].pins == 0
        {
            let data = self.take(slot as usize);
            memory::set_aside(&mut self.buffers, data);
        }
    }

    fn take(&mut self, place: usize) -> Vec<T> {
        let slot = &mut self.slots[place];
        self.index.remove(&slot.key);
        self.empty.push(place as u32); // has room: for all
        std::mem::take(&mut slot.data)
    }

    fn evict(&mut self) -> Option<Vec<T>> {
        // Once round for each life and once more: then all that is left is pinned.
        for _ in 0..self.slots.len() * 65 {
            self.hand = (self.hand + 1) % self.slots.len();
            let slot = &mut self.slots[self.hand];
            if slot.pins > 0 || slot.data.is_empty() {
                continue;
            }
            if slot.lives == 0 {
                return Some(self.take(self.hand));
            }
            slot.lives -= 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Scale = Scale::of_label(1);

    #[test]
    fn what_is_cheap_goes_first_and_what_is_pinned_stays() {
        let mut cache: Cache<u8> = Cache::new(1, 8);
        let first = cache.buffer().unwrap();
        let pinned = cache.insert(Key::Value(0), first, ONE, 1).unwrap();
        cache.pin(pinned);
        let dear = cache.buffer().unwrap();
        cache.insert(Key::Value(1), dear, ONE, 1 << 40).unwrap();
        for id in 2..30 {
            let buffer = cache.buffer().unwrap();
            cache.insert(Key::Value(id), buffer, ONE, 1).unwrap();
            assert!(cache.find(Key::Value(id)).is_some());
        }
        assert!(cache.find(Key::Value(0)).is_some());
        assert!(cache.find(Key::Value(1)).is_some());
        assert!(cache.find(Key::Value(2)).is_none());
        assert!(cache.index.len() <= 8);
        cache.unpin(pinned);
        cache.forget(Key::Value(0));
        assert!(cache.find(Key::Value(0)).is_none());
        assert_eq!(cache.buffers.len(), 1);
    }

    #[test]
    fn a_cache_full_of_pins_grows() {
        let mut cache: Cache<u8> = Cache::new(1, 0);
        for id in 0..20 {
            let buffer = cache.buffer().unwrap();
            let slot = cache.insert(Key::Sum(id), buffer, ONE, 5).unwrap();
            cache.pin(slot);
        }
        assert!((0..20).all(|id| cache.find(Key::Sum(id)).is_some()));
    }
}
