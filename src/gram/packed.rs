//! The rows of a lower triangle, handed out one by one.

use std::sync::Mutex;

use super::matrix::Finish;
use super::trained::{Different, engine};
use super::{Items, Measure, Options, Report, RowsOf};
use crate::memory::{collect, copied, extend, filled, reach, try_collect};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Result};

/// Calls `sink` with each tree's number i and its kernels with trees 0 to i: for who
/// stores half a matrix, or none. Rows come in ascending order where one thread computes
/// them, nearly so where several do.
///
/// ```
/// use std::sync::Mutex;
/// use treekernel_rs::{Forest, gram, kernel::SubsetTree};
///
/// let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
/// let kernel = SubsetTree::new(1.0);
/// let rows = Mutex::new(vec![Vec::new(); 2]);
/// let sink = |i: usize, row: &[f64]| rows.lock().unwrap()[i] = row.to_vec();
/// gram::for_each_row(&kernel, &forest, gram::Options::default(), sink)?;
/// assert_eq!(*rows.lock().unwrap(), [vec![6.0], vec![3.0, 6.0]]);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
///
/// # Errors
/// As [`fill`](super::fill); `sink` may have been called with some rows.
pub fn for_each_row<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    options: Options,
    sink: impl Fn(usize, &[f64]) + Sync,
) -> Result<Report> {
    for_each_row_with(measure, x, options, sink, &Context::default())
}

/// As [`for_each_row`], in a context.
///
/// # Errors
/// As [`for_each_row`], and what `context` returns.
pub fn for_each_row_with<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    options: Options,
    sink: impl Fn(usize, &[f64]) + Sync,
    context: &Context,
) -> Result<Report> {
    measure.check()?;
    // 1. Index the trees, and ask for what divides values.
    let (trees, rows_of) = (Different::new(x)?, RowsOf::LowerTriangle);
    let (engine, singles) =
        engine(measure, &trees.items, rows_of, options.normalize, context)?;
    let norms = match &singles {
        Some(singles) if options.normalize => {
            Some(trees.norms(&**singles, "X", context)?)
        }
        _ => None,
    };
    let finish = Finish::symmetric(norms.as_ref(), singles.as_deref(), f64::MAX);
    let trees = &trees.places;
    // 2. How wide each row is.
    let n = trees.of.len();
    // Different trees among the first i + 1: the columns of row i.
    let mut n_different = 0;
    let width = |&tree: &u32| {
        n_different = n_different.max(tree as usize + 1);
        n_different
    };
    let widths = collect(trees.of.iter().map(width))?;
    let threads = Threads::new(context, n);
    let new = || {
        let values = filled(0.0, trees.len())?;
        Ok((engine.worker()?, finish.worker(), values, Vec::new()))
    };
    let mut scratch = try_collect((0..threads.size()).map(|_| new()))?;
    // 3. Rows, each handed out as soon as it is done.
    let given_up = Mutex::new(Vec::new());
    threads.run(
        &Tasks::of_rows(n, 1),
        &mut scratch,
        |i, (rows, worker, values, row), context| {
            let x = trees.of[i] as usize;
            let values = &mut values[..widths[i]];
            let mut columns = rows(x, values, context)?;
            let overflow =
                |t| Error::Overflow { row: i, column: trees.first[t] as usize };
            finish.row(x, values, &mut columns, worker, context, overflow)?;
            if !columns.is_empty()
                && let Ok(mut given_up) = given_up.lock()
            {
                // Equal trees are missing together.
                let is_missing = |&j: &usize| columns.contains(&trees.of[j]);
                extend(&mut given_up, (0..=i).filter(is_missing).map(|j| (i, j)))?;
            }
            if widths[i] == i + 1 {
                sink(i, values); // no tree has come twice so far
            } else {
                reach(row, n, 0.0)?;
                trees.spread(0, values, row);
                sink(i, &row[..=i]);
            }
            Ok(())
        },
    )?;
    // 4. What the caller is told.
    let zero_rows =
        norms.as_ref().map_or(Ok(Vec::new()), |norms| trees.zeros(norms))?;
    context.report(n, n)?;
    // In the order of cells, whichever thread came first.
    let mut given_up = given_up.into_inner().unwrap_or_default();
    given_up.sort_unstable();
    Ok(Report { zero_columns: copied(&zero_rows)?, zero_rows, given_up })
}

/// The values of all pairs of items i < j, by i and then by j, as SciPy's `pdist` has them.
///
/// ```
/// use treekernel_rs::edit::EditDistance;
/// use treekernel_rs::{Forest, gram};
///
/// let forest = Forest::from_brackets("(a) (a b) (a b c d)")?;
/// let (measure, options) = (EditDistance::default(), gram::Options::default());
/// let (values, _) = gram::condensed(&measure, &forest, options)?;
/// assert_eq!(values, [1.0, 3.0, 2.0]);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
///
/// # Errors
/// As [`fill`](super::fill), and [`Error::Parameter`] for a measure that is not symmetric.
pub fn condensed<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    options: Options,
) -> Result<(Vec<f64>, Report)> {
    condensed_with(measure, x, options, &Context::default())
}

/// As [`condensed`], in a context.
///
/// # Errors
/// As [`condensed`], and what `context` returns.
pub fn condensed_with<X: Items>(
    measure: &dyn Measure<X>,
    x: &X,
    options: Options,
    context: &Context,
) -> Result<(Vec<f64>, Report)> {
    measure.check()?;
    if !measure.is_symmetric() {
        let name = "the measure";
        let expected =
            "symmetric for a condensed matrix, which has one value for two items";
        return Err(Error::Parameter {
            name,
            expected,
            got: "one that is not".to_owned(),
        });
    }
    let n = x.n_items();
    let values = Mutex::new(filled(0.0, n * n.saturating_sub(1) / 2)?);
    // Row i is column i of the upper triangle, which is laid out by rows.
    let sink = |i: usize, row: &[f64]| {
        if let Ok(mut values) = values.lock() {
            for (j, &value) in row[..i].iter().enumerate() {
                values[n * j - j * (j + 1) / 2 + i - j - 1] = value;
            }
        }
    };
    let report = for_each_row_with(measure, x, options, sink, context)?;
    Ok((values.into_inner().unwrap_or_default(), report))
}
