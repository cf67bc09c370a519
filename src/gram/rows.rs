//! Rows of a matrix that nobody holds.

use std::sync::Mutex;

use super::pairs::{Single, singles};
use super::store::{Distinct, Finish, scale};
use super::{Engine, Index, Options, Report, Watch, WithEngine, self_kernels};
use crate::kernel::Scaled;
use crate::team::Team;
use crate::{Error, Forest, Kernel, Result};

/// The rows of K(X, X), computed when asked for: what a solver or a nearest-neighbour
/// search needs that does not hold the matrix.
///
/// The trees are indexed once. A row is then one pass over what its tree shares with
/// the index, by the same loop that computes matrices, not a pair per tree.
///
/// A row has, bit for bit, the values of that row of `gram(kernel, x, Some(x))`, as
/// columns and rows of one forest are indexed there, whichever rows were asked for
/// before, and by however many threads. `gram(kernel, x, None)` computes one value for
/// both halves of the matrix, and [`Pairs`](super::Pairs) add in another order: these
/// may differ from it in the last bits.
///
/// ```
/// use treekernel_rs::{Forest, Kernel, gram};
///
/// let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c)) (A a)")?;
/// let kernel = Kernel::SubsetTree { decay: 0.4, leaf_weight: 0.0 };
/// let rows = gram::Rows::new(&kernel, &forest, gram::Options::default())?;
/// let mut row = [0.0; 3];
/// rows.row(2, &mut row)?;
/// assert_eq!(row, [0.4, 0.4, 0.4]);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
///
/// # Complexity
/// Memory: the index, linear in the distinct subtrees, and for each thread that asks
/// at the same time as others a scratch, linear in the largest row's work.
pub struct Rows {
    source: Box<dyn Source>,
    trees: Distinct,
    /// Each different tree's own number: the column where its normalised value is 1.
    same: Vec<u32>,
    /// Where rows are normalised: for each different tree 1 / sqrt(K(t,t)), and K(t,t).
    scales: Vec<f64>,
    selfs: Vec<Scaled>,
    singles: Option<Box<dyn Single>>,
    report: Report,
    n_jobs: Option<usize>,
}

impl Rows {
    /// Indexes the trees of a forest. `options.n_jobs` is for the self-kernels, where
    /// rows are normalised, and for [`fill`](Self::fill).
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel out of range, [`Error::Capacity`].
    pub fn new(kernel: &Kernel, x: &Forest, options: Options) -> Result<Self> {
        Self::watched(kernel, x, options, &mut |_, _| Ok(()))
    }

    /// As [`new`](Self::new), but may be ended by `watch`.
    ///
    /// # Errors
    /// As [`new`](Self::new), and what `watch` returns.
    pub fn watched(
        kernel: &Kernel,
        x: &Forest,
        options: Options,
        watch: &mut Watch<'_>,
    ) -> Result<Self> {
        let kernel = kernel.validated()?;
        let trees = Distinct::new(x.roots());
        let n = trees.len();
        // Rows that are the columns would be indexed for the lower triangle only.
        let (columns, rows) = (&*trees.roots, Some(&*trees.roots));
        let n_jobs = options.n_jobs;
        let index = Index { kernel, nodes: x.nodes(), columns, rows, n_jobs };
        let source = index.run(MakeSource, watch)?;
        watch(0, n)?;
        let mut rows = Self {
            source,
            same: (0..n as u32).collect(),
            scales: Vec::new(),
            selfs: Vec::new(),
            singles: None,
            report: Report::default(),
            trees,
            n_jobs: options.n_jobs,
        };
        if options.normalize {
            let singles = singles(&kernel, x.nodes(), rows.trees.roots.clone())?;
            rows.selfs = self_kernels(&*singles, n, options.n_jobs, watch)?;
            rows.scales = rows.selfs.iter().map(|&value| scale(value)).collect();
            rows.singles = Some(singles);
            let zeros = rows.trees.zeros(&rows.scales);
            rows.report = Report { zero_rows: zeros.clone(), zero_columns: zeros };
        }
        Ok(rows)
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
    /// normalised [`Error::Overflow`], after which `out` may hold anything.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    pub fn row(&self, i: usize, out: &mut [f64]) -> Result<()> {
        if out.len() != self.len() {
            let expected = format!("{}, one per tree", self.len());
            return Err(Error::Length { array: "out", expected, got: out.len() });
        }
        let tree = self.trees.of[i] as usize;
        if self.trees.len() == out.len() {
            self.source.row(tree, out);
            return self.finish(i, out);
        }
        let mut values = vec![0.0; self.trees.len()];
        self.source.row(tree, &mut values);
        self.finish(i, &mut values)?;
        self.trees.spread(0, &values, out);
        Ok(())
    }

    /// Computes some rows into `out`, one after another, by as many threads as the
    /// options said.
    ///
    /// # Errors
    /// As [`row`](Self::row), and what `watch` returns.
    ///
    /// # Panics
    /// If a row is not below [`len`](Self::len).
    pub fn fill(
        &self,
        which: &[usize],
        out: &mut [f64],
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        if out.len() != which.len() * self.len() {
            let expected = format!("{}, rows times trees", which.len() * self.len());
            return Err(Error::Length { array: "out", expected, got: out.len() });
        }
        let cells: Vec<_> = out.chunks_mut(self.len().max(1)).map(Mutex::new).collect();
        let team = Team::new(self.n_jobs, cells.len());
        team.run(
            cells.len(),
            &mut vec![(); team.size()],
            |number, (), _| match cells[number].lock() {
                Ok(mut row) => self.row(which[number], &mut row),
                Err(_) => Ok(()),
            },
            &mut |done| watch(done, which.len()),
        )
    }

    fn finish(&self, i: usize, values: &mut [f64]) -> Result<()> {
        let finish = Finish {
            row_scale: &self.scales,
            column_scale: &self.scales,
            row_self: &self.selfs,
            column_self: &self.selfs,
            first_row: 0,
            singles: self.singles.as_deref(),
            same: &self.same,
            largest: f64::MAX,
            gaps: false,
            most: 1.0,
        };
        let overflow =
            |t: usize| Error::Overflow { row: i, column: self.trees.first[t] as usize };
        let tree = self.trees.of[i] as usize;
        finish.row(tree, values, &mut finish.worker(), overflow)
    }
}

/// An [`Engine`] without its scratch's type.
trait Source: Send + Sync {
    fn row(&self, x: usize, row: &mut [f64]);
}

/// An engine and the scratches that nobody is using.
struct Pool<E: Engine> {
    engine: E,
    free: Mutex<Vec<E::Scratch>>,
}

impl<E: Engine + Send> Source for Pool<E> {
    fn row(&self, x: usize, row: &mut [f64]) {
        let free = self.free.lock().ok().and_then(|mut free| free.pop());
        let mut scratch = free.unwrap_or_else(|| self.engine.scratch());
        self.engine.row(x, &mut scratch, row);
        // One whose call panicked does not come back: it may be half used.
        if let Ok(mut free) = self.free.lock() {
            free.push(scratch);
        }
    }
}

struct MakeSource;

impl WithEngine for MakeSource {
    type Output = Box<dyn Source>;

    fn call<E: Engine + Send + 'static>(
        self,
        engine: E,
        _watch: &mut Watch<'_>,
    ) -> Result<Self::Output> {
        Ok(Box::new(Pool { engine, free: Mutex::new(Vec::new()) }))
    }
}
