//! Hash-consed trees: equal subtrees are one node.
//!
//! Two subtrees are equal when label, arity and, child by child, all below agree. A
//! forest stores each distinct subtree once, in flat arrays, children before parents, so
//! that equality of subtrees (what every tree kernel asks, millions of times) is
//! equality of two integers, and a tree is the id of its root:
//!
//! ```text
//! (S (NP dog) (VP (V barks) (NP dog)))      id  label  children
//!                                            0  dog    -
//!                                            1  NP     0
//!                                            2  barks  -
//!                                            3  V      2
//!                                            4  VP     3 1
//!                                            5  S      1 4
//! ```
//!
//! A node's **production** is its label with the labels of its children, in order; it
//! is what two nodes must share for the subset tree kernel to look further. Productions
//! are interned like nodes.
//!
//! [`Nodes`] is the store, [`Forest`] a list of roots in it. Forests share their store
//! when one was cut out of the other; two forests with different stores are brought
//! together by [`Forest::union_store`].
//!
//! A tree that holds itself twice, seventy times over, has 2^70 nodes in 71 subtrees.
//! What must write out every node ([`Forest::to_arrays_with`] and its like) counts them
//! first, and refuses beyond [`MAX_NODES`] or [`MAX_BYTES`]. [`SharedArrays`] write
//! out every subtree once.
//!
//! # Complexity
//! Building is linear in the number of nodes read, memory linear in the number of
//! distinct ones. Nothing recurses: a chain of a million nodes is a forest like others.

mod arrays;
mod nodes;
pub(crate) mod reader;

use std::sync::Arc;

pub use arrays::{ForestArrays, SharedArrays};
pub use nodes::Nodes;

use crate::intern::new_id;
use crate::memory::{self, Map, filled, or_panic, reserve};
use crate::{Context, Error, Label, Result};

/// A distinct subtree's id within one [`Nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct NodeId(pub(crate) u32);

/// A production's id within one [`Nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ProductionId(pub(crate) u32);

impl NodeId {
    /// The id as an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl ProductionId {
    /// What stands for "no production": that of a leaf.
    const NONE: Self = Self(u32::MAX);

    /// The id as an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The most nodes, of all trees together, that are written out one by one.
pub const MAX_NODES: u64 = 1 << 28;

/// The most bytes of text, of all trees together, that are written out.
pub const MAX_BYTES: u64 = 1 << 31;

/// A list of trees over a shared store of distinct subtrees.
#[derive(Debug, Clone, Default)]
pub struct Forest {
    nodes: Arc<Nodes>,
    roots: Vec<NodeId>,
}

/// Which trees of a forest are equal.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Unique {
    /// The different trees, in the order in which each first stands.
    pub trees: Forest,
    /// Where each of them stands first.
    pub indices: Vec<usize>,
    /// Which of them each tree of the forest is.
    pub inverse: Vec<usize>,
    /// How many trees of the forest are equal to each.
    pub counts: Vec<usize>,
}

impl Forest {
    pub(crate) fn new(nodes: Arc<Nodes>, roots: Vec<NodeId>) -> Self {
        Self { nodes, roots }
    }

    /// The same trees, over the same store.
    pub(crate) fn copied(&self) -> Result<Self> {
        Ok(Self::new(Arc::clone(&self.nodes), memory::copied(&self.roots)?))
    }

    /// How many trees there are.
    pub fn len(&self) -> usize {
        self.roots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.roots.is_empty()
    }

    /// The store of distinct subtrees.
    pub fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    /// The trees: their roots in the store.
    pub fn roots(&self) -> &[NodeId] {
        &self.roots
    }

    /// Whether two forests share their store, so that their node ids compare.
    pub fn shares_store(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.nodes, &other.nodes)
    }

    /// The trees at the given indices, over the same store.
    ///
    /// # Panics
    /// When an index is out of range, as slices do, or there are 2^32 - 1 of them.
    #[must_use]
    pub fn select(&self, indices: impl IntoIterator<Item = usize>) -> Self {
        or_panic(self.picked(indices.into_iter()))
    }

    /// As [`select`](Self::select), or an error.
    pub(crate) fn try_select(&self, indices: &[usize]) -> Result<Self> {
        self.picked(indices.iter().copied())
    }

    /// As [`select`](Self::select), or an error.
    pub(crate) fn picked(&self, indices: impl Iterator<Item = usize>) -> Result<Self> {
        // Too many are refused before they are collected, as far as that is known.
        let n = indices.size_hint().0;
        new_id(n, "trees")?;
        let mut roots = Vec::new();
        reserve(&mut roots, n)?;
        memory::extend(&mut roots, indices.map(|index| self.roots[index]))?;
        new_id(roots.len(), "trees")?;
        Ok(Self::new(Arc::clone(&self.nodes), roots))
    }

    /// Two forests over one store, whatever stores they had; ids of the first stay.
    ///
    /// # Errors
    /// [`Error::Capacity`] if together they have too many distinct subtrees.
    pub fn union_store(&self, other: &Self) -> Result<(Self, Self)> {
        let mut first = self.copied()?;
        if self.shares_store(other) {
            return Ok((first, other.copied()?));
        }
        let nodes = unshared(&mut first.nodes)?;
        let roots = nodes.absorb(&other.nodes, &other.roots, &Context::default())?;
        let second = Self::new(Arc::clone(&first.nodes), roots);
        Ok((first, second))
    }

    /// The trees of one forest followed by those of another.
    ///
    /// # Errors
    /// As [`concat_all`](Self::concat_all).
    pub fn concat(&self, other: &Self) -> Result<Self> {
        Self::concat_all([self, other])
    }

    /// The trees of several forests, one forest after another.
    ///
    /// # Errors
    /// [`Error::Capacity`] if together they have too many trees or distinct subtrees,
    /// [`Error::Memory`].
    pub fn concat_all<'a>(forests: impl IntoIterator<Item = &'a Self>) -> Result<Self> {
        Self::try_concat_all(forests, &Context::default())
    }

    /// As [`concat_all`](Self::concat_all); `context` may end it.
    pub(crate) fn try_concat_all<'a>(
        forests: impl IntoIterator<Item = &'a Self>,
        context: &Context,
    ) -> Result<Self> {
        let mut forests = forests.into_iter().peekable();
        let Some(&first) = forests.peek() else { return Ok(Self::default()) };
        // Beginning with the store of the first, whose ids stay.
        let mut joined = first.try_select(&[])?;
        for forest in forests {
            new_id(joined.len() + forest.len(), "trees")?;
            // Room first: once the subtrees are absorbed their roots must fit.
            reserve(&mut joined.roots, forest.len())?;
            if first.shares_store(forest) {
                joined.roots.extend(&forest.roots);
            } else {
                let nodes = unshared(&mut joined.nodes)?;
                joined.roots.extend(nodes.absorb(
                    &forest.nodes,
                    &forest.roots,
                    context,
                )?);
            }
        }
        Ok(joined)
    }

    /// Adds the trees of another forest behind these.
    ///
    /// # Errors
    /// As [`concat_all`](Self::concat_all); the trees stay as they were.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        new_id(self.len() + other.len(), "trees")?;
        // Room first: once the subtrees are absorbed their roots must fit.
        reserve(&mut self.roots, other.len())?;
        if self.shares_store(other) {
            self.roots.extend(&other.roots);
        } else {
            let nodes = unshared(&mut self.nodes)?;
            self.roots.extend(nodes.absorb(
                &other.nodes,
                &other.roots,
                &Context::default(),
            )?);
        }
        Ok(())
    }

    /// Runs a builder on the store; a store shared with other forests is copied first,
    /// and a failed call changes nothing.
    pub(crate) fn extend_with(
        &mut self,
        build: impl FnOnce(&mut Nodes, &mut Vec<NodeId>) -> Result<()>,
    ) -> Result<()> {
        let nodes = unshared(&mut self.nodes)?;
        let (mark, len) = (nodes.mark(), self.roots.len());
        let built = build(nodes, &mut self.roots);
        let built = built.and_then(|()| new_id(self.roots.len(), "trees").map(drop));
        if built.is_err() {
            nodes.roll_back(mark);
            self.roots.truncate(len);
        }
        built
    }

    /// Gives back memory that growth took too much. The constructors call it.
    pub fn shrink_to_fit(&mut self) {
        Arc::make_mut(&mut self.nodes).shrink();
        self.roots.shrink_to_fit();
    }

    /// Whether two trees, of this forest and of another, are equal.
    ///
    /// # Panics
    /// When an index is out of range, as slices do.
    pub fn tree_eq(&self, index: usize, other: &Self, other_index: usize) -> bool {
        let (root, there) = (self.roots[index], other.roots[other_index]);
        if self.shares_store(other) {
            return root == there;
        }
        self.nodes.find_in(root, &other.nodes) == Some(there)
    }

    /// Whether both have equal lists of equal trees, or an error.
    pub(crate) fn try_eq(&self, other: &Self) -> Result<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if self.shares_store(other) {
            return Ok(self.roots == other.roots);
        }
        // One pass over both, not a look-up per tree.
        match self.union_store(other) {
            Ok((one, another)) => Ok(one.roots == another.roots),
            // Together they have more subtrees than each: so they differ.
            Err(Error::Capacity { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The number of nodes of each tree. Saturates at 2^64 - 1.
    ///
    /// # Panics
    /// Without memory for it, as all methods do that walk trees and return no error.
    pub fn n_nodes(&self) -> Vec<u64> {
        or_panic(self.try_n_nodes())
    }

    /// As [`n_nodes`](Self::n_nodes), or an error.
    pub(crate) fn try_n_nodes(&self) -> Result<Vec<u64>> {
        self.totals(|_| 1)
    }

    /// The sum of a number over all nodes of each tree. Saturates at 2^64 - 1.
    pub(crate) fn totals(&self, number: impl FnMut(NodeId) -> u64) -> Result<Vec<u64>> {
        // One tree: its own subtrees in place of the whole store.
        if let [root] = self.roots[..] {
            return memory::collect([self.nodes.total(root, number)?]);
        }
        let totals = self.nodes.totals(number)?;
        memory::collect(self.roots.iter().map(|r| totals[r.index()]))
    }

    /// The number of nodes of all trees together, for `what` writes out every one.
    ///
    /// # Errors
    /// [`Error::Expansion`] beyond [`MAX_NODES`].
    pub(crate) fn expanded(&self, what: &'static str) -> Result<usize> {
        let needed = self.try_n_nodes()?.into_iter().fold(0, u64::saturating_add);
        check_size(what, "nodes", needed, MAX_NODES)
    }

    /// The number of distinct subtrees of all trees together, leaves included.
    pub fn n_distinct(&self) -> usize {
        or_panic(self.try_n_distinct())
    }

    /// As [`n_distinct`](Self::n_distinct), or an error.
    pub(crate) fn try_n_distinct(&self) -> Result<usize> {
        Ok(self.nodes.reachable(&self.roots)?.into_iter().filter(|&r| r).count())
    }

    /// The different trees. Equal trees have one root, so it does not matter how many nodes
    /// they have.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn unique(&self) -> Result<Unique> {
        let (mut indices, mut inverse, mut counts) =
            (Vec::new(), Vec::new(), Vec::new());
        reserve(&mut inverse, self.len())?;
        let mut numbers: Map<NodeId, usize> = Map::default();
        for (place, &root) in self.roots.iter().enumerate() {
            let number = *numbers.get_or(root, indices.len())?;
            if number == indices.len() {
                memory::push(&mut indices, place)?;
                memory::push(&mut counts, 0)?;
            }
            counts[number] += 1;
            inverse.push(number); // has room
        }
        Ok(Unique { trees: self.try_select(&indices)?, indices, inverse, counts })
    }

    /// The labels that occur in the trees, in the order of their ids.
    pub fn used_labels(&self) -> Vec<Label> {
        or_panic(self.try_used_labels())
    }

    /// As [`used_labels`](Self::used_labels), or an error.
    pub(crate) fn try_used_labels(&self) -> Result<Vec<Label>> {
        let mut used = filled(false, self.nodes.labels().len())?;
        let reached = self.nodes.reachable(&self.roots)?;
        for (index, _) in reached.iter().enumerate().filter(|(_, r)| **r) {
            // Labels of nodes that other forests have in this store do not count.
            used[self.nodes.label(NodeId(index as u32)).index()] = true;
        }
        let used = (0..used.len()).filter(|&l| used[l]);
        memory::collect(used.map(|label| Label(label as u32)))
    }

    /// All nodes of all trees in preorder, as ids: trees one after another, and the
    /// position where each starts (one more at the end).
    pub fn preorder(&self) -> (Vec<usize>, Vec<NodeId>) {
        or_panic(self.read_preorder(0, &Context::default()))
    }

    /// As [`preorder`](Self::preorder), or an error.
    ///
    /// # Errors
    /// [`Error::Expansion`] beyond [`MAX_NODES`], [`Error::Memory`], and what `context`
    /// returns.
    pub fn preorder_with(
        &self,
        context: &Context,
    ) -> Result<(Vec<usize>, Vec<NodeId>)> {
        self.read_preorder(self.expanded("subtree_ids()")?, context)
    }

    /// Of `n_nodes` nodes, if it is known how many there are.
    fn read_preorder(
        &self,
        n_nodes: usize,
        context: &Context,
    ) -> Result<(Vec<usize>, Vec<NodeId>)> {
        let (mut starts, mut order) = (Vec::new(), Vec::new());
        reserve(&mut order, n_nodes)?;
        self.walk(context, |node, parent| {
            if parent < 0 {
                memory::push(&mut starts, order.len())?;
            }
            memory::push(&mut order, node)
        })?;
        memory::push(&mut starts, order.len())?;
        Ok((starts, order))
    }

    /// Visits all nodes of all trees in preorder, each with the position of its parent,
    /// -1 for a root.
    fn walk(
        &self,
        context: &Context,
        mut visit: impl FnMut(NodeId, i64) -> Result<()>,
    ) -> Result<()> {
        let (mut todo, mut at) = (Vec::new(), 0);
        for &root in &self.roots {
            // Trees one after another, so the stack is empty between them.
            memory::push(&mut todo, (root, -1))?;
            while let Some((node, parent)) = todo.pop() {
                visit(node, parent)?;
                // Backwards: the last one pushed is visited first.
                let children = self.nodes.children(node).iter().rev();
                memory::extend(&mut todo, children.map(|&child| (child, at)))?;
                context.check()?;
                at += 1;
            }
        }
        Ok(())
    }
}

/// The trees of several forests, one forest after another, over the store of the first: as
/// [`Forest::concat_all`], which returns an error where this panics. So text that comes
/// piece by piece is one forest, or the first error:
///
/// ```
/// use treekernel_rs::{Forest, Result};
///
/// let lines = "(S (A a))\n(S (A b))".lines();
/// let forest = lines.map(Forest::from_brackets).collect::<Result<Forest>>()?;
/// assert_eq!(forest.len(), 2);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
impl FromIterator<Self> for Forest {
    /// # Panics
    /// Where they have too many trees or distinct subtrees, or there is no memory.
    fn from_iter<I: IntoIterator<Item = Self>>(forests: I) -> Self {
        let mut forests = forests.into_iter();
        let mut joined = forests.next().unwrap_or_default();
        joined.extend(forests);
        joined
    }
}

impl Extend<Self> for Forest {
    /// As [`append`](Forest::append), of each.
    ///
    /// # Panics
    /// Where they have too many trees or distinct subtrees, or there is no memory.
    fn extend<I: IntoIterator<Item = Self>>(&mut self, forests: I) {
        for forest in forests {
            or_panic(self.append(&forest));
        }
    }
}

impl PartialEq for Forest {
    /// Equal lists of equal trees, whatever the stores.
    fn eq(&self, other: &Self) -> bool {
        or_panic(self.try_eq(other))
    }
}

/// A store that is to be changed; one that others hold is copied first.
fn unshared(nodes: &mut Arc<Nodes>) -> Result<&mut Nodes> {
    if Arc::get_mut(nodes).is_none() {
        // `make_mut` copies with clones, which would end the process without memory.
        memory::room(1, nodes.nbytes())?;
    }
    Ok(Arc::make_mut(nodes))
}

/// A size, unless it is above a limit.
pub(crate) fn check_size(
    what: &'static str,
    unit: &'static str,
    needed: u64,
    limit: u64,
) -> Result<usize> {
    if needed > limit {
        return Err(Error::Expansion { what, unit, needed, limit });
    }
    Ok(needed as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables and rows number trees by 32 bits. They are refused before they take memory.
    #[test]
    fn more_trees_than_numbers_are_refused() {
        let forest = Forest::from_brackets("(A a) (B b)").unwrap();
        for n in [u32::MAX as usize, 1 << 32, (1 << 32) + 1, usize::MAX] {
            let error = forest.picked(std::iter::repeat_n(0, n)).unwrap_err();
            assert!(error.to_string().contains("4294967295 trees"), "{error}");
        }
        let select = || forest.select(std::iter::repeat_n(0, 1 << 32));
        assert!(std::panic::catch_unwind(select).is_err());
        assert_eq!(forest.select([1, 0, 1]).to_brackets(), ["(B b)", "(A a)", "(B b)"]);
    }

    #[test]
    fn a_tree_has_the_same_values_whatever_share_of_its_store_it_is() {
        // Chains of n nodes, and up to 17 n other nodes before them: children are found
        // in another way where a tree is a small share of its store.
        for n in 1..6 {
            for others in 0..=17 * n {
                let mut trees: Vec<_> =
                    (0..others).map(|i| format!("(o{i})")).collect();
                trees.push("(a ".repeat(n) + &")".repeat(n));
                let forest = Forest::from_brackets(&trees.concat()).unwrap();
                let root = *forest.roots().last().unwrap();
                let depth = |_, below: &[usize]| 1 + below.iter().sum::<usize>();
                assert_eq!(forest.nodes().fold(root, depth).unwrap(), n);
            }
        }
    }
}
