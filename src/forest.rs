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
//! # Complexity
//! Building is linear in the number of nodes read, memory linear in the number of
//! distinct ones. Nothing recurses: a chain of a million nodes is a forest like others.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::intern::{IdTable, hash_ids, mix, new_id};
use crate::lists::Lists;
use crate::{Error, Label, Labels, Result};

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
    productions: Lists<Label>,
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
        let mut sizes: Vec<u64> = Vec::with_capacity(self.len());
        for node in 0..self.len() {
            let below = self.below(node).iter().map(|c| sizes[c.index()]);
            sizes.push(below.fold(1, u64::saturating_add));
        }
        sizes
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
        let node = self.new_node(label, ProductionId::NONE, &[])?;
        if self.leaf_of.len() <= label.index() {
            self.leaf_of.resize(self.labels.len(), NO_LEAF);
        }
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
        let hash = Self::hash(label, children);
        match self.find(hash, label, children) {
            Some(node) => Ok(node),
            None => self.new_inner(hash, label, children),
        }
    }

    #[inline]
    fn hash(label: Label, children: &[NodeId]) -> u32 {
        hash_ids(u64::from(label.0), children.iter().map(|c| c.0))
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
        self.find(Self::hash(label, children), label, children)
    }

    /// The node with these ids of label and children, if it is known.
    pub(crate) fn find_node(&self, label: u32, children: &[u32]) -> Option<NodeId> {
        let children: Vec<NodeId> = children.iter().map(|&c| NodeId(c)).collect();
        self.get(Label(label), &children)
    }

    /// The production with these ids of labels, the parent's first, if it is known.
    pub(crate) fn find_production(&self, labels: &[u32]) -> Option<ProductionId> {
        let (&label, right) = labels.split_first()?;
        let hash = hash_ids(u64::from(label), right.iter().copied());
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
        let node = self.new_node(label, production, children)?;
        self.table.insert(hash, node.0);
        Ok(node)
    }

    fn intern_production(
        &mut self,
        label: Label,
        children: &[NodeId],
    ) -> Result<ProductionId> {
        let right = children.iter().map(|&c| self.heads[c.index()].label);
        let hash = hash_ids(u64::from(label.0), right.clone().map(|l| l.0));
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
        self.productions.extend(std::iter::once(label).chain(right));
        self.productions.close("edges")?;
        self.production_table.insert(hash, id);
        Ok(ProductionId(id))
    }

    fn new_node(
        &mut self,
        label: Label,
        production: ProductionId,
        children: &[NodeId],
    ) -> Result<NodeId> {
        let node = new_id(self.len(), "distinct subtrees")?;
        let end = new_id(self.edges.len() + children.len(), "edges")?;
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
        let mut values = HashMap::new();
        let mut below = Vec::new();
        for node in self.subtrees(root) {
            below.clear();
            below.extend(self.children(node).iter().map(|c| values[c]));
            values.insert(node, value(node, &below));
        }
        values[&root]
    }

    /// The number of nodes of a tree. Saturates at 2^64 - 1.
    pub fn size(&self, root: NodeId) -> u64 {
        self.fold(root, |_, below: &[u64]| {
            below.iter().fold(1, |sum, &n| sum.saturating_add(n))
        })
    }

    /// The number of nodes on the longest path of a tree from the root to a leaf.
    pub fn depth(&self, root: NodeId) -> u64 {
        self.fold(root, |_, below: &[u64]| 1 + below.iter().max().unwrap_or(&0))
    }

    /// A hash of a tree's content: equal for equal trees of any two stores.
    pub fn content_hash(&self, root: NodeId) -> u64 {
        self.fold(root, |node, below: &[u64]| {
            let name = crate::intern::hash_bytes(self.name(node).as_bytes());
            below.iter().fold(mix(name, below.len() as u64), |h, &c| mix(h, c))
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

    /// Copies one tree of another store into this one, in time by the tree's size, and
    /// returns its root here.
    #[cfg_attr(not(feature = "python"), allow(dead_code))]
    pub(crate) fn absorb_one(&mut self, other: &Self, root: NodeId) -> Result<NodeId> {
        let mut failure = None;
        let here = other.fold(root, |node, below: &[NodeId]| {
            let label = self.labels.intern(other.name(node));
            label.and_then(|label| self.intern(label, below)).unwrap_or_else(|error| {
                failure = Some(error);
                NodeId(0)
            })
        });
        failure.map_or(Ok(here), Err)
    }

    /// Copies trees of another store into this one and returns their roots here.
    ///
    /// # Errors
    /// [`Error::Capacity`], with nothing changed.
    pub(crate) fn absorb(
        &mut self,
        other: &Self,
        roots: &[NodeId],
    ) -> Result<Vec<NodeId>> {
        let mark = self.mark();
        let copied = self.absorb_unguarded(other, roots);
        if copied.is_err() {
            self.roll_back(mark);
        }
        copied
    }

    fn absorb_unguarded(
        &mut self,
        other: &Self,
        roots: &[NodeId],
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
        }
        Ok(roots.iter().map(|r| here[r.index()]).collect())
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
    /// When an index is out of range, as slices do.
    #[must_use]
    pub fn select(&self, indices: impl IntoIterator<Item = usize>) -> Self {
        let roots = indices.into_iter().map(|i| self.roots[i]).collect();
        Self::new(Arc::clone(&self.nodes), roots)
    }

    /// Two forests over one store, whatever stores they had; ids of the first stay.
    ///
    /// # Errors
    /// [`Error::Capacity`] if together they have too many distinct subtrees.
    pub fn union_store(&self, other: &Self) -> Result<(Self, Self)> {
        if self.shares_store(other) {
            return Ok((self.clone(), other.clone()));
        }
        let mut nodes = Nodes::clone(&self.nodes);
        let roots = nodes.absorb(&other.nodes, &other.roots)?;
        let nodes = Arc::new(nodes);
        Ok((Self::new(Arc::clone(&nodes), self.roots.clone()), Self::new(nodes, roots)))
    }

    /// The trees of one forest followed by those of another.
    ///
    /// # Errors
    /// [`Error::Capacity`] if together they have too many distinct subtrees.
    pub fn concat(&self, other: &Self) -> Result<Self> {
        let (mut all, more) = self.union_store(other)?;
        all.roots.extend(more.roots);
        Ok(all)
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

    /// The number of nodes of each tree.
    pub fn n_nodes(&self) -> Vec<u64> {
        if self.len() == 1 {
            return vec![self.nodes.size(self.roots[0])];
        }
        let sizes = self.nodes.sizes();
        self.roots.iter().map(|r| sizes[r.index()]).collect()
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
        let mut starts = vec![0];
        let mut order = Vec::new();
        let mut todo = Vec::new();
        for &root in &self.roots {
            todo.push(root);
            while let Some(node) = todo.pop() {
                order.push(node);
                todo.extend(self.nodes.children(node).iter().rev());
            }
            starts.push(order.len());
        }
        (starts, order)
    }

    /// The trees as flat arrays.
    pub fn to_arrays(&self) -> Arrays {
        let used = self.used_labels();
        let mut number = vec![0; self.nodes.labels.len()];
        for (index, label) in used.iter().enumerate() {
            number[label.index()] = index as i64;
        }
        let mut arrays = Arrays {
            names: used.iter().map(|&l| self.nodes.labels.name(l).to_owned()).collect(),
            ..Arrays::default()
        };
        let mut todo = Vec::new();
        for &root in &self.roots {
            arrays.offsets.push(arrays.labels.len() as i64);
            todo.push((root, -1));
            while let Some((node, parent)) = todo.pop() {
                let at = arrays.labels.len() as i64;
                arrays.labels.push(number[self.nodes.label(node).index()]);
                arrays.parents.push(parent);
                todo.extend(self.nodes.children(node).iter().rev().map(|&c| (c, at)));
            }
        }
        arrays
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
        if parents.len() != labels.len() {
            let expected = format!("{}, one per entry of labels", labels.len());
            return Err(Error::Length {
                array: "parents",
                expected,
                got: parents.len(),
            });
        }
        check_offsets(offsets, labels.len())?;
        let mut forest = Self::default();
        forest.extend_with(|nodes, roots| {
            let mut known: Vec<Option<Label>> = vec![None; names.len()];
            let mut below: Vec<NodeId> = Vec::new();
            let mut arity: Vec<usize> = Vec::new();
            for (tree, &start) in offsets.iter().enumerate() {
                let start = start as usize;
                let end = offsets.get(tree + 1).map_or(labels.len(), |&o| o as usize);
                check_parents(parents, start, end)?;
                arity.clear();
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
                    below.push(node);
                }
                roots.extend(below.pop());
            }
            Ok(())
        })?;
        forest.shrink_to_fit();
        Ok(forest)
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
fn check_parents(parents: &[i64], start: usize, end: usize) -> Result<()> {
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
