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
//! What must write out every node ([`Forest::try_to_arrays`] and its like) counts them
//! first, and refuses beyond [`MOST_NODES`] or [`MOST_BYTES`]. [`Shared`] arrays write
//! out every subtree once.
//!
//! # Complexity
//! Building is linear in the number of nodes read, memory linear in the number of
//! distinct ones. Nothing recurses: a chain of a million nodes is a forest like others.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::Arc;

use crate::intern::{IdTable, Seed, new_id};
use crate::memory::reserve;
use crate::ragged::Ragged;
use crate::{Context, Error, Label, Labels, Result};

/// A distinct subtree's id within one [`Nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct NodeId(pub u32);

/// A production's id within one [`Nodes`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct ProductionId(pub u32);

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

const NO_LEAF: u32 = u32::MAX;

/// The most nodes, of all trees together, that are written out one by one.
pub const MOST_NODES: u64 = 1 << 28;

/// The most bytes of text, of all trees together, that are written out.
pub const MOST_BYTES: u64 = 1 << 31;

/// Part of the nodes before one of them: a tree that has less is small in its store.
const SMALL: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Head {
    label: Label,
    end: u32,
}

/// The store of distinct subtrees, with the alphabet and the productions they use.
///
/// Append-only: an id, once given, keeps its meaning.
#[derive(Debug, Clone, Default)]
pub struct Nodes {
    labels: Labels,
    /// Label and end of the child list side by side: interning asks for both at once,
    /// and one cache line less per look-up made it a tenth faster.
    heads: Vec<Head>,
    edges: Vec<NodeId>,
    production: Vec<ProductionId>,
    /// Inner nodes by label and child ids; leaves are found by `leaf_of`.
    table: IdTable,
    leaf_of: Vec<u32>,
    /// Per production: its label, then those of the children.
    productions: Ragged<Label>,
    production_table: IdTable,
}

/// How far a store had been filled: what a failed call goes back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    nodes: usize,
    labels: usize,
    productions: usize,
}

impl Nodes {
    /// How many distinct subtrees there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    /// The alphabet.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// A node's label.
    #[inline]
    pub fn label(&self, node: NodeId) -> Label {
        self.heads[node.index()].label
    }

    /// A node's label as text.
    pub fn name(&self, node: NodeId) -> &str {
        self.labels.name(self.label(node))
    }

    /// A node's children, in order. All have smaller ids.
    #[inline]
    pub fn children(&self, node: NodeId) -> &[NodeId] {
        self.below(node.index())
    }

    #[inline]
    fn below(&self, node: usize) -> &[NodeId] {
        let start = if node == 0 { 0 } else { self.heads[node - 1].end };
        &self.edges[start as usize..self.heads[node].end as usize]
    }

    /// Whether a node has no children.
    #[inline]
    pub fn is_leaf(&self, node: NodeId) -> bool {
        self.production[node.index()] == ProductionId::NONE
    }

    /// Whether a node has children and all of them are leaves.
    pub fn is_preterminal(&self, node: NodeId) -> bool {
        !self.is_leaf(node) && self.children(node).iter().all(|&c| self.is_leaf(c))
    }

    /// A node's production; a leaf has none.
    #[inline]
    pub fn production(&self, node: NodeId) -> Option<ProductionId> {
        Some(self.production[node.index()]).filter(|&p| p != ProductionId::NONE)
    }

    /// How many distinct productions there are.
    pub fn n_productions(&self) -> usize {
        self.productions.len()
    }

    /// A production written out: its label, then those of the children.
    pub fn production_labels(&self, production: ProductionId) -> &[Label] {
        self.productions.get(production.index())
    }

    /// Bytes held, labels included.
    pub fn nbytes(&self) -> usize {
        self.node_nbytes() + self.labels.nbytes()
    }

    /// Bytes held, labels (their text, table and leaves) not included.
    pub fn node_nbytes(&self) -> usize {
        self.heads.capacity() * size_of::<Head>()
            + self.edges.capacity() * size_of::<NodeId>()
            + self.production.capacity() * size_of::<ProductionId>()
            + self.table.nbytes()
            + self.leaf_of.capacity() * size_of::<u32>()
            + self.productions.nbytes()
            + self.production_table.nbytes()
    }

    /// Nodes in the tree below each node, itself included: the size of what was read,
    /// not of what is stored. Saturates at 2^64 - 1.
    pub fn sizes(&self) -> Vec<u64> {
        self.totals(|_| 1)
    }

    /// The sum of a number over the tree below each node. Saturates at 2^64 - 1.
    fn totals(&self, mut own: impl FnMut(NodeId) -> u64) -> Vec<u64> {
        let mut totals: Vec<u64> = Vec::with_capacity(self.len());
        for node in 0..self.len() {
            let below = self.below(node).iter().map(|c| totals[c.index()]);
            totals.push(below.fold(own(NodeId(node as u32)), u64::saturating_add));
        }
        totals
    }

    // --- building ---------------------------------------------------------------

    #[inline]
    pub(crate) fn labels_mut(&mut self) -> &mut Labels {
        &mut self.labels
    }

    /// The leaf with this label.
    #[inline]
    pub(crate) fn intern_leaf(&mut self, label: Label) -> Result<NodeId> {
        match self.leaf_of.get(label.index()) {
            Some(&node) if node != NO_LEAF => Ok(NodeId(node)),
            _ => self.new_leaf(label),
        }
    }

    #[cold]
    fn new_leaf(&mut self, label: Label) -> Result<NodeId> {
        if self.leaf_of.len() <= label.index() {
            let more = self.labels.len() - self.leaf_of.len();
            reserve(&mut self.leaf_of, more)?;
            self.leaf_of.resize(self.labels.len(), NO_LEAF);
        }
        let node = self.new_node(label, ProductionId::NONE, &[])?;
        self.leaf_of[label.index()] = node.0;
        Ok(node)
    }

    /// The node with this label and these children, which are nodes of this store.
    #[inline]
    pub(crate) fn intern(
        &mut self,
        label: Label,
        children: &[NodeId],
    ) -> Result<NodeId> {
        if children.is_empty() {
            return self.intern_leaf(label);
        }
        let hash = self.hash(label, children);
        match self.find(hash, label, children) {
            Some(node) => Ok(node),
            None => self.new_inner(hash, label, children),
        }
    }

    #[inline]
    fn hash(&self, label: Label, children: &[NodeId]) -> u32 {
        self.table.seed.hash_ids(u64::from(label.0), children.iter().map(|c| c.0))
    }

    #[inline]
    fn find(&self, hash: u32, label: Label, children: &[NodeId]) -> Option<NodeId> {
        let same = |id| {
            let node = NodeId(id);
            self.label(node) == label && self.children(node) == children
        };
        self.table.find(hash, same).map(NodeId)
    }

    /// The node with this label and these children, if it is known.
    fn get(&self, label: Label, children: &[NodeId]) -> Option<NodeId> {
        if children.is_empty() {
            let leaf = *self.leaf_of.get(label.index())?;
            return Some(NodeId(leaf)).filter(|_| leaf != NO_LEAF);
        }
        self.find(self.hash(label, children), label, children)
    }

    /// The node with these ids of label and children, if it is known.
    pub(crate) fn find_node(&self, label: u32, children: &[u32]) -> Option<NodeId> {
        let children: Vec<NodeId> = children.iter().map(|&c| NodeId(c)).collect();
        self.get(Label(label), &children)
    }

    /// The production with these ids of labels, the parent's first, if it is known.
    pub(crate) fn find_production(&self, labels: &[u32]) -> Option<ProductionId> {
        let (&label, right) = labels.split_first()?;
        let seed = self.production_table.seed;
        let hash = seed.hash_ids(u64::from(label), right.iter().copied());
        let same = |id| {
            let known: &[Label] = self.productions.get(id as usize);
            known.iter().map(|l| l.0).eq(labels.iter().copied())
        };
        self.production_table.find(hash, same).map(ProductionId)
    }

    /// The production is looked up here only: once per distinct subtree, not per node.
    fn new_inner(
        &mut self,
        hash: u32,
        label: Label,
        children: &[NodeId],
    ) -> Result<NodeId> {
        let production = self.intern_production(label, children)?;
        self.table.reserve()?;
        let node = self.new_node(label, production, children)?;
        self.table.enter(hash, node.0);
        Ok(node)
    }

    fn intern_production(
        &mut self,
        label: Label,
        children: &[NodeId],
    ) -> Result<ProductionId> {
        let right = children.iter().map(|&c| self.heads[c.index()].label);
        let seed = self.production_table.seed;
        let hash = seed.hash_ids(u64::from(label.0), right.clone().map(|l| l.0));
        let known = self.production_table.find(hash, |id| {
            let (left, others) = self.productions.get(id as usize).split_at(1);
            left[0] == label && others.len() == right.len() && {
                right.clone().zip(others).all(|(a, &b)| a == b)
            }
        });
        if let Some(id) = known {
            return Ok(ProductionId(id));
        }
        let id = new_id(self.n_productions(), "productions")?;
        self.productions.reserve(1 + children.len())?;
        self.production_table.reserve()?;
        self.productions.extend(std::iter::once(label).chain(right))?;
        self.productions.close("edges")?;
        self.production_table.enter(hash, id);
        Ok(ProductionId(id))
    }

    #[inline]
    fn new_node(
        &mut self,
        label: Label,
        production: ProductionId,
        children: &[NodeId],
    ) -> Result<NodeId> {
        let node = new_id(self.len(), "distinct subtrees")?;
        let end = new_id(self.edges.len() + children.len(), "edges")?;
        reserve(&mut self.edges, children.len())?;
        reserve(&mut self.heads, 1)?;
        reserve(&mut self.production, 1)?;
        self.edges.extend_from_slice(children);
        self.heads.push(Head { label, end });
        self.production.push(production);
        Ok(NodeId(node))
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            nodes: self.len(),
            labels: self.labels.len(),
            productions: self.n_productions(),
        }
    }

    /// Forgets all that came after the mark: as if the failed call had not been made.
    pub(crate) fn roll_back(&mut self, mark: Mark) {
        for leaf in &mut self.leaf_of {
            if *leaf as usize >= mark.nodes {
                *leaf = NO_LEAF;
            }
        }
        self.leaf_of.truncate(mark.labels);
        self.heads.truncate(mark.nodes);
        self.edges.truncate(self.heads.last().map_or(0, |head| head.end as usize));
        self.production.truncate(mark.nodes);
        self.table.truncate(mark.nodes);
        self.productions.truncate(mark.productions);
        self.production_table.truncate(mark.productions);
        self.labels.truncate(mark.labels);
    }

    /// Gives back what growth by doubling took too much.
    pub(crate) fn shrink(&mut self) {
        self.labels.shrink();
        self.heads.shrink_to_fit();
        self.edges.shrink_to_fit();
        self.production.shrink_to_fit();
        self.leaf_of.shrink_to_fit();
        self.productions.shrink();
    }

    // --- walking ----------------------------------------------------------------

    /// The distinct subtrees of one tree, children before parents. Takes time and
    /// memory by the size of the tree, not of the store.
    pub fn subtrees(&self, root: NodeId) -> Vec<NodeId> {
        let mut seen = HashSet::from([root]);
        let mut todo = vec![root];
        while let Some(node) = todo.pop() {
            todo.extend(self.children(node).iter().filter(|&&c| seen.insert(c)));
            if seen.len() > root.index() / SMALL {
                // Going through all of them is sooner done: tenfold for a large tree.
                let reached = self.reachable(&[root]).into_iter().enumerate();
                return reached
                    .filter_map(|(n, is_there)| is_there.then_some(NodeId(n as u32)))
                    .collect();
            }
        }
        let mut nodes: Vec<NodeId> = seen.into_iter().collect();
        nodes.sort_unstable();
        nodes
    }

    /// Computes a value for every distinct subtree of a tree from its children's, and
    /// returns the root's.
    pub(crate) fn fold<T: Copy>(
        &self,
        root: NodeId,
        mut value: impl FnMut(NodeId, &[T]) -> T,
    ) -> T {
        let nodes = self.subtrees(root);
        let by_id = nodes.len() > root.index() / SMALL;
        let mut values: Vec<T> = Vec::new();
        let mut below = Vec::new();
        for &node in &nodes {
            below.clear();
            below.extend(self.children(node).iter().map(|child| {
                let place =
                    if by_id { Ok(child.index()) } else { nodes.binary_search(child) };
                values[place.unwrap_or_else(|next| next)]
            }));
            let value = value(node, &below);
            if by_id {
                values.resize(node.index(), value);
            }
            values.push(value);
        }
        values[values.len() - 1]
    }

    /// The number of nodes of a tree. Saturates at 2^64 - 1.
    pub fn size(&self, root: NodeId) -> u64 {
        self.total(root, |_| 1)
    }

    /// The sum of a number over all nodes of a tree. Saturates at 2^64 - 1.
    fn total(&self, root: NodeId, mut own: impl FnMut(NodeId) -> u64) -> u64 {
        self.fold(root, |node, below: &[u64]| {
            below.iter().fold(own(node), |sum, &n| sum.saturating_add(n))
        })
    }

    /// The number of nodes on the longest path of a tree from the root to a leaf.
    pub fn depth(&self, root: NodeId) -> u64 {
        self.fold(root, |_, below: &[u64]| 1 + below.iter().max().unwrap_or(&0))
    }

    /// A hash of a tree's content: equal for equal trees of any two stores.
    pub fn content_hash(&self, root: NodeId) -> u64 {
        self.fold(root, |node, below: &[u64]| {
            let hash = Seed::FIXED.hash_bytes(self.name(node).as_bytes());
            let hash = Seed::FIXED.mix(hash, below.len() as u64);
            below.iter().fold(hash, |hash, &child| Seed::FIXED.mix(hash, child))
        })
    }

    /// The same tree in another store, if it is there.
    pub fn find_in(&self, root: NodeId, other: &Self) -> Option<NodeId> {
        self.fold(root, |node, below: &[Option<NodeId>]| {
            let label = other.labels.get(self.name(node))?;
            let below: Option<Vec<NodeId>> = below.iter().copied().collect();
            other.get(label, &below?)
        })
    }

    /// Which nodes some of the trees contain.
    pub(crate) fn reachable(&self, roots: &[NodeId]) -> Vec<bool> {
        let end = roots.iter().map(|r| r.index() + 1).max().unwrap_or(0);
        let mut reached = vec![false; end];
        for root in roots {
            reached[root.index()] = true;
        }
        for node in (0..end).rev() {
            if reached[node] {
                for child in self.below(node) {
                    reached[child.index()] = true;
                }
            }
        }
        reached
    }

    /// Copies one tree of another store into this one, in time by its distinct subtrees, and
    /// returns its root here. `context` is asked now and then.
    pub(crate) fn absorb_one(
        &mut self,
        other: &Self,
        root: NodeId,
        context: &Context,
    ) -> Result<NodeId> {
        let mut here = HashMap::new();
        let mut below = Vec::new();
        let mut open = vec![(root, other.children(root).iter())];
        let mut last = NodeId(0);
        while let Some((node, children)) = open.last_mut() {
            if let Some(&child) = children.find(|child| !here.contains_key(*child)) {
                open.push((child, other.children(child).iter()));
                continue;
            }
            let node = *node;
            below.clear();
            below.extend(other.children(node).iter().filter_map(|c| here.get(c)));
            let label = self.labels.intern(other.name(node))?;
            last = self.intern(label, &below)?;
            let bytes = (here.len() + 1) * 8;
            here.try_reserve(1).map_err(|_| Error::Memory { bytes })?;
            here.insert(node, last);
            open.pop();
            context.check()?;
        }
        Ok(last)
    }

    /// Copies trees of another store into this one and returns their roots here.
    ///
    /// # Errors
    /// [`Error::Capacity`], [`Error::Memory`] and what `context` returns, with nothing
    /// changed.
    pub(crate) fn absorb(
        &mut self,
        other: &Self,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Vec<NodeId>> {
        let mark = self.mark();
        let copied = self.absorb_unguarded(other, roots, context);
        if copied.is_err() {
            self.roll_back(mark);
        }
        copied
    }

    fn absorb_unguarded(
        &mut self,
        other: &Self,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Vec<NodeId>> {
        let reached = other.reachable(roots);
        let mut labels: Vec<Option<Label>> = vec![None; other.labels.len()];
        let mut here = vec![NodeId(0); reached.len()];
        let mut below = Vec::new();
        for index in (0..reached.len()).filter(|&n| reached[n]) {
            let node = NodeId(index as u32);
            let there = other.label(node);
            let label = match labels[there.index()] {
                Some(label) => label,
                None => self.labels.intern(other.labels.name(there))?,
            };
            labels[there.index()] = Some(label);
            below.clear();
            below.extend(other.children(node).iter().map(|c| here[c.index()]));
            here[index] = self.intern(label, &below)?;
            context.check()?;
        }
        Ok(roots.iter().map(|r| here[r.index()]).collect())
    }

    /// The store in which every subtree has the number that it has in the arrays.
    ///
    /// # Errors
    /// [`Error::Array`] and [`Error::Length`] for arrays that [`Shared`] does not
    /// describe, [`Error::Capacity`], [`Error::Memory`], and what `context` returns.
    pub(crate) fn of_shared(arrays: &Shared, context: &Context) -> Result<Self> {
        let Shared { names, labels, ends, children, .. } = arrays;
        if ends.len() != labels.len() {
            let expected = format!("{}, one per entry of labels", labels.len());
            return Err(Error::Length { array: "ends", expected, got: ends.len() });
        }
        let wrong = |array, index, expected: String, got: u32| {
            let got = got.to_string();
            Err(Error::Array { array, index, expected, got })
        };
        Labels::check_distinct(names)?;
        let mut nodes = Self::default();
        for name in names {
            nodes.labels.intern(name)?;
        }
        let (mut start, mut below) = (0, Vec::new());
        for (node, (&label, &end)) in labels.iter().zip(ends).enumerate() {
            if label as usize >= names.len() {
                let expected = format!("an index into the {} names", names.len());
                return wrong("labels", node, expected, label);
            }
            let Some(ids) = children.get(start..end as usize) else {
                return wrong(
                    "ends",
                    node,
                    format!("{start} to {}", children.len()),
                    end,
                );
            };
            if let Some(at) = ids.iter().position(|&child| child as usize >= node) {
                let expected = format!("a subtree before number {node}");
                return wrong("children", start + at, expected, ids[at]);
            }
            start = end as usize;
            below.clear();
            below.extend(ids.iter().map(|&child| NodeId(child)));
            let id = nodes.intern(Label(label), &below)?;
            if id.index() != node {
                let expected = format!("a subtree that differs from number {}", id.0);
                return wrong("labels", node, expected, label);
            }
            context.check()?;
        }
        if start != children.len() {
            let (expected, got) =
                (format!("{start}, the last of ends"), children.len());
            return Err(Error::Length { array: "children", expected, got });
        }
        Ok(nodes)
    }
}

/// A list of trees over a shared store of distinct subtrees.
#[derive(Debug, Clone, Default)]
pub struct Forest {
    nodes: Arc<Nodes>,
    roots: Vec<NodeId>,
}

/// Trees as flat arrays: what [`Forest::to_arrays`] gives and
/// [`Forest::from_arrays`] takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrays {
    /// The alphabet.
    pub names: Vec<String>,
    /// Per node, trees one after another, each in preorder: index into `names`.
    pub labels: Vec<i64>,
    /// Per node: the index of its parent, -1 for a root.
    pub parents: Vec<i64>,
    /// Per tree: the index of its root.
    pub offsets: Vec<i64>,
}

/// Trees as flat arrays that keep what they share: what [`Forest::to_shared`] gives and
/// [`Forest::from_shared`] takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shared {
    /// The alphabet.
    pub names: Vec<String>,
    /// Per distinct subtree, children before parents: index into `names`.
    pub labels: Vec<u32>,
    /// Per distinct subtree: where its list of children ends.
    pub ends: Vec<u32>,
    /// The children of all subtrees, by their numbers.
    pub children: Vec<u32>,
    /// Per tree: the number of the whole.
    pub roots: Vec<u32>,
}

impl Forest {
    pub(crate) fn new(nodes: Arc<Nodes>, roots: Vec<NodeId>) -> Self {
        Self { nodes, roots }
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
        match self.picked(indices.into_iter()) {
            Ok(forest) => forest,
            Err(error) => panic!("{error}"),
        }
    }

    /// As [`select`](Self::select), or an error.
    pub(crate) fn try_select(&self, indices: &[usize]) -> Result<Self> {
        self.picked(indices.iter().copied())
    }

    fn picked(&self, indices: impl Iterator<Item = usize>) -> Result<Self> {
        let n = indices.size_hint().0;
        new_id(n, "trees")?;
        let mut roots = Vec::new();
        reserve(&mut roots, n)?;
        roots.extend(indices.map(|index| self.roots[index]));
        new_id(roots.len(), "trees")?;
        Ok(Self::new(Arc::clone(&self.nodes), roots))
    }

    /// Two forests over one store, whatever stores they had; ids of the first stay.
    ///
    /// # Errors
    /// [`Error::Capacity`] if together they have too many distinct subtrees.
    pub fn union_store(&self, other: &Self) -> Result<(Self, Self)> {
        self.try_union_store(other, &Context::default())
    }

    /// As [`union_store`](Self::union_store); `context` may end it.
    pub(crate) fn try_union_store(
        &self,
        other: &Self,
        context: &Context,
    ) -> Result<(Self, Self)> {
        if self.shares_store(other) {
            return Ok((self.clone(), other.clone()));
        }
        let mut nodes = Nodes::clone(&self.nodes);
        let roots = nodes.absorb(&other.nodes, &other.roots, context)?;
        let nodes = Arc::new(nodes);
        Ok((Self::new(Arc::clone(&nodes), self.roots.clone()), Self::new(nodes, roots)))
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
        let mut all = first.try_select(&[])?;
        for forest in forests {
            new_id(all.len() + forest.len(), "trees")?;
            reserve(&mut all.roots, forest.len())?;
            if first.shares_store(forest) {
                all.roots.extend(&forest.roots);
            } else {
                let nodes = Arc::make_mut(&mut all.nodes);
                all.roots.extend(nodes.absorb(
                    &forest.nodes,
                    &forest.roots,
                    context,
                )?);
            }
        }
        Ok(all)
    }

    /// Adds the trees of another forest behind these.
    ///
    /// # Errors
    /// As [`concat_all`](Self::concat_all); the trees stay as they were.
    pub fn append(&mut self, other: &Self) -> Result<()> {
        new_id(self.len() + other.len(), "trees")?;
        reserve(&mut self.roots, other.len())?;
        if self.shares_store(other) {
            self.roots.extend(&other.roots);
        } else {
            let nodes = Arc::make_mut(&mut self.nodes);
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
        let nodes = Arc::make_mut(&mut self.nodes);
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

    /// The number of nodes of each tree. Saturates at 2^64 - 1.
    pub fn n_nodes(&self) -> Vec<u64> {
        self.totals(|_| 1)
    }

    /// The sum of a number over all nodes of each tree. Saturates at 2^64 - 1.
    pub(crate) fn totals(&self, own: impl FnMut(NodeId) -> u64) -> Vec<u64> {
        if let [root] = self.roots[..] {
            return vec![self.nodes.total(root, own)];
        }
        let totals = self.nodes.totals(own);
        self.roots.iter().map(|r| totals[r.index()]).collect()
    }

    /// The number of nodes of all trees together, for `what` writes out every one.
    ///
    /// # Errors
    /// [`Error::Expansion`] beyond [`MOST_NODES`].
    pub(crate) fn expanded(&self, what: &'static str) -> Result<usize> {
        let needed = self.n_nodes().into_iter().fold(0, u64::saturating_add);
        check_size(what, "nodes", needed, MOST_NODES)
    }

    /// The number of distinct subtrees of all trees together, leaves included.
    pub fn n_distinct(&self) -> usize {
        self.nodes.reachable(&self.roots).into_iter().filter(|&r| r).count()
    }

    /// The labels that occur in the trees, in the order of their ids.
    pub fn used_labels(&self) -> Vec<Label> {
        let mut used = vec![false; self.nodes.labels.len()];
        let reached = self.nodes.reachable(&self.roots);
        for (index, _) in reached.iter().enumerate().filter(|(_, r)| **r) {
            used[self.nodes.heads[index].label.index()] = true;
        }
        (0..used.len()).filter(|&l| used[l]).map(|l| Label(l as u32)).collect()
    }

    /// All nodes of all trees in preorder, as ids: trees one after another, and the
    /// position where each starts (one more at the end).
    pub fn preorder(&self) -> (Vec<usize>, Vec<NodeId>) {
        let mut order = Vec::new();
        let Ok(starts) = self.fill_preorder(&mut order, || Ok::<_, Infallible>(()));
        (starts, order)
    }

    /// As [`preorder`](Self::preorder), or an error.
    ///
    /// # Errors
    /// [`Error::Expansion`] beyond [`MOST_NODES`], [`Error::Memory`], and what `context`
    /// returns.
    pub fn try_preorder(&self, context: &Context) -> Result<(Vec<usize>, Vec<NodeId>)> {
        let mut order = Vec::new();
        reserve(&mut order, self.expanded("subtree_ids()")?)?;
        Ok((self.fill_preorder(&mut order, || context.check())?, order))
    }

    fn fill_preorder<E>(
        &self,
        order: &mut Vec<NodeId>,
        mut check: impl FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<Vec<usize>, E> {
        let mut starts = Vec::new();
        self.walk(|node, parent| {
            if parent < 0 {
                starts.push(order.len());
            }
            order.push(node);
            check()
        })?;
        starts.push(order.len());
        Ok(starts)
    }

    /// Visits all nodes of all trees in preorder, each with the position of its parent,
    /// -1 for a root.
    fn walk<E>(
        &self,
        mut visit: impl FnMut(NodeId, i64) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (mut todo, mut at) = (Vec::new(), 0);
        for &root in &self.roots {
            todo.push((root, -1));
            while let Some((node, parent)) = todo.pop() {
                visit(node, parent)?;
                todo.extend(self.nodes.children(node).iter().rev().map(|&c| (c, at)));
                at += 1;
            }
        }
        Ok(())
    }

    /// The trees as flat arrays.
    pub fn to_arrays(&self) -> Arrays {
        let mut arrays = Arrays::default();
        let Ok(()) = self.fill_arrays(&mut arrays, || Ok::<_, Infallible>(()));
        arrays
    }

    /// As [`to_arrays`](Self::to_arrays), or an error.
    ///
    /// # Errors
    /// As [`try_preorder`](Self::try_preorder).
    pub fn try_to_arrays(&self, context: &Context) -> Result<Arrays> {
        let mut arrays = Arrays::default();
        let n_nodes = self.expanded("to_arrays()")?;
        reserve(&mut arrays.labels, n_nodes)?;
        reserve(&mut arrays.parents, n_nodes)?;
        self.fill_arrays(&mut arrays, || context.check())?;
        Ok(arrays)
    }

    fn fill_arrays<E>(
        &self,
        arrays: &mut Arrays,
        mut check: impl FnMut() -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let (names, number) = self.alphabet();
        arrays.names = names;
        self.walk(|node, parent| {
            if parent < 0 {
                arrays.offsets.push(arrays.labels.len() as i64);
            }
            arrays.labels.push(i64::from(number[self.nodes.label(node).index()]));
            arrays.parents.push(parent);
            check()
        })
    }

    /// The labels that occur in the trees; by label, which of them it is.
    fn alphabet(&self) -> (Vec<String>, Vec<u32>) {
        let used = self.used_labels();
        let mut number = vec![0; self.nodes.labels.len()];
        for (index, label) in used.iter().enumerate() {
            number[label.index()] = index as u32;
        }
        let names = used.iter().map(|&l| self.nodes.labels.name(l).to_owned());
        (names.collect(), number)
    }

    /// The trees as flat arrays in which each distinct subtree stands once. Subtrees
    /// keep their order.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn to_shared(&self) -> Result<Shared> {
        let (names, number) = self.alphabet();
        let mut arrays = Shared { names, ..Shared::default() };
        let reached = self.nodes.reachable(&self.roots);
        let mut place = vec![0; reached.len()];
        let reached = || (0..reached.len()).filter(|&n| reached[n]);
        let edges = reached().map(|node| self.nodes.below(node).len());
        reserve(&mut arrays.children, edges.sum())?;
        reserve(&mut arrays.labels, reached().count())?;
        reserve(&mut arrays.ends, reached().count())?;
        for index in reached() {
            let node = NodeId(index as u32);
            place[index] = arrays.labels.len() as u32;
            arrays.labels.push(number[self.nodes.label(node).index()]);
            arrays
                .children
                .extend(self.nodes.children(node).iter().map(|c| place[c.index()]));
            arrays.ends.push(arrays.children.len() as u32);
        }
        reserve(&mut arrays.roots, self.len())?;
        arrays.roots.extend(self.roots.iter().map(|root| place[root.index()]));
        Ok(arrays)
    }

    /// Trees from arrays in which each distinct subtree stands once. They are not
    /// trusted.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::Array`], which name array, entry, expectation and
    /// what was found; [`Error::Capacity`], [`Error::Memory`], and what `context` returns.
    pub fn from_shared(arrays: &Shared, context: &Context) -> Result<Self> {
        let nodes = Nodes::of_shared(arrays, context)?;
        let roots = &arrays.roots;
        new_id(roots.len(), "trees")?;
        if let Some(index) = roots.iter().position(|&root| root as usize >= nodes.len())
        {
            let expected = format!("the number of one of {} subtrees", nodes.len());
            let got = roots[index].to_string();
            return Err(Error::Array { array: "roots", index, expected, got });
        }
        let roots = roots.iter().map(|&root| NodeId(root)).collect();
        let mut forest = Self::new(Arc::new(nodes), roots);
        forest.shrink_to_fit();
        Ok(forest)
    }

    /// Trees from flat arrays, which are not trusted: whatever is in them, the result
    /// is a forest or an error, in linear time.
    ///
    /// ```
    /// # use treekernel_rs::Forest;
    /// let forest = Forest::from_arrays(&["S", "x"], &[0, 1, 1], &[-1, 0, 0], &[0])?;
    /// assert_eq!(forest.to_brackets(), ["(S x x)"]);
    /// # Ok::<(), treekernel_rs::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::Array`], which name array, entry, expectation and
    /// what was found.
    pub fn from_arrays(
        names: &[impl AsRef<str>],
        labels: &[i64],
        parents: &[i64],
        offsets: &[i64],
    ) -> Result<Self> {
        let mut forest = Self::default();
        forest.push_arrays(names, labels, parents, offsets, &Context::default())?;
        forest.shrink_to_fit();
        Ok(forest)
    }

    /// Appends trees from flat arrays. A failed call leaves the forest as it was.
    ///
    /// # Errors
    /// As [`from_arrays`](Self::from_arrays), [`Error::Capacity`], [`Error::Memory`], and
    /// what `context` returns.
    pub fn push_arrays(
        &mut self,
        names: &[impl AsRef<str>],
        labels: &[i64],
        parents: &[i64],
        offsets: &[i64],
        context: &Context,
    ) -> Result<()> {
        if parents.len() != labels.len() {
            let expected = format!("{}, one per entry of labels", labels.len());
            return Err(Error::Length {
                array: "parents",
                expected,
                got: parents.len(),
            });
        }
        check_offsets(offsets, labels.len())?;
        self.extend_with(|nodes, roots| {
            let mut known: Vec<Option<Label>> = vec![None; names.len()];
            reserve(roots, offsets.len())?;
            let mut below: Vec<NodeId> = Vec::new();
            let mut arity: Vec<usize> = Vec::new();
            for (tree, &start) in offsets.iter().enumerate() {
                let start = start as usize;
                let end = offsets.get(tree + 1).map_or(labels.len(), |&o| o as usize);
                check_parents(parents, start, end, context)?;
                arity.clear();
                reserve(&mut arity, end - start)?;
                arity.resize(end - start, 0);
                for &parent in &parents[start + 1..end] {
                    arity[parent as usize - start] += 1;
                }
                // Backwards through a preorder, a node finds its children on top of
                // the stack, the first one uppermost.
                for index in (start..end).rev() {
                    let label = read_label(nodes, &mut known, names, labels, index)?;
                    let first = below.len() - arity[index - start];
                    below[first..].reverse();
                    let node = nodes.intern(label, &below[first..])?;
                    below.truncate(first);
                    reserve(&mut below, 1)?;
                    below.push(node);
                    context.check()?;
                }
                roots.extend(below.pop());
            }
            Ok(())
        })
    }
}

impl PartialEq for Forest {
    /// Equal lists of equal trees, whatever the stores.
    fn eq(&self, other: &Self) -> bool {
        if self.len() != other.len() {
            return false;
        }
        if self.shares_store(other) {
            return self.roots == other.roots;
        }
        // One pass over both, not a look-up per tree.
        self.union_store(other).is_ok_and(|(a, b)| a.roots == b.roots)
    }
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

fn check_offsets(offsets: &[i64], n_nodes: usize) -> Result<()> {
    let wrong = |index: usize, expected: String| {
        let got = offsets.get(index).map_or("nothing".to_owned(), i64::to_string);
        Err(Error::Array { array: "offsets", index, expected, got })
    };
    if offsets.is_empty() && n_nodes > 0 {
        return wrong(0, "0, the start of the first tree".to_owned());
    }
    for (index, &offset) in offsets.iter().enumerate() {
        if index == 0 && offset != 0 {
            return wrong(0, "0, the start of the first tree".to_owned());
        }
        if index > 0 && offset <= offsets[index - 1] {
            return wrong(index, format!("more than {}", offsets[index - 1]));
        }
        if offset >= n_nodes as i64 {
            return wrong(index, format!("less than {n_nodes}, the number of nodes"));
        }
    }
    Ok(())
}

/// In preorder a node's parent is the node before it or one of that node's ancestors.
///
/// Climbing from the node before leaves a path for good, so all climbs together take no
/// more steps than there are nodes.
fn check_parents(
    parents: &[i64],
    start: usize,
    end: usize,
    context: &Context,
) -> Result<()> {
    let wrong = |index: usize, expected: String| {
        let got = parents[index].to_string();
        Err(Error::Array { array: "parents", index, expected, got })
    };
    if parents[start] != -1 {
        return wrong(start, "-1, as a tree starts here".to_owned());
    }
    for index in start + 1..end {
        let parent = parents[index];
        if parent < start as i64 || parent >= index as i64 {
            return wrong(index, format!("a node of the same tree from {start} on"));
        }
        let mut ancestor = index as i64 - 1;
        while ancestor > parent {
            ancestor = parents[ancestor as usize];
        }
        if ancestor != parent {
            let expected = format!("{} or an ancestor of it: preorder", index - 1);
            return wrong(index, expected);
        }
        context.check()?;
    }
    Ok(())
}

fn read_label(
    nodes: &mut Nodes,
    known: &mut [Option<Label>],
    names: &[impl AsRef<str>],
    labels: &[i64],
    index: usize,
) -> Result<Label> {
    let label = usize::try_from(labels[index]).ok().filter(|&l| l < names.len());
    let Some(label) = label else {
        return Err(Error::Array {
            array: "labels",
            index,
            expected: format!("an index into the {} names", names.len()),
            got: labels[index].to_string(),
        });
    };
    if let Some(known) = known[label] {
        return Ok(known);
    }
    let new = nodes.labels_mut().intern(names[label].as_ref())?;
    known[label] = Some(new);
    Ok(new)
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
}
