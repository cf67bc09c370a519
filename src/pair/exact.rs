//! The exact kernel: a sum of positive terms.
//!
//! K(G1, G2) = Σ λ^(|t|+|g|) over equal fragments (t, t') of the left trees and (g, g') of
//! the right trees whose constraints together are consistent. It is Σ φ_f(G1) φ_f(G2) over
//! isomorphism classes f of fragment pairs: a dot product, positive semidefinite for every
//! λ > 0. (Zanzotto & Dell'Arciprete, EMNLP 2009, define it; their algorithm, `paper.rs`,
//! computes something smaller for some pairs.)
//!
//! Fragments that two trees share are connected parts of the forest of aligned pairs
//! (`alignment.rs`), so the sum goes over parts of the left forest and of the right one.
//! What a part forbids others depends only on those of its placeholder pairs that are in
//! conflict with pairs elsewhere. So of all parts of a tree only a map is kept: from the
//! pairs that still matter (a key) to the weight of all parts that have them.
//!
//! ```text
//! map(v)  = {own(v): λ}, times (1 + map(child)) for each child: keys united, weights
//!           multiplied, inconsistent unions left out
//! K       = Σ over trees of both forests: total(tree) total(tree') where nothing in them
//!           is in conflict, else Σ A[a] B[b] over keys a, b that are not in conflict
//! ```
//!
//! A key forgets pairs as soon as nothing that may still join is in conflict with them:
//! this is what keeps maps small. All terms are positive, nothing cancels.
//!
//! # Complexity
//! Where no two placeholder pairs are in conflict, the product of two subset tree kernels.
//! Else linear in the aligned pairs times the square of the keys of a map: few in
//! pairs of sentences (4 at most in 20,100 kernels of SNLI, 25 in 810,901). In the worst case keys are
//! exponentially many, as the value is #P-hard: with left trees (R (L1 x:u1) ... (Lm x:um))
//! and (R (L1 x:v1) ...) it counts the matchings of the bipartite graph of edges {ui, vi}.

use super::alignment::Aligned;
use super::constraints::{Bits, Bounded, Budget, Stop, Universe, merge};
use crate::kernel::Number;
use crate::memory;

/// Keys with the weights of all fragments that have them, by ascending keys.
type Map<B, N> = Vec<(B, N)>;

/// K from both forests of aligned pairs.
pub(super) fn kernel<B: Bits, N: Number>(
    universe: &Universe<B>,
    left: &Aligned<B, N>,
    right: &Aligned<B, N>,
    decay: f64,
    budget: &mut Budget<'_, '_>,
) -> Bounded<N> {
    // Trees with the same members are done together: what may be in conflict is the
    // same.
    let mut sides =
        [Groups::new(universe, left, budget)?, Groups::new(universe, right, budget)?];
    let mut total = N::from_f64(0.0);
    let zero = N::from_f64(0.0);
    for i in 0..sides[0].by_members.len() {
        for j in 0..sides[1].by_members.len() {
            budget.step(1)?;
            let [a, b] = [&sides[0].by_members[i], &sides[1].by_members[j]];
            // 1. Nothing in one group is in conflict with the other: all their
            // fragments fit.
            let of_b = a.conflicts.and(&b.members)?;
            if of_b.is_empty() {
                let a = sides[0].total(i, decay, budget)?;
                let b = sides[1].total(j, decay, budget)?;
                total = total + a * b;
                continue;
            }
            // 2. Else by keys: of each side only the pairs that the other side may be
            // in conflict with.
            let of_a = b.conflicts.and(&a.members)?;
            let a = sides[0].map(i, &of_a, decay, budget)?;
            let b = sides[1].map(j, &of_b, decay, budget)?;
            let [a, b] = [&sides[0].maps[a].2, &sides[1].maps[b].2];
            for (key, weight) in a {
                budget.step(b.len())?;
                let forbidden = universe.conflicts_of(key, budget)?;
                let allowed = b.iter().filter(|(other, _)| !other.meets(&forbidden));
                let sum = allowed.fold(zero, |sum, &(_, weight)| sum + weight);
                total = total + *weight * sum;
            }
        }
    }
    Ok(total)
}

/// Trees of one forest whose constraints have the same members.
struct Group<B, N> {
    /// The placeholder pairs in constraints of these trees and of all below.
    members: B,
    /// What is in conflict with a member.
    conflicts: B,
    /// The roots of the trees.
    roots: Vec<u32>,
    /// The weight of all their fragments, once it was asked for.
    total: Option<N>,
}

/// One forest, by what its trees' constraints have as members.
struct Groups<'a, B, N> {
    universe: &'a Universe<B>,
    forest: &'a Aligned<B, N>,
    by_members: Vec<Group<B, N>>,
    /// What was computed already: (group, what matters, weights by key).
    maps: Vec<(usize, B, Map<B, N>)>,
}

impl<'a, B: Bits, N: Number> Groups<'a, B, N> {
    fn new(
        universe: &'a Universe<B>,
        forest: &'a Aligned<B, N>,
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<Self> {
        let mut roots = memory::copied(&forest.roots)?;
        // By members, so that equal ones are neighbours; then by number, so that
        // weights are added in the same order every time.
        roots.sort_unstable_by(|&a, &b| {
            forest.below[a as usize].cmp(&forest.below[b as usize]).then(a.cmp(&b))
        });
        let mut by_members = Vec::new();
        let same =
            |&a: &u32, &b: &u32| forest.below[a as usize] == forest.below[b as usize];
        for roots in roots.chunk_by(same) {
            let members = forest.below[roots[0] as usize].copied()?;
            let conflicts = universe.conflicts_of(&members, budget)?;
            let roots = memory::copied(roots)?;
            memory::push(
                &mut by_members,
                Group { members, conflicts, roots, total: None },
            )?;
        }
        Ok(Self { universe, forest, by_members, maps: Vec::new() })
    }

    /// The weight of all fragments of a group.
    fn total(
        &mut self,
        group: usize,
        decay: f64,
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<N> {
        let found = &self.by_members[group];
        if let Some(total) = found.total {
            return Ok(total);
        }
        let zero = N::from_f64(0.0);
        // Fragments of one tree may be inconsistent in themselves: the plain sums have
        // those too.
        let total = if found.conflicts.meets(&found.members) {
            let none = self.universe.none()?;
            let map = self.map(group, &none, decay, budget)?;
            self.maps[map].2.iter().fold(zero, |sum, &(_, weight)| sum + weight)
        } else {
            let sums = found.roots.iter().map(|&root| self.forest.sum[root as usize]);
            sums.fold(zero, |total, sum| total + sum)
        };
        self.by_members[group].total = Some(total);
        Ok(total)
    }

    /// The weights of all fragments of a group, by those of their placeholder pairs that
    /// are among `wanted`: the number of that map.
    fn map(
        &mut self,
        group: usize,
        wanted: &B,
        decay: f64,
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<usize> {
        let is_it = |map: &(usize, B, _)| map.0 == group && map.1 == *wanted;
        if let Some(place) = self.maps.iter().position(is_it) {
            return Ok(place);
        }
        let mut weights = Map::new();
        for &root in &self.by_members[group].roots {
            fragments(
                self.universe,
                self.forest,
                root,
                wanted,
                decay,
                &mut weights,
                budget,
            )?;
            // Entries that became one are held once.
            let before = weights.len();
            merge(&mut weights);
            budget.release(before - weights.len());
        }
        memory::push(&mut self.maps, (group, wanted.copied()?, weights))?;
        Ok(self.maps.len() - 1)
    }
}

/// Adds to `weights` the weights of all fragments in one tree of aligned pairs, by those of
/// their placeholder pairs that are among `wanted`. Entries added are held.
fn fragments<B: Bits, N: Number>(
    universe: &Universe<B>,
    forest: &Aligned<B, N>,
    root: u32,
    wanted: &B,
    decay: f64,
    weights: &mut Map<B, N>,
    budget: &mut Budget<'_, '_>,
) -> Bounded<()> {
    // Parents before children: each with what may still join a fragment from outside.
    let mut order: Vec<(u32, B)> = memory::collect([(root, universe.none()?)])?;
    let mut next = 0;
    let mut first_child = Vec::new();
    while next < order.len() {
        let (node, outside) = &order[next];
        let node = *node as usize;
        let children = forest.children.get(node);
        memory::push(&mut first_child, order.len())?;
        // The siblings before a child and those after it: prefixes, then suffixes.
        let start = order.len();
        let mut joined = outside.or(&forest.constraints[node])?;
        for &child in children {
            memory::push(&mut order, (child, joined.copied()?))?;
            joined.add(&forest.below[child as usize]);
        }
        let mut after = universe.none()?;
        for place in (start..order.len()).rev() {
            order[place].1.add(&after);
            after.add(&forest.below[order[place].0 as usize]);
        }
        next += 1;
    }
    let decay = N::from_f64(decay);
    let mut maps: Vec<Map<B, N>> = memory::filled_with(order.len(), Map::new)?;
    // Merging takes a sort, so it waits until the list has doubled.
    let mut merge_at = weights.len() * 2 + 64;
    for (place, (node, outside)) in order.iter().enumerate().rev() {
        let node = *node as usize;
        // What a key must still tell: of pairs that are wanted, and of those in conflict
        // with what may join.
        let kept = wanted.or(&universe.conflicts_of(outside, budget)?)?;
        let children = forest.children.get(node);
        let first = first_child[place];
        // The same while children from each one on are still to join.
        let mut later = Vec::new();
        memory::reserve(&mut later, children.len() + 1)?;
        memory::push(&mut later, kept)?;
        for (at, &child) in children.iter().rev().enumerate() {
            let below = universe.conflicts_of(&forest.below[child as usize], budget)?;
            let kept = later[at].or(&below)?;
            memory::push(&mut later, kept)?;
        }
        later.reverse();
        let key = forest.constraints[node].and(&later[0])?;
        let mut map: Map<B, N> = memory::collect([(key, decay)])?;
        budget.hold(1)?;
        for index in 0..children.len() {
            let below = std::mem::take(&mut maps[first + index]);
            let more = product(universe, &map, &below, &later[index + 1], budget)?;
            budget.release(map.len() + below.len());
            map = more;
        }
        budget.hold(map.len())?;
        memory::reserve(weights, map.len())?;
        for (key, weight) in &map {
            memory::push(weights, (key.and(wanted)?, *weight))?;
        }
        if weights.len() > merge_at {
            let before = weights.len();
            merge(weights);
            budget.release(before - weights.len());
            merge_at = weights.len() * 2 + 64;
        }
        // Nothing is kept twice: `map` has its keys for the parent already.
        if place == 0 {
            budget.release(map.len());
        } else {
            maps[place] = map;
        }
    }
    Ok(())
}

/// The fragments of `map`, each alone and with each of `below` that it is not in conflict
/// with; of their keys what is in `kept`. The result is held, besides what was.
fn product<B: Bits, N: Number>(
    universe: &Universe<B>,
    map: &Map<B, N>,
    below: &Map<B, N>,
    kept: &B,
    budget: &mut Budget<'_, '_>,
) -> Bounded<Map<B, N>> {
    let mut more: Map<B, N> = Vec::new();
    memory::reserve(&mut more, map.len() * 2)?;
    // Equal keys are added up when so many are there: memory stays within twice what
    // may be held.
    let mut merge_at = 1024;
    for (key, weight) in map {
        budget.step(below.len())?;
        memory::push(&mut more, (key.and(kept)?, *weight))?;
        let forbidden = universe.conflicts_of(key, budget)?;
        for (other, factor) in below {
            if !other.meets(&forbidden) {
                let mut both = key.or(other)?;
                both.keep(kept);
                memory::push(&mut more, (both, *weight * *factor))?;
            }
        }
        if more.len() > merge_at {
            merge(&mut more);
            if more.len() > budget.left() {
                return Err(Stop::Limit);
            }
            merge_at = more.len() * 2 + 1024;
        }
    }
    merge(&mut more);
    budget.hold(more.len())?;
    Ok(more)
}
