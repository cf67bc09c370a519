//! Joins of equal trees: pairs of different trees, and the pairs that they stand for.
//!
//! Equal trees have the same pairs. [`Groups`] have each pair of different trees once: that
//! of two groups of a thousand equal trees stands for a million pairs. An [`Expander`]
//! writes these out for some rows, in order.
//!
//! ```
//! use treekernel_rs::kernel::SubsetTree;
//! use treekernel_rs::{Forest, gram::Options, neighbours};
//!
//! let x = Forest::from_brackets("(S (A a)) (B b) (S (A a)) (S (A a))")?;
//! let options = Options::default().with_normalize(true);
//! let kernel = SubsetTree::new(0.4);
//! let (groups, _) = neighbours::join_groups(&kernel, &x, None, 0.9, options)?;
//! assert_eq!(groups.rows, [0, 1, 0, 0]);
//! assert_eq!(groups.pairs.rows.len(), 1);
//! let pairs = groups.expander()?.expand(0..4)?;
//! assert_eq!((pairs.rows, pairs.columns), (vec![0, 0, 2], vec![2, 3, 3]));
//! # Ok::<(), treekernel_rs::Error>(())
//! ```
//!
//! # Complexity
//! An expander takes 24 bytes for each pair of groups, and as many for each tree; what it
//! writes takes time by its pairs, and by the trees that are similar to each of its groups.

use std::ops::Range;

use super::corpus::Corpus;
use super::{Answer, Collect, FoundPairs, nearness};
use crate::gram::Items;
use crate::intern::new_id;
use crate::memory::{collect, extend, filled, push, reserve};
use crate::ragged::{Filler, Ragged, times};
use crate::{Context, Error, Result};

/// Pairs of different trees, and which trees are equal.
///
/// Equal trees are a group. Groups are numbered in the order of their first trees.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Groups {
    /// Pairs of groups of X and of Y, ascending. Without Y each pair once, the lower group
    /// first; the pair of a group with itself stands for the pairs of its trees.
    pub pairs: FoundPairs,
    /// The group of each tree of X.
    pub rows: Vec<usize>,
    /// The group of each tree of Y; None: Y is X.
    pub columns: Option<Vec<usize>>,
}

impl Groups {
    /// What writes out the pairs of trees.
    ///
    /// # Errors
    /// [`Error::Length`] and [`Error::Array`] for lists that do not go together,
    /// [`Error::Capacity`], [`Error::Memory`].
    pub fn expander(&self) -> Result<Expander> {
        self.expander_with(&Context::default())
    }

    /// As [`expander`](Self::expander), in a context.
    ///
    /// # Errors
    /// As [`expander`](Self::expander), and what `context` returns.
    pub fn expander_with(&self, context: &Context) -> Result<Expander> {
        Expander::new(self, context)
    }
}

/// The answers of a join as they come: those of one different tree of X after another.
#[derive(Default)]
pub(super) struct GroupPairs {
    /// Rows that were done, and where the answers of each end.
    rows: Vec<(u32, usize)>,
    columns: Vec<u32>,
    values: Vec<f64>,
}

impl<X: Items> Collect<X> for GroupPairs {
    fn take(
        &mut self,
        corpus: &Corpus<'_, X>,
        rows: &[u32],
        answers: Vec<Vec<Answer>>,
        _: &Context,
    ) -> Result<()> {
        for (&row, answers) in rows.iter().zip(answers) {
            reserve(&mut self.columns, answers.len())?;
            reserve(&mut self.values, answers.len())?;
            for Answer { tree, value } in answers {
                self.columns.push(tree); // has room
                self.values.push(nearness(corpus.measure, value)); // has room
            }
            push(&mut self.rows, (row, self.columns.len()))?;
        }
        Ok(())
    }
}

impl GroupPairs {
    /// All pairs of groups, in order.
    pub(super) fn done(self, n_groups: usize, is_self: bool) -> Result<FoundPairs> {
        let Self { rows, columns, values } = self;
        let n = columns.len();
        let mut start = 0;
        let mut pairs = FoundPairs {
            rows: filled(0, n)?,
            columns: filled(0, n)?,
            values: filled(0.0, n)?,
        };
        // Among themselves each tree found those before it: of a pair it is the column.
        let mut next = filled(0usize, if is_self { n_groups + 1 } else { 0 })?;
        if is_self {
            for &row in &columns {
                next[row as usize + 1] += 1;
            }
            for row in 0..n_groups {
                next[row + 1] += next[row];
            }
        }
        for (row, end) in rows {
            for from in start..end {
                let (mut pair, mut to) = ((row as usize, columns[from] as usize), from);
                if is_self {
                    pair = (pair.1, pair.0);
                    to = next[pair.0];
                    next[pair.0] += 1;
                }
                (pairs.rows[to], pairs.columns[to]) = pair;
                pairs.values[to] = values[from];
            }
            start = end;
        }
        Ok(pairs)
    }
}

/// The pairs of trees that [`Groups`] stand for, written out for some rows at a time.
#[derive(Debug)]
pub struct Expander {
    /// By tree of X: its group, and where its pairs start among all of them.
    groups: Vec<u32>,
    starts: Vec<usize>,
    /// By group of X: groups of Y, and the numbers of their pairs.
    similar: Ragged<(u32, u32)>,
    /// By group of Y: its trees.
    places: Ragged<u32>,
    /// By pair of groups.
    values: Vec<f64>,
    is_self: bool,
}

impl Expander {
    fn new(of: &Groups, context: &Context) -> Result<Self> {
        let Groups { pairs: FoundPairs { rows, columns, values }, .. } = of;
        let is_self = of.columns.is_none();
        let (groups, n_rows) = numbers(&of.rows)?;
        let (column_groups, n_columns) =
            numbers(of.columns.as_ref().unwrap_or(&of.rows))?;
        for (array, list, n) in
            [("rows", rows, n_rows), ("columns", columns, n_columns)]
        {
            if list.len() != values.len() {
                let (expected, got) =
                    (format!("{}, as values", values.len()), list.len());
                return Err(Error::Length { array, expected, got });
            }
            if let Some(index) = list.iter().position(|&group| group >= n) {
                let (expected, got) = (format!("below {n}"), list[index].to_string());
                return Err(Error::Array { array, index, expected, got });
            }
        }
        // 1. Which groups each has pairs with, in both directions without Y.
        new_id(values.len().saturating_mul(2), "pairs of groups")?;
        let pairs = || (0u32..).zip(rows.iter().zip(columns));
        let is_turned = |row: usize, column: usize| is_self && row != column;
        let mut lens = filled(0u32, n_rows)?;
        for (_, (&row, &column)) in pairs() {
            lens[row] += 1;
            if is_turned(row, column) {
                lens[column] += 1;
            }
        }
        let mut similar = Filler::new(lens, (0, 0))?;
        for (pair, (&row, &column)) in pairs() {
            similar.put(row as u32, (column as u32, pair));
            if is_turned(row, column) {
                similar.put(column as u32, (row as u32, pair));
            }
        }
        // 2. Where the trees of each group stand.
        let mut places = Filler::new(times(&column_groups, n_columns)?, 0)?;
        for (place, &group) in (0u32..).zip(&column_groups) {
            places.put(group, place);
        }
        let mut made = Self {
            groups,
            starts: collect([0])?,
            similar: similar.done(),
            places: places.done(),
            values: collect(values.iter().copied())?,
            is_self,
        };
        // 3. How many pairs each tree has.
        reserve(&mut made.starts, made.groups.len())?;
        let mut end = 0;
        for (row, &group) in made.groups.iter().enumerate() {
            context.check()?;
            let similar = made.similar.get(group as usize).iter();
            end += similar.map(|pair| made.columns(row, pair.0).len()).sum::<usize>();
            made.starts.push(end); // has room
        }
        Ok(made)
    }

    /// Where the pairs of each tree of X start among all pairs, and how many there are.
    pub fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The pairs of some trees of X, ascending.
    ///
    /// # Errors
    /// [`Error::Parameter`] for trees that are not there, [`Error::Memory`].
    pub fn expand(&self, rows: Range<usize>) -> Result<FoundPairs> {
        self.expand_with(rows, &Context::default())
    }

    /// As [`expand`](Self::expand), in a context.
    ///
    /// # Errors
    /// As [`expand`](Self::expand), and what `context` returns.
    pub fn expand_with(
        &self,
        rows: Range<usize>,
        context: &Context,
    ) -> Result<FoundPairs> {
        check_rows(&rows, self.groups.len())?;
        let start = self.starts[rows.start];
        let n = self.starts[rows.end] - start;
        let mut pairs = FoundPairs {
            rows: filled(0, n)?,
            columns: filled(0, n)?,
            values: filled(0.0, n)?,
        };
        let has_pairs = |&row: &usize| self.starts[row] < self.starts[row + 1];
        let with_groups = rows.filter(has_pairs).map(|row| (self.groups[row], row));
        let mut order = collect(with_groups)?;
        order.sort_unstable();
        let mut columns = Vec::new();
        for rows in order.chunk_by(|a, b| a.0 == b.0) {
            // All trees of a group have the same columns.
            columns.clear();
            for &(group, pair) in self.similar.get(rows[0].0 as usize) {
                let places = self.places.get(group as usize).iter();
                extend(&mut columns, places.map(|&place| (place, pair)))?;
            }
            columns.sort_unstable();
            for &(_, row) in rows {
                context.check()?;
                let at = self.starts[row] - start..self.starts[row + 1] - start;
                let columns = &columns[columns.len() - at.len()..];
                pairs.rows[at.clone()].fill(row);
                for (to, &(column, pair)) in at.zip(columns) {
                    pairs.columns[to] = column as usize;
                    pairs.values[to] = self.values[pair as usize];
                }
            }
        }
        Ok(pairs)
    }

    /// The trees of a group that a tree of X has pairs with: without Y those behind it.
    fn columns(&self, row: usize, group: u32) -> &[u32] {
        let places = self.places.get(group as usize);
        let before = |&place: &u32| self.is_self && place as usize <= row;
        &places[places.partition_point(before)..]
    }
}

/// The groups of a list of trees, and how many there are.
fn numbers(groups: &[usize]) -> Result<(Vec<u32>, usize)> {
    // Each group has a tree, so there are no more than trees.
    let n = groups.len();
    new_id(n, "trees")?;
    if let Some(index) = groups.iter().position(|&group| group >= n) {
        let (expected, got) = (format!("below {n}"), groups[index].to_string());
        return Err(Error::Array { array: "groups", index, expected, got });
    }
    let n_groups = groups.iter().max().map_or(0, |last| last + 1);
    Ok((collect(groups.iter().map(|&group| group as u32))?, n_groups))
}

/// Refuses a range that is no part of so many trees.
pub(super) fn check_rows(rows: &Range<usize>, n: usize) -> Result<()> {
    if rows.start <= rows.end && rows.end <= n {
        return Ok(());
    }
    let (name, expected) = ("rows", "a range of trees of X");
    Err(Error::Parameter { name, expected, got: format!("{rows:?} of {n}") })
}
