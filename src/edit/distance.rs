//! The distance of two trees, by the most that a mapping saves.
//!
//! Deleting one tree and inserting the other costs D + I; a mapping saves what its matches
//! save, so the distance is D + I - S with the largest saving S of all mappings. This is the
//! recursion of Zhang & Shasha (1989) from the other end. For nodes i and j in postorder
//! with leftmost leaves l(i) and l(j), and forests that end with them,
//!
//! ```text
//! s[i][j] = max( s[i-1][j], s[i][j-1], s[l(i)-1][l(j)-1] + tree[i][j] )
//! ```
//!
//! where tree[i][j] is the saving of two subtrees. If both forests are trees, the last term is
//! s[i-1][j-1] + gain(i, j), and the cell is tree[i][j]. A block of cells is filled for each
//! two keyroots. What is gained over costs: all borders are 0, nothing that is left out of a
//! table can make a result wrong upwards, and no cell adds a cost of deleting or inserting.
//!
//! Floats throughout: a maximum of two is one instruction, where whole numbers of 32 bits
//! need a comparison and a move (1.1 to 1.3 times the time).
//!
//! # Complexity
//! Time: the product of the sizes of all keyroots' subtrees, 6 to 16 cells for each pair of
//! nodes of real trees; O(n² m²) for zigzags. Memory: 24 bytes for each pair of nodes.

use super::bounded::Corridors;
use super::costs::{Gain, Gains, Transposed};
use super::forests::Forests;
use super::order::{Order, Sides};
use super::strategy;
use super::text::Matcher;
use crate::memory::{reserve, room};
use crate::{Context, Result};

/// What one worker keeps from pair to pair.
#[derive(Default)]
pub(super) struct Tables {
    /// By nodes of the one tree and the other: what the subtrees save.
    pub(super) saved: Vec<f64>,
    /// The same, by nodes of the other tree and the one; or by nodes in the other order.
    pub(super) others: Vec<f64>,
    /// The block at work, with a row and a column of zeros before it.
    pub(super) block: Vec<f64>,
    pub(super) row: Vec<f64>,
    pub(super) forests: Forests,
    pub(super) corridors: Corridors,
    /// The sequences of labels of one tree, in both orders.
    pub(super) strings: [Matcher; 2],
}

impl Tables {
    pub(super) fn grow(&mut self, n: usize, m: usize, context: &Context) -> Result<()> {
        let (n_pairs, n_cells) = (n.saturating_mul(m), (n + 1).saturating_mul(m + 1));
        if self.block.len() >= n_cells && self.saved.len() >= n_pairs {
            return Ok(());
        }
        // What there is goes first, and all is asked for at once.
        for table in [&mut self.saved, &mut self.others, &mut self.block] {
            *table = Vec::new();
        }
        room(n_cells, 3 * size_of::<f64>())?;
        self.saved = zeros(n_pairs, context)?;
        self.others = zeros(n_pairs, context)?;
        self.block = zeros(n_cells, context)?;
        Ok(())
    }
}

/// So many zeros. Gigabytes of them take seconds, in which the caller may stop.
fn zeros(n: usize, context: &Context) -> Result<Vec<f64>> {
    const CHUNK: usize = 1 << 22;
    let mut list = Vec::new();
    reserve(&mut list, n)?;
    while list.len() < n {
        context.check_now()?;
        list.resize(n.min(list.len() + CHUNK), 0.0); // has room
    }
    Ok(list)
}

/// The largest saving of a mapping of two trees.
///
/// # Errors
/// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
pub(super) fn saving(
    sides: &Sides<'_>,
    gains: &Gains,
    tables: &mut Tables,
    context: &Context,
) -> Result<f64> {
    match gains {
        Gains::Constant(gains) => largest_saving(sides, gains, tables, context),
        Gains::ByLabel(gains) => largest_saving(sides, gains, tables, context),
        Gains::Table(gains) => largest_saving(sides, gains, tables, context),
    }
}

fn largest_saving(
    sides: &Sides<'_>,
    gains: &impl Gain,
    tables: &mut Tables,
    context: &Context,
) -> Result<f64> {
    let [a, b] = &sides.trees;
    tables.grow(a.len(), b.len(), context)?;
    if let Some(saved) = strategy::largest_saving(sides, gains, tables, context)? {
        return Ok(saved);
    }
    along_leftmost_paths([a, b], gains, tables, context)
}

/// The largest saving, by blocks of all keyroots.
pub(super) fn along_leftmost_paths(
    [a, b]: [&Order<'_>; 2],
    gains: &impl Gain,
    tables: &mut Tables,
    context: &Context,
) -> Result<f64> {
    let Tables { saved, others, block, .. } = tables;
    // 1. Half of all nodes are leaves, and most keyroots: these need no blocks.
    let turned = &Transposed(gains);
    let (n, m) = (a.len(), b.len());
    let savings = &mut Savings::transposed(saved, others, n);
    fill_leaves([a, b], a.leaf_keyroots(), savings, gains, context)?;
    let savings = &mut Savings::transposed(others, saved, m);
    fill_leaves([b, a], b.leaf_keyroots(), savings, turned, context)?;
    // 2. Of other keyroots. The longer side is the inner loop.
    for i in a.inner_keyroots() {
        for j in b.inner_keyroots() {
            let height = i - a.leftmost[i] as usize;
            let width = j - b.leftmost[j] as usize;
            if height <= width {
                let savings = &mut Savings::transposed(saved, others, n);
                fill([a, b], [i, j], savings, block, gains, context)?;
            } else {
                let savings = &mut Savings::transposed(others, saved, m);
                fill([b, a], [j, i], savings, block, turned, context)?;
            }
        }
    }
    Ok(saved[n * m - 1])
}

/// Fills the block of two nodes once more, after [`saving`], a row for each node of the
/// first tree.
///
/// # Errors
/// What `context` returns.
pub(super) fn fill_block(
    trees: [&Order<'_>; 2],
    roots: [usize; 2],
    gains: &Gains,
    tables: &mut Tables,
    context: &Context,
) -> Result<()> {
    let Tables { saved, others, block, .. } = tables;
    let savings = &mut Savings::transposed(saved, others, trees[0].len());
    fill(trees, roots, savings, block, gains, context)
}

/// What subtrees save, twice.
pub(super) struct Savings<'a, P> {
    /// By nodes of rows, and of columns.
    pub(super) saved: &'a mut [f64],
    pub(super) others: &'a mut [f64],
    /// Where `others` has two nodes.
    pub(super) place: P,
}

impl<'a> Savings<'a, ()> {
    /// The second table is the first one, transposed.
    #[inline]
    fn transposed(
        saved: &'a mut [f64],
        others: &'a mut [f64],
        n_rows: usize,
    ) -> Savings<'a, impl Fn(usize, usize) -> usize + use<>> {
        Savings { saved, others, place: move |i, j| j * n_rows + i }
    }
}

/// What some leaves save with all subtrees of the other tree: the largest gain of the leaf
/// and a node there.
pub(super) fn fill_leaves(
    [rows, columns]: [&Order<'_>; 2],
    leaves: impl Iterator<Item = usize>,
    savings: &mut Savings<'_, impl Fn(usize, usize) -> usize>,
    gains: &impl Gain,
    context: &Context,
) -> Result<()> {
    let m = columns.len();
    let Savings { saved: table, others, place } = savings;
    for leaf in leaves {
        // In a large table each number stands in a page of its own.
        if m >= LONG_ROW {
            context.check_now()?;
        } else {
            context.check()?;
        }
        let saved = &mut table[leaf * m..][..m];
        let (labels, parents) = (&columns.labels[..m], &columns.parents[..m]);
        let label = rows.labels[leaf];
        saved.fill(0.0);
        for j in 0..m {
            let value = larger(saved[j], gains.gain(label, labels[j]));
            let above = &mut saved[parents[j] as usize];
            *above = larger(*above, value);
            saved[j] = value;
            others[place(leaf, j)] = value;
        }
    }
    Ok(())
}

/// Cells of a row from which on each row asks whether to go on.
const LONG_ROW: usize = 1 << 10;

/// Fills the block of two nodes, and what the subtrees on their paths save in both tables.
/// Savings of all other subtrees in it are known.
pub(super) fn fill(
    [rows, columns]: [&Order<'_>; 2],
    [row_root, column_root]: [usize; 2],
    savings: &mut Savings<'_, impl Fn(usize, usize) -> usize>,
    block: &mut [f64],
    gains: &impl Gain,
    context: &Context,
) -> Result<()> {
    let first_row = rows.leftmost[row_root] as usize;
    let first_column = columns.leftmost[column_root] as usize;
    let width = column_root - first_column + 1;
    let stride = width + 1;
    let n_columns = columns.len();
    let Savings { saved: table, others, place } = savings;
    let leftmost = &columns.leftmost[first_column..=column_root];
    let labels = &columns.labels[first_column..=column_root];
    let path = first_column as u32;
    context.check()?;
    block[..stride].fill(0.0);
    for (y, i) in (first_row..=row_root).enumerate() {
        if width >= LONG_ROW {
            context.check()?;
        }
        let (before, current) = block.split_at_mut((y + 1) * stride);
        let above = &before[y * stride..][..stride];
        let current = &mut current[..stride];
        current[0] = 0.0;
        let saved = &mut table[i * n_columns + first_column..][..width];
        let n_before = rows.leftmost[i] as usize - first_row;
        let mut best = 0.0;
        if n_before == 0 {
            // 1. The row's node is on the path: where the column's is, both are trees. The
            // cell before comes in last: each waits for it. That stands once, as a maximum
            // at the end of a branch would be a branch (1.4 times the time).
            let label = rows.labels[i];
            for x in 0..width {
                let are_trees = leftmost[x] == path;
                let with_tree = if are_trees {
                    above[x] + gains.gain(label, labels[x])
                } else {
                    saved[x]
                };
                best = larger(best, larger(above[x + 1], with_tree));
                current[x + 1] = best;
                if are_trees {
                    saved[x] = best;
                    others[place(i, first_column + x)] = best;
                }
            }
        } else {
            // 2. It is not: its subtree's savings stand in the table.
            let forests = &before[n_before * stride..][..stride];
            // By number: zipped iterators of four are not made in line.
            for x in 0..width {
                let with_tree = forests[leftmost[x] as usize - first_column] + saved[x];
                best = larger(best, larger(above[x + 1], with_tree));
                current[x + 1] = best;
            }
        }
    }
    Ok(())
}

/// The larger of two numbers, none of which is NaN: one instruction.
#[inline]
pub(super) fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::super::costs::{Costs, RenameCosts};
    use super::super::tests::prepared;
    use super::*;
    use crate::corpus::{Random, forest};

    #[test]
    fn both_sides_and_all_gains_save_the_same() {
        let forest = forest(&mut Random(3), 40, 40);
        let context = Context::default();
        let labels = forest.nodes().labels();
        let pairs = labels.names().flat_map(|a| {
            let cost = |b: &str| if a == b { 0.0 } else { 0.75 };
            let pair = move |b: &str| (a.to_owned(), b.to_owned(), cost(b));
            labels.names().map(pair).collect::<Vec<_>>()
        });
        let named = labels.names().map(|name| (name.to_owned(), 1.5));
        let by_label = super::super::NodeCosts::by_label(named, 1.5).unwrap();
        let renames = [0.75.into(), RenameCosts::by_labels(pairs, 9.0).unwrap()];
        let mut ways = Vec::new();
        for rename in renames {
            for insert in [1.5.into(), by_label.clone()] {
                let (rename, delete) = (rename.clone(), 1.25.into());
                let costs = Costs { rename, insert, delete };
                let (costs, orders) = prepared(&costs, &forest);
                ways.push((costs.gains, orders));
            }
        }
        let mut tables = Tables::default();
        for a in 0..forest.len() {
            for b in 0..forest.len() {
                let mut values = Vec::new();
                for (gains, orders) in &ways {
                    let sides = orders.pair([a, b]).cheapest();
                    for sides in [sides, sides.turned()] {
                        let value = saving(&sides, gains, &mut tables, &context);
                        values.push(value.unwrap());
                    }
                }
                assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            }
        }
    }
}
