//! How far lists are filled by the first trees.
//!
//! Column subtrees are numbered by the first tree that has them, and the lists that they
//! stand in are in the order of their numbers. So what the trees before one have is a
//! prefix of every list, and a row of a symmetric matrix needs no more.

use crate::ids::{GroupId, IdVec, ListId};
use crate::ragged::Ragged;
use crate::{Result, memory};

/// What comes with each tree.
#[derive(Debug, Default)]
pub(crate) struct Prefixes {
    /// By tree: the groups of its new column subtrees.
    pub(crate) groups: Ragged<GroupId>,
    /// By column subtree: per listed child the list that it is in.
    pub(crate) lists: Ragged<ListId>,
}

impl Prefixes {
    pub(crate) fn nbytes(&self) -> usize {
        self.groups.nbytes() + self.lists.nbytes()
    }
}

/// How much of each group and each list there is in the first trees.
#[derive(Debug)]
pub(crate) struct Prefix {
    /// Trees before this one.
    end: usize,
    group_len: IdVec<GroupId, u32>,
    /// Where what counts of a list starts and ends, side by side, as both are far away when
    /// they are asked for.
    lists: IdVec<ListId, Bounds>,
}

/// Where items start and end.
pub(crate) type Bounds = [u32; 2];

impl Prefix {
    /// Nothing yet; `starts` are those of all lists.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn new(n_groups: usize, starts: &[u32]) -> Result<Self> {
        let lists = memory::collect(starts.iter().map(|&start| [start; 2]))?;
        let group_len = memory::filled(0, n_groups)?;
        Ok(Self { end: 0, group_len: group_len.into(), lists: lists.into() })
    }

    /// Counts what stands in the first `end` trees. Rows come in ascending order as a
    /// rule, so this is a step from the last row; otherwise it starts again.
    pub(crate) fn reveal(&mut self, end: usize, prefixes: &Prefixes) {
        // Going back is not needed row by row, so it may cost a full pass.
        if end < self.end {
            self.group_len.fill(0);
            self.lists.iter_mut().for_each(|[start, end]| *end = *start);
            self.end = 0;
        }
        let Prefixes { groups, lists } = prefixes;
        // Items of `groups` are subtrees, tree by tree: which of them are new, and so
        // whose lists.
        let [start, stop] = [self.end, end].map(|tree| groups.start(tree));
        for &group in &groups.items[start..stop] {
            self.group_len[group] += 1;
        }
        // Each entry ends one list one further.
        for &list in &lists.items[lists.start(start)..lists.start(stop)] {
            self.lists[list][1] += 1;
        }
        self.end = end;
    }
}

/// How much of a group or list counts: all of it, or what the first trees have.
pub(crate) trait Extent {
    /// Whether that is always all of it.
    const WHOLE: bool;
    /// Of the `total` subtrees of a group.
    fn group(&self, group: GroupId, total: usize) -> usize;
    /// Of the entries of a list, the bounds of all of which are `whole`.
    fn list(&self, list: ListId, whole: impl FnOnce() -> Bounds) -> Bounds;
}

/// All trees.
pub(crate) struct AllTrees;

impl Extent for AllTrees {
    const WHOLE: bool = true;

    #[inline]
    fn group(&self, _group: GroupId, total: usize) -> usize {
        total
    }

    #[inline]
    fn list(&self, _list: ListId, whole: impl FnOnce() -> Bounds) -> Bounds {
        whole()
    }
}

impl Extent for Prefix {
    const WHOLE: bool = false;

    #[inline]
    fn group(&self, group: GroupId, _total: usize) -> usize {
        self.group_len[group] as usize
    }

    #[inline]
    fn list(&self, list: ListId, _whole: impl FnOnce() -> Bounds) -> Bounds {
        self.lists[list]
    }
}
