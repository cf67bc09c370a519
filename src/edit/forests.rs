//! What a forest that grows saves with all forests of a subtree.
//!
//! The forests of a subtree are what remains when first and last roots are taken away one by
//! one. They are told by their first root p and their last root q, and G(p, q) are all nodes
//! of them. Let F be a forest of another tree, and s(p, q) the largest saving of F and
//! G(p, q). If F gets a node x behind all others in postorder, then s becomes
//!
//! ```text
//! s'(p, q) = max( s(p, q), s'(p, q - 1), r(p, q - tree) + tree[x][q] )
//! ```
//!
//! where q - 1 is what G(p, q) has as its last root without the node q, q - tree without
//! the subtree of q, and r is s as it was before F had the first node of x's subtree: for
//! each p that is the recursion of `distance.rs`, on top of what there is. In postorder from
//! the right, the same is so with p and q swapped. (Demaine, Mozes, Rossman & Weimann, "An
//! optimal decomposition algorithm for tree edit distance", ACM TALG 2009, have this for
//! costs.)
//!
//! ```text
//! (a (b (c) (d)) (e))      p, q with q = p or right of p     c c, c d, c e, d d, d e,
//!                                                            b b, b e, e e, a a
//! ```
//!
//! All p are gone through from the last in preorder on. A row of cells then has a cell for
//! each q, and those of nodes below p are what they were for the last p: the cell of the
//! last child of p is that of all below p.
//!
//! Tried: eight p at a time in words of the processor. The cells of ancestors of p have to
//! be copied then, and of zigzags 2 to 4 times as many were computed as there are forests.
//!
//! # Complexity
//! A cell for each forest and each node that F gets: of m nodes, m (m + 3) / 2 less the sum
//! of the sizes of all subtrees. Memory: 8 m² bytes, 8 for each forest from either side, and
//! 8 m for each node that is added at once.

use super::distance::larger;
use crate::memory::{extend, push, reach};
use crate::ragged::Ragged;
use crate::{Context, Result};

/// A subtree in one order. Its nodes are told by their numbers there, from 0.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    /// The place of its first node, and that in the other order.
    pub(super) first: [u32; 2],
    /// By node: the place of its leftmost leaf, and its own one in the other order.
    pub(super) leftmost: &'a [u32],
    pub(super) turned: &'a [u32],
}

impl Columns<'_> {
    pub(super) fn len(&self) -> usize {
        self.leftmost.len()
    }

    /// How many nodes are before the subtree of a node.
    #[inline]
    fn n_before(&self, node: usize) -> usize {
        (self.leftmost[node] - self.first[0]) as usize
    }

    /// A node's number in the other order.
    #[inline]
    fn across(&self, node: usize) -> usize {
        (self.turned[node] - self.first[1]) as usize
    }
}

/// All forests of a subtree, and what the forest F saves with them: kept from pair to pair.
#[derive(Default)]
pub(super) struct Forests {
    /// From the left, and from the right.
    sides: [Side; 2],
    /// What F saves: where a forest stands, its first and last root say, one for each side.
    savings: Vec<f64>,
    block: Vec<f64>,
}

/// The forests from one side. The cell of a node is its number and 1, that of no node is 0.
#[derive(Default)]
struct Side {
    /// By first root, the last one in preorder first: last roots in postorder, each with the
    /// cell of what is before its subtree.
    lasts: Ragged<(u32, u32)>,
    /// As `lasts`: the cell of all that is below the first root.
    below: Vec<u32>,
    /// By node: its part of the place of forests of which it is the last root.
    places: Vec<usize>,
    /// Room for a number of each node.
    before: Vec<u32>,
}

impl Side {
    /// All forests, with a node's part of the place of those of which it is the last root.
    fn set(
        &mut self,
        [columns, others]: [&Columns<'_>; 2],
        place: impl Fn(usize) -> usize,
        context: &Context,
    ) -> Result<()> {
        let m = columns.len();
        let Self { lasts, below, places, before } = self;
        below.clear();
        lasts.truncate(0);
        // By node: the cell of the last root among the nodes before it.
        before.clear();
        reach(before, m, 0)?;
        for number in 0..m {
            context.check()?;
            let first = others.across(number);
            let is_leaf = columns.n_before(first) == first;
            push(below, if is_leaf { 0 } else { first as u32 })?;
            let mut cell = 0;
            for node in first..m {
                before[node] = cell;
                if columns.across(node) <= number {
                    let start = columns.n_before(node).max(first);
                    cell = node as u32 + 1;
                    lasts.push((cell, before[start]))?;
                }
            }
            lasts.close("forests of a tree")?;
        }
        places.clear();
        extend(places, (0..m).map(place))
    }
}

impl Forests {
    /// Takes the forests of a subtree, from the left and from the right, and an empty F.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), [`Error::Capacity`](crate::Error::Capacity)
    /// for 2^32 forests, and what `context` returns.
    pub(super) fn set(
        &mut self,
        columns: &[Columns<'_>; 2],
        context: &Context,
    ) -> Result<()> {
        let [left, right] = columns;
        let m = left.len();
        self.savings.clear();
        reach(&mut self.savings, m.saturating_mul(m), 0.0)?;
        let [first, last] = &mut self.sides;
        // By numbers from the left: row after row of first roots.
        first.set([left, right], |node| node, context)?;
        last.set([right, left], |node| right.across(node) * m, context)
    }

    /// Adds nodes to F behind all others in postorder from one side. `saved` has what their
    /// subtrees save, row after row, by cell; `n_before` is how many of the nodes were there
    /// before the first of a row's subtree, and None if that is all of F.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
    pub(super) fn add(
        &mut self,
        side: usize,
        saved: &[f64],
        n_before: impl Fn(usize) -> Option<usize>,
        context: &Context,
    ) -> Result<()> {
        let Self { sides, savings, block } = self;
        let Side { lasts, below, places, .. } = &sides[side];
        let stride = places.len() + 1;
        let n_rows = saved.len() / stride;
        // Rows: of no F, of F as it is, and after each node.
        block.clear();
        reach(block, (n_rows + 2).saturating_mul(stride), 0.0)?;
        let firsts = &sides[1 - side].places;
        for ((lasts, &below), &place) in lasts.iter().zip(below).zip(firsts) {
            for &(last, _) in lasts {
                block[stride + last as usize] =
                    savings[place + places[last as usize - 1]];
            }
            for (row, saved) in saved.chunks_exact(stride).enumerate() {
                context.check()?;
                let (before, current) = block.split_at_mut((row + 2) * stride);
                let above = &before[(row + 1) * stride..][..stride];
                let start = n_before(row).map_or(0, |n| (n + 1) * stride);
                let apart = &before[start..][..stride];
                // All of one length, so that one look says that a number is in each.
                let (saved, current) = (&saved[..stride], &mut current[..stride]);
                let mut best = current[below as usize];
                for &(last, before) in lasts {
                    let last = last as usize;
                    let with_tree = apart[before as usize] + saved[last];
                    best = larger(best, larger(above[last], with_tree));
                    current[last] = best;
                }
            }
            let row = &block[(n_rows + 1) * stride..];
            for &(last, _) in lasts {
                savings[place + places[last as usize - 1]] = row[last as usize];
            }
        }
        Ok(())
    }

    /// What F under a root saves with all subtrees, in postorder from the left, if the root
    /// and a node there save `gain(node)`.
    pub(super) fn save_below(
        &self,
        columns: &[Columns<'_>; 2],
        gain: impl Fn(usize) -> f64,
        saved: &mut [f64],
    ) {
        let [left, right] = columns;
        let m = left.len();
        let forest = |first: usize, last: usize| self.savings[first * m + last];
        for node in 0..m {
            // The last child is right before, from either side.
            let is_leaf = left.n_before(node) == node;
            let below = if is_leaf {
                0.0
            } else {
                forest(right.across(left.across(node) - 1), node - 1)
            };
            saved[node] = larger(forest(node, node), gain(node) + below);
            let mut child = node;
            while child > left.n_before(node) {
                saved[node] = larger(saved[node], saved[child - 1]);
                child = left.n_before(child - 1);
            }
        }
    }
}
