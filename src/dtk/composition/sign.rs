//! Signs: the simplest composition that works.
//!
//! Labels are ±1/√d and a ◇ b = √d p1(a) · p2(b), number by number. The vector of a
//! fragment is ±1/√d again. Equal labels cancel (x · x = 1) only where the permutations
//! of two paths agree, one block in d/4 by chance.

use super::Real;
use super::block::BlockAlgebra;
use crate::dtk::random::Stream;

pub(super) struct Signs;

impl BlockAlgebra for Signs {
    #[inline]
    fn product<T: Real>(a: [T; 4], b: [T; 4]) -> [T; 4] {
        [a[0] * b[0], a[1] * b[1], a[2] * b[2], a[3] * b[3]]
    }
}

pub(super) fn label<T: Real>(stream: Stream, out: &mut [T]) {
    // A word has 64 bits, one for each sign.
    for (i, out) in out.chunks_mut(64).enumerate() {
        let word = stream.at(i);
        for (bit, out) in out.iter_mut().enumerate() {
            *out = if word >> bit & 1 == 1 { T::one() } else { -T::one() };
        }
    }
}
