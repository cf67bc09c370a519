//! The subpath kernel of two trees.
//!
//! Fragments are paths down the tree (Kimura, Kuboyama, Shibuya & Kashima, 2011): the
//! labels from a node to one of its descendants, both and all between them included.
//!
//! ```text
//! K(a,b) = Σ over label paths p: λ^|p| · count_a(p) · count_b(p)        |p| nodes, at least 1
//! ```
//!
//! Example: `(A (A b))` has A twice and b, AA, Ab, AAb once, so with itself it has
//! λ (4 + 1) + λ² (1 + 1) + λ³.
//!
//! **By common beginnings.** An occurrence of a path is its lower end and its length. So
//! read upwards: with F(n) = λ + λ² + .. + λⁿ,
//!
//! ```text
//! K(a,b) = Σ_{u in a, v in b} F(labels that the ways from u and from v to their roots begin with)
//! ```
//!
//! Nodes with the same labels up to the root are one *place*, with a count. All places of
//! all trees are sorted by their labels upwards, once, and what neighbours have in common
//! is kept, as a suffix array does with the suffixes of a text. The places of two trees, in
//! that order, are the leaves of a tree whose inner nodes are common beginnings, of length
//! h above one of length h'; each adds λ^h' F(h - h') times its places in a and in b. A
//! stack holds the way to the last leaf. Nothing is subtracted.
//!
//! # Complexity
//! A pair: linear in the places of the two trees, of which there are at most as many as
//! nodes. To make N places ready: N log N log(depth) time. Memory: N, and while they are
//! sorted N log(depth).

use std::collections::HashMap;
use std::sync::Arc;

use super::weights::{self, Resolved, Weigh};
use super::{
    Counts, IndexOf, Indexed, Kernel, Number, Pairs, PartialTree, Prepared, Sloped,
    described, kernel_struct, naive,
};
use crate::intern::new_id;
use crate::ragged::Ragged;
use crate::{Context, Error, Label, NodeId, Nodes, Result, memory};

kernel_struct! {
    /// Fragments are label paths down the tree (Kimura et al. 2011).
    Subpath new(decay) {
        /// λ: per node of a path.
        decay: f64 = 0.4, Share, with_decay;
    }
}

impl Kernel for Subpath {
    described!();

    fn definition(&self, nodes: &Nodes, a: NodeId, b: NodeId) -> f64 {
        let (in_a, in_b) = (paths(nodes, a), paths(nodes, b));
        let equal = |p: &Vec<Label>| in_b.iter().filter(|q| *q == p).count() as f64;
        in_a.iter().map(|p| self.decay.powi(p.len() as i32) * equal(p)).sum()
    }

    fn pairs(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        Ok(Box::new(Trees::new(nodes, roots, context, |of, context| {
            OneDecay::new(self.decay, of, context)
        })?))
    }

    fn indexed(&self) -> Option<Indexed> {
        // A path is a partial tree whose nodes have one child each, none of it left out.
        let paths = PartialTree::new(1.0, self.decay).with_max_children(Some(1));
        Some(Indexed::new(self, IndexOf::PartialTree(paths)))
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        Ok(Some(Box::new(Trees::new(nodes, roots, context, |of, context| {
            OneDecay::new(self.decay, of, context)
        })?)))
    }

    fn weighing(&self) -> Option<&dyn Weigh> {
        Some(self)
    }
}

impl Weigh for Subpath {
    fn weighted_name(&self) -> &'static str {
        "weighted Subpath"
    }

    fn has_counts(&self) -> bool {
        true
    }

    fn weighted_definition(
        &self,
        table: &Resolved,
        nodes: &Nodes,
        a: NodeId,
        b: NodeId,
    ) -> f64 {
        let (mut in_a, in_b) = (paths(nodes, a), paths(nodes, b));
        let count = |of: &[Vec<Label>], p| of.iter().filter(|q| *q == p).count() as f64;
        let f = |of: &[Vec<Label>], p| table.counts.of(count(of, p));
        let weight = |l: &Label| self.decay * table.labels[l.index()];
        let all = in_a.clone();
        in_a.sort_unstable();
        in_a.dedup();
        let values = in_a
            .iter()
            .map(|p| p.iter().map(weight).product::<f64>() * f(&all, p) * f(&in_b, p));
        values.sum()
    }

    fn weighted_pairs(
        &self,
        table: &Resolved,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let factors = table.labels_times(self.decay);
        Ok(Box::new(Trees::new(nodes, roots, context, |of, context| {
            Stretches::new(&factors, table.counts, of, context)
        })?))
    }
}

/// Every path of a tree, as often as it stands there.
fn paths(nodes: &Nodes, root: NodeId) -> Vec<Vec<Label>> {
    fn from(nodes: &Nodes, top: NodeId) -> Vec<Vec<Label>> {
        let longer = nodes.children(top).iter().flat_map(|&child| from(nodes, child));
        let label = nodes.label(top);
        let extended = longer.map(|path| [vec![label], path].concat());
        std::iter::once(vec![label]).chain(extended).collect()
    }
    naive::occurrences(nodes, root)
        .into_iter()
        .flat_map(|top| from(nodes, top))
        .collect()
}

/// "No place": above a root.
const NONE: u32 = u32::MAX;

/// What the beginnings of a place's labels weigh.
trait Measure: Send + Sync {
    /// Σ over those longer than one, up to another, of the product of their factors.
    fn between<N: Number>(&self, place: u32, shorter: u32, longer: u32) -> N;

    /// f of how many nodes have a beginning.
    fn count<N: Number>(&self, count: N) -> N;
}

/// One λ for all labels.
struct OneDecay {
    /// By n: λⁿ, F(n), and the derivatives of both.
    powers: Vec<f64>,
    sums: Vec<f64>,
    slopes: Vec<[f64; 2]>,
}

impl OneDecay {
    #[allow(clippy::unnecessary_wraps)] // as other measures are made
    fn new(decay: f64, places: &Sorted<'_>, _: &Context) -> Result<Self> {
        let deepest = places.depths.iter().max().copied().unwrap_or(0);
        let (mut powers, mut sums) = (vec![1.0], vec![0.0]);
        let mut slopes = vec![[0.0; 2]];
        for n in 0..deepest as usize {
            powers.push(decay * powers[n]);
            sums.push(decay * (1.0 + sums[n]));
            let power = (n + 1) as f64 * powers[n];
            slopes.push([power, slopes[n][1] + power]);
        }
        Ok(Self { powers, sums, slopes })
    }
}

impl Measure for OneDecay {
    #[inline]
    fn between<N: Number>(&self, _: u32, shorter: u32, longer: u32) -> N {
        let (shorter, more) = (shorter as usize, (longer - shorter) as usize);
        let (power, sum) = (self.powers[shorter], self.sums[more]);
        N::depending(power * sum, || {
            let slope = self.slopes[shorter][0] * sum + power * self.slopes[more][1];
            [slope, 0.0, 0.0]
        })
    }

    #[inline]
    fn count<N: Number>(&self, count: N) -> N {
        count
    }
}

/// A λ for each label. From a place upwards, 2^k labels have a product, and a sum of the
/// products of their beginnings. Two stretches, one above the other, make one:
///
/// ```text
/// product = product · product'       sum = sum + product · sum'
/// ```
///
/// so any stretch takes as many steps as its length has bits, and nothing is subtracted.
struct Stretches {
    counts: Counts,
    /// By k and place: the product, the sum, and the place above all of them. As far as there
    /// are labels.
    levels: Vec<Vec<(f64, f64, u32)>>,
}

impl Stretches {
    fn new(
        factors: &[f64],
        counts: Counts,
        places: &Sorted<'_>,
        context: &Context,
    ) -> Result<Self> {
        let Sorted { all, order, number, .. } = places;
        let deepest = places.depths.iter().max().copied().unwrap_or(1);
        let n_levels = deepest.ilog2() as usize + 1;
        memory::room(order.len() * n_levels, size_of::<(f64, f64, u32)>())?;
        let first = order.iter().map(|&place| {
            let above = match all.above[place as usize] {
                NONE => NONE,
                above => number[above as usize],
            };
            let factor = factors[all.label[place as usize].index()];
            (factor, factor, above)
        });
        let mut levels: Vec<Vec<_>> = vec![first.collect()];
        for last in 1..n_levels {
            context.check_now()?;
            let last = &levels[last - 1];
            let twice = last.iter().map(|&(product, sum, above)| {
                let (product2, sum2, above) = match above {
                    NONE => (1.0, 0.0, NONE),
                    above => last[above as usize],
                };
                (product * product2, sum + product * sum2, above)
            });
            let twice: Vec<_> = twice.collect();
            levels.push(twice);
        }
        for level in &levels {
            weights::finite(&level.iter().map(|entry| entry.1).collect::<Vec<_>>())?;
        }
        Ok(Self { counts, levels })
    }
}

impl Measure for Stretches {
    fn between<N: Number>(&self, mut place: u32, shorter: u32, longer: u32) -> N {
        let (mut product, mut sum) = (N::of(1.0), N::of(0.0));
        for (length, is_counted) in [(shorter, false), (longer - shorter, true)] {
            for (k, level) in self.levels.iter().enumerate() {
                if length >> k & 1 == 1 {
                    let (product2, sum2, above) = level[place as usize];
                    if is_counted {
                        sum = sum + product * N::of(sum2);
                    }
                    product = product * N::of(product2);
                    place = above;
                }
            }
        }
        sum
    }

    #[inline]
    fn count<N: Number>(&self, count: N) -> N {
        match self.counts {
            Counts::Linear => count,
            // A number of nodes: a float holds it.
            counts => N::of(counts.of(count.float())),
        }
    }
}

/// Places in the order of their labels upwards.
struct Sorted<'a> {
    all: &'a Places,
    /// The places in order, and by place its number in it.
    order: &'a [u32],
    number: &'a [u32],
    /// By number: how many labels there are up to the root.
    depths: &'a [u32],
}

/// Trees as counted places, in the order of their labels upwards.
struct Trees<M> {
    /// By tree: places, as numbers in the order of all, with how many nodes are there.
    places: Ragged<(u32, f64)>,
    /// By place: how many labels there are up to the root.
    depths: Vec<u32>,
    common: Common,
    measure: M,
}

impl<M: Measure> Trees<M> {
    fn new(
        nodes: &Nodes,
        roots: &[NodeId],
        context: &Context,
        measure: impl FnOnce(&Sorted<'_>, &Context) -> Result<M>,
    ) -> Result<Self> {
        let mut all = Places::default();
        let mut places: Ragged<(u32, f64)> = Ragged::default();
        for &root in roots {
            all.read(nodes, root, &mut places, context)?;
            places.close("places, tree by tree")?;
        }
        let (order, common) = all.sort(nodes, context)?;
        memory::room(1, places.nbytes() + 16 * order.len())?;
        let mut number = vec![0; order.len()];
        for (at, &place) in order.iter().enumerate() {
            number[place as usize] = at as u32;
        }
        let mut sorted = Ragged::default();
        for tree in places.iter() {
            context.check()?;
            let start = sorted.items.len();
            sorted
                .extend(tree.iter().map(|&(place, n)| (number[place as usize], n)))?;
            sorted.items[start..].sort_unstable_by_key(|item| item.0);
            sorted.close("places, tree by tree")?;
        }
        let depths: Vec<u32> = order.iter().map(|&p| all.depth[p as usize]).collect();
        let all = Sorted { all: &all, order: &order, number: &number, depths: &depths };
        let measure = measure(&all, context)?;
        let common = Common::new(common);
        Ok(Self { places: sorted, depths, common, measure })
    }
}

/// A common beginning: its length, and how many nodes of both trees have it.
#[derive(Debug, Clone, Copy)]
struct Beginning<N> {
    len: u32,
    in_a: N,
    in_b: N,
}

impl<M: Measure> Pairs for Trees<M> {
    type Scratch<N: Number> = Vec<Beginning<N>>;

    fn pair<N: Number>(
        &self,
        a: usize,
        b: usize,
        stack: &mut Vec<Beginning<N>>,
        context: &Context,
    ) -> Result<N> {
        const PER_CHECK: u32 = 1 << 16;
        let (mut left, mut right) = (self.places.get(a), self.places.get(b));
        let mut total = N::of(0.0);
        stack.clear();
        stack.push(Beginning { len: 0, in_a: N::of(0.0), in_b: N::of(0.0) });
        let mut last = 0;
        let mut steps = 0u32;
        loop {
            // 1. The next place in the order of both.
            let first = |of: &[(u32, f64)]| of.first().map_or(NONE, |item| item.0);
            let place = first(left).min(first(right));
            let take = |of: &mut &[(u32, f64)]| match of.split_first() {
                Some((&(own, n), rest)) if own == place => {
                    *of = rest;
                    N::of(n)
                }
                _ => N::of(0.0),
            };
            let (in_a, in_b) = (take(&mut left), take(&mut right));
            // 2. What it has in common with the last; nothing, once there is no more.
            let is_first = stack.len() == 1;
            let len = match place {
                NONE => 0,
                _ if is_first => 0,
                _ => self.common.least(last + 1, place),
            };
            // 3. Longer beginnings are complete: they add their pairs, and are part of the
            // next shorter one.
            while let Some(&Beginning { len: longer, in_a, in_b }) = stack.last()
                && longer > len
            {
                stack.pop();
                let below = stack.last().map_or(0, |below| below.len);
                let shorter = below.max(len);
                let weight: N = self.measure.between(last, shorter, longer);
                let pairs = self.measure.count(in_a) * self.measure.count(in_b);
                total = total + weight * pairs;
                match stack.last_mut() {
                    Some(below) if below.len == shorter => {
                        below.in_a = below.in_a + in_a;
                        below.in_b = below.in_b + in_b;
                    }
                    _ => stack.push(Beginning { len, in_a, in_b }),
                }
            }
            if place == NONE {
                return Ok(total);
            }
            // 4. All of its own labels are the longest beginning.
            stack.push(Beginning { len: self.depths[place as usize], in_a, in_b });
            last = place;
            steps += 1;
            if steps.is_multiple_of(PER_CHECK) {
                context.check_now()?;
            }
        }
    }
}

/// The places of all trees: each is its label, and the place above.
#[derive(Default)]
struct Places {
    above: Vec<u32>,
    label: Vec<Label>,
    depth: Vec<u32>,
    known: HashMap<(u32, Label), u32>,
    /// Nodes of one level: place, subtree, how many; and the next level's, where the place
    /// is still that above, and a label.
    level: Vec<(u32, NodeId, u64)>,
    next: Vec<(u32, Label, NodeId, u64)>,
}

impl Places {
    fn place(&mut self, above: u32, label: Label) -> Result<u32> {
        if let Some(&known) = self.known.get(&(above, label)) {
            return Ok(known);
        }
        let place = new_id(self.above.len(), "places of nodes")?;
        let bytes = 2 * size_of::<(u32, Label, u32)>() * self.known.len();
        self.known.try_reserve(1).map_err(|_| Error::Memory { bytes })?;
        memory::reserve(&mut self.depth, 1)?;
        memory::reserve(&mut self.above, 1)?;
        memory::reserve(&mut self.label, 1)?;
        self.known.insert((above, label), place);
        let depth = if above == NONE { 0 } else { self.depth[above as usize] };
        self.depth.push(depth + 1);
        self.above.push(above);
        self.label.push(label);
        Ok(place)
    }

    /// Counts the nodes of a tree by place, level by level.
    fn read(
        &mut self,
        nodes: &Nodes,
        root: NodeId,
        out: &mut Ragged<(u32, f64)>,
        context: &Context,
    ) -> Result<()> {
        self.next.clear();
        self.next.push((NONE, nodes.label(root), root, 1));
        let sum = |of: &[(u32, Label, NodeId, u64)]| {
            let (what, limit) = ("nodes of one tree", u64::MAX);
            let sum = of.iter().try_fold(0u64, |sum, node| sum.checked_add(node.3));
            sum.ok_or(Error::Capacity { what, limit })
        };
        while !self.next.is_empty() {
            context.check()?;
            self.next.sort_unstable_by_key(|&(above, label, node, _)| {
                (above, label.0, node.0)
            });
            let mut next = std::mem::take(&mut self.next);
            self.level.clear();
            memory::reserve(&mut self.level, next.len())?;
            out.reserve(next.len())?;
            for same in next.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
                let place = self.place(same[0].0, same[0].1)?;
                out.push((place, sum(same)? as f64))?;
                for equal in same.chunk_by(|x, y| x.2 == y.2) {
                    self.level.push((place, equal[0].2, sum(equal)?));
                }
            }
            next.clear();
            for &(place, node, count) in &self.level {
                context.check()?;
                let below = nodes.children(node).iter();
                memory::reserve(&mut next, below.len())?;
                next.extend(below.map(|&c| (place, nodes.label(c), c, count)));
            }
            self.next = next;
        }
        Ok(())
    }

    /// The places in the order of their labels upwards, and how many labels each has in
    /// common with the one before.
    fn sort(&self, nodes: &Nodes, context: &Context) -> Result<(Vec<u32>, Vec<u32>)> {
        let n = self.above.len();
        // Of each round what it leaves, 8 bytes a place, and what it works on.
        let deepest = self.depth.iter().max().copied().unwrap_or(1);
        memory::room(n, 8 * (deepest.ilog2() as usize + 2) + 16)?;
        // 1. Ranks by the first label, then by twice as many as before, until all differ: as
        // places do. Labels by name, so that no order depends on ids.
        let mut names: Vec<_> = nodes.labels().names().zip(0usize..).collect();
        names.sort_unstable();
        let mut by_name = vec![0; names.len()];
        (1..).zip(&names).for_each(|(rank, &(_, label))| by_name[label] = rank);
        let mut order: Vec<u32> = (0..n as u32).collect();
        let mut rank: Vec<u32> =
            self.label.iter().map(|l| by_name[l.index()]).collect();
        let mut above = self.above.clone();
        let mut rounds: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
        loop {
            context.check_now()?;
            let key = |place: u32| {
                let further = match above[place as usize] {
                    NONE => 0,
                    above => rank[above as usize],
                };
                (rank[place as usize], further)
            };
            order.sort_unstable_by_key(|&place| key(place));
            let mut new = vec![0; n];
            let mut n_ranks = 0;
            for same in order.chunk_by(|&x, &y| key(x) == key(y)) {
                n_ranks += 1;
                for &place in same {
                    new[place as usize] = n_ranks;
                }
            }
            let further = above
                .iter()
                .map(|&up| if up == NONE { NONE } else { above[up as usize] })
                .collect();
            rounds.push((rank, above));
            (rank, above) = (new, further);
            if n_ranks as usize == n {
                break;
            }
        }
        // 2. Neighbours' labels in common, by ranks of ever fewer labels.
        let mut common = vec![0; n];
        for (at, pair) in order.windows(2).enumerate() {
            let (mut x, mut y) = (pair[0], pair[1]);
            for (round, (rank, above)) in rounds.iter().enumerate().rev() {
                if x != NONE && y != NONE && rank[x as usize] == rank[y as usize] {
                    common[at + 1] += 1 << round;
                    (x, y) = (above[x as usize], above[y as usize]);
                }
            }
        }
        Ok((order, common))
    }
}

/// The least of any stretch of numbers.
struct Common {
    values: Vec<u32>,
    /// By power of two, the least of so many blocks from each on.
    blocks: Vec<Vec<u32>>,
}

impl Common {
    const BLOCK: usize = 16;

    fn new(values: Vec<u32>) -> Self {
        let least = |block: &[u32]| block.iter().copied().min().unwrap_or(0);
        let mut blocks: Vec<Vec<u32>> =
            vec![values.chunks(Self::BLOCK).map(least).collect()];
        loop {
            let (last, width) = (&blocks[blocks.len() - 1], 1 << (blocks.len() - 1));
            if last.len() <= width {
                break;
            }
            let pairs = last.iter().zip(&last[width..]);
            let wider = pairs.map(|(&a, &b)| a.min(b)).collect();
            blocks.push(wider);
        }
        Self { values, blocks }
    }

    /// The least of the numbers from `first` to `last`, both included.
    fn least(&self, first: u32, last: u32) -> u32 {
        let (first, end) = (first as usize, last as usize + 1);
        let least = |part: &[u32]| part.iter().copied().min().unwrap_or(u32::MAX);
        let (start_block, end_block) = (first.div_ceil(Self::BLOCK), end / Self::BLOCK);
        if start_block >= end_block {
            return least(&self.values[first..end]);
        }
        let power = (end_block - start_block).ilog2() as usize;
        let blocks = &self.blocks[power];
        let inner = blocks[start_block].min(blocks[end_block - (1 << power)]);
        let ends = least(&self.values[first..start_block * Self::BLOCK])
            .min(least(&self.values[end_block * Self::BLOCK..end]));
        inner.min(ends)
    }
}
