//! Which pairs of unit vectors may have a dot product of at least τ.
//!
//! Blocks are ordered, those that most trees have first. Of each vector the longest
//! beginning whose norm is below τ is its *head*, the rest its *tail*. If two tails have
//! no block in common, all common blocks are in the head of one of the two (that with the
//! longer head), and the dot product is at most its norm, below τ. So only tails are
//! indexed, which have the rare blocks, and a tree asks with its tail only (Bayardo, Ma &
//! Srikant, WWW 2007; Anastasiu & Karypis, ICDE 2014).
//!
//! While a tree reads the lists of its tail, products are added up for each tree that it
//! meets, as long as what is left of both vectors could still reach τ: in whole numbers,
//! rounded up. For those that remain, the rest of the other vector is added up.
//!
//! # Complexity
//! A tree takes time by the entries of its tail's lists, and by the lengths of the vectors
//! that remain. Memory by the lengths of all vectors.

use super::blocks::{Vectors, is_open};
use crate::intern::new_id;
use crate::memory::{collect, filled, push, reach, reserve};
use crate::ragged::{Filler, Ragged};
use crate::threads::Threads;
use crate::{Context, Result};

/// Dot products are sums of floats of 32 bits, rounded up, in 64 bits, and norms are 1 but
/// for this.
const SLACK: f64 = 1e-6;
/// Blocks that are added up before it is asked whether the rest could do.
const PER_LOOK: usize = 16;
/// Vectors whose memory is asked for at once, before the first is needed.
const AT_ONCE: usize = 16;
/// A norm of 1 in [`Entry`]: two norms and a sum of their products fit into 31 bits.
const ONE: f64 = 32_768.0;
/// In place of a sum: τ is out of reach.
const OUT_OF_REACH: i32 = i32::MIN;

/// A block of a tree's tail.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    tree: u32,
    /// [Rounded up](parts), as the next.
    norm: u16,
    /// The norm of all that is behind it there.
    rest: u16,
}

/// What is known of a tree while another reads its lists.
#[derive(Debug, Clone, Copy, Default)]
struct PartialDot {
    /// In parts of 1 / [`ONE`]²: the product so far, 0 before the first block, or [`OUT_OF_REACH`].
    sum: i32,
    /// The last entry, in all lists.
    at: u32,
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
    /// Of each entry the place in its tree's vector.
    places: Vec<u32>,
    /// Trees without vectors, ascending.
    open: Vec<u32>,
    least: f64,
    n_columns: usize,
}

/// What one worker keeps from tree to tree.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// By tree, and which trees have a sum.
    met: Vec<PartialDot>,
    touched: Vec<u32>,
    /// Those that are not lost.
    left: Vec<PartialDot>,
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
        threads: &Threads<'_>,
    ) -> Result<Self> {
        let least = least - 4.0 * SLACK;
        // 1. The order of blocks; those of one tree match nothing.
        let mut times = filled(0u32, n_blocks)?;
        let mut open = Vec::new();
        let mut mass = filled(0.0, n_blocks)?;
        for (tree, vector) in vectors.iter().enumerate() {
            if is_open(vector) {
                push(&mut open, tree as u32)?;
                continue;
            }
            for &(block, norm) in vector {
                times[block as usize] += 1;
                mass[block as usize] += square(norm);
            }
        }
        let mut order = collect(0..n_blocks as u32)?;
        order.retain(|&block| times[block as usize] > 1);
        // Where few trees have much. By the number of trees alone, 1.3 times the time.
        let key = |&block: &u32| {
            f64::from(times[block as usize]).powi(3) / mass[block as usize]
        };
        order.sort_unstable_by(|a, b| key(a).total_cmp(&key(b)).then(a.cmp(b)));
        let mut rank = filled(u32::MAX, n_blocks)?;
        order.iter().zip(0..).for_each(|(&block, at)| rank[block as usize] = at);
        // 2. Vectors in that order, and their tails.
        for item in &mut vectors.items {
            item.0 = rank.get(item.0 as usize).copied().unwrap_or(u32::MAX);
        }
        vectors.retain(|item| item.0 != u32::MAX);
        let mut tails = Vec::new();
        reserve(&mut tails, vectors.len())?;
        let mut lens = filled(0u32, order.len())?;
        for tree in 0..vectors.len() {
            threads.context.check()?;
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
            push(&mut tails, tail as u32)?;
            if tree < n_columns {
                vector[..tail].iter().for_each(|item| lens[item.0 as usize] += 1);
            }
        }
        // 3. Their lists.
        let total: usize = lens.iter().map(|&len| len as usize).sum();
        new_id(total, "pairs of tree and block")?;
        let mut lists = Filler::new(lens, Entry::default())?;
        for tree in 0..n_columns {
            let vector = vectors.get(tree);
            let mut rest: f64 = vector.iter().map(|item| square(item.1)).sum();
            for item in &vector[..tails[tree] as usize] {
                rest -= square(item.1);
                let [norm, rest] = [item.1, root(rest)].map(parts);
                lists.put(item.0, Entry { tree: tree as u32, norm, rest });
            }
        }
        let lists = lists.done();
        // Lists stand in the order of the vectors, so each meets a tree's next place.
        let mut next = filled(0, vectors.len())?;
        let place = |entry: &Entry| {
            let next = &mut next[entry.tree as usize];
            *next += 1;
            *next - 1
        };
        let places = collect(lists.items.iter().map(place))?;
        Ok(Self { vectors, tails, lists, places, open, least, n_columns })
    }

    pub(crate) fn nbytes(&self) -> usize {
        let trees = self.tails.len() + self.open.len();
        self.vectors.nbytes() + self.lists.nbytes() + (trees + self.places.len()) * 4
    }

    /// The columns before `end` whose dot product with a tree may be τ or more.
    pub(crate) fn find(
        &self,
        x: usize,
        end: usize,
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<u32>> {
        if self.open.binary_search(&(x as u32)).is_ok() {
            return collect(0..end as u32);
        }
        let open = self.open.iter().take_while(|&&tree| (tree as usize) < end);
        let mut found = collect(open.copied())?;
        let Scratch { met, touched, left, norms } = scratch;
        reach(met, self.n_columns, PartialDot::default())?;
        reach(norms, self.lists.len(), [0.0; 2])?;
        let vector = self.vectors.get(x);
        let mut rest: f64 = vector.iter().map(|item| square(item.1)).sum();
        for &(block, norm) in vector {
            rest -= square(norm);
            norms[block as usize] = [norm, root(rest)];
        }
        // 1. Read the lists.
        let mut read = || {
            for &(block, norm) in &vector[..self.tails[x] as usize] {
                context.check()?;
                reserve(touched, self.lists.get(block as usize).len())?;
                self.read(block, norm, norms[block as usize][1], end, met, touched);
            }
            reserve(&mut found, touched.len())?;
            reserve(left, touched.len())
        };
        let done = read();
        let sums =
            touched.drain(..).map(|tree| std::mem::take(&mut met[tree as usize]));
        left.clear();
        if done.is_ok() {
            left.extend(sums.filter(|met| met.sum != OUT_OF_REACH)); // has room
        } else {
            sums.for_each(drop);
        }
        // 2. Add up the rest of the vectors that were met.
        for some in left.chunks(AT_ONCE) {
            let mut vectors: [&[(u32, f32)]; AT_ONCE] = [&[]; AT_ONCE];
            for (met, vector) in some.iter().zip(&mut vectors) {
                let tree = self.lists.items[met.at as usize].tree as usize;
                *vector =
                    &self.vectors.get(tree)[self.places[met.at as usize] as usize..];
            }
            // They are far apart in memory: it brings many as fast as one.
            for vector in &vectors[..some.len()] {
                std::hint::black_box(vector[0]);
            }
            for (met, vector) in some.iter().zip(vectors) {
                let entry = self.lists.items[met.at as usize];
                if self.may_reach(met.sum, entry.rest, vector, norms) {
                    found.push(entry.tree); // has room
                }
            }
        }
        for &(block, _) in vector {
            norms[block as usize] = [0.0; 2];
        }
        done.map(|()| found)
    }

    /// Reads a block's list up to a tree: adds products to what is known of its trees.
    #[inline(never)]
    fn read(
        &self,
        block: u32,
        norm: f32,
        rest: f32,
        end: usize,
        met: &mut [PartialDot],
        touched: &mut Vec<u32>,
    ) {
        let least = (self.least * ONE * ONE) as i32;
        let [norm, rest] = [norm, rest].map(|norm| i32::from(parts(norm)));
        let start = self.lists.start(block as usize) as u32;
        for (at, entry) in (start..).zip(self.lists.get(block as usize)) {
            if entry.tree as usize >= end {
                break;
            }
            let before = &mut met[entry.tree as usize];
            let sum = before.sum + norm * i32::from(entry.norm);
            if sum + rest * i32::from(entry.rest) < least {
                // So it is at all further blocks.
                if before.sum > 0 {
                    before.sum = OUT_OF_REACH;
                }
                continue;
            }
            if before.sum == 0 {
                touched.push(entry.tree); // has room
            }
            *before = PartialDot { sum, at };
        }
    }

    /// Whether a dot product may be τ or more, of which is known: a sum, up to the first
    /// block of the rest of a vector, and the norm of all behind that.
    fn may_reach(
        &self,
        sum: i32,
        left: u16,
        vector: &[(u32, f32)],
        norms: &[[f32; 2]],
    ) -> bool {
        let mut sum = f64::from(sum) / (ONE * ONE);
        let mut left = (f64::from(left) / ONE).powi(2);
        let [_, mut rest] = norms[vector[0].0 as usize];
        for part in vector[1..].chunks(PER_LOOK) {
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

/// A norm in parts of 1 / [`ONE`], rounded up, and not 0.
fn parts(norm: f32) -> u16 {
    (f64::from(norm) * ONE).ceil().max(1.0) as u16
}

fn square(norm: f32) -> f64 {
    f64::from(norm) * f64::from(norm)
}

/// Of a difference, which rounding may make too small.
fn root(square: f64) -> f32 {
    (square.max(0.0) + 1e-12).sqrt() as f32
}
