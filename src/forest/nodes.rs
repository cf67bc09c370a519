//! The store of distinct subtrees.

use super::{NodeId, ProductionId};
use crate::intern::{IdTable, Seed, new_id};
use crate::memory::{self, Map, filled, or_panic, reserve};
use crate::ragged::Ragged;
use crate::{Context, Label, Labels, Result};

/// In `leaf_of`: no leaf has the label.
const NO_LEAF: u32 = u32::MAX;

/// Part of the nodes before one of them: a tree that has less is small in its store.
const SMALL_TREE_SHARE: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Head {
    label: Label,
    /// Where its child list ends in `edges`; it begins where the one before ends.
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
    /// The child lists of all nodes, one after another.
    edges: Vec<NodeId>,
    /// By node; none for a leaf.
    production: Vec<ProductionId>,
    /// Inner nodes by label and child ids; leaves are found by `leaf_of`.
    table: IdTable,
    /// By label: the leaf that has it, or [`NO_LEAF`].
    leaf_of: Vec<u32>,
    /// Per production: its label, then those of the children.
    productions: Ragged<Label>,
    /// Productions by their labels.
    production_table: IdTable,
}

/// Store lengths, for rollback.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreLengths {
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

    /// All subtrees, children before parents.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = NodeId> + use<> {
        (0..self.len() as u32).map(NodeId)
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
    pub(super) fn below(&self, node: usize) -> &[NodeId] {
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
    ///
    /// # Panics
    /// Without memory for it, as all methods do that walk trees and return no error.
    pub fn sizes(&self) -> Vec<u64> {
        or_panic(self.try_sizes())
    }

    /// As [`sizes`](Self::sizes), or an error.
    pub(crate) fn try_sizes(&self) -> Result<Vec<u64>> {
        self.totals(|_| 1)
    }

    /// The sum of a number over the tree below each node. Saturates at 2^64 - 1.
    pub(super) fn totals(
        &self,
        mut number: impl FnMut(NodeId) -> u64,
    ) -> Result<Vec<u64>> {
        let mut totals: Vec<u64> = Vec::new();
        reserve(&mut totals, self.len())?;
        for node in 0..self.len() {
            let below = self.below(node).iter().map(|c| totals[c.index()]);
            totals.push(below.fold(number(NodeId(node as u32)), u64::saturating_add));
        }
        Ok(totals)
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
        // For all labels at once: many are interned before their leaves come.
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
        // Equal children are equal ids, as they are interned.
        let same = |id| {
            let node = NodeId(id);
            self.label(node) == label && self.children(node) == children
        };
        self.table.find(hash, same).map(NodeId)
    }

    /// The node with this label and these children, if it is known.
    pub(crate) fn find_node(
        &self,
        label: Label,
        children: &[NodeId],
    ) -> Option<NodeId> {
        if children.is_empty() {
            let leaf = *self.leaf_of.get(label.index())?;
            return Some(NodeId(leaf)).filter(|_| leaf != NO_LEAF);
        }
        self.find(self.hash(label, children), label, children)
    }

    /// The production with these ids of labels, the parent's first, if it is known.
    pub(crate) fn find_production(&self, labels: &[Label]) -> Option<ProductionId> {
        let (label, right) = labels.split_first()?;
        let seed = self.production_table.seed;
        let hash = seed.hash_ids(u64::from(label.0), right.iter().map(|label| label.0));
        let same = |id| self.productions.get(id as usize) == labels;
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
        // Room first: a node that is not in the table would be made again.
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
        let found = self.production_table.find(hash, |id| {
            let (left, others) = self.productions.get(id as usize).split_at(1);
            left[0] == label && others.len() == right.len() && {
                right.clone().zip(others).all(|(a, &b)| a == b)
            }
        });
        if let Some(id) = found {
            return Ok(ProductionId(id));
        }
        let id = new_id(self.n_productions(), "productions")?;
        // Room first: production and table entry come together, or not at all.
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
        // Room for all three: they stay equally long, whatever is refused.
        reserve(&mut self.edges, children.len())?;
        reserve(&mut self.heads, 1)?;
        reserve(&mut self.production, 1)?;
        self.edges.extend_from_slice(children);
        self.heads.push(Head { label, end });
        self.production.push(production);
        Ok(NodeId(node))
    }

    pub(crate) fn mark(&self) -> StoreLengths {
        StoreLengths {
            nodes: self.len(),
            labels: self.labels.len(),
            productions: self.n_productions(),
        }
    }

    /// Forgets all that came after the mark: as if the failed call had not been made.
    pub(crate) fn roll_back(&mut self, mark: StoreLengths) {
        // Leaves that came after the mark; what is before it stays.
        for leaf in &mut self.leaf_of {
            if *leaf as usize >= mark.nodes {
                *leaf = NO_LEAF;
            }
        }
        self.leaf_of.truncate(mark.labels);
        self.heads.truncate(mark.nodes);
        // The edges end with the last node that stays.
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
        or_panic(self.try_subtrees(root))
    }

    /// As [`subtrees`](Self::subtrees), or an error.
    pub(crate) fn try_subtrees(&self, root: NodeId) -> Result<Vec<NodeId>> {
        let mut seen: Map<NodeId, ()> = Map::of([(root, ())])?;
        let mut todo = memory::collect([root])?;
        while let Some(node) = todo.pop() {
            // Each is visited once, however often it is used.
            for &child in self.children(node) {
                if seen.insert(child, ())?.is_none() {
                    memory::push(&mut todo, child)?;
                }
            }
            // It is no small part of the store any more.
            if seen.len() > root.index() / SMALL_TREE_SHARE {
                // Going through all of them is sooner done: tenfold for a large tree.
                let reached = self.reachable(&[root])?;
                let reached = (0..reached.len()).filter(|&node| reached[node]);
                return memory::collect(reached.map(|node| NodeId(node as u32)));
            }
        }
        let mut nodes = memory::collect(seen.keys().copied())?;
        nodes.sort_unstable();
        Ok(nodes)
    }

    /// Computes a value for every distinct subtree of a tree from its children's, and
    /// returns the root's.
    pub(crate) fn fold<T: Copy>(
        &self,
        root: NodeId,
        mut value: impl FnMut(NodeId, &[T]) -> T,
    ) -> Result<T> {
        let nodes = self.try_subtrees(root)?;
        // With most ids in the tree values can be found by id, without a search.
        let by_id = nodes.len() > root.index() / SMALL_TREE_SHARE;
        let mut values: Vec<T> = Vec::new();
        let mut below = Vec::new();
        for &node in &nodes {
            below.clear();
            let children = self.children(node).iter().map(|child| {
                let place =
                    if by_id { Ok(child.index()) } else { nodes.binary_search(child) };
                values[place.unwrap_or_else(|next| next)]
            });
            memory::extend(&mut below, children)?;
            let value = value(node, &below);
            // Values of ids that are no part of the tree: nobody asks for them.
            if by_id {
                memory::reach(&mut values, node.index(), value)?;
            }
            memory::push(&mut values, value)?;
        }
        Ok(values[values.len() - 1])
    }

    /// The number of nodes of a tree. Saturates at 2^64 - 1.
    pub fn size(&self, root: NodeId) -> u64 {
        or_panic(self.try_size(root))
    }

    /// As [`size`](Self::size), or an error.
    pub(crate) fn try_size(&self, root: NodeId) -> Result<u64> {
        self.total(root, |_| 1)
    }

    /// The sum of a number over all nodes of a tree. Saturates at 2^64 - 1.
    pub(super) fn total(
        &self,
        root: NodeId,
        mut number: impl FnMut(NodeId) -> u64,
    ) -> Result<u64> {
        self.fold(root, |node, below: &[u64]| {
            below.iter().fold(number(node), |sum, &n| sum.saturating_add(n))
        })
    }

    /// The number of nodes on the longest path of a tree from the root to a leaf.
    pub fn depth(&self, root: NodeId) -> u64 {
        or_panic(self.try_depth(root))
    }

    /// As [`depth`](Self::depth), or an error.
    pub(crate) fn try_depth(&self, root: NodeId) -> Result<u64> {
        self.fold(root, |_, below: &[u64]| 1 + below.iter().max().unwrap_or(&0))
    }

    /// A hash of a tree's content: equal for equal trees of any two stores.
    pub fn content_hash(&self, root: NodeId) -> u64 {
        or_panic(self.try_content_hash(root))
    }

    /// As [`content_hash`](Self::content_hash), or an error.
    pub(crate) fn try_content_hash(&self, root: NodeId) -> Result<u64> {
        self.fold(root, |node, below: &[u64]| {
            let hash = Seed::FIXED.hash_bytes(self.name(node).as_bytes());
            let hash = Seed::FIXED.mix(hash, below.len() as u64);
            below.iter().fold(hash, |hash, &child| Seed::FIXED.mix(hash, child))
        })
    }

    /// The same tree in another store, if it is there.
    pub fn find_in(&self, root: NodeId, other: &Self) -> Option<NodeId> {
        or_panic(self.try_find_in(root, other))
    }

    /// As [`find_in`](Self::find_in), or an error.
    pub(crate) fn try_find_in(
        &self,
        root: NodeId,
        other: &Self,
    ) -> Result<Option<NodeId>> {
        let (mut there, mut refused) = (Vec::new(), Ok(()));
        let found = self.fold(root, |node, below: &[Option<NodeId>]| {
            let label = other.labels.get(self.name(node))?;
            there.clear();
            for &child in below {
                refused = memory::push(&mut there, child?);
                refused.as_ref().ok()?;
            }
            other.find_node(label, &there)
        })?;
        refused.map(|()| found)
    }

    /// Which nodes some of the trees contain.
    pub(crate) fn reachable(&self, roots: &[NodeId]) -> Result<Vec<bool>> {
        let end = roots.iter().map(|r| r.index() + 1).max().unwrap_or(0);
        let mut reached = filled(false, end)?;
        for root in roots {
            reached[root.index()] = true;
        }
        // Parents have higher ids, so all of them were seen when a node's turn comes.
        for node in (0..end).rev() {
            if reached[node] {
                for child in self.below(node) {
                    reached[child.index()] = true;
                }
            }
        }
        Ok(reached)
    }

    /// Copies one tree of another store into this one, in time by its distinct subtrees, and
    /// returns its root here. `context` is asked now and then.
    pub(crate) fn absorb_one(
        &mut self,
        other: &Self,
        root: NodeId,
        context: &Context,
    ) -> Result<NodeId> {
        self.absorb_next(other, root, &mut Map::default(), context)
    }

    /// As [`absorb_one`](Self::absorb_one), after other trees of that store: `here` is what
    /// their nodes are called.
    pub(crate) fn absorb_next(
        &mut self,
        other: &Self,
        root: NodeId,
        here: &mut Map<NodeId, NodeId>,
        context: &Context,
    ) -> Result<NodeId> {
        if let Some(&root) = here.get(&root) {
            return Ok(root);
        }
        let mut below = Vec::new();
        let mut open = memory::collect([(root, other.children(root).iter())])?;
        let mut last = NodeId(0);
        while let Some((node, children)) = open.last_mut() {
            // The iterator goes on where it stopped, so every child is looked at once.
            if let Some(&child) = children.find(|child| !here.contains_key(*child)) {
                memory::push(&mut open, (child, other.children(child).iter()))?;
                continue;
            }
            let node = *node;
            below.clear();
            let children = other.children(node).iter();
            memory::extend(&mut below, children.filter_map(|c| here.get(c).copied()))?;
            let label = self.labels.intern(other.name(node))?;
            last = self.intern(label, &below)?;
            here.insert(node, last)?;
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
        let reached = other.reachable(roots)?;
        let mut labels: Vec<Option<Label>> = filled(None, other.labels.len())?;
        let mut here = filled(NodeId(0), reached.len())?;
        let mut below = Vec::new();
        // Ids ascend from children to parents in both stores.
        for index in (0..reached.len()).filter(|&n| reached[n]) {
            let node = NodeId(index as u32);
            let there = other.label(node);
            let label = match labels[there.index()] {
                Some(label) => label,
                None => self.labels.intern(other.labels.name(there))?,
            };
            labels[there.index()] = Some(label);
            below.clear();
            let children = other.children(node).iter();
            memory::extend(&mut below, children.map(|c| here[c.index()]))?;
            here[index] = self.intern(label, &below)?;
            context.check()?;
        }
        memory::collect(roots.iter().map(|r| here[r.index()]))
    }
}
