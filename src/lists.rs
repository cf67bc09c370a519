//! Lists laid end to end: one array of items, and where each list ends in it.
//!
//! ```text
//! [a b] [] [c]      items  a b c      ends  2 2 3
//! ```
//!
//! They are written one after another ([`Lists::extend`], [`Lists::close`]), or, where
//! items come in another order than lists, filled by counting ([`Filling`]): once the
//! lengths are known so is the place of every list, and each item goes to the next free
//! place of its own.

use crate::Result;
use crate::intern::new_id;

/// Lists laid end to end.
#[derive(Debug, Clone)]
pub(crate) struct Lists<T> {
    /// The items of all lists, and at the end those of the one that is not closed yet.
    pub(crate) items: Vec<T>,
    ends: Vec<u32>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { items: Vec::new(), ends: Vec::new() }
    }
}

impl<T> Lists<T> {
    /// How many lists there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Where a list starts among all items.
    #[inline]
    pub(crate) fn start(&self, list: usize) -> usize {
        list.checked_sub(1).map_or(0, |before| self.ends[before]) as usize
    }

    /// A list.
    #[inline]
    pub(crate) fn get(&self, list: usize) -> &[T] {
        &self.items[self.start(list)..self.ends[list] as usize]
    }

    /// The first `len` items of a list.
    #[inline]
    pub(crate) fn first(&self, list: usize, len: usize) -> &[T] {
        let start = self.start(list);
        &self.items[start..start + len]
    }

    /// All lists in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[T]> {
        (0..self.len()).map(|list| self.get(list))
    }

    /// Adds an item to the open list.
    #[inline]
    pub(crate) fn push(&mut self, item: T) {
        self.items.push(item);
    }

    /// Adds items to the open list.
    #[inline]
    pub(crate) fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        self.items.extend(items);
    }

    /// Ends the open list. If the items are too many, it is given up.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 items, called `what`.
    #[inline]
    pub(crate) fn close(&mut self, what: &'static str) -> Result<()> {
        match new_id(self.items.len(), what) {
            Ok(end) => self.ends.push(end),
            Err(error) => {
                self.items.truncate(self.start(self.len()));
                return Err(error);
            }
        }
        Ok(())
    }

    /// Adds the lists of another.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub(crate) fn append(&mut self, other: Self, what: &'static str) -> Result<()> {
        if self.ends.is_empty() {
            *self = other;
            return Ok(());
        }
        let start = self.items.len() as u32;
        new_id(self.items.len() + other.items.len(), what)?;
        self.items.extend(other.items);
        self.ends.extend(other.ends.into_iter().map(|end| start + end));
        Ok(())
    }

    /// Forgets all but the first `len` lists.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.ends.truncate(len);
        self.items.truncate(self.start(self.len()));
    }

    /// Keeps of each list the items that are wanted.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool)
    where
        T: Copy,
    {
        let (mut kept, mut first) = (0, 0);
        for end in &mut self.ends {
            for at in first..*end as usize {
                if keep(&self.items[at]) {
                    self.items[kept] = self.items[at];
                    kept += 1;
                }
            }
            first = std::mem::replace(end, kept as u32) as usize;
        }
        self.items.truncate(kept);
    }

    /// Gives back what growth by doubling took too much.
    pub(crate) fn shrink(&mut self) {
        self.items.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// Bytes held.
    pub(crate) fn nbytes(&self) -> usize {
        self.items.capacity() * size_of::<T>() + self.ends.capacity() * size_of::<u32>()
    }
}

/// Lists of known lengths while their items come in, in any order of lists.
#[derive(Debug)]
pub(crate) struct Filling<T> {
    lists: Lists<T>,
    /// By list: its next free place.
    next: Vec<u32>,
}

impl<T: Clone> Filling<T> {
    /// Of lists of these lengths, 2^32 items in all at most. Places that are never filled
    /// keep `blank`.
    pub(crate) fn new(mut lens: Vec<u32>, blank: T) -> Self {
        let next = starts(&mut lens);
        let total = lens.last().map_or(0, |&end| end as usize);
        Self { lists: Lists { items: vec![blank; total], ends: lens }, next }
    }

    /// Puts an item into a list; returns its place among all items.
    #[inline]
    pub(crate) fn put(&mut self, list: u32, item: T) -> usize {
        let next = &mut self.next[list as usize];
        let place = *next as usize;
        *next += 1;
        self.lists.items[place] = item;
        place
    }

    /// The lists.
    pub(crate) fn done(self) -> Lists<T> {
        self.lists
    }
}

/// Makes of the lengths of lists where they end; returns where they start.
pub(crate) fn starts(lens: &mut [u32]) -> Vec<u32> {
    let mut end = 0;
    let mut starts = Vec::with_capacity(lens.len());
    for len in lens {
        starts.push(end);
        end += *len;
        *len = end;
    }
    starts
}

/// How often each number below `n` comes.
pub(crate) fn times(numbers: &[u32], n: usize) -> Vec<u32> {
    let mut times = vec![0u32; n];
    for &number in numbers {
        times[number as usize] += 1;
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_as_they_were_written() {
        let mut lists = Lists::default();
        for list in [&[1, 2][..], &[], &[3, 4, 5]] {
            lists.extend(list.iter().copied());
            lists.close("items").unwrap();
        }
        assert_eq!(lists.iter().collect::<Vec<_>>(), [&[1, 2][..], &[], &[3, 4, 5]]);
        assert_eq!(lists.first(2, 1), [3]);
        lists.retain(|item| item % 2 == 1);
        assert_eq!(lists.iter().collect::<Vec<_>>(), [&[1][..], &[], &[3, 5]]);
        lists.push(6);
        lists.truncate(1);
        assert_eq!((lists.len(), &*lists.items), (1, &[1][..]));
    }

    #[test]
    fn filling_keeps_the_order_of_each_list() {
        let numbers = [2, 0, 2, 3, 0];
        let mut filling = Filling::new(times(&numbers, 4), 9);
        for (item, &list) in numbers.iter().enumerate() {
            filling.put(list, item);
        }
        let lists = filling.done();
        let lists: Vec<_> = lists.iter().collect();
        assert_eq!(lists, [&[1, 4][..], &[], &[0, 2], &[3]]);
    }
}
