//! Rows of a matrix that nobody holds.

use std::sync::{Arc, Mutex};

use super::matrix::{Distinct, Finish, scale};
use super::{Askable, Index, Options, Report, WithEngine, norms};
use crate::kernel::{Prepared, Scaled, TreeCounts};
use crate::memory::filled;
use crate::threads::{Tasks, Threads};
use crate::{Context, Error, Forest, Kernel, NodeId, Nodes, Result};

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
/// use treekernel_rs::{Context, Forest, gram, kernel::SubsetTree};
///
/// let forest = Forest::from_brackets("(S (A a) (B b)) (S (A a) (B c)) (A a)")?;
/// let kernel = SubsetTree::new(0.4);
/// let rows = gram::Rows::new(&kernel, &forest, gram::Options::default())?;
/// let mut row = [0.0; 3];
/// rows.row(2, &mut row, &Context::default())?;
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
    singles: Option<Arc<dyn Prepared>>,
    report: Report,
    /// Where an engine gives values up: how much it takes before it does.
    limit: Option<u64>,
    most: f64,
}

impl Rows {
    /// Indexes the trees of a forest.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a kernel out of range, [`Error::Capacity`].
    pub fn new(kernel: &dyn Kernel, x: &Forest, options: Options) -> Result<Self> {
        Self::new_with(kernel, x, options, &Context::default())
    }

    /// As [`new`](Self::new), in a context.
    ///
    /// # Errors
    /// As [`new`](Self::new), and what `context` returns.
    pub fn new_with(
        kernel: &dyn Kernel,
        x: &Forest,
        options: Options,
        context: &Context,
    ) -> Result<Self> {
        kernel.check()?;
        let trees = Distinct::new(x.roots());
        let n = trees.len();
        // Rows that are the columns would be indexed for the lower triangle only.
        let (columns, rows) = (&*trees.roots, Some(&*trees.roots));
        let index = Index { kernel, nodes: x.nodes(), columns, rows, options };
        let (source, singles) = index.run(MakeSource, context)?;
        context.advance(0, n)?;
        Self::of(source, singles, trees, context)
    }

    fn of(
        source: Box<dyn Source>,
        singles: Option<Arc<dyn Prepared>>,
        trees: Distinct,
        context: &Context,
    ) -> Result<Self> {
        let n = trees.len();
        let mut rows = Self {
            source,
            same: (0..n as u32).collect(),
            scales: Vec::new(),
            selfs: Vec::new(),
            singles,
            report: Report::default(),
            trees,
            limit: None,
            most: 1.0,
        };
        if let Some(singles) = &rows.singles {
            rows.most = singles.most();
            let place = |t: usize| (rows.trees.first[t] as usize, "X");
            rows.selfs = norms(&**singles, n, place, context)?;
            rows.scales = rows.selfs.iter().map(|&value| scale(value)).collect();
            let zeros = rows.trees.zeros(&rows.scales);
            rows.report = Report { zero_rows: zeros.clone(), zero_columns: zeros };
        }
        Ok(rows)
    }

    /// Rows of what is no tree, by an engine that may give values up, with the limit that
    /// it names.
    pub(crate) fn with_engine<E: Askable + Send + 'static>(
        engine: E,
        singles: Option<Arc<dyn Prepared>>,
        trees: Distinct,
        limit: u64,
        context: &Context,
    ) -> Result<Self> {
        let most = engine.most();
        let source = Box::new(Pool { engine, free: Mutex::new(Vec::new()) });
        let rows = Self::of(source, singles, trees, context)?;
        Ok(Self { limit: Some(limit), most, ..rows })
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
    /// normalised [`Error::Overflow`], [`Error::ConstraintLimit`] for pairs of trees, and
    /// what `context` returns; after these `out` may hold anything.
    ///
    /// # Panics
    /// If `i` is not below [`len`](Self::len).
    pub fn row(&self, i: usize, out: &mut [f64], context: &Context) -> Result<()> {
        if out.len() != self.len() {
            let expected = format!("{}, one per tree", self.len());
            return Err(Error::Length { array: "out", expected, got: out.len() });
        }
        let tree = self.trees.of[i] as usize;
        if self.trees.len() == out.len() {
            self.source.row(tree, out, context)?;
            self.finish(i, out, context)?;
        } else {
            let mut values = filled(0.0, self.trees.len())?;
            self.source.row(tree, &mut values, context)?;
            self.finish(i, &mut values, context)?;
            self.trees.spread(0, &values, out);
        }
        let Some(limit) = self.limit else { return Ok(()) };
        let gaps = (0..out.len()).filter(|&column| out[column].is_nan());
        let pairs: Vec<_> = gaps.map(|column| (i, column)).collect();
        if pairs.is_empty() {
            return Ok(());
        }
        Err(Error::ConstraintLimit { pairs, limit })
    }

    /// Computes some rows into `out`, one after another.
    ///
    /// # Errors
    /// As [`row`](Self::row), and what `context` returns.
    ///
    /// # Panics
    /// If a row is not below [`len`](Self::len).
    pub fn fill(
        &self,
        which: &[usize],
        out: &mut [f64],
        context: &Context,
    ) -> Result<()> {
        if out.len() != which.len() * self.len() {
            let expected = format!("{}, rows times trees", which.len() * self.len());
            return Err(Error::Length { array: "out", expected, got: out.len() });
        }
        let cells: Vec<_> = out.chunks_mut(self.len().max(1)).map(Mutex::new).collect();
        let threads = Threads::new(context, cells.len());
        threads.run(
            &Tasks::of_rows(cells.len(), 1),
            &mut vec![(); threads.size()],
            |number, (), context| match cells[number].lock() {
                Ok(mut row) => self.row(which[number], &mut row, context),
                Err(_) => Ok(()),
            },
        )
    }

    fn finish(&self, i: usize, values: &mut [f64], context: &Context) -> Result<()> {
        let finish = Finish {
            row_scale: &self.scales,
            column_scale: &self.scales,
            row_self: &self.selfs,
            column_self: &self.selfs,
            first_row: 0,
            singles: self.singles.as_deref(),
            same: &self.same,
            largest: f64::MAX,
            gaps: self.limit.is_some(),
            most: self.most,
        };
        let overflow =
            |t: usize| Error::Overflow { row: i, column: self.trees.first[t] as usize };
        let tree = self.trees.of[i] as usize;
        finish.row(tree, values, &mut finish.worker(), context, overflow)
    }
}

/// An engine for some different trees of one store: see [`Index`].
pub(crate) fn source(
    kernel: &dyn Kernel,
    nodes: &Arc<Nodes>,
    columns: &[NodeId],
    rows: Option<&[NodeId]>,
    context: &Context,
) -> Result<Box<dyn Source>> {
    let options = Options { normalize: false };
    Ok(Index { kernel, nodes, columns, rows, options }.run(MakeSource, context)?.0)
}

/// An [`Engine`] without its scratch's type.
pub(crate) trait Source: Send + Sync {
    /// See [`Engine::row`].
    fn row(&self, x: usize, row: &mut [f64], context: &Context) -> Result<()>;
}

/// The same of an engine that other trees may ask: see [`Askable`].
pub(crate) trait Asked: Source {
    fn ask<'a>(
        &'a self,
        columns: &Nodes,
        store: &Arc<Nodes>,
        trees: &TreeCounts,
    ) -> Result<Option<Box<dyn Source + 'a>>>;

    fn nbytes(&self) -> usize;
}

impl<S: Source + ?Sized> Source for &S {
    fn row(&self, x: usize, row: &mut [f64], context: &Context) -> Result<()> {
        (**self).row(x, row, context)
    }
}

/// An engine and the scratches that nobody is using.
struct Pool<E: Askable> {
    engine: E,
    free: Mutex<Vec<E::Scratch>>,
}

impl<E: Askable + Send> Pool<E> {
    /// Runs a row with a scratch.
    fn with(&self, row: impl FnOnce(&mut E::Scratch) -> Result<()>) -> Result<()> {
        // Without waiting: in a forked child, who holds the lock may be missing.
        let free = self.free.try_lock().ok().and_then(|mut free| free.pop());
        let mut scratch = match free {
            Some(scratch) => scratch,
            None => self.engine.scratch()?,
        };
        let done = row(&mut scratch);
        // One whose call panicked does not come back: it may be half used.
        if let Ok(mut free) = self.free.try_lock() {
            free.push(scratch);
        }
        done
    }
}

impl<E: Askable + Send> Source for Pool<E> {
    fn row(&self, x: usize, row: &mut [f64], context: &Context) -> Result<()> {
        self.with(|scratch| self.engine.row(x, scratch, row, context))
    }
}

impl<E: Askable + Send> Asked for Pool<E> {
    fn ask<'a>(
        &'a self,
        columns: &Nodes,
        store: &Arc<Nodes>,
        trees: &TreeCounts,
    ) -> Result<Option<Box<dyn Source + 'a>>> {
        let rows = self.engine.read(columns, store, trees)?;
        Ok(rows.map(|rows| Box::new(Others { pool: self, rows }) as Box<dyn Source>))
    }

    fn nbytes(&self) -> usize {
        self.engine.nbytes()
    }
}

/// Rows of trees that ask.
struct Others<'a, E: Askable> {
    pool: &'a Pool<E>,
    rows: E::Rows,
}

impl<E: Askable + Send> Source for Others<'_, E> {
    fn row(&self, x: usize, row: &mut [f64], context: &Context) -> Result<()> {
        let engine = &self.pool.engine;
        self.pool.with(|scratch| engine.row_of(&self.rows, x, scratch, row, context))
    }
}

pub(super) struct MakeSource;

impl WithEngine for MakeSource {
    type Output = (Box<dyn Asked>, Option<Arc<dyn Prepared>>);

    fn call<E: Askable + Send + 'static>(
        self,
        engine: E,
        singles: Option<Arc<dyn Prepared>>,
        _: &Context,
    ) -> Result<Self::Output> {
        Ok((Box::new(Pool { engine, free: Mutex::new(Vec::new()) }), singles))
    }
}
