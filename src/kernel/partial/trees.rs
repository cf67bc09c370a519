//! Single pairs: trees are read once, and each pair is walked by its common labels.

use super::PartialTree;
use super::chains::{Chains, NONE, Table, Weights, grow_powers};
use crate::intern::{Seed, new_id};
use crate::kernel::weights::Factors;
use crate::kernel::{Number, Pairs, SMALLEST, TreeCounts};
use crate::{Context, Error, NodeId, Nodes, Result, memory};

/// A distinct node of a prepared tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    /// Its label's number in the tree.
    pub(crate) label: u32,
    /// Its number among the tree's nodes with this label.
    pub(crate) rank: u32,
    /// How often it stands in the tree.
    pub(crate) count: u32,
    /// Where its children end, all trees' in one array.
    pub(crate) end: u32,
}

/// Trees made ready for single pairs.
#[derive(Debug)]
pub(crate) struct PreparedTrees<F = f64> {
    /// μ, by label.
    pub(crate) mu: F,
    /// For that μ where it is one, else for 1.
    pub(crate) weights: Weights,
    /// λ and leaf factor, for derivatives.
    decay: f64,
    leaf_factor: f64,
    pub(crate) longest: usize,
    pub(crate) n_labels: usize,
    /// λ^k, as far as there are gaps.
    pub(crate) powers: Vec<f64>,
    /// Per tree: where its nodes end, and where its labels end.
    pub(crate) ends: Vec<(u32, u32)>,
    /// Per tree: how many distinct subtrees it has, and a hash of its labels and shape,
    /// whatever the store calls them. The smaller tree comes first: its nodes are visited
    /// one by one, and by hash alone a pair took 4 % longer.
    pub(crate) content: Vec<(u32, u64)>,
    /// Tree by tree, in the order in which a walk leaves them: children first.
    pub(crate) nodes: Vec<Node>,
    /// By node: its last parent. (In [`Node`], pairs took longer by some per cent.)
    last_uses: Vec<u32>,
    /// Children by their numbers in the tree.
    children: Vec<u32>,
    /// Tree by tree: label, and where its nodes end in `by_label`.
    pub(crate) labels: Vec<(u32, u32)>,
    /// Tree by tree: numbers of the nodes, by label.
    by_label: Vec<u32>,
}

/// What is kept from pair to pair.
#[derive(Debug)]
pub(crate) struct Scratch<N, L = EqualLabels> {
    pub(crate) labels: L,
    pub(crate) pair: PairValues<N>,
}

impl<N, L: Default> Default for Scratch<N, L> {
    fn default() -> Self {
        Self { labels: L::default(), pair: PairValues::default() }
    }
}

/// The D of a pair of trees, and what sums over child lists take.
#[derive(Debug)]
pub(crate) struct PairValues<N> {
    /// Per node of a: where its D with the nodes of b whose labels match start; [`NONE`]
    /// once their place is free.
    starts: Vec<u32>,
    /// What is held for parents, node by node.
    pub(super) values: Vec<N>,
    /// Per label of a: starts of values that nobody asks for any more. (Of one label all
    /// nodes have as many values, so any place fits.)
    free: Vec<Vec<u32>>,
    matches: Vec<(u32, u32, N)>,
    table: Table,
    pub(crate) chains: Chains<N>,
    /// Values beyond which places are used again: set low by tests.
    pub(super) max_appended: usize,
}

/// Which labels of b match those of a, all by their numbers in the two trees.
pub(crate) trait MatchingLabels {
    /// The labels of b that match one of a.
    fn matching(&self, label: u32) -> impl Iterator<Item = MatchingLabel>;

    /// Where the values of a node with this label start by the label of b, if that matches:
    /// for children that are compared one by one.
    fn offset(&self, label: u32) -> impl Fn(u32) -> Option<u32>;

    /// Whether these are there.
    fn has_offsets(&self) -> bool;

    /// σ D, from D for equal labels.
    fn scaled<N: Number>(sigma: f64, value: N) -> N;
}

/// A label of b that matches one of a.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatchingLabel {
    pub(crate) label: u32,
    /// Where the values with its nodes start among those of a node.
    pub(crate) offset: u32,
    pub(crate) sigma: f64,
}

/// Labels match that are equal.
#[derive(Debug, Default)]
pub(crate) struct EqualLabels {
    /// Per label of a: its number in b, or [`NONE`].
    in_b: Vec<u32>,
    /// Per label of the store: its number in b, while labels of a are looked up; else
    /// [`NONE`].
    numbers: Vec<u32>,
}

/// One prepared tree.
pub(crate) struct Tree<'a, F = f64> {
    trees: &'a PreparedTrees<F>,
    first: usize,
    first_label: usize,
    pub(crate) nodes: &'a [Node],
    pub(crate) labels: &'a [(u32, u32)],
}

// By hand, as a derived Clone asks for one of F.
impl<F> Clone for Tree<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Tree<'_, F> {}

impl<'a, F> Tree<'a, F> {
    #[inline]
    pub(crate) fn children(&self, node: usize) -> &'a [u32] {
        let at = self.first + node;
        let start = at.checked_sub(1).map_or(0, |before| self.trees.nodes[before].end);
        &self.trees.children[start as usize..self.nodes[node].end as usize]
    }

    /// A node's last parent in the tree; [`NONE`] for the root.
    #[inline]
    pub(crate) fn last_use(&self, node: u32) -> u32 {
        self.trees.last_uses[self.first + node as usize]
    }

    /// The nodes with a label, ascending.
    #[inline]
    pub(crate) fn group(&self, label: u32) -> &'a [u32] {
        let at = self.first_label + label as usize;
        let start = at.checked_sub(1).map_or(0, |before| self.trees.labels[before].1);
        &self.trees.by_label[start as usize..self.trees.labels[at].1 as usize]
    }
}

/// Up to so many pairs of children are compared one by one: about where a table of
/// labels begins to pay.
const MAX_COMPARED: usize = 64;
/// Values of a pair beyond which the places of those that nobody asks for any more are
/// used again (64 kB); below, appending is cheaper.
const MAX_APPENDED: usize = 1 << 13;
/// Values that a pair may need at a time (2 GB of floats); of larger numbers fewer.
pub(super) const MAX_VALUES: usize = 1 << 28;

impl<F: Factors> PreparedTrees<F> {
    /// Reads trees in time by their distinct nodes, n log n for the labels.
    ///
    /// # Errors
    /// [`crate::Error::Capacity`] beyond 2^32 nodes or edges.
    pub(crate) fn new(
        kernel: &PartialTree,
        mu: F,
        nodes: &Nodes,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        let PartialTree { decay, leaf_factor, max_children, .. } = *kernel;
        // 1. Distinct subtrees with counts, children first.
        let counts = TreeCounts::read(nodes, roots, context)?;
        let mut trees = Self {
            weights: Weights::new(decay, mu.same().unwrap_or(1.0), leaf_factor),
            mu,
            decay,
            leaf_factor,
            longest: max_children.unwrap_or(usize::MAX),
            n_labels: nodes.labels().len(),
            powers: Vec::new(),
            ends: Vec::new(),
            content: Vec::new(),
            nodes: Vec::new(),
            last_uses: Vec::new(),
            children: Vec::new(),
            labels: Vec::new(),
            by_label: Vec::new(),
        };
        // Labels by name, so that no order depends on ids.
        let hash = |name: &str| Seed::FIXED.hash_bytes(name.as_bytes());
        let hashes = memory::collect(nodes.labels().names().map(hash))?;
        let mut widest = 0;
        let n_nodes = roots.iter().map(|r| r.index() + 1).max().unwrap_or(0);
        let (mut number, mut order) = (memory::filled(NONE, n_nodes)?, Vec::new());
        for tree in 0..counts.len() {
            context.check()?;
            let (first, mut content) = (trees.nodes.len(), 0);
            order.clear();
            // 1. Nodes in the order in which a walk leaves them.
            for (node, count) in counts.iter(tree) {
                let below = nodes.children(node);
                let (label, local) = (nodes.label(node), order.len() as u32);
                // Children come first, so they have numbers.
                for child in below {
                    let child = number[child.index()];
                    memory::push(&mut trees.children, child)?;
                    // Parents ascend: the last to write is the last to ask.
                    trees.last_uses[first + child as usize] = local;
                    content = Seed::FIXED.mix(content, u64::from(child));
                }
                // The number of children as well: their numbers alone do not tell where
                // a node's list ends.
                content = Seed::FIXED
                    .mix(content, hashes[label.index()] ^ below.len() as u64);
                widest = widest.max(below.len());
                number[node.index()] = local;
                let end = new_id(trees.children.len(), "edges, tree by tree")?;
                let node = Node { label: 0, rank: 0, count, end };
                memory::push(&mut trees.nodes, node)?;
                memory::push(&mut trees.last_uses, NONE)?;
                memory::push(&mut order, (label.0, local))?;
            }
            // 2. Nodes by label, and of one label in the order of the walk.
            order.sort_unstable();
            let first_label = trees.labels.len();
            for same in order.chunk_by(|a, b| a.0 == b.0) {
                let label = (trees.labels.len() - first_label) as u32;
                for (rank, &(_, local)) in same.iter().enumerate() {
                    let node = &mut trees.nodes[first + local as usize];
                    (node.label, node.rank) = (label, rank as u32);
                    memory::push(&mut trees.by_label, local)?;
                }
                let end = trees.by_label.len() as u32;
                memory::push(&mut trees.labels, (same[0].0, end))?;
            }
            let end = new_id(trees.nodes.len(), "distinct subtrees, tree by tree")?;
            memory::push(&mut trees.ends, (end, trees.labels.len() as u32))?;
            memory::push(&mut trees.content, (order.len() as u32, content))?;
        }
        // Gaps are no longer than the widest node's children.
        grow_powers(&mut trees.powers, decay, widest)?;
        Ok(trees)
    }

    pub(crate) fn tree(&self, number: usize) -> Tree<'_, F> {
        let start = number.checked_sub(1).map_or((0, 0), |before| self.ends[before]);
        let end = self.ends[number];
        Tree {
            trees: self,
            first: start.0 as usize,
            first_label: start.1 as usize,
            nodes: &self.nodes[start.0 as usize..end.0 as usize],
            labels: &self.labels[start.1 as usize..end.1 as usize],
        }
    }
}

impl<F: Factors> Pairs for PreparedTrees<F> {
    type Scratch<N: Number> = Scratch<N>;

    fn pair<N: Number>(
        &self,
        a: usize,
        b: usize,
        scratch: &mut Scratch<N>,
        context: &Context,
    ) -> Result<N> {
        let (a, b) = self.ordered(a, b);
        let (a, b) = (self.tree(a), self.tree(b));
        let Scratch { labels, pair } = scratch;
        labels.find(self.n_labels, a.labels, b.labels)?;
        self.sum(a, b, labels, pair, context)
    }

    fn has_tiny_values(&self) -> bool {
        self.has_tiny_values()
    }
}

impl<F: Factors> PreparedTrees<F> {
    /// See [`Pairs::has_tiny_values`]. (A μ of 0 is none.)
    pub(crate) fn has_tiny_values(&self) -> bool {
        let mut used = self.labels.iter().map(|&(label, _)| self.mu.of(label));
        let single = |mu: f64| mu * (self.decay * self.decay);
        used.any(|mu| mu > 0.0 && single(mu) < SMALLEST)
    }

    /// What the fragment of one node weighs: μ λ² f^(leaves / 2) with the leaf factor f.
    #[inline]
    pub(crate) fn single<N: Number>(
        &self,
        weights: &Weights,
        mu: f64,
        (leaf_u, leaf_v): (bool, bool),
    ) -> N {
        let weight = weights.of(leaf_u, leaf_v);
        if weight < SMALLEST {
            // Floats may have lost it.
            let (mu, decay) = (N::parameter(mu, 1), N::parameter(self.decay, 0));
            let single = mu * (decay * decay);
            let factor = self.leaf_factor;
            return match (leaf_u, leaf_v) {
                (false, false) => single,
                (true, true) => single * N::parameter(factor, 2),
                _ => {
                    let root = factor.sqrt();
                    single * N::depending(root, || [0.0, 0.0, 0.5 / root])
                }
            };
        }
        N::depending(weight, || {
            let leaves = f64::from(u8::from(leaf_u) + u8::from(leaf_v));
            let by_factor = leaves / 2.0 * weight / self.leaf_factor;
            [2.0 * weight / self.decay, weight / mu, by_factor]
        })
    }

    /// The smaller tree first, and the same one first whichever is called a.
    pub(crate) fn ordered(&self, a: usize, b: usize) -> (usize, usize) {
        if self.content[a] <= self.content[b] { (a, b) } else { (b, a) }
    }

    /// K of two trees, by the labels of b that match those of a.
    pub(crate) fn sum<N: Number, L: MatchingLabels>(
        &self,
        a: Tree<'_, F>,
        b: Tree<'_, F>,
        labels: &L,
        pair: &mut PairValues<N>,
        context: &Context,
    ) -> Result<N> {
        pair.values.clear();
        pair.free.clear();
        memory::reach(&mut pair.starts, a.nodes.len(), NONE)?;
        let zero = N::from_f64(0.0);
        let mut total = zero;
        // Children come first, so D of children is there when a parent asks.
        for (v, node) in a.nodes.iter().enumerate() {
            let mut matching = labels.matching(node.label).peekable();
            if matching.peek().is_none() {
                continue;
            }
            // (Not copied where they are one for all labels: 2 % of the time.)
            let own_weights;
            let (label_mu, weights) = if let Some(mu) = self.mu.same() {
                (mu, &self.weights)
            } else {
                let mu = self.mu.of(a.labels[node.label as usize].0);
                own_weights = self.weights.times(mu);
                (mu, &own_weights)
            };
            let mu = N::parameter(label_mu, 1);
            let start = pair.values.len();
            pair.starts[v] = start as u32;
            let below = a.children(v);
            let mut node_sum = zero;
            // Values stand label by label, as their offsets say.
            for MatchingLabel { label, sigma, .. } in matching {
                for &u in b.group(label) {
                    let other = b.children(u as usize);
                    let leaves = (below.is_empty(), other.is_empty());
                    let mut value: N = self.single(weights, label_mu, leaves);
                    if !below.is_empty() && !other.is_empty() {
                        let (below, other) = ((a, below), (b, other));
                        value = value
                            + mu * self
                                .children_sum(below, other, labels, pair, context)?;
                    }
                    value = L::scaled(sigma, value);
                    memory::push(&mut pair.values, value)?;
                    node_sum = node_sum
                        + value * N::from_f64(f64::from(b.nodes[u as usize].count));
                }
            }
            total = total + node_sum * N::from_f64(f64::from(node.count));
            // Large pairs give back the values that nobody will ask for.
            if pair.values.len() > pair.max_appended {
                pair.chains.step(pair.values.len() - start, context)?;
                pair.recycle(a, v, start, labels)?;
                pair.check()?;
            }
        }
        Ok(total)
    }

    /// The sum over subsequences of two nodes' children, all of whose D are known.
    #[inline]
    fn children_sum<N: Number, L: MatchingLabels>(
        &self,
        (a, below): (Tree<'_, F>, &[u32]),
        (b, other): (Tree<'_, F>, &[u32]),
        labels: &L,
        pair: &mut PairValues<N>,
        context: &Context,
    ) -> Result<N> {
        let PairValues { starts, values, matches, table, chains, .. } = pair;
        let label_of_a = |x: u32| a.nodes[x as usize].label;
        let label_of_b = |&y: &u32| b.nodes[y as usize].label;
        let d = |x: u32, offset: u32, y: u32| {
            values[(starts[x as usize] + offset + b.nodes[y as usize].rank) as usize]
        };
        // 1. One child: a subsequence is one match.
        if (below.len() == 1 || other.len() == 1) && labels.has_offsets() {
            // No subsequence is longer.
            let mut sum = N::from_f64(0.0);
            for &x in below {
                let offset = labels.offset(label_of_a(x));
                for y in other {
                    if let Some(offset) = offset(label_of_b(y)) {
                        sum = sum + d(x, offset, *y);
                    }
                }
            }
            return Ok(sum);
        }
        // 2. Few: compare each with each.
        if below.len() * other.len() <= MAX_COMPARED && labels.has_offsets() {
            matches.clear();
            for (i, &x) in below.iter().enumerate() {
                let label = label_of_a(x);
                if labels.matching(label).next().is_none() {
                    continue;
                }
                let offset = labels.offset(label);
                for (j, y) in other.iter().enumerate() {
                    if let Some(offset) = offset(label_of_b(y)) {
                        // bounded: MAX_COMPARED
                        matches.push((i as u32, j as u32, d(x, offset, *y)));
                    }
                }
            }
            let shape = (below.len(), other.len());
            return chains.sum_list(matches, shape, &self.powers, self.longest);
        }
        // 3. Many: look the children of a up among those of b by label.
        let labels_of_b = other.iter().map(label_of_b);
        table.fill(b.labels.len(), labels_of_b.clone())?;
        let rows = below.iter().map(|&x| {
            let matching = labels.matching(label_of_a(x));
            matching.map(|matching| (matching.label, matching.offset))
        });
        let sum = chains.sum(
            rows,
            table,
            &self.powers,
            self.longest,
            |i, j, offset| d(below[i as usize], offset, other[j as usize]),
            context,
        );
        table.clear(labels_of_b);
        chains.step(below.len() + other.len(), context)?;
        sum
    }
}

impl<N> Default for PairValues<N> {
    fn default() -> Self {
        Self {
            starts: Vec::new(),
            values: Vec::new(),
            free: Vec::new(),
            matches: Vec::new(),
            table: Table::default(),
            chains: Chains::default(),
            max_appended: MAX_APPENDED,
        }
    }
}

impl EqualLabels {
    /// Finds the labels of a among those of b through a table of all labels. (In a merge
    /// of the two lists, what comes next cannot be predicted: together with short lists
    /// of matches summed on the spot this took GRCT from 319 to 238 ns per pair of
    /// trees, QC from 543 to 435, WSJ from 1,970 to 1,780.)
    #[inline]
    pub(crate) fn find(
        &mut self,
        n_labels: usize,
        a: &[(u32, u32)],
        b: &[(u32, u32)],
    ) -> Result<()> {
        let Self { in_b, numbers } = self;
        in_b.clear();
        memory::reserve(in_b, a.len())?;
        memory::reach(numbers, n_labels, NONE)?;
        for (number, &(label, _)) in b.iter().enumerate() {
            numbers[label as usize] = number as u32;
        }
        in_b.extend(a.iter().map(|&(label, _)| numbers[label as usize])); // has room
        // `numbers` is as long as there are labels, so it is emptied entry by entry and
        // not made anew.
        for &(label, _) in b {
            numbers[label as usize] = NONE;
        }
        Ok(())
    }

    /// The number in b of a label of a, or [`NONE`].
    #[inline]
    pub(crate) fn in_b(&self, label: u32) -> u32 {
        self.in_b[label as usize]
    }
}

impl MatchingLabels for EqualLabels {
    #[inline]
    fn matching(&self, label: u32) -> impl Iterator<Item = MatchingLabel> {
        let label = Some(self.in_b(label)).filter(|&label| label != NONE);
        label.map(|label| MatchingLabel { label, offset: 0, sigma: 1.0 }).into_iter()
    }

    #[inline]
    fn offset(&self, label: u32) -> impl Fn(u32) -> Option<u32> {
        let label = self.in_b(label);
        move |other| (other == label).then_some(0)
    }

    #[inline]
    fn has_offsets(&self) -> bool {
        true
    }

    #[inline]
    fn scaled<N: Number>(_sigma: f64, value: N) -> N {
        value
    }
}

impl<N: Copy> PairValues<N> {
    pub(super) fn check(&self) -> Result<()> {
        if self.values.len() <= MAX_VALUES / size_of::<N>().div_ceil(16) {
            return Ok(());
        }
        let what = "values of D that one pair of trees needs at a time";
        Err(Error::Capacity { what, limit: MAX_VALUES as u64 })
    }

    /// Gives places of values that node `v` was the last to ask for back, and moves its
    /// own, the last ones from `start` on, to such a place.
    fn recycle<F>(
        &mut self,
        a: Tree<'_, F>,
        v: usize,
        start: usize,
        labels: &impl MatchingLabels,
    ) -> Result<()> {
        let Self { starts, values, free, .. } = self;
        memory::reach(free, a.labels.len(), Vec::new())?;
        let len = values.len() - start;
        // The newest values stand at the end, and move to the place.
        if let Some(place) = free[a.nodes[v].label as usize].pop() {
            values.copy_within(start.., place as usize);
            values.truncate(values.len() - len);
            starts[v] = place;
        }
        for &child in a.children(v) {
            let label = a.nodes[child as usize].label;
            // Once only, should a child stand here twice.
            if a.last_use(child) == v as u32 && labels.matching(label).next().is_some()
            {
                let start = std::mem::replace(&mut starts[child as usize], NONE);
                if start != NONE {
                    memory::push(&mut free[label as usize], start)?;
                }
            }
        }
        Ok(())
    }
}
