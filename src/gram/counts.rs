//! Integer dot products of one tree's counts with those of all trees.
//!
//! Every pair of nodes with the same production adds at least λ to the subset tree
//! kernel, and every pair of equal leaves `leaf_weight`: both are a weight times an
//! integer, Σ over symbols of count in x · count in t. Frequent symbols (in more than
//! one tree of 32) keep a dense column of counts that is added as it stands, in 16 bits
//! where all results fit, others a list of (tree, count).

use std::ops::{Add, Mul};

use super::vector::vectorized;
use crate::Result;
use crate::intern::new_id;

/// Counts of symbols `0..n_symbols` in trees, by symbol.
#[derive(Debug)]
pub(crate) struct Counts {
    n_trees: usize,
    /// Per symbol: where its list ends.
    ends: Vec<u32>,
    trees: Vec<u32>,
    times: Vec<u32>,
    /// Per symbol: the number of its dense column, or `SPARSE`.
    column: Vec<u32>,
    narrow: Vec<u16>,
    wide: Vec<u64>,
}

const SPARSE: u32 = u32::MAX;
/// A symbol has a dense column if more than one tree in so many has it.
const DENSE: usize = 32;

/// What a worker needs: the accumulators of one row.
#[derive(Debug, Default)]
pub(crate) struct CountsScratch {
    narrow: Vec<u16>,
    wide: Vec<u64>,
}

impl Counts {
    /// From the symbols of each column's tree with their counts, each symbol at most once
    /// a tree; `rows` is the [`largest_square`] of the rows' trees, which 16 bits have to
    /// hold as well.
    pub(crate) fn new<I>(
        n_symbols: usize,
        trees: impl Fn(usize) -> I,
        n: usize,
        rows: f64,
    ) -> Result<Self>
    where
        I: Iterator<Item = (u32, u32)>,
    {
        let mut ends = vec![0u32; n_symbols + 1];
        let mut total = 0;
        let mut largest = rows;
        for tree in 0..n {
            let mut square = 0.0;
            for (symbol, count) in trees(tree) {
                ends[symbol as usize + 1] += 1;
                total += 1;
                square += f64::from(count) * f64::from(count);
            }
            largest = largest.max(square);
        }
        new_id(total, "pairs of tree and production")?;
        // No dot product of two trees exceeds the larger of their squared lengths.
        let fits = largest <= f64::from(u16::MAX);
        for symbol in 0..n_symbols {
            ends[symbol + 1] += ends[symbol];
        }
        let (mut at, mut tree_list, mut count_list) =
            (ends.clone(), vec![0; total], vec![0; total]);
        for tree in 0..n {
            for (symbol, count) in trees(tree) {
                let place = at[symbol as usize] as usize;
                at[symbol as usize] += 1;
                tree_list[place] = tree as u32;
                count_list[place] = count;
            }
        }
        let mut counts = Self {
            n_trees: n,
            ends,
            trees: tree_list,
            times: count_list,
            column: vec![SPARSE; n_symbols],
            narrow: Vec::new(),
            wide: Vec::new(),
        };
        let mut columns = 0;
        for symbol in 0..n_symbols {
            let list = counts.list(symbol);
            if list.len() * DENSE <= n {
                continue;
            }
            if fits {
                counts.narrow.resize((columns + 1) * n, 0);
                for place in list {
                    let tree = counts.trees[place] as usize;
                    counts.narrow[columns * n + tree] = counts.times[place] as u16;
                }
            } else {
                counts.wide.resize((columns + 1) * n, 0);
                for place in list {
                    let tree = counts.trees[place] as usize;
                    counts.wide[columns * n + tree] = u64::from(counts.times[place]);
                }
            }
            counts.column[symbol] = columns as u32;
            columns += 1;
        }
        if !fits && columns == 0 {
            counts.wide.push(0); // what tells that 16 bits do not do
        }
        Ok(counts)
    }

    #[inline]
    fn list(&self, symbol: usize) -> std::ops::Range<usize> {
        self.ends[symbol] as usize..self.ends[symbol + 1] as usize
    }

    pub(crate) fn scratch(&self) -> CountsScratch {
        let mut scratch = CountsScratch::default();
        if self.wide.is_empty() {
            scratch.narrow = vec![0; self.n_trees];
        } else {
            scratch.wide = vec![0; self.n_trees];
        }
        scratch
    }

    /// Computes the dot products of a tree of these symbols with the first `end` trees.
    pub(crate) fn sum(
        &self,
        symbols: impl Iterator<Item = (u32, u32)>,
        scratch: &mut CountsScratch,
        end: usize,
    ) {
        if self.wide.is_empty() {
            let sums = &mut scratch.narrow[..end];
            vectorized(|| accumulate(self, &self.narrow, symbols, sums, |c| c as u16));
        } else {
            let sums = &mut scratch.wide[..end];
            accumulate(self, &self.wide, symbols, sums, u64::from);
        }
    }

    /// Adds `weight` times the dot products with a tree of these symbols to the values
    /// of the first `row.len()` trees.
    pub(crate) fn add_to(
        &self,
        symbols: impl Iterator<Item = (u32, u32)>,
        weight: f64,
        scratch: &mut CountsScratch,
        row: &mut [f64],
    ) {
        self.sum(symbols, scratch, row.len());
        scratch.add_to(weight, row);
    }
}

/// The largest squared length of some trees' counts, of which those of a tree are the
/// items up to its end. A symbol may come more than once in a tree, so the square of the
/// sum stands for it.
pub(crate) fn largest_square(ends: &[u32], items: &[(u32, u32)]) -> f64 {
    let (mut largest, mut start) = (0.0f64, 0);
    for &end in ends {
        let own = &items[start..end as usize];
        let sum: f64 = own.iter().map(|item| f64::from(item.1)).sum();
        largest = largest.max(sum * sum);
        start = end as usize;
    }
    largest
}

impl CountsScratch {
    fn add_to(&self, weight: f64, row: &mut [f64]) {
        vectorized(|| {
            for (value, sum) in row.iter_mut().zip(&self.narrow) {
                *value += weight * f64::from(*sum);
            }
        });
        for (value, sum) in row.iter_mut().zip(&self.wide) {
            *value += weight * *sum as f64;
        }
    }

    /// Writes `weight * self + other_weight * other`: in one pass where both are narrow.
    pub(crate) fn write(
        &self,
        weight: f64,
        other: &Self,
        other_weight: f64,
        row: &mut [f64],
    ) {
        if self.wide.is_empty() && other.wide.is_empty() {
            let both = self.narrow.iter().zip(&other.narrow);
            vectorized(|| {
                for (value, (&sum, &more)) in row.iter_mut().zip(both) {
                    *value = weight * f64::from(sum) + other_weight * f64::from(more);
                }
            });
        } else {
            row.fill(0.0);
            self.add_to(weight, row);
            other.add_to(other_weight, row);
        }
    }
}

/// Sums into `sums`, one integer type for all: lists by scatter, dense columns four at a
/// time, which saves three in four of the passes over the sums (measured: 1.5x).
#[inline(always)] // into the function that is compiled for AVX2
#[allow(clippy::inline_always)]
fn accumulate<T>(
    counts: &Counts,
    columns: &[T],
    symbols: impl Iterator<Item = (u32, u32)>,
    sums: &mut [T],
    narrow: impl Fn(u32) -> T,
) where
    T: Copy + Default + std::ops::AddAssign + Mul<Output = T> + Add<Output = T>,
{
    sums.fill(T::default());
    let end = sums.len();
    let empty: (&[T], T) = (&[], T::default());
    let mut four = [empty; 4];
    let mut filled = 0;
    for (symbol, count) in symbols {
        let count = narrow(count);
        match counts.column[symbol as usize] {
            SPARSE => {
                for place in counts.list(symbol as usize) {
                    let tree = counts.trees[place] as usize;
                    if tree >= end {
                        break;
                    }
                    sums[tree] += count * narrow(counts.times[place]);
                }
            }
            column => {
                let start = column as usize * counts.n_trees;
                four[filled] = (&columns[start..start + end], count);
                filled += 1;
                if filled == 4 {
                    let [(a, k), (b, l), (c, m), (d, n)] = four;
                    let all = sums.iter_mut().zip(a).zip(b).zip(c).zip(d);
                    for ((((sum, &a), &b), &c), &d) in all {
                        *sum += (k * a + l * b) + (m * c + n * d);
                    }
                    filled = 0;
                }
            }
        }
    }
    for &(column, count) in &four[..filled] {
        for (sum, &other) in sums.iter_mut().zip(column) {
            *sum += count * other;
        }
    }
}
