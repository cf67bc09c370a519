//! Engines: rows of kernels, computed at once for all columns.

use std::sync::Mutex;

use super::Measure;
use super::matrix::HEIGHT;
use crate::kernel::TreeCounts;
use crate::memory::set_aside;
use crate::threads::Threads;
use crate::{Context, Forest, Result};

/// Computes a row: the values of item `x` with the first `row.len()` columns. Faster for
/// rows in ascending order; right in any. Returns the columns whose values were given up,
/// ascending. An error ends the row, and the worker stays good for the next.
pub(crate) type RowWorker<'a> =
    Box<dyn FnMut(usize, &mut [f64], &Context) -> Result<Vec<u32>> + Send + 'a>;

/// Which rows an engine of some columns is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsOf {
    /// The columns', each up to its own column.
    LowerTriangle,
    /// The columns', and those of other items.
    Columns,
    /// Those of other items only.
    Others,
}

/// Rows of some items with the columns of an engine.
pub trait RowSource: Send + Sync {
    /// What one thread calls for its rows.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    fn worker(&self) -> Result<RowWorker<'_>>;

    /// The columns with which an item's value may be other than 0, in any order, if it is
    /// known without its row that there are at most so many.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    fn meets(&self, _x: usize, _most: usize) -> Result<Option<Vec<u32>>> {
        Ok(None)
    }

    /// Rows that a worker takes at a time. Fewer where a value costs so much more than
    /// storing it that it is better for small matrices to be shared out well.
    fn block_height(&self) -> usize {
        HEIGHT
    }
}

/// An index of some different items, the columns. Its own rows are those of the columns.
pub trait QueryEngine<X>: RowSource {
    /// Looks up other items. `columns` are those that the engine was made of, by the same
    /// measure. A row has the bits that it has among the engine's own.
    ///
    /// # Errors
    /// [`Error::Capacity`](crate::Error::Capacity),
    /// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
    fn query<'a>(
        &'a self,
        measure: &dyn Measure<X>,
        columns: &X,
        rows: &X,
        context: &Context,
    ) -> Result<Box<dyn RowSource + 'a>>;

    /// About how many bytes it holds.
    fn nbytes(&self) -> usize;
}

/// An index of trees that is walked by others.
pub(crate) trait Engine: Send + Sync + Sized + 'static {
    /// What it needs to know of trees that walk it.
    type Rows: Send + Sync;
    /// What a worker keeps from row to row.
    type Scratch: Send;

    /// The columns as rows.
    fn own_rows(&self) -> &Self::Rows;

    /// A new worker's scratch.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    fn scratch(&self) -> Result<Self::Scratch>;

    /// See [`RowWorker`]. The scratch stays good for the next row whatever happens.
    fn row(
        &self,
        rows: &Self::Rows,
        x: usize,
        scratch: &mut Self::Scratch,
        row: &mut [f64],
        context: &Context,
    ) -> Result<()>;

    /// See [`RowSource::meets`].
    fn meets(
        &self,
        _rows: &Self::Rows,
        _x: usize,
        _most: usize,
    ) -> Result<Option<Vec<u32>>> {
        Ok(None)
    }

    /// Whether leaves of rows need to be read.
    fn reads_leaves(&self) -> bool {
        true
    }

    /// Looks up trees of any store, as [`QueryEngine::query`] does. Where they need an engine
    /// that is made for them, that comes first.
    fn read(
        &self,
        columns: &Forest,
        rows: &Forest,
        trees: &TreeCounts,
        context: &Context,
    ) -> Result<(Option<Self>, Self::Rows)>;

    /// About how many bytes it holds.
    fn nbytes(&self) -> usize;
}

/// An engine and the scratches that nobody is using.
pub(crate) struct Pool<E: Engine> {
    engine: E,
    free: Mutex<Vec<E::Scratch>>,
}

impl<E: Engine> Pool<E> {
    pub(crate) fn new(engine: E) -> Self {
        Self { engine, free: Mutex::new(Vec::new()) }
    }

    fn rows_worker<'a>(&'a self, rows: &'a E::Rows) -> Result<RowWorker<'a>> {
        // Without waiting: in a forked child, who holds the lock may be missing.
        let free = self.free.try_lock().ok().and_then(|mut free| free.pop());
        let scratch = match free {
            Some(scratch) => scratch,
            None => self.engine.scratch()?,
        };
        let mut borrowed = Borrowed { scratch: Some(scratch), pool: self };
        Ok(Box::new(move |x, row, context| {
            // There is one until the worker is dropped.
            if let Some(scratch) = &mut borrowed.scratch {
                self.engine.row(rows, x, scratch, row, context)?;
            }
            Ok(Vec::new())
        }))
    }
}

/// A worker's scratch, which goes back to its pool.
struct Borrowed<'a, E: Engine> {
    /// There until it is dropped.
    scratch: Option<E::Scratch>,
    pool: &'a Pool<E>,
}

impl<E: Engine> Drop for Borrowed<'_, E> {
    fn drop(&mut self) {
        // That of a call that panicked may be half used.
        if !std::thread::panicking()
            && let Ok(mut free) = self.pool.free.try_lock()
            && let Some(scratch) = self.scratch.take()
        {
            set_aside(&mut free, scratch);
        }
    }
}

impl<E: Engine> RowSource for Pool<E> {
    fn worker(&self) -> Result<RowWorker<'_>> {
        self.rows_worker(self.engine.own_rows())
    }
}

impl<E: Engine> QueryEngine<Forest> for Pool<E> {
    fn query<'a>(
        &'a self,
        _: &dyn Measure<Forest>,
        columns: &Forest,
        rows: &Forest,
        context: &Context,
    ) -> Result<Box<dyn RowSource + 'a>> {
        let threads = Threads::for_trees(context, rows.len());
        let leaves = self.engine.reads_leaves();
        let trees = TreeCounts::by(leaves, rows.nodes(), rows.roots(), &threads)?;
        // Some kernels need an engine that knows the labels of these trees as well.
        let (anew, rows) = self.engine.read(columns, rows, &trees, context)?;
        Ok(Box::new(Query { pool: self, anew: anew.map(Pool::new), rows }))
    }

    fn nbytes(&self) -> usize {
        self.engine.nbytes()
    }
}

/// Rows of trees that ask.
struct Query<'a, E: Engine> {
    pool: &'a Pool<E>,
    /// In place of `pool`, where an engine had to be made for these trees.
    anew: Option<Pool<E>>,
    rows: E::Rows,
}

impl<E: Engine> RowSource for Query<'_, E> {
    fn worker(&self) -> Result<RowWorker<'_>> {
        self.anew.as_ref().unwrap_or(self.pool).rows_worker(&self.rows)
    }

    fn meets(&self, x: usize, most: usize) -> Result<Option<Vec<u32>>> {
        let Pool { engine, .. } = self.anew.as_ref().unwrap_or(self.pool);
        engine.meets(&self.rows, x, most)
    }
}
