//! The smoothed partial tree kernel: labels match by similarity.
//!
//! The [partial tree kernel](crate::kernel::PartialTree) with a similarity σ of labels in
//! place of their equality (SPTK: Croce, Moschitti & Basili, EMNLP 2011; with labels made of
//! two words CSPTK: Annesi, Croce & Basili, CIKM 2014):
//!
//! ```text
//! D(u,v) = μ σ(u,v) (λ² leafness + Σ over subsequences I of u's children, J of v's
//!                                  of λ^(gaps(I) + gaps(J)) Π_k D(u_{I_k}, v_{J_k}))
//! K(a,b) = Σ_{u in a, v in b} D(u,v)
//! ```
//!
//! σ multiplies once per matched pair of nodes; the decays are those of PT. With equality as
//! σ it is PT. It is positive semidefinite if and only if σ is; σ may be negative.
//!
//! For example `(N (cat))` and `(N (dog))` with σ = 0.8 at λ = μ = 0.4: D of the leaves is
//! 0.8 · 0.064 = 0.0512, that of the roots 0.4 (0.16 + 0.0512), so K = 0.13568.
//!
//! **Single pairs** go as those of PT, whose trees and chains of matches these are. A node of
//! a has values with the nodes of b of all similar labels, label by label; which labels
//! these are is found once per pair of trees and label of a.
//!
//! # Complexity
//! A pair: that of PT, where all nodes with similar labels match, and the pairs of labels of
//! the two trees that are in one block. Memory: as PT, the values that a parent will ask for.

use std::sync::{Arc, Mutex, Weak};

use super::partial::{NONE, PreparedTrees, Scratch as PartialScratch, Tree};
use super::similarity::{Similarity, SimilarityTable};
use super::{
    Builtin, Equality, Kernel, Number, Pairs, Parameter, PartialTree, Prepared, Scaled,
    Sloped, Value, naive,
};
use crate::{Context, Error, Label, NodeId, Nodes, Result, memory};

/// [`PartialTree`] whose labels match by similarity (Croce et al. 2011).
///
/// Values are checked when the kernel is used.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct SmoothedPartialTree {
    /// The parameters.
    pub tree: PartialTree,
    /// How similar labels are.
    pub similarity: Arc<dyn Similarity>,
    /// The table that was made last, while it is used: single pairs and rows of one call
    /// ask for the same.
    last_table: Arc<Mutex<Weak<NamedTable>>>,
}

impl PartialEq for SmoothedPartialTree {
    fn eq(&self, other: &Self) -> bool {
        self.tree == other.tree && Arc::ptr_eq(&self.similarity, &other.similarity)
    }
}

/// A table, and whose labels.
#[derive(Debug)]
struct NamedTable {
    names: Vec<String>,
    table: Arc<SimilarityTable>,
}

impl Default for SmoothedPartialTree {
    fn default() -> Self {
        Self::new(PartialTree::default(), Equality)
    }
}

impl SmoothedPartialTree {
    const NAME: &str = "SmoothedPartialTree";

    /// A kernel with these parameters and this similarity.
    #[must_use]
    pub fn new(tree: PartialTree, similarity: impl Similarity) -> Self {
        Self { tree, similarity: Arc::new(similarity), last_table: Arc::default() }
    }
}

impl Kernel for SmoothedPartialTree {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn parameters(&self) -> Vec<Parameter> {
        self.tree.parameters()
    }

    fn with(&self, name: &str, value: Value) -> Option<Arc<dyn Kernel>> {
        let tree = self.tree.changed(name, value)?;
        Some(Arc::new(Self { tree, ..self.clone() }))
    }

    /// NaN where the similarity fails.
    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        let both = [a, b].map(|root| naive::occurrences(nodes, root));
        let Ok(labels) = Labels::new(
            nodes,
            both.iter().flatten().map(|&node| nodes.label(node)),
            self,
            &Context::default(),
        ) else {
            return f64::NAN;
        };
        // An equal label has σ = 1 in any table.
        let sigma = |u, v| {
            let [x, y] = [u, v].map(|node| labels.number(nodes.label(node)));
            labels.table.get(x, y)
        };
        naive::sum(nodes, a, b, |u, v| {
            naive::partial_tree(nodes, &self.tree, &sigma, u, v)
        })
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(Smoothed::new(self, nodes, roots, context)?))
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        self.tree.check_slopes()?;
        Ok(Some(Box::new(Smoothed::new(self, nodes, roots, context)?)))
    }

    fn builtin(&self) -> Option<Builtin<'_>> {
        Some(Builtin { index: Some(Box::new(self.clone())), ..Builtin::new(self) })
    }
}

/// Some labels of a store, and their similarities.
#[derive(Debug)]
pub(crate) struct Labels {
    /// By label of the store: its number in the table, or [`NONE`].
    pub(crate) numbers: Vec<u32>,
    pub(crate) table: Arc<SimilarityTable>,
    /// Kept for who asks next.
    _kept: Arc<NamedTable>,
}

impl Labels {
    pub(crate) fn new(
        nodes: &Nodes,
        labels: impl Iterator<Item = Label>,
        kernel: &SmoothedPartialTree,
        context: &Context,
    ) -> Result<Self> {
        let mut numbers = memory::filled(NONE, nodes.labels().len())?;
        let mut names = Vec::new();
        for label in labels {
            let number = &mut numbers[label.index()];
            if *number == NONE {
                *number = names.len() as u32;
                memory::push(&mut names, nodes.labels().name(label))?;
            }
        }
        // Where another thread has it just now, or had it in a process that was forked, it is
        // made once more.
        let last_table = kernel
            .last_table
            .try_lock()
            .ok()
            .and_then(|last_table| last_table.upgrade());
        if let Some(last_table) =
            last_table.filter(|last_table| last_table.names == names)
        {
            let table = Arc::clone(&last_table.table);
            return Ok(Self { numbers, table, _kept: last_table });
        }
        let table = kernel.similarity.table(&names, context)?;
        // Similarities may be a user's, so their tables are checked.
        if table.len() != names.len() {
            let (array, expected) =
                ("similarity", format!("{}, one per label", names.len()));
            return Err(Error::Length { array, expected, got: table.len() });
        }
        let names = memory::try_collect(names.into_iter().map(memory::text))?;
        let named_table = Arc::new(NamedTable { names, table: Arc::clone(&table) });
        if let Ok(mut last) = kernel.last_table.try_lock() {
            *last = Arc::downgrade(&named_table);
        }
        Ok(Self { numbers, table, _kept: named_table })
    }

    #[inline]
    pub(crate) fn number(&self, label: Label) -> usize {
        self.numbers[label.index()] as usize
    }
}

/// Trees made ready for single pairs.
struct Smoothed {
    trees: PreparedTrees,
    labels: Labels,
    /// Whether a leaf alone has a kernel.
    leaves_count: bool,
    /// Tree by tree, as its labels: those in a block as (block, label's number in the tree),
    /// by block and in the order in which a walk leaves their first nodes: so sums do not
    /// depend on ids.
    by_block: Vec<(u32, u32)>,
    ends: Vec<u32>,
}

/// Labels of b that are similar to one of a.
#[derive(Debug, Clone, Copy)]
struct Similar {
    /// Its number in b.
    label: u32,
    /// Where the values with its nodes start among those of a node.
    offset: u32,
    sigma: f64,
}

/// What is kept from pair to pair.
#[derive(Debug)]
struct Scratch<N> {
    /// As for PT; `labels` is not used, and `free` is by label of a.
    partial: PartialScratch<N>,
    similar: Vec<Similar>,
    /// By label of a: where its similar ones end.
    ends: Vec<u32>,
    /// By label of a and of b the offset, or [`NONE`]; where there are not too many.
    offsets: Vec<u32>,
    row: Vec<(u32, N)>,
    /// So many offsets may there be: set low by tests.
    max_offsets: usize,
}

impl<N> Default for Scratch<N> {
    fn default() -> Self {
        Self {
            partial: PartialScratch::default(),
            similar: Vec::new(),
            ends: Vec::new(),
            offsets: Vec::new(),
            row: Vec::new(),
            max_offsets: 1 << 20,
        }
    }
}

/// The similar ones of a label of a.
#[inline]
fn range(ends: &[u32], label: u32) -> std::ops::Range<usize> {
    let label = label as usize;
    let start = label.checked_sub(1).map_or(0, |before| ends[before]);
    start as usize..ends[label] as usize
}

impl Smoothed {
    fn new(
        kernel: &SmoothedPartialTree,
        nodes: &Nodes,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        let PartialTree { decay, mu, leaf_factor, max_children } = kernel.tree;
        let trees = PreparedTrees::new(
            nodes,
            decay,
            mu,
            leaf_factor,
            max_children,
            roots,
            context,
        )?;
        // In the order of a walk, as rows ask.
        let walk =
            (0..trees.ends.len()).map(|tree| trees.tree(tree)).flat_map(|tree| {
                tree.nodes
                    .iter()
                    .map(move |node| Label(tree.labels[node.label as usize].0))
            });
        let labels = Labels::new(nodes, walk, kernel, context)?;
        let (mut by_block, mut ends) = (Vec::new(), Vec::new());
        // By tree, which labels are in blocks: these alone can be similar to others.
        for tree in 0..trees.ends.len() {
            context.check()?;
            let tree = trees.tree(tree);
            let start = by_block.len();
            for (number, &(label, _)) in (0..).zip(tree.labels) {
                let (block, _) = labels.table.place(labels.number(Label(label)));
                if block != NONE {
                    memory::push(&mut by_block, (block, number))?;
                }
            }
            let first = |number| tree.group(number).first().copied();
            by_block[start..]
                .sort_unstable_by_key(|&(block, number)| (block, first(number)));
            memory::push(&mut ends, by_block.len() as u32)?;
        }
        let leaves_count = leaf_factor > 0.0;
        Ok(Self { trees, labels, leaves_count, by_block, ends })
    }

    /// Finds the labels of b that are similar to those of a.
    fn match_labels<N>(
        &self,
        (a, b): (Tree<'_>, Tree<'_>),
        blocks: &[(u32, u32)],
        scratch: &mut Scratch<N>,
        context: &Context,
    ) -> Result<()> {
        // What is similar depends on labels only, so it is found once for all nodes of
        // a.
        let Scratch { partial, similar, ends, offsets, max_offsets, .. } = scratch;
        let width = b.labels.len();
        similar.clear();
        ends.clear();
        offsets.clear();
        if a.labels.len().saturating_mul(width) <= *max_offsets {
            memory::reach(offsets, a.labels.len() * width, NONE)?;
        }
        partial.match_labels(self.trees.n_labels, a.labels, b.labels)?;
        let table = &*self.labels.table;
        for (row, &(label, _)) in a.labels.iter().enumerate() {
            let x = self.labels.number(Label(label));
            let (block, _) = table.place(x);
            let mut offset = 0;
            let mut add = |number: u32, sigma: f64| {
                memory::push(similar, Similar { label: number, offset, sigma })?;
                if let Some(place) = offsets.get_mut(row * width + number as usize) {
                    *place = offset;
                }
                offset += b.group(number).len() as u32;
                Ok::<_, Error>(())
            };
            // A label in no block is similar to itself alone.
            if block == NONE {
                let same = partial.labels[row];
                if same != NONE {
                    add(same, 1.0)?;
                }
            } else {
                // The other tree's labels stand by block.
                let start = blocks.partition_point(|&(other, _)| other < block);
                let same = blocks[start..].iter().take_while(|entry| entry.0 == block);
                for &(_, number) in same {
                    let y = Label(b.labels[number as usize].0);
                    let sigma = table.get(x, self.labels.number(y));
                    if sigma != 0.0 {
                        add(number, sigma)?;
                    }
                }
            }
            memory::push(ends, similar.len() as u32)?;
            partial
                .chains
                .step(similar.len() - range(ends, row as u32).start + 1, context)?;
        }
        Ok(())
    }

    /// The sum over subsequences of two nodes' children, all of whose D are known.
    #[inline]
    fn children_sum<N: Number>(
        &self,
        (a, below): (Tree<'_>, &[u32]),
        (b, other): (Tree<'_>, &[u32]),
        scratch: &mut Scratch<N>,
        context: &Context,
    ) -> Result<N> {
        /// As for PT: about where a table of labels begins to pay.
        const MAX_COMPARED: usize = 64;
        let Scratch { partial, similar, ends, offsets, row, .. } = scratch;
        let PartialScratch { starts, values, matches, table, chains, .. } = partial;
        let (powers, longest) = (&*self.trees.powers, self.trees.longest);
        let width = b.labels.len();
        let rank = |y: u32| b.nodes[y as usize].rank;
        // 1. Few: compare all.
        if below.len() * other.len() <= MAX_COMPARED && !offsets.is_empty() {
            matches.clear();
            for (i, &x) in below.iter().enumerate() {
                let label = a.nodes[x as usize].label as usize;
                let offsets = &offsets[label * width..][..width];
                let start = starts[x as usize];
                for (j, &y) in other.iter().enumerate() {
                    let offset = offsets[b.nodes[y as usize].label as usize];
                    if offset != NONE {
                        let value = values[(start + offset + rank(y)) as usize];
                        // bounded: MAX_COMPARED
                        matches.push((i as u32, j as u32, value));
                    }
                }
            }
            let shape = (below.len(), other.len());
            return chains.sum_list(matches, shape, powers, longest);
        }
        // 2. Many: load b's children by label, and go row by row.
        let labels = other.iter().map(|&y| b.nodes[y as usize].label);
        table.fill(width, labels.clone())?;
        // A match is two children with similar labels, and some labels have several.
        let similar_to = |x: u32| {
            let label = a.nodes[x as usize].label;
            &similar[range(ends, label)]
        };
        let found = |x: u32| -> usize {
            similar_to(x).iter().map(|entry| table.count(entry.label) as usize).sum()
        };
        let n_rows = below.iter().filter(|&&x| found(x) > 0).count();
        let n_matches = below.iter().map(|&x| found(x)).sum();
        let mut total = N::from_f64(0.0);
        let mut done = Ok(());
        if n_matches > 0 {
            row.clear();
            done = chains.start(n_rows, other.len(), n_matches, longest);
            // Without memory no row is entered, but the table is emptied all the same.
            done = done.and_then(|()| memory::reserve(row, other.len()));
            let rows = if done.is_ok() { below } else { &[] };
            for (i, &x) in rows.iter().enumerate() {
                row.clear();
                let similar = similar_to(x);
                for entry in similar {
                    let start = starts[x as usize] + entry.offset;
                    // has room
                    row.extend(table.positions(entry.label).map(|j| {
                        (j, values[(start + rank(other[j as usize])) as usize])
                    }));
                }
                // Label by label they come; chains want them by position.
                if similar.len() > 1 {
                    row.sort_unstable_by_key(|entry| entry.0);
                }
                if !row.is_empty() {
                    total = total + chains.row(i as u32, row, powers);
                }
                done = chains.step(chains.per_row(row.len()) + similar.len(), context);
                if done.is_err() {
                    break;
                }
            }
        }
        table.clear(labels);
        done?;
        chains.step(below.len() + other.len(), context)?;
        Ok(total)
    }
}

impl Pairs for Smoothed {
    type Scratch<N: Number> = Scratch<N>;

    fn pair<N: Number>(
        &self,
        a: usize,
        b: usize,
        scratch: &mut Scratch<N>,
        context: &Context,
    ) -> Result<N> {
        let trees = &self.trees;
        let is_ordered = trees.content[a] <= trees.content[b];
        let (a, b) = if is_ordered { (a, b) } else { (b, a) };
        let blocks = &self.by_block[range(&self.ends, b as u32)];
        let (a, b) = (trees.tree(a), trees.tree(b));
        self.match_labels((a, b), blocks, scratch, context)?;
        scratch.partial.values.clear();
        scratch.partial.free.clear();
        memory::reach(&mut scratch.partial.starts, a.nodes.len(), NONE)?;
        let (zero, mu) = (N::from_f64(0.0), N::parameter(trees.mu, 1));
        let mut total = zero;
        // Children first, as D of the children is asked for.
        for (v, node) in a.nodes.iter().enumerate() {
            let similar = range(&scratch.ends, node.label);
            if similar.is_empty() {
                continue;
            }
            let start = scratch.partial.values.len();
            scratch.partial.starts[v] = start as u32;
            let below = a.children(v);
            let mut node_sum = zero;
            for at in similar {
                let Similar { label, sigma, .. } = scratch.similar[at];
                let sigma = N::from_f64(sigma);
                // Values stand label by label, in the order of `similar`.
                for &u in b.group(label) {
                    let other = b.children(u as usize);
                    let leaves = (below.is_empty(), other.is_empty());
                    let mut value: N = trees.single(&trees.weights, trees.mu, leaves);
                    if !below.is_empty() && !other.is_empty() {
                        let sum = self.children_sum(
                            (a, below),
                            (b, other),
                            scratch,
                            context,
                        )?;
                        value = value + mu * sum;
                    }
                    value = sigma * value;
                    memory::push(&mut scratch.partial.values, value)?;
                    node_sum = node_sum
                        + value * N::from_f64(f64::from(b.nodes[u as usize].count));
                }
            }
            total = total + node_sum * N::from_f64(f64::from(node.count));
            let len = scratch.partial.values.len() - start;
            scratch.partial.chains.step(len, context)?;
            if scratch.partial.values.len() > scratch.partial.max_appended {
                scratch.recycle(a, v, start)?;
                scratch.partial.check_values()?;
            }
        }
        Ok(total)
    }

    fn is_tiny(&self) -> bool {
        self.trees.is_tiny()
    }

    /// Dot products are above 0: a whole tree is a fragment. (Not if leaves do not count.)
    fn is_indefinite(&self, self_kernel: Scaled) -> bool {
        self_kernel.value() < 0.0
            || self_kernel.value().is_nan()
            || self_kernel.is_zero() && self.leaves_count
    }

    fn most(&self) -> f64 {
        f64::MAX
    }
}

impl<N: Copy> Scratch<N> {
    /// Gives places of values that node `v` was the last to ask for back, and moves its
    /// own, the last ones, to such a place.
    fn recycle(&mut self, a: Tree<'_>, v: usize, start: usize) -> Result<()> {
        let Self { partial, ends, .. } = self;
        let PartialScratch { starts, values, free, .. } = partial;
        // Places are free by label of a: all its nodes have values with the same nodes
        // of b.
        memory::reach(free, a.labels.len(), Vec::new())?;
        let len = values.len() - start;
        if let Some(place) = free[a.nodes[v].label as usize].pop() {
            values.copy_within(start.., place as usize);
            values.truncate(values.len() - len);
            starts[v] = place;
        }
        for &child in a.children(v) {
            let label = a.nodes[child as usize].label;
            // Once only, should a child stand here twice.
            if a.last_use(child) == v as u32 && !range(ends, label).is_empty() {
                let start = std::mem::replace(&mut starts[child as usize], NONE);
                if start != NONE {
                    memory::push(&mut free[label as usize], start)?;
                }
            }
        }
        Ok(())
    }
}
