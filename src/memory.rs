//! Lists and maps that return an error where there is no memory.
//!
//! Rust ends the process where an allocation fails. So lists and maps whose sizes come from
//! input grow by what stands here, and get an error in place of the end. `.ci/plain-growth`
//! keeps other growth out of the folders that it names.

use std::collections::{BinaryHeap, HashMap, hash_map};
use std::hash::{BuildHasher, Hash};
use std::ops::Deref;

use foldhash::fast::RandomState;

use crate::{Error, Result};

/// Makes sure that `n` times `size` bytes can be had now: those of something whose size is
/// known and that is copied or made by code which cannot fail. They are reserved and given
/// back at once; what needs them takes them right after. Untouched pages cost nothing.
///
/// # Errors
/// [`Error::Memory`] with the number of bytes.
pub(crate) fn room(n: usize, size: usize) -> Result<()> {
    let bytes = n.saturating_mul(size);
    let mut probe: Vec<u8> = Vec::new();
    probe.try_reserve_exact(bytes).map_err(|_| Error::Memory { bytes })?;
    // Else the compiler may leave both calls out.
    std::hint::black_box(&mut probe);
    Ok(())
}

/// What came of something that Rust users call as if it could not fail.
///
/// # Panics
/// For an error.
pub(crate) fn or_panic<T>(value: Result<T>) -> T {
    match value {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// `n` times the same value.
///
/// # Errors
/// [`Error::Memory`] with the number of bytes.
pub(crate) fn filled<T: Clone>(value: T, n: usize) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let bytes = n.saturating_mul(size_of::<T>());
    // Exactly so much: the list will not grow.
    list.try_reserve_exact(n).map_err(|_| Error::Memory { bytes })?;
    list.resize(n, value);
    Ok(list)
}

/// A list made of items one by one.
///
/// # Errors
/// [`Error::Memory`] with the number of bytes.
pub(crate) fn filled_with<T>(n: usize, item: impl FnMut() -> T) -> Result<Vec<T>> {
    collect(std::iter::repeat_with(item).take(n))
}

/// The same items.
///
/// # Errors
/// [`Error::Memory`] with the number of bytes.
pub(crate) fn copied<T: Clone>(items: &[T]) -> Result<Vec<T>> {
    collect(items.iter().cloned())
}

/// Adds an item to a list.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
#[inline]
pub(crate) fn push<T>(list: &mut Vec<T>, item: T) -> Result<()> {
    reserve(list, 1)?;
    list.push(item);
    Ok(())
}

/// Adds an item to a heap.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
pub(crate) fn enter<T: Ord>(heap: &mut BinaryHeap<T>, item: T) -> Result<()> {
    // As many as there are, and one: what is asked for at least.
    let bytes = (heap.len() + 1).saturating_mul(size_of::<T>());
    heap.try_reserve(1).map_err(|_| Error::Memory { bytes })?;
    heap.push(item);
    Ok(())
}

/// Adds an item to a list of spare ones; without memory for that it is given back.
#[inline]
pub(crate) fn set_aside<T>(spares: &mut Vec<T>, item: T) {
    let _ = push(spares, item);
}

/// The same text.
///
/// # Errors
/// [`Error::Memory`] with the number of bytes.
pub(crate) fn text(text: &str) -> Result<String> {
    let mut copy = String::new();
    write(&mut copy, text)?;
    Ok(copy)
}

/// Adds to a text.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
pub(crate) fn write(text: &mut String, more: &str) -> Result<()> {
    let bytes = text.len().saturating_add(more.len());
    text.try_reserve(more.len()).map_err(|_| Error::Memory { bytes })?;
    text.push_str(more);
    Ok(())
}

/// Adds items to a list.
///
/// # Errors
/// [`Error::Memory`]; some may have been added.
#[inline]
pub(crate) fn extend<T>(
    list: &mut Vec<T>,
    items: impl IntoIterator<Item = T>,
) -> Result<()> {
    // Known lengths are reserved at once; from a lower bound on, items ask one by one.
    let mut items = items.into_iter();
    let (least, most) = items.size_hint();
    reserve(list, least)?;
    if most == Some(least) {
        // It knows its length: a loop without a question for each item.
        list.extend(items);
        return Ok(());
    }
    // Not a loop: chains and filters are faster inside out.
    items.try_for_each(|item| push(list, item))
}

/// The items as a list.
///
/// # Errors
/// [`Error::Memory`].
pub(crate) fn collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>> {
    let mut list = Vec::new();
    extend(&mut list, items)?;
    Ok(list)
}

/// The items as a list, or the first error.
///
/// # Errors
/// [`Error::Memory`], and that of an item.
pub(crate) fn try_collect<T>(
    items: impl IntoIterator<Item = Result<T>>,
) -> Result<Vec<T>> {
    let items = items.into_iter();
    let mut list = Vec::new();
    // A lower bound, as an error may end the items early.
    reserve(&mut list, items.size_hint().0)?;
    for item in items {
        push(&mut list, item?)?;
    }
    Ok(list)
}

/// Makes a list at least so long, by items of one value.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
#[inline]
pub(crate) fn reach<T: Clone>(list: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    if list.len() < len {
        reserve(list, len - list.len())?;
        list.resize(len, value);
    }
    Ok(())
}

/// The same for items that are made one by one.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
#[inline]
pub(crate) fn reach_with<T>(
    list: &mut Vec<T>,
    len: usize,
    item: impl FnMut() -> T,
) -> Result<()> {
    if list.len() < len {
        reserve(list, len - list.len())?;
        list.resize_with(len, item);
    }
    Ok(())
}

/// Sorts items by keys; those of one key stay in their order.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
pub(crate) fn sort_by_key<T, K: Ord>(
    items: &mut [T],
    key: impl FnMut(&T) -> K,
) -> Result<()> {
    // A stable sort takes room for as many items, and cannot fail. Short lists are sorted
    // where they are.
    if items.len() > 20 {
        // The sort itself would end the process.
        room(items.len(), size_of::<T>())?;
    }
    items.sort_by_key(key);
    Ok(())
}

/// Makes room for `more` items at the end of a list.
///
/// # Errors
/// [`Error::Memory`], with nothing changed.
#[inline]
pub(crate) fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<()> {
    // The common case, without a call.
    if list.capacity() - list.len() >= more {
        return Ok(());
    }
    let bytes = list.len().saturating_add(more).saturating_mul(size_of::<T>());
    list.try_reserve(more).map_err(|_| Error::Memory { bytes })
}

/// A hash map that grows with a question. It is read as any map. Hashes depend on random
/// numbers of the map, so that nobody can choose keys that collide.
#[derive(Debug, Clone)]
pub(crate) struct Map<K, V, S = RandomState>(HashMap<K, V, S>);

impl<K, V, S: Default> Default for Map<K, V, S> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<K, V, S> Deref for Map<K, V, S> {
    type Target = HashMap<K, V, S>;

    fn deref(&self) -> &HashMap<K, V, S> {
        &self.0
    }
}

impl<K: Eq + Hash, V, S: BuildHasher + Default> Map<K, V, S> {
    /// Of keys with values; the last value of a key stays.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn of(entries: impl IntoIterator<Item = (K, V)>) -> Result<Self> {
        let mut map = Self::default();
        let entries = entries.into_iter();
        map.reserve(entries.size_hint().0)?;
        for (key, value) in entries {
            map.insert(key, value)?;
        }
        Ok(map)
    }

    /// Makes room for `more` keys.
    ///
    /// # Errors
    /// [`Error::Memory`], with nothing changed.
    #[inline]
    pub(crate) fn reserve(&mut self, more: usize) -> Result<()> {
        // As for lists.
        if self.0.capacity() - self.0.len() >= more {
            return Ok(());
        }
        let len = self.0.len().saturating_add(more);
        // A byte for each place besides, and one place in eight stays free.
        let bytes = len.saturating_mul(size_of::<(K, V)>() + 1) / 7 * 8;
        self.0.try_reserve(more).map_err(|_| Error::Memory { bytes })
    }

    /// Enters a value; returns the one that the key had.
    ///
    /// # Errors
    /// [`Error::Memory`], with nothing changed.
    #[inline]
    pub(crate) fn insert(&mut self, key: K, value: V) -> Result<Option<V>> {
        self.reserve(1)?;
        Ok(self.0.insert(key, value))
    }

    /// The value of a key, `value` if it has none yet.
    ///
    /// # Errors
    /// [`Error::Memory`], with nothing changed.
    #[inline]
    pub(crate) fn get_or(&mut self, key: K, value: V) -> Result<&mut V> {
        self.reserve(1)?;
        Ok(self.0.entry(key).or_insert(value))
    }

    /// The value of a key, an empty one if it has none yet.
    ///
    /// # Errors
    /// [`Error::Memory`], with nothing changed.
    #[inline]
    pub(crate) fn get_or_default(&mut self, key: K) -> Result<&mut V>
    where
        V: Default,
    {
        self.reserve(1)?;
        Ok(self.0.entry(key).or_default())
    }

    /// The value of a key, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.0.get_mut(key)
    }

    /// Forgets a key.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        self.0.remove(key)
    }

    /// All values, to be changed.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.values_mut()
    }
}

impl<K: Eq + Hash, V: PartialEq, S: BuildHasher> PartialEq for Map<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<K: Eq + Hash, V: Eq, S: BuildHasher> Eq for Map<K, V, S> {}

impl<K, V, S> IntoIterator for Map<K, V, S> {
    type Item = (K, V);
    type IntoIter = hash_map::IntoIter<K, V>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::kernel::sample::Random;

    /// Far more than there is; counted in items of eight bytes.
    const TOO_MANY: usize = usize::MAX / 64;

    #[test]
    fn what_there_is_no_memory_for_is_an_error_and_changes_nothing() {
        let refused = |done: Result<()>| matches!(done, Err(Error::Memory { .. }));
        let mut list = vec![7u64];
        assert!(refused(room(TOO_MANY, 8)));
        assert!(refused(filled(0u64, TOO_MANY).map(drop)));
        assert!(refused(filled_with(TOO_MANY, || 0u64).map(drop)));
        assert!(refused(collect(0..TOO_MANY as u64).map(drop)));
        assert!(refused(reserve(&mut list, TOO_MANY)));
        assert!(refused(reach(&mut list, TOO_MANY, 0)));
        assert!(refused(reach_with(&mut list, TOO_MANY, || 0)));
        assert!(refused(extend(&mut list, 0..TOO_MANY as u64)));
        assert_eq!(list, [7]);
        let mut map: Map<u64, u64> = Map::of([(1, 2)]).unwrap();
        assert!(refused(map.reserve(TOO_MANY)));
        let keys = (0..TOO_MANY as u64).map(|key| (key, key));
        assert!(refused(Map::<u64, u64>::of(keys).map(drop)));
        assert_eq!(map.into_iter().collect::<Vec<_>>(), [(1, 2)]);
    }

    #[test]
    fn maps_are_maps() {
        let mut random = Random(3);
        let (mut map, mut other) = (Map::<usize, usize>::default(), BTreeMap::new());
        for step in 0..20_000 {
            let key = random.below(500);
            match random.below(4) {
                0 => assert_eq!(map.insert(key, step), Ok(other.insert(key, step))),
                1 => assert_eq!(map.remove(&key), other.remove(&key)),
                2 => assert_eq!(
                    *map.get_or(key, step).unwrap(),
                    *other.entry(key).or_insert(step)
                ),
                _ => {
                    *map.get_or_default(key).unwrap() += 1;
                    *other.entry(key).or_default() += 1;
                }
            }
            assert_eq!(map.get(&key), other.get(&key));
            assert_eq!(map.len(), other.len());
        }
        for value in map.values_mut().chain(other.values_mut()) {
            *value += 1;
        }
        let mut all = map.into_iter().collect::<Vec<_>>();
        all.sort_unstable();
        assert_eq!(all, other.into_iter().collect::<Vec<_>>());
    }

    #[test]
    fn lists_grow_by_all_that_comes() {
        let (mut list, mut other) = (Vec::new(), Vec::new());
        for n in 0..40usize {
            let odd = |n: &usize| n % 2 == 1;
            extend(&mut list, (0..n).filter(odd)).unwrap();
            other.extend((0..n).filter(odd));
            push(&mut list, n).unwrap();
            other.push(n);
        }
        assert_eq!(list, other);
        assert_eq!(copied(&list).as_ref(), Ok(&other));
        let halves = list.iter().map(|&n| Ok(n / 2));
        assert_eq!(try_collect(halves), Ok(other.iter().map(|n| n / 2).collect()));
        let until = |n: usize| if n < 3 { Ok(n) } else { Err(Error::Interrupted) };
        assert_eq!(try_collect((0..9).map(until)), Err(Error::Interrupted));
        sort_by_key(&mut list, |n| n % 5).unwrap();
        other.sort_by_key(|n| n % 5);
        assert_eq!(list, other);
        let mut words = text("a\u{e4}").unwrap();
        write(&mut words, " b").unwrap();
        assert_eq!(words, "a\u{e4} b");
    }
}
