//! Rows of a matrix that nobody holds.

use std::sync::{Arc, Mutex};

use super::matrix::{Distinct, Finish};
use super::normalize::Norms;
use super::trained::{Different, engine};
use super::{Items, Measure, Options, Report, RowSource, RowsOf};
use crate::kernel::Prepared;
use crate::memory::{collect, copied, filled};
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Result};

/// The rows of K(X, X), computed on demand, for solvers and nearest-neighbour searches that do
/// not hold the matrix.
///
/// The trees are indexed once. A row is then one pass over what its tree shares with
/// the index, by the same loop that computes matrices, not a pair per tree.
///
/// A row has, bit for bit, the values of that row of `gram(kernel, x, Some(x))`, as
/// columns and rows of one forest are indexed there, whichever rows were computed
/// before, and for any number of threads. `gram(kernel, x, None)` computes one value for
/// both halves of the matrix, and [`SinglePairs`](super::SinglePairs) add in another order: these
/// may differ from it in the last bits.
///
/// ```
/// use treekernel_rs::{Forest, gram, kernel::SubsetTree};
///
/// let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c)) (A a)")?;
/// let kernel = SubsetTree::new(0.4);
/// let rows = gram::KernelRows::new(&kernel, &forest, gram::Options::default())?;
/// let mut row = [0.0; 3];
/// rows.row(2, &mut row)?;
/// assert_eq!(row, [0.4, 0.4, 0.4]);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
///
/// # Complexity
/// Memory: the index, linear in the distinct subtrees, and for each thread that asks
/// at the same time as others a scratch, linear in the largest row's work.
pub struct KernelRows {
    source: Box<dyn RowSource>,
    trees: Distinct,
    /// Where rows are normalised.
    norms: Option<Norms>,
    singles: Option<Arc<dyn Prepared>>,
    report: Report,
    /// How much a value may take before it is given up.
    limit: u64,
}

impl KernelRows {
    /// Indexes the trees of a forest, or the pairs of a list.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel out of range, [`Error::Capacity`].
    pub fn new<X: Items>(
        measure: &dyn Measure<X>,
        x: &X,
        options: Options,
    ) -> Result<Self> {
        Self::new_with(measure, x, options, &Context::default())
    }

    /// As [`new`](Self::new), in a context.
    ///
    /// # Errors
    /// As [`new`](Self::new), and what `context` returns.
    pub fn new_with<X: Items>(
        measure: &dyn Measure<X>,
        x: &X,
        options: Options,
        context: &Context,
    ) -> Result<Self> {
        measure.check()?;
        context.advance(0, x.n_items())?;
        let Different { items, places: trees } = Different::new(x)?;
        let (rows_of, normalize) = (RowsOf::Columns, options.normalize);
        let (source, singles) = engine(measure, &items, rows_of, normalize, context)?;
        let mut report = Report::default();
        let norms = match &singles {
            Some(singles) if options.normalize => {
                let place = |item: usize| (trees.first[item] as usize, "X");
                let norms = Norms::new(&**singles, trees.len(), place, context)?;
                report.zero_rows = trees.zeros(&norms)?;
                report.zero_columns = copied(&report.zero_rows)?;
                Some(norms)
            }
            _ => None,
        };
        Ok(Self { source, trees, norms, singles, report, limit: measure.limit() })
    }

    /// How many trees, and so rows and columns, there are.
    pub fn len(&self) -> usize {
        self.trees.of.len()
    }

    /// Whether there is no tree.
    pub fn is_empty(&self) -> bool {
        self.trees.of.is_empty()
    }

    /// What the caller may want to warn of, where rows are normalised.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// Computes row `i`: the kernels of tree `i` with all trees. Several threads may
    /// ask at once.
    ///
    /// # Errors
    /// [`Error::Length`] for an `out` of the wrong length, and where rows are not
    /// normalised [`Error::Overflow`], [`Error::ConstraintLimit`] for pairs of trees; after these `out` may hold anything.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    pub fn row(&self, i: usize, out: &mut [f64]) -> Result<()> {
        self.row_with(i, out, &Context::default())
    }

    /// As [`row`](Self::row), in a context.
    ///
    /// # Errors
    /// As [`row`](Self::row), and what `context` returns.
    pub fn row_with(&self, i: usize, out: &mut [f64], context: &Context) -> Result<()> {
        if out.len() != self.len() {
            let expected = format!("{}, one per tree", self.len());
            return Err(Error::Length { array: "out", expected, got: out.len() });
        }
        // Without repeats the row can be written in place.
        let given_up = if self.trees.len() == out.len() {
            self.distinct_row(i, out, context)?
        } else {
            let mut values = filled(0.0, self.trees.len())?;
            let given_up = self.distinct_row(i, &mut values, context)?;
            self.trees.spread(0, &values, out);
            given_up
        };
        if given_up.is_empty() {
            return Ok(());
        }
        // Reported by place: equal trees are missing together.
        let is_missing =
            |&column: &usize| given_up.binary_search(&self.trees.of[column]).is_ok();
        let pairs = (0..out.len()).filter(is_missing).map(|column| (i, column));
        Err(Error::ConstraintLimit { pairs: collect(pairs)?, limit: self.limit })
    }

    /// Computes some rows into `out`, one after another.
    ///
    /// # Errors
    /// As [`row`](Self::row).
    ///
    /// # Panics
    /// If a row is not below [`len`](Self::len).
    pub fn fill(&self, which: &[usize], out: &mut [f64]) -> Result<()> {
        self.fill_with(which, out, &Context::default())
    }

    /// As [`fill`](Self::fill), in a context.
    ///
    /// # Errors
    /// As [`fill`](Self::fill), and what `context` returns.
    pub fn fill_with(
        &self,
        which: &[usize],
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        if out.len() != which.len() * self.len() {
            let expected = format!("{}, rows times trees", which.len() * self.len());
            return Err(Error::Length { array: "out", expected, got: out.len() });
        }
        let cells = collect(out.chunks_mut(self.len().max(1)).map(Mutex::new))?;
        let threads = Threads::new(context, cells.len());
        threads.run(
            &Tasks::of_rows(cells.len(), 1),
            &mut filled((), threads.size())?,
            |number, (), context| match cells[number].lock() {
                Ok(mut row) => self.row_with(which[number], &mut row, context),
                Err(_) => Ok(()),
            },
        )
    }

    /// Row `i` of the different trees, and those whose values were given up.
    fn distinct_row(
        &self,
        i: usize,
        values: &mut [f64],
        context: &Context,
    ) -> Result<Vec<u32>> {
        let tree = self.trees.of[i] as usize;
        let mut given_up = self.source.worker()?(tree, values, context)?;
        let singles = self.singles.as_deref();
        let finish = Finish::symmetric(self.norms.as_ref(), singles, f64::MAX);
        let overflow =
            |t: usize| Error::Overflow { row: i, column: self.trees.first[t] as usize };
        let worker = &mut finish.worker();
        finish.row(tree, values, &mut given_up, worker, context, overflow)?;
        Ok(given_up)
    }
}
