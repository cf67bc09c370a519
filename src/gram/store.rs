//! Rows into matrices: equal trees, normalisation, overflow, symmetry, blocks.
//!
//! A symmetric matrix is computed as its lower triangle, a block of rows at a time. A
//! row's own part goes out as it is; the mirrored part goes to all rows above, as a
//! strip as wide as the block: row by row it would cost a cache line for each value.

use std::sync::Mutex;

use super::pairs::{Single, Worker};
use super::{Engine, Options, Report, Watch, self_kernels};
use crate::kernel::Scaled;
use crate::team::Team;
use crate::{Error, NodeId, Result};

/// Self-kernels from here on (and below its inverse) are handled as [`Scaled`].
pub(crate) const LARGEST: f64 = 1e300;

/// "Not among the columns".
const NONE: u32 = u32::MAX;
/// Bytes of rows that are computed before they are stored.
const BLOCK_BYTES: usize = 16 << 20;
/// Rows of a block: more make longer strips, but leave the caches (16 to 256 tried: 128
/// within 5 % of the best on all corpora).
const HEIGHT: usize = 128;
/// Values in a line of the cache.
const LINE: usize = 8;
/// Rows that are stored together: two cache lines of a block's row.
const TILE: usize = 16;

/// A float type that matrices are stored in.
pub trait Element: Copy + Send + Sync + Default + 'static {
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

/// Trees without repetition.
pub(crate) struct Distinct {
    /// Different trees, in the order of their first occurrence.
    pub(crate) roots: Vec<NodeId>,
    /// Each tree's number among them.
    pub(crate) of: Vec<u32>,
    /// Each different tree's first occurrence.
    pub(crate) first: Vec<u32>,
    /// Stretches in which tree and place ascend together: (tree, place, length).
    runs: Vec<(u32, u32, u32)>,
    /// Further occurrences, by tree: (tree, place).
    repeats: Vec<(u32, u32)>,
}

impl Distinct {
    pub(crate) fn new(roots: &[NodeId]) -> Self {
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
    fn among(&self, others: &Self) -> Vec<u32> {
        let number: std::collections::HashMap<NodeId, u32> =
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

    /// Where the trees `from..to` stand: (tree - from, place), by tree.
    fn places(&self, from: usize, to: usize) -> Vec<(u32, u32)> {
        let mut places: Vec<(u32, u32)> =
            (from..to).map(|t| (t as u32, self.first[t])).collect();
        let start = self.repeats.partition_point(|repeat| (repeat.0 as usize) < from);
        let end = self.repeats.partition_point(|repeat| (repeat.0 as usize) < to);
        places.extend_from_slice(&self.repeats[start..end]);
        places.sort_unstable();
        places.iter().map(|&(tree, place)| (tree - from as u32, place)).collect()
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
    pub(crate) singles: Option<&'a dyn Single>,
    /// Per row the column of the same tree, or [`NONE`].
    pub(crate) same: &'a [u32],
    pub(crate) largest: f64,
}

impl Finish<'_> {
    /// A worker for pairs; None where nothing is normalised.
    pub(crate) fn worker(&self) -> Option<Worker<'_>> {
        self.singles.map(Single::worker)
    }

    /// Normalises a row, or makes sure that it is finite.
    pub(crate) fn row(
        &self,
        x: usize,
        row: &mut [f64],
        worker: &mut Option<Worker<'_>>,
        overflow: impl Fn(usize) -> Error,
    ) -> Result<()> {
        let Some(of) = worker else {
            let largest = self.largest;
            // Counted to the end: so it is one comparison per vector of values.
            let fits = |value: &&f64| **value <= largest;
            if row.iter().filter(fits).count() == row.len() {
                return Ok(());
            }
            let fitting = row.iter().take_while(fits).count();
            return Err(overflow(fitting));
        };
        let scale = self.row_scale[x];
        for (t, (value, &other)) in row.iter_mut().zip(self.column_scale).enumerate() {
            let factor = scale * other;
            *value = if factor.is_nan() {
                of(self.first_row + x, t)?
                    .normalized(self.row_self[x], self.column_self[t])
            } else {
                // Rounding may take the value of two different trees just above 1.
                (*value * factor).min(1.0)
            };
        }
        if scale != 0.0
            && let Some(value) = row.get_mut(self.same[x] as usize)
        {
            *value = 1.0;
        }
        Ok(())
    }
}

/// The matrix at work.
pub(crate) struct Matrix<'a, T> {
    pub(crate) out: &'a mut [T],
    pub(crate) columns: &'a Distinct,
    /// None: the columns, too.
    pub(crate) rows: Option<&'a Distinct>,
    pub(crate) options: Options,
}

impl<T: Element> Matrix<'_, T> {
    /// Computes and stores all rows. `singles` has the columns' trees, followed by the
    /// rows' where these are others; None: the matrix is not normalised.
    pub(crate) fn fill<E: Engine>(
        mut self,
        engine: &E,
        singles: Option<&dyn Single>,
        watch: &mut Watch<'_>,
    ) -> Result<Report> {
        let n_columns = self.columns.len();
        let rows = self.rows.unwrap_or(self.columns);
        let n_pairs = n_columns + self.rows.map_or(0, Distinct::len);
        let selfs = match singles {
            Some(of) => self_kernels(of, n_pairs, self.options.n_jobs, watch)?,
            None => Vec::new(),
        };
        let scales: Vec<f64> = selfs.iter().map(|&value| scale(value)).collect();
        let first_row = if self.rows.is_some() { n_columns } else { 0 };
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
        };
        let report = Report {
            zero_rows: rows.zeros(finish.row_scale),
            zero_columns: self.columns.zeros(finish.column_scale),
        };
        if self.rows.is_none() {
            self.fill_symmetric(engine, &finish, watch)?;
        } else {
            self.fill_rectangle(engine, &finish, watch)?;
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
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        let Some(rows) = self.rows else { return Ok(()) };
        let (n, width) = (rows.len(), self.columns.len());
        let out = std::mem::take(&mut self.out);
        let split = rows.split_rows(out, self.columns.of.len());
        let team = Team::new(self.options.n_jobs, n);
        let mut scratch: Vec<_> = (0..team.size())
            .map(|_| (engine.scratch(), finish.worker(), vec![0.0; width]))
            .collect();
        let Rows { first, repeats } = split;
        let cells: Vec<Mutex<&mut [T]>> = first.into_iter().map(Mutex::new).collect();
        team.run(
            n,
            &mut scratch,
            |x, (engine_scratch, worker, values), pause| {
                engine.long_row(x, engine_scratch, values, pause)?;
                finish.row(x, values, worker, |t| self.overflow(x, t))?;
                if let Ok(mut row) = cells[x].lock() {
                    self.columns.spread(0, values, &mut row);
                }
                Ok(())
            },
            &mut |done| watch(done, n),
        )?;
        let first =
            cells.into_iter().filter_map(|cell| cell.into_inner().ok()).collect();
        Rows { first, repeats }.copy_repeats();
        watch(n, n)
    }

    fn fill_symmetric<E: Engine>(
        &mut self,
        engine: &E,
        finish: &Finish<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<()> {
        let n = self.columns.len();
        let out = std::mem::take(&mut self.out);
        let mut rows = self.columns.split_rows(out, self.columns.of.len());
        let team = Team::new(self.options.n_jobs, n);
        // An odd number of cache lines: the rows of a column then fall into different
        // sets of the cache, whatever n is.
        let stride = n.div_ceil(LINE) / 2 * 2 * LINE + LINE;
        let height = (BLOCK_BYTES / 8 / stride).clamp(TILE, HEIGHT).min(n);
        let new = || (engine.scratch(), finish.worker(), vec![0.0; height * stride]);
        let mut scratch: Vec<_> = (0..team.size()).map(|_| new()).collect();
        // Each worker has a block of its own, and locks some rows of the result at a
        // time. (With blocks filled and stored by all workers in turn, two were only 1.25
        // times as fast as one: half of what one read was in the other's cache.)
        let tiles: Vec<_> = rows.first.chunks_mut(TILE).map(Mutex::new).collect();
        team.run(
            n.div_ceil(height),
            &mut scratch,
            |number, (engine_scratch, worker, values), pause| {
                let (start, end) = (number * height, n.min((number + 1) * height));
                for (x, row) in (start..end).zip(values.chunks_mut(stride)) {
                    let row = &mut row[..=x];
                    engine.long_row(x, engine_scratch, row, pause)?;
                    finish.row(x, row, worker, |t| self.overflow(x, t))?;
                    pause()?;
                }
                let places = self.columns.places(start, end);
                let block = Block { values, stride, start, end, places };
                for (tile, rows) in tiles[..end.div_ceil(TILE)].iter().enumerate() {
                    if let Ok(mut rows) = rows.lock() {
                        block.store(self.columns, tile * TILE, &mut rows);
                    }
                }
                Ok(())
            },
            &mut |done| watch((done * height).min(n), n),
        )?;
        drop(tiles);
        rows.copy_repeats();
        watch(n, n)
    }
}

/// 1 / sqrt(value); 0 for 0, NaN where floats do not do.
pub(crate) fn scale(value: Scaled) -> f64 {
    match value.value() {
        _ if value.is_zero() => 0.0,
        float if float < LARGEST && float > 1.0 / LARGEST => 1.0 / float.sqrt(),
        _ => f64::NAN,
    }
}

/// Some rows of a lower triangle, from `start` on.
struct Block<'a> {
    values: &'a [f64],
    /// Cells from row to row.
    stride: usize,
    start: usize,
    end: usize,
    /// Where the block's trees stand in a row of the result: (row of the block, place).
    places: Vec<(u32, u32)>,
}

impl Block<'_> {
    /// Stores what the block has for the rows of some consecutive trees: for each tree
    /// up to itself from its own row, from there on mirrored.
    fn store<T: Element>(
        &self,
        columns: &Distinct,
        first: usize,
        rows: &mut [&mut [T]],
    ) {
        if first + rows.len() <= self.start {
            return self.mirror(first, rows);
        }
        for (tree, row) in (first..self.end).zip(rows) {
            let row: &mut [T] = row;
            let mut offset = 0;
            if tree >= self.start {
                let own = &self.values[(tree - self.start) * self.stride..][..=tree];
                columns.spread(0, own, row);
                offset = tree - self.start + 1;
            }
            let skip = self.places.partition_point(|place| (place.0 as usize) < offset);
            let column = &self.values[tree..];
            for &(cell, place) in &self.places[skip..] {
                row[place as usize] = T::of(column[cell as usize * self.stride]);
            }
        }
    }

    /// The same for trees before the block. A line of the cache at a time for every
    /// row: the memory of several rows is then waited for at once.
    fn mirror<T: Element>(&self, first: usize, rows: &mut [&mut [T]]) {
        let column = &self.values[first..];
        for places in self.places.chunks(LINE) {
            let (cell, place) = (places[0].0 as usize, places[0].1 as usize);
            let (last_cell, last_place) = places[places.len() - 1];
            let in_a_row = places.len() == LINE
                && last_cell as usize == cell + LINE - 1
                && last_place as usize == place + LINE - 1;
            if in_a_row {
                let lines: [&[f64]; LINE] = std::array::from_fn(|k| {
                    &column[(cell + k) * self.stride..][..rows.len()]
                });
                for (lane, row) in rows.iter_mut().enumerate() {
                    let cells = &mut row[place..place + LINE];
                    for (cell, line) in cells.iter_mut().zip(lines) {
                        *cell = T::of(line[lane]);
                    }
                }
            } else {
                for &(cell, place) in places {
                    let line = &column[cell as usize * self.stride..];
                    for (row, &value) in rows.iter_mut().zip(line) {
                        row[place as usize] = T::of(value);
                    }
                }
            }
        }
    }
}
