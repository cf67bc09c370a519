//! The shuffled γ-product of the paper: γ p1(a) ⊗ p2(b), number by number.
//!
//! γ makes up for the norm that a product of two random unit vectors loses: 1 over the
//! mean norm of 50 of them, about √d. ("Computed as the average norm", says the paper;
//! taken literally that would shrink vectors by d.)
//!
//! **It does not scale**: the norm of a composition of k vectors is 1 on average of
//! squares only, and in fact collapses (.4 at k = 20, .1 at k = 30) or explodes: chains
//! and combs of one label reach 5e-11 to 3e11, with cosines of 1 between different
//! trees. It is here to reproduce the paper.

use super::{Form, Real, gaussian};
use crate::dtk::random::Stream;
use crate::{Context, Result, memory};

/// γ for vectors of `d` numbers.
pub(super) fn factor(d: usize, seed: u64, context: &Context) -> Result<f64> {
    const PAIRS: u64 = 50;
    let (mut a, mut b) = (memory::filled(0.0, d)?, memory::filled(0.0, d)?);
    let mut sum = 0.0;
    for pair in 0..PAIRS {
        // Other numbers than those of the permutations, which are 1 and 2.
        let [first, second] = [100, 101].map(|n| Stream::numbered(seed, n + 2 * pair));
        // Without the mean taken off, and of norm 1, as labels are outside.
        gaussian(first, false, 1.0, &mut a, context)?;
        gaussian(second, false, 1.0, &mut b, context)?;
        let squares = a.iter().zip(&b).map(|(x, y): (&f64, &f64)| (x * y) * (x * y));
        sum += squares.sum::<f64>().sqrt();
    }
    Ok(PAIRS as f64 / sum)
}

/// p1(left) ⊗ p2(right).
pub(super) fn product<T: Real>(
    (first, second): (&[u32], &[u32]),
    left: &[T],
    right: &Form<'_, T>,
    out: &mut [T],
) {
    let indices = out.iter_mut().zip(first).zip(second);
    match (right.label, right.value) {
        (Some((x, w)), None) | (None, Some((x, w))) => {
            for ((out, &i), &j) in indices {
                *out = left[i as usize] * (w * x[j as usize]);
            }
        }
        (Some((x, w)), Some((y, v))) => {
            for ((out, &i), &j) in indices {
                let j = j as usize;
                *out = left[i as usize] * (w * x[j] + v * y[j]);
            }
        }
        (None, None) => out.fill(T::zero()),
    }
}
