//! Whole kernel matrices, rows by rows.
//!
//! A Gram matrix is not computed pair by pair. The trees are indexed once by their
//! distinct subtrees, and each row is one pass over what its tree shares with the index
//! (the four engines, one file per kernel). This module does what all kernels need:
//! equal trees are computed once, rows are shared out to threads, values normalised and
//! stored in blocks, and pairs that overflow are evaluated again in numbers that do not.
//!
//! ```
//! use treekernel_rs::{Forest, Kernel, gram};
//!
//! let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
//! let kernel = Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.0 };
//! let matrix = gram::gram(&kernel, &forest, None, gram::Options::default())?;
//! assert!((matrix[[0, 1]] - 0.96).abs() < 1e-12);
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! Memory besides the result: the index, linear in the distinct subtrees, and for each
//! thread a block of rows: 16 MB, or 16 rows where these are more.

mod arrivals;
mod counts;
mod elastic;
mod lower;
mod mirror;
mod pairs;
mod partial;
mod rows;
mod store;
mod subset;
mod subtree;
#[cfg(test)]
mod trial;

use std::hash::Hash;
use std::sync::Mutex;

use ndarray::Array2;

use crate::kernel::{Bags, Number, Scaled};
use crate::team::{Crew, Pause, Team};
use crate::{Error, Forest, Kernel, NodeId, Nodes, Result};
pub use lower::for_each_row;
pub(crate) use pairs::{LongWorker, Single, Worker, singles};
pub use pairs::{Pairs, pair};
pub use rows::Rows;
pub use store::Element;
pub(crate) use store::{Distinct, LARGEST, Matrix, scale};

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
    const HEIGHT: usize = store::HEIGHT;

    /// The largest normalised value: 1 for a dot product.
    fn most(&self) -> f64 {
        1.0
    }

    /// A new worker's scratch.
    fn scratch(&self) -> Self::Scratch;

    /// The kernels of row `x` with the first `row.len()` columns. Faster when a worker
    /// takes its rows in ascending order; right in any.
    fn row(&self, x: usize, scratch: &mut Self::Scratch, row: &mut [f64]);

    /// The same, where a row may take long: `pause` is called now and then, and its
    /// error ends the row.
    fn long_row(
        &self,
        x: usize,
        scratch: &mut Self::Scratch,
        row: &mut [f64],
        _pause: &mut Pause<'_>,
    ) -> Result<()> {
        self.row(x, scratch, row);
        Ok(())
    }
}

/// How a matrix is to be computed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// K(a,b) / sqrt(K(a,a) K(b,b)), and 0 where a tree's own kernel is 0.
    pub normalize: bool,
    /// Threads; None: one for each core that the process may use.
    pub n_jobs: Option<usize>,
}

/// What the caller may want to warn of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Trees of X whose kernel with themselves is 0 (normalised matrices only).
    pub zero_rows: Vec<usize>,
    /// Trees of Y (of X, where there is no Y) whose kernel with themselves is 0.
    pub zero_columns: Vec<usize>,
}

/// Told from time to time how many rows of how many are done; its error ends the call.
pub type Watch<'a> = dyn FnMut(usize, usize) -> Result<()> + 'a;

/// The kernels of all trees of `x` with all of `y` (of `x`, where it is None).
///
/// # Errors
/// As [`fill`].
pub fn gram(
    kernel: &Kernel,
    x: &Forest,
    y: Option<&Forest>,
    options: Options,
) -> Result<Array2<f64>> {
    let shape = (x.len(), y.unwrap_or(x).len());
    let mut values = vec![0.0; shape.0 * shape.1];
    fill(kernel, x, y, options, &mut values, &mut |_, _| Ok(()))?;
    Ok(Array2::from_shape_vec(shape, values).unwrap_or_default())
}

/// As [`gram`], into `out`: row after row, of `f32` or `f64`. A failed call may leave
/// some rows written.
///
/// # Errors
/// [`Error::Parameter`] for a kernel out of range, [`Error::Length`] for an `out` of the
/// wrong size, [`Error::Overflow`] for a value too large for `out`,
/// [`Error::Capacity`], and what `watch` returns.
pub fn fill<T: Element>(
    kernel: &Kernel,
    x: &Forest,
    y: Option<&Forest>,
    options: Options,
    out: &mut [T],
    watch: &mut Watch<'_>,
) -> Result<Report> {
    let kernel = kernel.validated()?;
    let n_columns = y.unwrap_or(x).len();
    if out.len() != x.len() * n_columns {
        let expected = format!("{}, rows times columns", x.len() * n_columns);
        return Err(Error::Length { array: "out", expected, got: out.len() });
    }
    if out.is_empty() {
        return Ok(Report::default());
    }
    let both = y.map(|y| y.union_store(x)).transpose()?;
    let (columns, rows) = match &both {
        Some((y, x)) => (y, Some(x)),
        None => (x, None),
    };
    let nodes = columns.nodes();
    let columns = Distinct::new(columns.roots());
    let rows = rows.map(|rows| Distinct::new(rows.roots()));
    let matrix = Matrix { out, columns: &columns, rows: rows.as_ref(), options };
    let all: Vec<NodeId> = columns
        .roots
        .iter()
        .chain(rows.iter().flat_map(|r| &r.roots))
        .copied()
        .collect();
    let singles =
        options.normalize.then(|| singles(&kernel, nodes, all)).transpose()?;
    let rows = rows.as_ref().map(|rows| &*rows.roots);
    let work = Fill { matrix, singles: singles.as_deref() };
    Index { kernel, nodes, columns: &columns.roots, rows, n_jobs: options.n_jobs }
        .run(work, watch)
}

struct Fill<'a, T> {
    matrix: Matrix<'a, T>,
    singles: Option<&'a dyn Single>,
}

impl<T: Element> WithEngine for Fill<'_, T> {
    type Output = Report;

    fn call<E: Engine + Send + 'static>(
        self,
        engine: E,
        watch: &mut Watch<'_>,
    ) -> Result<Report> {
        self.matrix.fill(&engine, self.singles, watch)
    }
}

/// What is to be done with an engine of whichever kernel.
trait WithEngine {
    type Output;

    fn call<E: Engine + Send + 'static>(
        self,
        engine: E,
        watch: &mut Watch<'_>,
    ) -> Result<Self::Output>;
}

/// Trees to be indexed: different ones, of one store.
struct Index<'a> {
    kernel: Kernel,
    nodes: &'a Nodes,
    columns: &'a [NodeId],
    /// None: the lower triangle of the columns.
    rows: Option<&'a [NodeId]>,
    n_jobs: Option<usize>,
}

impl Index<'_> {
    /// Makes the index, and hands it over.
    fn run<W: WithEngine>(self, work: W, watch: &mut Watch<'_>) -> Result<W::Output> {
        let nodes = self.nodes;
        let n = self.rows.unwrap_or(self.columns).len();
        let mut going = || watch(0, n);
        let mut crew = Crew::new(self.n_jobs, self.columns.len(), &mut going);
        let columns = &Bags::by(nodes, self.columns, &mut crew)?;
        let others;
        let rows = match self.rows {
            Some(rows) if rows != self.columns => {
                others = Bags::by(nodes, rows, &mut crew)?;
                Some(&others)
            }
            rows => rows.map(|_| columns),
        };
        match self.kernel {
            Kernel::SubsetTree { decay, leaf_weight } => {
                let engine = subset::Engine::new(
                    nodes,
                    decay,
                    leaf_weight,
                    columns,
                    rows,
                    &mut crew,
                )?;
                work.call(engine, watch)
            }
            Kernel::Subtree { decay, leaf_weight } => {
                let engine =
                    subtree::Engine::new(nodes, decay, leaf_weight, columns, rows)?;
                work.call(engine, watch)
            }
            Kernel::ElasticTree { decay } => {
                let engine =
                    elastic::Engine::new(nodes, decay, columns, rows, &mut crew)?;
                work.call(engine, watch)
            }
            Kernel::PartialTree { decay, mu, leaf_factor, max_children } => {
                let engine = partial::Engine::new(
                    nodes,
                    partial::Params { decay, mu, leaf_factor, max_children },
                    columns,
                    rows,
                    &mut crew,
                )?;
                work.call(engine, watch)
            }
        }
    }
}

/// The kernel of each tree with itself.
///
/// # Errors
/// As [`fill`].
pub fn diagonal(
    kernel: &Kernel,
    x: &Forest,
    options: Options,
    watch: &mut Watch<'_>,
) -> Result<(Vec<f64>, Report)> {
    let kernel = kernel.validated()?;
    let trees = Distinct::new(x.roots());
    let singles = singles(&kernel, x.nodes(), trees.roots.clone())?;
    diagonal_of(&*singles, &trees, options, watch)
}

/// The kernel of each tree with itself; NaN where it was given up.
pub(crate) fn diagonal_of<I: Copy + Eq + Hash>(
    singles: &dyn Single,
    trees: &Distinct<I>,
    options: Options,
    watch: &mut Watch<'_>,
) -> Result<(Vec<f64>, Report)> {
    let values = self_kernels(singles, trees.len(), options.n_jobs, watch)?;
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

/// K(t,t) of the first `n` trees.
fn self_kernels(
    singles: &dyn Single,
    n: usize,
    n_jobs: Option<usize>,
    watch: &mut Watch<'_>,
) -> Result<Vec<Scaled>> {
    const PER_TASK: usize = 64;
    let mut values = vec![Scaled::of(0.0); n];
    let parts: Vec<_> = values.chunks_mut(PER_TASK).map(Mutex::new).collect();
    let team = Team::new(n_jobs, parts.len());
    let mut workers: Vec<_> = (0..team.size()).map(|_| singles.long_worker()).collect();
    team.run(
        parts.len(),
        &mut workers,
        |part, of, pause| {
            let Ok(mut values) = parts[part].lock() else { return Ok(()) };
            for (offset, value) in values.iter_mut().enumerate() {
                let tree = part * PER_TASK + offset;
                *value = of(tree, tree, pause)?;
                pause()?;
            }
            Ok(())
        },
        &mut |_| watch(0, n),
    )?;
    drop(parts);
    Ok(values)
}
