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

use super::bounded::{Corridors, Strings};
use super::costs::{Gain, Gains, Transposed};
use super::order::{Order, Orders};
use crate::memory::{reserve, room};
use crate::{Context, Result};

/// What one worker keeps from pair to pair.
#[derive(Default)]
pub(super) struct Tables {
    /// By nodes of the one tree and the other: what the subtrees save.
    saved: Vec<f64>,
    /// The same, by nodes of the other tree and the one.
    transposed: Vec<f64>,
    /// The block at work, with a row and a column of zeros before it.
    block: Vec<f64>,
    row: Vec<f64>,
    pub(super) corridors: Corridors,
    /// The sequences of labels of one tree, in both orders.
    pub(super) strings: [Strings; 2],
}

impl Tables {
    fn grow(&mut self, n: usize, m: usize, context: &Context) -> Result<()> {
        let (n_pairs, n_cells) = (n.saturating_mul(m), (n + 1).saturating_mul(m + 1));
        if self.block.len() >= n_cells && self.saved.len() >= n_pairs {
            return Ok(());
        }
        // What there is goes first, and all is asked for at once.
        for table in [&mut self.saved, &mut self.transposed, &mut self.block] {
            *table = Vec::new();
        }
        room(n_cells, 3 * size_of::<f64>())?;
        self.saved = zeros(n_pairs, context)?;
        self.transposed = zeros(n_pairs, context)?;
        self.block = zeros(n_cells, context)?;
        Ok(())
    }

    /// Room for one row of other cells.
    pub(super) fn row(&mut self) -> &mut Vec<f64> {
        &mut self.row
    }

    /// The cells of the last block, row after row.
    pub(super) fn block(&self) -> &[f64] {
        &self.block
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

/// Trees from both sides.
pub(super) struct BothOrders(pub(super) [Orders; 2]);

impl BothOrders {
    /// Two trees from the side from which there are fewer cells to fill.
    pub(super) fn pair(&self, a: usize, b: usize) -> [Order<'_>; 2] {
        let [left, right] =
            self.0.each_ref().map(|orders| [a, b].map(|t| orders.get(t)));
        let n_cells = |trees: &[Order; 2]| {
            u128::from(trees[0].n_below) * u128::from(trees[1].n_below)
        };
        if n_cells(&right) < n_cells(&left) { right } else { left }
    }

    /// Two trees from the side from which [`pair`](Self::pair) has not taken them.
    pub(super) fn others(
        &self,
        pair: [usize; 2],
        trees: &[Order<'_>; 2],
    ) -> [Order<'_>; 2] {
        let side = usize::from(!trees[0].is_mirrored());
        pair.map(|tree| self.0[side].get(tree))
    }
}

/// The largest saving of a mapping of two trees, both from one side.
///
/// # Errors
/// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
pub(super) fn saving(
    trees: [Order<'_>; 2],
    gains: &Gains,
    tables: &mut Tables,
    context: &Context,
) -> Result<f64> {
    match gains {
        Gains::Constant(gains) => largest_saving(trees, gains, tables, context),
        Gains::ByLabel(gains) => largest_saving(trees, gains, tables, context),
        Gains::Table(gains) => largest_saving(trees, gains, tables, context),
    }
}

fn largest_saving(
    [a, b]: [Order<'_>; 2],
    gains: &impl Gain,
    tables: &mut Tables,
    context: &Context,
) -> Result<f64> {
    tables.grow(a.len(), b.len(), context)?;
    let Tables { saved, transposed, block, .. } = tables;
    // 1. Half of all nodes are leaves, and most keyroots: these need no blocks.
    fill_leaves([&a, &b], saved, transposed, gains, context)?;
    let turned = &Transposed(gains);
    fill_leaves([&b, &a], transposed, saved, turned, context)?;
    // 2. Of other keyroots. The longer side is the inner loop.
    for i in a.inner_keyroots() {
        for j in b.inner_keyroots() {
            let height = i - a.leftmost[i] as usize;
            let width = j - b.leftmost[j] as usize;
            if height <= width {
                fill([&a, &b], [i, j], saved, transposed, block, gains, context)?;
            } else {
                fill([&b, &a], [j, i], transposed, saved, block, turned, context)?;
            }
        }
    }
    Ok(saved[a.len() * b.len() - 1])
}

/// Fills the block of two nodes once more, after [`saving`], a row for each node of the
/// first tree.
///
/// # Errors
/// What `context` returns.
pub(super) fn fill_block(
    trees: [Order<'_>; 2],
    roots: [usize; 2],
    gains: &Gains,
    tables: &mut Tables,
    context: &Context,
) -> Result<()> {
    let Tables { saved, transposed, block, .. } = tables;
    fill([&trees[0], &trees[1]], roots, saved, transposed, block, gains, context)
}

/// What leaves that are keyroots save with all subtrees of the other tree: the largest gain
/// of a leaf and a node there.
fn fill_leaves(
    [rows, columns]: [&Order<'_>; 2],
    saved: &mut [f64],
    transposed: &mut [f64],
    gains: &impl Gain,
    context: &Context,
) -> Result<()> {
    let (n, m) = (rows.len(), columns.len());
    let is_leaf = |i: &usize| rows.leftmost[*i] as usize == *i;
    for leaf in rows.keyroots.iter().map(|&i| i as usize).filter(is_leaf) {
        // In a large table each number stands in a page of its own.
        if m >= LONG_ROW {
            context.check_now()?;
        } else {
            context.check()?;
        }
        let saved = &mut saved[leaf * m..][..m];
        let (labels, parents) = (&columns.labels[..m], &columns.parents[..m]);
        let gain = gains.row(rows.labels[leaf]);
        saved.fill(0.0);
        for j in 0..m {
            let value = larger(saved[j], gain(labels[j]));
            let above = &mut saved[parents[j] as usize];
            *above = larger(*above, value);
            saved[j] = value;
            transposed[j * n + leaf] = value;
        }
    }
    Ok(())
}

/// Cells of a row from which on each row asks whether to go on.
const LONG_ROW: usize = 1 << 10;

/// Fills the block of two nodes, and what the subtrees on their paths save in both tables.
/// Savings of all other subtrees in it are known.
fn fill(
    [rows, columns]: [&Order<'_>; 2],
    [row_root, column_root]: [usize; 2],
    saved: &mut [f64],
    transposed: &mut [f64],
    block: &mut [f64],
    gains: &impl Gain,
    context: &Context,
) -> Result<()> {
    let first_row = rows.leftmost[row_root] as usize;
    let first_column = columns.leftmost[column_root] as usize;
    let width = column_root - first_column + 1;
    let stride = width + 1;
    let (n_rows, n_columns) = (rows.len(), columns.len());
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
        let saved = &mut saved[i * n_columns + first_column..][..width];
        let n_before = rows.leftmost[i] as usize - first_row;
        let mut best = 0.0;
        if n_before == 0 {
            // 1. The row's node is on the path: where the column's is, both are trees. The
            // cell before comes in last: each waits for it.
            let gain = gains.row(rows.labels[i]);
            for x in 0..width {
                let apart = above[x + 1];
                if leftmost[x] == path {
                    best = larger(best, larger(apart, above[x] + gain(labels[x])));
                    saved[x] = best;
                    transposed[(first_column + x) * n_rows + i] = best;
                } else {
                    best = larger(best, larger(apart, saved[x]));
                }
                current[x + 1] = best;
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
    use super::super::costs::{Costs, LabelCosts, RenameCosts, Unit};
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
                let (by_label, codes) =
                    LabelCosts::new(&costs, &forest, &context).unwrap();
                let costs = by_label.in_units(&costs, Unit::Small).unwrap();
                let orders = [false, true].map(|is_mirrored| {
                    Orders::new(&forest, &codes, is_mirrored, &context).unwrap()
                });
                ways.push((costs.gains, orders));
            }
        }
        let mut tables = Tables::default();
        for a in 0..forest.len() {
            for b in 0..forest.len() {
                let mut values = Vec::new();
                for (gains, orders) in &ways {
                    for orders in orders {
                        let trees = [a, b].map(|tree| orders.get(tree));
                        let value = saving(trees, gains, &mut tables, &context);
                        values.push(value.unwrap());
                    }
                }
                assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
            }
        }
    }
}
