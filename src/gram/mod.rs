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
mod engine;
mod gradient;
mod matrix;
mod measure;
mod mirror;
mod normalize;
mod packed;
mod pairs;
mod partial;
mod rows;
mod subset;
mod subtree;
mod trained;

use std::sync::Mutex;

use ndarray::Array2;

use crate::kernel::{Prepared, Scaled};
use crate::memory::{collect, filled, filled_with, push};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Result};
pub(crate) use engine::{Engine, QueryEngine, RowSource, RowWorker, RowsOf};

/// The engines, for those who make one of a kernel.
pub(crate) mod engines {
    pub(crate) use super::composed::Engine as Composed;
    pub(crate) use super::elastic::Engine as Elastic;
    pub(crate) use super::engine::{Engine, Pool};
    pub(crate) use super::partial::smoothed::Engine as Smoothed;
    pub(crate) use super::partial::{Engine as Partial, Params};
    pub(crate) use super::subset::Engine as Subset;
    pub(crate) use super::subtree::Engine as Subtree;
}

pub use gradient::{gradient, gradient_with, parameter_names};
pub use matrix::Element;
pub(crate) use matrix::{Distinct, Finish, Matrix};
#[doc(hidden)]
pub use measure::Near;
pub(crate) use measure::Numbers;
pub use measure::{Items, Measure};
pub(crate) use normalize::{Norm, Normalizer, Norms, quotient};
pub use packed::{condensed, condensed_with, for_each_row, for_each_row_with};
pub(crate) use pairs::subset_tree_pairs;
pub use pairs::{SinglePairs, pair, pair_with};
pub use rows::KernelRows;
pub(crate) use trained::{Asking, Different, QueryRows, TrainedEngine, engine};

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

/// What the caller may want to warn of, and what is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Items of X whose value with themselves is 0 (normalised matrices only).
    pub zero_rows: Vec<usize>,
    /// Items of Y (of X, where there is no Y) whose value with themselves is 0.
    pub zero_columns: Vec<usize>,
    /// Cells (row, column) that are missing, as their values take more than the measure's
    /// [limit](Measure::limit): they are NaN. Of a symmetric matrix those of the lower
    /// triangle.
    pub given_up: Vec<(usize, usize)>,
}

impl Report {
    /// What there is to warn of, where nothing is missing.
    ///
    /// # Errors
    /// [`Error::ConstraintLimit`].
    pub(crate) fn complete<X: Items>(
        mut self,
        measure: &dyn Measure<X>,
    ) -> Result<Self> {
        if self.given_up.is_empty() {
            return Ok(self);
        }
        let pairs = std::mem::take(&mut self.given_up);
        Err(Error::ConstraintLimit { pairs, limit: measure.limit() })
    }
}

/// The kernels of all trees of `x` with all of `y` (of `x`, where it is None); or what
/// another [measure](Measure) says of other items.
///
/// # Errors
/// As [`fill`], and [`Error::ConstraintLimit`] where that reports values given up.
pub fn gram<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    options: Options,
) -> Result<Array2<f64>> {
    gram_with(measure, x, y, options, &Context::default())
}

/// As [`gram`], in a context.
///
/// # Errors
/// As [`gram`].
pub fn gram_with<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    options: Options,
    context: &Context,
) -> Result<Array2<f64>> {
    let shape = (x.n_items(), y.unwrap_or(x).n_items());
    let mut values = filled(0.0, shape.0.saturating_mul(shape.1))?;
    fill_with(measure, x, y, options, &mut values, context)?.complete(measure)?;
    Ok(Array2::from_shape_vec(shape, values).unwrap_or_default())
}

/// As [`gram`], into `out`: row after row, of `f32` or `f64`. A failed call may leave
/// some rows written. A value that is given up becomes NaN and is reported; all others are
/// computed.
///
/// With `y` it is indexed, and asked once: who asks more often holds a
/// [`TreeIndex`](crate::neighbours::Index).
///
/// # Errors
/// [`Error::Parameter`] for a kernel out of range, [`Error::Length`] for an `out` of the
/// wrong size, [`Error::Overflow`] for a value too large for `out`,
/// [`Error::Capacity`].
pub fn fill<X: Items, T: Element>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    options: Options,
    out: &mut [T],
) -> Result<Report> {
    fill_with(measure, x, y, options, out, &Context::default())
}

/// As [`fill`], in a context.
///
/// # Errors
/// As [`fill`], and what `context` returns.
pub fn fill_with<X: Items, T: Element>(
    measure: &dyn Measure<X>,
    x: &X,
    y: Option<&X>,
    options: Options,
    out: &mut [T],
    context: &Context,
) -> Result<Report> {
    measure.check()?;
    check_size(out, (x.n_items(), y.unwrap_or(x).n_items()))?;
    if out.is_empty() {
        return Ok(Report::default());
    }
    context.advance(0, x.n_items())?;
    // With others, or where order matters, rows and columns are two lists.
    if let Some(y) = y.or(Some(x).filter(|_| !measure.is_symmetric())) {
        let rows = (RowsOf::Others, "Y");
        let (trained, _) = TrainedEngine::new(measure, y, options, rows, context)?;
        let asking = Asking::once(x, y, context)?;
        return trained.fill(measure, &asking, (out, y.n_items(), 0), context);
    }
    // Else half of the matrix is computed, and mirrored.
    let (columns, rows_of) = (Different::new(x)?, RowsOf::LowerTriangle);
    let (engine, singles) =
        engine(measure, &columns.items, rows_of, options.normalize, context)?;
    let norms = match &singles {
        Some(singles) if options.normalize => {
            Some(columns.norms(&**singles, "X", context)?)
        }
        _ => None,
    };
    let finish = Finish::symmetric(norms.as_ref(), singles.as_deref(), T::LARGEST);
    let (columns, width) = (&columns.places, x.n_items());
    let matrix = Matrix { out, width, first_column: 0, columns, rows: None };
    matrix.fill(&*engine, &finish, context)
}

/// Refuses an array that is not a matrix of so many rows and columns.
pub(crate) fn check_size<T>(
    out: &[T],
    (n_rows, n_columns): (usize, usize),
) -> Result<()> {
    if n_rows.checked_mul(n_columns) == Some(out.len()) {
        return Ok(());
    }
    let expected = format!("{n_rows} rows times {n_columns} columns");
    Err(Error::Length { array: "out", expected, got: out.len() })
}

/// The kernel of each tree with itself; NaN where it is given up.
///
/// # Errors
/// As [`fill`].
pub fn diagonal<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    options: Options,
) -> Result<(Vec<f64>, Report)> {
    diagonal_with(measure, x, options, &Context::default())
}

/// As [`diagonal`], in a context.
///
/// # Errors
/// As [`diagonal`], and what `context` returns.
pub fn diagonal_with<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    options: Options,
    context: &Context,
) -> Result<(Vec<f64>, Report)> {
    measure.check()?;
    let trees = Different::new(x)?;
    context.advance(0, x.n_items())?;
    let singles = measure.prepare(&trees.items, context)?;
    let (values, given_up) = if options.normalize {
        let norms = trees.norms(&*singles, "X", context)?;
        (norms.selfs, norms.given_up)
    } else {
        self_kernels(&*singles, trees.len(), context)?
    };
    let mut report = Report::default();
    let mut diagonal = filled(0.0, trees.places.of.len())?;
    // Equal items have one value.
    for (index, (&tree, out)) in trees.places.of.iter().zip(&mut diagonal).enumerate() {
        let value = values[tree as usize].value();
        if given_up.binary_search(&tree).is_ok() {
            push(&mut report.given_up, (index, index))?;
            *out = f64::NAN;
        } else if options.normalize {
            if value == 0.0 {
                push(&mut report.zero_rows, index)?;
            }
            *out = if value == 0.0 { 0.0 } else { 1.0 };
        } else if value.is_finite() {
            *out = value;
        } else {
            return Err(Error::Overflow { row: index, column: index });
        }
    }
    Ok((diagonal, report))
}

/// K(t,t) of the first `n` items, and which of them were given up, ascending: these are NaN.
pub(crate) fn self_kernels(
    singles: &dyn Prepared,
    n: usize,
    context: &Context,
) -> Result<(Vec<Scaled>, Vec<u32>)> {
    const PER_TASK: usize = 64;
    let mut values = filled(Scaled::from_f64(0.0), n)?;
    let given_up = Mutex::new(Vec::new());
    // Each task has its part of the list, and its lock is free.
    let parts = collect(values.chunks_mut(PER_TASK).map(Mutex::new))?;
    let threads = Threads::new(context, parts.len());
    let mut workers = filled_with(threads.size(), || singles.worker())?;
    threads.run(
        &Tasks::untold(parts.len()),
        &mut workers,
        |part, kernel_of, context| {
            let Ok(mut values) = parts[part].lock() else { return Ok(()) };
            for (item, value) in (part * PER_TASK..).zip(values.iter_mut()) {
                *value = match kernel_of(item, item, context) {
                    Err(Error::ConstraintLimit { .. }) => {
                        if let Ok(mut given_up) = given_up.lock() {
                            push(&mut given_up, item as u32)?;
                        }
                        Scaled::from_f64(f64::NAN)
                    }
                    value => value?,
                };
                context.check_now()?;
            }
            Ok(())
        },
    )?;
    drop(parts);
    // Threads come in any order.
    let mut given_up = given_up.into_inner().unwrap_or_default();
    given_up.sort_unstable();
    Ok((values, given_up))
}

/// Some items of two lists, one list after the other, in a store that is not much larger
/// than they are.
pub(crate) fn gathered<X: Items>(
    [(a, some), (b, others)]: [(&X, &[usize]); 2],
    context: &Context,
) -> Result<X> {
    // Items of one store stay in it; else the first ones move to a small one, which the
    // others join.
    let (a, is_shared) = (a.pick(some)?, a.trees().shares_store(b.trees()));
    if others.is_empty() {
        return Ok(a);
    }
    let b = b.pick(others)?;
    if is_shared {
        a.chain(&b, context)
    } else {
        a.compact(context)?.chain(&b, context)
    }
}
