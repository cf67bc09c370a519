//! Whole kernel matrices, rows by rows.
//!
//! A Gram matrix is not computed pair by pair. The trees are indexed once by their
//! distinct subtrees, and each row is one pass over what its tree shares with the index
//! (the engines, one file per kernel; a kernel without one goes pair by pair). This module does what all kernels need:
//! equal trees are computed once, rows are shared out to threads, values normalised and
//! stored in blocks, and pairs that overflow are evaluated again in numbers that do not.
//!
//! ```
//! use treekernel_rs::{Forest, gram, kernel::SubsetTree};
//!
//! let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
//! let kernel = SubsetTree::new(0.4);
//! let matrix = gram::gram(&kernel, &forest, None, gram::Options::default())?;
//! assert!((matrix[[0, 1]] - 0.96).abs() < 1e-12);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Memory besides the result: the index, linear in the distinct subtrees, and for each
//! thread a block of rows: 16 MB, or 16 rows where these are more.

mod by_pairs;
mod composed;
mod elastic;
mod gradient;
mod kept;
mod matrix;
mod mirror;
mod packed;
mod pairs;
mod partial;
mod rows;
mod subset;
mod subtree;

use std::hash::Hash;
use std::sync::{Arc, Mutex};

use ndarray::Array2;

use crate::kernel::weights::finite;
use crate::kernel::{
    Counts, ElasticTree, IndexOf, PartialTree, Prepared, Scaled, SubsetTree, Subtree,
    TreeCounts, subtree as subtrees,
};
use crate::memory::filled;
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result};
pub use gradient::{gradient, parameter_names};
pub(crate) use kept::{Kept, Question};
pub use matrix::Element;
pub(crate) use matrix::{Distinct, Matrix, scale};
pub use packed::for_each_row;
pub(crate) use pairs::prepare;
pub use pairs::{Pairs, pair};
pub use rows::Rows;
pub(crate) use rows::{Source, source};

/// An index of some trees, the columns, from which kernels of one row's tree with all
/// of them are computed at once.
pub(crate) trait Engine: Sync {
    /// What a worker keeps from row to row.
    type Scratch: Send;
    /// Whether a value may be NaN: one that the engine gave up, and will tell of when
    /// all others are there. Otherwise NaN is an overflow.
    const GIVES_UP: bool = false;
    /// Rows that a worker takes at a time. Fewer where a value costs so much more than
    /// storing it that it is better for small matrices to be shared out well.
    const HEIGHT: usize = matrix::HEIGHT;

    /// The largest normalised value: 1 for a dot product.
    fn most(&self) -> f64 {
        1.0
    }

    /// A new worker's scratch.
    ///
    /// # Errors
    /// [`Error::Memory`].
    fn scratch(&self) -> Result<Self::Scratch>;

    /// The kernels of row `x` with the first `row.len()` columns. Faster when a worker
    /// takes its rows in ascending order; right in any. `context` is asked now and then;
    /// its error ends the row, and the scratch stays good for the next.
    fn row(
        &self,
        x: usize,
        scratch: &mut Self::Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()>;
}

/// An [`Engine`] that other trees can ask than those it was made with.
pub(crate) trait Askable: Engine {
    /// What it needs of them.
    type Rows: Send + Sync;

    /// Looks up trees of any store; `columns` is that of the columns. None: an engine for
    /// these trees has to be made anew.
    fn read(
        &self,
        columns: &Nodes,
        store: &Arc<Nodes>,
        trees: &TreeCounts,
    ) -> Result<Option<Self::Rows>>;

    /// As [`Engine::row`], bit for bit.
    fn row_of(
        &self,
        rows: &Self::Rows,
        x: usize,
        scratch: &mut Self::Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()>;

    /// About how many bytes it holds.
    fn nbytes(&self) -> usize;
}

/// How a matrix is to be computed.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct Options {
    /// K(a,b) / sqrt(K(a,a) K(b,b)), and 0 where a tree's own kernel is 0.
    pub normalize: bool,
}

impl Options {
    /// These options with values normalised or not.
    #[must_use]
    pub fn with_normalize(self, normalize: bool) -> Self {
        Self { normalize }
    }
}

/// What the caller may want to warn of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Trees of X whose kernel with themselves is 0 (normalised matrices only).
    pub zero_rows: Vec<usize>,
    /// Trees of Y (of X, where there is no Y) whose kernel with themselves is 0.
    pub zero_columns: Vec<usize>,
}

/// The kernels of all trees of `x` with all of `y` (of `x`, where it is None).
///
/// # Errors
/// As [`fill`].
pub fn gram(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    options: Options,
) -> Result<Array2<f64>> {
    gram_with(kernel, x, y, options, &Context::default())
}

/// As [`gram`], in a context.
///
/// # Errors
/// As [`fill`].
pub fn gram_with(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    options: Options,
    context: &Context,
) -> Result<Array2<f64>> {
    let shape = (x.len(), y.unwrap_or(x).len());
    let mut values = filled(0.0, shape.0.saturating_mul(shape.1))?;
    fill(kernel, x, y, options, &mut values, context)?;
    Ok(Array2::from_shape_vec(shape, values).unwrap_or_default())
}

/// As [`gram`], into `out`: row after row, of `f32` or `f64`. A failed call may leave
/// some rows written.
///
/// # Errors
/// [`Error::Parameter`] for a kernel out of range, [`Error::Length`] for an `out` of the
/// wrong size, [`Error::Overflow`] for a value too large for `out`,
/// [`Error::Capacity`], and what `context` returns.
pub fn fill<T: Element>(
    kernel: &dyn Kernel,
    x: &Forest,
    y: Option<&Forest>,
    options: Options,
    out: &mut [T],
    context: &Context,
) -> Result<Report> {
    kernel.check()?;
    let (n_rows, n_columns) = (x.len(), y.unwrap_or(x).len());
    if n_rows.checked_mul(n_columns) != Some(out.len()) {
        let expected = format!("{n_rows} rows times {n_columns} columns");
        return Err(Error::Length { array: "out", expected, got: out.len() });
    }
    if out.is_empty() {
        return Ok(Report::default());
    }
    context.advance(0, n_rows)?;
    let both = y.map(|y| y.try_union_store(x, context)).transpose()?;
    let (columns, rows) = match &both {
        Some((y, x)) => (y, Some(x)),
        None => (x, None),
    };
    let nodes = columns.nodes();
    let columns = Distinct::new(columns.roots());
    let rows = rows.map(|rows| Distinct::new(rows.roots()));
    let matrix = Matrix { out, columns: &columns, rows: rows.as_ref() };
    let rows = rows.as_ref().map(|rows| &*rows.roots);
    Index { kernel, nodes, columns: &columns.roots, rows, options }.run(matrix, context)
}

impl<T: Element> WithEngine for Matrix<'_, T> {
    type Output = Report;

    fn call<E: Askable + Send + 'static>(
        self,
        engine: E,
        singles: Option<Arc<dyn Prepared>>,
        context: &Context,
    ) -> Result<Report> {
        self.fill(&engine, singles.as_deref(), context)
    }
}

/// What is to be done with an engine of whichever kernel.
trait WithEngine {
    type Output;

    /// `singles` has the columns' trees, followed by the rows' where these are others;
    /// None: nothing is normalised.
    fn call<E: Askable + Send + 'static>(
        self,
        engine: E,
        singles: Option<Arc<dyn Prepared>>,
        context: &Context,
    ) -> Result<Self::Output>;
}

/// Trees to be indexed: different ones, of one store.
struct Index<'a> {
    kernel: &'a dyn Kernel,
    nodes: &'a Arc<Nodes>,
    columns: &'a [NodeId],
    /// None: the lower triangle of the columns.
    rows: Option<&'a [NodeId]>,
    options: Options,
}

impl Index<'_> {
    /// Makes the index, and hands it over.
    #[allow(clippy::too_many_lines)] // an arm for each index
    fn run<W: WithEngine>(self, work: W, context: &Context) -> Result<W::Output> {
        let Self { kernel, nodes, columns, rows, options } = self;
        if let Some(composed) = kernel.composed() {
            let engine =
                composed::Engine::new(composed, nodes, columns, rows, context)?;
            let others = rows.filter(|&rows| rows != columns);
            let trees = [columns, others.unwrap_or_default()].concat();
            let singles =
                options.normalize.then(|| prepare(kernel, nodes, &trees, context));
            return work.call(engine, singles.transpose()?.map(Arc::from), context);
        }
        let others = rows.filter(|&rows| rows != columns);
        let prepared = || -> Result<Arc<dyn Prepared>> {
            let trees = [columns, others.unwrap_or_default()].concat();
            Ok(Arc::from(prepare(kernel, nodes, &trees, context)?))
        };
        if let Some(kernel) = kernel.smoothed() {
            let singles = options.normalize.then(prepared).transpose()?;
            let threads = Threads::for_trees(context, columns.len());
            let columns = &TreeCounts::by(true, nodes, columns, &threads)?;
            let others = others.map(|rows| TreeCounts::by(true, nodes, rows, &threads));
            let others = others.transpose()?;
            let rows = rows.map(|_| others.as_ref().unwrap_or(columns));
            let engine =
                partial::smoothed::Engine::new(kernel, nodes, columns, rows, &threads)?;
            return work.call(engine, singles, context);
        }
        let Some(indexed) = kernel.indexed() else {
            let pairs = prepared()?;
            let singles = options.normalize.then(|| Arc::clone(&pairs));
            let first_row = others.map_or(0, |_| columns.len());
            return work.call(by_pairs::Engine { pairs, first_row }, singles, context);
        };
        let singles = options.normalize.then(prepared).transpose()?;
        let threads = Threads::for_trees(context, columns.len());
        let leaves = indexed.index.has_leaves();
        let columns = &TreeCounts::by(leaves, nodes, columns, &threads)?;
        let others = others.map(|rows| TreeCounts::by(leaves, nodes, rows, &threads));
        let others = others.transpose()?;
        let rows = rows.map(|_| others.as_ref().unwrap_or(columns));
        match indexed.index {
            IndexOf::SubsetTree(SubsetTree { decay, leaf_weight }) => {
                let engine = subset::Engine::new(
                    nodes,
                    decay,
                    leaf_weight,
                    Vec::new(),
                    columns,
                    rows,
                    &threads,
                )?;
                work.call(engine, singles, context)
            }
            IndexOf::WeightedSubsetTree(kernel, weighted) => {
                let table = weighted.table(nodes);
                let engine = subset::Engine::new(
                    nodes,
                    table.productions_times(kernel.decay),
                    kernel.leaf_weight,
                    table.labels_times(kernel.leaf_weight),
                    columns,
                    rows,
                    &threads,
                )?;
                work.call(engine, singles, context)
            }
            IndexOf::Subtree(Subtree { decay, leaf_weight }) => {
                let weights = subtrees::weights(nodes, decay, leaf_weight)?;
                let (levels, of) = (Some([decay, leaf_weight]), |count| count);
                let engine = subtree::Engine::<u32>::new(
                    nodes, weights, levels, of, columns, rows,
                )?;
                work.call(engine, singles, context)
            }
            IndexOf::WeightedSubtree(kernel, weighted) => {
                let table = weighted.table(nodes);
                let weights = subtrees::weighted(nodes, &kernel, &table)?;
                finite(&weights)?;
                let of: fn(u32) -> f64 = match table.counts {
                    Counts::Linear => f64::from,
                    Counts::Log => |count| Counts::Log.of(f64::from(count)),
                    Counts::Set => |count| Counts::Set.of(f64::from(count)),
                };
                let engine =
                    subtree::Engine::new(nodes, weights, None, of, columns, rows)?;
                work.call(engine, singles, context)
            }
            IndexOf::ElasticTree(ElasticTree { decay }) => {
                let engine =
                    elastic::Engine::new(nodes, decay, columns, rows, &threads)?;
                work.call(engine, singles, context)
            }
            IndexOf::PartialTree(kernel) => {
                let PartialTree { decay, mu, leaf_factor, max_children } = kernel;
                let engine = partial::Engine::new(
                    nodes,
                    partial::Params { decay, mu, leaf_factor, max_children },
                    columns,
                    rows,
                    &threads,
                )?;
                work.call(engine, singles, context)
            }
        }
    }
}

/// The kernel of each tree with itself.
///
/// # Errors
/// As [`fill`].
pub fn diagonal(
    kernel: &dyn Kernel,
    x: &Forest,
    options: Options,
    context: &Context,
) -> Result<(Vec<f64>, Report)> {
    kernel.check()?;
    let trees = Distinct::new(x.roots());
    context.advance(0, x.len())?;
    let singles = prepare(kernel, x.nodes(), &trees.roots, context)?;
    diagonal_of(&*singles, &trees, options, context)
}

/// The kernel of each tree with itself; NaN where it was given up.
pub(crate) fn diagonal_of<I: Copy + Eq + Hash>(
    singles: &dyn Prepared,
    trees: &Distinct<I>,
    options: Options,
    context: &Context,
) -> Result<(Vec<f64>, Report)> {
    let n = trees.len();
    let values = if options.normalize {
        norms(singles, n, |t| (trees.first[t] as usize, "X"), context)?
    } else {
        self_kernels(singles, n, context)?
    };
    let mut report = Report::default();
    let mut diagonal = Vec::with_capacity(trees.of.len());
    for (index, &tree) in trees.of.iter().enumerate() {
        let value = values[tree as usize].value();
        if options.normalize {
            if value == 0.0 {
                report.zero_rows.push(index);
            }
            diagonal.push(if value == 0.0 { 0.0 } else { 1.0 });
        } else if value.is_finite() || value.is_nan() {
            diagonal.push(value);
        } else {
            return Err(Error::Overflow { row: index, column: index });
        }
    }
    Ok((diagonal, report))
}

/// As [`self_kernels`], to normalise by; `place` is a tree's index and set.
pub(crate) fn norms(
    singles: &dyn Prepared,
    n: usize,
    place: impl Fn(usize) -> (usize, &'static str),
    context: &Context,
) -> Result<Vec<Scaled>> {
    let values = self_kernels(singles, n, context)?;
    for (t, &own) in values.iter().enumerate() {
        if singles.is_indefinite(own) {
            let (tree, set) = place(t);
            return Err(Error::Indefinite { tree, set, value: own.value() });
        }
    }
    Ok(values)
}

/// K(t,t) of the first `n` trees.
pub(crate) fn self_kernels(
    singles: &dyn Prepared,
    n: usize,
    context: &Context,
) -> Result<Vec<Scaled>> {
    const PER_TASK: usize = 64;
    let mut values = filled(Scaled::of(0.0), n)?;
    let parts: Vec<_> = values.chunks_mut(PER_TASK).map(Mutex::new).collect();
    let threads = Threads::new(context, parts.len());
    let mut workers: Vec<_> = (0..threads.size()).map(|_| singles.worker()).collect();
    threads.run(&Tasks::untold(parts.len()), &mut workers, |part, of, context| {
        let Ok(mut values) = parts[part].lock() else { return Ok(()) };
        for (offset, value) in values.iter_mut().enumerate() {
            let tree = part * PER_TASK + offset;
            *value = of(tree, tree, context)?;
            context.check_now()?;
        }
        Ok(())
    })?;
    drop(parts);
    Ok(values)
}
