//! Products block by block: what quaternions, signs and phasors have in common.

use super::{Form, Real};

/// An algebra whose elements, or several side by side, are four numbers.
pub(super) trait BlockAlgebra {
    fn product<T: Real>(a: [T; 4], b: [T; 4]) -> [T; 4];
}

/// out_i = left_{p1(i)} · right_{p2(i)}, block by block.
///
/// The right operand is summed up here (label and value), in the pass that reads it
/// anyway; the left one is a plain vector in all but the paper's fold.
#[inline]
pub(super) fn product<A: BlockAlgebra, T: Real>(
    (first, second): (&[u32], &[u32]),
    left: &[T],
    right: &Form<'_, T>,
    out: &mut [T],
) {
    let left = left.as_chunks::<4>().0;
    match (right.label, right.value) {
        // One loop for each form of the operand: no branch and no multiplication by 1
        // inside.
        (Some((x, w)), None) | (None, Some((x, w))) if w == T::one() => {
            let x = x.as_chunks::<4>().0;
            run::<A, T>(first, second, left, out, |i| x[i]);
        }
        (Some((x, w)), None) | (None, Some((x, w))) => {
            let x = x.as_chunks::<4>().0;
            run::<A, T>(first, second, left, out, |i| {
                let x = x[i];
                [w * x[0], w * x[1], w * x[2], w * x[3]]
            });
        }
        (Some((x, w)), Some((y, v))) if w == T::one() => {
            let (x, y) = (x.as_chunks::<4>().0, y.as_chunks::<4>().0);
            run::<A, T>(first, second, left, out, |i| {
                let (x, y) = (x[i], y[i]);
                [x[0] + v * y[0], x[1] + v * y[1], x[2] + v * y[2], x[3] + v * y[3]]
            });
        }
        (Some((x, w)), Some((y, v))) => {
            let (x, y) = (x.as_chunks::<4>().0, y.as_chunks::<4>().0);
            run::<A, T>(first, second, left, out, |i| {
                let (x, y) = (x[i], y[i]);
                [
                    w * x[0] + v * y[0],
                    w * x[1] + v * y[1],
                    w * x[2] + v * y[2],
                    w * x[3] + v * y[3],
                ]
            });
        }
        (None, None) => out.fill(T::zero()),
    }
}

#[inline(always)]
#[allow(clippy::inline_always)] // one loop per operand's form, or nothing vectorises
fn run<A: BlockAlgebra, T: Real>(
    first: &[u32],
    second: &[u32],
    left: &[[T; 4]],
    out: &mut [T],
    right: impl Fn(usize) -> [T; 4],
) {
    let out = out.as_chunks_mut::<4>().0;
    for ((out, &i), &j) in out.iter_mut().zip(first).zip(second) {
        *out = A::product(left[i as usize], right(j as usize));
    }
}
