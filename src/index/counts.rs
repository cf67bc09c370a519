//! Integer dot products of one tree's counts with those of all trees.
//!
//! Every pair of nodes with the same production adds at least λ to the subset tree
//! kernel, and every pair of equal leaves `leaf_weight`: both are a weight times an
//! integer, Σ over symbols of count in x · count in t. Frequent symbols (in more than
//! one tree of 24) keep a dense column of counts that is added as it stands, in 16 bits
//! where all results fit, others a list of (tree, count).

// What is inlined into the function that is compiled for AVX2.
#![allow(clippy::inline_always)]

use std::ops::{Add, AddAssign, Mul, Range};

use crate::ids::{Id, IdVec, TreeId};
use crate::intern::new_id;
use crate::kernel::TreeCounts;
use crate::memory::{collect, extend, filled, reach, reserve};
use crate::ragged::Ragged;
use crate::vector::{Loop, vectorized};
use crate::{NodeId, Result};

/// Counts of symbols `0..n_symbols` in trees, by symbol: a production, a label, whatever has an
/// id.
#[derive(Debug)]
pub(crate) struct Counts<S> {
    n_trees: usize,
    /// One more than there are, whose list starts where the last one ends.
    symbols: IdVec<S, Symbol>,
    /// By symbol, the trees that have it, and how often.
    items: Vec<(TreeId, u32)>,
    narrow: Vec<u16>,
    /// In their place, where counts do not fit 16 bits.
    wide: Vec<u64>,
    /// The largest squared length of a tree's counts.
    largest: f64,
}

/// Where the list of a symbol starts, and the number of its dense column, or `SPARSE`:
/// side by side, as both are far away when they are asked for.
#[derive(Debug, Clone, Copy)]
struct Symbol {
    start: u32,
    column: u32,
}

const SPARSE: u32 = u32::MAX;
/// A symbol has a dense column if more than one tree in so many has it.
const DENSE: usize = 24;

/// What a worker needs: the accumulators of one row.
#[derive(Debug, Default)]
pub(crate) struct CountsScratch {
    narrow: Vec<u16>,
    /// In their place, where 16 bits do not hold the products of the row at hand.
    wide: Vec<u64>,
    is_wide: bool,
}

impl<S: Id> Counts<S> {
    /// From the symbols of each column's tree with their counts, each symbol at most once
    /// a tree.
    pub(crate) fn new<I>(
        n_symbols: usize,
        trees: impl Fn(usize) -> I,
        n: usize,
    ) -> Result<Self>
    where
        I: Iterator<Item = (S, u32)>,
    {
        // 1. Lists by symbol, filled by counting.
        let mut ends = filled(0u32, n_symbols + 1)?;
        let mut total = 0;
        let mut largest = 0.0f64;
        for tree in 0..n {
            let mut square = 0.0;
            for (symbol, count) in trees(tree) {
                ends[symbol.index() + 1] += 1;
                total += 1;
                square += f64::from(count) * f64::from(count);
            }
            largest = largest.max(square);
        }
        // Starts are `u32`.
        new_id(total, "pairs of tree and production")?;
        // A count is at most the length of its tree's counts.
        let fits = largest <= f64::from(u16::MAX) * f64::from(u16::MAX);
        // `ends[s]` is where symbol s starts, as each was counted one further.
        for symbol in 0..n_symbols {
            ends[symbol + 1] += ends[symbol];
        }
        let symbol = |&start: &u32| Symbol { start, column: SPARSE };
        let symbols = collect(ends.iter().map(symbol))?;
        let (mut at, mut items) = (ends, filled((TreeId(0), 0), total)?);
        for tree in 0..n {
            for (symbol, count) in trees(tree) {
                let place = &mut at[symbol.index()];
                items[*place as usize] = (TreeId::at(tree), count);
                *place += 1;
            }
        }
        let mut counts = Self {
            n_trees: n,
            symbols: symbols.into(),
            items,
            narrow: Vec::new(),
            wide: Vec::new(),
            largest,
        };
        // 2. Dense columns of the frequent ones.
        let mut columns = 0;
        for symbol in (0..n_symbols).map(S::at) {
            let list = counts.bounds(symbol);
            // A list is shorter where few trees have the symbol.
            if list.len() * DENSE <= n {
                continue;
            }
            let (list, first) = (&counts.items[list], columns * n);
            if fits {
                reach(&mut counts.narrow, first + n, 0)?;
                for &(tree, times) in list {
                    counts.narrow[first + tree.index()] = times as u16;
                }
            } else {
                reach(&mut counts.wide, first + n, 0)?;
                for &(tree, times) in list {
                    counts.wide[first + tree.index()] = u64::from(times);
                }
            }
            counts.symbols[symbol].column = columns as u32;
            columns += 1;
        }
        Ok(counts)
    }

    /// Whether any tree has a symbol.
    pub(crate) fn has(&self, symbol: S) -> bool {
        !self.list(symbol).is_empty()
    }

    pub(crate) fn nbytes(&self) -> usize {
        let lists = (self.symbols.len() + self.items.len()) * 8;
        lists + self.narrow.len() * 2 + self.wide.len() * 8
    }

    #[inline]
    fn list(&self, symbol: S) -> &[(TreeId, u32)] {
        &self.items[self.bounds(symbol)]
    }

    /// Where the list of a symbol stands. The next symbol's start is this one's end.
    #[inline]
    fn bounds(&self, symbol: S) -> Range<usize> {
        let next = S::at(symbol.index() + 1);
        self.symbols[symbol].start as usize..self.symbols[next].start as usize
    }

    /// Adds the trees that have one of some symbols to others, a tree perhaps several
    /// times, unless these are more than so many; whether they are not.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn meet(
        &self,
        symbols: &[(S, u32)],
        most: usize,
        met: &mut Vec<u32>,
    ) -> Result<bool> {
        for &(symbol, _) in symbols {
            let list = self.list(symbol);
            if met.len() + list.len() > most {
                return Ok(false);
            }
            extend(met, list.iter().map(|&(tree, _)| tree.0))?;
        }
        Ok(true)
    }

    /// Adds the products of a tree's counts with those of the first trees, each symbol's
    /// times its weight.
    pub(crate) fn add_weighted(
        &self,
        symbols: &[(S, u32)],
        weight: impl Fn(S) -> f64,
        row: &mut [f64],
    ) {
        for &(symbol, count) in symbols {
            let weight = weight(symbol) * f64::from(count);
            let column = self.symbols[symbol].column;
            let start = column as usize * self.n_trees;
            if column == SPARSE {
                for &(tree, times) in self.list(symbol) {
                    // Trees ascend within a list.
                    let Some(value) = row.get_mut(tree.index()) else { break };
                    *value += weight * f64::from(times);
                }
            } else if self.wide.is_empty() {
                let counts = &self.narrow[start..start + row.len()];
                for (value, &count) in row.iter_mut().zip(counts) {
                    *value += weight * f64::from(count);
                }
            } else {
                let counts = &self.wide[start..start + row.len()];
                for (value, &count) in row.iter_mut().zip(counts) {
                    *value += weight * count as f64;
                }
            }
        }
    }

    /// A new worker's scratch.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn scratch(&self) -> Result<CountsScratch> {
        let narrow = filled(0, self.n_trees)?;
        Ok(CountsScratch { narrow, ..CountsScratch::default() })
    }

    /// Computes the dot products of a tree of these symbols with the first `end` trees. A
    /// symbol may come more than once; all counts together are less than 2^32.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn sum(
        &self,
        symbols: &[(S, u32)],
        scratch: &mut CountsScratch,
        end: usize,
    ) -> Result<()> {
        let total: f64 = symbols.iter().map(|symbol| f64::from(symbol.1)).sum();
        // Cauchy and Schwarz, with the sum of counts for the length of them: no sum,
        // and no partial one, exceeds 16 bits.
        let fits = total * self.largest.sqrt() <= f64::from(u16::MAX);
        scratch.is_wide = !fits;
        if fits {
            let sums = &mut scratch.narrow[..end];
            accumulate(self, &self.narrow, symbols, sums, |c| c as u16);
            return Ok(());
        }
        reach(&mut scratch.wide, self.n_trees, 0)?;
        // The row may be too large for 16 bits although the columns fit: then lists
        // serve all symbols.
        let sums = &mut scratch.wide[..end];
        if self.wide.is_empty() {
            sums.fill(0);
            for &(symbol, count) in symbols {
                for &(tree, times) in self.list(symbol) {
                    let Some(sum) = sums.get_mut(tree.index()) else { break };
                    *sum += u64::from(count) * u64::from(times);
                }
            }
        } else {
            accumulate(self, &self.wide, symbols, sums, u64::from);
        }
        Ok(())
    }
}

/// A weight times the dot products of rows' trees with the columns'.
#[derive(Debug)]
pub(crate) struct Products<S> {
    pub(crate) weight: f64,
    pub(crate) counts: Counts<S>,
}

impl<S: Id> Products<S> {
    /// From the symbols of the columns' trees with their counts, each symbol at most once
    /// a tree.
    pub(crate) fn new(
        weight: f64,
        n_symbols: usize,
        columns: &Ragged<(S, u32)>,
    ) -> Result<Self> {
        let symbols_of = |tree: usize| columns.get(tree).iter().copied();
        Ok(Self { weight, counts: Counts::new(n_symbols, symbols_of, columns.len())? })
    }

    /// A new worker's scratch, for some or none.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn scratch(some: Option<&Self>) -> Result<CountsScratch> {
        let new = some.map(|products| products.counts.scratch());
        Ok(new.transpose()?.unwrap_or_default())
    }

    /// Adds what a row's tree of these symbols has in common with the first `row.len()`
    /// trees.
    ///
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(crate) fn add_to(
        &self,
        symbols: &[(S, u32)],
        scratch: &mut CountsScratch,
        row: &mut [f64],
    ) -> Result<()> {
        self.counts.sum(symbols, scratch, row.len())?;
        scratch.add_to(self.weight, row);
        Ok(())
    }
}

/// The symbols of the nodes of trees, as far as they have one, with their counts.
pub(crate) fn tally<S: Id>(
    trees: &TreeCounts,
    n_symbols: usize,
    symbol: impl Fn(NodeId) -> Option<S>,
) -> Result<Ragged<(S, u32)>> {
    let mut tally = Tally::new(n_symbols)?;
    let mut symbols_of_trees = Ragged::default();
    for tree in 0..trees.len() {
        for (node, count) in trees.iter(tree) {
            if let Some(symbol) = symbol(node) {
                tally.add(symbol, count);
            }
        }
        symbols_of_trees.extend(tally.drain())?;
        symbols_of_trees.close("symbols of trees")?;
    }
    Ok(symbols_of_trees)
}

/// How often symbols `0..n_symbols` stand in the tree at hand.
pub(crate) struct Tally<S> {
    /// Zero between trees.
    times: IdVec<S, u32>,
    met: Vec<S>,
}

impl<S: Id> Tally<S> {
    pub(crate) fn new(n_symbols: usize) -> Result<Self> {
        // Every symbol is met once at most, so `add` cannot fail.
        let (times, mut met) = (filled(0, n_symbols)?, Vec::new());
        reserve(&mut met, n_symbols)?;
        Ok(Self { times: times.into(), met })
    }

    /// Adds to a symbol's count, of nodes of one tree: [`crate::kernel::TreeCounts`] sees to it
    /// that they are less than 2^32.
    #[inline]
    pub(crate) fn add(&mut self, symbol: S, times: u32) {
        let sum = &mut self.times[symbol];
        if *sum == 0 {
            self.met.push(symbol); // has room
        }
        *sum += times;
    }

    /// The symbols with their counts, in the order in which they were met first.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = (S, u32)> {
        let Self { times, met } = self;
        met.drain(..).map(|s| (s, std::mem::take(&mut times[s])))
    }
}

impl CountsScratch {
    /// Adds `weight` times the dot products.
    pub(crate) fn add_to(&self, weight: f64, row: &mut [f64]) {
        if !self.is_wide {
            return vectorized(AddWeighted { row, sums: &self.narrow, weight });
        }
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
        if !self.is_wide && !other.is_wide {
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
        let entries = self.sums.iter_mut().zip(a).zip(b).zip(c).zip(d);
        // In pairs, so that the additions do not wait for one another.
        for ((((sum, &a), &b), &c), &d) in entries {
            *sum += (k * a + l * b) + (m * c + n * d);
        }
    }
}

/// Sums into `sums`, one integer type for all: lists by scatter, dense columns by
/// vectors.
fn accumulate<S: Id, T>(
    counts: &Counts<S>,
    columns: &[T],
    symbols: &[(S, u32)],
    sums: &mut [T],
    narrow: impl Fn(u32) -> T,
) where
    T: Copy + Default + AddAssign + Mul<Output = T> + Add<Output = T>,
{
    sums.fill(T::default());
    let end = sums.len();
    // Columns wait until there are four.
    let empty: Weighted<'_, T> = (&[], T::default());
    let mut four = [empty; 4];
    let mut filled = 0;
    // In the order of the symbols; sums of integers do not depend on it.
    for &(symbol, count) in symbols {
        let count = narrow(count);
        match counts.symbols[symbol].column {
            SPARSE => {
                for &(tree, times) in counts.list(symbol) {
                    let Some(sum) = sums.get_mut(tree.index()) else { break };
                    *sum += count * narrow(times);
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
    // Three at most are left.
    for &(column, count) in &four[..filled] {
        for (sum, &other) in sums.iter_mut().zip(column) {
            *sum += count * other;
        }
    }
}
