//! Integer dot products of one tree's counts with those of all trees.
//!
//! Every pair of nodes with the same production adds at least λ to the subset tree
//! kernel, and every pair of equal leaves `leaf_weight`: both are a weight times an
//! integer, Σ over symbols of count in x · count in t. Frequent symbols (in more than
//! one tree of 24) keep a dense column of counts that is added as it stands, in 16 bits
//! where all results fit, others a list of (tree, count).

// What is inlined into the function that is compiled for AVX2.
#![allow(clippy::inline_always)]

use std::ops::{Add, AddAssign, Mul};

use crate::Result;
use crate::intern::new_id;
use crate::lists::Lists;
use crate::vector::{Loop, vectorized};

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
const DENSE: usize = 24;

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
            accumulate(self, &self.narrow, symbols, sums, |c| c as u16);
        } else {
            let sums = &mut scratch.wide[..end];
            accumulate(self, &self.wide, symbols, sums, u64::from);
        }
    }
}

/// A weight times the dot products of rows' trees with the columns'.
#[derive(Debug)]
pub(crate) struct Products {
    pub(crate) weight: f64,
    /// By row: symbols with counts.
    pub(crate) rows: Lists<(u32, u32)>,
    pub(crate) counts: Counts,
}

impl Products {
    /// From the symbols of each of `n` columns' trees with their counts, each symbol at
    /// most once a tree, and of the rows' trees.
    pub(crate) fn new<I>(
        weight: f64,
        n_symbols: usize,
        columns: impl Fn(usize) -> I,
        n: usize,
        rows: Lists<(u32, u32)>,
    ) -> Result<Self>
    where
        I: Iterator<Item = (u32, u32)>,
    {
        let counts = Counts::new(n_symbols, columns, n, largest_square(&rows))?;
        Ok(Self { weight, rows, counts })
    }

    /// Computes the dot products of a row's tree with the first `end` trees.
    pub(crate) fn sum(&self, x: usize, scratch: &mut CountsScratch, end: usize) {
        self.counts.sum(self.rows.get(x).iter().copied(), scratch, end);
    }

    /// Adds what a row's tree has in common with the first `row.len()` trees.
    pub(crate) fn add_to(
        &self,
        x: usize,
        scratch: &mut CountsScratch,
        row: &mut [f64],
    ) {
        self.sum(x, scratch, row.len());
        scratch.add_to(self.weight, row);
    }
}

/// The largest squared length of some trees' counts. A symbol may come more than once in
/// a tree, so the square of the sum stands for it.
pub(crate) fn largest_square(trees: &Lists<(u32, u32)>) -> f64 {
    let sum = |own: &[(u32, u32)]| own.iter().map(|item| f64::from(item.1)).sum();
    let squares = trees.iter().map(sum).map(|sum: f64| sum * sum);
    squares.fold(0.0, f64::max)
}

/// How often symbols `0..n_symbols` stand in the tree at hand.
pub(crate) struct Tally {
    /// By symbol; zero between trees.
    times: Vec<u32>,
    met: Vec<u32>,
}

impl Tally {
    pub(crate) fn new(n_symbols: usize) -> Self {
        Self { times: vec![0; n_symbols], met: Vec::new() }
    }

    /// Adds to a symbol's count, of nodes of one tree: [`crate::kernel::Bags`] sees to it
    /// that they are less than 2^32.
    #[inline]
    pub(crate) fn add(&mut self, symbol: u32, times: u32) {
        let sum = &mut self.times[symbol as usize];
        if *sum == 0 {
            self.met.push(symbol);
        }
        *sum += times;
    }

    /// The symbols with their counts, in the order in which they were met first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (u32, u32)> {
        let Self { times, met } = self;
        met.drain(..).map(|s| (s, std::mem::take(&mut times[s as usize])))
    }
}

impl CountsScratch {
    fn add_to(&self, weight: f64, row: &mut [f64]) {
        vectorized(AddWeighted { row, sums: &self.narrow, weight });
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
            let sums = [(&*self.narrow, weight), (&*other.narrow, other_weight)];
            vectorized(WriteWeighted { row, sums });
        } else {
            row.fill(0.0);
            self.add_to(weight, row);
            other.add_to(other_weight, row);
        }
    }
}

/// `row += weight * sums`.
struct AddWeighted<'a> {
    row: &'a mut [f64],
    sums: &'a [u16],
    weight: f64,
}

impl Loop for AddWeighted<'_> {
    #[inline(always)]
    fn run(self) {
        for (value, &sum) in self.row.iter_mut().zip(self.sums) {
            *value += self.weight * f64::from(sum);
        }
    }
}

/// `row = weight * sums + other weight * other sums`.
struct WriteWeighted<'a> {
    row: &'a mut [f64],
    sums: [(&'a [u16], f64); 2],
}

impl Loop for WriteWeighted<'_> {
    #[inline(always)]
    fn run(self) {
        let [(sums, weight), (others, other_weight)] = self.sums;
        for ((value, &sum), &other) in self.row.iter_mut().zip(sums).zip(others) {
            *value = weight * f64::from(sum) + other_weight * f64::from(other);
        }
    }
}

/// A dense column, and what it is to be multiplied by.
type Weighted<'a, T> = (&'a [T], T);

/// `sums += Σ weight * column` of four columns at a time, which saves three in four of
/// the passes over the sums (measured: 1.5x).
struct AddFour<'a, T> {
    sums: &'a mut [T],
    columns: [Weighted<'a, T>; 4],
}

impl<T> Loop for AddFour<'_, T>
where
    T: Copy + AddAssign + Mul<Output = T> + Add<Output = T>,
{
    #[inline(always)]
    fn run(self) {
        let [(a, k), (b, l), (c, m), (d, n)] = self.columns;
        let all = self.sums.iter_mut().zip(a).zip(b).zip(c).zip(d);
        for ((((sum, &a), &b), &c), &d) in all {
            *sum += (k * a + l * b) + (m * c + n * d);
        }
    }
}

/// Sums into `sums`, one integer type for all: lists by scatter, dense columns by
/// vectors.
fn accumulate<T>(
    counts: &Counts,
    columns: &[T],
    symbols: impl Iterator<Item = (u32, u32)>,
    sums: &mut [T],
    narrow: impl Fn(u32) -> T,
) where
    T: Copy + Default + AddAssign + Mul<Output = T> + Add<Output = T>,
{
    sums.fill(T::default());
    let end = sums.len();
    let empty: Weighted<'_, T> = (&[], T::default());
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
                    vectorized(AddFour { sums, columns: four });
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
