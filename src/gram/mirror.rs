//! Finished rows of a symmetric matrix, mirrored into the columns above.
//!
//! Row by row a mirrored value would cost a line of the cache each. So some rows are
//! mirrored together, and every row above gets a strip of as many cells, cut into whole
//! lines: they go past the caches ([`stream`](crate::nontemporal)), and only what is left at
//! the two ends of a strip is stored ordinarily.
//!
//! # What was tried
//! The 5,452 questions of TREC, nanoseconds per pair of trees for storing both halves
//! (238 MB): strips 128 wide out of a copy of the rows, ordinary stores 1.3; streamed 1.2;
//! out of the result's own rows, without a copy, 1.0; rows whose lines start alike taken
//! together, so that a line's eight rows stay in registers, 64 rows at a time, strips 256
//! wide 1.0. A line per row as soon as it is full (eight rows at a time, still in the
//! second-level cache): 2.4, for each line is on a page of its own. On two threads, which
//! share the memory's bandwidth, a matrix of all questions gains a sixth.
//!
//! What safe code reaches, processor time per pair. Mirroring alone: streamed 0.52, strips with
//! ordinary stores 0.98, tiles of 8 rows by 256 columns 1.49 (8 x 32: 1.44, 64 x 32: 1.41).
//! Whole matrices: SST 5.06 streamed, 5.70 with ordinary stores, 6.48 if each row above is
//! written in turn; ST 2.13, 2.61 and 3.33.

use super::matrix::{Distinct, Element, Stretch};
use crate::Result;
use crate::memory::collect;
use crate::nontemporal::{LINE_BYTES, fence};

/// Rows of the result that are written in turns, a line each. (32 cost 5 % more.)
const LANES: usize = 64;

/// Rows that are mirrored into each other cell by cell.
const CORNER: usize = 32;

/// Mirrors what the rows of some consecutive trees, from `start` on, have for each other.
pub(crate) fn mirror_within<T: Element>(
    columns: &Distinct,
    start: usize,
    rows: &mut [&mut [T]],
) -> Result<()> {
    for corner in (0..rows.len()).step_by(CORNER) {
        // The rows before it are mirrored by strips, those of a corner one by one.
        let (before, corner_rows) = rows.split_at_mut(corner);
        let len = corner_rows.len().min(CORNER);
        let corner_rows = &mut corner_rows[..len];
        for tree in 0..len {
            let (above, from) = corner_rows.split_at_mut(tree);
            mirror_cells(columns, start + corner, above, from[0]);
        }
        Strip::new(columns, start + corner, corner_rows)?.store(start, before);
    }
    Ok(())
}

/// Mirrors the row of the tree that follows those of `above`, which are from `first` on.
fn mirror_cells<T: Element>(
    columns: &Distinct,
    first: usize,
    above: &mut [&mut [T]],
    from: &[T],
) {
    // Rows follow one another, so this one's tree is the next.
    let tree = first + above.len();
    let place = columns.first[tree] as usize;
    let repeats = columns.repeats(tree, tree + 1);
    for (to, &column) in above.iter_mut().zip(&columns.first[first..]) {
        let value = from[column as usize];
        to[place] = value;
        for &(_, place) in repeats {
            to[place as usize] = value;
        }
    }
}

/// Finished rows of some consecutive trees, to be mirrored into those of earlier trees.
pub(crate) struct Strip<'a, T> {
    rows: Vec<&'a [T]>,
    /// The first row's tree.
    start: usize,
    stretches: Vec<Stretch>,
    /// Further occurrences: (tree, place).
    repeats: &'a [(u32, u32)],
    columns: &'a Distinct,
}

impl<'a, T: Element> Strip<'a, T> {
    pub(crate) fn new(
        columns: &'a Distinct,
        start: usize,
        rows: &'a [&mut [T]],
    ) -> Result<Self> {
        let end = start + rows.len();
        Ok(Self {
            rows: collect(rows.iter().map(|row| &**row))?,
            start,
            stretches: columns.stretches(start, end)?,
            repeats: columns.repeats(start, end),
            columns,
        })
    }

    /// Stores what there is for the rows of some consecutive trees.
    pub(crate) fn store(&self, first: usize, rows: &mut [&mut [T]]) {
        let places = &self.columns.first[first..first + rows.len()];
        let mut from = 0;
        while from < rows.len() {
            // As long as neighbours in the result are neighbours in a row of the strip.
            let in_order =
                |at: &usize| places[*at] as usize == places[from] as usize + at - from;
            let end = rows.len().min(from + LANES);
            let to = from + (from..end).take_while(in_order).count();
            self.mirror(places[from] as usize, &mut rows[from..to]);
            from = to;
        }
        // Streamed stores become visible to other threads with a fence.
        fence();
    }

    /// The same for rows whose trees stand at `column` and the places that follow.
    fn mirror(&self, column: usize, rows: &mut [&mut [T]]) {
        for stretch in &self.stretches {
            let sources = stretch.start - self.start..stretch.end - self.start;
            let lines =
                Lines { sources: &self.rows[sources], column, place: stretch.place };
            if size_of::<T>() == 8 {
                lines.store::<8>(rows);
            } else {
                lines.store::<16>(rows);
            }
        }
        for &(tree, place) in self.repeats {
            // Too few and too scattered for whole lines.
            let source = &self.rows[tree as usize - self.start][column..];
            for (row, &value) in rows.iter_mut().zip(source) {
                row[place as usize] = value;
            }
        }
    }
}

/// Rows that become columns from `place` on, read from `column` on.
struct Lines<'a, T> {
    sources: &'a [&'a [T]],
    column: usize,
    place: usize,
}

impl<T: Element> Lines<'_, T> {
    /// Stores them, `N` cells to a line of the cache.
    fn store<const N: usize>(&self, rows: &mut [&mut [T]]) {
        let n = rows.len();
        // In which cell of a row its first whole line starts.
        // Rows start anywhere, so whole lines of the cache start at different cells in
        // each.
        let heads: [usize; LANES] = std::array::from_fn(|lane| {
            rows.get(lane)
                .map_or(N, |row| row[self.place..].as_ptr().align_offset(LINE_BYTES))
        });
        // By where that is: rows that are alike are written together, a line of each in
        // turn.
        for head in 0..N {
            let mut lanes = [0; LANES];
            let mut len = 0;
            for lane in (0..n).filter(|&lane| heads[lane] == head) {
                lanes[len] = lane;
                len += 1;
            }
            if len > 0 {
                self.store_alike::<N>(rows, &lanes[..len], head);
            }
        }
    }

    /// The same for some of the rows, whose first whole lines start in the same cell.
    fn store_alike<const N: usize>(
        &self,
        rows: &mut [&mut [T]],
        lanes: &[usize],
        head: usize,
    ) {
        let Self { sources, column, place } = *self;
        // The strip may be shorter than the way to the first whole line.
        let head = head.min(sources.len());
        let (before, others) = sources.split_at(head);
        let lines = others.chunks_exact(N);
        let after = lines.remainder();
        // What is before the first whole line and after the last one, cell by cell.
        for (sources, place) in
            [(before, place), (after, place + sources.len() - after.len())]
        {
            for &lane in lanes {
                let cells = &mut rows[lane][place..place + sources.len()];
                for (cell, source) in cells.iter_mut().zip(sources) {
                    *cell = source[column + lane];
                }
            }
        }
        for (number, line) in lines.enumerate() {
            // N rows of the strip make one line in each row of the result.
            let line: [&[T]; N] =
                std::array::from_fn(|k| &line[k][column..column + rows.len()]);
            let place = place + head + number * N;
            for &lane in lanes {
                T::stream(&mut rows[lane][place..place + N], |k| line[k][lane]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cells of a symmetric matrix of trees, mirrored strip by strip, against the
    /// definition: whatever the alignment of rows, repeats and heights of strips.
    fn check<T: Element + PartialEq + std::fmt::Debug>(trees: &[u32], height: usize) {
        let columns = Distinct::new(trees.iter().map(Ok)).unwrap();
        let (n, width) = (columns.len(), trees.len());
        let value = |x: usize, t: usize| T::of((x.max(t) * 1000 + x.min(t)) as f64);
        let mut out = vec![T::of(-1.0); n * width];
        let mut rows: Vec<&mut [T]> = out.chunks_mut(width).collect();
        for start in (0..n).step_by(height) {
            let end = n.min(start + height);
            for (x, out) in (start..end).zip(&mut rows[start..end]) {
                let row: Vec<f64> = (0..=x).map(|t| (x * 1000 + t) as f64).collect();
                columns.spread(0, &row, out);
            }
            let (before, block) = rows.split_at_mut(start);
            let block = &mut block[..end - start];
            mirror_within(&columns, start, block).unwrap();
            Strip::new(&columns, start, block).unwrap().store(0, before);
        }
        for (x, row) in rows.iter().enumerate() {
            for (place, cell) in row.iter().enumerate() {
                let t = columns.of[place] as usize;
                assert_eq!(*cell, value(x, t), "{trees:?} by {height}: {x}, {place}");
            }
        }
    }

    #[test]
    fn mirrored_rows_are_the_columns() {
        for n in [1, 7, 8, 64, 65, 131, 200] {
            let all: Vec<u32> = (0..n).collect();
            let repeated: Vec<u32> =
                (0..n).map(|t| if t % 9 == 7 { t / 2 } else { t }).collect();
            for height in [1, 5, 8, 16, 33, 70] {
                for trees in [&all, &repeated] {
                    check::<f64>(trees, height);
                    check::<f32>(trees, height);
                }
            }
        }
    }
}
