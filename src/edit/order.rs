//! Trees as arrays in postorder, from the left and from the right.
//!
//! ```text
//! (a (b (c) (d)) (e))     from the left   c d b e a     from the right   e d c b a
//!     leftmost                            0 1 0 3 0                      0 1 2 1 0
//!     keyroots                            d e a                          c b a
//! ```
//!
//! A node's subtree ends with the node, and begins with its *leftmost* leaf. Nodes with the
//! same leftmost leaf are a path; the highest of them is its *keyroot*. From the right the
//! same words are said of the tree in a mirror: distances are equal, and whichever side has
//! fewer cells to fill is taken.

use std::ops::Range;

use crate::forest::{MAX_NODES, check_size};
use crate::memory::{collect, extend, filled, push, reach, reserve};
use crate::ragged::Ragged;
use crate::threads::Threads;
use crate::{Context, Forest, Result};

/// Some trees in postorder.
#[derive(Default)]
pub(super) struct Orders {
    /// By tree, in postorder: codes of labels.
    labels: Ragged<u32>,
    /// As `labels`: the place of the first node of the subtree, within the tree.
    leftmost: Vec<u32>,
    /// As `labels`: the place of the parent; the root's is its own.
    parents: Vec<u32>,
    /// By tree: places of the keyroots, ascending.
    keyroots: Ragged<u32>,
    /// By tree: how many nodes the subtrees of all keyroots have.
    n_below: Vec<u64>,
    is_mirrored: bool,
}

/// A tree in postorder.
#[derive(Clone, Copy)]
pub(super) struct Order<'a> {
    pub(super) labels: &'a [u32],
    pub(super) leftmost: &'a [u32],
    pub(super) parents: &'a [u32],
    pub(super) keyroots: &'a [u32],
    /// Nodes in the subtrees of all keyroots: rows or columns that are filled in all.
    pub(super) n_below: u64,
    is_mirrored: bool,
}

/// Trees from both sides.
pub(super) struct BothOrders(pub(super) [Orders; 2]);

/// Two trees from the side from which they are compared, and from the other.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub(super) trees: [Order<'a>; 2],
    pub(super) others: [Order<'a>; 2],
}

impl BothOrders {
    /// Reads all trees of a forest, of these sizes; `codes` are the labels'.
    ///
    /// # Errors
    /// [`Error::Expansion`](crate::Error::Expansion) for trees that are too large written
    /// out, [`Error::Memory`](crate::Error::Memory), and what `context` returns.
    pub(super) fn new(
        forest: &Forest,
        sizes: &[u64],
        codes: &[u32],
        context: &Context,
    ) -> Result<Self> {
        let total = |sizes: &[u64]| sizes.iter().copied().fold(0, u64::saturating_add);
        check_size("the trees of an edit distance", "nodes", total(sizes), MAX_NODES)?;
        let threads = Threads::for_trees(context, forest.len());
        let parts = threads.parts(forest.len(), |trees, context| {
            let n_nodes = total(&sizes[trees.clone()]) as usize;
            let left = Orders::read(forest, trees, n_nodes, codes, context)?;
            let right = left.mirrored(context)?;
            Ok([left, right])
        })?;
        let mut orders = [false, true].map(Orders::empty);
        for part in parts {
            for (orders, more) in orders.iter_mut().zip(part) {
                orders.append(more)?;
            }
        }
        Ok(Self(orders))
    }

    /// Two trees from the left.
    pub(super) fn pair(&self, pair: [usize; 2]) -> Sides<'_> {
        let [trees, others] =
            self.0.each_ref().map(|orders| pair.map(|tree| orders.get(tree)));
        Sides { trees, others }
    }
}

impl Sides<'_> {
    /// Compared from the other side.
    pub(super) fn turned(self) -> Self {
        Self { trees: self.others, others: self.trees }
    }

    /// From the side from which there are fewer cells to fill.
    pub(super) fn cheapest(self) -> Self {
        if self.turned().n_cells() < self.n_cells() { self.turned() } else { self }
    }

    /// Cells of the blocks of all keyroots.
    pub(super) fn n_cells(&self) -> f64 {
        self.trees[0].n_below as f64 * self.trees[1].n_below as f64
    }
}

impl<'a> Order<'a> {
    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    /// Leaves.
    pub(super) fn leaves(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|&place| self.is_leaf(place))
    }

    /// Keyroots that are leaves.
    pub(super) fn leaf_keyroots(&self) -> impl Iterator<Item = usize> {
        let keyroots = self.keyroots.iter().map(|&place| place as usize);
        keyroots.filter(|&place| self.is_leaf(place))
    }

    /// Places of the keyroots that are no leaves, ascending.
    #[inline]
    pub(super) fn inner_keyroots(&self) -> impl Iterator<Item = usize> {
        let keyroots = self.keyroots.iter().map(|&place| place as usize);
        keyroots.filter(|&place| !self.is_leaf(place))
    }

    /// Those of the subtree of a node, of which it is one itself.
    pub(super) fn keyroots_of(&self, root: usize) -> impl Iterator<Item = usize> {
        let first = self.leftmost[root] as usize;
        let below = self.inner_keyroots().skip_while(move |&place| place < first);
        below.take_while(move |&place| place < root).chain([root])
    }

    #[inline]
    fn is_leaf(&self, place: usize) -> bool {
        self.leftmost[place] as usize == place
    }

    /// The same tree with other codes.
    pub(super) fn with_labels(self, labels: &'a [u32]) -> Self {
        Self { labels, ..self }
    }

    /// By place: how many ancestors the node has.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub(super) fn depths(&self) -> Result<Vec<u32>> {
        let mut depths = filled(0, self.len())?;
        for node in (0..self.len() - 1).rev() {
            depths[node] = depths[self.parents[node] as usize] + 1;
        }
        Ok(depths)
    }

    /// By place: the node's number in preorder, from the left.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub(super) fn preorder(&self) -> Result<Vec<u32>> {
        let n = self.len() as u32;
        if self.is_mirrored {
            return collect((0..n).rev()); // which postorder from the right is, backwards
        }
        // A node comes after all that stands left of it, and after its ancestors.
        let mut numbers = self.depths()?;
        for (number, leftmost) in numbers.iter_mut().zip(self.leftmost) {
            *number += leftmost;
        }
        Ok(numbers)
    }
}

impl Orders {
    /// No trees.
    pub(super) fn empty(is_mirrored: bool) -> Self {
        Self { is_mirrored, ..Self::default() }
    }

    /// Forgets all trees.
    pub(super) fn clear(&mut self) {
        let Self { labels, leftmost, parents, keyroots, n_below, .. } = self;
        labels.truncate(0);
        keyroots.truncate(0);
        n_below.clear();
        for places in [leftmost, parents] {
            places.clear();
        }
    }

    /// Adds some children of a node of a tree from this side, with all below, and the node.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub(super) fn push_part(
        &mut self,
        order: &Order<'_>,
        children: Range<usize>,
        root: usize,
    ) -> Result<()> {
        let (start, first) = (self.leftmost.len(), children.start as u32);
        for place in children.chain([root]) {
            self.labels.push(order.labels[place])?;
            push(&mut self.leftmost, order.leftmost[place].max(first) - first)?;
        }
        self.close_tree(start)
    }

    /// Ends a tree of which there are labels and leftmost leaves from `start` on.
    fn close_tree(&mut self, start: usize) -> Result<()> {
        self.labels.close("nodes of trees")?;
        self.add_parents(start)?;
        self.add_keyroots(start)
    }

    /// Reads some trees of a forest, which have so many nodes, from the left.
    fn read(
        forest: &Forest,
        trees: Range<usize>,
        n_nodes: usize,
        codes: &[u32],
        context: &Context,
    ) -> Result<Self> {
        let mut orders = Self::with_room(n_nodes, false)?;
        let (store, mut open) = (forest.nodes(), Vec::new());
        for &root in &forest.roots()[trees] {
            let start = orders.leftmost.len();
            let place = |orders: &Self| (orders.leftmost.len() - start) as u32;
            // Nodes come when the walk leaves them: what was first below is the leftmost.
            push(&mut open, (root, store.children(root).iter(), 0))?;
            while let Some((node, children, leftmost)) = open.last_mut() {
                if let Some(&child) = children.next() {
                    let leftmost = place(&orders);
                    push(&mut open, (child, store.children(child).iter(), leftmost))?;
                    continue;
                }
                orders.labels.push(codes[store.label(*node).index()])?;
                push(&mut orders.leftmost, *leftmost)?;
                open.pop();
                context.check()?;
            }
            orders.close_tree(start)?;
        }
        Ok(orders)
    }

    /// The same trees from the right. There postorder is preorder from the left, backwards.
    fn mirrored(&self, context: &Context) -> Result<Self> {
        let mut mirrored = Self::with_room(self.leftmost.len(), true)?;
        for tree in 0..self.labels.len() {
            let (order, start) = (self.get(tree), mirrored.leftmost.len());
            let last = order.len() as u32 - 1;
            let numbers = order.preorder()?;
            mirrored.labels.extend(order.labels.iter().copied())?;
            extend(&mut mirrored.leftmost, order.leftmost.iter().copied())?;
            for (place, &number) in (0..).zip(&numbers) {
                let (here, there) = (place as usize, (last - number) as usize);
                mirrored.labels.items[start + there] = order.labels[here];
                // The first node of a subtree stands as far from its root on either side.
                let n_below = place - order.leftmost[here];
                mirrored.leftmost[start + there] = there as u32 - n_below;
                context.check()?;
            }
            mirrored.close_tree(start)?;
        }
        Ok(mirrored)
    }

    /// No trees, and room for so many nodes.
    fn with_room(n_nodes: usize, is_mirrored: bool) -> Result<Self> {
        let mut orders = Self::empty(is_mirrored);
        reserve(&mut orders.labels.items, n_nodes)?;
        reserve(&mut orders.leftmost, n_nodes)?;
        reserve(&mut orders.parents, n_nodes)?;
        Ok(orders)
    }

    /// Adds the trees of another, from the same side.
    fn append(&mut self, other: Self) -> Result<()> {
        if self.leftmost.is_empty() {
            *self = other; // without a copy
            return Ok(());
        }
        self.labels.append(other.labels, "nodes of trees")?;
        self.keyroots.append(other.keyroots, "keyroots of trees")?;
        extend(&mut self.leftmost, other.leftmost)?;
        extend(&mut self.parents, other.parents)?;
        extend(&mut self.n_below, other.n_below)
    }

    /// The parents of the last tree's nodes, which start at `start`.
    fn add_parents(&mut self, start: usize) -> Result<()> {
        let leftmost = &self.leftmost[start..];
        reach(&mut self.parents, start + leftmost.len(), 0)?;
        let parents = &mut self.parents[start..];
        let last = leftmost.len() - 1;
        parents[last] = last as u32;
        for (place, &leaf) in leftmost.iter().enumerate() {
            // The last child stands right before, the one before it left of its subtree.
            let mut end = place as u32;
            while end > leaf {
                parents[end as usize - 1] = place as u32;
                end = leftmost[end as usize - 1];
            }
        }
        Ok(())
    }

    /// The keyroots of the last tree, which starts at `start`.
    fn add_keyroots(&mut self, start: usize) -> Result<()> {
        let leftmost = &self.leftmost[start..];
        // The last node of each path; paths are told by their leaves.
        let mut keyroot = filled(0, leftmost.len())?;
        for (place, &leaf) in (0..).zip(leftmost) {
            keyroot[leaf as usize] = place;
        }
        let mut n_below = 0;
        for (place, &leaf) in (0..).zip(leftmost) {
            if keyroot[leaf as usize] == place {
                self.keyroots.push(place)?;
                n_below += u64::from(place - leaf + 1);
            }
        }
        self.keyroots.close("keyroots of trees")?;
        push(&mut self.n_below, n_below)
    }

    /// How many nodes a tree has.
    #[inline]
    pub(super) fn size(&self, tree: usize) -> u32 {
        self.labels.get(tree).len() as u32
    }

    pub(super) fn nbytes(&self) -> usize {
        let Self { labels, leftmost, parents, keyroots, n_below, .. } = self;
        let places = leftmost.capacity() + parents.capacity() + 2 * n_below.capacity();
        labels.nbytes() + keyroots.nbytes() + places * size_of::<u32>()
    }

    pub(super) fn get(&self, tree: usize) -> Order<'_> {
        let labels = self.labels.get(tree);
        Order {
            labels,
            leftmost: &self.leftmost[self.labels.start(tree)..][..labels.len()],
            parents: &self.parents[self.labels.start(tree)..][..labels.len()],
            keyroots: self.keyroots.get(tree),
            n_below: self.n_below[tree],
            is_mirrored: self.is_mirrored,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::costs::Costs;
    use super::super::tests::prepared;
    use super::*;
    use crate::corpus::{Random, read, trees};

    /// A tree in brackets, with the children of all nodes the other way round.
    fn mirrored(forest: &Forest, node: crate::NodeId) -> String {
        let store = forest.nodes();
        let below = store.children(node).iter().rev();
        let below: Vec<String> = below.map(|&child| mirrored(forest, child)).collect();
        format!("({} {})", store.name(node), below.join(" "))
    }

    #[test]
    fn orders_from_the_right_are_those_of_trees_in_a_mirror() {
        let mut random = Random(5);
        let texts = trees(&mut random, 40, 30);
        let there = read(&texts);
        let roots = there.roots().iter();
        let turned: Vec<String> = roots.map(|&root| mirrored(&there, root)).collect();
        // One after another, so that both have the same codes.
        let forest = read(&texts.iter().chain(&turned).collect::<Vec<_>>());
        let costs =
            Costs { rename: 1.0.into(), insert: 1.0.into(), delete: 1.0.into() };
        let (_, BothOrders([left, right])) = prepared(&costs, &forest);
        for tree in 0..texts.len() {
            for (tree, other) in
                [(tree, tree + texts.len()), (tree + texts.len(), tree)]
            {
                let (a, b) = (right.get(tree), left.get(other));
                assert_eq!(a.labels, b.labels);
                assert_eq!(a.leftmost, b.leftmost);
                assert_eq!(a.parents, b.parents);
                assert_eq!((a.keyroots, a.n_below), (b.keyroots, b.n_below));
            }
        }
    }

    #[test]
    fn parts_of_several_threads_are_what_one_makes() {
        let texts = trees(&mut Random(6), 700, 9);
        let forest = read(&texts);
        let (sizes, codes) =
            (forest.try_n_nodes().unwrap(), vec![0; forest.nodes().labels().len()]);
        let of_jobs = |n: usize| {
            let context = Context::default().with_n_jobs(Some(n));
            BothOrders::new(&forest, &sizes, &codes, &context).unwrap()
        };
        let (alone, shared) = (of_jobs(1), of_jobs(3));
        for (one, other) in alone.0.iter().zip(&shared.0) {
            for tree in 0..forest.len() {
                let (a, b) = (one.get(tree), other.get(tree));
                assert_eq!((a.labels, a.leftmost), (b.labels, b.leftmost));
                assert_eq!((a.parents, a.keyroots), (b.parents, b.keyroots));
                assert_eq!(a.n_below, b.n_below);
            }
        }
    }
}
