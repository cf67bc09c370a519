//! What a forest that grows saves with all forests of a subtree.
//!
//! The forests of a subtree are what remains when first and last roots are taken away one by
//! one: the nodes G(q, p) that are at most the q-th in postorder from the left, and at most
//! the p-th from the right. Let F be a forest of another tree, and
//!
//! ```text
//! s[q][p] = the largest saving of F and G(q, p)
//! ```
//!
//! If F gets a node x behind all others in postorder from the left, then s becomes s', which
//! for each p is the recursion of `distance.rs` over q, on top of what there is:
//!
//! ```text
//! s'[q][p] = max( s[q][p], s'[q-1][p], r[l(q)-1][p] + tree[x][q] )    q in G(q, p)
//! s'[q][p] = s'[q-1][p]                                               else
//! ```
//!
//! where r is s as it was before F had the first node of x's subtree. In postorder from the
//! right, the same is so with q and p swapped. (Demaine, Mozes, Rossman & Weimann, "An optimal
//! decomposition algorithm for tree edit distance", ACM TALG 2009, have this for costs.)
//!
//! Nothing there leads from one p to another, so [`LANES`] of them are computed at a time,
//! some 3 times as fast as one by one. For nodes in the other order the table is turned.
//!
//! # Complexity
//! For a subtree of m nodes, m² cells for each node that F gets, of which half are copies.
//! Memory: 8 m² bytes, and 64 m for each node that is added at once.

use super::distance::larger;
use crate::memory::reach;
use crate::{Context, Result};

/// How many numbers p are computed at a time.
const LANES: usize = 8;
/// By p.
type Cell = [f64; LANES];
const NOTHING: Cell = [0.0; LANES];

/// What one worker keeps from pair to pair.
#[derive(Default)]
pub(super) struct Lanes {
    forests: Vec<Cell>,
    block: Vec<Cell>,
}

/// A subtree in one order.
#[derive(Clone, Copy)]
pub(super) struct Columns<'a> {
    /// The place of its first node, and that in the other order.
    pub(super) first: [u32; 2],
    /// By node: the place of its leftmost leaf, and its own one in the other order.
    pub(super) leftmost: &'a [u32],
    pub(super) turned: &'a [u32],
}

impl Columns<'_> {
    fn len(&self) -> usize {
        self.leftmost.len()
    }

    /// How many nodes are before the subtree of the q-th.
    fn n_before(&self, q: usize) -> usize {
        (self.leftmost[q] - self.first[0]) as usize
    }

    /// The number of the q-th node in the other order.
    fn across(&self, q: usize) -> usize {
        (self.turned[q] - self.first[1]) as usize
    }
}

/// Savings with all forests of a subtree.
pub(super) struct Forests<'a> {
    /// From the left, and from the right.
    columns: [Columns<'a>; 2],
    /// The order of q.
    side: usize,
    /// Savings: by p, `LANES` of which are a chunk, and by q.
    savings: &'a mut [Cell],
    /// Cells of a chunk.
    stride: usize,
    block: &'a mut Vec<Cell>,
}

impl<'a> Forests<'a> {
    /// Of an empty F.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub(super) fn new(columns: [Columns<'a>; 2], lanes: &'a mut Lanes) -> Result<Self> {
        let n_chunks = columns[0].len().div_ceil(LANES);
        let (stride, n_cells) = (n_chunks * LANES, n_chunks * n_chunks * LANES);
        let Lanes { forests, block } = lanes;
        forests.clear();
        reach(forests, n_cells, NOTHING)?;
        Ok(Self { columns, side: 0, savings: forests, stride, block })
    }

    /// The order of q.
    pub(super) fn side(&self) -> usize {
        self.side
    }

    /// Makes q what p was.
    pub(super) fn turn(&mut self) {
        self.side = 1 - self.side;
        let n_chunks = self.stride / LANES;
        for p in 0..n_chunks {
            for q in 0..=p {
                // Two squares, or one.
                let [a, b] = [p * self.stride + q * LANES, q * self.stride + p * LANES];
                for i in 0..LANES {
                    for j in 0..if p == q { i } else { LANES } {
                        let cell = self.savings[a + i][j];
                        self.savings[a + i][j] = self.savings[b + j][i];
                        self.savings[b + j][i] = cell;
                    }
                }
            }
        }
    }

    /// Adds nodes to F in the order of q. `saved` has what their subtrees save with those of
    /// all columns, row after row; `n_before` is how many of the nodes were there before the
    /// first of a row's subtree, and None if it is all of F.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
    pub(super) fn add(
        &mut self,
        saved: &[f64],
        n_before: impl Fn(usize) -> Option<usize>,
        context: &Context,
    ) -> Result<()> {
        let columns = &self.columns[self.side];
        let (m, stride) = (columns.len(), columns.len() + 1);
        let n_rows = saved.len() / m;
        // Rows: of no F, of F as it is, and after each node. Before each row is no column.
        reach(self.block, (n_rows + 2).saturating_mul(stride), NOTHING)?;
        self.block[..stride].fill(NOTHING);
        for (chunk, savings) in self.savings.chunks_mut(self.stride).enumerate() {
            let first = chunk * LANES;
            self.block[stride] = NOTHING;
            self.block[stride + 1..][..m].copy_from_slice(&savings[..m]);
            for (row, saved) in saved.chunks(m).enumerate() {
                context.check()?;
                let (before, current) = self.block.split_at_mut((row + 2) * stride);
                let above = &before[(row + 1) * stride..][1..=m];
                let start = n_before(row).map_or(0, |n| (n + 1) * stride);
                let apart = &before[start..][..stride];
                current[0] = NOTHING;
                let current = &mut current[1..=m];
                let mut best = NOTHING;
                for q in 0..m {
                    let across = columns.across(q);
                    if across < first + LANES {
                        let with_tree = apart[columns.n_before(q)];
                        let is_whole = across <= first;
                        for lane in 0..LANES {
                            let value =
                                larger(above[q][lane], with_tree[lane] + saved[q]);
                            if is_whole || across <= first + lane {
                                best[lane] = larger(best[lane], value);
                            }
                        }
                    }
                    current[q] = best;
                }
            }
            savings[..m].copy_from_slice(&self.block[(n_rows + 1) * stride + 1..][..m]);
        }
        Ok(())
    }

    /// What F under a root saves with all subtrees, if the root and the root of the q-th
    /// save `gain(q)`.
    pub(super) fn save_below(&self, gain: impl Fn(usize) -> f64, saved: &mut [f64]) {
        let columns = &self.columns[self.side];
        let forest =
            |q: usize, p: usize| self.savings[p / LANES * self.stride + q][p % LANES];
        for q in 0..columns.len() {
            let p = columns.across(q);
            let below = if q > 0 && p > 0 { forest(q - 1, p - 1) } else { 0.0 };
            saved[q] = larger(forest(q, p), gain(q) + below);
            // Its last child is right before, the one before that left of its subtree.
            let mut child = q;
            while child > columns.n_before(q) {
                saved[q] = larger(saved[q], saved[child - 1]);
                child = columns.n_before(child - 1);
            }
        }
    }
}
