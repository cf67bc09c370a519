//! Rows into matrices: equal trees, normalisation, overflow, symmetry, blocks.
//!
//! A symmetric matrix is computed as its lower triangle, a block of rows at a time. A
//! row goes out as it is computed; once a block is complete, [`mirror`](super::mirror)
//! takes it to the rows above.

use std::hash::Hash;
use std::ops::Range;
use std::sync::Mutex;

use super::mirror::{Strip, mirror_within};
use super::normalize::{Normalizer, Norms};
use super::{Items, Report, RowSource, RowWorker};
use crate::kernel::{Prepared, Worker};
use crate::memory::{Map, collect, filled, push, reserve, try_collect};
use crate::nontemporal::NonTemporal;
use crate::threads::{Tasks, Threads};
use crate::vector::{Loop, vectorized};
use crate::{Context, Error, Result};

/// Rows that are mirrored together: more make longer strips, fewer are still in the
/// caches (128 to 512 tried: 256 best by 2 to 3 %).
pub(crate) const HEIGHT: usize = 256;

/// A float type that matrices are stored in.
pub trait Element: NonTemporal + Copy + Send + Sync + Default + 'static {
    /// The largest finite value.
    const LARGEST: f64;
    /// Rounds.
    fn of(value: f64) -> Self;
}

impl Element for f64 {
    const LARGEST: f64 = Self::MAX;
    #[inline]
    fn of(value: f64) -> Self {
        value
    }
}

impl Element for f32 {
    const LARGEST: f64 = Self::MAX as f64;
    #[inline]
    fn of(value: f64) -> Self {
        value as Self
    }
}

/// Which items of a list are equal.
pub(crate) struct Distinct {
    /// Each item's number among the different ones, in the order of their first occurrence.
    pub(crate) of: Vec<u32>,
    /// Each different item's first occurrence.
    pub(crate) first: Vec<u32>,
    /// Stretches in which tree and place ascend together: (tree, place, length).
    runs: Vec<(u32, u32, u32)>,
    /// Further occurrences, by tree: (tree, place).
    repeats: Vec<(u32, u32)>,
}

impl Distinct {
    /// Of items of one store.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub(crate) fn of<X: Items>(items: &X) -> Result<Self> {
        Self::new((0..items.n_items()).map(|item| items.key(item, &|root| root)))
    }

    /// Of things that are equal if their keys are.
    ///
    /// # Errors
    /// [`Error::Memory`], and that of a key.
    pub(crate) fn new<K: Eq + Hash>(
        keys: impl ExactSizeIterator<Item = Result<K>>,
    ) -> Result<Self> {
        let mut distinct = Self {
            of: Vec::new(),
            first: Vec::new(),
            runs: Vec::new(),
            repeats: Vec::new(),
        };
        reserve(&mut distinct.of, keys.len())?;
        let mut number: Map<K, u32> = Map::default();
        for (place, key) in keys.enumerate() {
            let next = distinct.first.len() as u32;
            let tree = *number.get_or(key?, next)?;
            push(&mut distinct.of, tree)?;
            // An item that came before: it is computed once, and copied.
            if tree < next {
                push(&mut distinct.repeats, (tree, place as u32))?;
                continue;
            }
            push(&mut distinct.first, place as u32)?;
            match distinct.runs.last_mut() {
                // A repeat between two first occurrences ends a run.
                Some((start, at, len)) if *at + *len == place as u32 => {
                    debug_assert_eq!(*start + *len, tree);
                    *len += 1;
                }
                _ => push(&mut distinct.runs, (tree, place as u32, 1))?,
            }
        }
        // By tree, so that those of some trees are one stretch.
        distinct.repeats.sort_unstable();
        Ok(distinct)
    }

    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// Places of items that are not there once values are divided by their own.
    pub(crate) fn zeros(&self, norms: &Norms) -> Result<Vec<usize>> {
        let is_zero = |place: &usize| norms.is_zero(self.of[*place] as usize);
        collect((0..self.of.len()).filter(is_zero))
    }

    /// Copies the values of the trees `from..from + values.len()` to their places.
    pub(crate) fn spread<T: Element>(
        &self,
        from: usize,
        values: &[f64],
        row: &mut [T],
    ) {
        // 1. First occurrences, run by run: most lists are one run.
        let to = from + values.len();
        let first = self.runs.partition_point(|run| (run.0 + run.2) as usize <= from);
        for &(tree, place, len) in &self.runs[first..] {
            let (start, end) = (from.max(tree as usize), to.min((tree + len) as usize));
            if start >= end {
                break;
            }
            let place = place as usize + start - tree as usize;
            let cells = &mut row[place..place + end - start];
            for (cell, &value) in
                cells.iter_mut().zip(&values[start - from..end - from])
            {
                *cell = T::of(value);
            }
        }
        // 2. Repeats, from the columns that are there.
        let first = self.repeats.partition_point(|repeat| (repeat.0 as usize) < from);
        for &(tree, place) in &self.repeats[first..] {
            if tree as usize >= to {
                break;
            }
            row[place as usize] = T::of(values[tree as usize - from]);
        }
    }

    /// The stretches in which trees of `from..to` ascend together with their places.
    pub(crate) fn stretches(&self, from: usize, to: usize) -> Result<Vec<Stretch>> {
        let first = self.runs.partition_point(|run| (run.0 + run.2) as usize <= from);
        let within = |&(tree, place, len): &(u32, u32, u32)| {
            let start = from.max(tree as usize);
            Stretch {
                start,
                end: to.min((tree + len) as usize),
                place: place as usize + start - tree as usize,
            }
        };
        let stretches = self.runs[first..].iter().map(within);
        collect(stretches.take_while(|stretch| stretch.start < stretch.end))
    }

    /// Further occurrences of the trees `from..to`: (tree, place).
    pub(crate) fn repeats(&self, from: usize, to: usize) -> &[(u32, u32)] {
        let [start, end] = [from, to].map(|end| {
            self.repeats.partition_point(|repeat| (repeat.0 as usize) < end)
        });
        &self.repeats[start..end]
    }

    /// Takes some columns of a matrix apart into the rows of first occurrences and those of
    /// repeats.
    fn split_rows<'a, T>(
        &self,
        out: &'a mut [T],
        width: usize,
        columns: Range<usize>,
    ) -> Result<Rows<'a, T>> {
        let mut rows = Rows { first: Vec::new(), repeats: Vec::new() };
        reserve(&mut rows.first, self.len())?;
        // Room for all rows at once, so that neither push can fail.
        reserve(&mut rows.repeats, self.repeats.len())?;
        for (place, row) in out.chunks_mut(width.max(1)).enumerate() {
            let (row, tree) = (&mut row[columns.clone()], self.of[place]);
            if self.first[tree as usize] as usize == place {
                rows.first.push(row); // has room
            } else {
                rows.repeats.push((tree, row)); // has room
            }
        }
        Ok(rows)
    }
}

/// Trees `start..end`, the first of which stands at `place`.
pub(crate) struct Stretch {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) place: usize,
}

struct Rows<'a, T> {
    first: Vec<&'a mut [T]>,
    repeats: Vec<(u32, &'a mut [T])>,
}

impl<T: Copy> Rows<'_, T> {
    fn copy_repeats(self) {
        for (tree, row) in self.repeats {
            row.copy_from_slice(self.first[tree as usize]);
        }
    }
}

/// What makes raw values into those of the result.
pub(crate) struct Finish<'a> {
    /// None: values stay as they are, and must be finite.
    pub(crate) normalizer: Option<Normalizer<'a>>,
    /// Single pairs of a row and a column, where values are normalised.
    pub(crate) singles: Option<&'a dyn Prepared>,
    pub(crate) largest: f64,
}

impl<'a> Finish<'a> {
    /// For rows that are the columns.
    pub(crate) fn symmetric(
        norms: Option<&'a Norms>,
        singles: Option<&'a dyn Prepared>,
        largest: f64,
    ) -> Self {
        let normalizer =
            norms.map(|norms| Normalizer { rows: norms, columns: norms, same: None });
        Self { normalizer, singles, largest }
    }

    /// A worker for pairs; None where nothing is normalised.
    pub(crate) fn worker(&self) -> Option<Worker<'_>> {
        self.normalizer.as_ref().and(self.singles).map(Prepared::worker)
    }

    /// Normalises a row, or makes sure that it is finite, but for the columns that were
    /// given up.
    pub(crate) fn row(
        &self,
        x: usize,
        row: &mut [f64],
        given_up: &mut Vec<u32>,
        worker: &mut Option<Worker<'_>>,
        context: &Context,
        overflow: impl Fn(usize) -> Error,
    ) -> Result<()> {
        if let (Some(normalizer), Some(single)) = (&self.normalizer, worker) {
            return normalizer.row(x, row, given_up, |t| single(x, t, context));
        }
        // NaN, of what was given up, does not fit either: so many fewer may fit.
        let largest = self.largest;
        let mut n_fitting = 0;
        vectorized(CountFitting { row, largest, n_fitting: &mut n_fitting });
        if n_fitting + given_up.len() == row.len() {
            return Ok(());
        }
        // Slow, but only on the way to an error.
        let fits = |&column: &usize| {
            row[column] <= largest || given_up.binary_search(&(column as u32)).is_ok()
        };
        match (0..row.len()).find(|column| !fits(column)) {
            Some(first) => Err(overflow(first)),
            None => Ok(()),
        }
    }
}

/// How many values are not above the largest: counted to the end, so that it is one
/// comparison for each vector of them.
struct CountFitting<'a> {
    row: &'a [f64],
    largest: f64,
    n_fitting: &'a mut usize,
}

impl Loop for CountFitting<'_> {
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    #[inline(always)]
    fn run(self) {
        let Self { row, largest, n_fitting } = self;
        *n_fitting = row.iter().filter(|&&value| value <= largest).count();
    }
}

/// The matrix at work, or some columns of it.
pub(crate) struct Matrix<'a, T> {
    pub(crate) out: &'a mut [T],
    /// How many columns `out` has, and how many of them come before these.
    pub(crate) width: usize,
    pub(crate) first_column: usize,
    pub(crate) columns: &'a Distinct,
    /// None: the columns, too.
    pub(crate) rows: Option<&'a Distinct>,
}

/// Cells of different items that were given up.
type GivenUp = Mutex<Map<(u32, u32), ()>>;

impl<T: Element> Matrix<'_, T> {
    /// Computes and stores all rows.
    pub(crate) fn fill(
        mut self,
        source: &dyn RowSource,
        finish: &Finish<'_>,
        context: &Context,
    ) -> Result<Report> {
        let given_up = GivenUp::default();
        if self.rows.is_none() {
            self.fill_symmetric(source, finish, &given_up, context)?;
        } else {
            self.fill_rectangle(source, finish, &given_up, context)?;
        }
        let rows = self.rows.unwrap_or(self.columns);
        let given_up = self.places(&given_up.into_inner().unwrap_or_default())?;
        Ok(match &finish.normalizer {
            Some(normalizer) => Report {
                zero_rows: rows.zeros(normalizer.rows)?,
                zero_columns: self.columns.zeros(normalizer.columns)?,
                given_up,
            },
            None => Report { given_up, ..Report::default() },
        })
    }

    /// Where cells stand: of a symmetric matrix in the lower triangle.
    fn places(&self, cells: &Map<(u32, u32), ()>) -> Result<Vec<(usize, usize)>> {
        let mut places = Vec::new();
        if cells.is_empty() {
            return Ok(places);
        }
        let rows = self.rows.unwrap_or(self.columns);
        for (row, &x) in rows.of.iter().enumerate() {
            let width = self.rows.map_or(row + 1, |_| self.columns.of.len());
            for (column, &t) in self.columns.of[..width].iter().enumerate() {
                // Of two trees the later one's row was computed. A later row may repeat
                // an earlier tree, so both orders are asked for.
                let is_mirrored = self.rows.is_none() && cells.contains_key(&(t, x));
                if is_mirrored || cells.contains_key(&(x, t)) {
                    push(&mut places, (row, column))?;
                }
            }
        }
        Ok(places)
    }

    fn overflow(&self, x: usize, t: usize) -> Error {
        let rows = self.rows.unwrap_or(self.columns);
        let (row, column) = (rows.first[x] as usize, self.columns.first[t] as usize);
        Error::Overflow { row, column }
    }

    /// Computes a row of the first columns.
    fn row(
        &self,
        x: usize,
        (rows, worker): (&mut RowWorker<'_>, &mut Option<Worker<'_>>),
        values: &mut [f64],
        finish: &Finish<'_>,
        given_up: &GivenUp,
        context: &Context,
    ) -> Result<()> {
        let mut columns = rows(x, values, context)?;
        let overflow = |t| self.overflow(x, t);
        finish.row(x, values, &mut columns, worker, context, overflow)?;
        if !columns.is_empty()
            // A lock fails after a panic of another thread only, which ends the call by
            // itself.
            && let Ok(mut given_up) = given_up.lock()
        {
            for t in columns {
                given_up.insert((x as u32, t), ())?;
            }
        }
        Ok(())
    }

    fn fill_rectangle(
        &mut self,
        source: &dyn RowSource,
        finish: &Finish<'_>,
        given_up: &GivenUp,
        context: &Context,
    ) -> Result<()> {
        let Some(rows) = self.rows else { return Ok(()) };
        let (n, width) = (rows.len(), self.columns.len());
        let out = std::mem::take(&mut self.out);
        // 1. The rows that are computed, and those that are copied.
        let columns = self.first_column..self.first_column + self.columns.of.len();
        let mut split = rows.split_rows(out, self.width, columns)?;
        let threads = Threads::new(context, n);
        let new = || Ok((source.worker()?, finish.worker(), filled(0.0, width)?));
        let mut scratch = try_collect((0..threads.size()).map(|_| new()))?;
        // 2. Each row has a lock that one task takes: nobody waits.
        let cells = collect(split.first.iter_mut().map(Mutex::new))?;
        threads.run(
            &Tasks::of_rows(n, 1),
            &mut scratch,
            |x, (rows, worker, values), context| {
                self.row(x, (rows, worker), values, finish, given_up, context)?;
                if let Ok(mut row) = cells[x].lock() {
                    self.columns.spread(0, values, &mut row);
                }
                Ok(())
            },
        )?;
        drop(cells);
        // 3. Equal items have equal rows.
        split.copy_repeats();
        context.report(n, n)
    }

    fn fill_symmetric(
        &mut self,
        source: &dyn RowSource,
        finish: &Finish<'_>,
        given_up: &GivenUp,
        context: &Context,
    ) -> Result<()> {
        let (n, height) = (self.columns.len(), source.block_height());
        let out = std::mem::take(&mut self.out);
        // 1. The rows that are computed, in blocks; the others are copied at last.
        let mut rows = self.columns.split_rows(out, self.width, 0..self.width)?;
        let threads = Threads::new(context, n);
        let new = || Ok((source.worker()?, finish.worker(), filled(0.0, n)?));
        let mut scratch = try_collect((0..threads.size()).map(|_| new()))?;
        let blocks = collect(rows.first.chunks_mut(height).map(Mutex::new))?;
        threads.run(
            &Tasks::of_rows(n, height),
            &mut scratch,
            |number, (rows, worker, values), context| {
                // 2. The block's rows, each up to its own column.
                let (start, end) = (number * height, n.min((number + 1) * height));
                for x in start..end {
                    let values = &mut values[..=x];
                    self.row(x, (rows, worker), values, finish, given_up, context)?;
                    // For a moment only: others may want to mirror into this block.
                    if let Ok(mut rows) = blocks[number].lock() {
                        self.columns.spread(0, values, rows[x - start]);
                    }
                    context.check_now()?;
                }
                // 3. To the rows above: those of this block, and then of all before.
                // Its lock is held, so later blocks cannot mirror into it meanwhile.
                let Ok(mut block) = blocks[number].lock() else { return Ok(()) };
                mirror_within(self.columns, start, &mut block)?;
                let strip = Strip::new(self.columns, start, &block)?;
                // Whoever is at work on an earlier block keeps its rows for a moment.
                let mut busy = Vec::new();
                for (before, block) in blocks[..number].iter().enumerate() {
                    match block.try_lock() {
                        Ok(mut rows) => strip.store(before * height, &mut rows),
                        Err(_) => push(&mut busy, before)?,
                    }
                }
                for before in busy {
                    if let Ok(mut rows) = blocks[before].lock() {
                        strip.store(before * height, &mut rows);
                    }
                }
                Ok(())
            },
        )?;
        drop(blocks);
        // 4. Rows of equal items are complete only now, as mirrored cells come from
        // later rows.
        rows.copy_repeats();
        context.report(n, n)
    }
}
