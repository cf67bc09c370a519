//! Support trees that are kept whole, for kernels that cannot be summed by subtrees.
//!
//! A kernel without an index (one that knows pairs of trees only, a product of kernels,
//! labels that match by similarity, counts that are not linear) is no sum over subtrees
//! that a model could add up. The score is then what it says, exact and slower:
//!
//! ```text
//! S(x) = Σ_i α_i K(x_i, x)       x_i over the different support trees
//! ```
//!
//! Equal support trees are one, with their weights added; a tree whose weights are all 0 is
//! forgotten. The kernels of x with all of them are a row of a matrix
//! ([`gram`]): one row for all outputs, by the index that matrices are made
//! by, which is built by the first score after a change. A row does not depend on the other
//! trees that are scored with it, nor on threads.
//!
//! The few trees of a normalised graph that are too large for floats stand here as well.
//!
//! # Complexity
//! Memory: the distinct subtrees of the support trees, and the index. A score: a row of
//! kernels, so the time of a kernel for each support tree.

use std::fmt;
use std::sync::Arc;

use super::{add_scaled, compact};
use crate::gram::{self, RowsOf, TrainedEngine};
use crate::memory::{self, Map};
use crate::threads::ForkSafeCache;
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result};

/// Values of a matrix that a worker holds at a time, about.
const BLOCK_VALUES: usize = 1 << 20;
/// Rows of such a matrix.
const MAX_BLOCK_ROWS: usize = 128;
/// Examples of a perceptron whose rows are computed together: of few support trees, and of
/// so many that a matrix becomes large.
const USUAL_EXAMPLES: usize = 64;
const MIN_EXAMPLES: usize = 16;

/// Different trees with their weights.
#[derive(Clone, Default)]
pub(super) struct SupportTrees {
    /// Different trees, of a store that holds nothing else.
    forest: Forest,
    /// By root: the tree's number.
    numbers: Map<NodeId, u32>,
    /// By tree, by output.
    alphas: Vec<f64>,
    /// What makes rows of kernels with all these trees, once they were asked for.
    index: ForkSafeCache<TrainedEngine<Forest>>,
}

impl fmt::Debug for SupportTrees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SupportTrees")
            .field("forest", &self.forest)
            .field("alphas", &self.alphas)
            .finish_non_exhaustive()
    }
}

/// A kernel, and whether it is normalised.
#[derive(Clone, Copy)]
pub(super) struct ModelKernel<'a> {
    pub(super) kernel: &'a Arc<dyn Kernel>,
    pub(super) normalize: bool,
}

impl SupportTrees {
    pub(super) fn len(&self) -> usize {
        self.forest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.forest.is_empty()
    }

    pub(super) fn forest(&self) -> &Forest {
        &self.forest
    }

    pub(super) fn nodes(&self) -> &Nodes {
        self.forest.nodes()
    }

    /// By tree, by output.
    pub(super) fn alphas(&self) -> &[f64] {
        &self.alphas
    }

    /// Bytes held, with what rows are made by once they were asked for.
    pub(super) fn nbytes(&self) -> usize {
        let per_tree = size_of::<NodeId>() + 2 * size_of::<(NodeId, u32)>();
        // A map may have room for twice the entries that it has.
        let index = self.index.get().map_or(0, |index| index.nbytes());
        let trees = self.forest.nodes().nbytes() + self.len() * per_tree;
        trees + self.alphas.capacity() * 8 + index
    }

    /// Adds weights to those of a tree, which is kept if it is new; returns its number.
    ///
    /// # Errors
    /// [`Error::Capacity`], [`Error::Memory`]: with nothing changed.
    pub(super) fn add(
        &mut self,
        store: &Nodes,
        root: NodeId,
        alphas: &[f64],
    ) -> Result<u32> {
        // It holds the store, which would be copied.
        self.index = ForkSafeCache::default();
        // Room first: once the tree is in the store nothing may fail, or its root would
        // be without weights.
        memory::reserve(&mut self.alphas, alphas.len())?;
        self.numbers.reserve(1)?;
        let next = self.len() as u32;
        let mut number = next;
        let numbers = &mut self.numbers;
        self.forest.extend_with(|nodes, roots| {
            let root = nodes.absorb_one(store, root, &Context::default())?;
            match numbers.get(&root) {
                Some(&there) => number = there,
                None => memory::push(roots, root)?,
            }
            Ok(())
        })?;
        // An equal tree shares the interned root, so its weights are added to those
        // that are there.
        if number == next {
            self.numbers.insert(self.forest.roots()[next as usize], next)?;
            memory::extend(&mut self.alphas, alphas.iter().copied())?;
        } else {
            self.weigh(number, 1.0, alphas);
        }
        Ok(number)
    }

    /// Adds weights, times a factor, to those of a tree.
    pub(super) fn weigh(&mut self, number: u32, factor: f64, alphas: &[f64]) {
        let start = number as usize * alphas.len();
        add_scaled(factor, alphas, &mut self.alphas[start..start + alphas.len()]);
    }

    /// Makes all weights 0.
    pub(super) fn clear_weights(&mut self) {
        self.alphas.fill(0.0);
    }

    /// Forgets the trees all of whose weights are 0.
    pub(super) fn drop_zeros(&mut self, n_outputs: usize) {
        let is_left = |alphas: &[f64]| alphas.iter().any(|&alpha| alpha != 0.0);
        let weights = self.alphas.chunks(n_outputs);
        if weights.clone().all(is_left) {
            return;
        }
        // Built anew: a store never forgets nodes, so only a new one gives memory back.
        let mut left = Self::default();
        for (&root, alphas) in self.forest.roots().iter().zip(weights) {
            if is_left(alphas) && left.add(self.forest.nodes(), root, alphas).is_err() {
                // Without memory for the others all stay, and those add 0 to scores.
                return;
            }
        }
        *self = left;
    }

    /// How many rows a worker computes at a time.
    pub(super) fn rows_at_a_time(&self) -> usize {
        // As many as a block holds, but some even where rows are long, to share what
        // preparing a block takes.
        (BLOCK_VALUES / self.len().max(1)).clamp(8, MAX_BLOCK_ROWS)
    }

    /// Builds what rows are made by, if it is not there.
    ///
    /// # Errors
    /// As [`gram::fill`].
    pub(super) fn build(
        &self,
        model_kernel: ModelKernel<'_>,
        context: &Context,
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.index(model_kernel, context).map(drop)
    }

    fn index(
        &self,
        model_kernel: ModelKernel<'_>,
        context: &Context,
    ) -> Result<Arc<TrainedEngine<Forest>>> {
        // Between two changes of the trees it is built once, by the first that asks.
        if let Some(index) = self.index.get() {
            return Ok(index);
        }
        let (rows, options) = ((RowsOf::Others, "the model"), model_kernel.options());
        let (kernel, context) = (&**model_kernel.kernel, &context.step());
        let (index, _) =
            TrainedEngine::new(kernel, &self.forest, options, rows, context)?;
        Ok(self.index.put(index))
    }

    /// The kernels of some trees with all support trees, a row for each; and which of them
    /// have no kernel with themselves to normalise by.
    ///
    /// # Errors
    /// [`Error::ScoreOverflow`], [`Error::Indefinite`], [`Error::Memory`],
    /// [`Error::Capacity`], and what `context` returns.
    pub(super) fn rows(
        &self,
        model_kernel: ModelKernel<'_>,
        x: &Forest,
        context: &Context,
    ) -> Result<(Vec<f64>, Vec<usize>)> {
        let mut out = memory::filled(0.0, x.len().saturating_mul(self.len()))?;
        let (options, context) = (model_kernel.options(), &context.step());
        // There is nothing to build an index of. Where scores are normalised, the
        // caller still wants to know the trees that have no norm.
        if self.is_empty() {
            if !model_kernel.normalize {
                return Ok((out, Vec::new()));
            }
            let report =
                gram::diagonal_with(&**model_kernel.kernel, x, options, context)?.1;
            return Ok((out, report.zero_rows));
        }
        let index = self.index(model_kernel, context)?;
        let kernel = &**model_kernel.kernel;
        let filled = gram::Asking::new(x, context).and_then(|asking| {
            index.fill(kernel, &asking, (&mut out, self.len(), 0), context)
        });
        Ok((out, filled.map_err(score_error)?.zero_rows))
    }
}

impl ModelKernel<'_> {
    fn options(self) -> gram::Options {
        gram::Options { normalize: self.normalize }
    }
}

/// The error of a score whose row has another one.
fn score_error(error: Error) -> Error {
    match error {
        Error::Overflow { row, .. } => Error::ScoreOverflow { tree: row },
        other => other,
    }
}

/// The same error of a tree that is one of those from `start` on.
pub(super) fn offset_tree(error: Error, start: usize) -> Error {
    match error {
        Error::ScoreOverflow { tree } => Error::ScoreOverflow { tree: start + tree },
        Error::Indefinite { tree, set: set @ "X", value } => {
            Error::Indefinite { tree: start + tree, set, value }
        }
        other => other,
    }
}

/// Examples of a perceptron, one after another, and their kernels: with the support trees
/// that were there before, and among each other.
pub(super) struct ExampleKernels {
    /// The first example's number.
    start: usize,
    len: usize,
    /// How many support trees there were.
    n_before: usize,
    /// Row after row: kernels of the examples with those support trees.
    before: Vec<f64>,
    /// Row after row: kernels of the examples with each other.
    among: Vec<f64>,
    /// By example: whether it has no kernel with itself to normalise by.
    is_zero: Vec<bool>,
    /// Those that have become support trees, in the order of these.
    joined: Vec<usize>,
}

impl ExampleKernels {
    /// The examples from `start` on: a quarter as many as there are support trees, so that
    /// the rows among them are few beside the others.
    ///
    /// # Errors
    /// As [`SupportTrees::rows`].
    pub(super) fn new(
        supports: &SupportTrees,
        model_kernel: ModelKernel<'_>,
        forest: &Forest,
        start: usize,
        context: &Context,
    ) -> Result<Self> {
        let n_before = supports.len();
        // Memory first: where rows are long, few of them at a time.
        let max_rows = BLOCK_VALUES / (n_before + 1);
        let len = (n_before / 4).max(USUAL_EXAMPLES).min(max_rows).max(MIN_EXAMPLES);
        let len = len.min(forest.len() - start);
        let x = forest.picked(start..start + len)?;
        let x = &*compact(&x, context)?;
        // The rows count from the first example of the stretch, errors from that of the
        // forest.
        let offset_tree = |error| offset_tree(error, start);
        let (before, _) =
            supports.rows(model_kernel, x, context).map_err(offset_tree)?;
        let mut among = memory::filled(0.0, len * len)?;
        let (kernel, options) = (&**model_kernel.kernel, model_kernel.options());
        let report =
            gram::fill_with(kernel, x, None, options, &mut among, &context.step());
        let report = report.map_err(score_error).map_err(offset_tree)?;
        let mut is_zero = memory::filled(false, len)?;
        report.zero_rows.into_iter().for_each(|tree| is_zero[tree] = true);
        let mut joined = Vec::new();
        memory::reserve(&mut joined, len)?;
        Ok(Self { start, len, n_before, before, among, is_zero, joined })
    }

    pub(super) fn has(&self, tree: usize) -> bool {
        (self.start..self.start + self.len).contains(&tree)
    }

    /// The kernels of an example with all support trees by now.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(super) fn row(&self, tree: usize, out: &mut Vec<f64>) -> Result<()> {
        let row = tree - self.start;
        let among = &self.among[row * self.len..][..self.len];
        out.clear();
        // Support trees in the order of their numbers: first those that were there,
        // then those that joined.
        let before = &self.before[row * self.n_before..][..self.n_before];
        memory::extend(out, before.iter().copied())?;
        memory::extend(out, self.joined.iter().map(|&other| among[other]))
    }

    /// 0 for an example that has no kernel with itself to normalise by, else NaN: it can be
    /// kept whole.
    pub(super) fn scale(&self, tree: usize) -> f64 {
        if self.is_zero[tree - self.start] { 0.0 } else { f64::NAN }
    }

    /// Tells that an example is the support tree with a number.
    pub(super) fn join(&mut self, tree: usize, number: u32) {
        // An equal tree has joined before, or was there from the beginning, and has its
        // column.
        if number as usize == self.n_before + self.joined.len() {
            self.joined.push(tree - self.start); // has room
        }
    }
}
