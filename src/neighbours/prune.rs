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

/// The index of some vectors, for one threshold and all above it.
#[derive(Debug)]
pub(crate) struct Index {
    /// By block: its place in the order, or [`UNRANKED`].
    ranks: Vec<u32>,
    columns: Ranked,
    /// Per block: tails that have it, trees ascending.
    lists: Ragged<Entry>,
    /// Of each entry the place in its tree's vector.
    places: Vec<u32>,
}

/// Vectors whose blocks stand in an index's order.
#[derive(Debug)]
pub(crate) struct Ranked {
    /// Per tree its blocks, the rarest first, with norms.
    vectors: Vectors,
    /// Trees without vectors, ascending.
    open: Vec<u32>,
}

/// Who asks the columns.
#[derive(Clone, Copy)]
pub(crate) enum Askers<'a> {
    /// They themselves.
    Columns,
    /// Others, and by block whether one of them has it.
    Some(&'a [bool]),
    /// They themselves, and any others.
    Any,
}

/// A block that is in no list.
const UNRANKED: u32 = u32::MAX;

impl Ranked {
    /// Blocks that have no place match nothing, and are left out.
    fn new(mut vectors: Vectors, ranks: &[u32], threads: &Threads<'_>) -> Result<Self> {
        let mut open = Vec::new();
        for (tree, vector) in vectors.iter().enumerate() {
            if is_open(vector) {
                push(&mut open, tree as u32)?;
            }
        }
        for item in &mut vectors.items {
            item.0 = ranks.get(item.0 as usize).copied().unwrap_or(UNRANKED);
        }
        vectors.retain(|item| item.0 != UNRANKED);
        for tree in 0..vectors.len() {
            threads.context.check()?;
            let (start, len) = (vectors.start(tree), vectors.get(tree).len());
            vectors.items[start..start + len].sort_unstable_by_key(|item| item.0);
        }
        Ok(Self { vectors, open })
    }

    /// A tree's vector; None where it has none.
    fn get(&self, tree: usize) -> Option<&[(u32, f32)]> {
        let is_open = self.open.binary_search(&(tree as u32)).is_ok();
        (!is_open).then(|| self.vectors.get(tree))
    }
}

/// How many blocks of a vector are its tail.
fn tail_of(vector: &[(u32, f32)], least: f64) -> usize {
    let mut head = 0.0;
    let is_head = |item: &&(u32, f32)| {
        head += square(item.1);
        head.sqrt() < least
    };
    vector.len() - vector.iter().rev().take_while(is_head).count()
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
    /// Indexes trees. τ is above 0.
    pub(crate) fn new(
        vectors: Vectors,
        n_blocks: usize,
        least: f64,
        askers: Askers<'_>,
        threads: &Threads<'_>,
    ) -> Result<Self> {
        let least = least - 4.0 * SLACK;
        // 1. The order of blocks, without those that match nothing.
        let mut times = filled(0u32, n_blocks)?;
        let mut mass = filled(0.0, n_blocks)?;
        for vector in vectors.iter().filter(|vector| !is_open(vector)) {
            for &(block, norm) in vector {
                times[block as usize] += 1;
                mass[block as usize] += square(norm);
            }
        }
        let is_asked = |&block: &u32| match (times[block as usize], askers) {
            (0, _) | (1, Askers::Columns) => false,
            (_, Askers::Some(asked)) => asked[block as usize],
            _ => true,
        };
        // Where few trees have much. By the number of trees alone, 1.3 times the time.
        let key = |block: u32| {
            let (times, mass) = (times[block as usize], mass[block as usize]);
            let key = (f64::from(times).powi(3) / mass) as f32;
            // Floats from 0 on are ordered as their bits are: one number for each block.
            u64::from(key.to_bits()) << 32 | u64::from(block)
        };
        let mut keys = collect((0..n_blocks as u32).filter(is_asked).map(key))?;
        keys.sort_unstable();
        let order = collect(keys.iter().map(|&key| key as u32))?;
        let mut ranks = filled(UNRANKED, n_blocks)?;
        order.iter().zip(0..).for_each(|(&block, at)| ranks[block as usize] = at);
        // 2. Vectors in that order, and their tails.
        let columns = Ranked::new(vectors, &ranks, threads)?;
        let vectors = &columns.vectors;
        let tails = collect(vectors.iter().map(|vector| tail_of(vector, least)))?;
        let mut lens = filled(0u32, order.len())?;
        for (vector, &tail) in vectors.iter().zip(&tails) {
            vector[..tail].iter().for_each(|item| lens[item.0 as usize] += 1);
        }
        // 3. Their lists.
        let total: usize = lens.iter().map(|&len| len as usize).sum();
        new_id(total, "pairs of tree and block")?;
        let mut lists = Filler::new(lens, Entry::default())?;
        for (tree, (vector, &tail)) in vectors.iter().zip(&tails).enumerate() {
            let mut rest: f64 = vector.iter().map(|item| square(item.1)).sum();
            for item in &vector[..tail] {
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
        Ok(Self { ranks, columns, lists, places })
    }

    pub(crate) fn nbytes(&self) -> usize {
        let trees = self.columns.open.len() + self.places.len() + self.ranks.len();
        self.columns.vectors.nbytes() + self.lists.nbytes() + trees * 4
    }

    /// Makes vectors ready to ask, whose blocks are called what `here` says: those of the
    /// index, or [`u32::MAX`].
    pub(crate) fn asking(
        &self,
        mut vectors: Vectors,
        here: &[u32],
        threads: &Threads<'_>,
    ) -> Result<Ranked> {
        let mut open = Vec::new();
        for (tree, vector) in vectors.iter().enumerate() {
            if is_open(vector) {
                push(&mut open, tree as u32)?;
            }
        }
        for item in &mut vectors.items {
            item.0 = here.get(item.0 as usize).copied().unwrap_or(UNRANKED);
        }
        Ok(Ranked { open, ..Ranked::new(vectors, &self.ranks, threads)? })
    }

    /// The columns before `end` whose dot product with a tree of `rows`, or with a column,
    /// may be τ or more: `least`, which is that of the index or above it. Each with what it is
    /// at most.
    pub(crate) fn find(
        &self,
        rows: Option<&Ranked>,
        x: usize,
        (end, least): (usize, f64),
        scratch: &mut Scratch,
        context: &Context,
    ) -> Result<Vec<(u32, f64)>> {
        let unbounded = |tree| (tree, f64::INFINITY);
        let Some(vector) = rows.unwrap_or(&self.columns).get(x) else {
            return collect((0..end as u32).map(unbounded));
        };
        let least = least - 4.0 * SLACK;
        let open = self.columns.open.iter().copied();
        let open = open.take_while(|&tree| (tree as usize) < end);
        let mut found = collect(open.map(unbounded))?;
        let Scratch { met, touched, left, norms } = scratch;
        reach(met, self.columns.vectors.len(), PartialDot::default())?;
        reach(norms, self.lists.len(), [0.0; 2])?;
        let mut rest: f64 = vector.iter().map(|item| square(item.1)).sum();
        for &(block, norm) in vector {
            rest -= square(norm);
            norms[block as usize] = [norm, root(rest)];
        }
        // 1. Read the lists.
        let mut read = || {
            for &(block, norm) in &vector[..tail_of(vector, least)] {
                context.check()?;
                reserve(touched, self.lists.get(block as usize).len())?;
                let asker = [norm, norms[block as usize][1]];
                self.read(block, asker, (end, least), met, touched);
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
                *vector = &self.columns.vectors.get(tree)
                    [self.places[met.at as usize] as usize..];
            }
            // They are far apart in memory: it brings many as fast as one.
            for vector in &vectors[..some.len()] {
                std::hint::black_box(vector[0]);
            }
            for (met, vector) in some.iter().zip(vectors) {
                let entry = self.lists.items[met.at as usize];
                let known = (met.sum, entry.rest);
                if let Some(most) = most_if(least, known, vector, norms) {
                    found.push((entry.tree, most + 4.0 * SLACK)); // has room
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
        [norm, rest]: [f32; 2],
        (end, least): (usize, f64),
        met: &mut [PartialDot],
        touched: &mut Vec<u32>,
    ) {
        let least = (least * ONE * ONE) as i32;
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
}

/// A dot product, if it may be τ or more, of which is known: a sum, up to the first block of
/// the rest of a vector, and the norm of all behind that.
fn most_if(
    least: f64,
    (sum, left): (i32, u16),
    vector: &[(u32, f32)],
    norms: &[[f32; 2]],
) -> Option<f64> {
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
        if sum + f64::from(root(left)) * f64::from(rest) < least {
            return None;
        }
    }
    Some(sum)
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
