//! The mapping behind a distance, traced back through the tables of savings.
//!
//! Only savings of pairs of subtrees outlive a distance, so the block of cells that a path
//! leads through is filled once more: that of the two roots first, then that of every two
//! subtrees which it takes as a whole. That is 1.0 to 1.5 cells for each pair of nodes.

use super::costs::Gains;
use super::distance::{Tables, fill_block, saving};
use super::order::Sides;
use crate::memory::{collect, filled, push};
use crate::{Context, Result};

/// What becomes of the nodes of two trees. Nodes are numbered from 0 in preorder.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Mapping {
    /// Nodes of the first tree that stay, with what they become; ascending in both.
    pub pairs: Vec<(usize, usize)>,
    /// Those of them whose label changes.
    pub renamed: Vec<(usize, usize)>,
    /// The other nodes of the first tree.
    pub deleted: Vec<usize>,
    /// The other nodes of the second tree.
    pub inserted: Vec<usize>,
    /// What all that costs: the distance before it is divided.
    pub cost: f64,
}

/// A cheapest mapping of two trees, and what it saves. Nodes that would be renamed at the
/// cost of deleting and inserting them are deleted and inserted.
///
/// # Errors
/// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
pub(super) fn mapping(
    sides: &Sides<'_>,
    gains: &Gains,
    context: &Context,
) -> Result<(Mapping, f64)> {
    let mut tables = Tables::default();
    let saved = saving(sides, gains, &mut tables, context)?;
    let [a, b] = &sides.trees;
    let numbers = [a.preorder()?, b.preorder()?];
    // 1. From the last cell of a block to its border: a cell that is larger than those
    // before it matches two nodes, or takes two subtrees, which are to be looked into.
    let mut pairs = Vec::new();
    let mut open = collect([[a.len() - 1, b.len() - 1]])?;
    while let Some(roots) = open.pop() {
        fill_block([a, b], roots, gains, &mut tables, context)?;
        let [top, left] =
            [0, 1].map(|side| sides.trees[side].leftmost[roots[side]] as usize);
        let stride = roots[1] - left + 2;
        let cell = |x: usize, y: usize| tables.block[x * stride + y];
        let (mut x, mut y) = (roots[0] - top + 1, stride - 1);
        while x > 0 && y > 0 {
            let value = cell(x, y);
            if value == cell(x - 1, y) {
                x -= 1;
            } else if value == cell(x, y - 1) {
                y -= 1;
            } else {
                let [i, j] = [top + x - 1, left + y - 1];
                let first = [a.leftmost[i] as usize, b.leftmost[j] as usize];
                if first == [top, left] {
                    push(&mut pairs, [i, j])?;
                    (x, y) = (x - 1, y - 1);
                } else {
                    push(&mut open, [i, j])?;
                    (x, y) = (first[0] - top, first[1] - left);
                }
            }
            context.check()?;
        }
    }
    // 2. What is in no pair is deleted or inserted.
    let is_renamed = |&&[i, j]: &&[usize; 2]| a.labels[i] != b.labels[j];
    let numbered =
        |&[i, j]: &[usize; 2]| (numbers[0][i] as usize, numbers[1][j] as usize);
    let mut renamed = collect(pairs.iter().filter(is_renamed).map(numbered))?;
    let mut pairs = collect(pairs.iter().map(numbered))?;
    pairs.sort_unstable();
    renamed.sort_unstable();
    let (mut stays, mut is_new) = (filled(false, a.len())?, filled(true, b.len())?);
    for &(i, j) in &pairs {
        (stays[i], is_new[j]) = (true, false);
    }
    let deleted = collect((0..a.len()).filter(|&i| !stays[i]))?;
    let inserted = collect((0..b.len()).filter(|&j| is_new[j]))?;
    Ok((Mapping { pairs, renamed, deleted, inserted, cost: 0.0 }, saved))
}
