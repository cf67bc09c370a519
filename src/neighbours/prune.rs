//! Which pairs of unit vectors may have a dot product of at least τ.
//!
//! Blocks are ordered, those that most trees have first. Of each vector the longest
//! beginning whose norm is below τ is its *head*, the rest its *tail*. If two tails have
//! no block in common, all common blocks are in the head of one of the two (that with the
//! longer head), and the dot product is at most its norm, below τ. So only tails are
//! indexed, which have the rare blocks, and a tree asks with its tail only (Bayardo, Ma &
//! Srikant, WWW 2007; Anastasiu & Karypis, ICDE 2014).
//!
//! What is found is then added up, from the rare blocks on, as long as what is left of
//! both vectors could still reach τ.
//!
//! # Complexity
//! A tree takes time by the entries of its tail's lists, and by the lengths of the vectors
//! that it finds there. Memory by the lengths of all vectors.

use super::blocks::{Vectors, is_open};
use crate::Result;
use crate::intern::new_id;
use crate::memory::{reserve, room};
use crate::ragged::{Filler, Ragged};
use crate::threads::{Pause, WatchedThreads};

/// Dot products are sums of floats of 32 bits, rounded up, in 64 bits, and norms are 1 but
/// for this.
const SLACK: f64 = 1e-6;
/// Blocks that are added up before it is asked whether the rest could do.
const PER_LOOK: usize = 16;

/// A block of a tree's tail.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    tree: u32,
    /// Its place in the tree's vector.
    place: u32,
    norm: f32,
    /// The norm of all that is behind it there.
    rest: f32,
}

/// The index of some vectors for one threshold.
#[derive(Debug)]
pub(crate) struct Index {
    /// Per tree its blocks, the rarest first, with norms.
    vectors: Vectors,
    /// Per tree how many of them are its tail.
    tails: Vec<u32>,
    /// Per block: tails that have it, trees ascending.
    lists: Ragged<Entry>,
    /// Trees without vectors, ascending.
    open: Vec<u32>,
    least: f64,
    n_columns: usize,
}

/// What one worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// By tree: the last that found it.
    seen: Vec<u32>,
    /// By block: the asker's norm, and that of all behind it.
    norms: Vec<[f32; 2]>,
}

impl Index {
    /// Indexes the first `n_columns` trees; those behind only ask. τ is above 0.
    pub(crate) fn new(
        mut vectors: Vectors,
        n_blocks: usize,
        n_columns: usize,
        least: f64,
        threads: &mut WatchedThreads<'_>,
    ) -> Result<Self> {
        let least = least - 4.0 * SLACK;
        // Tables of blocks, and lists of all there may be.
        room(n_blocks, 32)?;
        room(vectors.items.len(), size_of::<Entry>())?;
        // 1. The order of blocks; those of one tree match nothing.
        let mut times = vec![0u32; n_blocks];
        let mut open = Vec::new();
        let mut mass = vec![0.0; n_blocks];
        for (tree, vector) in vectors.iter().enumerate() {
            if is_open(vector) {
                open.push(tree as u32);
                continue;
            }
            for &(block, norm) in vector {
                times[block as usize] += 1;
                mass[block as usize] += square(norm);
            }
        }
        let mut order: Vec<u32> = (0..n_blocks as u32).collect();
        order.retain(|&block| times[block as usize] > 1);
        // Where few trees have much. By the number of trees alone, 1.3 times the time.
        let key = |&block: &u32| {
            f64::from(times[block as usize]).powi(3) / mass[block as usize]
        };
        order.sort_unstable_by(|a, b| key(a).total_cmp(&key(b)).then(a.cmp(b)));
        let mut rank = vec![u32::MAX; n_blocks];
        order.iter().zip(0..).for_each(|(&block, at)| rank[block as usize] = at);
        // 2. Vectors in that order, and their tails.
        for item in &mut vectors.items {
            item.0 = rank.get(item.0 as usize).copied().unwrap_or(u32::MAX);
        }
        vectors.retain(|item| item.0 != u32::MAX);
        let mut tails = Vec::with_capacity(vectors.len());
        let mut lens = vec![0u32; order.len()];
        for tree in 0..vectors.len() {
            threads.pause()?;
            let (start, len) = (vectors.start(tree), vectors.get(tree).len());
            let vector = &mut vectors.items[start..start + len];
            vector.sort_unstable_by_key(|item| item.0);
            let (mut head, mut tail) = (0.0, len);
            while tail > 0 {
                head += square(vector[tail - 1].1);
                if head.sqrt() >= least {
                    break;
                }
                tail -= 1;
            }
            tails.push(tail as u32);
            if tree < n_columns {
                vector[..tail].iter().for_each(|item| lens[item.0 as usize] += 1);
            }
        }
        // 3. Their lists.
        let total: usize = lens.iter().map(|&len| len as usize).sum();
        new_id(total, "pairs of tree and block")?;
        let mut lists = Filler::new(lens, Entry::default());
        for tree in 0..n_columns {
            let vector = vectors.get(tree);
            let mut rest: f64 = vector.iter().map(|item| square(item.1)).sum();
            for (place, item) in vector[..tails[tree] as usize].iter().enumerate() {
                rest -= square(item.1);
                let (tree, place) = (tree as u32, place as u32);
                lists
                    .put(item.0, Entry { tree, place, norm: item.1, rest: root(rest) });
            }
        }
        Ok(Self { vectors, tails, lists: lists.done(), open, least, n_columns })
    }

    pub(crate) fn nbytes(&self) -> usize {
        let trees = self.tails.len() + self.open.len();
        self.vectors.nbytes() + self.lists.nbytes() + trees * 4
    }

    /// The columns before `end` whose dot product with a tree may be τ or more.
    pub(crate) fn find(
        &self,
        x: usize,
        end: usize,
        scratch: &mut Scratch,
        pause: &mut Pause<'_>,
    ) -> Result<Vec<u32>> {
        if self.open.binary_search(&(x as u32)).is_ok() {
            return Ok((0..end as u32).collect());
        }
        let open = self.open.iter().take_while(|&&tree| (tree as usize) < end);
        let mut found: Vec<u32> = open.copied().collect();
        let Scratch { seen, norms } = scratch;
        reserve(seen, self.n_columns.saturating_sub(seen.len()))?;
        reserve(norms, self.lists.len().saturating_sub(norms.len()))?;
        seen.resize(self.n_columns, u32::MAX);
        norms.resize(self.lists.len(), [0.0; 2]);
        let vector = self.vectors.get(x);
        let mut rest: f64 = vector.iter().map(|item| square(item.1)).sum();
        for &(block, norm) in vector {
            rest -= square(norm);
            norms[block as usize] = [norm, root(rest)];
        }
        let least = self.least as f32;
        for &(block, norm) in &vector[..self.tails[x] as usize] {
            pause()?;
            let [_, rest] = norms[block as usize];
            for entry in self.lists.get(block as usize) {
                let tree = entry.tree as usize;
                if tree >= end {
                    break;
                }
                // Where this is too little it is so at all further blocks.
                if norm * entry.norm + rest * entry.rest < least
                    || std::mem::replace(&mut seen[tree], x as u32) == x as u32
                {
                    continue;
                }
                if self.may_reach(entry, norms) {
                    found.push(entry.tree);
                }
            }
        }
        for &(block, _) in vector {
            norms[block as usize] = [0.0; 2];
        }
        Ok(found)
    }

    /// Whether the dot product of the asker and a tree is τ or more, whose first common
    /// block is known.
    fn may_reach(&self, entry: &Entry, norms: &[[f32; 2]]) -> bool {
        let vector = &self.vectors.get(entry.tree as usize)[entry.place as usize..];
        let (mut sum, mut left, mut rest) =
            (0.0, square(entry.norm) + square(entry.rest), 1.0f32);
        for part in vector.chunks(PER_LOOK) {
            for &(block, norm) in part {
                let [other, behind] = norms[block as usize];
                sum += f64::from(norm) * f64::from(other);
                left -= square(norm);
                rest = if other > 0.0 { behind } else { rest };
            }
            if sum + f64::from(root(left)) * f64::from(rest) < self.least {
                return false;
            }
        }
        true
    }
}

fn square(norm: f32) -> f64 {
    f64::from(norm) * f64::from(norm)
}

/// Of a difference, which rounding may make too small.
fn root(square: f64) -> f32 {
    (square.max(0.0) + 1e-12).sqrt() as f32
}
