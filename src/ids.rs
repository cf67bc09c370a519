//! Numbers that name things, a type for each kind of thing.
//!
//! All are 32 bits wide, so that lists of them are short. As types they cannot be taken for
//! one another: the number of a list for that of a pattern, or a place in a tree for the slot
//! of a row. [`IdVec`] is an array that can be indexed by one kind only, and [`PackedOption`]
//! an id or none in the room of an id.
//!
//! What gives out numbers counts with [`Id::next`], or has asked [`new_id`] for the last one
//! before; so [`Id::at`] need not check.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut, Index, IndexMut};

use crate::intern::new_id;
use crate::{Label, NodeId, ProductionId, Result};

/// A number of one kind of things.
pub(crate) trait Id: Copy {
    /// The id with this number.
    fn from_number(number: u32) -> Self;

    /// The number, as it is stored.
    fn number(self) -> u32;

    /// The number, as an index.
    #[inline]
    fn index(self) -> usize {
        self.number() as usize
    }

    /// The id of a thing that is there, by its index.
    #[inline]
    fn at(index: usize) -> Self {
        debug_assert!(u32::try_from(index).is_ok(), "ids have 32 bits, got {index}");
        Self::from_number(index as u32)
    }

    /// The id of the next thing after so many.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] where there are too many, called `what`.
    #[inline]
    fn next(len: usize, what: &'static str) -> Result<Self> {
        new_id(len, what).map(Self::from_number)
    }
}

/// Makes ids of structs with a `u32` in them.
macro_rules! impl_id {
    ($($name:ty),*) => {$(
        impl $crate::ids::Id for $name {
            #[inline]
            fn from_number(number: u32) -> Self {
                Self(number)
            }

            #[inline]
            fn number(self) -> u32 {
                self.0
            }
        }
    )*};
}

impl_id!(NodeId, ProductionId, Label);

/// Declares ids.
macro_rules! ids {
    ($($(#[$doc:meta])* $vis:vis $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(transparent)]
        $vis struct $name($vis u32);
        $crate::ids::impl_id!($name);
    )*};
}

pub(crate) use {ids, impl_id};

// Those that more than one module knows.
ids! {
    /// A tree among those of an index: a column of a matrix, a support tree.
    pub(crate) TreeId;
    /// A group of the subtrees of an index: those that can have anything in common with one
    /// node of a query tree. For SST a production, for PT a label or similar ones.
    pub(crate) GroupId;
    /// A subtree within its group.
    pub(crate) MemberId;
    /// An inverted list of an index.
    pub(crate) ListId;
    /// What edges of a store ask an index for: see [`crate::index::id_map`].
    pub(crate) KeyId;
    /// What trees are counted by, of several kinds: a label, a simple subtree.
    pub(crate) SymbolId;
    /// A list whose values are known before: see [`crate::index::subset::Patterns`].
    pub(crate) PatternId;
    /// A list of roots that count with their children: see [`crate::index::score_tables`].
    pub(crate) FoldId;
    /// A distinct subtree of the tree that a [`crate::forest::reader::Reader`] has read: how
    /// many it left before.
    pub(crate) Place;
    /// Where a row collects what is told of a subtree: see [`crate::index::rows`].
    pub(crate) RowSlot;
}

/// An id or none, in the room of an id: no thing has the number `u32::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct PackedOption<I>(u32, PhantomData<I>);

impl<I: Id> PackedOption<I> {
    pub(crate) const NONE: Self = Self(u32::MAX, PhantomData);

    /// The id, if there is one.
    #[inline]
    pub(crate) fn get(self) -> Option<I> {
        self.is_some().then(|| I::from_number(self.0))
    }

    /// The id, where the caller knows that there is one; else one that nothing has, and no
    /// array an entry for.
    #[inline]
    pub(crate) fn expect_id(self) -> I {
        I::from_number(self.0)
    }

    #[inline]
    pub(crate) fn is_some(self) -> bool {
        self.0 != u32::MAX
    }

    #[inline]
    pub(crate) fn is_none(self) -> bool {
        !self.is_some()
    }
}

impl<I: Id> From<I> for PackedOption<I> {
    #[inline]
    fn from(id: I) -> Self {
        Self(id.number(), PhantomData)
    }
}

impl<I: Id> From<Option<I>> for PackedOption<I> {
    #[inline]
    fn from(id: Option<I>) -> Self {
        id.map_or(Self::NONE, Self::from)
    }
}

/// An array with an entry for each thing of a kind; otherwise a `Vec`.
#[derive(Debug, Clone)]
pub(crate) struct IdVec<I, T>(Vec<T>, PhantomData<I>);

impl<I, T> Default for IdVec<I, T> {
    fn default() -> Self {
        Self::from(Vec::new())
    }
}

impl<I, T> From<Vec<T>> for IdVec<I, T> {
    fn from(entries: Vec<T>) -> Self {
        Self(entries, PhantomData)
    }
}

impl<I, T> From<IdVec<I, T>> for Vec<T> {
    fn from(entries: IdVec<I, T>) -> Self {
        entries.0
    }
}

impl<I: Id, T> IdVec<I, T> {
    /// The entry of a thing, if there is one.
    #[inline]
    pub(crate) fn find(&self, id: I) -> Option<&T> {
        self.0.get(id.index())
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn find_mut(&mut self, id: I) -> Option<&mut T> {
        self.0.get_mut(id.index())
    }

    /// All entries with their ids.
    #[inline]
    pub(crate) fn enumerated(&self) -> impl Iterator<Item = (I, &T)> {
        (0..).map(I::from_number).zip(&self.0)
    }
}

impl<'a, I, T> IntoIterator for &'a IdVec<I, T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<I, T> Deref for IdVec<I, T> {
    type Target = Vec<T>;

    #[inline]
    fn deref(&self) -> &Vec<T> {
        &self.0
    }
}

impl<I, T> DerefMut for IdVec<I, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.0
    }
}

impl<I: Id, T> Index<I> for IdVec<I, T> {
    type Output = T;

    #[inline]
    fn index(&self, id: I) -> &T {
        &self.0[id.index()]
    }
}

impl<I: Id, T> IndexMut<I> for IdVec<I, T> {
    #[inline]
    fn index_mut(&mut self, id: I) -> &mut T {
        &mut self.0[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_or_none_takes_the_room_of_an_id() {
        assert_eq!(size_of::<PackedOption<ListId>>(), size_of::<ListId>());
        for id in [None, Some(ListId(0)), Some(ListId(u32::MAX - 1))] {
            let packed = PackedOption::from(id);
            assert_eq!((packed.get(), packed.is_some()), (id, id.is_some()));
        }
    }

    #[test]
    fn the_number_of_none_is_given_to_nothing() {
        assert_eq!(
            ListId::next(u32::MAX as usize - 1, "lists"),
            Ok(ListId(u32::MAX - 1))
        );
        assert!(ListId::next(u32::MAX as usize, "lists").is_err());
    }

    #[test]
    fn arrays_have_the_entries_of_their_ids() {
        let mut lens: IdVec<ListId, usize> = vec![3, 1].into();
        lens[ListId(1)] += 4;
        assert_eq!((lens[ListId(0)], lens[ListId(1)]), (3, 5));
        assert_eq!((lens.find(ListId(1)), lens.find(ListId(2))), (Some(&5), None));
        let entries: Vec<_> = lens.enumerated().collect();
        assert_eq!(entries, [(ListId(0), &3), (ListId(1), &5)]);
    }
}
