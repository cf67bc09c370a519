//! What two trees save at most, if few edits make one the other.
//!
//! Postorder and preorder keep the order of a mapping, so a mapping with a pair (i, j) and
//! at most t edits leaves t edits for all of the following, each of which tells pairs that
//! are out of the question:
//!
//! ```text
//! the labels before i and j, and those behind, in postorder; and in preorder
//! how many nodes are left of, below, right of and above i and j (Touzet, CPM 2007)
//! ```
//!
//! Blocks of keyroots in which no pair is left are not filled, and of the others only the
//! band of cells that t edits can reach. What is left out saves 0, so the result is never
//! too large; if it comes from at most t edits, it is the largest there is. t starts near
//! the string edit distance of the labels, which is rarely less than nine tenths of the
//! distance, and grows by half.
//!
//! # Complexity
//! Time and memory: n t cells for tables of labels and for each block that is filled.

use super::costs::Gain;
use super::distance::larger;
use super::order::{Order, Sides};
use crate::memory::{collect, filled, push, reach, room};
use crate::{Context, Result};

/// More edits than there can be.
const FAR: u32 = u32::MAX / 4;

/// What one worker keeps from pair to pair.
#[derive(Default)]
pub(super) struct Corridors {
    /// Edits between the beginnings of two sequences of labels: in postorder, and that
    /// backwards; in preorder, and that backwards.
    edits: [Vec<u32>; 4],
    saved: Vec<f64>,
    block: Vec<f64>,
    /// Keyroots with a pair on their paths.
    roots: Vec<(u32, u32)>,
}

/// A tree from one side, and what is needed of it besides.
struct Side<'a> {
    order: Order<'a>,
    /// In preorder, and what stands in `order`, both backwards.
    preorder: Vec<u32>,
    backwards: Vec<u32>,
    /// Preorder backwards.
    mirrored: &'a [u32],
    /// By place: how many nodes are above, and the last node of the path.
    depths: Vec<u32>,
    keyroots: Vec<u32>,
}

impl<'a> Side<'a> {
    fn new(order: Order<'a>, mirrored: &'a [u32]) -> Result<Self> {
        let mut keyroots = filled(0, order.len())?;
        for &root in order.keyroots {
            keyroots[order.leftmost[root as usize] as usize] = root;
        }
        for place in 0..order.len() {
            keyroots[place] = keyroots[order.leftmost[place] as usize];
        }
        Ok(Self {
            order,
            preorder: collect(mirrored.iter().rev().copied())?,
            backwards: collect(order.labels.iter().rev().copied())?,
            mirrored,
            depths: order.depths()?,
            keyroots,
        })
    }

    /// How many nodes are left of a node, below, and above it.
    fn around(&self, place: usize) -> [i64; 3] {
        let leftmost = i64::from(self.order.leftmost[place]);
        [leftmost, place as i64 - leftmost, i64::from(self.depths[place])]
    }
}

/// Which differences j - i of places so many edits allow.
#[derive(Clone, Copy)]
struct Band {
    first: i64,
    last: i64,
    edits: u32,
}

impl Band {
    fn new(n: usize, m: usize, edits: u32) -> Self {
        let (n, m, edits_left) = (n as i64, m as i64, i64::from(edits));
        let last = (m - n + edits_left).div_euclid(2).min(m);
        Self { first: m - n - last, last, edits }
    }

    /// Numbers of a row: one for each difference, and one more on either side.
    fn stride(self) -> usize {
        (self.last - self.first + 3) as usize
    }
}

/// Two trees whose largest saving is looked for among mappings of few edits.
pub(super) struct Bounded<'a> {
    sides: [Side<'a>; 2],
}

impl<'a> Bounded<'a> {
    /// Two trees with the labels of all costs.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory).
    pub(super) fn new(sides: &Sides<'a>) -> Result<Self> {
        let [a, b] = sides.trees;
        let [c, d] = sides.others;
        Ok(Self { sides: [Side::new(a, c.labels)?, Side::new(b, d.labels)?] })
    }

    /// About how many cells are filled for so many edits, in those of the full tables.
    pub(super) fn n_cells(n: usize, m: usize, edits: u32) -> f64 {
        8.0 * n as f64 * Band::new(n, m, edits).stride() as f64
    }

    /// The largest saving of a mapping of at most so many edits, or less if there is none.
    ///
    /// # Errors
    /// [`Error::Memory`](crate::Error::Memory), and what `context` returns.
    pub(super) fn saving(
        &self,
        edits: u32,
        gains: &impl Gain,
        corridors: &mut Corridors,
        context: &Context,
    ) -> Result<f64> {
        let [a, b] = &self.sides;
        let (n, m) = (a.order.len(), b.order.len());
        if n.abs_diff(m) > edits as usize {
            return Ok(0.0);
        }
        let band = Band::new(n, m, edits);
        let Corridors { edits: tables, saved, block, roots } = corridors;
        // 1. Edits between labels.
        room((n + 1).saturating_mul(band.stride()), 4 * size_of::<u32>())?;
        let sequences = [
            [a.order.labels, b.order.labels],
            [&a.backwards, &b.backwards],
            [&a.preorder, &b.preorder],
            [a.mirrored, b.mirrored],
        ];
        for (table, labels) in tables.iter_mut().zip(sequences) {
            beginnings(labels, band, table, context)?;
        }
        // 2. Blocks with a pair that may be matched, in order.
        self.pairs(band, tables, roots, context)?;
        // All of both trees, whether or not their roots are matched.
        push(roots, (n as u32 - 1, m as u32 - 1))?;
        roots.sort_unstable();
        roots.dedup();
        // 3. These blocks.
        let width = (band.last - band.first + 1) as usize;
        saved.clear();
        reach(saved, n.saturating_mul(width), 0.0)?;
        for &(i, j) in &*roots {
            let roots = [i as usize, j as usize];
            fill([&a.order, &b.order], roots, band, saved, block, gains, context)?;
        }
        let last = m as i64 - n as i64 - band.first;
        Ok(saved[(n - 1) * width + last as usize])
    }

    /// The keyroots of all pairs that so many edits allow.
    fn pairs(
        &self,
        band: Band,
        tables: &[Vec<u32>; 4],
        roots: &mut Vec<(u32, u32)>,
        context: &Context,
    ) -> Result<()> {
        let [a, b] = &self.sides;
        let (n, m, stride) =
            (a.order.len() as i64, b.order.len() as i64, band.stride());
        roots.clear();
        // Edits before and behind two nodes, by their numbers in one order.
        let apart = |[before, behind]: [&Vec<u32>; 2], i: i64, j: i64| {
            let at = |row: i64, place: i64| row as usize * stride + place as usize;
            before[at(i, j - i - band.first + 1)]
                + behind[at(n - i - 1, band.last - (j - i) + 1)]
        };
        for i in 0..n {
            context.check()?;
            let [left, below, above] = a.around(i as usize);
            let number = left + above;
            let end = (i + band.last + 1).min(m);
            for j in (i + band.first).max(0)..end {
                let renamed =
                    u32::from(a.order.labels[i as usize] != b.order.labels[j as usize]);
                let most = band.edits.wrapping_sub(renamed);
                if band.edits < renamed || apart([&tables[0], &tables[1]], i, j) > most
                {
                    continue;
                }
                let [left_b, below_b, above_b] = b.around(j as usize);
                let other = left_b + above_b;
                if !(band.first..=band.last).contains(&(other - number))
                    || apart([&tables[2], &tables[3]], number, other) > most
                {
                    continue;
                }
                let right = n - 1 - left - below - above;
                let right_b = m - 1 - left_b - below_b - above_b;
                let differences = (left - left_b).abs()
                    + (below - below_b).abs()
                    + (above - above_b).abs()
                    + (right - right_b).abs();
                if differences <= i64::from(most) {
                    let pair = (a.keyroots[i as usize], b.keyroots[j as usize]);
                    if roots.last() != Some(&pair) {
                        push(roots, pair)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The string edit distances of the first i and the first j labels, for j - i in the band:
/// row after row, with a number that is [`FAR`] on either side.
fn beginnings(
    [a, b]: [&[u32]; 2],
    band: Band,
    table: &mut Vec<u32>,
    context: &Context,
) -> Result<()> {
    let (m, stride) = (b.len() as i64, band.stride());
    table.clear();
    reach(table, (a.len() + 1).saturating_mul(stride), FAR)?;
    for j in band.first.max(0)..=band.last.min(m) {
        table[(j - band.first + 1) as usize] = j as u32;
    }
    for (i, &label) in (1..).zip(a) {
        context.check()?;
        let (mut j, last) = ((i + band.first).max(0), (i + band.last).min(m));
        let (above, row) = table.split_at_mut(i as usize * stride);
        let above = &above[(i as usize - 1) * stride..];
        let mut at = (j - i - band.first + 1) as usize;
        let mut before = FAR;
        if j == 0 && last >= 0 {
            before = i as u32;
            row[at] = before;
            (j, at) = (1, at + 1);
        }
        for (&other, at) in
            b[(j - 1).min(m) as usize..last.max(j - 1) as usize].iter().zip(at..)
        {
            let replaced = above[at] + u32::from(label != other);
            before = replaced.min(above[at + 1] + 1).min(before + 1);
            row[at] = before;
        }
    }
    Ok(())
}

/// Fills the band of the block of two keyroots, and what subtrees on their paths save.
fn fill(
    [rows, columns]: [&Order<'_>; 2],
    [row_root, column_root]: [usize; 2],
    band: Band,
    saved: &mut [f64],
    block: &mut Vec<f64>,
    gains: &impl Gain,
    context: &Context,
) -> Result<()> {
    let first_row = rows.leftmost[row_root] as usize;
    let first_column = columns.leftmost[column_root] as usize;
    // 1. What stands left of the block takes its part of the edits.
    let shift = first_column as i64 - first_row as i64;
    let left = i64::from(band.edits) - shift.abs();
    let first = band.first.max(shift - left) - shift;
    let last = band.last.min(shift + left) - shift;
    if first > last {
        return Ok(());
    }
    let (height, width) = (row_root - first_row + 1, column_root - first_column + 1);
    let stride = (last - first + 2) as usize;
    let n_saved = (band.last - band.first + 1) as usize;
    block.clear();
    reach(block, (height + 1).saturating_mul(stride), 0.0)?;
    // 2. Cell y + 1, x + 1 is number x - y - first of its row.
    for y in 0..height {
        let start = (y as i64 + first).max(0);
        let end = (y as i64 + last + 1).min(width as i64);
        if start >= end {
            continue;
        }
        context.check()?;
        let i = first_row + y;
        let (before, current) = block.split_at_mut((y + 1) * stride);
        let above = &before[y * stride..][..stride];
        let at = (start - y as i64 - first) as usize;
        let start = start as usize;
        let len = end as usize - start;
        let leftmost = &columns.leftmost[first_column + start..][..len];
        let labels = &columns.labels[first_column + start..][..len];
        let place = (first_column + start) as i64 - i as i64 - band.first;
        let saved = &mut saved[i * n_saved + place as usize..][..len];
        let (diagonal, above) = (&above[at..][..len], &above[at + 1..][..len]);
        let current = &mut current[at..][..len];
        let n_before = rows.leftmost[i] as usize - first_row;
        let mut best = 0.0;
        if n_before == 0 {
            let label = rows.labels[i];
            for x in 0..len {
                let are_trees = leftmost[x] as usize == first_column;
                let with_tree = if are_trees {
                    diagonal[x] + gains.gain(label, labels[x])
                } else {
                    saved[x]
                };
                best = larger(best, larger(above[x], with_tree));
                current[x] = best;
                if are_trees {
                    saved[x] = best;
                }
            }
        } else {
            let forests = &before[n_before * stride..][..stride];
            // What is outside of the band saves nothing.
            let outside = first_column as i64 + n_before as i64 + first;
            for x in 0..len {
                let at = i64::from(leftmost[x]) - outside;
                let known = forests.get(at as usize).copied().unwrap_or(0.0);
                best = larger(best, larger(above[x], known + saved[x]));
                current[x] = best;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::costs::{Costs, Gains};
    use super::super::distance::{Tables, saving};
    use super::super::tests::prepared;
    use super::*;
    use crate::corpus::{Random, forest};

    #[test]
    fn a_mapping_of_so_many_edits_is_found_by_so_many_edits() {
        let context = Context::default();
        let mut random = Random(5);
        let forest = forest(&mut random, 24, 30);
        let mut tables = Tables::default();
        for [rename, insert, delete] in [[1.0; 3], [1.5, 1.0, 0.75], [0.25, 1.0, 2.0]] {
            let costs = Costs {
                rename: rename.into(),
                insert: insert.into(),
                delete: delete.into(),
            };
            let (costs, orders) = prepared(&costs, &forest);
            let constant = costs.constant().unwrap();
            let Gains::Constant(gains) = &costs.gains else { panic!() };
            for pair in (0..forest.len()).flat_map(|a| (0..=a).map(move |b| [a, b])) {
                let sides = orders.pair(pair).cheapest();
                for sides in [sides, sides.turned()] {
                    let [n, m] = sides.trees.map(|tree| tree.len());
                    let all = n as f64 * constant.delete + m as f64 * constant.insert;
                    let most =
                        saving(&sides, &costs.gains, &mut tables, &context).unwrap();
                    let bounded = Bounded::new(&sides).unwrap();
                    for edits in 0..=(n + m) as u32 {
                        let corridors = &mut tables.corridors;
                        let saved =
                            bounded.saving(edits, gains, corridors, &context).unwrap();
                        let is_allowed = all - most <= f64::from(edits) * constant.edit;
                        assert!(saved <= most, "{pair:?} {edits}");
                        if is_allowed || edits as usize == n + m {
                            assert_eq!(saved, most, "{pair:?} {edits}");
                        }
                    }
                }
            }
        }
    }
}
