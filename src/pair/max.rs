//! K_max: the best single correspondence of placeholders.
//!
//! ```text
//! K_max = max over c in F of K_S(left, c) K_S(right, c)                          (eq. 10)
//! ```
//!
//! F: all injections of the smaller set of placeholders into the larger one. (Moschitti
//! and Zanzotto, 2007, have the sum of both K_S for the product.) An optimum over
//! assignments, so no dot product, and at most the exact kernel, as for one c all pairs of
//! fragments that are counted fit together.
//!
//! # Complexity
//! [`enumerated`] tries all m! / (m - n)! injections: the baseline of the paper's figures
//! 7 and 8. [`kernel`] has the same value by branch and bound. K_S only grows with c, and
//! of c only those pairs matter that occur in some production. So all of these, though in
//! conflict, give an upper bound; the pair with the most conflicts is then taken for good,
//! or left out, until nothing is in conflict.

use super::alignment::Aligned;
use super::constraints::{Bits, Bounded, Budget, Universe, code};
use super::paper::RestrictedKernel;
use crate::kernel::Number;
use crate::memory;

/// K_max, and the constraint that has it, from both forests of aligned pairs and a
/// universe with all their placeholder pairs. `join` is eq. 10's product, or the sum.
pub(super) fn kernel<B: Bits, N: Number>(
    universe: &Universe<B>,
    left: &Aligned<B, N>,
    right: &Aligned<B, N>,
    decay: f64,
    join: impl Fn(N, N) -> N,
    budget: &mut Budget<'_, '_>,
) -> Bounded<(N, B)> {
    let mut sides = [
        RestrictedKernel::new(universe, left)?,
        RestrictedKernel::new(universe, right)?,
    ];
    let mut everything = universe.none()?;
    (0..universe.codes.len()).for_each(|bit| everything.insert(bit)); // has room
    let mut best: Option<(N, B)> = None;
    budget.hold(1)?;
    let mut todo = memory::collect([everything])?;
    while let Some(set) = todo.pop() {
        budget.release(1);
        let [left, right] = &mut sides;
        let value =
            join(left.value(&set, decay, budget)?, right.value(&set, decay, budget)?);
        // An upper bound, as all pairs in conflict are in the set: no better than the
        // best so far.
        if best.as_ref().is_some_and(|(best, _)| !best.is_below(value)) {
            continue;
        }
        let conflicts = |&bit: &usize| universe.conflicts[bit].count_with(&set);
        // The first of the worst.
        let worst = set.members().max_by_key(|bit| (conflicts(bit), usize::MAX - bit));
        match worst {
            Some(bit) if conflicts(&bit) > 0 => {
                budget.hold(2)?;
                let mut without = set.copied()?;
                let mut chosen = universe.none()?;
                chosen.insert(bit); // has room
                without.remove(&chosen);
                let mut with = set;
                with.remove(&universe.conflicts[bit]);
                // The last one is looked at first: a good value early cuts off more.
                memory::extend(&mut todo, [without, with])?;
            }
            _ => best = Some((value, set)),
        }
    }
    match best {
        Some(best) => Ok(best),
        None => Ok((N::from_f64(0.0), universe.none()?)),
    }
}

/// K_max by trying all injections of `n[0]` placeholders into `n[1]`, or the other way.
pub(super) fn enumerated<B: Bits, N: Number>(
    universe: &Universe<B>,
    left: &Aligned<B, N>,
    right: &Aligned<B, N>,
    n: [usize; 2],
    decay: f64,
    budget: &mut Budget<'_, '_>,
) -> Bounded<N> {
    let (small, large) = (n[0].min(n[1]), n[0].max(n[1]));
    // A pair that occurs in no production has no number, and changes no value.
    let bit = |from: usize, to: usize| {
        let (a, b) = if n[0] <= n[1] { (from, to) } else { (to, from) };
        universe.bit(code(a as u32, b as u32))
    };
    let mut best = N::from_f64(0.0);
    let mut scratch = Vec::new();
    // Where each placeholder of the smaller set goes, as far as is decided.
    let mut choice: Vec<usize> = Vec::new();
    memory::reserve(&mut choice, small)?;
    let mut is_taken = memory::filled(false, large)?;
    let mut next = 0;
    loop {
        budget.work(1 + large / 16)?;
        if choice.len() == small {
            let mut set = universe.none()?;
            let pairs = choice.iter().enumerate();
            pairs
                .filter_map(|(from, &to)| bit(from, to))
                .for_each(|bit| set.insert(bit)); // has room
            let a = left.inside(&set, decay, &mut scratch, budget)?;
            let b = right.inside(&set, decay, &mut scratch, budget)?;
            if best.is_below(a * b) {
                best = a * b;
            }
            next = large; // nothing is left to decide: back
        }
        // The next free place, or back to the placeholder before: so every injection
        // comes once.
        match (next..large).find(|&to| !is_taken[to]) {
            Some(to) => {
                is_taken[to] = true;
                memory::push(&mut choice, to)?;
                next = 0;
            }
            None => match choice.pop() {
                Some(to) => {
                    is_taken[to] = false;
                    next = to + 1;
                }
                None => return Ok(best),
            },
        }
    }
}
