//! Lists laid end to end: one array of items, and where each list ends in it.
//!
//! ```text
//! [a b] [] [c]      items  a b c      ends  2 2 3
//! ```
//!
//! They are written one after another ([`Ragged::extend`], [`Ragged::close`]), or, where
//! items come in another order than lists, filled by counting ([`Filler`]): once the
//! lengths are known so is the place of every list, and each item goes to the next free
//! place of its own.
//!
//! Whatever grows here returns [`crate::Error::Memory`] where there is no room.

use crate::ids::{Id, IdVec};
use crate::intern::new_id;
use crate::memory::{self, filled, push, reach, reserve};
use crate::{Error, Result};

/// Lists laid end to end.
#[derive(Debug, Clone)]
pub(crate) struct Ragged<T> {
    /// The items of all lists, and at the end those of the one that is not closed yet.
    pub(crate) items: Vec<T>,
    ends: Vec<u32>,
}

impl<T> Default for Ragged<T> {
    fn default() -> Self {
        Self { items: Vec::new(), ends: Vec::new() }
    }
}

impl<T> Ragged<T> {
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

    /// All lists in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[T]> {
        (0..self.len()).map(|list| self.get(list))
    }

    /// Makes room for a list of so many items.
    ///
    /// # Errors
    /// [`crate::Error::Memory`], with nothing changed.
    #[inline]
    pub(crate) fn reserve(&mut self, len: usize) -> Result<()> {
        reserve(&mut self.items, len)?;
        reserve(&mut self.ends, 1)
    }

    /// Lists of as many other items.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn map<U>(&self, f: impl Fn(&T) -> U) -> Result<Ragged<U>> {
        let items = memory::collect(self.items.iter().map(f))?;
        Ok(Ragged { items, ends: memory::collect(self.ends.iter().copied())? })
    }

    /// The same lists.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn copied(&self) -> Result<Self>
    where
        T: Clone,
    {
        self.map(T::clone)
    }

    /// Adds an item to the open list.
    ///
    /// # Errors
    /// [`crate::Error::Memory`], with nothing changed.
    #[inline]
    pub(crate) fn push(&mut self, item: T) -> Result<()> {
        push(&mut self.items, item)
    }

    /// Adds items to the open list.
    ///
    /// # Errors
    /// [`crate::Error::Memory`]; the open list may have some of them.
    #[inline]
    pub(crate) fn extend(&mut self, items: impl IntoIterator<Item = T>) -> Result<()> {
        memory::extend(&mut self.items, items)
    }

    /// Ends the open list. If the items are too many, it is given up.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 items, called `what`, and
    /// [`crate::Error::Memory`].
    #[inline]
    pub(crate) fn close(&mut self, what: &'static str) -> Result<()> {
        // An end is pushed only if its number fits.
        match new_id(self.items.len(), what).and_then(|end| push(&mut self.ends, end)) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.items.truncate(self.start(self.len()));
                Err(error)
            }
        }
    }

    /// Adds the lists of another.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub(crate) fn append(&mut self, other: Self, what: &'static str) -> Result<()> {
        // The first part is taken as it is, without a copy.
        if self.ends.is_empty() {
            *self = other;
            return Ok(());
        }
        let start = self.items.len() as u32;
        // Both are checked before anything changes.
        new_id(self.items.len() + other.items.len(), what)?;
        reserve(&mut self.items, other.items.len())?;
        reserve(&mut self.ends, other.ends.len())?;
        self.items.extend(other.items);
        self.ends.extend(other.ends.into_iter().map(|end| start + end));
        Ok(())
    }

    /// Adds lists of these lengths, of items that come in any order of them. The lengths
    /// are used up.
    ///
    /// # Errors
    /// As [`close`](Self::close), and [`Error::Memory`](crate::Error::Memory).
    pub(crate) fn append_filled(
        &mut self,
        lens: &mut [u32],
        items: impl Iterator<Item = (u32, T)>,
        what: &'static str,
    ) -> Result<()>
    where
        T: Clone + Default,
    {
        // Asked beforehand, so that what follows cannot fail.
        let total: usize = lens.iter().map(|&len| len as usize).sum();
        new_id(self.items.len() + total, what)?;
        reserve(&mut self.items, total)?;
        reserve(&mut self.ends, lens.len())?;
        let mut end = self.items.len() as u32;
        for len in &mut *lens {
            // From here on: the list's next free place.
            let start = end;
            end += std::mem::replace(len, start);
            self.ends.push(end);
        }
        self.items.resize(end as usize, T::default());
        // Each list's next free place, which ends up at its end.
        for (list, item) in items {
            let next = &mut lens[list as usize];
            self.items[*next as usize] = item;
            *next += 1;
        }
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
        // What stays moves forward; a list never grows, so nothing unread is
        // overwritten.
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
pub(crate) struct Filler<T> {
    lists: Ragged<T>,
    /// By list: its next free place.
    next: Vec<u32>,
}

impl<T: Clone> Filler<T> {
    /// Of lists of these lengths, 2^32 items in all at most. Places that are never filled
    /// keep `blank`.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn new(mut lens: Vec<u32>, blank: T) -> Result<Self> {
        // By list: from lengths to ends, and where it starts is its first free place.
        let next = starts(&mut lens)?;
        let total = lens.last().map_or(0, |&end| end as usize);
        let items = filled(blank, total)?;
        Ok(Self { lists: Ragged { items, ends: lens }, next })
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
    pub(crate) fn done(self) -> Ragged<T> {
        self.lists
    }
}

/// Lists that grow at their ends, in one array. A list that is full moves to the end of
/// the array and gets twice the room, so an item costs constant time on average and the
/// array holds at most some three times the items.
#[derive(Debug, Clone)]
pub(crate) struct Growing<L, T> {
    items: Vec<T>,
    /// Where a list starts, how long it is, and how long it may become. Apart, as those who
    /// know a length ask for starts only.
    starts: IdVec<L, u32>,
    lens: IdVec<L, u32>,
    rooms: IdVec<L, u32>,
}

impl<L, T> Default for Growing<L, T> {
    fn default() -> Self {
        let [starts, lens, rooms] = <[IdVec<L, u32>; 3]>::default();
        Self { items: Vec::new(), starts, lens, rooms }
    }
}

impl<L: Id, T: Copy + Default> Growing<L, T> {
    /// How many lists there are.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// How long a list is.
    #[inline]
    pub(crate) fn len_of(&self, list: L) -> usize {
        self.lens[list] as usize
    }

    /// A list.
    #[inline]
    pub(crate) fn get(&self, list: L) -> &[T] {
        self.between(self.bounds(list))
    }

    /// Where a list starts and ends.
    #[inline]
    pub(crate) fn bounds(&self, list: L) -> [u32; 2] {
        [self.starts[list], self.starts[list] + self.lens[list]]
    }

    /// Where lists start.
    pub(crate) fn starts(&self) -> &[u32] {
        &self.starts
    }

    /// The items from one place to another.
    #[inline]
    pub(crate) fn between(&self, [start, end]: [u32; 2]) -> &[T] {
        &self.items[start as usize..end as usize]
    }

    /// Makes sure that there are so many lists.
    ///
    /// # Errors
    /// [`crate::Error::Memory`], with as many lists as before.
    pub(crate) fn reach(&mut self, len: usize) -> Result<()> {
        // The starts last: they say how many there are.
        reach(&mut self.rooms, len, 0)?;
        reach(&mut self.lens, len, 0)?;
        reach(&mut self.starts, len, 0)
    }

    /// Adds an item to a list.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 items, called `what`, and
    /// [`crate::Error::Memory`], with nothing changed.
    #[inline]
    pub(crate) fn push(&mut self, list: L, item: T, what: &'static str) -> Result<()> {
        if self.lens[list] == self.rooms[list] {
            self.make_room(list, what)?;
        }
        let len = &mut self.lens[list];
        self.items[(self.starts[list] + *len) as usize] = item;
        *len += 1;
        Ok(())
    }

    /// Takes the last item off a list, if it is such a one.
    pub(crate) fn pop_if(&mut self, list: L, is_such: impl FnOnce(&T) -> bool) {
        if self.get(list).last().is_some_and(is_such) {
            self.lens[list] -= 1;
        }
    }

    /// Lays the lists out in order, without room for growth.
    ///
    /// # Errors
    /// [`crate::Error::Memory`], with nothing changed.
    pub(crate) fn shrink(&mut self) -> Result<()> {
        // A new array: lists may stand in any order in the old one.
        let n_items = self.lens.iter().map(|&len| len as usize).sum();
        let mut items = Vec::new();
        reserve(&mut items, n_items)?;
        for (start, &len) in self.starts.iter_mut().zip(&self.lens) {
            let first = std::mem::replace(start, items.len() as u32) as usize;
            items.extend_from_slice(&self.items[first..][..len as usize]);
        }
        self.items = items;
        // As long as there are lists: an error in `reach` may have left more.
        self.rooms.truncate(self.lens.len());
        self.rooms.copy_from_slice(&self.lens);
        Ok(())
    }

    #[cold]
    fn make_room(&mut self, list: L, what: &'static str) -> Result<()> {
        let (start, len) = (self.starts[list] as usize, self.lens[list] as usize);
        // Room doubles, so an item costs constant time on average.
        let room = (2 * len).max(2);
        // The last list grows where it is.
        let is_last = start + len == self.items.len();
        let to = if is_last { start } else { self.items.len() };
        new_id(to + room, what)?;
        reach(&mut self.items, to + room, T::default())?;
        if !is_last {
            self.items.copy_within(start..start + len, to);
        }
        (self.starts[list], self.rooms[list]) = (to as u32, room as u32);
        Ok(())
    }

    /// Bytes held.
    pub(crate) fn nbytes(&self) -> usize {
        let numbers =
            [&self.starts, &self.lens, &self.rooms].map(|list| list.capacity());
        self.items.capacity() * size_of::<T>() + numbers.iter().sum::<usize>() * 4
    }
}

impl<L, T> TryFrom<Ragged<T>> for Growing<L, T> {
    type Error = Error;

    fn try_from(lists: Ragged<T>) -> Result<Self> {
        let starts = memory::collect((0..lists.len()).map(|l| lists.start(l) as u32))?;
        let lens = lists.ends.iter().zip(&starts).map(|(end, start)| end - start);
        let lens = memory::collect(lens)?;
        let rooms = memory::collect(lens.iter().copied())?;
        let [starts, lens, rooms] = [starts, lens, rooms].map(IdVec::from);
        Ok(Self { items: lists.items, starts, lens, rooms })
    }
}

/// Makes of the lengths of lists where they end; returns where they start.
///
/// # Errors
/// [`crate::Error::Memory`], with nothing changed.
pub(crate) fn starts(lens: &mut [u32]) -> Result<Vec<u32>> {
    let mut end = 0;
    let mut starts = Vec::new();
    reserve(&mut starts, lens.len())?;
    for len in lens {
        starts.push(end);
        end += *len;
        *len = end;
    }
    Ok(starts)
}

/// How often each number below `n` comes.
///
/// # Errors
/// [`crate::Error::Memory`].
pub(crate) fn times(numbers: &[u32], n: usize) -> Result<Vec<u32>> {
    let mut times = filled(0u32, n)?;
    for &number in numbers {
        times[number as usize] += 1;
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ListId;

    #[test]
    fn lists_come_back_as_they_were_written() {
        let mut lists = Ragged::default();
        for list in [&[1, 2][..], &[], &[3, 4, 5]] {
            lists.extend(list.iter().copied()).unwrap();
            lists.close("items").unwrap();
        }
        assert_eq!(lists.iter().collect::<Vec<_>>(), [&[1, 2][..], &[], &[3, 4, 5]]);
        lists.retain(|item| item % 2 == 1);
        assert_eq!(lists.iter().collect::<Vec<_>>(), [&[1][..], &[], &[3, 5]]);
        lists.push(6).unwrap();
        lists.truncate(1);
        assert_eq!((lists.len(), &*lists.items), (1, &[1][..]));
    }

    #[test]
    fn growing_lists_keep_their_items_as_they_move() {
        let mut written = Ragged::default();
        written.extend([7]).unwrap();
        written.close("items").unwrap();
        let mut lists = Growing::try_from(written).unwrap();
        lists.reach(3).unwrap();
        for item in 0..40 {
            lists.push(ListId::at(item % 3), item, "items").unwrap();
        }
        let of = |list: usize| (list..40).step_by(3).collect::<Vec<_>>();
        assert_eq!(lists.get(ListId(0)), [&[7][..], &of(0)].concat());
        assert_eq!((lists.get(ListId(1)), lists.get(ListId(2))), (&*of(1), &*of(2)));
        assert!(lists.items.len() <= 3 * 41, "{}", lists.items.len());
    }

    #[test]
    fn filling_keeps_the_order_of_each_list() {
        let numbers = [2, 0, 2, 3, 0];
        let mut filling = Filler::new(times(&numbers, 4).unwrap(), 9).unwrap();
        for (item, &list) in numbers.iter().enumerate() {
            filling.put(list, item);
        }
        let lists = filling.done();
        let lists: Vec<_> = lists.iter().collect();
        assert_eq!(lists, [&[1, 4][..], &[], &[0, 2], &[3]]);
    }
}
