//! Who may have a dot product of at least τ with a tree, where each tree has its own τ.
//!
//! Trees ask those that stand before them in some order. A tree leaves out some of the most
//! common blocks, the longest lists for their share of its norm first, as long as its norm in
//! them, h, is well below τ: its *head*. In other lists products are added up, and the
//! squares of the others' norms. What a tree t has elsewhere is then known:
//!
//! ```text
//! n(x)·n(t) ≤ Σ_{g outside the head} n_g(x) n_g(t) + h sqrt(1 - Σ_{g outside the head} n_g(t)²)
//! ```
//!
//! Where this reaches τ, what the head adds is looked up: of the most common blocks each
//! tree has a dense vector.
//!
//! [`prune`](super::prune) has one τ for all, and so shorter lists. At low thresholds it
//! adds up nearly all pairs, one by one; here most of them cost an addition per common
//! block.
//!
//! # Complexity
//! A tree takes time by the entries of its lists and, with a small factor, the number of
//! trees before it. Memory by the lengths of all vectors.

use super::blocks::{Vectors, is_open};
use crate::Result;
use crate::intern::new_id;
use crate::memory::{filled, reserve, room};
use crate::ragged::{Filler, Ragged};
use crate::threads::Pause;

/// Norms are rounded up, sums of so many of them by less than this for each.
const ROUNDING: f64 = 1.2e-7;
/// Entries that the seeds of a tree may cost, in parts of all trees; at least so many.
const SEED_SHARE: usize = 4;
const LEAST_SEEDS: usize = 1 << 10;
/// The most common blocks, of which there are dense vectors.
const DENSE: usize = 64;
/// The norm of a head, in parts of τ.
const HEAD: f64 = 0.7;
/// Sums that are looked at together.
const LANES: usize = 16;

/// Vectors and their lists, in one order of trees.
#[derive(Debug)]
pub(super) struct Lists {
    /// By tree: blocks that some other tree has, with norms.
    vectors: Vectors,
    /// By tree: 1 less the square of what is left of its norm.
    lost: Vec<f32>,
    n_blocks: usize,
    /// By tree: its place in the order, or [`u32::MAX`]; and the trees in order.
    place: Vec<u32>,
    order: Vec<u32>,
    /// By block: places of trees, ascending, with norms.
    lists: Ragged<(u32, f32)>,
    /// By place: sums to begin with, and norms in the most common blocks.
    start: Vec<[f32; 2]>,
    dense: Vec<[f32; DENSE]>,
}

/// What one worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// By place: products, and squares of the other's norms.
    sums: Vec<[f32; 2]>,
    /// By block: the asker's norm.
    norms: Vec<f32>,
    /// The asker's blocks: (price, block, norm).
    blocks: Vec<(f32, u32, f32)>,
    found: Vec<(f32, u32)>,
}

impl Lists {
    pub(super) fn new(mut vectors: Vectors, n_blocks: usize) -> Result<Self> {
        room(vectors.items.len(), 2 * size_of::<(u32, f32)>())?;
        // Blocks are numbered by how many trees have them: what is often looked at stands
        // together. Those of one tree match nothing.
        let mut times = filled(0u32, n_blocks)?;
        for vector in vectors.iter().filter(|vector| !is_open(vector)) {
            vector.iter().for_each(|item| times[item.0 as usize] += 1);
        }
        let mut blocks: Vec<u32> = (0..n_blocks as u32).collect();
        blocks.retain(|&block| times[block as usize] > 1);
        blocks.sort_unstable_by_key(|&b| (std::cmp::Reverse(times[b as usize]), b));
        let mut number = filled(u32::MAX, n_blocks)?;
        blocks.iter().zip(0..).for_each(|(&block, at)| number[block as usize] = at);
        for item in &mut vectors.items {
            item.0 = number.get(item.0 as usize).copied().unwrap_or(u32::MAX);
        }
        vectors.retain(|item| item.0 != u32::MAX);
        let left = |vector: &[(u32, f32)]| {
            vector.iter().map(|item| square(item.1)).sum::<f64>()
        };
        let lost = vectors.iter().map(|vector| (1.0 - left(vector)) as f32).collect();
        let n_blocks = blocks.len();
        Ok(Self {
            place: Vec::new(),
            order: Vec::new(),
            lists: Ragged::default(),
            start: Vec::new(),
            dense: Vec::new(),
            vectors,
            lost,
            n_blocks,
        })
    }

    /// Makes the lists of some trees, in this order.
    pub(super) fn arrange(&mut self, order: Vec<u32>) -> Result<()> {
        let mut lens = filled(0u32, self.n_blocks)?;
        self.lists = Ragged::default();
        self.place = filled(u32::MAX, self.vectors.len())?;
        let mut total = 0;
        for (&tree, place) in order.iter().zip(0..) {
            self.place[tree as usize] = place;
            let vector = self.vectors.get(tree as usize);
            total += vector.len();
            vector.iter().for_each(|item| lens[item.0 as usize] += 1);
        }
        new_id(total, "pairs of tree and block")?;
        room(order.len(), size_of::<[f32; DENSE]>())?;
        self.dense = vec![[0.0; DENSE]; order.len()];
        let mut lists = Filler::new(lens, (0, 0.0));
        for (&tree, place) in order.iter().zip(0..) {
            for &(block, norm) in self.vectors.get(tree as usize) {
                lists.put(block, (place, norm));
                // The most common have the lowest numbers.
                if let Some(cell) = self.dense[place as usize].get_mut(block as usize) {
                    *cell = norm;
                }
            }
        }
        self.lists = lists.done();
        self.start = order.iter().map(|&t| [0.0, self.lost[t as usize]]).collect();
        self.order = order;
        Ok(())
    }

    /// Where a tree stands in the order.
    pub(super) fn place(&self, tree: usize) -> usize {
        self.place[tree] as usize
    }

    /// Up to `most` trees that may be near to one, as its cheapest lists have it.
    pub(super) fn seeds(
        &self,
        tree: usize,
        most: usize,
        scratch: &mut Scratch,
        pause: &mut Pause<'_>,
    ) -> Result<Vec<u32>> {
        let n = self.order.len();
        scratch.prepare(self, n)?;
        let Scratch { sums, blocks, found, .. } = scratch;
        self.by_price(tree, blocks);
        let mut budget = (n / SEED_SHARE).max(LEAST_SEEDS);
        found.clear();
        for &(_, block, norm) in blocks.iter() {
            pause()?;
            let list = self.lists.get(block as usize);
            let list = match found.len() {
                // Trees of common blocks only look into a part of one list.
                0..2 => &list[..list.len().min(budget)],
                _ if list.len() > budget => break,
                _ => list,
            };
            budget -= list.len();
            for &(place, other) in list {
                let sum = &mut sums[place as usize][0];
                if *sum == 0.0 {
                    found.push((0.0, place));
                }
                *sum += norm * other;
            }
        }
        let own = self.place[tree];
        for item in found.iter_mut() {
            item.0 = std::mem::take(&mut sums[item.1 as usize][0]);
        }
        found.retain(|item| item.1 != own);
        if found.len() > most {
            found.select_nth_unstable_by(most, |a, b| {
                b.0.total_cmp(&a.0).then(a.1.cmp(&b.1))
            });
            found.truncate(most);
        }
        Ok(found.iter().map(|item| self.order[item.1 as usize]).collect())
    }

    /// Up to `most` of the trees that are near to those near to one, where their dot product
    /// with it is more than `least`.
    pub(super) fn closer(
        &self,
        tree: usize,
        least: f64,
        most: usize,
        near: &[Vec<u32>],
        scratch: &mut Scratch,
        pause: &mut Pause<'_>,
    ) -> Result<Vec<u32>> {
        scratch.prepare(self, 0)?;
        let Scratch { norms, found, .. } = scratch;
        let mut others: Vec<u32> = near[tree]
            .iter()
            .flat_map(|&other| &near[other as usize])
            .copied()
            .collect();
        others.sort_unstable();
        others.dedup();
        others.retain(|other| *other as usize != tree && !near[tree].contains(other));
        self.hang(tree, norms);
        found.clear();
        for other in others {
            pause()?;
            let sum = self.dot(other, norms);
            if f64::from(sum) > least {
                found.push((sum, other));
            }
        }
        self.take_down(tree, norms);
        found.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        Ok(found.iter().take(most).map(|item| item.1).collect())
    }

    fn hang(&self, tree: usize, norms: &mut [f32]) {
        for &(block, norm) in self.vectors.get(tree) {
            norms[block as usize] = norm;
        }
    }

    fn take_down(&self, tree: usize, norms: &mut [f32]) {
        for &(block, _) in self.vectors.get(tree) {
            norms[block as usize] = 0.0;
        }
    }

    /// The dot product of a tree and the one that hangs.
    fn dot(&self, tree: u32, norms: &[f32]) -> f32 {
        let vector = self.vectors.get(tree as usize).iter();
        vector.map(|&(block, norm)| norm * norms[block as usize]).sum()
    }

    /// The blocks of a tree, those first that have much of its norm for short lists.
    fn by_price(&self, tree: usize, blocks: &mut Vec<(f32, u32, f32)>) {
        blocks.clear();
        blocks.extend(self.vectors.get(tree).iter().map(|&(block, norm)| {
            let len = self.lists.get(block as usize).len() as f32;
            (len / (norm * norm), block, norm)
        }));
        blocks.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }

    /// The trees before one whose dot product with it may be so much.
    pub(super) fn find(
        &self,
        tree: usize,
        least: f64,
        scratch: &mut Scratch,
        pause: &mut Pause<'_>,
    ) -> Result<Vec<u32>> {
        let end = self.place[tree] as usize;
        scratch.prepare(self, end)?;
        let Scratch { sums, blocks, .. } = scratch;
        let vector = self.vectors.get(tree);
        let slack = ROUNDING * (vector.len() + 16) as f64;
        let least = (least - slack).max(0.0);
        sums[..end].copy_from_slice(&self.start[..end]);
        // 1. What is left out.
        self.by_price(tree, blocks);
        let (mut squares, mut own) = (0.0, [0.0f32; DENSE]);
        let limit = square((HEAD * least) as f32);
        for (_, block, norm) in blocks.iter_mut().rev() {
            let more = squares + square(*norm);
            if let Some(cell) = own.get_mut(*block as usize)
                && more < limit
            {
                squares = more;
                *cell = std::mem::take(norm);
            }
        }
        // 2. The lists.
        for &(_, block, norm) in blocks.iter().filter(|item| item.2 > 0.0) {
            pause()?;
            let list = self.lists.get(block as usize);
            let list = &list[..list.partition_point(|item| (item.0 as usize) < end)];
            for &(place, other) in list {
                let [sum, squares] = &mut sums[place as usize];
                *sum += norm * other;
                *squares += other * other;
            }
        }
        // 3. Who may reach it.
        let (least, head) = (least as f32, (squares + slack) as f32);
        let most = 1.0 + slack as f32;
        let may_reach = |[sum, squares]: [f32; 2]| {
            let missing = least - sum;
            (missing <= 0.0) | (missing * missing <= head * (most - squares).max(0.0))
        };
        let mut trees = Vec::new();
        for (chunk, first) in sums[..end].chunks(LANES).zip((0..).step_by(LANES)) {
            if !chunk.iter().fold(false, |any, &sums| any | may_reach(sums)) {
                continue;
            }
            pause()?;
            // 4. Who does, with what the head adds.
            for (&sums, place) in chunk.iter().zip(first..) {
                if may_reach(sums) && sums[0] + dot(&own, &self.dense[place]) >= least {
                    trees.push(self.order[place]);
                }
            }
        }
        Ok(trees)
    }
}

impl Scratch {
    fn prepare(&mut self, lists: &Lists, n: usize) -> Result<()> {
        let Self { sums, norms, .. } = self;
        if sums.len() < n {
            let more = n - sums.len();
            reserve(sums, more)?;
            sums.resize(n, [0.0; 2]);
        }
        if norms.len() < lists.n_blocks {
            let more = lists.n_blocks - norms.len();
            reserve(norms, more)?;
            norms.resize(lists.n_blocks, 0.0);
        }
        Ok(())
    }
}

fn dot(a: &[f32; DENSE], b: &[f32; DENSE]) -> f32 {
    // Sums side by side, for the compiler to add several at a time.
    let mut sums = [0.0; 8];
    for (a, b) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

fn square(norm: f32) -> f64 {
    f64::from(norm) * f64::from(norm)
}
