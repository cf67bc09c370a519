//! Trees as unit vectors whose dot products are no less than normalised kernels.
//!
//! Fragments fall into *blocks* g: those that begin alike. Each block is a kernel, and
//! K = Σ_g K_g. With Cauchy and Schwarz for each block,
//!
//! ```text
//! K(a,b) ≤ Σ_g sqrt(K_g(a,a) K_g(b,b)),   so   K(a,b) / sqrt(K(a,a) K(b,b)) ≤ Σ_g n_g(a) n_g(b)
//! n_g(x) = sqrt(K_g(x,x) / K(x,x)),       Σ_g n_g(x)² = 1
//! ```
//!
//! The finer the blocks, the closer the bound:
//!
//! | kernel | a block has the fragments |
//! |---|---|
//! | SST | of a single production; for each child position and production of the child those whose last expanded child this is |
//! | ST | equal to one subtree: the bound is the value |
//! | PT, ET | whose root has one label |
//!
//! In the subset tree kernel the fragments of a single production, and leaves, have a
//! bound that is their value: counts are multiplied. This makes it close where decay is
//! small.
//!
//! # Complexity
//! As the kernel of each tree with itself.

use std::sync::Arc;

use crate::dag::{self, Model};
use crate::ids::{Id, ListId, PackedOption};
use crate::index::id_map::{IdMap, LISTS, Wanted};
use crate::intern::{Keys, new_id};
use crate::kernel::{
    Counts, LARGEST, Number, SMALLEST, Scaled, SubsetTree, TreeCounts,
};
use crate::memory::{collect, extend, filled, push, reach};
use crate::ragged::Ragged;
use crate::threads::Threads;
use crate::{
    Context, Error, Forest, Kernel, Label, NodeId, Nodes, ProductionId, Result,
};

const NONE: u32 = u32::MAX;
const WHAT: &str = "blocks, tree by tree";
/// Pairs of nodes of one tree that are looked at; with more it has no vector.
const MAX_PAIRS: usize = 1 << 26;
/// Trees that are read before their vectors are made: those of all trees would take more
/// than the vectors.
const AT_A_TIME: usize = 1 << 15;

/// Per tree its vector: (block, norm), rounded up. A tree that has none is as similar to
/// others as can be: (NONE, 1) alone.
pub(crate) type Vectors = Ragged<(u32, f32)>;

/// Vectors whose dot products are no less than normalised kernels.
pub struct Bound {
    pub(super) vectors: Vectors,
    pub(super) names: Names,
}

/// What blocks are, in the ids of a store: so those of two stores are told to be the same.
pub(crate) struct Names {
    nodes: Arc<Nodes>,
    /// What blocks are numbered by: nodes, productions, or labels.
    wanted: Wanted,
    /// How many blocks there may be, and how many of them are no edges.
    n_blocks: usize,
    first_edge: usize,
    /// Of edges: (production, position, production of the child).
    edges: Keys<ListId>,
}

impl Names {
    pub(super) fn n_blocks(&self) -> usize {
        self.n_blocks
    }

    pub(super) fn nbytes(&self) -> usize {
        self.edges.nbytes()
    }

    /// What the blocks of another store are called here, or [`NONE`].
    pub(super) fn numbers(&self, other: &Self) -> Result<Vec<u32>> {
        let (there, here) = (&other.nodes, &self.nodes);
        let none = TreeCounts::read(there, &[], &Context::default())?;
        let map = IdMap::of_trees(there, here, self.wanted, &none, |_| None)?;
        match self.wanted {
            Wanted::Nodes => return collect(map.nodes.iter().copied().map(number)),
            Wanted::Labels => return collect(map.labels.iter().copied().map(number)),
            _ => {}
        }
        // Productions, then labels of leaves, then edges.
        let productions = map.productions.iter().copied().map(number);
        let n_productions = here.n_productions() as u32;
        let leaf = |label: &PackedOption<Label>| {
            label.get().map_or(NONE, |label| n_productions + label.number())
        };
        let production = |id: u32| map.productions[ProductionId(id)].get();
        let edge = |&[parent, position, child]: &[u32; 3]| {
            let (parent, child) = (production(parent)?, production(child)?);
            let edge = self.edges.find([parent.0, position, child.0])?;
            Some(self.first_edge as u32 + edge.number())
        };
        let edges = other.edges.keys.iter().map(|key| edge(key).unwrap_or(NONE));
        collect(productions.chain(map.labels.iter().map(leaf)).chain(edges))
    }
}

/// The number of an id, or [`NONE`].
fn number<I: Id>(id: PackedOption<I>) -> u32 {
    id.get().map_or(NONE, Id::number)
}

/// Whether a tree has no vector.
pub(crate) fn is_open(vector: &[(u32, f32)]) -> bool {
    vector.first().is_some_and(|item| item.0 == NONE)
}

/// Which fragments are a block.
#[derive(Debug)]
pub(crate) enum Blocks {
    /// A subtree alone, with its weight by node; the kernel is a sum over subtrees.
    Subtrees {
        /// What a pair of them adds, by node of the store.
        weights: Vec<f64>,
        /// What stands in the place of each of their counts.
        counts: Counts,
    },
    /// Those of one production, or of one production below another at one place.
    Productions(SubsetTree),
    /// Those whose roots have one label, of any kernel with models.
    Roots,
}

/// The vectors of some trees; None for a kernel without blocks.
pub(crate) fn bound(
    kernel: &dyn Kernel,
    nodes: &Arc<Nodes>,
    roots: &[NodeId],
    threads: &Threads<'_>,
) -> Result<Option<Bound>> {
    let Some(family) = kernel.index() else { return Ok(None) };
    let Some(blocks) = family.blocks(nodes)? else { return Ok(None) };
    let leaves = family.has_leaves();
    let edges = match &blocks {
        Blocks::Productions(_) => Edges::new(nodes, roots, threads)?,
        _ => Edges::default(),
    };
    let n_blocks = match &blocks {
        Blocks::Subtrees { weights, .. } => weights.len(),
        Blocks::Productions(_) => edges.first + edges.keys.keys.len(),
        Blocks::Roots => nodes.labels().len(),
    };
    // Blocks are numbers of 32 bits.
    new_id(n_blocks, "blocks")?;
    // 1. Vectors of some trees by each thread.
    let parts = threads.parts(roots.len(), |range, context| {
        let mut vectors = Vectors::default();
        // A vector of subtrees is their list; all others are summed by block.
        let is_listed = matches!(blocks, Blocks::Subtrees { .. });
        let n_sums = if is_listed { 0 } else { n_blocks };
        let mut scratch = Scratch::<f64>::new(n_sums)?;
        let mut shares = Vec::new();
        // For trees whose kernels no float holds.
        let mut scaled: Option<Scratch<Scaled>> = None;
        let has_bags = !matches!(blocks, Blocks::Roots);
        for some in roots[range].chunks(AT_A_TIME) {
            let read = if has_bags { some } else { &[] };
            let tree_counts = TreeCounts::read_with(leaves, nodes, read, context)?;
            for (tree, &root) in some.iter().enumerate() {
                context.check_now()?;
                let is_known = match &blocks {
                    Blocks::Subtrees { weights, counts } => {
                        // A subtree comes once: no table of sums is needed.
                        shares.clear();
                        let squares = tree_counts.iter(tree).map(|(node, count)| {
                            let count = counts.of(f64::from(count));
                            (node.0, count * count * weights[node.index()])
                        });
                        extend(
                            &mut shares,
                            squares.filter(|&(_, share)| share != 0.0),
                        )?;
                        close_listed(&shares, &mut vectors)?;
                        continue;
                    }
                    Blocks::Productions(kernel) => scratch.subset(
                        kernel,
                        nodes,
                        &tree_counts,
                        tree,
                        &edges,
                        context,
                    )?,
                    Blocks::Roots => scratch.roots(kernel, nodes, root, context)?,
                };
                // 2. Where the sum leaves the floats, once more in numbers that hold
                // it.
                let total = scratch.total();
                let fits = (SMALLEST..LARGEST).contains(&total) || total == 0.0;
                if let (Blocks::Productions(kernel), true, false) =
                    (&blocks, is_known, fits)
                {
                    let scaled = match &mut scaled {
                        Some(scaled) => scaled,
                        None => scaled.insert(Scratch::new(n_blocks)?), // bounded: one
                    };
                    scratch.forget();
                    let is_known = scaled.subset(
                        kernel,
                        nodes,
                        &tree_counts,
                        tree,
                        &edges,
                        context,
                    )?;
                    let share = |sum: Scaled, total| sum.cosine(total, total);
                    scaled.close(is_known, share, &mut vectors)?;
                } else {
                    let share = |sum, total| sum / total;
                    scratch.close(is_known && fits, share, &mut vectors)?;
                }
            }
        }
        Ok(vectors)
    })?;
    // 3. The threads' vectors, in the order of trees.
    let mut vectors = Vectors::default();
    for part in parts {
        vectors.append(part, WHAT)?;
    }
    let wanted = match &blocks {
        Blocks::Subtrees { .. } => Wanted::Nodes,
        Blocks::Productions(_) => Wanted::Productions,
        Blocks::Roots => Wanted::Labels,
    };
    let (nodes, first_edge) = (Arc::clone(nodes), edges.first);
    let names = Names { nodes, wanted, n_blocks, first_edge, edges: edges.keys };
    Ok(Some(Bound { vectors, names }))
}

/// The inner children of nodes.
#[derive(Debug, Clone, Copy)]
struct Edge {
    position: u32,
    /// Its block.
    block: u32,
    child: NodeId,
}

/// Those of all nodes of some trees. Blocks are productions, labels of leaves, and then
/// (production, position, production of the child).
#[derive(Default)]
struct Edges {
    by_node: Ragged<Edge>,
    keys: Keys<ListId>,
    first: usize,
}

impl Edges {
    fn new(nodes: &Nodes, roots: &[NodeId], threads: &Threads<'_>) -> Result<Self> {
        let first = nodes.n_productions() + nodes.labels().len();
        let mut edges =
            Self { by_node: Ragged::default(), keys: Keys::default(), first };
        // Blocks of other trees of the store would only make tables longer.
        let mut is_wanted = filled(false, nodes.len())?;
        for root in roots {
            is_wanted[root.index()] = true;
        }
        // Parents stand behind their children.
        for number in (0..nodes.len()).rev() {
            threads.context.check()?;
            if is_wanted[number] {
                for child in nodes.children(NodeId(number as u32)) {
                    is_wanted[child.index()] = true;
                }
            }
        }
        for (number, is_wanted) in is_wanted.into_iter().enumerate() {
            threads.context.check()?;
            // All nodes have a list, so that it is found by their number.
            let node = NodeId(number as u32);
            let children = if is_wanted { nodes.children(node) } else { &[] };
            edges.by_node.reserve(children.len())?;
            for (position, &child) in children.iter().enumerate() {
                let wanted = Wanted::Productions;
                let key = IdMap::key(wanted, nodes, node, position, child);
                if let Some(key) = key {
                    let block = first as u32 + edges.keys.insert(key, LISTS)?.0;
                    edges.by_node.push(Edge {
                        position: position as u32,
                        block,
                        child,
                    })?;
                }
            }
            edges.by_node.close("edges")?;
        }
        Ok(edges)
    }
}

/// Makes a vector of K_g(x,x) by block.
fn close_listed(shares: &[(u32, f64)], vectors: &mut Vectors) -> Result<()> {
    // In the order of the walk, so the bound does not depend on ids.
    let total: f64 = shares.iter().fold(0.0, |total, (_, share)| total + share);
    vectors.reserve(shares.len() + 1)?;
    if (SMALLEST..LARGEST).contains(&total) || total == 0.0 {
        let norms = shares
            .iter()
            .map(|&(block, share)| (block, rounded_up((share / total).sqrt())));
        vectors.extend(norms)?;
    } else {
        vectors.push((NONE, 1.0))?;
    }
    vectors.close(WHAT)
}

struct Scratch<N> {
    /// By block: K_g(x,x), 0 again after each tree; and the blocks that are not 0.
    sums: Vec<N>,
    blocks: Vec<u32>,
    /// By node: its number among the tree's branching nodes.
    number: Vec<u32>,
    /// By production: the last branching node that has it.
    last: Vec<u32>,
    /// Per branching node: the one before it with its production, how many there are
    /// before it, and where its values start in `c`.
    before: Vec<(u32, u32, usize)>,
    branching: Vec<(NodeId, f64)>,
    c: Vec<N>,
}

impl<N: Number> Scratch<N> {
    fn new(n_blocks: usize) -> Result<Self> {
        Ok(Self {
            sums: filled(N::from_f64(0.0), n_blocks)?,
            blocks: Vec::new(),
            number: Vec::new(),
            last: Vec::new(),
            before: Vec::new(),
            branching: Vec::new(),
            c: Vec::new(),
        })
    }

    #[inline]
    fn add(&mut self, block: u32, value: N) -> Result<()> {
        let zero = N::from_f64(0.0);
        let sum = &mut self.sums[block as usize];
        // A block is noted when it gets its first value: none is negative, so it stays
        // above 0.
        if *sum == zero && value != zero {
            push(&mut self.blocks, block)?;
        }
        *sum = *sum + value;
        Ok(())
    }

    /// K(x,x).
    fn total(&self) -> N {
        let sums = self.blocks.iter().map(|&block| self.sums[block as usize]);
        sums.fold(N::from_f64(0.0), |total, sum| total + sum)
    }

    /// Makes all sums 0.
    fn forget(&mut self) {
        for block in self.blocks.drain(..) {
            self.sums[block as usize] = N::from_f64(0.0);
        }
    }

    /// Makes the sums a vector; `share` is a sum's part of their total.
    fn close(
        &mut self,
        is_known: bool,
        share: impl Fn(N, N) -> f64,
        vectors: &mut Vectors,
    ) -> Result<()> {
        let total = self.total();
        vectors.reserve(self.blocks.len() + 1)?;
        if is_known {
            for &block in &self.blocks {
                let share = share(self.sums[block as usize], total);
                vectors.push((block, rounded_up(share.sqrt())))?;
            }
        }
        self.forget();
        if !is_known {
            vectors.push((NONE, 1.0))?;
        }
        vectors.close(WHAT)
    }

    /// K_g(x,x) of the subset tree kernel; false where it would take too long.
    fn subset(
        &mut self,
        kernel: &SubsetTree,
        nodes: &Nodes,
        tree_counts: &TreeCounts,
        tree: usize,
        edges: &Edges,
        context: &Context,
    ) -> Result<bool> {
        let SubsetTree { decay, leaf_weight } = *kernel;
        for (list, len) in
            [(&mut self.number, nodes.len()), (&mut self.last, nodes.n_productions())]
        {
            reach(list, len, NONE)?;
        }
        self.branching.clear();
        self.before.clear();
        self.c.clear();
        // 1. Productions and leaves: counts. And which nodes go on.
        let n_productions = nodes.n_productions() as u32;
        for (node, count) in tree_counts.iter(tree) {
            let count = f64::from(count);
            let Some(production) = nodes.production(node) else {
                if leaf_weight > 0.0 {
                    // The root of the sum; squared below.
                    self.add(n_productions + nodes.label(node).0, N::from_f64(count))?;
                }
                continue;
            };
            self.add(production.0, N::from_f64(count))?;
            if edges.by_node.get(node.index()).is_empty() {
                continue;
            }
            let number = self.branching.len() as u32;
            self.number[node.index()] = number;
            push(&mut self.branching, (node, count))?;
            let last = &mut self.last[production.index()];
            let earlier = match *last {
                NONE => 0,
                last => self.before[last as usize].1 + 1,
            };
            push(&mut self.before, (*last, earlier, self.c.len()))?;
            *last = number;
            let end = self.c.len() + earlier as usize + 1;
            reach(&mut self.c, end, N::from_f64(0.0))?;
            // Given up. What was entered so far is taken out below.
            if self.c.len() > MAX_PAIRS {
                break;
            }
        }
        // What was summed are counts; their square times the weight is the block's
        // kernel.
        for &block in &self.blocks {
            let sum = &mut self.sums[block as usize];
            let weight = if block < n_productions { decay } else { leaf_weight };
            *sum = N::from_f64(weight) * (*sum * *sum);
        }
        let is_known = self.c.len() <= MAX_PAIRS;
        // 2. Pairs of nodes that go on, each v with the u before it.
        let decay = N::from_f64(decay);
        for v in 0..if is_known { self.branching.len() } else { 0 } {
            context.check()?;
            let (node, count) = self.branching[v];
            let edges_v = edges.by_node.get(node.index());
            let start = self.before[v].2;
            let mut u = v as u32;
            while u != NONE {
                let (other, times) = self.branching[u as usize];
                // Each pair of different nodes counts in both orders.
                let both = if u == v as u32 { 1.0 } else { 2.0 };
                let weight = N::from_f64(both * count * times) * decay;
                let mut edges_u = edges.by_node.get(other.index());
                let mut product = N::from_f64(1.0);
                // Children by position: only those with equal positions and productions
                // go on.
                for edge in edges_v {
                    while edges_u.first().is_some_and(|e| e.position < edge.position) {
                        edges_u = &edges_u[1..];
                    }
                    let Some(first) = edges_u.first() else { break };
                    if first.block != edge.block {
                        continue;
                    }
                    // The smaller number was entered first, and the values are with the
                    // later one.
                    let [a, b] = [first.child, edge.child]
                        .map(|child| self.number[child.index()]);
                    let c = match (a.min(b), a.max(b)) {
                        (_, NONE) => decay,
                        (low, high) => {
                            let place = self.before[low as usize].1 as usize;
                            self.c[self.before[high as usize].2 + place]
                        }
                    };
                    // C grows by this term with this child: the fragments whose last
                    // expanded child it is.
                    let term = product * c;
                    self.add(edge.block, weight * term)?;
                    product = product + term;
                }
                let (next, place, _) = self.before[u as usize];
                self.c[start + place as usize] = decay * product;
                u = next;
            }
        }
        // 3. All as it was.
        for &(node, _) in &self.branching {
            self.number[node.index()] = NONE;
            if let Some(production) = nodes.production(node) {
                self.last[production.index()] = NONE;
            }
        }
        Ok(is_known)
    }
}

impl Scratch<f64> {
    /// K_g(x,x) by the labels of roots, for any kernel with models; false where it is
    /// not available.
    fn roots(
        &mut self,
        kernel: &dyn Kernel,
        nodes: &Nodes,
        root: NodeId,
        context: &Context,
    ) -> Result<bool> {
        // A store of its own: a model of the tree takes time by what its store holds.
        let mut store = Nodes::default();
        let tree_root = store.absorb_one(nodes, root, context)?;
        let tree = Forest::new(Arc::new(store), collect([tree_root])?);
        let Some(kernel) = kernel.shared() else { return Ok(false) };
        let shares =
            Model::new(kernel, dag::ModelOptions::default()).and_then(|mut model| {
                model.add_with(&tree, &[1.0], context)?;
                model.contributions_with(&tree, context)
            });
        let shares = match shares {
            Ok(shares) => shares,
            Err(Error::Expansion { .. } | Error::ScoreOverflow { .. }) => {
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        // Contributions come in the order of a walk, parents first.
        let mut todo = collect([root])?;
        for share in shares {
            let Some(node) = todo.pop() else { break };
            self.add(nodes.label(node).0, share)?;
            extend(&mut todo, nodes.children(node).iter().rev().copied())?;
        }
        Ok(true)
    }
}

/// The least float of 32 bits that is no less.
fn rounded_up(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) < value { near.next_up() } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_is_rounded_to_the_least_that_is_no_less() {
        for value in [0.1, 0.2, 0.3, 0.7, 1.0 / 3.0, 1.0, 0.5, 3e-9, 12_345.678_9] {
            let rounded = rounded_up(value);
            assert!(f64::from(rounded) >= value, "{value}");
            assert!(f64::from(rounded.next_down()) < value, "{value}");
        }
    }
}
