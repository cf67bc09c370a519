//! The sinks that make rows of a matrix: K of the query tree with every indexed tree.
//!
//! A subtree of one tree adds to that tree. What several trees share (or one tree has
//! twice) collects what it would add to each of them, and passes it on once, at the end of
//! the row. Both are places of one array, the *slots*, as which it is cannot be predicted:
//!
//! ```text
//! slots:   K with tree 0 .. n-1  |  a place for what is told elsewhere  |  the shared
//! ```

use super::weights::{Sink, View};
use crate::ids::{GroupId, Id, IdVec, PackedOption, PatternId, Place, RowSlot, TreeId};
use crate::kernel::{Number, TreeCounts};
use crate::memory;
use crate::ragged::{self, Ragged};
use crate::{Error, NodeId, Result};

/// New subtrees of a tree from which on they are treated as shared ones: a sum of so many
/// of their terms one by one would lose digits.
const LARGE: usize = 1 << 11;

/// A subtree that stands in several trees, or more than once in one.
#[derive(Debug, Clone, Copy)]
struct Shared {
    /// Its first two trees with how often it stands there; 0 for a second tree that there
    /// is not.
    first: [(PackedOption<TreeId>, u32); 2],
    /// Its third tree, and where those from the third on end.
    third: PackedOption<TreeId>,
    end: u32,
}

/// The slot of each subtree.
pub(crate) type SlotOf = IdVec<NodeId, RowSlot>;

/// Where the values of some trees' subtrees go.
#[derive(Debug)]
pub(crate) struct Slots {
    n_trees: usize,
    /// By tree: where those of its new subtrees end that are shared.
    tree_ends: Vec<u32>,
    shared: Vec<Shared>,
    /// Their trees from the third on, with how often they stand there.
    rest: Vec<(TreeId, u32)>,
}

/// What a worker keeps from row to row.
#[derive(Debug)]
pub(crate) struct Scratch {
    /// By slot; zero between rows.
    slots: Vec<f64>,
    touched: Vec<u32>,
}

impl Slots {
    /// How often trees have each of so many nodes of their store: 2 stands for more.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn times(trees: &TreeCounts, n_nodes: usize) -> Result<Vec<u8>> {
        let mut times = memory::filled(0u8, n_nodes)?;
        for tree in 0..trees.len() {
            // 2 is as good as more: only "once" and "more often" are told apart.
            for (node, count) in trees.iter(tree) {
                let times = &mut times[node.index()];
                *times = (*times + count.min(2) as u8).min(2);
            }
        }
        Ok(times)
    }

    /// Gives the new subtrees of each tree their slots, by node: of those that are told
    /// elsewhere one for all. `times` are the [`times`](Self::times) of the nodes.
    pub(crate) fn new(
        trees: &TreeCounts,
        new: &Ragged<NodeId>,
        is_elsewhere: impl Fn(NodeId) -> bool,
        times: &[u8],
    ) -> Result<(Self, SlotOf)> {
        let n_trees = trees.len();
        // Subtrees other than the new ones have no slot, as those that are told elsewhere.
        let elsewhere = RowSlot::at(n_trees);
        let mut slot_of = SlotOf::from(memory::filled(elsewhere, times.len())?);
        // 1. Number them in the order in which trees bring them.
        let mut slots = Self {
            n_trees,
            tree_ends: Vec::new(),
            shared: Vec::new(),
            rest: Vec::new(),
        };
        let none = PackedOption::NONE;
        let none = Shared { first: [(none, 0); 2], third: none, end: 0 };
        for (tree, new) in new.iter().enumerate() {
            // A slot is a tree's own, or that of a shared subtree behind all trees'.
            for &node in new {
                slot_of[node] = if is_elsewhere(node) {
                    elsewhere
                } else if times[node.index()] > 1 || new.len() > LARGE {
                    memory::push(&mut slots.shared, none)?;
                    RowSlot::next(n_trees + slots.shared.len(), "subtrees")?
                } else {
                    RowSlot::at(tree)
                };
            }
            memory::push(&mut slots.tree_ends, slots.shared.len() as u32)?;
        }
        // 2. List their trees.
        // Read twice: first how long each list gets, then its items.
        let n_before = slots.first_shared();
        let each = |f: &mut dyn FnMut(usize, (TreeId, u32))| {
            for tree in 0..n_trees {
                for (node, count) in trees.iter(tree) {
                    let slot = slot_of[node].index();
                    if slot >= n_before {
                        f(slot - n_before, (TreeId::at(tree), count));
                    }
                }
            }
        };
        let mut lens = memory::filled(0, slots.shared.len())?;
        each(&mut |number, (tree, count)| {
            // Trees ascend: the first two come first, and then the third.
            let shared = &mut slots.shared[number];
            let free = shared.first.iter_mut().find(|(tree, _)| tree.is_none());
            if let Some(free) = free {
                *free = (tree.into(), count);
                return;
            }
            if shared.third.is_none() {
                shared.third = tree.into();
            }
            lens[number] += 1;
        });
        // From lengths to starts; at last, where each list ends.
        let mut at = ragged::starts(&mut lens)?;
        slots.rest =
            memory::filled((TreeId(0), 0), lens.last().map_or(0, |&end| end as usize))?;
        for (shared, end) in slots.shared.iter_mut().zip(lens) {
            shared.end = end;
        }
        each(&mut |number, item| {
            // The first two stand in `first`.
            if item.0 >= slots.shared[number].third.expect_id() {
                slots.rest[at[number] as usize] = item;
                at[number] += 1;
            }
        });
        Ok((slots, slot_of))
    }

    pub(crate) fn nbytes(&self) -> usize {
        let shared = self.shared.len() * size_of::<Shared>();
        self.tree_ends.len() * 4 + shared + self.rest.len() * 8
    }

    /// The slots from here on are those of shared subtrees.
    fn first_shared(&self) -> usize {
        self.n_trees + 1
    }

    /// The trees of a shared subtree from the third on, with how often it stands there.
    fn rest_of(&self, number: usize) -> &[(TreeId, u32)] {
        let start = number.checked_sub(1).map_or(0, |n| self.shared[n].end);
        &self.rest[start as usize..self.shared[number].end as usize]
    }

    /// The slot of what is told elsewhere: nobody reads it.
    pub(crate) fn elsewhere(&self) -> RowSlot {
        RowSlot::at(self.n_trees)
    }

    /// A new worker's scratch.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn scratch(&self) -> Result<Scratch> {
        let slots = memory::filled(0.0, self.first_shared() + self.shared.len())?;
        Ok(Scratch { slots, touched: memory::filled(0, self.shared.len())? })
    }

    /// Passes on what shared subtrees have collected to the first `row.len()` trees, and
    /// takes the row.
    pub(crate) fn finish(&self, scratch: &mut Scratch, row: &mut [f64]) {
        let (len, Scratch { slots, touched }) = (row.len(), scratch);
        // Subtrees are numbered as trees bring them: what the first trees share is a
        // prefix.
        let n_shared = len.checked_sub(1).map_or(0, |t| self.tree_ends[t]) as usize;
        let (trees, sums) = slots.split_at_mut(self.first_shared());
        // Told elsewhere.
        trees[self.n_trees] = 0.0;
        let (trees, sums) = (&mut trees[..=len], &mut sums[..n_shared]);
        // One in five has collected something, most of them for one or two of these
        // trees, and neither can be predicted: so first a list of those that have,
        // without a branch, then their first two trees, without a branch (what is not
        // there goes to the place after the trees), and at last the others. Of frequent
        // subtrees, dense columns would cost what they gain.
        let mut n_touched = 0;
        for (number, &sum) in sums.iter().enumerate() {
            touched[n_touched] = number as u32;
            n_touched += usize::from(sum != 0.0);
        }
        let mut n_more = 0;
        for at in 0..n_touched {
            let number = touched[at];
            let sum = sums[number as usize];
            let shared = &self.shared[number as usize];
            for (tree, count) in shared.first {
                trees[tree.expect_id().index().min(len)] += sum * f64::from(count);
            }
            touched[n_more] = number;
            n_more += usize::from(shared.third.expect_id().index() < len);
        }
        for &number in &touched[..n_more] {
            for &(tree, count) in self.rest_of(number as usize) {
                // Trees ascend.
                if tree.index() >= len {
                    break;
                }
                trees[tree.index()] += sums[number as usize] * f64::from(count);
            }
        }
        // Both parts are zero again for the next row.
        row.copy_from_slice(&trees[..len]);
        trees.fill(0.0);
        sums.fill(0.0);
    }
}

impl Scratch {
    /// K with the first trees, to be added to.
    pub(crate) fn trees(&mut self, len: usize) -> &mut [f64] {
        &mut self.slots[..len]
    }

    /// The sink of the row at hand.
    pub(crate) fn sink(&mut self) -> SlotSink<'_> {
        SlotSink { slots: &mut self.slots, count: 0.0 }
    }

    /// Forgets a row that is not to be finished.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0.0);
    }
}

/// The sink. What all subtrees of a group have is told elsewhere, by integer counts.
pub(crate) struct SlotSink<'a> {
    slots: &'a mut [f64],
    count: f64,
}

impl Sink for SlotSink<'_> {
    type Id = RowSlot;
    type View<'a>
        = SlotSinkView<'a>
    where
        Self: 'a;

    #[inline]
    fn node(&mut self, _place: Place, count: f64) {
        self.count = count;
    }

    #[inline]
    fn group(&mut self, _group: GroupId, _value: f64) {}

    #[inline]
    fn view(&mut self, _group: GroupId) -> SlotSinkView<'_> {
        SlotSinkView { slots: self.slots, weight: self.count }
    }
}

/// Subtrees are told by their slots.
pub(crate) struct SlotSinkView<'a> {
    slots: &'a mut [f64],
    weight: f64,
}

impl View for SlotSinkView<'_> {
    type Id = RowSlot;

    #[inline]
    fn add(&mut self, slot: RowSlot, value: f64) {
        self.slots[slot.index()] += self.weight * value;
    }

    #[inline]
    fn close(self) {}
}

/// What a worker keeps from row to row for [`RowSink`].
#[derive(Debug)]
pub(crate) struct RowScratch<N = f64> {
    /// By shared subtree: what it adds to each of its trees; zero between rows.
    extra: Vec<N>,
    touched: Vec<u32>,
    /// There was no memory to note one of them: the row is wrong.
    is_refused: bool,
}

impl<N> Default for RowScratch<N> {
    fn default() -> Self {
        Self { extra: Vec::new(), touched: Vec::new(), is_refused: false }
    }
}

/// The sink of kernels whose shared subtrees are few: values go to the row itself, and
/// those of shared subtrees aside, so that the row need not be copied as for [`SlotSink`].
pub(crate) struct RowSink<'a, N> {
    slots: &'a Slots,
    scratch: &'a mut RowScratch<N>,
    trees: &'a mut [N],
    /// How often the node at hand stands in the query tree.
    count: N,
}

impl<'a, N: Number> RowSink<'a, N> {
    /// For the first `trees.len()` trees.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn new(
        slots: &'a Slots,
        scratch: &'a mut RowScratch<N>,
        trees: &'a mut [N],
    ) -> Result<Self> {
        memory::reach(&mut scratch.extra, slots.shared.len(), N::from_f64(0.0))?;
        memory::reserve(&mut scratch.touched, slots.shared.len())?;
        Ok(Self { slots, scratch, trees, count: N::from_f64(0.0) })
    }

    /// Passes on what shared subtrees have collected.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn finish(self) -> Result<()> {
        let RowScratch { extra, touched, is_refused } = self.scratch;
        // Nothing may be missing from a row, so it is refused.
        if *is_refused {
            let bytes = 2 * touched.len() * size_of::<u32>();
            self.cancel();
            return Err(Error::Memory { bytes });
        }
        let Self { slots, trees, .. } = self;
        // Each sum is zero again before the next row.
        for number in touched.drain(..) {
            let number = number as usize;
            let sum = std::mem::replace(&mut extra[number], N::from_f64(0.0));
            let Shared { first, third, .. } = slots.shared[number];
            // (One iterator over all took twice the time, 8 of 100 of a row.)
            for (tree, count) in first {
                if let Some(value) = trees.get_mut(tree.expect_id().index()) {
                    *value = *value + sum * N::from_f64(f64::from(count));
                }
            }
            if third.expect_id().index() >= trees.len() {
                continue;
            }
            for &(tree, count) in slots.rest_of(number) {
                let Some(value) = trees.get_mut(tree.index()) else { break };
                *value = *value + sum * N::from_f64(f64::from(count));
            }
        }
        Ok(())
    }

    /// Forgets it, after a walk that was given up.
    pub(crate) fn cancel(self) {
        self.scratch.is_refused = false;
        for number in self.scratch.touched.drain(..) {
            self.scratch.extra[number as usize] = N::from_f64(0.0);
        }
    }
}

/// Subtrees are told by their slots.
pub(crate) struct RowSinkView<'a, N> {
    first_shared: usize,
    scratch: &'a mut RowScratch<N>,
    trees: &'a mut [N],
    count: N,
}

impl<N: Number> Sink<N> for RowSink<'_, N> {
    type Id = RowSlot;
    type View<'a>
        = RowSinkView<'a, N>
    where
        Self: 'a;

    #[inline]
    fn node(&mut self, _place: Place, count: f64) {
        self.count = N::from_f64(count);
    }

    fn group(&mut self, _group: GroupId, _value: N) {}

    #[inline]
    fn view(&mut self, _group: GroupId) -> RowSinkView<'_, N> {
        let Self { slots, scratch, trees, count } = self;
        RowSinkView {
            first_shared: slots.first_shared(),
            scratch,
            trees,
            count: *count,
        }
    }
}

impl<N: Number> View<N> for RowSinkView<'_, N> {
    type Id = RowSlot;

    #[inline]
    fn add(&mut self, slot: RowSlot, value: N) {
        // A slot is a tree's, or that of a shared subtree, beyond all trees.
        let slot = slot.index();
        match self.trees.get_mut(slot) {
            Some(sum) => *sum = *sum + self.count * value,
            None => self.scratch.add(slot - self.first_shared, self.count * value),
        }
    }

    fn close(self) {}
}

impl<N: Number> RowScratch<N> {
    /// Adds to what a subtree of several trees passes on to them.
    #[inline(never)]
    fn add(&mut self, number: usize, value: N) {
        let sum = &mut self.extra[number];
        if *sum == N::from_f64(0.0) {
            // What cancels to 0 is noted again.
            if memory::push(&mut self.touched, number as u32).is_err() {
                self.is_refused = true;
                return;
            }
        }
        *sum = *sum + value;
    }
}

/// Patterns of a tree with counts, as the first pass of a walk tells them. (Its groups are
/// known before.)
#[derive(Debug, Default)]
pub(crate) struct TreePatterns {
    pub(crate) patterns: Vec<(PatternId, u32)>,
    count: u32,
}

impl TreePatterns {
    /// Begins with a tree of so many nodes: each has a pattern at most.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn start(&mut self, n_nodes: usize) -> Result<()> {
        self.patterns.clear();
        memory::reserve(&mut self.patterns, n_nodes)
    }
}

/// Nothing is told of single subtrees in that pass.
pub(crate) struct NoView;

impl<N: Number> View<N> for NoView {
    type Id = RowSlot;

    fn add(&mut self, _: RowSlot, _: N) {}
    fn close(self) {}
}

impl<N: Number> Sink<N> for TreePatterns {
    type Id = RowSlot;
    type View<'a> = NoView;

    #[inline]
    fn node(&mut self, _place: Place, count: f64) {
        self.count = count as u32;
    }

    #[inline]
    fn group(&mut self, _group: GroupId, _value: N) {}

    #[inline]
    fn pattern(&mut self, pattern: PatternId, _value: N) {
        self.patterns.push((pattern, self.count)); // has room: see `start`
    }

    fn view(&mut self, _group: GroupId) -> NoView {
        NoView
    }
}
