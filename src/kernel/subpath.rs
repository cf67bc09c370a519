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

use std::sync::Arc;

use super::weights::{self, ResolvedWeights, Weightable};
use super::{
    Builtin, Counts, Kernel, Number, Pairs, PartialTree, Prepared, Sloped, described,
    kernel_struct, naive,
};
use crate::features::Kind;
use crate::intern::new_id;
use crate::memory::{self, Map};
use crate::ragged::Ragged;
use crate::{Context, Error, Label, NodeId, Nodes, Result};

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
        Ok(Box::new(PreparedTrees::new(nodes, roots, context, |places, context| {
            OneDecay::new(self.decay, places, context)
        })?))
    }

    fn sloped(
        &self,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Option<Box<dyn Sloped>>> {
        Ok(Some(Box::new(PreparedTrees::new(
            nodes,
            roots,
            context,
            |places, context| OneDecay::new(self.decay, places, context),
        )?)))
    }

    fn builtin(&self) -> Option<Builtin<'_>> {
        // A path is a partial tree whose nodes have one child each, none of it left out.
        let paths = PartialTree::new(1.0, self.decay).with_max_children(Some(1));
        Some(Builtin {
            index: Some(Box::new(paths)),
            weightable: Some(self),
            features: Some(Kind::Paths { decay: self.decay, max_size: 1 }),
            ..Builtin::new(self)
        })
    }
}

impl Weightable for Subpath {
    fn weighted_name(&self) -> &'static str {
        "weighted Subpath"
    }

    fn has_counts(&self) -> bool {
        true
    }

    fn weighted_definition(
        &self,
        table: &ResolvedWeights,
        nodes: &Nodes,
        a: NodeId,
        b: NodeId,
    ) -> f64 {
        let (mut in_a, in_b) = (paths(nodes, a), paths(nodes, b));
        let count =
            |paths: &[Vec<Label>], p| paths.iter().filter(|q| *q == p).count() as f64;
        let f = |paths: &[Vec<Label>], p| table.counts.of(count(paths, p));
        let weight = |l: &Label| self.decay * table.labels[l.index()];
        let paths_of_a = in_a.clone();
        in_a.sort_unstable();
        in_a.dedup();
        let values = in_a.iter().map(|p| {
            p.iter().map(weight).product::<f64>() * f(&paths_of_a, p) * f(&in_b, p)
        });
        values.sum()
    }

    fn weighted_pairs(
        &self,
        table: &ResolvedWeights,
        nodes: &Arc<Nodes>,
        roots: &[NodeId],
        context: &Context,
    ) -> Result<Box<dyn Prepared>> {
        let factors = table.labels_times(self.decay)?;
        Ok(Box::new(PreparedTrees::new(nodes, roots, context, |places, context| {
            Stretches::new(&factors, table.counts, places, context)
        })?))
    }
}

/// Every path of a tree, as often as it stands there.
fn paths(nodes: &Nodes, root: NodeId) -> Vec<Vec<Label>> {
    fn from(nodes: &Nodes, top: NodeId) -> Vec<Vec<Label>> {
        let longer = nodes.children(top).iter().flat_map(|&child| from(nodes, child));
        let label = nodes.label(top);
        // bounded: the definition is for small trees
        let extended = longer.map(|path| [vec![label], path].concat());
        // bounded: as before
        std::iter::once(vec![label]).chain(extended).collect()
    }
    naive::occurrences(nodes, root)
        .into_iter()
        .flat_map(|top| from(nodes, top))
        .collect() // bounded: as before
}

/// "No place": above a root.
const NONE: u32 = u32::MAX;

/// What the beginnings of a place's labels weigh.
trait PathWeights: Send + Sync {
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
    fn new(decay: f64, places: &Sorted<'_>, _: &Context) -> Result<Self> {
        let deepest = places.depths.iter().max().copied().unwrap_or(0);
        let mut powers = memory::collect([1.0])?;
        let mut sums = memory::collect([0.0])?;
        let mut slopes = memory::collect([[0.0; 2]])?;
        for n in 0..deepest as usize {
            // F(n+1) = λ (1 + F(n)), and λⁿ by its derivative n λⁿ⁻¹.
            let (next, sum) = (decay * powers[n], decay * (1.0 + sums[n]));
            memory::push(&mut powers, next)?;
            memory::push(&mut sums, sum)?;
            let power = (n + 1) as f64 * powers[n];
            let slope = [power, slopes[n][1] + power];
            memory::push(&mut slopes, slope)?;
        }
        Ok(Self { powers, sums, slopes })
    }
}

impl PathWeights for OneDecay {
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
        let Sorted { by_id, order, number, .. } = places;
        let deepest = places.depths.iter().max().copied().unwrap_or(1);
        let n_levels = deepest.ilog2() as usize + 1;
        // A stretch of one label.
        let first = order.iter().map(|&place| {
            let above = match by_id.above[place as usize] {
                NONE => NONE,
                above => number[above as usize],
            };
            let factor = factors[by_id.label[place as usize].index()];
            (factor, factor, above)
        });
        let mut levels: Vec<Vec<_>> = memory::collect([memory::collect(first)?])?;
        for last in 1..n_levels {
            context.check_now()?;
            // Two stretches of half the length; beyond the root the second is empty.
            let last = &levels[last - 1];
            let twice = last.iter().map(|&(product, sum, above)| {
                let (product2, sum2, above) = match above {
                    NONE => (1.0, 0.0, NONE),
                    above => last[above as usize],
                };
                (product * product2, sum + product * sum2, above)
            });
            let twice = memory::collect(twice)?;
            memory::push(&mut levels, twice)?;
        }
        for level in &levels {
            weights::finite(level.iter().map(|entry| &entry.1))?;
        }
        Ok(Self { counts, levels })
    }
}

impl PathWeights for Stretches {
    fn between<N: Number>(&self, mut place: u32, shorter: u32, longer: u32) -> N {
        let (mut product, mut sum) = (N::from_f64(1.0), N::from_f64(0.0));
        // First what both paths share already, and then the lengths that count.
        for (length, is_counted) in [(shorter, false), (longer - shorter, true)] {
            for (k, level) in self.levels.iter().enumerate() {
                if length >> k & 1 == 1 {
                    let (product2, sum2, above) = level[place as usize];
                    if is_counted {
                        sum = sum + product * N::from_f64(sum2);
                    }
                    product = product * N::from_f64(product2);
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
            counts => N::from_f64(counts.of(count.float())),
        }
    }
}

/// Places in the order of their labels upwards.
struct Sorted<'a> {
    by_id: &'a Places,
    /// The places in order, and by place its number in it.
    order: &'a [u32],
    number: &'a [u32],
    /// By number: how many labels there are up to the root.
    depths: &'a [u32],
}

/// Trees as counted places, in the order of their labels upwards.
struct PreparedTrees<M> {
    /// By tree: places, as numbers in the order of all, with how many nodes are there.
    places: Ragged<(u32, f64)>,
    /// By place: how many labels there are up to the root.
    depths: Vec<u32>,
    common: Common,
    weights: M,
}

impl<M: PathWeights> PreparedTrees<M> {
    fn new(
        nodes: &Nodes,
        roots: &[NodeId],
        context: &Context,
        weights: impl FnOnce(&Sorted<'_>, &Context) -> Result<M>,
    ) -> Result<Self> {
        let mut by_id = Places::default();
        let mut places: Ragged<(u32, f64)> = Ragged::default();
        for &root in roots {
            by_id.read(nodes, root, &mut places, context)?;
            places.close("places, tree by tree")?;
        }
        let (order, common) = by_id.sort(nodes, context)?;
        // Places by their numbers in the order of all.
        let mut number = memory::filled(0, order.len())?;
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
        let depths = order.iter().map(|&p| by_id.depth[p as usize]);
        let depths: Vec<u32> = memory::collect(depths)?;
        let sorted_places =
            Sorted { by_id: &by_id, order: &order, number: &number, depths: &depths };
        let weights = weights(&sorted_places, context)?;
        let common = Common::new(common)?;
        Ok(Self { places: sorted, depths, common, weights })
    }
}

/// A common beginning: its length, and how many nodes of both trees have it.
#[derive(Debug, Clone, Copy)]
struct Beginning<N> {
    len: u32,
    in_a: N,
    in_b: N,
}

impl<M: PathWeights> Pairs for PreparedTrees<M> {
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
        let mut total = N::from_f64(0.0);
        stack.clear();
        // A beginning of no labels is below all others, and is never taken off.
        let nothing =
            Beginning { len: 0, in_a: N::from_f64(0.0), in_b: N::from_f64(0.0) };
        memory::push(stack, nothing)?;
        let mut last = 0;
        let mut steps = 0u32;
        loop {
            // 1. The next place in the order of both.
            let first =
                |places: &[(u32, f64)]| places.first().map_or(NONE, |item| item.0);
            let place = first(left).min(first(right));
            let take = |places: &mut &[(u32, f64)]| match places.split_first() {
                Some((&(next, n), rest)) if next == place => {
                    *places = rest;
                    N::from_f64(n)
                }
                _ => N::from_f64(0.0),
            };
            let (in_a, in_b) = (take(&mut left), take(&mut right));
            // 2. What it has in common with the last; nothing, once there is no more.
            let is_first = stack.len() == 1;
            let len = match place {
                NONE => 0,
                _ if is_first => 0,
                // Neighbours in the order of both may be far apart in that of all: what
                // they have in common is the least between them.
                _ => self.common.least(last + 1, place),
            };
            // 3. Longer beginnings are complete: they add their pairs, and are part of the
            // next shorter one.
            while let Some(&Beginning { len: longer, in_a, in_b }) = stack.last()
                && longer > len
            {
                stack.pop();
                // Down to where the next beginning ends, or to what the new place has.
                let below = stack.last().map_or(0, |below| below.len);
                let shorter = below.max(len);
                let weight: N = self.weights.between(last, shorter, longer);
                let pairs = self.weights.count(in_a) * self.weights.count(in_b);
                total = total + weight * pairs;
                match stack.last_mut() {
                    Some(below) if below.len == shorter => {
                        below.in_a = below.in_a + in_a;
                        below.in_b = below.in_b + in_b;
                    }
                    // In the place of the longer one.
                    _ => stack.push(Beginning { len, in_a, in_b }), // has room
                }
            }
            if place == NONE {
                return Ok(total);
            }
            // 4. All of its own labels are the longest beginning.
            let len = self.depths[place as usize];
            memory::push(stack, Beginning { len, in_a, in_b })?;
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
    number_of: Map<(u32, Label), u32>,
    /// Nodes of one level: place, subtree, how many; and the next level's, where the place
    /// is still that above, and a label.
    level: Vec<(u32, NodeId, u64)>,
    next: Vec<(u32, Label, NodeId, u64)>,
}

impl Places {
    fn place(&mut self, above: u32, label: Label) -> Result<u32> {
        if let Some(&place) = self.number_of.get(&(above, label)) {
            return Ok(place);
        }
        let place = new_id(self.above.len(), "places of nodes")?;
        self.number_of.insert((above, label), place)?;
        let depth = if above == NONE { 0 } else { self.depth[above as usize] };
        memory::push(&mut self.depth, depth + 1)?;
        memory::push(&mut self.above, above)?;
        memory::push(&mut self.label, label)?;
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
        memory::push(&mut self.next, (NONE, nodes.label(root), root, 1))?;
        let sum = |entries: &[(u32, Label, NodeId, u64)]| {
            let (what, limit) = ("nodes entries one tree", u64::MAX);
            let sum =
                entries.iter().try_fold(0u64, |sum, node| sum.checked_add(node.3));
            sum.ok_or(Error::Capacity { what, limit })
        };
        while !self.next.is_empty() {
            context.check()?;
            // Nodes of one place side by side, and of these equal subtrees.
            self.next.sort_unstable_by_key(|&(above, label, node, _)| {
                (above, label.0, node.0)
            });
            let mut next = std::mem::take(&mut self.next);
            self.level.clear();
            for same in next.chunk_by(|x, y| (x.0, x.1) == (y.0, y.1)) {
                let place = self.place(same[0].0, same[0].1)?;
                out.push((place, sum(same)? as f64))?;
                // Equal subtrees of one place go on together: a level is as long as it
                // has different ones.
                for equal in same.chunk_by(|x, y| x.2 == y.2) {
                    memory::push(&mut self.level, (place, equal[0].2, sum(equal)?))?;
                }
            }
            next.clear();
            for &(place, node, count) in &self.level {
                context.check()?;
                let below = nodes.children(node).iter();
                let below = below.map(|&c| (place, nodes.label(c), c, count));
                memory::extend(&mut next, below)?;
            }
            self.next = next;
        }
        Ok(())
    }

    /// The places in the order of their labels upwards, and how many labels each has in
    /// common with the one before.
    fn sort(&self, nodes: &Nodes, context: &Context) -> Result<(Vec<u32>, Vec<u32>)> {
        let n = self.above.len();
        // 1. Ranks by the first label, then by twice as many as before, until all differ: as
        // places do. Labels by name, so that no order depends on ids.
        let mut names = memory::collect(nodes.labels().names().zip(0usize..))?;
        names.sort_unstable();
        let mut by_name = memory::filled(0, names.len())?;
        (1..).zip(&names).for_each(|(rank, &(_, label))| by_name[label] = rank);
        let mut order = memory::collect(0..n as u32)?;
        let rank = self.label.iter().map(|l| by_name[l.index()]);
        let mut rank: Vec<u32> = memory::collect(rank)?;
        let mut above = memory::copied(&self.above)?;
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
            let mut new = memory::filled(0, n)?;
            let mut n_ranks = 0;
            for same in order.chunk_by(|&x, &y| key(x) == key(y)) {
                n_ranks += 1;
                for &place in same {
                    new[place as usize] = n_ranks;
                }
            }
            let further = above
                .iter()
                .map(|&up| if up == NONE { NONE } else { above[up as usize] });
            let further = memory::collect(further)?;
            memory::push(&mut rounds, (rank, above))?;
            (rank, above) = (new, further);
            if n_ranks as usize == n {
                break;
            }
        }
        // 2. Neighbours' labels in common, by ranks of ever fewer labels.
        let mut common = memory::filled(0, n)?;
        for (at, pair) in order.windows(2).enumerate() {
            // Ranks of round r are those of 2^r labels: where they agree, so many
            // labels do.
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

    fn new(values: Vec<u32>) -> Result<Self> {
        let least = |block: &[u32]| block.iter().copied().min().unwrap_or(0);
        let first = memory::collect(values.chunks(Self::BLOCK).map(least))?;
        let mut blocks: Vec<Vec<u32>> = memory::collect([first])?;
        // Each level is of twice as many blocks as the one before.
        loop {
            let (last, width) = (&blocks[blocks.len() - 1], 1 << (blocks.len() - 1));
            if last.len() <= width {
                break;
            }
            let pairs = last.iter().zip(&last[width..]);
            let wider = memory::collect(pairs.map(|(&a, &b)| a.min(b)))?;
            memory::push(&mut blocks, wider)?;
        }
        Ok(Self { values, blocks })
    }

    /// The least of the numbers from `first` to `last`, both included.
    fn least(&self, first: u32, last: u32) -> u32 {
        let (first, end) = (first as usize, last as usize + 1);
        // Whole blocks within the stretch, and what is left at both ends.
        let least = |part: &[u32]| part.iter().copied().min().unwrap_or(u32::MAX);
        let (start_block, end_block) = (first.div_ceil(Self::BLOCK), end / Self::BLOCK);
        if start_block >= end_block {
            return least(&self.values[first..end]);
        }
        // Two stretches of a power of two, which may overlap, are all of the inner
        // blocks.
        let power = (end_block - start_block).ilog2() as usize;
        let blocks = &self.blocks[power];
        let inner = blocks[start_block].min(blocks[end_block - (1 << power)]);
        let ends = least(&self.values[first..start_block * Self::BLOCK])
            .min(least(&self.values[end_block * Self::BLOCK..end]));
        inner.min(ends)
    }
}
