//! The kernel as the paper computes it: alternative constraints and inclusion-exclusion.
//!
//! Zanzotto & Dell'Arciprete (EMNLP 2009) take C, the maximal constraints under which
//! fragments of the left trees, or fragments of the right trees, are equal, and sum
//!
//! ```text
//! K = Σ over c in C* of N(c) K_S(left, c) K_S(right, c)                          (eq. 7)
//! N(c) = 1 - Σ over c' in C*, c' a proper superset of c, of N(c')                (eq. 9)
//! ```
//!
//! with C* all intersections of members of C, and K_S the subset tree kernel restricted to
//! fragments whose constraint is inside c. So it counts pairs of fragments whose *joint*
//! constraint is inside some one member of C. A left and a right fragment whose
//! constraints fit together, but into no single member, are missed: the value is at most
//! the exact one, and, as C depends on both pairs, no dot product.
//!
//! # Complexity
//! |C*| times (|C| + the aligned pairs), and |C*|² for N. Members of C are found as the
//! exact kernel's keys are, so their number has the same worst case.

use super::alignment::Aligned;
use super::constraints::{
    Bits, Bounded, Budget, Stop, Universe, intersections, maximal,
};
use crate::Result;
use crate::kernel::Number;
use crate::memory::{self, Map};

/// K from both forests of aligned pairs, and a universe with all their placeholder pairs.
pub(super) fn kernel<B: Bits, N: Number>(
    universe: &Universe<B>,
    left: &Aligned<B, N>,
    right: &Aligned<B, N>,
    decay: f64,
    budget: &mut Budget<'_, '_>,
) -> Bounded<N> {
    // Without an aligned node on one side there is no fragment to count.
    if left.constraints.is_empty() || right.constraints.is_empty() {
        return Ok(N::from_f64(0.0));
    }
    let sets = constraints(universe, left, right, budget)?;
    // C* and N: larger sets come first, so N of all supersets is there.
    let closure = intersections(&sets, universe.none()?, budget)?;
    budget.hold(closure.len())?;
    let mut numbers: Vec<f64> = Vec::new();
    for (index, set) in closure.iter().enumerate() {
        budget.step(index)?;
        let larger = (0..index).filter(|&other| set.is_within(&closure[other]));
        let number = 1.0 - larger.map(|other| numbers[other]).sum::<f64>();
        memory::push(&mut numbers, number)?;
    }
    let mut sides = [
        RestrictedKernel::new(universe, left)?,
        RestrictedKernel::new(universe, right)?,
    ];
    let [mut plus, mut minus] = [N::from_f64(0.0), N::from_f64(0.0)];
    for (set, &number) in closure.iter().zip(&numbers) {
        // Inclusion and exclusion cancel here, and K_S need not be computed.
        if number == 0.0 {
            continue;
        }
        let mut term = N::from_f64(number.abs());
        for side in &mut sides {
            term = term * side.value(set, decay, budget)?;
        }
        // Apart, so that one subtraction is all that can cancel.
        let sum = if number > 0.0 { &mut plus } else { &mut minus };
        *sum = *sum + term;
    }
    Ok(plus + N::from_f64(-1.0) * minus)
}

/// K_S of one forest, remembered by what of a constraint can matter there.
pub(super) struct RestrictedKernel<'a, B, N> {
    forest: &'a Aligned<B, N>,
    /// The placeholder pairs in constraints of the forest: others do not matter.
    members: B,
    /// K_S by the part of a set that is among the members.
    values: Map<B, N>,
    scratch: Vec<N>,
}

impl<'a, B: Bits, N: Number> RestrictedKernel<'a, B, N> {
    /// # Errors
    /// [`crate::Error::Memory`].
    pub(super) fn new(
        universe: &Universe<B>,
        forest: &'a Aligned<B, N>,
    ) -> Result<Self> {
        let members = forest.members(universe.none()?);
        Ok(Self { forest, members, values: Map::default(), scratch: Vec::new() })
    }

    pub(super) fn value(
        &mut self,
        set: &B,
        decay: f64,
        budget: &mut Budget<'_, '_>,
    ) -> Bounded<N> {
        // Sets that differ elsewhere only have the same K_S.
        let set = set.and(&self.members)?;
        if let Some(&value) = self.values.get(&set) {
            return Ok(value);
        }
        let value = self.forest.inside(&set, decay, &mut self.scratch, budget)?;
        budget.hold(1)?;
        self.values.insert(set, value)?;
        Ok(value)
    }
}

/// C: the maximal ones among the constraints of both sides.
pub(super) fn constraints<B: Bits, N: Number>(
    universe: &Universe<B>,
    left: &Aligned<B, N>,
    right: &Aligned<B, N>,
    budget: &mut Budget<'_, '_>,
) -> Bounded<Vec<B>> {
    let mut sets = Vec::new();
    for side in [left, right] {
        let members = side.members(universe.none()?);
        let found = forest_constraints(universe, side, &members, budget)?;
        for (key, free) in found {
            memory::push(&mut sets, key.or(&free)?)?;
        }
    }
    // What is inside another set is not held any more.
    let held = sets.len();
    let kept = maximal(sets, budget)?;
    budget.release(held - kept.len());
    Ok(kept)
}

/// The C behind the exact kernel: the maximal ones among the consistent unions of a
/// constraint of the left side and one of the right side.
pub(super) fn exact_constraints<B: Bits, N: Number>(
    universe: &Universe<B>,
    left: &Aligned<B, N>,
    right: &Aligned<B, N>,
    budget: &mut Budget<'_, '_>,
) -> Bounded<Vec<B>> {
    let mut members = left.members(universe.none()?);
    members.add(&right.members(universe.none()?));
    let a = forest_constraints(universe, left, &members, budget)?;
    let b = forest_constraints(universe, right, &members, budget)?;
    let mut sets = Vec::new();
    // Left and right constraints that fit together, and all that they have uncontested.
    for (key, free) in &a {
        budget.step(b.len())?;
        let forbidden = universe.conflicts_of(key, budget)?;
        for (other, more) in b.iter().filter(|(other, _)| !other.meets(&forbidden)) {
            budget.hold(1)?;
            let mut set = key.or(other)?;
            set.add(free);
            set.add(more);
            memory::push(&mut sets, set)?;
        }
    }
    maximal(sets, budget)
}

/// A constraint in two parts: members that others of the universe are in conflict with,
/// and the rest.
type Parts<B> = (B, B);

/// The constraints of all fragments of one forest, each extended as far as it costs
/// nothing: of fragments with one root and the same members in conflict with any of
/// `members`, the union is a fragment as well, so only the largest set of other members
/// is kept with each. (Keeping only maximal sets at each node would lose some: what is
/// not maximal here may fit what comes further up.) Sets found are held.
fn forest_constraints<B: Bits, N: Number>(
    universe: &Universe<B>,
    forest: &Aligned<B, N>,
    members: &B,
    budget: &mut Budget<'_, '_>,
) -> Bounded<Vec<Parts<B>>> {
    // The members that some other one is in conflict with: only these decide what fits
    // together.
    let contested = universe.conflicts_of(members, budget)?;
    let mut found: Vec<Parts<B>> = Vec::new();
    // By node, until its parent takes it.
    let mut maps: Vec<Vec<Parts<B>>> = Vec::new();
    let mut is_root = memory::filled(false, forest.constraints.len())?;
    forest.roots.iter().for_each(|&root| is_root[root as usize] = true);
    // Lists are united whenever they have doubled: sorting them at each step would take
    // longer.
    let mut unite_all_at = 1024;
    for (node, constraint) in forest.constraints.iter().enumerate() {
        let mut free = constraint.copied()?;
        free.remove(&contested);
        let mut map = memory::collect([(constraint.and(&contested)?, free)])?;
        for &child in forest.children.get(node) {
            // Children come first, and each has one parent: its map is taken over.
            let below = std::mem::take(&mut maps[child as usize]);
            budget.release(below.len());
            let mut more = Vec::new();
            copy_to(&mut more, &map)?;
            let mut unite_at = 1024;
            for (key, free) in &map {
                budget.step(below.len())?;
                let forbidden = universe.conflicts_of(key, budget)?;
                for (other, extra) in &below {
                    if !other.meets(&forbidden) {
                        memory::push(&mut more, (key.or(other)?, free.or(extra)?))?;
                    }
                }
                if more.len() > unite_at {
                    unite(&mut more);
                    if more.len() > budget.left() {
                        return Err(Stop::Limit);
                    }
                    unite_at = more.len() * 2 + 1024;
                }
            }
            unite(&mut more);
            map = more;
        }
        copy_to(&mut found, &map)?;
        // What nobody takes need not be there twice.
        let map = if is_root[node] { Vec::new() } else { map };
        budget.hold(map.len())?;
        memory::push(&mut maps, map)?;
        if found.len() > unite_all_at {
            unite_equal(&mut found);
            if found.len() > budget.left() {
                return Err(Stop::Limit);
            }
            unite_all_at = found.len() * 2 + 1024;
        }
    }
    unite_equal(&mut found);
    budget.hold(found.len())?;
    Ok(found)
}

/// Adds the same constraints to a list.
fn copy_to<B: Bits>(list: &mut Vec<Parts<B>>, map: &[Parts<B>]) -> Result<()> {
    memory::reserve(list, map.len())?;
    for (key, free) in map {
        memory::push(list, (key.copied()?, free.copied()?))?;
    }
    Ok(())
}

/// One entry per key, with all that it was found with.
fn unite<B: Bits>(map: &mut Vec<Parts<B>>) {
    map.sort_unstable();
    map.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1.add(&next.1);
        }
        same
    });
}

/// Fragments with different roots have no union: only equal ones are one.
fn unite_equal<B: Bits>(sets: &mut Vec<Parts<B>>) {
    sets.sort_unstable();
    sets.dedup();
}
