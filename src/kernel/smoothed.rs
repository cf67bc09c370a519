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

use super::partial::{
    self, EqualLabels, MatchingLabel, MatchingLabels, NONE, PreparedTrees, Tree,
};
use super::similarity::{Similarity, SimilarityRow, SimilarityTable};
use super::{
    Builtin, Equality, Kernel, Number, Pairs, Parameter, PartialTree, Prepared, Scaled,
    Sloped, Value, naive, parameter,
};
use crate::error::quoted;
use crate::ids::{IdVec, PackedOption};
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
    /// The table with its labels, kept for who asks next.
    named: Arc<NamedTable>,
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
            return Ok(Self { numbers, table, named: last_table });
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
        Ok(Self { numbers, table, named: named_table })
    }

    /// Numbers the labels of other trees, by their store; `here` has those of this one.
    /// Those that are not in the table get numbers beyond, with what is similar to
    /// each.
    pub(crate) fn others(
        &self,
        kernel: &SmoothedPartialTree,
        (store, here): (&Nodes, &IdVec<Label, PackedOption<Label>>),
        labels: impl Iterator<Item = Label>,
        context: &Context,
    ) -> Result<(Vec<u32>, Vec<SimilarityRow>)> {
        let mut numbers = memory::filled(NONE, store.labels().len())?;
        let mut names = Vec::new();
        for label in labels {
            let number = &mut numbers[label.index()];
            if *number != NONE {
                continue;
            }
            // A store may have labels that none of its trees had.
            *number =
                here[label].get().map_or(NONE, |label| self.numbers[label.index()]);
            if *number == NONE {
                *number = (self.table.len() + names.len()) as u32;
                memory::push(&mut names, store.labels().name(label))?;
            }
        }
        if names.is_empty() {
            return Ok((numbers, Vec::new()));
        }
        let known = (&self.named.names[..], &self.table);
        let rows = kernel.similarity.rows(known, &names, context)?;
        // Similarities may be a user's, so their rows are checked.
        if rows.len() != names.len() {
            let (array, expected) =
                ("similarity", format!("{}, one per label", names.len()));
            return Err(Error::Length { array, expected, got: rows.len() });
        }
        for (row, name) in rows.iter().zip(&names) {
            let is_ascending = row.is_sorted_by(|a, b| a.0 < b.0);
            let is_right = |&(label, sigma): &(u32, f64)| {
                (label as usize) < self.table.len() && sigma.abs() <= 1.0
            };
            if !(is_ascending && row.iter().all(is_right)) {
                let expected =
                    "from -1 to 1 with labels of the table, in ascending order";
                return Err(parameter(
                    "similarity",
                    expected,
                    &format!("{row:?} for {}", quoted(name)),
                ));
            }
        }
        Ok((numbers, rows))
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

type Scratch<N> = partial::Scratch<N, SimilarLabels>;

/// Labels match that are similar.
#[derive(Debug)]
struct SimilarLabels {
    equal: EqualLabels,
    /// Those that match, by label of a.
    matching: Vec<MatchingLabel>,
    /// By label of a: where they end.
    ends: Vec<u32>,
    /// By label of a and of b the offset, or [`NONE`]; none if they would be too many.
    offsets: Vec<u32>,
    /// How many labels b has.
    width: usize,
    /// So many offsets may there be: set low by tests.
    max_offsets: usize,
}

impl Default for SimilarLabels {
    fn default() -> Self {
        Self {
            equal: EqualLabels::default(),
            matching: Vec::new(),
            ends: Vec::new(),
            offsets: Vec::new(),
            width: 0,
            max_offsets: 1 << 20,
        }
    }
}

impl MatchingLabels for SimilarLabels {
    #[inline]
    fn matching(&self, label: u32) -> impl Iterator<Item = MatchingLabel> {
        self.matching[range(&self.ends, label)].iter().copied()
    }

    #[inline]
    fn offset(&self, label: u32) -> impl Fn(u32) -> Option<u32> {
        let offsets = &self.offsets[label as usize * self.width..][..self.width];
        |other| Some(offsets[other as usize]).filter(|&offset| offset != NONE)
    }

    #[inline]
    fn has_offsets(&self) -> bool {
        !self.offsets.is_empty()
    }

    #[inline]
    fn scaled<N: Number>(sigma: f64, value: N) -> N {
        N::from_f64(sigma) * value
    }
}

/// The items of a number, given where those of each end.
#[inline]
fn range(ends: &[u32], number: u32) -> std::ops::Range<usize> {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(0, |before| ends[before]);
    start as usize..ends[number] as usize
}

impl Smoothed {
    fn new(
        kernel: &SmoothedPartialTree,
        nodes: &Nodes,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Self> {
        let trees =
            PreparedTrees::new(&kernel.tree, kernel.tree.mu, nodes, roots, context)?;
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
        let leaves_count = kernel.tree.leaf_factor > 0.0;
        Ok(Self { trees, labels, leaves_count, by_block, ends })
    }

    /// Finds the labels of b that are similar to those of a; `blocks` are those of b by
    /// block.
    fn find_similar<N>(
        &self,
        (a, b): (Tree<'_>, Tree<'_>),
        blocks: &[(u32, u32)],
        scratch: &mut Scratch<N>,
        context: &Context,
    ) -> Result<()> {
        // What is similar depends on labels only, so it is found once for all nodes of
        // a.
        let Scratch { labels, pair } = scratch;
        let SimilarLabels { equal, matching, ends, offsets, width, max_offsets } =
            labels;
        *width = b.labels.len();
        matching.clear();
        ends.clear();
        offsets.clear();
        if a.labels.len().saturating_mul(*width) <= *max_offsets {
            memory::reach(offsets, a.labels.len() * *width, NONE)?;
        }
        equal.find(self.trees.n_labels, a.labels, b.labels)?;
        let table = &*self.labels.table;
        for (row, &(label, _)) in (0..).zip(a.labels) {
            let x = self.labels.number(Label(label));
            let (block, _) = table.place(x);
            let mut offset = 0;
            let mut add = |label: u32, sigma: f64| {
                memory::push(matching, MatchingLabel { label, offset, sigma })?;
                if let Some(place) =
                    offsets.get_mut(row as usize * *width + label as usize)
                {
                    *place = offset;
                }
                offset += b.group(label).len() as u32;
                Ok::<_, Error>(())
            };
            // A label in no block is similar to itself alone.
            if block == NONE {
                let same = equal.in_b(row);
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
            memory::push(ends, matching.len() as u32)?;
            pair.chains.step(range(ends, row).len() + 1, context)?;
        }
        Ok(())
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
        let (a, b) = self.trees.ordered(a, b);
        let blocks = &self.by_block[range(&self.ends, b as u32)];
        let (a, b) = (self.trees.tree(a), self.trees.tree(b));
        self.find_similar((a, b), blocks, scratch, context)?;
        self.trees.sum(a, b, &scratch.labels, &mut scratch.pair, context)
    }

    fn has_tiny_values(&self) -> bool {
        self.trees.has_tiny_values()
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
