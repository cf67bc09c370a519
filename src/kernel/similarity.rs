//! Similarities of labels: σ(x,y), from -1 to 1 and symmetric, 1 for equal labels.
//!
//! Kernels that match labels by similarity ask for it once per call: a [`Similarity`] gets
//! all labels of the trees at hand, and answers with a [`SimilarityTable`]. So it may be anything: a
//! list of pairs, cosines of vectors, a function of a user's.
//!
//! **Blocks.** Labels that are similar, directly or through others, are a *block*; two
//! labels of different blocks have σ = 0. Most labels are in no block, and cost nothing. A
//! block of which more than a quarter is not 0 is kept as a matrix, any other by rows.
//!
//! **Cosines** are sums in one order, whatever other labels there are: a similarity at a
//! threshold must not depend on what else is in a forest. (The last bits of a product by BLAS
//! may depend on where a row stands in the matrix.)
//!
//! # Complexity
//! Cosines: the pairs within each class times the length of the vectors. A look-up: constant
//! in a matrix, the logarithm of a row elsewhere.

use std::fmt::Debug;
use std::sync::Arc;

use super::parameter;
use crate::error::quoted;
use crate::memory::{self, Map, filled, filled_with, reserve};
use crate::ragged::Ragged;
use crate::vector::{Loop, vectorized};
use crate::{Context, Error, Result};

/// "In no block", and "of no class".
pub(crate) const NONE: u32 = u32::MAX;

/// How similar labels are.
pub trait Similarity: Debug + Send + Sync + 'static {
    /// σ of every pair of some different labels. `context` is asked now and then where that
    /// takes long.
    ///
    /// # Errors
    /// Those of [`SimilarityTable`], and what `context` returns.
    fn table(&self, labels: &[&str], context: &Context)
    -> Result<Arc<SimilarityTable>>;

    /// σ of other labels with the `known` ones, of which there is a table: for each the
    /// numbers of those for which it is not 0, in ascending order. Trees that ask an index
    /// have such labels, so it is worth writing where it takes less than a table of all
    /// labels, by which it is found otherwise.
    ///
    /// # Errors
    /// As [`table`](Self::table).
    fn rows(
        &self,
        known: (&[String], &Arc<SimilarityTable>),
        others: &[&str],
        context: &Context,
    ) -> Result<Vec<SimilarityRow>> {
        let known = known.0;
        let labels = known.iter().map(String::as_str).chain(others.iter().copied());
        let table = self.table(&memory::collect(labels)?, context)?;
        let rows = (known.len()..table.len()).map(|other| {
            let mut row = table.similar(other)?;
            row.retain(|&(label, _)| (label as usize) < known.len());
            Ok(row)
        });
        memory::try_collect(rows)
    }
}

/// Labels by their numbers in a table, ascending, and σ of each with another label.
pub type SimilarityRow = Vec<(u32, f64)>;

/// Labels that are equal or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Equality;

impl Similarity for Equality {
    fn table(&self, labels: &[&str], _: &Context) -> Result<Arc<SimilarityTable>> {
        Ok(Arc::new(SimilarityTable::from_pairs(labels.len(), Vec::new())?))
    }
}

/// Pairs of labels with their similarities; all others have 0.
///
/// ```
/// use treekernel_rs::kernel::{LabelPairs, PartialTree, SmoothedPartialTree};
/// use treekernel_rs::{Forest, gram};
///
/// let similarity = LabelPairs::new([("cat", "dog", 0.8)]);
/// let kernel = SmoothedPartialTree::new(PartialTree::default(), similarity);
/// let forest = Forest::from_brackets("(N (cat)) (N (dog))")?;
/// let matrix = gram::gram(&kernel, &forest, None, gram::Options::default())?;
/// assert!((matrix[[0, 1]] - 0.13568).abs() < 1e-12);
/// # Ok::<(), treekernel_rs::Error>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LabelPairs {
    pairs: Vec<(String, String, f64)>,
}

impl LabelPairs {
    /// Pairs in either order, each once.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str, f64)>) -> Self {
        let owned = |(x, y, s): (&str, &str, f64)| (x.to_owned(), y.to_owned(), s);
        // bounded: a kernel's parameters
        Self { pairs: pairs.into_iter().map(owned).collect() }
    }
}

impl Similarity for LabelPairs {
    fn table(&self, labels: &[&str], _: &Context) -> Result<Arc<SimilarityTable>> {
        let ids: Map<&str, u32> = Map::of(labels.iter().copied().zip(0..))?;
        let mut pairs = Vec::new();
        for (x, y, value) in &self.pairs {
            let is_right = if x == y { *value == 1.0 } else { value.abs() <= 1.0 };
            if !is_right {
                let expected = "from -1 to 1, and 1 for equal labels";
                let got = format!("{value} for {} and {}", quoted(x), quoted(y));
                return Err(parameter("similarity", expected, &got));
            }
            if let (Some(&x), Some(&y)) = (ids.get(&**x), ids.get(&**y)) {
                memory::push(&mut pairs, (x, y, *value))?;
            }
        }
        Ok(Arc::new(SimilarityTable::from_pairs(labels.len(), pairs)?))
    }
}

/// σ of all pairs of some labels, by their numbers.
#[derive(Debug, Clone, Default)]
pub struct SimilarityTable {
    /// By label: its block, or `NONE`, and its place there.
    block: Vec<u32>,
    place: Vec<u32>,
    blocks: Vec<Block>,
    /// For the cosines of other labels.
    vectors: Option<UnitVectors>,
}

/// Vectors of labels, scaled to length 1.
#[derive(Debug, Clone)]
struct UnitVectors {
    how: Cosines,
    /// How many numbers a vector has.
    len: usize,
    /// By class, in the order in which labels bring them: those that have a vector.
    members: Ragged<u32>,
    /// By class: its place there.
    places: Map<u32, u32>,
    /// By member.
    numbers: Vec<f64>,
}

/// σ within a block, by places.
#[derive(Debug, Clone)]
pub(crate) enum Block {
    /// Row by row.
    Matrix {
        /// How many labels there are.
        n: usize,
        /// σ of each pair.
        values: Vec<f64>,
    },
    /// What is not 0, without the diagonal.
    Rows {
        /// Where each row ends.
        ends: Vec<usize>,
        /// Places in ascending order, and σ.
        items: Vec<(u32, f64)>,
    },
}

impl Block {
    /// How many labels there are.
    #[cfg(feature = "python")]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Matrix { n, .. } => *n,
            Self::Rows { ends, .. } => ends.len(),
        }
    }

    #[inline]
    fn get(&self, x: usize, y: usize) -> f64 {
        match self {
            Self::Matrix { n, values } => values[x * n + y],
            Self::Rows { ends, items } => {
                if x == y {
                    return 1.0;
                }
                let start = x.checked_sub(1).map_or(0, |before| ends[before]);
                let row = &items[start..ends[x]];
                let found = row.binary_search_by_key(&(y as u32), |item| item.0);
                found.map_or(0.0, |at| row[at].1)
            }
        }
    }
}

/// What is made of cosines.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Cosines {
    /// An exponent, applied last.
    pub power: u32,
    /// Cosines below are 0.
    pub threshold: Option<f64>,
    /// Whether negative cosines are 0.
    pub clip: bool,
}

impl Default for Cosines {
    fn default() -> Self {
        Self { power: 1, threshold: None, clip: false }
    }
}

impl Cosines {
    /// A rule.
    pub fn new(power: u32, threshold: Option<f64>, clip: bool) -> Self {
        Self { power, threshold, clip }
    }

    /// σ of a cosine.
    fn of(&self, cosine: f64) -> f64 {
        let mut c = cosine.clamp(-1.0, 1.0);
        if self.clip {
            c = c.max(0.0);
        }
        if self.threshold.is_some_and(|threshold| c < threshold) {
            return 0.0;
        }
        // By multiplications in one order: the same bits on every machine.
        let (mut value, mut square, mut left) = (1.0, c, self.power);
        while left > 0 {
            if left % 2 == 1 {
                value *= square;
            }
            square *= square;
            left /= 2;
        }
        value
    }
}

impl SimilarityTable {
    /// Of so many labels, some pairs of which have a σ that is not 0, each given once. The
    /// diagonal is 1.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a σ beyond ±1 or not finite, or a label that is not there;
    /// [`Error::Memory`].
    pub fn from_pairs(n: usize, pairs: Vec<(u32, u32, f64)>) -> Result<Self> {
        for &(x, y, value) in &pairs {
            let is_right = if x == y { value == 1.0 } else { value.abs() <= 1.0 };
            if !is_right || x.max(y) as usize >= n {
                let expected =
                    "from -1 to 1 for two of the labels, and 1 for equal ones";
                let got = format!("{value} for labels {x} and {y} of {n}");
                return Err(parameter("similarity", expected, &got));
            }
        }
        let mut table = Self::blank(n)?;
        table.add(pairs, |label| label)?;
        Ok(table)
    }

    /// By cosines of vectors, row by row of so many numbers: of labels of the same class,
    /// where it is not `NONE` and neither vector 0.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn from_vectors(
        vectors: &[f64],
        classes: &[u32],
        how: Cosines,
    ) -> Result<Self> {
        Self::from_vectors_with(vectors, classes, how, &Context::default())
    }

    /// As [`from_vectors`](Self::from_vectors), in a context.
    ///
    /// # Errors
    /// As [`from_vectors`](Self::from_vectors), and what `context` returns.
    pub fn from_vectors_with(
        vectors: &[f64],
        classes: &[u32],
        how: Cosines,
        context: &Context,
    ) -> Result<Self> {
        let mut table = Self::blank(classes.len())?;
        // 1. Scale to length 1.
        let unit_vectors = UnitVectors::new(vectors, classes, how)?;
        let len = unit_vectors.len;
        let mut from = 0;
        for same in unit_vectors.members.iter() {
            // 2. The cosines of a class.
            let n = same.len();
            let unit = &unit_vectors.numbers[from * len..][..n * len];
            from += n;
            // Without a threshold nearly no cosine is 0, so they make a matrix.
            if how.threshold.is_none() {
                let mut values = filled(0.0, n * n)?;
                cosines(unit, len, n, context, |i, j, cosine| {
                    let value = how.of(cosine);
                    values[i * n + j] = value;
                    values[j * n + i] = value;
                    Ok(())
                })?;
                for i in 0..n {
                    values[i * n + i] = 1.0;
                }
                // A class of one label has nothing similar.
                if n > 1 {
                    let block = table.blocks.len() as u32;
                    for (place, &label) in same.iter().enumerate() {
                        table.block[label as usize] = block;
                        table.place[label as usize] = place as u32;
                    }
                    memory::push(&mut table.blocks, Block::Matrix { n, values })?;
                }
                continue;
            }
            // With one, few may be left: what is similar is found first, and blocks
            // from that.
            let mut pairs = Vec::new();
            cosines(unit, len, n, context, |i, j, cosine| {
                let value = how.of(cosine);
                if value != 0.0 {
                    memory::push(&mut pairs, (i as u32, j as u32, value))?;
                }
                Ok(())
            })?;
            table.add(pairs, |place| same[place as usize])?;
        }
        table.vectors = Some(unit_vectors);
        Ok(table)
    }

    /// σ of other labels with those of a table by vectors, which
    /// [`from_vectors`](Self::from_vectors) would give them; classes have the same numbers.
    ///
    /// # Errors
    /// [`Error::Parameter`] for a table that is not by vectors, [`Error::Length`] for vectors
    /// of another length, and [`Error::Memory`].
    pub fn rows_by_vectors(
        &self,
        vectors: &[f64],
        classes: &[u32],
    ) -> Result<Vec<SimilarityRow>> {
        let Some(known) = &self.vectors else {
            return Err(parameter("similarity", "a table by vectors", &"one by pairs"));
        };
        let others = UnitVectors::new(vectors, classes, known.how)?;
        // Tables without a vector have no length.
        if others.len != known.len
            && !others.numbers.is_empty()
            && !known.numbers.is_empty()
        {
            let (array, expected) = ("vectors", format!("{} numbers each", known.len));
            return Err(Error::Length { array, expected, got: others.len });
        }
        let mut rows = filled_with(classes.len(), Vec::new)?;
        for (&other, one) in
            others.members.items.iter().zip(others.numbers.chunks(others.len.max(1)))
        {
            let Some(&place) = known.places.get(&classes[other as usize]) else {
                continue;
            };
            let same = known.members.get(place as usize);
            let start = known.members.start(place as usize) * known.len;
            let block = &known.numbers[start..start + same.len() * known.len];
            let mut cosines = filled(0.0, same.len())?;
            vectorized(Dots { block, one, out: &mut cosines });
            let row = same.iter().zip(cosines);
            let row = row.map(|(&label, cosine)| (label, known.how.of(cosine)));
            rows[other as usize] = memory::collect(row.filter(|item| item.1 != 0.0))?;
        }
        Ok(rows)
    }

    /// The labels that are similar to one.
    fn similar(&self, label: usize) -> Result<SimilarityRow> {
        let same = |other: usize| {
            other != label
                && self.block[label] != NONE
                && self.block[other] == self.block[label]
        };
        let others = (0..self.len()).filter(|&other| same(other));
        let row = others.map(|other| (other as u32, self.get(label, other)));
        memory::collect(row.filter(|item| item.1 != 0.0))
    }

    fn blank(n: usize) -> Result<Self> {
        let (block, place) = (filled(NONE, n)?, filled(0, n)?);
        Ok(Self { block, place, blocks: Vec::new(), vectors: None })
    }

    /// Adds the blocks of pairs of labels that are in none.
    fn add(
        &mut self,
        mut pairs: Vec<(u32, u32, f64)>,
        label: impl Fn(u32) -> u32,
    ) -> Result<()> {
        // Equal labels are 1 in any case.
        pairs.retain(|&(x, y, value)| x != y && value != 0.0);
        for pair in &mut pairs {
            (pair.0, pair.1) = (label(pair.0), label(pair.1));
        }
        // 1. Join what is similar: `above` leads to the first label of a block.
        let mut above = memory::collect(0..self.block.len() as u32)?;
        let first = |above: &mut Vec<u32>, mut x: u32| {
            while above[x as usize] != x {
                // Each step halves the way for later look-ups.
                above[x as usize] = above[above[x as usize] as usize];
                x = above[x as usize];
            }
            x
        };
        for &(x, y, _) in &pairs {
            let (x, y) = (first(&mut above, x), first(&mut above, y));
            // The smaller number leads, so a block is led by its first label.
            above[x.max(y) as usize] = x.min(y);
        }
        // 2. Number blocks and places.
        let before = self.blocks.len();
        let mut sizes: Vec<usize> = Vec::new();
        // Most labels are similar to none and get no block.
        let mut is_similar = filled(false, self.block.len())?;
        for &(x, y, _) in &pairs {
            is_similar[x as usize] = true;
            is_similar[y as usize] = true;
        }
        for x in (0..self.block.len() as u32).filter(|&x| is_similar[x as usize]) {
            let first = first(&mut above, x);
            if first == x {
                self.block[x as usize] = (before + sizes.len()) as u32;
                memory::push(&mut sizes, 0)?;
            }
            let block = self.block[first as usize];
            let size = &mut sizes[block as usize - before];
            self.block[x as usize] = block;
            self.place[x as usize] = *size as u32;
            *size += 1;
        }
        // 3. Fill them.
        let mut by_block: Vec<(u32, u32, u32, f64)> = Vec::new();
        reserve(&mut by_block, 2 * pairs.len())?;
        for (x, y, value) in pairs {
            let block = self.block[x as usize];
            let [x, y] = [x, y].map(|label| self.place[label as usize]);
            memory::extend(
                &mut by_block,
                [(block, x, y, value), (block, y, x, value)],
            )?;
        }
        // Rows ascend, as they are searched.
        by_block.sort_unstable_by_key(|&(block, x, y, _)| (block, x, y));
        // Blocks come in the order of their numbers.
        for same in by_block.chunk_by(|a, b| a.0 == b.0) {
            let n = sizes[self.blocks.len() - before];
            // By rows an entry takes 16 bytes and a search, in a matrix 8 and none.
            let block = if 4 * same.len() > n * n {
                let mut values = filled(0.0, n * n)?;
                for &(_, x, y, sigma) in same {
                    values[x as usize * n + y as usize] = sigma;
                }
                for x in 0..n {
                    values[x * n + x] = 1.0;
                }
                Block::Matrix { n, values }
            } else {
                let mut ends = filled(0, n)?;
                for &(_, x, _, _) in same {
                    ends[x as usize] += 1;
                }
                let mut end = 0;
                for row in &mut ends {
                    end += *row;
                    *row = end;
                }
                let items = memory::collect(same.iter().map(|&(_, _, y, s)| (y, s)))?;
                Block::Rows { ends, items }
            };
            memory::push(&mut self.blocks, block)?;
        }
        Ok(())
    }

    /// How many labels there are.
    pub fn len(&self) -> usize {
        self.block.len()
    }

    /// Whether there is no label.
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// The blocks.
    pub(crate) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// A label's block, or `NONE`, and its place there.
    #[inline]
    pub(crate) fn place(&self, label: usize) -> (u32, u32) {
        (self.block[label], self.place[label])
    }

    /// What is not 0 in a row of a block that is kept by rows.
    pub(crate) fn row(&self, block: usize, place: usize) -> &[(u32, f64)] {
        match &self.blocks[block] {
            Block::Rows { ends, items } => {
                let start = place.checked_sub(1).map_or(0, |before| ends[before]);
                &items[start..ends[place]]
            }
            Block::Matrix { .. } => &[],
        }
    }

    /// The labels of each block, by places.
    pub(crate) fn members(&self) -> Result<Vec<Vec<u32>>> {
        let mut members = memory::filled_with(self.blocks.len(), Vec::new)?;
        for (label, (&block, &place)) in self.block.iter().zip(&self.place).enumerate()
        {
            if let Some(labels) = members.get_mut(block as usize) {
                memory::push(labels, (place, label as u32))?;
            }
        }
        // By label they came; places say where each belongs.
        let by_place = |mut labels: Vec<(u32, u32)>| {
            labels.sort_unstable();
            memory::collect(labels.into_iter().map(|(_, label)| label))
        };
        memory::try_collect(members.into_iter().map(by_place))
    }

    /// About how many bytes it holds.
    pub(crate) fn nbytes(&self) -> usize {
        let block = |block: &Block| match block {
            Block::Matrix { values, .. } => 8 * values.len(),
            Block::Rows { ends, items } => 8 * ends.len() + 16 * items.len(),
        };
        let vectors = self.vectors.as_ref().map_or(0, |vectors| {
            8 * (vectors.numbers.len() + vectors.places.len())
                + vectors.members.nbytes()
        });
        8 * self.len() + self.blocks.iter().map(block).sum::<usize>() + vectors
    }

    /// σ of two labels.
    #[inline]
    pub fn get(&self, x: usize, y: usize) -> f64 {
        let block = self.block[x];
        match self.blocks.get(block as usize) {
            _ if x == y => 1.0,
            Some(entry) if self.block[y] == block => {
                entry.get(self.place[x] as usize, self.place[y] as usize)
            }
            _ => 0.0,
        }
    }
}

impl UnitVectors {
    /// Of as many vectors, one after another, as there are classes.
    fn new(vectors: &[f64], classes: &[u32], how: Cosines) -> Result<Self> {
        let len = vectors.len().checked_div(classes.len()).unwrap_or(0);
        // 1. Which labels each class has.
        let mut places = Map::default();
        let mut found: Vec<(u32, u32)> = Vec::new();
        for (label, &class) in classes.iter().enumerate() {
            let vector = &vectors[label * len..][..len];
            // A vector of zeros is of no class.
            if class == NONE || vector.iter().all(|&v| v == 0.0) {
                continue;
            }
            let next = places.len() as u32;
            let place = places.get(&class).copied().unwrap_or(next);
            if place == next {
                places.insert(class, place)?;
            }
            memory::push(&mut found, (place, label as u32))?;
        }
        found.sort_unstable();
        let mut members = Ragged::default();
        for same in found.chunk_by(|a, b| a.0 == b.0) {
            members.extend(same.iter().map(|item| item.1))?;
            members.close("labels")?;
        }
        // 2. Their vectors.
        let mut numbers = Vec::new();
        reserve(&mut numbers, found.len() * len)?;
        for &label in &members.items {
            scaled_to_one(&vectors[label as usize * len..][..len], &mut numbers);
        }
        Ok(Self { how, len, members, places, numbers })
    }
}

/// Appends a vector scaled to length 1, for which there is room. By its largest number
/// first: squares of large numbers overflow.
fn scaled_to_one(vector: &[f64], out: &mut Vec<f64>) {
    let largest = vector.iter().fold(0.0, |m: f64, v| m.max(v.abs()));
    let start = out.len();
    out.extend(vector.iter().map(|v| v / largest)); // has room
    let scaled = &out[start..];
    let norm = dot(scaled, scaled).sqrt();
    out[start..].iter_mut().for_each(|v| *v /= norm);
}

/// Numbers that are added side by side, whatever the machine's vectors hold.
const LANES: usize = 16;
/// Vectors that stay in a cache while all others pass by.
const BLOCK: usize = 32;

#[allow(clippy::inline_always)] // see `vectorized`
#[inline(always)]
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (x, y) = (x.chunks(LANES), y.chunks(LANES));
    for (x, y) in x.zip(y) {
        if let (Ok(x), Ok(y)) = (<&[f64; LANES]>::try_from(x), y.try_into()) {
            let y: &[f64; LANES] = y;
            for lane in 0..LANES {
                lanes[lane] += x[lane] * y[lane];
            }
        } else {
            for (lane, (x, y)) in x.iter().zip(y).enumerate() {
                lanes[lane] += x * y;
            }
        }
    }
    // The lanes are added in one order, whatever the machine's vectors hold.
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// The dot products of a block of vectors with one.
struct Dots<'a> {
    block: &'a [f64],
    one: &'a [f64],
    out: &'a mut [f64],
}

impl Loop for Dots<'_> {
    #[allow(clippy::inline_always)]
    #[inline(always)]
    fn run(self) {
        let rows = self.block.chunks_exact(self.one.len());
        for (out, row) in self.out.iter_mut().zip(rows) {
            *out = dot(row, self.one);
        }
    }
}

/// Tells the dot products of all pairs i < j of vectors.
fn cosines(
    vectors: &[f64],
    len: usize,
    n: usize,
    context: &Context,
    mut tell: impl FnMut(usize, usize, f64) -> Result<()>,
) -> Result<()> {
    let mut out = [0.0; BLOCK];
    // Some vectors stay in the cache while all later ones pass by.
    for start in (0..n).step_by(BLOCK) {
        let end = n.min(start + BLOCK);
        for j in start + 1..n {
            // Only pairs i < j, so the block ends before j.
            let rows = start..end.min(j);
            let block = &vectors[rows.start * len..rows.end * len];
            let one = &vectors[j * len..][..len];
            vectorized(Dots { block, one, out: &mut out[..rows.len()] });
            for (i, &cosine) in rows.zip(&out) {
                tell(i, j, cosine)?;
            }
        }
        context.check_now()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::Random;

    #[test]
    fn blocks_of_either_kind_hold_the_pairs() {
        let mut random = Random(5);
        for n in [1, 2, 7, 40] {
            for density in [0.0, 0.01, 0.1, 1.0] {
                let mut pairs = Vec::new();
                let mut expected = vec![0.0; n * n];
                for x in 0..n {
                    expected[x * n + x] = 1.0;
                    for y in 0..x {
                        if random.unit() < density {
                            let value = 2.0 * random.unit() - 1.0;
                            pairs.push((x as u32, y as u32, value));
                            expected[x * n + y] = value;
                            expected[y * n + x] = value;
                        }
                    }
                }
                let table = SimilarityTable::from_pairs(n, pairs).unwrap();
                for (at, &value) in expected.iter().enumerate() {
                    assert_eq!(table.get(at / n, at % n), value);
                }
            }
        }
    }

    #[test]
    fn cosines_are_those_of_the_definition_whatever_else_there_is() {
        let mut random = Random(6);
        let (n, len) = (70, 37);
        let mut vectors: Vec<f64> = (0..n * len).map(|_| random.unit() - 0.4).collect();
        vectors[5 * len..6 * len].fill(0.0);
        vectors[7 * len..8 * len].iter_mut().for_each(|v| *v *= 1e300);
        let classes: Vec<u32> =
            (0..n as u32).map(|x| [0, 0, 1, NONE][x as usize % 4]).collect();
        let hows = [
            Cosines::default(),
            Cosines::new(3, None, true),
            Cosines::new(2, Some(0.2), false),
        ];
        for how in hows {
            let all = SimilarityTable::from_vectors(&vectors, &classes, how).unwrap();
            let some = SimilarityTable::from_vectors(
                &vectors[..20 * len],
                &classes[..20],
                how,
            );
            let some = some.unwrap();
            for x in 0..n {
                for y in 0..n {
                    let [u, v] = [x, y].map(|l| &vectors[l * len..][..len]);
                    let scale =
                        |v: &[f64]| v.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
                    let dot = |u: &[f64], v: &[f64]| -> f64 {
                        u.iter()
                            .zip(v)
                            .map(|(p, q)| p / scale(u) * (q / scale(v)))
                            .sum()
                    };
                    let is_in = classes[x] == classes[y] && classes[x] != NONE;
                    let expected = if x == y {
                        1.0
                    } else if !is_in || scale(u) == 0.0 || scale(v) == 0.0 {
                        0.0
                    } else {
                        how.of(dot(u, v) / (dot(u, u) * dot(v, v)).sqrt())
                    };
                    let got = all.get(x, y);
                    assert!(
                        (got - expected).abs() < 1e-12,
                        "{x} {y}: {got} {expected}"
                    );
                    if x < 20 && y < 20 {
                        assert_eq!(got.to_bits(), some.get(x, y).to_bits());
                    }
                }
            }
        }
    }

    #[test]
    fn what_is_no_similarity_is_refused() {
        for pair in [(0, 1, 1.5), (0, 1, f64::NAN), (1, 1, 0.5), (0, 2, 0.5)] {
            assert!(matches!(
                SimilarityTable::from_pairs(2, vec![pair]),
                Err(Error::Parameter { name: "similarity", .. })
            ));
        }
    }
}
