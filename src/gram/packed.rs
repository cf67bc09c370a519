//! The rows of a lower triangle, handed out one by one.

use std::sync::Arc;

use super::matrix::{Distinct, Finish, scale};
use super::{Engine, Index, Options, Report, WithEngine, norms};
use crate::kernel::Prepared;
use crate::memory::{filled, reach};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Forest, Kernel, Result};

/// Calls `sink` with each tree's number i and its kernels with trees 0 to i: for who
/// stores half a matrix, or none. Rows come in ascending order where one thread computes
/// them, nearly so where several do.
///
/// ```
/// use std::sync::Mutex;
/// use treekernel_rs::{Context, Forest, gram, kernel::SubsetTree};
///
/// let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c))")?;
/// let kernel = SubsetTree::new(1.0);
/// let rows = Mutex::new(vec![Vec::new(); 2]);
/// let sink = |i: usize, row: &[f64]| rows.lock().unwrap()[i] = row.to_vec();
/// gram::for_each_row(&kernel, &forest, gram::Options::default(), sink, &Context::default())?;
/// assert_eq!(*rows.lock().unwrap(), [vec![6.0], vec![3.0, 6.0]]);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
///
/// # Errors
/// As [`fill`](super::fill); `sink` may have been called with some rows.
pub fn for_each_row(
    kernel: &dyn Kernel,
    x: &Forest,
    options: Options,
    sink: impl Fn(usize, &[f64]) + Sync,
    context: &Context,
) -> Result<Report> {
    kernel.check()?;
    let trees = Distinct::new(x.roots());
    let roots = trees.roots.clone();
    Index { kernel, nodes: x.nodes(), columns: &roots, rows: None, options }
        .run(Lower { trees, sink }, context)
}

struct Lower<S> {
    trees: Distinct,
    sink: S,
}

impl<S: Fn(usize, &[f64]) + Sync> WithEngine for Lower<S> {
    type Output = Report;

    fn call<E: Engine + Send + 'static>(
        self,
        engine: E,
        singles: Option<Arc<dyn Prepared>>,
        context: &Context,
    ) -> Result<Report> {
        let Self { trees, sink } = self;
        let singles = singles.as_deref();
        let n = trees.of.len();
        let selfs = match singles {
            Some(of) => {
                let place = |t: usize| (trees.first[t] as usize, "X");
                norms(of, trees.len(), place, context)?
            }
            None => Vec::new(),
        };
        let scales: Vec<f64> = selfs.iter().map(|&value| scale(value)).collect();
        let same: Vec<u32> = (0..trees.len() as u32).collect();
        let finish = Finish {
            row_scale: &scales,
            column_scale: &scales,
            row_self: &selfs,
            column_self: &selfs,
            first_row: 0,
            singles,
            same: &same,
            largest: f64::MAX,
            gaps: false,
            most: engine.most(),
        };
        // Different trees among the first i + 1: the columns of row i.
        let mut known = 0;
        let width = |&tree: &u32| {
            known = known.max(tree as usize + 1);
            known
        };
        let widths: Vec<usize> = trees.of.iter().map(width).collect();
        let threads = Threads::new(context, n);
        let new = || {
            Ok((
                engine.scratch()?,
                finish.worker(),
                filled(0.0, trees.len())?,
                Vec::new(),
            ))
        };
        let scratch = (0..threads.size()).map(|_| new());
        let mut scratch = scratch.collect::<Result<Vec<_>>>()?;
        threads.run(
            &Tasks::of_rows(n, 1),
            &mut scratch,
            |i, (engine_scratch, worker, values, row), context| {
                let x = trees.of[i] as usize;
                let values = &mut values[..widths[i]];
                engine.row(x, engine_scratch, values, context)?;
                finish.row(x, values, worker, context, |t| Error::Overflow {
                    row: i,
                    column: trees.first[t] as usize,
                })?;
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
        let zeros = trees.zeros(&scales);
        context.report(n, n)?;
        Ok(Report { zero_rows: zeros.clone(), zero_columns: zeros })
    }
}
