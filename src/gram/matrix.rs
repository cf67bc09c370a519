//! Rows into matrices: equal trees, normalisation, overflow, symmetry, blocks.
//!
//! A symmetric matrix is computed as its lower triangle, a block of rows at a time. A
//! row goes out as it is computed; once a block is complete, [`mirror`](super::mirror)
//! takes it to the rows above.

use std::hash::Hash;
use std::sync::Mutex;

use super::mirror::{Strip, mirror_within};
use super::{Engine, Report, norms};
use crate::kernel::{LARGEST, Prepared, SMALLEST, Scaled, Worker};
use crate::memory::filled;
use crate::nontemporal::NonTemporal;
use crate::threads::{Tasks, Threads};
use crate::vector::{Loop, vectorized};
use crate::{Context, Error, NodeId, Result};

/// "Not among the columns".
const NONE: u32 = u32::MAX;
/// Rows that are mirrored together: more make longer strips, fewer are still in the
/// caches (128 to 512 tried: 256 best by 2 to 3 %).
pub(crate) const HEIGHT: usize = 256;

/// A float type that matrices are stored in.
pub trait Element: NonTemporal + Copy + Send + Sync + Default + 'static {
    /// The largest finite value.
    const LARGEST: f64;
    /// Rounds.
    fn of(value: f64) -> Self;
    /// Whether it is no number: a value that was given up.
    fn is_gap(self) -> bool;
}

impl Element for f64 {
    const LARGEST: f64 = Self::MAX;
    #[inline]
    fn of(value: f64) -> Self {
        value
    }

    fn is_gap(self) -> bool {
        self.is_nan()
    }
}

impl Element for f32 {
    const LARGEST: f64 = Self::MAX as f64;
    #[inline]
    fn of(value: f64) -> Self {
        value as Self
    }

    fn is_gap(self) -> bool {
        self.is_nan()
    }
}

/// Trees, or other things told apart by an id, without repetition.
pub(crate) struct Distinct<I = NodeId> {
    /// Different trees, in the order of their first occurrence.
    pub(crate) roots: Vec<I>,
    /// Each tree's number among them.
    pub(crate) of: Vec<u32>,
    /// Each different tree's first occurrence.
    pub(crate) first: Vec<u32>,
    /// Stretches in which tree and place ascend together: (tree, place, length).
    runs: Vec<(u32, u32, u32)>,
    /// Further occurrences, by tree: (tree, place).
    repeats: Vec<(u32, u32)>,
}

impl<I: Copy + Eq + Hash> Distinct<I> {
    pub(crate) fn new(roots: &[I]) -> Self {
        let mut distinct = Self {
            roots: Vec::new(),
            of: Vec::with_capacity(roots.len()),
            first: Vec::new(),
            runs: Vec::new(),
            repeats: Vec::new(),
        };
        let mut number = std::collections::HashMap::new();
        for (place, &root) in roots.iter().enumerate() {
            let next = distinct.roots.len() as u32;
            let tree = *number.entry(root).or_insert(next);
            distinct.of.push(tree);
            if tree < next {
                distinct.repeats.push((tree, place as u32));
                continue;
            }
            distinct.roots.push(root);
            distinct.first.push(place as u32);
            match distinct.runs.last_mut() {
                Some((start, at, len)) if *at + *len == place as u32 => {
                    debug_assert_eq!(*start + *len, tree);
                    *len += 1;
                }
                _ => distinct.runs.push((tree, place as u32, 1)),
            }
        }
        distinct.repeats.sort_unstable();
        distinct
    }

    pub(crate) fn len(&self) -> usize {
        self.roots.len()
    }

    /// Per tree its number among others, or [`NONE`].
    pub(crate) fn among(&self, others: &Self) -> Vec<u32> {
        let number: std::collections::HashMap<I, u32> =
            others.roots.iter().copied().zip(0..).collect();
        self.roots.iter().map(|r| number.get(r).copied().unwrap_or(NONE)).collect()
    }

    /// Places of trees that a scale of 0 says have no kernel with themselves.
    pub(crate) fn zeros(&self, scales: &[f64]) -> Vec<usize> {
        let is_zero =
            |place: &usize| scales.get(self.of[*place] as usize) == Some(&0.0);
        (0..self.of.len()).filter(is_zero).collect()
    }

    /// Copies the values of the trees `from..from + values.len()` to their places.
    pub(crate) fn spread<T: Element>(
        &self,
        from: usize,
        values: &[f64],
        row: &mut [T],
    ) {
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
        let first = self.repeats.partition_point(|repeat| (repeat.0 as usize) < from);
        for &(tree, place) in &self.repeats[first..] {
            if tree as usize >= to {
                break;
            }
            row[place as usize] = T::of(values[tree as usize - from]);
        }
    }

    /// The stretches in which trees of `from..to` ascend together with their places.
    pub(crate) fn stretches(&self, from: usize, to: usize) -> Vec<Stretch> {
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
        stretches.take_while(|stretch| stretch.start < stretch.end).collect()
    }

    /// Further occurrences of the trees `from..to`: (tree, place).
    pub(crate) fn repeats(&self, from: usize, to: usize) -> &[(u32, u32)] {
        let [start, end] = [from, to].map(|end| {
            self.repeats.partition_point(|repeat| (repeat.0 as usize) < end)
        });
        &self.repeats[start..end]
    }

    /// Takes a matrix apart into the rows of first occurrences and those of repeats.
    fn split_rows<'a, T>(&self, out: &'a mut [T], width: usize) -> Rows<'a, T> {
        let mut rows =
            Rows { first: Vec::with_capacity(self.len()), repeats: Vec::new() };
        for (place, row) in out.chunks_mut(width.max(1)).enumerate() {
            let tree = self.of[place];
            if self.first[tree as usize] as usize == place {
                rows.first.push(row);
            } else {
                rows.repeats.push((tree, row));
            }
        }
        rows
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
    /// Per tree 1 / sqrt(K(t,t)); 0 for a tree without kernel, NaN where a float does
    /// not do.
    pub(crate) row_scale: &'a [f64],
    pub(crate) column_scale: &'a [f64],
    pub(crate) row_self: &'a [Scaled],
    pub(crate) column_self: &'a [Scaled],
    /// Where rows' trees start among those of `pairs`.
    pub(crate) first_row: usize,
    pub(crate) singles: Option<&'a dyn Prepared>,
    /// Per row the column of the same tree, or [`NONE`].
    pub(crate) same: &'a [u32],
    pub(crate) largest: f64,
    /// Whether NaN stands for a value that the engine gave up: see
    /// [`Engine::GIVES_UP`].
    pub(crate) gaps: bool,
    /// The largest normalised value: 1, which rounding may take two different trees just
    /// above; more where values are no dot products.
    pub(crate) most: f64,
}

impl Finish<'_> {
    /// A worker for pairs; None where nothing is normalised.
    pub(crate) fn worker(&self) -> Option<Worker<'_>> {
        self.singles.map(Prepared::worker)
    }

    /// Normalises a row, or makes sure that it is finite.
    pub(crate) fn row(
        &self,
        x: usize,
        row: &mut [f64],
        worker: &mut Option<Worker<'_>>,
        context: &Context,
        overflow: impl Fn(usize) -> Error,
    ) -> Result<()> {
        let Some(of) = worker else {
            let largest = self.largest;
            let mut n_fitting = 0;
            vectorized(CountFitting { row, largest, n_fitting: &mut n_fitting });
            if n_fitting == row.len() {
                return Ok(());
            }
            let fits = |value: &f64| *value <= largest || self.gaps && value.is_nan();
            return match row.iter().position(|value| !fits(value)) {
                Some(first) => Err(overflow(first)),
                None => Ok(()),
            };
        };
        let scale = self.row_scale[x];
        let selfs = |t: usize| (self.row_self[x], self.column_self[t]);
        if self.gaps {
            for (t, value) in row.iter_mut().enumerate() {
                let (factor, (a, b)) = (scale * self.column_scale[t], selfs(t));
                if [*value, a.value(), b.value()].iter().any(|value| value.is_nan()) {
                    *value = f64::NAN;
                } else if factor.is_nan() || value.is_infinite() {
                    *value = of(self.first_row + x, t, context)?.cosine(a, b);
                } else {
                    *value *= factor;
                }
                if *value > self.most {
                    *value = self.most;
                }
            }
        } else {
            let (scales, mut n_numbers) = (&self.column_scale[..row.len()], 0);
            let n = &mut n_numbers;
            vectorized(Normalize { row, scale, scales, most: self.most, n_numbers: n });
            // Where a float holds no scale, numbers with a wide exponent do.
            let is_strange = |t: &usize| (scale * scales[*t]).is_nan();
            let all = if n_numbers < row.len() { 0..row.len() } else { 0..0 };
            for t in all.filter(is_strange) {
                let (a, b) = selfs(t);
                let value = of(self.first_row + x, t, context)?.cosine(a, b);
                row[t] = value.min(self.most);
            }
        }
        if scale != 0.0
            && let Some(value) = row.get_mut(self.same[x] as usize)
        {
            *value = 1.0;
        }
        Ok(())
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

/// Multiplies values by two scales, and counts for how many these are numbers.
struct Normalize<'a> {
    row: &'a mut [f64],
    scale: f64,
    scales: &'a [f64],
    most: f64,
    n_numbers: &'a mut usize,
}

impl Loop for Normalize<'_> {
    #[allow(clippy::inline_always)] // into the function that is compiled for AVX2
    #[inline(always)]
    fn run(self) {
        let Self { row, scale, scales, most, n_numbers } = self;
        for (value, &other) in row.iter_mut().zip(scales) {
            let factor = scale * other;
            *n_numbers += usize::from(!factor.is_nan());
            *value = (*value * factor).min(most);
        }
    }
}

/// The matrix at work.
pub(crate) struct Matrix<'a, T, I = NodeId> {
    pub(crate) out: &'a mut [T],
    pub(crate) columns: &'a Distinct<I>,
    /// None: the columns, too.
    pub(crate) rows: Option<&'a Distinct<I>>,
}

impl<T: Element, I: Copy + Eq + Hash + Sync> Matrix<'_, T, I> {
    /// Computes and stores all rows. `singles` has the columns' trees, followed by the
    /// rows' where these are others; None: the matrix is not normalised.
    pub(crate) fn fill<E: Engine>(
        self,
        engine: &E,
        singles: Option<&dyn Prepared>,
        context: &Context,
    ) -> Result<Report> {
        let n_columns = self.columns.len();
        let others = self.rows.filter(|rows| rows.roots != self.columns.roots);
        let n_pairs = n_columns + others.map_or(0, Distinct::<I>::len);
        let place = |t: usize| {
            let column = self.columns.first.get(t).map(|&first| (first as usize, "Y"));
            let row = || others.map(|rows| (rows.first[t - n_columns] as usize, "X"));
            let (tree, set) = column.or_else(row).unwrap_or_default();
            (tree, if self.rows.is_none() { "X" } else { set })
        };
        let selfs = match singles {
            Some(of) => norms(of, n_pairs, place, context)?,
            None => Vec::new(),
        };
        let scales: Vec<f64> = selfs.iter().map(|&value| scale(value)).collect();
        let first_row = others.map_or(0, |_| n_columns);
        let cut = |of: usize| of.min(scales.len());
        let same = match self.rows {
            _ if singles.is_none() => Vec::new(),
            Some(rows) => rows.among(self.columns),
            None => (0..n_columns as u32).collect(),
        };
        let finish = Finish {
            row_scale: &scales[cut(first_row)..],
            column_scale: &scales[..cut(n_columns)],
            row_self: &selfs[cut(first_row)..],
            column_self: &selfs[..cut(n_columns)],
            first_row,
            singles,
            same: &same,
            largest: T::LARGEST,
            gaps: E::GIVES_UP,
            most: engine.most(),
        };
        self.fill_as(engine, &finish, context)
    }

    /// The same with known kernels of trees with themselves.
    pub(crate) fn fill_as<E: Engine>(
        mut self,
        engine: &E,
        finish: &Finish<'_>,
        context: &Context,
    ) -> Result<Report> {
        let report = Report {
            zero_rows: self.rows.unwrap_or(self.columns).zeros(finish.row_scale),
            zero_columns: self.columns.zeros(finish.column_scale),
        };
        if self.rows.is_none() {
            self.fill_symmetric(engine, finish, context)?;
        } else {
            self.fill_rectangle(engine, finish, context)?;
        }
        Ok(report)
    }

    fn overflow(&self, x: usize, t: usize) -> Error {
        let rows = self.rows.unwrap_or(self.columns);
        let (row, column) = (rows.first[x] as usize, self.columns.first[t] as usize);
        Error::Overflow { row, column }
    }

    fn fill_rectangle<E: Engine>(
        &mut self,
        engine: &E,
        finish: &Finish<'_>,
        context: &Context,
    ) -> Result<()> {
        let Some(rows) = self.rows else { return Ok(()) };
        let (n, width) = (rows.len(), self.columns.len());
        let out = std::mem::take(&mut self.out);
        let split = rows.split_rows(out, self.columns.of.len());
        let threads = Threads::new(context, n);
        let new = || Ok((engine.scratch()?, finish.worker(), filled(0.0, width)?));
        let scratch = (0..threads.size()).map(|_| new());
        let mut scratch = scratch.collect::<Result<Vec<_>>>()?;
        let Rows { first, repeats } = split;
        let cells: Vec<Mutex<&mut [T]>> = first.into_iter().map(Mutex::new).collect();
        threads.run(
            &Tasks::of_rows(n, 1),
            &mut scratch,
            |x, (engine_scratch, worker, values), context| {
                engine.row(x, engine_scratch, values, context)?;
                finish.row(x, values, worker, context, |t| self.overflow(x, t))?;
                if let Ok(mut row) = cells[x].lock() {
                    self.columns.spread(0, values, &mut row);
                }
                Ok(())
            },
        )?;
        let first =
            cells.into_iter().filter_map(|cell| cell.into_inner().ok()).collect();
        Rows { first, repeats }.copy_repeats();
        context.report(n, n)
    }

    fn fill_symmetric<E: Engine>(
        &mut self,
        engine: &E,
        finish: &Finish<'_>,
        context: &Context,
    ) -> Result<()> {
        let n = self.columns.len();
        let out = std::mem::take(&mut self.out);
        let mut rows = self.columns.split_rows(out, self.columns.of.len());
        let threads = Threads::new(context, n);
        let new = || Ok((engine.scratch()?, finish.worker(), filled(0.0, n)?));
        let scratch = (0..threads.size()).map(|_| new());
        let mut scratch = scratch.collect::<Result<Vec<_>>>()?;
        let blocks: Vec<_> = rows.first.chunks_mut(E::HEIGHT).map(Mutex::new).collect();
        threads.run(
            &Tasks::of_rows(n, E::HEIGHT),
            &mut scratch,
            |number, (engine_scratch, worker, values), context| {
                let (start, end) =
                    (number * E::HEIGHT, n.min((number + 1) * E::HEIGHT));
                for x in start..end {
                    let values = &mut values[..=x];
                    engine.row(x, engine_scratch, values, context)?;
                    finish.row(x, values, worker, context, |t| self.overflow(x, t))?;
                    if let Ok(mut rows) = blocks[number].lock() {
                        self.columns.spread(0, values, rows[x - start]);
                    }
                    context.check_now()?;
                }
                let Ok(mut own) = blocks[number].lock() else { return Ok(()) };
                mirror_within(self.columns, start, &mut own);
                let strip = Strip::new(self.columns, start, &own);
                // Whoever is at work on an earlier block keeps its rows for a moment.
                let mut busy = Vec::new();
                for (before, block) in blocks[..number].iter().enumerate() {
                    match block.try_lock() {
                        Ok(mut rows) => strip.store(before * E::HEIGHT, &mut rows),
                        Err(_) => busy.push(before),
                    }
                }
                for before in busy {
                    if let Ok(mut rows) = blocks[before].lock() {
                        strip.store(before * E::HEIGHT, &mut rows);
                    }
                }
                Ok(())
            },
        )?;
        drop(blocks);
        rows.copy_repeats();
        context.report(n, n)
    }
}

/// 1 / sqrt(value); 0 for 0, NaN where floats do not do.
pub(crate) fn scale(value: Scaled) -> f64 {
    match value.value() {
        _ if value.is_zero() => 0.0,
        float if float < LARGEST && float > SMALLEST => 1.0 / float.sqrt(),
        _ => f64::NAN,
    }
}
